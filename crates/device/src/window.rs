//! A part of a device as a device: a partition, or an image inside an image.

use crate::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use std::sync::Arc;

/// The bytes `offset..offset + len` of another device.
///
/// Requests are checked against the window before they are passed on, so nothing outside it is ever
/// accessed.
pub struct Window {
    inner: Arc<dyn Device>,
    offset: u64,
    info: Info,
}

impl Window {
    /// Returns a window called `name` of `len` bytes at `offset` of `inner`; `len` is rounded down
    /// to whole sectors.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] or [`Error::Misaligned`] if it is not within `inner`, on whole
    /// sectors.
    pub fn new(inner: Arc<dyn Device>, offset: u64, len: u64, name: String) -> Result<Self> {
        let Info { size_bytes, sector_bytes, read_only, .. } = *inner.info();
        let sector = u64::from(sector_bytes);
        if offset.checked_add(len).is_none_or(|end| end > size_bytes) {
            return Err(Error::OutOfRange {
                device: inner.info().name.clone(),
                offset,
                len,
                size: size_bytes,
            });
        }
        if !offset.is_multiple_of(sector) {
            return Err(Error::Misaligned { device: inner.info().name.clone(), offset, len });
        }
        let info = Info { name, size_bytes: len / sector * sector, sector_bytes, read_only };
        Ok(Self { inner, offset, info })
    }

    /// Returns the same window without writes, also where the device below has them.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.info.read_only = true;
        self
    }

    /// Returns the offset of the window on the device below, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Device for Window {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        self.info.check(request.op, request.offset, request.buf.len())?;
        self.inner.submit(Request { offset: self.offset + request.offset, ..request })
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.inner.wait(ticket)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.info.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))?;
        self.inner.discard(self.offset + offset, len)
    }

    fn prepare(&self, offset: u64) {
        self.inner.prepare(self.offset + offset);
    }

    fn place(&self, offset: u64) -> u64 {
        self.offset + offset
    }

    fn next_data(&self, offset: u64) -> u64 {
        self.inner.next_data(self.offset + offset) - self.offset
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.info.check(Op::Read, offset, buf.len())?;
        self.inner.read_at(self.offset + offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.info.check(Op::Write, offset, buf.len())?;
        self.inner.write_at(self.offset + offset, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    /// Promise: a window maps its part to its own addresses and refuses anything beyond its ends.
    #[test]
    fn windows_are_confined() {
        let inner = Arc::new(MemoryDevice::new(1 << 16));
        let window = Window::new(inner.clone(), 4096, 2048 + 100, "part".into()).unwrap();
        assert_eq!(window.info().size_bytes, 2048);
        window.write_at(512, &[7; 512]).unwrap();
        let ticket =
            window.submit(Request { op: Op::Read, offset: 512, buf: AlignedBuf::zeroed(512) }).unwrap();
        assert!(window.wait(ticket).unwrap().iter().all(|&b| b == 7));
        let bytes = inner.to_bytes();
        assert!((0..).zip(&bytes).all(|(i, &b)| b == if (4608..5120).contains(&i) { 7 } else { 0 }));
        for (offset, len) in [(2048, 512), (1536, 1024), (u64::MAX - 511, 512)] {
            let buf = vec![1; len];
            assert!(matches!(window.write_at(offset, &buf), Err(Error::OutOfRange { .. })));
            assert!(window.discard(offset, len as u64).is_err());
            let request = Request { op: Op::Write, offset, buf: AlignedBuf::from(&buf[..]) };
            assert!(matches!(window.submit(request), Err(Error::OutOfRange { .. })));
        }
        assert_eq!(inner.to_bytes(), bytes);
    }

    /// Promise: a window that is not on whole sectors of the device is refused.
    #[test]
    fn windows_must_be_within_the_device() {
        let new = |offset, len| Window::new(Arc::new(MemoryDevice::new(8192)), offset, len, String::new());
        assert!(matches!(new(4096, 4608), Err(Error::OutOfRange { .. })));
        assert!(matches!(new(u64::MAX - 1, 512), Err(Error::OutOfRange { .. })));
        assert!(matches!(new(100, 512), Err(Error::Misaligned { .. })));
        assert!(new(4096, 4096).is_ok());
    }
}
