//! Advisory locks on parts of a file or block device, and who holds them.
//!
//! Several partitions of a disk can be used at the same time, each by one writer or any number of
//! readers. So a lock covers the bytes of a part: shared for reading, exclusive for writing, and
//! held by the open file, not by the process (`F_OFD_SETLK`, fcntl(2)). Beside it there is a shared
//! `flock(2)` of the whole: it keeps out programs that lock a disk as a whole, and `/proc/locks`
//! says by it which processes use the disk.

use crate::known::remedy;
use crate::{Error, Result};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The bytes of a whole file or device, however large it becomes.
pub(crate) const WHOLE: Range<u64> = 0..u64::MAX;

/// How often a lock is tried while nobody is found to have it: its holder may have ended before it
/// could be named.
const ATTEMPTS: usize = 5;

/// Locks the bytes `part` of `file`, or reports who uses them.
pub(crate) fn lock(file: &File, name: &str, part: &Range<u64>, read_only: bool) -> Result<()> {
    let mut users = Vec::new();
    for _ in 0..ATTEMPTS {
        if try_lock(file, name, part, read_only)? {
            return Ok(());
        }
        users = file.metadata().map(|file| users_of(file.dev(), file.ino(), part)).unwrap_or_default();
        if !users.is_empty() {
            break;
        }
    }
    Err(Error::Busy { device: name.to_owned(), reason: reason(&users, read_only) })
}

/// Locks the bytes `part` of `file`. Returns false if another has them.
fn try_lock(file: &File, name: &str, part: &Range<u64>, read_only: bool) -> Result<bool> {
    let whole = || rustix::fs::flock(file, FlockOperation::NonBlockingLockShared);
    for result in [uninterrupted(whole), uninterrupted(|| system::lock(file, part, read_only))] {
        match result {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK | Errno::ACCESS) => return Ok(false),
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                log::warn!(
                    "{name}: its file system has no locks, so other programs can use it at the same time"
                );
                return Ok(true);
            }
            Err(e) => return Err(Error::io(name, "locking", e.into())),
        }
    }
    Ok(true)
}

/// Releases the locks of `file`, also if a copy of the descriptor exists.
pub(crate) fn unlock(file: &File) -> rustix::io::Result<()> {
    system::unlock(file).and(rustix::fs::flock(file, FlockOperation::Unlock))
}

fn uninterrupted(mut call: impl FnMut() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Returns the users of the bytes that are refused, and the remedy.
fn reason(users: &[String], read_only: bool) -> String {
    let user = if users.is_empty() { "another program has it open".into() } else { users.join(" and ") };
    let remedy = if read_only {
        "unmount it there first, or wait until it is closed"
    } else {
        "unmount it there first, or open it read-only if that one does too"
    };
    format!("{user}; {remedy}")
}

/// Returns why the block device at `path` cannot be claimed for the bytes `part`, and the remedy.
pub(crate) fn reason_of_claim(path: &Path, part: &Range<u64>) -> String {
    let metadata = fs::metadata(path);
    let users = metadata.map(|metadata| users_of(metadata.dev(), metadata.ino(), part)).unwrap_or_default();
    if !users.is_empty() {
        return format!("{}; unmount it there first, or open it read-only", users.join(" and "));
    }
    let user = "the system, or a program, uses this block device";
    if *part == WHOLE {
        return format!("{user}, its disk or a partition of it; unmount it first, or open it read-only");
    }
    format!("{user} as a whole, and {}", remedy(path, part))
}

/// Returns the processes that have locked overlapping bytes, each with its command line. If what
/// they have locked cannot be seen, because they belong to another user, they count as well.
fn users_of(dev: u64, ino: u64, part: &Range<u64>) -> Vec<String> {
    let is_user = |&pid: &u32| {
        locks_of(pid, dev, ino).is_none_or(|locks| locks.iter().any(|lock| overlap(&lock.bytes, part)))
    };
    let mut pids: Vec<u32> = holders_of(dev, ino).into_iter().filter(is_user).collect();
    pids.sort_unstable();
    pids.dedup();
    let described = pids.into_iter().map(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ");
        if words.is_empty() { format!("process {pid}") } else { format!("process {pid} ({words})") }
    });
    described.collect()
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Returns the processes that use the file or block device at `path`, or a part of it, with a lock.
#[must_use]
pub fn lock_holders(path: &Path) -> Vec<u32> {
    fs::metadata(path).map(|metadata| holders_of(metadata.dev(), metadata.ino())).unwrap_or_default()
}

/// Returns the processes that use the file or block device at `path`, or a part of it, for writing.
/// If what they have locked cannot be seen, because they belong to another user, they count as
/// well.
#[must_use]
pub fn writers(path: &Path) -> Vec<u32> {
    let Ok(metadata) = fs::metadata(path) else { return Vec::new() };
    let (dev, ino) = (metadata.dev(), metadata.ino());
    let writes =
        |&pid: &u32| locks_of(pid, dev, ino).is_none_or(|locks| locks.iter().any(|lock| lock.is_exclusive));
    let found: BTreeSet<u32> = holders_of(dev, ino).into_iter().filter(writes).collect();
    found.into_iter().collect()
}

/// Returns true if a process has locked the file or block device at `path`, or a part of it, for
/// writing, for which it must have been allowed to write it. False if its descriptors cannot be
/// seen, as those of another user, unless by root.
#[must_use]
pub fn is_writer(pid: u32, path: &Path) -> bool {
    let place = fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    place.is_ok_and(|(dev, ino)| {
        locks_of(pid, dev, ino).is_some_and(|locks| locks.iter().any(|lock| lock.is_exclusive))
    })
}

fn holders_of(dev: u64, ino: u64) -> Vec<u32> {
    let locks = (0..READINGS).filter_map(|_| read_locks().ok()).collect::<String>();
    let found: BTreeSet<u32> = locks.lines().filter_map(|line| holder(line, dev, ino)).collect();
    found.into_iter().collect()
}

/// How often the list of locks is read: where it takes several calls, the kernel goes on at a
/// position that may be another one by then, so that a lock is left out.
const READINGS: usize = 3;

/// Reads the list of locks, as much of it at once as the kernel gives.
fn read_locks() -> std::io::Result<String> {
    let mut file = File::open("/proc/locks")?;
    let (mut found, mut bytes) = (String::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(found),
            len => found.push_str(&String::from_utf8_lossy(&bytes[..len])),
        }
    }
}

/// Parses a line of `/proc/locks`. Returns the process that holds the lock if it is a whole-file
/// lock of the file (`dev`, `ino`). The fields are: number, kind, advisory or not, access, process,
/// and the device and inode numbers as `%02x:%02x:%d`.
fn holder(line: &str, dev: u64, ino: u64) -> Option<u32> {
    let mut fields = line.split_whitespace().skip(1);
    let (kind, pid, place) = (fields.next()?, fields.nth(2)?, fields.next()?);
    if kind == "FLOCK" && is_file(place, dev, ino) { pid.parse().ok() } else { None }
}

/// A lock of a part of a file.
#[derive(Debug, PartialEq, Eq)]
struct PartLock {
    bytes: Range<u64>,
    is_exclusive: bool,
}

/// Returns the locks that a process has of parts of the file (`dev`, `ino`). Returns none if its
/// descriptors cannot be read.
fn locks_of(pid: u32, dev: u64, ino: u64) -> Option<Vec<PartLock>> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?;
    let texts = descriptors.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let locks = |text: String| text.lines().filter_map(|line| part_lock(line, dev, ino)).collect::<Vec<_>>();
    Some(texts.flat_map(locks).collect())
}

/// Parses a line of `/proc/PID/fdinfo/FD` that describes a lock of a part of the file: `lock:`, and
/// the fields of `/proc/locks`, of which the last two are the first and the last byte.
fn part_lock(line: &str, dev: u64, ino: u64) -> Option<PartLock> {
    let mut fields = line.strip_prefix("lock:")?.split_whitespace().skip(1);
    let (kind, access, place) = (fields.next()?, fields.nth(1)?, fields.nth(1)?);
    let (first, last) = (fields.next()?.parse().ok()?, fields.next()?);
    let end = if last == "EOF" { u64::MAX } else { last.parse::<u64>().ok()?.saturating_add(1) };
    let lock = PartLock { bytes: first..end, is_exclusive: access == "WRITE" };
    (kind == "OFDLCK" && is_file(place, dev, ino)).then_some(lock)
}

/// Returns true if the text names the file as `/proc/locks` does.
fn is_file(place: &str, dev: u64, ino: u64) -> bool {
    let mut numbers = place.split(':');
    let mut number = |radix| u64::from_str_radix(numbers.next().unwrap_or_default(), radix).ok();
    number(16) == Some(rustix::fs::major(dev).into())
        && number(16) == Some(rustix::fs::minor(dev).into())
        && number(10) == Some(ino)
}

#[cfg(target_os = "linux")]
mod system {
    //! Locks of open files, which only Linux has.

    use rustix::io::Errno;
    use std::fs::File;
    use std::ops::Range;
    use std::os::fd::AsRawFd;

    /// Locks bytes.
    pub fn lock(file: &File, part: &Range<u64>, read_only: bool) -> rustix::io::Result<()> {
        let kind = if read_only { libc::F_RDLCK } else { libc::F_WRLCK };
        set(file, kind, part)
    }

    /// Releases all locks of bytes.
    pub fn unlock(file: &File) -> rustix::io::Result<()> {
        set(file, libc::F_UNLCK, &super::WHOLE)
    }

    #[allow(unsafe_code)] // There is no safe wrapper of this call in `rustix`.
    fn set(file: &File, kind: libc::c_int, part: &Range<u64>) -> rustix::io::Result<()> {
        let number = |n: u64| libc::off_t::try_from(n).map_err(|_| Errno::INVAL);
        // SAFETY: all bits zero are a valid value of this structure of numbers.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::c_short::try_from(kind).map_err(|_| Errno::INVAL)?;
        lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).map_err(|_| Errno::INVAL)?;
        lock.l_start = number(part.start)?;
        // A length of 0 reaches to the end, wherever that is.
        lock.l_len = if part.end == u64::MAX { 0 } else { number(part.end - part.start)? };
        // SAFETY: the call reads the structure, which lives until it returns.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
        if result == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! Systems without locks of open files: a writer locks the whole.

    use rustix::fs::{FlockOperation, flock};
    use std::fs::File;
    use std::ops::Range;

    /// Makes the lock of the whole exclusive, for a writer.
    pub fn lock(file: &File, _: &Range<u64>, read_only: bool) -> rustix::io::Result<()> {
        if read_only { Ok(()) } else { flock(file, FlockOperation::NonBlockingLockExclusive) }
    }

    /// Does nothing; the lock of the whole is released by the caller.
    pub const fn unlock(_: &File) -> rustix::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_clock::{Clock, SystemClock};
    use std::time::Duration;

    fn dev() -> u64 {
        rustix::fs::makedev(254, 17)
    }

    /// Promise: a line of `/proc/locks` matches a file only if all its numbers match.
    #[test]
    fn holders() {
        let line = "3: FLOCK  ADVISORY  WRITE 4711 fe:11:98765 0 EOF";
        assert_eq!(holder(line, dev(), 98765), Some(4711));
        assert_eq!(holder(line, dev(), 98766), None);
        assert_eq!(holder(line, rustix::fs::makedev(254, 16), 98765), None);
        assert_eq!(holder("3: POSIX  ADVISORY  WRITE 4711 fe:11:98765 0 EOF", dev(), 98765), None);
        assert_eq!(holder("3: -> FLOCK ADVISORY WRITE 4711 fe:11:98765 0 EOF", dev(), 98765), None);
        assert_eq!(holder("", dev(), 98765), None);
    }

    /// Promise: the locked bytes of a descriptor are those that the system shows for this file, and
    /// a lock to read is none to write.
    #[test]
    fn parts() {
        let line = "lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:11:98765 4096 8191";
        let lock = |bytes, is_exclusive| Some(PartLock { bytes, is_exclusive });
        assert_eq!(part_lock(line, dev(), 98765), lock(4096..8192, true));
        assert_eq!(part_lock(&line.replace("8191", "EOF"), dev(), 98765), lock(4096..u64::MAX, true));
        assert_eq!(part_lock(&line.replace("WRITE", "READ "), dev(), 98765), lock(4096..8192, false));
        assert_eq!(part_lock(line, dev(), 98766), None);
        assert_eq!(part_lock(&line.replace("OFDLCK", "FLOCK"), dev(), 98765), None);
        assert_eq!(part_lock("pos:\t0", dev(), 98765), None);
    }

    /// Promise: a process is a writer of a file if it has a lock to write it, and not with one to
    /// read it.
    #[test]
    fn who_writes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let is_writer = || is_writer(std::process::id(), file.path());
        let reading = File::open(file.path()).unwrap();
        lock(&reading, "file", &(0..4096), true).unwrap();
        assert!(!is_writer());
        lock(file.as_file(), "file", &(4096..8192), false).unwrap();
        assert!(is_writer());
        assert_eq!(writers(file.path()), [std::process::id()]);
        unlock(file.as_file()).unwrap();
        assert!(!is_writer());
    }

    /// Promise: if a lock is refused, its holder is named, and not one that has just released it.
    #[test]
    fn a_refusal_names_somebody() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (rival, own) = (file.reopen().unwrap(), file.reopen().unwrap());
        std::thread::scope(|scope| {
            let rounds = scope.spawn(|| {
                for _ in 0..300 {
                    if lock(&rival, "rival", &WHOLE, false).is_ok() {
                        std::thread::yield_now();
                        unlock(&rival).unwrap();
                    }
                    SystemClock.sleep(Duration::from_millis(1));
                }
            });
            while !rounds.is_finished() {
                match lock(&own, "own", &WHOLE, false) {
                    Ok(()) => unlock(&own).unwrap(),
                    Err(error) => assert!(!error.to_string().contains("another program"), "{error}"),
                }
            }
        });
    }

    /// Promise: the holder of a lock is found at every moment, also while other locks, before it in
    /// the list of the system, come and go.
    #[test]
    fn holders_are_found_while_other_locks_change() {
        let held = tempfile::NamedTempFile::new().unwrap();
        lock(held.as_file(), "held", &WHOLE, false).unwrap();
        let others: Vec<_> = (0..40).map(|_| tempfile::NamedTempFile::new().unwrap()).collect();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    for file in &others {
                        lock(file.as_file(), "other", &WHOLE, false).unwrap();
                    }
                    for file in &others {
                        unlock(file.as_file()).unwrap();
                    }
                }
            });
            let missed = (0..500).filter(|_| lock_holders(held.path()) != [std::process::id()]).count();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
    }
}
