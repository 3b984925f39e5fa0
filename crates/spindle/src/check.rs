//! Checking a file system, as `fsck(8)` does.
//!
//! [`Repair`] says what a check may change. The repair of a fast file system is planned as a whole
//! before anything of it is written, and can be taken back ([`Options::undo`], [`undo`]).

use crate::detect::{Found, OLD_FORMATS, detect, detect_damaged};
use crate::error::{Context, Error, Result};
use crate::image::{self, open_device, open_device_unlocked};
use crate::set::OpenSet;
use crate::text::counted;
use spindle_clock::{Clock, SystemClock};
use spindle_device::{CowDevice, Device, Spec};
use spindle_ffs::repair::{Journal, Scope, journal, resume, resumed};
use spindle_ffs::{Dialect, Ffs, FoundLog, Replayed, Superblock, replayed};
use spindle_v7::Format;
use spindle_vfs::{Error as FsError, FileSystem, Objection};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use spindle_ffs::JournalKind;
pub use spindle_ffs::check::{Finding as FfsFinding, Report as FfsReport};
pub use spindle_ffs::repair::{Remedy, remedy};
pub use spindle_mfs::check::Report as MfsReport;
pub use spindle_tree::check::{Phase, Repaired, Severity};
pub use spindle_v7::check::Report as OldReport;

/// What a check may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// Nothing: a log is replayed in memory only.
    #[default]
    No,
    /// Replay the log; repair, if everything can be repaired without loss.
    Preen,
    /// Replay the log; repair everything.
    Yes,
}

/// Settings of a check.
#[derive(Clone, Debug)]
pub struct Options {
    /// What may be changed.
    pub repair: Repair,
    /// The copy of the superblock to use (UFS): its sector of 512 bytes, or its byte.
    pub superblock: Option<u64>,
    /// Format of an old file system, if damage prevents its detection.
    pub format: Option<Format>,
    /// The system of a fast file system, if its detection is in doubt.
    pub dialect: Option<Dialect>,
    /// Maximum number of findings to list.
    pub limit: usize,
    /// A file to be made, with which the repair of a fast file system can be taken back.
    pub undo: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { repair: Repair::No, superblock: None, format: None, dialect: None, limit: 10_000, undo: None }
    }
}

impl Options {
    /// Returns true if what was found is to be checked as an old file system.
    fn is_old(&self, found: &spindle_vfs::Result<Found>) -> bool {
        self.format.is_some() || self.dialect.is_none() && matches!(found, Ok(Found::Old(_)))
    }
}

/// The effect of the log of a fast file system on its check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEffect {
    /// This many blocks were replayed.
    Recovered {
        /// Number of blocks.
        blocks: usize,
    },
    /// This many blocks were replayed in memory; the check saw the state after it.
    Shown {
        /// Number of blocks.
        blocks: usize,
    },
    /// The log cannot be believed, for this reason.
    Useless(String),
    /// The journal of another system, so many records, has put the file system right.
    JournalRecovered {
        /// Whose journal it is.
        kind: JournalKind,
        /// Number of records.
        records: usize,
    },
    /// It has done so in memory; the check saw the state after it.
    JournalShown {
        /// Whose journal it is.
        kind: JournalKind,
        /// Number of records.
        records: usize,
    },
    /// It cannot be used, for this reason: the full check stands in for it.
    JournalUseless(JournalKind, String),
    /// The log has changes, but the file system cannot be written.
    Refused,
    /// A change of its size, or a repair, that was interrupted is finished.
    Resized,
    /// It was finished in memory; the check saw the state after it.
    ResizeShown,
}

impl fmt::Display for LogEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovered { blocks } => {
                write!(f, "recovered {} from the log", counted(*blocks as u64, "block"))
            }
            Self::Shown { blocks } => write!(
                f,
                "not unmounted cleanly: checking the state after replay of its log ({})",
                counted(*blocks as u64, "block")
            ),
            Self::Useless(reason) => f.write_str(reason),
            Self::JournalRecovered { kind, records } => {
                write!(f, "recovered with the {kind} (records: {records})")
            }
            Self::JournalShown { kind, records } => {
                write!(f, "checking the state after recovery with the {kind} (records: {records})")
            }
            Self::JournalUseless(kind, reason) => {
                write!(f, "the {kind} cannot be used, this is a full check: {reason}")
            }
            Self::Resized => f.write_str("finished changing its size, or a repair, which was interrupted"),
            Self::ResizeShown => f.write_str(
                "changing its size, or a repair, was interrupted: checking the state after finishing that",
            ),
            Self::Refused => f.write_str(
                "its log cannot be replayed, because the file system cannot be written; see spindle info",
            ),
        }
    }
}

/// What a check that may change something did about a fast file system that was not marked clean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// Nothing: it was marked clean, or is damaged, or nothing was to be changed.
    #[default]
    Unchanged,
    /// There is no damage, so it is marked clean now.
    Marked,
    /// There is no damage, but it cannot be marked clean, for these reasons.
    Refused(Vec<Objection>),
}

/// What a check that may change something did about the damage of a fast file system.
#[derive(Clone, Debug, Default)]
pub enum FfsRepair {
    /// There is no damage, or nothing was to be changed.
    #[default]
    None,
    /// There is no repair, for this reason; nothing was changed.
    Refused(String),
    /// It was repaired; this is what a check finds now.
    Done(Box<FfsReport>),
}

/// The result of a check.
#[derive(Clone, Debug)]
pub enum Checked {
    /// Of a fast file system.
    Ffs {
        /// The findings after the replay of the log.
        report: FfsReport,
        /// What the log did to the check, if anything.
        log: Option<LogEffect>,
        /// Whether it was marked clean without a repair.
        marking: Marking,
        /// Whether it was repaired.
        repair: FfsRepair,
    },
    /// Of an old file system.
    Old(Repaired<OldReport>),
    /// Of a multi-structured file system, after the replay of its log.
    Mfs(Repaired<MfsReport>),
}

impl Checked {
    /// Returns true if there is no damage, or none is left after the repair.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        match self {
            Self::Ffs { repair: FfsRepair::Done(after), .. } => after.is_clean(),
            Self::Ffs { report, .. } => report.is_clean(),
            Self::Old(repaired) => repaired.after.is_clean(),
            Self::Mfs(repaired) => repaired.after.is_clean(),
        }
    }
}

/// Checks the file system in `spec`. Calls `phase` with the name of each phase when it begins.
///
/// # Errors
/// If there is no file system to check, another program is writing it, or the device fails. Damage
/// is not an error: see [`Checked`].
pub fn check(spec: &Spec, options: &Options, phase: &mut dyn FnMut(&dyn fmt::Display)) -> Result<Checked> {
    check_and_ask(spec, options, &mut |_| true, phase)
}

/// Checks the file system on a device as [`check`] does, without changing anything. So a caller can
/// stop it: all requests of the device fail then. A multi-structured file system is checked by its
/// name only.
///
/// # Errors
/// If there is no file system to check, or the device fails; if `options` have a repair.
pub fn check_device(
    device: &Arc<dyn Device>,
    options: &Options,
    phase: &mut dyn FnMut(&dyn fmt::Display),
) -> Result<Checked> {
    if options.repair != Repair::No {
        return Err(Error::new("a repair needs the name of the device"));
    }
    let (device, resized) = finish_resize(device, Repair::No)?;
    let (device, found) = (&device, detect(&*device));
    let checked = if options.is_old(&found) {
        check_old(device, options, phase)
    } else {
        check_ffs(Arc::clone(device), options, resized, &mut |_| false, phase)
    };
    match (checked, found) {
        // What the device has instead.
        (Err(FsError::Unsupported { .. }), Err(refused)) if options.format.is_none() => Err(refused.into()),
        (checked, _) => Ok(checked?),
    }
}

/// Checks as [`check`] does. Before a fast file system is repaired, `agree` is asked about the
/// first finding of each kind: without its consent to all of them, nothing is changed.
///
/// # Errors
/// Those of [`check`].
pub fn check_and_ask(
    spec: &Spec,
    options: &Options,
    agree: &mut dyn FnMut(&FfsFinding) -> bool,
    phase: &mut dyn FnMut(&dyn fmt::Display),
) -> Result<Checked> {
    let resized = match options.superblock {
        // Someone who names a copy may know better.
        None => finish_resize_of(spec, options.repair).context(spec)?,
        Some(_) => None,
    };
    let found = match &resized {
        Some((view, _)) => detect(&**view),
        None => detect(&*open_device_unlocked(spec)?),
    };
    let other = options.is_old(&found) || matches!(found, Ok(Found::Mfs(_)));
    if options.undo.is_some() && other {
        let what = "an undo file for a file system that is not UFS";
        return Err(FsError::unsupported(what, "keep a copy of the image")).context(spec);
    }
    if options.format.is_none() && matches!(found, Ok(Found::Mfs(_))) {
        return check_set(spec, options, phase).context(spec);
    }
    if options.repair != Repair::No
        && let (Some(format), Ok(found)) = (options.format, &found)
        && !found.may_be(format)
    {
        let remedy = "leave out -t, which names the format of what is not recognised";
        return Err(FsError::unsupported(format!("a repair as {format} of {found}"), remedy)).context(spec);
    }
    let is_old = options.is_old(&found);
    let (device, resized) = match resized {
        Some((device, effect)) => (device, Some(effect)),
        None => match options.repair {
            Repair::No => (open_device(spec)?, None),
            Repair::Preen | Repair::Yes => (spec.open(&spindle_device::OpenOptions::read_write())?, None),
        },
    };
    let checked = if is_old {
        check_old(&device, options, phase)
    } else {
        check_ffs(device, options, resized, agree, phase)
    };
    match (checked, found) {
        // What the device has instead.
        (Err(FsError::Unsupported { .. }), Err(refused)) => Err(refused_old(spec).unwrap_or(refused)),
        (checked, _) => checked,
    }
    .context(spec)
}

/// Returns the refusal of an old file system whose super-block is lost: a new one needs its format,
/// as several have such directories.
fn refused_old(spec: &Spec) -> Option<FsError> {
    let device = open_device_unlocked(spec).ok()?;
    let Ok(Found::Old(found)) = detect_damaged(&*device, None, None) else { return None };
    let what =
        format!("the super-block of an old UNIX file system is lost, perhaps {}", found.superblock.format);
    Some(FsError::unsupported(
        what,
        format!("name its format: -t {}, or another of {OLD_FORMATS}", found.superblock.format),
    ))
}

fn check_old(
    device: &Arc<dyn Device>,
    options: &Options,
    phase: &mut dyn FnMut(&dyn fmt::Display),
) -> spindle_vfs::Result<Checked> {
    let old = spindle_v7::check::Options { format: options.format, limit: options.limit };
    let mut progress = |now: spindle_v7::check::Phase| phase(&now);
    Ok(Checked::Old(match options.repair {
        Repair::No => {
            let report = spindle_v7::check::check(&**device, &old, &mut progress)?;
            Repaired { after: report.clone(), before: report, changed: false }
        }
        harmless => {
            let only = harmless == Repair::Preen;
            spindle_v7::check::repair(device, &SystemClock, &old, only, &mut progress)?
        }
    }))
}

fn check_set(spec: &Spec, options: &Options, phase: &mut dyn FnMut(&dyn fmt::Display)) -> Result<Checked> {
    let mut progress = |now: Phase| phase(&now);
    Ok(Checked::Mfs(if options.repair == Repair::No {
        let OpenSet { set, .. } = OpenSet::open(spec, &image::OpenOptions::read_only())?;
        let report = spindle_mfs::check::check(&set, options.limit, &mut progress)?;
        Repaired { after: report.clone(), before: report, changed: false }
    } else {
        let OpenSet { set, .. } = OpenSet::open(spec, &image::OpenOptions::read_write())?;
        let harmless_only = options.repair == Repair::Preen;
        spindle_mfs::check::repair(&set, &SystemClock, harmless_only, options.limit, &mut progress)?
    }))
}

/// Finishes a change of the size of a fast file system that was interrupted; in memory only if
/// nothing is to be changed. Returns the device after that.
fn finish_resize(
    device: &Arc<dyn Device>,
    repair: Repair,
) -> spindle_vfs::Result<(Arc<dyn Device>, Option<LogEffect>)> {
    if repair == Repair::No {
        return Ok(match resumed(device)? {
            Some((view, _)) => (view, Some(LogEffect::ResizeShown)),
            None => (device.clone(), None),
        });
    }
    let sectors = resume(&**device)?;
    Ok((device.clone(), sectors.map(|_| LogEffect::Resized)))
}

/// Does what [`finish_resize`] does, of the file system of `spec`; none if there is nothing to
/// finish.
fn finish_resize_of(spec: &Spec, repair: Repair) -> Result<Option<(Arc<dyn Device>, LogEffect)>> {
    if resumed(&open_device_unlocked(spec)?)?.is_none() {
        return Ok(None);
    }
    let device = match repair {
        Repair::No => open_device(spec)?,
        Repair::Preen | Repair::Yes => spec.open(&spindle_device::OpenOptions::read_write())?,
    };
    let (device, effect) = finish_resize(&device, repair)?;
    Ok(effect.map(|effect| (device, effect)))
}

fn check_ffs(
    device: Arc<dyn Device>,
    options: &Options,
    resized: Option<LogEffect>,
    agree: &mut dyn FnMut(&FfsFinding) -> bool,
    phase: &mut dyn FnMut(&dyn fmt::Display),
) -> spindle_vfs::Result<Checked> {
    // Where the log has nothing to say, a journal may have.
    let (device, log) = match recover(device, options.repair == Repair::No)? {
        (device, log @ (None | Some(LogEffect::Useless(_)))) if options.superblock.is_none() => {
            let (device, journal) = follow_journal(device, options)?;
            (device, journal.or(log))
        }
        other => other,
    };
    let log = resized.or(log);
    let (replica, dialect, limit) = (options.superblock, options.dialect, options.limit);
    let ffs = spindle_ffs::check::Options { replica, dialect, limit };
    let mut last = None;
    let mut progress = |progress: spindle_ffs::check::Progress| {
        if last.replace(progress.phase) != Some(progress.phase) {
            phase(&progress.phase);
        }
    };
    let scope = match (options.repair, &log) {
        // What the log has would be lost.
        (Repair::No, _) | (_, Some(LogEffect::Refused)) => {
            let report = spindle_ffs::check::check(&*device, &ffs, &mut progress)?;
            let repair = match &log {
                Some(LogEffect::Refused) if options.repair != Repair::No && !report.is_clean() => {
                    FfsRepair::Refused(LogEffect::Refused.to_string())
                }
                _ => FfsRepair::None,
            };
            return Ok(Checked::Ffs { report, log, marking: Marking::Unchanged, repair });
        }
        (Repair::Preen, _) => Scope::Harmless,
        (Repair::Yes, _) => Scope::All,
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let plan = spindle_ffs::repair::plan(&device, &clock, &ffs, scope, agree, &mut progress)?;
    let mut report = plan.before.clone();
    let mut marking = Marking::Unchanged;
    if report.is_clean() && report.replica.is_none() && !report.marked_clean {
        // An edit takes the log out of the superblock.
        spindle_ffs::repair::find_log(&device, &clock)?;
        let mut superblock = Superblock::open(&*device)?;
        if let Some(dialect) = dialect {
            superblock.set_dialect(dialect);
        }
        let objections = superblock.mark_checked(&*device, SystemClock.now())?;
        report.marked_clean = objections.is_empty();
        marking = if report.marked_clean { Marking::Marked } else { Marking::Refused(objections) };
    }
    let repair = match &plan.refusal {
        Some(reason) => FfsRepair::Refused(reason.clone()),
        None if plan.changes_anything() => {
            if let Some(file) = &options.undo {
                keep(file, &plan.undo_bytes())?;
            }
            plan.apply(&*device)?;
            FfsRepair::Done(Box::new(plan.after))
        }
        None => FfsRepair::None,
    };
    Ok(Checked::Ffs { report, log, marking, repair })
}

/// Recovers with the journal of another system, if there is one to be followed; in memory only if
/// nothing is to be changed. Returns the device after the recovery.
fn follow_journal(
    device: Arc<dyn Device>,
    options: &Options,
) -> spindle_vfs::Result<(Arc<dyn Device>, Option<LogEffect>)> {
    if let Ok(superblock) = Superblock::open(&*device)
        && let Some(Replayed { view, kind: kind @ JournalKind::Gjournal, records }) =
            replayed(&device, &superblock)?
    {
        // Nothing writes to what is under gjournal.
        return Ok((view, Some(LogEffect::JournalShown { kind, records })));
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let recovery = match journal(&device, &clock)? {
        Journal::None => return Ok((device, None)),
        Journal::Useless(kind, reason) => {
            return Ok((device, Some(LogEffect::JournalUseless(kind, reason))));
        }
        Journal::Usable(recovery) => recovery,
    };
    let (kind, records) = (recovery.kind, recovery.records);
    if options.repair == Repair::No {
        let shown: Arc<dyn Device> = Arc::new(CowDevice::new(device));
        recovery.plan.apply(&*shown)?;
        return Ok((shown, Some(LogEffect::JournalShown { kind, records })));
    }
    if let Some(file) = &options.undo {
        keep(file, &recovery.plan.undo_bytes())?;
    }
    recovery.plan.apply(&*device)?;
    Ok((device, Some(LogEffect::JournalRecovered { kind, records })))
}

/// Makes a file with these bytes, durably, or none. It gets its name when it is complete.
pub(crate) fn keep(path: &Path, bytes: &[u8]) -> spindle_vfs::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = dir.join(format!(".spindle-{}-undo", std::process::id()));
    let write = || {
        let mut file = std::fs::File::create_new(&made)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        if path.symlink_metadata().is_ok() {
            return Err(std::io::ErrorKind::AlreadyExists.into());
        }
        std::fs::rename(&made, path)?;
        let synced = std::fs::File::open(dir).and_then(|dir| dir.sync_all());
        synced.inspect_err(|_| {
            let _ = std::fs::remove_file(path);
        })
    };
    write().map_err(|error| {
        // The error of the write says more.
        let _ = std::fs::remove_file(&made);
        let what = format!("the undo file {} cannot be written: {error}", path.display());
        FsError::unsupported(what, "nothing was changed; name another file")
    })
}

/// Takes a repair back, with the file that it has made ([`Options::undo`]). Returns the number of
/// sectors that are as they were before.
///
/// # Errors
/// If the file cannot be read, or is not for this image as it is now; then nothing is changed. If
/// another program is writing the image, or the device fails.
pub fn undo(spec: &Spec, file: &Path) -> Result<usize> {
    let bytes = std::fs::read(file).map_err(|error| {
        let what = format!("the undo file {} cannot be read: {error}", file.display());
        FsError::unsupported(what, "name the file that fsck --undo has made")
    });
    let device = spec.open(&spindle_device::OpenOptions::read_write());
    let device = device.map_err(FsError::from).context(spec)?;
    bytes.and_then(|bytes| spindle_ffs::repair::undo(&*device, &bytes)).context(spec)
}

/// Replays the log, in memory only if `dry_run`. Returns the device after the replay.
fn recover(
    device: Arc<dyn Device>,
    dry_run: bool,
) -> spindle_vfs::Result<(Arc<dyn Device>, Option<LogEffect>)> {
    // The check reports an unreadable superblock.
    let Ok(superblock) = Superblock::open(&*device) else { return Ok((device, None)) };
    let blocks = match FoundLog::look(&*device, &superblock)? {
        FoundLog::Recovery(replay) => replay.blocks(),
        FoundLog::Useless(why) if !superblock.is_clean() => {
            return Ok((device, Some(LogEffect::Useless(why))));
        }
        _ => return Ok((device, None)),
    };
    if !superblock.objections_to_mounting(&*device)?.is_empty() {
        return Ok((device, Some(LogEffect::Refused)));
    }
    let (device, effect): (Arc<dyn Device>, _) = if dry_run {
        (Arc::new(CowDevice::new(device)), LogEffect::Shown { blocks })
    } else {
        (device, LogEffect::Recovered { blocks })
    };
    let ffs = Ffs::open(Arc::clone(&device), Arc::new(SystemClock), &spindle_ffs::OpenOptions::default())?;
    // Its snapshots may forbid the end of the recovery.
    let effect = if ffs.read_only() && !dry_run { LogEffect::Refused } else { effect };
    ffs.unmount()?;
    Ok((device, Some(effect)))
}
