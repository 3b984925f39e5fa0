//! Python bindings of the crate `spindle`: the native part of the module `spindle_fs`.
//!
//! Everything here is thin: paths are bytes, attributes are tuples, and what a Python programmer
//! sees (`Image`, `Node`, files that `io` knows, dataclasses) is Python code in the folder
//! `python/spindle_fs`, with its type hints. Three rules hold in all calls:
//!
//! - The work is done without the interpreter's lock (`work`): other threads go on.
//! - What takes long asks now and then whether Python has a signal to handle.
//! - A panic becomes an exception of Python as other errors do, whatever the image is.
//!
//! Nothing here calls Python while it holds a lock of the library.

#![cfg(feature = "extension")]

mod check;
mod deleted;
mod failure;
mod file;
mod image;
mod import;
mod info;
mod make;
mod messages;
mod node;
mod parameters;
mod work;

use pyo3::prelude::*;

/// The native part of the module `spindle_fs`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::check::check;
    #[pymodule_export]
    use super::deleted::{Deleted, deleted};
    #[pymodule_export]
    use super::file::File;
    #[pymodule_export]
    use super::image::{Image, open};
    #[pymodule_export]
    use super::import::{import_into, import_new};
    #[pymodule_export]
    use super::info::{info, partitions};
    #[pymodule_export]
    use super::make::newfs;
    #[pymodule_export]
    use super::node::Node;

    use super::{Bound, PyModule, PyResult, messages};

    /// Has the messages of the library go to the logger of Python.
    #[pymodule_init]
    #[allow(clippy::unnecessary_wraps, reason = "PyO3 wants a result")]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        messages::collect();
        Ok(())
    }
}
