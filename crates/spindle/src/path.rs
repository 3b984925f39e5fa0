//! Paths inside an image: [`Vfs`] resolves them without permission checks.

use crate::error::{Context, Error, Result};
use crate::flags;
use spindle_ffs::LOG_NAME;
use spindle_vfs::{
    Attr, Cred, Error as FsError, FileKind, FileSystem, Ino, NewNode, Node, Privilege, SetAttr, Vfs,
};
use std::ops::ControlFlow;

/// The user of an image may do anything in it.
const OWNER: Cred<'static> = Cred::root();
/// The journal of soft updates of FreeBSD, in the root directory.
const SUJ_NAME: &[u8] = b".sujournal";
/// The flags of that and of our log: `SF_IMMUTABLE`, `SF_NOUNLINK` and `UF_NODUMP`.
const LOG_FLAGS: u32 = 0x12_0001;

/// Resolves `path`; a symbolic link at its end is followed if `follow`.
///
/// # Errors
/// If there is no such file, or a part of the path is no directory.
pub fn resolve<'a>(vfs: &'a Vfs, path: &[u8], follow: bool) -> Result<Node<'a>> {
    vfs.resolve(&OWNER, path, follow).named(path)
}

/// Resolves a name in a directory; a symbolic link is followed.
///
/// # Errors
/// If there is no such file, or it is one of symbolic links that lead to each other.
pub(crate) fn followed<'a>(vfs: &'a Vfs, dir: Ino, name: &[u8]) -> spindle_vfs::Result<Node<'a>> {
    vfs.resolve_from(&OWNER, child(vfs, dir, b".")?, name, true)
}

/// Resolves the parent directory of `path`, and returns it with the last name of the path. The name
/// need not exist.
///
/// # Errors
/// If the directory does not exist, or the path has no last name.
pub fn resolve_parent<'a, 'p>(vfs: &'a Vfs, path: &'p [u8]) -> Result<(Node<'a>, &'p [u8])> {
    match vfs.resolve_parent(&OWNER, path) {
        Err(FsError::Busy) => Err(Error::new("the root directory, . and .. cannot be used here")).named(path),
        other => other.named(path),
    }
}

/// Looks up a name in a directory.
///
/// # Errors
/// If it does not exist, or the directory cannot be read.
pub fn child<'a>(vfs: &'a Vfs, dir: Ino, name: &[u8]) -> spindle_vfs::Result<Node<'a>> {
    Ok(Node::new(vfs, vfs.fs().lookup(dir, name)?))
}

/// Creates an inode with exactly the permissions and owners of `node`, which the directory and the
/// umask do not change.
///
/// # Errors
/// If it cannot be created, or file flags of the directory forbid it.
pub fn create<'a>(vfs: &'a Vfs, dir: Ino, name: &[u8], node: &NewNode<'_>) -> Result<Node<'a>> {
    permit_name(vfs, dir, name)?;
    Ok(Node::new(vfs, vfs.fs().create(dir, name, node, Privilege::Root)?))
}

/// Checks that file flags permit to add a name to a directory.
///
/// # Errors
/// If they do not, or there is this name.
pub fn permit_name(vfs: &Vfs, dir: Ino, name: &[u8]) -> Result<()> {
    let permitted = vfs.permit_new_name(&OWNER, dir, name, FileKind::Regular).map(drop);
    match permitted {
        Err(FsError::NotPermitted) => flags::explained(permitted, &[vfs.getattr(dir)?.flags]),
        permitted => Ok(permitted?),
    }
}

/// Changes attributes of a file, unless its file flags forbid it.
///
/// # Errors
/// If they cannot be changed.
pub fn change(vfs: &Vfs, ino: Ino, set: &SetAttr) -> Result<()> {
    match vfs.setattr(&OWNER, ino, set, None).map(drop) {
        Err(FsError::NotPermitted) => {
            flags::explained(Err(FsError::NotPermitted), &[vfs.getattr(ino)?.flags])
        }
        changed => Ok(changed?),
    }
}

/// Returns the names in a directory except `.` and `..`, sorted by their bytes.
///
/// # Errors
/// If the directory cannot be read.
pub fn sorted_names(vfs: &Vfs, dir: Ino) -> Result<Vec<Vec<u8>>> {
    match names_before_damage(vfs, dir) {
        (found, None) => Ok(found),
        (_, Some(error)) => Err(error.into()),
    }
}

/// Returns the names in a directory except `.` and `..`, sorted by their bytes; if it cannot be
/// read to its end, those that come before, with the error.
pub fn names_before_damage(vfs: &Vfs, dir: Ino) -> (Vec<Vec<u8>>, Option<FsError>) {
    let mut found = Vec::new();
    let read = vfs.fs().readdir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            found.push(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    });
    found.sort_unstable();
    (found, read.err())
}

/// Returns true for a file that has the space of a log or journal, or had it where a snapshot was
/// made, in which it is empty: a copy of it is of no use. `dir` is where it is called `name`.
pub(crate) fn is_log(fs: &dyn FileSystem, dir: Option<Ino>, name: &[u8], attr: &Attr) -> bool {
    let is_flagged = dir == Some(fs.root()) && attr.flags & LOG_FLAGS == LOG_FLAGS;
    let is_named = name == SUJ_NAME || name == LOG_NAME && attr.size == 0;
    is_flagged && is_named || fs.limits().log == Some(attr.ino)
}
