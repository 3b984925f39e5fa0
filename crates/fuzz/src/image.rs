//! Structures of UFS1 and UFS2 in images of all dialects.
//!
//! An input says which image, which of its structures of this kind, and whether check-hashes are
//! corrected; the rest takes the structure's place. What follows is all that people do with an
//! image (`torture::case`), and a repair.

use crate::{Target, number, seed};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_clock::{Clock, ManualClock};
use spindle_device::Device;
use spindle_ffs::check::{Options, check};
use spindle_ffs::repair::{Scope, plan};
use spindle_torture::anatomy::Structure;
use spindle_torture::base::{Base, MADE, all};
use spindle_torture::case::judge;
use spindle_torture::overlay::Overlay;
use spindle_torture::rehash::fix_check_hashes;
use std::sync::{Arc, LazyLock};

/// The superblock and its replicas.
pub const SUPERBLOCK: Target = Target {
    name: "superblock",
    about: "a superblock or a replica of it",
    seeds: || seeds(&["Fs", "Fs (replica)"], |_| 1376),
    run: |data| run(&["Fs", "Fs (replica)"], data),
};

/// The maps of a cylinder group.
pub const GROUP: Target = Target {
    name: "group",
    about: "a cylinder group's block",
    seeds: || seeds(&["Cg", "OldCg"], |base| base.anatomy.layout().fs_cgsize as usize),
    run: |data| run(&["Cg", "OldCg"], data),
};

/// Some inodes.
pub const INODE: Target = Target {
    name: "inode",
    about: "inodes from one of them on",
    seeds: || seeds(&["Dinode1", "Dinode2"], |base| 2 * base.anatomy.layout().inode_size()),
    run: |data| run(&["Dinode1", "Dinode2"], data),
};

/// Directories.
pub const DIRECTORY: Target = Target {
    name: "directory",
    about: "a directory from one of its entries on",
    seeds: || seeds(&["DirectHeader"], |_| 512),
    run: |data| run(&["DirectHeader"], data),
};

/// Indirect blocks.
pub const INDIRECT: Target = Target {
    name: "indirect",
    about: "an indirect block from one of its pointers on",
    seeds: || seeds(&["indirect block"], |_| 64),
    run: |data| run(&["indirect block"], data),
};

/// The extended attributes of UFS2.
pub const ATTRIBUTES: Target = Target {
    name: "attributes",
    about: "an area of extended attributes from one of them on",
    seeds: || seeds(&["extattr"], |_| 256),
    run: |data| run(&["extattr"], data),
};

/// The valid images.
pub(crate) static BASES: LazyLock<Vec<Base>> = LazyLock::new(all);

/// Returns where the structures of these names are in an image.
fn places(base: &Base, names: &[&str]) -> Vec<usize> {
    let of = |s: &&Structure| names.contains(&s.name);
    base.anatomy.structures.iter().filter(of).flat_map(|s| s.places.iter().copied()).collect()
}

/// Returns the first, the middle and the last structure of these names in each image as inputs.
fn seeds(names: &[&str], len: impl Fn(&Base) -> usize) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (n, base) in BASES.iter().enumerate() {
        let places = places(base, names);
        for place in [0, places.len() / 2, places.len().saturating_sub(1)] {
            let Some(&at) = places.get(place) else { continue };
            let end = (at + len(base)).min(base.bytes.len());
            seeds.push(seed(&[n, place, 1], &base.bytes[at..end]));
        }
    }
    seeds
}

/// Puts an input in the place of a structure of these names, and uses the image.
fn run(names: &[&str], mut data: &[u8]) {
    let (base, place, rehash) = (number(&mut data), number(&mut data), number(&mut data));
    let base = &BASES[base % BASES.len()];
    let places = places(base, names);
    let Some(&at) = places.get(place % places.len().max(1)) else { return };
    let changed = || {
        let device = Overlay::new(base.bytes.clone(), base.bytes.len());
        device.poke(at, data);
        if rehash % 2 == 1 {
            fix_check_hashes(&device, &base.anatomy, std::slice::from_ref(&(at..at + data.len())));
        }
        device
    };
    use_image(changed, &format!("{}: changed at {at}", base.name));
}

/// Does with an image whatever people do, and repairs it.
pub(crate) fn use_image(image: impl Fn() -> Overlay, story: &str) {
    if let Err(failure) = judge(image(), story.to_owned(), &mut SmallRng::seed_from_u64(1)) {
        panic!("{failure:?}");
    }
    repair(image());
}

/// Repairs an image: what a repair leaves has no damage.
pub(crate) fn repair(device: impl Device + 'static) {
    let device: Arc<dyn Device> = Arc::new(device);
    let options = Options::default();
    let Ok(plan) = plan(&device, &clock(), &options, Scope::All, &mut |_| true, &mut |_| ()) else { return };
    if plan.refusal.is_some() || plan.apply(&*device).is_err() {
        return;
    }
    let after = check(&*device, &options, &mut |_| ()).expect("a repaired file system can be checked");
    assert!(after.is_clean(), "{:?} after a repair of {:?}", after.findings, plan.before.findings);
}

/// Returns a clock that shows a time after the images were made.
pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::at(MADE + 1000))
}
