//! The state of a check: the state that each phase adds to and the next ones read.
//!
//! Everything grows with the file system only, never with a number that was merely read: a bit for
//! each fragment, eight bytes for each initialised inode, a row for each directory and each block
//! of one.

use super::node::Node;
use super::quotas::Quotas;
use crate::format::layout::Layout;
use std::collections::{BTreeMap, BTreeSet};

use crate::format::units::index;

/// A bit for each fragment: set when something holds it.
#[derive(Clone, Debug)]
pub(crate) struct BlockMap(Vec<u64>);

impl BlockMap {
    pub(crate) fn new(frags: u64) -> Self {
        Self(vec![0; index(frags.div_ceil(64))])
    }

    pub(crate) fn get(&self, frag: u64) -> bool {
        self.0[index(frag / 64)] >> (frag % 64) & 1 != 0
    }

    pub(crate) fn set(&mut self, frag: u64) {
        self.0[index(frag / 64)] |= 1 << (frag % 64);
    }

    /// Sets the bits that are set in another map of as many fragments.
    pub(crate) fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    pub(crate) fn set_run(&mut self, start: u64, end: u64) {
        (start..end).for_each(|frag| self.set(frag));
    }

    /// Returns the bits of `frags` (at most 8) fragments from `frag`, which must not cross a word.
    pub(crate) fn bits(&self, frag: u64, frags: u32) -> u8 {
        let bits = self.0[index(frag / 64)] >> (frag % 64);
        bits.to_le_bytes()[0] & mask(frags)
    }

    /// Sets the bits of `frags` (at most 8) fragments from `frag`, which must not cross a word.
    pub(crate) fn set_bits(&mut self, frag: u64, frags: u32) {
        self.0[index(frag / 64)] |= u64::from(mask(frags)) << (frag % 64);
    }
}

/// Returns the lowest `n` bits of a byte, `n` at most 8.
pub(crate) const fn mask(n: u32) -> u8 {
    ((1_u16 << n) - 1).to_le_bytes()[0]
}

/// An inode after phase 1.
#[derive(Clone, Copy, Default)]
pub(crate) struct InodeState {
    /// `S_IFMT` bits shifted down by 12; 0 when free.
    pub(crate) kind: u8,
    /// Nothing of it can be used: it must be cleared.
    pub(crate) clear: bool,
    /// `di_nlink`.
    pub(crate) nlink: u16,
    /// Names found.
    pub(crate) names: u32,
}

/// A directory after phase 1, completed in phase 2.
pub(crate) struct Directory {
    pub(crate) ino: u32,
    pub(crate) size: u64,
    /// Its blocks, as a range of [`State::dir_blocks`].
    pub(crate) blocks: std::ops::Range<usize>,
    /// All its pointers were followed.
    pub(crate) complete: bool,
    /// `di_dirdepth`.
    pub(crate) depth: u32,
    /// The directory that names it and where, 0 for none.
    pub(crate) parent: u32,
    pub(crate) entry_at: u64,
    /// Inode that its ".." names; 0 for none.
    pub(crate) dotdot: u32,
    pub(crate) link: Link,
}

/// Connection of a directory with the root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Unknown,
    Climbing,
    /// Connected, with this number of steps.
    Reached(u32),
    /// The top of a tree that does not.
    Orphan,
    /// In such a tree.
    Below,
}

/// A block of a directory.
#[derive(Clone, Copy)]
pub(crate) struct DirBlock {
    pub(crate) lbn: u64,
    pub(crate) frag: u64,
}

/// Fragments that were held when `ino` claimed them.
#[derive(Clone, Copy)]
pub(crate) struct Duplicate {
    pub(crate) ino: u32,
    pub(crate) frag: u64,
    pub(crate) frags: u32,
}

/// Most duplicates remembered.
pub(crate) const MAX_DUPLICATES: usize = 100_000;

pub(crate) struct State {
    pub(crate) used: BlockMap,
    /// The inodes of each group up to the last one in use.
    pub(crate) inodes: Vec<Vec<InodeState>>,
    /// In order of inodes.
    pub(crate) dirs: Vec<Directory>,
    pub(crate) dir_blocks: Vec<DirBlock>,
    pub(crate) duplicates: Vec<Duplicate>,
    /// Directories that count more than they hold, with what they hold in units of 512 bytes.
    pub(crate) longer: Vec<(u32, Node, u64)>,
    /// Solaris: inodes that other inodes name as their access control lists.
    pub(crate) shadows: Vec<u32>,
    pub(crate) quotas: Quotas,
    /// Files with a name and with the flag of a snapshot that may be one.
    pub(crate) snapshots: Vec<u32>,
    /// Those among them with something wrong, and what.
    pub(crate) spoilt: BTreeMap<u32, &'static str>,
    /// Inodes that have blocks which others have claimed, too.
    pub(crate) owners: BTreeSet<u32>,
    pub(crate) files: u64,
    pub(crate) used_frags: u64,
}

impl State {
    /// Returns the state before phase 1: only the file system's own structures are held.
    pub(crate) fn new(layout: &Layout) -> Self {
        let mut used = BlockMap::new(layout.fs_size);
        for cgx in 0..layout.fs_ncg {
            let start = if cgx == 0 { layout.cgbase(0) } else { layout.cgsblock(cgx) };
            used.set_run(start.0, layout.cgdmin(cgx).0);
        }
        let summaries = u64::from(layout.fs_cssize).div_ceil(layout.fs_fsize.into());
        used.set_run(layout.fs_csaddr.0, layout.fs_csaddr.0 + summaries);
        Self {
            used,
            inodes: Vec::new(),
            dirs: Vec::new(),
            dir_blocks: Vec::new(),
            duplicates: Vec::new(),
            longer: Vec::new(),
            shadows: Vec::new(),
            quotas: Quotas::default(),
            snapshots: Vec::new(),
            spoilt: BTreeMap::new(),
            owners: BTreeSet::new(),
            files: 0,
            used_frags: 0,
        }
    }

    /// Returns the state of an inode; a free one for those never initialised.
    pub(crate) fn inode(&self, layout: &Layout, ino: u32) -> InodeState {
        let (cgx, n) = (ino / layout.fs_ipg, ino % layout.fs_ipg);
        self.inodes.get(cgx as usize).and_then(|group| group.get(n as usize)).copied().unwrap_or_default()
    }

    pub(crate) fn inode_mut(&mut self, layout: &Layout, ino: u32) -> Option<&mut InodeState> {
        let (cgx, n) = (ino / layout.fs_ipg, ino % layout.fs_ipg);
        self.inodes.get_mut(cgx as usize)?.get_mut(n as usize)
    }

    /// Returns the row of a directory in [`Self::dirs`].
    pub(crate) fn dir(&self, ino: u32) -> Option<usize> {
        self.dirs.binary_search_by_key(&ino, |dir| dir.ino).ok()
    }
}
