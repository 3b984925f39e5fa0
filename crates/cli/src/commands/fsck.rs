//! `spindle fsck`

mod repaired;

use crate::error::{Failure, Result};
use crate::output::Output;
use serde::Serialize;
use spindle::check::{Checked, FfsReport, LogEffect, Marking, Options, Repair, check};
use spindle::image::reasons;
use spindle::partition;
use spindle_ffs::check::Severity;
use spindle_v7::Format;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Check a file system
///
/// Runs the five phases of the classic checker and reports each problem with its place. Without -p
/// and -y nothing is changed. -p and -y repair the old file systems (V7, 32V to 4.1BSD, System V)
/// and the multi-structured one. They do not repair the fast file system yet; this version only
/// finds its problems, and marks it clean if there are none.
///
/// After a crash, -p and -y first replay the log of a file system that has one, and then check it.
/// -n replays the log in memory, says so, and checks the result. Only problems that remain after
/// the replay are reported.
///
/// A file system that is mounted read-write is refused, because it changes during the check.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  no problems, or none after the replay of the log
    1  problems were found, and all are repaired
    4  problems remain; with -p and -y also: the file system cannot be marked clean
    8  the file system could not be checked

EXAMPLES
    spindle fsck -n disk.img@s1a
    spindle fsck -n -b 192 --json disk.img | jq '.findings[]'")]
pub struct Args {
    /// Change nothing (the default)
    #[arg(short = 'n')]
    check_only: bool,
    /// Replay the log; repair what can be repaired without loss (old file systems)
    #[arg(short = 'p', short_alias = 'a', conflicts_with = "check_only")]
    preen: bool,
    /// Replay the log; repair everything (old file systems)
    #[arg(short = 'y', conflicts_with = "check_only")]
    yes: bool,
    /// Use the copy of the superblock at this place: a sector of 512 bytes, as BSD counts, or a
    /// byte
    #[arg(short = 'b', value_name = "PLACE", value_parser = crate::text::parse_bytes)]
    superblock: Option<u64>,
    /// Type of an old file system, if damage prevents its detection: v7, 32v, bsd, sysv, sysv16
    /// …, as for newfs
    #[arg(short = 't', value_name = "TYPE")]
    format: Option<Format>,
    /// List at most this many problems and notes
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE")]
    image: String,
}

impl Args {
    /// Returns the arguments with which fsck(8) calls its helper.
    pub fn from_helper(image: String, check_only: bool, preen: bool, yes: bool) -> Self {
        Self { check_only, preen, yes, superblock: None, format: None, limit: 10_000, json: false, image }
    }
}

/// Exit codes of `fsck(8)`.
mod exit {
    /// No problems, or none after the replay of the log.
    pub const CLEAN: u8 = 0;
    /// Problems were found, and all are repaired.
    pub const REPAIRED: u8 = 1;
    /// Problems remain.
    pub const LEFT: u8 = 4;
    /// The check could not be made.
    pub const OPERATIONAL: u8 = 8;
}

#[derive(Serialize)]
struct JsonReport<'a> {
    image: &'a str,
    clean: bool,
    /// The effect of the log on the check, if it has one.
    log: Option<String>,
    #[serde(flatten)]
    report: &'a FfsReport,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    fsck(args).map(ExitCode::from).map_err(|failure| match failure.code() {
        exit::LEFT => failure,
        _ => failure.with_code(exit::OPERATIONAL),
    })
}

/// Returns the exit code.
fn fsck(args: &Args) -> Result<u8> {
    // If the type of an old file system is given, a whole disk is taken as it is.
    let spec = partition::find(&args.image)?;
    let options = Options {
        repair: match (args.yes, args.preen) {
            (true, _) => Repair::Yes,
            (false, true) => Repair::Preen,
            (false, false) => Repair::No,
        },
        superblock: args.superblock,
        format: args.format,
        limit: args.limit,
    };
    let watched = std::io::stderr().is_terminal();
    let checked = check(&spec, &options, &mut |phase| {
        if watched {
            eprintln!("{phase}");
        }
    })?;
    let image = &spec.to_string();
    let mut out = Output::stdout();
    let code = match &checked {
        Checked::Old(report) => repaired::print(&mut out, args.json, image, report)?,
        Checked::Mfs(report) => repaired::print(&mut out, args.json, image, report)?,
        Checked::Ffs { report, log, marking } => {
            print(&mut out, args.json, image, report, log.as_ref(), marking)?;
            if report.is_clean() { exit::CLEAN } else { exit::LEFT }
        }
    };
    out.finish()?;
    if options.repair != Repair::No
        && let Checked::Ffs { report, marking, .. } = &checked
        && !(report.is_clean() && report.marked_clean)
    {
        let left = if matches!(marking, Marking::Refused(_)) {
            "is not marked clean"
        } else {
            "problems remain: this version does not repair UFS; run the fsck of the system that wrote it"
        };
        return Err(Failure::new(format!("{image}: {left}")).with_code(exit::LEFT));
    }
    Ok(code)
}

fn print(
    out: &mut Output,
    json: bool,
    image: &str,
    report: &FfsReport,
    log: Option<&LogEffect>,
    marking: &Marking,
) -> Result<()> {
    let log = log.map(ToString::to_string);
    if json {
        return out.json(&JsonReport { image, clean: report.is_clean(), log, report });
    }
    if let Some(log) = log {
        out.line(format!("{image}: {log}"))?;
    }
    show(out, image, report)?;
    match marking {
        Marking::Unchanged => Ok(()),
        Marking::Marked => out.line(format!("{image}: marked clean")),
        Marking::Refused(objections) => {
            out.line(format!("{image}: cannot be marked clean: {}", reasons(objections)))
        }
    }
}

fn show(out: &mut Output, image: &str, report: &FfsReport) -> Result<()> {
    if let Some(at) = report.replica {
        out.line(format!("{image}: the superblock cannot be used; using the copy at byte {at}"))?;
    }
    let mut phase = None;
    for found in &report.findings {
        if phase != Some(found.phase) {
            phase = Some(found.phase);
            out.line(format!("** {}", found.phase))?;
        }
        let note = if found.severity == Severity::Note { "note: " } else { "" };
        out.line(format!("{note}{}", crate::text::printable(found.to_string().as_bytes())))?;
    }
    if report.unlisted > 0 {
        out.line(format!("{} more are not listed", report.unlisted))?;
    }
    out.line(report.usage.to_string())?;
    let marked = if report.marked_clean { "" } else { ", but it is not marked clean" };
    out.line(match report.damages {
        0 => format!("{image}: no problems found{marked}"),
        1 => format!("{image}: 1 problem found"),
        n => format!("{image}: {n} problems found"),
    })
}
