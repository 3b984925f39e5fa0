//! Images of real systems, each with the listing that Linux's own `ufs` or `sysv` driver gave of it.
//!
//! They are not in the repository: they stand in the folder that `SPINDLE_IMAGES` names, `../shared/images`
//! beside the repository where it is not set, as `NAME.img.zst` and `NAME.tsv`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::format::Format;
use crate::record::Listing;
use crate::tool::{command, repository, run};
use crate::{Failure, Result, table};

fn folder() -> PathBuf {
    std::env::var_os("SPINDLE_IMAGES").map_or_else(|| repository().join("../shared/images"), PathBuf::from)
}

/// A private copy of a real image, which may be written, and its listing.
#[derive(Debug)]
pub struct RealImage {
    directory: TempDir,
    /// What Linux's driver saw in it.
    pub listing: Listing,
}

impl RealImage {
    /// Unpacks the image called `name`.
    ///
    /// # Errors
    /// When the image or its listing is not there or cannot be read.
    pub fn unpack(name: &str) -> Result<Self> {
        let file = |ending: &str| folder().join(format!("{name}.{ending}"));
        let text = fs::read_to_string(file("tsv")).map_err(Failure::of(format!(
            "{}: set SPINDLE_IMAGES to the folder of real images",
            file("tsv").display()
        )))?;
        let directory = TempDir::new().map_err(Failure::of("temporary directory"))?;
        let mut image = Self { directory, listing: table::parse(&text)? };
        run(command("zstd").args(["-d", "-q", "-f"]).arg(file("img.zst")).arg("-o").arg(image.path()))?;
        // zstd gives the copy the mode of the original, which may be read-only.
        fs::set_permissions(image.path(), fs::Permissions::from_mode(0o600)).map_err(Failure::of("copy"))?;
        // Linux shows fractions of a second for UFS2 only.
        if !Format::of(&image.path()).is_ok_and(|format| format.ufs2) {
            for stamp in image.listing.values_mut().filter_map(|record| record.mtime.as_mut()) {
                stamp.nanos = None;
            }
        }
        Ok(image)
    }

    /// Where the copy is; it is deleted with this value.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::join(self.directory.path(), "image")
    }
}
