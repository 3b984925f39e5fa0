//! Repairs that are cut, and repairs that are taken back.

use super::random::cases;
use super::victim::{Tree, damage, planned, repair, tree};
use crate::images::Image;
use crate::tables;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_conformance::cuts::{Event, Recorder, cut};
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::Superblock;
use spindle_ffs::repair::{Plan, Scope, undo};
use std::collections::BTreeSet;

/// Returns what a repair asks of the device, which stays as it is.
pub fn events(plan: &Plan, device: &MemoryDevice) -> Vec<Event> {
    let recorder = Recorder::over(device);
    plan.apply(&recorder).unwrap();
    recorder.events.into_inner()
}

/// Returns the contents of all files by inode; directories by their number alone, and `lost+found`
/// not at all.
fn contents(tree: &Tree, of_before: &BTreeSet<u64>) -> BTreeSet<(u64, Vec<u8>)> {
    let known = tree.values().filter(|file| of_before.contains(&file.ino));
    known.map(|file| (file.ino, file.content.clone())).collect()
}

fn damaged(rng: &mut SmallRng) -> (&'static str, Image, MemoryDevice) {
    loop {
        let all = tables::all();
        let (image, table) = all[rng.random_range(0..all.len())];
        let Some(image) = image else { continue };
        let mut image = image.clone();
        let first = &table[rng.random_range(0..table.len())];
        (first.1)(&mut image);
        if !image.unreadable.is_empty() {
            continue;
        }
        let device = MemoryDevice::from_bytes(&image.bytes);
        if !damage(&device).is_empty() {
            return (first.0, image, device);
        }
    }
}

/// Promise: wherever a repair is cut, and whatever of the writes since the last flush is lost,
/// another repair comes to a file system without damage, with the same contents of all files as
/// the repair that was not cut. From the first change to the last the superblock does not say
/// "clean".
#[test]
fn torture_cut_repairs() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test repair torture_cut_repairs");
    for case in 0..cases(12) {
        let case = seed.wrapping_add(case);
        let mut rng = SmallRng::seed_from_u64(case);
        let (name, _, device) = damaged(&mut rng);
        let plan = planned(&device, Scope::All);
        assert_eq!(plan.refusal, None, "seed {case}: {name}");
        let recorder = Recorder::over(&device);
        plan.apply(&recorder).unwrap();
        let events = recorder.events.lock().clone();
        let whole = tree(&recorder.inner);
        let inodes: BTreeSet<u64> = whole.values().map(|file| file.ino).collect();
        let flushes: Vec<_> = (0..events.len()).filter(|&n| matches!(events[n], Event::Flush)).collect();
        let (first, last) = (flushes[0], flushes[flushes.len() - 2]);
        for end in 1..events.len() {
            let medium = cut(&device, &events, end, &mut rng);
            if (first + 1..=last).contains(&end) {
                assert!(!Superblock::open(&medium).unwrap().is_clean(), "seed {case}: {name}, cut at {end}");
            }
            let again = repair(&medium);
            assert_eq!(again.refusal, None, "seed {case}: {name}, cut at {end}");
            assert_eq!(damage(&medium), Vec::<String>::new(), "seed {case}: {name}, cut at {end}");
            let (ours, theirs) = (contents(&tree(&medium), &inodes), contents(&whole, &inodes));
            let missing: Vec<_> = theirs.difference(&ours).map(|(ino, _)| ino).collect();
            assert!(missing.is_empty(), "seed {case}: {name}, cut at {end}: inodes {missing:?} differ");
        }
    }
}

/// Promise: if a write or a flush fails, once or from then on, a repair and its undoing say so;
/// then another repair comes to a file system without damage, with the same contents of all files,
/// and the undo file to the image as it was.
#[test]
fn torture_failed_repairs() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test repair torture_failed_repairs");
    for case in 0..cases(12) {
        let case = seed.wrapping_add(case);
        let mut rng = SmallRng::seed_from_u64(case);
        let (name, image, device) = damaged(&mut rng);
        let plan = planned(&device, Scope::All);
        let recorder = Recorder::over(&device);
        plan.apply(&recorder).unwrap();
        let count = recorder.events.lock().len();
        let whole = tree(&recorder.inner);
        let inodes: BTreeSet<u64> = whole.values().map(|file| file.ino).collect();
        for _ in 0..8 {
            let at = rng.random_range(0..count);
            let end = if rng.random() { at + 1 } else { usize::MAX };
            let what = format!("seed {case}: {name}, failed at {at} to {end}");
            let failing = Recorder::failing(&device, at..end);
            assert!(plan.apply(&failing).is_err(), "{what}");
            let events = failing.events.into_inner();
            for medium in [failing.inner, cut(&device, &events, events.len(), &mut rng)] {
                let undone = medium.branch();
                undo(&undone, &plan.undo_bytes()).unwrap();
                assert!(undone.to_bytes() == image.bytes, "{what}: taken back");
                assert_eq!(repair(&medium).refusal, None, "{what}");
                assert_eq!(damage(&medium), Vec::<String>::new(), "{what}");
                let (ours, theirs) = (contents(&tree(&medium), &inodes), contents(&whole, &inodes));
                assert!(theirs.is_subset(&ours), "{what}: files differ");
            }
        }
        let undoing = Recorder::over(&recorder.inner);
        undo(&undoing, &plan.undo_bytes()).unwrap();
        let at = rng.random_range(0..undoing.events.lock().len());
        let failing = Recorder::failing(&recorder.inner, at..at + 1);
        assert!(undo(&failing, &plan.undo_bytes()).is_err(), "seed {case}: {name}, failed at {at}");
        undo(&failing.inner, &plan.undo_bytes()).unwrap();
        assert!(failing.inner.to_bytes() == image.bytes, "seed {case}: {name}, failed at {at}");
    }
}

/// Promise: a repair that is taken back leaves every byte as it was, also if the repair or its
/// undoing was cut; an undo file is refused by another image, and by one that was changed since.
#[test]
fn torture_undone_repairs() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test repair torture_undone_repairs");
    for case in 0..cases(20) {
        let case = seed.wrapping_add(case);
        let mut rng = SmallRng::seed_from_u64(case);
        let (name, image, device) = damaged(&mut rng);
        let plan = planned(&device, Scope::All);
        let file = plan.undo_bytes();
        let recorder = Recorder::over(&device);
        plan.apply(&recorder).unwrap();
        let events = recorder.events.lock().clone();
        let medium = cut(&device, &events, rng.random_range(1..=events.len()), &mut rng);
        let undoing = Recorder::over(&medium);
        undo(&undoing, &file).unwrap();
        assert!(undoing.inner.to_bytes() == image.bytes, "seed {case}: {name}");
        let events = undoing.events.lock().clone();
        let medium = cut(&medium, &events, rng.random_range(1..=events.len()), &mut rng);
        undo(&medium, &file).unwrap();
        assert!(medium.to_bytes() == image.bytes, "seed {case}: {name}, cut twice");

        let changed = recorder.inner.branch();
        let Some(Event::Write(at, _)) = events.first() else { panic!("nothing was written") };
        changed.write_at(*at, &[0x77; 512]).unwrap();
        let bytes = changed.to_bytes();
        assert!(undo(&changed, &file).is_err() && changed.to_bytes() == bytes, "seed {case}: {name}");
        let other = MemoryDevice::new(device.info().size_bytes + 512);
        assert!(undo(&other, &file).is_err(), "seed {case}: {name}");
        let mut spoilt = file.clone();
        let n = rng.random_range(0..spoilt.len());
        spoilt[n] ^= 1;
        assert!(undo(&recorder.inner.branch(), &spoilt).is_err(), "seed {case}: {name}");
    }
}
