//! The model passes the suite.

use super::{Harness, ModelHarness};
use crate::model::ModelOptions;

fn boxed(options: ModelOptions) -> Box<dyn Harness> {
    Box::new(ModelHarness::new(options, &[]))
}

crate::conformance_tests!(model, || boxed(ModelOptions::default()));
crate::conformance_tests!(old_model, || boxed(ModelOptions::old()));

/// Promise: the model equals itself over any random sequence, with and without the old limits, also
/// on a full disk.
#[test]
fn random_sequences() {
    let seed = crate::random::seed();
    println!("SPINDLE_SEED={seed} repeats this run");
    for options in [ModelOptions::default(), ModelOptions::old()] {
        for seed in [seed, seed / 3 * 3] {
            crate::random::random_run(&mut *boxed(options.clone()), seed, 4000);
        }
    }
}
