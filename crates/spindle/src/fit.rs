//! The smallest file system into which a tree fits.
//!
//! The space that a tree takes is measured once, in memory. By its counts the smallest file system
//! is then computed, and tried out: files and their ends may go into the cylinder groups in a way
//! that leaves no whole block where one is needed. Then larger ones are tried, up to the first
//! that holds everything.

use crate::detect::Found;
use crate::error::{Error, Result};
use crate::newfs::{NewFs, old};
use crate::transfer::{Misfit, Original, Record, Rehearsed, Used, rehearse};
use spindle_ffs::newfs::{Format, Need, Parameters, Plan, fit};
use spindle_ffs::{InodeFormat, Version};

/// The kind of a new file system, and its parameters for a size in bytes.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    /// A fast file system.
    Ffs(&'a dyn Fn(u64) -> Parameters),
    /// An old file system.
    Old(&'a dyn Fn(u64) -> old::Parameters),
}

/// How large a file system that fits is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes that are free in the end, beyond the reserve.
    pub free_bytes: u64,
    /// The same, in percent of the smallest size.
    pub free_percent: u16,
    /// Inodes that are free in the end. By default, as many as newfs gives to the free space.
    pub free_inodes: Option<u64>,
    /// The same, in percent of the inodes that are used.
    pub free_inodes_percent: Option<u16>,
    /// Least size in bytes.
    pub min_bytes: u64,
    /// Greatest size in bytes.
    pub max_bytes: Option<u64>,
    /// The size is a multiple of so many bytes.
    pub multiple_of: u64,
}

/// The result of [`plan_to_fit`].
#[derive(Clone, Debug)]
pub enum Fitted {
    /// The plan, and the bytes of data in the tree.
    Plan(NewFs, u64),
    /// What the format cannot store.
    Misfits(Vec<Misfit>),
}

/// Returns the greatest common divisor.
const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns `percent` of `n`.
fn share(n: u64, percent: u16) -> u64 {
    u64::try_from(u128::from(n) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// Measures a tree, and plans the smallest file system that holds it, and has its reserve and
/// `room` free.
///
/// # Errors
/// Those of a walk, and parameters that contradict each other or `room`.
pub fn plan_to_fit(
    wanted: Wanted<'_>,
    room: &Room,
    timestamp: Option<i64>,
    original: Original<'_>,
) -> Result<Fitted> {
    let record = Record::of(original, wanted.file_size_max()?)?;
    let mut guess = wanted.guess(&record)?;
    // Some dialects use larger blocks for larger file systems: repeat with the resulting size
    // until the block size stays the same.
    for _ in 0..4 {
        let (measured, used, misfits) = wanted.measure(guess, &record, timestamp)?;
        if !misfits.is_empty() {
            return Ok(Fitted::Misfits(misfits));
        }
        let pinned = Pinned::to(&measured, wanted);
        let need = |free_bytes| Need {
            bytes: used.bytes,
            inodes: used.inodes,
            free_bytes,
            free_inodes: room.free_inodes_of(&used),
        };
        let holds = |plan: &NewFs| Ok(rehearse(plan, timestamp, &|sink| record.walk(sink))?.used.is_some());
        let mut plan = smallest(&pinned, &need(room.free_bytes), room.min_bytes, &holds)?;
        if room.free_percent > 0 {
            let free = share(plan.size_bytes(), room.free_percent).saturating_add(room.free_bytes);
            plan = smallest(&pinned, &need(free), room.min_bytes, &holds)?;
        }
        let multiple_of = room.multiple_of.max(1);
        while !plan.size_bytes().is_multiple_of(multiple_of) {
            let unit = plan.unit().checked_mul(multiple_of / gcd(plan.unit(), multiple_of));
            let rounded = unit.and_then(|unit| plan.size_bytes().checked_next_multiple_of(unit));
            let rounded = rounded.ok_or_else(|| Error::new(format!("has no size in {multiple_of} bytes")))?;
            plan = smallest(&pinned, &need(room.free_bytes), rounded, &holds)?;
        }
        if pinned.is_natural_for(&plan) {
            let size = plan.size_bytes();
            if let Some(most) = room.max_bytes.filter(|&most| size > most) {
                return Err(Error::new(format!("needs {size} bytes, more than the maximum size of {most}")));
            }
            return Ok(Fitted::Plan(plan, record.bytes));
        }
        guess = plan.size_bytes();
    }
    Err(Error::new("found no block size that fits; choose one with -b and -f"))
}

/// Returns what a file system of the kind of an existing one cannot store of a tree. Nothing is
/// known of the multi-structured one, and of formats that newfs does not make.
///
/// # Errors
/// Those of a walk.
pub fn misfits_in(found: &Found, original: Original<'_>) -> Result<Vec<Misfit>> {
    let misfits = |wanted: Wanted<'_>| {
        let record = Record::of(original, wanted.file_size_max()?)?;
        let guess = wanted.guess(&record)?;
        if wanted.plan(guess, record.files).is_err() {
            return Ok(Vec::new());
        }
        Ok(wanted.measure(guess, &record, None)?.2)
    };
    match found {
        Found::Ffs(superblock) => {
            let layout = &superblock.layout;
            let format = match (layout.version, layout.inode_format) {
                (Version::Ufs2, _) => Format::Ufs2,
                (Version::Ufs1, InodeFormat::Old) => Format::Old,
                (Version::Ufs1, _) => Format::Ufs1,
            };
            misfits(Wanted::Ffs(&|size_bytes| Parameters {
                format,
                dialect: Some(superblock.dialect),
                endian: Some(layout.endian),
                bsize: Some(layout.fs_bsize),
                fsize: Some(layout.fs_fsize),
                ..Parameters::new(size_bytes)
            }))
        }
        Found::Old(found) => {
            let format = found.superblock.format;
            misfits(Wanted::Old(&|size_bytes| old::Parameters::new(format, size_bytes)))
        }
        Found::Mfs(_) => Ok(Vec::new()),
    }
}

impl Room {
    fn free_inodes_of(&self, used: &Used) -> Option<u64> {
        let share = self.free_inodes_percent.map(|percent| share(used.inodes, percent));
        self.free_inodes.map(|inodes| inodes.saturating_add(share.unwrap_or(0))).or(share)
    }
}

/// Returns the smallest plan for `need` of at least `at_least` bytes that `holds` everything.
fn smallest(
    pinned: &Pinned<'_>,
    need: &Need,
    at_least: u64,
    holds: &dyn Fn(&NewFs) -> Result<bool>,
) -> Result<NewFs> {
    let first = pinned.fit(need, at_least)?;
    if holds(&first)? {
        return Ok(first);
    }
    let unit = first.unit();
    let (mut low, mut ahead) = (first.size_bytes(), unit);
    let mut best = loop {
        let plan = pinned.fit(need, low.saturating_add(ahead))?;
        if holds(&plan)? {
            break plan;
        }
        low = plan.size_bytes();
        ahead = ahead.saturating_mul(2);
    };
    let mut high = best.size_bytes();
    while high - low > unit {
        let middle = (low + (high - low) / 2).next_multiple_of(unit).min(high - 1);
        let plan = pinned.fit(need, middle)?;
        if plan.size_bytes() >= high {
            // By the counts, there is none in between.
            high = middle;
        } else if holds(&plan)? {
            (high, best) = (plan.size_bytes(), plan);
        } else {
            low = plan.size_bytes();
        }
    }
    Ok(best)
}

impl Wanted<'_> {
    /// Returns the largest size in bytes of a file, as far as it is known without a size.
    fn file_size_max(&self) -> Result<u64> {
        Ok(match self {
            Self::Ffs(_) => u64::MAX,
            Self::Old(of) => {
                old::Plan::new(&old::Parameters { inodes: None, ..of(1 << 20) })?.layout.file_size_max()
            }
        })
    }

    /// Rehearses in larger and larger file systems, from `size_bytes` on. Returns the plan of the
    /// one that was large enough, what the tree takes, and what the format cannot store.
    fn measure(
        &self,
        mut size_bytes: u64,
        record: &Record<'_>,
        timestamp: Option<i64>,
    ) -> Result<(NewFs, Used, Vec<Misfit>)> {
        loop {
            let plan = self.plan(size_bytes, record.files)?;
            let Rehearsed { used, misfits } = rehearse(&plan, timestamp, &|sink| record.walk(sink))?;
            if let Some(used) = used {
                return Ok((plan, used, misfits));
            }
            size_bytes = size_bytes.saturating_mul(2);
        }
    }

    /// Returns a size in bytes at which a tree should fit.
    fn guess(&self, record: &Record<'_>) -> Result<u64> {
        let (least, per_file) = match self {
            Self::Ffs(_) => (16 << 20, 8192),
            Self::Old(of) => {
                let format = of(0).format;
                if record.files > MOST_OLD_INODES {
                    return Err(Error::new(format!(
                        "{} files and directories, and {format} has numbers for {MOST_OLD_INODES}",
                        record.files
                    )));
                }
                (64 << 10, 2 * u64::from(format.bsize))
            }
        };
        let data = record.bytes.saturating_add(record.bytes / 16);
        Ok(data.saturating_add(record.files.saturating_mul(per_file)).saturating_add(least))
    }

    /// Returns a plan of a size in bytes; an old file system gets so many inodes.
    fn plan(&self, size_bytes: u64, inodes: u64) -> Result<NewFs> {
        Ok(match self {
            Self::Ffs(of) => {
                // Inodes that suffice, whatever the density is.
                let parameters = of(size_bytes);
                let density = u32::try_from(size_bytes / (inodes + 1) / 2).unwrap_or(u32::MAX);
                let usual = Plan::new(&parameters)?;
                let enough = u64::try_from(usual.totals().cs_nifree).is_ok_and(|free| free > inodes);
                if enough || parameters.density.is_some() {
                    NewFs::Ffs(Box::new(usual))
                } else {
                    let parameters = Parameters { density: Some(density), ..parameters };
                    NewFs::Ffs(Box::new(Plan::new(&parameters)?))
                }
            }
            Self::Old(of) => {
                let inodes = u32::try_from(inodes + 2).ok();
                NewFs::Old(old::Plan::new(&old::Parameters { inodes, ..of(size_bytes) })?)
            }
        })
    }
}

/// Inodes of an old file system, without the first two.
const MOST_OLD_INODES: u64 = 65000;

/// What is wanted, with the block and fragment size of a plan.
struct Pinned<'a> {
    wanted: Wanted<'a>,
    bsize: Option<u32>,
    fsize: Option<u32>,
}

impl<'a> Pinned<'a> {
    fn to(plan: &NewFs, wanted: Wanted<'a>) -> Self {
        let (bsize, fsize) = match plan {
            NewFs::Ffs(plan) => (Some(plan.layout.fs_bsize), Some(plan.layout.fs_fsize)),
            NewFs::Old(_) => (None, None),
        };
        Self { wanted, bsize, fsize }
    }

    /// Returns the smallest plan of at least `at_least` bytes that has space for `need` by its
    /// counts.
    fn fit(&self, need: &Need, at_least: u64) -> Result<NewFs> {
        Ok(match self.wanted {
            Wanted::Ffs(of) => {
                let parameters = Parameters { bsize: self.bsize, fsize: self.fsize, ..of(0) };
                NewFs::Ffs(Box::new(fit(&parameters, need, at_least)?))
            }
            Wanted::Old(of) => NewFs::Old(fit_old(of, need, at_least)?),
        })
    }

    /// Returns true if a file system of this size has that block size by itself.
    fn is_natural_for(&self, plan: &NewFs) -> bool {
        match (&self.wanted, plan) {
            (Wanted::Ffs(of), NewFs::Ffs(plan)) => Plan::new(&of(plan.size_bytes()))
                .map_or(true, |other| other.layout.fs_bsize == plan.layout.fs_bsize),
            _ => true,
        }
    }
}

/// Returns the smallest plan of an old file system of at least `at_least` bytes for `need`.
fn fit_old(of: &dyn Fn(u64) -> old::Parameters, need: &Need, at_least: u64) -> Result<old::Plan> {
    let bsize = u64::from(of(0).format.bsize);
    let free = need.free_bytes.div_ceil(bsize);
    // One inode for four blocks, as mkfs of System V has it; the others have a few more.
    let inodes = need.inodes.saturating_add(need.free_inodes.unwrap_or(free / 4)).saturating_add(2);
    // The root directory has a block.
    let blocks = (need.bytes / bsize).saturating_add(free).saturating_add(1);
    let asked = of(0).inodes.map_or(inodes, u64::from);
    if asked < inodes {
        return Err(Error::new(format!("{asked} inodes are too few: {inodes} are needed")));
    }
    let exact = |size_bytes| {
        let inodes = u32::try_from(asked).unwrap_or(u32::MAX);
        old::Plan::new(&old::Parameters { inodes: Some(inodes), ..of(size_bytes) })
    };
    let size = (2 + asked.div_ceil(of(0).format.inopb().into())).saturating_add(blocks).saturating_mul(bsize);
    if size >= at_least {
        return Ok(exact(size)?);
    }
    let size = at_least.next_multiple_of(bsize);
    let usual = old::Plan::new(&of(size))?;
    let suffices =
        u64::from(usual.layout.last_ino()) >= inodes && u64::from(usual.layout.data_blocks()) >= blocks;
    Ok(if suffices { usual } else { exact(size)? })
}
