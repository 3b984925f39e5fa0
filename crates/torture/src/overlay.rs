//! A device over bytes that many cases share: changed sectors are stored in the overlay.
//!
//! It also counts the requests, bytes and writes of a case. Beyond an allowance every request
//! fails, which ends an endless loop that stops at errors; the case is then reported.

use spindle_clock::Mutex;
use spindle_device::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of a sector.
pub const SECTOR: usize = SECTOR_BYTES as usize;
const SECTOR_BYTES: u32 = 512;

/// The requests and bytes that an overlay accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Transfers, flushes and discards.
    pub requests: u64,
    /// Bytes transferred.
    pub bytes: u64,
}

/// The requests and bytes that were asked of an overlay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Transfers, flushes and discards.
    pub requests: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Writes and discards among the requests, refused ones included.
    pub writes: u64,
}

impl Usage {
    /// Returns the larger value of each field.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            requests: self.requests.max(other.requests),
            bytes: self.bytes.max(other.bytes),
            writes: self.writes.max(other.writes),
        }
    }
}

/// A device with changes over a shared base.
pub struct Overlay {
    info: Info,
    base: Arc<[u8]>,
    state: Mutex<State>,
}

struct State {
    changed: HashMap<usize, [u8; SECTOR]>,
    finished: HashMap<u64, AlignedBuf>,
    tickets: u64,
    usage: Usage,
    allowance: Allowance,
}

impl Overlay {
    /// Returns a device that holds the first `size` bytes of `base`; both are whole sectors.
    #[must_use]
    pub fn new(base: Arc<[u8]>, size: usize) -> Self {
        let size = size.min(base.len()) / SECTOR * SECTOR;
        Self {
            info: Info {
                name: "overlay".into(),
                size_bytes: size as u64,
                sector_bytes: SECTOR_BYTES,
                read_only: false,
            },
            base,
            state: Mutex::new(State {
                changed: HashMap::new(),
                finished: HashMap::new(),
                tickets: 0,
                usage: Usage::default(),
                allowance: Allowance { requests: u64::MAX, bytes: u64::MAX },
            }),
        }
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

    /// Returns true if more was asked for than allowed.
    #[must_use]
    pub fn exhausted(&self) -> bool {
        let state = self.state.lock();
        state.usage.requests > state.allowance.requests || state.usage.bytes > state.allowance.bytes
    }

    /// Reads without counting a request; bytes beyond the end read as zeros.
    pub fn peek(&self, at: usize, buf: &mut [u8]) {
        self.get(&self.state.lock(), at, buf);
    }

    /// Changes bytes without counting a request; bytes beyond the end are dropped.
    pub fn poke(&self, at: usize, bytes: &[u8]) {
        self.put(&mut self.state.lock(), at, bytes);
    }

    fn size(&self) -> usize {
        usize::try_from(self.info.size_bytes).unwrap_or(usize::MAX).min(self.base.len())
    }

    /// Returns the pieces of `len` bytes at `at` within the device: sector, byte in the sector,
    /// byte in the range, length.
    fn pieces(&self, at: usize, len: usize) -> impl Iterator<Item = (usize, usize, usize, usize)> + use<> {
        let len = len.min(self.size().saturating_sub(at));
        let mut done = 0;
        std::iter::from_fn(move || {
            let within = (at + done) % SECTOR;
            let n = (SECTOR - within).min(len - done);
            let piece = ((at + done) / SECTOR, within, done, n);
            done += n;
            (n > 0).then_some(piece)
        })
    }

    fn get(&self, state: &State, at: usize, buf: &mut [u8]) {
        buf.fill(0);
        for (sector, within, done, n) in self.pieces(at, buf.len()) {
            let from = match state.changed.get(&sector) {
                Some(bytes) => &bytes[within..within + n],
                None => &self.base[sector * SECTOR + within..][..n],
            };
            buf[done..done + n].copy_from_slice(from);
        }
    }

    fn put(&self, state: &mut State, at: usize, bytes: &[u8]) {
        for (sector, within, done, n) in self.pieces(at, bytes.len()) {
            let changed = state.changed.entry(sector).or_insert_with(|| {
                let mut old = [0; SECTOR];
                old.copy_from_slice(&self.base[sector * SECTOR..][..SECTOR]);
                old
            });
            changed[within..within + n].copy_from_slice(&bytes[done..done + n]);
        }
    }

    /// Counts a request, and refuses it beyond the allowance.
    fn charge(&self, state: &mut State, op: Op, bytes: u64) -> Result<()> {
        let State { usage, allowance, .. } = state;
        usage.requests += 1;
        usage.bytes = usage.bytes.saturating_add(bytes);
        usage.writes += u64::from(op == Op::Write);
        if usage.requests > allowance.requests || usage.bytes > allowance.bytes {
            return Err(Error::io(
                &self.info.name,
                "request beyond the allowance",
                std::io::ErrorKind::Other.into(),
            ));
        }
        Ok(())
    }
}

impl Device for Overlay {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, mut request: Request) -> Result<Ticket> {
        match request.op {
            Op::Read => self.read_at(request.offset, &mut request.buf)?,
            Op::Write => self.write_at(request.offset, &request.buf)?,
        }
        let mut state = self.state.lock();
        state.tickets += 1;
        let id = state.tickets;
        state.finished.insert(id, request.buf);
        Ok(Ticket::new(id))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let buf = self.state.lock().finished.remove(&ticket.id());
        Ok(buf.expect("a ticket is waited for once, where it was given"))
    }

    fn flush(&self) -> Result<()> {
        self.charge(&mut self.state.lock(), Op::Read, 0)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.charge(&mut self.state.lock(), Op::Write, 0)?;
        self.info.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut state = self.state.lock();
        self.charge(&mut state, Op::Read, buf.len() as u64)?;
        self.info.check(Op::Read, offset, buf.len())?;
        self.get(&state, usize::try_from(offset).unwrap_or(usize::MAX), buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        self.charge(&mut state, Op::Write, buf.len() as u64)?;
        self.info.check(Op::Write, offset, buf.len())?;
        self.put(&mut state, usize::try_from(offset).unwrap_or(usize::MAX), buf);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay() -> Overlay {
        Overlay::new((0..=u8::MAX).cycle().take(4096).collect(), 2048)
    }

    /// Promise: a read returns what was written, and the base elsewhere; the base does not change,
    /// and its end is cut off.
    #[test]
    fn changes_stay_in_the_overlay() {
        let device = overlay();
        device.poke(510, &[9; 4]);
        let mut back = [0; 1024];
        device.read_at(0, &mut back).unwrap();
        assert_eq!(back[508..516], [252, 253, 9, 9, 9, 9, 2, 3]);
        device.write_at(512, &[7; 512]).unwrap();
        device.read_at(0, &mut back).unwrap();
        assert_eq!((back[511], back[512], device.base[512]), (9, 7, 0));
        assert!(device.read_at(1536, &mut back).is_err());
        device.peek(2046, &mut back[..4]);
        assert_eq!(back[..4], [254, 255, 0, 0]);
    }

    /// Promise: requests, bytes and writes are counted, and everything beyond the allowance is
    /// refused.
    #[test]
    fn refuses_beyond_the_allowance() {
        let device = overlay();
        device.allow(Allowance { requests: 2, bytes: 1 << 20 });
        device.write_at(0, &[0; 512]).unwrap();
        device.flush().unwrap();
        assert!(!device.exhausted());
        assert!(device.read_at(0, &mut [0; 512]).is_err());
        assert!(device.exhausted());
        assert_eq!(device.usage(), Usage { requests: 3, bytes: 1024, writes: 1 });
        device.allow(Allowance { requests: 9, bytes: 1000 });
        assert!(device.read_at(0, &mut [0; 1024]).is_err());
    }
}
