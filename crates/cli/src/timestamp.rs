//! The time of reproducible builds, from the environment.

use crate::error::{Failure, Result};

/// The variable that has it, in seconds since 1970.
const NAME: &str = "SOURCE_DATE_EPOCH";

/// Returns the seconds in `SOURCE_DATE_EPOCH`, if it is set and not empty.
///
/// # Errors
/// If it is no number: an image that is not reproducible must not pass for one that is.
pub fn source_date_epoch() -> Result<Option<i64>> {
    let Some(text) = std::env::var_os(NAME).filter(|text| !text.is_empty()) else { return Ok(None) };
    let secs =
        text.to_str().filter(|text| text.bytes().all(|b| b.is_ascii_digit())).and_then(|t| t.parse().ok());
    secs.map(Some)
        .ok_or_else(|| Failure::new(format!("{NAME} is {}: give seconds since 1970", text.display())))
}
