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
    /// Which of them belong together: they become durable at once. In order.
    joined: Vec<Range<usize>>,
    /// Most bytes that can.
    limit: usize,
    /// Data to be copied before anything else: from these bytes to this address.
    copies: Vec<(Range<u64>, u64)>,
}

impl Image {
    /// Returns the unchanged set, whose log takes `limit` bytes at once.
    pub(super) fn new(space: Arc<dyn Device>, limit: usize) -> Self {
        let device = Arc::new(CowDevice::new(space));
        Self { device, changes: Vec::new(), joined: Vec::new(), limit, copies: Vec::new() }
    }

    /// Returns true if so many bytes, and the headers with them, can become durable at once.
    pub(super) const fn takes_at_once(&self, bytes: usize) -> bool {
        bytes + 2 * BATCH_BYTES <= self.limit
    }

    /// Returns true if there is any change.
    pub(super) const fn is_changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Returns a moment in the order of changes.
    pub(super) const fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Has all changes since a moment become durable at once.
    pub(super) fn join(&mut self, since: usize) {
        if since < self.changes.len() {
            self.joined.push(since..self.changes.len());
        }
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

    /// Returns the changes that become durable together.
    fn batches(&self) -> Vec<Range<usize>> {
        let (mut batches, mut joined) = (Vec::new(), self.joined.iter().peekable());
        let mut at = 0;
        while at < self.changes.len() {
            let (first, mut bytes) = (at, 0);
            while let Some(change) = self.changes.get(at) {
                let next = joined.peek().filter(|range| range.start == at).map_or(at + 1, |range| range.end);
                if bytes > 0 && (next > at + 1 || bytes + change.bytes.len() > BATCH_BYTES) {
                    break;
                }
                joined.next_if(|range| range.start == at);
                bytes += self.changes[at..next].iter().map(|change| change.bytes.len()).sum::<usize>();
                at = next;
            }
            batches.push(first..at);
        }
        batches
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
        for range in self.batches() {
            let batch = self.changes[range].iter().map(|change| (change.at, &change.bytes));
            // Of several changes of a sector the last counts.
            let batch: BTreeMap<u64, &Vec<u8>> = batch.collect();
            let change = |(&at, bytes): (&u64, &&Vec<u8>)| Change { at, bytes: (*bytes).clone() };
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
