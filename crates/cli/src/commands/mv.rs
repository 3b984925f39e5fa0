//! `spindle mv`

use crate::error::{Context, Failure, Result};
use crate::image::{self, WriteArgs};
use crate::target::{ImagePath, Target};
use spindle::path::{resolve, resolve_parent};
use spindle_vfs::{Node, Privilege, RenameMode, Vfs};
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
    let mut from = Vec::new();
    for source in &args.sources {
        let source = Target::in_image(source)?;
        if source.image != to.image {
            let (source, to) = (source.display(), &to.image);
            return Err(Failure::new(format!(
                "{source} is not in {to}; copy it with cp -rp, then remove it"
            )));
        }
        from.push(source);
    }
    image::change(&to.image, args.write, |vfs| rename(vfs, &from, &to, args).context(&to.image))?;
    Ok(ExitCode::SUCCESS)
}

fn rename(vfs: &Vfs, from: &[ImagePath], to: &ImagePath, args: &Args) -> Result<()> {
    let mode = if args.keep { RenameMode::NoReplace } else { RenameMode::Replace };
    let target_dir = resolve(vfs, &to.path, true).ok().filter(Node::is_dir);
    if from.len() > 1 && target_dir.is_none() {
        return Err(Failure::new("to move several files, name a directory as the target")).named(&to.path);
    }
    for ImagePath { path, .. } in from {
        let (from_dir, name) = resolve_parent(vfs, path)?;
        if let Some(dir) = &target_dir {
            vfs.fs().rename(from_dir.ino(), name, dir.ino(), name, mode, Privilege::Root).named(path)?;
        } else {
            // The new name of a directory may end in a slash.
            let (to_dir, new) = resolve_parent(vfs, &to.path)?;
            vfs.fs().rename(from_dir.ino(), name, to_dir.ino(), new, mode, Privilege::Root).named(path)?;
        }
    }
    Ok(())
}
