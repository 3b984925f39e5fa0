//! Check-hashes that are right again after a structure was changed: otherwise a reader would refuse
//! the structure for its hash, and never come to what was changed.

use crate::anatomy::Anatomy;
use crate::overlay::Overlay;
use spindle_ffs::{CG_CKHASH, Dialect, check_hash};
use spindle_ondisk::Field;
use std::ops::Range;

/// Byte offset of `fs_ckhash`.
const FS_CKHASH: usize = 1304;
/// Byte offset of `fs_sbsize`.
const FS_SBSIZE: usize = 104;
/// Byte offset of `di_ckhash`.
const DI_CKHASH: usize = 244;

/// Corrects the check-hashes of the structures in which bytes were `touched`. `anatomy` is that of
/// the image before. Returns false if the format has none.
pub fn fix_check_hashes(device: &Overlay, anatomy: &Anatomy, touched: &[Range<usize>]) -> bool {
    let superblock = &anatomy.superblock;
    let layout = &superblock.layout;
    if superblock.dialect != Dialect::FreeBsd || !superblock.check_hashes().superblock {
        return false;
    }
    let is_touched =
        |at: usize, len: usize| touched.iter().any(|range| range.start < at + len && at < range.end);
    let rehash = |at: usize, len: usize, field: usize| {
        let mut bytes = vec![0; len];
        device.peek(at, &mut bytes);
        let mut hash = [0; 4];
        check_hash(&bytes, field).put(&mut hash, anatomy.endian());
        device.poke(at + field, &hash);
    };
    let standard = usize::try_from(layout.fs_sblockloc).unwrap_or(0);
    let replicas = (0..layout.fs_ncg).map(|cgx| layout.byte(layout.cgsblock(cgx)));
    for at in replicas.map(|at| usize::try_from(at).unwrap_or(0)).chain([standard]) {
        if is_touched(at, 8192) {
            let mut stated = [0; 4];
            device.peek(at + FS_SBSIZE, &mut stated);
            let stated = u32::get(&stated, anatomy.endian()) as usize;
            let len = if (1376..=8192).contains(&stated) { stated } else { layout.fs_sbsize as usize };
            rehash(at, len, FS_CKHASH);
        }
    }
    for cgx in 0..layout.fs_ncg {
        let at = usize::try_from(layout.byte(layout.cgtod(cgx))).unwrap_or(0);
        if is_touched(at, layout.fs_cgsize as usize) {
            rehash(at, layout.fs_cgsize as usize, CG_CKHASH);
        }
    }
    for &ino in &anatomy.inodes {
        let at = anatomy.inode(ino);
        if is_touched(at, layout.inode_size()) {
            rehash(at, layout.inode_size(), DI_CKHASH);
        }
    }
    true
}
