//! `spindle chmod`

use crate::attributes::{Scope, change_each};
use crate::caller::Caller;
use crate::error::Result;
use crate::image::WriteArgs;
use spindle::flags;
use spindle::mode::Mode;
use spindle_vfs::{Attr, Cred, FileKind, SetAttr, Vfs};
use std::ffi::OsString;
use std::process::ExitCode;

/// Change the permissions of files in an image
///
/// MODE is octal (644, 4755) or symbolic, as for chmod(1): u+x, go-w, a=rX, g=u. A symbolic link is
/// followed, except below a directory with -R.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    after_long_help = "EXAMPLES
    spindle chmod 600 disk.img:/etc/master.passwd
    spindle chmod -R go-w disk.img:/usr/src
    spindle chmod +t disk.img:/tmp"
)]
pub struct Args {
    /// Also change everything below directories
    #[arg(short = 'R')]
    recursive: bool,
    /// Change a symbolic link itself, not the file that it names
    #[arg(short = 'h', conflicts_with = "recursive")]
    link: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
    /// The new permissions, or the change
    #[arg(value_name = "MODE", allow_hyphen_values = true)]
    mode: Mode,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    targets: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let caller = Caller::find();
    let scope = Scope { follow: !args.link, recursive: args.recursive };
    // Before what is in a directory the new permissions may be read, as BSD does.
    change_each(&args.targets, args.write, scope, |vfs, attr| {
        if args.recursive && attr.kind == FileKind::Symlink {
            return Ok(());
        }
        change(vfs, attr, args, &caller)
    })
}

fn change(vfs: &Vfs, attr: &Attr, args: &Args, caller: &Caller) -> Result<()> {
    let perm = args.mode.apply(attr.perm, attr.kind == FileKind::Directory, caller.umask);
    if perm != attr.perm {
        let set = SetAttr { perm: Some(perm), ..SetAttr::default() };
        flags::explained(vfs.setattr(&Cred::root(), attr.ino, &set, None), &[attr.flags])?;
    }
    Ok(())
}
