//! `spindle cat`

use crate::error::{Context, Failure, Result};
use crate::image;
use crate::output::Output;
use crate::target::Target;
use spindle::path::resolve;
use spindle::transfer::{CHUNK, Content, ImageContent};
use spindle_vfs::{Error, FileKind, Vfs};
use std::ffi::OsString;
use std::process::ExitCode;

/// Write files in an image to standard output
///
/// Holes in sparse files are written as zeros.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle cat disk.img@s1a:/etc/fstab")]
pub struct Args {
    /// The files, written one after the other
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    targets: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut out = Output::stdout();
    for target in &args.targets {
        let target = Target::in_image(target)?;
        image::read(&target.image, |vfs| cat(vfs, &target.path, &mut out).context(&target.image))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn cat(vfs: &Vfs, path: &[u8], out: &mut Output) -> Result<()> {
    let node = resolve(vfs, path, true)?;
    match node.attr().kind {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Error::IsDirectory).named(path),
        _ => return Err(Failure::new("not a regular file")).named(path),
    }
    let mut content = ImageContent::new(&**vfs.fs(), node.attr());
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
