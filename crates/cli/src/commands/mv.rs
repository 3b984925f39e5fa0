//! `spindle mv`

use crate::error::{Context, Failure, Result};
use crate::image::{self, Failures, WriteArgs};
use crate::interrupt;
use crate::target::{ImagePath, Target};
use spindle::flags;
use spindle::path::{child, resolve, resolve_parent};
use spindle_vfs::{Cred, Node, RenameMode, Vfs};
use std::ffi::OsString;
use std::process::ExitCode;

/// Rename or move files in an image
///
/// Sources and target must be in the same image, so that each rename is atomic.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Do not replace existing files
    #[arg(short = 'n')]
    keep: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// The files to move
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    sources: Vec<OsString>,
    /// The new path, or a directory to move into
    #[arg(value_name = "IMAGE:/TARGET", required = true)]
    target: OsString,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let to = Target::in_image(&args.target)?;
    let failures = Failures::default();
    image::change(&to.image, args.write, |vfs| {
        let dir = resolve(vfs, &to.path, true).ok().filter(Node::is_dir);
        if args.sources.len() > 1 && dir.is_none() {
            let error = Failure::new("to move several files, name a directory as the target");
            return Err(error).named(&to.path).context(&to.image);
        }
        for source in &args.sources {
            interrupt::check()?;
            let source = Target::in_image(source);
            failures.unless(source.and_then(|source| rename(vfs, &source, &to, dir.as_ref(), args)))?;
        }
        Ok(())
    })?;
    Ok(failures.exit_code())
}

/// Moves a file into `dir`, the directory of this path, or to the path itself if there is none.
fn rename(vfs: &Vfs, from: &ImagePath, to: &ImagePath, dir: Option<&Node<'_>>, args: &Args) -> Result<()> {
    let ImagePath { image, path } = from;
    if *image != to.image {
        return Err(Failure::new(format!("is not in {}; copy it with cp -rp, then remove it", to.image)))
            .context(from.display());
    }
    let mode = if args.keep { RenameMode::NoReplace } else { RenameMode::Replace };
    let (from_dir, name) = resolve_parent(vfs, path).context(image)?;
    let renamed = if let Some(dir) = dir {
        vfs.rename(&Cred::root(), (from_dir.ino(), name), (dir.ino(), name), mode)
    } else {
        // The new name of a directory may end in a slash.
        let (to_dir, new) = resolve_parent(vfs, &to.path).context(image)?;
        vfs.rename(&Cred::root(), (from_dir.ino(), name), (to_dir.ino(), new), mode)
    };
    let moved = child(vfs, from_dir.ino(), name).map_or(0, |node| node.attr().flags);
    flags::explained(renamed, &[from_dir.attr().flags, moved]).named(path).context(image)
}
