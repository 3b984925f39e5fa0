//! Errors of showing outcomes.

/// Result of showing something.
pub type Result<T> = std::result::Result<T, Error>;

/// A figure that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("drawing {figure}: {why}")]
pub struct Error {
    /// Title of the figure.
    pub figure: String,
    /// Error of the drawing library.
    pub why: String,
}
