//! Listings as text: one line for each path, fields parted by tabs, the first line naming the
//! columns.
//!
//! Columns may stand in any order and unknown ones are passed over. Non-printing bytes, blanks and
//! backslashes are `\xHH`; `-` means that there is nothing or that it is not known. The columns are
//! `type` (as `ls -l` prints it), `mode` (octal), `uid`, `gid`, `size`, `nlink`, `mtime` (seconds,
//! a point, nine digits), `rdev` (`major,minor`), `sha256`, `path` and `target`.

use crate::record::{Content, Digest, Kind, Listing, Record, Stamp};
use crate::{Failure, Result};

/// Reads a table.
///
/// # Errors
/// Names the first line that is not of the form above.
pub fn parse(text: &str) -> Result<Listing> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let mut listing = Listing::new();
    for line in lines {
        let row = Row { columns: &columns, fields: line.split('\t').collect() };
        let fail = Failure::of(format!("`{line}`"));
        let (path, record) = row.record().map_err(fail)?;
        if listing.insert(path, record).is_some() {
            return Err(Failure::new(format!("`{line}`: a path listed twice")));
        }
    }
    Ok(listing)
}

struct Row<'a> {
    columns: &'a [&'a str],
    fields: Vec<&'a str>,
}

impl Row<'_> {
    /// Returns what `read` makes of a column's text, `None` where the column is missing or holds
    /// `-`.
    fn field<T>(&self, column: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>> {
        let place = self.columns.iter().position(|name| *name == column);
        let text = place.and_then(|place| self.fields.get(place)).filter(|text| **text != "-");
        text.map(|text| read(text).ok_or_else(|| Failure::new(format!("no {column}: `{text}`")))).transpose()
    }

    fn record(&self) -> Result<(Vec<u8>, Record)> {
        // The letter of a regular file is `-` too.
        let kind = self.field("type", |text| Kind::of_letter(*text.as_bytes().first()?))?;
        let path = self.field("path", unescape)?.ok_or_else(|| Failure::new("no path"))?;
        let record = Record {
            kind: Some(kind.unwrap_or(Kind::Regular)),
            mode: self.field("mode", |text| u32::from_str_radix(text, 8).ok())?,
            uid: self.field("uid", |text| text.parse().ok())?,
            gid: self.field("gid", |text| text.parse().ok())?,
            size: self.field("size", |text| text.parse().ok())?,
            nlink: self.field("nlink", |text| text.parse().ok())?,
            mtime: self.field("mtime", stamp)?,
            device: self.field("rdev", |text| {
                let (major, minor) = text.split_once(',')?;
                Some((major.parse().ok()?, minor.parse().ok()?))
            })?,
            target: self.field("target", unescape)?,
            content: self.field("sha256", |text| digest(text).map(Content::Read))?,
        };
        Ok((path, record))
    }
}

fn stamp(text: &str) -> Option<Stamp> {
    let (secs, nanos) = text.split_once('.')?;
    Some(Stamp { secs: secs.parse().ok()?, nanos: Some(nanos.parse().ok()?) })
}

fn digest(text: &str) -> Option<Digest> {
    let mut bytes = [0; 32];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(place * 2..place * 2 + 2)?, 16).ok()?;
    }
    Some(Digest(bytes))
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: fields are found by their column's name, escapes become bytes, `-` becomes unknown.
    #[test]
    fn reads_columns_by_name() {
        let listing =
            parse("path\ttype\tmode\tuid\trdev\tmtime\na\\x20\\xff\t-\t4755\t-\t1,3\t-5.000000007\n")
                .unwrap();
        let record = &listing[&b"a \xff"[..]];
        assert_eq!(record.kind, Some(Kind::Regular));
        assert_eq!((record.mode, record.uid, record.device), (Some(0o4755), None, Some((1, 3))));
        assert_eq!(record.mtime, Some(Stamp { secs: -5, nanos: Some(7) }));
        assert_ne!(record.mtime, Some(Stamp { secs: -5, nanos: Some(8) }));
    }

    /// Promise: a field that cannot be read is an error and not silently unknown.
    #[test]
    fn refuses_what_it_cannot_read() {
        for text in [
            "path\ttype\tuid\na\td\tx",
            "path\ttype\na\t?",
            "type\n-",
            "path\ttype\na\\x4\td",
            "path\ttype\na\td\na\td",
        ] {
            assert!(parse(text).is_err(), "{text:?} was accepted");
        }
    }
}
