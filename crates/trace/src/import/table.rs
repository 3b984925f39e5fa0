//! Requests for objects as text: libCacheSim's `csv` and `txt`.
//!
//! Formats: `doc/quickstart_cachesim.md`, `bin/cli_reader_utils.c` and `traceReader/generalReader/`
//! of libCacheSim (github.com/1a1a11a/libCacheSim, 2024-10). Neither can be detected. Columns
//! count from 1. Objects whose names are not numbers are numbered in the order in which they
//! appear, and their names become paths; memory holds each name once.

use super::Format;
use super::binary::{Op, nanoseconds, notes};
use super::text::{Decode, Lines, number, shortened};
use crate::{Batch, Error, FileId, Info};
use std::collections::HashMap;

pub(super) const CSV: Format = Format {
    name: "csv",
    about: "a table of requests, like libCacheSim's csv (not detected)",
    settings: &[
        ("time-col", "number of the column with the time in seconds, from 1"),
        ("obj-id-col", "column of the object; required"),
        ("obj-size-col", "column of its size in bytes; 1 byte each by default"),
        ("op-col", "column of the operation: get, set, read, write, delete ..."),
        ("obj-id-is-num", "true: objects are numbers, which are kept"),
        ("delimiter", "separator of the columns, \\t for a tab; a comma by default"),
        ("has-header", "true or false: whether the first line names the columns; detected by default"),
    ],
    recognises: |_| false,
    open: |input, settings| {
        let refuse = |what: String| Error::Refused(format!("format csv: {what}"));
        let column = |name: &str| match settings.get(name).map(|text| number::<usize>(text, name)) {
            Some(Ok(0)) => Err(refuse(format!("{name} counts from 1"))),
            Some(Ok(column)) => Ok(Some(column - 1)),
            Some(Err(what)) => Err(refuse(what)),
            None => Ok(None),
        };
        let flag = |name: &str| match settings.get(name).map(str::to_ascii_lowercase).as_deref() {
            Some("true" | "1" | "yes" | "y") => Ok(Some(true)),
            Some("false" | "0" | "no" | "n") => Ok(Some(false)),
            Some(other) => Err(refuse(format!("{name} is {other:?}, neither true nor false"))),
            None => Ok(None),
        };
        let delimiter = match settings.get("delimiter") {
            None => ',',
            Some("\\t") => '\t',
            Some(text) => match text.chars().collect::<Vec<_>>()[..] {
                [one] => one,
                _ => return Err(refuse(format!("delimiter {text:?} is not one character"))),
            },
        };
        let object = column("obj-id-col")?
            .ok_or_else(|| refuse("obj-id-col must give the column of the object".into()))?;
        Ok(Box::new(Lines::new(
            input,
            Table {
                source: "import csv",
                delimiter,
                time: column("time-col")?,
                object,
                size: column("obj-size-col")?,
                op: column("op-col")?,
                numeric: flag("obj-id-is-num")?.unwrap_or(false),
                header: flag("has-header")?,
                ..Table::default()
            },
        )))
    },
};

pub(super) const TXT: Format = Format {
    name: "txt",
    about: "an object per line, like libCacheSim's txt (not detected)",
    settings: &[],
    recognises: |_| false,
    open: |input, _| {
        let table = Table { source: "import txt", delimiter: '\n', header: Some(false), ..Table::default() };
        Ok(Box::new(Lines::new(input, table)))
    },
};

#[derive(Default)]
struct Table {
    source: &'static str,
    delimiter: char,
    time: Option<usize>,
    object: usize,
    size: Option<usize>,
    op: Option<usize>,
    numeric: bool,
    header: Option<bool>,
    started: bool,
    objects: HashMap<String, u64>,
    unknown: u64,
}

impl Decode for Table {
    fn line(&mut self, line: &str, out: &mut Batch) -> Result<(), String> {
        let first = !std::mem::replace(&mut self.started, true);
        if line.trim().is_empty() || (first && self.header == Some(true)) {
            return Ok(());
        }
        let fields: Vec<_> = line.split(self.delimiter).map(|field| field.trim().trim_matches('"')).collect();
        let field = |column: usize| {
            fields
                .get(column)
                .copied()
                .ok_or_else(|| format!("there is no column {}, only {}", column + 1, fields.len()))
        };
        let numbers = || -> Result<(u64, u64), String> {
            // Fractions of seconds are dropped.
            let whole = |text: &str| text.split('.').next().unwrap_or("").to_owned();
            let time = self.time.map_or(Ok(0), |column| number(&whole(field(column)?), "the time"))?;
            Ok((time, self.size.map_or(Ok(1), |column| number(field(column)?, "the size"))?))
        };
        let (seconds, size) = match numbers() {
            // Column names where numbers should be: this is a header.
            Err(_) if first && self.header.is_none() => return Ok(()),
            numbers => numbers?,
        };
        let time = nanoseconds(seconds).ok_or_else(|| format!("time {seconds} s is out of range"))?;
        let op = match self.op {
            Some(column) => Op::from_word(field(column)?),
            None => Op::Read,
        };
        let name = field(self.object)?;
        let inode = match name.parse() {
            Ok(number) if self.numeric => number,
            _ if self.numeric => return Err(format!("the object is {:?}, not a number", shortened(name))),
            _ => {
                if let Some(number) = self.objects.get(name) {
                    *number
                } else {
                    let number = self.objects.len() as u64 + 1;
                    self.objects.insert(name.to_owned(), number);
                    number
                }
            }
        };
        self.unknown += u64::from(op == Op::Other);
        let mut event = op.event(time, FileId { device: 0, inode }, size);
        if !self.numeric {
            event.path = out.names.symbol(name);
        }
        out.events.push(event);
        Ok(())
    }

    fn info(&self) -> Info {
        let mut notes = notes(self.op.is_some(), self.unknown);
        if self.size.is_none() {
            notes.push("sizes are unknown: each object counts as one byte".into());
        }
        Info { source: self.source.into(), notes, ..Info::default() }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::mutations::{events, failure};
    use crate::{Batch, Kind};

    pub(crate) const SAMPLE: &str =
        "time,op,size,id\n5.9,get,100,a\n6,SET,200,b\n7,delete,0,a\n8,what,100,a\n";
    pub(crate) const COLUMNS: &str = "csv:time-col=1,op-col=2, obj-size-col=3,obj-id-col=4";

    fn summary(batch: &Batch) -> Vec<(i64, Kind, u64, u64, u64)> {
        batch
            .events
            .iter()
            .map(|e| (e.time / 1_000_000_000, e.kind, e.file.inode, e.read, e.written))
            .collect()
    }

    /// Promise: a line is a request for its object, with any delimiter, with and without a header.
    #[test]
    fn tables() {
        let expected = [
            (5, Kind::Run, 1, 100, 0),
            (6, Kind::Run, 2, 0, 200),
            (7, Kind::Unlink, 1, 0, 0),
            (8, Kind::Run, 1, 100, 0),
        ];
        let (batch, info) = events(SAMPLE, Some(COLUMNS)).unwrap();
        assert_eq!(summary(&batch), expected);
        assert_eq!(batch.names.word(batch.events[1].path), "b");
        assert!(
            info.notes.iter().any(|note| note.starts_with("1 requests with an unknown")),
            "{:?}",
            info.notes
        );
        for (from, to) in [(",", ";"), (",", "\t")] {
            let delimiter = if to == "\t" { "\\t" } else { to };
            let format = format!("{COLUMNS},delimiter={delimiter},has-header=true");
            assert_eq!(summary(&events(SAMPLE.replace(from, to), Some(&format)).unwrap().0), expected);
        }
        let format = format!("delimiter=,,{}", &COLUMNS[4..]);
        assert_eq!(summary(&events(SAMPLE, Some(&format!("csv:{format}"))).unwrap().0), expected);
        let (batch, _) =
            events("7\n18446744073709551615\n7\n", Some("csv:obj-id-col=1,obj-id-is-num=true")).unwrap();
        assert_eq!(batch.events.iter().map(|e| e.file.inode).collect::<Vec<_>>(), [7, u64::MAX, 7]);
        let (batch, _) = events("x y\n\nz\nx y\n", Some("txt")).unwrap();
        assert_eq!(
            summary(&batch),
            [(0, Kind::Run, 1, 1, 0), (0, Kind::Run, 2, 1, 0), (0, Kind::Run, 1, 1, 0)]
        );
    }

    /// Promise: errors name the line or the setting.
    #[test]
    fn errors_name_the_place() {
        let wrong = |line: &str| failure(format!("{SAMPLE}{line}\n"), Some(COLUMNS));
        assert!(wrong("9,get,1").contains("line 6: there is no column 4, only 3"));
        assert!(wrong("9,get,x,a").contains("line 6: the size is \"x\""));
        for (format, what) in [
            ("csv", "obj-id-col must give"),
            ("csv:obj-id-col=0", "counts from 1"),
            ("csv:obj-id-col=1,delimiter=ab", "not one character"),
            ("csv:obj-id-col=1,has-header=maybe", "neither true nor false"),
            ("csv:obj-id-col=4,obj-id-is-num=1", "not a number"),
        ] {
            assert!(failure(SAMPLE, Some(format)).contains(what), "{format}");
        }
    }
}
