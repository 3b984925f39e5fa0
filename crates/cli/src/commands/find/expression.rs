//! The expressions of `find`, and whether a file fits.

use crate::error::Result;
use spindle::pattern::Pattern;
use spindle_clock::Timestamp;
use spindle_vfs::{Attr, FileKind};
use std::cmp::Ordering;

/// An expression.
#[derive(Debug)]
pub enum Expression {
    /// The first that does not fit ends these.
    And(Vec<Expression>),
    /// The first that fits ends these.
    Or(Vec<Expression>),
    /// Fits what the other does not.
    Not(Box<Expression>),
    /// Asks something of the file.
    Test(Test),
    /// Does something with it.
    Action(Action),
}

/// Something that is asked of a file.
#[derive(Debug)]
pub enum Test {
    /// The last name of its path.
    Name(Pattern),
    /// The whole path.
    Path(Pattern),
    /// Its kind.
    Kind(FileKind),
    /// Its size in these units, rounded up; 1 for bytes.
    Size(Number, u64),
    /// How old a time of it is, in these seconds.
    Age(Clock, Number, i64),
    /// A time of it is later than this.
    Newer(Clock, Timestamp),
    /// Its owner.
    Uid(Number),
    /// Its group.
    Gid(Number),
    /// The number of its names.
    Links(Number),
    /// Its inode number.
    Inode(Number),
    /// Its permissions.
    Permissions(Permissions),
    /// It is an empty file or directory.
    Empty,
    /// Always the same.
    Constant(bool),
}

/// Something that is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Print the path on a line, in a form that hides nothing.
    Print,
    /// Print the bytes of the path, and a zero byte.
    PrintZero,
    /// Print the line of `ls -l`.
    List,
    /// Enter no directory here.
    Prune,
    /// End the command.
    Quit,
}

/// One of the times of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Of the last read.
    Read,
    /// Of the last change of the data.
    Changed,
    /// Of the last change of the inode.
    Status,
}

impl Clock {
    const fn of(self, attr: &Attr) -> Timestamp {
        match self {
            Self::Read => attr.atime,
            Self::Changed => attr.mtime,
            Self::Status => attr.ctime,
        }
    }
}

/// A number to compare with: `+N` more, `-N` less, `N` equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    order: Ordering,
    value: i128,
}

impl Number {
    /// Parses a number with or without a sign.
    pub fn parse(text: &str) -> Option<Self> {
        let (order, digits) = match text.as_bytes().first()? {
            b'+' => (Ordering::Greater, &text[1..]),
            b'-' => (Ordering::Less, &text[1..]),
            _ => (Ordering::Equal, text),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let value = digits.parse::<u64>().ok().filter(|_| is_number)?;
        Some(Self { order, value: value.into() })
    }

    fn fits(self, value: impl Into<i128>) -> bool {
        value.into().cmp(&self.value) == self.order
    }
}

/// Permissions to compare with.
#[derive(Debug)]
pub enum Permissions {
    /// Exactly these.
    Exactly(u32),
    /// All of these, and perhaps others.
    AllOf(u32),
    /// Any of these.
    AnyOf(u32),
}

impl Test {
    /// Returns true if a file fits; `now` is when the command began, `is_empty` says whether a
    /// directory is.
    pub fn fits(
        &self,
        path: &[u8],
        name: &[u8],
        attr: &Attr,
        now: Timestamp,
        is_empty: &dyn Fn() -> Result<bool>,
    ) -> Result<bool> {
        Ok(match self {
            Self::Name(pattern) => pattern.matches(name),
            Self::Path(pattern) => pattern.matches(path),
            Self::Kind(kind) => attr.kind == *kind,
            Self::Size(number, unit) => number.fits(attr.size.div_ceil(*unit)),
            Self::Age(clock, number, unit) => {
                let age = i128::from(now.secs) - i128::from(clock.of(attr).secs);
                number.fits(age.div_euclid((*unit).into()))
            }
            Self::Newer(clock, than) => {
                let time = clock.of(attr);
                (time.secs, time.nanos) > (than.secs, than.nanos)
            }
            Self::Uid(number) => number.fits(attr.uid),
            Self::Gid(number) => number.fits(attr.gid),
            Self::Links(number) => number.fits(attr.nlink),
            Self::Inode(number) => number.fits(attr.ino.0),
            Self::Permissions(Permissions::Exactly(bits)) => attr.perm == *bits,
            Self::Permissions(Permissions::AllOf(bits)) => attr.perm & bits == *bits,
            Self::Permissions(Permissions::AnyOf(bits)) => *bits == 0 || attr.perm & bits != 0,
            Self::Empty => match attr.kind {
                FileKind::Regular => attr.size == 0,
                FileKind::Directory => is_empty()?,
                _ => false,
            },
            Self::Constant(fits) => *fits,
        })
    }
}
