//! `spindle fsck` of an old file system, including repair.

use super::exit;
use crate::error::Result;
use crate::output::Output;
use crate::text;
use serde::Serialize;
use spindle::check::{OldReport, Repaired};
use spindle_v7::check::Severity;

#[derive(Serialize)]
struct JsonReport<'a> {
    image: &'a str,
    clean: bool,
    changed: bool,
    #[serde(flatten)]
    report: &'a OldReport,
    /// The result of a check after the repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a OldReport>,
}

/// Prints the result of a check. Returns the exit code.
pub fn print(out: &mut Output, json: bool, image: &str, repaired: &Repaired) -> Result<u8> {
    let Repaired { before, after, changed } = repaired;
    let changed = *changed;
    if json {
        let clean = after.is_clean();
        let repaired = changed.then_some(after);
        out.json(&JsonReport { image, clean, changed, report: before, after: repaired })?;
    } else {
        show(out, before)?;
        if changed {
            out.line(format!("{image}: FILE SYSTEM WAS MODIFIED"))?;
            show(out, after)?;
        }
        out.line(after.usage.to_string())?;
        let marked = if after.marked_clean { "" } else { ", but it is not marked clean" };
        out.line(match (after.damages, before.damages) {
            (0, 0) => format!("{image}: no problems found{marked}"),
            (0, n) => format!("{image}: all problems repaired ({n} found){marked}"),
            (left, _) => format!("{image}: {left} problem{} left", if left == 1 { "" } else { "s" }),
        })?;
    }
    Ok(match (after.is_clean(), changed) {
        (true, false) => exit::CLEAN,
        (true, true) => exit::REPAIRED,
        (false, _) => exit::LEFT,
    })
}

fn show(out: &mut Output, report: &OldReport) -> Result<()> {
    let mut phase = None;
    for found in &report.findings {
        if phase != Some(found.phase) {
            phase = Some(found.phase);
            out.line(format!("** {}", found.phase))?;
        }
        let note = if found.severity == Severity::Note { "note: " } else { "" };
        out.line(format!("{note}{}", text::printable(found.to_string().as_bytes())))?;
    }
    if report.unlisted > 0 {
        out.line(format!("{} more are not listed", report.unlisted))?;
    }
    Ok(())
}
