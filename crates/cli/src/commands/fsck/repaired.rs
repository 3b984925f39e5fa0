//! The output of `spindle fsck` for the file systems that it can repair.

use super::exit;
use crate::error::Result;
use crate::output::Output;
use crate::text;
use serde::Serialize;
use spindle::check::{MfsReport, OldReport, Phase, Repaired, Severity};

/// A report that can be shown.
pub trait Shown: Serialize {
    /// Returns the findings that are listed.
    fn findings(&self) -> Vec<(Phase, Severity, String)>;
    /// Returns the number of those that are not.
    fn unlisted(&self) -> u64;
    /// Returns the number of damages.
    fn damages(&self) -> u64;
    /// Returns false if the file system says that it was not unmounted.
    fn marked_clean(&self) -> bool;
    /// Returns the contents in one line.
    fn usage(&self) -> String;
}

/// Implements [`Shown`] for the reports, which have fields of these names.
macro_rules! shown {
    ($($report:ty),*) => {$(
        impl Shown for $report {
            fn findings(&self) -> Vec<(Phase, Severity, String)> {
                self.findings.iter().map(|f| (f.phase, f.severity, f.to_string())).collect()
            }
            fn unlisted(&self) -> u64 {
                self.unlisted
            }
            fn damages(&self) -> u64 {
                self.damages
            }
            fn marked_clean(&self) -> bool {
                self.marked_clean
            }
            fn usage(&self) -> String {
                self.usage.to_string()
            }
        }
    )*};
}

shown!(OldReport, MfsReport);

#[derive(Serialize)]
struct JsonReport<'a, R> {
    image: &'a str,
    clean: bool,
    changed: bool,
    #[serde(flatten)]
    report: &'a R,
    /// The result of a check after the repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a R>,
}

/// Prints the result of a check. Returns the exit code.
pub fn print<R: Shown>(out: &mut Output, json: bool, image: &str, repaired: &Repaired<R>) -> Result<u8> {
    let Repaired { before, after, changed } = repaired;
    let (changed, clean) = (*changed, after.damages() == 0);
    if json {
        let repaired = changed.then_some(after);
        out.json(&JsonReport { image, clean, changed, report: before, after: repaired })?;
    } else {
        show(out, before)?;
        if changed {
            out.line(format!("{image}: FILE SYSTEM WAS MODIFIED"))?;
            show(out, after)?;
        }
        out.line(after.usage())?;
        let marked = if after.marked_clean() { "" } else { ", but it is not marked clean" };
        out.line(match (after.damages(), before.damages()) {
            (0, 0) => format!("{image}: no problems found{marked}"),
            (0, n) => format!("{image}: all problems repaired ({n} found){marked}"),
            (left, _) => format!("{image}: {left} problem{} left", if left == 1 { "" } else { "s" }),
        })?;
    }
    Ok(match (clean, changed && before.damages() > 0) {
        (true, false) => exit::CLEAN,
        (true, true) => exit::REPAIRED,
        (false, _) => exit::LEFT,
    })
}

fn show<R: Shown>(out: &mut Output, report: &R) -> Result<()> {
    let mut last = None;
    for (phase, severity, finding) in report.findings() {
        if last.replace(phase) != Some(phase) {
            out.line(format!("** {phase}"))?;
        }
        let note = if severity == Severity::Note { "note: " } else { "" };
        out.line(format!("{note}{}", text::printable(finding.as_bytes())))?;
    }
    if report.unlisted() > 0 {
        out.line(format!("{} more are not listed", report.unlisted()))?;
    }
    Ok(())
}
