//! Reading a directory in batches.
//!
//! The sink of [`FileSystem::readdir`] may run under the lock of the directory, and the use of an
//! entry here (looking up its attributes) takes locks as well. So entries are copied in batches,
//! and used between the batches.

use spindle_vfs::{DirEntry, FileKind, FileSystem, Ino, Result};
use std::ops::{ControlFlow, Range};

/// Entries in a batch: about as many as fit into one page of a reply with attributes.
const BATCH: usize = 32;

struct Copied {
    name: Range<usize>,
    ino: Ino,
    kind: Option<FileKind>,
    next: u64,
}

/// Passes the entries of `dir` from cookie `from` to `sink`, outside all locks, until `sink`
/// returns `Break`. Fails after the last entry if some are lost.
pub(crate) fn walk(
    fs: &dyn FileSystem,
    dir: Ino,
    from: u64,
    sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let mut cookie = from;
    let (mut names, mut batch) = (Vec::new(), Vec::with_capacity(BATCH));
    loop {
        names.clear();
        batch.clear();
        let read = fs.readdir(dir, cookie, &mut |entry| {
            let start = names.len();
            names.extend_from_slice(entry.name);
            batch.push(Copied {
                name: start..names.len(),
                ino: entry.ino,
                kind: entry.kind,
                next: entry.next,
            });
            if batch.len() == BATCH { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        for copied in &batch {
            cookie = copied.next;
            let name = &names[copied.name.clone()];
            let entry = DirEntry { name, ino: copied.ino, kind: copied.kind, next: copied.next };
            if sink(&entry).is_break() {
                return Ok(());
            }
        }
        read?;
        if batch.len() < BATCH {
            return Ok(());
        }
    }
}
