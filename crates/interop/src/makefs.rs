//! Images written by NetBSD's `makefs`, in Debian's package of 2019.
//!
//! It leaves sockets and fractions of a second out, fills holes with blocks of zeros, and puts a
//! UFS2 superblock at 8192, where several readers do not look for one.

use std::path::Path;

use crate::Result;
use crate::record::{Kind, Listing};
use crate::tool::{command, run};

/// The parameters of an image; those that are `None` are left to `makefs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Makefs {
    /// UFS2, otherwise UFS1.
    pub ufs2: bool,
    /// Big-endian, otherwise little-endian.
    pub big_endian: bool,
    /// Bytes in a block.
    pub bsize: u32,
    /// Bytes in a fragment.
    pub fsize: u32,
    /// Percentage of the file system kept free.
    pub minfree_percent: Option<u32>,
    /// Bytes of the file system for each inode.
    pub density_bytes: Option<u32>,
    /// Blocks in a cylinder group at most.
    pub maxbpcg: Option<u32>,
    /// Optimise for space instead of time.
    pub space: bool,
    /// Bytes to leave free for writing later.
    pub free_bytes: u64,
    /// Inodes to leave free for writing later.
    pub free_files: u32,
    /// Seconds since 1970 after which no time stamp lies, for reproducible images.
    pub clamp_secs: Option<u64>,
}

impl Makefs {
    /// Writes an image of the directory `source`.
    ///
    /// # Errors
    /// What `makefs` said.
    pub fn write(&self, image: &Path, source: &Path) -> Result<()> {
        let version = 1 + u32::from(self.ufs2);
        let mut options = vec![
            format!("version={version}"),
            format!("bsize={}", self.bsize),
            format!("fsize={}", self.fsize),
        ];
        options.extend(self.minfree_percent.map(|value| format!("minfree={value}")));
        options.extend(self.density_bytes.map(|value| format!("density={value}")));
        options.extend(self.maxbpcg.map(|value| format!("maxbpcg={value}")));
        if self.space {
            options.push("optimization=space".into());
        }
        let mut makefs = command("makefs");
        makefs.args(["-t", "ffs", "-B", if self.big_endian { "be" } else { "le" }, "-o", &options.join(",")]);
        makefs.args(["-b", &self.free_bytes.to_string(), "-f", &self.free_files.to_string()]);
        if let Some(secs) = self.clamp_secs {
            makefs.args(["-T", &secs.to_string()]);
        }
        run(makefs.arg(image).arg(source)).map(drop)
    }

    /// Returns what of `source` an image has.
    #[must_use]
    pub fn keeps(source: &Listing) -> Listing {
        let mut kept = source.clone();
        kept.retain(|_, record| record.kind != Some(Kind::Socket));
        for stamp in kept.values_mut().filter_map(|record| record.mtime.as_mut()) {
            stamp.nanos = Some(0);
        }
        kept
    }
}
