//! The bytes of a model file: its written blocks, by number. A missing block is a hole.
//!
//! Invariant: bytes at or beyond the file's size are zero in every stored block.

use spindle_vfs::Seek;
use std::collections::BTreeMap;
use std::ops::Range;

/// The stored blocks of one file.
#[derive(Debug)]
pub(super) struct Blocks {
    size: u64,
    stored: BTreeMap<u64, Box<[u8]>>,
}

impl Blocks {
    /// Returns an empty set of blocks, each of `size` bytes.
    pub(super) const fn new(size: u64) -> Self {
        Self { size, stored: BTreeMap::new() }
    }

    /// Returns the number of stored blocks.
    pub(super) fn count(&self) -> u64 {
        self.stored.len() as u64
    }

    /// Returns the numbers of the blocks that `bytes` touches.
    fn touched(&self, bytes: &Range<u64>) -> Range<u64> {
        if bytes.is_empty() { 0..0 } else { bytes.start / self.size..bytes.end.div_ceil(self.size) }
    }

    /// Returns the number of blocks that writing to `bytes` would add.
    pub(super) fn missing(&self, bytes: &Range<u64>) -> u64 {
        let touched = self.touched(bytes);
        let held = self.stored.range(touched.clone()).count() as u64;
        touched.end - touched.start - held
    }

    /// Returns the end of the part of `bytes` that can be written with at most `more` new blocks.
    pub(super) fn reach(&self, bytes: &Range<u64>, mut more: u64) -> u64 {
        for number in self.touched(bytes) {
            if !self.stored.contains_key(&number) {
                if more == 0 {
                    return (number * self.size).max(bytes.start);
                }
                more -= 1;
            }
        }
        bytes.end
    }

    /// Calls `each` for each block with its number, the part within it, and the part of `bytes`
    /// relative to the start of `bytes`.
    fn pieces(&self, bytes: &Range<u64>, mut each: impl FnMut(u64, Range<usize>, Range<usize>)) {
        let mut at = bytes.start;
        while at < bytes.end {
            let number = at / self.size;
            let end = bytes.end.min((number + 1) * self.size);
            let within = (at % self.size) as usize;
            let done = (at - bytes.start) as usize;
            let len = (end - at) as usize;
            each(number, within..within + len, done..done + len);
            at = end;
        }
    }

    /// Copies the bytes from `offset` on; holes give zeros.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) {
        self.pieces(&(offset..offset + buf.len() as u64), |number, within, part| {
            match self.stored.get(&number) {
                Some(block) => buf[part].copy_from_slice(&block[within]),
                None => buf[part].fill(0),
            }
        });
    }

    /// Stores every block of `bytes`.
    pub(super) fn allocate(&mut self, bytes: &Range<u64>) {
        for number in self.touched(bytes) {
            let size = self.size as usize;
            self.stored.entry(number).or_insert_with(|| vec![0; size].into_boxed_slice());
        }
    }

    /// Stores `data` at `offset`.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let bytes = offset..offset + data.len() as u64;
        self.allocate(&bytes);
        let mut parts = Vec::new();
        self.pieces(&bytes, |number, within, part| parts.push((number, within, part)));
        for (number, within, part) in parts {
            if let Some(block) = self.stored.get_mut(&number) {
                block[within].copy_from_slice(&data[part]);
            }
        }
    }

    /// Zeroes the stored bytes of `bytes`.
    pub(super) fn zero(&mut self, bytes: &Range<u64>) {
        let touched = self.touched(bytes);
        for (number, block) in self.stored.range_mut(touched) {
            let start = number * self.size;
            let from = bytes.start.max(start) - start;
            let to = bytes.end.min(start + self.size) - start;
            block[from as usize..to as usize].fill(0);
        }
    }

    /// Zeroes `bytes` and drops the blocks that are completely inside.
    pub(super) fn punch(&mut self, bytes: &Range<u64>) {
        self.zero(bytes);
        let whole = bytes.start.div_ceil(self.size)..bytes.end / self.size;
        self.stored.retain(|number, _| !whole.contains(number));
    }

    /// Drops all bytes at and after `size`.
    pub(super) fn truncate(&mut self, size: u64) {
        drop(self.stored.split_off(&size.div_ceil(self.size)));
        let end = size.next_multiple_of(self.size);
        self.zero(&(size..end));
    }

    /// Returns the next data or hole from `offset` on in a file of `end` bytes; `offset` must be
    /// below `end`.
    pub(super) fn seek(&self, offset: u64, end: u64, what: Seek) -> Option<u64> {
        let first = offset / self.size;
        match what {
            Seek::Data => {
                let (number, _) = self.stored.range(first..).next()?;
                let at = (number * self.size).max(offset);
                (at < end).then_some(at)
            }
            Seek::Hole => {
                let hole = (first..=end / self.size).find(|number| !self.stored.contains_key(number));
                let hole = hole.unwrap_or(end.div_ceil(self.size));
                Some((hole * self.size).max(offset).min(end))
            }
        }
    }
}
