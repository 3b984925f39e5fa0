//! `spindle fsck`

mod old;

use crate::error::{Context, Failure, Result};
use crate::image::{self, Found};
use crate::output::Output;
use serde::Serialize;
use spindle_ffs::check::{EXIT_OPERATIONAL, Options, Phase, Report, Severity, check};
use spindle_v7::Format;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Check a file system
///
/// Goes through the five phases of the classic checker and tells every kind of damage with what and where. Without -p and -y
/// nothing is changed. They repair the old file systems (V7, 32V to 4.1BSD, System V); of the fast file system this version
/// finds damage but does not repair it yet, and they end with exit code 8 without having looked.
///
/// A file system that is mounted read-write changes while it is looked at, and is refused.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  there is no damage
    1  there was damage, and it was repaired
    4  there is damage left
    8  it could not be checked

EXAMPLES
    spindle fsck -n disk.img@s1a
    spindle fsck -n -b 160 --json disk.img | jq '.findings[]'")]
pub struct Args {
    /// Change nothing; this is what happens without -p and -y, too
    #[arg(short = 'n')]
    look_only: bool,
    /// Repair if nothing can be lost by it (old file systems)
    #[arg(short = 'p', short_alias = 'a', conflicts_with = "look_only")]
    preen: bool,
    /// Repair everything (old file systems)
    #[arg(short = 'y', conflicts_with = "look_only")]
    yes: bool,
    /// Use the copy of the superblock at this byte
    #[arg(short = 'b', value_name = "BYTE", value_parser = crate::text::parse_bytes)]
    superblock: Option<u64>,
    /// Take it for this old file system, where damage leaves that in doubt: v7, 32v, bsd, sysv, sysv16 …, as for newfs
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

#[derive(Serialize)]
struct Told<'a> {
    image: &'a str,
    clean: bool,
    #[serde(flatten)]
    report: &'a Report,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    inner(args).map_err(|failure| failure.with_code(EXIT_OPERATIONAL))
}

fn inner(args: &Args) -> Result<ExitCode> {
    let image = &args.image;
    if args.format.is_some() {
        return old::run(args);
    }
    if let Ok(Found::Old(_)) = image::detect(&*image::open_device_unlocked(&image::parse_spec(image)?)?) {
        return old::run(args);
    }
    if args.preen || args.yes {
        return Err(Failure::new(format!(
            "{image}: this version does not repair yet; look with -n, repair with the fsck of its own system"
        )));
    }
    let device = image::open_device(&image::parse_spec(image)?)?;
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
        out.json(&Told { image, clean: report.is_clean(), report: &report })?;
    } else {
        show(&mut out, image, &report)?;
    }
    out.finish()?;
    Ok(ExitCode::from(report.exit_code()))
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
