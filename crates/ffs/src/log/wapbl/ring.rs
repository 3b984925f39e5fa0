//! The ring of a log: where its bytes stand, and how it is written to.

use super::format::WcHeader;
use spindle_device::{AlignedBuf, Device};
use spindle_vfs::{Error, Result};

/// Where a log is on its device, and the shape of its ring. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Where the log begins on the device.
    pub at: u64,
    /// Length of the log with its headers.
    pub len: u64,
    /// A log block: headers and records are whole numbers of it.
    pub block: u64,
    /// Where the ring begins in the log.
    pub circ_off: u64,
    /// Length of the ring.
    pub circ_size: u64,
}

impl Ring {
    /// Returns the bytes of the smallest ring that is read, with log blocks of `block` bytes.
    #[must_use]
    pub const fn least(block: u64) -> u64 {
        32 * block
    }

    /// Returns the ring of a new log of `len` bytes at byte `at`.
    #[must_use]
    pub const fn new(at: u64, len: u64, block: u64) -> Self {
        let circ_off = 2 * block;
        let circ_size = len.saturating_sub(circ_off) / block * block;
        Self { at, len, block, circ_off, circ_size }
    }

    /// Returns the ring that a header describes, within a log of `len` bytes at byte `at`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it does not fit.
    pub fn of(header: &WcHeader, at: u64, len: u64) -> Result<Self> {
        let damage = |what: String| Err(Error::corrupt(what, format!("log at byte {at}")));
        if !(9..=16).contains(&header.wc_log_dev_bshift)
            || header.wc_fs_dev_bshift != super::format::DEV_BSHIFT
        {
            return damage(format!(
                "blocks of 2^{} and 2^{} bytes",
                header.wc_log_dev_bshift, header.wc_fs_dev_bshift
            ));
        }
        let block = 1 << header.wc_log_dev_bshift;
        let (circ_off, circ_size) = (header.wc_circ_off, header.wc_circ_size);
        let ring = Self { at, len, block, circ_off, circ_size };
        let aligned = circ_off.is_multiple_of(block) && circ_size.is_multiple_of(block);
        let fits = circ_off.checked_add(circ_size).is_some_and(|end| end <= len);
        if !aligned || !fits || circ_off < 2 * block || circ_size < Self::least(block).min(len / 2) {
            return damage(format!("a ring of {circ_size} bytes at {circ_off} in a log of {len}"));
        }
        let empty = header.wc_head == 0 && header.wc_tail == 0;
        if !empty && [header.wc_head, header.wc_tail].into_iter().any(|place| !ring.holds(place)) {
            return damage(format!("records from {} to {}", header.wc_tail, header.wc_head));
        }
        Ok(ring)
    }

    /// Returns true for a place where a record can begin.
    #[must_use]
    pub const fn holds(&self, place: u64) -> bool {
        place >= self.circ_off && place < self.circ_off + self.circ_size && place.is_multiple_of(self.block)
    }

    /// Returns the place `bytes` after `place`, around the end; `place` 0 stands for the beginning.
    /// At most once around.
    #[must_use]
    pub const fn advance(&self, place: u64, bytes: u64) -> u64 {
        self.circ_off + (place.saturating_sub(self.circ_off) + bytes) % self.circ_size
    }

    /// Returns the place `bytes` before `place`, which is in the ring; at most once around.
    #[must_use]
    pub const fn back(&self, place: u64, bytes: u64) -> u64 {
        self.advance(place, self.circ_size - bytes % self.circ_size)
    }

    /// Returns the bytes from `tail` to `head`, which stands for a full ring if they are the same
    /// and not 0.
    #[must_use]
    pub const fn used(&self, head: u64, tail: u64) -> u64 {
        if head == 0 && tail == 0 {
            0
        } else if head > tail {
            head - tail
        } else {
            self.circ_size - (tail - head)
        }
    }

    /// Returns the one or two parts of the device that `len` bytes at `place` take: address, and
    /// where in the bytes.
    fn parts(&self, place: u64, len: u64) -> [(u64, std::ops::Range<usize>); 2] {
        let place = place.max(self.circ_off);
        let first = len.min(self.circ_off + self.circ_size - place);
        let index = crate::format::units::index;
        [(self.at + place, 0..index(first)), (self.at + self.circ_off, index(first)..index(len))]
    }

    /// Reads at a place of the ring.
    ///
    /// # Errors
    /// Device errors.
    pub fn read(&self, device: &dyn Device, place: u64, out: &mut [u8]) -> Result<()> {
        for (at, part) in self.parts(place, out.len() as u64) {
            if !part.is_empty() {
                device.read_at(at, &mut out[part])?;
            }
        }
        Ok(())
    }

    /// Writes at a place of the ring.
    ///
    /// # Errors
    /// Device errors.
    pub fn write(&self, device: &dyn Device, place: u64, bytes: &[u8]) -> spindle_device::Result<()> {
        const MOST: usize = 1 << 20;
        let mut tickets = Vec::new();
        for (at, part) in self.parts(place, bytes.len() as u64) {
            for (nth, piece) in bytes[part].chunks(MOST).enumerate() {
                let (op, offset) = (spindle_device::Op::Write, at + (nth * MOST) as u64);
                tickets.push(device.submit(spindle_device::Request {
                    op,
                    offset,
                    buf: AlignedBuf::from(piece),
                }));
            }
        }
        // Each that was started is waited for, whatever came of the others.
        let mut result = Ok(());
        for ticket in tickets {
            result = result.and(ticket.and_then(|ticket| device.wait(ticket)).map(drop));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_device::MemoryDevice;

    /// Promise: what is written across the end of the ring is read back, the header's blocks stay
    /// as they are, and the space in use is counted right on both sides.
    #[test]
    fn wraps_around() {
        let device = MemoryDevice::new(1 << 20);
        let ring = Ring::new(4096, 32 << 10, 512);
        let bytes: Vec<u8> = (0..4096u32).map(|n| n.to_le_bytes()[0] | 1).collect();
        let place = ring.circ_off + ring.circ_size - 1024;
        ring.write(&device, place, &bytes).unwrap();
        let mut back = vec![0; 4096];
        ring.read(&device, place, &mut back).unwrap();
        assert!(back == bytes);
        let all = device.to_bytes();
        assert!(all[4096..4096 + 1024].iter().all(|&b| b == 0));
        assert!(all[4096 + (32 << 10)..].iter().all(|&b| b == 0));
        let head = ring.advance(place, 4096);
        assert_eq!((head, ring.used(head, place)), (ring.circ_off + 3072, 4096));
        assert_eq!((ring.used(0, 0), ring.used(place, place)), (0, ring.circ_size));
    }
}
