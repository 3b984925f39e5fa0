//! The table of experiments.

use crate::experiments;
use crate::{Outcome, Result};
use spindle_report::render;

/// Receives the progress of an experiment, from any thread.
pub trait Progress: Sync {
    /// Notes that `done` of `total` equal steps are done, and that `what` has begun.
    fn at(&self, done: u64, total: u64, what: &str);
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn at(&self, _: u64, _: u64, _: &str) {}
}

/// One result of a paper, rerun.
pub struct Experiment {
    /// What it is called on the command line.
    pub id: &'static str,
    /// What it shows, in a line.
    pub title: &'static str,
    /// Authors, name and year of the paper.
    pub paper: &'static str,
    /// Where in it.
    pub section: &'static str,
    /// What stands in for inputs that are lost, and for machines that are gone.
    pub stand_in: &'static str,
    pub(crate) run: fn(&dyn Progress) -> Result<Outcome>,
}

impl Experiment {
    /// Returns what it is, and what came out, as text.
    #[must_use]
    pub fn text(&self, outcome: &Outcome) -> String {
        let Self { id, title, paper, section, stand_in, .. } = self;
        let stand_ins = render::wrapped(&format!("stand-ins: {stand_in}"), "");
        format!("{id}: {title}\n{paper}, {section}\n{stand_ins}\n{}", render::text(outcome))
    }

    /// Carries it out.
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
