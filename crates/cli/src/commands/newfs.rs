//! `spindle newfs`

mod mfs;
mod old;

use crate::error::{Context, Failure, Result};
use crate::interrupt;
use crate::mkfs::{FsArgs, Kind, LogSize, make, parse_kind};
use crate::output::Output;
use crate::text;
use crate::timestamp::source_date_epoch;
use serde::Serialize;
use spindle::Spec;
use spindle::detect::version_name;
use spindle::image::log_file;
use spindle::newfs::{Plan, make_log, open_new_ufs, size_of};
use spindle_ffs::{Dialect, LogPlace, log_bytes};
use spindle_report::number;
use spindle_report::render::in_lines;
use std::process::ExitCode;

/// Make a file system
///
/// Makes a Berkeley fast file system, or with -t another one, in IMAGE: a file, a block device or a
/// partition (disk.img@s1a). With -s a missing file is created, as a sparse file. Parameters that
/// are not given follow the newfs of the dialect, which is FreeBSD's unless --dialect or a disk
/// geometry is given.
///
/// An existing file system or partition table is not overwritten unless --force is given, nor a
/// part of a file system that begins before IMAGE on the same disk, or within it.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    after_long_help = "EXAMPLES
    spindle newfs -s 1g disk.img                     UFS2 as FreeBSD makes it
    spindle newfs -s 1g --log disk.img               with a log at once
    spindle newfs -O1 --dialect openbsd disk.img@a   OpenBSD's, in a partition
    spindle newfs -O1 --endian big -s 64m sun.img --dialect sun
    spindle newfs -t v7 -s 2m rk.img                 Seventh Edition
    spindle newfs -t mfs -s 1g disk.img              all parts in one file
    spindle newfs -t mfs --control fast1:1g,fast2:1g --data /dev/sdb --log fast1
                                                     several members
    spindle newfs -N -s 500g -b 65536 -f 65536 x     only show the result"
)]
pub struct Args {
    /// Type of the file system: ffs; mfs, the multi-structured one; or an old one: v7, 32v, bsd
    /// (4.1BSD), sysv, sysv16, with block size and byte order if they are not the usual ones
    /// (sysv-2048-be, v7-le)
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "ffs", value_parser = parse_kind)]
    kind: Kind,
    /// Number of inodes of an old file system (default: that of its mkfs)
    #[arg(long, value_name = "COUNT")]
    inodes: Option<u32>,
    /// Interleave of the free list of an old file system: steps of M blocks, in cylinders of N
    /// blocks
    #[arg(long, value_name = "M/N", value_parser = parse_gap)]
    gap: Option<(u16, u16)>,
    /// Size of the file system: bytes, with k, m, g or t for powers of 1024, or b for sectors of
    /// 512 bytes
    ///
    /// By default the file system uses all of IMAGE.
    #[arg(short = 's', long, value_name = "SIZE", value_parser = text::parse_size)]
    size: Option<u64>,
    /// Show the result, and write nothing
    #[arg(short = 'N', long)]
    dry_run: bool,
    /// Overwrite an existing file system or partition table
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Use this time for all timestamps, in seconds since 1970, and as the seed of random
    /// numbers: gives reproducible images
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    timestamp: Option<i64>,
    /// Create a log, of this size or of the size that a mount would choose; with --control: the
    /// log storage, 1 to 8 files or devices, striped (L0+M0 makes M0 a copy of L0)
    #[arg(short = 'j', long, value_name = "BYTES|L0,L1,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    log: Option<String>,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE", required_unless_present = "control")]
    image: Option<String>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    set: mfs::SetArgs,
    #[command(flatten)]
    fs: FsArgs,
}

fn parse_gap(text: &str) -> Result<(u16, u16), String> {
    let parsed = text.split_once('/').and_then(|(m, n)| Some((m.parse().ok()?, n.parse().ok()?)));
    parsed.ok_or_else(|| "give two numbers, as 3/500".into())
}

/// The new file system, as JSON.
#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    version: &'static str,
    dialect: String,
    #[serde(skip)]
    whose: Dialect,
    inode_format: &'static str,
    #[serde(skip)]
    format: &'static str,
    byte_order: &'static str,
    size_bytes: u64,
    fs_bsize: u32,
    fs_fsize: u32,
    fs_ncg: u32,
    fs_fpg: u32,
    fs_ipg: u32,
    fs_minfree: u32,
    free_bytes: u64,
    free_inodes: i64,
    superblocks: Vec<u64>,
    /// Place of the log, if one was created.
    log: Option<LogPlace>,
    /// Size in bytes of a log that was asked for and not created (dry run).
    planned_log_bytes: Option<u64>,
    notes: &'a [String],
    written: bool,
}

impl Args {
    /// Sets the size in bytes.
    pub fn set_size(&mut self, bytes: u64) {
        self.size = Some(bytes);
    }

    /// Returns the second of all timestamps: that of the option, or of the environment.
    fn timestamp(&self) -> Result<Option<i64>> {
        self.timestamp.map_or_else(source_date_epoch, |secs| Ok(Some(secs)))
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    if let Kind::Mfs = args.kind {
        refuse_old(args)?;
        return mfs::run(args);
    }
    if args.set.is_given() {
        return Err(Failure::usage("members and striping belong to -t mfs"));
    }
    let Some(image) = &args.image else { return Err(Failure::usage("name the image")) };
    let spec = Spec::parse(image)?;
    if let Kind::Old(format) = args.kind {
        if args.log.is_some() {
            return Err(Failure::usage("an old file system cannot have a log"));
        }
        return old::run(args, image, &spec, format);
    }
    refuse_old(args)?;
    let log = args.log.as_deref().map(str::parse).transpose().map_err(Failure::usage)?;
    let ((plan, log_bytes), device) = if args.dry_run {
        // The image need not exist if a size is given.
        let size = args.size.map_or_else(|| size_of(&spec), Ok)?;
        (plan(args, log, size).context(image)?, None)
    } else {
        let (device, created) = open_new_ufs(&spec, args.size, args.force)?;
        let has = device.info().size_bytes;
        let made = plan(args, log, args.size.map_or(has, |size| size.min(has))).context(image);
        (made.inspect_err(|_| created.undo())?, Some((device, created)))
    };
    if let Some((device, created)) = &device {
        make(&plan, &**device, args.timestamp()?).context(image).inspect_err(|_| created.undo())?;
    }
    let mut out = Output::stdout();
    let log = match (&device, log) {
        (Some((device, created)), Some(LogSize(bytes))) => {
            let made = make_log(device, Some(plan.dialect), bytes, args.timestamp()?).context(image);
            Some(made.inspect_err(|_| created.undo())?)
        }
        _ => None,
    };
    let report = Report {
        log,
        planned_log_bytes: log_bytes.filter(|_| log.is_none()),
        ..report_of(image, &plan, device.is_some())
    };
    if args.json {
        out.json(&report)?;
    } else {
        show(&mut out, &report)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses the options that only old file systems have.
fn refuse_old(args: &Args) -> Result<()> {
    if args.inodes.is_some() || args.gap.is_some() {
        return Err(Failure::usage("--inodes and --gap apply only to old file systems; choose one with -t"));
    }
    Ok(())
}

/// Returns the plan of a file system of `size` bytes, and the size in bytes of the log that was
/// asked for.
fn plan(args: &Args, log: Option<LogSize>, size: u64) -> Result<(Plan, Option<u64>)> {
    let plan = Plan::new(&args.fs.parameters(size)).map_err(spindle::Error::from)?;
    let Some(LogSize(asked)) = log else { return Ok((plan, None)) };
    match log_bytes(&plan.layout, asked) {
        None => Err(Failure::new("too small for a log of the default size; choose a size with --log=SIZE")),
        bytes => Ok((plan, bytes)),
    }
}

fn report_of<'a>(image: &'a str, plan: &'a Plan, written: bool) -> Report<'a> {
    let layout = &plan.layout;
    let totals = plan.totals();
    let frags = totals.cs_nbfree * i64::from(layout.fs_frag) + totals.cs_nffree;
    Report {
        image,
        version: text::version_name(layout.version),
        dialect: plan.dialect.to_string(),
        whose: plan.dialect,
        inode_format: text::inode_format(layout.inode_format),
        format: version_name(layout.version, layout.inode_format),
        byte_order: text::endian(layout.endian),
        size_bytes: plan.size_bytes(),
        fs_bsize: layout.fs_bsize,
        fs_fsize: layout.fs_fsize,
        fs_ncg: layout.fs_ncg,
        fs_fpg: layout.fs_fpg,
        fs_ipg: layout.fs_ipg,
        fs_minfree: plan.minfree(),
        free_bytes: u64::try_from(frags).unwrap_or(0) << layout.fs_fshift,
        free_inodes: totals.cs_nifree,
        superblocks: plan.replicas().collect(),
        log: None,
        planned_log_bytes: None,
        notes: &plan.notes,
        written,
    }
}

fn show(out: &mut Output, report: &Report<'_>) -> Result<()> {
    let made = if report.written { "created" } else { "would create" };
    out.line(format!(
        "{}: {made} {} of {}, {}-endian, {}",
        report.image,
        report.format,
        report.dialect,
        report.byte_order,
        number::bytes(report.size_bytes),
    ))?;
    out.line(format!(
        "blocks of {} bytes, fragments of {}, {} of {} with {} inodes, {}% reserve",
        report.fs_bsize,
        report.fs_fsize,
        text::counted(report.fs_ncg, "cylinder group"),
        number::bytes(u64::from(report.fs_fpg) * u64::from(report.fs_fsize)),
        report.fs_ipg,
        report.fs_minfree,
    ))?;
    out.line(format!("free: {}, {} inodes", number::bytes(report.free_bytes), report.free_inodes))?;
    if let Some(log) = report.log {
        out.line(format!("log: {}, {}", number::bytes(log.len), log_file(report.whose)))?;
    }
    if let Some(bytes) = report.planned_log_bytes {
        out.line(format!("log: {}, if that much contiguous space is free", number::bytes(bytes)))?;
    }
    for note in report.notes {
        out.line(format!("note: {note}"))?;
    }
    out.line("superblock copies (for fsck -b) at byte:")?;
    let copies: Vec<String> = report.superblocks.iter().map(u64::to_string).collect();
    for line in in_lines(&copies.join(", "), 79) {
        out.line(format!(" {line}"))?;
    }
    Ok(())
}
