//! Logs that were made to do harm.

use crate::builder::{DIALECTS, IDENT, Logged, Piece, planned};
use crate::victim::{checked, tree};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_conformance::random::seed;
use spindle_ffs::ondisk::Delta;

fn piece(rng: &mut SmallRng) -> Piece {
    let at = if rng.random() { rng.random_range(0..16 << 20) } else { rng.random::<u64>() >> 1 };
    let len = rng.random_range(0..8192);
    match rng.random_range(0..20) {
        0..6 => Piece::Data(at, vec![rng.random(); usize::try_from(len).unwrap()]),
        6..10 => Piece::Zeros(at, len),
        10..13 => Piece::Cancel(at, len),
        13..18 => Piece::Commit,
        _ => Piece::Raw(Delta { d_mof: rng.random(), d_nb: rng.random(), d_typ: rng.random_range(-1..20) }),
    }
}

/// Promise: whatever a log says, reading ends, and what a recovery leaves has no damage.
#[test]
fn torture_logs() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test lufs torture_logs");
    let cases = std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    let all = DIALECTS.map(|dialect| Logged::new(dialect, |_| ()));
    for case in 0..cases {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(case));
        let mut logged = all[rng.random_range(0..2)].clone();
        let pieces: Vec<_> = (0..rng.random_range(0..8)).map(|_| piece(&mut rng)).collect();
        logged.pieces(1024, IDENT, &pieces);
        if rng.random_bool(0.3) {
            let lof = rng.random_range(0..logged.end() / 512) * 512;
            let mut sector = [0; 512];
            rng.fill(&mut sector[..]);
            logged.sector(lof, &sector);
        }
        let device = logged.device();
        if let Ok(recovery) = planned(&device) {
            recovery.plan.apply(&device).unwrap();
            assert!(checked(&device).is_clean(), "seed {seed}, case {case}");
            tree(&device);
        } else {
            assert!(device.to_bytes() == logged.image.bytes, "seed {seed}, case {case}");
        }
    }
}
