//! A reader of the old UNIX file systems in Python, written for these tests: nothing that is
//! packaged reads them.

use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::record::Listing;
use crate::tool::{command, run};
use crate::{Failure, Result, table};

const SCRIPT: &str = include_str!("oldunix.py");

/// Lists an image of the format that Spindle calls so.
///
/// # Errors
/// The traceback, when the reader cannot read the image or a block is in no file and not free.
pub fn list(image: &Path, format: &str) -> Result<Listing> {
    let mut script = NamedTempFile::with_suffix(".py").map_err(Failure::of("temporary file"))?;
    script.write_all(SCRIPT.as_bytes()).map_err(Failure::of("temporary file"))?;
    let text = run(command("python3").arg(script.path()).arg(format).arg(image))?;
    table::parse(&String::from_utf8(text).map_err(Failure::of("oldunix.py"))?)
}
