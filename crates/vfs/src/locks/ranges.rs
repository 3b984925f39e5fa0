//! Byte-range locks of one file.
//!
//! Invariants: the locks of one owner do not overlap, and those of one kind do not touch; locks of
//! different owners overlap only if both are shared. [`Ranges::set`] keeps the first; the caller
//! keeps the second with [`Ranges::conflict`].

use super::{ByteRange, LockHolder, LockKind, LockOwner};

/// The byte-range locks of one file.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    held: Vec<LockHolder>,
}

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns the locks that block `owner` from locking `range`.
    pub(super) fn conflicts(
        &self,
        owner: LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> impl Iterator<Item = &LockHolder> {
        self.held.iter().filter(move |held| {
            held.owner != owner
                && held.range.overlaps(range)
                && (kind == LockKind::Exclusive || held.kind == LockKind::Exclusive)
        })
    }

    /// Returns the first lock that blocks `owner` from locking `range`.
    pub(super) fn conflict(&self, owner: LockOwner, range: ByteRange, kind: LockKind) -> Option<&LockHolder> {
        self.conflicts(owner, range, kind).min_by_key(|held| held.range.start)
    }

    /// Locks `range` for `owner` in this kind, or unlocks it, replacing its locks there.
    pub(super) fn set(&mut self, owner: LockOwner, pid: u32, range: ByteRange, kind: Option<LockKind>) {
        let mut new = range;
        let mut kept = Vec::with_capacity(self.held.len() + 2);
        for held in self.held.drain(..) {
            if held.owner != owner {
                kept.push(held);
            } else if Some(held.kind) == kind && held.range.touches(new) {
                new = new.join(held.range);
            } else {
                kept.push(held);
            }
        }
        for held in kept {
            if held.owner != owner || !held.range.overlaps(range) {
                self.held.push(held);
                continue;
            }
            if held.range.start < range.start {
                let left = ByteRange { start: held.range.start, end: range.start - 1 };
                self.held.push(LockHolder { range: left, ..held });
            }
            if held.range.end > range.end {
                let right = ByteRange { start: range.end + 1, end: held.range.end };
                self.held.push(LockHolder { range: right, ..held });
            }
        }
        if let Some(kind) = kind {
            self.held.push(LockHolder { owner, pid, kind, range: new });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// Number of bytes that the naive model keeps one by one; the last one stands for all that
    /// follow.
    const BYTES: usize = 24;

    /// Locks of one byte, by owner.
    type Byte = Vec<(LockOwner, LockKind)>;

    fn blocked(bytes: &[Byte], owner: LockOwner, range: ByteRange, kind: LockKind) -> bool {
        let exclusive = LockKind::Exclusive;
        let mut within = bytes.iter().zip(0..).filter(|(_, at)| (range.start..=range.end).contains(at));
        within.any(|(byte, _)| byte.iter().any(|b| b.0 != owner && (kind == exclusive || b.1 == exclusive)))
    }

    /// Promise: locking, converting and unlocking any ranges in any order has the same result as
    /// byte by byte, and locks of one kind and owner never touch.
    #[test]
    fn ranges_are_byte_by_byte() {
        let seed = spindle_conformance::random::seed();
        println!("SPINDLE_SEED={seed} repeats this run");
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..200 {
            let mut ranges = Ranges::default();
            let mut bytes: Vec<Byte> = vec![Vec::new(); BYTES];
            for _ in 0..60 {
                let owner = LockOwner(rng.random_range(0..3));
                let start = rng.random_range(0..BYTES);
                let end = rng.random_range(start..BYTES);
                let last = if end == BYTES - 1 { u64::MAX } else { end as u64 };
                let range = ByteRange { start: start as u64, end: last };
                let kind = [None, Some(LockKind::Shared), Some(LockKind::Exclusive)][rng.random_range(0..3)];
                if let Some(kind) = kind {
                    let conflict = ranges.conflict(owner, range, kind);
                    assert_eq!(conflict.is_some(), blocked(&bytes, owner, range, kind));
                    if conflict.is_some() {
                        continue;
                    }
                }
                ranges.set(owner, 0, range, kind);
                for byte in &mut bytes[start..=end] {
                    byte.retain(|held| held.0 != owner);
                    byte.extend(kind.map(|kind| (owner, kind)));
                }
                for (at, byte) in (0..).zip(&bytes) {
                    let mut holds: Byte = Vec::new();
                    for held in &ranges.held {
                        if (held.range.start..=held.range.end).contains(&at) {
                            holds.push((held.owner, held.kind));
                        }
                    }
                    let mut expected = byte.clone();
                    holds.sort();
                    expected.sort();
                    assert_eq!(holds, expected, "byte {at}");
                }
                for (i, a) in ranges.held.iter().enumerate() {
                    for b in &ranges.held[i + 1..] {
                        assert!(
                            a.owner != b.owner || a.kind != b.kind || !a.range.touches(b.range),
                            "{a:?} and {b:?} should be one"
                        );
                    }
                }
            }
        }
    }
}
