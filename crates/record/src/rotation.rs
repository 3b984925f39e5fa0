//! A recording in several files.
//!
//! The one idea: every part is a whole trace, which begins with an `open` from before for each file
//! that is open then. So each can be read alone, and `spindle trace merge --parts` makes of all the
//! trace that one file would have been.

use crate::Result;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

/// When a recording goes on in another file, and in which.
pub struct Rotation {
    /// Size in bytes that a file has reached then; the last events may make it some MB larger.
    pub bytes: Option<u64>,
    /// Time since its beginning.
    pub age: Option<Duration>,
    /// Returns an empty file, with the path by which errors call it. The one before is complete.
    pub next: Box<dyn FnMut() -> Result<(File, PathBuf)> + Send>,
}

impl std::fmt::Debug for Rotation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rotation").field("bytes", &self.bytes).field("age", &self.age).finish_non_exhaustive()
    }
}
