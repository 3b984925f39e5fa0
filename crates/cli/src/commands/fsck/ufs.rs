//! The output of `spindle fsck` for the fast file system.

use crate::error::Result;
use crate::output::Output;
use serde::Serialize;
use serde_json::Value;
use spindle::check::{FfsFinding, FfsRepair, FfsReport, LogEffect, Marking, Severity, remedy};
use spindle::image::reasons;
use std::collections::HashMap;

#[derive(Serialize)]
struct JsonReport<'a> {
    image: &'a str,
    clean: bool,
    changed: bool,
    /// The effect of the log on the check, if it has one.
    log: Option<String>,
    /// The reason why there is no repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a str>,
    #[serde(flatten)]
    report: Value,
    /// The result of a check after the repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a FfsReport>,
}

/// Prints the result of a check.
pub fn print(
    out: &mut Output,
    json: bool,
    image: &str,
    report: &FfsReport,
    log: Option<&LogEffect>,
    marking: &Marking,
    repair: &FfsRepair,
) -> Result<()> {
    if json {
        let (refused, after) = match repair {
            FfsRepair::None => (None, None),
            FfsRepair::Refused(reason) => (Some(reason.as_str()), None),
            FfsRepair::Done(after) => (None, Some(&**after)),
        };
        let changed = after.is_some() || *marking == Marking::Marked;
        let clean = after.unwrap_or(report).is_clean();
        let (log, report) = (log.map(ToString::to_string), with_remedies(report));
        return out.json(&JsonReport { image, clean, changed, log, refused, report, after });
    }
    show(out, image, report, log)?;
    show_result(out, image, report, repair)?;
    match marking {
        Marking::Unchanged => Ok(()),
        Marking::Marked => out.line(format!("{image}: marked clean")),
        Marking::Refused(objections) => {
            out.line(format!("{image}: cannot be marked clean: {}", reasons(objections)))
        }
    }
}

/// Returns a report whose findings say what a repair does about them, and what is lost.
fn with_remedies(report: &FfsReport) -> Value {
    let mut value = serde_json::to_value(report).unwrap_or_default();
    if let Some(findings) = value.get_mut("findings").and_then(Value::as_array_mut) {
        for (value, found) in findings.iter_mut().zip(&report.findings) {
            let remedy = remedy(&found.finding).and_then(|remedy| serde_json::to_value(remedy).ok());
            if let (Some(finding), Some(Value::Object(remedy))) = (value.as_object_mut(), remedy) {
                finding.extend(remedy);
            }
        }
    }
    value
}

/// Prints the findings of a check.
pub fn show(out: &mut Output, image: &str, report: &FfsReport, log: Option<&LogEffect>) -> Result<()> {
    if let Some(log) = log {
        out.line(format!("{image}: {log}"))?;
    }
    if let Some(at) = report.replica {
        let mut findings = report.findings.iter().map(|found| &found.finding);
        let unusable = findings.any(|finding| matches!(finding, FfsFinding::SuperblockUnusable { .. }));
        let why = if unusable { "the superblock cannot be used; " } else { "" };
        out.line(format!("{image}: {why}using the copy at byte {at}"))?;
    }
    let mut phase = None;
    let mut folded = HashMap::new();
    if !log::log_enabled!(log::Level::Info) {
        for hint in report.findings.iter().filter_map(|found| found.finding.hint()) {
            *folded.entry(hint).or_insert(0) += 1;
        }
    }
    for found in &report.findings {
        // Of many hints of a kind the first one stands for all.
        let hints = found.finding.hint().and_then(|hint| Some((hint, folded.get_mut(hint)?)));
        let line = match hints {
            Some((_, 0)) => continue,
            Some((hint, count)) if *count > 1 => {
                format!("{} {hint} (-v lists them)", std::mem::take(count))
            }
            _ => found.to_string(),
        };
        if phase != Some(found.phase) {
            phase = Some(found.phase);
            out.line(format!("** {}", found.phase))?;
        }
        let note = if found.severity == Severity::Note { "note: " } else { "" };
        out.line(format!("{note}{}", crate::text::printable(line.as_bytes())))?;
    }
    if report.unlisted > 0 {
        out.line(format!("{} more are not listed", report.unlisted))?;
    }
    Ok(())
}

/// Prints how a check and a repair have ended.
pub fn show_result(out: &mut Output, image: &str, report: &FfsReport, repair: &FfsRepair) -> Result<()> {
    let found = match report.damages {
        0 => {
            let marked = if report.marked_clean { "" } else { ", but it is not marked clean" };
            format!("no problems found{marked}")
        }
        1 => "1 problem found".into(),
        n => format!("{n} problems found"),
    };
    if let FfsRepair::Done(after) = repair {
        out.line(format!("{image}: FILE SYSTEM WAS MODIFIED"))?;
        out.line(after.usage.to_string())?;
        return out.line(format!("{image}: all problems repaired ({} found)", report.damages));
    }
    out.line(report.usage.to_string())?;
    out.line(format!("{image}: {found}"))
}
