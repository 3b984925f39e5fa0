//! The questions that `spindle fsck` asks on a terminal, one for each kind of problem.

use crate::error::{Failure, Result};
use spindle::check::{FfsFinding, FfsReport, remedy};
use std::collections::HashMap;
use std::io::{BufRead, Write};

/// Answers by kind of problem.
#[derive(Default)]
pub struct Questions {
    answers: HashMap<&'static str, bool>,
}

impl Questions {
    /// Asks about all kinds of problems in a report. Returns true if all may be repaired.
    pub fn ask_all(&mut self, report: &FfsReport) -> Result<bool> {
        for found in &report.findings {
            let Some(remedy) = remedy(&found.finding) else { continue };
            let kind = found.finding.kind();
            if self.answers.contains_key(kind) {
                continue;
            }
            let count = report.findings.iter().filter(|other| other.finding.kind() == kind).count();
            let shown = crate::text::printable(found.to_string().as_bytes());
            let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
            let lost = remedy.lost.map_or(String::new(), |lost| format!("; lost: {lost}"));
            let yes = ask(&format!("{shown}{more}\n{}{lost}?", remedy.repair))
                .map_err(|error| Failure::new(format!("the answer cannot be read: {error}")))?;
            self.answers.insert(kind, yes);
            if !yes {
                return Ok(false);
            }
        }
        Ok(!self.answers.is_empty())
    }

    /// Returns true if a problem may be repaired; asks if none of its kind was there before.
    pub fn ask(&mut self, finding: &FfsFinding) -> bool {
        *self.answers.entry(finding.kind()).or_insert_with(|| {
            let what = remedy(finding).map_or("repair it", |remedy| remedy.repair);
            let shown = crate::text::printable(finding.to_string().as_bytes());
            ask(&format!("{shown}\n{what}?")).unwrap_or(false)
        })
    }
}

/// Asks until the answer is yes or no; at the end of the input it is no.
fn ask(question: &str) -> std::io::Result<bool> {
    loop {
        eprint!("{question} [yn] ");
        std::io::stderr().flush()?;
        let mut answer = String::new();
        if std::io::stdin().lock().read_line(&mut answer)? == 0 {
            return Ok(false);
        }
        match answer.trim() {
            "y" | "Y" | "yes" => return Ok(true),
            "n" | "N" | "no" => return Ok(false),
            _ => {}
        }
    }
}
