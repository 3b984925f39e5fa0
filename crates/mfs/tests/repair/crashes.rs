//! Crashes of the repair itself.

use super::full::{Filled, full, name};
use super::random::{damage, places};
use super::support::{Event, Events, after_cut, cases, clock, recorders};
use super::victim::{Node, Tree, Victim, put};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_conformance::random::seed;
use spindle_device::MemoryDevice;
use spindle_mfs::Set;
use spindle_mfs::check::repair;
use spindle_vfs::FileKind;
use std::collections::BTreeMap;

/// Repairs branches of members, and returns what happens to them.
fn record(media: &[MemoryDevice]) -> Vec<Event> {
    let events = Events::default();
    let set = Set::open(&recorders(media, &events)).unwrap();
    repair(&set, &*clock(), false, 100, &mut |_| ()).unwrap();
    drop(set);
    std::mem::take(&mut *events.lock())
}

/// Returns the names and the content of each file; of directories, only those that are not made by
/// a repair.
fn by_number(tree: &Tree) -> BTreeMap<u64, (Vec<&str>, &Node)> {
    let mut files: BTreeMap<u64, (Vec<&str>, &Node)> = BTreeMap::new();
    for (path, node) in tree.iter().filter(|(path, _)| path != &"/lost+found") {
        files.entry(node.0).or_insert_with(|| (Vec::new(), node)).0.push(path);
    }
    files
}

/// Cuts the power everywhere during a repair of a damaged set, and repairs it again.
fn run(seed: u64, rng: &mut StdRng, victim: &Victim) {
    let media = victim.branch();
    let whole = Victim::of(victim.branch());
    whole.repair(false);
    let expected = whole.tree();
    let events = record(&media);
    for cut in 0..=events.len() {
        let what = format!("seed {seed}, cut {cut} of {}", events.len());
        let mut found = after_cut(&media, &events, cut, rng);
        if rng.random_range(0..4) == 0 {
            // Power is cut again during the second repair.
            let again = record(&found);
            let second = rng.random_range(0..=again.len());
            found = after_cut(&found, &again, second, rng);
        }
        let victim = Victim::of(found);
        let repaired = victim.repair(false);
        assert!(repaired.after.is_clean(), "{what}: {:#?}", repaired.after);
        assert_eq!(victim.findings(), Vec::<String>::new(), "{what}");
        if let [first, second, ..] = &victim.media[..] {
            let (first, second) = (first.to_bytes(), second.to_bytes());
            let area = 64 << 10..first.len() - (64 << 10);
            assert!(first[area.clone()] == second[area], "{what}: the copies of control storage differ");
        }
        compare(&expected, &victim.tree(), &what);
    }
}

/// Checks that a tree has the files of another, with their names and bytes, and no others.
pub fn compare(expected: &Tree, tree: &Tree, what: &str) {
    let (expected, tree) = (by_number(expected), by_number(tree));
    for (ino, (paths, node)) in &expected {
        let Some((others, other)) = tree.get(ino) else { panic!("{what}: {paths:?} is lost") };
        assert!(other == node, "{what}: {paths:?} has changed");
        assert_eq!(others, paths, "{what}: another name");
    }
    let extra = tree.values().filter(|(_, node)| !expected.contains_key(&node.0));
    let extra: Vec<_> = extra.filter(|(_, node)| node.1 != FileKind::Directory).collect();
    assert!(extra.is_empty(), "{what}: {extra:?}");
}

/// Promise: a repair that is cut at any write, with any part of what was not flushed, also twice,
/// is finished by another one: the check is clean, both copies of control storage are the same, and
/// no file is lost that a repair without a cut keeps.
#[test]
fn torture_crashes_of_repairs() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test repair torture_crashes");
    let shapes = [(false, true), (false, false), (true, true), (true, false)];
    let victims = shapes.map(|(many, clean)| Victim::new(many, clean));
    for case in 0..cases(3) {
        let case = seed.wrapping_add(case);
        let mut rng = StdRng::seed_from_u64(case);
        let victim = &victims[rng.random_range(0..victims.len())];
        let places = places(victim);
        let victim = Victim::of(victim.branch());
        for _ in 0..[1, 4, 12, 60][rng.random_range(0..4)] {
            damage(&victim, &places, &mut rng);
        }
        run(case, &mut rng, &victim);
    }
}

/// Promise: the same holds where a name map must be written over the old one.
#[test]
fn torture_crashes_of_repairs_in_place() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test repair torture_crashes");
    let (full, _) = full(Filled::Names);
    for case in 0..cases(3).min(20) {
        let case = seed.wrapping_add(case);
        let mut rng = StdRng::seed_from_u64(case);
        let victim = Victim::of(full.branch());
        let far = |entry: &mut [u8]| put(entry, 8, 1 << 40);
        (0..5).for_each(|_| victim.rename(2, &name(rng.random_range(0..100)), far));
        run(case, &mut rng, &victim);
    }
}
