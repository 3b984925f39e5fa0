//! Faults of the device at every request of many workloads.
//!
//! `SPINDLE_SEED` is the seed; `SPINDLE_CASES` strikes so many workloads, `SPINDLE_BUDGET` as many
//! as that many seconds allow, without either a sample; `SPINDLE_FAULT` repeats just one case, or
//! all of one workload.

use rand::{RngCore, SeedableRng};
use spindle_ffs::LogUse;
use spindle_torture::faults::campaign::{Campaign, Id};
use spindle_torture::memory::Counting;
use spindle_torture::workers::Budget;
use std::time::Duration;

#[global_allocator]
static MEMORY: Counting = Counting;

/// Workloads of the sample.
const SAMPLE: u64 = 5;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Promise: a failed read harms nothing; after a failed write or flush nothing is changed or
/// acknowledged any more, reading goes on, and all that was acknowledged is there when the medium
/// is opened by a healthy device; what a device does without reporting it brings no panic, no
/// endless loop and no unbounded memory.
#[test]
fn torture_faults() {
    let campaign = Campaign::new(LogUse::Wanted);
    let report = if let Ok(id) = std::env::var("SPINDLE_FAULT") {
        let id: Id = id.parse().unwrap_or_else(|e| panic!("SPINDLE_FAULT: {e}"));
        campaign.repeat(&id)
    } else {
        let seed = number("SPINDLE_SEED").unwrap_or_else(|| rand::rngs::SmallRng::from_os_rng().next_u64());
        println!("SPINDLE_SEED={seed} cargo test -p spindle-torture --test faults");
        let budget = match (number("SPINDLE_CASES"), number("SPINDLE_BUDGET")) {
            (Some(cases), _) => Budget::Cases(cases),
            (None, Some(seconds)) => Budget::Time(Duration::from_secs(seconds)),
            (None, None) => Budget::Cases(SAMPLE),
        };
        campaign.run(seed, budget)
    };
    print!("{}", report.listed());
    println!("{report}");
    assert!(report.violations.is_empty(), "{} violations, listed above", report.violations.len());
}
