//! Pages of the allocation map of data storage: a bit for each block, and above it a bit for each
//! striped track, which is set if the whole track is free (paper, section 4.3 and figure 4).

use super::checksum::{is_sealed, seal};
use spindle_ondisk::{Endian, structure};
use spindle_vfs::{Error, Result};
use std::ops::Range;

/// Bytes of a page.
pub const MAP_PAGE_BYTES: usize = 4096;
const MAGIC: u32 = u32::from_le_bytes(*b"MMap");
const CHECKSUM: usize = 4;
const TRACKS: usize = 16;
const TRACK_BYTES: usize = 48;
const BLOCKS: usize = TRACKS + TRACK_BYTES;
const BLOCK_BYTES: usize = MAP_PAGE_BYTES - BLOCKS;

structure! {
    /// The head of a page. The bits of tracks follow at byte 16, those of blocks at byte 64.
    pub struct DiskMapPage: 16 {
        /// `MMap`.
        0 magic: u32,
        /// CRC-32C of the page.
        4 checksum: u32,
        /// Position of the page.
        8 number: u32,
        /// Free blocks.
        12 free: u32,
    }
}

/// Returns the tracks of `track_blocks` blocks that a page describes.
#[must_use]
pub const fn tracks_in_page(track_blocks: u32) -> u64 {
    let by_blocks = (BLOCK_BYTES * 8) as u64 / track_blocks as u64;
    if by_blocks < (TRACK_BYTES * 8) as u64 { by_blocks } else { (TRACK_BYTES * 8) as u64 }
}

/// The bytes of a page that has been checked, for reading.
pub struct MapPage<'a> {
    bytes: &'a [u8],
    track_blocks: u32,
}

impl<'a> MapPage<'a> {
    /// Checks a page.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn new(bytes: &'a [u8], number: u64, track_blocks: u32) -> Result<Self> {
        let disk = DiskMapPage::decode(bytes, Endian::Little);
        if disk.magic != MAGIC || u64::from(disk.number) != number || !is_sealed(bytes, CHECKSUM) {
            return Err(Error::corrupt("it is damaged", format!("page {number} of the allocation map")));
        }
        Ok(Self { bytes, track_blocks })
    }

    /// Returns the number of free blocks.
    #[must_use]
    pub fn free(&self) -> u32 {
        DiskMapPage::decode(self.bytes, Endian::Little).free
    }

    /// Returns true if a block of the page is free.
    #[must_use]
    pub fn is_free(&self, block: u32) -> bool {
        bit(&self.bytes[BLOCKS..], block)
    }

    /// Returns a wholly free track at or after `from`.
    #[must_use]
    pub fn free_track(&self, from: u32) -> Option<u32> {
        let tracks = u32::try_from(tracks_in_page(self.track_blocks)).unwrap_or(0);
        (from..tracks).find(|&track| bit(&self.bytes[TRACKS..], track))
    }

    /// Returns the free blocks from `block` on, at most `most`.
    #[must_use]
    pub fn run(&self, block: u32, most: u32) -> u32 {
        let blocks = u32::try_from(tracks_in_page(self.track_blocks)).unwrap_or(0) * self.track_blocks;
        let end = block.saturating_add(most).min(blocks);
        (block..end).find(|&block| !self.is_free(block)).unwrap_or(end) - block
    }

    /// Returns the first free run of at least `least` blocks from `from` on, of at most `most`.
    #[must_use]
    pub fn find(&self, from: u32, least: u32, most: u32) -> Option<Range<u32>> {
        let blocks = u32::try_from(tracks_in_page(self.track_blocks)).unwrap_or(0) * self.track_blocks;
        let mut at = from;
        while at < blocks {
            // Whole bytes in use are passed over at once.
            if at.is_multiple_of(8) && self.bytes[BLOCKS + at as usize / 8] == 0 {
                at += 8;
                continue;
            }
            let run = self.run(at, most);
            if run >= least && run > 0 {
                return Some(at..at + run);
            }
            at += run.max(1);
        }
        None
    }
}

/// Sets the bits of `range` to `free`, and the bits of the tracks and the count with them. Returns
/// false, and changes nothing, if one of them has that value already.
#[must_use]
pub fn set(bytes: &mut [u8], track_blocks: u32, range: Range<u32>, free: bool) -> bool {
    if range.clone().any(|block| bit(&bytes[BLOCKS..], block) == free) {
        return false;
    }
    for block in range.clone() {
        put_bit(&mut bytes[BLOCKS..], block, free);
    }
    for track in range.start / track_blocks..range.end.div_ceil(track_blocks) {
        let whole = (track * track_blocks..(track + 1) * track_blocks).all(|b| bit(&bytes[BLOCKS..], b));
        put_bit(&mut bytes[TRACKS..], track, whole);
    }
    let mut head = DiskMapPage::decode(bytes, Endian::Little);
    let count = range.end - range.start;
    head.free = if free { head.free.saturating_add(count) } else { head.free.saturating_sub(count) };
    head.encode(bytes, Endian::Little);
    seal(bytes, CHECKSUM);
    true
}

/// Fills a page with `blocks` free blocks.
pub fn make(bytes: &mut [u8], number: u64, track_blocks: u32, blocks: u32) {
    bytes.fill(0);
    let number = u32::try_from(number).unwrap_or(0);
    DiskMapPage { magic: MAGIC, checksum: 0, number, free: 0 }.encode(bytes, Endian::Little);
    let set = set(bytes, track_blocks, 0..blocks, true);
    debug_assert!(set || blocks == 0, "the page was empty");
    seal(bytes, CHECKSUM);
}

fn bit(bits: &[u8], n: u32) -> bool {
    bits[n as usize / 8] >> (n % 8) & 1 == 1
}

fn put_bit(bits: &mut [u8], n: u32, value: bool) {
    if value {
        bits[n as usize / 8] |= 1 << (n % 8);
    } else {
        bits[n as usize / 8] &= !(1 << (n % 8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the bits of tracks say which tracks are wholly free, and the count is that of the
    /// bits, whatever is allocated and freed.
    #[test]
    fn tracks_follow_blocks() {
        use rand::{Rng, SeedableRng};
        let mut rng = rand::rngs::StdRng::seed_from_u64(3);
        for track_blocks in [8, 24, 128, 8192] {
            let blocks = u32::try_from(tracks_in_page(track_blocks)).unwrap() * track_blocks;
            let mut bytes = vec![0; MAP_PAGE_BYTES];
            make(&mut bytes, 5, track_blocks, blocks);
            let mut free = vec![true; blocks as usize];
            for _ in 0..500 {
                let start = rng.random_range(0..blocks);
                let range = start..(start + rng.random_range(1..300)).min(blocks);
                let value = rng.random();
                let here = &mut free[range.start as usize..range.end as usize];
                let possible = here.iter().all(|&free| free != value);
                if possible {
                    here.fill(value);
                }
                assert_eq!(set(&mut bytes, track_blocks, range, value), possible);
            }
            let page = MapPage::new(&bytes, 5, track_blocks).unwrap();
            assert_eq!(page.free() as usize, free.iter().filter(|&&free| free).count());
            let whole = |track: usize| {
                let first = track * track_blocks as usize;
                free[first..first + track_blocks as usize].iter().all(|&free| free)
            };
            let expected = (0..free.len() / track_blocks as usize).find(|&track| whole(track));
            assert_eq!(page.free_track(0).map(|track| track as usize), expected);
            let found = page.find(0, 1, 10).map(|run| run.start as usize);
            assert_eq!(found, free.iter().position(|&free| free));
        }
    }
}
