//! `spindle ln`

use crate::caller::Caller;
use crate::error::{Context, Failure, Result};
use crate::image::{self, WriteArgs};
use crate::target::Target;
use spindle::flags;
use spindle::path::{create, resolve, resolve_parent};
use spindle::transfer::split;
use spindle_vfs::{Cred, FileKind, NewNode, Node, Rdev, Vfs};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// Create a hard or symbolic link in an image
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle ln disk.img:/bin/vi disk.img:/bin/ex
    spindle ln -s ../usr/local disk.img:/local")]
pub struct Args {
    /// Create a symbolic link
    #[arg(short = 's')]
    symbolic: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// The file to link to, as IMAGE:/PATH; with -s the target of the symbolic link, stored as
    /// given
    #[arg(value_name = "SOURCE")]
    source: OsString,
    /// The new name, or the directory for it
    #[arg(value_name = "IMAGE:/PATH")]
    target: OsString,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let caller = Caller::find();
    let to = Target::in_image(&args.target)?;
    let source = if args.symbolic {
        args.source.as_bytes().to_vec()
    } else {
        let source = Target::in_image(&args.source)?;
        if source.image != to.image {
            let (source, to) = (source.display(), &to.image);
            return Err(Failure::new(format!("{source} is not in {to}; a hard link must stay in one image")));
        }
        source.path
    };
    image::change(&to.image, args.write, |vfs| {
        link(vfs, &source, &to.path, args.symbolic, &caller).context(&to.image)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn link(vfs: &Vfs, source: &[u8], path: &[u8], symbolic: bool, caller: &Caller) -> Result<()> {
    let into = resolve(vfs, path, true).ok().filter(Node::is_dir);
    let (dir, name) = match into {
        Some(dir) => (dir, split(source).1),
        None => resolve_parent(vfs, path)?,
    };
    if symbolic {
        let node = NewNode {
            kind: FileKind::Symlink,
            perm: 0o777,
            uid: caller.uid,
            gid: caller.gid,
            masked: 0,
            rdev: Rdev::default(),
            target: source,
        };
        create(vfs, dir.ino(), name, &node).named(path)?;
    } else {
        let file = resolve(vfs, source, false)?;
        if file.is_dir() {
            return Err(Failure::new(
                "is a directory, which cannot have hard links; -s creates a symbolic link",
            ))
            .named(source);
        }
        let made = vfs.link(&Cred::root(), file.ino(), dir.ino(), name);
        let held = [dir.attr().flags, file.attr().flags];
        drop(Node::new(vfs, flags::explained(made, &held).named(path)?));
    }
    Ok(())
}
