//! `spindle mfs`: the members of a multi-structured file system.

mod attach;
mod class;

use crate::commands::info::mfs::show;
use crate::error::{Context, Result};
use crate::interrupt;
use crate::mount_point;
use crate::output::Output;
use crate::progress::Progress;
use crate::text;
use clap::ValueEnum;
use serde::Serialize;
use spindle::set::{self, Change, MemberName, NewDevice, Role, Status};
use spindle_report::number;
use std::ffi::OsString;
use std::process::ExitCode;

/// Show and change the members of a multi-structured file system
///
/// The set is named by any of its members, or by the directory where it is mounted, whatever has
/// become of its members. The other members are found in the same directory, where they were when
/// the set was last used, and among the block devices. The set may be mounted: its members are
/// changed under it, by the process that serves the mount, so only root and the user who mounted it
/// can do that. The log of a set that was not unmounted is replayed first. A change can be
/// interrupted, and goes on when it is given again; until then status shows the new copy as not
/// finished, and the set as whole.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done; status: the set is whole; scrub: it is whole, nothing differed but what a crash
       explains, and the check found no problem
    1  failed; status: a member is missing, lost or out of date; scrub: it mended something, or a
       copy is missing or lost
    4  scrub: the check found problems, data whose checksum is wrong in all copies, or a read-only
       device that is not what it was

EXAMPLES
    spindle mfs status /dev/sdb
    spindle mfs replace d0.img d1.img new.img -s 2g
    spindle mfs replace c0.img /dev/sdc /dev/sdd   one that was last there
    spindle mfs replace c0.img 3f2a90c1 /dev/sdd   one that is gone, by identity
    spindle mfs add c0.img control new-copy.img -s 1g
    spindle mfs add c0.img data:1 copy-of-d1.img -s 2g
    spindle mfs scrub c0.img
    spindle mfs class c0.img:/video archive        where new files go
    spindle mfs attach c0.img disc.img --as /old   a disc's files, not copied
    spindle mfs detach c0.img disc --copy")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Show the members of a set and the state of each
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Any member, or the directory where the set is mounted
        #[arg(value_name = "MEMBER|DIR")]
        member: String,
    },
    /// Give what a member has to a new one, and leave out the old one
    ///
    /// The contents come from the other copies, or from the old member if it can be read. The new
    /// member is compared with what was copied before the old one is left out. Log storage that was
    /// lost while the set was mounted becomes a new, empty log.
    Replace {
        /// The log is missing, and there is no other copy: give up what only the log has, which is
        /// what was done in the last moments before the set was last unmounted or crashed. The file
        /// system can be written again after "spindle fsck -y", which lists the damage
        #[arg(long)]
        discard_log: bool,
        #[command(flatten)]
        new: NewArgs,
        /// Any member, or the directory where the set is mounted
        #[arg(value_name = "MEMBER|DIR")]
        member: String,
        /// The old member: its path, that where it was last, or the beginning of its identity, as
        /// status shows them
        #[arg(value_name = "OLD")]
        old: String,
        /// The file, block device or partition that takes its place
        #[arg(value_name = "NEW")]
        device: String,
    },
    /// Add a copy of control, data or log storage
    Add {
        #[command(flatten)]
        new: NewArgs,
        /// Any member, or the directory where the set is mounted
        #[arg(value_name = "MEMBER|DIR")]
        member: String,
        /// What the copy is of: control, data:N or log:N
        #[arg(value_name = "STORAGE", value_parser = parse_storage)]
        storage: (Role, u32),
        /// The file, block device or partition that gets the copy
        #[arg(value_name = "NEW")]
        device: String,
    },
    /// Leave out a member of whose storage there are other copies
    ///
    /// A new copy that is not finished can be left out, too.
    Remove {
        /// Any member, or the directory where the set is mounted
        #[arg(value_name = "MEMBER|DIR")]
        member: String,
        /// The member to leave out: its path, that where it was last, or the beginning of its
        /// identity, as status shows them
        #[arg(value_name = "OLD")]
        old: String,
    },
    /// Read everything, compare all copies, mend what differs, and check the file system
    ///
    /// After a crash copies may differ in what was never synced. The scrub says so and makes them
    /// equal, which is no failure. Anything else in use that differs is one, and so is any
    /// difference if there was no crash since the last scrub.
    Scrub {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Any member, or the directory where the set is mounted
        #[arg(value_name = "MEMBER|DIR")]
        member: String,
    },
    /// Bring the files of a device that is not written into the set, without copying them
    ///
    /// The device becomes a read-only class of data: an archive disk, the image of a disc, an old
    /// disk, a device that is write-protected. If it has a file system that Spindle reads, its tree
    /// becomes a directory of the set, with owners, permissions, times and links; --raw makes files
    /// of its bytes. Nothing is written to it, then or later. What is written over the files goes
    /// to another class of data, if one has blocks of the same size; without one they can be
    /// removed, renamed and shortened, but not written (EROFS).
    ///
    /// The device is read as a whole once, for its checksum. It is recognised by its length and a
    /// checksum of samples of it, and looked for like a member. Without it the rest of the set can
    /// be used, and its files give EIO. If it was written elsewhere, it may not be recognised any
    /// more; "spindle mfs scrub" finds any change. The set must not be mounted. An interrupted
    /// attach leaves no files, and is given again; so is the attach of a device that has moved,
    /// whose new place is recorded.
    Attach(attach::AttachArgs),
    /// Give up a read-only class, if no file has data of it
    ///
    /// The set must not be mounted. The device stays as it is.
    Detach(attach::DetachArgs),
    /// Show or set the class of data of a file or directory
    ///
    /// New files and directories get the class of their directory; a file keeps its class when it
    /// moves. The class says where new data goes; data that a file has stays where it is, so a file
    /// with data can only get a class with blocks of the same size. On a mount the class is the
    /// extended attribute user.spindle.class: "setfattr -n user.spindle.class -v archive video".
    Class {
        /// The file; a member alone means the root directory
        #[arg(value_name = "MEMBER[:/PATH]")]
        target: OsString,
        /// The new class
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
}

/// Options of a new member.
#[derive(clap::Args, Clone, Copy, Debug)]
struct NewArgs {
    /// Size of a new file
    #[arg(short = 's', long, value_name = "SIZE", value_parser = text::parse_size)]
    size: Option<u64>,
    /// Overwrite an existing file system or partition table
    #[arg(long)]
    force: bool,
}

impl NewArgs {
    /// Returns the new device at `path`.
    fn at(self, path: &str) -> NewDevice {
        NewDevice { path: path.to_owned(), size: self.size, force: self.force }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum RoleName {
    Control,
    Data,
    Log,
}

/// What names a part of a role's storage.
const STORAGE: &str = "give control, data:N or log:N";

fn parse_storage(text: &str) -> Result<(Role, u32), String> {
    let (name, index) = text.split_once(':').unwrap_or((text, "0"));
    let role = match RoleName::from_str(name, false).map_err(|_| STORAGE)? {
        RoleName::Control => Role::Control,
        RoleName::Data => Role::Data,
        RoleName::Log => Role::Log,
    };
    match index.parse() {
        Ok(index) => Ok((role, index)),
        Err(_) => Err(STORAGE.into()),
    }
}

/// Exit code of a state that is not as it should be.
const NOT_WHOLE: u8 = 1;
/// Exit code of problems that the check has found.
const PROBLEMS: u8 = 4;

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    if !matches!(args.command, Command::Status { .. } | Command::Class { .. }) {
        interrupt::watch()?;
    }
    let bar = Progress::of_fraction(match args.command {
        Command::Attach(_) | Command::Scrub { .. } => "reading",
        _ => "copying",
    });
    let mut report = |progress: set::Progress| {
        let part = u128::from(progress.done) * 1000 / u128::from(progress.total.max(1));
        bar.set(u64::try_from(part).unwrap_or(1000), &number::bytes(progress.done));
        interrupt::check()
    };
    let (member, change, said) = match &args.command {
        Command::Class { target, name } => return class::run(target, name.as_deref()),
        Command::Attach(args) => return attach::attach(args, &mut report),
        Command::Detach(args) => return attach::detach(args, &mut report),
        Command::Status { json, member } => return status(member, *json),
        Command::Scrub { json, member } => {
            let found = set::scrub(&mount_point::set(member)?, &mut report, &mut |_| ())?;
            return scrubbed(member, &found, *json);
        }
        Command::Replace { discard_log, new, member, old, device } => {
            let said = format!("{device}: has taken the place of {old}");
            let (old, new) = (MemberName::new(old), new.at(device));
            (member, Change::Replace { old, new, discard_log: *discard_log }, said)
        }
        Command::Add { new, member, storage: (role, index), device } => {
            let said = format!("{device}: is a copy of {role} storage {index}");
            (member, Change::Add { role: *role, index: *index, new: new.at(device) }, said)
        }
        Command::Remove { member, old } => {
            (member, Change::Remove { old: MemberName::new(old) }, format!("{old}: is left out of the set"))
        }
    };
    set::change(&mount_point::set(member)?, &change, &mut report)?;
    drop(bar);
    let mut out = Output::stdout();
    out.line(said)?;
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn status(member: &str, json: bool) -> Result<ExitCode> {
    let status: Status = set::status(&mount_point::set(member)?).context(member)?;
    let mut out = Output::stdout();
    if json {
        out.json(&status)?;
    } else {
        show(&mut out, &status)?;
    }
    out.finish()?;
    Ok(if status.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(NOT_WHOLE) })
}

/// The outcome of a scrub, as JSON.
#[derive(Serialize)]
struct Scrubbed<'a> {
    #[serde(flatten)]
    copies: &'a set::Outcome,
    /// The check of the structures; none of a set that is mounted.
    check: Option<&'a spindle::check::MfsReport>,
}

fn scrubbed(member: &str, found: &set::ScrubReport, json: bool) -> Result<ExitCode> {
    let set::ScrubReport { copies, check } = found;
    let mut out = Output::stdout();
    if json {
        out.json(&Scrubbed { copies, check: check.as_ref() })?;
    } else {
        out.line(format!("{member}: read {}", number::bytes(copies.bytes)))?;
        if copies.differed + copies.unreadable > 0 {
            out.line(format!(
                "{member}: {} of copies differed and {} could not be read; all were written again",
                text::counted(copies.differed, "megabyte"),
                copies.unreadable
            ))?;
        }
        if copies.unclean > 0 {
            out.line(format!(
                "{member}: {} of copies differed after an unclean end, in what was never synced; the copies \
                 are equal again",
                number::bytes(copies.unclean)
            ))?;
        }
        if copies.undecided > 0 {
            out.line(format!(
                "{member}: no checksum says which copy was right in {} of that; the first copy counts",
                number::bytes(copies.undecided)
            ))?;
        }
        if copies.lost > 0 {
            out.line(format!(
                "{member}: lost or missing: {}; spindle mfs status shows where",
                if copies.lost == 1 { "1 copy".into() } else { format!("{} copies", copies.lost) }
            ))?;
        }
        if copies.wrong > 0 {
            out.line(format!(
                "{member}: wrong checksum in all copies: {}; the files cannot be read there",
                text::counted(copies.wrong, "block")
            ))?;
        }
        for class in &copies.changed_areas {
            out.line(format!(
                "{member}: the device of class {class} is not what it was when it was attached, or cannot be read"
            ))?;
        }
        out.line(match check.as_ref().map(|check| check.damages) {
            None => format!("{member}: the set is mounted, so its structures were not checked"),
            Some(0) => format!("{member}: no problems found"),
            Some(n) => format!("{member}: {} found; spindle fsck -n lists them", text::counted(n, "problem")),
        })?;
    }
    out.finish()?;
    if copies.wrong > 0
        || !copies.changed_areas.is_empty()
        || check.as_ref().is_some_and(|check| !check.is_clean())
    {
        return Ok(ExitCode::from(PROBLEMS));
    }
    let as_it_should = copies.differed + copies.unreadable + copies.lost == 0;
    Ok(if as_it_should { ExitCode::SUCCESS } else { ExitCode::from(NOT_WHOLE) })
}
