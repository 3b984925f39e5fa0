//! Reading for the check: one window on the device that moves forward in large runs.

use crate::format::units::index;
use spindle_device::{Device, Error, Result};

/// Reads any bytes of the device by way of one window of whole sectors.
pub(crate) struct Reader<'a> {
    device: &'a dyn Device,
    window: Vec<u8>,
    start: u64,
    /// Bytes that came from the device so far.
    pub(crate) bytes_read: u64,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(device: &'a dyn Device) -> Self {
        Self { device, window: Vec::new(), start: 0, bytes_read: 0 }
    }

    /// Returns the bytes `at..at + len`. If they are not at hand, up to `ahead` bytes are read in
    /// their place; when that fails, just these.
    pub(crate) fn read(&mut self, at: u64, len: usize, ahead: usize) -> Result<&[u8]> {
        let info = self.device.info();
        if at.checked_add(len as u64).is_none_or(|end| end > info.size_bytes) {
            let (device, size) = (info.name.clone(), info.size_bytes);
            return Err(Error::OutOfRange { device, offset: at, len: len as u64, size });
        }
        let held = at >= self.start && at + len as u64 <= self.start + self.window.len() as u64;
        if !held && (ahead <= len || self.fill(at, ahead).is_err()) {
            self.fill(at, len)?;
        }
        let from = index(at - self.start);
        Ok(&self.window[from..from + len])
    }

    fn fill(&mut self, at: u64, len: usize) -> Result<()> {
        let info = self.device.info();
        let sector = u64::from(info.sector_bytes);
        let start = at / sector * sector;
        let end = (at + len as u64).next_multiple_of(sector).min(info.size_bytes);
        self.window.resize(index(end - start), 0);
        self.start = start;
        if let Err(error) = self.device.read_at(start, &mut self.window) {
            self.window.clear();
            return Err(error);
        }
        self.bytes_read += end - start;
        Ok(())
    }
}
