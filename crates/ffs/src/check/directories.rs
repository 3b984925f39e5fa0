//! Phase 2: every directory, its structure and what its entries name.
//!
//! Directories are read in the order of their first blocks. An entry that a repair would keep
//! counts as a name of its inode; the parents are found on the way, and only then is ".." judged.

use super::finding::Finding;
use super::inodes::ROOTINO;
use super::node::kind;
use super::state::DirBlock;
use super::terms::{Entry, RootProblem};
use super::{Checker, Phase};
use crate::format::entries::{DirEntry, Entries};
use crate::format::layout::InodeFormat;
use crate::format::units::{Frag, Lbn, index};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Bytes of the smallest directory: "." and "..".
const MINDIRSIZE: u64 = 24;
/// The inode that whiteouts name.
const WINO: u32 = 1;
/// Names of a directory to forget cheaply; larger sets are given back.
const SMALL_SET: usize = 4096;
/// Bytes read at once where directories lie close together.
const RUN_BYTES: usize = 64 << 10;

/// State of reading one directory.
struct Scan {
    row: usize,
    ino: u32,
    /// Byte offset of the block at hand.
    base: u64,
    /// Entries so far, broken ones included.
    seen: u64,
    dot: bool,
}

impl Checker<'_> {
    /// Phase 2.
    pub(crate) fn check_names(&mut self) {
        let root = self.state.inode(self.layout, ROOTINO);
        let problem = match root.kind {
            0 => Some(RootProblem::Unallocated),
            kind::DIR => root.clear.then_some(RootProblem::Damaged),
            _ => Some(RootProblem::NotDirectory),
        };
        if let Some(problem) = problem {
            self.findings.push(Finding::Root { problem });
        }
        let mut order: Vec<_> = (0..self.state.dirs.len()).collect();
        order.sort_by_key(|&row| {
            let first = self.state.dirs[row].blocks.start;
            self.state.dir_blocks.get(first).map_or(0, |block| block.frag)
        });
        let hasher = RandomState::new();
        let mut names = HashSet::new();
        let mut extra = Vec::new();
        for (done, row) in (0_u64..).zip(&order) {
            if done % 256 == 0 {
                self.report_progress(Phase::Names, done, order.len() as u64);
            }
            if names.capacity() > SMALL_SET {
                names = HashSet::new();
            }
            names.clear();
            self.check_directory(*row, &mut |name| names.insert(hasher.hash_one(name)), &mut extra);
        }
        self.settle_parents(extra);
        self.check_dotdots();
    }

    /// Reads a block of a directory, whole chunks up to its end; `None` if the device cannot.
    pub(crate) fn directory_block(&mut self, size: u64, DirBlock { lbn, frag }: DirBlock) -> Option<Vec<u8>> {
        let layout = self.layout;
        let held = layout.blksize(size, Lbn(lbn));
        let left = size.next_multiple_of(layout.dirblksiz.into()) - (lbn << layout.fs_bshift);
        let bytes = left.min(held.into());
        let at = layout.byte(Frag(frag));
        match self.reader.read(at, index(bytes), RUN_BYTES) {
            Ok(block) => Some(block.to_vec()),
            Err(error) => {
                self.unreadable(at, bytes, &error);
                None
            }
        }
    }

    /// Checks one directory. `first_time` says whether a name is new in it; names that are a
    /// second one of a directory go to `extra`.
    fn check_directory(
        &mut self,
        row: usize,
        first_time: &mut dyn FnMut(&[u8]) -> bool,
        extra: &mut Vec<Entry>,
    ) {
        let layout = self.layout;
        let dir = &self.state.dirs[row];
        let (ino, size, blocks, complete) = (dir.ino, dir.size, dir.blocks.clone(), dir.complete);
        if size < MINDIRSIZE {
            self.findings.push(Finding::DirectoryTooShort { ino, size });
        } else if size % u64::from(layout.dirblksiz) != 0 {
            self.findings.push(Finding::DirectorySize { ino, size, dirblksiz: layout.dirblksiz });
        }
        let mut scan = Scan { row, ino, base: 0, seen: 0, dot: false };
        let mut next = 0;
        for n in blocks {
            let place = self.state.dir_blocks[n];
            self.check_hole(ino, next, place.lbn, complete);
            next = place.lbn + 1;
            scan.base = place.lbn << layout.fs_bshift;
            let Some(block) = self.directory_block(size, place) else {
                scan.seen += 2;
                continue;
            };
            for entry in Entries::new(layout, &block) {
                match entry {
                    Ok(entry) => self.check_entry(&mut scan, &entry, first_time, extra),
                    Err(broken) => {
                        self.findings.push(Finding::DirectoryCorrupt {
                            ino,
                            offset: scan.base + broken.at as u64,
                            bytes: u32::try_from(broken.bytes).unwrap_or(u32::MAX),
                            why: broken.why,
                        });
                        scan.seen += 2;
                    }
                }
            }
        }
        self.check_hole(ino, next, size.div_ceil(layout.fs_bsize.into()), complete);
        if !scan.dot && size > 0 && complete {
            self.findings.push(Finding::MissingDot { ino });
        }
        self.name(ino);
    }

    fn check_hole(&mut self, ino: u32, lbn: u64, next: u64, complete: bool) {
        if next > lbn && complete {
            self.findings.push(Finding::DirectoryHole { ino, lbn, blocks: next - lbn });
        }
    }

    /// Counts a name of an inode.
    fn name(&mut self, ino: u32) {
        if let Some(state) = self.state.inode_mut(self.layout, ino) {
            state.names += 1;
        }
    }

    fn check_entry(
        &mut self,
        scan: &mut Scan,
        found: &DirEntry<'_>,
        first_time: &mut dyn FnMut(&[u8]) -> bool,
        extra: &mut Vec<Entry>,
    ) {
        let number = scan.seen;
        scan.seen += 1;
        if found.ino == 0 {
            return;
        }
        let layout = self.layout;
        let entry = || Entry {
            dir: scan.ino,
            offset: scan.base + found.at as u64,
            name: String::from_utf8_lossy(found.name).into_owned(),
            ino: found.ino,
        };
        let typed = layout.inode_format == InodeFormat::New;
        let directory_type = |checker: &mut Self| {
            if let Some(kind) = found.kind
                && kind != kind::DIR
            {
                let finding = Finding::EntryType { entry: entry(), found: kind, expected: kind::DIR };
                checker.findings.push(finding);
            }
        };
        match found.name {
            b"." if number == 0 => {
                scan.dot = true;
                if found.ino != scan.ino {
                    self.findings.push(Finding::BadDot { ino: scan.ino, found: found.ino });
                }
                return directory_type(self);
            }
            b".." if number <= 1 => {
                self.state.dirs[scan.row].dotdot = found.ino;
                return directory_type(self);
            }
            b"." | b".." => return self.findings.push(Finding::ExtraDot { entry: entry() }),
            _ => {}
        }
        let state = self.state.inode(layout, found.ino);
        let whiteout = found.kind == Some(kind::WHT);
        let finding = if found.ino >= layout.inodes() {
            Some(Finding::EntryOutOfRange { entry: entry() })
        } else if typed && (found.ino == WINO) != whiteout {
            Some(Finding::BadWhiteout { entry: entry() })
        } else if whiteout {
            return;
        } else if state.kind == 0 {
            Some(Finding::EntryUnallocated { entry: entry() })
        } else if state.clear {
            Some(Finding::EntryDamaged { entry: entry() })
        } else {
            None
        };
        if let Some(finding) = finding {
            return self.findings.push(finding);
        }
        if let Some(kind) = found.kind
            && kind != state.kind
        {
            self.findings.push(Finding::EntryType { entry: entry(), found: kind, expected: state.kind });
        }
        if !first_time(found.name) {
            self.findings.push(Finding::DuplicateName { entry: entry() });
        }
        if state.kind == kind::DIR
            && let Some(row) = self.state.dir(found.ino)
        {
            let child = &mut self.state.dirs[row];
            if child.parent != 0 {
                extra.push(entry());
                return;
            }
            child.parent = scan.ino;
            child.entry_at = scan.base + found.at as u64;
        }
        self.name(found.ino);
    }

    /// Decides which of several names of a directory is the one: the one that ".." agrees with, or
    /// else the first.
    fn settle_parents(&mut self, extra: Vec<Entry>) {
        for mut entry in extra {
            let Some(row) = self.state.dir(entry.ino) else { continue };
            let dir = &self.state.dirs[row];
            let (parent, offset) = (dir.parent, dir.entry_at);
            if entry.ino != ROOTINO && dir.dotdot == entry.dir && parent != entry.dir {
                let name = self.entry_name(parent, offset).unwrap_or_default();
                let dir = &mut self.state.dirs[row];
                (dir.parent, dir.entry_at) = (entry.dir, entry.offset);
                entry = Entry { dir: parent, offset, name, ino: entry.ino };
            }
            let parent = self.state.dirs[row].parent;
            self.findings.push(Finding::ExtraParent { entry, parent });
        }
    }

    /// Returns the name at byte `offset` of a directory.
    fn entry_name(&mut self, ino: u32, offset: u64) -> Option<String> {
        let layout = self.layout;
        let dir = &self.state.dirs[self.state.dir(ino)?];
        let lbn = layout.lblkno(offset).0;
        let place = *self.state.dir_blocks[dir.blocks.clone()].iter().find(|block| block.lbn == lbn)?;
        let block = self.directory_block(dir.size, place)?;
        Entries::new(layout, &block)
            .flatten()
            .find(|entry| entry.at == layout.blkoff(offset))
            .map(|entry| String::from_utf8_lossy(entry.name).into_owned())
    }

    /// Checks ".." of every directory against its parent; it counts as a name of the parent it
    /// should have.
    fn check_dotdots(&mut self) {
        for row in 0..self.state.dirs.len() {
            let dir = &self.state.dirs[row];
            let (ino, parent, found, size) = (dir.ino, dir.parent, dir.dotdot, dir.size);
            if found == 0 {
                if size > 0 && dir.complete {
                    self.findings.push(Finding::MissingDotdot { ino, parent });
                }
            } else if parent != 0 && found != parent {
                self.findings.push(Finding::BadDotdot { ino, found, parent });
            }
            self.name(if parent == 0 { found } else { parent });
        }
    }
}
