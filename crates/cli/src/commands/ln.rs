//! `spindle ln`

use crate::caller::Caller;
use crate::error::{Context, Failure, Result};
use crate::image::{self, WriteArgs};
use crate::paths::{Held, resolve, resolve_parent};
use crate::target::Target;
use crate::transfer::split;
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege, Rdev};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// Give a file in an image another name, or make a symbolic link
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle ln disk.img:/bin/vi disk.img:/bin/ex
    spindle ln -s ../usr/local disk.img:/local")]
pub struct Args {
    /// Make a symbolic link
    #[arg(short = 's')]
    symbolic: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// The file that gets another name, as IMAGE:/PATH; with -s the text of the link, as it is
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
            return Err(Failure::new(format!("{source} is not in {to}; a file has names in one image only")));
        }
        source.path
    };
    image::change(&to.image, args.write, |fs| {
        link(fs, &source, &to.path, args.symbolic, &caller).context(&to.image)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn link(fs: &dyn FileSystem, source: &[u8], path: &[u8], symbolic: bool, caller: &Caller) -> Result<()> {
    let into = resolve(fs, path, true).ok().filter(|node| node.kind == FileKind::Directory);
    let (dir, name) = match into {
        Some(dir) => (dir, split(source).1),
        None => resolve_parent(fs, path)?,
    };
    let made = if symbolic {
        let node = NewNode {
            kind: FileKind::Symlink,
            perm: 0o777,
            uid: caller.uid,
            gid: caller.gid,
            rdev: Rdev::default(),
            target: source,
        };
        fs.create(dir.ino, name, &node, Privilege::Root)
    } else {
        let file = resolve(fs, source, false)?;
        if file.kind == FileKind::Directory {
            return Err(Failure::new("a directory has one name only; -s makes a symbolic link"))
                .named(source);
        }
        fs.link(file.ino, dir.ino, name, Privilege::Root)
    };
    drop(Held::new(fs, made.named(path)?));
    Ok(())
}
