//! One block of a file in memory.

use crate::flight::Flight;
use spindle_device::AlignedBuf;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of a page: in the buffer that a cluster was read into, or in a buffer of its own.
enum Bytes {
    Shared {
        buf: Arc<AlignedBuf>,
        start: usize,
    },
    /// As far as it was ever valid.
    Own(Vec<u8>),
}

/// One block of a file in memory.
pub(super) struct Page {
    /// Address of the block's first byte on the device.
    at: u64,
    bytes: Bytes,
    /// Range of the block that is in memory: whole sectors.
    valid: Range<usize>,
    dirty: bool,
    flight: Option<Arc<Flight>>,
    /// Bytes of the capacity that the pool counts for it.
    charge: usize,
    /// Changed bytes that the pool counts for it.
    counted: usize,
}

impl Page {
    /// Returns a page that shares the buffer of a cluster: `len` bytes from `start` of it.
    pub(super) fn arrived(at: u64, buf: Arc<AlignedBuf>, start: usize, len: usize, charge: usize) -> Self {
        Self {
            at,
            bytes: Bytes::Shared { buf, start },
            valid: 0..len,
            dirty: false,
            flight: None,
            charge,
            counted: 0,
        }
    }

    /// Returns a page without a valid byte, of a block that has `len` bytes of space.
    pub(super) fn empty(at: u64, len: usize) -> Self {
        Self {
            at,
            bytes: Bytes::Own(Vec::with_capacity(len)),
            valid: 0..0,
            dirty: false,
            flight: None,
            charge: 0,
            counted: 0,
        }
    }

    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn valid(&self) -> Range<usize> {
        self.valid.clone()
    }

    pub(super) const fn charge(&self) -> usize {
        self.charge
    }

    /// Sets the bytes that the pool counts for it, and returns the former number.
    pub(super) const fn recharge(&mut self, charge: usize) -> usize {
        std::mem::replace(&mut self.charge, charge)
    }

    pub(super) const fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Returns the write of the page that is in flight.
    pub(super) fn in_flight(&self) -> Option<Arc<Flight>> {
        self.flight.clone().filter(|flight| !flight.has_landed())
    }

    /// Returns true while the device does not have these bytes.
    pub(super) fn is_pending(&self) -> bool {
        self.dirty || self.flight.as_ref().is_some_and(|flight| !flight.has_landed())
    }

    /// Forgets a write that has landed.
    pub(super) fn retire(&mut self) {
        self.flight.take_if(|flight| flight.has_landed());
    }

    /// Returns true if `part` of the block is in memory.
    pub(super) fn has(&self, part: &Range<usize>) -> bool {
        self.valid.start <= part.start && part.end <= self.valid.end
    }

    /// Returns true if `part` can be added so that the valid bytes stay one range.
    pub(super) fn joins(&self, part: &Range<usize>) -> bool {
        self.valid.is_empty() || (part.start <= self.valid.end && self.valid.start <= part.end)
    }

    /// Returns the bytes of `part`, for which [`Self::has`] is true.
    pub(super) fn bytes(&self, part: Range<usize>) -> &[u8] {
        match &self.bytes {
            Bytes::Shared { buf, start } => &buf[start + part.start..start + part.end],
            Bytes::Own(bytes) => &bytes[part],
        }
    }

    /// Makes `part` valid, for which [`Self::joins`] is true, and returns its bytes for filling in.
    pub(super) fn fill(&mut self, part: Range<usize>) -> &mut [u8] {
        if let Bytes::Shared { buf, start } = &self.bytes {
            self.bytes = Bytes::Own(buf[*start..start + self.valid.end].to_vec());
        }
        self.valid = if self.valid.is_empty() {
            part.clone()
        } else {
            self.valid.start.min(part.start)..self.valid.end.max(part.end)
        };
        match &mut self.bytes {
            Bytes::Own(bytes) => {
                if bytes.len() < part.end {
                    bytes.resize(part.end, 0);
                }
                &mut bytes[part]
            }
            Bytes::Shared { .. } => &mut [],
        }
    }

    /// Drops the bytes from `len` on, and returns by how many the count of changed bytes falls.
    pub(super) fn cut(&mut self, len: usize) -> usize {
        self.valid.end = self.valid.end.min(len);
        let less = self.counted.saturating_sub(self.valid.len());
        self.counted -= less;
        less
    }

    /// Notes that the page was changed and belongs at address `at`. Returns by how many the count
    /// of changed bytes grows.
    pub(super) fn changed(&mut self, at: u64) -> usize {
        self.at = at;
        self.dirty = true;
        let more = self.valid.len() - self.counted;
        self.counted = self.valid.len();
        more
    }

    /// Marks the page clean, because its bytes are in flight or were dropped. Returns its count of
    /// changed bytes, which becomes 0.
    pub(super) fn sent(&mut self, flight: Option<Arc<Flight>>) -> usize {
        self.dirty = false;
        self.flight = flight;
        std::mem::take(&mut self.counted)
    }
}
