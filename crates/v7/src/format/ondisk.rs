//! The on-disk structures, with the names of `sys/filsys.h`, `sys/fblk.h`, `sys/ino.h` and
//! `sys/dir.h`.
//!
//! One super-block in two shapes: the PDP-11 and the 68000 align a long to two bytes
//! ([`PackedFilsys`]), the VAX and the 32-bit machines of System V to four ([`AlignedFilsys`]);
//! both decode to a [`Filsys`]. What follows the common head differs between the Seventh Edition
//! and System V. Decoded values are unchecked.

use spindle_ondisk::{Endian, structure};

/// Addresses of free blocks in the super-block and in each link of the free list.
pub const NICFREE: usize = 50;
/// Numbers of free inodes in the super-block.
pub const NICINOD: usize = 100;
/// Addresses in an inode: direct ones, then one each of single, double and triple indirect blocks.
pub const NADDR: usize = 13;
/// Direct addresses in an inode.
pub const NDIRECT: usize = 10;
/// Longest name in bytes.
pub const DIRSIZ: usize = 14;
/// Bytes of an inode.
pub const INODE_SIZE: usize = 64;
/// Size of a sector, the least that a disk loses, in bytes.
pub(crate) const SECTOR: usize = 512;
/// Bytes of a directory entry.
pub const ENTRY_SIZE: usize = 16;

/// `s_magic` of System V.
pub const FS_MAGIC: u32 = 0xfd18_7e20;
/// `s_state` of a System V file system that is mounted.
pub const FS_ACTIVE: u32 = 0x5e72_d81a;
/// `s_state` plus `s_time` of a System V file system that was unmounted.
pub const FS_OKAY: u32 = 0x7c26_9d38;

/// Declares the head of the super-block with one machine's alignment.
macro_rules! filsys {
    ($(#[$meta:meta])* $name:ident: $size:literal, $isize:literal $fsize:literal $nfree:literal $free:literal
     $ninode:literal $inode:literal $flock:literal $ilock:literal $fmod:literal $ronly:literal $time:literal) => {
        structure! {
            $(#[$meta])*
            pub struct $name: $size {
                /// First block after the inodes.
                $isize s_isize: u16,
                /// Blocks of the whole file system.
                $fsize s_fsize: u32,
                /// Addresses in `s_free`.
                $nfree s_nfree: i16,
                /// Free blocks; the first one holds the next such list.
                $free s_free: [u32; NICFREE],
                /// Numbers in `s_inode`.
                $ninode s_ninode: i16,
                /// Some free inodes.
                $inode s_inode: [u16; NICINOD],
                /// Lock of the free list, in memory.
                $flock s_flock: u8,
                /// Lock of the inodes, in memory.
                $ilock s_ilock: u8,
                /// Changed since it was written, in memory.
                $fmod s_fmod: u8,
                /// Mounted read-only, in memory.
                $ronly s_ronly: u8,
                /// Time of the last write, in seconds since 1970.
                $time s_time: i32,
            }
        }

        impl From<$name> for Filsys {
            fn from(disk: $name) -> Self {
                let $name {
                    s_isize, s_fsize, s_nfree, s_free, s_ninode, s_inode, s_flock, s_ilock, s_fmod, s_ronly, s_time,
                } = disk;
                Self { s_isize, s_fsize, s_nfree, s_free, s_ninode, s_inode, s_flock, s_ilock, s_fmod, s_ronly, s_time }
            }
        }

        impl From<&Filsys> for $name {
            fn from(filsys: &Filsys) -> Self {
                let Filsys {
                    s_isize, s_fsize, s_nfree, s_free, s_ninode, s_inode, s_flock, s_ilock, s_fmod, s_ronly, s_time,
                } = *filsys;
                Self { s_isize, s_fsize, s_nfree, s_free, s_ninode, s_inode, s_flock, s_ilock, s_fmod, s_ronly, s_time }
            }
        }
    };
}

filsys! {
    /// The super-block's head where longs are aligned to two bytes.
    PackedFilsys: 418, 0 2 6 8 208 210 410 411 412 413 414
}

filsys! {
    /// The super-block's head where longs are aligned to four bytes.
    AlignedFilsys: 424, 0 4 8 12 212 214 414 415 416 417 420
}

/// The head of the super-block, decoded from either alignment.
#[allow(missing_docs)] // They are documented in `filsys!`.
#[allow(clippy::struct_field_names)] // The source's names, prefix and all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filsys {
    pub s_isize: u16,
    pub s_fsize: u32,
    pub s_nfree: i16,
    pub s_free: [u32; NICFREE],
    pub s_ninode: i16,
    pub s_inode: [u16; NICINOD],
    pub s_flock: u8,
    pub s_ilock: u8,
    pub s_fmod: u8,
    pub s_ronly: u8,
    pub s_time: i32,
}

structure! {
    /// What follows the head in the Seventh Edition, whose kernel does not maintain it, and in 32V
    /// to 4.1BSD.
    pub struct FilsysTail: 26 {
        /// Free blocks.
        0 s_tfree: u32,
        /// Free inodes.
        4 s_tinode: u16,
        /// Interleave: blocks from one to the next.
        6 s_m: u16,
        /// Interleave: blocks of a cylinder.
        8 s_n: u16,
        /// Name of the file system (4.1BSD: where it was mounted, twelve bytes).
        10 s_fname: [u8; 6],
        /// Name of the disk pack.
        16 s_fpack: [u8; 6],
    }
}

structure! {
    /// What follows the head in System V.
    pub struct SysVTail: 26 {
        /// Interleave (`m`, `n`), and data of drivers.
        0 s_dinfo: [u16; 4],
        /// Free blocks.
        8 s_tfree: u32,
        /// Free inodes.
        12 s_tinode: u16,
        /// Name of the file system.
        14 s_fname: [u8; 6],
        /// Name of the disk pack.
        20 s_fpack: [u8; 6],
    }
}

structure! {
    /// The end of System V's super-block, in either alignment.
    pub struct SysVMark: 512 {
        /// [`FS_OKAY`] less `s_time` when clean.
        500 s_state: u32,
        /// [`FS_MAGIC`].
        504 s_magic: u32,
        /// Block size: 1 for 512 bytes, 2 for 1024, 3 for 2048.
        508 s_type: u32,
    }
}

structure! {
    /// A link of the free list where longs stand on two-byte borders.
    pub struct PackedFblk: 202 {
        /// Addresses in `df_free`.
        0 df_nfree: i16,
        /// Free blocks; the first one holds the next link.
        2 df_free: [u32; NICFREE],
    }
}

structure! {
    /// A link of the free list where longs stand on four-byte borders.
    pub struct AlignedFblk: 204 {
        /// Addresses in `df_free` (an `int` of four bytes in 32V, whose upper half is zero).
        0 df_nfree: i16,
        /// Free blocks; the first one holds the next link.
        4 df_free: [u32; NICFREE],
    }
}

structure! {
    /// An inode (`struct dinode`).
    pub struct DiskInode: 64 {
        /// Kind and permission; 0 when free.
        0 di_mode: u16,
        /// Names.
        2 di_nlink: i16,
        /// Owner.
        4 di_uid: u16,
        /// Group.
        6 di_gid: u16,
        /// Bytes.
        8 di_size: i32,
        /// [`NADDR`] addresses of three bytes ([`get_addr`]) and one byte more.
        12 di_addr: [u8; 40],
        /// Last read.
        52 di_atime: i32,
        /// Data changed.
        56 di_mtime: i32,
        /// Inode changed.
        60 di_ctime: i32,
    }
}

structure! {
    /// A directory entry.
    pub struct Direct: 16 {
        /// Inode; 0 in an unused entry.
        0 d_ino: u16,
        /// Name, filled up with zeros.
        2 d_name: [u8; DIRSIZ],
    }
}

/// Returns the address of three bytes at the start of `bytes` (`l3tol`): a long without its highest
/// byte.
#[must_use]
pub fn get_addr(bytes: &[u8], endian: Endian) -> u32 {
    let [a, b, c] = [bytes[0], bytes[1], bytes[2]].map(u32::from);
    match endian {
        Endian::Little => c << 16 | b << 8 | a,
        Endian::Big => a << 16 | b << 8 | c,
        Endian::Pdp => a << 16 | c << 8 | b,
    }
}

/// Writes an address of three bytes to the start of `bytes` (`ltol3`).
pub fn put_addr(addr: u32, bytes: &mut [u8], endian: Endian) {
    let [_, high, middle, low] = addr.to_be_bytes();
    bytes[..3].copy_from_slice(&match endian {
        Endian::Little => [low, middle, high],
        Endian::Big => [high, middle, low],
        Endian::Pdp => [high, low, middle],
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the PDP-11 keeps the low byte before the middle one; every order comes back as it
    /// was written.
    #[test]
    fn addresses_of_three_bytes() {
        assert_eq!(get_addr(&[0x12, 0x56, 0x34], Endian::Pdp), 0x12_3456);
        for endian in [Endian::Little, Endian::Big, Endian::Pdp] {
            let mut bytes = [0xff; 4];
            put_addr(0x12_3456, &mut bytes, endian);
            assert_eq!((get_addr(&bytes, endian), bytes[3]), (0x12_3456, 0xff));
        }
    }
}
