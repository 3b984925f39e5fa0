//! Another system's session between two of ours: it mounts what a crash or a clean end of ours has
//! left, changes something and goes, and nothing that it wrote is lost. (Linux mounts these file
//! systems read-only and writes nothing, so what comes after its session is what comes without
//! one.)
//!
//! None of these systems knows of a log of ours, but for NetBSD of one in its own place, which it
//! replays. What they find else is the state of the last checkpoint, and they work on that; a state
//! in which their `fsck` would find something is passed over. What each leaves in the superblock is
//! written down here field by field, as their kernels do it: what they set at a mount and at its
//! end, and what they leave alone.

use super::images;
use super::operation::{Driver, Op};
use super::oracle::Tree;
use super::recorder::{Event, Recorder};
use crate::base::MADE;
use spindle_clock::Timestamp;
use spindle_device::Device;
use spindle_ffs::check::{Options, Severity, check};
use spindle_ffs::ondisk::{FS_CKHASH, Fs, SBLOCKSIZE, flags};
use spindle_ffs::{Dialect, Ffs, FoundLog, LogPlace, LogUse, OpenOptions, Superblock, check_hash};
use spindle_ondisk::Field;
use spindle_vfs::{AtimePolicy, FileKind, FileSystem, RenameMode};
use std::fmt;
use std::sync::Arc;

/// Byte of the superblock where the kernels of 4.4BSD keep pointers.
const KERNEL_POINTERS: usize = 728;
/// The bytes of a header of a log that are ours alone.
const STAMP: std::ops::Range<usize> = 80..228;

/// A system that has the file system between two mounts of ours, and how its session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// FreeBSD: checks it, mounts it, unmounts it.
    FreeBsd,
    /// FreeBSD with soft updates and their journal: it is reset in the middle.
    FreeBsdReset,
    /// NetBSD without its log: mounts it as it is, and unmounts it.
    NetBsd,
    /// NetBSD, which renames something and is reset before it writes the superblock again.
    NetBsdReset,
    /// NetBSD with its log, where the log is in NetBSD's place: goes on with it, and unmounts.
    NetBsdLogged,
    /// NetBSD with its log, which is reset after a sync.
    NetBsdLoggedReset,
    /// OpenBSD: checks it, mounts it, unmounts it.
    OpenBsd,
    /// Solaris: checks it, mounts it without its log, unmounts it.
    Solaris,
}

impl System {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::FreeBsd,
        Self::FreeBsdReset,
        Self::NetBsd,
        Self::NetBsdReset,
        Self::NetBsdLogged,
        Self::NetBsdLoggedReset,
        Self::OpenBsd,
        Self::Solaris,
    ];

    /// Returns true if it checks what was not left clean before it mounts it.
    const fn checks(self) -> bool {
        matches!(self, Self::FreeBsd | Self::FreeBsdReset | Self::OpenBsd | Self::Solaris)
    }

    /// Returns true if it would mount a file system of this dialect.
    const fn mounts(self, dialect: Dialect) -> bool {
        match self {
            Self::Solaris => matches!(dialect, Dialect::Sun { .. }),
            Self::NetBsdLogged | Self::NetBsdLoggedReset => matches!(dialect, Dialect::NetBsd),
            _ => !matches!(dialect, Dialect::Sun { .. }),
        }
    }

    /// Returns what it does in its session.
    fn operations(self) -> Vec<Op> {
        let name = |name: &str| name.to_owned();
        let rename = Op::Rename(name("bar"), name("theirs"), RenameMode::Replace);
        match self {
            Self::NetBsdReset => vec![rename],
            _ => vec![
                rename,
                Op::Create(name("made-elsewhere"), FileKind::Regular),
                Op::Write(name("made-elsewhere"), 0, 9000),
                Op::Write(name("foo"), 100, 5000),
                Op::Unlink(name("sym")),
                Op::Chmod(name("A"), 0o711),
            ],
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FreeBsd => "FreeBSD",
            Self::FreeBsdReset => "FreeBSD with soft updates, reset",
            Self::NetBsd => "NetBSD without its log",
            Self::NetBsdReset => "NetBSD without its log, reset",
            Self::NetBsdLogged => "NetBSD with its log",
            Self::NetBsdLoggedReset => "NetBSD with its log, reset",
            Self::OpenBsd => "OpenBSD",
            Self::Solaris => "Solaris",
        })
    }
}

/// Has `system` mount what is on the medium and work with it; returns what it leaves there, as a
/// tree. None if it does not mount this, or its check would find something to repair. The medium is
/// not taken back.
///
/// # Errors
/// What went wrong on the way, which is no fault of what is looked at.
pub fn session(device: &Arc<Recorder>, system: System) -> Result<Option<Tree>, String> {
    let message = |e: spindle_vfs::Error| format!("{system}: {e}");
    let Ok(mut found) = Superblock::open(&**device) else { return Ok(None) };
    if !system.mounts(found.dialect) {
        return Ok(None);
    }
    if matches!(system, System::NetBsdLogged | System::NetBsdLoggedReset) {
        return logged(device, system, found.log_place()).map(Some);
    }
    let mut was_clean = found.is_clean();
    if found.dialect == Dialect::NetBsd
        && let FoundLog::Recovery(replay) = FoundLog::look(&**device, &found).map_err(message)?
    {
        // The others would not see that there is a log. NetBSD frees its orphans, which is not
        // modelled.
        if !matches!(system, System::NetBsd | System::NetBsdReset) || replay.orphans().next().is_some() {
            return Ok(None);
        }
        replay.replay(&**device).map_err(message)?;
        found = Superblock::open(&**device).map_err(message)?;
        was_clean = true;
    }
    if is_damaged(&**device) {
        return Ok(None);
    }
    let tree = without_log(device, found.log_place(), || {
        // What was torn in the writing they refuse, until it is repaired from a copy.
        if Superblock::open(&**device).is_err() { Ok(None) } else { work(device, system).map(Some) }
    })?;
    let Some(tree) = tree else { return Ok(None) };
    leave(device, system, &found, was_clean).map_err(message)?;
    Ok(Some(tree))
}

/// Returns a session of NetBSD with the log in its place. Its log is ours but for the stamp, which
/// it does not know.
fn logged(device: &Arc<Recorder>, system: System, place: Option<LogPlace>) -> Result<Tree, String> {
    let message = |e: spindle_vfs::Error| format!("{system}: {e}");
    let clock = images::clock();
    clock.advance(500);
    let fs = images::open(device.clone(), clock, LogUse::IfThere).map_err(message)?;
    if fs.read_only() {
        return Err(format!("{system}: {:?}", fs.read_only_reasons()));
    }
    let mut driver = Driver::new(&fs);
    for (n, op) in system.operations().iter().enumerate() {
        let _ = driver.apply(op, (1 << 40) + n as u64, usize::MAX);
    }
    fs.sync().map_err(message)?;
    let tree = Tree::of(&fs, std::iter::empty()).map_err(|e| format!("{system}: {e}"))?;
    if system == System::NetBsdLogged {
        fs.unmount().map_err(message)?;
    }
    drop(fs);
    let Some(LogPlace { at, .. }) = place else { return Ok(tree) };
    let mut headers = vec![0; 2 * device.sector()];
    device.read_at(at, &mut headers).map_err(|e| e.to_string())?;
    for header in headers.chunks_mut(device.sector()) {
        header[STAMP].fill(0);
    }
    device.poke(at, &headers);
    Ok(tree)
}

/// Returns true if a check finds more than that the file system is in use.
fn is_damaged(device: &dyn Device) -> bool {
    let options = Options { limit: 10, ..Options::default() };
    let report = check(device, &options, &mut |_| ());
    report.map_or(true, |report| report.findings.iter().any(|found| found.severity == Severity::Damage))
}

/// Does `work` while the headers of the log are out of the way, and puts them back.
fn without_log<T>(
    device: &Arc<Recorder>,
    place: Option<LogPlace>,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let Some(LogPlace { at, .. }) = place else { return work() };
    let mut headers = vec![0; 2 * device.sector()];
    device.read_at(at, &mut headers).map_err(|e| e.to_string())?;
    device.poke(at, &vec![0; headers.len()]);
    let done = work();
    device.poke(at, &headers);
    done
}

/// Does what the system does to files.
fn work(device: &Arc<Recorder>, system: System) -> Result<Tree, String> {
    let message = |e: spindle_vfs::Error| format!("{system}: {e}");
    let clock = images::clock();
    clock.advance(500);
    let options = OpenOptions {
        force: true,
        atime: AtimePolicy::Never,
        seed: Some(9),
        log: LogUse::Never,
        ..OpenOptions::default()
    };
    let fs = Ffs::open(device.clone(), clock, &options).map_err(message)?;
    let mut driver = Driver::new(&fs);
    for (n, op) in system.operations().iter().enumerate() {
        // Where what it works on is not there, or there is no space, it does something else.
        let _ = driver.apply(op, (1 << 40) + n as u64, usize::MAX);
    }
    let tree = Tree::of(&fs, std::iter::empty()).map_err(|e| format!("{system}: {e}"))?;
    fs.unmount().map_err(message)?;
    Ok(tree)
}

/// Writes the superblock as the system leaves it; `found` is what it was at the mount, clean or
/// not, perhaps by a replay.
fn leave(
    device: &Arc<Recorder>,
    system: System,
    found: &Superblock,
    was_clean: bool,
) -> spindle_vfs::Result<()> {
    let now = Timestamp::new(MADE + 600, 0);
    let netbsd = matches!(system, System::NetBsd | System::NetBsdReset);
    let reset = matches!(system, System::FreeBsdReset | System::NetBsdReset);
    // NetBSD shifts `fs_clean` at the mount, and back at its end only if that was 1; the others
    // have checked it.
    let clean = !reset && (system.checks() || was_clean);
    let mut left = Superblock::open(&**device)?;
    left.set_clean(clean, false, now);
    if !netbsd {
        left.note_mount(now);
    }
    let (at, endian) = (left.layout.fs_sblockloc, left.layout.endian);
    let mut raw = left.encode(at);
    let mut fs = Fs::decode(&raw, endian);
    if system == System::FreeBsdReset && left.dialect == Dialect::FreeBsd {
        fs.fs_flags = (fs.fs_flags & !flags::FS_NEEDSFSCK) | flags::FS_DOSOFTDEP | flags::FS_SUJ;
    }
    if netbsd && reset && was_clean {
        // FS_WASCLEAN
        fs.fs_clean = 2;
    }
    if netbsd && (reset || !was_clean) {
        // It sets the time only with what it writes of its own accord.
        (fs.fs_time, fs.fs_old_time) = (found.fs.fs_time, found.fs.fs_old_time);
    }
    // Kernels write where it was mounted; those of NetBSD and OpenBSD their pointers, too, behind
    // that.
    fs.fs_fsmnt[..4].copy_from_slice(b"/mnt");
    fs.encode(&mut raw, endian);
    if matches!(system, System::NetBsd | System::NetBsdReset | System::OpenBsd) && left.layout.flags_updated {
        raw[KERNEL_POINTERS..KERNEL_POINTERS + 8].copy_from_slice(&0xffff_8000_1234_5678_u64.to_le_bytes());
    }
    if left.check_hashes().superblock {
        check_hash(&raw[..left.layout.fs_sbsize as usize], FS_CKHASH).put(&mut raw[FS_CKHASH..], endian);
    }
    let bytes = (left.layout.fs_sbsize as usize).next_multiple_of(device.sector()).min(SBLOCKSIZE);
    device.write_at(at, &raw[..bytes])?;
    Ok(device.flush()?)
}

/// Mounts what another system has left, which is `theirs`: either nothing is written, and what is
/// there reads as they left it, or it is taken over whole.
///
/// # Errors
/// What of theirs was lost.
pub fn survives(device: &Arc<Recorder>, system: System, theirs: &Tree) -> Result<(), String> {
    let clock = images::clock();
    clock.advance(2000);
    let before = device.position();
    let unwritten = |what: &str| {
        let written = device.since(before).iter().any(|event| matches!(event, Event::Write(_)));
        if written { Err(format!("after {system}: {what}, and yet something was written")) } else { Ok(()) }
    };
    let fs = match images::open(device.clone(), clock, LogUse::IfThere) {
        Ok(fs) => fs,
        Err(error) => return unwritten(&format!("not opened: {error}")),
    };
    let tree = Tree::of(&fs, std::iter::empty()).map_err(|e| format!("after {system}: {e}"))?;
    let differences = theirs.differences(&tree);
    if !differences.is_empty() {
        return Err(format!("after {system}, what it wrote is lost:\n{}", differences.join("\n")));
    }
    if fs.read_only() {
        return unwritten("opened read-only");
    }
    let mut driver = Driver::new(&fs);
    let ours = Op::Create("ours".into(), FileKind::Regular);
    match driver.apply(&ours, 1 << 41, usize::MAX) {
        Ok(_) | Err(spindle_vfs::Error::NoSpace | spindle_vfs::Error::Exists) => {}
        Err(error) => return Err(format!("after {system}: {error}")),
    }
    fs.unmount().map_err(|e| format!("after {system}: unmount: {e}"))?;
    drop(fs);
    if is_damaged(&**device) {
        return Err(format!("after {system} and a session of ours there is damage"));
    }
    Ok(())
}
