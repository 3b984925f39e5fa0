//! The interface of a log: it makes epochs durable in order, each whole or not at all.
//!
//! An *epoch* is all transactions between two commits. The cache decides which changes an epoch
//! consists of and when they are checkpointed, that is, written to their places on the device. The
//! file system decides where a log keeps them and in which format.

use spindle_device::Result;
use std::ops::Range;

/// Changed bytes as they are at the end of an epoch.
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
    /// freed. They apply before `changed`: a block that was resized can be in both.
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
    /// Returns the bytes of changes after which an epoch should be committed; several such epochs
    /// fit into the log.
    fn commit_bytes(&self) -> usize;

    /// Returns the most bytes of changes that an epoch may have. That many can always be committed
    /// after a checkpoint.
    fn limit_bytes(&self) -> usize;

    /// Returns true if there is space for an epoch without a checkpoint.
    fn has_room(&self, changes: &Changes) -> bool;

    /// Makes an epoch durable, together with all earlier writes to the device. A crash before this
    /// returns leaves the state after the previous epoch.
    ///
    /// # Errors
    /// When the device fails, or the epoch is larger than the whole log. It is then not known if
    /// the epoch is durable.
    fn commit(&self, changes: &Changes) -> Result<()>;

    /// Returns true if the log has failed and keeps nothing any more. Each epoch is then written to
    /// its places before it counts as durable; a crash while it is leaves a part of it.
    fn is_lost(&self) -> bool {
        false
    }

    /// Returns true when so much has been committed that a checkpoint is due.
    fn wants_checkpoint(&self) -> bool;

    /// Returns the most bytes of changes for which [`Self::compact`] is worth while; 0 if it never
    /// is.
    fn compact_bytes(&self) -> usize {
        0
    }

    /// Appends changes again, durably, with which all records before are not needed any more: they
    /// are what those have and is not in its place, as it is committed.
    ///
    /// # Errors
    /// When the device fails. It is then not known if the changes are durable again; the records
    /// before still are.
    fn compact(&self, changes: &Changes) -> Result<()> {
        self.commit(changes)
    }

    /// Notes a checkpoint: all committed changes are in their places and durable, so their space in
    /// the log can be used again.
    fn checkpointed(&self);
}
