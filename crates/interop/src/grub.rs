//! GRUB's reader, through `grub-fstest` (Debian's `grub-common`).
//!
//! It distinguishes directories from other files, and gives of those the length, the content, the
//! time of last change in whole seconds (right only before March 2100, which it takes for a leap
//! year), and nothing else. Opening follows symbolic links, and what does not open is not listed,
//! so only regular files and directories can be looked for.

use std::path::Path;

use crate::record::{CONTENT_LIMIT_BYTES, Content, Digest, Kind, Listing, Record, Stamp};
use crate::tool::{command, failed, output};
use crate::{Failure, Result};

/// Lists the file system that starts at the first byte of `image`; the root itself is not in the
/// listing.
///
/// # Errors
/// What `grub-fstest` said, or the line that was not understood.
pub fn list(image: &Path) -> Result<Listing> {
    let mut listing = Listing::new();
    let mut pending = vec![Vec::new()];
    while let Some(directory) = pending.pop() {
        let text = fstest(image, &["ls", "--", "-l", "-a"], &[&directory[..], b"/"].concat())?;
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let (name, mut record) = entry(line).ok_or_else(|| {
                Failure::new(format!("grub-fstest {} ls: `{}`", image.display(), line.escape_ascii()))
            })?;
            // GRUB shows entries that are not in use too, as what inode 0 is: without type, time
            // and length. The length of those that have lost their name is their directory's.
            let untimed = record.kind.is_none() && record.mtime.is_some_and(|stamp| stamp.secs == 0);
            let unused = untimed && (record.size == Some(0) || name.is_empty());
            if unused || [&b"."[..], b".."].contains(&name) {
                continue;
            }
            let path = [&directory[..], b"/", name].concat();
            if record.kind == Some(Kind::Directory) {
                pending.push(path.clone());
            } else if record.size <= Some(CONTENT_LIMIT_BYTES) {
                record.content =
                    Some(Content::of(fstest(image, &["cat"], &path).map(|bytes| Digest::of(&bytes))));
            }
            listing.insert(path[1..].to_vec(), record);
        }
    }
    Ok(listing)
}

/// Returns a line of `ls -l`: 12 columns of size or `DIR`, a blank, 14 digits of time, a blank, the
/// name; a directory's name has a slash after it.
fn entry(line: &[u8]) -> Option<(&[u8], Record)> {
    let text = |range: std::ops::Range<usize>| std::str::from_utf8(line.get(range)?).ok();
    let mut record =
        Record { mtime: Some(Stamp { secs: seconds(text(13..27)?)?, nanos: None }), ..Record::default() };
    let name = line.get(28..)?;
    if text(0..12)?.trim_end() == "DIR" {
        record.kind = Some(Kind::Directory);
        return Some((name.strip_suffix(b"/")?, record));
    }
    record.size = Some(text(0..12)?.trim_end().parse().ok()?);
    Some((name, record))
}

/// Returns the seconds since 1970 of `YYYYMMDDhhmmss` in UTC.
fn seconds(digits: &str) -> Option<i64> {
    let part = |range: std::ops::Range<usize>| digits.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (part(0..4)?, part(4..6)?, part(6..8)?);
    // Days of the civil calendar, counting years from March so that the leap day is the last.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    Some(((days * 24 + part(8..10)?) * 60 + part(10..12)?) * 60 + part(12..14)?)
}

/// Runs `grub-fstest`. It exits with 0 even when it cannot read the image, so its standard error
/// decides.
fn fstest(image: &Path, words: &[&str], path: &[u8]) -> Result<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    let path = [b"(loop0)", path].concat();
    let mut command = command("grub-fstest");
    let got = output(command.arg(image).args(words).arg(std::ffi::OsStr::from_bytes(&path)))?;
    let said = String::from_utf8_lossy(&got.stderr);
    if got.status.success() && said.trim().is_empty() {
        return Ok(got.stdout);
    }
    Err(failed(&command, format!("{}: {}", got.status, said.trim_end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: GRUB's dates become the seconds that `date -u +%s` gives.
    #[test]
    fn dates_become_seconds() {
        for (digits, secs) in [
            ("19700101000000", 0),
            ("19731129213309", 123_456_789),
            ("20000229120000", 951_825_600),
            ("20010909014640", 1_000_000_000),
            ("20380119031407", 2_147_483_647),
        ] {
            assert_eq!(seconds(digits), Some(secs), "{digits}");
        }
    }
}
