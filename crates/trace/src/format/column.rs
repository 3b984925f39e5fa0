//! The columns of a file and the fields of events that they hold.
//!
//! A column is copied as a whole, so that the loop over its values handles only one field.

use crate::event::{Event, Symbol};
use std::ops::BitOr;

/// A set of columns. Fields of columns that are not read are 0 or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns(u32);

impl Columns {
    /// All numeric columns and the kind.
    pub const NUMBERS: Self = Self((1 << WORDS) - 1);
    /// The columns for the analysis of usage: the numeric ones without processes, and without
    /// positions after seeks, which follow from the next run.
    pub const USAGE: Self = Self(Self::NUMBERS.0 & !(1 << PROCESS | 1 << NEW_POSITION));
    /// The column of the program's name.
    pub const COMMAND: Self = Self(1 << WORDS);
    /// Both columns of paths.
    pub const PATHS: Self = Self(0b11 << (WORDS + 1));
    /// All columns.
    pub const ALL: Self = Self((1 << COLUMNS.len()) - 1);

    /// Returns true if the set has the column of this number.
    pub(super) const fn has(self, number: usize) -> bool {
        self.0 >> number & 1 == 1
    }
}

impl BitOr for Columns {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Functions that copy a column from events into values and back. The vectors and slices have one
/// value per event.
pub(super) enum Column {
    Kind,
    Wide { take: fn(&[Event], &mut Vec<i64>), put: fn(&mut [Event], &[i64]) },
    Narrow { take: fn(&[Event], &mut Vec<i32>), put: fn(&mut [Event], &[i32]) },
    Word { get: fn(&Event) -> Symbol, at: fn(&mut Event) -> &mut Symbol },
}

macro_rules! column {
    ($variant:ident, |$e:ident| $field:expr, $signed:ident, $unsigned:ident) => {
        Column::$variant {
            take: |events, values| values.extend(events.iter().map(|$e| $field.$signed())),
            put: |events, values| {
                for ($e, value) in events.iter_mut().zip(values) {
                    $field = value.$unsigned();
                }
            },
        }
    };
    ($variant:ident, |$e:ident| $field:expr) => {
        column!($variant, |$e| $field, cast_signed, cast_unsigned)
    };
}

const PROCESS: usize = 7;
const NEW_POSITION: usize = 12;
/// The first column of words; all later ones are words, too.
const WORDS: usize = 14;

/// All columns, in the order of the schema.
pub(super) const COLUMNS: [Column; 17] = [
    column!(Wide, |e| e.time, clone, clone),
    Column::Kind,
    column!(Narrow, |e| e.flags.0),
    column!(Wide, |e| e.open),
    column!(Wide, |e| e.file.device),
    column!(Wide, |e| e.file.inode),
    column!(Narrow, |e| e.user),
    column!(Narrow, |e| e.process),
    column!(Wide, |e| e.size),
    column!(Wide, |e| e.position),
    column!(Wide, |e| e.read),
    column!(Wide, |e| e.written),
    column!(Wide, |e| e.new_position),
    column!(Narrow, |e| e.calls),
    Column::Word { get: |e| e.command, at: |e| &mut e.command },
    Column::Word { get: |e| e.path, at: |e| &mut e.path },
    Column::Word { get: |e| e.new_path, at: |e| &mut e.new_path },
];
