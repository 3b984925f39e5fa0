//! Paths inside an image, as its owner sees them: no permissions, symbolic links within the image.

use crate::error::{Context, Failure, Result};
use crate::transfer::names;
use spindle_vfs::{Attr, Error, FileKind, FileSystem, Ino};
use std::ops::{ControlFlow, Deref};

/// Symbolic links followed on one path before it counts as a loop (Linux's limit).
const MAX_LINKS: u32 = 40;

/// The attributes of an inode with a reference that is given back when this is dropped.
pub struct Held<'a> {
    fs: &'a dyn FileSystem,
    attr: Attr,
}

impl<'a> Held<'a> {
    /// Takes over the reference that came with `attr`.
    pub fn new(fs: &'a dyn FileSystem, attr: Attr) -> Self {
        Self { fs, attr }
    }

    /// The root, which needs no reference.
    pub fn root(fs: &'a dyn FileSystem) -> Result<Self> {
        let root = fs.root();
        Ok(Self { fs, attr: fs.getattr(root)? })
    }

    /// Looks up a name in a directory.
    pub fn lookup(fs: &'a dyn FileSystem, dir: Ino, name: &[u8]) -> spindle_vfs::Result<Self> {
        Ok(Self::new(fs, fs.lookup(dir, name)?))
    }
}

impl Deref for Held<'_> {
    type Target = Attr;

    fn deref(&self) -> &Attr {
        &self.attr
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.attr.ino != self.fs.root() {
            self.fs.forget(self.attr.ino, 1);
        }
    }
}

/// Finds what `path` names; a symbolic link at its end is followed if `follow`.
pub fn resolve<'a>(fs: &'a dyn FileSystem, path: &[u8], follow: bool) -> Result<Held<'a>> {
    let must_be_dir = path.ends_with(b"/");
    let found = walk(fs, Held::root(fs)?, path, follow || must_be_dir, &mut 0).named(path)?;
    if must_be_dir && found.kind != FileKind::Directory {
        return Err(Error::NotDirectory).named(path);
    }
    Ok(found)
}

/// Finds the directory that has or is to have the last name of `path`, and that name.
pub fn resolve_parent<'a, 'p>(fs: &'a dyn FileSystem, path: &'p [u8]) -> Result<(Held<'a>, &'p [u8])> {
    let trimmed = &path[..path.len() - path.iter().rev().take_while(|&&b| b == b'/').count()];
    let (dir, name) = crate::transfer::split(trimmed);
    if name.is_empty() || name == b"." || name == b".." {
        return Err(Failure::new("this has no name of its own to work on")).named(path);
    }
    let parent = walk(fs, Held::root(fs)?, dir, true, &mut 0).named(dir)?;
    if parent.kind != FileKind::Directory {
        return Err(Error::NotDirectory).named(dir);
    }
    Ok((parent, name))
}

/// Walks from `start`; `links` counts the symbolic links followed on the whole way.
pub fn walk<'a>(
    fs: &'a dyn FileSystem,
    start: Held<'a>,
    path: &[u8],
    follow: bool,
    links: &mut u32,
) -> Result<Held<'a>> {
    let mut at = if path.starts_with(b"/") { Held::root(fs)? } else { start };
    // What is still to be walked, the next name last: targets of links go on top.
    let mut todo: Vec<Vec<u8>> = names(path).map(<[u8]>::to_vec).collect();
    todo.reverse();
    while let Some(name) = todo.pop() {
        if at.kind != FileKind::Directory {
            return Err(Error::NotDirectory.into());
        }
        if name == b"." {
            continue;
        }
        let next = Held::lookup(fs, at.ino, &name)?;
        if next.kind != FileKind::Symlink || (todo.is_empty() && !follow) {
            at = next;
            continue;
        }
        *links += 1;
        if *links > MAX_LINKS {
            return Err(Error::Loop.into());
        }
        let target = fs.readlink(next.ino)?;
        if target.is_empty() {
            return Err(Error::NotFound.into());
        }
        if target.starts_with(b"/") {
            at = Held::root(fs)?;
        }
        let more: Vec<Vec<u8>> = names(&target).map(<[u8]>::to_vec).collect();
        todo.extend(more.into_iter().rev());
    }
    Ok(at)
}

/// The names in a directory but `.` and `..`, in the order of their bytes.
pub fn sorted_names(fs: &dyn FileSystem, dir: Ino) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            found.push(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    found.sort_unstable();
    Ok(found)
}
