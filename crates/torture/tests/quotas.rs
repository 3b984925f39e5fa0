//! Quotas over a loss of power at every write, and under several writers.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_clock::Clock;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Parameters, Plan};
use spindle_ffs::quota::{Edit, Kind, Limits, Quota, Sheet, Task};
use spindle_ffs::repair::switch_quotas;
use spindle_ffs::{Dialect, Ffs, LogUse, OpenOptions, QuotaFiles};
use spindle_torture::crash::images::clock;
use spindle_torture::crash::recorder::{Event, Recorder};
use spindle_vfs::{Error, FileKind, FileSystem, NewNode, Privilege, SetAttr};
use std::ops::ControlFlow;
use std::sync::Arc;

const SIZE: u64 = 1 << 20;

/// Where quotas stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotas {
    Files,
    Inside,
}

impl Quotas {
    fn open(self, device: Arc<dyn Device>) -> Ffs {
        let [user, group] = Kind::ALL.map(|kind| Some(kind.file_name().to_owned()));
        let quotas = if self == Self::Files { QuotaFiles { user, group } } else { QuotaFiles::default() };
        let (log, log_bytes, seed) = (LogUse::Wanted, Some(64 << 10), Some(1));
        let options = OpenOptions { log, log_bytes, seed, quotas, ..OpenOptions::default() };
        let fs = Ffs::open(device, clock(), &options).unwrap();
        assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
        fs
    }

    /// Makes a file system with limits: user 7 must have less than 200 blocks and 6 inodes, group
    /// 70 less than 300 blocks.
    fn make(self, size: u64, fsize: u32) -> MemoryDevice {
        let device = Arc::new(MemoryDevice::new(size));
        let parameters = Parameters {
            dialect: (self == Self::Inside).then_some(Dialect::NetBsd),
            bsize: Some(4096),
            fsize: Some(fsize),
            density: Some(8192),
            snap_dir: false,
            ..Parameters::new(size)
        };
        let plan = Plan::new(&parameters).unwrap();
        newfs::write(&plan, &*device, &*clock(), &mut SmallRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        match self {
            Self::Inside => {
                let (device, clock): (Arc<dyn Device>, Arc<dyn Clock>) = (device.clone(), clock());
                switch_quotas(&device, &clock, &Kind::ALL, true).unwrap();
            }
            Self::Files => {
                let plain = OpenOptions { seed: Some(1), ..OpenOptions::default() };
                let fs = Ffs::open(device.clone(), clock(), &plain).unwrap();
                ask(&fs, &Task::Check(Kind::ALL.to_vec()));
                fs.unmount().unwrap();
            }
        }
        let fs = self.open(device.clone());
        limit(&fs, Kind::User, 7, 200, 6);
        limit(&fs, Kind::Group, 70, 300, 0);
        fs.unmount().unwrap();
        drop(fs);
        MemoryDevice::from_bytes(&device.to_bytes())
    }

    /// Recovers the file system, and fails if what is recorded is not what is counted, or over a
    /// limit.
    fn recover(self, device: &Arc<MemoryDevice>, when: &str) {
        let fs = self.open(device.clone());
        for row in ask(&fs, &Task::Report(Vec::new())).iter().flat_map(|sheet| &sheet.rows) {
            let Quota { blocks, inodes } = row.quota;
            assert!(
                !blocks.is_over_hard(blocks.used) && !inodes.is_over_hard(inodes.used),
                "{when}: {row:?}"
            );
        }
        fs.unmount().unwrap();
        drop(fs);
        check_quotas(device, when);
    }
}

/// Fails if an unmounted file system is damaged, or its quotas record what is not counted.
fn check_quotas(device: &Arc<MemoryDevice>, when: &str) {
    let report = check(&**device, &check::Options::default(), &mut |_| ()).unwrap();
    let damage: Vec<_> = report.findings.iter().filter(|found| found.severity.is_damage()).collect();
    assert!(damage.is_empty() && report.marked_clean, "{when}: {damage:?}");
    // Without quotas on, or only read, they are counted.
    let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
    let fs = Ffs::open(device.clone(), clock(), &read_only).unwrap();
    let sheets = ask(&fs, &Task::Report(Kind::ALL.to_vec()));
    assert!(sheets.iter().all(|sheet| !sheet.enforced && sheet.has_file));
    let wrong: Vec<_> =
        sheets.iter().flat_map(|sheet| &sheet.rows).filter(|row| row.recorded.is_some()).collect();
    assert!(wrong.is_empty(), "{when}: {wrong:?}");
}

fn ask(fs: &Ffs, task: &Task) -> Vec<Sheet> {
    fs.quota(task, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

fn limit(fs: &Ffs, kind: Kind, id: u32, blocks: u64, inodes: u64) {
    let hard = |hard| Some(Limits { soft: 0, hard });
    let (blocks, inodes) = (hard(blocks), hard(inodes));
    ask(fs, &Task::Edit(Edit { kind, ids: vec![id], blocks, inodes, prototype: None, grace: None }));
}

/// Carries out random operations of some users. Returns how many were refused, at least in part.
fn work(fs: &Ffs, random: &mut SmallRng, count: usize) -> usize {
    let mut refused = 0;
    for _ in 0..count {
        let (uid, gid) = (random.random_range(6..9), random.random_range(70..72));
        let name = format!("f{}", random.random_range(0..8));
        let (root, by) = (fs.root(), Privilege::User);
        let full = match fs.lookup(root, name.as_bytes()) {
            Err(_) => {
                let node = NewNode { uid, gid, ..NewNode::new(FileKind::Regular, 0o644) };
                fs.create(root, name.as_bytes(), &node, by).map(|made| {
                    fs.forget(made.ino, 1);
                    false
                })
            }
            Ok(attr) => {
                fs.forget(attr.ino, 1);
                let set = |set: SetAttr| fs.setattr(attr.ino, &set, by).map(|_| false);
                match random.random_range(0..8) {
                    0 => fs.unlink(root, name.as_bytes()).map(|()| false),
                    1 => set(SetAttr { uid: Some(uid), ..SetAttr::default() }),
                    2 => set(SetAttr { gid: Some(gid), ..SetAttr::default() }),
                    3 => set(SetAttr { size: Some(random.random_range(0..60_000)), ..SetAttr::default() }),
                    4 => fs.fsync(attr.ino, false).map(|()| false),
                    _ => {
                        let bytes = vec![1; random.random_range(1..50_000)];
                        let at = random.random_range(0..60_000);
                        fs.write(attr.ino, at, &bytes, by).map(|written| written < bytes.len())
                    }
                }
            }
        };
        refused += usize::from(matches!(full, Ok(true) | Err(Error::QuotaExceeded)));
    }
    refused
}

/// Promise: after a loss of power at any write, with any of the writes since the last barrier lost,
/// a mount with quotas on records what the inodes hold, for quota files and for quotas inside the
/// file system, and nobody is over a hard limit.
#[test]
fn torture_quotas_survive_every_crash() {
    let seed = std::env::var("SPINDLE_SEED")
        .map_or_else(|_| SmallRng::from_os_rng().random(), |seed| seed.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-torture --test quotas torture");
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut refused, mut states) = (0, 0);
    for quotas in [Quotas::Files, Quotas::Inside] {
        for _ in 0..3 {
            let base = quotas.make(SIZE, 512).to_bytes();
            let recorder = Arc::new(Recorder::new(base.clone(), 512));
            let fs = quotas.open(recorder.clone());
            refused += work(&fs, &mut random, 60);
            fs.unmount().unwrap();
            drop(fs);
            let mut durable = base;
            // The writes that a barrier has not made durable, by the number of their event, and
            // whether they were waited for.
            let mut window: Vec<(usize, bool, (u64, Vec<u8>))> = Vec::new();
            for (number, event) in recorder.since(0).into_iter().enumerate() {
                match event {
                    Event::Write(write) => {
                        window.push((number, false, (write.offset, write.bytes.to_vec())));
                    }
                    Event::Landed(write) => {
                        window.iter_mut().filter(|w| w.0 == write).for_each(|w| w.1 = true);
                        continue;
                    }
                    Event::Flush => {
                        let (landed, rest) = window.drain(..).partition(|w| w.1);
                        window = rest;
                        let landed: Vec<(usize, bool, (u64, Vec<u8>))> = landed;
                        for w in &landed {
                            land(&mut durable, &w.2);
                        }
                        continue;
                    }
                    Event::Mark(_) => continue,
                }
                for loses in [false, true] {
                    let mut bytes = durable.clone();
                    let landed = window.iter().filter(|_| !loses || random.random());
                    landed.for_each(|w| land(&mut bytes, &w.2));
                    states += 1;
                    quotas.recover(
                        &Arc::new(MemoryDevice::from_bytes(&bytes)),
                        &format!("{quotas:?}, state {states}"),
                    );
                }
            }
        }
    }
    println!("{states} states, {refused} operations refused");
    assert!(refused > 5, "only {refused} were refused");
}

fn land(bytes: &mut [u8], (offset, new): &(u64, Vec<u8>)) {
    let at = usize::try_from(*offset).unwrap();
    bytes[at..at + new.len()].copy_from_slice(new);
}

/// Promise: four writers at once, who fill a limit of blocks that they share, get what it allows to
/// the block, and not one more; of inodes to the inode; and what is recorded is what is counted.
#[test]
fn four_writers_fill_a_limit_to_the_block() {
    const WRITERS: u64 = 4;
    const SPB: u64 = 4096 / 512;
    for quotas in [Quotas::Files, Quotas::Inside] {
        for round in 0..8_u64 {
            let device = Arc::new(quotas.make(8 << 20, 4096));
            let fs = quotas.open(device.clone());
            let (blocks, inodes) = (90 + round, 20 + round);
            limit(&fs, Kind::User, 7, blocks * SPB + 1, 0);
            limit(&fs, Kind::Group, 70, 0, inodes + 1);
            let writer = |number: u64| -> (u64, u64) {
                let (mut written, mut made) = (0, 0);
                'files: for n in 0.. {
                    let node = NewNode { uid: 7, gid: 70, ..NewNode::new(FileKind::Regular, 0o644) };
                    let name = format!("w{number}-{n}");
                    let file = match fs.create(fs.root(), name.as_bytes(), &node, Privilege::User) {
                        Err(Error::QuotaExceeded) => break,
                        file => file.unwrap(),
                    };
                    made += 1;
                    for block in 0..12 {
                        match fs.write(file.ino, block * 4096, &[1; 4096], Privilege::User) {
                            Ok(4096) => written += 1,
                            Err(Error::QuotaExceeded) => {
                                fs.forget(file.ino, 1);
                                continue 'files;
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                    fs.forget(file.ino, 1);
                }
                (written, made)
            };
            let done: Vec<(u64, u64)> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..WRITERS)
                    .map(|n| {
                        scope.spawn({
                            let writer = &writer;
                            move || writer(n)
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let sums = done.iter().fold((0, 0), |sums, done| (sums.0 + done.0, sums.1 + done.1));
            assert_eq!(sums, (blocks, inodes), "{quotas:?}: {done:?}");
            let sheets = ask(&fs, &Task::Report(vec![Kind::User]));
            let row = sheets[0].rows.iter().find(|row| row.id == 7).unwrap();
            assert_eq!((row.quota.blocks.used, row.quota.inodes.used), (blocks * SPB, inodes));
            fs.unmount().unwrap();
            drop(fs);
            check_quotas(&device, "four writers");
        }
    }
}
