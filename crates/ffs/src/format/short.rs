//! Directories whose size is damaged to a smaller one: their blocks go on with chunks of names.
//!
//! What counts the space of an inode says how far its blocks reach. A system that crashed may have
//! left a directory that counts more than it has (soft updates take the size back, and not the
//! count); then what lies there are no chunks, or chunks without names.

use super::entries::Entries;
use crate::format::layout::Layout;
use crate::format::ondisk::{NDADDR, NIADDR};
use crate::format::units::{Frag, index};
use spindle_ondisk::Field;
use std::ops::Range;

/// Most bytes behind the size of a directory that are looked at, some 100,000 names: those of many
/// directories may be the same in a hostile image.
const HIDDEN_MAX: u64 = 4 << 20;

/// What an inode says of the space of a directory.
pub(crate) struct Extent<'a> {
    /// `di_size`.
    pub(crate) size: u64,
    /// `di_blocks`.
    pub(crate) blocks: u64,
    /// `di_extsize`.
    pub(crate) extsize: u32,
    /// Direct pointers.
    pub(crate) db: &'a [u64; NDADDR],
    /// Indirect pointers.
    pub(crate) ib: &'a [u64; NIADDR],
}

/// The end of a directory that is shorter than its blocks.
pub(crate) struct Hidden {
    /// The size that its blocks have.
    pub(crate) size: u64,
    /// The fragments behind its own size that hold names.
    pub(crate) frags: Vec<Range<u64>>,
}

impl Extent<'_> {
    /// Returns how far the blocks of a directory hold whole chunks of names, if that is farther
    /// than its size; `read` reads so many bytes at a byte of the device. Those with double
    /// indirect blocks, which are larger than any that is used, are not looked at.
    pub(crate) fn hidden(
        &self,
        layout: &Layout,
        read: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
    ) -> Option<Hidden> {
        let (bsize, fsize, chunk) =
            (u64::from(layout.fs_bsize), u64::from(layout.fs_fsize), u64::from(layout.dirblksiz));
        let attributes = u64::from(self.extsize).div_ceil(fsize);
        let held = (self.blocks / (fsize / 512)).checked_sub(attributes)?;
        let own = self.size.div_ceil(bsize);
        let indirect = |blocks: u64| u64::from(blocks > NDADDR as u64) * u64::from(layout.fs_frag);
        // Behind the direct blocks all are whole.
        let is_small = own <= NDADDR as u64;
        let needed = if is_small { self.size.div_ceil(fsize) } else { own * u64::from(layout.fs_frag) };
        if held <= needed + indirect(own) || !self.size.is_multiple_of(chunk) || self.ib[1..] != [0; 2] {
            return None;
        }
        let mut addresses: Vec<u64> = self.db.iter().copied().take_while(|&frag| frag != 0).collect();
        if addresses.len() == NDADDR && self.ib[0] != 0 {
            let usable = is_data(layout, self.ib[0], layout.fs_frag);
            let block = usable.then(|| read(layout.byte(Frag(self.ib[0])), layout.fs_bsize as usize))??;
            let pointer = |bytes: &[u8]| match layout.pointer_size() {
                4 => u32::get(bytes, layout.endian).into(),
                _ => u64::get(bytes, layout.endian),
            };
            addresses
                .extend(block.chunks_exact(layout.pointer_size()).map(pointer).take_while(|&frag| frag != 0));
        }
        let full = addresses.len().checked_sub(1)? as u64;
        if (full * bsize).saturating_sub(self.size) > HIDDEN_MAX {
            return None;
        }
        let tail = held.checked_sub(full * u64::from(layout.fs_frag) + indirect(full + 1))?;
        if tail == 0
            || tail > layout.fs_frag.into()
            || (full >= NDADDR as u64 && tail < layout.fs_frag.into())
        {
            return None;
        }
        let (mut end, mut has_names, mut frags) = (self.size, false, Vec::new());
        for (lbn, &frag) in (0..).zip(&addresses).skip(index(self.size / bsize)) {
            let here = if lbn == full { tail } else { layout.fs_frag.into() };
            if !is_data(layout, frag, u32::try_from(here).ok()?) {
                return None;
            }
            let block = read(layout.byte(Frag(frag)), index(here * fsize))?;
            let from = self.size.saturating_sub(lbn * bsize);
            frags.push(frag + from.div_ceil(fsize)..frag + here);
            for chunk in block.get(index(from)..)?.chunks(layout.dirblksiz as usize) {
                let entries: Result<Vec<_>, _> = Entries::new(layout, chunk).collect();
                let Ok(entries) = entries else { break };
                has_names |= entries.iter().any(|entry| entry.ino != 0);
                end += chunk.len() as u64;
            }
            if lbn < full && end != (lbn + 1) * bsize {
                return None;
            }
        }
        // The chunks must reach the last fragment that is counted.
        let is_whole = end > full * bsize + (tail - 1) * fsize && end > self.size;
        (is_whole && has_names).then_some(Hidden { size: end, frags })
    }
}

/// Returns true if fragments can hold the data of a file.
fn is_data(layout: &Layout, frag: u64, frags: u32) -> bool {
    layout.contains(Frag(frag), frags.into()) && !layout.is_metadata(Frag(frag), frags)
}
