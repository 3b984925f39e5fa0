//! `spindle quota`: limits and usage of users and groups.

mod edit;
mod names;
mod table;

use crate::error::{Failure, Result};
use crate::image::{self, ReadArgs, WriteArgs};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;
use edit::EditArgs;
use names::Names;
use serde::Serialize;
use spindle::OpenOptions;
use spindle::quota::{self, Kind, Sheet, Task, Usage};
use spindle::set;
use std::process::ExitCode;

/// Count, limit and show what users and groups use
///
/// The limits and the usage of UFS stand in the files quota.user and quota.group of its root
/// directory, as the BSDs have them: FreeBSD's of 64 bits, and the classic ones of all others. A
/// mount with the options userquota and groupquota enforces them. NetBSD can keep them inside the
/// file system instead, where they are always on. If the file system is mounted, the process that
/// serves the mount does what is asked.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "NOTES
    As in the kernels of BSD, a limit is the first count that is refused: with a limit of 10
    inodes a user can have 9. Root, and in quota files what belongs to id 0, is counted and not
    limited. NetBSD's own tools show quotas inside a file system with the last count that is
    allowed, which is one less.
    Names are those of this machine; on others numbers are needed.

EXIT CODES
    0  done    1  refused or failed    2  invalid command line

EXAMPLES
    spindle quota check disk.img
    spindle quota edit disk.img -u alice --blocks 90m:100m --inodes 900:1000
    spindle quota edit disk.img -u bob -u carol -p alice
    spindle quota report disk.img
    spindle mount -o userquota,groupquota disk.img /mnt
    spindle quota on netbsd.img")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Count what is used, and put the quota files right
    ///
    /// As quotacheck(8): all inodes are read, and each record of usage that was wrong is printed
    /// and corrected. A quota file that is missing is made. Without -u and -g the quotas that have
    /// a file are checked, or both if none has one. A mount with quotas on counts, too, so this is
    /// needed to make the files, and for other systems.
    Check {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        write: WriteArgs,
        /// The file, block device or partition, or the directory where it is mounted
        #[arg(value_name = "IMAGE|DIR")]
        image: String,
    },
    /// Turn on the quotas that NetBSD keeps inside the file system
    ///
    /// As tunefs(8) -q of NetBSD, and the check it needs: counts, and makes their files, which have
    /// no names. Without -u and -g both are turned on. From then on every mount enforces them, and
    /// no option turns them off. Of other systems quotas are on by an option of mount.
    On(SwitchArgs),
    /// Turn them off, and forget all limits
    ///
    /// Without -u and -g both are turned off.
    Off(SwitchArgs),
    /// Change limits and grace periods
    ///
    /// As edquota(8), but with the new limits on the command line. A quota file that is missing is
    /// made. A mount obeys at once.
    Edit(EditArgs),
    /// Show usage, limits and grace periods
    ///
    /// As repquota(8). The first sign behind a name is + if blocks, the second if inodes are over
    /// the soft limit. Blocks are of 1024 bytes. Usage is counted, or what a mount with quotas on
    /// knows, so it is right whatever the quota file says.
    Report {
        #[command(flatten)]
        which: Which,
        /// Print JSON, with blocks of 512 bytes
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        read: ReadArgs,
        /// The file, block device or partition, or the directory where it is mounted
        #[arg(value_name = "IMAGE|DIR")]
        image: String,
    },
}

/// The arguments of `spindle quota on` and `spindle quota off`.
#[derive(clap::Args, Debug)]
struct SwitchArgs {
    #[command(flatten)]
    which: Which,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE")]
    image: String,
}

impl SwitchArgs {
    fn run(&self, on: bool) -> Result<()> {
        let kinds = match self.which.kinds() {
            none if none.is_empty() => Kind::ALL.to_vec(),
            kinds => kinds,
        };
        Ok(quota::switch(&image::find(&self.image)?, &kinds, on)?)
    }
}

/// Which quotas are meant.
#[derive(clap::Args, Clone, Copy, Debug)]
struct Which {
    /// Only the quota of users, with -g that of both
    #[arg(short = 'u', long)]
    user: bool,
    /// Only the quota of groups, with -u that of both
    #[arg(short = 'g', long)]
    group: bool,
}

impl Which {
    fn kinds(self) -> Vec<Kind> {
        let given = [(self.user, Kind::User), (self.group, Kind::Group)];
        given.into_iter().filter_map(|(given, kind)| given.then_some(kind)).collect()
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Check { which, json, write, image } => {
            let task = Task::Check(which.kinds());
            let sheets = ask(image, &task, &write.open_options()?)?;
            checked(image, &sheets, *json)?;
        }
        Command::On(args) => args.run(true)?,
        Command::Off(args) => args.run(false)?,
        Command::Edit(args) => edit::run(args)?,
        Command::Report { which, json, read, image } => {
            let task = Task::Report(which.kinds());
            let sheets = ask(image, &task, &read.open_options())?;
            let mut out = Output::stdout();
            if *json {
                out.json(&Json { image, quotas: &sheets })?;
            } else {
                table::show(&mut out, image, &sheets)?;
            }
            out.finish()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Has done what is asked; shows the progress, and ends with a signal.
fn ask(image: &str, task: &Task, options: &OpenOptions) -> Result<Vec<Sheet>> {
    interrupt::watch()?;
    let bar = Progress::of_fraction("counting");
    let sheets = quota::run(&image::find(image)?, task, options, &mut |set::Progress { done, total }| {
        bar.set(done * 1000 / total.max(1), "");
        interrupt::check()
    });
    Ok(sheets?)
}

/// The answer as JSON.
#[derive(Serialize)]
struct Json<'a> {
    image: &'a str,
    quotas: &'a [Sheet],
}

/// Prints what a check has put right.
fn checked(image: &str, sheets: &[Sheet], json: bool) -> Result<()> {
    let mut out = Output::stdout();
    if json {
        out.json(&Json { image, quotas: sheets })?;
        return out.finish();
    }
    for sheet in sheets {
        let (word, names) = (sheet.kind.word(), Names::of(sheet.kind));
        if sheet.made {
            out.line(format!("{image}: made {}", sheet.kind.file_name()))?;
            continue;
        }
        for (row, old) in sheet.rows.iter().filter_map(|row| Some((row, row.recorded?))) {
            let Usage { blocks, inodes } = row.quota.usage();
            let mut line = format!("{image}: {} fixed ({word}):", names.name(row.id));
            for (what, old, new) in [("inodes", old.inodes, inodes), ("blocks", old.blocks, blocks)] {
                if old != new {
                    line = format!("{line} {what} {old} -> {new}");
                }
            }
            out.line(line)?;
        }
    }
    out.finish()
}

/// Returns the failure of an option that cannot be.
fn wrong(what: impl Into<String>) -> Failure {
    Failure::usage(what)
}
