//! Phase 5: the allocation map of data storage.

use super::Checker;
use super::finding::Finding;
use crate::format::layout::ClassLayout;
use crate::format::map_page::{self, MAP_PAGE_BYTES, MapPage};
use spindle_vfs::Result;

impl Checker {
    /// Returns the bytes that a page of the allocation map of a class should have.
    pub(super) fn expected_page(&self, number: usize, page: u64) -> Vec<u8> {
        let class = self.layout.class(number);
        let (track_blocks, blocks) = (class.structure.track_blocks, blocks_of_page(class, page));
        let first = page * class.blocks_in_page();
        let mut bytes = vec![0; MAP_PAGE_BYTES];
        map_page::make(&mut bytes, page, track_blocks, blocks);
        for run in self.claims[number].within(first..first + u64::from(blocks)) {
            let within = |block: u64| u32::try_from(block - first).unwrap_or(u32::MAX);
            let marked = map_page::set(&mut bytes, track_blocks, within(run.start)..within(run.end), false);
            debug_assert!(marked, "runs are apart");
        }
        bytes
    }

    /// Compares the allocation maps with the blocks of files.
    pub(super) fn compare_pages(&mut self) -> Result<()> {
        for number in 0..self.layout.classes.len() {
            for page in 0..self.layout.class(number).map_pages {
                self.compare_page(number, page)?;
            }
        }
        Ok(())
    }

    fn compare_page(&mut self, number: usize, page: u64) -> Result<()> {
        let class = self.layout.class(number);
        let track_blocks = class.structure.track_blocks;
        let bytes = self.read(class.map_page_at(page), MAP_PAGE_BYTES)?;
        let (bytes, right) = (&bytes[..MAP_PAGE_BYTES], self.expected_page(number, page));
        if bytes == right {
            return Ok(());
        }
        let what = match (MapPage::new(bytes, page, track_blocks), MapPage::new(&right, page, track_blocks)) {
            (Ok(found), Ok(right)) => {
                let differs = |&block: &u32| found.is_free(block) != right.is_free(block);
                let wrong = (0..blocks_of_page(class, page)).filter(differs).count();
                let (counted, free) = (found.free(), right.free());
                match wrong {
                    0 if counted != free => {
                        format!("IT COUNTS {counted} FREE BLOCKS, SHOULD BE {free}")
                    }
                    0 => "ITS TRACKS ARE MARKED WRONGLY".into(),
                    _ => format!("{wrong} BLOCKS ARE MARKED WRONGLY"),
                }
            }
            (Err(error), _) | (_, Err(error)) => error.problem(),
        };
        let class = class.name.to_string();
        self.findings.push(Finding::Map { class, page, what });
        Ok(())
    }
}

/// Returns the number of data blocks that a page of a class describes.
fn blocks_of_page(class: &ClassLayout, page: u64) -> u32 {
    let each = class.blocks_in_page();
    let blocks = class.blocks().saturating_sub(page * each).min(each);
    u32::try_from(blocks).unwrap_or(u32::MAX)
}
