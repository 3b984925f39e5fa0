//! Devices: the only way from Spindle to storage.
//!
//! A [`Device`] has few functions: describe itself, accept a request and return a ticket, wait for
//! a ticket, flush, discard. Everything that can be stacked (a partition window, a stripe, a
//! recorder) is a `Device` over `Device`s.
//!
//! Invariants: requests are whole sectors within the device, checked by [`Info::check`] before they
//! are started; a read-only device refuses writes; a write is durable only after a later
//! [`Device::flush`] has returned. Requests in flight have no order: a caller that needs one waits
//! or flushes.

mod backing;
mod buffer;
mod cow;
mod error;
mod file;
mod known;
mod label;
mod lock;
mod looped;
mod memory;
mod mirror;
mod scan;
mod spec;
mod stripe;
mod sysfs;
mod tickets;
mod tracked;
#[cfg(target_os = "linux")]
mod uring;
mod window;
mod workers;

pub use buffer::AlignedBuf;
pub use cow::{Change, CowDevice, write_sectors};
pub use error::{Error, Result};
pub use file::{Caching, Claim, Engine, FileDevice, OpenOptions};
pub use label::{EXTENDED, Partition, Scheme, Table, partitions};
pub use lock::{is_writer, lock_holders, writers};
pub use memory::MemoryDevice;
pub use mirror::{Condition, Judge, Loss, Mirror, Scrubbed};
pub use scan::{Piece, Scan};
pub use spec::{Part, Place, Spec, open_spec};
pub use stripe::Stripe;
pub use sysfs::is_write_protected;
pub use tracked::Tracked;
pub use window::Window;

/// Properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Name for messages: the path, and the part of it.
    pub name: String,
    /// Capacity in bytes, a multiple of `sector_bytes`.
    pub size_bytes: u64,
    /// Smallest unit of a request in bytes; a power of two, at least 512.
    pub sector_bytes: u32,
    /// Set if writes are refused.
    pub read_only: bool,
}

impl Info {
    /// Checks a request of `len` bytes at `offset` against the size, the sectors and the
    /// permission.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Misaligned`] or, for a write, [`Error::ReadOnly`].
    pub fn check(&self, op: Op, offset: u64, len: usize) -> Result<()> {
        let sector = u64::from(self.sector_bytes);
        let bytes = len as u64;
        if op == Op::Write && self.read_only {
            return Err(Error::ReadOnly { device: self.name.clone() });
        }
        if !offset.is_multiple_of(sector) || !bytes.is_multiple_of(sector) {
            return Err(Error::Misaligned { device: self.name.clone(), offset, len: bytes });
        }
        match offset.checked_add(bytes) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => Err(Error::OutOfRange {
                device: self.name.clone(),
                offset,
                len: bytes,
                size: self.size_bytes,
            }),
        }
    }
}

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Device to buffer.
    Read,
    /// Buffer to device.
    Write,
}

/// One transfer of whole sectors.
#[derive(Debug)]
pub struct Request {
    /// Direction.
    pub op: Op,
    /// Byte offset on the device, a multiple of the sector size.
    pub offset: u64,
    /// Data to write, or buffer to read into; its length is the length of the transfer.
    pub buf: AlignedBuf,
}

/// A request in flight. Each ticket is waited for exactly once, on the device that issued it.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "a request is finished only when its ticket is waited for"]
pub struct Ticket(u64);

impl Ticket {
    /// Returns a ticket with the device's number for it.
    pub const fn new(id: u64) -> Self {
        Self(id)
    }

    /// Returns the device's number for it.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.0
    }
}

/// A block store.
pub trait Device: Send + Sync {
    /// Returns name, size, sectors and permission, which do not change.
    fn info(&self) -> &Info;

    /// Starts a transfer.
    ///
    /// # Errors
    /// When the request does not fit the device ([`Info::check`]) or cannot be started.
    fn submit(&self, request: Request) -> Result<Ticket>;

    /// Waits for a transfer and returns the buffer.
    ///
    /// # Errors
    /// Errors of the transfer; a failed read leaves no data.
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf>;

    /// Makes every write whose ticket has been waited for durable: a barrier.
    ///
    /// # Errors
    /// The flush failed; earlier writes may be lost.
    fn flush(&self) -> Result<()>;

    /// Declares `len` bytes at `offset` unused, whole sectors; reading them may then return
    /// anything.
    ///
    /// # Errors
    /// The range is outside the device, or it fails; [`std::io::ErrorKind::Unsupported`] if the
    /// device cannot do this.
    fn discard(&self, offset: u64, len: u64) -> Result<()>;

    /// Hints that what is transferred next begins at `offset`, and that what comes after it follows
    /// in sequence: a disk that is idle moves its heads there. Nothing depends on it, so a device
    /// that has no heads to move does nothing.
    fn prepare(&self, offset: u64) {
        let _ = offset;
    }

    /// Returns the byte for messages that byte `offset` is: of a part of a device, the byte of the
    /// device.
    fn place(&self, offset: u64) -> u64 {
        offset
    }

    /// Returns the first byte at or behind `offset` that may be anything but zero: in a file with
    /// holes, that of the next data; otherwise `offset`.
    fn next_data(&self, offset: u64) -> u64 {
        offset
    }

    /// Reads into `buf` and waits.
    ///
    /// # Errors
    /// Those of [`Self::submit`] and [`Self::wait`].
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let ticket = self.submit(Request { op: Op::Read, offset, buf: AlignedBuf::zeroed(buf.len()) })?;
        buf.copy_from_slice(&self.wait(ticket)?);
        Ok(())
    }

    /// Writes `buf` and waits until the device has it (not until it is durable).
    ///
    /// # Errors
    /// Those of [`Self::submit`] and [`Self::wait`].
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let ticket = self.submit(Request { op: Op::Write, offset, buf: AlignedBuf::from(buf) })?;
        self.wait(ticket).map(drop)
    }
}
