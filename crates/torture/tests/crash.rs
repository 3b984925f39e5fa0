//! Loss of power at every write.
//!
//! `SPINDLE_CRASH` repeats one state or a whole workload, and prints what is done. `SPINDLE_BUDGET`
//! is the number of seconds for which workloads are run (all of one and two operations are run,
//! however long that takes); `SPINDLE_CASES`, the number of workloads. Without these a sample is
//! run. `SPINDLE_SEED` is the seed of what is sampled.

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use spindle_ffs::LogUse;
use spindle_ffs::newfs::{self, Parameters, Plan};
use spindle_torture::crash::explore::{Budget, Explorer, Id};
use spindle_torture::crash::images;
use spindle_torture::crash::operation::Driver;
use spindle_torture::crash::recorder::Recorder;
use spindle_torture::crash::workload::{Name, Workload};
use spindle_torture::overlay::Allowance;
use spindle_vfs::FileSystem;
use std::sync::Arc;
use std::time::Duration;

/// Workloads of the sample.
const SAMPLE: usize = 72;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Promise: after a loss of power at any instant nothing acknowledged is lost, operations are there
/// in order and wholly or not at all, no file shows bytes that it never had, and the check finds
/// nothing.
#[test]
fn torture_crash() {
    let explorer = Explorer::new(LogUse::Wanted);
    if let Ok(id) = std::env::var("SPINDLE_CRASH") {
        let id: Id = id.parse().unwrap_or_else(|e| panic!("SPINDLE_CRASH: {e}"));
        let report = explorer.repeat(&id);
        println!("{report}");
        assert!(report.violations.is_empty(), "\n{}\n{report}", report.violation_list());
        return;
    }
    let seed = number("SPINDLE_SEED").unwrap_or_else(|| SmallRng::from_os_rng().next_u64());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-torture --test crash");
    let budget = match (number("SPINDLE_CASES"), number("SPINDLE_BUDGET")) {
        (Some(cases), _) => Budget::Sample(usize::try_from(cases).expect("a number of workloads")),
        (None, Some(seconds)) => Budget::Time(Duration::from_secs(seconds)),
        (None, None) => Budget::Sample(SAMPLE),
    };
    let report = explorer.explore(seed, budget);
    println!("{report}");
    assert!(report.violations.is_empty(), "\n{}\n{report}", report.violation_list());
}

/// Promise: after a loss of power at any instant on a mount with `-o sync`, no pointer leads to a
/// block that was never written, and after a repair all names are there whose operations had
/// returned.
#[test]
fn synchronous_mounts_keep_names() {
    let report = Explorer::new(LogUse::Wanted).explore_synchronous();
    println!("{report}");
    assert!(report.violations.is_empty(), "\n{}\n{report}", report.violation_list());
}

/// Promise: after a loss of power at any instant, also while a snapshot is made, changed under, or
/// removed, open or not, each snapshot that is there holds the tree of the moment when it was made,
/// byte for byte and without damage; one that was made is there; and all else holds as without.
#[test]
fn torture_snapshots() {
    let seed = number("SPINDLE_SEED").unwrap_or_else(|| SmallRng::from_os_rng().next_u64());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-torture --test crash torture_snapshots");
    let count = match (number("SPINDLE_CASES"), number("SPINDLE_BUDGET")) {
        (Some(cases), _) => cases.div_ceil(images::snapshot_shapes().len() as u64),
        // About as many as can be run in that time on two processors.
        (None, Some(seconds)) => seconds.div_ceil(10),
        (None, None) => 1,
    };
    let report = Explorer::new(LogUse::Wanted).explore_snapshots(seed, count);
    println!("{report}");
    assert!(report.violations.is_empty(), "\n{}\n{report}", report.violation_list());
}

/// Promise: without a log the explorer finds violations, so it can fail. States after an unmount
/// are good all the same.
#[test]
fn finds_violations_without_a_log() {
    let report = Explorer::new(LogUse::Never).explore(1, Budget::Sample(8));
    assert!(!report.violations.is_empty() && (report.violations.len() as u64) < report.states, "{report}");
}

/// Promise: recovery reads no more than the log and a bounded part of the file system, however
/// large that is.
#[test]
fn recovery_does_not_grow_with_the_size() {
    const LOG: u64 = 64 << 10;
    let costs = [4 << 20, 32 << 20, 256 << 20].map(|size_bytes| {
        let parameters = Parameters { snap_dir: false, ..Parameters::new(size_bytes) };
        let device = Arc::new(Recorder::new(vec![0; usize::try_from(size_bytes).unwrap()], 512));
        let plan = Plan::new(&parameters).unwrap();
        newfs::write(&plan, &*device, &*images::clock(), &mut SmallRng::seed_from_u64(1), &mut |_, _| ())
            .unwrap();
        let cost = |log| {
            device.allow(Allowance { requests: u64::MAX, bytes: u64::MAX });
            let fs = images::open(device.clone(), images::clock(), log).unwrap();
            assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
            (fs, device.usage())
        };
        let (fs, _) = cost(LogUse::Wanted);
        fs.unmount().unwrap();
        drop(fs);
        let (fs, clean) = cost(LogUse::IfThere);
        let mut driver = Driver::new(&fs);
        let workload = Workload::new(Name::Long(3), &fs.limits());
        for (n, op) in
            images::tree(&fs.limits()).iter().chain(workload.steps.iter().map(|s| &s.op)).enumerate()
        {
            driver.apply(op, n as u64, usize::MAX).unwrap();
        }
        fs.fsync(fs.root(), false).unwrap();
        // Power is lost here.
        drop(fs);
        let (fs, recovery) = cost(LogUse::IfThere);
        fs.unmount().unwrap();
        println!("{} MiB: {clean:?} to mount, {recovery:?} to recover", size_bytes >> 20);
        (recovery.requests - clean.requests, recovery.bytes - clean.bytes)
    });
    let (requests, bytes) = costs[0];
    for (more_requests, more_bytes) in costs {
        assert!(more_requests <= requests + 40 && more_bytes <= bytes + LOG && bytes <= 8 * LOG, "{costs:?}");
    }
}
