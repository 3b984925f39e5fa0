//! The log of metadata: its format, and where it is in a file system.
//!
//! [`wapbl`] knows nothing of file systems: it writes and replays records. [`locate`] finds the log
//! that a superblock leads to and decides whether it may be replayed. [`suj`] reads the journal of
//! FreeBSD's soft updates, [`lufs`] the log of Solaris.

pub(crate) mod locate;
pub(crate) mod lufs;
pub(crate) mod suj;
pub(crate) mod wapbl;

use crate::format::superblock::Superblock;
use std::fmt;

/// Use of the log, which makes changes survive a crash in order and whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogUse {
    /// Through the one that is there. Without one, nothing is promised after a crash.
    #[default]
    IfThere,
    /// As [`Self::IfThere`], after making one if there is none.
    Wanted,
    /// As [`Self::Wanted`], but without a log, or with less than the size that was asked for,
    /// opening fails.
    Required,
    /// Without, even if there is one.
    Never,
}

/// Whose journal it is, if it is one of another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalKind {
    /// That of FreeBSD's soft updates.
    SoftUpdates,
    /// That of Solaris.
    Solaris,
}

impl fmt::Display for JournalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SoftUpdates => "journal of soft updates",
            Self::Solaris => "Solaris log",
        })
    }
}

impl Superblock {
    /// Returns the journal of another system that has to be followed before anything is written.
    #[must_use]
    pub fn pending_journal(&self) -> Option<JournalKind> {
        if self.has_solaris_log() {
            Some(JournalKind::Solaris)
        } else {
            (self.has_journal() && !self.is_clean()).then_some(JournalKind::SoftUpdates)
        }
    }
}

/// Sectors of the log that an operation may need at the most: for the entries of two directories,
/// for four inodes, and for the maps of all groups that an allocation with its indirect blocks and
/// two moved fragments touch. Whatever needs more goes on in further transactions.
pub(crate) const OPERATION_SECTORS: usize = 56;
