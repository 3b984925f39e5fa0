//! `spindle fsck`

mod questions;
mod repaired;
mod ufs;

use crate::error::{Context, Failure, Result};
use crate::interruptible::Interruptible;
use crate::output::Output;
use crate::{image, interrupt, mount_point, text};
use questions::Questions;
use spindle::Spec;
use spindle::check::{
    Checked, FfsRepair, Marking, Options, Repair, check, check_and_ask, check_device, undo,
};
use spindle::detect::Kind;
use spindle::snapshot::Held;
use spindle_device::Device;
use spindle_v7::Format;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Name of the snapshot that -B checks, until it is open, as on FreeBSD.
const SNAPSHOT: &str = "fsck_snapshot";

/// Check a file system
///
/// Runs the five phases of the classic checker and reports each problem with its place. -y repairs
/// everything, -p only if nothing can be lost by that. Without them nothing is changed, except that
/// on a terminal fsck asks whether it should repair a fast file system, for each kind of problem.
/// Files that have lost their names are in lost+found afterwards.
///
/// The repair of a fast file system is planned in memory, and checked there, before anything is
/// written: it leaves no problem, or changes nothing and prints the reason. With --undo it can be
/// taken back. That of an old file system is planned in memory, too, but leaves what cannot be
/// repaired, and repairs the rest. If a repair is interrupted, repair again.
///
/// After a crash, -p and -y first replay the log of a file system that has one, or recover with
/// the journal of FreeBSD's soft updates or the log of Solaris, and then check it. -n does so in
/// memory, says so, and checks the result. Only problems that remain are reported. With -b no
/// journal of another system is followed.
///
/// A file system that is mounted read-write is refused, because it changes during the check. -B
/// checks a snapshot of it instead, which is removed in the end, and repairs nothing. This needs
/// the directory .snap of the mount, and the right to make a file there.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  no problems, or none after the replay of the log
    1  problems were found, and all are repaired
    4  problems remain; with -p and -y also: the file system cannot be repaired, or cannot be
       marked clean
    8  the file system could not be checked; the repair could not be taken back

EXAMPLES
    spindle fsck -n disk.img@s1a
    spindle fsck -n -b 192 --json disk.img | jq '.findings[]'
    spindle fsck -B /home
    spindle fsck -y --undo disk.undo disk.img
    spindle fsck --undo-with disk.undo disk.img")]
pub struct Args {
    /// Change nothing, and ask nothing (the default without a terminal)
    #[arg(short = 'n')]
    check_only: bool,
    /// Replay the log; repair, if nothing can be lost by that
    #[arg(short = 'p', short_alias = 'a', conflicts_with = "check_only")]
    preen: bool,
    /// Replay the log; repair everything
    #[arg(short = 'y', conflicts_with = "check_only")]
    yes: bool,
    /// Check a snapshot of the file system, if it is mounted read-write; change nothing
    #[arg(short = 'B', conflicts_with_all = ["preen", "yes", "undo", "undo_with", "superblock", "format", "dialect"])]
    background: bool,
    /// Check even what is marked clean, as fsck always does
    #[arg(short = 'f')]
    force: bool,
    /// Use the copy of the superblock at this place: a sector of 512 bytes, as BSD counts, or a
    /// byte
    #[arg(short = 'b', value_name = "PLACE", value_parser = crate::text::parse_bytes)]
    superblock: Option<u64>,
    /// Type of an old file system, if damage prevents its detection: v7, 32v, bsd, sysv, sysv16
    /// …, as for newfs
    #[arg(short = 't', value_name = "TYPE")]
    format: Option<Format>,
    /// The system of the file system, if detection is in doubt: freebsd, netbsd, openbsd, sun,
    /// apple …; or the type of an old one, as with -t
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Kind>, conflicts_with = "format")]
    dialect: Option<Kind>,
    /// List at most this many problems and notes
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    limit: usize,
    /// Before a fast file system is repaired, make FILE, with which that can be taken back
    #[arg(long, value_name = "FILE", conflicts_with = "check_only")]
    undo: Option<PathBuf>,
    /// Take a repair back, with the file that it has made
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check_only", "preen", "yes", "undo", "superblock", "format", "dialect", "json"])]
    undo_with: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The file, block device or partition, or the directory that it is mounted on
    #[arg(value_name = "IMAGE")]
    image: String,
}

impl Args {
    /// Returns the arguments with which fsck(8) calls its helper.
    pub fn from_helper(image: String, check_only: bool, preen: bool, yes: bool) -> Self {
        Self {
            check_only,
            preen,
            yes,
            background: false,
            force: false,
            superblock: None,
            format: None,
            dialect: None,
            limit: 10_000,
            undo: None,
            undo_with: None,
            json: false,
            image,
        }
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
    let spec = image::find(&args.image)?;
    if let Some(file) = &args.undo_with {
        let sectors = undo(&spec, file)?;
        let mut out = Output::stdout();
        let sectors = text::counted(sectors as u64, "sector");
        out.line(format!("{spec}: the repair is taken back: {sectors} written"))?;
        out.finish()?;
        return Ok(exit::CLEAN);
    }
    let mut options = Options {
        repair: match (args.yes, args.preen) {
            (true, _) => Repair::Yes,
            (false, true) => Repair::Preen,
            (false, false) => Repair::No,
        },
        superblock: args.superblock,
        format: args.format.or(match args.dialect {
            Some(Kind::Old(format)) => Some(format),
            Some(Kind::Ffs(_)) | None => None,
        }),
        dialect: match args.dialect {
            Some(Kind::Ffs(dialect)) => Some(dialect),
            Some(Kind::Old(_)) | None => None,
        },
        limit: args.limit,
        undo: args.undo.clone(),
    };
    let watched = std::io::stderr().is_terminal();
    let mut phase = |phase: &dyn std::fmt::Display| {
        if watched {
            eprintln!("{phase}");
        }
    };
    let image = &spec.to_string();
    let held = if args.background { hold(&spec)? } else { None };
    let mut checked = if let Some(held) = &held {
        let device: Arc<dyn Device> = Arc::new(Interruptible(Arc::clone(held.device())));
        let checked = check_device(&device, &options, &mut phase);
        interrupt::check()?;
        checked.context(image)?
    } else {
        if options.repair == Repair::No {
            mount_point::refuse_changing(&spec, "check a snapshot of it (-B)")?;
        }
        check(&spec, &options, &mut phase)?
    };
    let is_held = held.is_some();
    drop(held);
    let mut out = Output::stdout();
    let asks = !(args.check_only || args.background || args.json)
        && options.repair == Repair::No
        && std::io::stdin().is_terminal();
    if let (true, Checked::Ffs { report, log, .. }) = (asks, &checked)
        && !report.is_clean()
    {
        ufs::show(&mut out, image, report, log.as_ref())?;
        out.finish()?;
        let mut questions = Questions::default();
        if questions.ask_all(report)? {
            options.repair = Repair::Yes;
            checked = check_and_ask(&spec, &options, &mut |finding| questions.ask(finding), &mut phase)?;
        }
        out = Output::stdout();
        if let Checked::Ffs { report, repair, .. } = &checked {
            ufs::show_result(&mut out, image, report, repair)?;
        }
    } else {
        match &checked {
            Checked::Old(report) => return finish(out, |out| repaired::print(out, args.json, image, report)),
            Checked::Mfs(report) => return finish(out, |out| repaired::print(out, args.json, image, report)),
            Checked::Ffs { report, log, marking, repair } => {
                if is_held && !args.json {
                    out.line(format!("{image}: is mounted; checking a snapshot of it"))?;
                }
                ufs::print(&mut out, args.json, image, report, log.as_ref(), marking, repair)?;
                if is_held && !args.json && !report.is_clean() {
                    out.line(format!("{image}: to repair it, unmount it: spindle fsck -y {image}"))?;
                }
            }
        }
    }
    out.finish()?;
    let Checked::Ffs { report, marking, repair, .. } = &checked else { return Ok(exit::CLEAN) };
    match repair {
        FfsRepair::Done(_) => Ok(exit::REPAIRED),
        FfsRepair::Refused(reason) => {
            Err(Failure::new(format!("{image}: cannot repair: {reason}")).with_code(exit::LEFT))
        }
        FfsRepair::None if matches!(marking, Marking::Refused(_)) => {
            Err(Failure::new(format!("{image}: is not marked clean")).with_code(exit::LEFT))
        }
        FfsRepair::None => Ok(if report.is_clean() { exit::CLEAN } else { exit::LEFT }),
    }
}

/// Returns a snapshot of a file system that is mounted read-write; none of what can be checked
/// itself.
fn hold(spec: &Spec) -> Result<Option<Held>> {
    interrupt::watch()?;
    Held::make(spec, SNAPSHOT, &mut interrupt::check).map_err(|error| {
        Failure::from(match interrupt::received() {
            Some(_) => error,
            None => spindle::Error::new(format!("{error}; or unmount it to check it")),
        })
    })
}

/// Prints, and returns what the printing returns.
fn finish(mut out: Output, print: impl FnOnce(&mut Output) -> Result<u8>) -> Result<u8> {
    let code = print(&mut out)?;
    out.finish()?;
    Ok(code)
}
