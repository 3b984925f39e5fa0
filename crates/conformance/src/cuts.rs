//! Devices that note what is written to them, and what a loss of power or a failure leaves of it.

use rand::Rng;
use rand::rngs::SmallRng;
use spindle_clock::Mutex;
use spindle_device::{AlignedBuf, Device, Error, Info, MemoryDevice, Op, Request, Result, Ticket};
use std::ops::Range;

/// What was asked of a device.
#[derive(Clone)]
pub enum Event {
    /// To write these bytes at this byte.
    Write(u64, Vec<u8>),
    /// To make all that durable.
    Flush,
    /// To make all that durable, which failed.
    FailedFlush,
}

/// A device that notes what is written to it.
pub struct Recorder {
    /// What it holds now.
    pub inner: MemoryDevice,
    /// What was asked of it; of a write that failed, the part that was written.
    pub events: Mutex<Vec<Event>>,
    /// The numbers of the events that fail.
    failing: Range<usize>,
}

impl Recorder {
    /// Returns a device that holds what another one does, and notes what is written from now on.
    #[must_use]
    pub fn over(device: &MemoryDevice) -> Self {
        Self { inner: device.branch(), events: Mutex::default(), failing: 0..0 }
    }

    /// Returns such a device on which the writes and flushes with these numbers fail. Of such a
    /// write, the first half of its sectors is written.
    #[must_use]
    pub fn failing(device: &MemoryDevice, failing: Range<usize>) -> Self {
        Self { failing, ..Self::over(device) }
    }
}

fn failure() -> Error {
    Error::io("the recorder", "write", std::io::ErrorKind::Other.into())
}

impl Device for Recorder {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        if request.op != Op::Write {
            return self.inner.submit(request);
        }
        let mut events = self.events.lock();
        if self.failing.contains(&events.len()) {
            let half = request.buf[..request.buf.len() / 1024 * 512].to_vec();
            self.inner.write_at(request.offset, &half)?;
            events.push(Event::Write(request.offset, half));
            return Err(failure());
        }
        events.push(Event::Write(request.offset, request.buf.to_vec()));
        self.inner.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.inner.wait(ticket)
    }

    fn flush(&self) -> Result<()> {
        let mut events = self.events.lock();
        if self.failing.contains(&events.len()) {
            events.push(Event::FailedFlush);
            return Err(failure());
        }
        events.push(Event::Flush);
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.discard(offset, len)
    }
}

/// Returns what is on the medium if the power fails after the first `cut` events: all that was
/// flushed, and any sectors of the rest.
///
/// # Panics
/// If an event lies outside the device.
#[must_use]
pub fn cut(before: &MemoryDevice, events: &[Event], cut: usize, rng: &mut SmallRng) -> MemoryDevice {
    let flushed = events[..cut].iter().rposition(|event| matches!(event, Event::Flush)).unwrap_or(0);
    let medium = before.branch();
    for (n, event) in events[..cut].iter().enumerate() {
        let Event::Write(at, bytes) = event else { continue };
        for (at, sector) in (*at..).step_by(512).zip(bytes.chunks(512)) {
            if n < flushed || rng.random() {
                medium.write_at(at, sector).unwrap();
            }
        }
    }
    medium
}
