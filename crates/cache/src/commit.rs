//! Commits: changes become durable in a log, epoch by epoch, and are checkpointed later.
//!
//! An *epoch* is all transactions between two commits; it is taken while no transaction is open.
//! File data goes to the device first, together with buffers that the epoch has made in free space:
//! nothing durable points to either yet. Then the epoch's changes of other buffers go to the log,
//! which orders the two with a barrier. From then on the epoch is *committed*. Its buffers may be
//! written to their places at any time (a *checkpoint*). That must happen before the log reuses
//! their space; until then the device has old bytes at their addresses.
//!
//! Only what is committed is ever checkpointed. A buffer that is changed again before that keeps a
//! copy of its committed bytes. The next commit compares with them, and logs only sectors that have
//! changed.

use crate::buffer::Slot;
use crate::flush::gather;
use crate::log::{Changes, Log};
use crate::stream::Stream;
use crate::{Cache, Tx};
use spindle_clock::Mutex;
use spindle_device::{Request, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// An epoch, by number; later ones have greater numbers.
pub type Epoch = u64;

/// The log of a cache, and the changes that are not checkpointed yet.
pub(crate) struct LogState {
    log: Arc<dyn Log>,
    /// Committed buffers that are not checkpointed yet, by address.
    committed: Mutex<BTreeMap<u64, Arc<Slot>>>,
    /// Bytes of metadata that the present epoch has freed.
    revoked: Mutex<Vec<Range<u64>>>,
    /// The present epoch.
    epoch: AtomicU64,
    /// The last epoch that is durable.
    durable: AtomicU64,
    /// Bytes of the log that the present epoch's changes need, and that its open transactions have
    /// reserved.
    claimed: AtomicUsize,
}

impl LogState {
    pub(crate) fn new(log: Arc<dyn Log>) -> Self {
        Self {
            log,
            committed: Mutex::default(),
            revoked: Mutex::default(),
            epoch: AtomicU64::new(1),
            durable: AtomicU64::new(0),
            claimed: AtomicUsize::new(0),
        }
    }

    /// Reserves bytes of the log for the present epoch. Returns false if the epoch would become
    /// larger than the log can take.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let fits = self.claimed.fetch_add(bytes, Ordering::AcqRel) + bytes <= self.log.limit_bytes();
        if !fits {
            self.release(bytes);
        }
        fits
    }

    /// Claims bytes beyond a reservation.
    pub(crate) fn claim(&self, bytes: usize) {
        self.claimed.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Gives back bytes that were reserved and not needed.
    pub(crate) fn release(&self, bytes: usize) {
        self.claimed.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Replaces the committed slot at the same address; returns false if there is none.
    pub(crate) fn replace(&self, slot: &Arc<Slot>) -> bool {
        self.committed.lock().get_mut(&slot.at()).map(|old| *old = slot.clone()).is_some()
    }

    /// Notes that an epoch is committed: its buffers now wait for a checkpoint, and buffers that it
    /// freed no longer do.
    fn note_committed(&self, changes: &Changes, slots: Vec<Arc<Slot>>) {
        let mut committed = self.committed.lock();
        for range in &changes.revoked {
            let gone: Vec<_> = committed.range(range.clone()).map(|(&at, _)| at).collect();
            for at in gone {
                committed.remove(&at);
            }
        }
        committed.extend(slots.into_iter().map(|slot| (slot.at(), slot)));
    }
}

impl Cache {
    /// Returns the epoch that an open transaction belongs to.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.log.as_ref().map_or(0, |log| log.epoch.load(Ordering::Acquire))
    }

    /// Returns true if an epoch is durable.
    #[must_use]
    pub fn is_durable(&self, epoch: Epoch) -> bool {
        self.log.as_ref().is_some_and(|log| epoch <= log.durable.load(Ordering::Acquire))
    }

    /// Returns true if the present epoch is large enough to be committed before it grows further.
    /// While another thread commits, it may grow as far as the log can take it.
    #[must_use]
    pub fn wants_commit(&self) -> bool {
        self.log.as_ref().is_some_and(|log| {
            let is_large = log.claimed.load(Ordering::Relaxed) > log.log.commit_bytes();
            (is_large && self.flushing.try_lock().is_some())
                || self.dirty_bytes.load(Ordering::Relaxed) > self.settings.dirty_limit_bytes
        })
    }

    /// Notes that the metadata in `bytes` is freed. Once this transaction is committed, earlier
    /// records of these bytes are not replayed, and committed buffers there are not checkpointed.
    /// The caller must not let the space be used before.
    pub fn revoke(&self, tx: &Tx<'_>, bytes: Range<u64>) {
        debug_assert!(tx.is_of(self), "a transaction of this cache");
        if let Some(log) = &self.log {
            log.revoked.lock().push(bytes);
        }
    }

    /// Makes every epoch up to `through` durable, with all file data written before. `prepare` is
    /// called first, while no other transaction is open: its changes belong to the epoch. It
    /// returns the space that the epoch frees, in bytes of the device: other transactions, which go
    /// on now, may allocate it, but nothing is written to it before the epoch is durable. If it
    /// fails, nothing is committed.
    ///
    /// # Errors
    /// When the device or the log fails; the cache accepts no changes after that. Also those of
    /// `prepare`; if that had changed something before it failed, the cache accepts no more changes
    /// either.
    pub fn commit<E: From<spindle_device::Error>>(
        &self,
        through: Epoch,
        prepare: impl FnOnce(&Tx<'_>) -> std::result::Result<Vec<Range<u64>>, E>,
    ) -> std::result::Result<(), E> {
        let Some(log) = &self.log else { return Ok(self.sync()?) };
        let _one = self.flushing.lock();
        self.check()?;
        if self.is_durable(through) {
            // Data that was written in place since then may not be durable.
            return Ok(self.device.flush().map_err(|error| self.fail(error))?);
        }
        // Most of the data is started while transactions go on, so that they are kept out only for
        // a short time.
        self.start_delayed()?;
        let gate = self.gate.write();
        let tx = Tx::new(self, None, 0, false);
        // If this fails after changing something, dropping `tx` latches the failure.
        let freed = prepare(&tx)?;
        tx.commit();
        let epoch = log.epoch.fetch_add(1, Ordering::AcqRel);
        let taken = self.take_epoch(log).map_err(|error| self.fail(error))?;
        let holding = self.hold(freed);
        drop(gate);
        self.log_epoch(log, taken).map_err(|error| self.fail(error))?;
        if log.log.is_lost() {
            self.write_committed(log).map_err(|error| self.fail(error))?;
        }
        log.durable.store(epoch, Ordering::Release);
        drop(holding);
        if log.log.wants_checkpoint() {
            self.relieve(log).map_err(|error| self.fail(error))?;
        }
        Ok(())
    }

    /// Writes everything that is committed to its place, so that the log holds nothing any more.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn checkpoint(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let _one = self.flushing.lock();
        self.check()?;
        self.write_committed(log).map_err(|error| self.fail(error))
    }

    /// Makes the data of a file durable, but not its inode: enough if its size and its block
    /// pointers are durable already.
    ///
    /// # Errors
    /// When the device fails.
    pub fn sync_data(&self, stream: &Arc<Stream>) -> Result<()> {
        self.check()?;
        self.write_out(stream, 0..u64::MAX)?;
        self.land_writes(stream)?;
        self.device.flush().map_err(|error| self.fail(error))
    }

    /// Takes the changes of the present epoch, while no transaction is open, and starts writing all
    /// file data. If the log has no room for them, there is a checkpoint first.
    fn take_epoch(&self, log: &LogState) -> Result<TakenEpoch> {
        let slots = self.take_dirty();
        log.claimed.store(0, Ordering::Release);
        let mut changes = Changes { revoked: std::mem::take(&mut *log.revoked.lock()), changed: Vec::new() };
        let (new, slots): (Vec<_>, Vec<_>) = slots.into_iter().partition(|slot| slot.is_new());
        for slot in &slots {
            slot.copy_changes(self.sector(), &mut changes.changed);
        }
        // This must happen before the epoch ends: the buffers still have their committed bytes, and
        // no transaction can change them.
        if !log.log.has_room(&changes) {
            self.write_committed(log)?;
        }
        let writes = gather(&new, Slot::copy_sealed);
        for slot in slots.iter().chain(&new) {
            slot.end_epoch();
        }
        Ok(TakenEpoch { slots, changes, _new: new, writes, streams: self.start_delayed()? })
    }

    /// Makes an epoch durable: first its file data and new buffers, then its other changes through
    /// the log.
    fn log_epoch(&self, log: &LogState, taken: TakenEpoch) -> Result<()> {
        let TakenEpoch { slots, changes, _new, writes, streams } = taken;
        self.transfer(writes)?;
        self.land_delayed(&streams)?;
        if changes.is_empty() {
            return self.device.flush();
        }
        log.log.commit(&changes)?;
        log.note_committed(&changes, slots);
        Ok(())
    }

    /// Makes room in a log that wants a checkpoint. If little of what it has is still needed, that
    /// is appended again out of the buffers (*compaction*: multi-structured paper, section 4.5),
    /// and nothing goes to its place. What is appended must be small beside the log, and its
    /// buffers, which stay in memory, beside the capacity. The caller holds `flushing`.
    fn relieve(&self, log: &LogState) -> Result<()> {
        let most = if self.settings.compaction { log.log.compact_bytes() } else { 0 };
        let slots: Vec<_> = log.committed.lock().values().cloned().collect();
        let logged: usize = slots.iter().map(|slot| slot.logged_bytes()).sum();
        let held: usize = slots.iter().map(|slot| slot.len()).sum();
        if logged == 0 || logged > most || held > self.settings.capacity_bytes / 2 {
            return self.write_committed(log);
        }
        let mut changes = Changes::default();
        for slot in &slots {
            slot.copy_logged(self.sector(), &mut changes.changed);
        }
        if !log.log.has_room(&changes) {
            return self.write_committed(log);
        }
        log.log.compact(&changes)?;
        if log.log.is_lost() { self.write_committed(log) } else { Ok(()) }
    }

    /// Checkpoints all committed buffers, and lets the log reuse their space. The caller holds
    /// `flushing`.
    fn write_committed(&self, log: &LogState) -> Result<()> {
        let slots: Vec<_> = std::mem::take(&mut *log.committed.lock()).into_values().collect();
        self.transfer(gather(&slots, Slot::copy_committed))?;
        self.device.flush()?;
        for slot in &slots {
            slot.checkpointed();
        }
        log.log.checkpointed();
        Ok(())
    }
}

/// An epoch on its way to the log.
struct TakenEpoch {
    /// The buffers that it has changed.
    slots: Vec<Arc<Slot>>,
    /// Their changes.
    changes: Changes,
    /// The buffers that it has made in free space, which stay in memory until the device has them.
    _new: Vec<Arc<Slot>>,
    /// The writes of these.
    writes: Vec<Request>,
    /// The streams whose data has been started.
    streams: Vec<Arc<Stream>>,
}

#[cfg(test)]
mod tests;
