//! The table of experiments.

use crate::experiments;
use crate::{Outcome, Result};
use spindle_report::render;

/// The listener for the progress of an experiment. It is called from any thread.
pub trait Progress: Sync {
    /// Reports that `done` of `total` equal steps are finished, and that `what` is running.
    fn at(&self, done: u64, total: u64, what: &str);
}

/// A listener that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn at(&self, _: u64, _: u64, _: &str) {}
}

/// One result of a paper, rerun.
pub struct Experiment {
    /// Name on the command line.
    pub id: &'static str,
    /// Title, one line.
    pub title: &'static str,
    /// Authors, name and year of the paper.
    pub paper: &'static str,
    /// Section of the paper.
    pub section: &'static str,
    /// The replacements for inputs and machines that no longer exist.
    pub stand_in: &'static str,
    pub(crate) run: fn(&dyn Progress) -> Result<Outcome>,
}

impl Experiment {
    /// Returns the description and the results of an experiment as text.
    #[must_use]
    pub fn text(&self, outcome: &Outcome) -> String {
        let Self { id, title, paper, section, stand_in, .. } = self;
        let source = render::wrapped(&format!("{paper}, {section}"), "");
        let stand_ins = render::wrapped(&format!("stand-ins: {stand_in}"), "");
        format!("{id}: {title}\n{source}\n{stand_ins}\n{}", render::text(outcome))
    }

    /// Runs the experiment.
    ///
    /// # Errors
    /// [`crate::Error`] when a file system under test fails where it should not.
    pub fn run(&self, progress: &dyn Progress) -> Result<Outcome> {
        (self.run)(progress)
    }
}

/// Returns the experiments, in the order of the papers.
#[must_use]
pub const fn all() -> &'static [Experiment] {
    experiments::ALL
}

/// Returns the experiment of that name.
#[must_use]
pub fn find(id: &str) -> Option<&'static Experiment> {
    all().iter().find(|experiment| experiment.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: every name leads to one experiment, and every experiment says where it is from and
    /// what stands in.
    #[test]
    fn names_are_unique() {
        for (n, experiment) in all().iter().enumerate() {
            assert!(all()[..n].iter().all(|other| other.id != experiment.id), "{}", experiment.id);
            assert!(find(experiment.id).is_some());
            assert!(experiment.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            assert!(!experiment.stand_in.is_empty() && !experiment.section.is_empty());
        }
        assert!(find("none").is_none());
    }
}
