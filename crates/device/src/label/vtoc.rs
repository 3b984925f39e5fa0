//! The table of contents (VTOC) of Solaris on PCs, in the second sector of its slice.
//!
//! Sixteen partitions, `a` to `p`, that begin at a sector of the slice. The slice's old type is
//! also that of Linux swap space, so a missing magic number is not noted. Source: Linux
//! `block/partitions/msdos.c`.

use super::{Host, Label, Partition, Scheme, bytes_at, mark_outside, mark_overlaps, sun};
use crate::{Device, Result};
use spindle_ondisk::{Endian, structure};

structure! {
    /// The table; the other fields are not needed here.
    struct X86Vtoc: 264 {
        /// [`sun::VTOC_SANITY`].
        12 v_sanity: u32,
        /// Always 1.
        16 v_version: u32,
        /// Number of valid partitions.
        30 v_nparts: u16,
        /// The partitions.
        72 v_slice: [u8; 192],
    }
}

structure! {
    /// A partition.
    struct X86Slice: 12 {
        /// Type of the content.
        0 s_tag: u16,
        /// First sector in the slice.
        4 s_start: u32,
        /// Size in sectors.
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
            missing_bytes: 0,
            problem: None,
        });
    }
    mark_outside(label.partitions.iter_mut(), host.start, host.start + host.size, prefix);
    mark_overlaps(label.partitions.iter_mut().zip(whole).filter(|(_, whole)| !whole).map(|(p, _)| p));
    Ok(Some(label))
}
