//! Faults of the device at every request of many workloads.
//!
//! `SPINDLE_SEED` is the seed. `SPINDLE_CASES` is the number of workloads; `SPINDLE_BUDGET`, the
//! number of seconds. Without these a sample is run. `SPINDLE_FAULT` repeats one case, or all of
//! one workload.

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

/// Promise: a failed read does no harm. After a failed write or flush no change is made or
/// acknowledged any more, reads continue, and everything acknowledged is there when a healthy
/// device opens the medium. Faults that a device does not report cause no panic, no endless loop
/// and no unbounded memory.
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
    print!("{}", report.violation_list());
    println!("{report}");
    assert!(report.violations.is_empty(), "{} violations, listed above", report.violations.len());
}
