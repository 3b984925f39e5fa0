//! One buffer: bytes of the device in memory, and their state.
//!
//! A slot is *empty* until it is loaded or filled, then *clean*; writing makes it *dirty* (it is entered in
//! the cache's list), a flush takes a copy and makes it *in flight* until the copy has reached the device.
//! Writing while in flight makes it dirty again; the copy is not affected. With a log, nothing dirty goes to the device: see
//! [`crate::commit`].

use crate::wal::Change;
use crate::{Cache, Tx};
use spindle_clock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use spindle_device::{AlignedBuf, Device, Result};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Puts checksums right in bytes that are about to leave for the device.
pub trait Seal: Send + Sync {
    /// Changes `bytes`, a copy of the whole buffer.
    fn seal(&self, bytes: &mut [u8]);
}

struct Data {
    bytes: AlignedBuf,
    loaded: bool,
    before: Before,
    /// Bytes of the log that the group's changes are taken to need.
    expected: usize,
}

/// Bytes of the log that one change of a buffer is taken to need until the commit knows.
const CHANGE_BYTES: usize = 1024;

/// What a buffer was when the group of transactions began that has changed it; only with a log.
#[derive(Default)]
enum Before {
    /// As it is now: the group has not changed it.
    #[default]
    Same,
    /// Nothing: the group has made it.
    Nothing,
    /// These bytes.
    Bytes(AlignedBuf),
}

impl Data {
    /// Keeps what the bytes are before they change, and gives how many more bytes of the log that is taken to need: all changes
    /// together no more than the buffer has.
    fn keep(&mut self) -> usize {
        if let Before::Same = self.before {
            self.before =
                if self.loaded { Before::Bytes(AlignedBuf::from(&self.bytes[..])) } else { Before::Nothing };
        }
        let rest = self.bytes.len() - self.expected;
        let more = if let Before::Nothing = self.before { rest } else { rest.min(CHANGE_BYTES) };
        self.expected += more;
        more
    }
}

pub(crate) struct Slot {
    at: u64,
    len: usize,
    data: RwLock<Data>,
    seal: Option<Arc<dyn Seal>>,
    touched: AtomicBool,
    in_flight: AtomicBool,
}

impl Slot {
    pub(crate) fn new(at: u64, len: usize, seal: Option<Arc<dyn Seal>>) -> Self {
        Self::with(at, AlignedBuf::zeroed(len), seal, false)
    }

    pub(crate) fn loaded(at: u64, bytes: AlignedBuf, seal: Option<Arc<dyn Seal>>) -> Self {
        Self::with(at, bytes, seal, true)
    }

    fn with(at: u64, bytes: AlignedBuf, seal: Option<Arc<dyn Seal>>, loaded: bool) -> Self {
        Self {
            at,
            len: bytes.len(),
            data: RwLock::new(Data { bytes, loaded, before: Before::Same, expected: 0 }),
            seal,
            touched: AtomicBool::new(true),
            in_flight: AtomicBool::new(false),
        }
    }

    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn seal(&self) -> Option<Arc<dyn Seal>> {
        self.seal.clone()
    }

    pub(crate) fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }

    pub(crate) fn was_touched(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn in_flight(&self) -> bool {
        self.in_flight.load(Ordering::Acquire)
    }

    pub(crate) fn set_in_flight(&self, in_flight: bool) {
        self.in_flight.store(in_flight, Ordering::Release);
    }

    /// Reads the bytes from the device if that has not been done; others who want them wait.
    pub(crate) fn load(&self, device: &dyn Device) -> Result<()> {
        if self.data.read().loaded {
            return Ok(());
        }
        let mut data = self.data.write();
        if !data.loaded {
            device.read_at(self.at, &mut data.bytes)?;
            data.loaded = true;
        }
        Ok(())
    }

    pub(crate) fn read(&self) -> BufferGuard<'_> {
        BufferGuard(self.data.read())
    }

    /// Says that all its bytes are to be logged: they are not what the device has behind those of another length.
    pub(crate) fn made_anew(&self) {
        self.data.write().before = Before::Nothing;
    }

    /// Copies the bytes that were committed last into `out`.
    pub(crate) fn copy_committed(&self, out: &mut [u8]) {
        let data = self.data.read();
        match &data.before {
            Before::Bytes(bytes) => out.copy_from_slice(bytes),
            Before::Same | Before::Nothing => out.copy_from_slice(&data.bytes),
        }
    }

    /// Seals the bytes and appends the runs of sectors that the group has changed.
    pub(crate) fn copy_changes(&self, sector: usize, changes: &mut Vec<Change>) {
        let mut data = self.data.write();
        if let Some(seal) = &self.seal {
            seal.seal(&mut data.bytes);
        }
        let data = &*data;
        let changed = |n: usize| match &data.before {
            Before::Same => false,
            Before::Nothing => true,
            Before::Bytes(bytes) => {
                let sector = n * sector..(n + 1) * sector;
                bytes[sector.clone()] != data.bytes[sector]
            }
        };
        let sectors = self.len / sector;
        let mut n = 0;
        while n < sectors {
            let start = n;
            while n < sectors && changed(n) {
                n += 1;
            }
            if n > start {
                let bytes = data.bytes[start * sector..n * sector].to_vec();
                changes.push(Change { at: self.at + (start * sector) as u64, bytes });
            }
            n += 1;
        }
    }

    /// The group ends with the bytes as they are; what changes from now on belongs to the next.
    pub(crate) fn end_group(&self) {
        let mut data = self.data.write();
        data.before = Before::Same;
        data.expected = 0;
    }

    /// Copies the bytes, sealed, into `out`.
    pub(crate) fn copy_sealed(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.read());
        if let Some(seal) = &self.seal {
            seal.seal(out);
        }
    }
}

/// A buffer in use; it is not evicted meanwhile.
pub struct Buffer<'a> {
    cache: &'a Cache,
    slot: Arc<Slot>,
}

impl<'a> Buffer<'a> {
    pub(crate) const fn new(cache: &'a Cache, slot: Arc<Slot>) -> Self {
        Self { cache, slot }
    }

    /// Its address on the device in bytes.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.slot.at()
    }

    /// To look at the bytes.
    #[must_use]
    pub fn read(&self) -> BufferGuard<'_> {
        self.slot.read()
    }

    /// To change the bytes, as part of a transaction.
    #[must_use]
    pub fn write(&self, tx: &Tx<'_>) -> BufferMut<'_> {
        tx.note(&self.slot);
        self.write_later(tx)
    }

    /// As [`Self::write`], for what never needs to reach the device before the next flush: what can be found out again
    /// from the rest, like maps of free space and counts.
    #[must_use]
    pub fn write_later(&self, tx: &Tx<'_>) -> BufferMut<'_> {
        debug_assert!(std::ptr::eq(tx.cache, self.cache), "a transaction of this cache");
        tx.changed.store(true, Ordering::Relaxed);
        let mut guard = self.slot.data.write();
        if let Some(journal) = &self.cache.journal {
            journal.expect(guard.keep());
        }
        self.cache.note_dirty(&self.slot);
        BufferMut(guard)
    }

    /// Fills an empty buffer with zeros.
    pub(crate) fn write_new(&self, tx: &Tx<'_>) {
        let mut guard = self.write(tx);
        guard.0.loaded = true;
        guard.fill(0);
    }
}

/// The bytes of a buffer, to look at.
pub struct BufferGuard<'a>(RwLockReadGuard<'a, Data>);

impl Deref for BufferGuard<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// The bytes of a buffer, to change.
pub struct BufferMut<'a>(RwLockWriteGuard<'a, Data>);

impl Deref for BufferMut<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl DerefMut for BufferMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0.bytes
    }
}
