//! The four foreign readers, and which formats each of them reads.
//!
//! What [`Reader::reads`] says is held by a test in both directions: a reader agrees with the
//! source on the formats it reads, and does not on the others.

use std::ops::RangeInclusive;
use std::path::Path;

use crate::format::Format;
use crate::record::{Kind, Listing, Record, differences};
use crate::{Result, dissect, grub, rufs, sleuthkit};

/// A foreign reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The Sleuth Kit 4.11.
    SleuthKit,
    /// GRUB 2.06.
    Grub,
    /// `dissect.ffs` 3.12.
    Dissect,
    /// `rufs` 0.6.0.
    Rufs,
}

impl Reader {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::SleuthKit, Self::Grub, Self::Dissect, Self::Rufs];

    /// Returns whether the reader can read images of this format.
    #[must_use]
    pub fn reads(self, format: &Format) -> bool {
        match self {
            // Looks for UFS2 at 64 KiB and 256 KiB only; knows 4.4BSD's directories only.
            Self::SleuthKit => !(format.old_directories || format.ufs2 && format.superblock_at == 8192),
            // Big-endian UFS1 is read as far as the direct blocks go.
            Self::Grub => !format.big_endian,
            Self::Dissect => !(format.big_endian || format.old_directories),
            // Takes the superblock to be as long as a fragment, and a symbolic link to need at most
            // 4 KiB.
            Self::Rufs => {
                format.ufs2
                    && format.superblock_at == 65536
                    && format.sbsize == format.fsize
                    && format.fsize <= 4096
            }
        }
    }

    /// Lists the file system that starts at the first byte of `image`.
    ///
    /// # Errors
    /// What the reader said when it could not read the image.
    pub fn list(self, image: &Path) -> Result<Listing> {
        match self {
            Self::SleuthKit => sleuthkit::list(image),
            Self::Grub => grub::list(image),
            Self::Dissect => dissect::list(image),
            Self::Rufs => rufs::list(image),
        }
    }

    /// Returns whether the reader shows files of this kind for what they are.
    #[must_use]
    pub fn sees(self, kind: Kind) -> bool {
        self != Self::Grub || matches!(kind, Kind::Regular | Kind::Directory)
    }

    /// Returns how what this reader sees in `image` differs from `expected`; empty when it agrees.
    ///
    /// # Errors
    /// Those of [`Self::list`].
    pub fn disagrees(self, image: &Path, expected: &Listing) -> Result<Vec<String>> {
        let actual = self.list(image)?;
        let shown = expected.iter().filter(|(path, _)| self != Self::Grub || *path != b".");
        let expected = shown.map(|(path, record)| {
            let path = if self == Self::SleuthKit { sleuthkit::shown(path) } else { path.clone() };
            let mtime = record.mtime.filter(|stamp| self.times().contains(&stamp.secs));
            (path, Record { mtime, ..record.clone() })
        });
        Ok(differences(&expected.collect(), &actual, |kind| self.sees(kind)))
    }

    /// Returns the times, in seconds since 1970, that the reader shows correctly.
    fn times(self) -> RangeInclusive<i64> {
        match self {
            Self::SleuthKit => 0..=i64::from(u32::MAX),
            Self::Grub => 0..=4_107_542_399,
            Self::Dissect | Self::Rufs => i64::MIN..=i64::MAX,
        }
    }
}
