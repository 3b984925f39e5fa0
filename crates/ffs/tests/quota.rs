//! Quotas: what is charged is what a count of all inodes finds, and what is over a limit is refused
//! without a change.

#[path = "quota/asked.rs"]
mod asked;
#[path = "quota/warnings.rs"]
mod warnings;

use asked::{USER, ask, create, is_refused, limit, quota};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::ManualClock;
use spindle_device::MemoryDevice;
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Format, Parameters, Plan};
use spindle_ffs::quota::{Edit, Kind, Limits, Quota, Sheet, Task, Usage};
use spindle_ffs::{Dialect, Ffs, LogUse, OpenOptions, QuotaFiles};
use spindle_vfs::{
    Attr, Cred, Error, FallocateMode, FileKind, FileSystem, NewNode, Privilege, RenameMode, Result, SetAttr,
    XattrMode,
};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

const BOTH: [Kind; 2] = Kind::ALL;
const UFS2: (Dialect, Format) = (Dialect::FreeBsd, Format::Ufs2);
const UFS1: (Dialect, Format) = (Dialect::FreeBsd, Format::Ufs1);
const NETBSD: (Dialect, Format) = (Dialect::NetBsd, Format::Ufs1);
const SUN: (Dialect, Format) = (Dialect::Sun { x86: false }, Format::Ufs1);
const START: i64 = 1_700_000_000;
const DAY: i64 = 24 * 60 * 60;

struct Disk {
    device: Arc<MemoryDevice>,
    clock: Arc<ManualClock>,
    log: LogUse,
}

impl Disk {
    fn new((dialect, format): (Dialect, Format), bytes: u64, log: LogUse) -> Self {
        let parameters =
            Parameters { dialect: Some(dialect), format, snap_dir: false, ..Parameters::new(bytes) };
        let device = Arc::new(MemoryDevice::new(bytes));
        let clock = Arc::new(ManualClock::at(START));
        let plan = Plan::new(&parameters).unwrap();
        newfs::write(&plan, &*device, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        Self { device, clock, log }
    }

    fn open_with(&self, quotas: QuotaFiles) -> Result<Ffs> {
        let options = OpenOptions {
            log: self.log,
            log_bytes: Some(64 << 10),
            seed: Some(3),
            quotas,
            ..OpenOptions::default()
        };
        Ffs::open(self.device.clone(), self.clock.clone(), &options)
    }

    fn open_plain(&self) -> Ffs {
        self.open_with(QuotaFiles::default()).unwrap()
    }

    /// Opens it with both quotas on.
    fn open(&self) -> Ffs {
        let [user, group] = BOTH.map(|kind| Some(kind.file_name().to_owned()));
        self.open_with(QuotaFiles { user, group }).unwrap()
    }

    /// Has the quota files made.
    fn with_files(self) -> Self {
        let fs = self.open_plain();
        ask(&fs, &Task::Check(BOTH.to_vec())).unwrap();
        fs.unmount().unwrap();
        self
    }

    /// Refuses damage, and usage in the quota files that is not what a count finds.
    fn check(&self) {
        let report = check(&*self.device, &check::Options::default(), &mut |_| ()).unwrap();
        let damage: Vec<_> = report.findings.iter().filter(|finding| finding.severity.is_damage()).collect();
        assert!(damage.is_empty(), "{damage:?}");
        let fs = self.open_plain();
        for sheet in ask(&fs, &Task::Report(BOTH.to_vec())).unwrap() {
            let wrong: Vec<_> = sheet.rows.iter().filter(|row| row.recorded.is_some()).collect();
            assert!(sheet.has_file && wrong.is_empty(), "{:?}: {wrong:?}", sheet.kind);
            assert_eq!(counted(&fs, &sheet), walked(&fs)[sheet.kind as usize], "{:?}", sheet.kind);
        }
        fs.unmount().unwrap();
    }
}

/// Returns the usage of a sheet by id.
fn used(sheet: &Sheet) -> BTreeMap<u32, Usage> {
    let rows = sheet.rows.iter().map(|row| (row.id, row.quota.usage()));
    rows.filter(|(_, usage)| *usage != Usage::default()).collect()
}

/// Returns the usage of a sheet as far as [`walked`] can find it: without NetBSD's log, which has
/// no name, and belongs to root.
fn counted(fs: &Ffs, sheet: &Sheet) -> BTreeMap<u32, Usage> {
    let mut used = used(sheet);
    let superblock = fs.superblock();
    if let (Dialect::NetBsd, Some(log)) = (superblock.dialect, superblock.log_place()) {
        let bsize = u64::from(fs.layout().fs_bsize);
        let blocks = log.len.div_ceil(bsize);
        let root = used.get_mut(&0).unwrap();
        root.inodes -= 1;
        root.blocks -= (blocks + u64::from(blocks > 12)) * bsize / 512;
    }
    used
}

/// Counts by names what users and groups use, without the quota files.
fn walked(fs: &Ffs) -> [BTreeMap<u32, Usage>; 2] {
    let mut sums = [BTreeMap::new(), BTreeMap::new()];
    let mut seen = HashSet::new();
    let mut dirs = vec![fs.root()];
    let mut add = |attr: &Attr| {
        if seen.insert(attr.ino) {
            for (sums, id) in sums.iter_mut().zip([attr.uid, attr.gid]) {
                let sum: &mut Usage = sums.entry(id).or_default();
                // For quotacheck, other files have no blocks, even if they have attributes.
                let has_blocks =
                    matches!(attr.kind, FileKind::Regular | FileKind::Directory | FileKind::Symlink);
                sum.blocks += if has_blocks { attr.blocks512 } else { 0 };
                sum.inodes += 1;
            }
        }
    };
    add(&fs.getattr(fs.root()).unwrap());
    while let Some(dir) = dirs.pop() {
        let mut names = Vec::new();
        fs.readdir(dir, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
        for name in names {
            let is_file = BOTH.iter().any(|kind| kind.file_name().as_bytes() == name);
            if name == b"." || name == b".." || is_file && dir == fs.root() {
                continue;
            }
            let attr = fs.lookup(dir, &name).unwrap();
            fs.forget(attr.ino, 1);
            add(&attr);
            if attr.kind == FileKind::Directory {
                dirs.push(attr.ino);
            }
        }
    }
    sums
}

/// Promise: what reaches a hard limit is refused, whichever call it is, for the owner and for the
/// group, and nothing is changed by it; root is not refused; a write that fits in part is short.
#[test]
fn hard_limits_hold() {
    let disk = Disk::new(UFS2, 16 << 20, LogUse::Wanted).with_files();
    let fs = disk.open();
    let ino = create(&fs, "file", FileKind::Regular, (7, 70), USER).unwrap();
    fs.write(ino, 0, &vec![1; 30 << 10], USER).unwrap();
    let others = create(&fs, "others", FileKind::Regular, (8, 80), USER).unwrap();
    fs.write(others, 0, &vec![1; 64 << 10], USER).unwrap();
    for (kind, id) in [(Kind::User, 7), (Kind::Group, 70)] {
        limit(&fs, kind, id, (0, 161), (0, 3));
        let before = (quota(&fs, kind, id), fs.getattr(ino).unwrap());
        let xattr = |name: &[u8], len| fs.setxattr(ino, name, &vec![1; len], XattrMode::Set, USER);
        assert_eq!(
            fs.write(ino, 64 << 10, &vec![2; 64 << 10], USER).unwrap(),
            32 << 10,
            "the part that fits"
        );
        is_refused(fs.write(ino, 96 << 10, &vec![2; 32 << 10], USER));
        is_refused(xattr(b"user.a", 20 << 10));
        fs.setattr(ino, &SetAttr { size: Some(30 << 10), ..SetAttr::default() }, USER).unwrap();
        fs.write(ino, 20 << 10, &vec![1; 1 << 10], USER).unwrap();
        let range = |bytes| fs.fallocate(ino, FallocateMode::Allocate { keep_size: false }, 0, bytes, USER);
        is_refused(range(100 << 10));
        is_refused(fs.setattr(others, &SetAttr { uid: Some(7), gid: Some(70), ..SetAttr::default() }, USER));
        assert_eq!(fs.getattr(others).unwrap().uid, 8);
        create(&fs, "second", FileKind::Fifo, (7, 70), USER).unwrap();
        for what in [FileKind::Regular, FileKind::Directory, FileKind::Symlink, FileKind::Socket] {
            is_refused(create(&fs, "third", what, (7, 70), USER));
        }
        let unnamed = NewNode { uid: 7, gid: 70, ..NewNode::new(FileKind::Regular, 0o644) };
        is_refused(fs.create_unnamed(fs.root(), &unnamed, USER));
        let made = fs.create_unnamed(fs.root(), &unnamed, Privilege::Root).unwrap();
        assert_eq!(quota(&fs, kind, id).inodes.used, 3);
        fs.forget(made.ino, 1);
        assert_eq!(quota(&fs, kind, id).inodes.used, 2);
        create(&fs, "third", FileKind::Directory, (7, 70), Privilege::Root).unwrap();
        assert_eq!(quota(&fs, kind, id).inodes.used, 3);
        fs.rmdir(fs.root(), b"third").unwrap();
        fs.unlink(fs.root(), b"second").unwrap();
        assert_eq!(quota(&fs, kind, id), before.0);
        assert_eq!(fs.getattr(ino).unwrap().blocks512, before.1.blocks512);
        limit(&fs, kind, id, (0, 0), (0, 0));
    }
    fs.unmount().unwrap();
    disk.check();
}

/// Promise: a file that is cut within a hole needs space for its new last block, and is refused
/// without a change if that would exceed a hard limit; below the limit it is cut, and also where no
/// new block is needed.
#[test]
fn cutting_within_a_hole_obeys_the_limit() {
    for log in [LogUse::Wanted, LogUse::Never] {
        let disk = Disk::new(UFS2, 16 << 20, log).with_files();
        let fs = disk.open();
        let full = create(&fs, "full", FileKind::Regular, (7, 70), USER).unwrap();
        fs.write(full, 0, &vec![1; 64 << 10], USER).unwrap();
        let sparse = create(&fs, "sparse", FileKind::Regular, (7, 70), USER).unwrap();
        fs.setattr(sparse, &SetAttr { size: Some(1 << 20), ..SetAttr::default() }, USER).unwrap();
        let cut = |ino, size| fs.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }, USER);
        let before = (quota(&fs, Kind::User, 7), fs.getattr(sparse).unwrap());
        limit(&fs, Kind::User, 7, (0, before.0.blocks.used + 8), (0, 0));
        is_refused(cut(sparse, 100_000));
        assert_eq!(quota(&fs, Kind::User, 7).usage(), before.0.usage());
        assert_eq!(fs.getattr(sparse).unwrap(), before.1);
        cut(full, 10_000).unwrap();
        cut(sparse, 100_000).unwrap();
        assert_eq!(fs.getattr(sparse).unwrap().size, 100_000);
        fs.unmount().unwrap();
        disk.check();
    }
}

/// Promise: passing a soft limit starts the grace period; after it nothing more is given, also not
/// after a remount; going below the limit ends it, and the next passing starts another.
#[test]
fn soft_limits_have_a_grace_period() {
    let disk = Disk::new(UFS2, 16 << 20, LogUse::Wanted).with_files();
    let fs = disk.open();
    let grace =
        Edit { kind: Kind::User, ids: vec![], blocks: None, inodes: None, prototype: None, grace: Some(DAY) };
    ask(&fs, &Task::Edit(grace)).unwrap();
    limit(&fs, Kind::User, 7, (40, 0), (0, 0));
    let ino = create(&fs, "file", FileKind::Regular, (7, 70), USER).unwrap();
    let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    fs.write(ino, 0, &vec![1; 16 << 10], USER).unwrap();
    assert_eq!(quota(&fs, Kind::User, 7).blocks.deadline, 0);
    fs.write(ino, 16 << 10, &vec![1; 16 << 10], USER).unwrap();
    assert_eq!(quota(&fs, Kind::User, 7).blocks.deadline, START + DAY);
    disk.clock.advance(DAY);
    fs.write(ino, 32 << 10, &vec![1; 32 << 10], USER).unwrap();
    disk.clock.advance(1);
    is_refused(fs.write(ino, 64 << 10, &vec![1; 32 << 10], USER));
    fs.write(ino, 64 << 10, &vec![1; 32 << 10], Privilege::Root).unwrap();
    fs.unmount().unwrap();
    drop(fs);
    let fs = disk.open();
    assert_eq!(quota(&fs, Kind::User, 7).blocks.deadline, START + DAY);
    let ino = fs.lookup(fs.root(), b"file").unwrap().ino;
    is_refused(fs.write(ino, 96 << 10, &vec![1; 32 << 10], USER));
    fs.setattr(ino, &size(8 << 10), USER).unwrap();
    assert_eq!(quota(&fs, Kind::User, 7).blocks.deadline, 0);
    fs.write(ino, 8 << 10, &vec![1; 32 << 10], USER).unwrap();
    assert_eq!(quota(&fs, Kind::User, 7).blocks.deadline, START + 2 * DAY + 1);
    fs.unmount().unwrap();
    disk.check();
}

/// Promise: a change of limits starts the grace period of who is over them and ends it for who is
/// not; a prototype gives its limits; id 0 and what the form cannot hold are refused.
#[test]
fn limits_are_edited() {
    for (format, wide) in [(UFS2, true), (NETBSD, false)] {
        let disk = Disk::new(format, 16 << 20, LogUse::Never).with_files();
        for on in [false, true] {
            let fs = if on { disk.open() } else { disk.open_plain() };
            let name = format!("file{on}");
            let ino = create(&fs, &name, FileKind::Regular, (7, 70), Privilege::Root).unwrap();
            fs.write(ino, 0, &vec![1; 64 << 10], Privilege::Root).unwrap();
            limit(&fs, Kind::User, 7, (20, 1000), (0, 9));
            assert_eq!(quota(&fs, Kind::User, 7).blocks.deadline, START + 7 * DAY);
            let edit = |ids: &[u32], prototype, hard| {
                let inodes = Some(Limits { soft: 0, hard });
                let kind = Kind::User;
                let edit = Edit { kind, ids: ids.to_vec(), blocks: None, inodes, prototype, grace: None };
                ask(&fs, &Task::Edit(edit))
            };
            edit(&[9, 10], Some(7), 5).unwrap();
            let other = quota(&fs, Kind::User, 10);
            assert_eq!((other.blocks.soft, other.blocks.hard, other.inodes.hard), (20, 1000, 5));
            limit(&fs, Kind::User, 7, (2000, 4000), (0, 0));
            assert_eq!(quota(&fs, Kind::User, 7).blocks.deadline, 0);
            assert!(matches!(edit(&[0], None, 1), Err(Error::Unsupported { .. })));
            assert!(matches!(edit(&[u32::MAX], None, 1), Err(Error::Invalid)));
            assert_eq!(edit(&[9], None, 1 << 40).is_ok(), wide, "on: {on}");
            fs.unmount().unwrap();
        }
        disk.check();
    }
}

/// Promise: files that other systems wrote are read in both forms and byte orders, and rewritten in
/// theirs; a file of another form is refused, and named.
#[test]
fn files_of_other_systems_are_read() {
    let wide = {
        let mut bytes = vec![0; 64 + 9 * 64];
        bytes[..20].copy_from_slice(b"QUOTA64\0\x20\x08\x11\x04\0\0\0\x40\0\0\0\x40");
        bytes[64 + 7 * 64..64 + 7 * 64 + 16].copy_from_slice(b"\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0");
        bytes
    };
    let classic = |big: bool| {
        let mut bytes = vec![0; 9 * 32];
        let limits: [u32; 2] = [512, 256];
        let limits = limits.map(|n| if big { n.to_be_bytes() } else { n.to_le_bytes() }).concat();
        bytes[7 * 32..7 * 32 + 8].copy_from_slice(&limits);
        bytes
    };
    let cases =
        [(UFS2, wide.clone()), (UFS2, classic(false)), (NETBSD, classic(false)), (SUN, classic(true))];
    for (format, bytes) in cases {
        let disk = Disk::new(format, 16 << 20, LogUse::Never);
        let fs = disk.open_plain();
        let file = create(&fs, "quota.user", FileKind::Regular, (0, 0), Privilege::Root).unwrap();
        fs.write(file, 0, &bytes, Privilege::Root).unwrap();
        create(&fs, "file", FileKind::Regular, (7, 70), Privilege::Root).unwrap();
        let sheets = ask(&fs, &Task::Check(vec![Kind::User])).unwrap();
        let row = sheets[0].rows.iter().find(|row| row.id == 7).unwrap();
        assert_eq!((row.quota.blocks.hard, row.quota.blocks.soft), (512, 256), "{format:?}");
        assert_eq!((row.recorded, row.quota.inodes.used), (Some(Usage::default()), 1), "{format:?}");
        let mut now = vec![0; bytes.len()];
        fs.read(file, 0, &mut now).unwrap();
        let (record, at) = if bytes.starts_with(b"QUOTA64") { (64, 64) } else { (32, 0) };
        let differ: Vec<usize> =
            (0..now.len()).filter(|&i| now[i] != bytes[i]).map(|i| (i - at) / record).collect();
        assert!(differ.iter().all(|&id| id == 0 || id == 7), "{format:?}: {differ:?}");
        fs.write(file, bytes.len() as u64, b"odd", Privilege::Root).unwrap();
        let refused = ask(&fs, &Task::Report(vec![Kind::User])).unwrap_err().to_string();
        assert!(refused.contains("quota.user"), "{refused}");
        fs.unmount().unwrap();
        let on = QuotaFiles { user: Some("quota.user".into()), group: None };
        assert!(matches!(disk.open_with(on), Err(Error::Unsupported { .. })));
        let missing = QuotaFiles { user: None, group: Some("quota.group".into()) };
        assert!(matches!(disk.open_with(missing), Err(Error::Unsupported { .. })));
        // The refused mounts have left it clean.
        assert!(disk.open_plain().read_only_reasons().is_empty());
    }
}

/// Promise: a damaged quota file is refused or read, and nothing else happens: no panic, no damage.
#[test]
fn damaged_files_do_no_harm() {
    let mut random = StdRng::seed_from_u64(5);
    for format in [UFS2, NETBSD] {
        let disk = Disk::new(format, 4 << 20, LogUse::Never).with_files();
        for _ in 0..60 {
            let fs = disk.open_plain();
            let file = fs.lookup(fs.root(), b"quota.user").unwrap().ino;
            fs.forget(file, 1);
            let len = random.random_range(1..20);
            let bytes: Vec<u8> =
                (0..len).map(|_| if random.random() { u8::MAX } else { random.random() }).collect();
            let at = if random.random() { random.random_range(0..64) } else { random.random_range(0..9000) };
            fs.write(file, at / 8 * 8, &bytes[..bytes.len() / 8 * 8], Privilege::Root).unwrap();
            if random.random_range(0..4) == 0 {
                let size = Some(random.random_range(0..100_u64) * 32);
                fs.setattr(file, &SetAttr { size, ..SetAttr::default() }, Privilege::Root).unwrap();
            }
            let report = ask(&fs, &Task::Report(vec![Kind::User]));
            fs.unmount().unwrap();
            drop(fs);
            let on = QuotaFiles { user: Some("quota.user".into()), group: None };
            match disk.open_with(on) {
                Ok(fs) => {
                    create(&fs, "file", FileKind::Regular, (7, 70), Privilege::Root).unwrap();
                    fs.unlink(fs.root(), b"file").unwrap();
                    fs.unmount().unwrap();
                }
                Err(error) => {
                    assert!(report.unwrap_err().to_string().contains("is no quota file"), "{error}");
                    let fs = disk.open_plain();
                    fs.unlink(fs.root(), b"quota.user").unwrap();
                    ask(&fs, &Task::Check(vec![Kind::User])).unwrap();
                    fs.unmount().unwrap();
                }
            }
        }
        disk.check();
    }
}

/// Promise: the file of a quota can have another name, which the mount gives: it is limited by that
/// file, a check of the mount makes no other, and usage is written there.
#[test]
fn files_can_have_other_names() {
    let disk = Disk::new(UFS2, 16 << 20, LogUse::Wanted).with_files();
    let fs = disk.open_plain();
    limit(&fs, Kind::User, 7, (0, 0), (0, 2));
    create(&fs, "etc", FileKind::Directory, (0, 0), Privilege::Root).unwrap();
    let etc = fs.lookup(fs.root(), b"etc").unwrap().ino;
    fs.rename(fs.root(), b"quota.user", etc, b"limits", RenameMode::Replace, Privilege::Root).unwrap();
    fs.unlink(fs.root(), b"quota.group").unwrap();
    fs.forget(etc, 1);
    fs.unmount().unwrap();
    drop(fs);
    let on = || QuotaFiles { user: Some("/etc/limits".into()), group: None };
    let fs = disk.open_with(on()).unwrap();
    create(&fs, "first", FileKind::Regular, (7, 70), USER).unwrap();
    is_refused(create(&fs, "second", FileKind::Regular, (7, 70), USER));
    assert_eq!(ask(&fs, &Task::Check(Vec::new())).unwrap().len(), 1);
    assert!(matches!(fs.lookup(fs.root(), b"quota.user"), Err(Error::NotFound)));
    fs.unmount().unwrap();
    drop(fs);
    let fs = disk.open_with(on()).unwrap();
    assert_eq!(quota(&fs, Kind::User, 7).inodes.used, 1);
    fs.unmount().unwrap();
}

/// Promise: while a quota is on, its file cannot be changed, moved or removed.
#[test]
fn files_in_use_are_kept() {
    let disk = Disk::new(UFS2, 16 << 20, LogUse::Wanted).with_files();
    let fs = disk.open();
    let file = fs.lookup(fs.root(), b"quota.user").unwrap().ino;
    let refused = [
        fs.write(file, 0, b"x", Privilege::Root).map(drop),
        fs.setattr(file, &SetAttr { size: Some(0), ..SetAttr::default() }, Privilege::Root).map(drop),
        fs.unlink(fs.root(), b"quota.user"),
        fs.rename(fs.root(), b"quota.user", fs.root(), b"x", RenameMode::Replace, Privilege::Root),
    ];
    assert!(refused.iter().all(|result| matches!(result, Err(Error::NotPermitted))), "{refused:?}");
    fs.unmount().unwrap();
}

/// Carries out random operations of two users and root with a small disk, and returns how many
/// were refused for a quota and for want of space.
fn random_operations(fs: &Ffs, random: &mut StdRng, count: usize) -> (usize, usize) {
    let (mut refused, mut full) = (0, 0);
    for _ in 0..count {
        let owner = (random.random_range(7..10) % 9, random.random_range(70..73) % 72);
        let name = format!("f{}", random.random_range(0..12));
        let before = BOTH.map(|kind| used(&ask(fs, &Task::Report(vec![kind])).unwrap()[0]));
        let found = fs.lookup(fs.root(), name.as_bytes());
        let result = match &found {
            Err(_) => {
                let kinds = [
                    FileKind::Regular,
                    FileKind::Regular,
                    FileKind::Directory,
                    FileKind::Symlink,
                    FileKind::Fifo,
                ];
                create(fs, &name, kinds[random.random_range(0..kinds.len())], owner, USER).map(drop)
            }
            Ok(attr) => {
                fs.forget(attr.ino, 1);
                let (ino, at) = (attr.ino, random.random_range(0..500_000));
                let len = random.random_range(1..200_000);
                let set = |set: SetAttr| fs.setattr(ino, &set, USER).map(drop);
                match random.random_range(0..12) {
                    0 if attr.kind == FileKind::Directory => fs.rmdir(fs.root(), name.as_bytes()),
                    0 => fs.unlink(fs.root(), name.as_bytes()),
                    1 => set(SetAttr { uid: Some(owner.0), ..SetAttr::default() }),
                    2 => set(SetAttr { gid: Some(owner.1), ..SetAttr::default() }),
                    3 => set(SetAttr { size: Some(at), ..SetAttr::default() }),
                    4 => fs.fallocate(ino, FallocateMode::Allocate { keep_size: false }, at, len, USER),
                    5 => fs.fallocate(ino, FallocateMode::PunchHole, at, len, USER),
                    6 => fs.setxattr(
                        ino,
                        b"user.a",
                        &vec![1; usize::try_from(len / 20).unwrap()],
                        XattrMode::Set,
                        USER,
                    ),
                    7 => fs.removexattr(ino, b"user.a"),
                    8 => {
                        let to = format!("f{}", random.random_range(0..12));
                        fs.rename(
                            fs.root(),
                            name.as_bytes(),
                            fs.root(),
                            to.as_bytes(),
                            RenameMode::Replace,
                            USER,
                        )
                    }
                    _ => fs.write(ino, at, &vec![1; usize::try_from(len).unwrap()], USER).map(drop),
                }
            }
        };
        let after = BOTH.map(|kind| ask(fs, &Task::Report(vec![kind])).unwrap().remove(0));
        if let Err(Error::QuotaExceeded | Error::NoSpace) = result {
            assert_eq!(
                before,
                [used(&after[0]), used(&after[1])],
                "a refused operation has changed something"
            );
            *if matches!(result, Err(Error::NoSpace)) { &mut full } else { &mut refused } += 1;
        }
        for row in after.iter().flat_map(|sheet| &sheet.rows) {
            let Quota { blocks, inodes } = row.quota;
            assert!(!blocks.is_over_hard(blocks.used) && !inodes.is_over_hard(inodes.used), "{row:?}");
        }
        assert_eq!([counted(fs, &after[0]), counted(fs, &after[1])], walked(fs));
    }
    (refused, full)
}

/// Promise: after any operations of several owners, with limits and a full disk, what is charged is
/// what a count by names finds; after a clean unmount so are the quota files; after a crash a mount
/// counts anew; what was refused has changed nothing; nobody is ever over a hard limit.
#[test]
fn torture_usage_is_exact() {
    let seed =
        std::env::var("SPINDLE_SEED").map_or_else(|_| StdRng::from_os_rng().random(), |s| s.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test quota torture");
    let mut random = StdRng::seed_from_u64(seed);
    let formats = [UFS2, NETBSD, UFS1, SUN];
    let (mut refused, mut full) = (0, 0);
    for format in formats {
        for log in [LogUse::Wanted, LogUse::Never] {
            let disk = Disk::new(format, 2 << 20, log).with_files();
            let fs = disk.open();
            limit(&fs, Kind::User, 7, (0, 700), (0, 5));
            limit(&fs, Kind::User, 8, (300, 1300), (2, 0));
            limit(&fs, Kind::Group, 71, (0, 900), (0, 0));
            let ballast = create(&fs, "ballast", FileKind::Regular, (0, 0), Privilege::Root).unwrap();
            fs.write(ballast, 0, &vec![1; 800 << 10], Privilege::Root).unwrap();
            fs.unmount().unwrap();
            drop(fs);
            for session in 0..3 {
                let fs = disk.open();
                let counts = random_operations(&fs, &mut random, 120);
                (refused, full) = (refused + counts.0, full + counts.1);
                if session == 1 && log == LogUse::Wanted {
                    // Power is lost; the next mount replays the log.
                    fs.sync().unwrap();
                    random_operations(&fs, &mut random, 20);
                    std::mem::forget(fs);
                    continue;
                }
                fs.unmount().unwrap();
                drop(fs);
                disk.check();
            }
        }
    }
    assert!(refused > 20 && full > 0, "only {refused} for a quota, {full} for space");
    println!("{refused} refused for a quota, {full} for space");
}

/// Promise: a snapshot that belongs to a user counts for nobody, even beyond the limit of the user:
/// while it is made and grows, when all is counted again, and when it is removed.
#[test]
fn snapshots_are_not_counted() {
    let disk = Disk::new(UFS2, 64 << 20, LogUse::Wanted);
    let large = OpenOptions { log: LogUse::Wanted, seed: Some(3), ..OpenOptions::default() };
    Ffs::open(disk.device.clone(), disk.clock.clone(), &large).unwrap().unmount().unwrap();
    let disk = disk.with_files();
    let fs = disk.open();
    let file = create(&fs, "file", FileKind::Regular, (7, 8), USER).unwrap();
    fs.write(file, 0, &vec![1; 1 << 20], USER).unwrap();
    fs.sync().unwrap();
    let used = |fs: &Ffs| BOTH.map(|kind| [0, 7, 8].map(|id| quota(fs, kind, id).usage()));
    for kind in BOTH {
        limit(&fs, kind, 7 + kind as u32, (1, 2), (1, 1));
    }
    let before = used(&fs);
    assert!(before[0][1].inodes == 1 && before[0][1].blocks > 2048, "{before:?}");
    let snap = fs.make_snapshot(fs.root(), b"snap", &Cred::user(7, 8)).unwrap();
    fs.forget(snap.ino, 1);
    assert_eq!(used(&fs), before);
    fs.write(file, 0, &vec![2; 1 << 20], USER).unwrap();
    fs.sync().unwrap();
    assert!(fs.getattr(snap.ino).unwrap().blocks512 > 2048);
    assert_eq!(used(&fs), before);
    ask(&fs, &Task::Check(BOTH.to_vec())).unwrap();
    assert_eq!(used(&fs), before);
    fs.unlink(fs.root(), b"snap").unwrap();
    fs.sync().unwrap();
    assert_eq!(used(&fs), before);
    fs.unmount().unwrap();
    disk.check();
}
