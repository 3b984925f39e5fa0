//! A tar stream as a source: old, ustar, GNU and pax headers, and the sparse files of GNU and pax.
//!
//! A stream is read once, from front to back. Lengths in headers are not trusted: memory beyond
//! fixed limits is allocated only as data arrives.

use super::acl;
use super::pax::{self, FFLAGS, Records};
use super::{Body, Content, Extents, Meta, Node, Sink, Source};
use crate::error::{Context, Error, Result};
use crate::flags::{self, SNAPSHOT};
use spindle_clock::Timestamp;
use spindle_vfs::Rdev;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use std::rc::Rc;
use tar::Header;

const BLOCK: usize = 512;
/// Maximum size of an extended header in bytes: enough for many attributes of 64 KiB.
const MAX_HEADER: u64 = 16 << 20;
/// Maximum number of runs of data in a sparse file.
const MAX_EXTENTS: usize = 1 << 20;

/// An input that can skip data without reading it.
trait ReadSeek: Read + Seek {}

impl<T: Read + Seek> ReadSeek for T {}

/// The input of a stream.
enum Input {
    File(BufReader<Box<dyn ReadSeek>>),
    /// An input without seek, which is read to its end.
    Stream(BufReader<Box<dyn Read>>),
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(input) => input.read(buf),
            Self::Stream(input) => input.read(buf),
        }
    }
}

/// Bytes of the buffer of an input.
const BUFFER: usize = 1 << 18;

/// A tar stream.
pub struct TarReader {
    input: Input,
    /// Number of bytes read so far, for messages.
    at: u64,
}

/// The contents of the headers before an entry.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    records: Records,
    /// Records for all later entries that do not have their own.
    global: Rc<Records>,
}

impl Extended {
    fn record(&self, key: &str) -> Option<&[u8]> {
        self.records.get(key.as_bytes()).or_else(|| self.global.get(key.as_bytes()))
    }
}

impl TarReader {
    /// Returns a reader of a stream that cannot seek, such as a pipe; the stream is read to its
    /// end.
    pub fn stream(stream: impl Read + 'static) -> Self {
        Self { input: Input::Stream(BufReader::with_capacity(BUFFER, Box::new(stream))), at: 0 }
    }

    /// Returns a reader of an input that can seek, such as a file.
    pub fn seekable(file: impl Read + Seek + 'static) -> Self {
        Self { input: Input::File(BufReader::with_capacity(BUFFER, Box::new(file))), at: 0 }
    }

    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).context(path.display())?;
        let is_file = file.metadata().context(path.display())?.is_file();
        Ok(if is_file { Self::seekable(file) } else { Self::stream(file) })
    }
}

impl Source for TarReader {
    fn walk(mut self, sink: &mut dyn Sink) -> Result<()> {
        let mut global = Rc::new(Records::default());
        let mut next = Extended::default();
        let mut empty = true;
        loop {
            let start = self.at;
            let place = || format!("tar header at byte {start}");
            let mut block = [0; BLOCK];
            let read = self.read_block(&mut block);
            // Of a few small files it is shorter than a block.
            if empty && let Some(packed) = compression(&block) {
                return Err(Error::new(format!(
                    "compressed with {packed}; import what this makes of it: {packed} -dc FILE >FILE.tar"
                )));
            }
            if !read.with_place(place)? {
                if empty {
                    return Err(Error::new("no tar stream: the input is empty"));
                }
                return Ok(());
            }
            if block == [0; BLOCK] {
                return self.drain();
            }
            empty = false;
            let header = Header::from_byte_slice(&block);
            check_sum(header).with_place(place)?;
            let size = header.entry_size().with_place(place)?;
            match header.as_bytes()[156] {
                b'x' => {
                    let bytes = self.read_header(size).with_place(place)?;
                    pax::parse(&bytes, &mut next.records).with_place(place)?;
                }
                b'g' => {
                    let bytes = self.read_header(size).with_place(place)?;
                    pax::parse(&bytes, Rc::make_mut(&mut global)).with_place(place)?;
                }
                b'L' => next.path = Some(until_nul(self.read_header(size).with_place(place)?)),
                b'K' => next.link = Some(until_nul(self.read_header(size).with_place(place)?)),
                // The name of a volume.
                b'V' => self.skip(padded(size)?)?,
                b'M' => {
                    return Err(Error::new("starts in the middle of a file; concatenate the volumes first"));
                }
                _ => {
                    let extended = Extended { global: Rc::clone(&global), ..std::mem::take(&mut next) };
                    self.entry(header, size, &extended, sink).with_place(place)?;
                }
            }
        }
    }
}

impl TarReader {
    /// Reads a stream to its end, so that the process that writes it can finish.
    fn drain(&mut self) -> Result<()> {
        if let Input::Stream(stream) = &mut self.input {
            io::copy(stream, &mut io::sink())?;
        }
        Ok(())
    }

    fn entry(&mut self, header: &Header, size: u64, extended: &Extended, sink: &mut dyn Sink) -> Result<()> {
        let record = |key: &str| extended.record(key);
        let stated = match record("size") {
            None => None,
            Some(text) => Some(pax::number(text).ok_or_else(|| Error::new("the size is not a number"))?),
        };
        let raw_path = record("GNU.sparse.name")
            .or(record("path"))
            .or(extended.path.as_deref())
            .map_or_else(|| header.path_bytes().into_owned(), <[u8]>::to_vec);
        let path = normal(&raw_path)?;
        let meta = meta(header, extended)?;
        let kind = header.as_bytes()[156];
        // The header of a link may state a size although no data follows; only a pax size counts.
        let stored = match (kind, stated) {
            (_, Some(size)) => size,
            (b'1' | b'2' | b'3' | b'4' | b'6', None) => 0,
            (_, None) => size,
        };
        let end = padded(stored)?;
        let rdev = || -> Result<Rdev> {
            Ok(Rdev {
                major: header.device_major()?.unwrap_or(0),
                minor: header.device_minor()?.unwrap_or(0),
            })
        };
        let target = || -> Result<Vec<u8>> {
            let given = record("linkpath").or(extended.link.as_deref()).map(<[u8]>::to_vec);
            given
                .or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned))
                .ok_or_else(|| Error::new("a link without a target"))
        };
        let result = match kind {
            b'5' | b'D' => sink.put(Node { path: &path, body: Body::Directory, meta }),
            b'1' => {
                let first = normal(&target()?)?;
                sink.put(Node { path: &path, body: Body::HardLink(&first), meta })
            }
            b'2' => sink.put(Node { path: &path, body: Body::Symlink(&target()?), meta }),
            b'3' | b'4' => {
                let body = Body::Device { block: kind == b'4', rdev: rdev()? };
                sink.put(Node { path: &path, body, meta })
            }
            b'6' => sink.put(Node { path: &path, body: Body::Fifo, meta }),
            _ if raw_path.ends_with(b"/") => sink.put(Node { path: &path, body: Body::Directory, meta }),
            b'S' => {
                let (size, extents) = self.gnu_extents(header)?;
                return self.put_file(&path, meta, size, extents, stored, sink);
            }
            _ => {
                let before = self.at;
                let (size, extents) = match self.pax_extents(extended, stored)? {
                    Some(sparse) => sparse,
                    None => (stored, vec![(0, stored)]),
                };
                let stored = stored
                    .checked_sub(self.at - before)
                    .ok_or_else(|| Error::new("the map of a sparse file is longer than the entry"))?;
                return self.put_file(&path, meta, size, extents, stored, sink);
            }
        };
        result.named(&path)?;
        self.skip(end)
    }

    /// Passes on a file whose content comes next, and skips the part of it that the sink did not
    /// read.
    fn put_file(
        &mut self,
        path: &[u8],
        meta: Meta,
        size: u64,
        extents: Extents,
        stored: u64,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        check_extents(&extents, size, stored)?;
        let sparse = extents != [(0, size)];
        let extents = extents.into_iter();
        let mut content = TarContent { reader: self, extents, sparse, current: (0, 0), left: stored };
        sink.put(Node { path, body: Body::File { size, content: &mut content }, meta }).named(path)?;
        let left = content.left;
        let padding = padded(stored)? - stored;
        self.skip(left + padding)
    }

    /// Returns size and runs of data of a file in GNU's own sparse format: four runs are in the
    /// header, more in the blocks after it.
    fn gnu_extents(&mut self, header: &Header) -> Result<(u64, Extents)> {
        let gnu = header.as_gnu().ok_or_else(|| Error::new("a sparse file without GNU's header"))?;
        let mut extents = Vec::new();
        for piece in gnu.sparse.iter().filter(|piece| !piece.is_empty()) {
            extents.push((piece.offset()?, piece.length()?));
        }
        let mut more = gnu.is_extended();
        while more {
            let mut block = tar::GnuExtSparseHeader::new();
            if !self.read_block(block.as_mut_bytes())? {
                return Err(Error::new("the stream ends in the map of a sparse file"));
            }
            for piece in block.sparse().iter().filter(|piece| !piece.is_empty()) {
                extents.push((piece.offset()?, piece.length()?));
            }
            if extents.len() > MAX_EXTENTS {
                return Err(Error::new("a sparse file has too many pieces"));
            }
            more = block.is_extended();
        }
        Ok((gnu.real_size()?, extents))
    }

    /// Returns size and runs of data of a file in the sparse formats 0.0, 0.1 and 1.0 of pax;
    /// `None` if it is not sparse.
    fn pax_extents(&mut self, extended: &Extended, stored: u64) -> Result<Option<(u64, Extents)>> {
        let record = |key: &str| extended.record(key);
        let wrong = || Error::new("the map of a sparse file is invalid");
        let Some(size) = record("GNU.sparse.realsize").or(record("GNU.sparse.size")) else { return Ok(None) };
        let size = pax::number(size).ok_or_else(wrong)?;
        let pairs: Vec<u64> = if let Some(map) = record("GNU.sparse.map") {
            pax::numbers(map, 2 * MAX_EXTENTS).ok_or_else(wrong)?
        } else if let Some(offsets) = record("GNU.sparse.offset") {
            let offsets = pax::numbers(offsets, MAX_EXTENTS).ok_or_else(wrong)?;
            let lens = pax::numbers(record("GNU.sparse.numbytes").unwrap_or_default(), MAX_EXTENTS)
                .ok_or_else(wrong)?;
            if offsets.len() != lens.len() {
                return Err(wrong());
            }
            offsets.into_iter().zip(lens).flat_map(|(offset, len)| [offset, len]).collect()
        } else if record("GNU.sparse.major") == Some(b"1") {
            self.map_in_data(stored)?
        } else {
            return Err(wrong());
        };
        if !pairs.len().is_multiple_of(2) {
            return Err(wrong());
        }
        Ok(Some((size, pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())))
    }

    /// Reads the map of format 1.0, which precedes the data: a count and the numbers of the
    /// map, each on its own line, padded to whole blocks.
    fn map_in_data(&mut self, stored: u64) -> Result<Vec<u64>> {
        let wrong = || Error::new("the map of a sparse file is invalid");
        let mut numbers: Vec<u64> = Vec::new();
        let mut digits: Vec<u8> = Vec::new();
        let mut read = 0;
        loop {
            let mut block = [0; BLOCK];
            read += BLOCK as u64;
            if read > padded(stored)? || !self.read_block(&mut block)? {
                return Err(wrong());
            }
            for byte in block {
                if byte != b'\n' {
                    digits.push(byte);
                    if digits.len() > 20 {
                        return Err(wrong());
                    }
                    continue;
                }
                numbers.push(pax::number(&digits).ok_or_else(wrong)?);
                digits.clear();
                let count =
                    usize::try_from(numbers[0]).ok().filter(|&n| n <= MAX_EXTENTS).ok_or_else(wrong)?;
                if numbers.len() == 1 + 2 * count {
                    numbers.remove(0);
                    return Ok(numbers);
                }
            }
        }
    }

    /// Reads one block. Returns false at the end of the stream.
    fn read_block(&mut self, block: &mut [u8; BLOCK]) -> Result<bool> {
        let mut got = 0;
        while got < BLOCK {
            match self.input.read(&mut block[got..]) {
                Ok(0) if got == 0 => return Ok(false),
                Ok(0) => return Err(ends_early()),
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.at += BLOCK as u64;
        Ok(true)
    }

    /// Reads the content of an extended header.
    fn read_header(&mut self, size: u64) -> Result<Vec<u8>> {
        if size > MAX_HEADER {
            return Err(Error::new(format!("an extended header of {size} bytes is too long")));
        }
        let mut bytes = Vec::new();
        let whole = padded(size)?;
        if (&mut self.input).take(whole).read_to_end(&mut bytes)? as u64 != whole {
            return Err(ends_early());
        }
        self.at += whole;
        bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    fn skip(&mut self, mut len: u64) -> Result<()> {
        self.at += len;
        if let Input::File(file) = &mut self.input
            && let Some(jump) = i64::try_from(len).ok().filter(|&n| n > 1 << 20)
        {
            // Read the last byte, to detect the end of the file.
            file.seek_relative(jump - 1)?;
            len = 1;
        }
        if io::copy(&mut (&mut self.input).take(len), &mut io::sink())? == len {
            Ok(())
        } else {
            Err(ends_early())
        }
    }
}

fn ends_early() -> Error {
    Error::new("the stream ends in the middle of an entry")
}

/// Returns the metadata of an entry.
fn meta(header: &Header, extended: &Extended) -> Result<Meta> {
    let record = |key: &str| extended.record(key);
    let id = |key: &str, field: io::Result<u64>| -> Result<u32> {
        let id = match record(key) {
            Some(text) => pax::number(text),
            None => Some(field?),
        };
        id.and_then(|id| u32::try_from(id).ok())
            .ok_or_else(|| Error::new(format!("the {key} is out of range")))
    };
    let time = |key: &str| -> Result<Option<Timestamp>> {
        let Some(text) = record(key) else { return Ok(None) };
        pax::time(text).map(Some).ok_or_else(|| Error::new(format!("the {key} is not a time")))
    };
    let mut xattrs = BTreeMap::new();
    for (key, value) in extended.global.iter().chain(extended.records.iter()) {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            xattrs.entry(name.to_vec()).or_insert_with(|| value.to_vec());
        } else if let Some((name, value)) = acl::attribute(key, value) {
            xattrs.insert(name, value);
        }
    }
    let mtime = match time("mtime")? {
        Some(time) => time,
        None => Timestamp::new(header.mtime()?.cast_signed(), 0),
    };
    Ok(Meta {
        perm: header.mode()? & 0o7777,
        uid: id("uid", header.uid())?,
        gid: id("gid", header.gid())?,
        atime: time("atime")?,
        mtime,
        birthtime: time("LIBARCHIVE.creationtime")?,
        flags: flags(
            extended.records.get(FFLAGS).or_else(|| extended.global.get(FFLAGS)).unwrap_or_default(),
        ),
        xattrs: xattrs.into_iter().collect(),
    })
}

/// Returns the BSD file flags of a record. Names that BSD does not have, such as those of ext4, and
/// the flag of a snapshot, which only a file system sets, count for nothing.
fn flags(names: &[u8]) -> u32 {
    let names = names.split(|byte| matches!(byte, b',' | b' '));
    let known = names.filter_map(|name| std::str::from_utf8(name).ok().and_then(flags::value));
    known.fold(0, |flags, flag| flags | flag) & !SNAPSHOT
}

/// The content of an entry.
struct TarContent<'a> {
    reader: &'a mut TarReader,
    extents: std::vec::IntoIter<(u64, u64)>,
    sparse: bool,
    /// Offset in the file and remaining length of the current run of data.
    current: (u64, u64),
    /// Bytes of the entry that are not read yet.
    left: u64,
}

impl Content for TarContent<'_> {
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>> {
        while self.current.1 == 0 {
            match self.extents.next() {
                Some(extent) => self.current = extent,
                None => return Ok(None),
            }
        }
        let (at, len) = self.current;
        let want = usize::try_from(len).unwrap_or(usize::MAX).min(buf.len());
        self.reader.input.read_exact(&mut buf[..want]).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => ends_early(),
            _ => e.into(),
        })?;
        let n = want as u64;
        self.reader.at += n;
        self.left -= n;
        self.current = (at + n, len - n);
        Ok(Some((at, want)))
    }

    fn extents(&mut self) -> Result<Option<Extents>> {
        Ok(self.sparse.then(|| self.extents.as_slice().to_vec()))
    }
}

/// Checks that the runs of data are in order, within the file, and not longer than the stored
/// bytes.
fn check_extents(extents: &[(u64, u64)], size: u64, stored: u64) -> Result<()> {
    let mut end = 0;
    let mut bytes = 0_u64;
    for &(offset, len) in extents {
        let next = offset.checked_add(len).filter(|&next| offset >= end && next <= size);
        end = next.ok_or_else(|| Error::new("the pieces of a sparse file overlap or lie outside it"))?;
        bytes += len;
    }
    if bytes > stored {
        return Err(Error::new("the pieces of a sparse file are longer than its data"));
    }
    Ok(())
}

/// Returns the path without a leading `/`, `./` and empty names; refuses `..`.
fn normal(path: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(path.len());
    for name in path.split(|&b| b == b'/').filter(|name| !matches!(*name, b"" | b".")) {
        if name == b".." {
            return Err(Error::new("a path with .. is refused")).named(path);
        }
        if !out.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(name);
    }
    Ok(out)
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len()));
    bytes
}

/// Returns the size rounded up to whole blocks.
fn padded(size: u64) -> Result<u64> {
    size.checked_next_multiple_of(BLOCK as u64)
        .filter(|&n| i64::try_from(n).is_ok())
        .ok_or_else(|| Error::new("the size of an entry is too large"))
}

fn check_sum(header: &Header) -> Result<()> {
    let bytes = header.as_bytes();
    let sum = |add: fn(u8) -> i64| -> i64 {
        let blank = 8 * i64::from(b' ');
        blank + bytes[..148].iter().chain(&bytes[156..]).map(|&b| add(b)).sum::<i64>()
    };
    let stated = i64::from(header.cksum().map_err(|_| not_tar())?);
    // Some old programs computed the sum of signed bytes.
    if stated == sum(i64::from) || stated == sum(|b| b.cast_signed().into()) {
        Ok(())
    } else {
        Err(not_tar())
    }
}

fn not_tar() -> Error {
    Error::new("not a tar header, or a damaged one (wrong checksum)")
}

/// Returns the program that compressed the stream, if its magic number is known.
fn compression(start: &[u8; BLOCK]) -> Option<&'static str> {
    const MAGICS: [(&[u8], &str); 5] = [
        (b"\x1f\x8b", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\xfd7zXZ\0", "xz"),
        (b"BZh", "bzip2"),
        (b"\x04\x22\x4d\x18", "lz4"),
    ];
    MAGICS.into_iter().find_map(|(magic, name)| start.starts_with(magic).then_some(name))
}

/// Adds the place in the stream to an error; the text is only built for an error.
trait WithPlace<T> {
    fn with_place(self, place: impl Fn() -> String) -> Result<T>;
}

impl<T, E: Into<Error>> WithPlace<T> for std::result::Result<T, E> {
    fn with_place(self, place: impl Fn() -> String) -> Result<T> {
        self.or_else(|e| Err(e).context(place()))
    }
}
