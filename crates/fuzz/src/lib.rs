//! Coverage-guided fuzzing: every decoder of bytes that somebody else wrote reads what a fuzzer
//! thinks of.
//!
//! A [`Target`] takes any bytes and may do anything with them but panic, hang, or hold too much
//! memory. `scripts/fuzz TARGET SECONDS` builds the program `fuzz` with LLVM's coverage counters
//! and runs libFuzzer, which keeps the inputs that reach something new. The tests of this crate run
//! each target with its seeds and with mutations of them, without any such tool.
//!
//! The bytes are never a whole image, because a fuzzer finds nothing in megabytes: they take the
//! place of one structure in a small valid image ([`image`], [`set`], [`v7`]), or are a stream or a
//! file as such ([`stream`], [`label`]). Checksums are corrected afterwards.

pub mod image;
pub mod label;
pub mod log;
pub mod quota;
pub mod set;
pub mod stream;
pub mod v7;

/// Something that reads what a fuzzer thinks of.
pub struct Target {
    /// Its name, as `scripts/fuzz` takes it.
    pub name: &'static str,
    /// What the bytes are, in a few words.
    pub about: &'static str,
    /// Returns valid inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Reads an input. It panics if a promise is broken.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    image::SUPERBLOCK,
    image::GROUP,
    image::INODE,
    image::DIRECTORY,
    image::INDIRECT,
    image::ATTRIBUTES,
    quota::QUOTA,
    log::LOG,
    label::LABEL,
    stream::TAR,
    stream::MANIFEST,
    stream::DUMP,
    stream::TRACE,
    stream::FINDINGS,
    set::SET,
    v7::OLD,
];

/// Returns the target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Splits a number of two bytes off the front of an input; 0 if it is too short.
fn number(data: &mut &[u8]) -> usize {
    let Some((head, rest)) = data.split_first_chunk::<2>() else { return 0 };
    *data = rest;
    usize::from(u16::from_le_bytes(*head))
}

/// Returns what [`number`] takes for these numbers, and `bytes` behind it.
fn seed(numbers: &[usize], bytes: &[u8]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|&n| u16::try_from(n).unwrap_or(u16::MAX).to_le_bytes());
    numbers.chain(bytes.iter().copied()).collect()
}
