//! Faults of each member of sets of the multi-structured file system, in many workloads.
//!
//! `SPINDLE_SEED` is the seed. `SPINDLE_CASES` is the number of workloads; `SPINDLE_BUDGET`, the
//! number of seconds. Without these a sample is run. `SPINDLE_FAULT` repeats one case, or all of
//! one workload.

use spindle_torture::faults::campaign::Campaign;
use spindle_torture::faults::sets::subject::SetImage;
use spindle_torture::memory::Counting;

#[global_allocator]
static MEMORY: Counting = Counting;

/// Workloads of the sample.
const SAMPLE: u64 = 8;

/// Promise: what there is another copy of, and log storage in use, can fail without anybody
/// noticing; a failed write or flush of anything else is reported, and nothing is changed or
/// acknowledged after it. What was acknowledged is there afterwards, in every copy that counts as
/// whole, and a check finds nothing. Faults that a member does not report cause no panic, no
/// endless loop and no unbounded memory.
#[test]
fn torture_faults_of_members() {
    let report = Campaign::new(SetImage::all()).run_as_wished(SAMPLE);
    print!("{}", report.violation_list());
    println!("{report}");
    assert!(report.violations.is_empty(), "{} violations, listed above", report.violations.len());
}
