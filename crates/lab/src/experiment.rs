//! The table of experiments.

use crate::setting::Papers;
use crate::{Error, Outcome, Result, Setting, experiments};
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
    /// The replacements for inputs that no longer exist.
    pub(crate) stand_in: &'static str,
    pub(crate) run: Run,
}

/// How an experiment runs.
pub(crate) enum Run {
    /// In memory, where no time passes.
    InMemory {
        run: fn(&dyn Progress) -> Result<Outcome>,
        /// Why another machine makes no difference.
        why: &'static str,
    },
    /// On the machines of the paper, or on what stands in their place.
    OnMachines {
        run: fn(&Setting, &dyn Progress) -> Result<Outcome>,
        machines: &'static [Papers],
        /// The replacements for machines that no longer exist.
        stand_in: Option<&'static str>,
        /// Why the disks cannot be others.
        fixed_disks: Option<&'static str>,
    },
}

impl Experiment {
    /// Returns the description and the results of an experiment as text.
    #[must_use]
    pub fn text(&self, setting: &Setting, outcome: &Outcome) -> String {
        let Self { id, title, paper, section, .. } = self;
        let source = render::wrapped(&format!("{paper}, {section}"), "");
        let mut lines = format!("{id}: {title}\n{source}\n");
        let stand_ins = format!("stand-ins: {}", self.stand_in(setting));
        let machine = self.machine(setting).map(|machine| {
            format!(
                "machine: {machine}, in place of the paper's, whose figures stand beside for reference \
                 and are no expectation"
            )
        });
        for line in std::iter::once(stand_ins).chain(machine) {
            lines += &render::wrapped(&line, "");
            lines.push('\n');
        }
        lines + &render::text(outcome)
    }

    /// Returns the replacements for inputs and machines that no longer exist.
    #[must_use]
    pub fn stand_in(&self, setting: &Setting) -> String {
        match self.run {
            Run::OnMachines { stand_in: Some(machines), .. } if setting.is_papers() => {
                format!("{}; {machines}", self.stand_in)
            }
            _ => self.stand_in.to_owned(),
        }
    }

    /// Returns the names of disks and hosts, if not all are those of the paper.
    #[must_use]
    pub fn machine(&self, setting: &Setting) -> Option<String> {
        let named = |kind: &str, own: &Option<String>, papers: fn(&Papers) -> &'static str| {
            let mut names = Vec::new();
            for name in self.machines().iter().map(|machine| own.as_deref().unwrap_or(papers(machine))) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            let plural = if names.len() == 1 { "" } else { "s" };
            format!("{kind}{plural} {}", names.join(" and "))
        };
        let disks = named("disk", &setting.disk, |papers| papers.disk);
        let hosts = named("host", &setting.host, |papers| papers.host);
        (!setting.is_papers()).then(|| format!("{disks}, {hosts}"))
    }

    /// Returns the machines that the paper has.
    pub(crate) const fn machines(&self) -> &'static [Papers] {
        match self.run {
            Run::InMemory { .. } => &[],
            Run::OnMachines { machines, .. } => machines,
        }
    }

    /// Checks that the experiment can be run in a setting.
    ///
    /// # Errors
    /// When it has no machine, or no other disk, with the reason; when there is no such preset.
    pub fn check(&self, setting: &Setting) -> Result<()> {
        if setting.is_papers() {
            return Ok(());
        }
        let refused = match self.run {
            Run::InMemory { why, .. } => Some(why),
            Run::OnMachines { fixed_disks, .. } => fixed_disks.filter(|_| setting.disk.is_some()),
        };
        match refused {
            Some(why) => Err(Error::Refused(why)),
            None => setting.check(),
        }
    }

    /// Runs the experiment. On other machines than the paper's nothing is judged, and nothing is
    /// said of what the paper's showed.
    ///
    /// # Errors
    /// As [`Self::check`]; [`Error`] when a file system under test fails where it should not, or
    /// cannot be made on the disk.
    pub fn run(&self, setting: &Setting, progress: &dyn Progress) -> Result<Outcome> {
        self.check(setting)?;
        let outcome = match self.run {
            Run::InMemory { run, .. } => run(progress),
            Run::OnMachines { run, .. } => run(setting, progress),
        }?;
        Ok(if setting.is_papers() {
            outcome
        } else {
            Outcome { findings: Vec::new(), ..outcome.for_reference() }
        })
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
