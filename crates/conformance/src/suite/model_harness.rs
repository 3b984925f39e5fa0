//! The model file system in a harness.

use super::{Feature, Harness};
use crate::model::{ModelFs, ModelOptions};
use spindle_clock::ManualClock;
use spindle_vfs::FileSystem;
use std::sync::Arc;

/// The model in its own harness.
pub struct ModelHarness {
    fs: Arc<ModelFs>,
    clock: Arc<ManualClock>,
    lacks: Vec<Feature>,
}

impl ModelHarness {
    /// Returns a new model, which refuses what it lacks.
    #[must_use]
    pub fn new(options: ModelOptions, lacks: &[Feature]) -> Self {
        let clock = Arc::new(ManualClock::at(1_000_000_000));
        let fs = Arc::new(ModelFs::new(options, clock.clone()));
        Self { fs, clock, lacks: lacks.to_vec() }
    }

    /// Returns the model itself.
    #[must_use]
    pub const fn model(&self) -> &Arc<ModelFs> {
        &self.fs
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
