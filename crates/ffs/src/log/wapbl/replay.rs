//! Reading a log: what a crash has left in it.
//!
//! The records from tail to head are gone through once. What counts is, for each block, the last
//! content that no later revocation takes back, and the last list of inodes without names. Nothing
//! is written here.

use super::format::{
    BLOCK_ENTRY, DEV_BSIZE, INODE_ENTRY, LIST_ENTRIES, Stamp, WAPBL_WC_BLOCKS, WAPBL_WC_INODES,
    WAPBL_WC_REVOCATIONS, WcHeader, header_at,
};
use super::ring::Ring;
use crate::format::units::index;
use spindle_device::{CowDevice, Device};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A log as it was found.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The header that counts.
    pub header: WcHeader,
    /// Byte order of the log.
    pub endian: Endian,
    /// Where it is.
    pub ring: Ring,
    /// Where in the ring the content of each block stands, by address in units of [`DEV_BSIZE`].
    blocks: BTreeMap<u64, u64>,
    /// Inodes without names that were still in use, with their modes.
    inodes: Vec<(u32, u32)>,
}

impl Replay {
    /// Reads the log of at most `len` bytes at byte `at`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not one, or its records cannot be followed; device errors.
    pub fn read(device: &dyn Device, at: u64, len: u64) -> Result<Self> {
        let (header, endian) = newest_header(device, at, len)?;
        let ring = Ring::of(&header, at, len)?;
        let mut replay = Self { header, endian, ring, blocks: BTreeMap::new(), inodes: Vec::new() };
        replay.follow(device)?;
        Ok(replay)
    }

    /// Returns true if there is nothing to replay.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.inodes.is_empty()
    }

    /// Returns the blocks of [`DEV_BSIZE`] whose content is newer here.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the inodes without names, with their modes.
    pub fn orphans(&self) -> impl Iterator<Item = (u32, u16)> {
        self.inodes.iter().map(|&(ino, mode)| (ino, u16::try_from(mode).unwrap_or(0)))
    }

    /// Returns the stamp, if we have written the log.
    #[must_use]
    pub fn stamp(&self) -> Option<Stamp> {
        self.header.stamp(self.ring.at)
    }

    /// Notes durably that the superblock is going to be written, in the log of a file system that
    /// is clean and not mounted: its records are in their places, and are given up.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn restamp(&self, device: &dyn Device, stamp: &Stamp) -> Result<()> {
        let generation = self.header.wc_generation.wrapping_add(1);
        let mut header = WcHeader { wc_generation: generation, wc_head: 0, wc_tail: 0, ..self.header };
        header.set_stamp(self.ring.at, stamp);
        let mut block = vec![0; index(self.ring.block)];
        header.encode(&mut block, self.endian);
        device.write_at(self.ring.at + u64::from(generation % 2) * self.ring.block, &block)?;
        Ok(device.flush()?)
    }

    fn follow(&mut self, device: &dyn Device) -> Result<()> {
        let (head, tail) = (self.header.wc_head, self.header.wc_tail);
        let ring = self.ring;
        let mut left = ring.used(head, tail);
        let mut place = tail;
        while left > 0 {
            let damage =
                |what: String| Err(Error::corrupt(what, format!("log at byte {}, record {place}", ring.at)));
            let mut block = vec![0; index(ring.block)];
            ring.read(device, place, &mut block)?;
            let word = |n: usize| u32::get(&block[n * 4..], self.endian);
            let (kind, len, count) = (word(0), u64::from(word(1)), word(2) as usize);
            if len < ring.block || !len.is_multiple_of(ring.block) || len > left {
                return damage(format!("a record of {len} bytes, {left} are left"));
            }
            let entry = if kind == WAPBL_WC_INODES { INODE_ENTRY } else { BLOCK_ENTRY };
            let Some(entries) = block[LIST_ENTRIES..].get(..count.saturating_mul(entry)) else {
                return damage(format!("{count} entries in a block of {}", ring.block));
            };
            match kind {
                WAPBL_WC_BLOCKS => {
                    let mut content = ring.advance(place, ring.block);
                    let mut room = len - ring.block;
                    for (daddr, bytes) in extents(entries, self.endian) {
                        if bytes > room || daddr.checked_add(bytes / DEV_BSIZE).is_none() {
                            return damage(format!("block {daddr} of {bytes} bytes"));
                        }
                        room -= bytes;
                        for n in 0..bytes / DEV_BSIZE {
                            self.blocks.insert(daddr + n, content);
                            content = ring.advance(content, DEV_BSIZE);
                        }
                    }
                }
                WAPBL_WC_REVOCATIONS => {
                    for (daddr, bytes) in extents(entries, self.endian) {
                        let end = daddr.saturating_add(bytes / DEV_BSIZE);
                        let gone: Vec<_> = self.blocks.range(daddr..end).map(|(&at, _)| at).collect();
                        for at in gone {
                            self.blocks.remove(&at);
                        }
                    }
                }
                WAPBL_WC_INODES => {
                    if word(3) != 0 {
                        self.inodes.clear();
                    }
                    let pair =
                        |bytes: &[u8]| (u32::get(bytes, self.endian), u32::get(&bytes[4..], self.endian));
                    self.inodes.extend(entries.chunks_exact(INODE_ENTRY).map(pair));
                }
                _ => return damage(format!("a record of type {kind:#x}")),
            }
            left -= len;
            place = ring.advance(place, len);
        }
        Ok(())
    }

    /// Returns every run of blocks whose content is newer here, in the order of their addresses:
    /// address in bytes, content.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for one outside the device; device errors.
    pub fn changes(&self, device: &dyn Device) -> Result<Vec<(u64, Vec<u8>)>> {
        const MOST: usize = 1 << 20;
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (&daddr, &place) in &self.blocks {
            let at = daddr.checked_mul(DEV_BSIZE).filter(|&at| {
                at.checked_add(DEV_BSIZE).is_some_and(|end| end <= device.info().size_bytes)
                    && !(self.ring.at..self.ring.at + self.ring.len).contains(&at)
            });
            let Some(at) = at else {
                let what = format!("block {daddr} is outside the file system, or in the log itself");
                return Err(Error::corrupt(what, format!("log at byte {}", self.ring.at)));
            };
            let mut bytes = vec![0; index(DEV_BSIZE)];
            self.read_block(device, place, &mut bytes)?;
            match runs.last_mut() {
                Some((start, run)) if *start + run.len() as u64 == at && run.len() < MOST => {
                    run.extend_from_slice(&bytes);
                }
                _ => runs.push((at, bytes)),
            }
        }
        Ok(runs)
    }

    /// Reads one block of [`DEV_BSIZE`] from the ring, whatever the sectors of the device.
    fn read_block(&self, device: &dyn Device, place: u64, out: &mut [u8]) -> Result<()> {
        let start = place / self.ring.block * self.ring.block;
        let mut block = vec![0; index(self.ring.block)];
        self.ring.read(device, start, &mut block)?;
        let within = index(place - start);
        out.copy_from_slice(&block[within..within + out.len()]);
        Ok(())
    }

    /// Writes every change to its place and makes that durable. The log stays as it is, so it can
    /// be done again.
    ///
    /// # Errors
    /// As [`Self::changes`].
    pub fn replay(&self, device: &dyn Device) -> Result<()> {
        let sector = u64::from(device.info().sector_bytes);
        for (at, bytes) in self.changes(device)? {
            let start = at / sector * sector;
            let end = (at + bytes.len() as u64).next_multiple_of(sector);
            if (start, end) == (at, at + bytes.len() as u64) {
                device.write_at(at, &bytes)?;
            } else {
                let mut whole = vec![0; index(end - start)];
                device.read_at(start, &mut whole)?;
                whole[index(at - start)..][..bytes.len()].copy_from_slice(&bytes);
                device.write_at(start, &whole)?;
            }
        }
        Ok(device.flush()?)
    }

    /// Returns the device as it is after [`Self::replay`], without a write: for looking at what
    /// must not be changed.
    ///
    /// # Errors
    /// As [`Self::changes`].
    pub fn view(&self, device: Arc<dyn Device>) -> Result<Arc<dyn Device>> {
        let trial = CowDevice::new(device);
        self.replay(&trial)?;
        Ok(Arc::new(trial.read_only()))
    }
}

/// Returns the entries of a list of blocks: address in units of [`DEV_BSIZE`], bytes.
fn extents(entries: &[u8], endian: Endian) -> impl Iterator<Item = (u64, u64)> {
    entries.chunks_exact(BLOCK_ENTRY).map(move |entry| {
        (u64::get(entry, endian), u64::from(u32::get(&entry[12..], endian)) / DEV_BSIZE * DEV_BSIZE)
    })
}

/// Returns the header with the greater generation.
fn newest_header(device: &dyn Device, at: u64, len: u64) -> Result<(WcHeader, Endian)> {
    const LARGEST_BLOCK: u64 = 1 << 16;
    let none = |what: &str| Error::corrupt(what, format!("log at byte {at}"));
    let sector = u64::from(device.info().sector_bytes);
    let outside = at.checked_add(len).is_none_or(|end| end > device.info().size_bytes);
    if outside || !at.is_multiple_of(sector) || len < 2 * Ring::least(sector) {
        return Err(none("no room for a log"));
    }
    let mut start = vec![0; index(len.min(2 * LARGEST_BLOCK) / sector * sector)];
    device.read_at(at, &mut start)?;
    let first = header_at(&start);
    // If the first is torn, ours has blocks of a sector.
    let block = first.map_or(sector, |(header, _)| 1_u64.checked_shl(header.wc_log_dev_bshift).unwrap_or(0));
    if !block.is_multiple_of(sector) || block == 0 || block > LARGEST_BLOCK {
        return Err(none("log blocks that are not whole sectors"));
    }
    let second = start.get(index(block)..).filter(|rest| rest.len() >= WcHeader::SIZE).and_then(header_at);
    let both = [first, second].into_iter().flatten();
    both.max_by_key(|(header, _)| header.wc_generation).ok_or_else(|| none("no header"))
}
