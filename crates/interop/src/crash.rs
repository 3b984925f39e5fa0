//! Crashes of mounted file systems, and what must be there afterwards.
//!
//! The idea: a [`Load`] works in a directory of a mount and keeps, outside of it, a record of what
//! it has begun and of what was acknowledged. A copy of that record, taken at any moment while the
//! file system stands still, is a [`Testimony`]: it says of the directory that is found after a
//! crash at that moment whether it can be what the load left. An operation is recorded as begun
//! before the system is asked for it, and as acknowledged after the answer, so what the file system
//! can have seen and must have kept always lies between the two.
//!
//! - [`daemon`]: a mount whose daemon can be killed or halted.
//! - [`data`]: files that are written anywhere, cut, synced and removed.
//! - [`loopback`]: an image as a block device.
//! - [`names`]: storms of operations on names, which must appear in order.
//! - [`replace`]: a file replaced by renaming a whole new one over it.
//! - [`programs`]: `SQLite` and git, which promise something themselves.
//! - [`rounds`]: crash after crash on one image.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Result;

pub mod daemon;
pub mod data;
pub mod loopback;
pub mod names;
pub mod programs;
pub mod replace;
pub mod rounds;

/// Something that works in a directory and records what it did.
pub trait Load: Sync {
    /// Works in the empty directory `directory` until `over`, or until something fails. A load is
    /// set to work once.
    ///
    /// # Errors
    /// What failed; after `over` that is no more than the crash itself.
    fn work(&self, directory: &Path, over: &Over) -> Result<()>;

    /// Returns the record as it is now.
    fn testify(&self) -> Box<dyn Testimony>;
}

/// What a load knew at one moment.
pub trait Testimony {
    /// Checks what a crash at that moment left in `directory`, and gives the number of things that
    /// were there because they had been acknowledged.
    ///
    /// # Errors
    /// What cannot be, if nothing that was acknowledged is lost and nothing is there that was never
    /// written.
    fn check(&self, directory: &Path) -> Result<u64>;
}

/// Says that the work is over: from now on operations may fail.
#[derive(Debug, Default)]
pub struct Over(AtomicBool);

impl Over {
    /// Sets it.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Returns true once it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
