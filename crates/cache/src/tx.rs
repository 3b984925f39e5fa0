//! Transactions: changes that reach the device together, or are rolled back together.
//!
//! A [`Tx`] notes what it changes. While it is open it can be rolled back to a [`Savepoint`] or to
//! its beginning: bytes of buffers become what they were, buffers and data of new space are
//! forgotten, and data that was moved is back in its old place. So an operation that fails halfway
//! leaves no changes behind.
//!
//! Buffers that several transactions change at once, such as maps of free space, are the exception
//! ([`crate::Buffer::write_shared`]): a rollback leaves them alone, and the caller undoes its
//! changes to them while the transaction is open.
//!
//! With a log, a transaction reserves room for its changes when it begins. The bytes that all
//! transactions of an epoch have changed, and those that the open ones may still change, never
//! exceed what the log can take.

use crate::buffer::Slot;
use crate::commit::LogState;
use crate::settings::Naming;
use crate::stream::{Space, Stream};
use crate::{Cache, Error, Result};
use spindle_clock::RmLockReadGuard;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;

/// An open transaction.
///
/// It ends with [`Self::commit`]; its changes then reach the device together. If a transaction is
/// dropped that has changed something and was not rolled back, half an operation is in memory. That
/// must never reach the device, so the cache accepts no more changes.
pub struct Tx<'a> {
    cache: &'a Cache,
    changed: Cell<bool>,
    undo: RefCell<Undo>,
    /// Buffers that go to the device when it ends, in this order.
    at_once: Option<RefCell<Vec<Arc<Slot>>>>,
    /// Bytes of the log that were reserved when it began.
    reserved: usize,
    /// Bytes of the log that its changes need.
    spent: Cell<usize>,
    /// None while a commit holds the gate exclusively.
    _gate: Option<RmLockReadGuard<'a, ()>>,
}

/// A moment in a transaction that it can be rolled back to.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint(usize);

/// The steps of a rollback, the latest last.
#[derive(Default)]
struct Undo {
    steps: Vec<Step>,
    /// The old bytes of all [`Step::Bytes`], in their order.
    bytes: Vec<u8>,
}

enum Step {
    /// `len` bytes from `start` of the buffer at address `at` have changed.
    Bytes { at: u64, start: usize, len: usize },
    /// A buffer was made at this address, for new space.
    Made(u64),
    /// The buffer at address `at` had this length.
    Resized { at: u64, len: usize },
    /// Space was allocated for blocks of a file.
    Data { stream: Arc<Stream>, blocks: Range<u64> },
    /// A block of a file was moved; it had these bytes in this space.
    Moved { stream: Arc<Stream>, space: Space, bytes: Vec<u8> },
    /// These bytes of a file were overwritten in place.
    Overwritten { stream: Arc<Stream>, space: Space, bytes: Vec<u8> },
    /// A block of a file had space for `len` bytes.
    Grown { stream: Arc<Stream>, block: u64, len: usize },
}

impl<'a> Tx<'a> {
    /// Returns a transaction that holds the gate, with `reserved` bytes of the log.
    pub(crate) fn new(
        cache: &'a Cache,
        gate: Option<RmLockReadGuard<'a, ()>>,
        reserved: usize,
        at_once: bool,
    ) -> Self {
        Self {
            cache,
            changed: Cell::new(false),
            undo: RefCell::default(),
            at_once: at_once.then(RefCell::default),
            reserved,
            spent: Cell::new(0),
            _gate: gate,
        }
    }

    /// Ends the transaction: the operation is whole.
    pub fn commit(self) {
        let within = self.reserved == 0 || self.spent.get() <= self.reserved;
        debug_assert!(within, "{} of {} bytes of the log", self.spent.get(), self.reserved);
        self.changed.set(false);
    }

    /// Returns the bytes of the log that are still reserved for changes; without a log there is no
    /// limit.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.log().is_some() { self.reserved.saturating_sub(self.spent.get()) } else { usize::MAX }
    }

    /// Takes `bytes` of the reservation for changes of this transaction that the commit of its
    /// epoch makes.
    pub fn spend(&self, bytes: usize) {
        let Some(log) = self.log() else { return };
        let before = self.spent.get().max(self.reserved);
        self.spent.set(self.spent.get() + bytes);
        log.claim(self.spent.get().max(self.reserved) - before);
    }

    /// Returns `bytes` to the reservation that [`Self::spend`] took and that are not needed.
    pub fn refund(&self, bytes: usize) {
        let Some(log) = self.log() else { return };
        let before = self.spent.get().max(self.reserved);
        self.spent.set(self.spent.get().saturating_sub(bytes));
        log.release(before - self.spent.get().max(self.reserved));
    }

    /// Returns a savepoint of the present state.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.undo.borrow().steps.len())
    }

    /// Returns the beginning of the transaction.
    #[must_use]
    pub const fn beginning() -> Savepoint {
        Savepoint(0)
    }

    /// Notes that space was allocated for blocks of a file: a rollback drops the data written
    /// there.
    pub fn forget_data_on_rollback(&self, stream: &Arc<Stream>, blocks: Range<u64>) {
        self.push(Step::Data { stream: stream.clone(), blocks }, &[]);
    }

    /// Notes the bytes and the space of a block of a file before it moves: a rollback restores
    /// both.
    pub fn move_data_back_on_rollback(&self, stream: &Arc<Stream>, space: Space, bytes: Vec<u8>) {
        self.push(Step::Moved { stream: stream.clone(), space, bytes }, &[]);
    }

    /// Notes the bytes of a part of a block of a file before they are overwritten: a rollback
    /// restores them.
    pub fn restore_data_on_rollback(&self, stream: &Arc<Stream>, space: Space, bytes: Vec<u8>) {
        self.push(Step::Overwritten { stream: stream.clone(), space, bytes }, &[]);
    }

    /// Notes that a block of a file had space for `len` bytes and is about to grow: a rollback
    /// drops the data behind them.
    pub fn cut_data_on_rollback(&self, stream: &Arc<Stream>, block: u64, len: usize) {
        self.push(Step::Grown { stream: stream.clone(), block, len }, &[]);
    }

    /// Rolls back all changes since `to`, except those of shared buffers. A step that fails does
    /// not keep the others from being taken back, because reading goes on.
    ///
    /// # Errors
    /// When the device fails; no changes are accepted after that.
    pub fn roll_back(&self, to: Savepoint) -> Result<()> {
        let mut result = Ok(());
        loop {
            let (step, former) = {
                let mut undo = self.undo.borrow_mut();
                if undo.steps.len() <= to.0 {
                    return result;
                }
                let Some(step) = undo.steps.pop() else { return result };
                let former = match step {
                    Step::Bytes { len, .. } => {
                        let from = undo.bytes.len() - len;
                        undo.bytes.split_off(from)
                    }
                    _ => Vec::new(),
                };
                (step, former)
            };
            result = result.and(self.take_back(step, &former).map_err(|error| self.cache.fail(error)));
        }
    }

    fn take_back(&self, step: Step, former: &[u8]) -> Result<()> {
        let known = |at| {
            let gone = || std::io::Error::other(format!("the buffer at byte {at} is gone"));
            let name = &self.cache.device.info().name;
            self.cache.known(at).ok_or_else(|| Error::io(name, "taking a change back", gone()))
        };
        match step {
            Step::Bytes { at, start, .. } => {
                let slot = known(at)?;
                if slot.len() < start + former.len() {
                    // In a damaged file system the same bytes may have been read with less length.
                    self.cache.resize_slot(&slot, start + former.len())?;
                }
                known(at)?.put_back(start, former);
            }
            Step::Made(at) => self.cache.forget(at),
            Step::Resized { at, len } => self.cache.resize_slot(&known(at)?, len)?,
            Step::Data { stream, blocks } => self.cache.discard(&stream, blocks)?,
            Step::Overwritten { stream, space, bytes } => self.cache.put_back(&stream, space, &bytes)?,
            Step::Grown { stream, block, len } => self.cache.cut(&stream, block, len)?,
            Step::Moved { stream, space, bytes } => {
                let block = space.offset / stream.block_bytes();
                let discarded = self.cache.discard(&stream, block..block + 1);
                discarded.and(self.cache.put_back(&stream, space, &bytes))?;
            }
        }
        Ok(())
    }

    pub(crate) fn made(&self, at: u64) {
        self.push(Step::Made(at), &[]);
    }

    pub(crate) fn resized(&self, at: u64, len: usize) {
        self.push(Step::Resized { at, len }, &[]);
    }

    pub(crate) fn changes(&self, at: u64, start: usize, former: &[u8]) {
        self.push(Step::Bytes { at, start, len: former.len() }, former);
    }

    fn push(&self, step: Step, former: &[u8]) {
        let mut undo = self.undo.borrow_mut();
        if undo.steps.capacity() == 0 {
            // For most operations.
            undo.steps.reserve(16);
            undo.bytes.reserve(1024);
        }
        undo.steps.push(step);
        undo.bytes.extend_from_slice(former);
    }

    /// Returns true if it belongs to `cache`.
    pub(crate) fn is_of(&self, cache: &Cache) -> bool {
        std::ptr::eq(self.cache, cache)
    }

    /// Notes that the transaction has changed something.
    pub(crate) fn has_changed(&self) {
        self.changed.set(true);
    }

    pub(crate) fn write_at_end(&self, slot: &Arc<Slot>) {
        if let Some(at_once) = &self.at_once {
            let mut slots = at_once.borrow_mut();
            if !slots.iter().any(|known| Arc::ptr_eq(known, slot)) {
                slots.push(slot.clone());
            }
        }
    }

    fn log(&self) -> Option<&'a LogState> {
        self.cache.log.as_ref()
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        if let Some(log) = self.log() {
            log.release(self.reserved.saturating_sub(self.spent.get()));
        }
        if self.changed.get() {
            let reason =
                std::io::Error::other("it failed halfway, and what it has changed must not be written");
            self.cache.fail(Error::io(&self.cache.device.info().name, "an operation", reason));
            return;
        }
        let Some(slots) = self.at_once.take().map(RefCell::into_inner) else { return };
        let durable = self.cache.settings.naming == Naming::Durable && !slots.is_empty();
        let written = slots.iter().try_for_each(|slot| self.cache.write_slot(slot));
        // A failure is latched, so the next change returns it.
        let _ = written.and_then(
            |()| {
                if durable { self.cache.directly(|device| device.flush()) } else { Ok(()) }
            },
        );
    }
}
