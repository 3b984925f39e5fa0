//! What the cache asks of a log: to make groups of transactions durable, in order, each whole or not at all.
//!
//! The cache decides what goes into a group and when its changes go home; where and in which format a group is kept is
//! the file system's business.

use spindle_device::Result;
use std::ops::Range;

/// Bytes that transactions have changed, as they are at the end of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Address on the device in bytes, of a whole sector.
    pub at: u64,
    /// Whole sectors.
    pub bytes: Vec<u8>,
}

/// What the transactions between two commits have done.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Addresses whose earlier changes must not be carried out any more: they were freed. A group does not change what it has freed,
    /// but may have changed it before in the same place with another length; so these count before `changes`.
    pub revoked: Vec<Range<u64>>,
    /// In the order of their addresses, without overlap.
    pub changes: Vec<Change>,
}

/// A log that groups of transactions are committed to.
pub trait Log: Send + Sync {
    /// Bytes of changes after which a group had better be committed; several such groups fit into the log.
    fn group_bytes(&self) -> usize;

    /// True if there is space for a group without a [`Self::trim`].
    fn has_room(&self, group: &Group) -> bool;

    /// Makes a group durable, and everything that was written to the device before it: when this returns, it survives. A
    /// crash before leaves the state after the group before this one.
    ///
    /// # Errors
    /// When the device fails, or the group is larger than the whole log. Whether the group is durable is then not known.
    fn commit(&self, group: &Group) -> Result<()>;

    /// True when so much has been committed that it had better be brought home.
    fn wants_trim(&self) -> bool;

    /// Everything that was committed so far is home and durable, so that its space can be used again.
    fn trim(&self);
}
