//! Targets of a restore that write nothing: a comparison with what is there (`restore -C`), and
//! reading alone (`-N`).

use crate::error::{Context, Error, Result};
use crate::path::resolve;
use crate::text::quoted;
use crate::transfer::{
    Body, CHUNK, Content, Follow, ImageSource, LocalSource, Meta, Node, Sink, Source, join,
};
use spindle_vfs::Vfs;
use spindle_vfs::acl::{ACCESS_ACL, DEFAULT_ACL};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory whose files are compared with those of a dump.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// One of this machine.
    Local(&'a Path),
    /// One in an image, by its path.
    Image(&'a Vfs, &'a [u8]),
}

impl Place<'_> {
    /// Returns true if there is a file at a path below.
    #[must_use]
    pub fn has(&self, path: &[u8]) -> bool {
        self.id(path).is_ok()
    }

    /// Returns what distinguishes the file at a path below from others.
    fn id(&self, path: &[u8]) -> Result<(u64, u64)> {
        match self {
            Self::Local(dir) => {
                let meta = local(dir, path).symlink_metadata()?;
                Ok((meta.dev(), meta.ino()))
            }
            Self::Image(vfs, dir) => Ok((0, resolve(vfs, &join(dir, path), false)?.ino().0)),
        }
    }

    /// Passes the file at a path below to a sink.
    fn send(&self, path: &[u8], sink: &mut dyn Sink) -> Result<()> {
        match self {
            Self::Local(dir) => {
                LocalSource::new(&local(dir, path)).following(Follow::Never).below(path).walk(sink)
            }
            Self::Image(vfs, dir) => {
                let node = resolve(vfs, &join(dir, path), false)?;
                ImageSource::new(vfs, node).following(Follow::Never).below(path).walk(sink)
            }
        }
    }
}

/// Returns the path of this machine of a path below a directory.
fn local(dir: &Path, path: &[u8]) -> PathBuf {
    if path.is_empty() { dir.to_owned() } else { dir.join(OsStr::from_bytes(path)) }
}

/// A comparison of the files of a dump with those in a directory: their kinds, permissions, owners,
/// sizes, data, times of the last change, targets, device numbers, extended attributes of users,
/// access control lists, and whether names are of the same file.
pub struct Compared<'a> {
    place: Place<'a>,
    /// Is called with the path of each file that differs, and how.
    differs: &'a dyn Fn(&[u8], Error),
    /// Directories of which so far only the names have come.
    begun: HashSet<Vec<u8>>,
}

impl<'a> Compared<'a> {
    /// Returns a comparison with a directory.
    #[must_use]
    pub fn new(place: Place<'a>, differs: &'a dyn Fn(&[u8], Error)) -> Self {
        Self { place, differs, begun: HashSet::new() }
    }
}

impl Sink for Compared<'_> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let path = node.path.to_vec();
        let mut found = Vec::new();
        let compared = match node.body {
            Body::HardLink(first) => match (self.place.id(&path), self.place.id(first)) {
                (Ok(this), Ok(other)) if this == other => Ok(()),
                (Ok(_), _) => {
                    found.push(format!("is not the same file as {}", quoted(first)));
                    Ok(())
                }
                (Err(error), _) => Err(error),
            },
            // A restore makes directories before they get their attributes.
            Body::Directory if !path.is_empty() && self.begun.insert(path.clone()) => {
                self.place.id(&path).map(drop)
            }
            body => {
                let mut other = Other { node: Some((body, node.meta)), found: &mut found };
                let sent = self.place.send(&path, &mut other);
                // The stream goes on behind the file in any case.
                other.pass()?;
                sent
            }
        };
        if let Err(error) = compared {
            (self.differs)(&path, error);
        }
        for what in found {
            (self.differs)(&path, Error::new(what));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What a file on the disk is compared with.
struct Other<'o, 'n> {
    /// The file of the dump, until it was compared.
    node: Option<(Body<'n>, Meta)>,
    found: &'o mut Vec<String>,
}

impl Other<'_, '_> {
    /// Reads the rest of a file that was not compared.
    fn pass(&mut self) -> Result<()> {
        match self.node.take() {
            Some((Body::File { content, .. }, _)) => read_to_end(content),
            _ => Ok(()),
        }
    }

    fn note(&mut self, is_same: bool, what: impl FnOnce() -> String) {
        if !is_same {
            self.found.push(what());
        }
    }
}

impl Sink for Other<'_, '_> {
    fn put(&mut self, here: Node<'_>) -> Result<()> {
        let Some((body, mut meta)) = self.node.take() else { return Ok(()) };
        let mut there = here.meta;
        let kinds = (kind(&body), kind(&here.body));
        self.note(kinds.0 == kinds.1, || format!("is a {} in the dump, and here a {}", kinds.0, kinds.1));
        match (body, here.body) {
            (Body::File { size, content }, Body::File { size: size_here, content: content_here }) => {
                self.note(size == size_here, || {
                    format!("has {size} bytes in the dump, and here {size_here}")
                });
                if size == size_here {
                    let at = first_difference(content, content_here, size)?;
                    self.note(at.is_none(), || format!("differs from byte {} on", at.unwrap_or_default()));
                } else {
                    read_to_end(content)?;
                }
                meta.xattrs.extend(content.attributes_behind()?);
                if size == size_here {
                    there.xattrs.extend(content_here.attributes_behind()?);
                }
            }
            (Body::File { content, .. }, _) => read_to_end(content)?,
            (Body::Symlink(target), Body::Symlink(target_here)) => self.note(target == target_here, || {
                format!("leads to {} in the dump, and here to {}", quoted(target), quoted(target_here))
            }),
            (Body::Device { rdev, .. }, Body::Device { rdev: rdev_here, .. }) => {
                self.note(rdev == rdev_here, || {
                    let ((a, b), (c, d)) = ((rdev.major, rdev.minor), (rdev_here.major, rdev_here.minor));
                    format!("is device {a}, {b} in the dump, and here {c}, {d}")
                });
            }
            _ => {}
        }
        if kinds.0 != kinds.1 {
            return Ok(());
        }
        let is_link = kinds.0 == "symbolic link";
        self.note(is_link || meta.perm == there.perm, || {
            format!("has the permissions {:04o} in the dump, and here {:04o}", meta.perm, there.perm)
        });
        self.note((meta.uid, meta.gid) == (there.uid, there.gid), || {
            format!(
                "belongs to {}:{} in the dump, and here to {}:{}",
                meta.uid, meta.gid, there.uid, there.gid
            )
        });
        self.note(meta.mtime == there.mtime, || {
            format!("was changed last at {} in the dump, and here at {}", meta.mtime, there.mtime)
        });
        let (in_dump, on_disk) = (attributes(meta.xattrs), attributes(there.xattrs));
        self.note(is_link || in_dump == on_disk, || "has other extended attributes".into());
        Ok(())
    }

    /// Wants nothing below the file.
    fn wants(&self, _: &[u8]) -> bool {
        false
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Returns the attributes that every kind of directory can show.
fn attributes(mut found: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    found.retain(|(name, _)| name.starts_with(b"user.") || [ACCESS_ACL, DEFAULT_ACL].contains(&&name[..]));
    found.sort_unstable();
    found
}

fn kind(body: &Body<'_>) -> &'static str {
    match body {
        Body::File { .. } | Body::HardLink(_) => "regular file",
        Body::Directory => "directory",
        Body::Symlink(_) => "symbolic link",
        Body::Device { block: true, .. } => "block device",
        Body::Device { block: false, .. } => "character device",
        Body::Fifo => "named pipe",
        Body::Socket => "socket",
    }
}

/// The bytes of a file in order, with its holes.
struct Bytes<'c> {
    content: &'c mut dyn Content,
    buffer: Vec<u8>,
    /// What has been read and not compared: its offset in the file, and its place in the buffer.
    piece: Option<(u64, std::ops::Range<usize>)>,
    has_ended: bool,
}

impl<'c> Bytes<'c> {
    fn new(content: &'c mut dyn Content) -> Self {
        Self { content, buffer: vec![0; CHUNK], piece: None, has_ended: false }
    }

    /// Fills `out` with what the file has from `at` on, which is where the call before ended.
    fn fill(&mut self, at: u64, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        let end = at + out.len() as u64;
        loop {
            if let Some((from, range)) = &mut self.piece {
                let skip = usize::try_from(from.saturating_sub(at)).unwrap_or(out.len()).min(out.len());
                let len = range.len().min(out.len() - skip);
                out[skip..skip + len].copy_from_slice(&self.buffer[range.start..range.start + len]);
                if len < range.len() {
                    *from = (*from).max(end);
                    range.start += len;
                    return Ok(());
                }
                self.piece = None;
            }
            if self.has_ended {
                return Ok(());
            }
            match self.content.next(&mut self.buffer)? {
                Some((from, len)) => self.piece = Some((from, 0..len)),
                None => self.has_ended = true,
            }
        }
    }
}

/// Returns the first byte in which the contents of two files of `size` bytes differ. The first is
/// read to its end.
fn first_difference(one: &mut dyn Content, other: &mut dyn Content, size: u64) -> Result<Option<u64>> {
    let (mut one, mut other) = (Bytes::new(one), Bytes::new(other));
    let (mut ours, mut theirs) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut at, mut found) = (0, None);
    while at < size {
        let len = usize::try_from(size - at).unwrap_or(CHUNK).min(CHUNK);
        one.fill(at, &mut ours[..len])?;
        other.fill(at, &mut theirs[..len])?;
        found = ours[..len].iter().zip(&theirs[..len]).position(|(a, b)| a != b).map(|n| at + n as u64);
        if found.is_some() {
            break;
        }
        at += len as u64;
    }
    read_to_end(one.content)?;
    Ok(found)
}

/// Reads a file without keeping anything.
fn read_to_end(content: &mut dyn Content) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    while content.next(&mut buffer)?.is_some() {}
    Ok(())
}

/// A target that reads everything, and keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discarded;

impl Sink for Discarded {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        if let Body::File { content, .. } = node.body {
            read_to_end(content)?;
            content.attributes_behind().context(quoted(node.path))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A target in which only directories that are there get their attributes (`setmodes`).
pub struct OnlyDirectories<'a, S> {
    place: Place<'a>,
    sink: S,
}

impl<'a, S: Sink> OnlyDirectories<'a, S> {
    /// Returns a target for the directories of a place, which `sink` fills.
    pub fn new(place: Place<'a>, sink: S) -> Self {
        Self { place, sink }
    }
}

impl<S: Sink> Sink for OnlyDirectories<'_, S> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        match node.body {
            Body::Directory if self.place.has(node.path) => self.sink.put(node),
            _ => Discarded.put(node),
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.sink.finish()
    }
}
