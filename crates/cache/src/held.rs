//! Space that was freed by an epoch that is not durable yet: nothing may be written to it, because
//! a crash would bring back what it held.
//!
//! The file system enters freed space into its maps with the commit of the epoch
//! ([`Cache::commit`]), and transactions go on while the epoch is written to the log. Data that
//! they put there waits in its page until the epoch is durable; only who has to send it earlier
//! waits with it. New buffers need nothing of the kind: they are written by the next commit.

use crate::{Cache, Tx};
use spindle_clock::{Condvar, Mutex};
use spindle_device::Result;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The space that the epoch under way has freed.
#[derive(Default)]
pub(crate) struct Held {
    /// Bytes of the device, in the order of their addresses, without overlap.
    ranges: Mutex<Vec<Range<u64>>>,
    any: AtomicBool,
    released: Condvar,
}

impl Held {
    /// Returns true if nothing may be written to some of these bytes.
    pub(crate) fn overlaps(&self, bytes: &Range<u64>) -> bool {
        self.any.load(Ordering::Acquire) && overlap(&self.ranges.lock(), bytes)
    }
}

fn overlap(ranges: &[Range<u64>], bytes: &Range<u64>) -> bool {
    let next = ranges.partition_point(|range| range.end <= bytes.start);
    ranges.get(next).is_some_and(|range| range.start < bytes.end)
}

impl Cache {
    /// Holds back writes to freed space until the result is dropped.
    pub(crate) fn hold(&self, mut freed: Vec<Range<u64>>) -> Holding<'_> {
        freed.sort_unstable_by_key(|range| range.start);
        self.held.any.store(!freed.is_empty(), Ordering::Release);
        *self.held.ranges.lock() = freed;
        Holding(&self.held)
    }

    /// Declares free space of the device unused, unless the epoch under way has freed some of it.
    /// Returns true if it did. The caller has an open transaction, and keeps the space free
    /// meanwhile.
    ///
    /// # Errors
    /// When an earlier write failed; those of [`spindle_device::Device::discard`].
    pub fn discard_free(&self, tx: &Tx<'_>, bytes: &Range<u64>) -> Result<bool> {
        debug_assert!(tx.is_of(self), "a transaction of this cache");
        if self.held.overlaps(bytes) {
            return Ok(false);
        }
        // If the epoch under way has just failed, nothing is held any more.
        self.check()?;
        self.device.discard(bytes.start, bytes.end - bytes.start)?;
        Ok(true)
    }

    /// Waits until the space of these bytes can be written to. The caller must have nothing that a
    /// commit needs: no lock of a stream, and no transfer that was announced and not submitted.
    ///
    /// # Errors
    /// If the commit fails.
    pub(crate) fn await_release(&self, bytes: &Range<u64>) -> Result<()> {
        let mut ranges = self.held.ranges.lock();
        while overlap(&ranges, bytes) {
            self.held.released.wait(&mut ranges);
        }
        drop(ranges);
        self.check()
    }
}

/// Freed space that is held.
pub(crate) struct Holding<'a>(&'a Held);

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.any.store(false, Ordering::Release);
        self.0.ranges.lock().clear();
        self.0.released.notify_all();
    }
}
