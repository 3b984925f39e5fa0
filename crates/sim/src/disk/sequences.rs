//! The sequences of writes that a shingled disk follows at once, the least recently used first.
//!
//! Invariant: no more than [`MOST`] of them.

/// How many it follows: an estimate, of the order of the segments of drives.
const MOST: usize = 16;

/// Writes that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The sector after the last one written.
    pub next: u64,
    /// How many sectors there were.
    pub length: u64,
    /// The last ones went straight into their band.
    pub straight: bool,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Sequences(Vec<Sequence>);

impl Sequences {
    /// Returns how long the sequence is that a write from `start` on would continue; 0 if none.
    #[must_use]
    pub fn length_before(&self, start: u64) -> u64 {
        self.0.iter().find(|sequence| sequence.next == start).map_or(0, |sequence| sequence.length)
    }

    /// Makes room for a write from `start` on; returns the sequence that is no longer followed for
    /// that.
    pub fn make_room(&mut self, start: u64) -> Option<Sequence> {
        let is_full = self.0.len() == MOST && self.length_before(start) == 0;
        is_full.then(|| self.0.remove(0))
    }

    /// Notes a write from `start` to `end`, for which there is room.
    pub fn note(&mut self, start: u64, end: u64, straight: bool) {
        let found = self.0.iter().position(|sequence| sequence.next == start);
        let length = found.map_or(0, |place| self.0.remove(place).length) + (end - start);
        self.0.push(Sequence { next: end, length, straight });
    }

    /// Notes that nothing from `start` to `end` is half written any more.
    pub fn close(&mut self, start: u64, end: u64) {
        for sequence in self.0.iter_mut().filter(|sequence| (start..=end).contains(&sequence.next)) {
            sequence.straight = false;
        }
    }

    /// Returns those of which the last sectors went straight into their band.
    pub fn straight(&self) -> impl Iterator<Item = &Sequence> {
        self.0.iter().filter(|sequence| sequence.straight)
    }
}
