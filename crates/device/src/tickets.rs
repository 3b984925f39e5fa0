//! The tickets of an asynchronous engine, and their results.
//!
//! Invariant: a ticket is kept from [`Tickets::issue`] until [`Tickets::take`] returns its result
//! to the waiting caller. A ticket that is never waited for keeps its buffer until the device is
//! closed.

use crate::{AlignedBuf, Result};
use std::collections::HashMap;

/// Results by ticket number; `None` while the transfer is in flight.
#[derive(Default)]
pub(crate) struct Tickets {
    last: u64,
    results: HashMap<u64, Option<Result<AlignedBuf>>>,
}

impl Tickets {
    /// Returns a new ticket's number.
    pub fn issue(&mut self) -> u64 {
        self.last += 1;
        self.results.insert(self.last, None);
        self.last
    }

    /// Records the end of a transfer.
    pub fn finish(&mut self, id: u64, result: Result<AlignedBuf>) {
        self.results.insert(id, Some(result));
    }

    /// Returns the result, or `None` while there is none.
    ///
    /// # Panics
    /// Panics if the ticket was waited for before, or was never issued.
    pub fn take(&mut self, id: u64) -> Option<Result<AlignedBuf>> {
        let result = self.results.get_mut(&id).expect("each ticket is waited for once, on its device");
        let result = result.take()?;
        self.results.remove(&id);
        Some(result)
    }
}
