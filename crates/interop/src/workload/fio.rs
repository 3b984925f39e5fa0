//! `fio` with verification: every block carries a checksum of itself, checked when it is read.

use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::tool::{command, run as run_tool};
use crate::{Failure, Result};

/// Random and sequential, small and large, aligned and not, buffered, mapped and direct.
const JOBS: &str = "
[global]
size=16m
verify=crc32c
verify_fatal=1
group_reporting=1
ioengine=psync
thread=1

[sequential]
rw=write
bs=1m

[odd-sizes]
stonewall
rw=randwrite
bsrange=512-64k
bs_unaligned=1

[rewrite]
stonewall
rw=randrw
bs=4k
numjobs=2

[mapped]
stonewall
ioengine=mmap
rw=randwrite
bs=4k

[direct]
stonewall
direct=1
rw=randwrite
bs=4k

[deep]
stonewall
ioengine=libaio
direct=1
iodepth=16
rw=randwrite
bs=16k
";

/// Runs the jobs in `directory`, which needs 128 MiB.
///
/// # Errors
/// What `fio` said.
pub fn run(directory: &Path) -> Result<()> {
    let mut jobs = NamedTempFile::new().map_err(Failure::of("temporary file"))?;
    jobs.write_all(JOBS.as_bytes()).map_err(Failure::of("temporary file"))?;
    let mut fio = command("fio");
    // Verification state files go to the working directory.
    fio.current_dir(directory).arg("--directory").arg(directory).arg(jobs.path());
    run_tool(&mut fio).map(drop)
}
