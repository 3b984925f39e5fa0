//! Members that fail while a set is mounted.

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::ManualClock;
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::check;
use spindle_mfs::newfs::{Member, Wishes, make};
use spindle_mfs::{Mfs, OpenOptions, Role, Set};
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::Failing;

const BY: Privilege = Privilege::Root;
const ROLES: [Role; 5] = [Role::Control, Role::Control, Role::Data, Role::Data, Role::Log];
const NEVER: i64 = i64::MAX;

fn open(devices: &[Arc<dyn Device>]) -> Mfs {
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    Mfs::open(&Set::open(devices).unwrap(), clock, &OpenOptions::default()).unwrap()
}

fn write(fs: &Mfs, name: &str, bytes: &[u8]) -> spindle_vfs::Result<()> {
    let kind = FileKind::Regular;
    let node = NewNode::new(kind, 0o644);
    let ino = fs.create(fs.root(), name.as_bytes(), &node, BY)?.ino;
    fs.forget(ino, 1);
    fs.write(ino, 0, bytes, BY).map(drop)
}

fn run(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let member = |_: &Role| Failing { device: MemoryDevice::new(4 << 20), left: NEVER.into() };
    let members: Vec<_> = ROLES.iter().map(member).map(Arc::new).collect();
    let devices: Vec<Arc<dyn Device>> =
        members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
    let roles: Vec<_> =
        devices.iter().zip(ROLES).map(|(device, role)| Member::of(device.clone(), role)).collect();
    make(&roles, &Wishes::new(), &ManualClock::at(0), &mut rng).unwrap();
    let dying = rng.random_range(0..ROLES.len());
    let redundant = ROLES[dying] == Role::Control;
    members[dying].left.store(rng.random_range(1..60), Ordering::Relaxed);
    let mut durable: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let fs = open(&devices);
    let (mut since, mut failed, mut refused) = (BTreeMap::new(), false, false);
    for n in 0..120 {
        let bytes = vec![u8::try_from(n).unwrap(); [20, 3000, 40_000][rng.random_range(0..3)]];
        match write(&fs, &format!("file{n}"), &bytes) {
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
    failed |= unmounted.is_err();
    assert!(!((failed || refused) && redundant), "seed {seed}: one copy of control storage is enough");
    if unmounted.is_ok() {
        durable.append(&mut since);
    }
    drop(fs);
    // The member works again: it may be out of date.
    members[dying].left.store(NEVER, Ordering::Relaxed);
    let fs = open(&devices);
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
}

/// Promise: when a copy of control storage fails, everything goes on; when another member fails,
/// nothing is acknowledged any more. What was acknowledged is there afterwards, also when the
/// member comes back.
#[test]
fn torture_members_that_fail() {
    let cases = std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(40);
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test faults torture_members_that_fail");
    (0..cases).for_each(|case| run(seed.wrapping_add(case)));
}
