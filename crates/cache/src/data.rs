//! File data: passed straight between the caller and the device.
//!
//! Whole sectors go without a copy; a partial sector at either end goes through a sector of our own, which for a
//! write is read first. The caller's lock on the file keeps two writers out of one sector.

use crate::Cache;
use spindle_device::Result;

/// A byte range cut at sector borders: a part of a sector, whole sectors, a part of a sector.
struct Cut {
    head: usize,
    body: usize,
}

impl Cut {
    fn new(at: u64, len: usize, sector: u64) -> Self {
        let over = usize::try_from(at % sector).unwrap_or(0);
        let sector = usize::try_from(sector).unwrap_or(usize::MAX);
        let head = if over == 0 { 0 } else { (sector - over).min(len) };
        Self { head, body: (len - head) / sector * sector }
    }
}

impl Cache {
    fn sector(&self) -> u64 {
        self.device.info().sector_bytes.into()
    }

    /// Reads file data at byte `at`.
    ///
    /// # Errors
    /// When the device fails.
    pub fn read(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        let cut = Cut::new(at, buf.len(), self.sector());
        let (head, rest) = buf.split_at_mut(cut.head);
        let (body, tail) = rest.split_at_mut(cut.body);
        self.read_part(at, head)?;
        if !body.is_empty() {
            self.device.read_at(at + head.len() as u64, body)?;
        }
        self.read_part(at + (head.len() + body.len()) as u64, tail)
    }

    /// Writes file data at byte `at`.
    ///
    /// # Errors
    /// When the device fails, or an earlier write failed.
    pub fn write(&self, at: u64, buf: &[u8]) -> Result<()> {
        self.check()?;
        let cut = Cut::new(at, buf.len(), self.sector());
        let (head, rest) = buf.split_at(cut.head);
        let (body, tail) = rest.split_at(cut.body);
        self.write_part(at, head)
            .and_then(|()| {
                if body.is_empty() { Ok(()) } else { self.device.write_at(at + head.len() as u64, body) }
            })
            .and_then(|()| self.write_part(at + (head.len() + body.len()) as u64, tail))
            .map_err(|error| self.fail(error))
    }

    fn read_part(&self, at: u64, part: &mut [u8]) -> Result<()> {
        if !part.is_empty() {
            let (sector, start) = self.sector_of(at)?;
            part.copy_from_slice(&sector[start..start + part.len()]);
        }
        Ok(())
    }

    fn write_part(&self, at: u64, part: &[u8]) -> Result<()> {
        if !part.is_empty() {
            let (mut sector, start) = self.sector_of(at)?;
            sector[start..start + part.len()].copy_from_slice(part);
            self.device.write_at(at - start as u64, &sector)?;
        }
        Ok(())
    }

    /// The sector that holds byte `at`, and the byte's place in it.
    fn sector_of(&self, at: u64) -> Result<(Vec<u8>, usize)> {
        let size = self.sector();
        let start = usize::try_from(at % size).unwrap_or(0);
        let mut sector = vec![0; usize::try_from(size).unwrap_or(0)];
        self.device.read_at(at - start as u64, &mut sector)?;
        Ok((sector, start))
    }
}
