//! The one cache: every file system reads and writes its device through it.
//!
//! A [`Buffer`] is a run of bytes at a device address: metadata. A [`Stream`] is the data of one
//! file, which moves in clusters and is kept or not as [`DataSettings`] say ([`Cache::read`],
//! [`Cache::write`]); `stream` tells its rules. The cache knows nothing of what bytes mean: a
//! [`Seal`] given with a buffer puts checksums right before the bytes leave for the device.
//!
//! Changes happen inside a transaction: [`Cache::begin`] gives a [`Tx`], and only with one in hand
//! can a buffer or a stream be written to. One that fails is rolled back. A flush takes all that
//! has changed at a moment when no transaction is open, so what goes to the device together is a
//! state between operations, never amid one; data goes before metadata. With a [`Log`], the
//! transactions of such an *epoch* become durable there, all or none, and are checkpointed later
//! ([`Cache::commit`]).
//!
//! Nothing is durable before a barrier of the device: see [`spindle_device::Tracked`], which stands
//! between the cache and every device.
//!
//! What the caller must do:
//! - keep each byte of the device in at most one role at a time: a buffer, or the data of one file;
//! - call [`Cache::forget`] when the space of a buffer is freed, and [`Cache::discard`] or
//!   [`Cache::settle`] before that of file data is, so that nothing of it is under way when
//!   somebody else uses it;
//! - hold its own lock on the owner of a buffer while changing it; ask for one address with one
//!   length, and change that with [`Cache::resize`];
//! - have at most one transaction open in a thread, and not wait in it for one of another thread.

mod buffer;
mod commit;
mod flight;
mod flush;
mod log;
pub mod policy;
mod restore;
mod settings;
mod shard;
mod stream;
mod tx;

pub use buffer::{Buffer, BufferGuard, BufferMut, Seal};
pub use commit::{Epoch, Resume};
pub use log::{Change, Changes, Log};
pub use restore::Restore;
pub use settings::{DataSettings, Naming, Settings};
pub use stream::{Extent, Space, Stream};
pub use tx::{Savepoint, Tx};

use ::log::error;
use buffer::Slot;
use commit::LogState;
use shard::Shard;
use spindle_clock::{Clock, Condvar, Mutex, RwLock};
use spindle_device::{Device, Error, Result, Tracked};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use stream::Pool;

const SHARDS: usize = 16;
/// Files with delayed data, or data on its way, before the next transaction brings it to the
/// device.
const PENDING_STREAMS: usize = 4096;

/// The cache of one device.
pub struct Cache {
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    /// The memory of the streams.
    pool: Arc<Pool>,
    shards: [Mutex<Shard>; SHARDS],
    /// Open transactions hold it shared; a flush takes it exclusively to collect the changes.
    gate: RwLock<()>,
    dirty: Mutex<BTreeMap<u64, Arc<Slot>>>,
    dirty_bytes: AtomicUsize,
    /// The log, if changes become durable there first.
    log: Option<LogState>,
    /// One flush or commit at a time.
    flushing: Mutex<()>,
    /// Notified when buffers in flight have landed.
    landed: (Mutex<()>, Condvar),
    /// The first write that failed; nothing is changed after it.
    failure: Mutex<Option<Error>>,
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.pool.abandon();
    }
}

impl Cache {
    /// Returns a cache over `device`, which tells `clock` what it does.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, clock: Arc<dyn Clock>, settings: Settings) -> Self {
        Self {
            device: Arc::new(Tracked::new(device)),
            clock,
            settings,
            pool: Arc::default(),
            shards: Default::default(),
            gate: RwLock::new(()),
            dirty: Mutex::default(),
            dirty_bytes: AtomicUsize::new(0),
            log: None,
            flushing: Mutex::default(),
            landed: (Mutex::new(()), Condvar::new()),
            failure: Mutex::default(),
        }
    }

    /// As [`Self::new`], with changes to buffers becoming durable in `log`: see [`Self::commit`],
    /// which the caller calls when [`Self::wants_commit`] says so and no transaction is open in its
    /// thread.
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

    /// From now on changes go through `log`, or through none. So far nothing has been changed, or
    /// all of it was rolled back.
    pub fn set_log(&mut self, log: Option<Arc<dyn Log>>) {
        self.log = log.map(LogState::new);
    }

    /// Returns the device below, which keeps account of what is durable: whoever writes past the
    /// cache writes here, too.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Does something to the device past the cache that has to succeed if changes are to be
    /// accepted any longer.
    ///
    /// # Errors
    /// As `work`, and when an earlier write failed.
    pub fn directly<T>(&self, work: impl FnOnce(&dyn Device) -> Result<T>) -> Result<T> {
        self.check()?;
        work(&*self.device).map_err(|error| self.fail(error))
    }

    /// Opens a transaction that may change `log_bytes` of the log, after flushing if too much has
    /// changed since the last flush; with a log, only file data. None if the log has no room for
    /// that before the present epoch is committed: the caller does so ([`Self::commit`]) and tries
    /// again.
    ///
    /// # Errors
    /// When an earlier write failed, or this flush does.
    pub fn begin(&self, log_bytes: usize) -> Result<Option<Tx<'_>>> {
        self.begin_as(log_bytes, false)
    }

    /// [`Self::begin`] for an operation on names; see [`Naming`].
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
        } else if data > self.settings.dirty_limit_bytes || self.pool.pending_streams() > PENDING_STREAMS {
            // Streams that wait for a flush stay in memory, and so do their owners. With a log,
            // data that goes early saves a commit its waiting.
            let streams = self.start_delayed()?;
            self.land_delayed(&streams)?;
        }
        self.check()?;
        // The claim is made with the gate held: the commit that ends the epoch starts the books
        // anew.
        let gate = self.gate.read();
        if let Some(log) = &self.log
            && !log.reserve(log_bytes)
        {
            return Ok(None);
        }
        Ok(Some(Tx::new(self, Some(gate), log_bytes, at_once)))
    }

    /// Returns the buffer of `len` bytes at byte `at`, read from the device if need be.
    ///
    /// # Errors
    /// When the device fails to read.
    pub fn get(&self, at: u64, len: usize, seal: Option<&Arc<dyn Seal>>) -> Result<Buffer<'_>> {
        let slot = self.slot(at, len, seal)?;
        slot.load(&*self.device)?;
        Ok(Buffer::new(self, slot))
    }

    /// As [`Self::get`], for space that was free: all zeros, and nothing is read.
    ///
    /// # Errors
    /// As [`Self::get`], when somebody else asks for the same space with another length.
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

    /// As [`Self::get_new`], for space that is taken whatever becomes of the transaction: a
    /// rollback leaves the buffer and what [`Buffer::write_shared`] writes to it.
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

    /// Gives the buffer at byte `at` another length in a transaction, keeping what both have. Of a
    /// longer one the rest is read from the device. What is cut off is lost at once: a rollback
    /// does not bring it back.
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

    /// Drops the buffer at byte `at`, changed or not, and waits until no write of it is under way.
    pub fn forget(&self, at: u64) {
        let Some(slot) = self.shard(at).lock().remove(at) else { return };
        if self.dirty.lock().remove(&at).is_some() {
            self.dirty_bytes.fetch_sub(slot.len(), Ordering::Relaxed);
        }
        self.await_landing(&slot);
    }

    fn await_landing(&self, slot: &Slot) {
        let (lock, landed) = &self.landed;
        let mut guard = lock.lock();
        while slot.in_flight() {
            landed.wait(&mut guard);
        }
    }

    fn shard(&self, at: u64) -> &Mutex<Shard> {
        // Fibonacci hashing: addresses are multiples of large powers of two.
        let hash = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
        &self.shards[usize::try_from(hash).unwrap_or(0) % SHARDS]
    }

    /// Returns the slot at byte `at`, if it is in memory.
    pub(crate) fn known(&self, at: u64) -> Option<Arc<Slot>> {
        self.shard(at).lock().get(at)
    }

    /// Finds or makes the slot, without reading it.
    fn slot(&self, at: u64, len: usize, seal: Option<&Arc<dyn Seal>>) -> Result<Arc<Slot>> {
        loop {
            let other = {
                let mut shard = self.shard(at).lock();
                match shard.get(at) {
                    Some(slot) if slot.len() == len => {
                        slot.touch();
                        return Ok(slot);
                    }
                    Some(slot) => slot,
                    None => {
                        let slot = Arc::new(Slot::new(at, len, self.sector(), seal.cloned()));
                        shard.insert(slot.clone(), self.settings.capacity_bytes / SHARDS);
                        return Ok(slot);
                    }
                }
            };
            self.resize_slot(&other, len)?;
        }
    }

    /// Returns the bytes of a sector.
    fn sector(&self) -> usize {
        self.device.info().sector_bytes as usize
    }

    /// Replaces a slot by one of another length, keeping what both have.
    pub(crate) fn resize_slot(&self, old: &Arc<Slot>, len: usize) -> Result<()> {
        let at = old.at();
        old.load(&*self.device)?;
        let mut tail = vec![0; len.saturating_sub(old.len())];
        if !tail.is_empty() {
            self.device.read_at(at + old.len() as u64, &mut tail)?;
        }
        let slot = Arc::new(old.resized(len, &tail, self.sector()));
        let committed = self.log.as_ref().is_some_and(|log| log.replace(&slot));
        let changed = committed || self.dirty.lock().contains_key(&at);
        self.forget(at);
        if changed {
            // What is committed and not checkpointed must not be read from the device again.
            self.note_dirty(&slot);
        }
        self.shard(at).lock().insert(slot, self.settings.capacity_bytes / SHARDS);
        Ok(())
    }

    /// Enters a changed slot for the next flush.
    fn note_dirty(&self, slot: &Arc<Slot>) {
        if self.dirty.lock().insert(slot.at(), slot.clone()).is_none() {
            self.dirty_bytes.fetch_add(slot.len(), Ordering::Relaxed);
        }
    }

    /// Refuses after a failed write, as everything does that changes something.
    ///
    /// # Errors
    /// [`Error::Latched`].
    pub fn check(&self) -> Result<()> {
        match &*self.failure.lock() {
            None => Ok(()),
            Some(reason) => {
                Err(Error::Latched { device: self.device.info().name.clone(), reason: reason.to_string() })
            }
        }
    }

    fn fail(&self, error: Error) -> Error {
        let mut failure = self.failure.lock();
        if failure.is_none() {
            error!("{error}: no more changes are accepted");
            *failure = Some(error.clone());
        }
        error
    }
}

#[cfg(test)]
mod tests;
