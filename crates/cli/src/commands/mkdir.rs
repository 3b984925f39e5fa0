//! `spindle mkdir`

use crate::caller::Caller;
use crate::error::{Context, Result};
use crate::image::{self, WriteArgs};
use crate::target::Target;
use spindle::path::{resolve, resolve_parent};
use spindle_vfs::{Error, FileKind, Ino, NewNode, Node, Privilege, Rdev, Vfs};
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
    /// Permissions in octal, regardless of the umask
    #[arg(short = 'm', value_name = "MODE", value_parser = parse_mode)]
    mode: Option<u32>,
    #[command(flatten)]
    write: WriteArgs,
    /// The directories
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    targets: Vec<OsString>,
}

fn parse_mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|&mode| mode <= 0o7777 && !text.starts_with('+'))
        .ok_or_else(|| "give permissions in octal, up to 7777".into())
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let caller = Caller::find();
    for target in &args.targets {
        let target = Target::in_image(target)?;
        image::change(&target.image, args.write, |vfs| {
            make(vfs, &target.path, args, &caller).context(&target.image)
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn make(vfs: &Vfs, path: &[u8], args: &Args, caller: &Caller) -> Result<()> {
    let perm = args.mode.unwrap_or(0o777 & !caller.umask);
    if !args.parents {
        let (dir, name) = resolve_parent(vfs, path)?;
        return make_one(vfs, dir.ino(), name, perm, caller).named(path);
    }
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
        rdev: Rdev::default(),
        target: b"",
    };
    drop(Node::new(vfs, vfs.fs().create(dir, name, &node, Privilege::Root)?));
    Ok(())
}
