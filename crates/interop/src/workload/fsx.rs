//! `fsx` (crates.io): random operations on one file, each read compared with what was written.

use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::tool::{command, run as run_tool, tools};
use crate::{Failure, Result};

/// All that `fsx` can do, mappings as often as plain reads and writes. No operation is empty: a
/// `posix_fallocate` of no bytes is EINVAL by POSIX, which `fsx` takes for a file system without
/// it.
const CONFIGURATION: &str = "
flen = 1048576

[opsize]
min = 1
max = 65536

[weights]
close_open = 2
copy_file_range = 3
fdatasync = 0.5
fsync = 0.5
invalidate = 1
mapread = 10
mapwrite = 10
posix_fadvise = 1
posix_fallocate = 2
punch_hole = 3
read = 10
sendfile = 2
truncate = 5
write = 10
";

/// Runs so many operations with this seed on a new file in `directory`.
///
/// # Errors
/// The last operations before the file differed from what it must be.
pub fn run(directory: &Path, seed: u64, operations: u64) -> Result<()> {
    let mut configuration = NamedTempFile::new().map_err(Failure::of("temporary file"))?;
    configuration.write_all(CONFIGURATION.as_bytes()).map_err(Failure::of("temporary file"))?;
    let artifacts = tempfile::tempdir().map_err(Failure::of("temporary directory"))?;
    let mut fsx = command(tools().join("bin/fsx"));
    fsx.arg("-f").arg(configuration.path()).arg("-P").arg(artifacts.path());
    fsx.args(["-N", &operations.to_string(), "-S", &seed.to_string()]);
    run_tool(fsx.arg(directory.join(format!("fsx-{seed}")))).map(drop)
}
