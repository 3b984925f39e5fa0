//! The header of a stream: `union u_spcl` as FreeBSD has it, and what it means in each form.

use crate::sum;
use spindle_clock::Timestamp;
use spindle_ffs::{Dialect, rdev};
use spindle_ondisk::{Endian, Field, structure};
use spindle_vfs::{FileKind, Rdev};

/// Bytes of a record (`TP_BSIZE`).
pub const RECORD: usize = 1024;
/// Records of data that one header can announce (`TP_NINDIR`).
pub const PER_HEADER: usize = RECORD / 2;

/// Magic number of the streams of 4.1BSD and before.
const OFS_MAGIC: i32 = 60_011;
/// Magic number of the streams with inodes of UFS1, and of Linux.
const NFS_MAGIC: i32 = 60_012;
/// Magic number of the streams with inodes of UFS2.
const FS_UFS2_MAGIC: i32 = 0x1954_0119;

/// Most bytes of extended attributes that an inode of UFS2 has: two blocks of 64 KiB.
const MAX_EXTSIZE: u32 = 2 << 16;

/// Flag of 4.4BSD: the inodes and directories are in the new format (`DR_NEWINODEFMT`).
const DR_NEWINODEFMT: i32 = 0x2;
/// Flag of Linux: the data are compressed.
const DR_COMPRESSED: i32 = 0x80;
/// Flag of Linux: only the inode of this file is in the stream.
const DR_METAONLY: i32 = 0x100;
/// Flag of Linux: what looks like a file has the extended attributes of the file before.
const DR_EXTATTRIBUTES: i32 = 0x8000;

structure! {
    /// A header, with the names of FreeBSD.
    pub(crate) struct Spcl: 1024 {
        /// Kind of header.
        0 c_type: i32,
        /// Date of this dump.
        4 c_old_date: i32,
        /// Date of the dump that it is based on.
        8 c_old_ddate: i32,
        /// Volume number, from 1.
        12 c_volume: i32,
        /// Number of this record.
        16 c_old_tapea: i32,
        /// Inode.
        20 c_inumber: u32,
        /// Magic number.
        24 c_magic: i32,
        /// Checksum.
        28 c_checksum: i32,
        /// Kind and permissions of the file.
        32 c_mode: u16,
        /// Names of the file; only before UFS2, and in ours.
        34 c_nlink: u16,
        /// Owner and group before 4.4BSD.
        36 c_oldids: [u16; 2],
        /// Bytes of the file.
        40 c_size: u64,
        /// Last read.
        48 c_old_atime: i32,
        /// Its nanoseconds.
        52 c_atimensec: i32,
        /// Data changed.
        56 c_old_mtime: i32,
        /// Its nanoseconds.
        60 c_mtimensec: i32,
        /// Inode changed; only before UFS2.
        64 c_ctime: [i32; 2],
        /// Device number.
        72 c_rdev: u32,
        /// Nanoseconds of the creation; of Linux, the device number where `c_rdev` is 0.
        76 c_birthtimensec: i32,
        /// Created.
        80 c_birthtime: i64,
        /// Last read.
        88 c_atime: i64,
        /// Data changed.
        96 c_mtime: i64,
        /// Bytes of extended attributes.
        104 c_extsize: i32,
        /// File flags.
        132 c_file_flags: u32,
        /// Owner.
        144 c_uid: u32,
        /// Group.
        148 c_gid: u32,
        /// Records of the file that this header is about, holes included.
        160 c_count: i32,
        /// For each of them, whether it is in the stream.
        164 c_addr: [u8; 512],
        /// Label of the dump.
        676 c_label: [u8; 16],
        /// Level of the dump.
        692 c_level: i32,
        /// Directory that the file system is mounted on.
        696 c_filesys: [u8; 64],
        /// Its device.
        760 c_dev: [u8; 64],
        /// Its host.
        824 c_host: [u8; 64],
        /// Flags.
        888 c_flags: i32,
        /// First record of the volume.
        892 c_old_firstrec: i32,
        /// Date of this dump; of Linux, the records that are written at a time.
        896 c_date: i64,
        /// Date of the dump that it is based on.
        904 c_ddate: i64,
        /// Number of this record.
        912 c_tapea: i64,
        /// First record of the volume.
        920 c_firstrec: i64,
    }
}

/// Kind of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The start of a volume (`TS_TAPE`).
    Tape,
    /// The start of a file (`TS_INODE`).
    Inode,
    /// The map of the inodes in the dump (`TS_BITS`).
    Bits,
    /// More of a file (`TS_ADDR`).
    Addr,
    /// The end (`TS_END`).
    End,
    /// The map of the inodes in use (`TS_CLRI`).
    Clri,
}

impl Kind {
    const ALL: [(i32, Self); 6] = [
        (1, Self::Tape),
        (2, Self::Inode),
        (3, Self::Bits),
        (4, Self::Addr),
        (5, Self::End),
        (6, Self::Clri),
    ];

    fn number(self) -> i32 {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or(0, |(number, _)| *number)
    }
}

/// The form of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With inodes of UFS2: FreeBSD since 5, NetBSD, OpenBSD, and ours.
    Ufs2,
    /// With inodes and directories of 4.4BSD.
    Bsd44,
    /// With inodes and directories of 4.2BSD and 4.3BSD.
    Bsd43,
    /// Linux, for ext2 and its successors.
    Linux,
}

/// The device number of a device node, as far as the stream says whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// As the system that wrote the stream encodes it.
    Raw(u32),
    /// Known.
    Known(Rdev),
}

impl Device {
    /// Returns what stands in a stream for a device number of a file system of this dialect; none
    /// if it does not fit into 32 bits.
    #[must_use]
    pub fn of(rdev: Rdev, dialect: Dialect) -> Option<Self> {
        let raw = rdev::encode(dialect, rdev).into_iter().filter_map(|raw| u32::try_from(raw).ok());
        raw.map(Self::Raw).find(|device| device.rdev(Some(dialect)) == Some(rdev))
    }

    /// Returns the device number, if the stream was written on a system of this dialect. Without
    /// one, only a number of at most 16 bits is known, which all systems read alike.
    #[must_use]
    pub fn rdev(self, dialect: Option<Dialect>) -> Option<Rdev> {
        match (self, dialect) {
            (Self::Known(rdev), _) => Some(rdev),
            (Self::Raw(raw @ 0..=0xffff), _) => Some(Rdev { major: raw >> 8, minor: raw & 0xff }),
            (Self::Raw(raw), Some(dialect @ Dialect::Sun { .. })) => {
                Some(rdev::decode(dialect, [0, raw.into()]))
            }
            (Self::Raw(raw), Some(dialect)) => Some(rdev::decode(dialect, [raw.into(), 0])),
            (Self::Raw(_), None) => None,
        }
    }
}

/// What a stream says of a file, besides its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Kind and permissions.
    pub mode: u16,
    /// Bytes.
    pub size: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read.
    pub atime: Timestamp,
    /// Data changed.
    pub mtime: Timestamp,
    /// Created, where it is stored.
    pub birthtime: Option<Timestamp>,
    /// Device number of a device node.
    pub device: Device,
    /// File flags of BSD.
    pub flags: u32,
    /// Bytes of extended attributes behind the data.
    pub extsize: u32,
    /// How many names of it are in the directories of the dump and those that it is based on; 0 if
    /// the stream does not say it.
    pub names: u16,
}

impl Inode {
    /// Returns what the file is; none if there is no such kind.
    #[must_use]
    pub fn kind(&self) -> Option<FileKind> {
        FileKind::from_mode(self.mode.into())
    }
}

/// What all headers of a stream say alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Date of the dump, in seconds since 1970.
    pub date: i64,
    /// Date of the dump that it is based on; 0 if it has everything.
    pub ddate: i64,
    /// Level.
    pub level: i32,
    /// Label, at most 15 bytes.
    pub label: Vec<u8>,
    /// Directory that the file system was mounted on, at most 63 bytes.
    pub filesys: Vec<u8>,
    /// Its device or image, at most 63 bytes.
    pub device: Vec<u8>,
    /// Its host, at most 63 bytes.
    pub host: Vec<u8>,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its kind.
    pub kind: Kind,
    /// The form of its stream. Only the first header distinguishes all of them.
    pub form: Form,
    /// What it has in common with all headers of the stream.
    pub stamp: Stamp,
    /// Volume number, from 1.
    pub volume: i32,
    /// Its number in the stream, from 0.
    pub record: i64,
    /// Inode.
    pub ino: u32,
    /// What is said of the file.
    pub inode: Inode,
    /// Records of the file or the map that follow, holes included.
    pub count: u32,
    /// For each of them in a file, whether it is in the stream (not 0) or a hole.
    pub present: [u8; PER_HEADER],
    /// What looks like a file has Linux's extended attributes of the file before.
    pub is_attributes: bool,
    /// Only the inode of this file is in the stream.
    pub metadata_only: bool,
}

/// What a record is.
#[derive(Debug)]
pub(crate) enum Record {
    /// A header in this byte order.
    Header(Box<Header>, Endian),
    /// Something with the magic number of a header, and wrong.
    Wrong(String),
    /// A header of a form that is not read.
    Refused(&'static str),
    /// Data.
    Other,
}

impl Record {
    /// Returns what the record is, in a stream of this byte order and form if they are known.
    pub(crate) fn of(record: &[u8; RECORD], known: Option<(Endian, Form)>) -> Self {
        let orders = [Endian::Little, Endian::Big];
        let orders = orders.into_iter().filter(|&endian| known.is_none_or(|(known, _)| known == endian));
        for endian in orders {
            let spcl = Spcl::decode(record, endian);
            match spcl.c_magic {
                NFS_MAGIC | FS_UFS2_MAGIC if !sum::is_right(record, endian) => {
                    return Self::Wrong("the checksum of a header is wrong".into());
                }
                NFS_MAGIC | FS_UFS2_MAGIC => {
                    if spcl.c_flags & DR_COMPRESSED != 0 && spcl.c_magic == NFS_MAGIC {
                        return Self::Refused("is compressed by Linux's dump; make it without -j, -y and -z");
                    }
                    return match Header::new(&spcl, known.map(|(_, form)| form)) {
                        Ok(header) => Self::Header(Box::new(header), endian),
                        Err(why) => Self::Wrong(why),
                    };
                }
                _ => {}
            }
        }
        if known.is_none() && is_before_42bsd(record) {
            return Self::Refused("is a dump of a system before 4.2BSD (OFS_MAGIC), which is not read");
        }
        Self::Other
    }
}

/// Returns true if a record begins as a header of a system before 4.2BSD: one with 32-bit numbers
/// has the magic number where it still stands, the PDP-11 with its shorter ones before that.
fn is_before_42bsd(record: &[u8; RECORD]) -> bool {
    let orders = [Endian::Little, Endian::Big];
    orders.into_iter().any(|endian| i32::get(&record[24..], endian) == OFS_MAGIC)
        || i32::from(u16::get(&record[18..], Endian::Little)) == OFS_MAGIC
}

/// Gives a header of ours the number behind its own, in this volume.
pub(crate) fn renumber(record: &mut [u8; RECORD], volume: i32) {
    let mut spcl = Spcl::decode(record, Endian::Little);
    spcl.c_volume = volume;
    spcl.c_tapea += 1;
    spcl.c_old_tapea = spcl.c_old_tapea.saturating_add(1);
    spcl.encode(record, Endian::Little);
    sum::put(record, Endian::Little);
}

/// Returns a time; a count outside a second is nobody's.
fn time(secs: i64, nanos: i32) -> Timestamp {
    Timestamp::new(secs, u32::try_from(nanos).ok().filter(|&n| n < 1_000_000_000).unwrap_or(0))
}

/// Returns the bytes before the first NUL.
fn text(field: &[u8]) -> Vec<u8> {
    field.split(|&b| b == 0).next().unwrap_or_default().to_vec()
}

/// Returns the bytes of a field, cut to leave room for a NUL.
fn field<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut field = [0; N];
    let len = text.len().min(N - 1);
    field[..len].copy_from_slice(&text[..len]);
    field
}

/// Returns BSD's flags for those of a file of ext2.
fn flags_of_linux(flags: u32) -> u32 {
    // EXT2_IMMUTABLE_FL, EXT2_APPEND_FL and EXT2_NODUMP_FL; SF_IMMUTABLE, SF_APPEND and UF_NODUMP.
    const FLAGS: [(u32, u32); 3] = [(0x10, 0x2_0000), (0x20, 0x4_0000), (0x40, 0x1)];
    FLAGS.iter().filter(|(linux, _)| flags & linux != 0).fold(0, |all, (_, bsd)| all | bsd)
}

/// Returns the device number in an inode of Linux: in the old form, or behind it in the new one.
fn device_of_linux(spcl: &Spcl) -> Rdev {
    let (old, new) = (spcl.c_rdev, spcl.c_birthtimensec.cast_unsigned());
    if old != 0 {
        Rdev { major: old >> 8 & 0xff, minor: old & 0xff }
    } else {
        Rdev { major: new >> 8 & 0xfff, minor: new >> 12 & 0xf_ff00 | new & 0xff }
    }
}

impl Header {
    /// Returns the meaning of a header whose magic number and checksum are right, or what is wrong
    /// with it.
    fn new(spcl: &Spcl, form: Option<Form>) -> Result<Self, String> {
        let Some(&(_, kind)) = Kind::ALL.iter().find(|(number, _)| *number == spcl.c_type) else {
            return Err(format!("a header of the unknown kind {}", spcl.c_type));
        };
        let form = form.unwrap_or_else(|| Self::form(spcl));
        let is_new = form == Form::Ufs2;
        if is_new != (spcl.c_magic == FS_UFS2_MAGIC) {
            return Err("a header of another form".into());
        }
        let count = u32::try_from(spcl.c_count).map_err(|_| format!("a count of {}", spcl.c_count))?;
        let is_file = matches!(kind, Kind::Inode | Kind::Addr);
        if is_file && count as usize > PER_HEADER {
            return Err(format!("a count of {count} in the header of a file"));
        }
        let mut announced = spcl.c_addr.iter().take(count as usize);
        if is_file && form == Form::Linux && announced.any(|&present| present > 1) {
            return Err("runs as Linux's dump packs them since 0.4b49, which are not read".into());
        }
        let extsize = match u32::try_from(spcl.c_extsize) {
            _ if !is_new => 0,
            Ok(extsize) if extsize <= MAX_EXTSIZE => extsize,
            _ => return Err(format!("{} bytes of extended attributes", spcl.c_extsize)),
        };
        let [uid, gid] = match form {
            Form::Bsd43 => spcl.c_oldids.map(u32::from),
            _ => [spcl.c_uid, spcl.c_gid],
        };
        let wide = |new: i64, old: i32| if is_new { new } else { old.into() };
        let stamp = Stamp {
            date: wide(spcl.c_date, spcl.c_old_date),
            ddate: wide(spcl.c_ddate, spcl.c_old_ddate),
            level: spcl.c_level,
            label: text(&spcl.c_label),
            filesys: text(&spcl.c_filesys),
            device: text(&spcl.c_dev),
            host: text(&spcl.c_host),
        };
        // Before 4.4BSD there are spare words in the place of nanoseconds.
        let nanos = |nanos| if matches!(form, Form::Ufs2 | Form::Bsd44) { nanos } else { 0 };
        let inode = Inode {
            mode: spcl.c_mode,
            size: spcl.c_size,
            uid,
            gid,
            atime: time(wide(spcl.c_atime, spcl.c_old_atime), nanos(spcl.c_atimensec)),
            mtime: time(wide(spcl.c_mtime, spcl.c_old_mtime), nanos(spcl.c_mtimensec)),
            birthtime: (is_new && spcl.c_birthtime != 0)
                .then(|| time(spcl.c_birthtime, spcl.c_birthtimensec)),
            device: match form {
                Form::Linux => Device::Known(device_of_linux(spcl)),
                _ => Device::Raw(spcl.c_rdev),
            },
            flags: match form {
                Form::Linux => flags_of_linux(spcl.c_file_flags),
                Form::Bsd43 => 0,
                _ => spcl.c_file_flags,
            },
            extsize,
            // Other forms count also names in directories that were not to be dumped.
            names: if is_new { spcl.c_nlink } else { 0 },
        };
        Ok(Self {
            kind,
            form,
            stamp,
            volume: spcl.c_volume,
            record: wide(spcl.c_tapea, spcl.c_old_tapea),
            ino: spcl.c_inumber,
            inode,
            count,
            present: spcl.c_addr,
            is_attributes: !is_new && spcl.c_flags & DR_EXTATTRIBUTES != 0,
            metadata_only: form == Form::Linux && spcl.c_flags & DR_METAONLY != 0,
        })
    }

    /// Returns the form of the stream that begins with this header.
    fn form(spcl: &Spcl) -> Form {
        // Linux counts there the records that it writes at a time; a BSD of that time has zeros.
        let has_ntrec = spcl.c_date != 0;
        match spcl.c_magic {
            FS_UFS2_MAGIC => Form::Ufs2,
            _ if spcl.c_flags & DR_NEWINODEFMT == 0 => Form::Bsd43,
            _ if has_ntrec => Form::Linux,
            _ => Form::Bsd44,
        }
    }

    /// Returns the header as a record of this number, in the form that we write. Dates and numbers
    /// stand in the old fields as well, as far as they fit, for Linux.
    pub(crate) fn encode(&self, number: i64) -> [u8; RECORD] {
        let Inode { atime, mtime, .. } = self.inode;
        let birthtime = self.inode.birthtime.unwrap_or_default();
        let old = |secs: i64| i32::try_from(secs).unwrap_or(if secs < 0 { i32::MIN } else { i32::MAX });
        let spcl = Spcl {
            c_type: self.kind.number(),
            c_old_date: old(self.stamp.date),
            c_old_ddate: old(self.stamp.ddate),
            c_volume: self.volume,
            c_old_tapea: old(number),
            c_inumber: self.ino,
            c_magic: FS_UFS2_MAGIC,
            c_checksum: 0,
            c_mode: self.inode.mode,
            c_nlink: self.inode.names,
            c_oldids: [0; 2],
            c_size: self.inode.size,
            c_old_atime: old(atime.secs),
            c_atimensec: atime.nanos.cast_signed(),
            c_old_mtime: old(mtime.secs),
            c_mtimensec: mtime.nanos.cast_signed(),
            c_ctime: [0; 2],
            c_rdev: match self.inode.device {
                Device::Raw(raw) => raw,
                Device::Known(rdev) => rdev.major << 8 | rdev.minor & 0xff,
            },
            c_birthtimensec: birthtime.nanos.cast_signed(),
            c_birthtime: birthtime.secs,
            c_atime: atime.secs,
            c_mtime: mtime.secs,
            c_extsize: self.inode.extsize.cast_signed(),
            c_file_flags: self.inode.flags,
            c_uid: self.inode.uid,
            c_gid: self.inode.gid,
            c_count: self.count.cast_signed(),
            c_addr: self.present,
            c_label: field(&self.stamp.label),
            c_level: self.stamp.level,
            c_filesys: field(&self.stamp.filesys),
            c_dev: field(&self.stamp.device),
            c_host: field(&self.stamp.host),
            c_flags: 0,
            c_old_firstrec: 0,
            c_date: self.stamp.date,
            c_ddate: self.stamp.ddate,
            c_tapea: number,
            c_firstrec: 0,
        };
        let mut record = [0; RECORD];
        spcl.encode(&mut record, Endian::Little);
        sum::put(&mut record, Endian::Little);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a record of zeros with these fields, a checksum, and the byte order.
    fn record(endian: Endian, fields: &[(usize, u32)], shorts: &[(usize, u16)]) -> [u8; RECORD] {
        let mut record = [0; RECORD];
        for (at, value) in fields {
            value.put(&mut record[*at..], endian);
        }
        for (at, value) in shorts {
            value.put(&mut record[*at..], endian);
        }
        sum::put(&mut record, endian);
        record
    }

    fn header(record: &[u8; RECORD]) -> (Header, Endian) {
        match Record::of(record, None) {
            Record::Header(header, endian) => (*header, endian),
            other => panic!("{other:?}"),
        }
    }

    /// Promise: headers of each form mean the same, in both byte orders: dates, owners and times
    /// stand where that form has them.
    #[test]
    fn forms_of_headers() {
        let magic = 60_012;
        let common = [(0, 2), (4, 100), (8, 50), (12, 1), (16, 7), (20, 12), (24, magic), (48, 9), (56, 8)];
        for endian in [Endian::Little, Endian::Big] {
            let new = [&common[..], &[(52, 5), (144, 70_000), (148, 6), (132, 1), (888, 2)]].concat();
            let (bsd44, found) = header(&record(endian, &new, &[(32, 0o100_644)]));
            assert_eq!((bsd44.form, found), (Form::Bsd44, endian));
            assert_eq!((bsd44.stamp.date, bsd44.stamp.ddate, bsd44.record, bsd44.ino), (100, 50, 7, 12));
            assert_eq!((bsd44.inode.uid, bsd44.inode.gid, bsd44.inode.flags), (70_000, 6, 1));
            assert_eq!((bsd44.inode.atime, bsd44.inode.mtime), (time(9, 5), time(8, 0)));
            let (bsd43, _) = header(&record(endian, &common, &[(32, 0o100_644), (36, 3), (38, 4)]));
            assert_eq!((bsd43.form, bsd43.inode.uid, bsd43.inode.gid), (Form::Bsd43, 3, 4));
            // ntrec; EXT2_NODUMP_FL; the device 259, 70000 in the new form.
            let linux = [&new[..], &[(896, 10), (132, 0x8_0040), (76, 0x1111_0370)]].concat();
            let (linux, _) = header(&record(endian, &linux, &[(32, 0o060_644)]));
            assert_eq!((linux.form, linux.inode.flags, linux.inode.atime), (Form::Linux, 1, time(9, 0)));
            assert_eq!(linux.inode.device, Device::Known(Rdev { major: 259, minor: 70_000 }));
            assert_eq!(linux.inode.birthtime, None);
        }
    }

    /// Promise: what no header can say is refused, and so are streams that are not read.
    #[test]
    fn wrong_headers() {
        let ufs2 = FS_UFS2_MAGIC.cast_unsigned();
        let of = |fields: &[(usize, u32)]| Record::of(&record(Endian::Little, fields, &[]), None);
        assert!(matches!(of(&[(0, 2), (24, ufs2)]), Record::Header(..)));
        for field in [(0, 7), (160, 513), (160, u32::MAX), (104, 1 << 18), (104, u32::MAX)] {
            assert!(matches!(of(&[(0, 2), (24, ufs2), field]), Record::Wrong(_)), "{field:?}");
        }
        let packed = [(0, 2), (24, 60_012), (888, 2), (896, 10), (160, 4), (164, 0x0001_0500)];
        assert!(matches!(of(&packed), Record::Wrong(_)));
        assert!(matches!(of(&[(0, 1), (24, 60_012), (888, 0x82)]), Record::Refused(_)));
        assert!(matches!(of(&[(0, 1), (24, 60_011)]), Record::Refused(_)));
        assert!(matches!(of(&[(16, 60_011 << 16)]), Record::Refused(_)));
        assert!(matches!(of(&[(0, 1)]), Record::Other));
        let mut broken = record(Endian::Little, &[(0, 2), (24, ufs2)], &[]);
        broken[500] = 1;
        assert!(matches!(Record::of(&broken, None), Record::Wrong(_)));
    }

    /// Promise: the device numbers of every dialect come back, and those that do not fit are
    /// refused.
    #[test]
    fn device_numbers() {
        let dialects = [
            Dialect::FreeBsd,
            Dialect::NetBsd,
            Dialect::OpenBsd,
            Dialect::Sun { x86: false },
            Dialect::Bsd43,
            Dialect::Bsd44,
        ];
        let mut kept = 0;
        for dialect in dialects {
            for major in [0, 1, 3, 255, 256, 1000, 70_000] {
                for minor in [0, 3, 255, 256, 4095, 70_000, 1 << 20] {
                    let rdev = Rdev { major, minor };
                    if let Some(device) = Device::of(rdev, dialect) {
                        kept += 1;
                        assert_eq!(device.rdev(Some(dialect)), Some(rdev));
                        let known = device.rdev(None);
                        assert!(known.is_none_or(|known| known == rdev), "{dialect} {rdev:?}");
                    } else {
                        assert!(major > 255 || minor > 255, "{dialect} {rdev:?}");
                    }
                }
            }
        }
        assert!(kept > 100, "{kept}");
    }
}
