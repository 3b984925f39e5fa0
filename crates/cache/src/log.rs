//! What the cache asks of a log: to make epochs durable, in order, each whole or not at all.
//!
//! An *epoch* is all transactions between two commits. The cache decides which changes an epoch
//! consists of and when they are checkpointed, that is written to their places on the device; where
//! and in which format a log keeps them is the file system's business.

use spindle_device::Result;
use std::ops::Range;

/// Bytes that transactions have changed, as they are at the end of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Address on the device in bytes, of a whole sector.
    pub at: u64,
    /// Whole sectors.
    pub bytes: Vec<u8>,
}

/// What the transactions of an epoch have changed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Addresses whose earlier records must not be replayed any more, because their space was
    /// freed. An epoch does not change what it has freed, but may have changed it before in the
    /// same place with another length; so these count before `changed`.
    pub revoked: Vec<Range<u64>>,
    /// In the order of their addresses, without overlap.
    pub changed: Vec<Change>,
}

impl Changes {
    /// Returns true if there is nothing to be logged.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.revoked.is_empty() && self.changed.is_empty()
    }
}

/// A log that epochs are committed to.
pub trait Log: Send + Sync {
    /// Returns the bytes of changes after which an epoch had better be committed; several such
    /// epochs fit into the log.
    fn commit_bytes(&self) -> usize;

    /// Returns the most bytes of changes that an epoch may have: so many can always be committed,
    /// after a checkpoint.
    fn limit_bytes(&self) -> usize;

    /// Returns true if there is space for an epoch without a checkpoint.
    fn has_room(&self, changes: &Changes) -> bool;

    /// Makes an epoch durable, and everything that was written to the device before it: when this
    /// returns, it survives. A crash before leaves the state after the epoch before this one.
    ///
    /// # Errors
    /// When the device fails, or the epoch is larger than the whole log. Whether the epoch is
    /// durable is then not known.
    fn commit(&self, changes: &Changes) -> Result<()>;

    /// Returns true when so much has been committed that a checkpoint is due.
    fn wants_checkpoint(&self) -> bool;

    /// Notes a checkpoint: everything that was committed so far is in its place and durable, so
    /// that its space in the log can be used again.
    fn checkpointed(&self);
}
