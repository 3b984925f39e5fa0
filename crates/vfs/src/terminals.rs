//! Lines for the users of processes.

use std::fmt::Debug;

/// The terminals of the processes that use a file system. A front end that knows them passes them
/// on when the file system is opened.
pub trait Terminals: Debug + Send + Sync {
    /// Shows a line on the terminal of `process`, if it has one. Never waits for the terminal, and
    /// does not fail.
    fn show(&self, process: u32, line: &str);
}
