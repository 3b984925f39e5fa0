//! `pjdfstest` (crates.io): what POSIX says of names, links, permissions, times and errors.

use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::tool::{command, output, tools};
use crate::{Failure, Result};

/// Everything that Linux has system calls for. The tests of read-only file systems remount with
/// `mount -o remount`, which here means running another daemon: they are left out. Both users exist
/// on every Debian.
const CONFIGURATION: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}
secondary_fs = "/dev/shm"

[settings]
naptime = 0.02
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// Why a test may be skipped; the C library does not know how many links a FUSE mount allows.
const MAY_SKIP: [&str; 2] = [
    "Remounts (allow_remount) are not allowed in the configuration file",
    "Cannot get value for LINK_MAX: filesystem limit is unknown",
];

/// Runs all tests in `directory`. The mount must be usable by other users and must have root as its
/// owner.
///
/// # Errors
/// The tests that failed, with what they say, or those skipped for another reason than `MAY_SKIP`.
pub fn run(directory: &Path) -> Result<()> {
    let mut configuration = NamedTempFile::new().map_err(Failure::of("temporary file"))?;
    configuration.write_all(CONFIGURATION.as_bytes()).map_err(Failure::of("temporary file"))?;
    let mut pjdfstest = command(tools().join("bin/pjdfstest"));
    pjdfstest.env("NO_COLOR", "1").arg("-c").arg(configuration.path()).arg("-p").arg(directory);
    let got = output(&mut pjdfstest)?;
    let text = String::from_utf8_lossy(&got.stdout);
    let lines: Vec<&str> = text.lines().collect();
    let mut wrong = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let reason = lines.get(place + 1).map_or("", |next| next.trim());
        if line.ends_with("FAILED") || line.ends_with("skipped") && !MAY_SKIP.contains(&reason) {
            wrong.push(format!("{line}: {reason}"));
        }
    }
    let summary = lines.iter().find(|line| line.starts_with("Summary: 0 failed"));
    if got.status.success() && wrong.is_empty() && summary.is_some() {
        return Ok(());
    }
    wrong.push(String::from_utf8_lossy(&got.stderr).into_owned());
    Err(Failure::new(format!("pjdfstest, {}:\n{}", got.status, wrong.join("\n"))))
}
