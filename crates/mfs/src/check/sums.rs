//! Phase 5: the table of checksums, and the data that it describes.

use super::Checker;
use super::finding::Finding;
use crate::format::extent::Extent;
use crate::format::layout::{DataBlock, Layout, index};
use crate::format::sums::{self, SUM_PAGE_BYTES, SUM_SECTOR_BYTES, SUMS_IN_SECTOR};
use spindle_vfs::{Error, Result};
use std::io::ErrorKind;
use std::ops::Range;

/// Bytes of data that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// Returns true if a read has failed because no copy of a block is right.
fn is_mismatch(error: &Error) -> bool {
    matches!(error, Error::Device(spindle_device::Error::Io { source, .. })
        if source.kind() == ErrorKind::InvalidData)
}

/// Returns the blocks that a sector of the table describes.
fn blocks_of(layout: &Layout, sector: u64) -> Range<u64> {
    let first = sector * SUMS_IN_SECTOR;
    first..(first + SUMS_IN_SECTOR).min(layout.data_blocks())
}

impl Checker {
    /// Looks for damaged sectors of the table.
    pub(super) fn compare_sums(&mut self) -> Result<()> {
        for page in 0..self.layout.sum_pages {
            let bytes = self.read(self.layout.sum_page_at(page), SUM_PAGE_BYTES)?;
            let numbers = page * (SUM_PAGE_BYTES / SUM_SECTOR_BYTES) as u64..;
            for (sector, number) in bytes.chunks_exact(SUM_SECTOR_BYTES).zip(numbers) {
                if !sums::is_whole(sector, number) {
                    let blocks = self.claims.within(blocks_of(&self.layout, number));
                    let blocks = blocks.map(|run| run.end - run.start).sum();
                    self.findings.push(Finding::Sums { sector: number, blocks });
                    self.damaged_sums.push(number);
                }
            }
        }
        Ok(())
    }

    /// Returns the sector with the checksum of a block, and the position of the block there.
    pub(super) fn sum_sector(&self, block: u64) -> Result<(Vec<u8>, u64)> {
        let (number, n) = self.layout.sum_place(DataBlock(block));
        let (at, within) = self.layout.sum_sector_at(number);
        let page = self.read(at, SUM_PAGE_BYTES)?;
        Ok((page[within..within + SUM_SECTOR_BYTES].to_vec(), n))
    }

    /// Returns the bytes that a damaged sector should have, made of the data as it is.
    pub(super) fn new_sums(&self, sector: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; SUM_SECTOR_BYTES];
        sums::make(&mut bytes, sector);
        let blocks = blocks_of(&self.layout, sector);
        for block in self.claims.within(blocks.clone()).flatten() {
            let len = index(self.layout.data_block_bytes());
            let data = self.read(self.layout.data_byte(DataBlock(block)), len)?;
            sums::set(&mut bytes, block - blocks.start, &[sums::sum_of(&data[..len])]);
        }
        Ok(bytes)
    }

    /// Reads all data of files, which is verified meanwhile, in the order of its places.
    pub(super) fn read_data(&mut self) -> Result<()> {
        let mut extents = std::mem::take(&mut self.extents);
        extents.sort_unstable_by_key(|(_, extent)| extent.start);
        let most = (READ_BYTES / self.layout.data_block_bytes()).max(1);
        for (ino, extent) in extents {
            for from in (extent.lbn..extent.end()).step_by(index(most)) {
                let part = extent.part(from, extent.end().min(from + most));
                if !self.is_right(&part)? {
                    // Each block alone says which of them it is.
                    for lbn in part.lbn..part.end() {
                        if !self.is_right(&part.part(lbn, lbn + 1))? {
                            let offset = lbn * self.layout.data_block_bytes();
                            self.findings.push(Finding::Data { ino, offset });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns true if some blocks can be read and are right.
    fn is_right(&self, part: &Extent) -> Result<bool> {
        let len = index(part.len * self.layout.data_block_bytes());
        match self.read(self.layout.data_byte(DataBlock(part.start)), len) {
            Ok(_) => Ok(true),
            Err(error) if is_mismatch(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
