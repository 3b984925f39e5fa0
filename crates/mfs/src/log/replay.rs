//! Replaying the log after a crash.

use super::Ring;
use spindle_device::Device;
use spindle_vfs::{Error, Result};
use std::collections::HashMap;

/// Bytes that are revoked or not: those of the smallest change.
const SECTOR: u64 = 512;
/// Most bytes of a revoked range: those of the largest block of control storage.
const REVOKED_MAX: u64 = 64 << 10;

/// The last record that revokes a sector, for the sectors that are revoked.
type Revoked = HashMap<u64, u64>;

/// Writes what the records of the log have changed to its places in the set, durably, except what
/// was revoked later. Returns the number of sectors of 512 bytes that were written.
///
/// # Errors
/// Device errors; [`Error::Corrupt`] for a record with impossible addresses.
pub(crate) fn replay(ring: &Ring, space: &dyn Device) -> Result<usize> {
    let revoked = revoked(ring)?;
    ring.complete_copies()?;
    let written = write(ring, &revoked, space)?;
    space.flush()?;
    Ok(written)
}

/// Does the same to a copy of the set in memory, and changes nothing in log storage.
///
/// # Errors
/// As [`replay`].
pub(crate) fn replay_to_copy(ring: &Ring, copy: &dyn Device) -> Result<usize> {
    write(ring, &revoked(ring)?, copy)
}

fn revoked(ring: &Ring) -> Result<Revoked> {
    let mut revoked = Revoked::new();
    ring.each_record(|sequence, changes| {
        for range in changes.revoked {
            if range.end < range.start || range.end - range.start > REVOKED_MAX {
                return Err(impossible(sequence));
            }
            let sectors = (range.start / SECTOR..range.end.div_ceil(SECTOR)).map(|n| n * SECTOR);
            revoked.extend(sectors.map(|at| (at, sequence)));
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
            let keep = |at: u64| revoked.get(&at).is_none_or(|&later| later <= sequence);
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
