//! Declaring free space unused to the device: all of it when asked (`FITRIM`, fstrim(8)), and on
//! mounts with `discard` what a commit has freed, once it is durable.
//!
//! What is free in the maps may still be what a crash brings back. With a log that is the space
//! that the epoch under way has freed, which the cache knows; it is left out. Without a log
//! everything is made durable first, and again if more was freed before the space is discarded.
//!
//! What a commit has freed may have been allocated again when the commit is durable; so it is
//! looked up in the maps as any other space.
//!
//! A run is discarded in a transaction and under the lock of its group: so none of it is allocated
//! meanwhile, and no epoch begins to be committed. Runs are limited, so that others do not wait for
//! long.

use super::Volume;
use crate::format::group::find_bit;
use crate::format::units::Frag;
use spindle_clock::Mutex;
use spindle_device::Error as DeviceError;
use spindle_vfs::{Error, Result};
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most bytes that are discarded under one lock.
const MOST_BYTES: u64 = 64 << 20;
/// How often everything is made durable for one run, while others free space.
const TRIES: usize = 3;

/// What commits have freed and is to be discarded.
#[derive(Default)]
pub(crate) struct Discards {
    on: AtomicBool,
    /// Bytes of the device that are durably free, as far as nobody has allocated them again.
    waiting: Mutex<Vec<Range<u64>>>,
    /// Held by the thread that discards.
    busy: Mutex<()>,
}

impl Discards {
    /// Has what is freed from now on discarded, or not.
    pub(crate) fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Returns true if what is freed is discarded.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }
}

impl Volume {
    /// Discards what a durable commit has freed. Nothing depends on it: if the device fails, no
    /// more is discarded.
    pub(super) fn discard_freed(&self, freed: Vec<Range<u64>>) {
        if freed.is_empty() {
            return;
        }
        let discards = &self.discards;
        discards.waiting.lock().extend(freed);
        // The transactions below may have to commit first, and that comes here again.
        while let Some(_busy) = discards.busy.try_lock() {
            let waiting = std::mem::take(&mut *discards.waiting.lock());
            if waiting.is_empty() {
                return;
            }
            for bytes in waiting {
                if let Err(error) = self.trim(bytes, 0) {
                    let device = &self.cache.device().info().name;
                    log::warn!("{device}: freed space is not discarded any more: {error}");
                    discards.set(false);
                    discards.waiting.lock().clear();
                    return;
                }
            }
        }
    }

    /// Declares the free space in these bytes of the device unused, in runs of at least
    /// `min_bytes`. Returns the bytes of it.
    ///
    /// # Errors
    /// [`Error::NotSupported`] if the device cannot; device errors; if a group is damaged.
    pub(crate) fn trim(&self, bytes: Range<u64>, min_bytes: u64) -> Result<u64> {
        let layout = &self.layout;
        let shift = layout.fs_fshift;
        let frags = bytes.start.div_ceil(1 << shift)..(bytes.end >> shift).min(layout.fs_size);
        let most = u32::try_from(MOST_BYTES >> shift).unwrap_or(u32::MAX);
        let least = u32::try_from(min_bytes.div_ceil(1 << shift)).unwrap_or(u32::MAX).max(1);
        let (mut trimmed, mut durable) = (0, None);
        for part in self.by_groups(Frag(frags.start), frags.end.saturating_sub(frags.start)) {
            let base = layout.cgbase(part.cgx);
            let mut at = part.first;
            while let Some(run) = self.free_run(part.cgx, at..part.last)? {
                at = run.end;
                if run.end - run.start < least {
                    continue;
                }
                for first in run.clone().step_by(most as usize) {
                    let run = first..run.end.min(first.saturating_add(most));
                    let at = base + u64::from(run.start);
                    trimmed += self.trim_run(part.cgx, run, at, &mut durable)?;
                }
            }
        }
        Ok(trimmed)
    }

    /// Returns the first free fragments of a group in this range.
    fn free_run(&self, cgx: u32, range: Range<u32>) -> Result<Option<Range<u32>>> {
        self.view_group(cgx, |group| {
            let end = range.end.min(group.fragments());
            let start = find_bit(group.blksfree(), range.start..end, true)?;
            Some(start..find_bit(group.blksfree(), start..end, false).unwrap_or(end))
        })
    }

    /// Discards a run of fragments of a group, which begins at `at`, if all of it is still free.
    /// Returns the bytes. Without a log, all that was freed when space had been freed `durable`
    /// times is durably free.
    fn trim_run(&self, cgx: u32, run: Range<u32>, at: Frag, durable: &mut Option<u64>) -> Result<u64> {
        let sector = u64::from(self.cache.device().info().sector_bytes);
        let start = (at.0 << self.layout.fs_fshift).next_multiple_of(sector);
        let end = (at.0 + u64::from(run.end - run.start)) << self.layout.fs_fshift;
        let bytes = start..end - end % sector;
        if bytes.is_empty() {
            return Ok(0);
        }
        for _ in 0..TRIES {
            let frees = self.frees.load(Ordering::Acquire);
            if self.log.is_none() && *durable != Some(frees) {
                self.cache.sync()?;
                *durable = Some(frees);
            }
            let discarded = self.transact((), |tx, ()| {
                self.view_group(cgx, |group| {
                    if self.frees.load(Ordering::Acquire) != frees {
                        return Ok(None);
                    }
                    let is_free = find_bit(group.blksfree(), run.clone(), false).is_none();
                    Ok(Some(is_free && self.cache.discard_free(tx, &bytes)?))
                })?
            });
            match discarded {
                Ok(Some(true)) => return Ok(bytes.end - bytes.start),
                Ok(Some(false)) => return Ok(0),
                Ok(None) => {}
                Err(Error::Device(DeviceError::Io { source, .. }))
                    if source.kind() == ErrorKind::Unsupported =>
                {
                    return Err(Error::NotSupported);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }
}
