//! An open regular file: reads and writes at an offset.

use crate::failure::{Failure, Result};
use crate::image::{Open, Shared};
use crate::node::{Held, Node, OWNER};
use crate::work::{quick, work};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use spindle_clock::Mutex;
use spindle_vfs::{Error as FsError, FileSystem, HandleId, Ino, OpenFlags, Seek, SetAttr};
use std::sync::{Arc, Weak};

/// Bytes of a file that a call reads or writes at most before Python is asked for signals.
const PIECE: usize = 4 << 20;

/// Bytes that are read at a time where a larger read has failed.
const CAREFUL: u64 = 4096;

/// A range of a file that cannot be read, in whose place there are zeros: its first byte, its end,
/// and why.
type Lost = (u64, u64, String);

/// The handle of an open file, which is closed when this is dropped.
struct Handle {
    held: Arc<Held>,
    open: Weak<Open>,
    id: HandleId,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(open) = self.open.upgrade() {
            // It fails only if it is not open.
            let _ = open.vfs.close(self.id);
        }
    }
}

/// An open regular file, as the class `RawFile` of Python uses it.
#[pyclass(frozen, module = "spindle_fs._native")]
pub struct File {
    shared: Arc<Shared>,
    handle: Mutex<Option<Arc<Handle>>>,
}

impl File {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&Open, &Handle) -> Result<T> + Send,
    ) -> PyResult<T> {
        quick(py, || {
            let (open, handle) = self.parts()?;
            what(&open, &handle)
        })
    }

    fn parts(&self) -> Result<(Arc<Open>, Arc<Handle>)> {
        let handle = self.handle.lock().clone();
        let handle = handle.ok_or_else(|| Failure::Value("the file is closed".into()))?;
        Ok((self.shared.get()?, handle))
    }
}

#[pymethods]
impl File {
    #[new]
    #[allow(clippy::fn_params_excessive_bools, reason = "they are the bits of an open")]
    fn new(
        py: Python<'_>,
        node: &Node,
        read: bool,
        write: bool,
        append: bool,
        truncate: bool,
    ) -> PyResult<Self> {
        quick(py, || {
            let shared = &node.0.shared;
            let open = shared.get()?;
            let ino = node.0.ino;
            let attr = open.vfs.getattr(ino)?;
            if attr.kind == spindle_vfs::FileKind::Directory {
                return Err(FsError::IsDirectory.into());
            }
            let id = open.vfs.open(&OWNER, ino, OpenFlags { read, write, append, truncate })?;
            let held = Arc::clone(&node.0);
            let handle = Handle { held, open: Arc::downgrade(&open), id };
            Ok(Self { shared: Arc::clone(shared), handle: Mutex::new(Some(Arc::new(handle))) })
        })
    }

    /// Closes the file; does nothing if it is closed.
    fn close(&self, py: Python<'_>) {
        let handle = self.handle.lock().take();
        py.detach(|| drop(handle));
    }

    /// Reads at most `len` bytes at `offset`; less may be returned, but nothing only at the end of
    /// the file. With `past_damage` there are zeros in place of what cannot be read, and the range
    /// of these zeros is returned.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        len: usize,
        past_damage: bool,
    ) -> PyResult<(Bound<'py, PyBytes>, Option<Lost>)> {
        let (bytes, lost) = self.with(py, |open, handle| {
            let size = open.vfs.getattr(handle.held.ino)?.size;
            let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
            let mut buffer = vec![0; len.min(PIECE).min(left)];
            let (got, lost) = match open.vfs.read(handle.id, offset, &mut buffer) {
                Ok(got) => (got, None),
                Err(error) if past_damage && error.is_failure() => {
                    read_past(&**open.vfs.fs(), handle.held.ino, (offset, size), error, &mut buffer)?
                }
                Err(error) => return Err(error.into()),
            };
            buffer.truncate(got);
            Ok((buffer, lost))
        })?;
        Ok((PyBytes::new(py, &bytes), lost))
    }

    /// Writes at `offset`, or at the end of a file that is open for appending. Returns the number
    /// of bytes, which is less than asked for only if space runs out on the way.
    fn write_at(&self, py: Python<'_>, offset: u64, data: &[u8]) -> PyResult<usize> {
        work(py, |signals| {
            let (open, handle) = self.parts()?;
            let mut done = 0;
            for piece in data.chunks(PIECE) {
                signals.check()?;
                let at = offset.checked_add(done as u64).ok_or(FsError::TooBig)?;
                let wrote = match open.vfs.write(&OWNER, handle.id, at, piece) {
                    Err(_) if done > 0 => break,
                    wrote => wrote?,
                };
                done += wrote;
                if wrote < piece.len() {
                    break;
                }
            }
            Ok(done)
        })
    }

    /// Returns the size of the file.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |open, handle| Ok(open.vfs.getattr(handle.held.ino)?.size))
    }

    /// Sets the size of the file.
    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.with(py, |open, handle| {
            let set = SetAttr { size: Some(size), ..SetAttr::default() };
            open.vfs.setattr(&OWNER, handle.held.ino, &set, Some(handle.id))?;
            Ok(())
        })
    }

    /// Returns the next data, or hole, at or after `offset`; none if there is none.
    fn seek_sparse(&self, py: Python<'_>, offset: u64, data: bool) -> PyResult<Option<u64>> {
        self.with(py, |open, handle| {
            match open.vfs.seek(handle.id, offset, if data { Seek::Data } else { Seek::Hole }) {
                Err(FsError::NoSuchOffset) => Ok(None),
                found => Ok(Some(found?)),
            }
        })
    }

    /// Makes the file durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |open, handle| Ok(open.vfs.fsync(handle.id, false)?))
    }
}

/// Reads at `at` in a file of `size` bytes where a read has failed: a small piece, or else zeros up
/// to where it makes sense to go on.
fn read_past(
    fs: &dyn FileSystem,
    ino: Ino,
    (at, size): (u64, u64),
    mut why: FsError,
    buffer: &mut [u8],
) -> Result<(usize, Option<Lost>)> {
    let small = usize::try_from(CAREFUL - at % CAREFUL).unwrap_or(buffer.len()).min(buffer.len());
    if small < buffer.len() {
        match fs.read(ino, at, &mut buffer[..small]) {
            Ok(got) => return Ok((got, None)),
            Err(error) if error.is_failure() => why = error,
            Err(error) => return Err(error.into()),
        }
    }
    let least = at + small as u64;
    let end = fs.readable_after(ino, at).map_or(least, |end| end.clamp(at + 1, size.max(at + 1)));
    let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
    buffer[..len].fill(0);
    Ok((len, Some((at, at + len as u64, spindle::Error::from(why).to_string()))))
}
