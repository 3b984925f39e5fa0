//! `spindle rm`

use crate::error::{Context, Failure, Result};
use crate::image::{self, WriteArgs};
use crate::interrupt;
use spindle::flags;
use spindle::path::{child, resolve_parent};
use spindle::walk::{Walk, When};
use spindle_vfs::{Attr, Cred, Error, FileKind, Node, Vfs};
use std::ffi::OsString;
use std::process::ExitCode;

/// Remove files in an image
///
/// As on BSD, the file flags schg, uchg, sappnd, uappnd, sunlnk and uunlnk forbid it, until
/// spindle chflags has cleared them.
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
    let (dir, name) = resolve_parent(vfs, path)?;
    let node = child(vfs, dir.ino(), name).named(path)?;
    if !node.is_dir() {
        return unlink(vfs, &dir, name, node.attr()).named(path);
    }
    if !recursive {
        return Err(Failure::new("is a directory; -r removes it with everything below")).named(path);
    }
    let attr = node.attr().clone();
    for visit in Walk::new(path, node) {
        interrupt::check()?;
        let visit = visit?;
        let Some(dir) = visit.dir else { continue };
        let dir = child(vfs, dir, b".").named(&visit.path)?;
        match visit.when {
            When::Before => Ok(()),
            When::Once | When::After => unlink(vfs, &dir, visit.name(), &visit.attr),
        }
        .named(&visit.path)?;
    }
    unlink(vfs, &dir, name, &attr).named(path)
}

/// Removes the name of a file or of an empty directory, as far as file flags permit it to root.
fn unlink(vfs: &Vfs, dir: &Node<'_>, name: &[u8], attr: &Attr) -> spindle::Result<()> {
    let done = if attr.kind == FileKind::Directory {
        vfs.rmdir(&Cred::root(), dir.ino(), name)
    } else {
        vfs.unlink(&Cred::root(), dir.ino(), name)
    };
    flags::explained(done, &[dir.attr().flags, attr.flags])
}
