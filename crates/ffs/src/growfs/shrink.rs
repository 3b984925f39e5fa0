//! Making a file system smaller, which is not mounted.
//!
//! Everything is planned on a copy-on-write device: what lies behind the new end is moved before
//! it, as a repair moves what lies where the summaries have to be; inodes of groups that go get
//! other numbers ([`super::renumber`]); a log in the way is taken off, and made again; then the
//! superblock gets the new sizes, and the repair plans the rest. A check has the last word.
//!
//! # Crashes
//!
//! First the data of files is copied to space that is free, and what else is new there. The rest
//! happens as a whole (`repair/redo.rs`): a cut leaves the old file system, which is still clean,
//! or the mark by which `fsck -p`, or the next attempt, finishes the new one. Behind the new end
//! nothing changes but in free space.

use super::renumber::{beyond, renumber};
use super::{Resize, examine, refused, replica, resized};
use crate::check::state::BlockMap;
use crate::check::{Checker, Findings, Options, Report};
use crate::format::group::GroupMap;
use crate::format::layout::{Layout, ROOT_INO};
use crate::format::ondisk::Cg;
use crate::format::superblock::Superblock;
use crate::format::units::{Frag, index};
use crate::log::LogUse;
use crate::log::locate::LogPlace;
use crate::repair::{Copy, Image, Redo, Wanted, settle_in_memory, undo_bytes, vacate};
use crate::tree::mount::{Ffs, OpenOptions};
use crate::tree::remove_log::remove_log;
use rand::RngCore;
use spindle_clock::Clock;
use spindle_device::{Change, CowDevice, Device, write_sectors};
use spindle_vfs::{Error, FileSystem, Result};
use std::sync::Arc;

/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;
/// Attempts to find the smallest size, each of which doubles what is added to it.
const ATTEMPTS: u32 = 48;

/// A file system that is going to be smaller: a plan, of which nothing is written yet.
pub struct Shrink {
    /// The sizes.
    pub sizes: Resize,
    /// What a check finds before and afterwards, which is nothing.
    pub before: Report,
    /// See `before`.
    pub after: Report,
    /// Number of files that get another inode.
    pub moved_inodes: usize,
    /// Bytes of data of files that are moved.
    pub moved_bytes: u64,
    copies: Vec<Copy>,
    /// What goes to space that was free.
    fresh: Vec<Change>,
    redo: Redo,
    undo: Vec<u8>,
    fshift: u32,
}

/// What a check sees of a file system.
struct Seen {
    report: Report,
    used: BlockMap,
    /// Fragments that files hold.
    used_frags: u64,
    /// Inodes in use.
    files: u64,
    /// Inodes in use in groups that go.
    beyond: u32,
}

/// Checks the file system on `device`; `limit` is the first inode that goes.
fn look(device: &dyn Device, limit: u32) -> Result<Seen> {
    let superblock = Superblock::open(device)?;
    let mut quiet = |_| ();
    let findings = Findings::new(Options::default().limit);
    let checker = Checker::run(device, &superblock, None, findings, &mut quiet)?;
    let (used, used_frags, files) =
        (checker.state.used.clone(), checker.state.used_frags, checker.state.files);
    let beyond = beyond(&checker, limit);
    Ok(Seen { report: checker.report(None), used, used_frags, files, beyond })
}

/// Returns the plan to make the file system on `device` as small as `sizes` say, with the time of
/// `clock` and generations of inodes from `random`. Nothing is written.
///
/// # Errors
/// [`Error::NoSpace`] if what it holds does not fit, or there is too little free space to change
/// its size safely; [`Error::Unsupported`] if it is not clean and whole, or cannot be written;
/// errors of the device.
pub fn shrink(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    random: &mut dyn RngCore,
    sizes: &Resize,
) -> Result<Shrink> {
    examine(&**device, sizes)?;
    planned(device, clock, random, sizes)
}

/// Returns the plan to make the file system on `device` as small as can be done, as [`shrink`]
/// does.
///
/// # Errors
/// As for [`shrink`]; of [`Error::NoSpace`], if it cannot become smaller at all.
pub fn shrink_to_fit(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    random: &mut dyn RngCore,
) -> Result<Shrink> {
    let superblock = Superblock::open(&**device)?;
    let (layout, size) = (&superblock.layout, superblock.layout.fs_size);
    examine(&**device, &Resize::smaller(&superblock, size << layout.fs_fshift)?)?;
    let seen = look(&**device, layout.inodes())?;
    let fits = |frags: u64| {
        let Ok(sizes) = Resize::smaller(&superblock, frags << layout.fs_fshift) else { return false };
        let Ok(smaller) = resized(&superblock, &sizes, &**device) else { return false };
        smaller.layout.fs_dsize >= seen.used_frags && u64::from(smaller.layout.inodes()) >= seen.files + 3
    };
    let (mut least, mut most) = (0, size);
    while least < most {
        let middle = least + (most - least) / 2;
        if fits(middle) { most = middle } else { least = middle + 1 }
    }
    let mut step = u64::from(layout.fs_frag);
    for _ in 0..ATTEMPTS {
        if least >= size {
            break;
        }
        // A size that only looks right, at the beginning of a group, is passed over.
        let sizes = Resize::smaller(&superblock, least << layout.fs_fshift).ok().filter(|_| fits(least));
        match sizes.map(|sizes| planned(device, clock, random, &sizes)) {
            None | Some(Err(Error::NoSpace)) => {}
            Some(planned) => return planned,
        }
        least = least.saturating_add(step);
        step *= 2;
    }
    Err(Error::NoSpace)
}

fn planned(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    random: &mut dyn RngCore,
    sizes: &Resize,
) -> Result<Shrink> {
    let options = Options::default();
    let before = Superblock::open(&**device)?;
    let old = &before.layout;
    let size = sizes.new_bytes >> old.fs_fshift;
    let limit = sizes.new_groups * old.fs_ipg;
    let seen = look(&**device, limit)?;
    let room = u64::from(limit).saturating_sub(seen.files + 3);
    let smaller = resized(&before, sizes, &**device)?;
    if smaller.layout.fs_dsize < seen.used_frags || (seen.beyond > 0 && room == 0) {
        return Err(Error::NoSpace);
    }

    let overlay = Arc::new(CowDevice::new(device.clone()));
    let view: Arc<dyn Device> = overlay.clone();
    let log = log_in_the_way(&before, sizes.new_bytes);
    if log.is_some() {
        remove_log(&view, clock, false)?;
    }
    let vacant = size..old.fs_size;
    let wanted = Wanted { vacant, taken: Some(&seen.used), ..Wanted::of(&options) };
    let copies = vacate(&overlay, clock, &wanted)?;
    let moved = renumber(&*overlay, sizes.new_groups, random)?;
    let smaller = resized(&Superblock::open(&*overlay)?, sizes, &**device)?;
    enter_sizes(&*overlay, &smaller, old, clock)?;
    settle_in_memory(&overlay, clock, &Wanted::of(&options))?;
    if let Some(place) = log {
        make_log(&view, clock, place)?;
        // The log has got another place, and nobody has changed the directory.
        let image = |device| Image { device, layout: old, hashes: before.check_hashes() };
        image(&*overlay).keep_times(ROOT_INO, &image(&**device))?;
    }

    let after = look(&*overlay, u32::MAX)?;
    if !after.report.is_clean() {
        let found = after.report.findings.first().map(ToString::to_string).unwrap_or_default();
        return Err(refused(format!("a smaller one would have damage: {found}"), "copy its files"));
    }
    let is_free = |change: &Change| !seen.used.get(change.at >> old.fs_fshift);
    let changes = overlay.changes()?.into_iter().filter(|change| change.at < sizes.new_bytes);
    let (fresh, mut changes): (Vec<_>, Vec<_>) = changes.partition(is_free);
    let at = old.fs_sblockloc;
    if !changes.iter().any(|change| change.at == at) {
        // Writing it, whatever it says, ends the change.
        let mut same = vec![0; device.info().sector_bytes as usize];
        overlay.read_at(at, &mut same)?;
        changes.push(Change { at, old: same.clone(), new: same });
    }
    let mut stands = before.clone();
    stands.set_clean(false, false, clock.now());
    let stands = stands.encode(old.fs_sblockloc);
    let first = stands[..device.info().sector_bytes as usize].to_vec();
    let places = free_blocks(old, (&seen.used, &after.used), size, changes.len(), first.len());
    let redo = places
        .and_then(|places| Redo::new(&changes, &places, old.fs_bsize as usize, (old.fs_sblockloc, first)));
    let undo = undo_bytes(device.info(), &changes, &before, &stands);
    let frags: u64 = copies.iter().map(|copy| u64::from(copy.frags)).sum();
    Ok(Shrink {
        sizes: *sizes,
        before: seen.report,
        after: after.report,
        moved_inodes: moved.len(),
        moved_bytes: frags << old.fs_fshift,
        copies,
        fresh,
        redo: redo.ok_or(Error::NoSpace)?,
        undo,
        fshift: old.fs_fshift,
    })
}

/// Returns the place of a log that reaches behind the new end.
fn log_in_the_way(superblock: &Superblock, bytes: u64) -> Option<LogPlace> {
    superblock.log_place().filter(|place| place.at + place.len > bytes)
}

/// Makes a log as long as the one that was in the way.
///
/// # Errors
/// [`Error::NoSpace`] if there is no room for it.
fn make_log(device: &Arc<dyn Device>, clock: &Arc<dyn Clock>, place: LogPlace) -> Result<()> {
    let options = OpenOptions { log: LogUse::Required, log_bytes: Some(place.len), ..OpenOptions::default() };
    match Ffs::open(device.clone(), clock.clone(), &options) {
        Ok(ffs) => ffs.unmount(),
        Err(Error::Unsupported { .. }) => Err(Error::NoSpace),
        Err(error) => Err(error),
    }
}

/// Enters the sizes of `smaller` into the superblock, its replicas and the last group.
fn enter_sizes(
    device: &dyn Device,
    smaller: &Superblock,
    old: &Layout,
    clock: &Arc<dyn Clock>,
) -> Result<()> {
    let layout = &smaller.layout;
    let image = Image { device, layout, hashes: smaller.check_hashes() };
    for cgx in 0..layout.fs_ncg {
        let at = layout.byte(layout.cgsblock(cgx));
        image.put(at, &replica(smaller, at, clock.now()))?;
    }
    let last = layout.fs_ncg - 1;
    if layout.cg_frags(last) != old.cg_frags(last) {
        let at = layout.byte(layout.cgtod(last));
        image.change(at, layout.fs_cgsize as usize, |block| {
            let mut cg = Cg::decode(block, layout.endian);
            cg.cg_ndblk = layout.cg_frags(last);
            if layout.fs_contigsumsize > 0 {
                cg.cg_nclusterblks = cg.cg_ndblk / layout.fs_frag;
            }
            cg.encode(block, layout.endian);
        })?;
        GroupMap::check(layout, &image.read(at, layout.fs_cgsize as usize)?, last)?;
    }
    smaller.clone().write(device)?;
    Ok(())
}

/// Returns the places of free blocks for a change of so many sectors of `sector` bytes: free in the
/// file system of `old`, and also in the one of `size` fragments.
fn free_blocks(
    old: &Layout,
    (before, after): (&BlockMap, &BlockMap),
    size: u64,
    sectors: usize,
    sector: usize,
) -> Option<Vec<u64>> {
    let needed = Redo::blocks_for(sectors, old.fs_bsize as usize, sector);
    let frag = u64::from(old.fs_frag);
    let is_free = |block: &u64| {
        *block + frag <= old.fs_size
            && (*block..*block + frag).all(|at| !before.get(at) && (at >= size || !after.get(at)))
    };
    let blocks = (1..old.fs_size.div_ceil(frag)).rev().map(|n| n * frag).filter(is_free);
    let places: Vec<u64> = blocks.take(needed).map(|block| old.byte(Frag(block))).collect();
    (places.len() == needed).then_some(places)
}

impl Shrink {
    /// Returns the bytes that [`crate::repair::undo`] needs to take it back, as long as nothing
    /// has been written behind the new end.
    #[must_use]
    pub fn undo_bytes(&self) -> &[u8] {
        &self.undo
    }

    /// Makes the file system smaller, durably. `progress` hears of the fragments that were copied,
    /// and how many there are; it may still end the work, and then nothing has changed.
    ///
    /// # Errors
    /// Those of `progress`; errors of the device, after which either nothing has changed, or
    /// [`crate::repair::resume`] does the rest.
    pub fn apply(&self, device: &dyn Device, progress: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<()> {
        let total = self.moved_bytes >> self.fshift;
        let mut done = 0;
        let mut runs = self.copies.iter().copied().peekable();
        while let Some(first) = runs.next() {
            let mut frags = u64::from(first.frags);
            let joins = |next: &Copy, frags: u64| {
                (next.from, next.to) == (first.from + frags, first.to + frags)
                    && frags + u64::from(next.frags) <= COPY_BYTES >> self.fshift
            };
            while let Some(next) = runs.next_if(|next| joins(next, frags)) {
                frags += u64::from(next.frags);
            }
            let mut bytes = vec![0; index(frags << self.fshift)];
            device.read_at(first.from << self.fshift, &mut bytes)?;
            device.write_at(first.to << self.fshift, &bytes)?;
            done += frags;
            progress(done, total)?;
        }
        write_sectors(device, self.fresh.iter().map(|change| (change.at, &change.new[..])))?;
        self.redo.apply(device)
    }
}
