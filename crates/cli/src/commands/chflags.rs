//! `spindle chflags`

use crate::error::{Context, Result};
use crate::image::{self, WriteArgs};
use crate::interrupt;
use spindle::flags::Change;
use spindle::path::resolve;
use spindle::walk::{Walk, When};
use spindle_vfs::{Attr, Privilege, SetAttr, Vfs};
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
    image::change_each(&args.targets, args.write, |vfs, target, failures| {
        let node = resolve(vfs, &target.path, !args.link && !args.recursive)?;
        if !args.recursive {
            return change(vfs, node.attr(), args.change).named(&target.path);
        }
        for visit in Walk::new(&target.path, node) {
            interrupt::check()?;
            let changed = visit.map_err(Into::into).and_then(|visit| match visit.when {
                When::After => Ok(()),
                When::Once | When::Before => change(vfs, &visit.attr, args.change).named(&visit.path),
            });
            failures.unless(changed.context(&target.image))?;
        }
        Ok(())
    })
}

fn change(vfs: &Vfs, attr: &Attr, change: Change) -> Result<()> {
    let flags = change.apply(attr.flags);
    if flags != attr.flags {
        let set = SetAttr { flags: Some(flags), ..SetAttr::default() };
        vfs.fs().setattr(attr.ino, &set, Privilege::Root)?;
    }
    Ok(())
}
