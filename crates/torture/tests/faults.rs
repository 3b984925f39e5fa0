//! Faults of the device at every request of many workloads.
//!
//! `SPINDLE_SEED` is the seed. `SPINDLE_CASES` is the number of workloads; `SPINDLE_BUDGET`, the
//! number of seconds. Without these a sample is run. `SPINDLE_FAULT` repeats one case, or all of
//! one workload.

use spindle_ffs::LogUse;
use spindle_torture::crash::images::Image;
use spindle_torture::faults::campaign::Campaign;
use spindle_torture::memory::Counting;

#[global_allocator]
static MEMORY: Counting = Counting;

/// Workloads of the sample.
const SAMPLE: u64 = 5;

/// Promise: a failed read does no harm. After a failed write or flush no change is made or
/// acknowledged any more, reads continue, and everything acknowledged is there when a healthy
/// device opens the medium. Faults that a device does not report cause no panic, no endless loop
/// and no unbounded memory.
#[test]
fn torture_faults() {
    let mut images = Image::all(LogUse::Wanted);
    if is_repetition() {
        images.extend(Image::for_snapshots());
    }
    run(images);
}

/// Promise: the same while snapshots are made and removed: what is left of one that could not be
/// made is freed, and each that is there holds the tree of the moment when it was made.
#[test]
fn torture_snapshot_faults() {
    // The other test repeats cases of all images.
    if !is_repetition() {
        run(Image::for_snapshots());
    }
}

/// Returns true if one case or workload is to be repeated.
fn is_repetition() -> bool {
    std::env::var_os("SPINDLE_FAULT").is_some()
}

/// Runs a campaign, which must find nothing.
fn run(images: Vec<Image>) {
    let report = Campaign::new(images).run_as_wished(SAMPLE);
    print!("{}", report.violation_list());
    println!("{report}");
    assert!(report.violations.is_empty(), "{} violations, listed above", report.violations.len());
}
