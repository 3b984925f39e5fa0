//! Recoveries that are cut, and recoveries that are taken back.

use crate::builder::{Crashed, KINDS, Kind, add, cut as cut_file, planned, recover, remove};
use crate::victim::{Tree, tree};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_conformance::cuts::{Event, Recorder, cut};
use spindle_conformance::random::seed;
use spindle_device::MemoryDevice;
use spindle_ffs::Superblock;
use spindle_ffs::ondisk::flags;
use spindle_ffs::repair::undo;

/// Returns a file system in which several things were under way: a directory with files that has
/// not got its name, a directory that was removed, and a file that was being cut.
fn busy(kind: Kind) -> MemoryDevice {
    let mut crashed = Crashed::new(kind);
    let (dir, root, at) = crashed.name("d");
    let mut records = vec![add(dir, root, at), add(dir, dir, 0), add(root, dir, 12)];
    for n in 0..10 {
        let (file, dir, at) = crashed.name(&format!("d/f{n}"));
        records.push(add(file, dir, at));
    }
    let (empty, _, at) = crashed.name("e");
    records.extend([remove(empty, root, at), remove(root, empty, 12)]);
    records.push(cut_file(crashed.name("large").0, 700_001));
    crashed.records(&records);
    crashed.unname("d");
    crashed.size(empty, 0);
    crashed.pointer(empty, 0, 0);
    crashed.device()
}

fn contents(device: &MemoryDevice) -> Tree {
    tree(device)
}

/// Promise: wherever a recovery is cut, and whatever of the writes since the last flush is lost,
/// another one comes to the same files. Until the last barrier the superblock asks for it: FreeBSD
/// follows the journal, too.
#[test]
fn torture_cut_recoveries() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test suj torture_cut_recoveries");
    for kind in KINDS {
        let mut rng = SmallRng::seed_from_u64(seed);
        let device = busy(kind);
        let recorder = Recorder::over(&device);
        planned(&device).plan.apply(&recorder).unwrap();
        let events = recorder.events.lock().clone();
        let whole = contents(&recorder.inner);
        assert!(!whole.contains_key("/d") && !whole.contains_key("/e"));
        let last = events.iter().rposition(|event| matches!(event, Event::Flush)).unwrap();
        let before_last = events[..last].iter().rposition(|event| matches!(event, Event::Flush)).unwrap();
        for end in 0..=before_last {
            for _ in 0..3 {
                let medium = cut(&device, &events, end, &mut rng);
                let superblock = Superblock::open(&medium).unwrap();
                assert!(!superblock.is_clean() && superblock.flags() & flags::FS_NEEDSFSCK == 0);
                recover(&medium);
                assert!(contents(&medium) == whole, "seed {seed}, {kind:?}, cut at {end}");
            }
        }
    }
}

/// Promise: a recovery can be taken back, and then be made again.
#[test]
fn recoveries_can_be_taken_back() {
    for kind in KINDS {
        let device = busy(kind);
        let before = device.to_bytes();
        let plan = planned(&device).plan;
        plan.apply(&device).unwrap();
        let after = device.to_bytes();
        undo(&device, &plan.undo_bytes()).unwrap();
        assert!(device.to_bytes() == before);
        recover(&device);
        assert!(device.to_bytes() == after);
    }
}
