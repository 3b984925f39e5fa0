//! Reading a device from one end to the other in large pieces, past what cannot be read, to look
//! for something at each sector.

use crate::Device;
use std::ops::Range;

/// Bytes of the sectors that are looked at, the smallest of any device.
const SECTOR: usize = 512;
/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// A walk through some bytes of a device. Holes of an image file are passed over.
pub struct Scan<'a> {
    device: &'a dyn Device,
    at: u64,
    end: u64,
    /// Bytes from the beginning of a sector on that are shown with it.
    reach: usize,
    buffer: Vec<u8>,
    read_bytes: u64,
    unreadable_bytes: u64,
}

/// A piece of a device.
pub struct Piece<'a> {
    at: u64,
    /// Bytes whose sectors belong to this piece; more follow in `bytes`, for the last of them.
    len: usize,
    reach: usize,
    bytes: &'a [u8],
}

impl<'a> Scan<'a> {
    /// Returns a walk through `bytes` of the device, which shows each sector of 512 bytes with
    /// `reach` bytes from its first one on.
    #[must_use]
    pub fn new(device: &'a dyn Device, bytes: Range<u64>, reach: usize) -> Self {
        let sector = u64::from(device.info().sector_bytes);
        let end = bytes.end.min(device.info().size_bytes);
        let buffer = vec![0; PIECE + reach.next_multiple_of(usize::try_from(sector).unwrap_or(SECTOR))];
        let at = bytes.start / sector * sector;
        Self { device, at, end, reach, buffer, read_bytes: 0, unreadable_bytes: 0 }
    }

    /// Reads the next piece that may hold something; none behind the last one.
    pub fn next_piece(&mut self) -> Option<Piece<'_>> {
        let info = self.device.info();
        let sector = u64::from(info.sector_bytes);
        // What begins in front of data may reach into it.
        let data = self.device.next_data(self.at).saturating_sub(self.reach as u64);
        let start = self.at.max(data / sector * sector);
        if start >= self.end {
            self.at = self.at.max(self.end);
            return None;
        }
        let left = usize::try_from(info.size_bytes - start).unwrap_or(usize::MAX);
        let whole = self.buffer.len().min(left);
        let bytes = &mut self.buffer[..whole];
        let len = PIECE.min(usize::try_from(self.end - start).unwrap_or(PIECE)).min(whole);
        if self.device.read_at(start, bytes).is_err() {
            let (own, behind) = bytes.split_at_mut(len);
            self.unreadable_bytes += read_past(self.device, start, own);
            read_past(self.device, start + len as u64, behind);
        }
        self.read_bytes += len as u64;
        self.at = start + len as u64;
        Some(Piece { at: start, len, reach: self.reach, bytes })
    }

    /// Returns the byte of the device up to which everything was looked at.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.at
    }

    /// Returns how many bytes were read; holes do not count.
    #[must_use]
    pub const fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Returns how many bytes could not be read. They were shown as zeros.
    #[must_use]
    pub const fn unreadable_bytes(&self) -> u64 {
        self.unreadable_bytes
    }
}

impl Piece<'_> {
    /// Returns the byte of each sector of the piece on the device, and its bytes with those behind
    /// it: fewer at the end of the device.
    pub fn sectors(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (0..self.len).step_by(SECTOR).map(|from| {
            let until = self.bytes.len().min(from + self.reach);
            (self.at + from as u64, &self.bytes[from..until])
        })
    }
}

/// Reads `bytes` at byte `at`, with zeros for what cannot be read, and returns how much that is.
fn read_past(device: &dyn Device, at: u64, bytes: &mut [u8]) -> u64 {
    if device.read_at(at, bytes).is_ok() {
        return 0;
    }
    let sector = device.info().sector_bytes as usize;
    if bytes.len() <= sector {
        bytes.fill(0);
        return bytes.len() as u64;
    }
    let (first, second) = bytes.split_at_mut((bytes.len() / 2).next_multiple_of(sector));
    read_past(device, at, first) + read_past(device, at + first.len() as u64, second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlignedBuf, Error, FileDevice, Info, MemoryDevice, OpenOptions, Request, Result, Ticket};
    use std::os::unix::fs::FileExt;

    /// A device of which one sector cannot be read.
    struct BadSector(MemoryDevice, u64);

    impl Device for BadSector {
        fn info(&self) -> &Info {
            self.0.info()
        }

        fn submit(&self, request: Request) -> Result<Ticket> {
            if (request.offset..request.offset + request.buf.len() as u64).contains(&self.1) {
                return Err(Error::io("bad", "reading", std::io::Error::other("bad sector")));
            }
            self.0.submit(request)
        }

        fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
            self.0.wait(ticket)
        }

        fn flush(&self) -> Result<()> {
            self.0.flush()
        }

        fn discard(&self, offset: u64, len: u64) -> Result<()> {
            self.0.discard(offset, len)
        }
    }

    /// Returns the sectors at which the reach begins with `mark` and ends with it.
    fn marked(scan: &mut Scan<'_>, mark: u8) -> Vec<u64> {
        let mut found = Vec::new();
        while let Some(piece) = scan.next_piece() {
            let is_marked = |bytes: &[u8]| bytes.len() == 1024 && bytes[0] == mark && bytes[1023] == mark;
            found.extend(piece.sectors().filter(|(_, bytes)| is_marked(bytes)).map(|(at, _)| at));
        }
        found
    }

    /// Promise: each sector is shown once with all that it reaches, also across two pieces and at
    /// both ends, and what cannot be read costs only itself.
    #[test]
    fn each_sector_is_shown_once() {
        let device = MemoryDevice::new(3 << 20);
        let places = [0, (1 << 20) - 512, (2 << 20) - 2048, 2 << 20, (3 << 20) - 1024];
        for at in places {
            device.write_at(at, &[7; 1024]).unwrap();
        }
        let mut scan = Scan::new(&device, 0..u64::MAX, 1024);
        assert_eq!(marked(&mut scan, 7), places);
        assert_eq!((scan.position(), scan.unreadable_bytes()), (3 << 20, 0));
        let mut part = Scan::new(&device, 512..(2 << 20) - 512, 1024);
        assert_eq!(marked(&mut part, 7), places[1..3]);
        let device = BadSector(device, (2 << 20) + 512);
        let mut scan = Scan::new(&device, 0..u64::MAX, 1024);
        assert_eq!(marked(&mut scan, 7), [places[0], places[1], places[2], places[4]]);
        assert_eq!(scan.unreadable_bytes(), 512);
    }

    /// Promise: holes of a file are not read, however long they are, and nothing between them is
    /// missed.
    #[test]
    fn holes_are_passed_over() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        let places = [(7 << 20) + 512, 1 << 36, (1 << 40) - 1024];
        for at in places {
            file.as_file().write_all_at(&[7; 1024], at).unwrap();
        }
        let device = FileDevice::open(file.path(), &OpenOptions::read_only()).unwrap();
        let mut scan = Scan::new(&device, 0..u64::MAX, 1024);
        assert_eq!(marked(&mut scan, 7), places);
        assert!(scan.read_bytes() < 16 << 20, "{}", scan.read_bytes());
    }
}
