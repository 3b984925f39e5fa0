//! The bmap cache: the addresses of some runs of a file, known without asking the file system.

use std::collections::VecDeque;

/// Runs remembered for a file.
const RUNS: usize = 32;

/// A run of a file on the device, as `bmap` returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Address of its first byte; `None` for a hole.
    pub at: Option<u64>,
    /// Number of blocks, at least one.
    pub blocks: u64,
}

/// Blocks of the file that are contiguous on the device, and their address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) block: u64,
    pub(super) count: u64,
    pub(super) at: u64,
}

/// The latest runs. Holes are not kept, because they can be filled at any time.
#[derive(Default)]
pub(super) struct Extents(VecDeque<Mapped>);

impl Extents {
    /// Returns the run from `block` on, if it is known.
    pub(super) fn find(&self, block: u64, block_bytes: u64) -> Option<Extent> {
        let known = self.0.iter().find(|run| (run.block..run.block + run.count).contains(&block))?;
        let skipped = block - known.block;
        Some(Extent { at: Some(known.at + skipped * block_bytes), blocks: known.count - skipped })
    }

    /// Remembers a run, as part of the last one if it goes on there.
    pub(super) fn enter(&mut self, run: Mapped, block_bytes: u64) {
        if self.find(run.block, block_bytes).is_some_and(|known| known.blocks >= run.count) {
            return;
        }
        match self.0.back_mut() {
            Some(last)
                if last.block + last.count == run.block && last.at + last.count * block_bytes == run.at =>
            {
                last.count += run.count;
            }
            _ => {
                if self.0.len() == RUNS {
                    self.0.pop_front();
                }
                self.0.push_back(run);
            }
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: runs are found from any of their blocks, grow as a file grows, and the oldest goes
    /// when there are too many.
    #[test]
    fn runs_are_remembered() {
        let mut extents = Extents::default();
        extents.enter(Mapped { block: 0, count: 3, at: 8192 }, 1024);
        extents.enter(Mapped { block: 3, count: 2, at: 11_264 }, 1024);
        assert_eq!(extents.find(4, 1024), Some(Extent { at: Some(12_288), blocks: 1 }));
        assert_eq!(extents.find(5, 1024), None);
        for n in 0..RUNS as u64 {
            extents.enter(Mapped { block: 100 + 2 * n, count: 1, at: 1 << 20 }, 1024);
        }
        assert_eq!(extents.find(0, 1024), None);
        assert!(extents.find(100, 1024).is_some());
    }
}
