//! Mutated images of every format through everything.
//!
//! `SPINDLE_SEED` is the seed; `SPINDLE_CASES` runs so many cases, `SPINDLE_BUDGET` as many as that
//! many seconds allow, `SPINDLE_CASE` just that one; without any, a sample.

use rand::{RngCore, SeedableRng};
use spindle_torture::campaign::{campaign, repeat};
use spindle_torture::memory::Counting;
use spindle_torture::workers::Budget;
use std::time::Duration;

#[global_allocator]
static MEMORY: Counting = Counting;

/// Cases of the sample.
const SAMPLE: u64 = 4000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Promise: on any mutated image, opening, walking, changing, unmounting and checking come back
/// without a panic or an overflow, within bounds of memory and transfers; and reading does not
/// write a byte.
#[test]
fn torture_hostile_images() {
    let seed = number("SPINDLE_SEED").unwrap_or_else(|| rand::rngs::SmallRng::from_os_rng().next_u64());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-torture --test hostile");
    let budget = match (number("SPINDLE_CASE"), number("SPINDLE_CASES"), number("SPINDLE_BUDGET")) {
        (Some(id), ..) => Budget::Only(id),
        (None, Some(cases), _) => Budget::Cases(cases),
        (None, None, Some(seconds)) => Budget::Time(Duration::from_secs(seconds)),
        (None, None, None) => Budget::Cases(SAMPLE),
    };
    let report = campaign(seed, budget);
    println!("{report}");
    for (place, (id, failure, count)) in &report.failures {
        println!(
            "\n{place} ({count} cases)\n  while: {}\n  {}\n  image: {}\n  repeat: {}",
            failure.phase,
            failure.what,
            failure.story,
            repeat(seed, *id)
        );
    }
    assert!(report.failures.is_empty(), "{} kinds of failure, listed above", report.failures.len());
    if !matches!(budget, Budget::Only(_)) && report.cases >= SAMPLE {
        // Mutants that nobody lets in would test nothing.
        assert!(report.opened * 2 > report.cases && report.written * 2 > report.cases, "{report}");
    }
}
