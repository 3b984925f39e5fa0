//! The table of commands. Each command has its own file here, with its arguments, its manual page
//! and its code.

mod advise;
mod cat;
mod chflags;
mod chmod;
mod chown;
mod completions;
mod cp;
mod debug;
mod df;
mod du;
mod dump;
mod export;
mod find;
mod find_deleted;
mod fsck;
mod growfs;
mod import;
mod info;
mod lab;
mod ln;
mod ls;
mod man;
mod map;
mod mfs;
mod mkdir;
mod mount;
mod mv;
mod newfs;
mod quota;
mod restore;
mod rm;
mod scan;
mod snapshot;
mod stat;
mod touch;
mod trace;
mod trim;
mod tunefs;
mod umount;
mod waste;

pub mod helper;

use crate::error::Result;
use std::process::ExitCode;

/// The Berkeley fast file system family in user space
///
/// Spindle creates, mounts, checks, fills and reads the file systems of the BSDs and Solaris: UFS1
/// and UFS2, in either byte order, in files, on block devices, and in partitions of them. It also
/// handles the older file systems of V7, 32V, 4.1BSD and System V, and a file system of its own
/// over several unlike devices, the multi-structured one. Most commands need neither a mount nor
/// root.
///
/// An image is named by its path, followed by @ and the name of a partition if it has partitions:
/// disk.img, disk.img@s1a, /dev/sdb@p2, disk.img@offset=1048576. "spindle info" lists the
/// partitions. A file in an image is named IMAGE:/PATH.
#[derive(clap::Parser, Debug)]
#[command(
    name = "spindle",
    version,
    propagate_version = true,
    args_override_self = true,
    after_long_help = "EXIT CODES
    0  done    1  failed    2  invalid command line    130, 143  ended by SIGINT, SIGTERM
    fsck exits with 4 if problems remain and with 8 if it could not check;
    mount and umount exit with 32 if they fail.

HELPERS
    Under the names mount.spindle, umount.spindle, mkfs.spindle and fsck.spindle, the program
    serves mount(8), umount(8), mkfs(8) and fsck(8) for file systems of type \"spindle\".

EXAMPLES
    spindle newfs -s 1g disk.img && spindle import src/ disk.img:/usr/src
    spindle info disk.img
    spindle ls -l disk.img:/usr/src
    spindle mount disk.img /mnt; cp -a more /mnt; spindle umount /mnt
    spindle fsck -n disk.img"
)]
pub struct Cli {
    /// Print more messages on standard error; twice for details, three times for requests
    #[arg(short = 'v', long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(clap::Subcommand, Debug)]
pub enum Command {
    #[command(visible_alias = "mkfs")]
    Newfs(Box<newfs::Args>),
    Info(info::Args),
    Scan(scan::Args),
    Mount(mount::Args),
    Umount(umount::Args),
    Fsck(fsck::Args),
    Tunefs(Box<tunefs::Args>),
    Growfs(growfs::Args),
    Trim(trim::Args),
    Map(map::Args),
    Debug(debug::Args),
    FindDeleted(find_deleted::Args),
    Quota(quota::Args),
    Snapshot(snapshot::Args),
    Mfs(mfs::Args),
    Ls(ls::Args),
    Cat(cat::Args),
    Stat(stat::Args),
    Find(find::Args),
    Du(du::Args),
    Df(df::Args),
    Cp(cp::Args),
    Mkdir(mkdir::Args),
    Rm(rm::Args),
    Mv(mv::Args),
    Ln(ln::Args),
    Chflags(chflags::Args),
    Chmod(chmod::Args),
    Chown(chown::Args),
    Touch(touch::Args),
    Import(Box<import::Args>),
    Export(export::Args),
    Dump(Box<dump::Args>),
    Restore(restore::Args),
    Waste(waste::Args),
    Lab(lab::Args),
    Trace(trace::Args),
    Advise(advise::Args),
    #[command(hide = true)]
    Man(man::Args),
    #[command(hide = true)]
    Completions(completions::Args),
}

impl Command {
    /// Runs the command. Returns its exit code, or the failure that `main` prints.
    pub fn run(&self) -> Result<ExitCode> {
        match self {
            Self::Newfs(args) => newfs::run(args),
            Self::Info(args) => info::run(args),
            Self::Scan(args) => scan::run(args),
            Self::Mount(args) => mount::run(args),
            Self::Umount(args) => umount::run(args),
            Self::Fsck(args) => fsck::run(args),
            Self::Tunefs(args) => tunefs::run(args),
            Self::Growfs(args) => growfs::run(args),
            Self::Trim(args) => trim::run(args),
            Self::Map(args) => map::run(args),
            Self::Debug(args) => debug::run(args),
            Self::FindDeleted(args) => find_deleted::run(args),
            Self::Quota(args) => quota::run(args),
            Self::Snapshot(args) => snapshot::run(args),
            Self::Mfs(args) => mfs::run(args),
            Self::Ls(args) => ls::run(args),
            Self::Cat(args) => cat::run(args),
            Self::Stat(args) => stat::run(args),
            Self::Find(args) => find::run(args),
            Self::Du(args) => du::run(args),
            Self::Df(args) => df::run(args),
            Self::Cp(args) => cp::run(args),
            Self::Mkdir(args) => mkdir::run(args),
            Self::Rm(args) => rm::run(args),
            Self::Mv(args) => mv::run(args),
            Self::Ln(args) => ln::run(args),
            Self::Chflags(args) => chflags::run(args),
            Self::Chmod(args) => chmod::run(args),
            Self::Chown(args) => chown::run(args),
            Self::Touch(args) => touch::run(args),
            Self::Import(args) => import::run(args),
            Self::Export(args) => export::run(args),
            Self::Dump(args) => dump::run(args),
            Self::Restore(args) => restore::run(args),
            Self::Waste(args) => waste::run(args),
            Self::Lab(args) => lab::run(args),
            Self::Trace(args) => trace::run(args),
            Self::Advise(args) => advise::run(args),
            Self::Man(args) => man::run(args),
            Self::Completions(args) => completions::run(args),
        }
    }
}
