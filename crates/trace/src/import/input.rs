//! The bytes of a foreign trace: read from a file or standard input, decompressed and counted.
//!
//! The one idea: decoders of formats get a stream of decompressed bytes whose start is available in
//! advance, whatever its source. Progress is measured in bytes of the file on the disk, so it also
//! works for compressed files.

use crate::{Error, Result};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of bytes at the start that formats are detected by.
const START: u64 = 1 << 16;
/// Maximum length of a line in bytes; a path has at most 4096, which escapes make four times
/// longer.
const LINE: u64 = 1 << 20;

/// Counts the bytes that are read.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let len = self.inner.read(buf)?;
        self.count.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

/// A trace that is being read.
pub(crate) struct Input {
    path: PathBuf,
    start: Arc<[u8]>,
    reader: Box<dyn BufRead + Send>,
    count: Arc<AtomicU64>,
    /// Length of the file in bytes; `None` for a pipe.
    len: Option<u64>,
}

impl Input {
    /// Opens a file (`-` is standard input) and reads its start.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Self::new(Path::new("standard input"), std::io::stdin(), None);
        }
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let metadata = file.metadata().map_err(|e| Error::io(path, e))?;
        if metadata.is_dir() {
            return Err(Error::io(path, std::io::ErrorKind::IsADirectory.into()));
        }
        Self::new(path, file, metadata.is_file().then_some(metadata.len()))
    }

    fn new(path: &Path, file: impl Read + Send + 'static, len: Option<u64>) -> Result<Self> {
        let fail = |e| Error::io(path, e);
        let count = Arc::new(AtomicU64::new(0));
        let mut file = BufReader::new(Counted { inner: file, count: Arc::clone(&count) });
        let mut magic = Vec::new();
        (&mut file).take(4).read_to_end(&mut magic).map_err(fail)?;
        let packed = Cursor::new(magic.clone()).chain(file);
        let mut plain: Box<dyn Read + Send> = match magic[..] {
            [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::stream::read::Decoder::new(packed).map_err(fail)?),
            [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(packed)),
            _ => Box::new(packed),
        };
        let mut start = Vec::new();
        (&mut plain).take(START).read_to_end(&mut start).map_err(fail)?;
        let reader = Box::new(BufReader::with_capacity(1 << 16, Cursor::new(start.clone()).chain(plain)));
        Ok(Self { path: path.to_owned(), start: start.into(), reader, count, len })
    }

    /// Returns the path for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the first bytes, decompressed.
    pub(crate) fn start(&self) -> Arc<[u8]> {
        Arc::clone(&self.start)
    }

    /// Returns the part of the file that has been read, if its length is known.
    pub(crate) fn progress(&self) -> Option<f64> {
        // A progress bar does not need exact numbers.
        #[allow(clippy::cast_precision_loss)]
        self.len.map(|len| (self.count.load(Ordering::Relaxed) as f64 / len.max(1) as f64).min(1.0))
    }

    /// Replaces `line` with the next line, without its end; returns false at the end.
    pub(crate) fn line(&mut self, number: u64, line: &mut Vec<u8>) -> Result<bool> {
        line.clear();
        let read = (&mut self.reader).take(LINE).read_until(b'\n', line);
        let read = read.map_err(|e| self.fail(&format!("line {number}"), e))?;
        if read as u64 == LINE && line.last() != Some(&b'\n') {
            return Err(Error::malformed(
                &self.path,
                format!("line {number}"),
                "the line is longer than 1 MiB",
            ));
        }
        while line.last().is_some_and(|end| matches!(end, b'\n' | b'\r')) {
            line.pop();
        }
        Ok(read > 0)
    }

    /// Fills `record` from the stream; returns false at the end.
    pub(crate) fn record(&mut self, offset: u64, record: &mut [u8]) -> Result<bool> {
        let mut have = 0;
        while have < record.len() {
            match self.reader.read(&mut record[have..]) {
                Ok(0) => break,
                Ok(len) => have += len,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.fail(&format!("offset {offset}"), e)),
            }
        }
        if have > 0 && have < record.len() {
            let what = format!(
                "a record has {} bytes, but only {have} are left: the file is incomplete",
                record.len()
            );
            return Err(Error::malformed(&self.path, format!("offset {offset}"), what));
        }
        Ok(have > 0)
    }

    /// Returns an error of the system as such; any other is an error of decompression.
    fn fail(&self, place: &str, error: std::io::Error) -> Error {
        if error.raw_os_error().is_some() {
            Error::io(&self.path, error)
        } else {
            Error::malformed(&self.path, place, format!("cannot be decompressed: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Promise: a file is read the same way plain and compressed, its start is available in
    /// advance, and at the end all of it was read.
    #[test]
    fn compression_does_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        let lines: Vec<_> = (0..50_000).map(|n| format!("line {n}\r\n")).collect();
        let text = lines.concat();
        let zstd = zstd::stream::encode_all(text.as_bytes(), 1).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        for (name, bytes) in
            [("plain", text.clone().into_bytes()), ("zst", zstd), ("gz", gzip.finish().unwrap())]
        {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let mut input = Input::open(&path).unwrap();
            assert!(input.start().starts_with(b"line 0\r\nline 1\r\n"), "{name}");
            let (mut line, mut number) = (Vec::new(), 0);
            while input.line(number + 1, &mut line).unwrap() {
                assert_eq!(line, format!("line {number}").as_bytes(), "{name}");
                number += 1;
            }
            assert_eq!(number, 50_000);
            assert!(input.progress().unwrap() > 0.999, "{name}");
        }
    }

    /// Promise: an incomplete compressed file is an error that names the file and the line, not a
    /// shorter trace.
    #[test]
    fn incomplete_compression_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("short.gz");
        let text: Vec<u8> =
            (0..400_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let packed = gzip.finish().unwrap();
        std::fs::write(&path, &packed[..packed.len() / 2]).unwrap();
        let mut input = Input::open(&path).unwrap();
        let mut record = [0; 1000];
        let mut offset = 0;
        let error = loop {
            match input.record(offset, &mut record) {
                Ok(more) => assert!(more, "the end came without an error"),
                Err(error) => break error,
            }
            offset += 1000;
        };
        assert!(error.to_string().contains("short.gz: offset"), "{error}");
    }
}
