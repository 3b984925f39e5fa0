//! Runs outside programs; a failure says which program, with which arguments, and what it printed.
//!
//! Every program runs under `timeout`, because a reader that loops on an image must fail the test,
//! not hang it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::{Failure, Result};

/// Seconds after which an outside program is killed.
const LIMIT_S: u32 = 900;

/// Returns the root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns where `make setup` puts the tools that are not Debian packages.
#[must_use]
pub fn tools() -> PathBuf {
    std::env::var_os("SPINDLE_TOOLS").map_or_else(|| repository().join(".tools"), PathBuf::from)
}

/// Returns a command for `program`, which is a path or is looked up as root's shell would.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
    command.arg("--kill-after=5").arg(LIMIT_S.to_string()).arg(program);
    command
}

/// Runs `command` and gives what it printed, whatever its exit status.
///
/// # Errors
/// When it cannot be started, is not installed, or had to be killed.
pub fn output(command: &mut Command) -> Result<Output> {
    let output = command.output().map_err(Failure::of("timeout"))?;
    match output.status.code() {
        Some(124 | 137) | None => Err(failed(command, format!("took over {LIMIT_S} s"))),
        Some(126 | 127) => Err(failed(command, "not installed; run `make setup`")),
        Some(_) => Ok(output),
    }
}

/// Runs `command` and gives its standard output.
///
/// # Errors
/// As [`output`], and when the exit status is not 0.
pub fn run(command: &mut Command) -> Result<Vec<u8>> {
    let output = output(command)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(command, format!("{}: {}", output.status, said.trim_end())))
}

/// Returns the failure of `command` because of `reason`.
pub(crate) fn failed(command: &Command, reason: impl std::fmt::Display) -> Failure {
    let line: Vec<_> = command.get_args().skip(2).map(OsStr::to_string_lossy).collect();
    Failure::new(format!("{}: {reason}", line.join(" ")))
}
