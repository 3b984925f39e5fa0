//! Free space for what a repair has to put somewhere.

use crate::check::state::BlockMap;
use crate::format::layout::Layout;

/// The free fragments of the file system, given out in order.
pub(crate) struct Space<'a> {
    layout: &'a Layout,
    used: BlockMap,
    /// For each number of fragments, the block from which on there may be so many.
    from: [u64; 9],
}

impl<'a> Space<'a> {
    /// Returns the space that is not `used`, by files or by the file system itself.
    pub(crate) const fn new(layout: &'a Layout, used: BlockMap) -> Self {
        Self { layout, used, from: [0; 9] }
    }

    /// Takes so many fragments in one block.
    pub(crate) fn take(&mut self, frags: u32) -> Option<u64> {
        let frag = self.layout.fs_frag;
        let from = &mut self.from[frags as usize];
        while *from + u64::from(frags) <= self.layout.fs_size {
            let within = u32::try_from(self.layout.fs_size - *from).unwrap_or(frag).min(frag);
            let free = (0..=within - frags).find(|&n| self.used.bits(*from + u64::from(n), frags) == 0);
            if let Some(n) = free {
                let at = *from + u64::from(n);
                self.used.set_bits(at, frags);
                return Some(at);
            }
            *from += u64::from(frag);
        }
        None
    }
}
