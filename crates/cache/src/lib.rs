//! The one cache: every file system reads and writes its device through it.
//!
//! A [`Buffer`] is a run of bytes at a device address: metadata. A [`Stream`] is the data of one file, which moves in clusters
//! and is kept or not as [`DataSettings`] say ([`Cache::read`], [`Cache::write`]); `stream` tells its rules. The cache
//! knows nothing of what bytes mean: a [`Seal`] given with a buffer puts checksums right before the bytes leave for the device.
//!
//! Changes happen inside a transaction: [`Cache::begin`] gives a [`Tx`], and only with one in hand can a
//! buffer or a stream be written to. A flush takes all that has changed at a moment when no transaction is open, so
//! what goes to the device together is a state between operations, never amid one; data goes before metadata. With a [`Log`],
//! such a group of changes becomes durable there, whole or not at all, and goes home later ([`Cache::commit`]).
//!
//! What the caller must do:
//! - keep each byte of the device in at most one role at a time: a buffer, or the data of one file;
//! - call [`Cache::forget`] when the space of a buffer is freed, and [`Cache::discard`] or [`Cache::settle`] before that of
//!   file data is, so that nothing of it is under way when somebody else uses it;
//! - hold its own lock on the owner of a buffer while changing it; ask for one address with one length, or
//!   hold that lock exclusively when the length changes;
//! - have at most one transaction open in a thread, and not wait in it for one of another thread.

mod buffer;
mod commit;
mod flight;
mod flush;
pub mod policy;
mod settings;
mod stream;
mod wal;

pub use buffer::{Buffer, BufferGuard, BufferMut, Seal};
pub use commit::{GroupId, Resume};
pub use settings::{DataSettings, Naming, Settings};
pub use stream::{Extent, Space, Stream};
pub use wal::{Change, Group, Log};

use buffer::Slot;
use commit::Journal;
use spindle_clock::{Clock, Condvar, Mutex, RwLock, RwLockReadGuard};
use spindle_device::{AlignedBuf, Device, Error, Result};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use stream::Pool;

const SHARDS: usize = 16;
/// Files with delayed data, or data on its way, before that is seen off.
const PENDING_STREAMS: usize = 4096;

#[derive(Default)]
struct Shard {
    slots: HashMap<u64, Arc<Slot>>,
    /// Addresses in the order in which they are considered for eviction.
    clock: VecDeque<u64>,
    bytes: usize,
}

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
    journal: Option<Journal>,
    /// One flush or commit at a time.
    flushing: Mutex<()>,
    /// Notified when buffers in flight have landed.
    landed: (Mutex<()>, Condvar),
    /// The first write that failed; nothing is changed after it.
    failure: Mutex<Option<Error>>,
}

/// An open transaction. One that has changed something must end with [`Self::commit`]; its changes then reach the device together.
/// Dropping it gives it up: what it has changed is half an operation that must never reach the device, so nothing is changed any
/// more afterwards.
pub struct Tx<'a> {
    cache: &'a Cache,
    changed: AtomicBool,
    /// Buffers that go to the device when it ends, in this order.
    at_once: Option<Mutex<Vec<Arc<Slot>>>>,
    /// None while a commit has the gate.
    _gate: Option<RwLockReadGuard<'a, ()>>,
}

impl Tx<'_> {
    /// Ends the transaction: the operation is whole.
    pub fn commit(mut self) {
        *self.changed.get_mut() = false;
    }

    fn note(&self, slot: &Arc<Slot>) {
        if let Some(at_once) = &self.at_once {
            let mut slots = at_once.lock();
            if !slots.iter().any(|known| Arc::ptr_eq(known, slot)) {
                slots.push(slot.clone());
            }
        }
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        if *self.changed.get_mut() {
            let reason =
                std::io::Error::other("it failed halfway, and what it has changed must not be written");
            self.cache.fail(Error::io(&self.cache.device.info().name, "an operation", reason));
            return;
        }
        let Some(slots) = self.at_once.take().map(Mutex::into_inner) else { return };
        let durable = self.cache.settings.naming == Naming::Durable && !slots.is_empty();
        let written = slots.iter().try_for_each(|slot| self.cache.write_slot(slot));
        // A failure ends all further changes, so whoever asks next is told.
        let _ = written.and_then(
            |()| {
                if durable { self.cache.directly(|device| device.flush()) } else { Ok(()) }
            },
        );
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.pool.abandon();
    }
}

impl Cache {
    /// A cache over `device`, which tells `clock` what it does.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, clock: Arc<dyn Clock>, settings: Settings) -> Self {
        Self {
            device,
            clock,
            settings,
            pool: Arc::default(),
            shards: Default::default(),
            gate: RwLock::new(()),
            dirty: Mutex::default(),
            dirty_bytes: AtomicUsize::new(0),
            journal: None,
            flushing: Mutex::default(),
            landed: (Mutex::new(()), Condvar::new()),
            failure: Mutex::default(),
        }
    }

    /// As [`Self::new`], with changes to buffers becoming durable in `log`: see [`Self::commit`], which the caller calls when
    /// [`Self::wants_commit`] says so and no transaction is open in its thread.
    #[must_use]
    pub fn with_log(
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        log: Arc<dyn Log>,
    ) -> Self {
        let mut cache = Self::new(device, clock, settings);
        cache.journal = Some(Journal::new(log));
        cache
    }

    /// The device below.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Does something to the device past the cache that has to succeed if changes are to be accepted any longer.
    ///
    /// # Errors
    /// As `work`, and when an earlier write failed.
    pub fn directly<T>(&self, work: impl FnOnce(&dyn Device) -> Result<T>) -> Result<T> {
        self.check()?;
        work(&*self.device).map_err(|error| self.fail(error))
    }

    /// Opens a transaction, after flushing if too much has changed since the last flush; with a log, only file data.
    ///
    /// # Errors
    /// When an earlier write failed, or this flush does.
    pub fn begin(&self) -> Result<Tx<'_>> {
        let data = self.pool.dirty_bytes();
        let behind = self.dirty_bytes.load(Ordering::Relaxed) + data;
        if self.journal.is_none() && behind > self.settings.dirty_limit_bytes {
            self.flush()?;
        } else if data > self.settings.dirty_limit_bytes || self.pool.pending_streams() > PENDING_STREAMS {
            // Streams that wait for a flush stay in memory, and so do their owners. With a log, data that goes early saves a
            // commit its waiting.
            let streams = self.start_delayed()?;
            self.land_delayed(&streams)?;
        }
        self.check()?;
        Ok(Tx { cache: self, changed: AtomicBool::new(false), at_once: None, _gate: Some(self.gate.read()) })
    }

    /// [`Self::begin`] for an operation on names; see [`Naming`].
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_naming(&self) -> Result<Tx<'_>> {
        let mut tx = self.begin()?;
        if self.journal.is_none() && self.settings.naming != Naming::Delayed {
            tx.at_once = Some(Mutex::default());
        }
        Ok(tx)
    }

    /// The buffer of `len` bytes at byte `at`, read from the device if need be.
    ///
    /// # Errors
    /// When the device fails to read.
    pub fn get(&self, at: u64, len: usize, seal: Option<&Arc<dyn Seal>>) -> Result<Buffer<'_>> {
        let slot = self.slot(at, len, seal)?;
        slot.load(&*self.device)?;
        Ok(Buffer::new(self, slot))
    }

    /// As [`Self::get`], for space that holds nothing yet: all zeros, and nothing is read.
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
        self.forget(at);
        let buffer = Buffer::new(self, self.slot(at, len, seal)?);
        buffer.write_new(tx);
        Ok(buffer)
    }

    /// Drops the buffer at byte `at`, changed or not, and waits until no write of it is under way.
    pub fn forget(&self, at: u64) {
        let slot = {
            let mut shard = self.shard(at).lock();
            let slot = shard.slots.remove(&at);
            if let Some(slot) = &slot {
                shard.bytes -= slot.len();
            }
            slot
        };
        if let Some(slot) = slot {
            if self.dirty.lock().remove(&at).is_some() {
                self.dirty_bytes.fetch_sub(slot.len(), Ordering::Relaxed);
            }
            self.await_landing(&slot);
        }
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

    /// Finds or makes the slot, without reading it.
    fn slot(&self, at: u64, len: usize, seal: Option<&Arc<dyn Seal>>) -> Result<Arc<Slot>> {
        loop {
            let other = {
                let mut shard = self.shard(at).lock();
                match shard.slots.get(&at) {
                    Some(slot) if slot.len() == len => {
                        slot.touch();
                        return Ok(slot.clone());
                    }
                    Some(slot) => slot.clone(),
                    None => {
                        let slot = Arc::new(Slot::new(at, len, seal.cloned()));
                        self.insert(&mut shard, &slot);
                        return Ok(slot);
                    }
                }
            };
            self.resize(&other, len)?;
        }
    }

    /// Replaces a slot by one of another length, keeping what both have.
    fn resize(&self, old: &Arc<Slot>, len: usize) -> Result<()> {
        let at = old.at();
        old.load(&*self.device)?;
        let mut bytes = AlignedBuf::zeroed(len);
        let common = {
            let data = old.read();
            let common = len.min(data.len());
            bytes[..common].copy_from_slice(&data[..common]);
            common
        };
        if len > common {
            self.device.read_at(at + common as u64, &mut bytes[common..])?;
        }
        let committed = self.journal.as_ref().is_some_and(|journal| journal.is_committed(at));
        let changed = committed || self.dirty.lock().contains_key(&at);
        self.forget(at);
        let slot = Arc::new(Slot::loaded(at, bytes, old.seal()));
        if changed {
            slot.made_anew();
            self.note_dirty(&slot);
        }
        self.insert(&mut self.shard(at).lock(), &slot);
        Ok(())
    }

    fn insert(&self, shard: &mut Shard, slot: &Arc<Slot>) {
        shard.slots.insert(slot.at(), slot.clone());
        shard.clock.push_back(slot.at());
        shard.bytes += slot.len();
        self.evict(shard);
    }

    /// Gives up unchanged buffers that nobody holds and nobody asked for since they were last considered.
    fn evict(&self, shard: &mut Shard) {
        let mut tries = shard.clock.len() * 2;
        while shard.bytes > self.settings.capacity_bytes / SHARDS && tries > 0 {
            tries -= 1;
            let Some(at) = shard.clock.pop_front() else { return };
            let Some(slot) = shard.slots.get(&at) else { continue };
            if slot.was_touched() || Arc::strong_count(slot) > 1 {
                shard.clock.push_back(at);
            } else {
                shard.bytes -= slot.len();
                shard.slots.remove(&at);
            }
        }
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
            log::error!("{error}: no more changes are accepted");
            *failure = Some(error.clone());
        }
        error
    }
}

#[cfg(test)]
mod tests;
