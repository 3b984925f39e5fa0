//! Formats of fixed-size records.

use super::input::Input;
use super::text::{BATCH, check_positions};
use crate::{Batch, Error, Info, Result, Source};

/// Decodes the records of a format.
pub(super) trait Decode {
    /// Returns the size of a record in bytes, at least 1.
    fn len(&self) -> usize;

    /// Adds the events of a record of [`Decode::len`] bytes.
    ///
    /// # Errors
    /// Describes the problem, as a part of a sentence.
    fn record(&mut self, record: &[u8], out: &mut Batch) -> std::result::Result<(), String>;

    /// Returns the information about the trace so far.
    fn info(&self) -> Info;
}

/// A file of records that is being read.
pub(super) struct Records<D> {
    input: Input,
    decode: D,
    record: Vec<u8>,
    offset: u64,
    ended: bool,
}

impl<D: Decode> Records<D> {
    /// Returns the records after the first `skip` bytes.
    pub(super) fn new(mut input: Input, skip: usize, decode: D) -> Result<Self> {
        input.record(0, &mut vec![0; skip])?;
        Ok(Self { record: vec![0; decode.len()], input, decode, offset: skip as u64, ended: false })
    }
}

impl<D: Decode> Source for Records<D> {
    fn info(&self) -> Info {
        self.decode.info()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        while batch.events.len() < BATCH && !self.ended {
            if !self.input.record(self.offset, &mut self.record)? {
                self.ended = true;
                break;
            }
            let before = batch.events.len();
            self.decode
                .record(&self.record, batch)
                .and_then(|()| check_positions(&batch.events[before..]))
                .map_err(|what| {
                    Error::malformed(self.input.path(), format!("offset {}", self.offset), what)
                })?;
            self.offset += self.record.len() as u64;
        }
        Ok(!batch.events.is_empty())
    }

    fn progress(&self) -> Option<f64> {
        self.input.progress()
    }
}

/// Defines functions that return little-endian numbers of a record.
///
/// # Panics
/// They panic if the record is too short: places are fixed by the format.
macro_rules! little_endian {
    ($($name:ident: $type:ty),*) => {$(
        pub(super) fn $name(record: &[u8], at: usize) -> $type {
            const LEN: usize = size_of::<$type>();
            <$type>::from_le_bytes(record[at..at + LEN].try_into().expect("the slice has that length"))
        }
    )*};
}

little_endian!(u16_at: u16, u32_at: u32, u64_at: u64, i64_at: i64);
