//! Members that fail while a set is mounted.

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::{ManualClock, Timestamp};
use spindle_conformance::random::seed;
use spindle_conformance::reluctant::Reluctant;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::check;
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Mfs, OpenOptions, Role, Set};
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::{Failing, NEVER};

const BY: Privilege = Privilege::Root;
/// The members, with the part of which each has a copy, and whether there is another.
const ROLES: [(Role, u32, bool); 8] = [
    (Role::Control, 0, true),
    (Role::Control, 0, true),
    (Role::Data, 0, true),
    (Role::Data, 0, true),
    (Role::Data, 1, false),
    (Role::Log, 0, true),
    (Role::Log, 0, true),
    (Role::Log, 1, false),
];

fn open(devices: &[Arc<dyn Device>]) -> spindle_vfs::Result<Mfs> {
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    Mfs::open(&Set::open(devices).unwrap(), clock, &OpenOptions::default())
}

fn write(fs: &Mfs, name: &str, bytes: &[u8]) -> spindle_vfs::Result<()> {
    let kind = FileKind::Regular;
    let node = NewNode::new(kind, 0o644);
    let ino = fs.create(fs.root(), name.as_bytes(), &node, BY)?.ino;
    fs.forget(ino, 1);
    fs.write(ino, 0, bytes, BY).map(drop)
}

/// Writes files, and enters those that are durable. Returns true if nothing was refused.
fn use_until_it_fails(
    fs: &Mfs,
    seed: u64,
    rng: &mut StdRng,
    durable: &mut BTreeMap<String, Vec<u8>>,
) -> bool {
    let (mut since, mut failed, mut refused) = (BTreeMap::new(), false, false);
    for n in 0..120 {
        let bytes = vec![u8::try_from(n).unwrap(); [20, 3000, 40_000][rng.random_range(0..3)]];
        match write(fs, &format!("file{n}"), &bytes) {
            Ok(()) => drop(since.insert(format!("file{n}"), bytes)),
            // A read may have failed: then nothing that was done before is lost.
            Err(_) => refused = true,
        }
        if rng.random_range(0..4) == 0 {
            match fs.sync() {
                Ok(()) if failed => panic!("seed {seed}: a sync succeeded after one had failed"),
                Ok(()) => durable.append(&mut since),
                Err(_) => failed = true,
            }
        }
    }
    let unmounted = fs.unmount();
    assert!(!failed || unmounted.is_err(), "seed {seed}: an unmount succeeded after a sync had failed");
    if unmounted.is_ok() {
        durable.append(&mut since);
    }
    !(failed || refused || unmounted.is_err())
}

fn run(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let member = |_: &(Role, u32, bool)| Failing::new(MemoryDevice::new(4 << 20), NEVER);
    let members: Vec<_> = ROLES.iter().map(member).map(Arc::new).collect();
    let devices: Vec<Arc<dyn Device>> =
        members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
    let roles: Vec<_> = devices
        .iter()
        .zip(ROLES)
        .map(|(device, (role, part, _))| Member {
            device: device.clone(),
            areas: vec![NewArea { part: Some(part), ..NewArea::of(role) }],
        })
        .collect();
    make(&roles, &Wishes::new(), &ManualClock::at(0), &mut rng).unwrap();
    let dying = rng.random_range(0..ROLES.len());
    let redundant = ROLES[dying].2;
    members[dying].left.store(rng.random_range(1..60), Ordering::Relaxed);
    let mut durable: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let used = open(&devices).map(|fs| use_until_it_fails(&fs, seed, &mut rng, &mut durable));
    // A member of which there is no other copy may fail when the set is opened.
    assert!(!redundant || matches!(used, Ok(true)), "seed {seed}: one copy is enough");
    let is_log = ROLES[dying].0 == Role::Log;
    assert!(!is_log || !matches!(used, Ok(false)), "seed {seed}: it goes on without a log");
    // The member works again: it may be out of date.
    members[dying].left.store(NEVER, Ordering::Relaxed);
    let fs = open(&devices).unwrap();
    for (name, bytes) in &durable {
        let attr =
            fs.lookup(fs.root(), name.as_bytes()).unwrap_or_else(|e| panic!("seed {seed}: {name}: {e}"));
        let mut found = vec![0; bytes.len()];
        assert_eq!(fs.read(attr.ino, 0, &mut found).unwrap(), bytes.len());
        assert!(found == *bytes, "seed {seed}: {name}");
        fs.forget(attr.ino, 1);
    }
    fs.unmount().unwrap();
    drop(fs);
    let report = check(&Set::open(&devices).unwrap(), 100, &mut |_| ()).unwrap();
    let findings: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "seed {seed}: {findings:#?}");
    let set = Set::open(&devices).unwrap();
    if set.label.log_is_lost() {
        assert!(is_log && !redundant, "seed {seed}");
        let old = set.label.parts(Role::Log)[1][0].member_id;
        let new: Arc<dyn Device> = Arc::new(MemoryDevice::new(4 << 20));
        set.begin_change(Timestamp::new(2_000_000_000, 0)).unwrap();
        set.replace(old, &new, [7; 16], &mut |_| Ok(())).unwrap();
        drop(set);
        let mut devices = devices;
        devices[dying] = new;
        let fs = open(&devices).unwrap();
        write(&fs, "with the new log", b"bytes").unwrap();
        fs.unmount().unwrap();
        assert!(Set::open(&devices).unwrap().label.areas.iter().all(|area| !area.lost));
    }
}

/// Promise: when a member fails of which there is another copy, or that has log storage, everything
/// goes on; when another member fails, nothing is acknowledged any more. What was acknowledged is
/// there afterwards, also when the member comes back.
#[test]
fn torture_members_that_fail() {
    let cases = std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(40);
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test faults torture_members_that_fail");
    (0..cases).for_each(|case| run(seed.wrapping_add(case)));
}

/// Promise: a set goes on without a member that has the only log storage, and a copy of something
/// else; its log is given to another device when the set is not mounted.
#[test]
fn a_log_is_lost_with_another_copy() {
    let members: Vec<_> = (0..3).map(|_| Arc::new(Failing::new(MemoryDevice::new(8 << 20), NEVER))).collect();
    let mut devices: Vec<Arc<dyn Device>> =
        members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
    let areas = [&[Role::Control, Role::Log][..], &[Role::Control], &[Role::Data]];
    let area = |&role: &Role| NewArea { part: Some(0), ..NewArea::of(role) };
    let roles: Vec<_> = devices
        .iter()
        .zip(areas)
        .map(|(device, roles)| Member { device: device.clone(), areas: roles.iter().map(area).collect() })
        .collect();
    make(&roles, &Wishes::new(), &ManualClock::at(0), &mut StdRng::seed_from_u64(0)).unwrap();
    let set = Set::open(&devices).unwrap();
    let old = set.label.parts(Role::Log)[0][0].member_id;
    let fs = Mfs::open(&set, Arc::new(ManualClock::at(1_000_000_000)), &OpenOptions::default()).unwrap();
    write(&fs, "before", b"bytes").unwrap();
    fs.sync().unwrap();
    members[0].left.store(0, Ordering::Relaxed);
    for name in ["after", "later"] {
        write(&fs, name, b"bytes").unwrap();
        fs.sync().unwrap();
    }
    let new: Arc<dyn Device> = Arc::new(MemoryDevice::new(8 << 20));
    let replaced = set.replace(old, &new, [7; 16], &mut |_| Ok(()));
    assert!(matches!(replaced, Err(spindle_vfs::Error::Unsupported { .. })), "{replaced:?}");
    fs.unmount().unwrap();
    drop((fs, set));
    devices[0] = new;
    let set = Set::open(&devices).unwrap();
    set.begin_change(Timestamp::new(2_000_000_000, 0)).unwrap();
    set.replace(old, &devices[0], [7; 16], &mut |_| Ok(())).unwrap();
    drop(set);
    let fs = open(&devices).unwrap();
    for name in ["before", "after", "later"] {
        let attr = fs.lookup(fs.root(), name.as_bytes()).unwrap();
        assert_eq!(attr.size, 5);
        fs.forget(attr.ino, 1);
    }
    write(&fs, "with the new log", b"bytes").unwrap();
    fs.unmount().unwrap();
    assert!(Set::open(&devices).unwrap().label.areas.iter().all(|area| !area.lost));
}

/// Promise: a set that was changed is marked damaged while there is metadata that could not be
/// read, and of which there is no other copy; it is clean if that was read later.
#[test]
fn unread_metadata_is_damage() {
    for read_later in [false, true] {
        let device = Arc::new(Reluctant::new(Arc::new(MemoryDevice::new(24 << 20))));
        let devices: Vec<Arc<dyn Device>> = vec![device.clone()];
        let areas = [Role::Control, Role::Data, Role::Log].map(NewArea::of).into();
        let member = Member { device: devices[0].clone(), areas };
        make(&[member], &Wishes::new(), &ManualClock::at(0), &mut StdRng::seed_from_u64(0)).unwrap();
        let fs = open(&devices).unwrap();
        let dir = fs.create(fs.root(), b"dir", &NewNode::new(FileKind::Directory, 0o755), BY).unwrap().ino;
        fs.create(dir, b"file", &NewNode::new(FileKind::Regular, 0o644), BY).unwrap();
        fs.unmount().unwrap();

        let fs = open(&devices).unwrap();
        write(&fs, "changes it", b"bytes").unwrap();
        let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
        device.refuse(true);
        assert!(matches!(fs.lookup(dir, b"file"), Err(spindle_vfs::Error::Device(_))));
        device.refuse(false);
        assert!(!read_later || fs.lookup(dir, b"file").is_ok());
        fs.unmount().unwrap();
        let again = open(&devices).unwrap();
        assert_eq!(again.read_only(), !read_later);
    }
}
