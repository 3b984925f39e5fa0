//! One stream, read as far as its directories go.

use super::content::{Found, attributes};
use crate::error::{Context, Error, Result};
use crate::text::quoted;
use spindle_dump::directory::{self, Entry};
use spindle_dump::{Body, Event, Inode, InodeMap, More, Reader, Stamp};
use spindle_vfs::FileKind;
use std::collections::{BTreeMap, HashSet};
use std::io::Read;

/// Is called with each thing that is damaged or missing.
pub type Report<'r> = &'r dyn Fn(Error);

/// Bytes of a directory that are read at a time, a multiple of its longest chunk.
const PIECE: usize = 1 << 16;

/// What opens the volume of a dump with a number, from 2; none if there is no other.
pub type MoreVolumes<'a> = More<'a, Box<dyn Read + 'a>>;

/// A directory in a stream.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) inode: Inode,
    /// Its names, without `.` and `..`.
    pub(super) entries: Vec<Entry>,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A file in a stream whose data come next.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) ino: u32,
    pub(super) inode: Inode,
    pub(super) body: Body,
}

/// A stream whose directories have been read. Its other files come next.
pub struct Stream<'a> {
    pub(super) name: String,
    pub(super) reader: Reader<'a, Box<dyn Read + 'a>>,
    /// Inodes that were in use; none if the stream does not say it.
    pub(super) in_use: Option<InodeMap>,
    /// Inodes that are in the stream; none if it does not say it.
    pub(super) in_dump: Option<InodeMap>,
    pub(super) directories: BTreeMap<u32, Directory>,
    /// The first file that is no directory.
    pub(super) next: Option<Next>,
}

impl<'a> Stream<'a> {
    /// Opens a stream, which messages call `name`, and reads its directories. `input` is its first
    /// volume; `more` opens the others, if it may have some.
    ///
    /// # Errors
    /// If it is no dump that can be read; those of `input` and `more`.
    pub fn open(
        name: &str,
        input: impl Read + 'a,
        more: Option<MoreVolumes<'a>>,
        report: Report<'_>,
    ) -> Result<Self> {
        let input: Box<dyn Read + 'a> = Box::new(input);
        let mut stream = Self {
            name: name.to_owned(),
            reader: Reader::new(input, more).context(name)?,
            in_use: None,
            in_dump: None,
            directories: BTreeMap::new(),
            next: None,
        };
        stream.read_directories(report).context(name)?;
        for (map, what) in [(&stream.in_use, "in use"), (&stream.in_dump, "in the dump")] {
            if map.is_none() {
                stream.say(report, Error::new(format!("the map of the inodes {what} is missing")));
            }
        }
        Ok(stream)
    }

    /// Returns what the stream says of itself.
    #[must_use]
    pub const fn stamp(&self) -> &Stamp {
        self.reader.stamp()
    }

    /// Reports something of this stream.
    pub(super) fn say(&self, report: Report<'_>, error: Error) {
        report(error.within(&self.name));
    }

    /// Returns true if the inode is in the stream, as far as it says so.
    pub(super) fn has(&self, ino: u32) -> bool {
        self.directories.contains_key(&ino) || self.in_dump.as_ref().is_some_and(|map| map.contains(ino))
    }

    /// Returns true if the inode was in use at the time of the stream, as far as it says so.
    pub(super) fn was_in_use(&self, ino: u32) -> bool {
        self.has(ino) || self.in_use.as_ref().is_none_or(|map| map.contains(ino))
    }

    fn read_directories(&mut self, report: Report<'_>) -> Result<()> {
        let mut last = None;
        loop {
            match self.reader.next_event()? {
                Event::InUse(map) => self.in_use = Some(map),
                Event::InDump(map) => self.in_dump = Some(map),
                Event::Damage(damage) => self.say(report, Error::new(damage.to_string())),
                Event::End => return Ok(()),
                // What Linux puts behind a directory.
                Event::File { ino, body: Body::Attributes, .. } if last == Some(ino) => {
                    let found = attributes(&mut self.reader, Body::Attributes);
                    let xattrs = self.unless_damaged(report, ino, found)?;
                    if let Some(directory) = self.directories.get_mut(&ino) {
                        directory.xattrs.extend(xattrs);
                    }
                }
                Event::File { ino, inode, body: Body::Data, record }
                    if inode.kind() == Some(FileKind::Directory) =>
                {
                    last = Some(ino);
                    let directory = self.directory(ino, inode, record, report)?;
                    if self.directories.insert(ino, directory).is_some() {
                        self.say(report, Error::new(format!("record {record}: directory {ino} comes again")));
                    }
                }
                Event::File { ino, inode, body, .. } => {
                    self.next = Some(Next { ino, inode, body });
                    return Ok(());
                }
            }
        }
    }

    /// Returns extended attributes as far as they were read, and reports what is wrong with them.
    fn unless_damaged(
        &self,
        report: Report<'_>,
        ino: u32,
        found: Result<Found>,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let (xattrs, wrong) = found?;
        if let Some(wrong) = wrong {
            self.say(report, Error::new(format!("extended attributes of directory {ino}: {wrong}")));
        }
        Ok(xattrs)
    }

    /// Reads a directory.
    fn directory(&mut self, ino: u32, inode: Inode, record: u64, report: Report<'_>) -> Result<Directory> {
        let (endian, form) = (self.reader.endian(), self.reader.form());
        let (mut entries, mut damages) = (Vec::new(), Vec::new());
        let mut buffer = vec![0; PIECE];
        while let Some(piece) = self.reader.data(&mut buffer)? {
            let mut damage =
                |at: usize, what: String| damages.push(format!("byte {}: {what}", piece.at + at as u64));
            let mut entry = |entry| entries.push(entry);
            directory::decode(&buffer[..piece.len], endian, form, &mut entry, &mut damage);
        }
        let found = attributes(&mut self.reader, Body::Data);
        let xattrs = self.unless_damaged(report, ino, found)?;
        let itself = entries.iter().find(|entry| entry.name == b".").map(|entry| entry.ino);
        match itself {
            Some(itself) if itself == ino => {}
            Some(itself) => damages.push(format!("it says that it is inode {itself}")),
            None => damages.push("it has no name for itself".into()),
        }
        for damage in damages {
            let what = format!("directory {ino}, record {record}: {damage}");
            self.say(report, Error::new(what));
        }
        entries.retain(|entry| entry.name != b"." && entry.name != b"..");
        let mut seen = HashSet::new();
        let mut doubles = Vec::new();
        entries.retain(|entry| {
            let is_new = seen.insert(entry.name.clone());
            if !is_new {
                doubles.push(quoted(&entry.name));
            }
            is_new
        });
        for name in doubles {
            self.say(
                report,
                Error::new(format!("directory {ino}, record {record}: has the name {name} twice")),
            );
        }
        Ok(Directory { inode, entries, xattrs })
    }
}
