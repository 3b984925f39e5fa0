//! Devices that note what is written to them, and what a loss of power leaves of it.

use rand::Rng;
use rand::rngs::SmallRng;
use spindle_clock::Mutex;
use spindle_device::{AlignedBuf, Device, Info, MemoryDevice, Op, Request, Result, Ticket};

/// What was asked of a device.
#[derive(Clone)]
pub enum Event {
    /// To write these bytes at this byte.
    Write(u64, Vec<u8>),
    /// To make all that durable.
    Flush,
}

/// A device that notes what is written to it.
pub struct Recorder {
    /// What it holds now.
    pub inner: MemoryDevice,
    /// What was asked of it.
    pub events: Mutex<Vec<Event>>,
}

impl Recorder {
    /// Returns a device that holds what another one does, and notes what is written from now on.
    #[must_use]
    pub fn over(device: &MemoryDevice) -> Self {
        Self { inner: device.branch(), events: Mutex::default() }
    }
}

impl Device for Recorder {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        if request.op == Op::Write {
            self.events.lock().push(Event::Write(request.offset, request.buf.to_vec()));
        }
        self.inner.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.inner.wait(ticket)
    }

    fn flush(&self) -> Result<()> {
        self.events.lock().push(Event::Flush);
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
