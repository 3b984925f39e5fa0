//! Images of real systems, each with the listing that Linux's own `ufs` or `sysv` driver gave of
//! it.

use std::fs;
use std::path::{Path, PathBuf};

use spindle_samples::{Sample, present};
use tempfile::TempDir;

use crate::format::Format;
use crate::record::Listing;
use crate::{Failure, Result, table};

/// A private copy of a real image, which may be written, and its listing.
#[derive(Debug)]
pub struct RealImage {
    /// What it is called.
    pub name: &'static str,
    directory: TempDir,
    /// What Linux's driver saw in it.
    pub listing: Listing,
}

impl RealImage {
    /// Unpacks those of the named images that are there ([`spindle_samples`]).
    ///
    /// # Errors
    /// When an image or its listing cannot be read.
    pub fn unpack(names: &[&'static str]) -> Result<Vec<Self>> {
        present(names).iter().map(Self::of).collect()
    }

    fn of(sample: &Sample) -> Result<Self> {
        let directory = TempDir::new().map_err(Failure::of("temporary directory"))?;
        let mut image = Self { name: sample.name, directory, listing: table::parse(&sample.listing())? };
        fs::write(image.path(), sample.image()).map_err(Failure::of("copy"))?;
        // Linux shows fractions of a second for UFS2 only.
        if !Format::of(&image.path()).is_ok_and(|format| format.ufs2) {
            for stamp in image.listing.values_mut().filter_map(|record| record.mtime.as_mut()) {
                stamp.nanos = None;
            }
        }
        Ok(image)
    }

    /// Returns where the copy is; it is deleted with this value.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::join(self.directory.path(), "image")
    }
}
