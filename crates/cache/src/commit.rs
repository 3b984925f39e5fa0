//! Commits: changes become durable in a log, group by group, and go home later.
//!
//! A *group* is all transactions between two commits; it is taken while no transaction is open. File data goes to the device
//! first, then the group to the log, which orders the two with a barrier. From then on the group's buffers are *committed*:
//! they may go home at any time (a *checkpoint*), must have done so before the log gives up their space, and until then
//! what the device has at their address is old.
//!
//! Only what is committed ever goes home. A buffer that is changed again before it is home keeps its committed bytes aside
//! ([`crate::buffer::Before`]), which also tell the next commit which of its sectors have changed: no others are logged.

use crate::buffer::Slot;
use crate::flush::gather;
use crate::stream::Stream;
use crate::wal::{Group, Log};
use crate::{Cache, Tx};
use spindle_clock::Mutex;
use spindle_device::Result;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A group of transactions, by number; later ones have greater numbers.
pub type GroupId = u64;

/// When transactions may go on after a commit has taken its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// At once, while the group is written to the log.
    Taken,
    /// When the group is durable: it has made space free, and until then nothing must be written there.
    Committed,
}

/// The log of a cache, and what stands between it and the device.
pub(crate) struct Journal {
    log: Arc<dyn Log>,
    /// Committed buffers that are not home yet, by address.
    homes: Mutex<BTreeMap<u64, Arc<Slot>>>,
    /// What the present group has freed.
    revoked: Mutex<Vec<Range<u64>>>,
    /// The present group.
    group: AtomicU64,
    /// The last group that is durable.
    durable: AtomicU64,
    /// What the present group may take in the log, in bytes.
    estimate: AtomicUsize,
}

impl Journal {
    pub(crate) fn new(log: Arc<dyn Log>) -> Self {
        Self {
            log,
            homes: Mutex::default(),
            revoked: Mutex::default(),
            group: AtomicU64::new(1),
            durable: AtomicU64::new(0),
            estimate: AtomicUsize::new(0),
        }
    }

    /// A change is about to be made that may need so many bytes of the log.
    pub(crate) fn expect(&self, bytes: usize) {
        self.estimate.fetch_add(bytes, Ordering::Relaxed);
    }

    /// True if the device does not have the committed bytes of the buffer at `at`.
    pub(crate) fn is_committed(&self, at: u64) -> bool {
        self.homes.lock().contains_key(&at)
    }

    /// A committed group's buffers wait to go home, and what it freed does not any more.
    fn committed(&self, group: &Group, slots: Vec<Arc<Slot>>) {
        let mut homes = self.homes.lock();
        for range in &group.revoked {
            let gone: Vec<_> = homes.range(range.clone()).map(|(&at, _)| at).collect();
            for at in gone {
                homes.remove(&at);
            }
        }
        homes.extend(slots.into_iter().map(|slot| (slot.at(), slot)));
    }
}

impl Cache {
    /// The group that an open transaction belongs to.
    #[must_use]
    pub fn group(&self) -> GroupId {
        self.journal.as_ref().map_or(0, |journal| journal.group.load(Ordering::Acquire))
    }

    /// True if a group is durable.
    #[must_use]
    pub fn is_durable(&self, group: GroupId) -> bool {
        self.journal.as_ref().is_some_and(|journal| group <= journal.durable.load(Ordering::Acquire))
    }

    /// True if the present group is large enough to be committed before it grows further.
    #[must_use]
    pub fn wants_commit(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| {
            journal.estimate.load(Ordering::Relaxed) > journal.log.group_bytes()
                || self.dirty_bytes.load(Ordering::Relaxed) > self.settings.dirty_limit_bytes
        })
    }

    /// Freed metadata: what was logged for these bytes is not carried out after a crash, and what is committed of it does
    /// not go home, once this transaction is committed. The caller lets nobody use the space before.
    pub fn revoke(&self, tx: &Tx<'_>, bytes: Range<u64>) {
        debug_assert!(std::ptr::eq(tx.cache, self), "a transaction of this cache");
        if let Some(journal) = &self.journal {
            journal.revoked.lock().push(bytes);
        }
    }

    /// Makes every group up to `through` durable, with all file data written before. `prepare` is called first, while
    /// no other transaction is open: its changes belong to the group. It says when others may go on; if it fails, nothing is
    /// committed.
    ///
    /// # Errors
    /// When the device or the log fails; the cache accepts no changes after that. As `prepare`; if it has changed something
    /// before, there are no more changes either.
    pub fn commit<E: From<spindle_device::Error>>(
        &self,
        through: GroupId,
        prepare: impl FnOnce(&Tx<'_>) -> std::result::Result<Resume, E>,
    ) -> std::result::Result<(), E> {
        let Some(journal) = &self.journal else { return Ok(self.sync()?) };
        let _one = self.flushing.lock();
        self.check()?;
        if self.is_durable(through) {
            return Ok(());
        }
        // Most of the data while transactions go on, so that they are kept out for a short time only.
        self.start_delayed()?;
        let gate = self.gate.write();
        let tx = Tx { cache: self, changed: AtomicBool::new(false), at_once: None, _gate: None };
        // What fails here is half done, if it has changed anything: then `tx` is given up.
        let resume = prepare(&tx)?;
        tx.commit();
        let number = journal.group.fetch_add(1, Ordering::AcqRel);
        let taken = self.take_group(journal);
        let gate = (resume == Resume::Committed).then_some(gate);
        taken.and_then(|taken| self.log_group(journal, taken)).map_err(|error| self.fail(error))?;
        journal.durable.store(number, Ordering::Release);
        drop(gate);
        if journal.log.wants_trim() {
            self.checkpoint(journal).map_err(|error| self.fail(error))?;
        }
        Ok(())
    }

    /// Brings everything that is committed home, so that the log holds nothing any more.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn bring_home(&self) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let _one = self.flushing.lock();
        self.check()?;
        self.checkpoint(journal).map_err(|error| self.fail(error))
    }

    /// Makes the data of a file durable, but not where it is: enough if its size and its blocks were durable before.
    ///
    /// # Errors
    /// When the device fails.
    pub fn sync_data(&self, stream: &Arc<Stream>) -> Result<()> {
        self.check()?;
        self.write_out(stream, 0..u64::MAX)?;
        self.land_writes(stream)?;
        self.device.flush().map_err(|error| self.fail(error))
    }

    /// Takes the changes of the present group, while no transaction is open, and starts writing all file data. If the log has no
    /// room for them, what is committed goes home first.
    fn take_group(&self, journal: &Journal) -> Result<Taken> {
        let slots: Vec<_> = std::mem::take(&mut *self.dirty.lock()).into_values().collect();
        self.dirty_bytes.store(0, Ordering::Relaxed);
        journal.estimate.store(0, Ordering::Relaxed);
        let sector = self.device.info().sector_bytes as usize;
        let mut group = Group { revoked: std::mem::take(&mut *journal.revoked.lock()), changes: Vec::new() };
        for slot in &slots {
            slot.copy_changes(sector, &mut group.changes);
        }
        // Not later: the buffers still tell what is committed from what this group has changed, and nobody changes them.
        if !journal.log.has_room(&group) {
            self.checkpoint(journal)?;
        }
        for slot in &slots {
            slot.end_group();
        }
        Ok(Taken { slots, group, streams: self.start_delayed()? })
    }

    /// Makes a group durable: its file data, then itself.
    fn log_group(&self, journal: &Journal, taken: Taken) -> Result<()> {
        let Taken { slots, group, streams } = taken;
        self.land_delayed(&streams)?;
        if group.changes.is_empty() && group.revoked.is_empty() {
            return if streams.is_empty() { Ok(()) } else { self.device.flush() };
        }
        journal.log.commit(&group)?;
        journal.committed(&group, slots);
        Ok(())
    }

    /// Writes all committed buffers home and lets the log forget them. The caller keeps commits out.
    fn checkpoint(&self, journal: &Journal) -> Result<()> {
        let slots: Vec<_> = std::mem::take(&mut *journal.homes.lock()).into_values().collect();
        self.transfer(gather(&slots, Slot::copy_committed))?;
        self.device.flush()?;
        journal.log.trim();
        Ok(())
    }
}

/// A group on its way to the log.
struct Taken {
    slots: Vec<Arc<Slot>>,
    group: Group,
    /// The streams whose data has been started.
    streams: Vec<Arc<Stream>>,
}
