//! The tickets an asynchronous engine has given out, and what became of them.
//!
//! Invariant: a ticket is in the book from [`Tickets::issue`] until [`Tickets::take`] hands its
//! result to the one who waits for it. A ticket that nobody waits for keeps its buffer until the
//! device is closed.

use crate::{AlignedBuf, Result};
use std::collections::HashMap;

/// Tickets by number; `None` while the transfer is under way.
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

    /// Notes the end of a transfer.
    pub fn finish(&mut self, id: u64, result: Result<AlignedBuf>) {
        self.results.insert(id, Some(result));
    }

    /// Returns the result, once there is one.
    ///
    /// # Panics
    /// If the ticket was waited for before, or was never issued.
    pub fn take(&mut self, id: u64) -> Option<Result<AlignedBuf>> {
        let result = self.results.get_mut(&id).expect("a ticket is waited for once, where it was given");
        let result = result.take()?;
        self.results.remove(&id);
        Some(result)
    }
}
