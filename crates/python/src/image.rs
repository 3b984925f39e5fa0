//! An open file system.

use crate::failure::{Failure, Result};
use crate::node::Node;
use crate::work::{Signals, await_last_mount, check_exists, quick, work};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use spindle::detect::Kind;
use spindle::newfs::{clock, seed};
use spindle::path::{resolve, resolve_parent};
use spindle::{LogNote, OpenOptions, Spec, partition};
use spindle_clock::Mutex;
use spindle_vfs::Vfs;
use std::sync::Arc;

/// A file system that is open, and its view with paths. Each call that works in it has a share of
/// it, so it can be closed at any moment: the device is given back when the last one is done.
pub struct Open {
    /// The file system.
    pub image: spindle::Image,
    /// The same, with paths and open files.
    pub vfs: Vfs,
    /// Its place.
    pub spec: Spec,
}

/// What all objects of one image have in common.
pub struct Shared {
    open: Mutex<Option<Arc<Open>>>,
    /// What its reads had passed over when it was closed.
    passed_over: Mutex<Vec<String>>,
}

impl Shared {
    /// Returns the file system.
    pub fn get(&self) -> Result<Arc<Open>> {
        self.open.lock().clone().ok_or_else(|| Failure::Value("the image is closed".into()))
    }

    /// Writes everything and closes the file system; does nothing if it is closed.
    fn close(&self) -> Result<()> {
        let Some(open) = self.open.lock().take() else { return Ok(()) };
        let closed = open.image.fs().unmount();
        *self.passed_over.lock() = open.image.fs().passed_over();
        Ok(spindle::Context::context(closed, &open.spec)?)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // No caller is left for an error; Python has warned that it was not closed.
        let _ = self.close();
    }
}

/// An open file system, as the class `Image` of Python uses it.
#[pyclass(frozen, module = "spindle_fs._native")]
pub struct Image {
    shared: Arc<Shared>,
    #[pyo3(get)]
    name: String,
    /// The file or block device, and the byte of it where the file system begins.
    #[pyo3(get)]
    place: (String, u64),
    #[pyo3(get)]
    writable: bool,
    #[pyo3(get)]
    kind: String,
    #[pyo3(get)]
    dialect: Option<String>,
    /// The inode of the file that has the space of the log.
    #[pyo3(get)]
    log: Option<u64>,
    #[pyo3(get)]
    notes: Vec<String>,
    /// Reasons, remedies, and whether they were or could be overridden.
    #[pyo3(get)]
    objections: Vec<(String, String, bool)>,
}

/// Opens the file system in `image`.
#[pyfunction]
#[pyo3(signature = (image, *, superblock, dialect, writable, force, unnamed, timestamp))]
#[allow(clippy::too_many_arguments, reason = "they are those of Python, by name")]
#[allow(clippy::fn_params_excessive_bools, reason = "they are those of Python, by name")]
pub fn open(
    py: Python<'_>,
    image: &str,
    superblock: Option<u64>,
    dialect: Option<&str>,
    writable: bool,
    force: bool,
    unnamed: bool,
    timestamp: Option<i64>,
) -> PyResult<Image> {
    work(py, |signals| {
        let options = OpenOptions {
            read_only: !writable,
            force,
            kind: dialect.map(parse_kind).transpose()?,
            superblock,
            unnamed,
            clock: clock(timestamp),
            seed: seed(timestamp),
            ..OpenOptions::read_only()
        };
        open_image(image, &options, signals)
    })
}

/// Parses the name of a dialect, or of the format of an old file system.
pub fn parse_kind(name: &str) -> Result<Kind> {
    name.parse().map_err(Failure::Value)
}

/// Returns the place of an existing image, which the daemon of its last mount no longer writes.
pub fn find(name: &str, signals: &Signals) -> Result<Spec> {
    check_exists(&Spec::parse(name)?)?;
    let spec = partition::find(name)?;
    await_last_mount(&spec, signals)?;
    Ok(spec)
}

fn open_image(name: &str, options: &OpenOptions, signals: &Signals) -> Result<Image> {
    let spec = find(name, signals)?;
    let access = if options.read_only {
        spindle_device::OpenOptions::read_only()
    } else {
        spindle_device::OpenOptions::read_write()
    };
    // Who uses it is said by the error of the device only.
    drop(spec.open(&access)?);
    let image = spindle::Image::open(&spec, options)?;
    let objections = image.objections().to_vec();
    if !options.read_only && image.fs().read_only() {
        // Nothing was changed, so nothing is lost if this fails.
        let _ = image.unmount();
        return Err(Failure::Objections(spec.to_string(), objections));
    }
    let place = spec.place()?;
    Ok(Image {
        name: spec.to_string(),
        place: (place.path.display().to_string(), place.bytes.map_or(0, |bytes| bytes.start)),
        writable: !image.fs().read_only(),
        kind: image.format(),
        dialect: image.dialect().map(|dialect| dialect.to_string()),
        log: image.fs().limits().log.map(|ino| ino.0),
        notes: image.log_notes().iter().map(log_note).collect(),
        objections: objections.into_iter().map(|o| (o.reason, o.remedy, o.overridable)).collect(),
        shared: Arc::new(Shared {
            open: Mutex::new(Some(Arc::new(Open { vfs: image.vfs(), image, spec }))),
            passed_over: Mutex::default(),
        }),
    })
}

/// Returns what happened to a log, as a sentence.
fn log_note(note: &LogNote) -> String {
    match *note {
        LogNote::Recovered { blocks } => format!("recovered {blocks} blocks from the log"),
        LogNote::Shown { blocks } => format!(
            "not unmounted cleanly: this is the state after replay of its log ({blocks} blocks); \
             nothing is written"
        ),
        LogNote::JournalRecovered { kind, records } => {
            format!("recovered with the {kind} (records: {records})")
        }
        LogNote::Created { bytes, .. } => format!("created a log of {bytes} bytes"),
        LogNote::Kept { bytes } => format!("the log of {bytes} bytes is kept"),
    }
}

/// Space and inodes, in the order of the tuple of Python.
type Space = (u32, u32, u64, u64, u64, u64, u64, u32);

impl Image {
    /// Returns the file system.
    pub fn open(&self) -> Result<Arc<Open>> {
        self.shared.get()
    }
}

#[pymethods]
impl Image {
    /// Writes everything and closes the file system; does nothing if it is closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        quick(py, || self.shared.close())
    }

    #[getter]
    fn closed(&self) -> bool {
        self.shared.get().is_err()
    }

    /// Returns the file at `path`.
    fn resolve(&self, py: Python<'_>, path: &[u8], follow: bool) -> PyResult<Node> {
        quick(py, || {
            let open = self.open()?;
            Ok(Node::take(&self.shared, &open, resolve(&open.vfs, path, follow)?))
        })
    }

    /// Returns the directory that has the last name of `path`, which need not exist, and the name.
    fn resolve_parent<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<(Node, Bound<'py, PyBytes>)> {
        let (node, name) = quick(py, || {
            let open = self.open()?;
            let (dir, name) = resolve_parent(&open.vfs, path)?;
            Ok((Node::take(&self.shared, &open, dir), name))
        })?;
        Ok((node, PyBytes::new(py, name)))
    }

    /// Makes everything durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        quick(py, || Ok(self.open()?.vfs.sync()?))
    }

    /// Returns space and inodes.
    fn statfs(&self, py: Python<'_>) -> PyResult<Space> {
        quick(py, || {
            let s = self.open()?.vfs.statfs()?;
            Ok((s.bsize, s.frsize, s.blocks, s.bfree, s.bavail, s.files, s.ffree, s.name_max))
        })
    }

    /// Returns the damage that reads have passed over.
    fn passed_over(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        quick(py, || match self.open() {
            Ok(open) => Ok(open.image.fs().passed_over()),
            Err(_) => Ok(self.shared.passed_over.lock().clone()),
        })
    }
}
