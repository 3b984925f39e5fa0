//! What is where: one pass over all inodes and one over the maps of the groups.
//!
//! Memory is a bit for each fragment, a row for each group, and the cells of the picture.

use super::extents::{Contiguity, Counter, ratio, walk_pieces};
use super::grid::{Grid, Use};
use super::{Inspector, Progress};
use crate::check::BlockPlace;
use crate::check::node::{Node, kind};
use crate::check::state::{BlockMap, State};
use crate::check::walk::Piece;
use crate::format::group::{Group, isset};
use crate::format::layout::Layout;
use serde::Serialize;
use std::collections::HashSet;

/// The use of a cylinder group, counted from its maps and its inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupUse {
    /// Number of the group.
    pub group: u32,
    /// Fragments for data: all but its superblock copy, its block and its inodes.
    pub data_frags: u64,
    /// Whole free blocks.
    pub free_blocks: u64,
    /// Free fragments outside free blocks.
    pub free_frags: u64,
    /// Inodes.
    pub inodes: u32,
    /// Inodes in use, as its map says.
    pub used_inodes: u32,
    /// Directories.
    pub directories: u32,
    /// Its block cannot be used, so that nothing is known of what is free.
    pub unreadable: bool,
}

impl GroupUse {
    /// Returns the fragments that are used for data; none are known if its block is unreadable.
    #[must_use]
    pub fn used_frags(&self, layout: &Layout) -> u64 {
        let free = self.free_blocks * u64::from(layout.fs_frag) + self.free_frags;
        self.data_frags.saturating_sub(free)
    }
}

/// Runs of free blocks of similar length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreeRuns {
    /// Shortest run that is counted here, in blocks: a power of two. The longest is one less than
    /// twice as long.
    pub from_blocks: u64,
    /// Runs.
    pub runs: u64,
    /// Blocks in them.
    pub blocks: u64,
}

/// How fragmented the regular files are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fragmentation {
    /// Regular files that have data on the disk.
    pub files: u64,
    /// Those in one run.
    pub files_in_one_run: u64,
    /// Their blocks, ends in fragments included.
    pub blocks: u64,
    /// Their fragments.
    pub frags: u64,
    /// Their runs.
    pub runs: u64,
    /// Files of more than one block.
    pub scored_files: u64,
    /// Blocks of these without the first of each.
    pub scored_blocks: u64,
    /// Those of them that follow the block before.
    pub optimal_blocks: u64,
}

impl Fragmentation {
    fn add(&mut self, file: Contiguity) {
        if file.blocks == 0 {
            return;
        }
        self.files += 1;
        self.files_in_one_run += u64::from(file.runs == 1);
        self.blocks += file.blocks;
        self.frags += file.frags;
        self.runs += file.runs;
        if file.blocks > 1 {
            self.scored_files += 1;
            self.scored_blocks += file.blocks - 1;
            self.optimal_blocks += file.blocks - file.runs;
        }
    }

    /// Returns the aggregate layout score of Smith and Seltzer (1996): of all blocks of files
    /// except the first of each, the share that follow the block before. None without such blocks.
    #[must_use]
    pub fn layout_score(&self) -> Option<f64> {
        (self.scored_blocks > 0).then(|| ratio(self.optimal_blocks, self.scored_blocks))
    }
}

/// What is where in a file system.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The groups, in order.
    pub groups: Vec<GroupUse>,
    /// Runs of free blocks by length, the shortest first, without lengths that do not occur.
    pub free_runs: Vec<FreeRuns>,
    /// The longest run of free blocks.
    pub longest_free_run: u64,
    /// Runs of 1, 2, … free fragments outside free blocks.
    pub loose_runs: Vec<u64>,
    /// How fragmented the files are.
    pub fragmentation: Fragmentation,
    /// Fragments by use, in the order of [`Use::ALL`].
    pub uses: [u64; 9],
    /// The picture.
    pub grid: Grid,
    /// Fragments that more than one file claims.
    pub shared_frags: u64,
    /// Pointers to where no block of a file can be, and indirect blocks that cannot be followed.
    pub bad_pointers: u64,
    /// Blocks of inodes that cannot be read.
    pub unread_inode_blocks: u64,
}

/// A survey being made.
struct Surveyor<'a> {
    layout: &'a Layout,
    used: BlockMap,
    survey: Survey,
    entered: HashSet<u64>,
    log_ino: Option<u32>,
}

impl Inspector<'_> {
    /// Finds out what is where, and draws it into `grid`, which is empty. Damage is counted, and
    /// what is behind it is unknown.
    pub fn survey(&mut self, grid: Grid, progress: Progress<'_>) -> Survey {
        let layout = self.layout;
        let place = self.superblock.log_place();
        let mut surveyor = Surveyor {
            layout,
            used: State::new(layout).used,
            survey: Survey {
                groups: (0..layout.fs_ncg).map(|cgx| Surveyor::empty_group(layout, cgx)).collect(),
                free_runs: Vec::new(),
                longest_free_run: 0,
                loose_runs: vec![0; layout.fs_frag as usize - 1],
                fragmentation: Fragmentation::default(),
                uses: [0; 9],
                grid,
                shared_frags: 0,
                bad_pointers: 0,
                unread_inode_blocks: 0,
            },
            entered: HashSet::new(),
            log_ino: place.and_then(|place| place.ino),
        };
        surveyor.metadata();
        let unread = self.each_inode(progress, &mut |reader, walker, ino, bytes| {
            let node = Node::decode(layout, bytes);
            if !node.known_kind(layout) {
                return;
            }
            if node.kind() == kind::DIR {
                surveyor.survey.groups[layout.ino_to_cg(ino) as usize].directories += 1;
            }
            let mut counter = Counter::default();
            let mut entered = std::mem::take(&mut surveyor.entered);
            let damage = walk_pieces(layout, reader, walker, &node, &mut entered, &mut |piece| {
                if matches!(piece.place, BlockPlace::Data { .. }) {
                    counter.add(piece);
                }
                surveyor.piece(ino, &node, piece);
            });
            surveyor.entered = entered;
            let survey = &mut surveyor.survey;
            survey.bad_pointers += damage.bad_pointers + damage.lost_indirect_blocks;
            if node.kind() == kind::REG && !node.is_snapshot() && surveyor.log_ino != Some(ino) {
                survey.fragmentation.add(counter.counted);
            }
        });
        surveyor.survey.unread_inode_blocks = unread;
        let mut lengths = [FreeRuns::default(); 64];
        for cgx in 0..layout.fs_ncg {
            let Ok((block, map)) = self.group(cgx) else {
                surveyor.survey.groups[cgx as usize].unreadable = true;
                continue;
            };
            surveyor.group(&Group::new(layout, &map, &block), &mut lengths);
        }
        let mut survey = surveyor.survey;
        survey.free_runs = lengths.into_iter().filter(|length| length.runs > 0).collect();
        let known: u64 = survey.uses.iter().sum();
        survey.uses[Use::Unknown as usize] = layout.fs_size.saturating_sub(known);
        survey
    }
}

impl Surveyor<'_> {
    fn empty_group(layout: &Layout, cgx: u32) -> GroupUse {
        let own = if cgx == 0 { layout.cgbase(0) } else { layout.cgsblock(cgx) };
        let own = layout.cgdmin(cgx) - own;
        GroupUse {
            group: cgx,
            data_frags: u64::from(layout.cg_frags(cgx)).saturating_sub(own),
            inodes: layout.fs_ipg,
            ..GroupUse::default()
        }
    }

    fn add(&mut self, used: Use, start: u64, end: u64) {
        self.survey.uses[used as usize] += end - start;
        self.survey.grid.add(used, start, end);
    }

    /// Counts what the file system itself has.
    fn metadata(&mut self) {
        let layout = self.layout;
        let summaries = u64::from(layout.fs_cssize).div_ceil(layout.fs_fsize.into());
        let summaries = layout.fs_csaddr.0..layout.fs_csaddr.0 + summaries;
        for cgx in 0..layout.fs_ncg {
            let start = if cgx == 0 { layout.cgbase(0) } else { layout.cgsblock(cgx) };
            let (inodes, end) = (layout.cgimin(cgx).0, layout.cgdmin(cgx).0);
            self.add(Use::Metadata, start.0, inodes);
            self.add(Use::Inodes, inodes, end);
        }
        // Where they lie among the structures of a group, they are counted.
        let within = |frag: u64| {
            let cgx = layout.dtog(crate::format::units::Frag(frag));
            let start = if cgx == 0 { layout.cgbase(0) } else { layout.cgsblock(cgx) };
            (start.0..layout.cgdmin(cgx).0).contains(&frag)
        };
        for frag in summaries.filter(|&frag| !within(frag)) {
            self.add(Use::Metadata, frag, frag + 1);
        }
    }

    /// Counts a piece of a file.
    fn piece(&mut self, ino: u32, node: &Node, Piece { place, frag, frags }: Piece) {
        let held = u64::from(self.used.bits(frag, frags).count_ones());
        if held > 0 {
            self.survey.shared_frags += held;
            return;
        }
        self.used.set_bits(frag, frags);
        let used = match place {
            _ if self.log_ino == Some(ino) => Use::Log,
            BlockPlace::Indirect { .. } => Use::Indirect,
            _ if node.kind() == kind::DIR => Use::Directory,
            _ if frags < self.layout.fs_frag => Use::Fragment,
            _ => Use::Data,
        };
        self.add(used, frag, frag + u64::from(frags));
    }

    /// Counts what is free in a group, and its inodes.
    fn group(&mut self, group: &Group<'_>, lengths: &mut [FreeRuns; 64]) {
        let layout = self.layout;
        let (cgx, frags) = (group.map().cgx, group.fragments());
        let (frag, base) = (layout.fs_frag, layout.cgbase(cgx).0);
        let row = cgx as usize;
        let inosused = group.inosused();
        let used_inodes = (0..layout.fs_ipg).filter(|&n| isset(inosused, n)).count();
        self.survey.groups[row].used_inodes = u32::try_from(used_inodes).unwrap_or(u32::MAX);
        let free_map = group.blksfree();
        let mut run = 0_u64;
        for bno in (0..frags).step_by(frag as usize) {
            let is_free = group.is_block(bno);
            if is_free {
                self.survey.groups[row].free_blocks += 1;
                run += 1;
            } else {
                self.end_run(std::mem::take(&mut run), lengths);
            }
            let mut loose = 0;
            for n in bno..(bno + frag).min(frags) {
                let free = isset(free_map, n);
                let at = base + u64::from(n);
                if free && !self.used.get(at) {
                    self.add(Use::Free, at, at + 1);
                }
                if free && !is_free {
                    self.survey.groups[row].free_frags += 1;
                    loose += 1;
                } else if !is_free {
                    self.end_loose(std::mem::take(&mut loose));
                }
            }
            self.end_loose(loose);
        }
        self.end_run(run, lengths);
    }

    fn end_loose(&mut self, frags: usize) {
        if let Some(count) = frags.checked_sub(1).and_then(|n| self.survey.loose_runs.get_mut(n)) {
            *count += 1;
        }
    }

    fn end_run(&mut self, blocks: u64, lengths: &mut [FreeRuns; 64]) {
        if let Some(n) = blocks.checked_ilog2() {
            let length = &mut lengths[n as usize];
            length.from_blocks = 1 << n;
            length.runs += 1;
            length.blocks += blocks;
            self.survey.longest_free_run = self.survey.longest_free_run.max(blocks);
        }
    }
}
