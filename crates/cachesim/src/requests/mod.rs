//! Turns a trace into requests for blocks, numbered so that caches can be arrays.
//!
//! A trace of a disk or a cache identifies blocks by position ([`BlockId`]) or by the number of an
//! object; a [`Replacement`] and the curves need small numbers. [`Numbered`] converts them, with
//! the one hash table that a simulation needs for any number of caches.
//!
//! Traces of programs have opens and closes, which say more than requests: which data is deleted,
//! and what need not be read first. The module `cachesim` turns them into accesses to blocks by the
//! rules of the 1985 paper; this module refuses them.
//!
//! [`Replacement`]: crate::replacement::Replacement

mod events;
mod number;
mod oracle;

pub use events::{BlockId, Events, Unit};
pub use number::Numbered;
pub use oracle::OracleFile;

use spindle_trace::Result;

/// A request to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request<B> {
    /// The block is used.
    Use(B),
    /// The data of the block is deleted.
    Deleted(B),
}

impl<B> Request<B> {
    /// Converts the identifier of the block.
    #[inline]
    pub fn map<C>(self, name: impl FnOnce(B) -> C) -> Request<C> {
        match self {
            Self::Use(block) => Request::Use(name(block)),
            Self::Deleted(block) => Request::Deleted(name(block)),
        }
    }
}

/// Maximum number of requests in a batch: small enough to stay in the processor's cache while
/// several simulations process them.
pub const BATCH: usize = 1 << 12;

/// A stream of requests.
pub trait Requests {
    /// Identifies a block.
    type Block: Copy;

    /// Replaces `batch` with the next requests, at most [`BATCH`]; returns false and an empty batch
    /// at the end.
    ///
    /// # Errors
    /// Errors of reading the trace.
    fn next(&mut self, batch: &mut Vec<Request<Self::Block>>) -> Result<bool>;

    /// Returns the part of the trace that has been read, from 0 to 1, if known.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// Converts the blocks to numbers.
    fn numbered(self) -> Numbered<Self>
    where
        Self: Sized,
    {
        Numbered::new(self)
    }
}

impl<R: Requests + ?Sized> Requests for &mut R {
    type Block = R::Block;

    fn next(&mut self, batch: &mut Vec<Request<Self::Block>>) -> Result<bool> {
        (**self).next(batch)
    }

    fn progress(&self) -> Option<f64> {
        (**self).progress()
    }
}

/// Requests in memory.
#[derive(Clone, Debug)]
pub struct RequestList<'a, B>(&'a [Request<B>]);

impl<'a, B> RequestList<'a, B> {
    /// Returns a stream of these requests.
    #[must_use]
    pub const fn new(requests: &'a [Request<B>]) -> Self {
        Self(requests)
    }
}

impl<B: Copy> Requests for RequestList<'_, B> {
    type Block = B;

    fn next(&mut self, batch: &mut Vec<Request<B>>) -> Result<bool> {
        let (now, later) = self.0.split_at(self.0.len().min(BATCH));
        batch.clear();
        batch.extend_from_slice(now);
        self.0 = later;
        Ok(!now.is_empty())
    }
}

#[cfg(test)]
mod tests;
