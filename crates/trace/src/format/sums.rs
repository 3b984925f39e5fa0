//! Checksums of a trace: a CRC-32C of each column of each row group, and one of the directory that
//! says where they are.
//!
//! The pages of Parquet have a place for a checksum, but the library does not fill it. So the sums
//! are in the metadata of the file, which other readers pass over. A program that writes a trace
//! anew may keep the metadata, but says that the file is its own: sums count only in a file that
//! Spindle has made ([`CREATOR`]).

use super::key;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, ParquetMetaData, RowGroupMetaData};
use std::io::{Result, Write};
use std::ops::Range;

/// How the name of the program begins that has made a file with sums.
pub(super) const CREATOR: &str = "spindle ";

/// Returns the bytes of a column in the file; none if they are impossible.
pub(super) fn place(column: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let (start, len) = (u64::try_from(start).ok()?, u64::try_from(column.compressed_size()).ok()?);
    Some(start..start.checked_add(len)?)
}

/// A file that keeps what was written to it since the last row group.
pub(super) struct Kept<W> {
    file: W,
    /// Byte of the file at which `bytes` begins.
    at: u64,
    bytes: Vec<u8>,
}

impl<W: Write> Kept<W> {
    pub(super) const fn new(file: W) -> Self {
        Self { file, at: 0, bytes: Vec::new() }
    }

    /// Returns the sum of each column of a row group, all of which has been written, and forgets
    /// its bytes.
    pub(super) fn sums(&mut self, group: &RowGroupMetaData) -> Vec<u32> {
        let within = |place: Range<u64>| {
            let offset = |byte: u64| usize::try_from(byte.checked_sub(self.at)?).ok();
            self.bytes.get(offset(place.start)?..offset(place.end)?)
        };
        let sum = |column| crc32c::crc32c(place(column).and_then(within).unwrap_or_default());
        let sums = group.columns().iter().map(sum).collect();
        self.at += self.bytes.len() as u64;
        self.bytes.clear();
        sums
    }
}

impl<W: Write> Write for Kept<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes.extend_from_slice(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }
}

/// Returns the metadata with the sums: those of the columns, and that of the directory with all
/// metadata.
pub(super) fn with_sums<'g>(
    mut pairs: Vec<KeyValue>,
    groups: impl Iterator<Item = &'g RowGroupMetaData>,
    sums: &[u32],
) -> Vec<KeyValue> {
    let words: Vec<_> = sums.iter().map(|sum| format!("{sum:08x}")).collect();
    pairs.push(KeyValue::new(key::SUMS.to_owned(), words.join(" ")));
    let sum = of_directory(&pairs, groups);
    pairs.push(KeyValue::new(key::SUM.to_owned(), format!("{sum:08x}")));
    pairs
}

/// Returns the sum of these metadata, and of where the columns of the row groups are.
fn of_directory<'g>(pairs: &[KeyValue], groups: impl Iterator<Item = &'g RowGroupMetaData>) -> u32 {
    let mut sum = 0;
    let mut add = |bytes: &[u8]| sum = crc32c::crc32c_append(sum, bytes);
    for KeyValue { key, value } in pairs {
        for text in [key, value.as_deref().unwrap_or_default()] {
            add(text.as_bytes());
            add(&[0]);
        }
    }
    for group in groups {
        add(&group.num_rows().to_le_bytes());
        for column in group.columns() {
            let place = place(column).unwrap_or_default();
            add(&place.start.to_le_bytes());
            add(&place.end.to_le_bytes());
        }
    }
    sum
}

/// Returns the sum of each column of each row group, in order, if the file has them.
///
/// # Errors
/// What is wrong, if the directory is not the one that was written.
pub(super) fn stored(directory: &ParquetMetaData) -> std::result::Result<Option<Vec<u32>>, String> {
    let about = directory.file_metadata();
    let is_ours = about.created_by().is_some_and(|creator| creator.starts_with(CREATOR));
    let pairs = about.key_value_metadata().map(Vec::as_slice).unwrap_or_default();
    let Some((last, before)) = pairs.split_last().filter(|_| is_ours) else { return Ok(None) };
    if !before.iter().any(|pair| pair.key == key::SUMS) && last.key != key::SUM {
        return Ok(None);
    }
    let number = |word: &str| u32::from_str_radix(word, 16).ok();
    let found = of_directory(before, directory.row_groups().iter());
    if last.key != key::SUM || last.value.as_deref().and_then(number) != Some(found) {
        return Err("its checksum is wrong".into());
    }
    let words = before.iter().rfind(|pair| pair.key == key::SUMS).and_then(|pair| pair.value.as_deref());
    let sums: Option<Vec<_>> = words.unwrap_or_default().split_ascii_whitespace().map(number).collect();
    let columns: usize = directory.row_groups().iter().map(|group| group.columns().len()).sum();
    sums.filter(|sums| sums.len() == columns).map(Some).ok_or_else(|| "it lacks checksums".into())
}
