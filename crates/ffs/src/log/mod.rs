//! The log of metadata: its format, and where it is in a file system.
//!
//! [`wapbl`] knows nothing of file systems: it writes and replays records. [`locate`] finds the log
//! that a superblock leads to and decides whether it may be replayed. [`suj`] reads the journal of
//! FreeBSD's soft updates, [`lufs`] the log of Solaris, [`gjournal`] the journal of gjournal.

pub mod gjournal;
pub(crate) mod locate;
pub(crate) mod lufs;
pub(crate) mod suj;
pub(crate) mod wapbl;

use crate::format::superblock::Superblock;
use spindle_device::Device;
use spindle_vfs::Result;
use std::fmt;
use std::sync::Arc;

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
    /// That of gjournal, which lies below the file system.
    Gjournal,
}

impl fmt::Display for JournalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SoftUpdates => "journal of soft updates",
            Self::Solaris => "Solaris log",
            Self::Gjournal => "journal of gjournal",
        })
    }
}

/// What a device holds after a replay in memory.
pub struct Replayed {
    /// The device, which cannot be written.
    pub view: Arc<dyn Device>,
    /// Whose journal it was.
    pub kind: JournalKind,
    /// Records that are not in their places.
    pub records: usize,
}

/// Replays in memory what another system keeps in a journal and only a replay brings into place:
/// the log of Solaris, and the journal of gjournal. Returns `None` if there is none, or if it
/// cannot be used, which is logged.
///
/// # Errors
/// Device errors.
pub fn replayed(device: &Arc<dyn Device>, superblock: &Superblock) -> Result<Option<Replayed>> {
    let of = |kind, found: Option<(Arc<dyn Device>, usize)>| {
        found.map(|(view, records)| Replayed { view, kind, records })
    };
    Ok(match of(JournalKind::Solaris, lufs::view(device, superblock)?) {
        None => of(JournalKind::Gjournal, gjournal::view(device, superblock)?),
        solaris => solaris,
    })
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
