//! Reading a stream, past damage.
//!
//! The reader returns events: maps, files, damage, the end. The data of a file are read between its
//! event and the next; what is not read is skipped. A header is believed if its magic number,
//! checksum and stamp are those of the stream, also in the middle of data: then records before it
//! are missing. Where a header should be and is none, the reader goes on at the next one.
//!
//! A volume that ends before the stream does is followed by the next one, anywhere in a file. The
//! header of a volume counts as a record, or does not: the BSDs do both.

use crate::damage::{Damage, Error, Result};
use crate::header::{Form, Header, Inode, Kind, RECORD, Record, Stamp};
use crate::map::InodeMap;
use spindle_ondisk::Endian;
use spindle_vfs::FileKind;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};

/// Records at the start of a stream among which a header must be.
const SEARCHED: u64 = 1024;

/// What comes next in a stream.
#[derive(Debug)]
pub enum Event {
    /// The map of the inodes in use.
    InUse(InodeMap),
    /// The map of the inodes in the dump.
    InDump(InodeMap),
    /// A file, whose data can be read now.
    File {
        /// Its inode.
        ino: u32,
        /// What is said of it.
        inode: Inode,
        /// Number of its record.
        record: u64,
        /// What its data are.
        body: Body,
    },
    /// Something is damaged; more follows.
    Damage(Damage),
    /// The end. There is no other event afterwards.
    End,
}

/// What the data behind the header of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The data of the file.
    Data,
    /// Nothing: only the inode is in the stream.
    Nothing,
    /// Linux's extended attributes of the file before, which is the same inode.
    Attributes,
}

/// A piece of the data of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where in the file it stands, in bytes. What lies between two pieces is a hole.
    pub at: u64,
    /// Its bytes, at the start of the buffer.
    pub len: usize,
}

/// The file that is being read.
#[derive(Debug)]
struct Open {
    header: Box<Header>,
    /// Records of the header that have been passed.
    passed: usize,
    /// Bytes of its data, and how many of them have been passed.
    size: u64,
    at: u64,
    /// Bytes of extended attributes that are still to come.
    attributes: u32,
    /// It ends before it should.
    is_cut: bool,
}

/// What opens the volume with a number, from 2; none if there is no other.
pub type More<'m, R> = Box<dyn FnMut(i32) -> io::Result<Option<R>> + 'm>;

/// A reader of a stream.
pub struct Reader<'m, R> {
    input: R,
    /// What opens further volumes; none if there are no others.
    more: Option<More<'m, R>>,
    /// Number of the volume that is being read.
    volume: i32,
    /// The header of the volume may not have counted as a record, as the next one will show.
    is_counted_unknown: bool,
    /// Records are missing before this volume: what comes next continues nothing.
    is_broken: bool,
    /// Records that have been read.
    at: u64,
    endian: Endian,
    form: Form,
    stamp: Stamp,
    /// By how much the numbers in headers differ from ours; none as long as it is unknown.
    shift: Option<i64>,
    /// A header that was read before its time, and its number.
    ahead: Option<(Box<Header>, u64)>,
    /// Events that wait.
    events: VecDeque<Event>,
    open: Option<Open>,
    /// The inode of the last file.
    last: Option<u32>,
    has_ended: bool,
}

impl<R> fmt::Debug for Reader<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { volume, at, endian, form, stamp, .. } = self;
        write!(f, "Reader of {stamp:?} ({form:?}, {endian:?}) at record {at} in volume {volume}")
    }
}

/// Reads a record. Returns false at the end of the stream, or if less than a record is left.
fn read_record(input: &mut impl Read, record: &mut [u8; RECORD]) -> io::Result<bool> {
    let mut got = 0;
    while got < RECORD {
        match input.read(&mut record[got..]) {
            Ok(0) => return Ok(false),
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

impl<'m, R: Read> Reader<'m, R> {
    /// Opens a stream, of which `input` is the first volume.
    ///
    /// # Errors
    /// If it is no dump, one of a form that is not read, or a later volume of several; those of
    /// reading.
    pub fn new(mut input: R, more: Option<More<'m, R>>) -> Result<Self> {
        let mut record = [0; RECORD];
        let mut events = VecDeque::new();
        let mut at = 0;
        let (header, endian) = loop {
            if at == SEARCHED || !read_record(&mut input, &mut record)? {
                let what =
                    if at == 0 { "is empty, or shorter than a record of 1024 bytes" } else { "is no dump" };
                return Err(Error::Refused(what.into()));
            }
            match Record::of(&record, None) {
                Record::Header(header, endian) => break (header, endian),
                Record::Refused(why) => return Err(Error::Refused(why.into())),
                Record::Wrong(_) | Record::Other => {}
            }
            at += 1;
        };
        if header.kind == Kind::Tape && header.volume != 1 {
            let volume = header.volume;
            return Err(Error::Refused(format!(
                "is volume {volume} of a dump; give the volumes in order, from the first"
            )));
        }
        let mut reader = Self {
            input,
            more,
            volume: 1,
            is_counted_unknown: false,
            is_broken: false,
            at: at + 1,
            endian,
            form: header.form,
            stamp: header.stamp.clone(),
            shift: None,
            ahead: None,
            events: VecDeque::new(),
            open: None,
            last: None,
            has_ended: false,
        };
        if at > 0 || header.kind != Kind::Tape {
            events.push_back(Event::Damage(Damage::new(0, "the first header is missing or wrong")));
        }
        if header.kind != Kind::Tape {
            reader.ahead = Some((header, at));
        }
        reader.events = events;
        Ok(reader)
    }

    /// Returns what all headers of the stream say alike.
    pub const fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Returns the form of the stream.
    pub const fn form(&self) -> Form {
        self.form
    }

    /// Returns the byte order of the stream, also of its directories and extended attributes.
    pub const fn endian(&self) -> Endian {
        self.endian
    }

    /// Returns what comes next, after the rest of the file that is being read.
    ///
    /// # Errors
    /// Those of reading.
    pub fn next_event(&mut self) -> Result<Event> {
        self.close_file()?;
        if let Some(event) = self.events.pop_front() {
            return Ok(event);
        }
        if self.has_ended {
            return Ok(Event::End);
        }
        let Some((header, record)) = self.header()? else {
            self.has_ended = true;
            let what = "the stream ends here, without the record that ends a dump";
            self.events.push_back(Event::Damage(Damage::new(self.at, what)));
            return self.next_event();
        };
        match header.kind {
            Kind::Clri | Kind::Bits => {
                let map = self.map(&header, record)?;
                let event = if header.kind == Kind::Clri { Event::InUse(map) } else { Event::InDump(map) };
                self.events.push_back(event);
            }
            // What was damaged before it comes first: the data can be read only after the event.
            Kind::Inode if !self.events.is_empty() => self.ahead = Some((header, record)),
            Kind::Inode => return Ok(self.open_file(header, record)),
            Kind::Addr => {
                let what = format!("more of inode {}, without its beginning", header.ino);
                self.events.push_back(Event::Damage(Damage::new(record, what)));
                self.skip(&header, 0)?;
            }
            Kind::End => self.has_ended = true,
            Kind::Tape => {
                let what = "a volume begins in the middle of another";
                self.events.push_back(Event::Damage(Damage::new(record, what)));
            }
        }
        self.next_event()
    }

    /// Reads the next piece of the data of the file into the front of `buffer`, which has room for
    /// a record at least. Returns none at the end, or where the rest is missing: then
    /// [`Self::is_cut`].
    ///
    /// # Errors
    /// Those of reading.
    pub fn data(&mut self, buffer: &mut [u8]) -> Result<Option<Piece>> {
        let mut piece = Piece { at: 0, len: 0 };
        while let Some(open) = self.open.as_ref().filter(|open| open.at < open.size && !open.is_cut) {
            let (at, size) = (open.at, open.size);
            if piece.len > 0 && (buffer.len() - piece.len < RECORD || at != piece.at + piece.len as u64) {
                break;
            }
            let Some(is_present) = self.place()? else { break };
            if !is_present {
                self.pass(RECORD as u64);
                continue;
            }
            let mut record = [0; RECORD];
            if !self.data_record(&mut record)? {
                break;
            }
            if piece.len == 0 {
                piece.at = at;
            }
            let len = usize::try_from(size - at).unwrap_or(RECORD).min(RECORD);
            buffer[piece.len..piece.len + len].copy_from_slice(&record[..len]);
            piece.len += len;
            self.pass(RECORD as u64);
        }
        Ok((piece.len > 0).then_some(piece))
    }

    /// Reads the extended attributes behind the data of the file, as they stand in the stream.
    /// Passes over data that has not been read.
    ///
    /// # Errors
    /// Those of reading.
    pub fn attributes(&mut self) -> Result<Vec<u8>> {
        let mut buffer = [0; RECORD];
        while self.data(&mut buffer)?.is_some() {}
        let mut bytes = Vec::new();
        while self.open.as_ref().is_some_and(|open| open.attributes > 0 && !open.is_cut) {
            let Some(is_present) = self.place()? else { break };
            let mut record = [0; RECORD];
            if is_present && !self.data_record(&mut record)? {
                break;
            }
            let Some(open) = &mut self.open else { break };
            open.passed += 1;
            let len = (open.attributes as usize).min(RECORD);
            open.attributes -= u32::try_from(len).unwrap_or(0);
            bytes.extend_from_slice(&record[..len]);
        }
        Ok(bytes)
    }

    /// Returns true if the file that is being read ends before it should.
    pub fn is_cut(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_cut)
    }

    /// Returns how many bytes of the data of the file have come so far, holes included.
    pub fn data_passed(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.at.min(open.size))
    }

    fn pass(&mut self, bytes: u64) {
        if let Some(open) = &mut self.open {
            open.passed += 1;
            open.at = open.at.saturating_add(bytes);
        }
    }

    /// Returns whether the next record of the file is in the stream; none if the file is cut. Goes
    /// on to its next header where that is needed.
    fn place(&mut self) -> Result<Option<bool>> {
        loop {
            let Some(open) = &self.open else { return Ok(None) };
            if open.passed < open.header.count as usize {
                return Ok(Some(open.header.present[open.passed] != 0));
            }
            let ino = open.header.ino;
            match self.header()? {
                Some((header, _)) if header.kind == Kind::Addr && header.ino == ino => {
                    if let Some(open) = &mut self.open {
                        (open.header, open.passed) = (header, 0);
                    }
                }
                other => {
                    self.ahead = other;
                    self.cut(ino);
                    return Ok(None);
                }
            }
        }
    }

    /// Notes that the file is cut.
    fn cut(&mut self, ino: u32) {
        let what = format!("inode {ino} ends before its size");
        self.events.push_back(Event::Damage(Damage::new(self.at, what)));
        if let Some(open) = &mut self.open {
            open.is_cut = true;
        }
    }

    /// Reads a record of data of the file. Returns false if there is none: the stream ends, or
    /// records are missing.
    fn data_record(&mut self, record: &mut [u8; RECORD]) -> Result<bool> {
        let ino = self.open.as_ref().map_or(0, |open| open.header.ino);
        let is_data = self.data_of(record)?;
        if !is_data {
            self.cut(ino);
        }
        Ok(is_data)
    }

    /// Reads a record that should be data. Returns false if it is a header of the stream, which is
    /// then read next, or if the stream ends.
    fn data_of(&mut self, record: &mut [u8; RECORD]) -> Result<bool> {
        if self.ahead.is_some() || !self.read_record(record)? {
            return Ok(false);
        }
        if let Record::Header(header, _) = Record::of(record, Some((self.endian, self.form)))
            && header.stamp == self.stamp
        {
            self.check_number(&header, self.at - 1);
            self.ahead = Some((header, self.at - 1));
            return Ok(false);
        }
        Ok(!std::mem::take(&mut self.is_broken))
    }

    /// Returns the next header of the stream and the number of its record; none at the end.
    fn header(&mut self) -> Result<Option<(Box<Header>, u64)>> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(Some(ahead));
        }
        let mut record = [0; RECORD];
        let mut is_lost = false;
        while self.read_record(&mut record)? {
            let at = self.at - 1;
            self.is_broken = false;
            let what = match Record::of(&record, Some((self.endian, self.form))) {
                Record::Header(header, _) if header.stamp == self.stamp => {
                    self.check_number(&header, at);
                    return Ok(Some((header, at)));
                }
                Record::Header(..) => "a header of another dump".to_owned(),
                Record::Wrong(what) => what,
                Record::Refused(why) => why.to_owned(),
                Record::Other => "no header where one should be".to_owned(),
            };
            if !is_lost {
                is_lost = true;
                let after = self.last.map_or(String::new(), |last| format!(", after inode {last}"));
                let what = format!("{what}{after}; what follows is skipped up to the next header");
                self.events.push_back(Event::Damage(Damage::new(at, what)));
            }
        }
        Ok(None)
    }

    /// Reads the next record behind the header of a volume, from the next volume where one ends.
    /// Returns false at the end of the last one.
    fn read_record(&mut self, record: &mut [u8; RECORD]) -> Result<bool> {
        while !read_record(&mut self.input, record)? {
            if !self.change_volume()? {
                return Ok(false);
            }
        }
        self.at += 1;
        Ok(true)
    }

    /// Opens the next volume, and passes over its header and what the one before has had already.
    /// Returns false if there is none.
    fn change_volume(&mut self) -> Result<bool> {
        let number = self.volume + 1;
        let Some(input) = self.more.as_mut().map_or(Ok(None), |more| more(number))? else {
            self.more = None;
            return Ok(false);
        };
        self.input = input;
        let mut record = [0; RECORD];
        let is_whole = read_record(&mut self.input, &mut record)?;
        let header = match Record::of(&record, Some((self.endian, self.form))) {
            Record::Header(header, _) if header.kind == Kind::Tape && header.stamp == self.stamp => header,
            // Who it belongs to is in doubt, and what follows shows it.
            Record::Wrong(what) if is_whole => {
                let what = format!("volume {number} begins with a damaged header: {what}");
                self.events.push_back(Event::Damage(Damage::new(self.at, what)));
                (self.volume, self.is_counted_unknown) = (number, true);
                self.at += 1;
                return Ok(true);
            }
            _ => {
                return Err(Error::Refused(format!("what was given as volume {number} is not of this dump")));
            }
        };
        if header.volume < number {
            let what = format!("volume {} was given in place of volume {number}", header.volume);
            return Err(Error::Refused(what));
        }
        if header.volume > number {
            let what = format!("volume {number} is missing: volume {} was given", header.volume);
            self.events.push_back(Event::Damage(Damage::new(self.at, what)));
        }
        self.volume = header.volume;
        let at = self.at;
        self.at += 1;
        let place = i64::try_from(at).unwrap_or(i64::MAX);
        let expected = self.shift.map(|shift| place.saturating_add(shift));
        match expected.map_or(0, |expected| header.record.saturating_sub(expected)) {
            missing @ 1.. => {
                let what = format!("{missing} records are missing before volume {}", header.volume);
                self.events.push_back(Event::Damage(Damage::new(at, what)));
                self.shift = Some(header.record.wrapping_sub(place));
                self.pass_to_header(&header)?;
                (self.is_counted_unknown, self.is_broken) = (true, true);
            }
            0 => self.is_counted_unknown = true,
            repeated => {
                // Then the header has not counted.
                self.shift = Some(header.record.wrapping_sub(place).wrapping_sub(1));
                for _ in repeated..0 {
                    if !read_record(&mut self.input, &mut record)? {
                        break;
                    }
                    self.at += 1;
                }
            }
        }
        Ok(true)
    }

    /// Passes over what a volume has of a file whose beginning is missing.
    fn pass_to_header(&mut self, volume: &Header) -> Result<()> {
        let mut record = [0; RECORD];
        for _ in 0..volume.count {
            if !read_record(&mut self.input, &mut record)? {
                break;
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Compares the number in a header with its place.
    fn check_number(&mut self, header: &Header, at: u64) {
        let place = i64::try_from(at).unwrap_or(i64::MAX);
        let shift = header.record.wrapping_sub(place);
        let known = self.shift.replace(shift);
        let is_uncounted = std::mem::take(&mut self.is_counted_unknown)
            && known.is_some_and(|known| known.wrapping_sub(1) == shift);
        if !is_uncounted && known.is_some_and(|known| known != shift) {
            let what = format!(
                "the header has the number {}: records before it are missing, or were added",
                header.record
            );
            self.events.push_back(Event::Damage(Damage::new(at, what)));
        }
    }

    /// Reads the map behind a header.
    fn map(&mut self, header: &Header, at: u64) -> Result<InodeMap> {
        let mut bytes = Vec::new();
        let mut record = [0; RECORD];
        for _ in 0..header.count {
            if !self.data_of(&mut record)? {
                self.events.push_back(Event::Damage(Damage::new(at, "a map of inodes that is cut")));
                break;
            }
            bytes.extend_from_slice(&record);
        }
        Ok(InodeMap::from_bytes(bytes))
    }

    /// Begins to read a file.
    fn open_file(&mut self, header: Box<Header>, record: u64) -> Event {
        let (ino, inode) = (header.ino, header.inode.clone());
        let body = if header.is_attributes {
            Body::Attributes
        } else if header.metadata_only {
            Body::Nothing
        } else {
            Body::Data
        };
        let has_data =
            matches!(inode.kind(), Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink));
        let size = match body {
            Body::Data if has_data => inode.size,
            Body::Data | Body::Nothing => 0,
            Body::Attributes => inode.size.min(u64::from(header.count) * RECORD as u64),
        };
        let attributes = if body == Body::Data { inode.extsize } else { 0 };
        self.last = Some(ino);
        self.open = Some(Open { header, passed: 0, size, at: 0, attributes, is_cut: false });
        Event::File { ino, inode, record, body }
    }

    /// Passes over what is left of the file.
    fn close_file(&mut self) -> Result<()> {
        if self.open.is_none() {
            return Ok(());
        }
        self.attributes()?;
        let Some(open) = self.open.take() else { return Ok(()) };
        if open.is_cut {
            return Ok(());
        }
        let mut header = open.header;
        self.skip(&header, open.passed)?;
        // The last blocks of UFS1 may reach beyond the size, and be announced by another header.
        loop {
            let next = self.header()?;
            match next {
                Some((next, _)) if next.kind == Kind::Addr && next.ino == header.ino => {
                    self.skip(&next, 0)?;
                    header = next;
                }
                other => {
                    self.ahead = other;
                    return Ok(());
                }
            }
        }
    }

    /// Passes over the records of a header from one of them.
    fn skip(&mut self, header: &Header, from: usize) -> Result<()> {
        let mut record = [0; RECORD];
        let rest = header.present.iter().take(header.count as usize).skip(from);
        for _ in rest.filter(|present| **present != 0) {
            if !self.data_of(&mut record)? {
                break;
            }
        }
        Ok(())
    }
}
