//! Warnings to users who meet a limit.

use super::*;
use spindle_clock::Mutex;
use spindle_vfs::{Caller, Ino, Terminals};

/// What was shown on the terminals of processes.
#[derive(Debug, Default)]
struct Shown(Mutex<Vec<(u32, String)>>);

impl Terminals for Shown {
    fn show(&self, process: u32, line: &str) {
        self.0.lock().push((process, line.to_owned()));
    }
}

impl Shown {
    /// Returns what was shown to the process 42 since the last call.
    fn lines(&self) -> Vec<String> {
        let shown = std::mem::take(&mut *self.0.lock());
        assert!(shown.iter().all(|(process, _)| *process == 42), "{shown:?}");
        shown.into_iter().map(|(_, line)| line).collect()
    }
}

const OWNER: Privilege = Privilege::Process(Caller { user: 7, process: 42 });
const OTHER: Privilege = Privilege::Process(Caller { user: 8, process: 43 });

fn open(disk: &Disk) -> (Ffs, Arc<Shown>) {
    let shown = Arc::new(Shown::default());
    let [user, group] = BOTH.map(|kind| Some(kind.file_name().to_owned()));
    let options = OpenOptions {
        quotas: QuotaFiles { user, group },
        terminals: Some(shown.clone()),
        ..OpenOptions::default()
    };
    (Ffs::open(disk.device.clone(), disk.clock.clone(), &options).unwrap(), shown)
}

fn write(fs: &Ffs, ino: Ino, block: u64, blocks: usize, by: Privilege) -> Result<usize> {
    fs.write(ino, block * 4096, &vec![1; blocks * 4096], by)
}

fn cut(fs: &Ffs, ino: Ino, blocks: u64) {
    let size = Some(blocks * 4096);
    fs.setattr(ino, &SetAttr { size, ..SetAttr::default() }, OWNER).unwrap();
}

/// Promise: the process of a file's owner gets a line when it passes the soft limit and when it is
/// refused, at the hard limit or after the grace period: one line, and another one only after
/// something was given back.
#[test]
fn owners_are_warned_once() {
    let disk = Disk::new(UFS2, 16 << 20, LogUse::Wanted).with_files();
    let (fs, shown) = open(&disk);
    let ino = create(&fs, "file", FileKind::Regular, (7, 70), OWNER).unwrap();
    limit(&fs, Kind::User, 7, (8 * 8, 20 * 8), (0, 0));
    write(&fs, ino, 0, 7, OWNER).unwrap();
    assert!(shown.lines().is_empty());
    write(&fs, ino, 7, 1, OWNER).unwrap();
    assert_eq!(shown.lines(), ["warning, user disk quota exceeded"]);
    write(&fs, ino, 8, 1, OWNER).unwrap();
    assert!(shown.lines().is_empty());
    assert!(write(&fs, ino, 9, 32, OWNER).is_ok_and(|done| done < 32 * 4096), "the part that fits");
    is_refused(write(&fs, ino, 40, 32, OWNER));
    assert_eq!(shown.lines(), ["write failed, user disk limit reached"]);
    cut(&fs, ino, 9);
    let all = FallocateMode::Allocate { keep_size: false };
    is_refused(fs.fallocate(ino, all, 0, 1 << 20, OWNER));
    is_refused(fs.fallocate(ino, all, 0, 1 << 20, OWNER));
    assert_eq!(shown.lines(), ["write failed, user disk limit reached"]);
    cut(&fs, ino, 8);
    disk.clock.advance(8 * DAY);
    is_refused(write(&fs, ino, 8, 1, OWNER));
    is_refused(write(&fs, ino, 8, 1, OWNER));
    assert_eq!(shown.lines(), ["write failed, user disk quota exceeded for too long"]);
    cut(&fs, ino, 1);
    write(&fs, ino, 1, 7, OWNER).unwrap();
    assert_eq!(shown.lines(), ["warning, user disk quota exceeded"]);
    limit(&fs, Kind::User, 7, (0, 0), (2, 3));
    create(&fs, "second", FileKind::Fifo, (7, 70), OWNER).unwrap();
    is_refused(create(&fs, "third", FileKind::Fifo, (7, 70), OWNER));
    let inodes = ["warning, user inode quota exceeded", "write failed, user inode limit reached"];
    assert_eq!(shown.lines(), inodes);
    limit(&fs, Kind::User, 7, (0, 0), (0, 0));
    limit(&fs, Kind::Group, 70, (0, 8 * 8), (0, 0));
    is_refused(write(&fs, ino, 8, 1, OWNER));
    assert_eq!(shown.lines(), ["write failed, group disk limit reached"]);
    fs.unmount().unwrap();
    disk.check();
}

/// Promise: other users, root, and what comes without a process make no line, and do not use up
/// that of the owner; neither does an operation that is taken back after it has passed a limit.
#[test]
fn nobody_else_is_warned() {
    let disk = Disk::new(UFS2, 16 << 20, LogUse::Wanted).with_files();
    let (fs, shown) = open(&disk);
    let ino = create(&fs, "file", FileKind::Regular, (7, 70), OWNER).unwrap();
    limit(&fs, Kind::User, 7, (0, 8 * 8), (0, 0));
    write(&fs, ino, 0, 7, OWNER).unwrap();
    is_refused(write(&fs, ino, 7, 1, OTHER));
    is_refused(write(&fs, ino, 7, 1, USER));
    assert!(shown.lines().is_empty());
    is_refused(write(&fs, ino, 7, 1, OWNER));
    assert_eq!(shown.lines(), ["write failed, user disk limit reached"]);
    write(&fs, ino, 7, 1, Privilege::Root).unwrap();
    cut(&fs, ino, 7);
    // The user passes a soft limit, but the group refuses.
    limit(&fs, Kind::User, 7, (8 * 8, 0), (0, 0));
    limit(&fs, Kind::Group, 70, (0, 8 * 8), (0, 0));
    is_refused(write(&fs, ino, 7, 1, OWNER));
    assert_eq!(shown.lines(), ["write failed, group disk limit reached"]);
    fs.unmount().unwrap();
    disk.check();
}
