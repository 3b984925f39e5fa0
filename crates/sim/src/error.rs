//! Errors of presets, and of the disks and hosts that they describe.

use std::path::{Path, PathBuf};

/// A problem of a preset.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file is not TOML, or has fields that are wrong, missing or unknown.
    #[error("{name}: line {line} ({text}): {problem}")]
    Syntax {
        /// The preset.
        name: String,
        /// The line of the problem, from 1 on.
        line: usize,
        /// The line itself.
        text: String,
        /// The problem.
        problem: String,
    },
    /// A figure is impossible.
    #[error("{field} {problem}")]
    Invalid {
        /// Its place in the file.
        field: String,
        /// The rule that it breaks.
        problem: String,
    },
    /// A figure of this preset is impossible.
    #[error("{name}: {source}")]
    In {
        /// The preset.
        name: String,
        /// The problem.
        source: Box<Error>,
    },
    /// There is no such preset.
    #[error("there is no {kind} `{name}`; there are {known}")]
    Unknown {
        /// Disk or host.
        kind: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
}

impl Error {
    /// Returns the same problem of a preset that a file holds.
    #[must_use]
    pub(crate) fn of_file(self, file: &Path) -> Self {
        let name = file.display().to_string();
        match self {
            Self::Syntax { line, text, problem, .. } => Self::Syntax { name, line, text, problem },
            Self::In { source, .. } => Self::In { name, source },
            other => other,
        }
    }
}
