//! A tree in a file system as a source.
//!
//! The file system may be damaged or hostile. Names are checked, and no directory is entered twice
//! (where all symbolic links are followed, not within itself), so the walk always ends. It fails at
//! the first thing that cannot be read, or ([`ImageSource::past_damage`]) says what is lost and
//! goes on. So it does, at the end, with space that two of the files claim. The files of a log or
//! journal are left out: elsewhere they would be of no use, and in the way of those of another file
//! system. So are snapshots below the root, each of which is as large as the file system.

use super::claims::Claims;
use super::links::Links;
use super::{Body, Follow, ImageContent, Meta, Sink, Source, check_name, join};
use crate::error::{Context, Error, Result};
use crate::path::{child, followed, is_log, names_before_damage};
use crate::text::quoted;
use spindle_vfs::{Attr, Error as FsError, FileKind, FileSystem, Ino, Node, Vfs};
use std::collections::HashSet;

/// A source that walks a file or directory in an image, with everything below it.
pub struct ImageSource<'a> {
    vfs: &'a Vfs,
    root: Node<'a>,
    prefix: Vec<u8>,
    /// Path of the root in the image, for messages.
    at: Option<&'a [u8]>,
    follow: Follow,
    lost: Option<&'a dyn Fn(Error)>,
    is_copy: Option<&'a dyn Fn(Ino) -> bool>,
}

struct Level<'a> {
    dir: Node<'a>,
    path: Vec<u8>,
    names: std::vec::IntoIter<Vec<u8>>,
    /// A symbolic link was followed on the way.
    behind_link: bool,
}

impl<'a> ImageSource<'a> {
    /// Returns a source of `root` and everything below it.
    #[must_use]
    pub fn new(vfs: &'a Vfs, root: Node<'a>) -> Self {
        let (prefix, follow) = (Vec::new(), Follow::Named);
        Self { vfs, root, prefix, at: None, follow, lost: None, is_copy: None }
    }

    /// Returns a source whose messages name files by their paths in the image, where the root has
    /// the path `path`.
    #[must_use]
    pub fn at(self, path: &'a [u8]) -> Self {
        Self { at: Some(path), ..self }
    }

    /// Returns a source that follows these symbolic links below its root.
    #[must_use]
    pub fn following(self, follow: Follow) -> Self {
        Self { follow, ..self }
    }

    /// Returns a source that refuses to enter a directory of which `is_copy` returns true, because
    /// it is copied into that: such a copy would never end.
    #[must_use]
    pub fn outside(self, is_copy: &'a dyn Fn(Ino) -> bool) -> Self {
        Self { is_copy: Some(is_copy), ..self }
    }

    /// Returns a source with `prefix` as the path of the root of the transfer.
    #[must_use]
    pub fn below(self, prefix: &[u8]) -> Self {
        Self { prefix: prefix.to_vec(), ..self }
    }

    /// Returns a source that goes on past what cannot be read, and calls `lost` with each: a file
    /// or directory that is left out, or a part of a file in whose place stand zeros.
    #[must_use]
    pub fn past_damage(self, lost: &'a dyn Fn(Error)) -> Self {
        Self { lost: Some(lost), ..self }
    }
}

impl Source for ImageSource<'_> {
    fn walk(self, sink: &mut dyn Sink) -> Result<()> {
        let reader = Reader { vfs: self.vfs, prefix: self.prefix, at: self.at, lost: self.lost };
        let prefix = &reader.prefix[..];
        let mut claims = Claims::new(&**self.vfs.fs());
        let mut links = Links::default();
        let mut directories = HashSet::from([self.root.ino()]);
        let mut levels: Vec<Level<'_>> = Vec::new();
        claims.add(&**self.vfs.fs(), self.root.ino(), || quoted(&reader.place(prefix)));
        levels.extend(reader.send(self.root, prefix, Some(&mut links), sink)?);
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.next() else {
                levels.pop();
                continue;
            };
            if reader.read(&level.path, check_name(&name))?.is_none() {
                continue;
            }
            let path = join(&level.path, &name);
            if !sink.wants(&path) {
                continue;
            }
            let (dir, mut behind_link) = (level.dir.ino(), level.behind_link);
            let found = child(reader.vfs, dir, &name).map_err(Error::from);
            let Some(mut node) = reader.read(&path, found)? else { continue };
            if is_log(&**reader.vfs.fs(), Some(dir), &name, node.attr()) {
                continue;
            }
            if reader.vfs.fs().is_snapshot(node.ino()) {
                let place = quoted(&reader.place(&path));
                log::warn!("{place}: is a snapshot, and left out; copy it by its name");
                continue;
            }
            let is_followed = self.follow == Follow::All && node.attr().kind == FileKind::Symlink;
            if is_followed {
                let found = followed(reader.vfs, dir, &name).map_err(Error::from);
                let Some(found) = reader.read(&path, found)? else { continue };
                node = found;
                behind_link = true;
            }
            if node.is_dir() {
                let ino = node.ino();
                let again = match self.follow {
                    Follow::All => levels.iter().any(|level| level.dir.ino() == ino),
                    Follow::Never | Follow::Named => !directories.insert(ino),
                };
                let refused = if again && behind_link {
                    Err(FsError::Loop.into())
                } else if again {
                    Err(FsError::corrupt("a directory has two names", format!("inode {}", ino.0)).into())
                } else if self.is_copy.is_some_and(|is_copy| is_copy(ino)) {
                    Err(Error::new("a directory cannot be copied into itself"))
                } else {
                    Ok(())
                };
                if reader.read(&path, refused)?.is_none() {
                    continue;
                }
            }
            claims.add(&**reader.vfs.fs(), node.ino(), || quoted(&reader.place(&path)));
            let links = (!is_followed).then_some(&mut links);
            let sent = reader.send(node, &path, links, sink);
            let entered = sent.map_err(|error| error.within(quoted(&reader.place(&path))))?;
            levels.extend(entered.map(|level| Level { behind_link, ..level }));
        }
        for error in claims.losses(reader.vfs) {
            match self.lost {
                Some(lost) => lost(error),
                None => return Err(error),
            }
        }
        Ok(())
    }
}

/// What reads the tree.
struct Reader<'a> {
    vfs: &'a Vfs,
    prefix: Vec<u8>,
    at: Option<&'a [u8]>,
    lost: Option<&'a dyn Fn(Error)>,
}

impl<'a> Reader<'a> {
    /// Returns what messages call the file at `path`.
    fn place(&self, path: &[u8]) -> Vec<u8> {
        let Some(at) = self.at else { return path.to_vec() };
        let below = path.strip_prefix(&self.prefix[..]).unwrap_or(path);
        let below = below.strip_prefix(b"/").unwrap_or(below);
        if below.is_empty() {
            at.to_vec()
        } else {
            [at.strip_suffix(b"/").unwrap_or(at), b"/", below].concat()
        }
    }

    /// Returns what was read from the file at `path`; nothing if it cannot be read and the walk
    /// goes on past that.
    fn read<T>(&self, path: &[u8], read: Result<T>) -> Result<Option<T>> {
        let error = match read {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error.within(quoted(&self.place(path))),
        };
        let Some(lost) = self.lost else { return Err(error) };
        lost(error);
        Ok(None)
    }

    /// Passes one node to `sink`, with `links` as one of the names of a file that may have others.
    /// Returns the level to enter if it is a directory.
    ///
    /// # Errors
    /// Those of the sink, and, without `lost`, those of the file system.
    fn send(
        &self,
        node: Node<'a>,
        path: &[u8],
        links: Option<&mut Links>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Level<'a>>> {
        let fs = &**self.vfs.fs();
        let attr = node.attr();
        let mut meta = meta_of(attr);
        if attr.kind != FileKind::Directory
            && let Some(first) = links.and_then(|links| links.add((0, attr.ino.0), attr.nlink, path))
        {
            sink.put(super::Node { path, body: Body::HardLink(&first), meta })?;
            return Ok(None);
        }
        if fs.limits().xattrs {
            let found = xattrs(fs, attr.ino).context("extended attributes");
            meta.xattrs = self.read(path, found)?.unwrap_or_default();
        }
        let target;
        let mut content;
        let lost_part = |error: Error| {
            if let Some(lost) = self.lost {
                lost(error.within(quoted(&self.place(path))));
            }
        };
        let body = match attr.kind {
            FileKind::Directory => {
                sink.put(super::Node { path, body: Body::Directory, meta })?;
                let (names, damage) = names_before_damage(self.vfs, attr.ino);
                self.read(path, damage.map_or(Ok(()), |error| Err(error.into())))?;
                return Ok(Some(Level {
                    dir: node,
                    path: path.to_vec(),
                    names: names.into_iter(),
                    behind_link: false,
                }));
            }
            FileKind::Regular => {
                content = ImageContent::new(fs, attr);
                if self.lost.is_some() {
                    content = content.past_damage(&lost_part);
                }
                Body::File { size: attr.size, content: &mut content }
            }
            FileKind::Symlink => {
                let read = fs.readlink(attr.ino).map_err(Error::from);
                let Some(read) = self.read(path, read)? else { return Ok(None) };
                target = read;
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

/// Returns the full names and the values of the extended attributes of a file, sorted by name.
pub(crate) fn xattrs(fs: &dyn FileSystem, ino: Ino) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    for name in fs.listxattr(ino)? {
        let value = fs.getxattr(ino, &name)?;
        found.push((name, value));
    }
    found.sort_unstable();
    Ok(found)
}
