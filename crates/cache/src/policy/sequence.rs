//! Sequential reading and writing of a file: what to read ahead, and when to write delayed data.
//!
//! Blocks are counted from the start of a file.

use std::ops::Range;

/// Predicts a reader (clustering paper, figures 2, 3 and 6): a reader that reads the block after
/// the last one is expected to go on.
///
/// A file that was not read yet is expected to be read from its start. The clusters requested so
/// far end at `end`; the last one begins at `trigger`, and reaching that starts the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reader {
    next: u64,
    trigger: u64,
    end: u64,
}

impl Reader {
    /// Returns true if a sequential reader would read block `block`: the next block, or another
    /// part of the last.
    #[must_use]
    pub const fn expects(&self, block: u64) -> bool {
        block == self.next || block + 1 == self.next
    }

    /// Notes that block `block` is read.
    pub const fn note(&mut self, block: u64) {
        self.next = block + 1;
    }

    /// Notes that `blocks` had to be read because the first of them was missing.
    pub const fn missed(&mut self, blocks: Range<u64>) {
        self.trigger = blocks.start;
        self.end = blocks.end;
    }

    /// Returns where the next cluster begins, if a sequential read of `block` is to start one:
    /// because the last one is being entered, or because no more than `keep` blocks beyond were
    /// requested, which happens when clusters come in pieces.
    #[must_use]
    pub const fn ahead(&self, block: u64, keep: u64) -> Option<u64> {
        let short = self.end.saturating_sub(self.trigger) < keep && self.end <= block.saturating_add(keep);
        if (block >= self.trigger || short) && block < self.end { Some(self.end) } else { None }
    }

    /// Notes that the read of a cluster up to `end` has been started.
    pub const fn started(&mut self, end: u64) {
        self.trigger = self.end;
        self.end = end;
    }
}

/// Delays writes while they are sequential (clustering paper, figures 7 and 8; `delayoff` and
/// `delaylen`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    blocks: Range<u64>,
}

impl Delay {
    /// Notes that block `block` was changed, up to its end if `full`. Returns the blocks that are
    /// to be written now. A cluster has `most` blocks.
    pub fn wrote(&mut self, block: u64, full: bool, most: u64) -> Option<Range<u64>> {
        let delayed = self.blocks.clone();
        let follows = block == delayed.end || block + 1 == delayed.end;
        if delayed.is_empty() && full && most <= 1 {
            return Some(block..block + 1);
        }
        if delayed.is_empty() || !follows {
            self.blocks = block..block + 1;
            return Some(delayed).filter(|delayed| !delayed.is_empty());
        }
        self.blocks.end = block + 1;
        (full && self.blocks.end - self.blocks.start >= most).then(|| std::mem::take(&mut self.blocks))
    }

    /// Returns the blocks that are delayed.
    #[must_use]
    pub fn blocks(&self) -> Range<u64> {
        self.blocks.clone()
    }

    /// Forgets the delayed blocks: they were written or dropped.
    pub fn clear(&mut self) {
        self.blocks = 0..0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block, the blocks that are read at once for it, the cluster that it starts.
    type Started = (u64, Option<Range<u64>>, Option<Range<u64>>);

    /// Returns the reads that are started when blocks are read one after the other.
    fn reads(blocks: u64, cluster: u64) -> Vec<Started> {
        let (mut reader, mut have, mut log) = (Reader::default(), 0, Vec::new());
        for block in 0..blocks {
            assert!(reader.expects(block));
            let sync = (block >= have).then(|| {
                reader.missed(block..block + cluster);
                block..block + cluster
            });
            have = have.max(sync.as_ref().map_or(0, |s| s.end));
            let ahead = reader.ahead(block, 0).map(|start| {
                reader.started(start + cluster);
                start..start + cluster
            });
            have = have.max(ahead.as_ref().map_or(0, |a| a.end));
            reader.note(block);
            log.push((block, sync, ahead));
        }
        log
    }

    /// Promise: figure 3 of the clustering paper: block by block, always one block ahead.
    #[test]
    fn one_block_ahead() {
        let expected = [(0, Some(0..1), Some(1..2)), (1, None, Some(2..3)), (2, None, Some(3..4))];
        assert_eq!(reads(3, 1), expected);
    }

    /// Promise: figure 6: the first cluster at once, the second ahead, and then one whenever a new
    /// cluster is entered.
    #[test]
    fn one_cluster_ahead() {
        let ahead: Vec<_> = reads(9, 3).into_iter().filter(|r| r.1.is_some() || r.2.is_some()).collect();
        let expected = [(0, Some(0..3), Some(3..6)), (3, None, Some(6..9)), (6, None, Some(9..12))];
        assert_eq!(ahead, expected);
    }

    /// Promise: if clusters come in pieces and `keep` asks for it, a whole cluster is kept ahead;
    /// whole clusters are read as before.
    #[test]
    fn a_cluster_ahead_in_pieces() {
        let asked = |piece: u64, keep: u64| {
            let mut reader = Reader::default();
            reader.missed(0..piece);
            (0..6)
                .map(|block| {
                    while let Some(from) = reader.ahead(block, keep) {
                        reader.started(from + piece);
                    }
                    reader.note(block);
                    reader.end
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(asked(1, 0), [2, 3, 4, 5, 6, 7]);
        assert_eq!(asked(1, 4), [5, 6, 7, 8, 9, 10]);
        assert_eq!(asked(3, 4), [6, 6, 9, 9, 9, 12]);
        assert_eq!(asked(4, 0), asked(4, 4));
    }

    /// Promise: a jump is not expected, and what follows it is.
    #[test]
    fn jumps_are_noticed() {
        let mut reader = Reader::default();
        assert!(!reader.expects(5));
        reader.missed(5..6);
        reader.note(5);
        assert!(reader.expects(5) && reader.expects(6) && !reader.expects(7));
    }

    /// Promise: figure 7: nothing is written until a cluster is whole; a break writes what was
    /// delayed.
    #[test]
    fn writes_are_delayed() {
        let mut delay = Delay::default();
        let wrote: Vec<_> = (0..7).map(|b| delay.wrote(b, true, 3)).collect();
        assert_eq!(wrote, [None, None, Some(0..3), None, None, Some(3..6), None]);
        assert_eq!(delay.wrote(20, true, 3), Some(6..7));
        assert_eq!(delay.wrote(21, false, 3), None);
        assert_eq!(delay.wrote(21, true, 3), None);
        assert_eq!(delay.wrote(22, false, 3), None);
        assert_eq!(delay.wrote(22, true, 3), Some(20..23));
    }

    /// Promise: with clusters of one block a full block goes at once, and a part of one waits for
    /// the rest (the old way).
    #[test]
    fn blocks_are_written_one_by_one() {
        let mut delay = Delay::default();
        assert_eq!(delay.wrote(0, true, 1), Some(0..1));
        assert_eq!(delay.wrote(1, false, 1), None);
        assert_eq!(delay.wrote(1, true, 1), Some(1..2));
        assert_eq!(delay.wrote(2, false, 1), None);
        assert_eq!(delay.wrote(7, true, 1), Some(2..3));
        assert_eq!(delay.wrote(8, true, 1), Some(7..9));
    }
}
