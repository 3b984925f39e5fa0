//! Warnings and notes of the library, which go to the logger `spindle_fs` of Python.
//!
//! The library may log while it holds a lock, so its messages are only kept here. They are passed
//! on when the work is done, by the thread that then has the interpreter's lock.

use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::prelude::*;
use spindle_clock::Mutex;
use std::cell::Cell;

/// Messages that are kept at most, in case that nobody comes to pass them on.
const MOST: usize = 1000;

struct Kept(Mutex<Vec<(Level, String)>>);

static KEPT: Kept = Kept(Mutex::new(Vec::new()));

impl Log for Kept {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if QUIET.get() {
            return;
        }
        let mut kept = self.0.lock();
        if kept.len() < MOST {
            // The text may contain names from an image.
            let text = spindle::text::terminal_safe(&record.args().to_string());
            kept.push((record.level(), text));
        }
    }

    fn flush(&self) {}
}

thread_local! {
    /// What this thread logs is not kept.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Calls `work`, whose messages are not kept: its result says the same.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let before = QUIET.replace(true);
    let result = work();
    QUIET.set(before);
    result
}

/// Begins to keep messages.
pub fn collect() {
    // Another extension with the same library may have done so already.
    if log::set_logger(&KEPT).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// Gives the messages that were kept to Python.
pub fn pass_on(py: Python<'_>) -> PyResult<()> {
    let kept = std::mem::take(&mut *KEPT.0.lock());
    if kept.is_empty() {
        return Ok(());
    }
    let logger = py.import("logging")?.call_method1("getLogger", ("spindle_fs",))?;
    for (level, text) in kept {
        let method = match level {
            Level::Error => "error",
            Level::Warn => "warning",
            Level::Info => "info",
            Level::Debug | Level::Trace => "debug",
        };
        logger.call_method1(method, ("%s", text))?;
    }
    Ok(())
}
