//! Loss of power at every write.

use spindle_ffs::LogUse;
use spindle_torture::crash::explore::{Budget, Explorer};

/// Promise: without a log the explorer sees violations: it can fail. What was unmounted is good all the same.
#[test]
fn sees_that_there_is_no_log() {
    let report = Explorer::new(LogUse::Never).explore(1, Budget::Sample(8));
    assert!(report.violated > 0 && report.violated < report.states, "{report}");
}
