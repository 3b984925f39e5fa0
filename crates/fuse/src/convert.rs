//! Between the values of the seam and the values of the kernel.
//!
//! Two numbers need care. The kernel calls the root 1 whatever the file system calls it, so [`NodeIds`] swaps the two
//! numbers. And `fuser` reads times before 1970 as if their nanoseconds counted backwards; that loses nothing, so
//! [`from_kernel_time`] turns it round (`fuser` 0.18 `src/time.rs`; what it sends is right).

use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use spindle_clock::Timestamp;
use spindle_vfs::{Attr, Error, FileKind, Ino, Rdev, SetTime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Inode numbers as the kernel knows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeIds {
    root: Ino,
}

impl NodeIds {
    pub(crate) const fn new(root: Ino) -> Self {
        Self { root }
    }

    const fn swap(self, number: u64) -> u64 {
        if number == INodeNo::ROOT.0 {
            self.root.0
        } else if number == self.root.0 {
            INodeNo::ROOT.0
        } else {
            number
        }
    }

    pub(crate) const fn node(self, ino: Ino) -> INodeNo {
        INodeNo(self.swap(ino.0))
    }

    pub(crate) const fn ino(self, node: INodeNo) -> Ino {
        Ino(self.swap(node.0))
    }
}

/// Whom everything appears to belong to, and what it appears to permit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Presented {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) file_mask: Option<u32>,
    pub(crate) dir_mask: Option<u32>,
}

impl Presented {
    fn perm(self, attr: &Attr) -> u32 {
        let mask = match attr.kind {
            FileKind::Directory => self.dir_mask,
            FileKind::Symlink => None,
            _ => self.file_mask,
        };
        mask.map_or(attr.perm & 0o7777, |mask| 0o777 & !mask)
    }
}

/// The attributes as `stat` shows them, under the kernel's number for the inode.
pub(crate) fn file_attr(node: INodeNo, attr: &Attr, presented: Presented) -> FileAttr {
    let ctime = to_system_time(attr.ctime);
    FileAttr {
        ino: node,
        size: attr.size,
        blocks: attr.blocks512,
        atime: to_system_time(attr.atime),
        mtime: to_system_time(attr.mtime),
        ctime,
        crtime: attr.birthtime.map_or(ctime, to_system_time),
        kind: file_type(attr.kind),
        perm: u16::try_from(presented.perm(attr)).unwrap_or(0),
        nlink: attr.nlink,
        uid: presented.uid.unwrap_or(attr.uid),
        gid: presented.gid.unwrap_or(attr.gid),
        rdev: encode_rdev(attr.rdev),
        blksize: attr.blksize,
        flags: attr.flags,
    }
}

/// Attributes of nothing: number 0 tells the kernel that a name does not exist.
pub(crate) const fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

pub(crate) const fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

/// The kernel's 32-bit device number (`new_encode_dev` of Linux `kdev_t.h`): 12 bits of major, 20 of minor.
pub(crate) const fn encode_rdev(rdev: Rdev) -> u32 {
    let (major, minor) = (rdev.major & 0xfff, rdev.minor & 0xf_ffff);
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

pub(crate) const fn decode_rdev(dev: u32) -> Rdev {
    Rdev { major: (dev >> 8) & 0xfff, minor: (dev & 0xff) | ((dev >> 12) & 0xf_ff00) }
}

pub(crate) fn errno(error: &Error) -> Errno {
    Errno::from_i32(error.errno())
}

/// The nearest time that [`SystemTime`] can hold.
pub(crate) fn to_system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.secs.unsigned_abs());
    let secs = if time.secs < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    secs.and_then(|secs| secs.checked_add(Duration::from_nanos(time.nanos.into()))).unwrap_or(UNIX_EPOCH)
}

/// The time that the kernel meant when `fuser` says `time`.
pub(crate) fn from_kernel_time(time: SystemTime) -> Timestamp {
    let secs = |d: Duration| i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp::new(secs(after), after.subsec_nanos()),
        Err(before) => Timestamp::new(-secs(before.duration()), before.duration().subsec_nanos()),
    }
}

pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(from_kernel_time(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: whatever number the root has, every other inode keeps a number of its own, and both ways agree.
    #[test]
    fn node_numbers_are_swapped_with_the_root() {
        for root in [1, 2, 7] {
            let ids = NodeIds::new(Ino(root));
            assert_eq!(ids.node(Ino(root)), INodeNo::ROOT);
            let mut seen = std::collections::BTreeSet::new();
            for n in 1..10 {
                assert_eq!(ids.ino(ids.node(Ino(n))), Ino(n));
                assert!(seen.insert(ids.node(Ino(n)).0));
            }
        }
    }

    /// Promise: times before 1970 survive what `fuser` does to them, to the nanosecond.
    #[test]
    fn times_before_1970() {
        // What fuser makes of seconds and nanoseconds from the kernel.
        let read_by_fuser = |secs: i64, nanos: u32| {
            if secs >= 0 {
                UNIX_EPOCH + Duration::new(secs.unsigned_abs(), nanos)
            } else {
                UNIX_EPOCH - Duration::new(secs.unsigned_abs(), nanos)
            }
        };
        for (secs, nanos) in
            [(-1, 999_999_999), (-1, 0), (-2, 1), (0, 0), (0, 1), (-86400 * 365, 5), (12, 34)]
        {
            assert_eq!(from_kernel_time(read_by_fuser(secs, nanos)), Timestamp::new(secs, nanos));
        }
        assert_eq!(Timestamp::from(to_system_time(Timestamp::new(-2, 250))), Timestamp::new(-2, 250));
        assert_eq!(to_system_time(Timestamp::new(i64::MIN, 0)), UNIX_EPOCH - Duration::from_secs(1 << 63));
    }

    /// Promise: device numbers up to 12 bits of major and 20 bits of minor pass both ways.
    #[test]
    fn device_numbers() {
        for (major, minor) in [(0, 0), (8, 1), (0xfff, 0xf_ffff), (1, 0x100), (259, 300)] {
            let rdev = Rdev { major, minor };
            assert_eq!(decode_rdev(encode_rdev(rdev)), rdev);
        }
        assert_eq!(encode_rdev(Rdev { major: 8, minor: 1 }), 0x801);
    }
}
