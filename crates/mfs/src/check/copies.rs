//! Comparing the copies of control storage wherever it is in use. What was never used, or is free
//! again, may differ: a crash leaves there what was written to one copy only.

use super::Checker;
use crate::format::cylinder::{CYLINDER_BYTES, Kind};
use crate::format::label::Role;
use crate::format::layout::index;
use crate::set::members::Set;
use spindle_device::Device;
use spindle_vfs::Result;
use std::ops::Range;

/// Most bytes that are read at a time.
const PIECE_BYTES: u64 = 1 << 20;

impl Checker {
    /// Returns true if a copy of control storage is not what it should be where the set uses it, or
    /// cannot be read there.
    ///
    /// # Errors
    /// Device errors, if no copy can be read.
    pub(super) fn is_a_copy_wrong(&self, set: &Set) -> Result<bool> {
        let control = set.parts.iter().filter(|part| part.role == Role::Control);
        let copies: Vec<_> =
            control.filter_map(|part| part.mirror.as_ref()).flat_map(|mirror| mirror.copies()).collect();
        if copies.len() < 2 {
            return Ok(false);
        }
        let has = |copy: &dyn Device, at, bytes: &[u8]| {
            let mut own = vec![0; bytes.len()];
            copy.read_at(at, &mut own).is_ok() && own == bytes
        };
        for range in self.used_control() {
            let mut at = range.start;
            while at < range.end {
                let bytes = self.read(at, index((range.end - at).min(PIECE_BYTES)))?;
                if !copies.iter().all(|copy| has(&**copy, at, &bytes)) {
                    return Ok(true);
                }
                at += bytes.len() as u64;
            }
        }
        Ok(false)
    }

    /// Returns the bytes of control storage that the set uses: descriptions of cylinders, blocks of
    /// headers and of names, and the table of checksums.
    fn used_control(&self) -> Vec<Range<u64>> {
        let layout = &self.layout;
        let (blocks, block_bytes) = (layout.cylinder_blocks(), layout.block_bytes() as u64);
        let mut used = Vec::new();
        for (number, state) in (0..layout.cylinders).zip(&self.cylinders) {
            let at = layout.cylinder_at(number);
            used.push(at..at + CYLINDER_BYTES as u64);
            if state.kind == Kind::Headers {
                let at = layout.control_byte(layout.block_of(number, 1));
                used.push(at..at + u64::from(blocks - state.fresh) * block_bytes);
            }
        }
        let node = |&block| layout.control_byte(block)..layout.control_byte(block) + block_bytes;
        used.extend(self.nodes.iter().map(node));
        used.push(layout.sum_page_at(0)..layout.sum_page_at(layout.sum_pages));
        used
    }
}
