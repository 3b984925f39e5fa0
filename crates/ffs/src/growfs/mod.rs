//! Making a file system larger (`growfs(8)`), or smaller (`shrink.rs`).
//!
//! The one idea: behind the old end nobody looks, so the new groups are written there first, as
//! newfs makes them. What has to change in the old part (the last group, the summaries, copies of
//! the superblock) follows from the new sizes, and is what a repair would put right. So the new
//! superblock is put over the device in memory, the repair plans the rest, and a check sees the
//! result before anything of it is written.
//!
//! # Crashes
//!
//! The old superblock stands for the file system, marked as not clean, until everything else is
//! durable; so a cut leaves the old file system, at worst with counts that a repair puts right, or
//! the new one. If the summaries need space that a file has, that is moved before, as a repair of
//! its own.
//!
//! The caller has locked the device, which is large enough, and has not mounted what is on it.

mod renumber;
mod shrink;
mod sizes;

pub use shrink::{Shrink, shrink, shrink_to_fit};
pub use sizes::Resize;

use crate::check::{Options, Report, check};
use crate::format::group::GroupMap;
use crate::format::layout::Extent;
use crate::format::ondisk::Fs;
use crate::format::superblock::Superblock;
use crate::format::units::index;
use crate::newfs::block::{Cylinders, GroupBlocks, NOTHING};
use crate::newfs::conventions::Conventions;
use crate::repair::{Image, Meanwhile, Wanted, forget_log, settle};
use rand::RngCore;
use spindle_clock::{Clock, Timestamp};
use spindle_device::{CowDevice, Device};
use spindle_vfs::{Error, Result};
use std::sync::Arc;

/// Returns the refusal that something must be done first.
fn refused(what: impl Into<String>, remedy: impl Into<String>) -> Error {
    Error::unsupported(what, remedy)
}

/// Refuses what must not grow or shrink. Returns what a check finds, which is nothing. Nothing is
/// written.
///
/// # Errors
/// [`Error::Unsupported`] if the file system is not clean and whole, or cannot be written, or its
/// first group cannot hold the summaries; device errors.
pub fn examine(device: &dyn Device, growth: &Resize) -> Result<Report> {
    let superblock = Superblock::open(device)?;
    if let Some(objection) = superblock.objections(device)?.first() {
        return Err(refused(objection.reason.clone(), objection.remedy.clone()));
    }
    if superblock.log_place().is_some_and(|place| place.ino.is_none()) {
        let remedy = "remove the log first (spindle tunefs --log=none)";
        return Err(refused("its log stands behind its end", remedy));
    }
    if growth.added_summaries(&superblock.layout).end > u64::from(superblock.layout.cg_frags(0)) {
        let remedy = "name a smaller size (-s)";
        return Err(refused("the first cylinder group cannot hold the summaries of all groups", remedy));
    }
    let found = check(device, &Options::default(), &mut |_| ())?;
    if !found.is_clean() {
        return Err(refused("it has damage", "repair it first (spindle fsck -y)"));
    }
    Ok(found)
}

/// Makes the file system on `device` larger, with the time of `clock` and generations of inodes
/// from `random`. `progress` hears of each new group that was written, and how many there are; it
/// may still end the work. Returns what a check finds afterwards, which is nothing.
///
/// # Errors
/// Those of `progress`; [`Error::Unsupported`] if the file system is not clean and whole, or cannot
/// be written, or has no space for its summaries; errors of the device. The file system then is as
/// it was, or needs a repair.
pub fn grow(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    random: &mut dyn RngCore,
    growth: &Resize,
    progress: &mut dyn FnMut(u32, u32) -> Result<()>,
) -> Result<Report> {
    let before = examine(&**device, growth)?;
    let options = Options::default();
    let mut superblock = Superblock::open(&**device)?;
    let vacant = growth.added_summaries(&superblock.layout);
    if !vacant.is_empty() {
        let wanted = Wanted { vacant, ..Wanted::of(&options) };
        settle_on(device, clock, &CowDevice::new(device.clone()).into(), before.clone(), &wanted)?;
        superblock = Superblock::open(&**device)?;
    }

    let grown = resized(&superblock, growth, &**device)?;
    write_groups(&grown, superblock.layout.fs_ncg, &**device, clock.now(), random, progress)?;
    let overlay = Arc::new(CowDevice::new(device.clone()));
    let image = Image { device: &*overlay, layout: &grown.layout, hashes: grown.check_hashes() };
    for cgx in 0..superblock.layout.fs_ncg {
        let at = grown.layout.byte(grown.layout.cgsblock(cgx));
        image.put(at, &replica(&grown, at, clock.now()))?;
    }
    grown.clone().write(&*overlay)?;
    let wanted = Wanted { meanwhile: Meanwhile::Smaller(&superblock), ..Wanted::of(&options) };
    settle_on(device, clock, &overlay, before, &wanted)
}

/// Has the repair plan the rest of a change, and makes it. Returns what a check finds afterwards.
fn settle_on(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    overlay: &Arc<CowDevice>,
    before: Report,
    wanted: &Wanted<'_>,
) -> Result<Report> {
    let plan = settle(overlay, clock, before, wanted, &mut |_| true)?;
    if let Some(reason) = plan.refusal {
        return Err(refused(reason, "make a larger file system and copy the files"));
    }
    plan.apply(&**device)?;
    Ok(plan.after)
}

/// Returns the superblock of the file system with other sizes.
fn resized(superblock: &Superblock, sizes: &Resize, device: &dyn Device) -> Result<Superblock> {
    let bytes = device.info().size_bytes;
    let mut resized = superblock.clone();
    sizes.enter(&mut resized, bytes);
    let raw = resized.encode(superblock.layout.fs_sblockloc);
    let (endian, at) = (superblock.layout.endian, superblock.layout.fs_sblockloc);
    let fs = Fs::decode(&raw, endian);
    Superblock::checked_in(raw, &fs, endian, at, Extent::Whole(bytes), device)
}

/// Returns the copy of the superblock that stands at byte `at`.
fn replica(grown: &Superblock, at: u64, now: Timestamp) -> Vec<u8> {
    let mut copy = grown.clone();
    forget_log(&mut copy);
    copy.set_clean(true, false, now);
    let mut bytes = copy.encode(at);
    bytes.truncate(grown.layout.fs_sbsize as usize);
    bytes
}

/// Writes the groups from `first` on, behind the old end.
fn write_groups(
    grown: &Superblock,
    first: u32,
    device: &dyn Device,
    now: Timestamp,
    random: &mut dyn RngCore,
    progress: &mut dyn FnMut(u32, u32) -> Result<()>,
) -> Result<()> {
    let layout = &grown.layout;
    let rotation = layout.rotation.as_ref();
    let ncyl = u32::try_from(grown.fs.fs_old_ncyl).unwrap_or(0);
    let cylinders = rotation.map(|rotation| Cylinders { rotation, ncyl });
    let conventions = Conventions::of(grown.dialect);
    let mut fs = grown.fs;
    if !grown.check_hashes().groups {
        fs.fs_metackhash = 0;
    }
    let blocks = GroupBlocks::new(layout, &fs, &conventions, cylinders, &NOTHING);
    let total = layout.fs_ncg - first;
    for cgx in first..layout.fs_ncg {
        let copy = replica(grown, layout.byte(layout.cgsblock(cgx)), now);
        let (at, run) = blocks.structures(layout, cgx, now.secs, &copy, random);
        let block = &run[index(layout.byte(layout.cgtod(cgx)) - at)..][..layout.fs_cgsize as usize];
        GroupMap::check(layout, block, cgx)?;
        device.write_at(at, &run)?;
        progress(cgx + 1 - first, total)?;
    }
    Ok(device.flush()?)
}
