//! `spindle chown`

use crate::attributes::{Scope, change_each};
use crate::error::Result;
use crate::image::WriteArgs;
use spindle::flags;
use spindle_vfs::{Attr, Cred, Error, FileKind, SetAttr, Vfs};
use std::ffi::OsString;
use std::process::ExitCode;
use std::str::FromStr;

/// Change the owner and group of files in an image
///
/// Owner and group are numbers, because an image has users of its own. A symbolic link is followed,
/// except below a directory with -R, where it is changed itself. Set-user-id and set-group-id bits
/// of programs are cleared, as everywhere.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    after_long_help = "EXAMPLES
    spindle chown 1001:1001 disk.img:/home/ann
    spindle chown -R 0:0 disk.img:/usr/src
    spindle chown :5 disk.img:/var/mail"
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
    /// The new owner, group, or both: UID, :GID, or UID:GID
    #[arg(value_name = "UID[:GID]")]
    owner: Owner,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    targets: Vec<OsString>,
}

/// A new owner, a new group, or both.
#[derive(Clone, Copy, Debug)]
struct Owner {
    uid: Option<u32>,
    gid: Option<u32>,
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let number = if is_number { text.parse().ok() } else { None };
            number.map(Some).ok_or_else(|| {
                format!("'{text}' is no number; an image has users of its own: see its /etc/passwd")
            })
        };
        match text.split_once(':') {
            None => Ok(Self { uid: number(text)?, gid: None }),
            Some(("", gid)) => Ok(Self { uid: None, gid: number(gid)? }),
            Some((uid, gid)) => Ok(Self { uid: number(uid)?, gid: number(gid)? }),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let scope = Scope { follow: !args.link && !args.recursive, recursive: args.recursive };
    change_each(&args.targets, args.write, scope, |vfs, attr| change(vfs, attr, args.owner))
}

fn change(vfs: &Vfs, attr: &Attr, Owner { uid, gid }: Owner) -> Result<()> {
    let (new_uid, new_gid) = (uid.unwrap_or(attr.uid), gid.unwrap_or(attr.gid));
    if (new_uid, new_gid) == (attr.uid, attr.gid) {
        return Ok(());
    }
    // As chown(2) does for programs.
    let is_program = attr.kind == FileKind::Regular && attr.perm & 0o111 != 0;
    let perm = (is_program && attr.perm & 0o6000 != 0).then_some(attr.perm & !0o6000);
    let set = SetAttr { uid, gid, perm, ..SetAttr::default() };
    match vfs.setattr(&Cred::root(), attr.ino, &set, None) {
        Err(Error::Overflow) => Err(crate::error::Failure::new(format!(
            "owner {new_uid}:{new_gid} does not fit: the largest number is {}",
            vfs.fs().limits().id_max
        ))),
        done => Ok(flags::explained(done.map(drop), &[attr.flags])?),
    }
}
