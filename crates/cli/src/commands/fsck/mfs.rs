//! `spindle fsck` of a multi-structured file system.

use super::exit;
use crate::error::Result;
use crate::output::Output;
use crate::text;
use serde::Serialize;
use spindle::check::MfsReport;
use spindle_v7::check::Severity;

#[derive(Serialize)]
struct JsonReport<'a> {
    image: &'a str,
    clean: bool,
    #[serde(flatten)]
    report: &'a MfsReport,
}

/// Prints the result of a check. Returns the exit code.
pub fn print(out: &mut Output, json: bool, image: &str, report: &MfsReport) -> Result<u8> {
    let clean = report.is_clean();
    if json {
        out.json(&JsonReport { image, clean, report })?;
    } else {
        show(out, image, report)?;
    }
    Ok(if clean { exit::CLEAN } else { exit::LEFT })
}

fn show(out: &mut Output, image: &str, report: &MfsReport) -> Result<()> {
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
    let usage = &report.usage;
    out.line(format!(
        "{} files, {} directories, {} blocks used, {} free",
        usage.files, usage.directories, usage.used_blocks, usage.free_blocks
    ))?;
    out.line(match report.damages {
        0 => format!("{image}: no problems found"),
        1 => format!("{image}: 1 problem found"),
        n => format!("{image}: {n} problems found"),
    })
}
