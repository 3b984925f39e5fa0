//! Requests of the events of a disk's or a cache's trace.

use super::{BATCH, Request, Requests};
use crate::{Batch, Error, FileId, Kind, Result, Source};
use std::num::NonZeroU64;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// This many bytes of a disk, from a multiple of them on. A run asks for every block that it
    /// touches.
    Bytes(NonZeroU64),
    /// A whole object, whatever its size: one request for each run.
    Object,
}

/// Names a block: the disk or object, and which block of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockId {
    /// The disk, or the object of a cache.
    pub file: FileId,
    /// Counted from its start; 0 with [`Unit::Object`].
    pub block: u64,
}

/// Requests made of events.
#[derive(Debug)]
pub struct Events<S> {
    source: S,
    unit: Unit,
    batch: Batch,
    /// Events of the batch that have been dealt with.
    done: usize,
    /// Blocks of the event before that are still to be asked for.
    rest: (FileId, std::ops::Range<u64>),
}

impl<S: Source> Events<S> {
    /// Returns the requests of a trace, of which the columns `kind`, `device`, `inode`, `position`,
    /// `read`, `written` and `flags` are needed.
    pub fn new(source: S, unit: Unit) -> Self {
        Self { source, unit, batch: Batch::default(), done: 0, rest: (FileId::default(), 0..0) }
    }

    /// Takes the next event; false if there is none.
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
                requests.push(Request::Gone(BlockId { file: event.file, block: 0 }));
            }
            (kind, _) => {
                let (kind, time) = (kind.name(), event.time);
                return Err(Error::Refused(format!(
                    "event {kind} at {time} ns: this is no trace of a disk or a cache, whose events are all runs"
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
