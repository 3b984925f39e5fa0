//! Damage at random.

use super::support::{cases, clock};
use super::victim::{BLOCK, DATA_BASE, Victim, seal};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use spindle_conformance::random::seed;
use spindle_mfs::check::repair;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most bytes that a repair with its checks may read: some times all of control storage.
const READ_MAX: u64 = 12 << 20;

/// A structure that is damaged: its magic, its bytes, its checksum.
type Structure = (&'static [u8], usize, usize);
const STRUCTURES: [Structure; 6] = [
    (b"MCyl", 512, 508),
    (b"MH", 512, 508),
    (b"MO", 512, 508),
    (b"MA", 512, 508),
    (b"MMap", 4096, 4),
    (b"MNam", BLOCK, 20),
];

/// Returns the addresses of all structures of a set.
pub fn places(victim: &Victim) -> Vec<(u64, Structure)> {
    let (space, layout) = (victim.set().space, victim.layout());
    let mut places = Vec::new();
    let control = layout.cylinder_at(layout.cylinders);
    let pages =
        layout.classes.iter().flat_map(|class| (0..class.map_pages).map(|page| class.map_page_at(page)));
    for at in (0..control).step_by(512).chain(pages) {
        let mut bytes = [0; 512];
        spindle_device::Device::read_at(&*space, at, &mut bytes).unwrap();
        let known = STRUCTURES.iter().find(|(magic, ..)| bytes.starts_with(magic));
        places.extend(known.map(|&structure| (at, structure)));
    }
    assert!(places.iter().any(|(at, _)| *at >= DATA_BASE));
    places
}

/// Changes some bytes of a structure, and puts its checksum right in most cases.
pub fn damage(victim: &Victim, places: &[(u64, Structure)], rng: &mut StdRng) {
    // Each kind is as likely as every other.
    let kind = STRUCTURES.choose(rng).unwrap().0;
    let some: Vec<_> = places.iter().filter(|(_, structure)| structure.0 == kind).collect();
    let Some(&&(at, (magic, len, sum))) = some.choose(rng) else { return };
    victim.edit(at, len, None, |bytes| {
        if rng.random_range(0..12) == 0 {
            // A block that was lost or written to the wrong place.
            let from = rng.random_range(0..len / 2);
            bytes[from..].fill(rng.random());
            return;
        }
        for _ in 0..rng.random_range(1..5) {
            // Most of what matters is at the beginning.
            let end = [24, 140, len][rng.random_range(0..3)].min(len);
            let n = rng.random_range(magic.len()..end);
            bytes[n] = match rng.random_range(0..5) {
                0 => 0,
                1 => 0xff,
                2 => bytes[n] ^ 1 << rng.random_range(0..8),
                3 => rng.random_range(0..8),
                _ => rng.random(),
            };
        }
        if rng.random_range(0..8) > 0 {
            seal(bytes, sum);
        }
    });
}

/// Promise: whatever control storage and the allocation map hold, after a repair the check is
/// clean, a mount and a walk through all files work, and a second repair changes nothing. A repair
/// that may lose nothing changes nothing if it cannot repair everything.
#[test]
fn torture_random_damage() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test repair torture_random_damage");
    let victims = [(false, true), (false, false), (true, true), (true, false)];
    let victims = victims.map(|(many, clean)| {
        let victim = Victim::new(many, clean);
        let places = places(&victim);
        (victim, places)
    });
    for case in 0..cases(150) {
        let case = seed.wrapping_add(case);
        let mut rng = StdRng::seed_from_u64(case);
        let (victim, places) = victims.choose(&mut rng).unwrap();
        let mut victim = Victim::of(victim.branch());
        for _ in 0..[1, 1, 2, 4, 12, 60][rng.random_range(0..6)] {
            damage(&victim, places, &mut rng);
        }
        if victim.media.len() > 1 && rng.random_range(0..4) == 0 {
            // A copy of control storage is missing.
            victim.media.remove(rng.random_range(0..2));
        }
        if rng.random() {
            let given = victim.branch();
            let repaired = victim.repair(true);
            assert!(repaired.changed || victim.holds(&given), "seed {case}");
            assert!(repaired.after.is_clean() || !repaired.changed, "seed {case}: {:#?}", repaired.after);
        }
        let read = Arc::default();
        let repaired = repair(&victim.counting(&read), &*clock(), false, 1000, &mut |_| ()).unwrap();
        assert!(repaired.after.is_clean(), "seed {case}: {:#?}", repaired.after);
        let read = read.load(Ordering::Relaxed);
        assert!(read < READ_MAX, "seed {case}: {read} bytes read");
        assert_eq!(victim.findings(), Vec::<String>::new(), "seed {case}");
        let repaired = victim.branch();
        assert!(!victim.repair(false).changed, "seed {case}");
        assert!(victim.holds(&repaired), "seed {case}: a second repair writes");
        victim.tree();
        assert_eq!(victim.findings(), Vec::<String>::new(), "seed {case}, after a mount");
    }
}
