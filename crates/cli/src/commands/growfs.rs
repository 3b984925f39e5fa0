//! `spindle growfs`

use crate::error::{Context, Failure, Result};
use crate::image::{self, log_note};
use crate::output::Output;
use crate::progress::Progress;
use crate::{interrupt, logger, text};
use serde::Serialize;
use spindle::LogNote;
use spindle::growfs::{Resize, examine, grow, plan};
use spindle_report::number;
use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

/// Make a UFS larger
///
/// The file system grows to the end of its file, partition or device, or to the size that is given.
/// A file that holds nothing but the file system becomes longer if that takes it. The file system
/// must not be mounted. It is checked first, and must be without problems; what is in its log is
/// replayed.
///
/// Everything is planned in memory, and checked there, before the file system is changed. If
/// growing is interrupted, repair the file system (fsck -y), which loses nothing, and grow it
/// again. File systems are not made smaller.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done, or there was nothing to do
    1  refused or failed
    2  invalid command line

EXAMPLES
    spindle growfs -s 4g disk.img
    spindle growfs -N disk.img@s1a
    spindle growfs -y /dev/sdb@p2")]
pub struct Args {
    /// The size of the file system: bytes, with k, m, g or t for powers of 1024, or b for sectors
    /// of 512 bytes
    #[arg(short = 's', long, value_name = "SIZE", value_parser = text::parse_size)]
    size: Option<u64>,
    /// Show the result, and write nothing
    #[arg(short = 'N', long)]
    dry_run: bool,
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
    written: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    let image = &args.image;
    let spec = image::find(image)?;
    let growth = plan(&spec, args.size)?;
    let written = !growth.is_nothing() && !args.dry_run;
    if args.dry_run {
        examine(&spec, &growth)?;
    }
    if written {
        if !args.yes && std::io::stdin().is_terminal() && !agreed(image, &growth)? {
            return Err(Failure::new(format!("{image}: not changed")));
        }
        let bar = Progress::of_fraction("growing");
        let grown = grow(&spec, args.size, &mut |done, total| {
            bar.set_fraction(Some(f64::from(done) / f64::from(total)));
            interrupt::check()
        })?;
        if let Some(blocks) = grown.recovered {
            logger::note(format_args!("{image}: {}", log_note(&LogNote::Recovered { blocks })));
        }
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&Report { image, growth, written })?;
    } else {
        show(&mut out, image, &growth, written)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Asks, as growfs of FreeBSD does.
fn agreed(image: &str, growth: &Resize) -> Result<bool> {
    let (old, new) = (number::bytes(growth.old_bytes), number::bytes(growth.new_bytes));
    eprint!("A backup is a good idea. Grow {image} from {old} to {new}? [yes/no] ");
    let mut answer = String::new();
    let read = std::io::stderr().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    read.context("the answer cannot be read")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

fn show(out: &mut Output, image: &str, growth: &Resize, written: bool) -> Result<()> {
    let (old, new) = (number::bytes(growth.old_bytes), number::bytes(growth.new_bytes));
    if growth.is_nothing() {
        out.line(format!("{image}: has all the space already ({old})"))?;
    } else {
        let verb = if written { "grown" } else { "would grow" };
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
