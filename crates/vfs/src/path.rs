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
        self.resolve_from(cred, self.root_node()?, path, follow)
    }

    /// Does the same with a path that begins in the directory `at`.
    ///
    /// # Errors
    /// As [`Vfs::resolve`].
    pub fn resolve_from<'a>(
        &'a self,
        cred: &Cred<'_>,
        mut at: Node<'a>,
        path: &[u8],
        follow: bool,
    ) -> Result<Node<'a>> {
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
