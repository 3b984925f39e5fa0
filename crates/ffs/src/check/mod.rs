//! The check of a whole file system, in the five phases of the classic checker, and
//! a sixth for quotas inside it.
//!
//! The idea is that of fsck (`McKusick` and Kowalski, "Fsck: The UNIX File System Check Program",
//! and `sbin/fsck_ffs` of FreeBSD): what the inodes and directories say is the truth, and
//! everything else (maps, counts, summaries) is computed from it again and compared. The phases
//! fill a `state::State`, read by the later ones, and report [`Finding`]s. Nothing is written: the
//! repair ([`crate::repair`]) is a function of the findings and that state.
//!
//! Images are hostile. Memory is bounded by the size of the device, time is in proportion to it:
//! each indirect block is entered once, whatever points at it, and the list of findings is cut off
//! at a limit.

mod directories;
mod finding;
pub(crate) mod groups;
pub(crate) mod inodes;
mod links;
pub(crate) mod node;
mod paths;
pub(crate) mod quotas;
pub(crate) mod reader;
pub(crate) mod scan;
pub(crate) mod setup;
pub(crate) mod snapshots;
pub(crate) mod state;
mod terms;
pub(crate) mod walk;

pub use crate::format::entries::EntryDamage;
pub use finding::Finding;
pub use spindle_tree::check::{Phase, Severity};
pub use terms::{BadAddress, BlockPlace, Counts, Entry, RootProblem};

/// A finding with the path that shows a user where it is.
pub type Found = spindle_tree::check::Found<Finding>;
pub(crate) type Findings = spindle_tree::check::Findings<Finding>;

use crate::format::dialect::{Dialect, is_marked_clean};
use crate::format::layout::Layout;
use crate::format::ondisk::{FsSun, flags};
use crate::format::superblock::{CheckHashes, Superblock};
use quotas::Quotas;
use reader::Reader;
use serde::Serialize;
use spindle_device::Device;
use spindle_tree::check::Finding as _;
use spindle_vfs::Result;
use state::State;
use std::fmt;

/// Settings of a check.
#[derive(Clone, Debug)]
pub struct Options {
    /// Use the superblock replica at this sector of 512 bytes, or this byte, instead of the
    /// standard one.
    pub replica: Option<u64>,
    /// Take the file system for one of this system, whatever it looks like.
    pub dialect: Option<Dialect>,
    /// Findings to list; what is beyond is only counted.
    pub limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { replica: None, dialect: None, limit: 10_000 }
    }
}

/// Progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// Steps done of it.
    pub done: u64,
    /// Steps in it.
    pub total: u64,
}

/// The contents of the file system, as counted by the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Inodes in use.
    pub files: u64,
    /// Directories among them.
    pub directories: u64,
    /// Fragments that files hold.
    pub used_frags: u64,
    /// Free fragments, those in free blocks included.
    pub free_frags: u64,
    /// Free fragments outside free blocks.
    pub loose_frags: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Loose fragments in percent of the data space, which fsck calls fragmentation.
    pub fragmentation_percent: f64,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files, {} used, {} free ({} frags, {} blocks, {:.1}% fragmentation)",
            self.files,
            self.used_frags,
            self.free_frags,
            self.loose_frags,
            self.free_blocks,
            self.fragmentation_percent
        )
    }
}

/// The result of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The findings, in the order of the phases.
    pub findings: Vec<Found>,
    /// Findings beyond [`Options::limit`], which are not listed.
    pub unlisted: u64,
    /// All damage, listed or not.
    pub damages: u64,
    /// The damage whose repair may lose something.
    pub serious: u64,
    /// True if the file system says of itself that it is clean, or its format has no such flag.
    pub marked_clean: bool,
    /// Byte of the replica that stood in for the superblock.
    pub replica: Option<u64>,
    /// The contents of the file system.
    pub usage: Usage,
    /// Bytes read from the device.
    pub bytes_read: u64,
}

impl Report {
    /// Returns true if there is no damage; notes do not count.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.damages == 0
    }
}

/// Checks the file system on `device` without changing it, calling `progress` now and then.
///
/// # Errors
/// When there is no superblock or replica to start from, or the device fails before the check has
/// begun. Failures later are findings.
pub fn check(device: &dyn Device, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let mut findings = Findings::new(options.limit);
    let (superblock, replica) = setup::find_superblock(device, options, &mut findings)?;
    Ok(Checker::run(device, &superblock, replica, findings, progress)?.report(replica))
}

/// A check under way.
pub(crate) struct Checker<'a> {
    pub(crate) superblock: &'a Superblock,
    pub(crate) layout: &'a Layout,
    pub(crate) hashes: CheckHashes,
    /// The superblock is a replica: its counts are old.
    pub(crate) from_replica: bool,
    /// For single blocks.
    pub(crate) reader: Reader<'a>,
    /// For long runs of inodes.
    inode_reader: Reader<'a>,
    pub(crate) state: State,
    pub(crate) findings: Findings,
    /// The counts of phase 5.
    pub(crate) free: Counts,
    progress: &'a mut dyn FnMut(Progress),
}

impl<'a> Checker<'a> {
    /// Runs all phases on the file system of `superblock`, which stands at byte `replica` if it is
    /// one.
    ///
    /// # Errors
    /// Device errors before the phases have begun.
    pub(crate) fn run(
        device: &'a dyn Device,
        superblock: &'a Superblock,
        replica: Option<u64>,
        findings: Findings,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let mut checker = Self {
            superblock,
            layout: &superblock.layout,
            hashes: superblock.check_hashes(),
            from_replica: replica.is_some(),
            reader: Reader::new(device),
            inode_reader: Reader::new(device),
            state: State { quotas: Quotas::new(superblock), ..State::new(&superblock.layout) },
            findings,
            free: Counts::default(),
            progress,
        };
        checker.check_superblock(device)?;
        checker.check_inodes();
        checker.check_snapshots(device);
        checker.check_names();
        checker.check_connectivity();
        checker.check_links();
        checker.check_groups();
        checker.check_quotas();
        Ok(checker)
    }

    /// Reports that `done` of `total` steps of a phase are done.
    fn report_progress(&mut self, phase: Phase, done: u64, total: u64) {
        (self.progress)(Progress { phase, done, total });
    }

    /// Notes that a part of the device cannot be read.
    fn unreadable(&mut self, byte: u64, bytes: u64, error: &spindle_device::Error) {
        self.findings.push(Finding::Unreadable { byte, bytes, why: error.to_string() });
    }

    /// Returns true if the file system is marked clean. 4.2BSD and 4.3BSD have no clean flag;
    /// NetBSD shifts it while mounted; Solaris has two good values.
    fn is_marked_clean(&self) -> bool {
        let asks = self.superblock.flags() & (flags::FS_UNCLEAN | flags::FS_NEEDSFSCK) != 0;
        let clean = self.superblock.fs.fs_clean;
        match self.superblock.dialect {
            Dialect::Sun { .. } => matches!(clean, FsSun::FSCLEAN | FsSun::FSSTABLE),
            dialect => is_marked_clean(&self.superblock.fs, dialect) && !asks,
        }
    }

    /// Returns the report of the check, which began with the superblock at byte `replica` if that
    /// is a copy.
    pub(crate) fn report(mut self, replica: Option<u64>) -> Report {
        let findings = std::mem::replace(&mut self.findings, Findings::new(0));
        let inodes = findings.list().iter().filter_map(Finding::inode);
        // Numbers of inodes have 32 bits.
        let paths = self.paths(inodes.filter_map(|ino| u32::try_from(ino).ok()));
        let (unlisted, damages, serious) = (findings.unlisted(), findings.damages(), findings.serious());
        let findings = findings.found(|ino| paths.get(&u32::try_from(ino).ok()?).cloned());
        let counted = |n: i64| u64::try_from(n).unwrap_or(0);
        let (loose_frags, free_blocks) = (counted(self.free.nffree), counted(self.free.nbfree));
        #[allow(clippy::cast_precision_loss)] // For people.
        let fragmentation_percent = loose_frags as f64 * 100.0 / self.layout.fs_dsize.max(1) as f64;
        Report {
            findings,
            unlisted,
            damages,
            serious,
            marked_clean: self.is_marked_clean(),
            replica,
            usage: Usage {
                files: self.state.files,
                directories: counted(self.free.ndir),
                used_frags: self.state.used_frags,
                free_frags: loose_frags + free_blocks * u64::from(self.layout.fs_frag),
                loose_frags,
                free_blocks,
                fragmentation_percent,
            },
            bytes_read: self.reader.bytes_read + self.inode_reader.bytes_read,
        }
    }
}
