//! What holds for every experiment.

use spindle_lab::outcome::Verdict;
use spindle_lab::{Silent, all, render};

/// Promise: an experiment gives the same text, JSON and pictures to the byte when it is run again, and every figure of the
/// paper is met within its tolerance or the outcome says why not.
#[test]
fn experiments_repeat() {
    for experiment in all() {
        let [first, second] = [(), ()].map(|()| {
            let outcome = experiment.run(&Silent).unwrap();
            let drawn: Vec<_> = outcome.figures.iter().map(|figure| render::svg(figure).unwrap()).collect();
            (render::text(experiment, &outcome), serde_json::to_string(&outcome).unwrap(), drawn, outcome)
        });
        println!("{}", first.0);
        assert_eq!(first.0, second.0);
        assert_eq!(first.1, second.1);
        assert_eq!(first.2, second.2);
        assert_eq!(first.3.count(Verdict::Outside), 0, "{}", experiment.id);
    }
}
