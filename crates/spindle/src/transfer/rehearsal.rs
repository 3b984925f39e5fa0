//! Trying out an import in memory: whether everything fits, how much space it takes, and what the
//! format cannot store. That is so before anything that was there is written; a new file is filled
//! without, and removed again if that fails, when the trial finds all reasons.
//!
//! The tree is put into a new file system in memory by the code that imports it later, but no data
//! is read: zeros take its place, and are written nowhere. So there is no
//! second opinion of what a file system holds or refuses.

use super::unread::{Thing, Unread};
use super::{ImageSink, Meta, NewFiles, Node, Sink, Walk, join, split, time_misfit};
use crate::error::{Error, Result};
use crate::image::{Image, OpenOptions};
use crate::newfs::{NewFs, clock, seed};
use crate::path::resolve;
use spindle_cache::{DataSettings, Settings};
use spindle_device::{Device, MemoryDevice};
use spindle_vfs::{Error as FsError, Limits};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Something that the format cannot store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Path from the root of the transfer.
    pub path: Vec<u8>,
    /// The reason.
    pub error: Error,
}

/// What a tree takes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Bytes, in whole blocks and fragments.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

/// The result of a rehearsal.
#[derive(Clone, Debug)]
pub struct Rehearsed {
    /// What everything that the format can store takes; none if there is not enough space.
    pub used: Option<Used>,
    /// What the format cannot store; without enough space, what was found until then.
    pub misfits: Vec<Misfit>,
}

/// Imports a tree into a file system of this plan in memory.
///
/// # Errors
/// Those of the source.
pub fn rehearse(plan: &NewFs, timestamp: Option<i64>, walk: Walk<'_>) -> Result<Rehearsed> {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(plan.size_bytes().next_multiple_of(512)));
    plan.write(&*device, timestamp, &mut || ())?;
    let usual = Settings::default();
    let options = OpenOptions {
        clock: clock(timestamp),
        seed: seed(timestamp),
        cache: Some(Settings { data: DataSettings { zeros_left_out: true, ..usual.data }, ..usual }),
        ..OpenOptions::read_write()
    };
    let image = Image::open_in_memory(device, &options)?;
    let vfs = image.vfs();
    let before = image.fs().statfs()?;
    let root = resolve(&vfs, b"/", true)?;
    let mut sink = Rehearsal {
        inner: ImageSink::new(&root, b"", NewFiles::PRESERVED),
        limits: image.fs().limits(),
        stand_ins: HashMap::new(),
        misfits: Vec::new(),
        full: false,
    };
    let walked = walk(&mut sink).and_then(|()| sink.finish());
    let Rehearsal { misfits, full, .. } = sink;
    if full {
        return Ok(Rehearsed { used: None, misfits });
    }
    walked?;
    // It goes as it is: nobody will read it.
    let after = image.fs().statfs()?;
    let used = Used {
        bytes: before.bfree.saturating_sub(after.bfree) * u64::from(after.frsize),
        inodes: before.ffree.saturating_sub(after.ffree),
    };
    Ok(Rehearsed { used: Some(used), misfits })
}

/// Returns what the format cannot store of a tree, if that may be why filling a new file system of
/// this plan, which was not tried out before, has failed. A source that fails now shows nothing:
/// the caller reports the first failure.
#[must_use]
pub fn misfits_behind(failure: &Error, plan: &NewFs, timestamp: Option<i64>, walk: Walk<'_>) -> Vec<Misfit> {
    let is_full = failure.is(&FsError::NoSpace) && !failure.is_of_device();
    if !is_full && !is_misfit(failure) {
        return Vec::new();
    }
    rehearse(plan, timestamp, walk).map_or_else(|_| Vec::new(), |rehearsed| rehearsed.misfits)
}

/// Returns true if something is wrong with this file only.
fn is_misfit(error: &Error) -> bool {
    let kinds = [
        FsError::NameTooLong,
        FsError::Overflow,
        FsError::TooBig,
        FsError::TooManyLinks,
        FsError::NotSupported,
        FsError::Invalid,
    ];
    kinds.iter().any(|kind| error.is(kind))
}

/// A sink that goes on where something does not fit.
struct Rehearsal<'a> {
    inner: ImageSink<'a>,
    limits: Limits,
    /// What stands in for misfits, by their paths: everything below a directory, and other names of
    /// a file, must find something there.
    stand_ins: HashMap<Vec<u8>, Vec<u8>>,
    misfits: Vec<Misfit>,
    full: bool,
}

impl Rehearsal<'_> {
    /// Returns the path that takes the place of `path`.
    fn place<'p>(&self, path: &'p [u8]) -> Cow<'p, [u8]> {
        if self.stand_ins.is_empty() {
            return path.into();
        }
        let mut dir = path;
        loop {
            if let Some(stand_in) = self.stand_ins.get(dir) {
                return [&stand_in[..], &path[dir.len()..]].concat().into();
            }
            if dir.is_empty() {
                return path.into();
            }
            dir = split(dir).0;
        }
    }

    /// Puts a node. Returns the misfit, if it is one.
    fn attempt(&mut self, path: &[u8], thing: &Thing, meta: &Meta) -> Result<Option<Error>> {
        let mut unread = Unread::default();
        let body = thing.body(&mut unread);
        match self.inner.put(Node { path, body, meta: meta.clone() }) {
            Ok(()) => Ok(None),
            Err(error) if is_misfit(&error) => Ok(Some(error)),
            Err(error) => {
                self.full = error.is(&FsError::NoSpace);
                Err(error)
            }
        }
    }

    /// Adds a reason why a node does not fit.
    fn add(&mut self, path: &[u8], error: &Error, thing: &Thing, meta: &Meta) {
        let limits = &self.limits;
        let name = split(path).1;
        let reason = if error.is(&FsError::NameTooLong) && name.len() > limits.name_max {
            format!("{error}: {} bytes, and the format has {}", name.len(), limits.name_max)
        } else if let (true, Thing::Symlink(target)) = (error.is(&FsError::NameTooLong), thing) {
            let (len, most) = (target.len(), limits.symlink_max);
            format!("the target of the symbolic link is too long: {len} bytes, and the format has {most}")
        } else if error.is(&FsError::Overflow) && meta.uid > limits.id_max {
            format!("owner {} is too large: the format has numbers up to {}", meta.uid, limits.id_max)
        } else if error.is(&FsError::Overflow) && meta.gid > limits.id_max {
            format!("group {} is too large: the format has numbers up to {}", meta.gid, limits.id_max)
        } else if let (true, Thing::File(size, _)) = (error.is(&FsError::TooBig), thing) {
            format!("{error}: {size} bytes, and the format has at most {}", limits.file_size_max)
        } else if let (true, Thing::Device { rdev, .. }) = (error.is(&FsError::Overflow), thing) {
            format!("device number {}, {}: {error}", rdev.major, rdev.minor)
        } else if error.is(&FsError::TooManyLinks) {
            format!("{error}: the format has at most {}", limits.link_max)
        } else if error.is(&FsError::NotSupported) {
            let what = match thing {
                Thing::Symlink(_) => "symbolic links are",
                Thing::Fifo => "named pipes are",
                Thing::Socket => "sockets are",
                _ => "it is",
            };
            format!("{what} {error}")
        } else {
            error.to_string()
        };
        let misfit = Misfit { path: path.to_vec(), error: Error::new(reason) };
        if self.misfits.last() != Some(&misfit) {
            self.misfits.push(misfit);
        }
    }
}

impl Sink for Rehearsal<'_> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let Node { path, body, meta } = node;
        let mut thing = Thing::of(body)?;
        if let Thing::HardLink(first) = &mut thing {
            *first = self.place(first).into_owned().into();
        }
        let place = self.place(path).into_owned();
        // The sink stores the nearest time.
        if !matches!(thing, Thing::HardLink(_))
            && let Some(error) = time_misfit(&self.limits, &meta)
        {
            self.misfits.push(Misfit { path: path.to_vec(), error });
        }
        let Some(error) = self.attempt(&place, &thing, &meta)? else { return Ok(()) };
        self.add(path, &error, &thing, &meta);
        let stand_in = join(split(&place).0, format!(".misfit{}", self.stand_ins.len()).as_bytes());
        self.stand_ins.insert(path.to_vec(), stand_in.clone());
        // A name that is too long may hide something else.
        let mut last = error;
        if last.is(&FsError::NameTooLong) {
            match self.attempt(&stand_in, &thing, &meta)? {
                None => return Ok(()),
                Some(error) => {
                    self.add(path, &error, &thing, &meta);
                    last = error;
                }
            }
        }
        // An owner that is too large may hide a group, and both a device number.
        let owned = [Meta { uid: 0, ..meta.clone() }, Meta { uid: 0, gid: 0, ..meta.clone() }];
        for plain in owned.iter().filter(|_| last.is(&FsError::Overflow)) {
            match self.attempt(&stand_in, &thing, plain)? {
                None => return Ok(()),
                Some(error) => self.add(path, &error, &thing, plain),
            }
        }
        let plain = Meta { perm: 0o644, ..Meta::default() };
        let empty = match thing {
            Thing::HardLink(_) => return Ok(()),
            Thing::Directory => Thing::Directory,
            _ => Thing::File(0, None),
        };
        self.attempt(&stand_in, &empty, &plain)?.map_or(Ok(()), Err)
    }

    fn finish(&mut self) -> Result<()> {
        self.inner.close().inspect_err(|error| self.full = error.is(&FsError::NoSpace))
    }
}
