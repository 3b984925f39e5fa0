//! Phase 5: the allocation map of data storage.

use super::Checker;
use super::finding::Finding;
use crate::format::map_page::{self, MAP_PAGE_BYTES, MapPage};
use spindle_vfs::Result;

impl Checker {
    /// Returns the number of data blocks that a page describes.
    fn blocks_of_page(&self, number: u64) -> u32 {
        let each = self.layout.blocks_in_page();
        let blocks = self.layout.data_blocks().saturating_sub(number * each).min(each);
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// Returns the bytes that a page of the allocation map should have.
    pub(super) fn expected_page(&self, number: u64) -> Vec<u8> {
        let (track_blocks, blocks) = (self.layout.parameters.track_blocks, self.blocks_of_page(number));
        let first = number * self.layout.blocks_in_page();
        let mut bytes = vec![0; MAP_PAGE_BYTES];
        map_page::make(&mut bytes, number, track_blocks, blocks);
        for run in self.claims.within(first..first + u64::from(blocks)) {
            let within = |block: u64| u32::try_from(block - first).unwrap_or(u32::MAX);
            let marked = map_page::set(&mut bytes, track_blocks, within(run.start)..within(run.end), false);
            debug_assert!(marked, "runs are apart");
        }
        bytes
    }

    /// Compares the allocation map with the blocks of files.
    pub(super) fn compare_pages(&mut self) -> Result<()> {
        let track_blocks = self.layout.parameters.track_blocks;
        for page in 0..self.layout.map_pages {
            let bytes = self.read(self.layout.map_page_at(page), MAP_PAGE_BYTES)?;
            let (bytes, right) = (&bytes[..MAP_PAGE_BYTES], self.expected_page(page));
            if bytes == right {
                continue;
            }
            let what =
                match (MapPage::new(bytes, page, track_blocks), MapPage::new(&right, page, track_blocks)) {
                    (Ok(found), Ok(right)) => {
                        let differs = |&block: &u32| found.is_free(block) != right.is_free(block);
                        let wrong = (0..self.blocks_of_page(page)).filter(differs).count();
                        let (counted, free) = (found.free(), right.free());
                        match wrong {
                            0 if counted != free => {
                                format!("IT COUNTS {counted} FREE BLOCKS, SHOULD BE {free}")
                            }
                            0 => "ITS TRACKS ARE MARKED WRONGLY".into(),
                            _ => format!("{wrong} BLOCKS ARE MARKED WRONGLY"),
                        }
                    }
                    (Err(error), _) | (_, Err(error)) => error.to_string(),
                };
            self.findings.push(Finding::Map { page, what });
        }
        Ok(())
    }
}
