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
/// Goes through the five phases of the classic checker and tells every kind of damage with what and
/// where. Without -p and -y nothing is changed. They repair the old file systems (V7, 32V to
/// 4.1BSD, System V); of the fast file system this version finds damage but does not repair it yet.
///
/// After a crash a fast file system with a log is as consistent as recovery makes it: -p and -y
/// carry the log out and then look; -n looks at what recovery would make, in memory, and says so.
/// Only what is left then counts as damage.
///
/// A file system that is mounted read-write changes while it is looked at, and is refused.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  there is no damage, or none is left once the log is carried out
    1  there was damage, and it was repaired
    4  there is damage left; with -p and -y also: it is not marked clean, and no log says that it could be
    8  it could not be checked

EXAMPLES
    spindle fsck -n disk.img@s1a
    spindle fsck -n -b 160 --json disk.img | jq '.findings[]'")]
pub struct Args {
    /// Change nothing; this is what happens without -p and -y, too
    #[arg(short = 'n')]
    look_only: bool,
    /// Carry the log out; repair if nothing can be lost by it (old file systems)
    #[arg(short = 'p', short_alias = 'a', conflicts_with = "look_only")]
    preen: bool,
    /// Carry the log out; repair everything (old file systems)
    #[arg(short = 'y', conflicts_with = "look_only")]
    yes: bool,
    /// Use the copy of the superblock at this byte
    #[arg(short = 'b', value_name = "BYTE", value_parser = crate::text::parse_bytes)]
    superblock: Option<u64>,
    /// Take it for this old file system, where damage leaves that in doubt: v7, 32v, bsd, sysv,
    /// sysv16 …, as for newfs
    #[arg(short = 't', value_name = "TYPE")]
    format: Option<Format>,
    /// List at most so many findings
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    limit: usize,
    /// Tell it as JSON
    #[arg(long)]
    json: bool,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE")]
    image: String,
}

impl Args {
    /// As fsck(8) calls its helper for an entry of fstab.
    pub fn from_helper(image: String, look_only: bool, preen: bool, yes: bool) -> Self {
        Self { look_only, preen, yes, superblock: None, format: None, limit: 10_000, json: false, image }
    }
}

/// Exit code for damage that is left.
const EXIT_LEFT: u8 = 4;

#[derive(Serialize)]
struct Told<'a> {
    image: &'a str,
    clean: bool,
    /// What the log says, where that matters.
    log: Option<String>,
    #[serde(flatten)]
    report: &'a Report,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    inner(args).map_err(|failure| match failure.code() {
        EXIT_LEFT => failure,
        _ => failure.with_code(EXIT_OPERATIONAL),
    })
}

fn inner(args: &Args) -> Result<ExitCode> {
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
        out.json(&Told { image, clean: report.is_clean(), log, report: &report })?;
    } else {
        if let Some(log) = log {
            out.line(format!("{image}: {log}"))?;
        }
        show(&mut out, image, &report)?;
    }
    out.finish()?;
    if repairs && !(report.is_clean() && report.marked_clean) {
        let left = "this version does not repair it; the fsck of its own system may";
        return Err(Failure::new(format!("{image}: {left}")).with_code(EXIT_LEFT));
    }
    Ok(ExitCode::from(report.exit_code()))
}

/// Returns the device as the log makes it, in memory only if it is just a trial, and what the log
/// says, where that matters.
fn recover(device: Arc<dyn Device>, trial: bool) -> spindle_vfs::Result<(Arc<dyn Device>, Option<String>)> {
    // What cannot be read is for the check to tell.
    let Ok(superblock) = Superblock::open(&*device) else { return Ok((device, None)) };
    let told = match FoundLog::look(&*device, &superblock)? {
        FoundLog::Recovery(replay) => replay.blocks(),
        FoundLog::Useless(why) if !superblock.is_clean() => return Ok((device, Some(why))),
        _ => return Ok((device, None)),
    };
    if !superblock.objections(&*device)?.is_empty() {
        return Ok((device, Some("what speaks against writing keeps its log from being carried out".into())));
    }
    let (device, told): (Arc<dyn Device>, _) = if trial {
        let told = format!("not unmounted cleanly: checking what its log ({told} blocks) would make of it");
        (Arc::new(CowDevice::new(device)), told)
    } else {
        (device, format!("recovered {told} blocks from the log"))
    };
    Ffs::open(Arc::clone(&device), Arc::new(SystemClock), &spindle_ffs::OpenOptions::default())?.unmount()?;
    Ok((device, Some(told)))
}

fn show(out: &mut Output, image: &str, report: &Report) -> Result<()> {
    if let Some(at) = report.replica {
        out.line(format!("{image}: the superblock cannot be used; taking the copy at byte {at}"))?;
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
        out.line(format!("and {} more", report.unlisted))?;
    }
    out.line(report.usage.to_string())?;
    let marked = if report.marked_clean { "" } else { ", but it is not marked clean" };
    out.line(match report.damages {
        0 => format!("{image}: no damage found{marked}"),
        1 => format!("{image}: 1 damage found"),
        n => format!("{image}: {n} damages found"),
    })
}
