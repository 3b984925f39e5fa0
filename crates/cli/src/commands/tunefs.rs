//! `spindle tunefs`

use crate::error::{Context, Failure, Result};
use crate::image::{self, Found, WriteArgs};
use crate::making::{LogSize, clock, make_log, parse_optimization};
use crate::output::Output;
use crate::{partition, text};
use serde::Serialize;
use spindle_device::Device;
use spindle_ffs::newfs::Optimization;
use spindle_ffs::tunefs::{Change, Options, Parameter, Tuning, Value, settings, tune};
use spindle_ffs::{LogPlace, Superblock};
use spindle_report::number;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

/// Tune a file system
///
/// Changes what can still be chosen after newfs: how large clusters are, when a file moves on to
/// another cylinder group, the reserve, what to save, what files are expected, the volume name, and
/// soft updates. All of it stands in the superblock; what is in files already stays where it is.
///
/// Each option tells what it changed. All are checked before anything is written, and the image
/// must not be mounted.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "NOTES
    The option letters are those of FreeBSD; -a is the classic one: on FreeBSD since 5 it is about access control lists.
    A mount takes clusters of maxcontig blocks unless its option cluster= says otherwise.
    The BSDs keep a reserve of 5, 8 or 10 percent; the less there is, the more a full file system scatters its files.
    avgfilesize and avgfpdir are for the BSDs, which place directories by them.

EXIT CODES
    0  done    1  refused or failed    2  the command line makes no sense

EXAMPLES
    spindle tunefs -p disk.img
    spindle tunefs -a 15 -A disk.img@s1a     clusters of 15 blocks, in all superblocks
    spindle tunefs --log=4m disk.img         a log of 4 MiB
    spindle tunefs -m 0 -o space disk.img    no reserve
    spindle tunefs -a 1 -d 4 vax.img         laid out by rotation, as in 1984
    spindle tunefs -p --json disk.img | jq '.settings.maxcontig'")]
pub struct Args {
    /// Blocks in a cluster: those that are laid out and moved together
    #[arg(short = 'a', long, value_name = "BLOCKS", value_parser = parse_maxcontig)]
    maxcontig: Option<u32>,
    /// Milliseconds from one block of a file to the next on a track (UFS1 with a disk geometry)
    #[arg(short = 'd', long, value_name = "MS")]
    rotdelay: Option<u32>,
    /// Blocks that one file may have in a cylinder group before it goes on in another
    #[arg(short = 'e', long, value_name = "BLOCKS")]
    maxbpg: Option<u32>,
    /// Expected size of a file: bytes, with k, m or g for powers of 1024
    #[arg(short = 'f', short_alias = 'g', long, value_name = "BYTES", value_parser = text::parse_small)]
    avgfilesize: Option<u32>,
    /// Free space that only root may use, in percent
    #[arg(short = 'm', long, value_name = "PERCENT")]
    minfree: Option<u32>,
    /// What to save: time or space
    #[arg(short = 'o', long, value_name = "time|space", value_parser = parse_optimization)]
    optimization: Option<Optimization>,
    /// Expected files in a directory
    #[arg(short = 's', long, value_name = "FILES")]
    avgfpdir: Option<u32>,
    /// Volume name: letters, digits, - and _; an empty one takes it off
    #[arg(short = 'L', long, value_name = "NAME")]
    label: Option<String>,
    /// Whether to use soft updates when BSD mounts it: enable or disable
    #[arg(short = 'n', long, value_name = "enable|disable", value_parser = parse_switch)]
    soft_updates: Option<bool>,
    /// Make a log of this size, or as large as a mount would; or take it off (none), which the next
    /// mount that writes undoes unless it has the option nolog
    #[arg(long, value_name = "BYTES|none", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = parse_log)]
    log: Option<LogWish>,
    /// Write all copies of the superblock, even if nothing changes
    #[arg(short = 'A', long)]
    all: bool,
    /// Tell all settings, as they are then
    #[arg(short = 'p', long)]
    print: bool,
    /// Tell it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE")]
    image: String,
}

/// What is to become of the log.
#[derive(Clone, Copy, Debug)]
enum LogWish {
    Off,
    On(LogSize),
}

fn parse_log(text: &str) -> Result<LogWish, String> {
    if text == "none" { Ok(LogWish::Off) } else { text.parse().map(LogWish::On) }
}

fn parse_maxcontig(text: &str) -> Result<u32, String> {
    match text {
        "enable" | "disable" => {
            Err("give a number of blocks; access control lists are not tuned here".into())
        }
        _ => text.parse().map_err(|_| "give a number of blocks".into()),
    }
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "enable" => Ok(true),
        "disable" => Ok(false),
        _ => Err("give enable or disable".into()),
    }
}

#[derive(Serialize)]
struct Told<'a> {
    image: &'a str,
    changes: &'a [Change],
    notes: &'a [String],
    superblock_copies_written: u32,
    settings: BTreeMap<String, Value>,
    /// Where the log is.
    log: Option<LogPlace>,
}

/// What was done, with the superblock as it is then.
struct Done {
    changes: Vec<Change>,
    notes: Vec<String>,
    replicas: u32,
    superblock: Superblock,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let image = &args.image;
    let tuning = args.tuning();
    let looks_only = tuning.is_empty() && !args.all && args.log.is_none();
    if looks_only && !args.print {
        return Err(Failure::usage(format!("{image}: say what to change, or -p to see what is set")));
    }
    let spec = partition::spec(image)?;
    let device = if looks_only {
        image::open_device_unlocked(&spec)?
    } else {
        spec.open(&spindle_device::OpenOptions::read_write())?
    };
    let superblock = match image::detect(&*device).context(image)? {
        Found::Ffs(superblock) => *superblock,
        Found::Old(_) => {
            return Err(Failure::new(format!("{image}: the old file system has nothing to tune")));
        }
    };
    let before = superblock.log_place();
    let mut done = if looks_only {
        Done { changes: Vec::new(), notes: Vec::new(), replicas: 0, superblock }
    } else {
        let options = Options { force: args.write.force, replicas: args.all };
        let report = tune(&*device, &tuning, options).context(image)?;
        Done {
            changes: report.changes,
            notes: report.notes,
            replicas: report.replicas,
            superblock: report.superblock,
        }
    };
    if let Some(wish) = args.log {
        set_log(&device, wish, before, args.write.force).context(image)?;
        done.superblock = Superblock::open(&*device).context(image)?;
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&Told {
            image,
            changes: &done.changes,
            notes: &done.notes,
            superblock_copies_written: done.replicas,
            settings: named(&done.superblock),
            log: done.superblock.log_place(),
        })?;
    } else {
        if args.log.is_some() {
            let (old, new) = (log_words(before), log_words(done.superblock.log_place()));
            out.line(if old == new {
                format!("log remains {new}")
            } else {
                format!("log changes from {old} to {new}")
            })?;
        }
        show(&mut out, args, &done)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a log or takes it off; one of another size is replaced.
fn set_log(device: &Arc<dyn Device>, wish: LogWish, now: Option<LogPlace>, force: bool) -> Result<()> {
    let replaced = match wish {
        LogWish::Off => true,
        LogWish::On(LogSize(bytes)) => bytes.is_some_and(|bytes| now.is_some_and(|now| now.len != bytes)),
    };
    if replaced {
        spindle_ffs::remove_log(device, &clock(None), force)?;
    }
    if let LogWish::On(LogSize(bytes)) = wish {
        make_log(device, None, bytes, None)?;
    }
    Ok(())
}

fn log_words(place: Option<LogPlace>) -> String {
    place.map_or_else(|| "none".into(), |place| number::bytes(place.len))
}

impl Args {
    fn tuning(&self) -> Tuning {
        Tuning {
            maxcontig: self.maxcontig,
            rotdelay_ms: self.rotdelay,
            maxbpg: self.maxbpg,
            avgfilesize: self.avgfilesize,
            minfree: self.minfree,
            optimization: self.optimization,
            avgfpdir: self.avgfpdir,
            label: self.label.clone(),
            soft_updates: self.soft_updates,
        }
    }
}

/// Returns the settings by name, for programs.
fn named(superblock: &Superblock) -> BTreeMap<String, Value> {
    settings(superblock)
        .into_iter()
        .map(|(parameter, value)| (parameter.name().replace(' ', "_"), value))
        .collect()
}

fn show(out: &mut Output, args: &Args, done: &Done) -> Result<()> {
    for change in &done.changes {
        let Change { parameter, old, new } = change;
        let name = parameter.name();
        let (old, new) = (words(*parameter, old), words(*parameter, new));
        out.line(if old == new {
            format!("{name} remains {new}")
        } else {
            format!("{name} changes from {old} to {new}")
        })?;
    }
    if args.all {
        out.line(format!("{} superblock copies written", done.replicas))?;
    }
    for note in &done.notes {
        out.line(format!("note: {note}"))?;
    }
    if args.print {
        for (parameter, value) in settings(&done.superblock) {
            let option = option(parameter);
            out.line(format!("-{option}  {:<13} {}", parameter.name(), words(parameter, &value)))?;
        }
        out.line(format!("--log              {}", log_words(done.superblock.log_place())))?;
    }
    Ok(())
}

/// Returns the option that sets a parameter.
const fn option(parameter: Parameter) -> char {
    match parameter {
        Parameter::Maxcontig => 'a',
        Parameter::Rotdelay => 'd',
        Parameter::Maxbpg => 'e',
        Parameter::Avgfilesize => 'f',
        Parameter::Minfree => 'm',
        Parameter::Optimization => 'o',
        Parameter::Avgfpdir => 's',
        Parameter::Label => 'L',
        Parameter::SoftUpdates => 'n',
    }
}

/// Returns a value with its unit; a volume name can hold anything until it is set here.
fn words(parameter: Parameter, value: &Value) -> String {
    match (parameter, value) {
        (Parameter::Label, Value::Word(name)) => format!("\"{}\"", text::printable(name.as_bytes())),
        (Parameter::Maxcontig | Parameter::Maxbpg, Value::Number(1)) => "1 block".into(),
        _ => format!("{value}{}", parameter.unit()),
    }
}
