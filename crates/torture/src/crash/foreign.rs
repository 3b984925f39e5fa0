//! A session of another system between two sessions of Spindle: it mounts the file system after a
//! crash or a clean unmount, changes something and ends, and none of its changes may be lost. Linux
//! mounts these file systems read-only, so a session of it changes nothing and is not simulated.
//!
//! None of these systems knows Spindle's log, except that NetBSD replays a log in its own place.
//! The others find the state of the last checkpoint, and change that; a state in which their `fsck`
//! would find damage is skipped. The fields that each system sets in the superblock at its mount
//! and at the end of the session, and those that it leaves alone, are set here as its kernel does
//! it.

use super::images;
use super::operation::{Driver, Op};
use super::oracle::Tree;
use super::recorder::{Event, Recorder};
use crate::base::MADE;
use spindle_clock::Timestamp;
use spindle_device::Device;
use spindle_ffs::check::{Options, check};
use spindle_ffs::ondisk::{FS_CKHASH, Fs, SBLOCKSIZE, flags};
use spindle_ffs::{Dialect, Ffs, FoundLog, LogPlace, LogUse, OpenOptions, Superblock, check_hash};
use spindle_ondisk::Field;
use spindle_vfs::{AtimePolicy, FileKind, FileSystem, RenameMode};
use std::fmt;
use std::sync::Arc;

/// Byte offset in the superblock of the pointers that the kernels of 4.4BSD keep there.
const KERNEL_POINTERS: usize = 728;
/// The bytes of a log header that only Spindle uses.
const STAMP: std::ops::Range<usize> = 80..228;

/// A system that mounts the file system between two sessions of Spindle, and the end of its
/// session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// FreeBSD: checks, mounts and unmounts the file system.
    FreeBsd,
    /// FreeBSD with soft updates and their journal: the machine is reset during the session.
    FreeBsdReset,
    /// NetBSD without its log: mounts the file system without a check, and unmounts it.
    NetBsd,
    /// NetBSD without its log: renames a file, and is reset before it writes the superblock again.
    NetBsdReset,
    /// NetBSD with its log, if the log is in NetBSD's place: continues the log, and unmounts.
    NetBsdLogged,
    /// NetBSD with its log: is reset after a sync.
    NetBsdLoggedReset,
    /// OpenBSD: checks, mounts and unmounts the file system.
    OpenBsd,
    /// Solaris: checks the file system, mounts it without a log, and unmounts it.
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

    /// Returns true if it checks a file system that is not clean before it mounts it.
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

    /// Returns the operations of its session.
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

/// Runs a session of `system` on the medium, and returns the tree that it leaves. Returns none if
/// `system` does not mount this, or its check would find something to repair. The changes stay on
/// the medium.
///
/// # Errors
/// What went wrong in the simulation.
pub fn session(device: &Arc<Recorder>, system: System) -> Result<Option<Tree>, String> {
    let message = |e: spindle_vfs::Error| format!("{system}: {e}");
    let Ok(mut found) = Superblock::open(&**device) else { return Ok(None) };
    if !system.mounts(found.dialect) {
        return Ok(None);
    }
    if matches!(system, System::NetBsdLogged | System::NetBsdLoggedReset) {
        return netbsd_with_log(device, system, found.log_place()).map(Some);
    }
    let mut was_clean = found.is_clean();
    if found.dialect == Dialect::NetBsd
        && let FoundLog::Recovery(replay) = FoundLog::look(&**device, &found).map_err(message)?
    {
        // The other systems would not see the log. NetBSD frees its orphans, which is not modelled.
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
        // These systems refuse a torn superblock until it is repaired from a copy.
        if Superblock::open(&**device).is_err() { Ok(None) } else { change_files(device, system).map(Some) }
    })?;
    let Some(tree) = tree else { return Ok(None) };
    write_superblock(device, system, &found, was_clean).map_err(message)?;
    Ok(Some(tree))
}

/// Runs a session of NetBSD with the log in its place, and returns the tree that it leaves. The log
/// is written like ours, without the stamp, which NetBSD does not know.
fn netbsd_with_log(device: &Arc<Recorder>, system: System, place: Option<LogPlace>) -> Result<Tree, String> {
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

/// Returns true if a check finds damage, or cannot run.
fn is_damaged(device: &dyn Device) -> bool {
    let options = Options { limit: 10, ..Options::default() };
    let report = check(device, &options, &mut |_| ());
    report.map_or(true, |report| report.findings.iter().any(|found| found.severity.is_damage()))
}

/// Runs `work` while the headers of the log are zero, and restores them.
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

/// Mounts the file system without a log, and runs the operations of the system.
fn change_files(device: &Arc<Recorder>, system: System) -> Result<Tree, String> {
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
        // An operation may fail, because its file is not there or space is missing.
        let _ = driver.apply(op, (1 << 40) + n as u64, usize::MAX);
    }
    let tree = Tree::of(&fs, std::iter::empty()).map_err(|e| format!("{system}: {e}"))?;
    fs.unmount().map_err(message)?;
    Ok(tree)
}

/// Writes the superblock as the system leaves it. `found` is the superblock at the mount;
/// `was_clean` is true if it was clean then, perhaps after a replay.
fn write_superblock(
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
        // NetBSD sets the time only when it writes the superblock for another reason.
        (fs.fs_time, fs.fs_old_time) = (found.fs.fs_time, found.fs.fs_old_time);
    }
    // Kernels write the mount point; NetBSD and OpenBSD also write kernel pointers.
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

/// Mounts the file system after a session of `system`, which has left the tree `theirs`. Either
/// nothing is written and the tree reads the same, or Spindle mounts it for writing with all of the
/// tree.
///
/// # Errors
/// The changes of the other system that were lost.
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
        return Err(format!("after {system}, its changes are lost:\n{}", differences.join("\n")));
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
        return Err(format!("after {system} and a session of Spindle there is damage"));
    }
    Ok(())
}
