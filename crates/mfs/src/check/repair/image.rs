//! The changes of a repair: decided over a copy-on-write device, kept in their order, and written
//! through the log.

use super::super::Checker;
use crate::format::cylinder::{CYLINDER_BYTES, Cylinder};
use crate::format::header::Header;
use crate::format::layout::HEADER_BYTES;
use crate::log::Ring;
use spindle_cache::{Change, Changes, Log};
use spindle_device::{CowDevice, Device};
use spindle_vfs::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a batch of changes: little memory, and few flushes in an ordinary repair.
const BATCH_BYTES: usize = 16 << 10;
/// Bytes that are copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// A set with the changes that have been decided.
pub(super) struct Image {
    device: Arc<CowDevice>,
    /// Changed sectors, in order.
    changes: Vec<Change>,
    /// Data to be copied before anything else: from these bytes to this address.
    copies: Vec<(Range<u64>, u64)>,
}

impl Image {
    /// Returns the unchanged set.
    pub(super) fn new(space: Arc<dyn Device>) -> Self {
        Self { device: Arc::new(CowDevice::new(space)), changes: Vec::new(), copies: Vec::new() }
    }

    /// Returns the set with all changes, for reading.
    pub(super) fn device(&self) -> Arc<dyn Device> {
        self.device.clone()
    }

    /// Changes the bytes at an address. Returns false if they were the same.
    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) -> Result<bool> {
        let step = u64::from(self.device.info().sector_bytes);
        let start = at / step * step;
        let end = (at + bytes.len() as u64).next_multiple_of(step);
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let mut before = vec![0; size(end - start)];
        self.device.read_at(start, &mut before)?;
        let mut after = before.clone();
        after[size(at - start)..][..bytes.len()].copy_from_slice(bytes);
        let sectors =
            before.chunks(size(step)).zip(after.chunks(size(step))).zip((start..).step_by(size(step)));
        let mut changed = false;
        for ((before, after), at) in sectors {
            if before != after {
                self.device.write_at(at, after)?;
                self.changes.push(Change { at, bytes: after.to_vec() });
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Writes the description of a cylinder.
    pub(super) fn put_cylinder(&mut self, checker: &Checker, cylinder: &Cylinder) -> Result<bool> {
        let mut bytes = [0; CYLINDER_BYTES];
        cylinder.encode(&mut bytes);
        self.put(checker.layout.cylinder_at(cylinder.number), &bytes)
    }

    /// Writes the header of a file, without its overflow headers.
    pub(super) fn put_header(&mut self, checker: &Checker, ino: u64, header: &Header) -> Result<bool> {
        self.put_slot(checker, ino, |bytes| header.encode(bytes, ino))
    }

    /// Writes a header with `encode`.
    pub(super) fn put_slot(
        &mut self,
        checker: &Checker,
        ino: u64,
        encode: impl FnOnce(&mut [u8]),
    ) -> Result<bool> {
        let (at, within) = checker.layout.header_at(ino).ok_or(Error::Stale)?;
        let mut bytes = [0; HEADER_BYTES];
        encode(&mut bytes);
        self.put(at + within as u64, &bytes)
    }

    /// Has data copied.
    pub(super) fn copy(&mut self, from: Range<u64>, to: u64) {
        self.copies.push((from, to));
    }

    /// Writes everything to the set.
    ///
    /// # Errors
    /// Device errors.
    pub(super) fn apply(&self, ring: &Ring, space: &dyn Device) -> Result<()> {
        for (from, to) in &self.copies {
            for at in (from.start..from.end).step_by(usize::try_from(COPY_BYTES).unwrap_or(usize::MAX)) {
                let len = COPY_BYTES.min(from.end - at);
                let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
                space.read_at(at, &mut bytes)?;
                space.write_at(to + (at - from.start), &bytes)?;
            }
        }
        let limit = BATCH_BYTES.min(ring.limit_bytes());
        let mut rest = &self.changes[..];
        while !rest.is_empty() {
            let mut batch: BTreeMap<u64, &[u8]> = BTreeMap::new();
            let mut bytes = 0;
            while let Some((change, others)) = rest.split_first()
                && (bytes == 0 || bytes + change.bytes.len() <= limit)
            {
                bytes += change.bytes.len();
                batch.insert(change.at, &change.bytes);
                rest = others;
            }
            let change = |(&at, bytes): (&u64, &&[u8])| Change { at, bytes: bytes.to_vec() };
            let changes = Changes { revoked: Vec::new(), changed: batch.iter().map(change).collect() };
            if !ring.has_room(&changes) {
                space.flush()?;
                ring.empty();
            }
            ring.commit(&changes)?;
            for change in &changes.changed {
                space.write_at(change.at, &change.bytes)?;
            }
        }
        Ok(space.flush()?)
    }
}
