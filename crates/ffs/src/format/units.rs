//! The units of the file system, one type each, so that they cannot be mixed up.

use std::fmt;
use std::ops::{Add, Sub};

/// Address of a fragment: the unit in which inodes and indirect blocks point at space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frag(pub u64);

/// Number of a block within a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lbn(pub u64);

impl Add<u64> for Frag {
    type Output = Self;
    fn add(self, frags: u64) -> Self {
        Self(self.0 + frags)
    }
}

impl Sub for Frag {
    type Output = u64;
    fn sub(self, other: Self) -> u64 {
        self.0 - other.0
    }
}

impl Add<u64> for Lbn {
    type Output = Self;
    fn add(self, blocks: u64) -> Self {
        Self(self.0 + blocks)
    }
}

impl fmt::Display for Frag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Lbn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns a 64-bit number as an index: Spindle needs a machine where the two are the same.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // Asserted beside it.
pub const fn index(n: u64) -> usize {
    const { assert!(size_of::<usize>() == size_of::<u64>()) };
    n as usize
}

/// Returns the low 32 bits of a time in seconds, which is what UFS1 holds; beyond 2038 it wraps, as
/// FreeBSD reads it, without a sign.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // Meant.
pub const fn low_word(secs: i64) -> i32 {
    secs as i32
}
