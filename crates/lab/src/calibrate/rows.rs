//! The text of a preset.

use std::fmt::{Display, Write as _};

/// A figure of the preset.
pub struct Row {
    name: String,
    value: String,
    origin: Origin,
}

/// Where a figure comes from.
#[derive(Clone, Copy)]
pub enum Origin {
    /// From accesses.
    Measured,
    /// From measured ones, in this way.
    Derived(&'static str),
    /// From the preset that is nearest.
    Like,
}

impl Row {
    /// Returns a figure of this name.
    pub fn new(name: impl Display, value: f64, origin: Origin) -> Self {
        Self { name: name.to_string(), value: format!("{value:.*}", decimals(value)), origin }
    }

    /// Returns what is so or is not.
    pub fn truth(name: &str, value: bool, origin: Origin) -> Self {
        Self { name: name.to_owned(), value: value.to_string(), origin }
    }
}

/// Returns the beginning of a preset, up to its sources; `like` is the preset from which the rest
/// is, and `more` what else is to be said.
pub fn head(title: &str, source: &str, like: &str, more: &str) -> String {
    format!(
        "title = {title:?}\n\
         description = \"Measured by spindle lab calibrate; what no access shows is that of {like}.{more}\"\n\n\
         [sources]\nmeasured = {source:?}\n"
    )
}

/// Adds figures to a preset.
pub fn add(text: &mut String, like: &str, rows: &[Row]) {
    for Row { name, value, origin } in rows {
        let origin = match origin {
            Origin::Measured => r#"sure = "high", source = "measured""#.to_owned(),
            Origin::Derived(note) => format!(r#"sure = "medium", source = "measured", note = "{note}""#),
            Origin::Like => format!(r#"sure = "estimated", note = "that of {like}""#),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} = {{ value = {value}, {origin} }}");
    }
}

/// Returns the decimals with which a figure has at least three digits.
fn decimals(value: f64) -> usize {
    if value.fract() == 0.0 || value >= 10_000.0 {
        0
    } else if value >= 10.0 {
        2
    } else {
        4
    }
}
