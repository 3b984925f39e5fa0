//! Finds how much of a file is a Parquet file: all of it, or the part before the last checkpoint of
//! an unfinished one.

use super::contained::contained;
use bytes::Bytes;
use parquet::file::reader::{ChunkReader, Length, SerializedFileReader};
use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;

/// The first and last bytes of a Parquet file.
pub(super) const MAGIC: &[u8; 4] = b"PAR1";

/// The first `len` bytes of a file.
pub(super) struct Prefix {
    file: File,
    len: u64,
}

impl Prefix {
    /// Number of bytes searched at a time.
    const WINDOW: u64 = 1 << 20;
    /// Maximum number of places that look like the end of a checkpoint without being one.
    const CHANCES: usize = 64;

    pub(super) fn whole(file: File) -> Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }

    /// Returns true if the file ends like a Parquet file: it was finished, or nothing follows a
    /// checkpoint.
    pub(super) fn has_end(&self) -> Result<bool> {
        let mut magic = [0; MAGIC.len()];
        if self.len < 8 {
            return Ok(false);
        }
        self.file.read_exact_at(&mut magic, self.len - 4)?;
        Ok(&magic == MAGIC)
    }

    /// Returns a reader of the part that ends with the last directory of row groups.
    pub(super) fn last_checkpoint(self) -> Result<Option<SerializedFileReader<Self>>> {
        let (mut end, mut chances) = (self.len, Self::CHANCES);
        while end > 0 {
            let start = end.saturating_sub(Self::WINDOW);
            // The magic number may cross the border of two windows.
            let until = (end + MAGIC.len() as u64 - 1).min(self.len);
            let mut window = vec![0; usize::try_from(until - start).unwrap_or(0)];
            self.file.read_exact_at(&mut window, start)?;
            let places = window.windows(MAGIC.len()).enumerate().rev().filter(|(_, bytes)| bytes == MAGIC);
            for (at, _) in places {
                let len = start + (at + MAGIC.len()) as u64;
                let prefix = Self { file: self.file.try_clone()?, len };
                if let Ok(Ok(reader)) = contained(|| SerializedFileReader::new(prefix)) {
                    return Ok(Some(reader));
                }
                chances -= 1;
                if chances == 0 {
                    return Ok(None);
                }
            }
            end = start;
        }
        Ok(None)
    }
}

impl Length for Prefix {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Prefix {
    type T = <File as ChunkReader>::T;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.file.get_bytes(start, length)
    }
}
