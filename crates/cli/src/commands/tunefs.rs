//! `spindle tunefs`

use crate::error::{Context, Failure, Result};
use crate::image::{self, WriteArgs, log_note};
use crate::logger;
use crate::mkfs::{LogSize, parse_optimization};
use crate::output::Output;
use crate::text;
use serde::Serialize;
use spindle::LogNote;
use spindle::control::{Name, Request, request};
use spindle::detect::{Found, detect};
use spindle::image::open_device_unlocked;
use spindle::newfs::{clock, make_log};
use spindle_device::{CowDevice, Device, Spec};
use spindle_ffs::newfs::Optimization;
use spindle_ffs::tunefs::{Change, Options, Parameter, Tuned, Tuning, Value, settings, tune};
use spindle_ffs::{FoundLog, LogPlace, Superblock, recover};
use spindle_report::number;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

/// Tune a file system
///
/// Changes the parameters that can be changed after newfs: the cluster size, the blocks of a file
/// in one cylinder group, the reserve, the optimisation, expected files, the volume name, soft
/// updates, and access control lists. They are stored in the superblock; blocks of existing files
/// are not moved.
///
/// Each change is printed. All options are checked before anything is written. The reserve (-m),
/// the optimisation (-o) and the rotational delay (-d) can be changed while the file system is
/// mounted, by root and by the user who mounted it: it obeys at once. For all others it must not be
/// mounted.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "NOTES
    The option letters are those of FreeBSD. With a number -a sets maxcontig, as in older systems;
    with enable or disable it switches POSIX.1e access control lists on or off, as in FreeBSD 5 and
    later. Lists that exist stay where they are, and are not obeyed while they are off.
    A mount uses clusters of maxcontig blocks unless the option cluster= is given.
    The BSDs keep a reserve of 5, 8 or 10 percent. With a smaller reserve, a full file system
    scatters its files more.
    avgfilesize and avgfpdir are used by the BSDs, which place directories by them.

EXIT CODES
    0  done    1  refused or failed    2  invalid command line

EXAMPLES
    spindle tunefs -p disk.img
    spindle tunefs -a 15 -A disk.img@s1a     clusters of 15 blocks
    spindle tunefs --log=4m disk.img         a log of 4 MiB
    spindle tunefs -m 0 -o space disk.img    no reserve
    spindle tunefs -a enable disk.img        getfacl and setfacl on its mounts
    spindle tunefs -a 1 -d 4 vax.img         laid out by rotation, as in 1984
    spindle tunefs -p --json disk.img | jq '.settings.maxcontig'")]
pub struct Args {
    /// Blocks in a cluster: they are allocated contiguously and move in one transfer. Or POSIX.1e
    /// access control lists (UFS2 of FreeBSD, UFS2ea of NetBSD)
    #[arg(short = 'a', long, value_name = "BLOCKS|enable|disable", value_parser = parse_clusters_or_acls)]
    maxcontig: Vec<ClustersOrAcls>,
    /// Milliseconds from one block of a file to the next on a track (UFS1 with a disk geometry)
    #[arg(short = 'd', long, value_name = "MS")]
    rotdelay: Option<u32>,
    /// Blocks that one file may have in a cylinder group before it continues in another
    #[arg(short = 'e', long, value_name = "BLOCKS")]
    maxbpg: Option<u32>,
    /// Expected size of a file: bytes, with k, m or g for powers of 1024
    #[arg(short = 'f', short_alias = 'g', long, value_name = "BYTES", value_parser = text::parse_small)]
    avgfilesize: Option<u32>,
    /// Free space that only root may use, in percent
    #[arg(short = 'm', long, value_name = "PERCENT")]
    minfree: Option<u32>,
    /// Optimise for time or for space
    #[arg(short = 'o', long, value_name = "time|space", value_parser = parse_optimization)]
    optimization: Option<Optimization>,
    /// Expected number of files in a directory
    #[arg(short = 's', long, value_name = "FILES")]
    avgfpdir: Option<u32>,
    /// Volume name: letters, digits, - and _; an empty name removes it
    #[arg(short = 'L', long, value_name = "NAME")]
    label: Option<String>,
    /// Enable or disable soft updates for mounts by BSD
    #[arg(short = 'n', long, value_name = "enable|disable", value_parser = parse_switch)]
    soft_updates: Option<bool>,
    /// Enable or disable NFSv4 access control lists
    #[arg(short = 'N', long, value_name = "enable|disable", value_parser = parse_switch)]
    nfs4_acls: Option<bool>,
    /// Create a log of this size, or of the size that a mount would choose, or remove it
    /// (none); the next mount creates it again unless it has the option nolog
    #[arg(long, value_name = "BYTES|none", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = parse_log)]
    log: Option<LogChange>,
    /// Write all copies of the superblock, even if nothing changes
    #[arg(short = 'A', long)]
    all: bool,
    /// Print all settings, after the changes
    #[arg(short = 'p', long)]
    print: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// The file, block device or partition, or the directory where it is mounted
    #[arg(value_name = "IMAGE|DIR")]
    image: String,
}

/// A change of the log.
#[derive(Clone, Copy, Debug)]
enum LogChange {
    Remove,
    Create(LogSize),
}

fn parse_log(text: &str) -> Result<LogChange, String> {
    if text == "none" { Ok(LogChange::Remove) } else { text.parse().map(LogChange::Create) }
}

/// The two meanings of `-a`.
#[derive(Clone, Copy, Debug)]
enum ClustersOrAcls {
    /// Blocks in a cluster.
    Blocks(u32),
    /// Lists of POSIX.1e.
    Acls(bool),
}

fn parse_clusters_or_acls(text: &str) -> Result<ClustersOrAcls, String> {
    match (parse_switch(text), text.parse()) {
        (Ok(on), _) => Ok(ClustersOrAcls::Acls(on)),
        (_, Ok(blocks)) => Ok(ClustersOrAcls::Blocks(blocks)),
        _ => Err("give a number of blocks, or enable or disable for access control lists".into()),
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
struct Report<'a> {
    image: &'a str,
    changes: &'a [Change],
    notes: &'a [String],
    superblock_copies_written: u32,
    settings: BTreeMap<String, Value>,
    /// Place of the log.
    log: Option<LogPlace>,
}

/// The changes that were made, and the superblock after them.
struct Outcome {
    changes: Vec<Change>,
    notes: Vec<String>,
    replicas: u32,
    superblock: Superblock,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let image = &args.image;
    let tuning = args.tuning();
    let read_only = tuning.is_empty() && !args.all && args.log.is_none();
    if read_only && !args.print {
        return Err(Failure::usage(format!(
            "{image}: nothing to change; give an option, or -p to print the settings"
        )));
    }
    let spec = image::find(image)?;
    if !read_only && let Some(outcome) = tune_mount(args, &spec, &tuning)? {
        report(args, &outcome)?;
        return Ok(ExitCode::SUCCESS);
    }
    let device = if read_only {
        open_device_unlocked(&spec)?
    } else {
        spec.open(&spindle_device::OpenOptions::read_write())?
    };
    let superblock = match detect(&*device).context(image)? {
        Found::Ffs(superblock) => *superblock,
        Found::Old(_) => {
            return Err(Failure::new(format!("{image}: an old file system has nothing to tune")));
        }
        Found::Mfs(_) => {
            return Err(Failure::new(format!("{image}: a multi-structured file system has nothing to tune")));
        }
    };
    let before = superblock.log_place();
    let mut outcome = if read_only {
        Outcome { changes: Vec::new(), notes: Vec::new(), replicas: 0, superblock }
    } else {
        let options = Options { force: args.write.force, replicas: args.all };
        if let FoundLog::Recovery(replay) = FoundLog::look(&*device, &superblock).context(image)? {
            let blocks = replay.blocks();
            recover(&device, &clock(None), args.write.force).context(image)?;
            logger::note(format_args!("{image}: {}", log_note(&LogNote::Recovered { blocks })));
        }
        if let Some(change) = args.log {
            // Whatever refuses it is met before anything is written.
            let rehearsal: Arc<dyn Device> = Arc::new(CowDevice::new(device.clone()));
            tune(&*rehearsal, &tuning, options).context(image)?;
            set_log(&rehearsal, change, before, args.write.force).context(image)?;
        }
        let report = tune(&*device, &tuning, options).context(image)?;
        Outcome {
            changes: report.changes,
            notes: report.notes,
            replicas: report.replicas,
            superblock: report.superblock,
        }
    };
    if let Some(change) = args.log {
        set_log(&device, change, before, args.write.force).context(image)?;
        outcome.superblock = Superblock::open(&*device).context(image)?;
    }
    if args.log.is_some() && !args.json {
        let (old, new) = (log_text(before), log_text(outcome.superblock.log_place()));
        let mut out = Output::stdout();
        out.line(if old == new {
            format!("log remains {new}")
        } else {
            format!("log changes from {old} to {new}")
        })?;
        out.finish()?;
    }
    report(args, &outcome)?;
    Ok(ExitCode::SUCCESS)
}

/// Has the process that has mounted the image tune it. Returns none if it is not mounted.
fn tune_mount(args: &Args, spec: &Spec, tuning: &Tuning) -> Result<Option<Outcome>> {
    let name = Name::of_image(spec)?;
    let asked = Request::Tune(tuning.clone());
    if args.all || args.log.is_some() {
        let option = if args.all { "-A" } else { "--log" };
        let refused = "is for file systems that are not mounted; unmount it first";
        return if name.is_taken() {
            Err(Failure::new(format!("{spec}: {option} {refused}")))
        } else {
            Ok(None)
        };
    }
    let Some(Tuned { changes, notes }) = request(&name, &asked, &mut |_| Ok(())).context(spec)? else {
        return Ok(None);
    };
    let superblock = Superblock::open(&*open_device_unlocked(spec)?).context(spec)?;
    Ok(Some(Outcome { changes, notes, replicas: 0, superblock }))
}

/// Prints what was changed.
fn report(args: &Args, outcome: &Outcome) -> Result<()> {
    let mut out = Output::stdout();
    if args.json {
        out.json(&Report {
            image: &args.image,
            changes: &outcome.changes,
            notes: &outcome.notes,
            superblock_copies_written: outcome.replicas,
            settings: named(&outcome.superblock),
            log: outcome.superblock.log_place(),
        })?;
    } else {
        show(&mut out, args, outcome)?;
    }
    out.finish()
}

/// Creates or removes the log; a log of another size is replaced.
fn set_log(device: &Arc<dyn Device>, change: LogChange, now: Option<LogPlace>, force: bool) -> Result<()> {
    let replaced = match change {
        LogChange::Remove => true,
        LogChange::Create(LogSize(bytes)) => {
            bytes.is_some_and(|bytes| now.is_some_and(|now| now.len != bytes))
        }
    };
    if replaced {
        spindle_ffs::remove_log(device, &clock(None), force)?;
    }
    if let LogChange::Create(LogSize(bytes)) = change {
        make_log(device, None, bytes, None)?;
    }
    Ok(())
}

fn log_text(place: Option<LogPlace>) -> String {
    place.map_or_else(|| "none".into(), |place| number::bytes(place.len))
}

impl Args {
    fn tuning(&self) -> Tuning {
        Tuning {
            maxcontig: self.maxcontig.iter().rev().find_map(|value| match value {
                ClustersOrAcls::Blocks(blocks) => Some(*blocks),
                ClustersOrAcls::Acls(_) => None,
            }),
            rotdelay_ms: self.rotdelay,
            maxbpg: self.maxbpg,
            avgfilesize: self.avgfilesize,
            minfree: self.minfree,
            optimization: self.optimization,
            avgfpdir: self.avgfpdir,
            label: self.label.clone(),
            soft_updates: self.soft_updates,
            posix_acls: self.maxcontig.iter().rev().find_map(|value| match value {
                ClustersOrAcls::Acls(on) => Some(*on),
                ClustersOrAcls::Blocks(_) => None,
            }),
            nfs4_acls: self.nfs4_acls,
        }
    }
}

/// Returns the settings by name, for JSON.
fn named(superblock: &Superblock) -> BTreeMap<String, Value> {
    settings(superblock)
        .into_iter()
        .map(|(parameter, value)| (parameter.name().replace(' ', "_"), value))
        .collect()
}

fn show(out: &mut Output, args: &Args, outcome: &Outcome) -> Result<()> {
    for change in &outcome.changes {
        let Change { parameter, old, new } = change;
        let name = parameter.name();
        let (old, new) = (value_text(*parameter, old), value_text(*parameter, new));
        out.line(if old == new {
            format!("{name} remains {new}")
        } else {
            format!("{name} changes from {old} to {new}")
        })?;
    }
    if args.all {
        let copies = if outcome.replicas == 1 { "copy" } else { "copies" };
        out.line(format!("{} superblock {copies} written", outcome.replicas))?;
    }
    for note in &outcome.notes {
        out.line(format!("note: {note}"))?;
    }
    if args.print {
        for (parameter, value) in settings(&outcome.superblock) {
            let option = option(parameter);
            out.line(format!("-{option}  {:<13} {}", parameter.name(), value_text(parameter, &value)))?;
        }
        out.line(format!("--log              {}", log_text(outcome.superblock.log_place())))?;
    }
    Ok(())
}

/// Returns the option that sets a parameter.
const fn option(parameter: Parameter) -> char {
    match parameter {
        Parameter::Maxcontig | Parameter::PosixAcls => 'a',
        Parameter::Rotdelay => 'd',
        Parameter::Maxbpg => 'e',
        Parameter::Avgfilesize => 'f',
        Parameter::Minfree => 'm',
        Parameter::Optimization => 'o',
        Parameter::Avgfpdir => 's',
        Parameter::Label => 'L',
        Parameter::SoftUpdates => 'n',
        Parameter::Nfs4Acls => 'N',
    }
}

/// Returns a value with its unit. A volume name is escaped, because another system may have set it.
fn value_text(parameter: Parameter, value: &Value) -> String {
    match (parameter, value) {
        (Parameter::Label, Value::Word(name)) => format!("\"{}\"", text::printable(name.as_bytes())),
        (Parameter::Maxcontig | Parameter::Maxbpg, Value::Number(1)) => "1 block".into(),
        _ => format!("{value}{}", parameter.unit()),
    }
}
