//! Writing the volumes of a dump.

use crate::error::{Context, Failure, Result};
use crate::outfile::{Kind, Out};
use crate::volumes::{Names, ask};
use rustix::fs::FileType;
use rustix::io::Errno;
use spindle::dump::{BLOCK, Volumes};
use std::collections::HashSet;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A volume that is being written.
struct Current {
    out: Out,
    path: PathBuf,
    writer: Box<dyn Write>,
    kind: FileType,
    /// Bytes that it has.
    len: u64,
    /// Bytes that it has room for, as far as this is known.
    room: Option<u64>,
}

/// The files that a dump is written to. Those that have names of their own get these when the dump
/// is complete.
pub struct Files<'a> {
    names: &'a Names,
    force: bool,
    /// Bytes of each volume at most.
    room: Option<u64>,
    /// A volume that is full is followed by another one.
    changes: bool,
    current: Option<Current>,
    complete: Vec<Out>,
    /// The files that are volumes, by device and number, and by the places that they will have.
    taken: HashSet<(u64, u64)>,
    places: HashSet<PathBuf>,
    failed: Option<Failure>,
}

impl<'a> Files<'a> {
    /// Opens the first volume. `room` is the number of bytes of each, if it is limited; where
    /// `changes` is not set, there is one only.
    pub fn new(names: &'a Names, force: bool, room: Option<u64>, changes: bool) -> Result<Self> {
        let mut files = Self {
            names,
            force,
            room,
            changes,
            current: None,
            complete: Vec::new(),
            taken: HashSet::new(),
            places: HashSet::new(),
            failed: None,
        };
        if let Some(first) = names.get(1) {
            files.open(first)?;
        }
        Ok(files)
    }

    /// Opens a volume.
    fn open(&mut self, path: PathBuf) -> Result<()> {
        let place = path.canonicalize().unwrap_or_else(|_| path.clone());
        let is_taken = |files: &Self| {
            let found = path.metadata().ok().filter(std::fs::Metadata::is_file);
            found.is_some_and(|found| files.taken.contains(&(found.dev(), found.ino())))
        };
        if self.places.contains(&place) || is_taken(self) {
            return Err(Failure::new("is a volume of this dump already")).context(path.display());
        }
        let out = Out::create(&path, Kind::Dump, self.force)?;
        let meta = out.file().metadata().context(&out.name)?;
        let kind = FileType::from_raw_mode(meta.mode());
        if kind == FileType::RegularFile {
            self.taken.insert((meta.dev(), meta.ino()));
            self.places.insert(place);
        }
        let device = if kind == FileType::BlockDevice {
            let mut file = out.file();
            let len = file.seek(SeekFrom::End(0)).context(&out.name)?;
            file.seek(SeekFrom::Start(0)).context(&out.name)?;
            Some(len)
        } else {
            None
        };
        let room = self.room.into_iter().chain(device).min();
        let writer = out.writer()?;
        self.current = Some(Current { out, path, writer, kind, len: 0, room });
        Ok(())
    }

    /// Ends the volume that is being written. It gets its name later if `keeps` is set.
    fn close(&mut self, keeps: bool) -> Result<Option<PathBuf>> {
        let Some(Current { out, path, mut writer, kind, .. }) = self.current.take() else { return Ok(None) };
        writer.flush().context(&out.name)?;
        if matches!(kind, FileType::RegularFile | FileType::BlockDevice) {
            // What dumpdates says is durable must be.
            out.file().sync_all().context(&out.name)?;
        }
        if keeps {
            self.complete.push(out);
        } else {
            out.finish()?;
        }
        Ok(Some(path))
    }

    /// Ends the last volume, and gives all of them their names.
    pub fn finish(mut self) -> Result<()> {
        self.close(true)?;
        self.complete.into_iter().try_for_each(Out::finish)
    }

    /// Returns why writing has failed: what was kept of it, or this error with the name of the
    /// volume.
    pub fn failure(&mut self, error: spindle::Error) -> Failure {
        match (self.failed.take(), &self.current) {
            (Some(failed), _) => failed,
            (None, Some(current)) => Err::<(), _>(error).context(&current.out.name).unwrap_err(),
            (None, None) => error.into(),
        }
    }

    fn change_to(&mut self, number: i32) -> Result<()> {
        let next = self.names.get(number);
        let last = self.close(next.is_some())?.unwrap_or_default();
        match next {
            Some(next) => self.open(next),
            None => self.ask_for(number, &last),
        }
    }

    /// Asks for the next volume, which takes the place of the last one.
    fn ask_for(&mut self, number: i32, path: &Path) -> Result<()> {
        let missing = || {
            Failure::new(format!(
                "has no room for more, and there is no name for volume {number}: give one, as -f A,B, or -M"
            ))
        };
        // The place is free for another one as soon as this one is elsewhere.
        self.places.clear();
        loop {
            let question = format!(
                "{}: volume {} is complete; is volume {number} ready in its place? [yn]",
                path.display(),
                number - 1
            );
            match ask(&question).context("standard input")?.as_deref() {
                Some("y" | "yes" | "Y") => match self.open(path.to_owned()) {
                    Ok(()) => return Ok(()),
                    Err(failure) => crate::logger::failure(&failure),
                },
                Some("n" | "no" | "N") => {
                    if matches!(
                        ask("end the dump, which is then useless? [yn]")?.as_deref(),
                        Some("y" | "yes")
                    ) {
                        return Err(missing()).context(path.display());
                    }
                }
                Some(_) => {}
                None => return Err(missing()).context(path.display()),
            }
        }
    }
}

/// Returns true if an error says that a volume has no room.
fn is_full(error: &io::Error) -> bool {
    [Errno::NOSPC, Errno::DQUOT, Errno::FBIG]
        .iter()
        .any(|full| error.raw_os_error() == Some(full.raw_os_error()))
}

impl Volumes for Files<'_> {
    fn write(&mut self, block: &[u8]) -> io::Result<bool> {
        let changes = self.changes;
        let Some(current) = &mut self.current else { return Ok(false) };
        let len = current.len + block.len() as u64;
        if changes && current.room.is_some_and(|room| len > room) {
            return Ok(false);
        }
        let mut done = 0;
        while done < block.len() {
            match current.writer.write(&block[done..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if changes && is_full(&error) && current.kind == FileType::RegularFile => {
                    let mut file = current.out.file();
                    file.set_len(current.len)?;
                    file.seek(SeekFrom::Start(current.len))?;
                    return Ok(false);
                }
                Err(error) if changes && is_full(&error) && done == 0 => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        current.len = len;
        Ok(true)
    }

    fn change(&mut self, number: i32) -> io::Result<()> {
        self.change_to(number).map_err(|failure| {
            self.failed = Some(failure);
            io::Error::other("the next volume cannot be had")
        })
    }
}

/// Returns the bytes of volumes of so many records: whole blocks.
pub fn room(records: u64) -> u64 {
    records.saturating_mul(spindle::dump::RECORD as u64) / BLOCK as u64 * BLOCK as u64
}
