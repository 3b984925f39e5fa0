//! Exports a trace for fio, the I/O tester, which can then repeat its accesses: an iolog of version
//! 3.
//!
//! The one idea: a life of a file is one file of fio's, with a number for its name, because a log
//! can neither rename nor remove one. It is open in fio while anything has it open in the trace. A
//! run becomes as many requests as it had calls, at the time when it ended; what was only mapped
//! becomes none. Memory holds the number of each file that exists, and its size.
//!
//! Format: fio's HOWTO, "Trace file format v3", and `iolog.c` of fio 3.33: lines of a time, a file,
//! an action, and for accesses an offset and a length, between single blanks. Times are
//! microseconds; fio waits for the difference of two lines, unless the first of them is at 0. A
//! name has at most 256 bytes.

use crate::{Batch, Error, Event, FileId, Flags, Kind, Result, Source};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Maximum length of the name of a file, in bytes.
const LONGEST_NAME: usize = 255;
/// Maximum length of a request, in bytes: fio has a buffer of the largest one for each request at a
/// time.
const LARGEST: u64 = 64 << 20;
/// Maximum number of requests of a run.
const MOST_REQUESTS: u64 = 1 << 30;

/// What an export has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Number of requests.
    pub requests: u64,
    /// For each file, in the order of their numbers from 1 on, the bytes that it must have for the
    /// requests.
    pub sizes: Vec<u64>,
    /// Bytes of files that were mapped into memory, which make no requests.
    pub mapped: u64,
    /// Number of syncs of all files or of a file that is not open, which a log cannot have.
    pub syncs: u64,
}

/// Returns the name of a file within its directory, by its number.
#[must_use]
pub fn name(number: usize) -> String {
    format!("file-{number}")
}

/// A log that is being written.
struct Log<'a> {
    out: BufWriter<File>,
    path: &'a Path,
    directory: &'a str,
    /// Microseconds, from 1 at the first event.
    now: i64,
    /// By how many opens each file is open, in the order of their numbers.
    held: Vec<u64>,
    /// The index of each file that exists.
    files: HashMap<FileId, usize, RandomState>,
    /// The index of the file of each open.
    opens: HashMap<u64, usize, RandomState>,
    made: Exported,
}

/// Writes the accesses of a trace as an iolog into an empty file, which errors call by its path.
/// fio will find the files in `directory`, an absolute path. Runs whose calls were not counted
/// become requests of `block` bytes. `progress` receives the part that is done, from 0 to 1, if
/// known.
///
/// # Errors
/// Errors of the source; [`Error::Io`]; [`Error::Refused`] if fio cannot read the name of the
/// directory, if `block` is 0 or more than 64 MiB, and for a run of more than a billion requests or
/// beyond the end of any file.
pub fn export(
    source: &mut dyn Source,
    directory: &str,
    block: u64,
    (file, path): (File, &Path),
    mut progress: impl FnMut(Option<f64>),
) -> Result<Exported> {
    if block == 0 || block > LARGEST {
        return Err(Error::Refused(format!(
            "requests of {block} bytes cannot be exported; use 1 to {LARGEST}"
        )));
    }
    if directory.contains(char::is_whitespace) || directory.len() + 1 + name(usize::MAX).len() > LONGEST_NAME
    {
        return Err(Error::Refused(format!(
            "{directory:?}: fio cannot read names that have blanks, or more than {LONGEST_NAME} bytes"
        )));
    }
    let mut log = Log {
        out: BufWriter::with_capacity(1 << 16, file),
        path,
        directory,
        now: 1,
        held: Vec::new(),
        files: HashMap::default(),
        opens: HashMap::default(),
        made: Exported::default(),
    };
    writeln!(log.out, "fio version 3 iolog").map_err(|e| Error::io(path, e))?;
    let (mut start, mut batch) = (None, Batch::default());
    while source.next(&mut batch)? {
        for event in &batch.events {
            let start = *start.get_or_insert(event.time);
            log.now = log.now.max(event.time.saturating_sub(start) / 1000 + 1);
            log.event(event, block)?;
        }
        progress(source.progress());
    }
    log.out.flush().map_err(|e| Error::io(path, e))?;
    Ok(log.made)
}

impl Log<'_> {
    fn line(&mut self, target: usize, action: impl Display) -> Result<()> {
        let (now, name) = (self.now, name(target + 1));
        let written = writeln!(self.out, "{now} {}/{name} {action}", self.directory);
        written.map_err(|e| Error::io(self.path, e))
    }

    /// Returns the index of the file that has these numbers now.
    fn target(&mut self, file: FileId) -> Result<usize> {
        if let Some(&known) = self.files.get(&file) {
            return Ok(known);
        }
        let target = self.held.len();
        self.held.push(0);
        self.made.sizes.push(0);
        self.files.insert(file, target);
        self.line(target, "add")?;
        Ok(target)
    }

    fn open(&mut self, target: usize) -> Result<()> {
        self.held[target] += 1;
        if self.held[target] == 1 { self.line(target, "open") } else { Ok(()) }
    }

    fn close(&mut self, target: usize) -> Result<()> {
        self.held[target] -= 1;
        if self.held[target] == 0 { self.line(target, "close") } else { Ok(()) }
    }

    fn event(&mut self, event: &Event, block: u64) -> Result<()> {
        if event.flags.has(Flags::DIRECTORY) {
            return Ok(());
        }
        match event.kind {
            Kind::Open | Kind::Create => {
                if event.kind == Kind::Create {
                    self.files.remove(&event.file);
                }
                let target = self.target(event.file)?;
                // An open whose close is missing ends here.
                if let Some(lost) = self.opens.insert(event.open, target) {
                    self.close(lost)?;
                }
                self.open(target)?;
            }
            Kind::Close | Kind::Seek | Kind::Run if event.flags.has(Flags::MAPPED) => {
                self.made.mapped = self.made.mapped.saturating_add(event.bytes());
            }
            Kind::Close | Kind::Seek | Kind::Run => self.run(event, block)?,
            Kind::Sync => match self.opens.get(&event.open) {
                Some(&target) => self.line(target, "sync 0 0")?,
                None => self.made.syncs += 1,
            },
            _ => {}
        }
        if event.kind == Kind::Close
            && let Some(target) = self.opens.remove(&event.open)
        {
            self.close(target)?;
        }
        if event.flags.has(Flags::LAST) {
            self.files.remove(&event.file);
        }
        Ok(())
    }

    /// Writes the requests of a run.
    fn run(&mut self, event: &Event, block: u64) -> Result<()> {
        if event.bytes() == 0 {
            return Ok(());
        }
        let each = match u64::from(event.calls) {
            0 => block,
            calls => event.bytes().div_ceil(calls).min(LARGEST),
        };
        let end = event.position.checked_add(event.bytes()).filter(|&end| i64::try_from(end).is_ok());
        let end = end.filter(|_| event.bytes().div_ceil(each) <= MOST_REQUESTS).ok_or_else(|| {
            Error::Refused(format!(
                "a run of {} bytes from {} at {} ns: more than a billion requests, or beyond the end of any file",
                event.bytes(),
                event.position,
                event.time
            ))
        })?;
        let known = self.opens.get(&event.open).copied();
        let target = if let Some(target) = known { target } else { self.target(event.file)? };
        // A disk stays open; what no open has open is open for the run.
        let is_for_run = known.is_none() && event.file.inode != 0;
        if known.is_none() && (is_for_run || self.held[target] == 0) {
            self.open(target)?;
        }
        let action = if event.written > 0 { "write" } else { "read" };
        for position in (event.position..end).step_by(usize::try_from(each).unwrap_or(usize::MAX)) {
            self.line(target, format_args!("{action} {position} {}", each.min(end - position)))?;
            self.made.requests += 1;
        }
        self.made.sizes[target] = self.made.sizes[target].max(end);
        if is_for_run { self.close(target) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
