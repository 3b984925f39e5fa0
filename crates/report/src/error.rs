//! Why something could not be shown.

/// Result of showing something.
pub type Result<T> = std::result::Result<T, Error>;

/// A picture that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("drawing {figure}: {why}")]
pub struct Error {
    /// Its title.
    pub figure: String,
    /// What the drawing library says.
    pub why: String,
}
