//! The Sleuth Kit (`fls`, `ils`, `icat`; Debian's `sleuthkit`).
//!
//! `fls` gives names and types, `ils` the inodes, `icat` content and targets. Times are whole
//! seconds and right only from 1970 to 2106. Control characters in names are shown as `^`.

use std::collections::HashMap;
use std::path::Path;

use crate::record::{CONTENT_LIMIT_BYTES, Content, Digest, Kind, Listing, Record, Stamp};
use crate::tool::{command, run};
use crate::{Failure, Result};

/// What an image is taken for: left to guess, the tools take some for other kinds of file system as
/// well and give up.
const TYPE: [&str; 2] = ["-f", "ufs"];

/// Returns how a path appears in a listing made here.
#[must_use]
pub fn shown(path: &[u8]) -> Vec<u8> {
    path.iter().map(|&byte| if byte < b' ' { b'^' } else { byte }).collect()
}

/// Lists the file system that starts at the first byte of `image`.
///
/// # Errors
/// What the tools said, or the line that was not understood.
pub fn list(image: &Path) -> Result<Listing> {
    let inodes = inodes(image)?;
    let mut contents = HashMap::new();
    let root = inodes.get(&2).ok_or_else(|| Failure::new(format!("ils {}: no inode 2", image.display())))?;
    let mut listing =
        Listing::from([(b".".to_vec(), Record { kind: Some(Kind::Directory), ..root.clone() })]);
    let names = run(command("fls").args(TYPE).args(["-r", "-p", "-u", "-m", ""]).arg(image))?;
    for line in names.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let bad = || Failure::new(format!("fls {}: `{}`", image.display(), line.escape_ascii()));
        let (path, inode, mode) = entry(line).ok_or_else(bad)?;
        let Some(kind) = mode.get(2).and_then(|&letter| Kind::of_letter(letter)) else {
            // The Sleuth Kit's own inventions, such as `$OrphanFiles`, are of type V.
            continue;
        };
        let mut record = inodes.get(&inode).ok_or_else(bad)?.clone();
        record.kind = Some(kind);
        let mut path = path;
        match kind {
            Kind::Symlink => {
                let arrow = path.windows(4).position(|window| window == b" -> ").ok_or_else(bad)?;
                let mut target = path[arrow + 4..].to_vec();
                path = &path[..arrow];
                // fls stops at the end of the first fragment; icat in turn knows no target inside
                // an inode.
                if record.size != Some(target.len() as u64) {
                    target = run(command("icat").args(TYPE).arg(image).arg(inode.to_string()))?;
                }
                record.target = Some(target);
            }
            Kind::Regular if record.size <= Some(CONTENT_LIMIT_BYTES) => {
                let content = contents.entry(inode).or_insert_with(|| content(image, inode));
                record.content.clone_from(content);
            }
            _ => {}
        }
        if listing.insert(path.to_vec(), record).is_some() {
            return Err(bad());
        }
    }
    Ok(listing)
}

/// Returns path (with target), inode and mode string of a line of the form
/// `0|/path|inode|mode|uid|gid|size|atime|mtime|ctime|crtime`.
fn entry(line: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let line = line.strip_prefix(b"0|/")?;
    let mut fields = line.rsplitn(10, |&byte| byte == b'|').skip(7);
    let mode = fields.next()?;
    let inode = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    Some((fields.next()?, inode, mode))
}

/// Returns every allocated inode with what `ils` knows of it.
fn inodes(image: &Path) -> Result<HashMap<u64, Record>> {
    let text = run(command("ils").args(TYPE).args(["-a"]).arg(image))?;
    let text = String::from_utf8_lossy(&text);
    let rows = text.lines().skip(3);
    rows.map(|row| inode(row).ok_or_else(|| Failure::new(format!("ils {}: `{row}`", image.display()))))
        .collect()
}

/// Returns one line of the form `ino|alloc|uid|gid|mtime|atime|ctime|crtime|mode|nlink|size`.
fn inode(row: &str) -> Option<(u64, Record)> {
    let field: Vec<&str> = row.split('|').collect();
    let number = |place: usize| field.get(place)?.parse::<i64>().ok();
    let record = Record {
        uid: id(number(2)?),
        gid: id(number(3)?),
        mtime: Some(Stamp { secs: number(4)?, nanos: None }),
        mode: Some(u32::from_str_radix(field.get(8)?, 8).ok()? & 0o7777),
        nlink: u32::try_from(number(9)?).ok(),
        size: u64::try_from(number(10)?).ok(),
        ..Record::default()
    };
    Some((u64::try_from(number(0)?).ok()?, record))
}

/// Owners above 2^31 may be printed as negative numbers.
fn id(printed: i64) -> Option<u32> {
    u32::try_from(printed).ok().or_else(|| i32::try_from(printed).ok().map(i32::cast_unsigned))
}

/// Returns the content; `None` where The Sleuth Kit is known to fail: on files that reach the
/// second indirect block through holes.
fn content(image: &Path, inode: u64) -> Option<Content> {
    let content = Content::of(
        run(command("icat").args(TYPE).arg(image).arg(inode.to_string())).map(|bytes| Digest::of(&bytes)),
    );
    Some(content).filter(|content| {
        !matches!(content, Content::Unreadable(reason) if reason.contains("Invalid address in run (too large)"))
    })
}
