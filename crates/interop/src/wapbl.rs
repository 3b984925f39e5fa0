//! NetBSD's log from its own side: in Python, after NetBSD's sources, for nothing that is packaged
//! knows it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use tempfile::NamedTempFile;

use crate::tool::{command, run};
use crate::{Failure, Result};

const SCRIPT: &str = include_str!("wapbl.py");

/// Where a log is in an image, in bytes, and whether its machine is big-endian.
#[derive(Clone, Copy, Debug)]
pub struct LogLocation {
    /// Where it begins.
    pub at: u64,
    /// Its length.
    pub bytes: u64,
    /// Byte order.
    pub big_endian: bool,
}

/// What one transaction does. Addresses count blocks of 512 bytes.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// Addresses and contents.
    pub blocks: Vec<(u64, Vec<u8>)>,
    /// Addresses and bytes.
    pub revoked: Vec<(u64, u64)>,
    /// Inodes without names, with their modes.
    pub inodes: Vec<(u32, u32)>,
}

fn script() -> Result<NamedTempFile> {
    let mut script = NamedTempFile::with_suffix(".py").map_err(Failure::of("temporary file"))?;
    script.write_all(SCRIPT.as_bytes()).map_err(Failure::of("temporary file"))?;
    Ok(script)
}

/// Carries the log of an image out, and gives the inodes on its list with their modes.
///
/// # Errors
/// When it is no log, or its records cannot be followed.
pub fn replay(image: &Path, place: LogLocation) -> Result<Vec<(u32, u32)>> {
    let script = script()?;
    let text = run(arguments("replay", script.path(), image, place).stdin(Stdio::null()))?;
    let text = String::from_utf8(text).map_err(Failure::of("wapbl.py"))?;
    let number = |word: Option<&str>| {
        word.and_then(|word| word.parse().ok()).ok_or_else(|| Failure::new(format!("wapbl.py: {text}")))
    };
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            Ok((number(words.next())?, number(words.next())?))
        })
        .collect()
}

/// Writes a log with these transactions.
///
/// # Errors
/// When the image cannot be written.
pub fn write(image: &Path, place: LogLocation, transactions: &[Transaction]) -> Result<()> {
    let mut plan = String::new();
    for transaction in transactions {
        for (daddr, bytes) in &transaction.blocks {
            let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            let _ = writeln!(plan, "block {daddr} {hex}");
        }
        for (daddr, bytes) in &transaction.revoked {
            let _ = writeln!(plan, "revoke {daddr} {bytes}");
        }
        for (number, mode) in &transaction.inodes {
            let _ = writeln!(plan, "inode {number} {mode}");
        }
        plan.push_str("commit\n");
    }
    let script = script()?;
    let mut file = tempfile::tempfile().map_err(Failure::of("temporary file"))?;
    file.write_all(plan.as_bytes()).map_err(Failure::of("temporary file"))?;
    std::io::Seek::rewind(&mut file).map_err(Failure::of("temporary file"))?;
    run(arguments("write", script.path(), image, place).stdin(file)).map(drop)
}

fn arguments(what: &str, script: &Path, image: &Path, place: LogLocation) -> std::process::Command {
    let mut command = command("python3");
    command.arg(script).arg(what).arg(image);
    command.args([place.at.to_string(), place.bytes.to_string()]);
    command.arg(if place.big_endian { ">" } else { "<" });
    command
}
