//! Changing the members of a set, mounted or not.
//!
//! The process that serves the mount of a set makes the changes ([`control`](crate::control));
//! without a mount this process does, after a replay of the log.

use super::find::absolute;
use super::named::{MemberName, Named};
use super::open::OpenSet;
use crate::check::{MfsReport, Options};
use crate::control::Request;
use crate::error::{Context, Error, Result};
use crate::image::{Image, OpenOptions};
use crate::newfs::rng;
use rand::Rng;
use serde::{Deserialize, Serialize};
use spindle_clock::{Clock, TickClock};
use spindle_device::{Scrubbed, Spec};
use spindle_mfs::check::Phase;
use spindle_mfs::{Progress, Role};
use std::fmt;

/// A change of the members of a set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// Give what the member `old` has to a new one, and leave out the old one. The contents come
    /// from other copies, or from the old member if it can be read; for log storage that was lost
    /// there is a new, empty log.
    Replace {
        /// The old one.
        old: MemberName,
        /// The device of the new one.
        new: NewDevice,
        /// If log storage is missing, give up what only it has. The file system counts as damaged
        /// then, until it is repaired.
        discard_log: bool,
    },
    /// Add a copy of a part of a role's storage.
    Add {
        /// The role.
        role: Role,
        /// The part.
        index: u32,
        /// The device of the copy.
        new: NewDevice,
    },
    /// Leave out a member, if there are other copies of all that it has.
    Remove {
        /// The one to leave out.
        old: MemberName,
    },
    /// Compare all copies, and mend what differs.
    Scrub,
}

/// A file, block device or partition that becomes a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewDevice {
    /// Where it is: a specification, see [`Spec::parse`].
    pub path: String,
    /// The size of a new file in bytes.
    pub size: Option<u64>,
    /// Overwrite what is there.
    pub force: bool,
}

/// What a change has found and done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// True if the set is mounted.
    pub mounted: bool,
    /// Bytes of copies that a scrub has read.
    pub bytes: u64,
    /// Megabytes of copies that differed from what is right, or from the first copy if nothing says
    /// what is right, and were written. What an unclean end explains is not among them.
    pub differed: u64,
    /// Megabytes of copies that could not be read, and were written.
    pub unreadable: u64,
    /// Bytes that differed and of which nothing says which copy has them right, without those that
    /// an unclean end explains.
    pub undecided: u64,
    /// Bytes that differed because the set was left in use, in what was never durable, and are
    /// equal again.
    #[serde(default)]
    pub unclean: u64,
    /// Data blocks of which no copy is what its checksum was made of.
    pub wrong: u64,
    /// Copies that are lost, after the change.
    pub lost: u64,
    /// Read-only classes whose areas are not what they were, or cannot be read.
    pub changed_areas: Vec<String>,
}

/// Receives the progress; its error ends the work, which can be taken up again.
pub type Report<'a> = dyn FnMut(Progress) -> Result<()> + 'a;

/// Changes the set. If this was interrupted, calling it again goes on.
///
/// # Errors
/// If the set is used by another program than a mount of Spindle, is not whole enough, the new
/// device cannot be used, or a device fails.
pub fn change(set: &Named, change: &Change, report: &mut Report<'_>) -> Result<Outcome> {
    let change = &change.with_absolute_paths();
    if let Some(outcome) = set.ask(&Request::Members(change.clone()), report)? {
        return Ok(outcome);
    }
    let spec = &set.member()?;
    open(spec, without_log(change))?.apply(change, report).context(spec)
}

/// What a scrub has found.
#[derive(Clone, Debug)]
pub struct ScrubReport {
    /// What differed between copies.
    pub copies: Outcome,
    /// The check of the structures after it; none if the set is mounted.
    pub check: Option<MfsReport>,
}

/// Compares all copies, mends what differs, and checks the structures if the set is not mounted.
///
/// # Errors
/// As [`change`].
pub fn scrub(
    set: &Named,
    report: &mut Report<'_>,
    phase: &mut dyn FnMut(&dyn fmt::Display),
) -> Result<ScrubReport> {
    if let Some(copies) = set.ask(&Request::Members(Change::Scrub), report)? {
        return Ok(ScrubReport { copies, check: None });
    }
    let spec = &set.member()?;
    let open = open(spec, false)?;
    let copies = open.apply(&Change::Scrub, report).context(spec)?;
    let mut progress = |now: Phase| phase(&now);
    let check = spindle_mfs::check::check(&open.set, Options::default().limit, &mut progress);
    Ok(ScrubReport { copies, check: Some(check.context(spec)?) })
}

/// Returns true if a change gives up log storage that is missing.
const fn without_log(change: &Change) -> bool {
    matches!(change, Change::Replace { discard_log: true, .. })
}

/// Opens the set that `spec` is a member of for a change, and warns of copies that are lost.
/// Replays its log first, if it has to be; `without_log` gives up log storage that is missing.
pub(super) fn open(spec: &Spec, without_log: bool) -> Result<OpenSet> {
    let options = OpenOptions::read_write();
    let mut open = OpenSet::open_as(spec, &options, without_log)?;
    if open.set.needs_replay().context(spec)? {
        drop(open);
        // It warns.
        let image = Image::open(spec, &options)?;
        let writable = image.check_writable();
        image.unmount().context(spec)?;
        writable.context(spec)?;
        open = OpenSet::open_as(spec, &options, false)?;
    } else {
        open.warn();
    }
    open.set.begin_change(TickClock.now()).context(spec)?;
    Ok(open)
}

/// Opens a set that [`open`] has opened, for the next step of the same change, without a warning.
pub(super) fn open_again(spec: &Spec) -> Result<OpenSet> {
    let open = OpenSet::open_as(spec, &OpenOptions::read_write(), false)?;
    open.set.begin_change(TickClock.now()).context(spec)?;
    Ok(open)
}

impl Change {
    /// Returns the change with paths that mean the same in another process.
    fn with_absolute_paths(&self) -> Self {
        let mut change = self.clone();
        if let Self::Replace { new, .. } | Self::Add { new, .. } = &mut change
            && let Ok(spec) = Spec::parse(&new.path)
        {
            new.path = absolute(&spec).to_string();
        }
        change
    }
}

impl OpenSet {
    /// Makes a change, whose paths are absolute.
    pub(crate) fn apply(&self, change: &Change, report: &mut Report<'_>) -> Result<Outcome> {
        let mut report = |progress| {
            report(progress).map_err(|error| {
                let error = std::io::Error::other(error.to_string());
                spindle_device::Error::io("the change", "going on", error)
            })
        };
        let new_device = |new: &NewDevice| {
            let spec = Spec::parse(&new.path)?;
            self.new_device(&spec, new.size, new.force)
        };
        let undo = |new: &NewDevice, error: Error| {
            self.undo(new);
            error
        };
        let identity = || rng(None).random();
        let (mut scrubbed, mut changed_areas) = (Scrubbed::default(), Vec::new());
        let result = match change {
            Change::Replace { old, new, .. } if self.has_replaced(old, new) => Ok(()),
            Change::Replace { old, new, .. } => {
                let old = self.member(old)?;
                let device = new_device(new)?;
                let replaced = self.set.replace(old, &device, identity(), &mut report);
                replaced.context(&new.path).map_err(|error| undo(new, error))
            }
            Change::Add { role, index, new } if self.has_copy((*role, *index), new) => Ok(()),
            Change::Add { role, index, new } => {
                self.set.check_part(*role, *index)?;
                let device = new_device(new)?;
                let added = self.set.add(*role, *index, &device, identity(), &mut report);
                added.context(&new.path).map_err(|error| undo(new, error))
            }
            // The set must be found through another member afterwards.
            Change::Remove { old } if self.count() < 2 => {
                Err(Error::new("the last member of the set").within(&old.given))
            }
            Change::Remove { old } => self.set.remove(self.member(old)?).context(&old.given),
            Change::Scrub => {
                scrubbed = self.set.scrub(&mut report)?;
                let changed = self.set.verify_read_only(&mut report)?;
                changed_areas = changed.iter().map(ToString::to_string).collect();
                Ok(())
            }
        };
        self.close_others();
        result?;
        let Scrubbed { bytes, differed, unreadable, undecided, unclean, wrong, .. } = scrubbed;
        let wrong = wrong.len() as u64;
        let lost = self.set.label_now().areas.iter().filter(|area| area.is_lost()).count() as u64;
        Ok(Outcome {
            mounted: false,
            bytes,
            differed,
            unreadable,
            undecided,
            unclean,
            wrong,
            lost,
            changed_areas,
        })
    }
}
