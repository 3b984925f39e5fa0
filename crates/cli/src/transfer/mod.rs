//! Moving trees between directories, tar streams and file systems.
//!
//! There are sources and sinks, and every pair of them works: a source walks what it has and hands
//! one [`Node`] after the other to a [`Sink`], parents before what is in them, in the order of the
//! names' bytes where the source is not a stream. Nothing is held but the way to the current node,
//! the names of the directories on it, and the files with several names that have not all been met:
//! millions of files need no more memory than a few.

mod adjust;
mod census;
mod image_sink;
mod image_source;
mod links;
mod local_sink;
mod local_source;
mod pax;
mod tar_reader;
mod tar_writer;
#[cfg(test)]
mod tests;

pub use adjust::{Adjust, Adjusted};
pub use census::CensusSink;
pub use image_sink::{ImageSink, NewFiles};
pub use image_source::{ImageContent, ImageSource};
pub use local_sink::LocalSink;
pub use local_source::LocalSource;
pub use tar_reader::TarReader;
pub use tar_writer::TarWriter;

use crate::error::{Context, Failure, Result};
use spindle_clock::Timestamp;
use spindle_vfs::Rdev;

/// Bytes moved at a time.
pub const CHUNK: usize = 1 << 20;

/// One file of any kind on its way.
pub struct Node<'a> {
    /// Where, from the root of the transfer: names with `/` between them, empty for the root
    /// itself.
    pub path: &'a [u8],
    /// What it is.
    pub body: Body<'a>,
    /// What else is known of it.
    pub meta: Meta,
}

/// What a node is, with what is in it.
pub enum Body<'a> {
    /// A regular file.
    File {
        /// Bytes, holes counted.
        size: u64,
        /// The bytes.
        content: &'a mut dyn Content,
    },
    /// A directory; what is in it follows in nodes of its own.
    Directory,
    /// A symbolic link to this target.
    Symlink(&'a [u8]),
    /// A device node.
    Device {
        /// A block device, not a character device.
        block: bool,
        /// Its number.
        rdev: Rdev,
    },
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// Another name of the node that came earlier at this path, and brought all attributes.
    HardLink(&'a [u8]),
}

/// What is known of a node beside its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Permission, set-id and sticky bits.
    pub perm: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read, where known.
    pub atime: Option<Timestamp>,
    /// Last changed.
    pub mtime: Timestamp,
    /// Born, where known.
    pub birthtime: Option<Timestamp>,
    /// BSD file flags.
    pub flags: u32,
    /// Extended attributes by full name, in the order of their names.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Where stored bytes are in a file: (offset, length) in order.
pub type Extents = Vec<(u64, u64)>;

/// The bytes of a file, in order.
pub trait Content {
    /// Returns the next stored bytes: fills the front of `buf` and says where in the file they
    /// belong and how many they are. What lies between is a hole. `None` at the end.
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>>;

    /// Returns where stored bytes are, if there are holes and this is known beforehand.
    fn extents(&mut self) -> Result<Option<Extents>> {
        Ok(None)
    }
}

/// Returns all runs of data in a file of `size` bytes, from what gives start and end of the first
/// one at or after an offset.
fn extents_of(size: u64, data_after: impl Fn(u64) -> Result<(u64, u64)>) -> Result<Extents> {
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

/// Where nodes go.
pub trait Sink {
    /// Takes a node. What can be left out is left out with a warning.
    fn put(&mut self, node: Node<'_>) -> Result<()>;

    /// Finishes what waited for the last node. Nothing is complete without it.
    fn finish(&mut self) -> Result<()>;
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        (**self).put(node)
    }

    fn finish(&mut self) -> Result<()> {
        (**self).finish()
    }
}

/// What is left out silently many times and told once.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Extended attributes that the target cannot keep.
    pub xattrs: u64,
    /// Sockets, which a tar stream cannot hold.
    pub sockets: u64,
    /// Owners that only root could set.
    pub owners: u64,
}

impl LeftOut {
    /// Tells what was left out.
    pub fn tell(&self) {
        for (count, what) in [
            (self.xattrs, "extended attributes that the target has no place for"),
            (self.sockets, "sockets, which a tar stream cannot hold"),
            (self.owners, "owners, which only root can give away"),
        ] {
            if count > 0 {
                log::warn!("left out: {count} {what}");
            }
        }
    }
}

/// Refuses what can be no name in a directory, whoever claims it is.
pub fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0) {
        return Err(Failure::new("this cannot be the name of a file")).named(name);
    }
    Ok(())
}

/// `dir/name`, where an empty `dir` is the root.
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
