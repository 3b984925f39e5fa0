//! What an image says it is: version, byte order and the few superblock fields on which a reader's
//! support depends. Read from raw bytes, because a test of Spindle's superblock code may not lean
//! on it.
//!
//! Offsets are those of `struct fs` in FreeBSD's `sys/ufs/ffs/fs.h`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::{Failure, Result};

const MAGIC_AT: usize = 1372;
const UFS1_MAGIC: u32 = 0x0001_1954;
const UFS2_MAGIC: u32 = 0x1954_0119;
/// Where a superblock may stand; UFS1 is not looked for at 64 KiB, where it has an alternate.
const PLACES: [u64; 4] = [65536, 8192, 0, 262_144];

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// UFS2, otherwise UFS1.
    pub ufs2: bool,
    /// Big-endian, otherwise little-endian.
    pub big_endian: bool,
    /// Byte offset of the superblock.
    pub superblock_at: u64,
    /// `fs_bsize`, bytes in a block.
    pub bsize: u32,
    /// `fs_fsize`, bytes in a fragment.
    pub fsize: u32,
    /// `fs_sbsize`, bytes the superblock says it has.
    pub sbsize: u32,
    /// The directory entries have a 16-bit name length and no type, as before 4.4BSD
    /// (`fs_old_inodefmt`).
    pub old_directories: bool,
}

impl Format {
    /// Reads the format of the file system that starts at the first byte of `image`.
    ///
    /// # Errors
    /// When the file cannot be read or no superblock is found.
    pub fn of(image: &Path) -> Result<Self> {
        let file = File::open(image).map_err(Failure::of(image.display()))?;
        for superblock_at in PLACES {
            let mut block = [0; 1376];
            if file.read_exact_at(&mut block, superblock_at).is_err() {
                continue;
            }
            for big_endian in [false, true] {
                let field = |at: usize| {
                    let bytes = [block[at], block[at + 1], block[at + 2], block[at + 3]];
                    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
                };
                let ufs2 = match field(MAGIC_AT) {
                    UFS2_MAGIC => true,
                    UFS1_MAGIC if superblock_at != 65536 => false,
                    _ => continue,
                };
                return Ok(Self {
                    ufs2,
                    big_endian,
                    superblock_at,
                    bsize: field(48),
                    fsize: field(52),
                    sbsize: field(104),
                    old_directories: !ufs2 && field(1324) != 2,
                });
            }
        }
        Err(Failure::new(format!("{}: no superblock of a fast file system", image.display())))
    }
}
