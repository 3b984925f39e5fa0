//! Phases 1 and 1b: every inode, the space it claims, and who claimed it before.
//!
//! Inodes are read group by group in runs of up to a megabyte. Of UFS2 only those that the group
//! says were initialised are looked at; where the group cannot be believed, inodes are read as long
//! as they look like ones. Claims go into the block map at once; who came first is found
//! afterwards, and only if two claimed the same.

use super::finding::Finding;
use super::node::{Node, kind};
use super::scan::{self, InodeBlocks, Unread};
use super::state::{BlockMap, DirBlock, Directory, Duplicate, InodeState, Link, MAX_DUPLICATES, State, mask};
use super::terms::{BadAddress, BlockPlace};
use super::walk::{Next, Piece, Step, Walker};
use super::{Checker, Findings, Phase};
use crate::format::ckhash::check_hash;
use crate::format::layout::{InodeFormat, Layout, Version};
use crate::format::ondisk::{DI_CKHASH, NDADDR, NIADDR, SF_SNAPSHOT};
use crate::format::units::Frag;
use crate::quota::Kind;
use spindle_tree::xattr::is_space;
use spindle_vfs::FileKind;
use std::collections::HashMap;
use std::ops::Range;

/// Bad or doubly held blocks of one inode before the rest of it is left alone.
const MAX_BLOCKS: u32 = 10;
/// First inode that a file can have: 0 is none, 1 is the whiteout.
pub(crate) const ROOTINO: u32 = 2;
/// Largest directory in bytes.
const MAXDIRSIZE: u64 = 0x7fff_ffff;
impl Checker<'_> {
    /// Phase 1.
    pub(crate) fn check_inodes(&mut self) {
        let mut walker = Walker::default();
        for cgx in 0..self.layout.fs_ncg {
            self.report_progress(Phase::Inodes, cgx.into(), self.layout.fs_ncg.into());
            self.check_replica(cgx);
            let initialised = scan::initialised(self.layout, &mut self.reader, cgx);
            let mut states = vec![InodeState::default(); initialised.unwrap_or(self.layout.fs_ipg) as usize];
            let mut used = 0;
            self.each_inode_block(cgx, initialised, &mut |checker, first, bytes| {
                let size = checker.layout.inode_size();
                for (ino, bytes) in (first..).zip(bytes.chunks_exact(size)) {
                    if ino < ROOTINO || bytes.iter().all(|&b| b == 0) {
                        continue;
                    }
                    if let Some(state) = checker.check_inode(ino, bytes, &mut walker) {
                        let n = (ino % checker.layout.fs_ipg) as usize;
                        states[n] = state;
                        used = n + 1;
                    }
                }
            });
            states.truncate(used);
            states.shrink_to_fit();
            self.state.inodes.push(states);
        }
        for (ino, node, expected) in std::mem::take(&mut self.state.longer) {
            let finding = match self.hidden_end(&node) {
                Some(end) => Finding::DirectoryShort { ino, size: node.size, expected: end },
                None => Finding::BlockCount { ino, found: node.blocks, expected },
            };
            self.findings.push(finding);
        }
        if !self.state.duplicates.is_empty() {
            self.find_owners(&mut walker);
        }
    }

    /// Returns the size that the blocks of a directory have, if they hold names behind its own size
    /// in space that no other file has.
    pub(crate) fn hidden_end(&mut self, node: &Node) -> Option<u64> {
        let reader = &mut self.reader;
        let hidden = node
            .extent()
            .hidden(self.layout, &mut |at, len| reader.read(at, len, 0).ok().map(<[u8]>::to_vec))?;
        let is_free = |frags: &Range<u64>| frags.clone().all(|frag| !self.state.used.get(frag));
        hidden.frags.iter().all(is_free).then_some(hidden.size)
    }

    /// Calls `visit` with the first inode and the bytes of each block of inodes of a group.
    fn each_inode_block(
        &mut self,
        cgx: u32,
        initialised: Option<u32>,
        visit: &mut dyn FnMut(&mut Self, u32, &[u8]),
    ) {
        let mut blocks = InodeBlocks::new(self.layout, cgx, initialised);
        while let Some(found) = blocks.next(&mut self.inode_reader) {
            match found {
                Ok((first, bytes)) => visit(self, first, bytes),
                Err(Unread { at, error }) => self.unreadable(at, self.layout.fs_bsize.into(), &error),
            }
        }
    }

    /// Checks one inode and claims its space; `None` if it is free.
    fn check_inode(&mut self, ino: u32, bytes: &[u8], walker: &mut Walker) -> Option<InodeState> {
        let layout = self.layout;
        let mut node = Node::decode(layout, bytes);
        if node.kind() == 0 {
            if !node.is_blank() {
                self.findings.push(Finding::PartialInode { ino });
            }
            if self.hashes.inodes && node.ckhash != 0 {
                let (found, expected) = (node.ckhash, check_hash(bytes, DI_CKHASH));
                if found != expected {
                    self.findings.push(Finding::FreeInodeCheckHash { ino, found, expected });
                }
            }
            return None;
        }
        if self.hashes.inodes {
            let expected = check_hash(bytes, DI_CKHASH);
            if expected != node.ckhash {
                self.findings.push(Finding::InodeCheckHash { ino, found: node.ckhash, expected });
                self.spoil(ino, &node, "the check-hash of its inode is wrong");
            }
        }
        if node.is_snapshot() {
            let kind = (node.kind() == kind::REG).then_some(FileKind::Regular);
            if !self.superblock.may_be_snapshot(ino, kind, node.size) {
                self.findings.push(Finding::SnapshotFlag { ino });
                node.flags &= !SF_SNAPSHOT;
            } else if node.nlink > 0 {
                self.state.snapshots.push(ino);
            }
        }
        self.state.files += 1;
        let mut state = InodeState { kind: node.kind(), clear: false, nlink: node.nlink, names: 0 };
        if let Some(finding) = impossible(layout, ino, &node) {
            self.findings.push(finding);
            self.spoil(ino, &node, "its inode is damaged");
            state.clear = true;
            return Some(state);
        }
        self.check_small_things(ino, &node, bytes);
        if node.shadow != 0 {
            self.state.shadows.push(node.shadow);
        }
        let first_block = self.state.dir_blocks.len();
        let whole = self.claim(ino, &node, walker);
        self.state.quotas.note(ino, &node, whole);
        if node.kind() == kind::DIR {
            self.state.dirs.push(Directory {
                ino,
                size: node.size,
                blocks: first_block..self.state.dir_blocks.len(),
                complete: whole,
                depth: node.depth,
                parent: if ino == ROOTINO { ROOTINO } else { 0 },
                entry_at: 0,
                dotdot: 0,
                link: Link::Unknown,
            });
        }
        if whole && node.extsize > 0 {
            self.check_extattr(ino, &node);
        }
        if whole && node.kind() == kind::LNK && !node.is_short_link(layout) {
            self.check_target(ino, &node);
        }
        Some(state)
    }

    /// Checks what makes nothing else wrong: pointers of extended attributes that do not count, and
    /// a short symbolic link that ends before its size.
    fn check_small_things(&mut self, ino: u32, node: &Node, bytes: &[u8]) {
        let needed = node.extsize.div_ceil(self.layout.fs_bsize);
        for (index, &pointer) in (0..).zip(&node.extb) {
            if index >= needed && pointer != 0 {
                self.findings.push(Finding::ExtattrStray { ino, index, pointer });
            }
        }
        if node.is_short_link(self.layout) {
            let target = node.short_target(self.layout, bytes);
            if let Some(at) = target.iter().position(|&byte| byte == 0) {
                let offset = u32::try_from(at).unwrap_or(u32::MAX);
                self.findings.push(Finding::LinkHasNul { ino, offset, size: node.size });
            }
        }
    }

    /// Looks for a NUL in the block of a symbolic link. A target is never longer than a block.
    fn check_target(&mut self, ino: u32, node: &Node) {
        let (at, bytes) = (self.layout.byte(Frag(node.db[0])), node.size.min(self.layout.fs_bsize.into()));
        if node.db[0] == 0 {
            return;
        }
        match self.reader.read(at, crate::format::units::index(bytes), 0) {
            Ok(target) => {
                if let Some(nul) = target.iter().position(|&byte| byte == 0) {
                    let offset = u32::try_from(nul).unwrap_or(u32::MAX);
                    self.findings.push(Finding::LinkBlockHasNul { ino, offset, size: node.size });
                }
            }
            Err(error) => self.unreadable(at, bytes, &error),
        }
    }

    /// Follows the pointers of an inode, claims what they point at and checks the sums. True if
    /// nothing was left out.
    fn claim(&mut self, ino: u32, node: &Node, walker: &mut Walker) -> bool {
        let layout = self.layout;
        let quota = self.state.quotas.kind_of(ino);
        let damages = self.findings.damages();
        let mut claims = Claims {
            layout,
            state: &mut self.state,
            findings: &mut self.findings,
            ino,
            directory: node.kind() == kind::DIR,
            quota,
            frags: 0,
            bad: 0,
            duplicate: 0,
            data: 0,
            end: 0,
        };
        let whole = walker.walk(layout, &mut self.reader, node, &mut |step| claims.step(&step));
        let (frags, bad, data, end) = (claims.frags, claims.bad, claims.data, claims.end);
        if claims.duplicate > 0 {
            self.spoil(ino, node, "another file has blocks of it");
        } else if !whole || bad > 0 || self.findings.damages() > damages {
            self.spoil(ino, node, "its pointers are damaged");
        }
        if whole {
            let expected = frags * u64::from(layout.fs_fsize / 512);
            let blocks = node.size.div_ceil(layout.fs_bsize.into());
            let has_holes = data < blocks && !node.is_snapshot();
            if node.blocks > expected {
                self.spoil(ino, node, "blocks of it are missing");
            }
            if node.blocks > expected && has_holes {
                self.findings.push(Finding::BlocksMissing { ino, found: node.blocks, expected });
            } else if node.blocks > expected && node.kind() == kind::DIR {
                self.state.longer.push((ino, *node, expected));
            } else if node.blocks != expected {
                self.findings.push(Finding::BlockCount { ino, found: node.blocks, expected });
            }
            if node.has_blocks(layout) && node.kind() != kind::DIR && !node.is_snapshot() && end < blocks {
                let allocated = end << layout.fs_bshift;
                self.findings.push(Finding::EndsInHole { ino, size: node.size, allocated });
            }
        }
        whole && bad == 0
    }

    /// Notes what is wrong with a snapshot, the first thing only.
    fn spoil(&mut self, ino: u32, node: &Node, why: &'static str) {
        if node.is_snapshot() {
            self.state.spoilt.entry(ino).or_insert(why);
        }
    }

    /// Checks the structure of the extended attributes (`sys/ufs/ufs/extattr.h`): each says its
    /// length, which is a multiple of 8 and has room for the name and the padding it states.
    fn check_extattr(&mut self, ino: u32, node: &Node) {
        const HEADER: usize = 7;
        let layout = self.layout;
        let mut bytes = Vec::new();
        let mut left = node.extsize;
        for &frag in &node.extb {
            let here = left.min(layout.fs_bsize);
            if here == 0 {
                break;
            }
            if frag == 0 {
                bytes.resize(bytes.len() + here as usize, 0);
            } else {
                match self.reader.read(layout.byte(Frag(frag)), here as usize, 0) {
                    Ok(part) => bytes.extend_from_slice(part),
                    Err(error) => return self.unreadable(layout.byte(Frag(frag)), here.into(), &error),
                }
            }
            left -= here;
        }
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let good = rest.len() > HEADER && {
                let length = <u32 as spindle_ondisk::Field>::get(rest, layout.endian) as usize;
                let (padding, name) = (usize::from(rest[5]), usize::from(rest[6]));
                let fits = length.is_multiple_of(8)
                    && length <= rest.len()
                    && (HEADER + name).next_multiple_of(8) + padding <= length;
                at += length;
                fits && name > 0
            };
            let offset = u32::try_from(bytes.len() - rest.len()).unwrap_or(u32::MAX);
            if !good {
                self.findings.push(Finding::ExtattrCorrupt { ino, offset });
                return;
            }
            if !is_space(rest[4]) {
                self.findings.push(Finding::ExtattrNamespace { ino, offset, namespace: rest[4] });
            }
        }
    }

    /// Goes through all inodes again to find who held the duplicates first (phase 1b).
    fn find_owners(&mut self, walker: &mut Walker) {
        let duplicates = std::mem::take(&mut self.state.duplicates);
        let mut owners: HashMap<u64, u32> = HashMap::new();
        for d in &duplicates {
            owners.extend((d.frag..d.frag + u64::from(d.frags)).map(|frag| (frag, 0)));
        }
        let mut entered = BlockMap::new(self.layout.fs_size);
        let mut left = owners.len();
        for cgx in 0..self.layout.fs_ncg {
            if left == 0 {
                break;
            }
            let initialised = self.state.inodes[cgx as usize].len();
            self.each_inode_block(cgx, u32::try_from(initialised).ok(), &mut |checker, first, bytes| {
                let layout = checker.layout;
                for (ino, bytes) in (first..).zip(bytes.chunks_exact(layout.inode_size())) {
                    let state = checker.state.inode(layout, ino);
                    if state.kind == 0 || state.clear || left == 0 {
                        continue;
                    }
                    let node = Node::decode(layout, bytes);
                    walker.walk(layout, &mut checker.reader, &node, &mut |step| {
                        let Step::Block(piece) = step else { return Next::Continue };
                        if bad_address(layout, piece.frag, piece.frags).is_some() {
                            return Next::Skip;
                        }
                        for frag in piece.frag..piece.frag + u64::from(piece.frags) {
                            if let Some(owner) = owners.get_mut(&frag)
                                && *owner == 0
                            {
                                *owner = ino;
                                left -= 1;
                            }
                        }
                        if matches!(piece.place, BlockPlace::Indirect { .. }) {
                            if entered.get(piece.frag) {
                                return Next::Skip;
                            }
                            entered.set(piece.frag);
                        }
                        Next::Continue
                    });
                }
            });
        }
        for d in &duplicates {
            let mut run: Option<(u64, u32, u32)> = None;
            for frag in d.frag..d.frag + u64::from(d.frags) {
                let owner = owners.get(&frag).copied().unwrap_or(0);
                run = match run {
                    Some((start, frags, same)) if same == owner => Some((start, frags + 1, same)),
                    other => {
                        self.push_duplicate(d.ino, other);
                        Some((frag, 1, owner))
                    }
                };
            }
            self.push_duplicate(d.ino, run);
        }
        self.state.duplicates = duplicates;
    }

    fn push_duplicate(&mut self, ino: u32, run: Option<(u64, u32, u32)>) {
        if let Some((frag, frags, owner)) = run {
            self.findings.push(Finding::DuplicateBlock { ino, frag, frags, owner });
            self.state.owners.extend([ino, owner]);
        }
    }
}

/// Returns what makes an inode one that can only be cleared.
pub(crate) fn impossible(layout: &Layout, ino: u32, node: &Node) -> Option<Finding> {
    if !node.known_kind(layout) {
        return Some(Finding::BadMode { ino, mode: node.mode });
    }
    let kind = node.kind();
    let most = if kind == kind::DIR { MAXDIRSIZE.min(layout.fs_maxfilesize) } else { layout.fs_maxfilesize };
    if node.size > most {
        return Some(Finding::BadSize { ino, size: node.size, most });
    }
    let device = matches!(kind, kind::BLK | kind::CHR);
    if (device || matches!(kind, kind::FIFO | kind::SOCK)) && node.size != 0 {
        return Some(Finding::SpecialFileSize { ino, size: node.size });
    }
    let none = if layout.version == Version::Ufs1 { u32::MAX.into() } else { u64::MAX };
    if device && node.db[0] & none == none {
        return Some(Finding::NoDevice { ino });
    }
    // How many direct and indirect pointers the size needs.
    let bsize = u64::from(layout.fs_bsize);
    let (mut direct, mut indirect) = if device {
        // Solaris keeps a device number in either form.
        (if layout.inode_format == InodeFormat::Sun { 2 } else { 1 }, 0)
    } else if node.is_short_link(layout) {
        let words = node.size.div_ceil(layout.pointer_size() as u64);
        (words.min(NDADDR as u64), words.saturating_sub(NDADDR as u64))
    } else {
        let blocks = node.size.div_ceil(bsize);
        let mut rest = blocks.saturating_sub(NDADDR as u64);
        let mut span = 1_u64;
        let mut levels = 0;
        while rest > 0 && levels < NIADDR as u64 {
            span = span.saturating_mul(layout.fs_nindir.into());
            rest = rest.saturating_sub(span);
            levels += 1;
        }
        (blocks.min(NDADDR as u64), levels)
    };
    if node.is_snapshot() {
        // A snapshot's size is the device's, and its list of blocks stands behind it.
        (direct, indirect) = (NDADDR as u64, NIADDR as u64);
    }
    let stray = |pointers: &[u64], needed: u64, base: usize| {
        let at = pointers.iter().skip(crate::format::units::index(needed)).position(|&p| p != 0)?;
        let n = at + crate::format::units::index(needed);
        let index = u32::try_from(base + n).unwrap_or(u32::MAX);
        Some(Finding::StrayPointer { ino, index, pointer: pointers[n] })
    };
    let bytes = layout.fs_bsize * 2;
    stray(&node.db, direct, 0).or_else(|| stray(&node.ib, indirect, NDADDR)).or_else(|| {
        (node.extsize > bytes).then_some(Finding::ExtattrSize { ino, size: node.extsize, most: bytes })
    })
}

/// Returns the reason why no file can hold `frags` fragments at `frag`, if there is one (`chkrange`
/// of fsck).
pub(crate) fn bad_address(layout: &Layout, frag: u64, frags: u32) -> Option<BadAddress> {
    if !layout.contains(Frag(frag), frags.into()) {
        return Some(BadAddress::OutOfRange);
    }
    if frag % u64::from(layout.fs_frag) + u64::from(frags) > layout.fs_frag.into() {
        return Some(BadAddress::Unaligned);
    }
    layout.is_metadata(Frag(frag), frags).then_some(BadAddress::Metadata)
}

/// The claims of one inode.
struct Claims<'a> {
    layout: &'a Layout,
    state: &'a mut State,
    findings: &'a mut Findings,
    ino: u32,
    directory: bool,
    /// The quota whose file it is.
    quota: Option<Kind>,
    /// Fragments claimed, for `di_blocks`.
    frags: u64,
    bad: u32,
    duplicate: u32,
    /// Blocks of data.
    data: u64,
    /// Blocks of the file to the end of the last one that is no hole.
    end: u64,
}

impl Claims<'_> {
    fn step(&mut self, step: &Step<'_>) -> Next {
        match *step {
            Step::Block(piece) => self.block(piece),
            Step::Stray { frag, index, pointers } => {
                self.findings.push(Finding::PartlyTruncated { ino: self.ino, frag, index, pointers });
                Next::Continue
            }
            Step::Unreadable { frag, error } => {
                let byte = self.layout.byte(Frag(frag));
                let why = error.to_string();
                self.findings.push(Finding::Unreadable { byte, bytes: self.layout.fs_bsize.into(), why });
                Next::Continue
            }
        }
    }

    fn block(&mut self, Piece { place, frag, frags }: Piece) -> Next {
        self.frags += u64::from(frags);
        if let BlockPlace::Data { lbn } = place {
            self.data += 1;
            self.end = self.end.max(lbn + 1);
        }
        if let Some(why) = bad_address(self.layout, frag, frags) {
            self.findings.push(Finding::BadBlock { ino: self.ino, place, frag, frags, why });
            self.bad += 1;
            if self.bad >= MAX_BLOCKS {
                self.findings.push(Finding::ExcessiveBadBlocks { ino: self.ino });
                return Next::Stop;
            }
            return Next::Skip;
        }
        if let (true, BlockPlace::Data { lbn }) = (self.directory, place) {
            self.state.dir_blocks.push(DirBlock { lbn, frag });
        }
        if let (Some(kind), BlockPlace::Data { lbn }) = (self.quota, place) {
            self.state.quotas.note_block(kind, lbn, frag);
        }
        let held = self.state.used.bits(frag, frags);
        self.state.used.set_bits(frag, frags);
        self.state.used_frags += u64::from((mask(frags) & !held).count_ones());
        if held == 0 {
            return Next::Continue;
        }
        self.duplicates(frag, held);
        self.duplicate += 1;
        if self.duplicate >= MAX_BLOCKS {
            self.findings.push(Finding::ExcessiveDuplicateBlocks { ino: self.ino });
            return Next::Stop;
        }
        Next::Skip
    }

    /// Notes the runs of set bits in `held`.
    fn duplicates(&mut self, frag: u64, held: u8) {
        let mut at = 0;
        while at < 8 {
            let skip = (held >> at).trailing_zeros();
            if skip >= 8 {
                return;
            }
            at += skip;
            let frags = (held >> at).trailing_ones();
            if self.state.duplicates.len() < MAX_DUPLICATES {
                self.state.duplicates.push(Duplicate { ino: self.ino, frag: frag + u64::from(at), frags });
            }
            at += frags;
        }
    }
}
