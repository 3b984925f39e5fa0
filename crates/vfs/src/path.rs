//! Paths: from a string of names to an inode, with references that are released automatically.
//!
//! Paths are those of the image: absolute paths and absolute symbolic links start at its root, and
//! `..` of the root is the root, so no path leaves the image.

use crate::access::Cred;
use crate::{Attr, Error, FileKind, Ino, Result, Vfs};

/// Maximum number of symbolic links in one walk (as in Linux).
const MAX_LINKS: usize = 40;

/// An inode with one reference, which is released when this is dropped.
#[derive(Debug)]
pub struct Node<'a> {
    vfs: &'a Vfs,
    attr: Attr,
}

impl<'a> Node<'a> {
    /// Takes ownership of the reference that came with `attr`.
    #[must_use]
    pub const fn new(vfs: &'a Vfs, attr: Attr) -> Self {
        Self { vfs, attr }
    }

    /// Returns the inode number.
    #[must_use]
    pub const fn ino(&self) -> Ino {
        self.attr.ino
    }

    /// Returns the attributes at the time of the lookup.
    #[must_use]
    pub const fn attr(&self) -> &Attr {
        &self.attr
    }

    /// Returns the front that it belongs to.
    #[must_use]
    pub const fn vfs(&self) -> &'a Vfs {
        self.vfs
    }

    /// Returns true for a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.attr.kind == FileKind::Directory
    }

    /// Looks up a name in this directory.
    ///
    /// # Errors
    /// As [`Vfs::lookup`].
    pub fn child(&self, cred: &Cred<'_>, name: &[u8]) -> Result<Node<'a>> {
        Ok(Node::new(self.vfs, self.vfs.lookup(cred, self.ino(), name)?))
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        self.vfs.forget(self.attr.ino, 1);
    }
}

/// Pushes the names of a path onto the stack of names to walk, the first one last.
fn push_names(rest: &mut Vec<Vec<u8>>, path: &[u8]) {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    let at = rest.len();
    rest.extend(names.map(<[u8]>::to_vec));
    rest[at..].reverse();
}

/// Returns true if the path can only refer to a directory.
fn wants_directory(path: &[u8]) -> bool {
    path.ends_with(b"/") || path.ends_with(b"/.") || path == b"."
}

impl Vfs {
    /// Returns the root directory.
    ///
    /// # Errors
    /// As [`crate::FileSystem::lookup`].
    pub fn root_node(&self) -> Result<Node<'_>> {
        Ok(Node::new(self, self.fs().lookup(self.root(), b".")?))
    }

    /// Returns the inode that a path from the root names. With `follow`, a symbolic link at its end
    /// is followed, too.
    ///
    /// # Errors
    /// As [`Vfs::lookup`], and [`Error::Loop`] after 40 symbolic links.
    pub fn resolve(&self, cred: &Cred<'_>, path: &[u8], follow: bool) -> Result<Node<'_>> {
        let mut at = self.root_node()?;
        let mut links = 0;
        let mut rest = Vec::new();
        push_names(&mut rest, path);
        let mut must_be_dir = wants_directory(path);
        while let Some(name) = rest.pop() {
            let next = at.child(cred, &name)?;
            let is_last = rest.is_empty();
            if next.attr.kind != FileKind::Symlink || (is_last && !follow && !must_be_dir) {
                at = next;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Error::Loop);
            }
            let target = self.readlink(next.ino())?;
            if target.is_empty() {
                return Err(Error::NotFound);
            }
            must_be_dir |= is_last && wants_directory(&target);
            if target.starts_with(b"/") {
                at = self.root_node()?;
            }
            push_names(&mut rest, &target);
        }
        if must_be_dir && !at.is_dir() {
            return Err(Error::NotDirectory);
        }
        Ok(at)
    }

    /// Returns the directory that holds the last name of a path, and that name, for a caller that
    /// creates, removes or renames.
    ///
    /// # Errors
    /// As [`Vfs::resolve`]; [`Error::Busy`] if the path ends in the root, `.` or `..`;
    /// [`Error::NotDirectory`] if the parent is not a directory.
    pub fn resolve_parent<'p>(&self, cred: &Cred<'_>, path: &'p [u8]) -> Result<(Node<'_>, &'p [u8])> {
        let trimmed = path.len() - path.iter().rev().take_while(|byte| **byte == b'/').count();
        let path = &path[..trimmed];
        let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let name = &path[start..];
        if matches!(name, b"" | b"." | b"..") {
            return Err(Error::Busy);
        }
        let dir = self.resolve(cred, &path[..start], true)?;
        if dir.is_dir() { Ok((dir, name)) } else { Err(Error::NotDirectory) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::errnos::errno;
    use crate::vfs::tests::{front, node};
    use crate::{NewNode, Options};

    const ROOT: Cred<'static> = Cred::root();

    fn symlink(vfs: &Vfs, dir: Ino, name: &[u8], target: &[u8]) {
        let new = NewNode { target, ..node(FileKind::Symlink, 0o777, &ROOT) };
        vfs.create(&ROOT, dir, name, &new).unwrap();
    }

    /// Creates `/a/b/file`, and links to all of it.
    fn tree() -> (Vfs, Ino, Ino) {
        let vfs = front(Options::default());
        let directory = node(FileKind::Directory, 0o755, &ROOT);
        let a = vfs.create(&ROOT, vfs.root(), b"a", &directory).unwrap().ino;
        let b = vfs.create(&ROOT, a, b"b", &directory).unwrap().ino;
        let file = vfs.create(&ROOT, b, b"file", &node(FileKind::Regular, 0o644, &ROOT)).unwrap().ino;
        let root = vfs.root();
        symlink(&vfs, root, b"to-b", b"a/b");
        symlink(&vfs, root, b"to-file", b"/to-b/../b/file");
        symlink(&vfs, b, b"up", b"../../../../a");
        symlink(&vfs, b, b"dir-slash", b"file/");
        symlink(&vfs, root, b"loop", b"loop");
        symlink(&vfs, root, b"nowhere", b"none");
        (vfs, b, file)
    }

    /// Promise: slashes, dots and symbolic links are resolved as POSIX requires, inside the image.
    #[test]
    fn paths_are_resolved() {
        let (vfs, b, file) = tree();
        let paths: [(&[u8], Ino); 11] = [
            (b"", vfs.root()),
            (b"/", vfs.root()),
            (b"/../..", vfs.root()),
            (b"a/b", b),
            (b"//a/./b//", b),
            (b"/a/b/file", file),
            (b"/to-b", b),
            (b"/to-b/file", file),
            (b"/to-file", file),
            (b"/to-b/up/b/up/b/file", file),
            (b"/to-b/..", vfs.resolve(&ROOT, b"/a", true).unwrap().ino()),
        ];
        for (path, ino) in paths {
            assert_eq!(vfs.resolve(&ROOT, path, true).unwrap().ino(), ino, "{}", path.escape_ascii());
        }
        let errors: [(&[u8], i32); 6] = [
            (b"/none", 2),
            (b"/a/none/b", 2),
            (b"/a/b/file/", 20),
            (b"/a/b/file/x", 20),
            (b"/a/b/dir-slash", 20),
            (b"/nowhere", 2),
        ];
        for (path, expected) in errors {
            assert_eq!(errno(&vfs.resolve(&ROOT, path, true)), expected, "{}", path.escape_ascii());
        }
    }

    /// Promise: the last link of a path is followed only on request, or if a slash follows it.
    #[test]
    fn last_link() {
        let (vfs, b, _) = tree();
        let kind = |path: &[u8]| vfs.resolve(&ROOT, path, false).unwrap().attr().kind;
        assert_eq!(kind(b"/to-b"), FileKind::Symlink);
        assert_eq!(kind(b"/nowhere"), FileKind::Symlink);
        assert_eq!(vfs.resolve(&ROOT, b"/to-b/", false).unwrap().ino(), b);
        assert_eq!(vfs.resolve(&ROOT, b"/to-b/.", false).unwrap().ino(), b);
    }

    /// Promise: loops of links end with ELOOP; 40 links in a row are followed.
    #[test]
    fn link_limit() {
        let (vfs, _, file) = tree();
        assert_eq!(errno(&vfs.resolve(&ROOT, b"/loop", true)), 40);
        let root = vfs.root();
        symlink(&vfs, root, b"l0", b"a/b/file");
        for i in 1..=40 {
            symlink(&vfs, root, format!("l{i}").as_bytes(), format!("l{}", i - 1).as_bytes());
        }
        assert_eq!(vfs.resolve(&ROOT, b"l39", true).unwrap().ino(), file);
        assert_eq!(errno(&vfs.resolve(&ROOT, b"l40", true)), 40);
    }

    /// Promise: the parent of a path is a directory, and the last name is one that can be changed.
    #[test]
    fn parents() {
        let (vfs, b, _) = tree();
        for path in [&b"/to-b/new"[..], b"a/b/new", b"/a/b/new/"] {
            let (dir, name) = vfs.resolve_parent(&ROOT, path).unwrap();
            assert_eq!((dir.ino(), name), (b, &b"new"[..]));
        }
        assert_eq!(vfs.resolve_parent(&ROOT, b"new").unwrap().0.ino(), vfs.root());
        for path in [&b""[..], b"/", b"a/..", b"a/."] {
            assert_eq!(errno(&vfs.resolve_parent(&ROOT, path)), 16);
        }
        assert_eq!(errno(&vfs.resolve_parent(&ROOT, b"/a/b/file/x")), 20);
    }

    /// Promise: search permission is needed on every directory of the path.
    #[test]
    fn search_permission() {
        let (vfs, b, _) = tree();
        let user = Cred::user(1, 1);
        assert!(vfs.resolve(&user, b"/a/b/file", true).is_ok());
        let closed = crate::SetAttr { perm: Some(0o600), ..crate::SetAttr::default() };
        vfs.setattr(&ROOT, b, &closed, None).unwrap();
        assert_eq!(errno(&vfs.resolve(&user, b"/a/b/file", true)), 13);
        assert_eq!(errno(&vfs.resolve(&user, b"/to-file", true)), 13);
    }

    /// Promise: a walk releases its references: a removed file is freed when its last node is
    /// dropped.
    #[test]
    fn nodes_release_references() {
        let (vfs, b, file) = tree();
        vfs.forget(file, 1);
        let node = vfs.resolve(&ROOT, b"/to-file", true).unwrap();
        vfs.unlink(&ROOT, b, b"file").unwrap();
        assert_eq!(vfs.getattr(file).unwrap().nlink, 0);
        drop(node);
        assert_eq!(errno(&vfs.getattr(file)), 116);
    }
}
