//! From events to accesses of blocks.
//!
//! Each run is *billed* at the event that ends it, as the paper does it (section 3): what happened
//! between two events of an open file is taken to have happened at the second. The bytes of the run
//! are divided into blocks of the cache's size, one access for each, as if programs asked for a
//! block at a time (6.1). The rules, and where the paper is silent:
//!
//! - *Read*: the block must come from the disk if it is not in the cache (6.1).
//! - *Write*: the old block must be read first if it is not in the cache, "unless the block was
//!   about to be overwritten in its entirety" (6.1). What the entirety of a short file's block is
//!   the paper leaves open; here: all bytes of it that the file has. So a new file, or a block
//!   behind the old end, needs no read, and an append within the last block does if that is not in
//!   the cache any more.
//! - *Deletion* (6.2): blocks of a file leave the cache, and what was not written never will be,
//!   when the last name goes (`unlink` with `last`, also of a file replaced by a rename) and nobody
//!   has it open, otherwise at the close; when `open` cuts it (`truncated`); when a file is created
//!   under an id that had another's data. `truncate` deletes blocks that lie wholly behind the new
//!   end; the one that the end is in stays as it is, without an access: the paper says nothing of
//!   it.
//! - *Size of a file*: what `open`, `close` and `truncate` say, and what is written and read. A
//!   file that is accessed without one of them (a disk) has no end: all its blocks exist. What
//!   `truncate` adds is a hole, which needs no read.
//! - *Programs* (6.4, figure 7), if asked for: `exec` reads the whole file.
//! - Directories are left out, as in the paper (3.2). Accesses through memory and past the system's
//!   cache count like others.
//!
//! Time never goes back: an event that is out of order counts as of the latest time seen.

use super::files::Files;
use crate::{Error, Event, FileId, Flags, Kind, Result};

/// What is done to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// It is read.
    Read,
    /// A part of it is written; the rest must be there.
    Modify,
    /// All that counts of it is written.
    Overwrite,
    /// Its data is deleted. This is no access.
    Delete,
}

/// An access of a block, or its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Nanoseconds since 1970; never less than before.
    pub time: i64,
    /// The block's number, dense; after [`Op::Delete`] it may stand for another block.
    pub block: u32,
    /// What is done.
    pub op: Op,
}

/// Accesses that are made before a cache gets to see them: what bounds the memory between the two.
const CHUNK: usize = 1 << 16;
/// The longest run that can be meant, in bytes: a hostile trace may not keep us busy for ever.
const LONGEST: u64 = 1 << 44;

/// What is left of a run.
struct Rest {
    file: FileId,
    /// Bytes, of the whole run.
    from: u64,
    to: u64,
    write: bool,
    /// The file's end when the run began.
    end: u64,
    /// Blocks that are still to come.
    blocks: std::ops::Range<u64>,
    /// What follows it.
    event: Event,
}

/// Turns events into accesses of blocks of one size.
pub struct Blocks {
    block: u64,
    programs: bool,
    files: Files,
    rest: Option<Rest>,
    start: Option<i64>,
    now: i64,
    events: u64,
    unknown_programs: u64,
}

impl Blocks {
    /// For blocks of `block` bytes; program loads count as whole-file reads if `programs`.
    ///
    /// # Panics
    /// If `block` is 0.
    #[must_use]
    pub fn new(block: u32, programs: bool) -> Self {
        assert!(block > 0, "blocks have bytes");
        let (files, rest) = (Files::default(), None);
        Self {
            block: block.into(),
            programs,
            files,
            rest,
            start: None,
            now: i64::MIN,
            events: 0,
            unknown_programs: 0,
        }
    }

    /// Returns the time of the first event: where the intervals of a flush begin.
    #[must_use]
    pub const fn start(&self) -> Option<i64> {
        self.start
    }

    /// Most blocks that held data of the trace at the same time: what the largest sensible cache
    /// holds.
    #[must_use]
    pub const fn footprint(&self) -> u64 {
        self.files.most()
    }

    /// Program loads that could not be counted because the trace does not say which file was
    /// loaded.
    #[must_use]
    pub const fn unknown_programs(&self) -> u64 {
        self.unknown_programs
    }

    /// Returns true if no run is half done.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.rest.is_none()
    }

    /// Replaces `accesses` by those of `events` from `*at` on, and moves `*at` behind the events
    /// that are done. It stops when there are some tens of thousands; a call with all events done
    /// and nothing left gives none.
    ///
    /// # Errors
    /// [`Error::Refused`] for a run that no file can have, and when more than 2^30 blocks hold data
    /// at once.
    pub fn fill(&mut self, events: &[Event], at: &mut usize, accesses: &mut Vec<Access>) -> Result<()> {
        accesses.clear();
        while accesses.len() < CHUNK {
            if self.rest.is_some() {
                self.proceed(accesses)?;
            } else if let Some(event) = events.get(*at) {
                *at += 1;
                self.events += 1;
                self.begin(event, accesses)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// What an event does before its run, and the run.
    fn begin(&mut self, event: &Event, accesses: &mut Vec<Access>) -> Result<()> {
        self.start.get_or_insert(event.time);
        self.now = self.now.max(event.time);
        if event.flags.has(Flags::DIRECTORY) {
            return Ok(());
        }
        match event.kind {
            Kind::Create => {
                self.delete(event.file, 0, accesses);
                let file = self.files.file(event.file);
                (file.end, file.opens, file.nameless) = (0, 1, event.flags.has(Flags::NAMELESS));
            }
            Kind::Open => {
                let cut = event.flags.has(Flags::TRUNCATED);
                if cut {
                    self.delete(event.file, 0, accesses);
                }
                let file = self.files.file(event.file);
                file.opens = file.opens.saturating_add(1);
                if cut {
                    file.end = 0;
                } else {
                    file.has_size(event.size);
                }
                return Ok(());
            }
            Kind::Truncate => {
                self.delete(event.file, event.size.div_ceil(self.block), accesses);
                if let Some(file) = self.files.known(event.file) {
                    file.end = file.end.min(event.size);
                }
            }
            Kind::Unlink if event.flags.has(Flags::LAST) => {
                if let Some(file) = self.files.known(event.file) {
                    file.nameless = true;
                    if file.opens == 0 {
                        self.delete(event.file, 0, accesses);
                    }
                }
            }
            Kind::Close | Kind::Seek | Kind::Run => {
                let write = event.written > 0;
                return self.run(event, event.position..event.end(), write, accesses);
            }
            Kind::Exec if self.programs => {
                if event.file == FileId::default() {
                    self.unknown_programs += 1;
                } else {
                    return self.run(event, 0..event.size, false, accesses);
                }
            }
            Kind::Unlink | Kind::Exec | Kind::Rename | Kind::Mkdir | Kind::Rmdir | Kind::Sync => {
                return Ok(());
            }
        }
        self.files.forget_if_empty(event.file);
        Ok(())
    }

    fn run(
        &mut self,
        event: &Event,
        bytes: std::ops::Range<u64>,
        write: bool,
        accesses: &mut Vec<Access>,
    ) -> Result<()> {
        let (from, to) = (bytes.start, bytes.end);
        if to - from > LONGEST {
            let what =
                format!("event {}: a run of {} bytes is more than any file has", self.events, to - from);
            return Err(Error::Refused(what));
        }
        if from == to {
            self.after(event, accesses);
            return Ok(());
        }
        let blocks = from / self.block..(to - 1) / self.block + 1;
        let file = self.files.file(event.file);
        if !write {
            // What was read exists, whatever was said of the size.
            file.end = file.end.max(to);
        }
        let end = file.end;
        self.rest = Some(Rest { file: event.file, from, to, write, end, blocks, event: *event });
        self.proceed(accesses)
    }

    /// The next accesses of a run, and at its end what the event does behind it.
    fn proceed(&mut self, accesses: &mut Vec<Access>) -> Result<()> {
        let Some(mut rest) = self.rest.take() else { return Ok(()) };
        let (time, size) = (self.now, self.block);
        let stop = rest.blocks.end.min(rest.blocks.start + CHUNK as u64);
        let there = self.files.visit(rest.file, rest.blocks.start..stop, |index, block| {
            let (start, end) = (index * size, (index + 1).saturating_mul(size).min(rest.end));
            let keeps = start < rest.from.min(end) || rest.to < end;
            let op = match (rest.write, keeps) {
                (false, _) => Op::Read,
                (true, true) => Op::Modify,
                (true, false) => Op::Overwrite,
            };
            accesses.push(Access { time, block, op });
        });
        if !there {
            let what = format!("event {}: more than a billion blocks at once: try larger ones", self.events);
            return Err(Error::Refused(what));
        }
        rest.blocks.start = stop;
        if !rest.blocks.is_empty() {
            self.rest = Some(rest);
            return Ok(());
        }
        if rest.write {
            let file = self.files.file(rest.file);
            file.end = file.end.max(rest.to);
        }
        self.after(&rest.event, accesses);
        Ok(())
    }

    /// What a close does behind its run.
    fn after(&mut self, event: &Event, accesses: &mut Vec<Access>) {
        if event.kind != Kind::Close {
            return;
        }
        let Some(file) = self.files.known(event.file) else { return };
        file.opens = file.opens.saturating_sub(1);
        if event.flags.has(Flags::LAST) || (file.nameless && file.opens == 0) {
            self.delete(event.file, 0, accesses);
        } else {
            file.has_size(event.size);
            if file.is_used() {
                return;
            }
        }
        self.files.forget_if_empty(event.file);
    }

    fn delete(&mut self, file: FileId, first: u64, accesses: &mut Vec<Access>) {
        let time = self.now;
        self.files.delete(file, first, |block| accesses.push(Access { time, block, op: Op::Delete }));
    }
}

#[cfg(test)]
mod tests;
