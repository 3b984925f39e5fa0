//! What was written late and could not be kept.
//!
//! A late write has nobody who waits for its answer: the kernel remembers that one has failed and
//! tells whoever calls `fsync`, `msync` or `close` on the file next, if there is one and the kernel
//! has not forgotten the file until then. So what is missing in the image is also remembered here,
//! byte by byte: it stops missing when it is written again, cut off or removed with its file; the
//! next FSYNC that gets through hears of it, once; and what is missing when the mount ends is told
//! then, so that no `umount` reports success over lost data.

use crate::readdir::walk;
use crate::{Error, Result};
use spindle_clock::Mutex;
use spindle_vfs::{FileKind, FileSystem, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};

/// Files that are named at the end; the log has all.
const NAMED: usize = 10;

/// What one file lacks.
#[derive(Debug)]
struct Lost {
    /// Start and end of what is missing, apart from each other.
    ranges: BTreeMap<u64, u64>,
    /// What kept the last of it out.
    why: spindle_vfs::Error,
    /// The log has been told.
    logged: bool,
    /// An FSYNC has been told.
    told: bool,
}

impl Lost {
    fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    fn add(&mut self, mut range: Range<u64>) {
        let touching = self.ranges.range(..=range.end).rev().take_while(|&(_, &end)| end >= range.start);
        for start in touching.map(|(&start, _)| start).collect::<Vec<_>>() {
            let end = self.ranges.remove(&start).unwrap_or(start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.ranges.insert(range.start, range.end);
    }

    fn remove(&mut self, range: &Range<u64>) {
        let meeting = self.ranges.range(..range.end).rev().take_while(|&(_, &end)| end > range.start);
        for (start, end) in meeting.map(|(&start, &end)| (start, end)).collect::<Vec<_>>() {
            self.ranges.remove(&start);
            if start < range.start {
                self.ranges.insert(start, range.start);
            }
            if end > range.end {
                self.ranges.insert(range.end, end);
            }
        }
    }
}

/// What all files lack.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Something was ever lost: almost never, so that a write need not look further.
    any: AtomicBool,
    files: Mutex<BTreeMap<Ino, Lost>>,
}

impl Losses {
    /// Notes that these bytes of a file are not in the image.
    pub(crate) fn note(&self, ino: Ino, range: Range<u64>, why: &spindle_vfs::Error) {
        if range.is_empty() {
            return;
        }
        let mut files = self.files.lock();
        let lost = files.entry(ino).or_insert_with(|| Lost {
            ranges: BTreeMap::new(),
            why: why.clone(),
            logged: false,
            told: false,
        });
        lost.add(range);
        (lost.why, lost.told) = (why.clone(), false);
        self.any.store(true, Ordering::Release);
    }

    /// Notes that these bytes of a file are in the image.
    pub(crate) fn made_good(&self, ino: Ino, range: Range<u64>) {
        if !self.any.load(Ordering::Acquire) || range.is_empty() {
            return;
        }
        let mut files = self.files.lock();
        if let Some(lost) = files.get_mut(&ino) {
            lost.remove(&range);
            if lost.ranges.is_empty() {
                files.remove(&ino);
            }
        }
    }

    /// Notes that a file ends at `size`.
    pub(crate) fn cut(&self, ino: Ino, size: u64) {
        self.made_good(ino, size..u64::MAX);
    }

    /// Notes that the number stands for a new file.
    pub(crate) fn forget(&self, ino: Ino) {
        self.cut(ino, 0);
    }

    /// Writes to the log that the file lacks something, the first time.
    pub(crate) fn log(&self, ino: Ino) {
        if let Some(lost) = self.files.lock().get_mut(&ino).filter(|lost| !lost.logged) {
            lost.logged = true;
            log::error!(
                "inode {}: {} bytes that were written late could not be kept: {}",
                ino.0,
                lost.bytes(),
                lost.why
            );
        }
    }

    /// Tells who makes the file durable what is missing, once.
    ///
    /// # Errors
    /// What kept it out.
    pub(crate) fn tell(&self, ino: Ino) -> spindle_vfs::Result<()> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.files.lock().get_mut(&ino) {
            Some(lost) if !lost.told => {
                lost.told = true;
                Err(lost.why.clone())
            }
            _ => Ok(()),
        }
    }

    /// Tells what is missing when the kernel has given back everything.
    ///
    /// # Errors
    /// [`Error::Lost`] with the number of bytes and the names of the files.
    pub(crate) fn told_at_the_end(&self, fs: &dyn FileSystem) -> Result<()> {
        let mut files = std::mem::take(&mut *self.files.lock());
        files.retain(|&ino, _| fs.getattr(ino).is_ok_and(|attr| attr.nlink > 0));
        if files.is_empty() {
            return Ok(());
        }
        let names = names(fs, files.keys().copied().collect());
        let mut told = Vec::new();
        for (ino, lost) in &files {
            let name = names.get(ino).map_or_else(
                || format!("inode {}", ino.0),
                |name| String::from_utf8_lossy(name).escape_debug().to_string(),
            );
            told.push(format!("{} of {name} ({})", lost.bytes(), lost.why));
        }
        for line in &told {
            log::error!("lost: {line}");
        }
        let total: u64 = files.values().map(Lost::bytes).sum();
        let more = told.len().saturating_sub(NAMED);
        told.truncate(NAMED);
        let more = if more > 0 { format!(", and {more} more files") } else { String::new() };
        Err(Error::Lost(format!(
            "{total} bytes that were written late could not be kept: {}{more}",
            told.join(", ")
        )))
    }
}

/// Returns a path of each of these files: to be asked for only where something is wrong, as it
/// reads all directories.
fn names(fs: &dyn FileSystem, mut wanted: BTreeSet<Ino>) -> BTreeMap<Ino, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::from([fs.root()]);
    let mut open = vec![(fs.root(), Vec::new())];
    while let Some((dir, path)) = open.pop() {
        let walked = walk(fs, dir, 0, &mut |entry| {
            if matches!(entry.name, b"." | b"..") {
                return ControlFlow::Continue(());
            }
            let path = || [path.as_slice(), b"/", entry.name].concat();
            if wanted.remove(&entry.ino) {
                found.insert(entry.ino, path());
            }
            let kind = entry.kind.or_else(|| fs.getattr(entry.ino).ok().map(|attr| attr.kind));
            if kind == Some(FileKind::Directory) && seen.insert(entry.ino) {
                open.push((entry.ino, path()));
            }
            if wanted.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Err(error) = walked {
            log::warn!("directory {} cannot be searched for names: {error}", dir.0);
        }
        if wanted.is_empty() {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_clock::TickClock;
    use spindle_vfs::model::{ModelFs, ModelOptions};
    use spindle_vfs::{NewNode, Privilege, Rdev};
    use std::sync::Arc;

    const WHY: spindle_vfs::Error = spindle_vfs::Error::NoSpace;

    /// Promise: bytes are missing exactly from when they were lost until they are written again or
    /// cut off.
    #[test]
    fn bytes_are_counted() {
        let losses = Losses::default();
        let missing = || losses.files.lock().get(&Ino(5)).map_or(0, Lost::bytes);
        losses.made_good(Ino(5), 0..1000);
        for (range, expected) in
            [(100..200, 100), (300..400, 200), (200..300, 300), (50..150, 350), (0..500, 500)]
        {
            losses.note(Ino(5), range, &WHY);
            assert_eq!(missing(), expected);
        }
        assert_eq!(losses.files.lock()[&Ino(5)].ranges.len(), 1);
        for (range, expected) in
            [(100..200, 400), (150..250, 350), (0..10, 340), (490..900, 330), (600..700, 330)]
        {
            losses.made_good(Ino(5), range);
            assert_eq!(missing(), expected);
        }
        losses.note(Ino(5), 250..250, &WHY);
        losses.cut(Ino(5), 300);
        assert_eq!(missing(), 140);
        losses.forget(Ino(5));
        assert!(losses.files.lock().is_empty());
    }

    /// Promise: who makes the file durable is told once, and again when more is lost.
    #[test]
    fn told_once() {
        let losses = Losses::default();
        assert!(losses.tell(Ino(5)).is_ok());
        losses.note(Ino(5), 0..10, &WHY);
        assert!(losses.tell(Ino(6)).is_ok());
        assert!(losses.tell(Ino(5)).is_err() && losses.tell(Ino(5)).is_ok());
        losses.note(Ino(5), 5..20, &WHY);
        assert!(losses.tell(Ino(5)).is_err() && losses.tell(Ino(5)).is_ok());
    }

    /// Promise: the end of the mount tells how much is missing and where; what is not there any
    /// more is not missing.
    #[test]
    fn the_end_tells_names() {
        let fs = ModelFs::new(ModelOptions::default(), Arc::new(TickClock));
        let make = |dir, name: &[u8], kind| {
            let node = NewNode { kind, perm: 0o755, uid: 0, gid: 0, rdev: Rdev::default(), target: b"" };
            fs.create(dir, name, &node, Privilege::Root).unwrap().ino
        };
        let dir = make(fs.root(), b"d", FileKind::Directory);
        let file = make(dir, b"f", FileKind::Regular);
        let gone = make(dir, b"gone", FileKind::Regular);
        let losses = Losses::default();
        losses.note(file, 0..4096, &WHY);
        losses.note(gone, 0..4096, &WHY);
        fs.unlink(dir, b"gone").unwrap();
        let told = losses.told_at_the_end(&fs).unwrap_err().to_string();
        assert_eq!(told, "4096 bytes that were written late could not be kept: 4096 of /d/f (no space left)");
        assert!(losses.told_at_the_end(&fs).is_ok());
    }
}
