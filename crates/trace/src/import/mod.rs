//! Imports traces of other tools as [`Source`]s.
//!
//! The one idea: a format is an entry of [`FORMATS`]: its name, how to detect it by the first bytes
//! of a file, and how to open it. Most formats are lines of text or fixed-size records; these only
//! implement the decoding of one line or record ([`text::Decode`], [`records::Decode`]), and share
//! the rest (reading, decompression, places in errors, batches).
//!
//! Invariants: no input makes a decoder panic, or use more memory than for the names of files and
//! for open files. What is not understood is an error with file and place, or, if such lines are
//! common, counted and reported in [`crate::Info::notes`].

mod binary;
mod blkparse;
mod fio;
mod fiu;
mod input;
mod msr;
mod records;
mod strace;
mod table;
mod text;
mod vscsi;

#[cfg(test)]
mod mutations;

use crate::{Error, Result, Source};
use input::Input;
use std::path::Path;

/// A format of traces that can be imported.
pub struct Format {
    /// Name for `--format`.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Its settings, as `name=value` pairs after its name, with their meanings.
    pub settings: &'static [(&'static str, &'static str)],
    recognises: fn(&[u8]) -> bool,
    open: fn(Input, &Settings<'_>) -> Result<Box<dyn Source>>,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Format").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All formats, in the order in which detection tries them: the most reliable ones first.
pub static FORMATS: &[Format] = &[
    strace::FORMAT,
    blkparse::FORMAT,
    fio::IOLOG,
    msr::FORMAT,
    fiu::BLOCK,
    fiu::SYSCALL,
    fio::LOG,
    binary::LCS,
    binary::ORACLE_GENERAL,
    vscsi::FORMAT,
    binary::BINARY,
    table::CSV,
    table::TXT,
];

/// The settings given with a format.
pub(crate) struct Settings<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Settings<'a> {
    /// Parses `name=value,name=value`; a comma is a value only in `delimiter=,`.
    fn parse(format: &Format, text: &'a str) -> Result<Self> {
        let mut pairs = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let refuse = |what: String| Error::Refused(format!("format {}: {what}", format.name));
            let (name, value) = rest
                .split_once('=')
                .ok_or_else(|| refuse(format!("{rest:?} is not of the form name=value")))?;
            let name = name.trim();
            let end = value.find(',').map_or(value.len(), |comma| if comma == 0 { 1 } else { comma });
            let (value, after) = value.split_at(end);
            if !format.settings.iter().any(|(known, _)| *known == name) {
                let known: Vec<_> = format.settings.iter().map(|(known, _)| *known).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                return Err(refuse(format!("unknown setting {name:?}; the settings are: {known}")));
            }
            pairs.push((name, value.trim()));
            rest = after.trim_start_matches([',', ' ']);
        }
        Ok(Self(pairs))
    }

    /// Returns the last value given for a setting.
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }
}

/// Opens a foreign trace. `format` is `NAME` or `NAME:SETTING=VALUE,…` of [`FORMATS`]; without it
/// the format is detected by the content.
///
/// # Errors
/// [`Error::Io`]; [`Error::Refused`] for an unknown format or setting; [`Error::Malformed`] if it
/// has none of the formats.
pub(crate) fn open(path: &Path, format: Option<&str>) -> Result<Box<dyn Source>> {
    let (name, settings) = match format {
        Some(text) => text.split_once(':').map_or((Some(text), ""), |(name, rest)| (Some(name), rest)),
        None => (None, ""),
    };
    let named = name.map(|name| {
        FORMATS.iter().find(|format| format.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
            let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
            Error::Refused(format!("unknown format {name:?}; the formats are: {}", names.join(", ")))
        })
    });
    let named = named.transpose()?;
    let input = Input::open(path)?;
    let start = input.start();
    let format = match named {
        Some(format) => format,
        None => FORMATS.iter().find(|format| (format.recognises)(&start)).ok_or_else(|| {
            let what = if start.starts_with(b"PAR1") {
                "a Spindle trace can be read only from a file, not from a pipe"
            } else if start.is_empty() {
                "the file is empty"
            } else {
                "the format of the trace was not detected; name it with --format (spindle trace import --list-formats)"
            };
            Error::Unknown { path: input.path().to_owned(), what }
        })?,
    };
    (format.open)(input, &Settings::parse(format, settings)?)
}

/// Returns at most `count` complete lines from the start of a text; none if it is not text.
fn lines(start: &[u8], count: usize) -> Vec<String> {
    if start.contains(&0) {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(start);
    let whole =
        if start.len() < 1 << 16 { &text } else { text.rsplit_once('\n').map_or("", |(whole, _)| whole) };
    whole.lines().map(str::to_owned).filter(|line| !line.trim().is_empty()).take(count).collect()
}
