//! The program under the names that mount(8), umount(8), mkfs(8) and fsck(8) call: other arguments,
//! the same commands.

use super::{Cli, Command, fsck, mount, umount};
use crate::error::Result;
use clap::{CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A command line understood.
pub enum Invocation {
    /// To be run, with so much said about it.
    Run(Command, u8),
    /// Understood, and nothing is to be done.
    Nothing(Result<ExitCode>),
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
    /// Understand the options, and mount nothing
    #[arg(short = 'f')]
    fake: bool,
    /// Say more
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    verbose: u8,
    /// Accepted, with no meaning here
    #[arg(short = 's')]
    sloppy: bool,
    /// Accepted, with no meaning here
    #[arg(short = 'n')]
    no_mtab: bool,
    /// Accepted, with no meaning here
    #[arg(short = 't')]
    kind: Option<String>,
}

/// Unmount a file system for umount(8)
#[derive(Parser, Debug)]
#[command(name = "umount.spindle", version, disable_help_flag = true)]
struct UmountHelper {
    /// The directory
    dir: PathBuf,
    /// Say more
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    verbose: u8,
    /// Accepted, with no meaning here
    #[arg(short = 'n')]
    no_mtab: bool,
    /// Accepted, with no meaning here
    #[arg(short = 'f')]
    force: bool,
    /// Accepted, with no meaning here
    #[arg(short = 'r')]
    read_only: bool,
    /// Accepted, with no meaning here
    #[arg(short = 't')]
    kind: Option<String>,
}

/// Check a file system for fsck(8)
#[derive(Parser, Debug)]
#[command(name = "fsck.spindle", disable_help_flag = true)]
struct FsckHelper {
    /// Change nothing
    #[arg(short = 'n')]
    look_only: bool,
    /// Repair what is harmless to repair
    #[arg(short = 'p', short_alias = 'a')]
    preen: bool,
    /// Repair everything
    #[arg(short = 'y')]
    yes: bool,
    /// Accepted, with no meaning here
    #[arg(short = 'f')]
    force: bool,
    /// Accepted, with no meaning here
    #[arg(short = 'r')]
    interactive: bool,
    /// Say more
    #[arg(short = 'V', action = clap::ArgAction::Count)]
    verbose: u8,
    /// The image
    image: String,
}

/// Understands the command line by the name that the program was called with. Ends the process
/// where it makes no sense or asks for help.
pub fn understand(mut args: Vec<OsString>) -> Invocation {
    let called = args.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
    match called {
        Some("mount.spindle" | "mount.fuse.spindle") => {
            let MountHelper { image, dir, options, fake, verbose, .. } = MountHelper::parse_from(args);
            let args = mount::Args::from_helper(image, dir, options);
            if fake {
                let failed = |e: crate::error::Failure| e.with_code(mount::MOUNT_FAILED);
                return Invocation::Nothing(mount::check(&args).map(|_| ExitCode::SUCCESS).map_err(failed));
            }
            Invocation::Run(Command::Mount(args), verbose)
        }
        Some("umount.spindle" | "umount.fuse.spindle") => {
            let UmountHelper { dir, verbose, .. } = UmountHelper::parse_from(args);
            Invocation::Run(Command::Umount(umount::Args::from_helper(dir)), verbose)
        }
        Some("fsck.spindle") => {
            // Where to show progress: the descriptor follows without a blank, or nothing does.
            args.retain(|arg| !arg.to_string_lossy().starts_with("-C"));
            let helper = FsckHelper::parse_from(args);
            let FsckHelper { look_only, preen, yes, image, verbose, .. } = helper;
            Invocation::Run(Command::Fsck(fsck::Args::from_helper(image, look_only, preen, yes)), verbose)
        }
        Some(name @ ("mkfs.spindle" | "newfs.spindle")) => {
            let name = name.to_owned();
            args.insert(1, "newfs".into());
            let matches = Cli::command().bin_name(name).get_matches_from(args);
            let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
            Invocation::Run(cli.command, cli.verbose)
        }
        _ => {
            let cli = Cli::parse_from(args);
            Invocation::Run(cli.command, cli.verbose)
        }
    }
}
