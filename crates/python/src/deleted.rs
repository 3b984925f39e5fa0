//! What was deleted and is still there.

use crate::failure::{Failure, Result};
use crate::image::{find, parse_kind};
use crate::node::nanoseconds;
use crate::work::{Interruptible, quick, work};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use spindle::inspect::{Opened, open};
use spindle::{Context, OpenOptions};
use spindle_clock::Mutex;
use spindle_device::Device;
use spindle_ffs::Superblock;
use spindle_ffs::inspect::{Deleted as Found, DeletedInode, InodeNow, Inspector};
use std::sync::Arc;

/// What was deleted in a file system, which stays open to be read. A fast file system is looked at
/// inside here, beside an image that is open.
#[pyclass(frozen, module = "spindle_fs._native")]
pub struct Deleted {
    state: Arc<State>,
}

struct State {
    device: Arc<dyn Device>,
    superblock: Superblock,
    found: Mutex<Option<Arc<Found>>>,
}

/// A deleted name: directory, its path, byte in the directory, name, inode, what that is now.
type Name<'py> = (u32, Option<Bound<'py, PyBytes>>, u64, Bound<'py, PyBytes>, u32, &'static str);

/// A deleted inode: number, mode, owner, group, size, times of change of data and inode, and what
/// is left in fragments: free, shared, used again, lost indirect blocks, bad pointers.
type Inode = (u32, u16, u32, u32, Option<u64>, (i128, i128), (u64, u64, u64, u64, u64), bool);

/// Bytes of a deleted file: where in the file they stood, and the bytes.
type Piece<'py> = (u64, Bound<'py, PyBytes>);

/// Finds what was deleted in the fast file system in `image`.
#[pyfunction]
#[pyo3(signature = (image, *, superblock, dialect))]
pub fn deleted(
    py: Python<'_>,
    image: &str,
    superblock: Option<u64>,
    dialect: Option<&str>,
) -> PyResult<Deleted> {
    work(py, |signals| {
        let kind = dialect.map(parse_kind).transpose()?;
        let options = OpenOptions { kind, superblock, ..OpenOptions::read_only() };
        let spec = find(image, signals)?;
        drop(spec.open(&spindle_device::OpenOptions::read_only())?);
        let Opened { device, superblock, .. } = open(&spec, &options)?;
        let stopping = Interruptible::new(Arc::clone(&device), signals);
        let found = Inspector::new(&stopping, &superblock).deleted(&mut |_, _| ());
        signals.check().context(&spec)?;
        let found = Mutex::new(Some(Arc::new(found)));
        Ok(Deleted { state: Arc::new(State { device, superblock, found }) })
    })
}

impl State {
    fn get(&self) -> Result<Arc<Found>> {
        self.found.lock().clone().ok_or_else(|| Failure::Value("the image is closed".into()))
    }
}

const fn now(inode: InodeNow) -> &'static str {
    match inode {
        InodeNow::Unknown => "unknown",
        InodeNow::Cleared => "cleared",
        InodeNow::Deleted => "deleted",
        InodeNow::InUse => "in_use",
        InodeNow::UsedAgain => "used_again",
    }
}

fn inode_of(inode: &DeletedInode) -> Inode {
    let r = inode.remains;
    let remains = (r.free, r.shared, r.used_again, r.lost_indirect_blocks, r.bad_pointers);
    let times = (nanoseconds(inode.mtime), nanoseconds(inode.ctime));
    (inode.ino, inode.mode, inode.uid, inode.gid, inode.size, times, remains, r.is_whole())
}

#[pymethods]
impl Deleted {
    /// Returns the deleted names.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Vec<Name<'py>>> {
        let found = quick(py, || self.state.get())?;
        let bytes = |bytes: &Vec<u8>| PyBytes::new(py, bytes);
        let name = |n: &spindle_ffs::inspect::DeletedName| {
            (n.dir, n.dir_path.as_ref().map(bytes), n.at, bytes(&n.name), n.ino, now(n.inode))
        };
        Ok(found.names.iter().map(name).collect())
    }

    /// Returns the inodes that are free and have pointers.
    fn inodes(&self, py: Python<'_>) -> PyResult<Vec<Inode>> {
        quick(py, || Ok(self.state.get()?.inodes.iter().map(inode_of).collect()))
    }

    /// Returns the inodes in use that have no name by their own count.
    fn unlinked(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        quick(py, || Ok(self.state.get()?.unlinked.clone()))
    }

    /// Returns the number of groups of which nothing is known.
    fn unreadable_groups(&self, py: Python<'_>) -> PyResult<u64> {
        quick(py, || Ok(self.state.get()?.unreadable_groups))
    }

    /// Returns the bytes of one fragment.
    #[getter]
    fn fragment_size(&self) -> u32 {
        self.state.superblock.layout.fs_fsize
    }

    /// Returns the bytes of the deleted inode of this place in the list that stand in free blocks,
    /// and the number of blocks that cannot be read.
    fn read<'py>(
        &self,
        py: Python<'py>,
        index: usize,
        from_: u64,
        most: usize,
    ) -> PyResult<(Vec<Piece<'py>>, u64)> {
        let (pieces, unread) = work(py, |signals| {
            let found = self.state.get()?;
            let inode = found.inodes.get(index);
            let inode = inode.ok_or_else(|| Failure::Value("there is no such inode".into()))?;
            let device = Interruptible::new(Arc::clone(&self.state.device), signals);
            let (mut pieces, mut bytes) = (Vec::new(), 0);
            let mut inspector = Inspector::new(&device, &self.state.superblock);
            let read = inspector.read_deleted(&found, inode, &mut |at, piece: &[u8]| {
                if at + piece.len() as u64 <= from_ {
                    return Ok(());
                }
                pieces.push((at, piece.to_vec()));
                bytes += piece.len();
                if bytes >= most { Err(()) } else { Ok(()) }
            });
            signals.check()?;
            Ok((pieces, read.unwrap_or(0)))
        })?;
        Ok((pieces.into_iter().map(|(at, bytes)| (at, PyBytes::new(py, &bytes))).collect(), unread))
    }

    /// Closes the device.
    fn close(&self) {
        self.state.found.lock().take();
    }
}
