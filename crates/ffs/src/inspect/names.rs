//! Names that were removed from a directory, in the bytes behind its entries.

use crate::format::entries::{Entries, parse};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newfs::{Format, Parameters, Plan};
    use crate::repair::chunk;
    use spindle_ondisk::Field;

    /// Removes a name as the BSDs do: only the length of the entry before changes.
    fn remove(layout: &Layout, bytes: &mut [u8], name: &[u8]) {
        let entries: Vec<_> = Entries::new(layout, bytes).map(|slot| slot.ok().unwrap()).collect();
        let n = entries.iter().position(|entry| entry.ino != 0 && entry.name == name).unwrap();
        let (at, end) = (entries[n].at, entries.get(n + 1).map_or(bytes.len(), |next| next.at));
        if n == 0 {
            return 0_u32.put(&mut bytes[at..], layout.endian);
        }
        let start = entries[n - 1].at;
        u16::try_from(end - start).unwrap().put(&mut bytes[start + 4..], layout.endian);
    }

    fn stale(layout: &Layout, bytes: &[u8]) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        stale_entries(layout, bytes, &mut HashSet::new(), &mut |_, stale| {
            found.push((stale.ino, String::from_utf8(stale.name).unwrap()));
        });
        found
    }

    /// Promise: names that were removed are found until others are written over them, with the
    /// inode unless that was cleared; bytes that cannot be entries are passed over.
    #[test]
    fn removed_names_are_found() {
        for format in [Format::Ufs1, Format::Ufs2] {
            let mut wishes = Parameters::new(16 << 20);
            wishes.format = format;
            let layout = Plan::new(&wishes).unwrap().layout;
            let mut bytes = vec![0; layout.dirblksiz as usize];
            chunk::empty(&layout, &mut bytes);
            for (ino, name) in [(10, "first"), (11, "second"), (12, "third-and-long"), (13, "last")] {
                assert!(chunk::insert(&layout, &mut bytes, ino, 8, name.as_bytes()));
            }
            assert_eq!(stale(&layout, &bytes), []);
            remove(&layout, &mut bytes, b"third-and-long");
            remove(&layout, &mut bytes, b"second");
            let found =
                |list: &[(u32, &str)]| list.iter().map(|&(i, n)| (i, n.to_owned())).collect::<Vec<_>>();
            assert_eq!(stale(&layout, &bytes), found(&[(11, "second"), (12, "third-and-long")]));
            remove(&layout, &mut bytes, b"first");
            let all = found(&[(0, "first"), (11, "second"), (12, "third-and-long")]);
            assert_eq!(stale(&layout, &bytes), all);
            // Behind a new name in the same place, the old ones may be left.
            let mut reused = bytes.clone();
            reused[..4].fill(0);
            layout.inodes().put(&mut reused[16..], layout.endian);
            assert_eq!(stale(&layout, &reused), found(&[(0, "first"), (12, "third-and-long")]));
        }
    }
}
