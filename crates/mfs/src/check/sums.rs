//! Phase 5: the table of checksums, and the data that it describes.

use super::Checker;
use super::finding::Finding;
use crate::format::extent::Extent;
use crate::format::layout::{DataBlock, index};
use crate::format::sums::{self, SUM_PAGE_BYTES, SUM_SECTOR_BYTES};
use spindle_vfs::{Error, Result};
use std::io::ErrorKind;

/// Bytes of data that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// Returns true if a read has failed because no copy of a block is right.
pub(super) fn is_mismatch(error: &Error) -> bool {
    matches!(error, Error::Device(spindle_device::Error::Io { source, .. })
        if source.kind() == ErrorKind::InvalidData)
}

impl Checker {
    /// Looks for damaged sectors of the table.
    pub(super) fn compare_sums(&mut self) -> Result<()> {
        for page in 0..self.layout.sum_pages {
            let bytes = self.read(self.layout.sum_page_at(page), SUM_PAGE_BYTES)?;
            let numbers = page * (SUM_PAGE_BYTES / SUM_SECTOR_BYTES) as u64..;
            for (sector, number) in bytes.chunks_exact(SUM_SECTOR_BYTES).zip(numbers) {
                if !sums::is_whole(sector, number) {
                    let described = self.layout.summed_by(number);
                    let runs = described.map(|(class, blocks)| self.claims[class].within(blocks));
                    let blocks = runs.into_iter().flatten().map(|run| run.end - run.start).sum();
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
        let Some((number, blocks)) = self.layout.summed_by(sector) else { return Ok(bytes) };
        let len = index(self.layout.class(number).block_bytes());
        for block in self.claims[number].within(blocks.clone()).flatten() {
            let data = self.read(self.layout.data_byte(DataBlock::of(number, block)), len)?;
            sums::set(&mut bytes, block - blocks.start, &[sums::sum_of(&data[..len])]);
        }
        Ok(bytes)
    }

    /// Reads all data of files, which is verified meanwhile, in the order of its places.
    pub(super) fn read_data(&mut self) -> Result<()> {
        let mut extents = std::mem::take(&mut self.extents);
        extents.sort_unstable_by_key(|(_, extent)| extent.start);
        for (ino, extent) in extents {
            let block_bytes = self.layout.class(DataBlock(extent.start).class()).block_bytes();
            let most = (READ_BYTES / block_bytes).max(1);
            for from in (extent.lbn..extent.end()).step_by(index(most)) {
                let part = extent.part(from, extent.end().min(from + most));
                if !self.is_right(&part)? {
                    // Each block alone says which of them it is.
                    for lbn in part.lbn..part.end() {
                        if !self.is_right(&part.part(lbn, lbn + 1))? {
                            let offset = lbn * block_bytes;
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
        let first = DataBlock(part.start);
        let len = index(part.len * self.layout.class(first.class()).block_bytes());
        match self.read(self.layout.data_byte(first), len) {
            Ok(_) => Ok(true),
            Err(error) if is_mismatch(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
