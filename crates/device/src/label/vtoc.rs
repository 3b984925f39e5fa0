//! The table of contents (VTOC) that Solaris on PCs keeps in the second sector of its slice.
//!
//! Sixteen partitions, `a` to `p`, that begin at a sector of the slice. The slice's old type is
//! that of Linux swap space too, so nothing is said where the magic number is missing. Source:
//! Linux `block/partitions/msdos.c`.

use super::{Host, Label, Partition, Scheme, blame_outside, blame_overlaps, bytes_at, sun};
use crate::{Device, Result};
use spindle_ondisk::{Endian, structure};

structure! {
    /// The table; what stands before and after it is of no use here.
    struct X86Vtoc: 264 {
        /// [`sun::VTOC_SANITY`].
        12 v_sanity: u32,
        /// Always 1.
        16 v_version: u32,
        /// Partitions that count.
        30 v_nparts: u16,
        /// The partitions.
        72 v_slice: [u8; 192],
    }
}

structure! {
    /// A partition.
    struct X86Slice: 12 {
        /// What is in it.
        0 s_tag: u16,
        /// First sector in the slice.
        4 s_start: u32,
        /// Sectors.
        8 s_size: u32,
    }
}

/// Returns the partitions inside a slice called `prefix`, if it has a table of contents.
pub(super) fn read(device: &dyn Device, host: Host, prefix: &str) -> Result<Option<Label>> {
    let Some(bytes) = bytes_at(device, host.start + sun::SECTOR_BYTES, X86Vtoc::SIZE)? else {
        return Ok(None);
    };
    let vtoc = X86Vtoc::decode(&bytes, Endian::Little);
    if (vtoc.v_sanity, vtoc.v_version) != (sun::VTOC_SANITY, 1) {
        return Ok(None);
    }
    let mut label = Label::default();
    let mut whole = Vec::new();
    for (bytes, letter) in
        vtoc.v_slice.chunks_exact(X86Slice::SIZE).take(usize::from(vtoc.v_nparts)).zip('a'..)
    {
        let slice = X86Slice::decode(bytes, Endian::Little);
        if slice.s_size == 0 {
            continue;
        }
        whole.push(slice.s_tag == sun::VTOC_BACKUP);
        label.partitions.push(Partition {
            name: format!("{prefix}{letter}"),
            scheme: Scheme::Vtoc,
            start_bytes: host.start + u64::from(slice.s_start) * sun::SECTOR_BYTES,
            size_bytes: u64::from(slice.s_size) * sun::SECTOR_BYTES,
            kind: sun::kind(slice.s_tag),
            label: None,
            problem: None,
        });
    }
    blame_outside(label.partitions.iter_mut(), host.start, host.start + host.size, prefix);
    blame_overlaps(label.partitions.iter_mut().zip(whole).filter(|(_, whole)| !whole).map(|(p, _)| p));
    Ok(Some(label))
}
