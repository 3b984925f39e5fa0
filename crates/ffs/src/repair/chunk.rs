//! Directory chunks: entries written, removed and put right, each chunk in one sector.

use crate::check::EntryDamage;
use crate::check::node::kind;
use crate::format::entries::{Entries, parse};
use crate::format::layout::{InodeFormat, Layout};
use crate::format::ondisk::{DIRECT_HEADER, dirsiz};
use spindle_ondisk::Field;

/// Writes an entry at the start of `bytes`, which then accounts for `reclen` bytes.
fn put_entry(layout: &Layout, bytes: &mut [u8], reclen: usize, ino: u32, kind: u8, name: &[u8]) {
    bytes[..reclen].fill(0);
    ino.put(bytes, layout.endian);
    put_reclen(layout, bytes, reclen);
    if layout.inode_format == InodeFormat::New {
        bytes[6] = kind;
        bytes[7] = u8::try_from(name.len()).unwrap_or(u8::MAX);
    } else {
        u16::try_from(name.len()).unwrap_or(u16::MAX).put(&mut bytes[6..], layout.endian);
    }
    bytes[DIRECT_HEADER..DIRECT_HEADER + name.len()].copy_from_slice(name);
}

fn put_reclen(layout: &Layout, bytes: &mut [u8], reclen: usize) {
    u16::try_from(reclen).unwrap_or(u16::MAX).put(&mut bytes[4..], layout.endian);
}

/// Returns the entry before byte `at` of a chunk, with its length.
fn before(layout: &Layout, chunk: &[u8], at: usize) -> Option<(usize, usize)> {
    let (mut start, mut last) = (0, None);
    while start < at {
        let (_, reclen) = parse(layout, &chunk[start..], start).ok()?;
        last = Some((start, reclen));
        start += reclen;
    }
    last
}

/// Fills a chunk with one unused entry.
pub(crate) fn empty(layout: &Layout, chunk: &mut [u8]) {
    let len = chunk.len();
    put_entry(layout, chunk, len, 0, 0, b"");
}

/// Fills the first chunk of a directory with `.`, `..` and as many of its names as there is room
/// for.
pub(crate) fn begin(layout: &Layout, chunk: &mut [u8], ino: u32, parent: u32) {
    let old = chunk.to_vec();
    let dot = dirsiz(1);
    let mut entries: Vec<(u32, u8, Vec<u8>)> =
        vec![(ino, kind::DIR, b".".to_vec()), (parent, kind::DIR, b"..".to_vec())];
    let mut used = 2 * dot;
    for entry in Entries::new(layout, &old).flatten() {
        let need = dirsiz(entry.name.len());
        if entry.ino != 0 && !matches!(entry.name, b"." | b"..") && used + need <= chunk.len() {
            entries.push((entry.ino, entry.kind.unwrap_or(0), entry.name.to_vec()));
            used += need;
        }
    }
    let (mut at, count, len) = (0, entries.len(), chunk.len());
    for (n, (ino, kind, name)) in entries.into_iter().enumerate() {
        let reclen = if n + 1 == count { len - at } else { dirsiz(name.len()) };
        put_entry(layout, &mut chunk[at..], reclen, ino, kind, &name);
        at += reclen;
    }
}

/// Enters a name into the space behind the first entry that has enough, or into an unused one.
/// Returns false if there is none.
pub(crate) fn insert(layout: &Layout, chunk: &mut [u8], ino: u32, kind: u8, name: &[u8]) -> bool {
    let need = dirsiz(name.len());
    let mut at = 0;
    while at < chunk.len() {
        let Ok((entry, reclen)) = parse(layout, &chunk[at..], at) else { return false };
        let used = if entry.ino == 0 { 0 } else { dirsiz(entry.name.len()) };
        if reclen - used >= need {
            if used > 0 {
                put_reclen(layout, &mut chunk[at..], used);
            }
            put_entry(layout, &mut chunk[at + used..], reclen - used, ino, kind, name);
            return true;
        }
        at += reclen;
    }
    false
}

/// Takes out the entry at byte `at`: the entry before it gets its space.
pub(crate) fn remove(layout: &Layout, chunk: &mut [u8], at: usize) {
    let Ok((_, reclen)) = parse(layout, &chunk[at..], at) else { return };
    match before(layout, chunk, at) {
        Some((start, before)) => {
            chunk[at..at + reclen].fill(0);
            put_reclen(layout, &mut chunk[start..], before + reclen);
        }
        None => put_entry(layout, &mut chunk[at..], reclen, 0, 0, b""),
    }
}

/// Puts the structure of a chunk right. A bad name goes, and a bad kind becomes unknown; where a
/// length is wrong, the rest of the chunk goes.
pub(crate) fn mend(layout: &Layout, chunk: &mut [u8]) {
    let mut at = 0;
    while at < chunk.len() {
        match parse(layout, &chunk[at..], at) {
            Ok((_, reclen)) => at += reclen,
            Err(EntryDamage::TypeInvalid) => chunk[at + 6] = 0,
            Err(
                EntryDamage::NameEmpty
                | EntryDamage::NameHasNul
                | EntryDamage::NameHasSlash
                | EntryDamage::NotTerminated,
            ) => 0_u32.put(&mut chunk[at..], layout.endian),
            Err(_) => {
                let len = chunk.len();
                match before(layout, chunk, at) {
                    Some((start, _)) => {
                        chunk[at..].fill(0);
                        put_reclen(layout, &mut chunk[start..], len - start);
                    }
                    None => empty(layout, chunk),
                }
                return;
            }
        }
    }
}
