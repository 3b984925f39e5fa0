//! Errors of presets, and of the disks and hosts that they describe.

use std::path::PathBuf;

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
    /// A file is not TOML, or has fields that are wrong, missing or unknown; the message shows the
    /// line.
    #[error("{name}: {source}")]
    Syntax {
        /// The preset.
        name: String,
        /// The problem, with its line.
        source: Box<toml::de::Error>,
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
