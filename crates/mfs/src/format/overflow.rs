//! Overflow headers: where the storage map of a file goes on that does not fit into its header.
//!
//! They are a chain, in which each holds the following extents: at least one, and not always as
//! many as fit. So a change of some extents changes few headers, as in the leaves of a tree: a full
//! one is divided, and one with few extents is joined with its neighbour.

use super::checksum::{is_sealed, seal};
use super::extent::{Changed, EXTENT_BYTES, Extent};
use super::header::HEADER_EXTENTS;
use super::layout::HEADER_BYTES;
use spindle_ondisk::{Endian, structure};
use spindle_vfs::{Error, Result};
use std::ops::Range;

/// Extents in an overflow header.
pub const OVERFLOW_EXTENTS: usize = (CHECKSUM - MAP) / EXTENT_BYTES;
const MAGIC: u16 = u16::from_le_bytes(*b"MO");
const CHECKSUM: usize = HEADER_BYTES - 4;
const MAP: usize = 32;

structure! {
    /// An overflow header; the extents follow at byte 32, the checksum is at byte 508.
    pub struct DiskOverflow: 32 {
        /// `MO`.
        0 magic: u16,
        /// Extents in it.
        2 count: u16,
        /// The file.
        8 ino: u64,
        /// The next overflow header, or 0.
        16 next: u64,
    }
}

/// What an overflow header holds.
pub struct Overflow {
    /// The extents.
    pub extents: Vec<Extent>,
    /// The next overflow header.
    pub next: Option<u64>,
}

/// An overflow header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number.
    pub at: u64,
    /// The extents in it.
    pub len: usize,
}

impl Overflow {
    /// Reads an overflow header of file `ino` at header `at`.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn decode(bytes: &[u8], ino: u64, at: u64) -> Result<Self> {
        let disk = DiskOverflow::decode(bytes, Endian::Little);
        let damaged = |what: String| Err(Error::corrupt(what, format!("overflow header {at}")));
        if disk.magic != MAGIC || !is_sealed(&bytes[..HEADER_BYTES], CHECKSUM) {
            return damaged("it is damaged".into());
        }
        if disk.ino != ino || usize::from(disk.count) > OVERFLOW_EXTENTS {
            return damaged(format!("it has {} extents of file {}", disk.count, disk.ino));
        }
        let map = &bytes[MAP..CHECKSUM];
        let extents = map.chunks_exact(EXTENT_BYTES).take(disk.count.into()).map(Extent::decode).collect();
        Ok(Self { extents, next: (disk.next != 0).then_some(disk.next) })
    }
}

/// Writes an overflow header of file `ino` with these extents to its [`HEADER_BYTES`] bytes.
pub fn encode(bytes: &mut [u8], ino: u64, extents: &[Extent], next: Option<u64>) {
    bytes[..HEADER_BYTES].fill(0);
    let map = bytes[MAP..CHECKSUM].chunks_exact_mut(EXTENT_BYTES);
    extents.iter().zip(map).for_each(|(extent, out)| extent.encode(out));
    let count = u16::try_from(extents.len()).unwrap_or(0);
    DiskOverflow { magic: MAGIC, count, ino, next: next.unwrap_or(0) }.encode(bytes, Endian::Little);
    seal(&mut bytes[..HEADER_BYTES], CHECKSUM);
}

/// Returns true if a header is an overflow header.
#[must_use]
pub fn is_overflow(bytes: &[u8]) -> bool {
    bytes[..2] == MAGIC.to_le_bytes()
}

/// Returns how many extents each overflow header gets if `count` extents are entered in order.
#[must_use]
pub fn packed(count: usize) -> Vec<usize> {
    let mut lens = vec![OVERFLOW_EXTENTS; count / OVERFLOW_EXTENTS];
    lens.extend(Some(count % OVERFLOW_EXTENTS).filter(|&rest| rest > 0));
    lens
}

/// Returns as many numbers as headers are needed for `count` extents, as equal as they can be.
fn divided(count: usize) -> Vec<usize> {
    let headers = count.div_ceil(OVERFLOW_EXTENTS);
    (0..headers).map(|n| (count + n) / headers).collect()
}

/// Returns the overflow headers that a change of the extents changes, and how many extents those
/// that take their place get. There are `now` extents after it.
#[must_use]
pub fn plan(parts: &[Part], changed: Changed, now: usize) -> (Range<usize>, Vec<usize>) {
    let Changed { before, head, tail } = changed;
    // Those at the end that keep their extents, if these are not to move into the file's header.
    let (mut last, mut end) = (parts.len(), before);
    while let Some(part) = last.checked_sub(1).map(|n| parts[n]) {
        let start = end - part.len;
        if start + tail < before || now + start < before + HEADER_EXTENTS {
            break;
        }
        (last, end) = (last - 1, start);
    }
    let (mut first, mut start) = (last, end);
    while first > 0 && start > head {
        first -= 1;
        start -= parts[first].len;
    }
    let start = if first == 0 { HEADER_EXTENTS } else { start };
    let mut count = (now + end - before).saturating_sub(start);
    if (1..OVERFLOW_EXTENTS.div_ceil(2)).contains(&count) {
        if let Some(next) = parts.get(last) {
            (last, count) = (last + 1, count + next.len);
        } else if first > 0 {
            first -= 1;
            count += parts[first].len;
        }
    }
    // Files mostly grow at their ends.
    (first..last, if last == parts.len() { packed(count) } else { divided(count) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    /// Replaces `removed` elements at `at` by others as `change` of extents would.
    fn apply(items: &mut Vec<u32>, at: usize, removed: usize, new: &[u32]) -> Changed {
        let before = items.len();
        items.splice(at..at + removed, new.iter().copied());
        Changed { before, head: at, tail: before - at - removed }
    }

    /// Promise: whatever extents are entered and removed, the header and the overflow headers hold
    /// all of them in order, each at most as many as fit and at least one; those that the plan
    /// keeps hold what they held; a change of one extent changes at most two headers and makes one;
    /// and removing never takes more headers.
    #[test]
    fn parts_follow_the_extents() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(11);
        for round in 0..40 {
            let (mut items, mut parts, mut held) = (Vec::new(), Vec::<Part>::new(), Vec::<Vec<u32>>::new());
            for step in 0..600 {
                let grows = rng.random_range(0..10) < if step < 400 { 8 } else { 2 };
                let ends = rng.random_range(0..3) == 0 || round % 4 == 0;
                let at = if ends { items.len() } else { rng.random_range(0..=items.len()) };
                let (removed, new) = if grows {
                    (0, vec![rng.random(); if rng.random_range(0..9) == 0 { 2 } else { 1 }])
                } else {
                    let most = [1, 3, 90][rng.random_range(0..3)];
                    let at_most = most.min(items.len() - at);
                    (rng.random_range(0..=at_most), Vec::new())
                };
                let changed = apply(&mut items, at, removed, &new);
                let (range, lens) = plan(&parts, changed, items.len());
                if removed <= 1 {
                    assert!(range.len() <= 2 && lens.len() <= range.len() + 1, "{range:?} {lens:?}");
                }
                assert!(!new.is_empty() || lens.len() <= range.len());
                let start = HEADER_EXTENTS + parts[..range.start].iter().map(|part| part.len).sum::<usize>();
                let mut rest = items.get(start..).unwrap_or_default();
                let fresh: Vec<_> = lens.iter().map(|&len| rest.split_off(..len).unwrap().to_vec()).collect();
                parts.splice(range.clone(), lens.iter().map(|&len| Part { at: 0, len }));
                held.splice(range, fresh);
                assert!(held.iter().all(|held| (1..=OVERFLOW_EXTENTS).contains(&held.len())));
                let tail = items.get(HEADER_EXTENTS..).unwrap_or_default();
                assert_eq!(held.concat(), tail, "round {round}, step {step}");
                let few = parts.windows(2).filter(|pair| pair[0].len + pair[1].len < 8).count();
                assert!(few < 3, "{parts:?}");
            }
            if round % 4 == 0 {
                assert!(parts.len() <= 2 + packed(items.len()).len());
            }
        }
    }
}
