//! A device in memory, for tests and for images that are built before they are written.

use crate::{AlignedBuf, Device, Info, Op, Request, Result, Ticket};
use spindle_clock::{Mutex, RwLock};
use std::collections::HashMap;
use std::iter::repeat_n;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size in bytes of a lazily allocated chunk.
const CHUNK: usize = 64 * 1024;

/// Locks for the chunks, and for the transfers, which take turns.
const SHARDS: usize = 16;

/// A sparse device in memory: bytes that are not written, or only with zeros, take no memory.
pub struct MemoryDevice {
    info: Info,
    chunks: [Chunks; SHARDS],
    /// The number of the last transfer.
    last: AtomicU64,
    finished: [Finished; SHARDS],
}

/// Some of the chunks, by number; alone in their cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Chunks(RwLock<HashMap<u64, Arc<[u8]>>>);

/// The buffers of some of the transfers, by number; alone in their cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Finished(Mutex<HashMap<u64, AlignedBuf>>);

/// Returns the place of a number among those that take turns.
fn turn(number: u64) -> usize {
    usize::try_from(number % SHARDS as u64).expect("less than the number of locks")
}

impl MemoryDevice {
    /// Returns a device of `size_bytes` zero bytes with sectors of 512, rounded down to whole
    /// sectors.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self {
            info: Info {
                name: "memory".into(),
                size_bytes: size_bytes / 512 * 512,
                sector_bytes: 512,
                read_only: false,
            },
            chunks: Default::default(),
            last: AtomicU64::default(),
            finished: Default::default(),
        }
    }

    /// Returns a device that contains `bytes`, padded with zeros to whole sectors.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let device = Self::new((bytes.len() as u64).next_multiple_of(512));
        device.put(0, bytes);
        device
    }

    /// Sets larger sectors, a power of two in bytes; the size is rounded down to whole ones.
    #[must_use]
    pub fn with_sectors(mut self, sector_bytes: u32) -> Self {
        self.info.size_bytes -= self.info.size_bytes % u64::from(sector_bytes);
        self.info.sector_bytes = sector_bytes;
        self
    }

    /// Returns a copy of this device. Memory is shared until one of them is written to.
    #[must_use]
    pub fn branch(&self) -> Self {
        let chunks = self.chunks.each_ref().map(|chunks| Chunks(RwLock::new(chunks.0.read().clone())));
        Self { info: self.info.clone(), chunks, last: AtomicU64::default(), finished: Default::default() }
    }

    /// Returns the content of the device.
    ///
    /// # Panics
    /// Panics if the device is larger than the address space.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.info.size_bytes).expect("fits in memory")];
        self.get(0, &mut bytes);
        bytes
    }

    /// Splits `len` bytes at `offset` into pieces: chunk, offset in the chunk, offset in the range,
    /// length.
    fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let within = usize::try_from(at % CHUNK as u64).expect("less than a chunk");
            let n = (CHUNK - within).min(len - done);
            let piece = (at / CHUNK as u64, within, done, n);
            done += n;
            (n > 0).then_some(piece)
        })
    }

    fn get(&self, offset: u64, buf: &mut [u8]) {
        for (chunk, within, at, n) in Self::pieces(offset, buf.len()) {
            match self.chunks[turn(chunk)].0.read().get(&chunk) {
                Some(bytes) => buf[at..at + n].copy_from_slice(&bytes[within..within + n]),
                None => buf[at..at + n].fill(0),
            }
        }
    }

    fn put(&self, offset: u64, buf: &[u8]) {
        for (chunk, within, at, n) in Self::pieces(offset, buf.len()) {
            let mut chunks = self.chunks[turn(chunk)].0.write();
            if !chunks.contains_key(&chunk) && buf[at..at + n].iter().all(|&byte| byte == 0) {
                continue;
            }
            let bytes = chunks.entry(chunk).or_insert_with(|| repeat_n(0, CHUNK).collect());
            Arc::make_mut(bytes)[within..within + n].copy_from_slice(&buf[at..at + n]);
        }
    }
}

/// Devices are equal if they have the same size and content. Memory that they share is not read.
impl PartialEq for MemoryDevice {
    fn eq(&self, other: &Self) -> bool {
        let alike = |(ours, theirs): (&Chunks, &Chunks)| {
            let (ours, theirs) = (ours.0.read().clone(), theirs.0.read().clone());
            ours.keys().chain(theirs.keys()).all(|n| match (ours.get(n), theirs.get(n)) {
                (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs) || ours == theirs,
                (Some(one), None) | (None, Some(one)) => one.iter().all(|&byte| byte == 0),
                (None, None) => true,
            })
        };
        self.info.size_bytes == other.info.size_bytes && self.chunks.iter().zip(&other.chunks).all(alike)
    }
}

impl Device for MemoryDevice {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, mut request: Request) -> Result<Ticket> {
        match request.op {
            Op::Read => self.read_at(request.offset, &mut request.buf)?,
            Op::Write => self.write_at(request.offset, &request.buf)?,
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        self.finished[turn(number)].0.lock().insert(number, request.buf);
        Ok(Ticket::new(number))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let buf = self.finished[turn(ticket.id())].0.lock().remove(&ticket.id());
        Ok(buf.expect("each ticket is waited for once, on its device"))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.info.check(Op::Write, offset, len)?;
        for (chunk, _, _, n) in Self::pieces(offset, len) {
            if n == CHUNK {
                self.chunks[turn(chunk)].0.write().remove(&chunk);
            }
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.info.check(Op::Read, offset, buf.len())?;
        self.get(offset, buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.info.check(Op::Write, offset, buf.len())?;
        self.put(offset, buf);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: written data is read back, across chunk borders, and the rest is zero.
    #[test]
    fn reads_what_was_written() {
        let device = MemoryDevice::new(1 << 20);
        let data: Vec<u8> = (0..u8::MAX).cycle().take(2048).collect();
        device.write_at(65_536 - 1024, &data).unwrap();
        let mut back = vec![9; 4096];
        device.read_at(65_536 - 2048, &mut back).unwrap();
        assert!(back[..1024].iter().all(|&b| b == 0) && back[1024..3072] == data[..]);
        assert!(device.read_at(1 << 20, &mut back).is_err());
        assert!(device.write_at(100, &data).is_err());
    }

    /// Promise: a branch has the content of the original, and neither sees later writes to the
    /// other.
    #[test]
    fn branches_part() {
        let device = MemoryDevice::from_bytes(&vec![7; 200 << 10]);
        let branch = device.branch();
        branch.write_at((64 << 10) - 512, &[9; 1024]).unwrap();
        device.write_at(0, &[8; 512]).unwrap();
        let (ours, theirs) = (device.to_bytes(), branch.to_bytes());
        assert!(ours[..512] == [8; 512] && ours[512..] == vec![7; (200 << 10) - 512]);
        assert!(theirs[..512] == [7; 512] && theirs[(64 << 10) - 512..(64 << 10) + 512] == [9; 1024]);
    }

    /// Promise: a branch equals its original until one of them holds other bytes; zeros that were
    /// written are those that never were.
    #[test]
    fn equal_content() {
        let device = MemoryDevice::from_bytes(&vec![7; 200 << 10]);
        let branch = device.branch();
        assert!(device == branch);
        branch.write_at(0, &[8; 512]).unwrap();
        assert!(device != branch);
        branch.write_at(0, &[7; 512]).unwrap();
        assert!(device == branch);
        let (zeros, none) = (MemoryDevice::new(1 << 20), MemoryDevice::new(1 << 20));
        for (byte, equal) in [(1, false), (0, true)] {
            zeros.write_at(0, &[byte; 512]).unwrap();
            assert_eq!((zeros == none, none == zeros), (equal, equal));
        }
        assert!(none != MemoryDevice::new(2 << 20));
    }
}
