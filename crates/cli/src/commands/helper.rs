//! The command line, also under the helper names that mount(8), umount(8), mkfs(8) and fsck(8)
//! call. The helpers have other arguments and run the same commands.

use super::{Cli, Command, fsck, mount, umount};
use crate::error::{Context, Result};
use crate::text::parse_bytes;
use clap::error::ContextKind;
use clap::{CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;
use std::io::ErrorKind::NotFound;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A parsed command line.
pub enum Invocation {
    /// A command to run, and the number of `-v` options.
    Run(Command, u8),
    /// A command line that is done without running a command.
    Done(Result<ExitCode>),
}

/// Mount a file system for mount(8)
#[derive(Parser, Debug)]
#[command(name = "mount.spindle", version, disable_help_flag = true)]
struct MountHelper {
    /// The image, as for "spindle mount"
    image: String,
    /// The directory
    dir: PathBuf,
    /// Mount options
    #[arg(short = 'o')]
    options: Vec<String>,
    /// Check the options, and mount nothing
    #[arg(short = 'f')]
    fake: bool,
    /// Print more messages
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    verbose: u8,
    /// The mount namespace: a process, or a file that stands for it
    #[arg(short = 'N')]
    namespace: Option<PathBuf>,
    /// Accepted and ignored
    #[arg(short = 's')]
    sloppy: bool,
    /// Accepted and ignored
    #[arg(short = 'n')]
    no_mtab: bool,
    /// Accepted and ignored
    #[arg(short = 't')]
    kind: Option<String>,
}

/// Unmount a file system for umount(8)
#[derive(Parser, Debug)]
#[command(name = "umount.spindle", version, disable_help_flag = true)]
struct UmountHelper {
    /// The directory
    dir: PathBuf,
    /// Detach it now, and let it end with its last use
    #[arg(short = 'l')]
    lazy: bool,
    /// Unmount even if it is in use, if its daemon has died
    #[arg(short = 'f')]
    force: bool,
    /// If it is in use, remount it read-only
    #[arg(short = 'r')]
    read_only: bool,
    /// Print more messages
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    verbose: u8,
    /// The mount namespace: a process, or a file that stands for it
    #[arg(short = 'N')]
    namespace: Option<PathBuf>,
    /// Accepted and ignored
    #[arg(short = 'n')]
    no_mtab: bool,
    /// Accepted and ignored
    #[arg(short = 't')]
    kind: Option<String>,
}

/// Check a file system for fsck(8)
#[derive(Parser, Debug)]
#[command(name = "fsck.spindle", disable_help_flag = true)]
struct FsckHelper {
    /// Change nothing
    #[arg(short = 'n')]
    check_only: bool,
    /// Repair what can be repaired without loss
    #[arg(short = 'a', visible_short_alias = 'p', conflicts_with = "check_only")]
    preen: bool,
    /// Repair everything
    #[arg(short = 'y', conflicts_with = "check_only")]
    yes: bool,
    /// Check even what is marked clean, as is always done
    #[arg(short = 'f')]
    force: bool,
    /// Accepted and ignored
    #[arg(short = 'r')]
    interactive: bool,
    /// Accepted and ignored
    #[arg(short = 'T')]
    no_title: bool,
    /// Accepted and ignored: what is mounted read-write is refused
    #[arg(short = 'M')]
    skip_mounted: bool,
    /// Accepted and ignored
    #[arg(short = 'l')]
    lock: bool,
    /// Accepted and ignored: the descriptor for a progress bar
    #[arg(short = 'C', value_name = "FD", num_args = 0..=1, require_equals = true)]
    progress: Option<String>,
    /// Print more messages
    #[arg(short = 'V', visible_short_alias = 'v', action = clap::ArgAction::Count)]
    verbose: u8,
    /// The image
    image: String,
}

/// The operand of mkfs for the size.
const SIZE: &str = "mkfs_size";

/// Returns newfs with the operands of mkfs(8): it has the size behind the image.
pub fn with_mkfs_operands(newfs: clap::Command) -> clap::Command {
    let size = clap::Arg::new(SIZE)
        .value_name("SIZE")
        .help(
            "Size of the file system: blocks of 1024 bytes, or with k, m, g or t, as with -s (a \
             missing file is created)",
        )
        .value_parser(parse_mkfs_size)
        .conflicts_with("size");
    newfs.arg(size)
}

/// Parses the size that mkfs(8) passes on: blocks of 1024 bytes, or bytes with a unit.
fn parse_mkfs_size(text: &str) -> std::result::Result<u64, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    parse_bytes(&if is_number { format!("{text}k") } else { text.to_owned() })
}

/// Returns the command lines of the helpers for mount, umount and fsck; that of mkfs is newfs.
pub fn command_lines() -> [clap::Command; 3] {
    [MountHelper::command(), UmountHelper::command(), FsckHelper::command()]
}

/// Parses the command line according to the name of the program. Exits if it is invalid or asks for
/// help.
pub fn parse_command_line(mut args: Vec<OsString>) -> Invocation {
    let called = args.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
    match called {
        Some("mount.spindle" | "mount.fuse.spindle" | "mount.fuseblk.spindle") => {
            let MountHelper { image, dir, options, fake, verbose, namespace, .. } =
                MountHelper::try_parse_from(args).unwrap_or_else(|error| refuse(error));
            let failed = |e: crate::error::Failure| e.with_code(mount::MOUNT_FAILED);
            if let Err(error) = enter(namespace.as_deref()) {
                return Invocation::Done(Err(failed(error)));
            }
            let may_be_missing =
                options.iter().flat_map(|words| words.split(',')).any(|word| word == "nofail");
            if may_be_missing && Path::new(&image).symlink_metadata().is_err_and(|e| e.kind() == NotFound) {
                return Invocation::Done(Ok(ExitCode::SUCCESS));
            }
            let args = mount::Args::from_helper(image, dir, options);
            if fake {
                return Invocation::Done(mount::check(&args).map(|_| ExitCode::SUCCESS).map_err(failed));
            }
            Invocation::Run(Command::Mount(args), verbose)
        }
        Some("umount.spindle" | "umount.fuse.spindle" | "umount.fuseblk.spindle") => {
            let helper = UmountHelper::try_parse_from(args).unwrap_or_else(|error| refuse(error));
            let UmountHelper { dir, lazy, force, read_only, verbose, namespace, .. } = helper;
            if let Err(error) = enter(namespace.as_deref()) {
                return Invocation::Done(Err(error.with_code(mount::MOUNT_FAILED)));
            }
            Invocation::Run(Command::Umount(umount::Args::from_helper(dir, lazy, force, read_only)), verbose)
        }
        // fsck(8) takes the type that libblkid sees, not that of its option -t.
        Some("fsck.spindle" | "fsck.ufs" | "fsck.sysv") => {
            let helper =
                FsckHelper::try_parse_from(without_progress(args)).unwrap_or_else(|error| refuse(error));
            let FsckHelper { check_only, preen, yes, image, verbose, .. } = helper;
            Invocation::Run(Command::Fsck(fsck::Args::from_helper(image, check_only, preen, yes)), verbose)
        }
        Some(name @ ("mkfs.spindle" | "newfs.spindle")) => {
            let name = name.to_owned();
            args.insert(1, "newfs".into());
            let command = Cli::command().mut_subcommand("newfs", with_mkfs_operands).bin_name(name);
            let matches = command.try_get_matches_from(args).unwrap_or_else(|error| refuse(error));
            let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| refuse(error));
            let size = matches.subcommand().and_then(|(_, newfs)| newfs.get_one::<u64>(SIZE));
            if let (Some(&bytes), Command::Newfs(newfs)) = (size, &mut cli.command) {
                newfs.set_size(bytes);
            }
            Invocation::Run(cli.command, cli.verbose)
        }
        _ => {
            let cli = Cli::try_parse_from(args).unwrap_or_else(|error| refuse(error));
            Invocation::Run(cli.command, cli.verbose)
        }
    }
}

/// Ends the program with an error of the command line, without the advice to give an option that
/// there is not as an operand: nobody means that.
fn refuse(mut error: clap::Error) -> ! {
    error.remove(ContextKind::Suggested);
    error.exit()
}

/// Removes the option -C of e2fsck, with its descriptor: -C, -C0, -C 0 or -aC0. What follows it
/// is a descriptor if it is a number and something else is left to be the image.
fn without_progress(args: Vec<OsString>) -> Vec<OsString> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut kept = Vec::with_capacity(args.len());
    let mut rest = args.into_iter().peekable();
    while let Some(arg) = rest.next() {
        let text = arg.to_string_lossy();
        let options = text.strip_prefix('-').filter(|options| !options.starts_with('-'));
        let Some((others, descriptor)) = options.and_then(|options| options.split_once('C')) else {
            kept.push(arg);
            continue;
        };
        if !others.is_empty() {
            kept.push(format!("-{others}").into());
        }
        let more = rest.len() > 1;
        if descriptor.is_empty() && more {
            rest.next_if(|next| is_number(&next.to_string_lossy()));
        }
    }
    kept
}

/// Enters a mount namespace: that of a process, by its number, or the one that a file stands for.
fn enter(namespace: Option<&Path>) -> Result<()> {
    let Some(name) = namespace else { return Ok(()) };
    let process = name.to_str().and_then(|name| name.parse::<u32>().ok());
    let path = process.map_or_else(|| name.to_owned(), |pid| format!("/proc/{pid}/ns/mnt").into());
    let file = std::fs::File::open(&path).context(path.display())?;
    let kind = Some(rustix::thread::LinkNameSpaceType::Mount);
    rustix::thread::move_into_link_name_space(file.as_fd(), kind).context(path.display())
}
