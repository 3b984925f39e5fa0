//! A tree in a file system as a source.
//!
//! The file system may be damaged or hostile. Names are checked, and the walk fails at a directory
//! that it has visited before, so it always ends.

use super::links::Links;
use super::{Body, Content, Extents, Meta, Sink, Source, check_name, extents_of, join};
use crate::error::{Context, Error, Result};
use crate::path::{child, sorted_names};
use spindle_vfs::{Attr, Error as FsError, FileKind, FileSystem, Ino, Node, Seek, Vfs};
use std::collections::HashSet;

/// A source that walks a file or directory in an image, with everything below it.
pub struct ImageSource<'a> {
    vfs: &'a Vfs,
    root: Node<'a>,
    prefix: Vec<u8>,
}

struct Level<'a> {
    dir: Node<'a>,
    path: Vec<u8>,
    names: std::vec::IntoIter<Vec<u8>>,
}

impl<'a> ImageSource<'a> {
    /// Returns a source of `root` and everything below it.
    #[must_use]
    pub fn new(vfs: &'a Vfs, root: Node<'a>) -> Self {
        Self { vfs, root, prefix: Vec::new() }
    }

    /// Returns a source with `prefix` as the path of the root of the transfer.
    #[must_use]
    pub fn below(self, prefix: &[u8]) -> Self {
        Self { prefix: prefix.to_vec(), ..self }
    }
}

impl Source for ImageSource<'_> {
    fn walk(self, sink: &mut dyn Sink) -> Result<()> {
        let vfs = self.vfs;
        let mut links = Links::default();
        let mut directories = HashSet::new();
        let mut levels = Vec::new();
        levels.extend(send(vfs, self.root, &self.prefix, &mut links, &mut directories, sink)?);
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.next() else {
                levels.pop();
                continue;
            };
            check_name(&name).named(&level.path)?;
            let path = join(&level.path, &name);
            let entered = child(vfs, level.dir.ino(), &name)
                .map_err(Error::from)
                .and_then(|node| send(vfs, node, &path, &mut links, &mut directories, sink))
                .named(&path)?;
            levels.extend(entered);
        }
        Ok(())
    }
}

/// Passes one node to `sink`. Returns the level to enter if it is a directory.
fn send<'a>(
    vfs: &'a Vfs,
    node: Node<'a>,
    path: &[u8],
    links: &mut Links,
    directories: &mut HashSet<Ino>,
    sink: &mut dyn Sink,
) -> Result<Option<Level<'a>>> {
    let fs = &**vfs.fs();
    let attr = node.attr();
    let mut meta = meta_of(attr);
    if attr.kind != FileKind::Directory
        && let Some(first) = links.add((0, attr.ino.0), attr.nlink, path)
    {
        sink.put(super::Node { path, body: Body::HardLink(&first), meta })?;
        return Ok(None);
    }
    if fs.limits().xattrs {
        meta.xattrs = xattrs(fs, attr.ino)?;
    }
    let target;
    let mut content;
    let body = match attr.kind {
        FileKind::Directory => {
            if !directories.insert(attr.ino) {
                let place = format!("inode {}", attr.ino.0);
                return Err(FsError::corrupt("a directory has two names", place).into());
            }
            sink.put(super::Node { path, body: Body::Directory, meta })?;
            let names = sorted_names(vfs, attr.ino)?.into_iter();
            return Ok(Some(Level { dir: node, path: path.to_vec(), names }));
        }
        FileKind::Regular => {
            content = ImageContent::new(fs, attr);
            Body::File { size: attr.size, content: &mut content }
        }
        FileKind::Symlink => {
            target = fs.readlink(attr.ino)?;
            Body::Symlink(&target)
        }
        FileKind::BlockDevice => Body::Device { block: true, rdev: attr.rdev },
        FileKind::CharDevice => Body::Device { block: false, rdev: attr.rdev },
        FileKind::Fifo => Body::Fifo,
        FileKind::Socket => Body::Socket,
    };
    sink.put(super::Node { path, body, meta })?;
    Ok(None)
}

fn meta_of(attr: &Attr) -> Meta {
    Meta {
        perm: attr.perm,
        uid: attr.uid,
        gid: attr.gid,
        atime: Some(attr.atime),
        mtime: attr.mtime,
        birthtime: attr.birthtime,
        flags: attr.flags,
        xattrs: Vec::new(),
    }
}

fn xattrs(fs: &dyn FileSystem, ino: Ino) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    for name in fs.listxattr(ino)? {
        let value = fs.getxattr(ino, &name)?;
        found.push((name, value));
    }
    found.sort_unstable();
    Ok(found)
}

/// The content of a file in a file system, without its holes.
pub struct ImageContent<'a> {
    fs: &'a dyn FileSystem,
    ino: Ino,
    size: u64,
    at: u64,
    /// End of the current run of data.
    data_end: u64,
}

impl<'a> ImageContent<'a> {
    /// Returns the content of the regular file with these attributes. The caller must hold a
    /// reference to the inode meanwhile.
    pub fn new(fs: &'a dyn FileSystem, attr: &Attr) -> Self {
        let dense = attr.blocks512.saturating_mul(512) >= attr.size;
        Self { fs, ino: attr.ino, size: attr.size, at: 0, data_end: if dense { attr.size } else { 0 } }
    }

    /// Returns start and end of the first run of data at or after `offset`; an empty run at the end
    /// of the file if there is none.
    fn data_after(&self, offset: u64) -> Result<(u64, u64)> {
        let start = match self.fs.seek(self.ino, offset, Seek::Data) {
            Err(FsError::NoSuchOffset) => self.size,
            other => other?.min(self.size),
        };
        let end = match self.fs.seek(self.ino, start, Seek::Hole) {
            Err(FsError::NoSuchOffset) => self.size,
            other => other?.min(self.size),
        };
        Ok((start, end))
    }
}

impl Content for ImageContent<'_> {
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>> {
        if self.at >= self.data_end && self.at < self.size {
            (self.at, self.data_end) = self.data_after(self.at)?;
        }
        let want =
            usize::try_from(self.data_end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(buf.len());
        if want == 0 {
            return Ok(None);
        }
        let got = self.fs.read(self.ino, self.at, &mut buf[..want])?;
        if got == 0 {
            return Err(Error::new("the file became shorter while it was read"));
        }
        let at = self.at;
        self.at += got as u64;
        Ok(Some((at, got)))
    }

    fn extents(&mut self) -> Result<Option<Extents>> {
        if self.data_end == self.size {
            return Ok(None);
        }
        extents_of(self.size, |at| self.data_after(at)).map(Some)
    }
}
