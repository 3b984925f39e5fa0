//! `spindle chflags`

use crate::attributes::{Scope, change_each};
use crate::error::Result;
use crate::image::WriteArgs;
use spindle::flags::Change;
use spindle_vfs::{Attr, Cred, Vfs};
use std::ffi::OsString;
use std::process::ExitCode;

/// Change the file flags of files in an image
///
/// FLAGS are names with commas between them, of which those with "no" in front are cleared (of
/// nodump, dump), or an octal number for all flags, as for BSD's chflags(1). A symbolic link is
/// followed, except below a directory with -R, where it is changed itself. Formats without flags,
/// as that of 4.3BSD, refuse them.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    after_long_help = "FLAGS
    arch      archived                  nodump    not for dump
    schg      immutable (superuser)     uchg      immutable (owner)
    sappnd    only appended to          uappnd    the same, of the owner
    sunlnk    not removed or renamed    uunlnk    the same, of the owner
    opaque    hides what is below       uarch, uhidden, uoffline, urdonly,
              it in a union mount       ureparse, usparse, usystem

EXAMPLES
    spindle chflags noschg disk.img:/boot/kernel/kernel
    spindle chflags -R nodump disk.img:/usr/obj
    spindle chflags 0 disk.img:/etc/master.passwd"
)]
pub struct Args {
    /// Also change everything below directories
    #[arg(short = 'R')]
    recursive: bool,
    /// Change a symbolic link itself, not the file that it names
    #[arg(short = 'h')]
    link: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
    /// The new flags, or the change
    #[arg(value_name = "FLAGS")]
    change: Change,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    targets: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let scope = Scope { follow: !args.link && !args.recursive, recursive: args.recursive };
    change_each(&args.targets, args.write, scope, |vfs, attr| change(vfs, attr, args.change))
}

fn change(vfs: &Vfs, attr: &Attr, change: Change) -> Result<()> {
    if change.apply(attr.flags) != attr.flags {
        vfs.chflags(&Cred::root(), attr.ino, |flags| change.apply(flags))?;
    }
    Ok(())
}
