//! `dissect.ffs`, a reader in Python, through a script that prints a [`crate::table`].

use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::record::Listing;
use crate::tool::{command, run, tools};
use crate::{Failure, Result, table};

const SCRIPT: &str = include_str!("dissect.py");

/// Lists the file system that starts at the first byte of `image`.
///
/// # Errors
/// The traceback, when the reader cannot read the image.
pub fn list(image: &Path) -> Result<Listing> {
    let python = tools().join("python/bin/python");
    let mut script = NamedTempFile::with_suffix(".py").map_err(Failure::of("temporary file"))?;
    script.write_all(SCRIPT.as_bytes()).map_err(Failure::of("temporary file"))?;
    let text = run(command(python).arg(script.path()).arg(image))?;
    let text = String::from_utf8(text).map_err(Failure::of("dissect.ffs"))?;
    table::parse(&text)
}
