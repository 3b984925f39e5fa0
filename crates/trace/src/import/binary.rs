//! The binary formats of libCacheSim: fixed-size records with an object and its size.
//!
//! Sources: `traceReader/customizedReader/oracle/oracleGeneralBin.h`,
//! `traceReader/generalReader/binary.c` and `lcs.h`, and `readerInternal.h` for the sizes of the
//! field types, of libCacheSim (github.com/1a1a11a/libCacheSim, 2024-10). All fields are
//! little-endian and packed. The number of the next access, which some of them have, is not
//! imported, because it follows from the trace.
//!
//! An object of a cache becomes a file: its id is the inode, its size the run from 0. Numeric ids
//! only need to differ, so all 64 bits are kept.

use super::records::{Decode, Records, i64_at, u16_at, u32_at, u64_at};
use super::text::number;
use super::{Format, Settings};
use crate::{Batch, Error, Event, FileId, Info, Kind};

pub(super) const ORACLE_GENERAL: Format = Format {
    name: "oracle-general",
    about: "libCacheSim's oracleGeneral: records of 24 bytes",
    settings: &[],
    recognises: looks_like_oracle_general,
    open: |input, _| {
        let layout = Layout::new("<IQIq", [1, 2, 3, 0]).expect("the layout is well-formed");
        Ok(Box::new(Records::new(input, 0, Objects::new("oracle-general", layout))?))
    },
};

pub(super) const LCS: Format = Format {
    name: "lcs",
    about: "libCacheSim's lcs: records described by a header",
    settings: &[],
    recognises: |start| start.len() >= lcs::LEN && u64_at(start, 0) == lcs::MAGIC,
    open: |input, _| {
        let layout = lcs::layout(&input.start()).map_err(|e| Error::malformed(input.path(), "header", e))?;
        Ok(Box::new(Records::new(input, lcs::LEN, Objects::new("lcs", layout))?))
    },
};

pub(super) const BINARY: Format = Format {
    name: "binary",
    about: "libCacheSim's binary: records described by a format string (not detected)",
    settings: &[
        (
            "format",
            "types of the fields in the notation of Python's struct, such as <IQI; b B c h H i I l L q Q f d",
        ),
        ("time-col", "number of the field with the time in seconds, from 1"),
        ("obj-id-col", "field of the object"),
        ("obj-size-col", "field of its size in bytes; 1 byte each by default"),
        ("op-col", "field of the operation, by libCacheSim's numbers"),
    ],
    recognises: |_| false,
    open: |input, settings| {
        let layout = layout_of(settings).map_err(|what| Error::Refused(format!("format binary: {what}")))?;
        Ok(Box::new(Records::new(input, 0, Objects::new("binary", layout))?))
    },
};

/// Names of the columns as in libCacheSim, in the order of [`Layout::new`].
const COLUMNS: [&str; 4] = ["time-col", "obj-id-col", "obj-size-col", "op-col"];

fn layout_of(settings: &Settings<'_>) -> Result<Layout, String> {
    let format = settings.get("format").ok_or("format= must give the types of the fields")?;
    let mut columns = [0; 4];
    for (column, name) in columns.iter_mut().zip(COLUMNS) {
        if let Some(text) = settings.get(name) {
            *column = number(text, name)?;
        }
    }
    Layout::new(format, columns)
}

/// An operation of a request, by libCacheSim's numbers (`include/libCacheSim/enum.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Read,
    Write,
    Delete,
    Other,
}

impl Op {
    /// Returns the operation with a number; everything that changes an object counts as a write.
    pub(super) const fn from_number(number: u64) -> Self {
        match number {
            1 | 2 | 12 => Self::Read,
            3..=8 | 10 | 11 | 13 | 14 => Self::Write,
            9 => Self::Delete,
            _ => Self::Other,
        }
    }

    /// Returns the operation with a name: libCacheSim's names, and those in traces of disks.
    pub(super) fn from_word(word: &str) -> Self {
        let known = |words: &[&str]| words.iter().any(|known| known.eq_ignore_ascii_case(word));
        if known(&["get", "gets", "read", "r", "rd"]) {
            Self::Read
        } else if known(&[
            "set", "add", "cas", "replace", "append", "prepend", "incr", "decr", "write", "update", "w", "wr",
        ]) {
            Self::Write
        } else if known(&["delete", "d", "del"]) {
            Self::Delete
        } else {
            Self::Other
        }
    }

    /// Returns the event of a request for an object of this many bytes.
    pub(super) fn event(self, time: i64, file: FileId, size: u64) -> Event {
        let size = size.min(i64::MAX as u64);
        let event = Event { time, file, calls: 1, kind: Kind::Run, ..Event::default() };
        match self {
            Self::Read | Self::Other => Event { read: size, ..event },
            Self::Write => Event { written: size, ..event },
            Self::Delete => Event { kind: Kind::Unlink, flags: crate::Flags::LAST, size, calls: 0, ..event },
        }
    }
}

/// A field of a record.
#[derive(Clone, Copy, Debug)]
struct Field {
    at: usize,
    kind: u8,
}

impl Field {
    const fn len(kind: u8) -> Option<usize> {
        match kind {
            b'c' | b'b' | b'B' => Some(1),
            b'h' | b'H' => Some(2),
            b'i' | b'I' | b'l' | b'L' | b'f' => Some(4),
            b'q' | b'Q' | b'd' => Some(8),
            _ => None,
        }
    }

    /// Returns the value; drops signs and fractions, which objects, bytes and seconds do not have.
    fn value(self, record: &[u8]) -> u64 {
        // `as` cuts off fractions and clamps values that are out of range.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        match self.kind {
            b'f' => f32::from_bits(u32_at(record, self.at)) as u64,
            b'd' => f64::from_bits(u64_at(record, self.at)) as u64,
            b'h' | b'H' => u16_at(record, self.at).into(),
            b'i' | b'I' | b'l' | b'L' => u32_at(record, self.at).into(),
            b'q' | b'Q' => u64_at(record, self.at),
            _ => record[self.at].into(),
        }
    }
}

/// Places of the values in a record.
#[derive(Clone, Copy, Debug)]
struct Layout {
    len: usize,
    time: Option<Field>,
    object: Field,
    size: Option<Field>,
    op: Option<Field>,
}

impl Layout {
    /// Returns the layout of the fields in `format`; `columns` has the field numbers of time,
    /// object, size and operation from 1, or 0 for none.
    fn new(format: &str, columns: [usize; 4]) -> Result<Self, String> {
        let kinds = format.strip_prefix('<').ok_or("the format must start with <, for little-endian")?;
        let mut fields = Vec::new();
        let mut at = 0;
        for kind in kinds.bytes() {
            fields.push(Field { at, kind });
            at += Field::len(kind).ok_or_else(|| format!("there is no field type {:?}", char::from(kind)))?;
        }
        let field = |column: usize| match column {
            0 => Ok(None),
            n => fields.get(n - 1).copied().map(Some).ok_or(format!("there is no column {n}")),
        };
        let [time, object, size, op] = columns.map(field);
        let object = object?.ok_or("obj-id-col must give the column of the object")?;
        Ok(Self { len: at, time: time?, object, size: size?, op: op? })
    }
}

/// Requests for objects.
struct Objects {
    name: &'static str,
    layout: Layout,
    unknown: u64,
}

impl Objects {
    const fn new(name: &'static str, layout: Layout) -> Self {
        Self { name, layout, unknown: 0 }
    }
}

impl Decode for Objects {
    fn len(&self) -> usize {
        self.layout.len
    }

    fn record(&mut self, record: &[u8], out: &mut Batch) -> Result<(), String> {
        let layout = self.layout;
        let seconds = layout.time.map_or(0, |field| field.value(record));
        let time = nanoseconds(seconds).ok_or_else(|| format!("time {seconds} s is out of range"))?;
        let size = layout.size.map_or(1, |field| field.value(record));
        let op = layout.op.map_or(Op::Read, |field| Op::from_number(field.value(record)));
        self.unknown += u64::from(op == Op::Other);
        let file = FileId { device: 0, inode: layout.object.value(record) };
        out.events.push(op.event(time, file, size));
        Ok(())
    }

    fn info(&self) -> Info {
        Info {
            source: format!("import {}", self.name),
            notes: notes(self.layout.op.is_some(), self.unknown),
            ..Info::default()
        }
    }
}

/// Converts seconds to the time of an event.
pub(super) fn nanoseconds(seconds: u64) -> Option<i64> {
    i64::try_from(seconds).ok()?.checked_mul(1_000_000_000)
}

/// Returns notes for traces of requests for objects.
pub(super) fn notes(has_op: bool, unknown: u64) -> Vec<String> {
    let mut notes = vec!["an object is a file: its id the inode, its size the run from 0".to_owned()];
    if !has_op {
        notes.push("the trace does not distinguish reads and writes: all count as reads".into());
    }
    if unknown > 0 {
        notes.push(format!("{unknown} requests with an unknown operation count as reads"));
    }
    notes
}

/// Detects the format by what only it has: the number of the next request for the same object.
fn looks_like_oracle_general(start: &[u8]) -> bool {
    const LEN: usize = 24;
    let records: Vec<_> = start.chunks_exact(LEN).collect();
    let whole = start.len() == 1 << 16 || start.len().is_multiple_of(LEN);
    let next = |record: &[u8]| i64_at(record, 16);
    let mut links = 0;
    let good = records.iter().enumerate().all(|(n, record)| {
        let next = next(record);
        if next == -1 || next == i64::MAX {
            return true;
        }
        links += 1;
        // libCacheSim's own converter counts requests from 1, others from 0.
        let same = |at: usize| at > n && records.get(at).is_none_or(|other| other[4..12] == record[4..12]);
        usize::try_from(next).is_ok_and(|next| same(next) || (next > 0 && same(next - 1)))
    });
    let in_order = records.is_sorted_by_key(|record| u32_at(record, 0));
    whole && good && in_order && (links > 0 || records.len() > 1)
}

mod lcs {
    //! The header: `lcs_trace_header_t` of libCacheSim, 1024 bytes.

    use super::super::records::{u32_at, u64_at};
    use super::Layout;

    pub(super) const LEN: usize = 1024;
    pub(super) const MAGIC: u64 = 0x1234_5678_9abc_def0;
    const FORMAT: std::ops::Range<usize> = 8..248;
    const OBJECT: usize = 248;
    const SIZE: usize = 249;
    const TIME: usize = 250;
    const OP: usize = 253;
    const RECORD_LEN: usize = 1004;
    const END_MAGIC: usize = 1016;

    pub(super) fn layout(header: &[u8]) -> Result<Layout, String> {
        let header = header.get(..LEN).ok_or("the file is shorter than its header")?;
        if u64_at(header, 0) != MAGIC || u64_at(header, END_MAGIC) != MAGIC {
            return Err("the magic numbers are missing".into());
        }
        let format = &header[FORMAT];
        let end = format.iter().position(|&byte| byte == 0).unwrap_or(format.len());
        let format = String::from_utf8_lossy(&format[..end]);
        let columns = [TIME, OBJECT, SIZE, OP].map(|at| header[at].into());
        let layout = Layout::new(&format, columns)?;
        let stated = u32_at(header, RECORD_LEN);
        if u32::try_from(layout.len) != Ok(stated) {
            return Err(format!("records of {format} have {} bytes, not {stated}", layout.len));
        }
        Ok(layout)
    }
}

#[cfg(test)]
pub(super) mod tests;
