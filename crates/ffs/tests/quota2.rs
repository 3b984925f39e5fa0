//! NetBSD's quotas inside the file system: what is recorded is what the inodes hold, after every
//! operation, every crash and every repair, and what cannot be believed is not written.

#[path = "quota/asked.rs"]
mod asked;

use asked::{USER, ask, create, is_refused, limit, quota};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::{Clock, ManualClock};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Format, Parameters, Plan};
use spindle_ffs::ondisk::FsNetBsd;
use spindle_ffs::quota::{Edit, Kind, Quota, Task};
use spindle_ffs::repair::{self, Scope, switch_quotas};
use spindle_ffs::{Dialect, Ffs, LogUse, OpenOptions, QuotaFiles, Superblock};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, FileKind, FileSystem, Privilege, RenameMode, Result, SetAttr};
use std::sync::Arc;

const START: i64 = 1_700_000_000;
const DAY: i64 = 24 * 60 * 60;
const BOTH: [Kind; 2] = Kind::ALL;

#[derive(Clone)]
struct Disk {
    device: Arc<MemoryDevice>,
    clock: Arc<ManualClock>,
    log: LogUse,
}

impl Disk {
    /// Makes a file system of NetBSD with both quotas on.
    fn new(format: Format, endian: Endian, log: LogUse) -> Self {
        let disk = Self::without(format, endian, log);
        disk.switch(&BOTH, true).unwrap();
        disk
    }

    fn without(format: Format, endian: Endian, log: LogUse) -> Self {
        let bytes = 4 << 20;
        let dialect = Some(Dialect::NetBsd);
        let parameters = Parameters { dialect, format, endian: Some(endian), ..Parameters::new(bytes) };
        let device = Arc::new(MemoryDevice::new(bytes));
        let clock = Arc::new(ManualClock::at(START));
        let plan = Plan::new(&parameters).unwrap();
        newfs::write(&plan, &*device, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        Self { device, clock, log }
    }

    fn device(&self) -> Arc<dyn Device> {
        self.device.clone()
    }

    fn switch(&self, kinds: &[Kind], on: bool) -> Result<check::Report> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        switch_quotas(&self.device(), &clock, kinds, on)
    }

    fn open_with(&self, options: OpenOptions) -> Result<Ffs> {
        let (log, log_bytes, seed) = (self.log, Some(128 << 10), Some(3));
        Ffs::open(self.device(), self.clock.clone(), &OpenOptions { log, log_bytes, seed, ..options })
    }

    fn open(&self) -> Ffs {
        let fs = self.open_with(OpenOptions::default()).unwrap();
        assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
        fs
    }

    /// Returns what a check finds.
    fn findings(&self) -> Vec<String> {
        let report = check(&*self.device, &check::Options::default(), &mut |_| ()).unwrap();
        report.findings.iter().filter(|found| found.severity.is_damage()).map(ToString::to_string).collect()
    }

    /// Refuses damage, and usage that is not what a check counts.
    fn check(&self) {
        assert_eq!(self.findings(), [""; 0]);
    }

    /// Repairs it; returns what was found before.
    fn repair(&self) -> Vec<String> {
        let found = self.findings();
        let clock: Arc<dyn Clock> = self.clock.clone();
        let options = check::Options::default();
        let plan =
            repair::plan(&self.device(), &clock, &options, Scope::All, &mut |_| true, &mut |_| ()).unwrap();
        assert_eq!(plan.refusal, None, "{found:?}");
        plan.apply(&*self.device).unwrap();
        self.check();
        found
    }

    /// Returns the device as it is when power is lost now.
    fn crash(&self) -> Self {
        Self { device: Arc::new(self.device.branch()), ..self.clone() }
    }

    fn superblock(&self) -> Superblock {
        Superblock::open(&*self.device).unwrap()
    }

    /// Returns the byte at which the file of a quota begins. It is one run of blocks here.
    fn file_of(&self, kind: Kind) -> u64 {
        let superblock = self.superblock();
        let ino = FsNetBsd::decode(superblock.raw(), superblock.layout.endian).fs_quotafile[kind as usize];
        let (block, offset) = superblock.layout.ino_to_fsba(u32::try_from(ino).unwrap());
        let at = superblock.layout.byte(block) + offset as u64;
        let mut inode = [0; 256];
        self.device.read_at(at / 512 * 512, &mut [0; 512]).unwrap();
        let mut sector = [0; 512];
        self.device.read_at(at / 512 * 512, &mut sector).unwrap();
        let within = usize::try_from(at % 512).unwrap();
        inode[..superblock.layout.inode_size()]
            .copy_from_slice(&sector[within..within + superblock.layout.inode_size()]);
        let endian = superblock.layout.endian;
        let frag = if superblock.layout.inode_size() == 128 {
            u64::from(u32::get(&inode[40..], endian))
        } else {
            u64::get(&inode[112..], endian)
        };
        superblock.layout.byte(spindle_ffs::Frag(frag))
    }

    fn put(&self, at: u64, value: u64) {
        let mut sector = [0; 512];
        self.device.read_at(at / 512 * 512, &mut sector).unwrap();
        value.put(&mut sector[usize::try_from(at % 512).unwrap()..], self.superblock().layout.endian);
        self.device.write_at(at / 512 * 512, &sector).unwrap();
    }
}

/// Returns the forms of a file system of NetBSD, without a log and, in the order of bytes in which
/// it is safe to use, with one.
fn disks() -> Vec<Disk> {
    let mut disks = Vec::new();
    for format in [Format::Ufs1, Format::Ufs2] {
        disks.push(Disk::new(format, Endian::Little, LogUse::Wanted));
        disks.push(Disk::new(format, Endian::Little, LogUse::Never));
        disks.push(Disk::new(format, Endian::Big, LogUse::Never));
    }
    disks
}

/// Promise: turned on, they count what is there, and a check agrees; turned off, they leave no
/// inode behind; both can be done again.
#[test]
fn they_are_turned_on_and_off() {
    for log in [LogUse::Wanted, LogUse::Never] {
        let disk = Disk::without(Format::Ufs2, Endian::Little, log);
        let fs = disk.open();
        let ino = create(&fs, "file", FileKind::Regular, (7, 70), USER).unwrap();
        fs.write(ino, 0, &vec![1; 100 << 10], USER).unwrap();
        fs.unmount().unwrap();
        drop(fs);
        let free = disk.superblock().totals();
        for _ in 0..2 {
            disk.switch(&[Kind::User], true).unwrap();
            disk.check();
            let fs = disk.open();
            assert_eq!(quota(&fs, Kind::User, 7).usage().inodes, 1);
            assert!(quota(&fs, Kind::User, 7).usage().blocks >= 200);
            assert!(ask(&fs, &Task::Report(vec![Kind::Group])).is_err());
            fs.unmount().unwrap();
            drop(fs);
            disk.switch(&BOTH, true).unwrap();
            disk.switch(&BOTH, false).unwrap();
            disk.check();
            assert_eq!(disk.superblock().totals(), free);
        }
    }
}

/// Promise: hard limits are refused with nothing changed, soft ones start a grace period that
/// becomes hard, for owner and group, in both formats and orders of bytes; what is recorded stays
/// over a remount without being counted, and a check agrees.
#[test]
fn limits_hold() {
    for disk in disks() {
        let fs = disk.open();
        let ino = create(&fs, "file", FileKind::Regular, (7, 70), USER).unwrap();
        fs.write(ino, 0, &vec![1; 30 << 10], USER).unwrap();
        let used = quota(&fs, Kind::User, 7).usage();
        assert_eq!((used.blocks, used.inodes), (fs.getattr(ino).unwrap().blocks512, 1));
        for (kind, id) in [(Kind::User, 7), (Kind::Group, 70)] {
            limit(&fs, kind, id, (0, 161), (0, 3));
            let before = (quota(&fs, kind, id), fs.getattr(ino).unwrap().blocks512);
            is_refused(
                fs.write(ino, 1 << 20, &vec![2; 200 << 10], USER)
                    .and_then(|n| fs.write(ino, (1 << 20) + n as u64, &vec![2; 200 << 10], USER)),
            );
            fs.setattr(ino, &SetAttr { size: Some(30 << 10), ..SetAttr::default() }, USER).unwrap();
            create(&fs, "second", FileKind::Fifo, (7, 70), USER).unwrap();
            is_refused(create(&fs, "third", FileKind::Directory, (7, 70), USER));
            create(&fs, "third", FileKind::Directory, (7, 70), Privilege::Root).unwrap();
            fs.rmdir(fs.root(), b"third").unwrap();
            fs.unlink(fs.root(), b"second").unwrap();
            assert_eq!((quota(&fs, kind, id), fs.getattr(ino).unwrap().blocks512), before);
            limit(&fs, kind, id, (0, 0), (0, 0));
        }
        let (kind, ids) = (Kind::User, Vec::new());
        let grace = Edit { kind, ids, blocks: None, inodes: None, prototype: None, grace: Some(DAY) };
        ask(&fs, &Task::Edit(grace)).unwrap();
        limit(&fs, Kind::User, 7, (0, 0), (3, 0));
        create(&fs, "second", FileKind::Fifo, (7, 70), USER).unwrap();
        assert_eq!(quota(&fs, Kind::User, 7).inodes.deadline, 0);
        let start = disk.clock.now().secs;
        create(&fs, "third", FileKind::Fifo, (7, 70), USER).unwrap();
        assert_eq!(quota(&fs, Kind::User, 7).inodes.deadline, start + DAY);
        let before = quota(&fs, Kind::User, 7);
        fs.unmount().unwrap();
        drop(fs);
        disk.check();
        let fs = disk.open();
        assert_eq!(quota(&fs, Kind::User, 7), before);
        disk.clock.advance(DAY + 1);
        is_refused(create(&fs, "fourth", FileKind::Fifo, (7, 70), USER));
        // Who is new gets the grace period as well, and what is of id 0 can be limited.
        limit(&fs, Kind::User, 0, (0, 0), (0, 1));
        is_refused(create(&fs, "fourth", FileKind::Fifo, (0, 0), USER));
        create(&fs, "fourth", FileKind::Fifo, (0, 0), Privilege::Root).unwrap();
        fs.unmount().unwrap();
        disk.check();
    }
}

/// Promise: more users and groups than the file has room for get more room; each is counted, and
/// found again by the next mount.
#[test]
fn files_grow() {
    for disk in disks() {
        let fs = disk.open();
        for id in 0..150 {
            create(&fs, &format!("f{id}"), FileKind::Fifo, (id * 1000, u32::MAX - id), USER).unwrap();
        }
        fs.unmount().unwrap();
        drop(fs);
        disk.check();
        let fs = disk.open();
        assert_eq!(quota(&fs, Kind::User, 149_000).inodes.used, 1);
        assert_eq!(quota(&fs, Kind::Group, u32::MAX - 3).inodes.used, 1);
        fs.unmount().unwrap();
    }
}

/// Promise: quota files are refused where the quotas are inside.
#[test]
fn quota_files_are_refused_beside_them() {
    let disk = Disk::new(Format::Ufs2, Endian::Little, LogUse::Never);
    let quotas = QuotaFiles { user: Some("quota.user".into()), group: None };
    let refused = disk.open_with(OpenOptions { quotas, ..OpenOptions::default() }).err().unwrap();
    assert!(refused.to_string().contains("keeps its quotas inside"), "{refused}");
    disk.check();
}

/// Promise: whatever is wrong with their files keeps the file system read-only, with the reason; a
/// check names it, a repair makes it right, and limits that can still be found are kept.
#[test]
fn damage_is_not_written_to() {
    const NONE: u64 = 0;
    for endian in [Endian::Little, Endian::Big] {
        let disk = Disk::new(Format::Ufs2, endian, LogUse::Never);
        let fs = disk.open();
        let ino = create(&fs, "file", FileKind::Regular, (7, 70), USER).unwrap();
        fs.write(ino, 0, &vec![1; 30 << 10], USER).unwrap();
        limit(&fs, Kind::User, 7, (900, 1000), (0, 9));
        fs.unmount().unwrap();
        drop(fs);
        let bsize = u64::from(disk.superblock().layout.fs_bsize);
        let header = (8..15).find(|shift| (8 << (shift + 1)) + 112 > bsize).map(|s| 112 + (8 << s)).unwrap();
        // What is damaged, with what, what the check says, and whether the limits are lost.
        let damages: &[(u64, u64, &str, bool)] = &[
            (0, 1, "its header has magic", true),
            (104, NONE, "entries are in no list", false),
            (104, header + 1, "no entry can be", false),
            (104, header, "two lists", false),
            (112 + 8 * 7, NONE, "entries are in no list", true),
            (112 + 8 * 7, 1 << 50, "no entry can be", true),
            (112 + 8 * 5, header, "two lists", false),
            (header + 16, 12_345, "USER QUOTA MISMATCH FOR ID", false),
        ];
        for &(at, value, words, lost) in damages {
            let disk = disk.crash();
            disk.put(disk.file_of(Kind::User) + at, value);
            let opened = disk.open_with(OpenOptions::default()).unwrap();
            let is_structure = !words.contains("MISMATCH");
            assert_eq!(opened.read_only(), is_structure, "{words}");
            if is_structure {
                let reasons = opened.read_only_reasons();
                assert!(reasons.iter().any(|o| o.reason.contains("quotas")), "{words}: {reasons:?}");
            } else {
                opened.unmount().unwrap();
            }
            drop(opened);
            let found = disk.repair();
            let is_named = |found: &String| found.to_lowercase().contains(&words.to_lowercase());
            assert!(found.iter().any(is_named), "{words}: {found:?}");
            let fs = disk.open();
            let (quota, file) = (quota(&fs, Kind::User, 7), fs.lookup(fs.root(), b"file").unwrap());
            let limits = if lost { (0, 0, 0) } else { (900, 1000, 9) };
            assert_eq!((quota.blocks.soft, quota.blocks.hard, quota.inodes.hard), limits, "{words}");
            assert_eq!((quota.blocks.used, quota.inodes.used), (file.blocks512, 1), "{words}");
            fs.forget(file.ino, 1);
            fs.unmount().unwrap();
        }
    }
}

/// Carries out random operations of some users; returns how many were refused, at least in part.
fn random_operations(fs: &Ffs, random: &mut StdRng, count: usize) -> usize {
    let mut refused = 0;
    for _ in 0..count {
        let owner = (random.random_range(7..12) % 9, random.random_range(70..75) % 72);
        let name = format!("f{}", random.random_range(0..12));
        let root = fs.root();
        let result = match fs.lookup(root, name.as_bytes()) {
            Err(_) => {
                use FileKind::{Directory, Fifo, Regular, Symlink};
                let kinds = [Regular, Regular, Regular, Regular, Regular, Directory, Symlink, Fifo];
                create(fs, &name, kinds[random.random_range(0..kinds.len())], owner, USER).map(drop)
            }
            Ok(attr) => {
                fs.forget(attr.ino, 1);
                let (ino, at) = (attr.ino, random.random_range(0..500_000));
                let set = |set: SetAttr| fs.setattr(ino, &set, USER).map(drop);
                match random.random_range(0..9) {
                    0 if attr.kind == FileKind::Directory => fs.rmdir(root, name.as_bytes()),
                    0 => fs.unlink(root, name.as_bytes()),
                    1 => set(SetAttr { uid: Some(owner.0), ..SetAttr::default() }),
                    2 => set(SetAttr { gid: Some(owner.1), ..SetAttr::default() }),
                    3 => set(SetAttr { size: Some(at), ..SetAttr::default() }),
                    4 => {
                        let to = format!("f{}", random.random_range(0..12));
                        fs.rename(root, name.as_bytes(), root, to.as_bytes(), RenameMode::Replace, USER)
                    }
                    _ => {
                        let len = random.random_range(1..200_000);
                        fs.write(ino, at, &vec![1; len], USER).map(|n| refused += usize::from(n < len))
                    }
                }
            }
        };
        refused += usize::from(matches!(result, Err(Error::QuotaExceeded)));
    }
    refused
}

/// Promise: after any operations of several owners, with limits and a full disk, what is recorded
/// is what a check counts: after an unmount, and after a loss of power once the log is replayed.
/// Nobody is ever over a hard limit.
#[test]
fn torture_records_are_exact() {
    let seed =
        std::env::var("SPINDLE_SEED").map_or_else(|_| StdRng::from_os_rng().random(), |s| s.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test quota2 torture");
    let mut random = StdRng::seed_from_u64(seed);
    let mut refused = 0;
    for disk in disks() {
        let fs = disk.open();
        limit(&fs, Kind::User, 7, (0, 700), (0, 5));
        limit(&fs, Kind::User, 8, (300, 1300), (2, 0));
        limit(&fs, Kind::Group, 71, (0, 900), (0, 0));
        fs.unmount().unwrap();
        drop(fs);
        for _ in 0..4 {
            let fs = disk.open();
            refused += random_operations(&fs, &mut random, 80);
            for row in ask(&fs, &Task::Report(Vec::new())).unwrap().iter().flat_map(|sheet| &sheet.rows) {
                let Quota { blocks, inodes } = row.quota;
                assert!(!blocks.is_over_hard(blocks.used) && !inodes.is_over_hard(inodes.used), "{row:?}");
            }
            if disk.log == LogUse::Wanted {
                fs.sync().unwrap();
                random_operations(&fs, &mut random, 20);
                let crashed = disk.crash();
                let fs = crashed.open();
                fs.unmount().unwrap();
                crashed.check();
            }
            fs.unmount().unwrap();
            drop(fs);
            disk.check();
        }
    }
    assert!(refused > 20, "only {refused} were refused");
}
