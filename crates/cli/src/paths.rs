//! Paths inside an image, as its owner sees them: [`Vfs`] walks them, without asking for
//! permission.

use crate::error::{Context, Failure, Result};
use spindle_vfs::{Cred, Error, Ino, Node, Vfs};
use std::ops::ControlFlow;

/// Who has the image may do anything in it.
const OWNER: Cred<'static> = Cred::root();

/// Finds what `path` names; a symbolic link at its end is followed if `follow`.
pub fn resolve<'a>(vfs: &'a Vfs, path: &[u8], follow: bool) -> Result<Node<'a>> {
    vfs.resolve(&OWNER, path, follow).named(path)
}

/// Finds the directory that has or is to have the last name of `path`, and that name.
pub fn resolve_parent<'a, 'p>(vfs: &'a Vfs, path: &'p [u8]) -> Result<(Node<'a>, &'p [u8])> {
    match vfs.resolve_parent(&OWNER, path) {
        Err(Error::Busy) => Err(Failure::new("this has no name of its own to work on")).named(path),
        other => other.named(path),
    }
}

/// Finds a name in a directory.
pub fn child<'a>(vfs: &'a Vfs, dir: Ino, name: &[u8]) -> spindle_vfs::Result<Node<'a>> {
    Ok(Node::new(vfs, vfs.fs().lookup(dir, name)?))
}

/// Returns the names in a directory but `.` and `..`, in the order of their bytes.
pub fn sorted_names(vfs: &Vfs, dir: Ino) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    vfs.fs().readdir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            found.push(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    found.sort_unstable();
    Ok(found)
}
