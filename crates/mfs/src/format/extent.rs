//! The storage map of a file: extents of data blocks, in the order of the file (paper, section
//! 4.2).

use super::layout::{DataBlock, Layout};
use spindle_vfs::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of an extent on disk.
pub const EXTENT_BYTES: usize = 16;
const BITS_48: u64 = (1 << 48) - 1;
/// Most blocks of an extent.
pub const EXTENT_BLOCKS_MAX: u64 = u32::MAX as u64;

/// Contiguous blocks of a file that are contiguous in data storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First block of the file.
    pub lbn: u64,
    /// First block of data storage, as the number of a [`DataBlock`].
    pub start: u64,
    /// Number of blocks.
    pub len: u64,
}

impl Extent {
    /// Returns the block of the file after the last one.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.lbn + self.len
    }

    /// Returns the part of the extent with the blocks of the file from `from` to `to`.
    #[must_use]
    pub const fn part(&self, from: u64, to: u64) -> Self {
        Self { lbn: from, start: self.start + (from - self.lbn), len: to - from }
    }

    /// Returns true if the extent can come after those up to block `end` of a file of `class`, and
    /// its blocks are there.
    #[must_use]
    pub fn follows(&self, end: u64, layout: &Layout, class: u8) -> bool {
        self.lbn >= end && self.len > 0 && layout.can_have(class.into(), DataBlock(self.start), self.len)
    }

    /// Reads an extent. The first word has the block of the file and 16 bits of the length, the
    /// second the block of data storage and the other 16.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(raw)
        };
        let (a, b) = (word(0), word(8));
        Self { lbn: a & BITS_48, start: b & BITS_48, len: a >> 48 | (b >> 48) << 16 }
    }

    /// Writes the extent.
    pub fn encode(&self, bytes: &mut [u8]) {
        let a = self.lbn & BITS_48 | self.len << 48;
        let b = self.start & BITS_48 | (self.len >> 16) << 48;
        bytes[..8].copy_from_slice(&a.to_le_bytes());
        bytes[8..16].copy_from_slice(&b.to_le_bytes());
    }
}

/// The extents of a file, in order, without overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    all: Arc<Vec<Extent>>,
    changed: Option<Changed>,
}

/// Which extents have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Extents that there were before.
    pub before: usize,
    /// Of those so many at the beginning are still there and the same.
    pub head: usize,
    /// And so many at the end.
    pub tail: usize,
}

impl Extents {
    /// Returns the extents of a file of `class` after checking them.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if they overlap, are out of order, or lead to blocks that a file of this
    /// class cannot have.
    pub fn new(extents: Vec<Extent>, layout: &Layout, class: u8, place: &str) -> Result<Self> {
        let mut end = 0;
        for extent in &extents {
            if !extent.follows(end, layout, class) {
                let Extent { lbn, start, len } = extent;
                let what = format!("a wrong extent, {len} blocks of the file from {lbn} at {start}");
                return Err(Error::corrupt(what, place));
            }
            end = extent.end();
        }
        Ok(Self { all: Arc::new(extents), changed: None })
    }

    /// Returns them in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Extent] {
        &self.all
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.all.iter().map(|extent| extent.len).sum()
    }

    fn first_after(&self, lbn: u64) -> usize {
        self.all.partition_point(|extent| extent.end() <= lbn)
    }

    /// Returns the address of a block of the file, none for a hole, and the number of blocks from
    /// there on for which the same holds.
    #[must_use]
    pub fn find(&self, lbn: u64) -> (Option<DataBlock>, u64) {
        match self.all.get(self.first_after(lbn)) {
            Some(extent) if extent.lbn <= lbn => {
                (Some(DataBlock(extent.start + (lbn - extent.lbn))), extent.end() - lbn)
            }
            Some(extent) => (None, extent.lbn - lbn),
            None => (None, u64::MAX - lbn),
        }
    }

    /// Returns the block of data storage after the one that holds the last block of the file before
    /// `lbn`: the best one for the block at `lbn`.
    #[must_use]
    pub fn goal(&self, lbn: u64) -> Option<u64> {
        let before = self.first_after(lbn).checked_sub(1)?;
        self.all.get(before).map(|extent| extent.start + extent.len)
    }

    /// Enters blocks where there was a hole.
    pub fn insert(&mut self, new: Extent) {
        let n = self.first_after(new.lbn);
        let joins = |a: &Extent, b: &Extent| {
            let is_one = a.end() == b.lbn && a.start + a.len == b.start;
            is_one && a.len + b.len <= EXTENT_BLOCKS_MAX
        };
        let (mut whole, mut range) = (new, n..n);
        if let Some(next) = self.all.get(n).filter(|next| joins(&new, next)) {
            whole.len += next.len;
            range.end += 1;
        }
        if let Some(last) = n.checked_sub(1).map(|n| self.all[n]).filter(|last| joins(last, &new)) {
            whole = Extent { len: last.len + whole.len, ..last };
            range.start -= 1;
        }
        self.replace(range, [whole]);
    }

    /// Replaces extents, and notes what has changed.
    fn replace(&mut self, range: Range<usize>, new: impl IntoIterator<Item = Extent>) {
        let len = self.all.len();
        let unchanged = Changed { before: len, head: len, tail: len };
        let changed = self.changed.get_or_insert(unchanged);
        changed.head = changed.head.min(range.start);
        changed.tail = changed.tail.min(len - range.end);
        Arc::make_mut(&mut self.all).splice(range, new);
    }

    /// Returns what has changed since the last time that this was called.
    pub fn take_changed(&mut self) -> Option<Changed> {
        self.changed.take()
    }

    /// Takes out the blocks of a range, and returns where they were.
    pub fn remove(&mut self, range: Range<u64>) -> Vec<Extent> {
        let first = self.first_after(range.start);
        let last = self.all.partition_point(|extent| extent.lbn < range.end);
        let (mut gone, mut kept) = (Vec::new(), Vec::new());
        if last <= first {
            return gone;
        }
        for extent in &self.all[first..last] {
            let (from, to) = (extent.lbn.max(range.start), extent.end().min(range.end));
            if extent.lbn < from {
                kept.push(extent.part(extent.lbn, from));
            }
            gone.push(extent.part(from, to));
            if to < extent.end() {
                kept.push(extent.part(to, extent.end()));
            }
        }
        self.replace(first..last, kept);
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an extent survives the disk with its largest values.
    #[test]
    fn an_extent_is_stored() {
        for extent in [
            Extent { lbn: 0, start: 0, len: 1 },
            Extent { lbn: BITS_48, start: BITS_48, len: u32::MAX.into() },
            Extent { lbn: 5, start: 1 << 40, len: 0x1_2345 },
        ] {
            let mut bytes = [0; EXTENT_BYTES];
            extent.encode(&mut bytes);
            assert_eq!(Extent::decode(&bytes), extent);
        }
    }

    /// Promise: entering and taking out give what a map of single blocks has, and neighbours become
    /// one extent.
    #[test]
    fn they_behave_as_a_map_of_blocks() {
        use rand::{Rng, SeedableRng};
        let mut rng = rand::rngs::StdRng::seed_from_u64(7);
        let mut extents = Extents::default();
        let mut blocks = std::collections::BTreeMap::new();
        for _ in 0..3000 {
            let (lbn, len) = (rng.random_range(0..60), rng.random_range(1..9));
            if rng.random() {
                let gone = extents.remove(lbn..lbn + len);
                let expected: Vec<_> =
                    blocks.range(lbn..lbn + len).map(|(&lbn, &start)| (lbn, start)).collect();
                let gone: Vec<_> =
                    gone.iter().flat_map(|e| (0..e.len).map(move |n| (e.lbn + n, e.start + n))).collect();
                assert_eq!(gone, expected);
                blocks.retain(|at, _| !(lbn..lbn + len).contains(at));
            } else if blocks.range(lbn..lbn + len).next().is_none() {
                let start = if rng.random() { lbn + 100 } else { rng.random_range(0..500) };
                extents.insert(Extent { lbn, start, len });
                blocks.extend((0..len).map(|n| (lbn + n, start + n)));
            }
            for lbn in 0..70 {
                assert_eq!(extents.find(lbn).0.map(|at| at.0), blocks.get(&lbn).copied());
            }
            assert_eq!(extents.blocks(), blocks.len() as u64);
            let joined = |pair: &[Extent]| {
                pair[0].end() == pair[1].lbn && pair[0].start + pair[0].len == pair[1].start
            };
            assert!(!extents.as_slice().windows(2).any(joined));
        }
    }
}
