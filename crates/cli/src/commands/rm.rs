//! `spindle rm`

use crate::error::{Context, Failure, Result};
use crate::image::{self, WriteArgs};
use crate::interrupt;
use crate::target::Target;
use spindle::path::{child, resolve_parent, sorted_names};
use spindle_vfs::{Error, Ino, Node, Vfs};
use std::collections::HashSet;
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
    for target in &args.targets {
        let target = Target::in_image(target)?;
        image::change(&target.image, args.write, |vfs| {
            match remove(vfs, &target.path, args.recursive) {
                Err(e) if args.ignore_missing && e.is(&Error::NotFound) => Ok(()),
                other => other,
            }
            .context(&target.image)
        })?;
    }
    Ok(ExitCode::SUCCESS)
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
    remove_below(vfs, node).named(path)?;
    fs.rmdir(dir.ino(), name).named(path)
}

/// A directory that is being emptied, with its name and the names still in it.
struct Level<'a> {
    dir: Node<'a>,
    name: Vec<u8>,
    names: Vec<Vec<u8>>,
}

fn remove_below<'a>(vfs: &'a Vfs, top: Node<'a>) -> Result<()> {
    let fs = vfs.fs();
    let mut seen = HashSet::<Ino>::from([top.ino()]);
    let names = sorted_names(vfs, top.ino())?;
    let mut levels = vec![Level { dir: top, name: Vec::new(), names }];
    while let Some(level) = levels.last_mut() {
        interrupt::check()?;
        let Some(name) = level.names.pop() else {
            let empty = levels.pop();
            if let (Some(empty), Some(parent)) = (empty, levels.last()) {
                fs.rmdir(parent.dir.ino(), &empty.name).named(&empty.name)?;
            }
            continue;
        };
        let node = child(vfs, level.dir.ino(), &name).named(&name)?;
        if !node.is_dir() {
            fs.unlink(level.dir.ino(), &name).named(&name)?;
            continue;
        }
        if !seen.insert(node.ino()) {
            let place = format!("inode {}", node.ino().0);
            return Err(Error::corrupt("a directory has two names", place)).named(&name);
        }
        let names = sorted_names(vfs, node.ino()).named(&name)?;
        levels.push(Level { dir: node, name, names });
    }
    Ok(())
}
