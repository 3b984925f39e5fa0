//! Writing a stream.
//!
//! The caller writes the maps, then the files in the order of their numbers, directories first, and
//! the end. Each header announces up to 512 records, so that half a MiB of a file is held in memory
//! to know its holes.
//!
//! Records go out ten at a time, as tapes want them ([`Volumes`]). A volume that is full has whole
//! blocks only. The next one begins with a header of its own, which has a number among the records
//! like any other, and says how many records follow before the next header of a file.

use crate::header::{Device, Form, Header, Inode, Kind, PER_HEADER, RECORD, Stamp, renumber};
use crate::map::InodeMap;
use spindle_clock::Timestamp;
use std::io::{self, Write};

/// Records that are written at a time (`NTREC`).
const AT_A_TIME: usize = 10;
/// Bytes of a block, which is written to a volume as a whole.
pub const BLOCK: usize = AT_A_TIME * RECORD;
/// Bytes of a file that one header can announce.
const WINDOW: usize = PER_HEADER * RECORD;

/// What reads the next data of a file into the front of a buffer, and returns their offset in the
/// file and their length, or none at the end. What lies between is a hole.
pub type Next<'n, E> = &'n mut dyn FnMut(&mut [u8]) -> Result<Option<(u64, usize)>, E>;

/// What a stream is written to: volumes, one after the other. The first one is open.
pub trait Volumes {
    /// Writes a block of [`BLOCK`] bytes. Returns false if the volume has no room for it: then it
    /// has nothing of it.
    ///
    /// # Errors
    /// Those of writing.
    fn write(&mut self, block: &[u8]) -> io::Result<bool>;

    /// Ends the volume, which is full, and begins the one with this number.
    ///
    /// # Errors
    /// If there is no other; those of ending one and opening the other.
    fn change(&mut self, number: i32) -> io::Result<()>;
}

impl<V: Volumes> Volumes for &mut V {
    fn write(&mut self, block: &[u8]) -> io::Result<bool> {
        (**self).write(block)
    }

    fn change(&mut self, number: i32) -> io::Result<()> {
        (**self).change(number)
    }
}

/// One volume without an end.
#[derive(Debug)]
pub struct Single<W>(pub W);

impl<W: Write> Volumes for Single<W> {
    fn write(&mut self, block: &[u8]) -> io::Result<bool> {
        self.0.write_all(block).map(|()| true)
    }

    fn change(&mut self, _: i32) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

/// A writer of a stream.
#[derive(Debug)]
pub struct Writer<V> {
    out: V,
    stamp: Stamp,
    /// Records so far, with those of the block.
    at: u64,
    last: u32,
    /// Number of the volume, from 1.
    volume: i32,
    /// Inode of the last header.
    ino: u32,
    /// The records that are written next, fewer than a block.
    block: Vec<u8>,
    /// Which of them are headers.
    headers: Vec<usize>,
    /// Records of data that the last header has announced and that have not come.
    ahead: usize,
}

impl<V: Volumes> Writer<V> {
    /// Begins a stream of inodes up to `last`.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(out: V, stamp: Stamp, last: u32) -> io::Result<Self> {
        let block = Vec::with_capacity(BLOCK);
        let mut writer =
            Self { out, stamp, at: 0, last, volume: 1, ino: 0, block, headers: Vec::new(), ahead: 0 };
        // The BSDs announce a record there that does not follow.
        writer.header(&Header { count: 1, ..writer.blank(Kind::Tape, 0) })?;
        Ok(writer)
    }

    /// Returns the number of records that have been written.
    pub const fn records(&self) -> u64 {
        self.at
    }

    /// Writes the maps of the inodes in use and of those in the dump.
    ///
    /// # Errors
    /// Those of writing.
    pub fn maps(&mut self, in_use: &InodeMap, in_dump: &InodeMap) -> io::Result<()> {
        for (kind, map) in [(Kind::Clri, in_use), (Kind::Bits, in_dump)] {
            let bytes = map.records();
            let count = u32::try_from(bytes.len() / RECORD).unwrap_or(u32::MAX);
            self.header(&Header { count, ..self.blank(kind, self.last) })?;
            self.data(&bytes)?;
        }
        Ok(())
    }

    /// Writes a file with what `next` reads of its data, and extended attributes in the form of
    /// UFS2. The sizes in `inode` count.
    ///
    /// # Errors
    /// Those of writing and of `next`.
    pub fn file<E: From<io::Error>>(
        &mut self,
        ino: u32,
        inode: &Inode,
        next: Next<'_, E>,
        attributes: &[u8],
    ) -> Result<(), E> {
        let blank = Header { inode: inode.clone(), ..self.blank(Kind::Inode, ino) };
        let mut window = Window::new(inode.size);
        let (attribute_records, padded) = in_records(attributes);
        loop {
            let (present, count) = window.fill(next)?;
            let is_last = window.is_last();
            let kind = if window.at == 0 { Kind::Inode } else { Kind::Addr };
            let mut header =
                Header { kind, present, count: u32::try_from(count).unwrap_or(0), ..blank.clone() };
            // Attributes that do not fit behind the last data get a header of their own.
            let fits = is_last && count + attribute_records <= PER_HEADER;
            if fits {
                header.present[count..count + attribute_records].fill(1);
                header.count += u32::try_from(attribute_records).unwrap_or(0);
            }
            self.header(&header)?;
            for (n, record) in window.bytes.chunks_exact(RECORD).take(count).enumerate() {
                if present[n] != 0 {
                    self.data(record)?;
                }
            }
            if is_last {
                let rest = if fits { &[] } else { &padded[..] };
                if fits {
                    self.data(&padded)?;
                }
                for piece in rest.chunks(WINDOW) {
                    let count = u32::try_from(piece.len() / RECORD).unwrap_or(0);
                    let mut present = [0; PER_HEADER];
                    present[..piece.len() / RECORD].fill(1);
                    self.header(&Header { kind: Kind::Addr, count, present, ..blank.clone() })?;
                    self.data(piece)?;
                }
                return Ok(());
            }
            window.advance();
        }
    }

    /// Ends the stream, and returns what it was written to, and the number of its records.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self) -> io::Result<(V, u64)> {
        for ends in 1.. {
            self.header(&self.blank(Kind::End, self.last))?;
            // With the first block that has an end nothing else is needed.
            let rest = self.block.len() / RECORD;
            if ends > rest {
                self.at -= rest as u64;
                break;
            }
        }
        Ok((self.out, self.at))
    }

    fn blank(&self, kind: Kind, ino: u32) -> Header {
        let never = Timestamp::default();
        Header {
            kind,
            form: Form::Ufs2,
            stamp: self.stamp.clone(),
            volume: self.volume,
            record: 0,
            ino,
            inode: Inode {
                mode: 0,
                size: 0,
                uid: 0,
                gid: 0,
                atime: never,
                mtime: never,
                birthtime: None,
                device: Device::Raw(0),
                flags: 0,
                extsize: 0,
                names: 0,
            },
            count: 0,
            present: [0; PER_HEADER],
            is_attributes: false,
            metadata_only: false,
        }
    }

    fn header(&mut self, header: &Header) -> io::Result<()> {
        let records = header.present.iter().filter(|present| **present != 0).count();
        self.ahead = match header.kind {
            Kind::Clri | Kind::Bits => header.count as usize,
            Kind::Inode | Kind::Addr => records,
            Kind::Tape | Kind::End => 0,
        };
        self.ino = header.ino;
        self.headers.push(self.block.len() / RECORD);
        self.record(&header.encode(i64::try_from(self.at).unwrap_or(i64::MAX)))
    }

    /// Writes whole records of data.
    fn data(&mut self, records: &[u8]) -> io::Result<()> {
        for record in records.chunks_exact(RECORD) {
            self.ahead = self.ahead.saturating_sub(1);
            self.record(record)?;
        }
        Ok(())
    }

    /// Adds a record to the block, and writes the block if it is complete.
    fn record(&mut self, record: &[u8]) -> io::Result<()> {
        self.block.extend_from_slice(record);
        self.at += 1;
        if self.block.len() < BLOCK {
            return Ok(());
        }
        if !self.out.write(&self.block)? {
            self.change_volume()?;
        }
        let rest = self.block.split_off(BLOCK);
        self.block = rest;
        self.headers.retain(|&header| header >= AT_A_TIME);
        self.headers.iter_mut().for_each(|header| *header -= AT_A_TIME);
        Ok(())
    }

    /// Begins the next volume with the block that the last one has no room for.
    fn change_volume(&mut self) -> io::Result<()> {
        self.volume += 1;
        self.out.change(self.volume)?;
        let count = self.headers.first().map_or(AT_A_TIME + self.ahead, |&first| first);
        let number = self.at - AT_A_TIME as u64;
        let (records, _) = self.block.as_chunks_mut::<RECORD>();
        for header in &mut self.headers {
            renumber(&mut records[*header], self.volume);
            *header += 1;
        }
        let count = u32::try_from(count).unwrap_or(0);
        let tape = Header { count, ..self.blank(Kind::Tape, self.ino) };
        let tape = tape.encode(i64::try_from(number).unwrap_or(i64::MAX));
        self.block.splice(..0, tape);
        self.headers.insert(0, 0);
        self.at += 1;
        if self.out.write(&self.block[..BLOCK])? {
            Ok(())
        } else {
            Err(io::Error::other(format!("volume {} has no room for anything", self.volume)))
        }
    }
}

/// Returns bytes padded to whole records, and the number of these.
fn in_records(bytes: &[u8]) -> (usize, Vec<u8>) {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(RECORD), 0);
    (padded.len() / RECORD, padded)
}

/// The part of a file that one header announces.
struct Window {
    bytes: Vec<u8>,
    /// The window has data besides zeros.
    has_data: bool,
    /// What `next` reads into.
    buffer: Vec<u8>,
    /// Where in the file it begins.
    at: u64,
    size: u64,
    /// The data that was read last and goes beyond this window: its offset, and the bytes.
    ahead: Option<(u64, Vec<u8>)>,
    has_ended: bool,
}

impl Window {
    fn new(size: u64) -> Self {
        let len = usize::try_from(size).unwrap_or(WINDOW).min(WINDOW).next_multiple_of(RECORD);
        let buffer = vec![0; len.max(RECORD)];
        Self { bytes: vec![0; len], has_data: false, buffer, at: 0, size, ahead: None, has_ended: false }
    }

    /// Returns true if nothing follows this window.
    fn is_last(&self) -> bool {
        self.size <= self.at.saturating_add(WINDOW as u64)
    }

    fn advance(&mut self) {
        self.at += WINDOW as u64;
    }

    /// Reads the window. Returns which of its records are no holes, and the number of its records.
    fn fill<E>(&mut self, next: Next<'_, E>) -> Result<([u8; PER_HEADER], usize), E> {
        let mut present = [0; PER_HEADER];
        if std::mem::take(&mut self.has_data) {
            self.bytes.fill(0);
        }
        let end = self.at + WINDOW as u64;
        loop {
            if let Some((at, bytes)) = self.ahead.take() {
                let here = usize::try_from(end.saturating_sub(at)).unwrap_or(WINDOW).min(bytes.len());
                let from = usize::try_from(at.saturating_sub(self.at)).unwrap_or(WINDOW);
                let within = bytes[..here].len().min(self.bytes.len().saturating_sub(from));
                if within > 0 {
                    self.has_data = true;
                    self.bytes[from..from + within].copy_from_slice(&bytes[..within]);
                    present[from / RECORD..(from + within).div_ceil(RECORD)].fill(1);
                }
                if here < bytes.len() {
                    self.ahead = Some((at + here as u64, bytes[here..].to_vec()));
                    break;
                }
            }
            if self.has_ended {
                break;
            }
            match next(&mut self.buffer)? {
                Some((at, len)) => self.ahead = Some((at, self.buffer[..len].to_vec())),
                None => self.has_ended = true,
            }
        }
        let left = self.size.saturating_sub(self.at);
        let count = usize::try_from(left.div_ceil(RECORD as u64)).unwrap_or(PER_HEADER).min(PER_HEADER);
        Ok((present, count))
    }
}
