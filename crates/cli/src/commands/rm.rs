//! `spindle rm`

use crate::error::{Context, Failure, Result};
use crate::image::{self, WriteArgs};
use crate::interrupt;
use spindle::path::{child, resolve_parent};
use spindle::walk::{Walk, When};
use spindle_vfs::{Error, Vfs};
use std::ffi::OsString;
use std::process::ExitCode;

/// Remove files in an image
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Remove directories with everything below them
    #[arg(short = 'r', short_alias = 'R')]
    recursive: bool,
    /// Ignore files that do not exist
    #[arg(short = 'f')]
    ignore_missing: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// The files to remove; symbolic links are not followed
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    targets: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    image::change_each(&args.targets, args.write, |vfs, target, _| {
        match remove(vfs, &target.path, args.recursive) {
            Err(e) if args.ignore_missing && e.is(&Error::NotFound) => Ok(()),
            other => other,
        }
    })
}

fn remove(vfs: &Vfs, path: &[u8], recursive: bool) -> Result<()> {
    let fs = vfs.fs();
    let (dir, name) = resolve_parent(vfs, path)?;
    let node = child(vfs, dir.ino(), name).named(path)?;
    if !node.is_dir() {
        return fs.unlink(dir.ino(), name).named(path);
    }
    if !recursive {
        return Err(Failure::new("is a directory; -r removes it with everything below")).named(path);
    }
    for visit in Walk::new(path, node) {
        interrupt::check()?;
        let visit = visit?;
        let Some(dir) = visit.dir else { continue };
        match visit.when {
            When::Before => Ok(()),
            When::Once => fs.unlink(dir, visit.name()),
            When::After => fs.rmdir(dir, visit.name()),
        }
        .named(&visit.path)?;
    }
    fs.rmdir(dir.ino(), name).named(path)
}
