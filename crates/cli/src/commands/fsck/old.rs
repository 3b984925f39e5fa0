//! `spindle fsck` of an old file system, including repair.

use super::Args;
use crate::error::{Context, Result};
use crate::image;
use crate::output::Output;
use crate::partition;
use crate::text;
use serde::Serialize;
use spindle_clock::SystemClock;
use spindle_v7::check::{Options, Phase, Repaired, Report, Severity, check, repair};
use std::io::IsTerminal;
use std::process::ExitCode;

#[derive(Serialize)]
struct JsonReport<'a> {
    image: &'a str,
    clean: bool,
    changed: bool,
    #[serde(flatten)]
    report: &'a Report,
    /// The result of a check after the repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a Report>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let image = &args.image;
    let spec = partition::spec(image)?;
    let options = Options { format: args.format, limit: args.limit };
    let watched = std::io::stderr().is_terminal();
    let mut progress = |phase: Phase| {
        if watched {
            eprintln!("{phase}");
        }
    };
    let Repaired { before, after, changed } = if args.preen || args.yes {
        let device = spec.open(&spindle_device::OpenOptions::read_write())?;
        repair(&*device, &SystemClock, &options, args.preen, &mut progress).context(image)?
    } else {
        let report = check(&*image::open_device(&spec)?, &options, &mut progress).context(image)?;
        Repaired { after: report.clone(), before: report, changed: false }
    };
    let mut out = Output::stdout();
    if args.json {
        let clean = after.is_clean();
        let repaired = changed.then_some(&after);
        out.json(&JsonReport { image, clean, changed, report: &before, after: repaired })?;
    } else {
        show(&mut out, &before)?;
        if changed {
            out.line(format!("{image}: FILE SYSTEM WAS MODIFIED"))?;
            show(&mut out, &after)?;
        }
        out.line(after.usage.to_string())?;
        let marked = if after.marked_clean { "" } else { ", but it is not marked clean" };
        out.line(match (after.damages, before.damages) {
            (0, 0) => format!("{image}: no problems found{marked}"),
            (0, n) => format!("{image}: all problems repaired ({n} found){marked}"),
            (left, _) => format!("{image}: {left} problem{} left", if left == 1 { "" } else { "s" }),
        })?;
    }
    out.finish()?;
    Ok(ExitCode::from(match after.exit_code() {
        0 => u8::from(changed),
        code => code,
    }))
}

fn show(out: &mut Output, report: &Report) -> Result<()> {
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
