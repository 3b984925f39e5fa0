//! The forms of quota files: bytes to records and back.

use super::{Account, Quota};
use crate::format::dialect::Dialect;
use crate::format::ondisk::{Dqblk32, Dqblk64, Dqhdr64, Q_DQHDR64_MAGIC, Q_DQHDR64_VERSION};
use spindle_ondisk::Endian;
use spindle_vfs::{Error, Result};

/// The form of a quota file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Records of 32-bit numbers from the first byte on: 4.3BSD, NetBSD, OpenBSD, FreeBSD up to 8.
    Classic(Endian),
    /// FreeBSD's, with a head and 64-bit numbers, big-endian everywhere.
    Wide,
}

/// Returns `value` as a field of a narrower record.
fn narrow<T: TryFrom<V>, V: Copy + std::fmt::Display>(value: V, what: &str) -> Result<T> {
    let hint = "use FreeBSD's 64-bit form";
    T::try_from(value)
        .map_err(|_| Error::unsupported(format!("{what} of {value} in a 32-bit quota file"), hint))
}

/// Returns the error of a file that is no quota file.
pub(crate) fn not_a_quota_file(name: &str, why: &str) -> Error {
    let remedy = "move it away, and make it again (spindle quota check)";
    Error::unsupported(format!("{name} is no quota file: {why}"), remedy)
}

impl Form {
    /// Returns the form of the file that begins with `head`, at most [`Dqhdr64::SIZE`] bytes of it,
    /// and is `size` bytes long; `endian` is the byte order of the file system.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is no quota file.
    pub(crate) fn of(head: &[u8], size: u64, endian: Endian, name: &str) -> Result<Self> {
        let wrong = |what: String| Err(not_a_quota_file(name, &what));
        let form = if head.starts_with(&Q_DQHDR64_MAGIC) {
            if head.len() < Dqhdr64::SIZE {
                return wrong(format!("its head is {} bytes long", head.len()));
            }
            let Dqhdr64 { dqh_version, dqh_hdrlen, dqh_reclen, .. } = Dqhdr64::decode(head, Endian::Big);
            let lengths = (dqh_hdrlen as usize, dqh_reclen as usize);
            if dqh_version != Q_DQHDR64_VERSION || lengths != (Dqhdr64::SIZE, Dqblk64::SIZE) {
                return wrong(format!(
                    "version {dqh_version:#x} with a head of {dqh_hdrlen} bytes and records of {dqh_reclen}"
                ));
            }
            Self::Wide
        } else {
            Self::Classic(endian)
        };
        if !(size - form.start().min(size)).is_multiple_of(form.record_bytes() as u64) {
            return wrong(format!("{size} bytes are no whole number of records"));
        }
        Ok(form)
    }

    /// Returns the form that a system makes.
    pub(crate) const fn usual(dialect: Dialect, endian: Endian) -> Self {
        match dialect {
            Dialect::FreeBsd => Self::Wide,
            _ => Self::Classic(endian),
        }
    }

    /// Returns the bytes of a new, empty file.
    pub(crate) fn empty(self) -> Vec<u8> {
        let mut head = vec![0; usize::try_from(self.start()).unwrap_or(0)];
        if self == Self::Wide {
            let lengths = [Dqhdr64::SIZE, Dqblk64::SIZE].map(|bytes| u32::try_from(bytes).unwrap_or(0));
            let [dqh_hdrlen, dqh_reclen] = lengths;
            let dqh_version = Q_DQHDR64_VERSION;
            Dqhdr64 { dqh_magic: Q_DQHDR64_MAGIC, dqh_version, dqh_hdrlen, dqh_reclen }
                .encode(&mut head, Endian::Big);
        }
        head
    }

    /// Returns the byte at which the record of id 0 begins.
    pub(crate) const fn start(self) -> u64 {
        match self {
            Self::Classic(_) => 0,
            Self::Wide => Dqhdr64::SIZE as u64,
        }
    }

    /// Returns the bytes of a record.
    pub(crate) const fn record_bytes(self) -> usize {
        match self {
            Self::Classic(_) => Dqblk32::SIZE,
            Self::Wide => Dqblk64::SIZE,
        }
    }

    /// Returns the byte at which the record of `id` begins.
    pub(crate) fn offset(self, id: u32) -> u64 {
        self.start() + u64::from(id) * self.record_bytes() as u64
    }

    /// Reads a record.
    pub(crate) fn decode(self, bytes: &[u8]) -> Quota {
        match self {
            Self::Classic(endian) => {
                let d = Dqblk32::decode(bytes, endian);
                Quota {
                    blocks: Account {
                        used: d.dqb_curblocks.into(),
                        soft: d.dqb_bsoftlimit.into(),
                        hard: d.dqb_bhardlimit.into(),
                        deadline: d.dqb_btime.into(),
                    },
                    inodes: Account {
                        used: d.dqb_curinodes.into(),
                        soft: d.dqb_isoftlimit.into(),
                        hard: d.dqb_ihardlimit.into(),
                        deadline: d.dqb_itime.into(),
                    },
                }
            }
            Self::Wide => {
                let d = Dqblk64::decode(bytes, Endian::Big);
                Quota {
                    blocks: Account {
                        used: d.dqb_curblocks,
                        soft: d.dqb_bsoftlimit,
                        hard: d.dqb_bhardlimit,
                        deadline: d.dqb_btime,
                    },
                    inodes: Account {
                        used: d.dqb_curinodes,
                        soft: d.dqb_isoftlimit,
                        hard: d.dqb_ihardlimit,
                        deadline: d.dqb_itime,
                    },
                }
            }
        }
    }

    /// Refuses a record that the form cannot hold.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub(crate) fn check(self, quota: &Quota) -> Result<()> {
        self.encode(quota, &mut [0; Dqblk64::SIZE])
    }

    /// Writes a record.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a limit or a time does not fit; usage that does not is written as
    /// the largest number.
    pub(crate) fn encode(self, quota: &Quota, bytes: &mut [u8]) -> Result<()> {
        let Quota { blocks, inodes } = quota;
        match self {
            Self::Classic(endian) => Dqblk32 {
                dqb_bhardlimit: narrow(blocks.hard, "a limit")?,
                dqb_bsoftlimit: narrow(blocks.soft, "a limit")?,
                dqb_curblocks: u32::try_from(blocks.used).unwrap_or(u32::MAX),
                dqb_ihardlimit: narrow(inodes.hard, "a limit")?,
                dqb_isoftlimit: narrow(inodes.soft, "a limit")?,
                dqb_curinodes: u32::try_from(inodes.used).unwrap_or(u32::MAX),
                dqb_btime: narrow(blocks.deadline, "a time")?,
                dqb_itime: narrow(inodes.deadline, "a time")?,
            }
            .encode(bytes, endian),
            Self::Wide => Dqblk64 {
                dqb_bhardlimit: blocks.hard,
                dqb_bsoftlimit: blocks.soft,
                dqb_curblocks: blocks.used,
                dqb_ihardlimit: inodes.hard,
                dqb_isoftlimit: inodes.soft,
                dqb_curinodes: inodes.used,
                dqb_btime: blocks.deadline,
                dqb_itime: inodes.deadline,
            }
            .encode(bytes, Endian::Big),
        }
        Ok(())
    }
}
