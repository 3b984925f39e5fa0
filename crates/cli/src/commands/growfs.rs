//! `spindle growfs`

use crate::error::{Context, Failure, Result};
use crate::image::{self, log_note};
use crate::output::Output;
use crate::progress::Progress;
use crate::{interrupt, logger, text};
use serde::Serialize;
use spindle::LogNote;
use spindle::check::LogEffect;
use spindle::control::{Name, Request, request};
use spindle::growfs::{Growing, Planned, Resize, Shrinking};
use spindle::set;
use spindle_device::{Claim, Spec};
use spindle_report::number;
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Make a UFS larger or smaller
///
/// The file system grows to the end of its file, partition or device, or to the size that is given.
/// A file that holds nothing but the file system becomes longer if that takes it. The file system
/// is checked first, and must be without problems; what is in its log is replayed. It may be
/// mounted, also to become larger: programs that use it wait meanwhile, and files that were removed
/// must not be open.
///
/// Everything is planned in memory, and checked there, before the file system is changed. If
/// growing is interrupted, repair the file system (fsck -y), which loses nothing, and grow it
/// again.
///
/// With --shrink it becomes smaller: at most as large as the size that is given, or as small as can
/// be done. What lies behind the new end is moved before it. Files whose inodes are in cylinder
/// groups that go get other inodes: clients of NFS have to look them up again, and the next dump
/// should be one of level 0. If shrinking is interrupted, fsck -p or another growfs --shrink
/// finishes it, or nothing has happened; until then nobody can mount the file system, and no other
/// system may repair it. A file keeps its length, unless --truncate is given.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done, or there was nothing to do
    1  refused or failed
    2  invalid command line

EXAMPLES
    spindle growfs -s 4g disk.img
    spindle growfs -N disk.img@s1a
    spindle growfs -y /dev/sdb@p2
    spindle growfs --shrink -N disk.img          shows the smallest size
    spindle growfs --shrink -s 2g --truncate disk.img
    spindle growfs --shrink -s 2g --undo disk.undo disk.img")]
pub struct Args {
    /// The size of the file system: bytes, with k, m, g or t for powers of 1024, or b for sectors
    /// of 512 bytes
    #[arg(short = 's', long, value_name = "SIZE", value_parser = text::parse_size)]
    size: Option<u64>,
    /// Make it smaller: to SIZE, or as small as can be done
    #[arg(long)]
    shrink: bool,
    /// Cut the file off where the smaller file system ends; not later, when what lies behind that
    /// may be somebody's
    #[arg(long, requires = "shrink", conflicts_with = "undo")]
    truncate: bool,
    /// Before it is made smaller, make FILE, with which that can be taken back (fsck --undo-with),
    /// as long as nothing is written behind the new end
    #[arg(long, value_name = "FILE", requires = "shrink", conflicts_with = "dry_run")]
    undo: Option<PathBuf>,
    /// Show the result, and write nothing
    #[arg(short = 'N', long)]
    dry_run: bool,
    /// Grow over another file system
    ///
    /// Without this option, space that another file system has is not taken, on a disk or in a file
    /// without partitions: it is looked for in the first gigabyte of data there.
    #[arg(long, conflicts_with = "shrink")]
    force: bool,
    /// Ask nothing
    #[arg(short = 'y', long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE")]
    image: String,
}

#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    #[serde(flatten)]
    growth: Resize,
    /// Files that get other inodes, if it becomes smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_inodes: Option<usize>,
    /// Bytes of files that are moved then.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_bytes: Option<u64>,
    written: bool,
}

/// The report of a change that was interrupted before.
#[derive(Serialize)]
struct Finished<'a> {
    image: &'a str,
    /// It is finished now.
    finished: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    let image = &args.image;
    let spec = image::find(image)?;
    if args.shrink {
        return shrink(args, &spec);
    }
    let growing = Growing::plan(&spec, args.size, args.force)?;
    let growth = growing.growth;
    let written = !growth.is_nothing() && !args.dry_run;
    if args.dry_run && !Name::of_image(&spec)?.is_taken() {
        growing.examine()?;
    }
    if written {
        if !args.yes && std::io::stdin().is_terminal() && !agreed("Grow", image, &growth)? {
            return Err(Failure::new(format!("{image}: not changed")));
        }
        grow(args, &spec, &growing)?;
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&Report { image, growth, moved_inodes: None, moved_bytes: None, written })?;
    } else {
        show(&mut out, image, &growth, ("grown", "grow"), written)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Makes it larger, or has the process do it that has mounted it.
fn grow(args: &Args, spec: &Spec, growing: &Growing) -> Result<()> {
    let bar = Progress::of_fraction("growing");
    #[allow(clippy::cast_precision_loss)] // For people.
    let show = |done: u64, total: u64| {
        bar.set_fraction(Some(done as f64 / total.max(1) as f64));
        interrupt::check()
    };
    let asked = Request::Grow { size: args.size, force: args.force };
    let mut each_group = |progress: set::Progress| show(progress.done, progress.total);
    if request::<Resize>(&Name::of_image(spec)?, &asked, &mut each_group).context(spec)?.is_some() {
        return Ok(());
    }
    let grown = growing.grow(Claim::Kept, &mut |done, total| show(done.into(), total.into()))?;
    if let Some(blocks) = grown.recovered {
        logger::note(format_args!("{}: {}", args.image, log_note(&LogNote::Recovered { blocks })));
    }
    Ok(())
}

/// Makes it smaller.
fn shrink(args: &Args, spec: &Spec) -> Result<ExitCode> {
    let image = &args.image;
    let shrinking = Shrinking::plan(spec, args.size, args.dry_run)?;
    if let Some(blocks) = shrinking.recovered.filter(|_| !args.dry_run) {
        logger::note(format_args!("{image}: {}", log_note(&LogNote::Recovered { blocks })));
    }
    let mut out = Output::stdout();
    let Some(growth) = shrinking.sizes() else {
        if args.json {
            out.json(&Finished { image, finished: !args.dry_run })?;
        } else if args.dry_run {
            out.line(format!("{image}: would finish changing its size, which was interrupted"))?;
        } else {
            out.line(format!("{image}: {}", LogEffect::Resized))?;
        }
        out.finish()?;
        return Ok(ExitCode::SUCCESS);
    };
    let written = !growth.is_nothing() && !args.dry_run;
    if args.truncate {
        shrinking.check_truncation()?;
    }
    if written && !args.yes && std::io::stdin().is_terminal() && !agreed("Shrink", image, &growth)? {
        return Err(Failure::new(format!("{image}: not changed")));
    }
    if !args.dry_run {
        let bar = Progress::of_fraction("moving");
        #[allow(clippy::cast_precision_loss)] // For people.
        shrinking.apply(args.undo.as_deref(), args.truncate, &mut |done, total| {
            bar.set_fraction(Some(done as f64 / total.max(1) as f64));
            interrupt::check()
        })?;
    }
    let (moved_inodes, moved_bytes) = match &shrinking.plan {
        Planned::Smaller(plan) => (plan.moved_inodes, plan.moved_bytes),
        Planned::Nothing(_) | Planned::Finished => (0, 0),
    };
    if args.json {
        let (moved_inodes, moved_bytes) = (Some(moved_inodes), Some(moved_bytes));
        out.json(&Report { image, growth, moved_inodes, moved_bytes, written })?;
    } else {
        show(&mut out, image, &growth, ("shrunk", "shrink"), written)?;
        if moved_inodes > 0 {
            let files = text::counted(moved_inodes as u64, "file");
            let verb = if written { "got" } else { "would get" };
            out.line(format!("{image}: {files} {verb} another inode"))?;
        }
        if let Some((left, end)) = shrinking.left_behind()?.filter(|_| !args.dry_run) {
            let left = number::bytes(left);
            out.line(format!(
                "{image}: the file keeps {left} behind its file system; truncate -s {end} cuts them off"
            ))?;
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Asks, as growfs of FreeBSD does.
fn agreed(verb: &str, image: &str, growth: &Resize) -> Result<bool> {
    let (old, new) = (number::bytes(growth.old_bytes), number::bytes(growth.new_bytes));
    eprint!("A backup is a good idea. {verb} {image} from {old} to {new}? [yes/no] ");
    let mut answer = String::new();
    let read = std::io::stderr().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    read.context("the answer cannot be read")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

fn show(
    out: &mut Output,
    image: &str,
    growth: &Resize,
    (done, planned): (&str, &str),
    written: bool,
) -> Result<()> {
    let (old, new) = (number::bytes(growth.old_bytes), number::bytes(growth.new_bytes));
    if growth.is_nothing() {
        let what =
            if done == "grown" { "has all the space already" } else { "nothing to do, it stays as it is" };
        out.line(format!("{image}: {what} ({old})"))?;
    } else {
        let verb = if written { done.to_owned() } else { format!("would {planned}") };
        let groups = format!(
            "{} instead of {}",
            text::counted(growth.new_groups, "cylinder group"),
            growth.old_groups
        );
        out.line(format!("{image}: {verb} from {old} to {new}, {groups}"))?;
    }
    if growth.unused_bytes > 0 {
        let unused = number::bytes(growth.unused_bytes);
        out.line(format!("{image}: {unused} at the end are too few for a cylinder group and stay unused"))?;
    }
    Ok(())
}
