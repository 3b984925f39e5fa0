//! What holds for every experiment.

use spindle_lab::{Setting, Silent, all, find};
use spindle_report::render;

/// Experiments that take minutes without optimisation. What they are made of repeats, and so do the
/// quick ones.
const SLOW: [&str; 12] = [
    "ffs-inodes",
    "ffs-table2",
    "ffs-aging",
    "trace-activity",
    "trace-cache",
    "cluster-extents",
    "mfs-workload",
    "mfs-load",
    "mfs-large",
    "mfs-competing",
    "mfs-scaling",
    "beyond",
];

/// Promise: an experiment gives the same text, JSON and pictures to the byte when it is run again,
/// and every figure of the paper is met within its tolerance, or within what a note explains.
#[test]
fn experiments_repeat() {
    assert!(SLOW.iter().all(|id| find(id).is_some()));
    let papers = Setting::default();
    for experiment in all().iter().filter(|experiment| !SLOW.contains(&experiment.id)) {
        let [first, second] = [(), ()].map(|()| {
            let outcome = experiment.run(&papers, &Silent).unwrap();
            let drawn: Vec<_> = outcome.figures.iter().map(|figure| render::svg(figure).unwrap()).collect();
            (experiment.text(&papers, &outcome), serde_json::to_string(&outcome).unwrap(), drawn, outcome)
        });
        assert_eq!(first.0, second.0);
        assert_eq!(first.1, second.1);
        assert_eq!(first.2, second.2);
        assert_eq!(first.3.tally().together().outside, 0, "{}", first.0);
    }
}
