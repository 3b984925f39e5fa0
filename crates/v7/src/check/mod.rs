//! The check of a whole file system, in the phases of the classic checker, and its repair.
//!
//! As in `icheck`, `dcheck` and fsck, the inodes and directories are trusted, and everything else
//! (the free list, the counts) is computed from them and compared.
//! [`check`] only reads; a repair ([`repair`]) repairs each finding and checks again, until nothing
//! more can be done.
//!
//! Images are hostile. Memory and time are bounded by the size of the device: each block is
//! visited once for each level of pointers, however many of them lead to it, and the list of
//! findings has a limit.

mod blocks;
mod directories;
mod finding;
mod inodes;
mod names;
mod rebuild;
mod repair;
mod sizes;
mod writable;

pub use finding::{Entry, EntryDamage, Finding, Pointer};
pub use repair::{Repaired, repair};
pub use spindle_tree::check::{Phase, Severity};

/// A finding with the path of its file.
pub type Found = spindle_tree::check::Found<Finding>;
type Findings = spindle_tree::check::Findings<Finding>;

use crate::format::dinode::Dinode;
use crate::format::free_list::walk;
use crate::format::kind::{Family, Format};
use crate::format::layout::{Block, BlockMap, Layout};
use crate::format::ondisk::{DIRSIZ, NADDR, NDIRECT};
use crate::format::superblock::{Detected, Superblock};
use serde::Serialize;
use spindle_device::Device;
use spindle_vfs::{Error, FileKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Options of a check.
#[derive(Clone, Debug)]
pub struct Options {
    /// Use this format, without recognising it.
    pub format: Option<Format>,
    /// Number of findings to list; further ones are only counted.
    pub limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { format: None, limit: 10_000 }
    }
}

/// The contents of the file system, counted by the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Inodes with names.
    pub files: u64,
    /// Directories among them.
    pub directories: u64,
    /// Blocks that files hold.
    pub used_blocks: u32,
    /// Blocks in the free list.
    pub free_blocks: u32,
    /// Inodes that are free.
    pub free_inodes: u32,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files {} blocks {} free", self.files, self.used_blocks, self.free_blocks)
    }
}

/// The outcome of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The format, by name.
    pub format: String,
    /// The findings, in the order of the phases.
    pub findings: Vec<Found>,
    /// Findings beyond [`Options::limit`], which are not listed.
    pub unlisted: u64,
    /// Number of all damages, listed or not, harmless or not.
    pub damages: u64,
    /// Number of damages whose repair may lose something.
    pub serious: u64,
    /// False if the superblock says that it was not unmounted cleanly.
    pub marked_clean: bool,
    /// The contents.
    pub usage: Usage,
}

impl Report {
    /// Returns true if there is no damage; notes do not count.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.damages == 0
    }
}

/// Checks the file system on `device` without changing it, calling `progress` when a phase begins.
///
/// # Errors
/// If there is no super-block to start from ([`Superblock::open`]). Later errors become findings.
pub fn check(device: &dyn Device, options: &Options, progress: &mut dyn FnMut(Phase)) -> Result<Report> {
    Ok(Checker::run(device, &Subject::find(device, options.format)?, options.limit, progress)?.0)
}

/// What is checked: a super-block, with sizes that can be right.
struct Subject {
    detected: Detected,
    /// The sizes on the device, if they are others.
    wrong_sizes: Option<Layout>,
}

impl Subject {
    /// Finds the super-block; if the format is given and its super-block is lost, it is a new one,
    /// with the sizes that the inodes and the free blocks show.
    fn find(device: &dyn Device, format: Option<Format>) -> Result<Self> {
        let mut detected = match (Superblock::open(device, format), format) {
            (Err(Error::Corrupt { .. }), Some(format)) => rebuild::superblock(device, format)?,
            (found, _) => found?,
        };
        let mut wrong_sizes = None;
        if detected.unusable.is_none()
            && let Ok(Some(layout)) = sizes::better(device, &detected)
        {
            wrong_sizes = Some(detected.superblock.layout()?);
            detected.superblock.set_sizes(&layout);
        }
        Ok(Self { detected, wrong_sizes })
    }
}

/// An inode after phase 1.
#[derive(Clone, Default)]
struct InodeState {
    /// `None` if it is free or to be cleared.
    kind: Option<FileKind>,
    nlink: u16,
    size: u64,
    /// Names found that are not dots.
    names: u16,
    /// The first of them: the directory, and the name.
    name: Option<(u16, [u8; DIRSIZ])>,
}

/// A directory.
#[derive(Default)]
struct Directory {
    /// Its blocks, with their numbers in the directory.
    blocks: Vec<(u64, Block)>,
    /// The name that leads to it.
    named_by: Option<Entry>,
    /// Its `.` and `..`.
    dots: [Option<Entry>; 2],
}

/// A pointer to a block that another pointer has already.
#[derive(Clone, Copy)]
struct Duplicate {
    ino: u16,
    pointer: Pointer,
    block: u32,
}

/// The duplicates that phase 1 has met; those beyond the limit of the findings are only counted.
#[derive(Default)]
struct Duplicates {
    list: Vec<Duplicate>,
    all: u64,
    limit: usize,
}

impl Duplicates {
    fn note(&mut self, duplicate: Duplicate) {
        self.all += 1;
        if self.list.len() < self.limit {
            self.list.push(duplicate);
        }
    }
}

/// The state of a check, which the phases share.
struct Checker<'a> {
    device: &'a dyn Device,
    layout: Layout,
    detected: &'a Detected,
    findings: Findings,
    used: BlockMap,
    /// Indirect blocks whose pointers were seen, by their levels.
    entered: [BlockMap; NADDR - NDIRECT],
    duplicates: Duplicates,
    unreadable: BTreeSet<u32>,
    /// By number.
    inodes: Vec<InodeState>,
    free_inodes: u32,
    dirs: BTreeMap<u16, Directory>,
}

impl<'a> Checker<'a> {
    /// Returns a check that has not begun.
    ///
    /// # Errors
    /// [`spindle_vfs::Error::Corrupt`] if the sizes are impossible.
    fn new(device: &'a dyn Device, detected: &'a Detected, limit: usize) -> Result<Self> {
        let layout = detected.superblock.layout()?;
        Ok(Self {
            device,
            detected,
            findings: Findings::new(limit),
            used: BlockMap::new(&layout),
            entered: std::array::from_fn(|_| BlockMap::new(&layout)),
            duplicates: Duplicates { limit: limit.max(1), ..Duplicates::default() },
            unreadable: BTreeSet::new(),
            inodes: vec![InodeState::default(); usize::from(layout.last_ino()) + 1],
            free_inodes: 0,
            dirs: BTreeMap::new(),
            layout,
        })
    }

    /// Runs all phases, and returns the report and the blocks that are in use.
    fn run(
        device: &'a dyn Device,
        subject: &'a Subject,
        limit: usize,
        progress: &mut dyn FnMut(Phase),
    ) -> Result<(Report, BlockMap)> {
        let mut checker = Self::new(device, &subject.detected, limit)?;
        progress(Phase::Setup);
        checker.check_superblock(subject.wrong_sizes.as_ref());
        progress(Phase::Inodes);
        checker.check_inodes();
        progress(Phase::Names);
        checker.check_names();
        progress(Phase::Connectivity);
        checker.check_connectivity();
        progress(Phase::Links);
        checker.check_links();
        progress(Phase::FreeList);
        let free_blocks = checker.check_free_list();
        Ok(checker.report(free_blocks))
    }

    fn check_superblock(&mut self, wrong_sizes: Option<&Layout>) {
        let Layout { s_isize, s_fsize, .. } = self.layout;
        if let Some(found) = wrong_sizes {
            let found = (found.s_isize, found.s_fsize);
            self.findings.push(Finding::WrongSizes { found, s_isize, s_fsize });
        }
        let Detected { superblock, others, unusable } = self.detected;
        if unusable.is_some() {
            self.findings.push(Finding::LostSuperblock { s_isize, s_fsize });
        }
        if !superblock.is_clean() {
            self.findings.push(Finding::NotClean {});
        }
        if unusable.is_none() && !superblock.has_magic(self.device).unwrap_or(true) {
            self.findings.push(Finding::BadMagic {});
        }
        if !others.is_empty() {
            let others: Vec<_> = others.iter().map(ToString::to_string).collect();
            let (format, others) = (superblock.format.to_string(), others.join(" OR "));
            self.findings.push(Finding::Ambiguous { format, others });
        }
        let (bytes, expected) = (self.device.info().size_bytes, self.layout.byte(Block(self.layout.s_fsize)));
        if bytes < expected {
            self.findings.push(Finding::DeviceTooShort { bytes, expected });
        }
    }

    /// Returns a block, or zeros if it cannot be read.
    fn block(&mut self, block: Block) -> Vec<u8> {
        let mut bytes = vec![0; self.layout.bsize()];
        if let Err(error) = self.device.read_at(self.layout.byte(block), &mut bytes) {
            if self.unreadable.insert(block.0) {
                self.findings.push(Finding::Unreadable { block: block.0, why: error.to_string() });
            }
            bytes.fill(0);
        }
        bytes
    }

    /// Carries out phase 5: compares the free list with the blocks that phase 1 found in use, and
    /// returns the number of blocks in it.
    fn check_free_list(&mut self) -> u32 {
        let (layout, superblock) = (self.layout.clone(), &self.detected.superblock);
        let head = &superblock.head;
        if let Some(why) = superblock.damage_of_inode_list(&layout) {
            self.findings.push(Finding::BadInodeList { why });
        }
        let (free, walked) = walk(&layout, head, |block| {
            let mut bytes = vec![0; layout.bsize()];
            self.device.read_at(layout.byte(block), &mut bytes)?;
            Ok(layout.format.decode_link(&bytes))
        });
        if let Err(error) = &walked {
            self.findings.push(Finding::BadFreeList { why: error.problem() });
        }
        let (mut both, mut first, mut neither) = (0, 0, 0);
        for block in (layout.s_isize..layout.s_fsize).map(Block) {
            match (free.has(block), self.used.has(block)) {
                (true, true) => {
                    first = if both == 0 { block.0 } else { first };
                    both += 1;
                }
                (false, false) => neither += 1,
                _ => {}
            }
        }
        if both > 0 {
            self.findings.push(Finding::FreeInUse { blocks: both, first });
        }
        if neither > 0 && walked.is_ok() {
            self.findings.push(Finding::Missing { blocks: neither });
        }
        let tail = &superblock.tail;
        let found = (tail.s_tfree, tail.s_tinode);
        let expected = (free.len(), u16::try_from(self.free_inodes).unwrap_or(u16::MAX));
        if layout.format.family != Family::V7 && walked.is_ok() && found != expected {
            self.findings.push(Finding::WrongTotals { found, expected });
        }
        free.len()
    }

    /// Returns the path of an inode, if it has one.
    fn path(&self, mut ino: u16) -> Option<String> {
        let mut names = Vec::new();
        while ino != crate::format::layout::ROOT_INO {
            let (dir, name) = self.inodes.get(usize::from(ino))?.name?;
            names.push(crate::format::entry::name_of(&name).escape_ascii().to_string());
            ino = dir;
            if names.len() > self.dirs.len() + 1 {
                return None;
            }
        }
        names.reverse();
        Some(format!("/{}", names.join("/")))
    }

    fn report(mut self, free_blocks: u32) -> (Report, BlockMap) {
        let usage = Usage {
            files: self.inodes.iter().filter(|inode| inode.kind.is_some() && inode.names > 0).count() as u64
                + 1,
            directories: self.dirs.len() as u64,
            used_blocks: self.used.len(),
            free_blocks,
            free_inodes: self.free_inodes,
        };
        let findings = std::mem::replace(&mut self.findings, Findings::new(0));
        let report = Report {
            format: self.layout.format.to_string(),
            unlisted: findings.unlisted(),
            damages: findings.damages(),
            serious: findings.serious(),
            findings: findings.found(|ino| self.path(u16::try_from(ino).ok()?)),
            marked_clean: self.detected.superblock.is_clean(),
            usage,
        };
        (report, self.used)
    }

    fn dinode(bytes: &[u8], layout: &Layout) -> Dinode {
        Dinode::decode(bytes, layout.format.endian)
    }
}
