//! From a trace to requests for blocks, numbered so that caches are arrays.
//!
//! A trace of a disk or a cache names blocks by what they are ([`BlockId`], or an object's number);
//! a [`Replacement`] and the curves want small numbers. [`Numbered`] stands between the two with
//! the one hash table that a simulation needs, however many caches it feeds.
//!
//! Traces of programs have opens and closes, which say more than requests: whose data goes, what
//! need not be read first. They become accesses of blocks by the rules of the 1985 paper in the
//! module `cachesim`, and are refused here.
//!
//! [`Replacement`]: spindle_cache::policy::Replacement

mod events;
mod number;
mod oracle;

pub use events::{BlockId, Events, Unit};
pub use number::Numbered;
pub use oracle::OracleFile;

use crate::Result;

/// What is asked of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request<B> {
    /// The block is used.
    Use(B),
    /// The block's data is gone.
    Gone(B),
}

impl<B> Request<B> {
    /// Returns the same of another name of the block.
    #[inline]
    pub fn map<C>(self, name: impl FnOnce(B) -> C) -> Request<C> {
        match self {
            Self::Use(block) => Request::Use(name(block)),
            Self::Gone(block) => Request::Gone(name(block)),
        }
    }
}

/// Most requests of a batch: few enough to stay in the processor's cache while several simulations
/// go over them.
pub const BATCH: usize = 1 << 12;

/// A stream of requests.
pub trait Requests {
    /// What names a block.
    type Block: Copy;

    /// Replaces what is in `batch` by the next requests, [`BATCH`] at most; false if there are no
    /// more (the batch is then empty).
    ///
    /// # Errors
    /// As reading the trace does.
    fn next(&mut self, batch: &mut Vec<Request<Self::Block>>) -> Result<bool>;

    /// Returns how much of the trace has been given, from 0 to 1, if that is known.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// These requests, with numbers for blocks.
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

/// Requests that lie in memory.
#[derive(Clone, Debug)]
pub struct Listed<'a, B>(&'a [Request<B>]);

impl<'a, B> Listed<'a, B> {
    /// These.
    #[must_use]
    pub const fn new(requests: &'a [Request<B>]) -> Self {
        Self(requests)
    }
}

impl<B: Copy> Requests for Listed<'_, B> {
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
