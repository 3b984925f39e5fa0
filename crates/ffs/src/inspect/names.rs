//! Names that were removed from a directory, in the bytes behind its entries.

use crate::check::entries::{Entries, parse};
use crate::format::layout::Layout;
use crate::format::ondisk::dirsiz;
use std::collections::HashSet;

/// An old entry.
pub(super) struct Stale {
    /// Inode that it named; 0 if that was cleared.
    pub(super) ino: u32,
    pub(super) kind: Option<u8>,
    pub(super) name: Vec<u8>,
}

/// Calls `visit` with each old entry in the bytes of a directory and its byte there. Adds the
/// entries in use to `live`.
pub(super) fn stale_entries(
    layout: &Layout,
    bytes: &[u8],
    live: &mut HashSet<(u32, Vec<u8>)>,
    visit: &mut dyn FnMut(usize, Stale),
) {
    let chunk = layout.dirblksiz as usize;
    let mut entries = Entries::new(layout, bytes).peekable();
    while let Some(slot) = entries.next() {
        // What lies behind damage is not known to be a name.
        let Ok(entry) = slot else { continue };
        let chunk_end = ((entry.at / chunk + 1) * chunk).min(bytes.len());
        let end = match entries.peek() {
            Some(Ok(next)) => next.at.min(chunk_end),
            Some(Err(broken)) => broken.at.min(chunk_end),
            None => chunk_end,
        };
        if entry.ino != 0 {
            live.insert((entry.ino, entry.name.to_vec()));
        } else if is_name(entry.name) {
            visit(entry.at, Stale { ino: 0, kind: entry.kind, name: entry.name.to_vec() });
        }
        let mut at = entry.at + dirsiz(entry.name.len());
        while at < end {
            match stale_entry(layout, &bytes[at..end], at) {
                Some((stale, len)) => {
                    visit(at, stale);
                    at += len;
                }
                None => at += 4,
            }
        }
    }
}

/// Returns the old entry at the start of `bytes`, if they can be one, and the bytes that it needs.
fn stale_entry(layout: &Layout, bytes: &[u8], at: usize) -> Option<(Stale, usize)> {
    let (entry, _) = parse(layout, bytes, at).ok()?;
    let known_kind = |kind: u8| matches!(kind, 0 | 1 | 2 | 4 | 6 | 8 | 10 | 12 | 14);
    let sound = entry.ino > 1 && entry.ino < layout.inodes() && entry.kind.is_none_or(known_kind);
    (sound && is_name(entry.name)).then(|| {
        let len = dirsiz(entry.name.len());
        (Stale { ino: entry.ino, kind: entry.kind, name: entry.name.to_vec() }, len)
    })
}

/// Returns true if bytes can be the name of a file that was removed.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.iter().any(|byte| matches!(byte, 0 | b'/')) && !matches!(name, b"." | b"..")
}
