//! `spindle mkdir`

use crate::caller::Caller;
use crate::error::{Context, Result};
use crate::image::{self, WriteArgs};
use spindle::mode::Mode;
use spindle::path::{change, create, resolve, resolve_parent};
use spindle_vfs::{Error, FileKind, Ino, NewNode, Rdev, SetAttr, Vfs};
use std::ffi::OsString;
use std::process::ExitCode;

/// Make directories in an image
///
/// The directories belong to you, and your umask applies.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Also make missing parent directories, and accept existing directories
    #[arg(short = 'p')]
    parents: bool,
    /// Permissions as for chmod, regardless of the umask
    #[arg(short = 'm', value_name = "MODE")]
    mode: Option<Mode>,
    #[command(flatten)]
    write: WriteArgs,
    /// The directories
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    targets: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let caller = Caller::find();
    image::change_each(&args.targets, args.write, |vfs, target, _| make(vfs, &target.path, args, &caller))
}

fn make(vfs: &Vfs, path: &[u8], args: &Args, caller: &Caller) -> Result<()> {
    let perm = match &args.mode {
        Some(mode) => mode.apply(0o777, true, caller.umask),
        None => 0o777 & !caller.umask,
    };
    if args.parents {
        return make_all(vfs, path, perm, caller);
    }
    let (dir, name) = resolve_parent(vfs, path)?;
    make_one(vfs, dir.ino(), name, perm, caller).named(path)
}

/// Creates the directories on a path that do not exist, the last one with these permissions.
pub fn make_all(vfs: &Vfs, path: &[u8], perm: u32, caller: &Caller) -> Result<()> {
    let ends: Vec<usize> =
        (1..=path.len()).filter(|&i| path[i - 1] != b'/' && path.get(i).is_none_or(|&b| b == b'/')).collect();
    for &end in &ends {
        let part = &path[..end];
        match resolve(vfs, part, true) {
            Ok(node) if node.is_dir() => {}
            Ok(_) => return Err(Error::NotDirectory).named(part),
            Err(e) if e.is(&Error::NotFound) => {
                let (dir, name) = resolve_parent(vfs, part)?;
                let perm = if Some(&end) == ends.last() { perm } else { 0o777 & !caller.umask };
                make_one(vfs, dir.ino(), name, perm, caller).named(part)?;
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

fn make_one(vfs: &Vfs, dir: Ino, name: &[u8], perm: u32, caller: &Caller) -> Result<()> {
    let node = NewNode {
        kind: FileKind::Directory,
        perm,
        uid: caller.uid,
        gid: caller.gid,
        masked: if perm == 0o777 & !caller.umask { 0o777 & caller.umask } else { 0 },
        rdev: Rdev::default(),
        target: b"",
    };
    let made = create(vfs, dir, name, &node)?;
    if node.masked == 0 && made.attr().perm != perm {
        // What -m asks for stands above a default access control list of the parent.
        let set = SetAttr { perm: Some(perm), ..SetAttr::default() };
        change(vfs, made.ino(), &set)?;
    }
    Ok(())
}
