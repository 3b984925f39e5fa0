//! `spindle cat`

use crate::error::{Context, Failure, Result};
use crate::image::{self, Losses, ReadArgs};
use crate::output::Output;
use spindle::path::resolve;
use spindle::transfer::{CHUNK, Content, ImageContent};
use spindle_vfs::{Error, FileKind, Vfs};
use std::ffi::OsString;
use std::process::ExitCode;

/// Write files in an image to standard output
///
/// Holes in sparse files are written as zeros; so is what cannot be read in a damaged image, which
/// is said on standard error, and the exit code is then 1.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle cat disk.img@s1a:/etc/fstab")]
pub struct Args {
    #[command(flatten)]
    read: ReadArgs,
    /// The files, written one after the other
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    targets: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut out = Output::stdout();
    let losses = Losses::default();
    let code = image::read_each(&args.targets, args.read, |vfs, target, _| {
        let lost = |error| losses.add(target.display(), error);
        cat(vfs, &target.path, &lost, &mut out)
    })?;
    out.finish()?;
    losses.check()?;
    Ok(code)
}

fn cat(vfs: &Vfs, path: &[u8], lost: &dyn Fn(spindle::Error), out: &mut Output) -> Result<()> {
    let node = resolve(vfs, path, true)?;
    match node.attr().kind {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Error::IsDirectory).named(path),
        _ => return Err(Failure::new("not a regular file")).named(path),
    }
    let mut content = ImageContent::new(&**vfs.fs(), node.attr()).past_damage(lost);
    let mut buffer = vec![0; CHUNK];
    let zeros = vec![0; CHUNK];
    let mut at = 0;
    loop {
        let piece = content.next(&mut buffer).named(path)?;
        let (next, len) = piece.unwrap_or((node.attr().size, 0));
        while at < next {
            let n = usize::try_from(next - at).unwrap_or(CHUNK).min(CHUNK);
            out.bytes(&zeros[..n])?;
            at += n as u64;
        }
        if piece.is_none() {
            return Ok(());
        }
        out.bytes(&buffer[..len])?;
        at += len as u64;
    }
}
