//! A file of any kind in an open file system.

use crate::failure::{Failure, Result};
use crate::image::{Open, Shared};
use crate::work::quick;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use spindle::Context;
use spindle::path::{child, names_before_damage};
use spindle::transfer::check_name;
use spindle_clock::Timestamp;
use spindle_vfs::{
    Attr, Cred, Error as FsError, FileKind, Ino, NewNode, Rdev, RenameMode, SetAttr, SetTime, XattrMode,
};
use std::sync::{Arc, Weak};

/// The user of an image may do anything in it.
pub const OWNER: Cred<'static> = Cred::root();

/// A reference to an inode, which is given back when this is dropped.
pub struct Held {
    pub shared: Arc<Shared>,
    open: Weak<Open>,
    pub ino: Ino,
}

impl Held {
    /// Takes over a reference to an inode.
    fn new(shared: &Arc<Shared>, open: &Arc<Open>, ino: Ino) -> Self {
        Self { shared: Arc::clone(shared), open: Arc::downgrade(open), ino }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(open) = self.open.upgrade() {
            open.vfs.forget(self.ino, 1);
        }
    }
}

/// Returns a time in nanoseconds since 1970.
pub fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos)
}

/// Returns the time of so many nanoseconds since 1970.
fn timestamp(ns: i128) -> Result<Timestamp> {
    let secs = i64::try_from(ns.div_euclid(1_000_000_000));
    let nanos = u32::try_from(ns.rem_euclid(1_000_000_000)).unwrap_or(0);
    match secs {
        Ok(secs) => Ok(Timestamp::new(secs, nanos)),
        Err(_) => Err(Failure::Overflow(format!("{ns} ns is not a time"))),
    }
}

/// The attributes of a file, in the order of the class `Stat` of Python.
#[derive(IntoPyObject)]
pub struct Attributes(
    (u32, u64, u32, u32, u32, u64),
    (i128, i128, i128, Option<i128>),
    (u64, u32, u32, u64),
    (u32, u32),
);

impl Attributes {
    fn of(attr: &Attr) -> Self {
        Self(
            (attr.kind.mode_bits() | attr.perm, attr.ino.0, attr.nlink, attr.uid, attr.gid, attr.size),
            (
                nanoseconds(attr.atime),
                nanoseconds(attr.mtime),
                nanoseconds(attr.ctime),
                attr.birthtime.map(nanoseconds),
            ),
            (attr.blocks512, attr.blksize, attr.flags, attr.generation),
            (attr.rdev.major, attr.rdev.minor),
        )
    }
}

/// A file of any kind, as the class `Node` of Python uses it.
#[pyclass(frozen, module = "spindle_fs._native")]
pub struct Node(pub Arc<Held>);

impl Node {
    /// Takes over the reference of a node of the library.
    pub fn take(shared: &Arc<Shared>, open: &Arc<Open>, node: spindle_vfs::Node<'_>) -> Self {
        let ino = node.ino();
        // Its reference is ours now; it has nothing else to give back.
        std::mem::forget(node);
        Self(Arc::new(Held::new(shared, open, ino)))
    }

    /// Does something with the file system and the number of the inode.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&Arc<Open>, Ino) -> Result<T> + Send,
    ) -> PyResult<T> {
        quick(py, || what(&self.0.shared.get()?, self.0.ino))
    }

    /// Returns the same for two nodes, which must be of one image.
    fn with_other<T: Send>(
        &self,
        py: Python<'_>,
        other: &Self,
        what: impl FnOnce(&Arc<Open>, Ino, Ino) -> Result<T> + Send,
    ) -> PyResult<T> {
        quick(py, || {
            if !Arc::ptr_eq(&self.0.shared, &other.0.shared) {
                return Err(FsError::CrossDevice.into());
            }
            what(&self.0.shared.get()?, self.0.ino, other.0.ino)
        })
    }
}

#[pymethods]
impl Node {
    #[getter]
    fn ino(&self) -> u64 {
        self.0.ino.0
    }

    /// Returns the attributes as they are now.
    fn stat(&self, py: Python<'_>) -> PyResult<Attributes> {
        self.with(py, |open, ino| Ok(Attributes::of(&open.vfs.getattr(ino)?)))
    }

    /// Returns the names in a directory, sorted by their bytes, and why there are no more of them.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<(Vec<Bound<'py, PyBytes>>, Option<String>)> {
        let (names, damage) = self.with(py, |open, ino| {
            let (names, error) = names_before_damage(&open.vfs, ino);
            match error {
                Some(error) if !error.is_failure() => Err(error.into()),
                error => Ok((names, error.map(|error| spindle::Error::from(error).to_string()))),
            }
        })?;
        Ok((names.iter().map(|name| PyBytes::new(py, name)).collect(), damage))
    }

    /// Returns the file that a name in this directory means, without following a symbolic link.
    fn child(&self, py: Python<'_>, name: &[u8]) -> PyResult<Self> {
        self.with(py, |open, ino| {
            check_name(name)?;
            Ok(Self::take(&self.0.shared, open, child(&open.vfs, ino, name).named(name)?))
        })
    }

    /// Returns the file at a path that begins here.
    fn resolve(&self, py: Python<'_>, path: &[u8], follow: bool) -> PyResult<Self> {
        self.with(py, |open, ino| {
            // The walk takes a reference of its own, which goes with the first step.
            let here = spindle_vfs::Node::new(&open.vfs, open.vfs.fs().lookup(ino, b".")?);
            let found = open.vfs.resolve_from(&OWNER, here, path, follow).named(path)?;
            Ok(Self::take(&self.0.shared, open, found))
        })
    }

    /// Returns the target of a symbolic link.
    fn readlink<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let target = self.with(py, |open, ino| Ok(open.vfs.readlink(ino)?))?;
        Ok(PyBytes::new(py, &target))
    }

    /// Returns where the data of a regular file lies: offset, byte of the file system, length; none
    /// if it does not lie there as it is.
    fn extents(&self, py: Python<'_>) -> PyResult<Option<Vec<(u64, u64, u64)>>> {
        self.with(py, |open, ino| {
            if !open.image.fs().read_only() {
                // Data that is not written yet has no place.
                open.vfs.sync()?;
            }
            let extents = open.image.extents(ino)?;
            Ok(extents.map(|extents| extents.iter().map(|e| (e.offset, e.at, e.len)).collect()))
        })
    }

    /// Returns the names of all extended attributes.
    fn xattr_names<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let names = self.with(py, |open, ino| match open.vfs.listxattr(&OWNER, ino) {
            Err(FsError::NotSupported) => Ok(Vec::new()),
            names => Ok(names?),
        })?;
        Ok(names.iter().map(|name| PyBytes::new(py, name)).collect())
    }

    /// Returns the value of an extended attribute.
    fn xattr<'py>(&self, py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.with(py, |open, ino| Ok(open.vfs.getxattr(&OWNER, ino, name).named(name)?))?;
        Ok(PyBytes::new(py, &value))
    }

    /// Sets an extended attribute.
    fn set_xattr(&self, py: Python<'_>, name: &[u8], value: &[u8]) -> PyResult<()> {
        self.with(py, |open, ino| {
            Ok(open.vfs.setxattr(&OWNER, ino, name, value, XattrMode::Set).named(name)?)
        })
    }

    /// Removes an extended attribute.
    fn remove_xattr(&self, py: Python<'_>, name: &[u8]) -> PyResult<()> {
        self.with(py, |open, ino| Ok(open.vfs.removexattr(&OWNER, ino, name).named(name)?))
    }

    /// Changes attributes; what is none stays.
    #[pyo3(signature = (*, perm=None, uid=None, gid=None, size=None, atime_ns=None, mtime_ns=None,
                        birthtime_ns=None, flags=None))]
    #[allow(clippy::too_many_arguments, reason = "they are those of Python, by name")]
    fn set(
        &self,
        py: Python<'_>,
        perm: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime_ns: Option<i128>,
        mtime_ns: Option<i128>,
        birthtime_ns: Option<i128>,
        flags: Option<u32>,
    ) -> PyResult<()> {
        self.with(py, |open, ino| {
            let time = |ns: Option<i128>| ns.map(timestamp).transpose();
            let (atime, mtime) = (time(atime_ns)?.map(SetTime::At), time(mtime_ns)?.map(SetTime::At));
            let birthtime = time(birthtime_ns)?;
            let perm = perm.map(|perm| perm & 0o7777);
            let set = SetAttr { perm, uid, gid, size, atime, mtime, ctime: None, birthtime, flags };
            open.vfs.setattr(&OWNER, ino, &set, None)?;
            Ok(())
        })
    }

    /// Creates a file of the kind that `mode` says in this directory.
    #[allow(clippy::too_many_arguments, reason = "they are what a file is made of")]
    fn create(
        &self,
        py: Python<'_>,
        name: &[u8],
        mode: u32,
        uid: u32,
        gid: u32,
        device: (u32, u32),
        target: &[u8],
    ) -> PyResult<Self> {
        self.with(py, |open, ino| {
            let Some(kind) = FileKind::from_mode(mode) else {
                return Err(Failure::Value(format!("mode {mode:o} has no kind of file")));
            };
            let rdev = Rdev { major: device.0, minor: device.1 };
            let node = NewNode { kind, perm: mode & 0o7777, masked: 0, uid, gid, rdev, target };
            let made = open.vfs.create(&OWNER, ino, name, &node).named(name)?;
            let held = Self(Arc::new(Held::new(&self.0.shared, open, made.ino)));
            if made.gid != gid {
                // BSD gives new files the group of their directory.
                let set = SetAttr { gid: Some(gid), ..SetAttr::default() };
                open.vfs.setattr(&OWNER, made.ino, &set, None)?;
            }
            Ok(held)
        })
    }

    /// Gives a file another name in this directory.
    fn link(&self, py: Python<'_>, file: &Self, name: &[u8]) -> PyResult<()> {
        self.with_other(py, file, |open, dir, ino| {
            let linked = open.vfs.link(&OWNER, ino, dir, name).named(name)?;
            open.vfs.forget(linked.ino, 1);
            Ok(())
        })
    }

    /// Removes a name in this directory of a file that is no directory.
    fn unlink(&self, py: Python<'_>, name: &[u8]) -> PyResult<()> {
        self.with(py, |open, dir| Ok(open.vfs.unlink(&OWNER, dir, name).named(name)?))
    }

    /// Removes an empty directory in this one.
    fn rmdir(&self, py: Python<'_>, name: &[u8]) -> PyResult<()> {
        self.with(py, |open, dir| Ok(open.vfs.rmdir(&OWNER, dir, name).named(name)?))
    }

    /// Gives what has a name in this directory a name in another one; replaces what is there.
    fn rename(&self, py: Python<'_>, name: &[u8], to: &Self, new: &[u8]) -> PyResult<()> {
        self.with_other(py, to, |open, from, to| {
            let done = open.vfs.rename(&OWNER, (from, name), (to, new), RenameMode::Replace);
            Ok(done.named(name)?)
        })
    }
}
