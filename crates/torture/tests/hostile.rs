//! Mutated images of every format through everything that can be done with an image.
//!
//! `SPINDLE_SEED` is the seed. `SPINDLE_CASES` is the number of cases; `SPINDLE_BUDGET`, the number
//! of seconds; `SPINDLE_CASE` runs one case only. Without these a sample is run.

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

/// Promise: on any mutated image, opening, reading, changing, unmounting and checking return
/// without a panic or an overflow, within limits of memory and transfers; and reading does not
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
    for (key, (id, failure, count)) in &report.failures {
        println!(
            "\n{key} ({count} cases)\n  while: {}\n  {}\n  image: {}\n  repeat: {}",
            failure.phase,
            failure.what,
            failure.story,
            repeat(seed, *id)
        );
    }
    assert!(report.failures.is_empty(), "{} kinds of failure, listed above", report.failures.len());
    if !matches!(budget, Budget::Only(_)) && report.cases >= SAMPLE {
        // Images that cannot be opened would test nothing.
        assert!(report.opened * 2 > report.cases && report.written * 2 > report.cases, "{report}");
    }
}
