//! The model passes the suite.

use super::{Feature, Harness};
use crate::FileSystem;
use crate::model::{ModelFs, ModelOptions};
use spindle_clock::ManualClock;
use std::sync::Arc;

/// The model in its own harness.
pub(crate) struct ModelHarness {
    pub(crate) fs: Arc<ModelFs>,
    clock: Arc<ManualClock>,
    lacks: Vec<Feature>,
}

impl ModelHarness {
    pub(crate) fn new(options: ModelOptions, lacks: &[Feature]) -> Self {
        let clock = Arc::new(ManualClock::at(1_000_000_000));
        let fs = Arc::new(ModelFs::new(options, clock.clone()));
        Self { fs, clock, lacks: lacks.to_vec() }
    }

    fn boxed(options: ModelOptions) -> Box<dyn Harness> {
        Box::new(Self::new(options, &[]))
    }
}

impl Harness for ModelHarness {
    fn fs(&self) -> Arc<dyn FileSystem> {
        self.fs.clone()
    }

    fn remount(&mut self) {
        self.fs.remount();
    }

    fn check(&mut self) -> Vec<String> {
        self.fs.remount();
        self.fs.check()
    }

    fn tick(&mut self) -> bool {
        self.clock.advance(1);
        true
    }

    fn lacks(&self) -> &[Feature] {
        &self.lacks
    }
}

crate::conformance_tests!(model, || ModelHarness::boxed(ModelOptions::default()));
crate::conformance_tests!(old_model, || ModelHarness::boxed(ModelOptions::old()));

/// Promise: the model equals itself over any random sequence, with and without the old limits, also
/// on a full disk.
#[test]
fn random_sequences() {
    let seed = crate::random::seed();
    println!("SPINDLE_SEED={seed} repeats this run");
    for options in [ModelOptions::default(), ModelOptions::old()] {
        for seed in [seed, seed / 3 * 3] {
            crate::random::random_run(&mut *ModelHarness::boxed(options.clone()), seed, 4000);
        }
    }
}
