//! A device in memory that records events: every write with the bytes that it replaced, every
//! flush, and marks between them.
//!
//! The events can be read afterwards, undone back to any point, and repeated in part. Undoing costs
//! as much as the changes did, whatever the size of the device.
//!
//! Invariant: undoing all events, from the last to the first, restores the bytes that the device
//! was made with.

use crate::overlay::{Allowance, Usage};
use spindle_clock::Mutex;
use spindle_device::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use std::collections::HashMap;
use std::sync::Arc;

/// What is read where something was discarded.
const DISCARDED: u8 = 0xdd;
/// Bytes of the pieces that the fingerprint is the sum of; no sector is smaller.
const PIECE: usize = 512;

/// A write request.
#[derive(Clone, Debug)]
pub struct Write {
    /// Byte offset on the device.
    pub offset: u64,
    /// The bytes written.
    pub bytes: Arc<[u8]>,
    replaced: Arc<[u8]>,
    fingerprint_before: u64,
}

/// A recorded event.
#[derive(Clone, Debug)]
pub enum Event {
    /// A write was submitted.
    Write(Write),
    /// The write with this event number was waited for: a later flush makes it durable.
    Landed(usize),
    /// A flush returned.
    Flush,
    /// A mark of the caller.
    Mark(Mark),
}

/// A note of the caller between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The operation that leads to this version begins.
    Begins(usize),
    /// This many promises have been made.
    Promised(usize),
}

/// A device that records events.
pub struct Recorder {
    info: Info,
    state: Mutex<State>,
}

struct State {
    bytes: Vec<u8>,
    events: Vec<Event>,
    finished: HashMap<u64, AlignedBuf>,
    /// The event number of each write that was not waited for yet.
    in_flight: HashMap<u64, usize>,
    tickets: u64,
    fingerprint: u64,
    usage: Usage,
    allowance: Allowance,
}

impl Recorder {
    /// Returns a device that holds `bytes`, with sectors of `sector_bytes`.
    ///
    /// # Panics
    /// If they are not whole sectors.
    #[must_use]
    pub fn new(bytes: Vec<u8>, sector_bytes: u32) -> Self {
        assert!((bytes.len() as u64).is_multiple_of(sector_bytes.into()), "whole sectors");
        Self {
            info: Info {
                name: "recorder".into(),
                size_bytes: bytes.len() as u64,
                sector_bytes,
                read_only: false,
            },
            state: Mutex::new(State {
                bytes,
                events: Vec::new(),
                finished: HashMap::new(),
                in_flight: HashMap::new(),
                tickets: 0,
                fingerprint: 0,
                usage: Usage::default(),
                allowance: Allowance { requests: u64::MAX, bytes: u64::MAX },
            }),
        }
    }

    /// Returns the bytes of a sector, which is written wholly or not at all.
    #[must_use]
    pub const fn sector(&self) -> usize {
        self.info.sector_bytes as usize
    }

    /// Records a mark.
    pub fn mark(&self, mark: Mark) {
        self.state.lock().events.push(Event::Mark(mark));
    }

    /// Returns the number of events so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.state.lock().events.len()
    }

    /// Returns the events from a number on, renumbered from zero.
    #[must_use]
    pub fn since(&self, position: usize) -> Vec<Event> {
        let from_here = |event: &Event| match event {
            Event::Landed(entry) => Event::Landed(entry - position),
            other => other.clone(),
        };
        self.state.lock().events[position..].iter().map(from_here).collect()
    }

    /// Undoes all changes after `position`.
    pub fn rewind(&self, position: usize) {
        let state = &mut *self.state.lock();
        while state.events.len() > position {
            if let Some(Event::Write(write)) = state.events.pop() {
                let at = index(write.offset);
                state.bytes[at..at + write.replaced.len()].copy_from_slice(&write.replaced);
                state.fingerprint = write.fingerprint_before;
            }
        }
        state.finished.clear();
        state.in_flight.clear();
    }

    /// Writes `bytes` at `offset` without counting a request.
    pub fn poke(&self, offset: u64, bytes: &[u8]) {
        self.state.lock().put(offset, bytes.into());
    }

    /// Returns a number that depends on the contents of the device and, with near certainty,
    /// differs for different contents that were reached from the same start.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.state.lock().fingerprint
    }

    /// Resets the counters, and sets the allowance.
    pub fn allow(&self, allowance: Allowance) {
        let mut state = self.state.lock();
        state.usage = Usage::default();
        state.allowance = allowance;
    }

    /// Returns what was asked since the last [`Self::allow`].
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.state.lock().usage
    }

    /// Returns all bytes of the device.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.state.lock().bytes.clone()
    }

    fn charge(&self, state: &mut State, op: Op, bytes: u64) -> Result<()> {
        let State { usage, allowance, .. } = state;
        usage.requests += 1;
        usage.bytes += bytes;
        usage.writes += u64::from(op == Op::Write);
        if usage.requests > allowance.requests || usage.bytes > allowance.bytes {
            let kind = std::io::ErrorKind::Other;
            return Err(Error::io(&self.info.name, "request beyond the allowance", kind.into()));
        }
        Ok(())
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("the device is in memory")
}

/// Returns a hash of a piece of the device and its offset.
fn piece_hash(at: usize, bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let start = (at as u64 + 1).wrapping_mul(ODD);
    bytes.chunks_exact(8).fold(start, |hash, word| {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        (hash.rotate_left(29) ^ word).wrapping_mul(ODD)
    })
}

impl State {
    /// Returns the sum of the hashes of the pieces in a range.
    fn hash(&self, range: std::ops::Range<usize>) -> u64 {
        let pieces = self.bytes[range.clone()].chunks_exact(PIECE).enumerate();
        pieces.fold(0, |sum: u64, (n, bytes)| sum.wrapping_add(piece_hash(range.start / PIECE + n, bytes)))
    }

    fn put(&mut self, offset: u64, bytes: Arc<[u8]>) {
        let range = index(offset)..index(offset) + bytes.len();
        let fingerprint_before = self.fingerprint;
        let replaced = self.bytes[range.clone()].into();
        let old_hash = self.hash(range.clone());
        self.bytes[range.clone()].copy_from_slice(&bytes);
        self.fingerprint = self.fingerprint.wrapping_sub(old_hash).wrapping_add(self.hash(range));
        self.events.push(Event::Write(Write { offset, bytes, replaced, fingerprint_before }));
    }
}

impl Device for Recorder {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, mut request: Request) -> Result<Ticket> {
        let mut state = self.state.lock();
        self.charge(&mut state, request.op, request.buf.len() as u64)?;
        self.info.check(request.op, request.offset, request.buf.len())?;
        state.tickets += 1;
        let id = state.tickets;
        match request.op {
            Op::Read => {
                let at = index(request.offset);
                let len = request.buf.len();
                request.buf.copy_from_slice(&state.bytes[at..at + len]);
            }
            Op::Write => {
                let entry = state.events.len();
                state.in_flight.insert(id, entry);
                state.put(request.offset, (&*request.buf).into());
            }
        }
        state.finished.insert(id, request.buf);
        Ok(Ticket::new(id))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let mut state = self.state.lock();
        if let Some(entry) = state.in_flight.remove(&ticket.id()) {
            state.events.push(Event::Landed(entry));
        }
        let buf = state.finished.remove(&ticket.id());
        Ok(buf.expect("a ticket is waited for once, where it was given"))
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.charge(&mut state, Op::Read, 0)?;
        state.events.push(Event::Flush);
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.info.check(Op::Write, offset, len)?;
        let mut state = self.state.lock();
        let entry = state.events.len();
        state.put(offset, vec![DISCARDED; len].into());
        state.events.push(Event::Landed(entry));
        Ok(())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut state = self.state.lock();
        self.charge(&mut state, Op::Read, buf.len() as u64)?;
        self.info.check(Op::Read, offset, buf.len())?;
        buf.copy_from_slice(&state.bytes[index(offset)..index(offset) + buf.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the events are every write, end of a write, flush and mark in order; undoing
    /// restores bytes and fingerprint; equal contents have equal fingerprints.
    #[test]
    fn records_and_rewinds() {
        let device = Recorder::new((0..=u8::MAX).cycle().take(8192).collect(), 512);
        let (start, before) = (device.to_bytes(), device.fingerprint());
        device.write_at(512, &[9; 1024]).unwrap();
        let one = device.fingerprint();
        device.mark(Mark::Begins(1));
        let ticket = device
            .submit(Request { op: Op::Write, offset: 1024, buf: AlignedBuf::from(&[7; 512][..]) })
            .unwrap();
        device.flush().unwrap();
        device.wait(ticket).unwrap();
        let kinds: Vec<_> = device
            .since(0)
            .iter()
            .map(|event| match event {
                Event::Write(write) => format!("write {} {}", write.offset, write.bytes.len()),
                Event::Landed(entry) => format!("landed {entry}"),
                Event::Flush => "flush".into(),
                Event::Mark(mark) => format!("{mark:?}"),
            })
            .collect();
        assert_eq!(kinds, ["write 512 1024", "landed 0", "Begins(1)", "write 1024 512", "flush", "landed 3"]);
        device.poke(1024, &[9; 512]);
        assert_eq!(device.fingerprint(), one);
        device.rewind(0);
        assert_eq!((device.to_bytes(), device.fingerprint()), (start, before));
    }

    /// Promise: everything beyond the allowance is refused.
    #[test]
    fn refuses_beyond_the_allowance() {
        let device = Recorder::new(vec![0; 4096], 512);
        device.allow(Allowance { requests: 1, bytes: 4096 });
        device.read_at(0, &mut [0; 512]).unwrap();
        assert!(device.flush().is_err());
        assert_eq!(device.usage(), Usage { requests: 2, bytes: 512, writes: 0 });
    }
}
