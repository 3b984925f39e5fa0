//! Late writes that could not be stored.
//!
//! No program waits for the reply to a late write. The kernel remembers that a late write has
//! failed and reports it to the next caller of `fsync`, `msync` or `close` on the file, if there is
//! one before the kernel forgets the file. So this module also records the missing ranges of each
//! file. A range is removed when it is written again, truncated, or removed with its file. The next
//! FSYNC that arrives fails once with the error, and all bytes that are missing at the unmount are
//! reported then, so that `umount` never reports success if data was lost.

use crate::readdir::walk;
use crate::{Error, Result};
use spindle_clock::Mutex;
use spindle_vfs::{FileKind, FileSystem, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of files in the error of the unmount; the log contains all.
const NAMED: usize = 10;

/// The missing ranges of one file.
#[derive(Debug)]
struct LostRanges {
    /// Start and end of the missing ranges, which do not touch each other.
    ranges: BTreeMap<u64, u64>,
    /// The error of the last failed write.
    why: spindle_vfs::Error,
    /// The loss is in the log.
    logged: bool,
    /// An FSYNC has failed with the error.
    reported: bool,
}

impl LostRanges {
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

/// The missing ranges of all files.
#[derive(Debug, Default)]
pub(crate) struct LostWrites {
    /// True if any write was ever lost, so that writes usually need not take the lock.
    any: AtomicBool,
    files: Mutex<BTreeMap<Ino, LostRanges>>,
}

impl LostWrites {
    /// Records that a range of a file is not in the image.
    pub(crate) fn note(&self, ino: Ino, range: Range<u64>, why: &spindle_vfs::Error) {
        if range.is_empty() {
            return;
        }
        let mut files = self.files.lock();
        let lost = files.entry(ino).or_insert_with(|| LostRanges {
            ranges: BTreeMap::new(),
            why: why.clone(),
            logged: false,
            reported: false,
        });
        lost.add(range);
        (lost.why, lost.reported) = (why.clone(), false);
        self.any.store(true, Ordering::Release);
    }

    /// Records that a range of a file is in the image.
    pub(crate) fn note_written(&self, ino: Ino, range: Range<u64>) {
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

    /// Records that a file now ends at `size`.
    pub(crate) fn note_truncated(&self, ino: Ino, size: u64) {
        self.note_written(ino, size..u64::MAX);
    }

    /// Records that the inode number belongs to a new file.
    pub(crate) fn note_created(&self, ino: Ino) {
        self.note_truncated(ino, 0);
    }

    /// Logs the first loss of a file.
    pub(crate) fn log(&self, ino: Ino) {
        if let Some(lost) = self.files.lock().get_mut(&ino).filter(|lost| !lost.logged) {
            lost.logged = true;
            log::error!("inode {}: lost {} bytes of late writes: {}", ino.0, lost.bytes(), lost.why);
        }
    }

    /// Fails once after each loss, for the next FSYNC of the file.
    ///
    /// # Errors
    /// The error of the last failed write.
    pub(crate) fn report(&self, ino: Ino) -> spindle_vfs::Result<()> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.files.lock().get_mut(&ino) {
            Some(lost) if !lost.reported => {
                lost.reported = true;
                Err(lost.why.clone())
            }
            _ => Ok(()),
        }
    }

    /// Reports all missing bytes, after the kernel has unmounted.
    ///
    /// # Errors
    /// [`Error::Lost`] with the number of bytes and the names of the files.
    pub(crate) fn report_at_end(&self, fs: &dyn FileSystem) -> Result<()> {
        let mut files = std::mem::take(&mut *self.files.lock());
        files.retain(|&ino, _| fs.getattr(ino).is_ok_and(|attr| attr.nlink > 0));
        if files.is_empty() {
            return Ok(());
        }
        let names = names(fs, files.keys().copied().collect());
        let mut lines = Vec::new();
        for (ino, lost) in &files {
            let name = names.get(ino).map_or_else(
                || format!("inode {}", ino.0),
                |name| String::from_utf8_lossy(name).escape_debug().to_string(),
            );
            lines.push(format!("{} bytes of {name} ({})", lost.bytes(), lost.why));
        }
        for line in &lines {
            log::error!("lost {line}");
        }
        let total: u64 = files.values().map(LostRanges::bytes).sum();
        let more = lines.len().saturating_sub(NAMED);
        lines.truncate(NAMED);
        let more = if more > 0 { format!(", and {more} more files") } else { String::new() };
        Err(Error::Lost(format!("lost {total} bytes of late writes: {}{more}", lines.join(", "))))
    }
}

/// Returns a path of each of these files. It reads all directories, so call it only after an error.
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
            log::warn!("cannot search directory {} for names: {error}", dir.0);
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
    use spindle_conformance::model::{ModelFs, ModelOptions};
    use spindle_vfs::{NewNode, Privilege};
    use std::sync::Arc;

    const WHY: spindle_vfs::Error = spindle_vfs::Error::NoSpace;

    /// Promise: bytes count as missing from the failed write until they are written again or
    /// truncated.
    #[test]
    fn missing_bytes_are_counted() {
        let lost_writes = LostWrites::default();
        let missing = || lost_writes.files.lock().get(&Ino(5)).map_or(0, LostRanges::bytes);
        lost_writes.note_written(Ino(5), 0..1000);
        for (range, expected) in
            [(100..200, 100), (300..400, 200), (200..300, 300), (50..150, 350), (0..500, 500)]
        {
            lost_writes.note(Ino(5), range, &WHY);
            assert_eq!(missing(), expected);
        }
        assert_eq!(lost_writes.files.lock()[&Ino(5)].ranges.len(), 1);
        for (range, expected) in
            [(100..200, 400), (150..250, 350), (0..10, 340), (490..900, 330), (600..700, 330)]
        {
            lost_writes.note_written(Ino(5), range);
            assert_eq!(missing(), expected);
        }
        lost_writes.note(Ino(5), 250..250, &WHY);
        lost_writes.note_truncated(Ino(5), 300);
        assert_eq!(missing(), 140);
        lost_writes.note_created(Ino(5));
        assert!(lost_writes.files.lock().is_empty());
    }

    /// Promise: the next FSYNC of a file fails once, and again after another loss.
    #[test]
    fn each_loss_is_reported_once() {
        let lost_writes = LostWrites::default();
        assert!(lost_writes.report(Ino(5)).is_ok());
        lost_writes.note(Ino(5), 0..10, &WHY);
        assert!(lost_writes.report(Ino(6)).is_ok());
        assert!(lost_writes.report(Ino(5)).is_err() && lost_writes.report(Ino(5)).is_ok());
        lost_writes.note(Ino(5), 5..20, &WHY);
        assert!(lost_writes.report(Ino(5)).is_err() && lost_writes.report(Ino(5)).is_ok());
    }

    /// Promise: the unmount reports the missing bytes of each file; removed files are not
    /// reported.
    #[test]
    fn the_unmount_reports_names() {
        let fs = ModelFs::new(ModelOptions::default(), Arc::new(TickClock));
        let make = |dir, name: &[u8], kind| {
            let node = NewNode::new(kind, 0o755);
            fs.create(dir, name, &node, Privilege::Root).unwrap().ino
        };
        let dir = make(fs.root(), b"d", FileKind::Directory);
        let file = make(dir, b"f", FileKind::Regular);
        let gone = make(dir, b"gone", FileKind::Regular);
        let lost_writes = LostWrites::default();
        lost_writes.note(file, 0..4096, &WHY);
        lost_writes.note(gone, 0..4096, &WHY);
        fs.unlink(dir, b"gone").unwrap();
        let error = lost_writes.report_at_end(&fs).unwrap_err().to_string();
        assert_eq!(error, "lost 4096 bytes of late writes: 4096 bytes of /d/f (no space left)");
        assert!(lost_writes.report_at_end(&fs).is_ok());
    }
}
