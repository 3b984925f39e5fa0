//! The formats of the old file system: family, block size and byte order.

use crate::format::ondisk::{
    AlignedFblk, AlignedFilsys, Filsys, FilsysTail, INODE_SIZE, NICFREE, PackedFblk, PackedFilsys, SysVTail,
};
use spindle_ondisk::Endian;
use spindle_vfs::FileKind;
use std::fmt;
use std::str::FromStr;

/// The family of systems that made a super-block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// The Seventh Edition and systems that kept its format: longs aligned to two bytes, 512-byte
    /// blocks, no magic number.
    V7,
    /// 32V to 4.1BSD on the VAX: longs aligned to four bytes, no magic number.
    Bsd,
    /// System V on 32-bit machines: longs aligned to four bytes.
    SysV,
    /// System V on 16-bit machines and the 68000: longs aligned to two bytes.
    SysV16,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// The family of its super-block.
    pub family: Family,
    /// Block size in bytes.
    pub bsize: u32,
    /// Byte order.
    pub endian: Endian,
}

impl Format {
    /// The Seventh Edition on the PDP-11.
    pub const V7: Self = Self { family: Family::V7, bsize: 512, endian: Endian::Pdp };
    /// 32V.
    pub const V32: Self = Self { family: Family::Bsd, bsize: 512, endian: Endian::Little };
    /// 4.0BSD and 4.1BSD: the "old file system" of the fast file system's paper.
    pub const BSD41: Self = Self { family: Family::Bsd, bsize: 1024, endian: Endian::Little };

    /// Returns System V's format with 1024-byte blocks in the given byte order.
    #[must_use]
    pub const fn sysv(endian: Endian) -> Self {
        Self { family: Family::SysV, bsize: 1024, endian }
    }

    /// The formats without a magic number, which must be recognised by their contents.
    pub(crate) const UNMARKED: [Self; 5] = [
        Self::V7,
        Self { endian: Endian::Little, ..Self::V7 },
        Self { endian: Endian::Big, ..Self::V7 },
        Self::V32,
        Self::BSD41,
    ];

    /// Returns true for System V, which has a magic number and a clean flag.
    #[must_use]
    pub const fn is_sysv(self) -> bool {
        matches!(self.family, Family::SysV | Family::SysV16)
    }

    /// Returns true if a system is known to have made such file systems.
    #[must_use]
    pub const fn is_possible(self) -> bool {
        match self.family {
            Family::V7 => self.bsize == 512,
            Family::Bsd => matches!(self.bsize, 512 | 1024) && matches!(self.endian, Endian::Little),
            Family::SysV => matches!(self.bsize, 512 | 1024 | 2048) && !matches!(self.endian, Endian::Pdp),
            Family::SysV16 => matches!(self.bsize, 512 | 1024 | 2048),
        }
    }

    /// Returns true if its systems have such files: none has sockets, and only System V's last
    /// release has symbolic links. System III, whose super-block is that of 32V, has pipes.
    pub(crate) const fn has(self, kind: FileKind) -> bool {
        match kind {
            FileKind::Symlink => self.is_sysv(),
            FileKind::Socket => false,
            _ => true,
        }
    }

    /// Returns the byte offset of the super-block: that of block 1, and in System V 512, after the
    /// boot block.
    #[must_use]
    pub const fn superblock_byte(self) -> u64 {
        if self.is_sysv() { 512 } else { self.bsize as u64 }
    }

    /// Returns the number of inodes in a block.
    #[must_use]
    pub const fn inopb(self) -> u32 {
        const { assert!(INODE_SIZE == 1 << 6) };
        self.bsize >> 6
    }

    const fn packed(self) -> bool {
        matches!(self.family, Family::V7 | Family::SysV16)
    }

    const fn head_size(self) -> usize {
        if self.packed() { PackedFilsys::SIZE } else { AlignedFilsys::SIZE }
    }

    /// Reads the head of a super-block.
    pub(crate) fn decode_head(self, bytes: &[u8]) -> Filsys {
        if self.packed() {
            PackedFilsys::decode(bytes, self.endian).into()
        } else {
            AlignedFilsys::decode(bytes, self.endian).into()
        }
    }

    /// Writes the head of a super-block.
    pub(crate) fn encode_head(self, head: &Filsys, bytes: &mut [u8]) {
        if self.packed() {
            PackedFilsys::from(head).encode(bytes, self.endian);
        } else {
            AlignedFilsys::from(head).encode(bytes, self.endian);
        }
    }

    /// Reads what follows the head; in System V, only the fields that the Seventh Edition also has.
    pub(crate) fn decode_tail(self, bytes: &[u8]) -> FilsysTail {
        let bytes = &bytes[self.head_size()..];
        if self.is_sysv() {
            let SysVTail { s_dinfo: [s_m, s_n, ..], s_tfree, s_tinode, s_fname, s_fpack } =
                SysVTail::decode(bytes, self.endian);
            FilsysTail { s_tfree, s_tinode, s_m, s_n, s_fname, s_fpack }
        } else {
            FilsysTail::decode(bytes, self.endian)
        }
    }

    /// Writes what follows the head, except for the fields that only System V has.
    pub(crate) fn encode_tail(self, tail: &FilsysTail, bytes: &mut [u8]) {
        let bytes = &mut bytes[self.head_size()..];
        if self.is_sysv() {
            let [.., third, fourth] = SysVTail::decode(bytes, self.endian).s_dinfo;
            let FilsysTail { s_tfree, s_tinode, s_m, s_n, s_fname, s_fpack } = *tail;
            let s_dinfo = [s_m, s_n, third, fourth];
            SysVTail { s_dinfo, s_tfree, s_tinode, s_fname, s_fpack }.encode(bytes, self.endian);
        } else {
            tail.encode(bytes, self.endian);
        }
    }

    /// Reads a link of the free list: the number of addresses, and the addresses.
    pub(crate) fn decode_link(self, bytes: &[u8]) -> (i16, [u32; NICFREE]) {
        if self.packed() {
            let PackedFblk { df_nfree, df_free } = PackedFblk::decode(bytes, self.endian);
            (df_nfree, df_free)
        } else {
            let AlignedFblk { df_nfree, df_free } = AlignedFblk::decode(bytes, self.endian);
            (df_nfree, df_free)
        }
    }

    /// Writes a link of the free list.
    pub(crate) fn encode_link(self, (df_nfree, df_free): (i16, [u32; NICFREE]), bytes: &mut [u8]) {
        if self.packed() {
            PackedFblk { df_nfree, df_free }.encode(bytes, self.endian);
        } else {
            AlignedFblk { df_nfree, df_free }.encode(bytes, self.endian);
        }
    }
}

impl fmt::Display for Format {
    /// Writes the name that [`FromStr`] reads, such as `v7-512-pdp`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            Family::V7 => "v7",
            Family::Bsd => "bsd",
            Family::SysV => "sysv",
            Family::SysV16 => "sysv16",
        };
        let endian = match self.endian {
            Endian::Little => "le",
            Endian::Big => "be",
            Endian::Pdp => "pdp",
        };
        write!(f, "{family}-{}-{endian}", self.bsize)
    }
}

impl FromStr for Format {
    type Err = String;

    /// Reads `v7`, `32v`, `bsd`, `sysv` or `sysv16`, each followed by a block size and a byte order
    /// if they differ from the usual ones: `sysv-2048-be`, `v7-le`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split('-');
        let mut format = match words.next() {
            Some("v7") => Self::V7,
            Some("32v") => Self::V32,
            Some("bsd") => Self::BSD41,
            Some("sysv") => Self::sysv(Endian::Little),
            Some("sysv16") => Self { family: Family::SysV16, ..Self::sysv(Endian::Little) },
            _ => return Err(format!("{text}: not v7, 32v, bsd, sysv or sysv16")),
        };
        for word in words {
            match word {
                "le" => format.endian = Endian::Little,
                "be" => format.endian = Endian::Big,
                "pdp" => format.endian = Endian::Pdp,
                _ => {
                    format.bsize = word
                        .parse()
                        .map_err(|_| format!("{text}: {word} is not a block size, le, be or pdp"))?;
                }
            }
        }
        if format.is_possible() { Ok(format) } else { Err(format!("{text}: there is no such file system")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: every format reads back from its name, and an impossible one is refused.
    #[test]
    fn names_of_formats() {
        let sysv = Format { bsize: 2048, ..Format::sysv(Endian::Big) };
        for format in Format::UNMARKED.into_iter().chain([sysv]) {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!("32v".parse(), Ok(Format::V32));
        for wrong in ["v8", "v7-1024", "bsd-be", "sysv-pdp", "sysv-4096", "v7-"] {
            assert!(wrong.parse::<Format>().is_err(), "{wrong}");
        }
    }
}
