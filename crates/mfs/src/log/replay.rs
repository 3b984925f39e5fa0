//! Replaying the log after a crash.

use super::Ring;
use spindle_device::Device;
use spindle_vfs::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that are revoked or not: those of the smallest change.
const SECTOR: u64 = 512;

/// What was revoked: runs of bytes that neither overlap nor are empty, by their beginning, with
/// their end and the last record that revokes them.
#[derive(Default)]
struct Revoked(BTreeMap<u64, (u64, u64)>);

impl Revoked {
    /// Notes that a record revokes a range; all records before it have been entered.
    fn enter(&mut self, range: Range<u64>, sequence: u64) {
        if range.is_empty() {
            return;
        }
        // What is left of earlier runs at both ends.
        while let Some((&start, &(end, earlier))) = self.0.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            self.0.remove(&start);
            if start < range.start {
                self.0.insert(start, (range.start, earlier));
            }
            if end > range.end {
                self.0.insert(range.end, (end, earlier));
            }
        }
        self.0.insert(range.start, (range.end, sequence));
    }

    /// Returns true if a record later than `sequence` revokes the sector at `at`.
    fn later(&self, at: u64, sequence: u64) -> bool {
        let run = self.0.range(..=at).next_back().filter(|(_, (end, _))| at < *end);
        run.is_some_and(|(_, &(_, later))| later > sequence)
    }
}

/// Writes what the records of the log have changed to its places in the set, durably, except what
/// was revoked later. Returns the number of sectors of 512 bytes that were written.
///
/// # Errors
/// Device errors; [`Error::Corrupt`] for a record with impossible addresses.
pub(crate) fn replay_to_set(ring: &Ring, space: &dyn Device) -> Result<usize> {
    let revoked = revoked(ring)?;
    ring.complete_copies()?;
    let written = write(ring, &revoked, space)?;
    space.flush()?;
    Ok(written)
}

/// Does the same to a copy of the set in memory, and changes nothing in log storage.
///
/// # Errors
/// As [`replay_to_set`].
pub(crate) fn replay_to_copy(ring: &Ring, copy: &dyn Device) -> Result<usize> {
    write(ring, &revoked(ring)?, copy)
}

fn revoked(ring: &Ring) -> Result<Revoked> {
    let mut revoked = Revoked::default();
    ring.each_record(|sequence, changes| {
        for range in changes.revoked {
            let end = range.end.checked_next_multiple_of(SECTOR).filter(|&end| range.start <= end);
            let Some(end) = end else { return Err(impossible(sequence)) };
            revoked.enter(range.start / SECTOR * SECTOR..end, sequence);
        }
        Ok(())
    })?;
    Ok(revoked)
}

fn write(ring: &Ring, revoked: &Revoked, device: &dyn Device) -> Result<usize> {
    let mut written = 0;
    let step = usize::try_from(device.info().sector_bytes).unwrap_or(512);
    ring.each_record(|sequence, changes| {
        for change in changes.changed {
            let end = change.at.checked_add(change.bytes.len() as u64);
            if end.is_none() || change.bytes.len() % step != 0 {
                return Err(impossible(sequence));
            }
            let keep = |at: u64| !revoked.later(at, sequence);
            let wanted = |n: usize| {
                let at = change.at + (n * step) as u64;
                (at..at + step as u64).step_by(512).all(keep)
            };
            let sectors = change.bytes.len() / step;
            let mut first = 0;
            while first < sectors {
                let run = (first..sectors).take_while(|&n| wanted(n)).count();
                if run > 0 {
                    let bytes = &change.bytes[first * step..(first + run) * step];
                    device.write_at(change.at + (first * step) as u64, bytes).map_err(
                        |error| match error {
                            spindle_device::Error::OutOfRange { .. }
                            | spindle_device::Error::Misaligned { .. } => impossible(sequence),
                            other => other.into(),
                        },
                    )?;
                    written += bytes.len() / 512;
                }
                first += run + 1;
            }
        }
        Ok(())
    })?;
    Ok(written)
}

fn impossible(sequence: u64) -> Error {
    Error::corrupt("its addresses are impossible", format!("record {sequence} of the log"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    /// Promise: the last record that revokes a sector counts, however ranges overlap.
    #[test]
    fn runs_are_revoked_sectors() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(17);
        for _ in 0..200 {
            let (mut revoked, mut last) = (Revoked::default(), [0; 60]);
            for sequence in 1..20 {
                let start = rng.random_range(0..60);
                let end = rng.random_range(start..=60);
                revoked.enter(start as u64 * SECTOR..end as u64 * SECTOR, sequence);
                last[start..end].fill(sequence);
                for (n, &last) in last.iter().enumerate() {
                    let later = |than| revoked.later(n as u64 * SECTOR, than);
                    assert!(!later(last) && (last == 0 || later(last - 1)));
                }
            }
        }
    }
}
