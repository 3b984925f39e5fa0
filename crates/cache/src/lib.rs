//! The one cache: every file system reads and writes its device through it.
//!
//! A [`Buffer`] is a run of bytes at a device address: metadata. A [`Stream`] is the data of one
//! file, which moves in clusters and is kept or not as [`DataSettings`] say ([`Cache::read`],
//! [`Cache::write`]); the module `stream` has its rules. The cache does not interpret bytes: the
//! [`Seal`] of a buffer puts its checksums right when it is written to the device.
//!
//! Changes happen inside a transaction: [`Cache::begin`] returns a [`Tx`], which is needed to write
//! to a buffer or a stream. A transaction that fails is rolled back. A flush takes all changes at a
//! moment when no transaction is open, so the device never gets half an operation; data is written
//! before metadata. With a [`Log`], the transactions of such an *epoch* become durable there, all
//! or none, and are checkpointed later ([`Cache::commit`]).
//!
//! Nothing is durable before a barrier of the device: see [`spindle_device::Tracked`], which stands
//! between the cache and every device.
//!
//! What the caller must do:
//! - keep each byte of the device in at most one role at a time: a buffer, or the data of one file;
//! - call [`Cache::forget`] when the space of a buffer is freed, and [`Cache::discard`] or
//!   [`Cache::settle`] before the space of file data is freed, so that no transfer of it is in
//!   flight when the space is used again;
//! - hold its own lock on the owner of a buffer while changing it; ask for one address with one
//!   length, and change that with [`Cache::resize`];
//! - have at most one transaction open in a thread, and not wait in it for one of another thread.

mod buffer;
mod commit;
mod flight;
mod flush;
mod held;
mod log;
pub mod policy;
mod read_failures;
mod restore;
mod settings;
mod shard;
mod stream;
mod tx;

pub use buffer::{Buffer, BufferGuard, BufferMut, Seal};
pub use commit::Epoch;
pub use log::{Change, Changes, Log};
pub use read_failures::ReadFailures;
pub use restore::Restore;
pub use settings::{DataSettings, Naming, Settings};
pub use stream::{Extent, Space, Stream};
pub use tx::{Savepoint, Tx};

use ::log::error;
use buffer::Slot;
use commit::LogState;
use held::Held;
use shard::Shard;
use spindle_clock::{Clock, Condvar, Mutex, RmLock};
use spindle_device::{Device, Error, Result, Tracked};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use stream::Pool;

const SHARDS: usize = 16;
/// Most files with delayed data or data in flight; beyond it the next transaction writes the data
/// to the device.
const PENDING_STREAMS: usize = 4096;

/// The cache of one device.
pub struct Cache {
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    /// The memory of the streams.
    pool: Arc<Pool>,
    shards: [RmLock<Shard>; SHARDS],
    /// Open transactions hold it shared; a flush takes it exclusively to collect the changes.
    gate: RmLock<()>,
    dirty: Mutex<BTreeMap<u64, Arc<Slot>>>,
    dirty_bytes: AtomicUsize,
    /// The log, if changes become durable there first.
    log: Option<LogState>,
    /// Space that may not be written to yet.
    held: Held,
    /// One flush or commit at a time.
    flushing: Mutex<()>,
    /// Streams whose delayed data was started early; held by the thread that starts it.
    started: Mutex<Vec<Weak<Stream>>>,
    /// Notified when writes of buffers have finished.
    landed: (Mutex<()>, Condvar),
    /// The first write that failed; nothing is changed after it.
    failure: OnceLock<Error>,
    /// Metadata that could not be read.
    read_failures: ReadFailures,
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.pool.abandon();
    }
}

impl Cache {
    /// Returns a cache of `device`, which reports its work to `clock`.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, clock: Arc<dyn Clock>, settings: Settings) -> Self {
        Self {
            device: Arc::new(Tracked::new(device)),
            clock,
            settings,
            pool: Arc::default(),
            shards: Default::default(),
            gate: RmLock::default(),
            dirty: Mutex::default(),
            dirty_bytes: AtomicUsize::new(0),
            log: None,
            held: Held::default(),
            flushing: Mutex::default(),
            started: Mutex::default(),
            landed: (Mutex::new(()), Condvar::new()),
            failure: OnceLock::new(),
            read_failures: ReadFailures::default(),
        }
    }

    /// Returns a cache like [`Self::new`] whose changes to buffers become durable in `log`. The
    /// caller calls [`Self::commit`] when [`Self::wants_commit`] returns true and its thread has no
    /// open transaction.
    #[must_use]
    pub fn with_log(
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        log: Arc<dyn Log>,
    ) -> Self {
        let mut cache = Self::new(device, clock, settings);
        cache.set_log(Some(log));
        cache
    }

    /// Sets the log that later changes go through, or none. Nothing may have been changed before,
    /// unless all of it was rolled back.
    pub fn set_log(&mut self, log: Option<Arc<dyn Log>>) {
        self.log = log.map(LogState::new);
    }

    /// Returns the device below, which keeps track of what is durable. Code that writes past the
    /// cache must write to it, too.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Does something to the device past the cache. If that fails, no more changes are accepted.
    ///
    /// # Errors
    /// As `work`, and when an earlier write failed.
    pub fn directly<T>(&self, work: impl FnOnce(&dyn Device) -> Result<T>) -> Result<T> {
        self.check()?;
        work(&*self.device).map_err(|error| self.fail(error))
    }

    /// Opens a transaction that may change `log_bytes` of the log, after flushing if too much has
    /// changed since the last flush; with a log, only file data. Returns none if the log has no
    /// room for that before the present epoch is committed: the caller then commits
    /// ([`Self::commit`]) and tries again.
    ///
    /// # Errors
    /// When an earlier write failed, or this flush does.
    pub fn begin(&self, log_bytes: usize) -> Result<Option<Tx<'_>>> {
        self.begin_as(log_bytes, false)
    }

    /// Opens a transaction like [`Self::begin`], for an operation on names; see [`Naming`].
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_naming(&self, log_bytes: usize) -> Result<Option<Tx<'_>>> {
        self.begin_as(log_bytes, self.log.is_none() && self.settings.naming != Naming::Delayed)
    }

    fn begin_as(&self, log_bytes: usize, at_once: bool) -> Result<Option<Tx<'_>>> {
        let data = self.pool.dirty_bytes();
        let behind = self.dirty_bytes.load(Ordering::Relaxed) + data;
        if self.log.is_none() && behind > self.settings.dirty_limit_bytes {
            self.flush()?;
        } else if self.holds_much(1) {
            self.relieve_memory()?;
        } else if self.settings.data.start_bytes.is_some_and(|most| data > most) {
            self.start_early()?;
        }
        self.check()?;
        // The room is reserved with the gate held: the commit that ends the epoch sets the
        // reservations to zero.
        let gate = self.gate.read();
        if let Some(log) = &self.log
            && !log.reserve(log_bytes)
        {
            return Ok(None);
        }
        Ok(Some(Tx::new(self, Some(gate), log_bytes, at_once)))
    }

    /// Returns true if there is more than so many `times` the delayed data that may be kept.
    fn holds_much(&self, times: usize) -> bool {
        self.pool.dirty_bytes() > times * self.settings.dirty_limit_bytes
            || self.pool.pending_streams() > times * PENDING_STREAMS
    }

    /// Writes the delayed data, of which there is much. While another thread does, this one goes
    /// on, up to twice as much.
    ///
    /// Streams that wait for a flush stay in memory with their owners. With a log, data that is
    /// written early shortens the next commit.
    fn relieve_memory(&self) -> Result<()> {
        let one = if self.holds_much(2) { Some(self.started.lock()) } else { self.started.try_lock() };
        if one.is_some() && self.holds_much(1) {
            let streams = self.start_delayed()?;
            self.land_delayed(&streams)?;
        }
        Ok(())
    }

    /// Returns the buffer of `len` bytes at byte `at`, read from the device if need be.
    ///
    /// # Errors
    /// When the device fails to read.
    pub fn get(&self, at: u64, len: usize, seal: Option<&Arc<dyn Seal>>) -> Result<Buffer<'_>> {
        let slot = self.slot(at, len, seal)?;
        self.load(&slot)?;
        Ok(Buffer::new(self, slot))
    }

    /// Reads metadata past the buffers, where it should not push out others.
    ///
    /// # Errors
    /// When the device fails to read.
    pub fn read_unbuffered(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let read = self.device.read_at(at, bytes);
        self.read_failures.note(at, bytes.len(), read)
    }

    /// Returns what metadata the device could not read: buffers, and what is read past them.
    #[must_use]
    pub fn read_failures(&self) -> ReadFailures {
        self.read_failures.clone()
    }

    /// Reads the bytes of a slot from the device unless they are here.
    fn load(&self, slot: &Slot) -> Result<()> {
        if slot.is_loaded() {
            return Ok(());
        }
        self.read_failures.note(slot.at(), slot.len(), slot.load(&*self.device))
    }

    /// Returns a buffer of zeros for space that was free, without reading it.
    ///
    /// # Errors
    /// As [`Self::get`], if another thread has asked for the same space with another length.
    pub fn get_new(
        &self,
        at: u64,
        len: usize,
        seal: Option<&Arc<dyn Seal>>,
        tx: &Tx<'_>,
    ) -> Result<Buffer<'_>> {
        let buffer = self.get_new_for_good(at, len, seal, tx)?;
        tx.made(at);
        Ok(buffer)
    }

    /// Returns a buffer like [`Self::get_new`], for space that stays in use even if the transaction
    /// is rolled back. A rollback keeps the buffer and the bytes that [`Buffer::write_shared`]
    /// writes to it.
    ///
    /// # Errors
    /// As [`Self::get_new`].
    pub fn get_new_for_good(
        &self,
        at: u64,
        len: usize,
        seal: Option<&Arc<dyn Seal>>,
        tx: &Tx<'_>,
    ) -> Result<Buffer<'_>> {
        debug_assert!(tx.is_of(self), "a transaction of this cache");
        self.forget(at);
        let slot = self.slot(at, len, seal)?;
        slot.make_new();
        tx.has_changed();
        tx.write_at_end(&slot);
        self.note_dirty(&slot);
        Ok(Buffer::new(self, slot))
    }

    /// Changes the length of the buffer at byte `at` in a transaction. When it grows, the new part
    /// is read from the device. When it shrinks, the rest is lost at once: a rollback does not
    /// restore it.
    ///
    /// # Errors
    /// When the device fails to read.
    pub fn resize(&self, at: u64, len: usize, tx: &Tx<'_>) -> Result<()> {
        debug_assert!(tx.is_of(self), "a transaction of this cache");
        let Some(slot) = self.known(at).filter(|slot| slot.len() != len) else { return Ok(()) };
        let before = slot.len();
        self.resize_slot(&slot, len)?;
        tx.has_changed();
        tx.resized(at, before);
        Ok(())
    }

    /// Drops the buffer at byte `at`, changed or not, and waits until no write of it is in flight.
    pub fn forget(&self, at: u64) {
        let Some(slot) = self.shard(at).write().remove(at) else { return };
        self.note_clean(at);
        self.await_landing(&slot);
    }

    fn await_landing(&self, slot: &Slot) {
        let (lock, landed) = &self.landed;
        let mut guard = lock.lock();
        while slot.in_flight() {
            landed.wait(&mut guard);
        }
    }

    fn shard(&self, at: u64) -> &RmLock<Shard> {
        // Fibonacci hashing: addresses are multiples of large powers of two.
        let hash = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
        &self.shards[usize::try_from(hash).unwrap_or(0) % SHARDS]
    }

    /// Returns the slot at byte `at`, if it is in memory.
    pub(crate) fn known(&self, at: u64) -> Option<Arc<Slot>> {
        self.shard(at).read().get(at)
    }

    /// Returns the slot at byte `at`, a new one if there is none, without reading it.
    fn slot(&self, at: u64, len: usize, seal: Option<&Arc<dyn Seal>>) -> Result<Arc<Slot>> {
        loop {
            let slot = self.known(at).unwrap_or_else(|| {
                let fresh = || Arc::new(Slot::new(at, len, self.sector(), seal.cloned()));
                self.shard(at).write().get_or_insert(at, fresh, self.settings.capacity_bytes / SHARDS)
            });
            if slot.len() == len {
                slot.touch();
                return Ok(slot);
            }
            self.resize_slot(&slot, len)?;
        }
    }

    /// Returns the bytes of a sector.
    fn sector(&self) -> usize {
        self.device.info().sector_bytes as usize
    }

    /// Replaces a slot by one of another length that keeps the bytes common to both.
    pub(crate) fn resize_slot(&self, old: &Arc<Slot>, len: usize) -> Result<()> {
        let at = old.at();
        self.load(old)?;
        let mut tail = vec![0; len.saturating_sub(old.len())];
        if !tail.is_empty() {
            self.read_unbuffered(at + old.len() as u64, &mut tail)?;
        }
        let slot = Arc::new(old.resized(len, &tail, self.sector()));
        let committed = self.log.as_ref().is_some_and(|log| log.replace(&slot));
        let changed = committed || self.dirty.lock().contains_key(&at);
        self.forget(at);
        if changed {
            // The device has old bytes until a checkpoint, so the buffer must stay in memory.
            self.note_dirty(&slot);
        }
        self.shard(at).write().insert(slot, self.settings.capacity_bytes / SHARDS);
        Ok(())
    }

    /// Notes a changed slot for the next flush.
    fn note_dirty(&self, slot: &Arc<Slot>) {
        if slot.is_noted() {
            return;
        }
        let mut dirty = self.dirty.lock();
        match dirty.insert(slot.at(), slot.clone()) {
            None => _ = self.dirty_bytes.fetch_add(slot.len(), Ordering::Relaxed),
            Some(former) => former.set_noted(false),
        }
        slot.set_noted(true);
    }

    /// Takes the slot at byte `at` from those that the next flush writes. Returns false if it is
    /// none of them.
    fn note_clean(&self, at: u64) -> bool {
        let mut dirty = self.dirty.lock();
        let Some(slot) = dirty.remove(&at) else { return false };
        slot.set_noted(false);
        self.dirty_bytes.fetch_sub(slot.len(), Ordering::Relaxed);
        true
    }

    /// Takes all slots that the next flush writes, in the order of their addresses.
    fn take_dirty(&self) -> Vec<Arc<Slot>> {
        let mut dirty = self.dirty.lock();
        self.dirty_bytes.store(0, Ordering::Relaxed);
        let slots: Vec<_> = std::mem::take(&mut *dirty).into_values().collect();
        for slot in &slots {
            slot.set_noted(false);
        }
        slots
    }

    /// Returns an error if an earlier write failed. Every change begins with this check.
    ///
    /// # Errors
    /// [`Error::Latched`].
    pub fn check(&self) -> Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(reason) => {
                Err(Error::Latched { device: self.device.info().name.clone(), reason: reason.to_string() })
            }
        }
    }

    /// Refuses all further changes, because an operation can be neither finished nor undone.
    /// Returns the error that they get, with the `reason`.
    pub fn half_done(&self, reason: &dyn std::fmt::Display) -> Error {
        let failed = std::io::Error::other(reason.to_string());
        let error = Error::io(&self.device.info().name, "taking back an operation", failed);
        self.check().err().unwrap_or_else(|| self.fail(error))
    }

    fn fail(&self, error: Error) -> Error {
        if self.failure.set(error.clone()).is_ok() {
            error!("{error}: no more changes are accepted");
        }
        error
    }
}

#[cfg(test)]
mod tests;
