//! Reads only the objects of libCacheSim's oracleGeneral format. It makes no events, which would
//! take more time than a cache does.
//!
//! Records have 24 bytes, little-endian and packed: time in s (u32), object (u64), its size (u32),
//! and the number of the next request for it (i64); as in
//! `traceReader/customizedReader/oracle/oracleGeneralBin.h` of libCacheSim. An object is a block of
//! any size.

use super::{BATCH, Request, Requests};
use spindle_trace::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

const RECORD: usize = 24;

/// An uncompressed file of oracleGeneral records.
#[derive(Debug)]
pub struct OracleFile {
    path: PathBuf,
    file: File,
    len: u64,
    read: u64,
    buffer: Vec<u8>,
}

impl OracleFile {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Malformed`] if its length is not a multiple of that of a record.
    pub fn open(path: &Path) -> Result<Self> {
        let fail = |source| Error::io(path, source);
        let file = File::open(path).map_err(fail)?;
        let len = file.metadata().map_err(fail)?.len();
        if len % RECORD as u64 != 0 {
            let what =
                format!("the file has {len} bytes, which is not a multiple of the record size {RECORD}");
            return Err(Error::malformed(path, "end", what));
        }
        Ok(Self { path: path.to_owned(), file, len, read: 0, buffer: Vec::new() })
    }
}

impl Requests for OracleFile {
    type Block = u64;

    #[inline]
    fn next(&mut self, batch: &mut Vec<Request<u64>>) -> Result<bool> {
        batch.clear();
        let most = (BATCH * RECORD) as u64;
        self.buffer.clear();
        let read = (&mut self.file).take(most).read_to_end(&mut self.buffer);
        self.read += read.map_err(|source| Error::io(&self.path, source))? as u64;
        let (records, rest) = self.buffer.as_chunks::<RECORD>();
        if !rest.is_empty() {
            return Err(Error::malformed(
                &self.path,
                format!("offset {}", self.read),
                "the last record is incomplete",
            ));
        }
        let object =
            |r: &[u8; RECORD]| u64::from_le_bytes([r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11]]);
        batch.extend(records.iter().map(|record| Request::Use(object(record))));
        Ok(!batch.is_empty())
    }

    fn progress(&self) -> Option<f64> {
        // File sizes are far below 2^52.
        #[expect(clippy::cast_precision_loss)]
        (self.len > 0).then(|| (self.read as f64 / self.len as f64).min(1.0))
    }
}
