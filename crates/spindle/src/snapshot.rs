//! The snapshots of a fast file system.

use crate::error::Result;
use crate::flags::SNAPSHOT;
use crate::image::{Image, Opened};
use crate::walk::{Walk, When};
use spindle_vfs::{Attr, FileKind, Ino};

/// A snapshot that the superblock lists (`fs_snapinum`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its inode.
    pub ino: u32,
    /// Its path; none if no directory that can be read has a name of it.
    pub path: Option<Vec<u8>>,
    /// Its attributes; none if its inode is not that of a snapshot, or cannot be read.
    pub attr: Option<Attr>,
}

/// Returns the snapshots of a file system, in the order of its superblock; none where there is no
/// such thing. `visit` is called with each file on the way to their names.
///
/// # Errors
/// That of `visit`.
pub fn list(image: &Image, visit: &mut dyn FnMut() -> Result<()>) -> Result<Vec<Snapshot>> {
    let Opened::Ffs(ffs) = &image.kind else { return Ok(Vec::new()) };
    let vfs = image.vfs();
    let mut found: Vec<Snapshot> = Vec::new();
    for ino in ffs.superblock().snapshots() {
        let is_snapshot = |attr: &Attr| attr.kind == FileKind::Regular && attr.flags & SNAPSHOT != 0;
        let attr = image.fs().getattr(Ino(ino.into())).ok().filter(is_snapshot);
        found.push(Snapshot { ino, path: None, attr });
    }
    let mut unnamed = found.len();
    let walk = vfs.root_node().map(|root| Walk::new(b"/", root));
    for seen in walk.into_iter().flatten().flatten().filter(|seen| seen.when != When::After) {
        if unnamed == 0 {
            break;
        }
        visit()?;
        let is_it = |snapshot: &&mut Snapshot| Ino(snapshot.ino.into()) == seen.attr.ino;
        if let Some(snapshot) = found.iter_mut().find(is_it).filter(|snapshot| snapshot.path.is_none()) {
            snapshot.path = Some(seen.path);
            unnamed -= 1;
        }
    }
    Ok(found)
}
