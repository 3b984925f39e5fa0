//! Journals that were made to do harm.

use crate::builder::{Crashed, KINDS, Rec, Segment, add, block, cut, found, moved, remove};
use crate::victim::{checked, tree};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_conformance::random::seed;
use spindle_ffs::ondisk::jop;
use spindle_ffs::repair::Journal;

fn cases(default: u64) -> u64 {
    std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

/// Returns a number that is often one that means something.
fn number(rng: &mut SmallRng) -> u64 {
    match rng.random_range(0..4) {
        0 => rng.random_range(0..40),
        1 => 1 << rng.random_range(0..64),
        2 => rng.random_range(0..1 << 24),
        _ => rng.random(),
    }
}

fn record(rng: &mut SmallRng, inodes: u32) -> Rec {
    let mut ino = || {
        let end = if rng.random_bool(0.9) { 40 } else { inodes + 9 };
        rng.random_range(1..end)
    };
    let (ino, dir) = (ino(), ino());
    match rng.random_range(0..60) {
        0..15 => add(ino, dir, number(rng)),
        15..30 => remove(ino, dir, number(rng)),
        30..40 => moved(ino, dir, number(rng), number(rng)),
        40..50 => {
            block(jop::NEWBLK, ino, number(rng) & 0xfff, number(rng).cast_signed(), rng.random_range(0..3))
        }
        50..59 => cut(ino, number(rng)),
        _ => Rec::Unknown(rng.random()),
    }
}

/// Promise: whatever a journal says, a recovery ends, and what it leaves has no damage; no file
/// loses its name.
#[test]
fn torture_journals() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test suj torture_journals");
    let all = KINDS.map(Crashed::new);
    let mut followed = 0;
    for case in 0..cases(60) {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(case));
        let mut crashed = all[rng.random_range(0..all.len())].clone();
        let before = tree(&crashed.device());
        let inodes = crashed.image.layout().inodes();
        let count = rng.random_range(0..20);
        let records: Vec<Rec> = (0..count).map(|_| record(&mut rng, inodes)).collect();
        crashed.segments(0, 512, &[Segment::new(1, &records)]);
        let device = crashed.device();
        if let Journal::Usable(recovery) = found(&device) {
            followed += 1;
            recovery.plan.apply(&device).unwrap();
            assert!(checked(&device).is_clean(), "seed {seed}, case {case}");
            let after = tree(&device);
            assert!(before.keys().eq(after.keys()), "seed {seed}, case {case}");
        } else {
            assert!(device.to_bytes() == crashed.image.bytes, "seed {seed}, case {case}");
        }
    }
    assert!(followed > 0);
}

/// Promise: random bytes in a journal, with the time of the mount in each sector or without, do no
/// harm.
#[test]
fn torture_random_bytes() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test suj torture_random_bytes");
    let all = KINDS.map(Crashed::new);
    for case in 0..cases(20) {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(case));
        let mut crashed = all[rng.random_range(0..all.len())].clone();
        let mut bytes = vec![0; 64 << 10];
        rng.fill(&mut bytes[..]);
        if rng.random() {
            let endian = crashed.image.layout().endian;
            for sector in bytes.chunks_exact_mut(512) {
                let segment = Segment { oldest: 0, ..Segment::new(rng.random_range(0..99), &[]) };
                let head = segment.bytes(512, endian);
                sector[..16].copy_from_slice(&head[..16]);
                sector[24..32].copy_from_slice(&head[24..32]);
                sector[16..20].fill(rng.random_range(0..2));
            }
        }
        crashed.put(0, &bytes);
        let device = crashed.device();
        if let Journal::Usable(recovery) = found(&device) {
            recovery.plan.apply(&device).unwrap();
            assert!(checked(&device).is_clean(), "seed {seed}, case {case}");
        }
    }
}
