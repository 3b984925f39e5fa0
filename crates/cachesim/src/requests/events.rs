//! Turns the events of a trace of a disk or a cache into requests.

use super::{BATCH, Request, Requests};
use spindle_trace::{Batch, Error, FileId, Kind, Result, Source};
use std::num::NonZeroU64;

/// The unit of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Blocks of this many bytes of a disk. A run makes a request for every block that it touches.
    Bytes(NonZeroU64),
    /// A whole object, whatever its size: one request for each run.
    Object,
}

/// Identifies a block: the disk or object, and the block within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockId {
    /// The disk, or the object of a cache.
    pub file: FileId,
    /// Number of the block from the start; 0 with [`Unit::Object`].
    pub block: u64,
}

/// The requests of events.
#[derive(Debug)]
pub struct Events<S> {
    source: S,
    unit: Unit,
    batch: Batch,
    /// Number of processed events of the batch.
    done: usize,
    /// Blocks of the last event that are still to be requested.
    rest: (FileId, std::ops::Range<u64>),
}

impl<S: Source> Events<S> {
    /// Returns the requests of a trace; needs the columns `kind`, `device`, `inode`, `position`,
    /// `read`, `written` and `flags`.
    pub fn new(source: S, unit: Unit) -> Self {
        Self { source, unit, batch: Batch::default(), done: 0, rest: (FileId::default(), 0..0) }
    }

    /// Processes the next event; returns false if there is none.
    fn advance(&mut self, requests: &mut Vec<Request<BlockId>>) -> Result<bool> {
        if self.done == self.batch.events.len() {
            self.done = 0;
            if !self.source.next(&mut self.batch)? {
                return Ok(false);
            }
        }
        let Some(event) = self.batch.events.get(self.done) else { return Ok(true) };
        self.done += 1;
        match (event.kind, self.unit) {
            (Kind::Run, Unit::Object) => self.rest = (event.file, 0..1),
            (Kind::Run, Unit::Bytes(bytes)) if event.end() > event.position => {
                self.rest = (event.file, event.position / bytes..(event.end() - 1) / bytes + 1);
            }
            (Kind::Run, Unit::Bytes(_)) => {}
            (Kind::Unlink, Unit::Object) if event.open == 0 => {
                requests.push(Request::Deleted(BlockId { file: event.file, block: 0 }));
            }
            (kind, _) => {
                let (kind, time) = (kind.name(), event.time);
                return Err(Error::Refused(format!(
                    "event {kind} at {time} ns: not a trace of a disk or a cache, which has only runs; use cachesim"
                )));
            }
        }
        Ok(true)
    }
}

impl<S: Source> Requests for Events<S> {
    type Block = BlockId;

    fn next(&mut self, batch: &mut Vec<Request<BlockId>>) -> Result<bool> {
        batch.clear();
        while batch.len() < BATCH {
            let (file, blocks) = &mut self.rest;
            let room = BATCH - batch.len();
            let file = *file;
            batch.extend(blocks.by_ref().take(room).map(|block| Request::Use(BlockId { file, block })));
            if batch.len() < BATCH && !self.advance(batch)? {
                break;
            }
        }
        Ok(!batch.is_empty())
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }
}
