//! Copying trees between directories, tar streams and file systems.
//!
//! Every source works with every sink. A source walks its tree and passes one [`Node`] after the
//! other to a [`Sink`], parents before their children; if the source is not a stream, names are
//! sorted by their bytes. In memory are only the path to the current node, the names in the
//! directories on it, the files with several names of which some are still to come, and, of a tree
//! in an image, a bit for each inode and each unit of space that it has: millions of files need
//! little more memory than a few.

mod acl;
mod adjust;
mod claims;
mod image_content;
mod image_sink;
mod image_source;
mod links;
mod local_sink;
mod local_source;
mod manifest;
mod mtree;
mod past_failures;
mod pax;
mod record;
mod rehearsal;
mod tar_reader;
mod tar_writer;
#[cfg(test)]
mod tests;
mod unread;

pub use adjust::{Adjust, Adjusted, Step, Times};
pub(crate) use claims::Claims;
pub use image_content::ImageContent;
pub use image_sink::{ImageSink, NewFiles};
pub use image_source::ImageSource;
pub(crate) use image_source::xattrs;
pub use local_sink::{InPlace, LocalSink, OpenInPlace};
pub use local_source::{Ahead, LocalSource};
pub use manifest::Manifested;
pub use mtree::{Entry, EntryKind, Manifest, Names};
pub use past_failures::{PastFailures, Place};
pub(crate) use record::Record;
pub use record::{Original, Walk};
pub use rehearsal::{Misfit, Rehearsed, Used, misfits_behind, rehearse};
pub use tar_reader::TarReader;
pub use tar_writer::TarWriter;

use crate::error::{Context, Error, Result};
use crate::text::quoted;
use spindle_clock::Timestamp;
use spindle_vfs::{Limits, Rdev};

/// Bytes copied at a time.
pub const CHUNK: usize = 1 << 20;

/// A file of any type, as a source passes it to a sink.
pub struct Node<'a> {
    /// Path from the root of the transfer: names with `/` between them, empty for the root
    /// itself.
    pub path: &'a [u8],
    /// Type and content.
    pub body: Body<'a>,
    /// Metadata.
    pub meta: Meta,
}

/// Type and content of a node.
pub enum Body<'a> {
    /// A regular file.
    File {
        /// Size in bytes, including holes.
        size: u64,
        /// The content.
        content: &'a mut dyn Content,
    },
    /// A directory; its entries follow as nodes.
    Directory,
    /// A symbolic link to this target.
    Symlink(&'a [u8]),
    /// A device node.
    Device {
        /// True for a block device, false for a character device.
        block: bool,
        /// Device number.
        rdev: Rdev,
    },
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// Another name of an earlier node, which had this path and all attributes.
    HardLink(&'a [u8]),
}

/// Metadata of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Permission, set-id and sticky bits.
    pub perm: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Time of the last read, if known.
    pub atime: Option<Timestamp>,
    /// Time of the last change of the data.
    pub mtime: Timestamp,
    /// Time of creation, if known.
    pub birthtime: Option<Timestamp>,
    /// BSD file flags.
    pub flags: u32,
    /// Full names and values of extended attributes, sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The runs of data in a file: (offset, length) in order.
pub type Extents = Vec<(u64, u64)>;

/// The content of a file, read in order.
pub trait Content {
    /// Reads the next data into the front of `buf`. Returns its offset in the file and its
    /// length, or `None` at the end. The ranges in between are holes.
    ///
    /// # Errors
    /// If it cannot be read.
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>>;

    /// Returns the runs of data, if there are holes and they are known in advance.
    ///
    /// # Errors
    /// If they cannot be read.
    fn extents(&mut self) -> Result<Option<Extents>> {
        Ok(None)
    }

    /// Returns extended attributes that become known only after the end of the data, in addition to
    /// those in [`Meta`]. Called once, after the end.
    ///
    /// # Errors
    /// If they cannot be read.
    fn attributes_behind(&mut self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        Ok(Vec::new())
    }
}

/// Returns the metadata of a file whose data has been read to its end.
fn complete(meta: &Meta, content: &mut dyn Content) -> Result<Meta> {
    let mut meta = meta.clone();
    meta.xattrs.extend(content.attributes_behind()?);
    Ok(meta)
}

/// Returns all runs of data in a file of `size` bytes. `data_after` returns start and end of the
/// first run at or after an offset.
fn extents_of(size: u64, mut data_after: impl FnMut(u64) -> Result<(u64, u64)>) -> Result<Extents> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        let (start, end) = data_after(at)?;
        if start < end {
            found.push((start, end - start));
        }
        at = end.max(at + 1);
    }
    Ok(found)
}

/// The symbolic links that a source follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// None.
    Never,
    /// The one that is named, if it is one.
    #[default]
    Named,
    /// All. Each becomes a file of its own, also if it leads to another name of one.
    All,
}

/// The origin of a transfer.
pub trait Source {
    /// Passes all nodes to `sink`, and does not finish it: several sources can fill one sink.
    ///
    /// # Errors
    /// The first failure of the source or of the sink.
    fn walk(self, sink: &mut dyn Sink) -> Result<()>;
}

/// The target of a transfer.
pub trait Sink {
    /// Adds a node. Metadata that the target cannot store is omitted with a warning.
    ///
    /// # Errors
    /// If the node cannot be created.
    fn put(&mut self, node: Node<'_>) -> Result<()>;

    /// Returns false if a node with this path and everything below it would be left out: a source
    /// may then pass over it.
    fn wants(&self, _path: &[u8]) -> bool {
        true
    }

    /// Finishes the transfer after the last node. Without this call the target is incomplete.
    ///
    /// # Errors
    /// If the target cannot be completed.
    fn finish(&mut self) -> Result<()>;
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        (**self).put(node)
    }

    fn wants(&self, path: &[u8]) -> bool {
        (**self).wants(path)
    }

    fn finish(&mut self) -> Result<()> {
        (**self).finish()
    }
}

/// Is called with what fails of one file, its path in the transfer and the reason; the transfer
/// then goes on, unless this returns an error.
pub type Failed<'a> = &'a dyn Fn(&[u8], Error) -> Result<()>;

/// The metadata that the user has asked to keep by an option: what of it a file loses is passed to
/// what is called with failures, and so makes a command fail. What nobody has asked for by name is
/// one warning at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Extended attributes.
    pub xattrs: bool,
    /// BSD file flags.
    pub flags: bool,
}

/// What was left out, for one warning at the end.
#[derive(Debug, Default)]
struct LeftOut {
    /// Extended attributes that the target cannot store.
    xattrs: Of,
    /// File flags that the target cannot store.
    flags: Of,
    /// Access control lists that the target does not have.
    lists: Of,
    /// Sockets, which a tar stream cannot contain.
    sockets: Of,
    /// Owners that only root could set.
    owners: Of,
    /// Set-user-id and set-group-id bits of files that have got another owner or group.
    set_ids: Of,
    /// Files of the name that only the log may have.
    logs: Of,
}

/// A number of things, and the paths of the first.
#[derive(Debug, Default)]
struct Of {
    count: u64,
    first: Vec<Vec<u8>>,
    /// How many of them have got messages of their own.
    named: u64,
}

/// Most losses of a kind that get messages of their own.
const NAMED: u64 = 20;

impl Of {
    /// Passes a loss of the file at `path` to `failed`, if there is one and it has not been called
    /// too often.
    fn lose(&mut self, path: &[u8], failed: Option<Failed<'_>>, error: impl FnOnce() -> Error) -> Result<()> {
        self.add(path);
        match failed {
            Some(failed) if self.named < NAMED => {
                self.named += 1;
                failed(path, error())
            }
            _ => Ok(()),
        }
    }

    /// Adds a thing of the file at `path`.
    fn add(&mut self, path: &[u8]) {
        self.count += 1;
        if self.first.len() < 3 && self.first.last().is_none_or(|last| last != path) {
            self.first.push(path.to_vec());
        }
    }
}

impl LeftOut {
    /// Logs a warning about each kind of omitted object.
    fn warn(&self) {
        for (Of { count, first, named }, what) in [
            (&self.xattrs, "extended attributes, which the target cannot store"),
            (&self.flags, "sets of file flags, which the target does not have"),
            (&self.lists, "access control lists, which the target does not have"),
            (&self.sockets, "sockets, which a tar stream cannot contain"),
            (&self.owners, "owners, which only root can set"),
            (&self.set_ids, "set-user-id or set-group-id bits, which no other owner or group gets"),
            (&self.logs, "log of another file system, whose name is kept for the log of the image"),
        ] {
            if *named > 0 && count > named {
                log::warn!("left out: {count} {what}, of which {named} are named above");
            } else if *named == 0 && *count > 0 {
                let shown = |path: &Vec<u8>| if path.is_empty() { "/".into() } else { quoted(path) };
                let names: Vec<String> = first.iter().map(shown).collect();
                let more = if *count > first.len() as u64 { " …" } else { "" };
                log::warn!("left out: {count} {what}: {}{more}", names.join(", "));
            }
        }
    }
}

/// Returns what is wrong with the times of a file for a file system with these limits.
fn time_misfit(limits: &Limits, meta: &Meta) -> Option<Error> {
    let (first, last) = limits.time_range;
    let times = [("last change", Some(meta.mtime)), ("last read", meta.atime)];
    let (what, time) = times.into_iter().find_map(|(what, time)| {
        let time = time.filter(|time| !(first..=last).contains(&time.secs))?;
        Some((what, time))
    })?;
    let secs = time.secs;
    Some(Error::new(format!(
        "the time of the {what} is {secs} seconds since 1970: the format has {first} to {last}"
    )))
}

/// Refuses a name that is invalid in a directory.
///
/// # Errors
/// If it is empty, `.`, `..`, or contains a slash or a NUL.
pub fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0) {
        return Err(Error::new("is not a valid file name")).named(name);
    }
    Ok(())
}

/// Returns `dir/name`; an empty `dir` is the root.
#[must_use]
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() && !name.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Returns the directory part and the last name of a path.
#[must_use]
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// Returns the names of a path.
pub fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b'/').filter(|name| !name.is_empty())
}
