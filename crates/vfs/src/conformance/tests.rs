//! The model passes the suite, and planted bugs do not.

use super::{Feature, Harness};
use crate::FileSystem;
use crate::model::{ModelFs, ModelOptions};
use spindle_clock::ManualClock;
use std::sync::Arc;

/// The model in its own harness.
struct ModelHarness {
    fs: Arc<ModelFs>,
    clock: Arc<ManualClock>,
    lacks: Vec<Feature>,
}

impl ModelHarness {
    fn boxed(options: ModelOptions, lacks: &[Feature]) -> Box<dyn Harness> {
        let clock = Arc::new(ManualClock::at(1_000_000_000));
        let fs = Arc::new(ModelFs::new(options, clock.clone()));
        Box::new(Self { fs, clock, lacks: lacks.to_vec() })
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

crate::conformance_tests!(model, || ModelHarness::boxed(ModelOptions::default(), &[]));
crate::conformance_tests!(old_model, || ModelHarness::boxed(ModelOptions::old(), &[]));
