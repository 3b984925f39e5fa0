//! Turns events into accesses of blocks.
//!
//! Each run is *billed* at the event that ends it, as in the paper (section 3): what happened
//! between two events of an open file counts as of the second one. The bytes of the run are divided
//! into blocks of the cache's size, with one access for each, as if programs requested one block at
//! a time (6.1). The rules, including those that the paper leaves open:
//!
//! - *Read*: the block is read from the disk if it is not in the cache (6.1).
//! - *Write*: the old block is read first if it is not in the cache, "unless the block was about to
//!   be overwritten in its entirety" (6.1). The paper does not define this for the last block of a
//!   file; here it means all bytes of the block that the file has. So a new file, or a block beyond
//!   the old end, needs no read, but an append within the last block does if that is no longer in
//!   the cache.
//! - *Deletion* (6.2): the blocks of a file leave the cache, and unwritten ones are never written,
//!   in these cases: when the last name is removed (`unlink` with `last`, also of a file replaced
//!   by a rename) and the file is not open, otherwise at its close; when `open` truncates it
//!   (`truncated`); when a file is created under an id that had other data. `truncate` deletes the
//!   blocks wholly beyond the new end; the block that contains the end stays, without an access,
//!   because the paper does not mention it.
//! - *Sync*, which the paper does not have: `fsync` writes what is modified of the whole file, by
//!   whatever open; `sync` and `syncfs` what is modified of all files, or those of a file system.
//! - *Size of a file*: the size in `open`, `close` and `truncate` events, extended by writes and
//!   reads. A file accessed without any of these events (a disk) has no end: all its blocks exist.
//!   Bytes that `truncate` adds are a hole, which needs no read.
//! - *Programs* (6.4, figure 7), on request: `exec` reads the whole file.
//! - *Mapped files* count only on request ([`Extras::mapped`]): a trace has the bytes that were
//!   mapped, and not those that were touched, which may be none.
//! - Directories are ignored, as in the paper (3.2). Direct accesses count like others.
//!
//! Time never decreases: an event that is out of order counts as of the latest time seen.

use super::files::{Files, MAX_BLOCKS};
use spindle_trace::{Error, Event, FileId, Flags, Kind, Result};

/// An operation on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The block is read.
    Read,
    /// A part of the block is written; the pending must be read first.
    Modify,
    /// All bytes that the file has in the block are written.
    Overwrite,
    /// The data is deleted. This does not count as an access.
    Delete,
    /// The block is written to the disk if it is modified. This does not count as an access.
    Sync,
}

/// An access to a block, its deletion, or its sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Time in nanoseconds since 1970; never decreases.
    pub time: i64,
    /// Number of the block. Numbers are dense, and are reused after [`Op::Delete`].
    pub block: u32,
    /// The operation.
    pub op: Op,
}

/// What counts besides the calls that read and write. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extras {
    /// Program loads count as reads of whole files (figure 7).
    pub programs: bool,
    /// Files mapped into memory count as read, or written, in the whole range that was mapped: an
    /// upper bound.
    pub mapped: bool,
}

/// Number of accesses made before a cache processes them; limits the memory used between them.
const CHUNK: usize = 1 << 16;
/// Maximum length of a run in bytes, so that a hostile trace cannot cause endless work.
const MAX_RUN: u64 = 1 << 44;

/// The unfinished part of a run.
struct PendingRun {
    file: FileId,
    /// First byte of the whole run, and the byte after its last.
    from: u64,
    to: u64,
    write: bool,
    /// End of the file when the run began.
    end: u64,
    /// Blocks still to access.
    blocks: std::ops::Range<u64>,
    /// The event, for what follows the run.
    event: Event,
}

/// Turns events into accesses of blocks of one size.
pub struct Blocks {
    block: u64,
    extras: Extras,
    files: Files,
    pending: Option<PendingRun>,
    start: Option<i64>,
    now: i64,
    events: u64,
    unknown_programs: u64,
    mapped_bytes: u64,
}

impl Blocks {
    /// Returns a converter to blocks of `block` bytes.
    ///
    /// # Panics
    /// If `block` is 0.
    #[must_use]
    pub fn new(block: u32, extras: Extras) -> Self {
        assert!(block > 0, "the block size is above 0");
        let (files, pending) = (Files::default(), None);
        Self {
            block: block.into(),
            extras,
            files,
            pending,
            start: None,
            now: i64::MIN,
            events: 0,
            unknown_programs: 0,
            mapped_bytes: 0,
        }
    }

    /// Returns the time of the first event, from which the intervals of flushes count.
    #[must_use]
    pub const fn start(&self) -> Option<i64> {
        self.start
    }

    /// Returns the maximum number of blocks that held data at the same time: the largest useful
    /// cache size.
    #[must_use]
    pub const fn footprint(&self) -> u64 {
        self.files.most()
    }

    /// Returns the number of program loads that are not counted because the trace does not identify
    /// the file.
    #[must_use]
    pub const fn unknown_programs(&self) -> u64 {
        self.unknown_programs
    }

    /// Returns the bytes that were mapped into memory and are not counted.
    #[must_use]
    pub const fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes
    }

    /// Returns true if no run is unfinished.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.pending.is_none()
    }

    /// Replaces `accesses` with those of `events` from `*at` on, and advances `*at` past the
    /// processed events. Stops after some tens of thousands of accesses; returns none once all
    /// events are processed.
    ///
    /// # Errors
    /// [`Error::Refused`] for a run longer than any file, and if more than 2^30 blocks hold data at
    /// once.
    pub fn fill(&mut self, events: &[Event], at: &mut usize, accesses: &mut Vec<Access>) -> Result<()> {
        accesses.clear();
        while accesses.len() < CHUNK {
            if self.pending.is_some() {
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

    /// Processes what an event does before its run, and begins the run.
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
                (file.end, file.opens, file.unlinked) = (0, 1, event.flags.has(Flags::UNNAMED));
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
                    file.set_size(event.size);
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
                    file.unlinked = true;
                    if file.opens == 0 {
                        self.delete(event.file, 0, accesses);
                    }
                }
            }
            Kind::Run if event.flags.has(Flags::MAPPED) && !self.extras.mapped => {
                self.mapped_bytes = self.mapped_bytes.saturating_add(event.bytes());
                return Ok(());
            }
            Kind::Close | Kind::Seek | Kind::Run => {
                let write = event.written > 0;
                return self.run(event, event.position..event.end(), write, accesses);
            }
            Kind::Exec if self.extras.programs => {
                if event.file == FileId::default() {
                    self.unknown_programs += 1;
                } else {
                    return self.run(event, 0..event.size, false, accesses);
                }
            }
            Kind::Sync => {
                let time = self.now;
                let blocks = if event.is_sync_of_all() {
                    self.files.sync_all(event.file.device)
                } else {
                    self.files
                        .known(event.file)
                        .map(|file| std::mem::take(&mut file.unsynced))
                        .unwrap_or_default()
                };
                accesses.extend(blocks.into_iter().map(|block| Access { time, block, op: Op::Sync }));
                return Ok(());
            }
            // The others move no data and delete none.
            _ => return Ok(()),
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
        if to - from > MAX_RUN {
            let what = format!("event {}: a run of {} bytes is longer than any file", self.events, to - from);
            return Err(Error::Refused(what));
        }
        if from == to {
            self.after_run(event, accesses);
            return Ok(());
        }
        let blocks = from / self.block..(to - 1) / self.block + 1;
        if blocks.end - blocks.start > u64::from(MAX_BLOCKS) {
            return Err(self.too_many_blocks());
        }
        let file = self.files.file(event.file);
        if !write {
            // Bytes that were read exist, whatever size was reported.
            file.end = file.end.max(to);
        }
        let end = file.end;
        self.pending = Some(PendingRun { file: event.file, from, to, write, end, blocks, event: *event });
        self.proceed(accesses)
    }

    /// Makes the next accesses of a run, and at its end processes the pending of the event.
    fn proceed(&mut self, accesses: &mut Vec<Access>) -> Result<()> {
        let Some(mut pending) = self.pending.take() else { return Ok(()) };
        let (time, size) = (self.now, self.block);
        let stop = pending.blocks.end.min(pending.blocks.start + CHUNK as u64);
        let mut written = Vec::new();
        let numbered = self.files.visit(pending.file, pending.blocks.start..stop, |index, block| {
            if pending.write {
                written.push(block);
            }
            let (start, end) = (index * size, (index + 1).saturating_mul(size).min(pending.end));
            let keeps = start < pending.from.min(end) || pending.to < end;
            let op = match (pending.write, keeps) {
                (false, _) => Op::Read,
                (true, true) => Op::Modify,
                (true, false) => Op::Overwrite,
            };
            accesses.push(Access { time, block, op });
        });
        if !numbered {
            return Err(self.too_many_blocks());
        }
        self.files.file(pending.file).unsynced.extend(written);
        pending.blocks.start = stop;
        if !pending.blocks.is_empty() {
            self.pending = Some(pending);
            return Ok(());
        }
        if pending.write {
            let file = self.files.file(pending.file);
            file.end = file.end.max(pending.to);
        }
        self.after_run(&pending.event, accesses);
        Ok(())
    }

    fn too_many_blocks(&self) -> Error {
        let what = format!("event {}: more than a billion blocks at once; use larger blocks", self.events);
        Error::Refused(what)
    }

    /// Processes what a close does after its run.
    fn after_run(&mut self, event: &Event, accesses: &mut Vec<Access>) {
        if event.kind != Kind::Close {
            return;
        }
        let Some(file) = self.files.known(event.file) else { return };
        file.opens = file.opens.saturating_sub(1);
        if event.flags.has(Flags::LAST) || (file.unlinked && file.opens == 0) {
            self.delete(event.file, 0, accesses);
        } else {
            file.set_size(event.size);
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
