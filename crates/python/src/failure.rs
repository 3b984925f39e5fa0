//! Why a call failed, and the exception that Python gets for it.

use pyo3::exceptions::{PyOSError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use rustix::io::Errno;
use spindle::image::reasons;
use spindle_device::Error as DeviceError;
use spindle_vfs::{Error as FsError, Objection};

/// Result of what the bindings do.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a call failed.
pub enum Failure {
    /// The library says so.
    Library(spindle::Error),
    /// A file or device cannot be opened or used.
    Device(DeviceError),
    /// The file system is not safe to write, for these reasons.
    Objections(String, Vec<Objection>),
    /// Something is not possible; what it is, and the remedy.
    Unsupported(String, String),
    /// These files do not fit into the format: each path, and why.
    Misfits(String, Vec<(String, String)>),
    /// An argument is wrong.
    Value(String),
    /// A number is too large for the format.
    Overflow(String),
}

impl From<spindle::Error> for Failure {
    fn from(error: spindle::Error) -> Self {
        Self::Library(error)
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Self {
        Self::Library(error.into())
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// The classes of exceptions, which are defined in Python.
static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// Returns a new exception of a class of `spindle_fs.errors`.
fn exception(py: Python<'_>, class: &str, args: impl for<'p> pyo3::call::PyCallArgs<'p>) -> PyErr {
    let module = ERRORS.get_or_try_init(py, || Ok(py.import("spindle_fs.errors")?.unbind()));
    let made: PyResult<_> = module.and_then(|module| module.bind(py).getattr(class)?.call1(args));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Returns the exception for a failure with an error number of the system.
fn numbered(errno: i32, text: String) -> PyErr {
    PyOSError::new_err((errno, text))
}

impl Failure {
    /// Returns the exception for this failure.
    pub fn into_exception(self, py: Python<'_>) -> PyErr {
        let text_of = |error: &DeviceError| spindle::Error::from(error.clone()).to_string();
        match self {
            Self::Library(error) => {
                let text = error.to_string();
                match (error.errno(), error.remedy()) {
                    (Some(errno), Some(remedy)) => {
                        exception(py, "UnsupportedError", (errno, text, remedy.to_owned()))
                    }
                    (Some(errno), None) if errno == Errno::UCLEAN.raw_os_error() => {
                        exception(py, "CorruptError", (errno, text))
                    }
                    (Some(errno), None) => numbered(errno, text),
                    (None, _) => exception(py, "Error", (text,)),
                }
            }
            Self::Device(error @ DeviceError::Busy { .. }) => {
                exception(py, "BusyError", (Errno::BUSY.raw_os_error(), text_of(&error)))
            }
            Self::Device(error) => {
                let text = text_of(&error);
                let errno = match &error {
                    DeviceError::Io { source, .. } => source.raw_os_error(),
                    _ => None,
                };
                errno.map_or_else(|| exception(py, "Error", (&text,)), |errno| numbered(errno, text.clone()))
            }
            Self::Objections(name, objections) => {
                let text = format!("{name}: cannot be written: {}", reasons(&objections));
                let remedies: Vec<String> = objections.into_iter().map(|o| o.remedy).collect();
                exception(py, "UnsupportedError", (Errno::ROFS.raw_os_error(), text, remedies.join("; and ")))
            }
            Self::Unsupported(what, remedy) => {
                let text = format!("{what}; {remedy}");
                exception(py, "UnsupportedError", (Errno::OPNOTSUPP.raw_os_error(), text, remedy))
            }
            Self::Misfits(name, misfits) => {
                let count = misfits.len();
                let listed: Vec<String> =
                    misfits.iter().take(5).map(|(path, why)| format!("{path}: {why}")).collect();
                let more = if count > listed.len() { "; …" } else { "" };
                let listed = listed.join("; ");
                let text = format!("{name}: {count} misfits, so nothing was written: {listed}{more}");
                let remedy = "leave them out, or choose another format";
                exception(py, "MisfitError", (Errno::OPNOTSUPP.raw_os_error(), text, remedy, misfits))
            }
            Self::Value(text) => PyValueError::new_err(text),
            Self::Overflow(text) => PyOverflowError::new_err(text),
        }
    }
}

/// Returns the exception for a panic: an error in this program.
pub fn of_panic(py: Python<'_>, panic: &(dyn std::any::Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    exception(py, "InternalError", (format!("an error in Spindle, please report it: {text}"),))
}
