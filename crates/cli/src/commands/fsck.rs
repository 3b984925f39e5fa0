//! `spindle fsck`

mod old;

use crate::error::{Context, Failure, Result};
use crate::image::{self, Found};
use crate::output::Output;
use crate::partition;
use serde::Serialize;
use spindle_clock::SystemClock;
use spindle_device::{CowDevice, Device};
use spindle_ffs::check::{EXIT_OPERATIONAL, Options, Phase, Report, Severity, check};
use spindle_ffs::{Ffs, FoundLog, Superblock};
use spindle_v7::Format;
use spindle_vfs::FileSystem;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

/// Check a file system
///
/// Runs the five phases of the classic checker and reports each problem with its place. Without -p
/// and -y nothing is changed. -p and -y repair the old file systems (V7, 32V to 4.1BSD, System V).
/// They do not repair the fast file system yet; this version only finds its problems.
///
/// After a crash, -p and -y first replay the log of a fast file system and then check it. -n
/// replays the log in memory, says so, and checks the result. Only problems that remain after the
/// replay are reported.
///
/// A file system that is mounted read-write is refused, because it changes during the check.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  no problems, or none after the replay of the log
    1  problems were found, and all are repaired
    4  problems remain; with -p and -y also: the file system is not marked clean, and there is
       no log to recover it
    8  the file system could not be checked

EXAMPLES
    spindle fsck -n disk.img@s1a
    spindle fsck -n -b 160 --json disk.img | jq '.findings[]'")]
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
    /// Use the copy of the superblock at this byte
    #[arg(short = 'b', value_name = "BYTE", value_parser = crate::text::parse_bytes)]
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

/// Exit code for problems that remain.
const EXIT_LEFT: u8 = 4;

#[derive(Serialize)]
struct JsonReport<'a> {
    image: &'a str,
    clean: bool,
    /// The effect of the log on the check, if it has one.
    log: Option<String>,
    #[serde(flatten)]
    report: &'a Report,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    fsck(args).map_err(|failure| match failure.code() {
        EXIT_LEFT => failure,
        _ => failure.with_code(EXIT_OPERATIONAL),
    })
}

fn fsck(args: &Args) -> Result<ExitCode> {
    let image = &args.image;
    if args.format.is_some() {
        return old::run(args);
    }
    let spec = partition::spec(image)?;
    let image = &spec.to_string();
    if let Ok(Found::Old(_)) = image::detect(&*image::open_device_unlocked(&spec)?) {
        return old::run(args);
    }
    let repairs = args.preen || args.yes;
    let (device, log) = if repairs {
        recover(spec.open(&spindle_device::OpenOptions::read_write())?, false).context(image)?
    } else {
        recover(image::open_device(&spec)?, true).context(image)?
    };
    let mut out = Output::stdout();
    let options = Options { replica: args.superblock, limit: args.limit };
    let watched = std::io::stderr().is_terminal();
    let mut shown = None::<Phase>;
    let report = check(&*device, &options, &mut |progress| {
        if watched && shown != Some(progress.phase) {
            shown = Some(progress.phase);
            eprintln!("{}", progress.phase);
        }
    })
    .context(image)?;
    if args.json {
        out.json(&JsonReport { image, clean: report.is_clean(), log, report: &report })?;
    } else {
        if let Some(log) = log {
            out.line(format!("{image}: {log}"))?;
        }
        show(&mut out, image, &report)?;
    }
    out.finish()?;
    if repairs && !(report.is_clean() && report.marked_clean) {
        let left =
            "problems remain: this version does not repair UFS; run the fsck of the system that wrote it";
        return Err(Failure::new(format!("{image}: {left}")).with_code(EXIT_LEFT));
    }
    Ok(ExitCode::from(report.exit_code()))
}

/// Replays the log, in memory only if `dry_run`. Returns the device after the replay, and a message
/// about the log, if it affects the check.
fn recover(device: Arc<dyn Device>, dry_run: bool) -> spindle_vfs::Result<(Arc<dyn Device>, Option<String>)> {
    // The check reports an unreadable superblock.
    let Ok(superblock) = Superblock::open(&*device) else { return Ok((device, None)) };
    let blocks = match FoundLog::look(&*device, &superblock)? {
        FoundLog::Recovery(replay) => replay.blocks(),
        FoundLog::Useless(why) if !superblock.is_clean() => return Ok((device, Some(why))),
        _ => return Ok((device, None)),
    };
    if !superblock.objections(&*device)?.is_empty() {
        return Ok((
            device,
            Some(
                "its log cannot be replayed, because the file system cannot be written; see spindle info"
                    .into(),
            ),
        ));
    }
    let (device, note): (Arc<dyn Device>, _) = if dry_run {
        let note =
            format!("not unmounted cleanly: checking the state after replay of its log ({blocks} blocks)");
        (Arc::new(CowDevice::new(device)), note)
    } else {
        (device, format!("recovered {blocks} blocks from the log"))
    };
    Ffs::open(Arc::clone(&device), Arc::new(SystemClock), &spindle_ffs::OpenOptions::default())?.unmount()?;
    Ok((device, Some(note)))
}

fn show(out: &mut Output, image: &str, report: &Report) -> Result<()> {
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
