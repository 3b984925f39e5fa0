//! `spindle export`

use crate::caller::Caller;
use crate::error::{Context, Failure, Result};
use crate::image;
use crate::interrupt;
use crate::outfile::{self, OutArgs};
use crate::paths::resolve;
use crate::progress::Progress;
use crate::target::Target;
use crate::transfer::{Adjust, Adjusted, ImageSource, LocalSink, Sink, TarWriter, split};
use spindle_vfs::Vfs;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Export an image, or a part of it, to a directory or a tar stream
///
/// Kept are names, bytes, holes, hard and symbolic links, permissions, times with nanoseconds,
/// device nodes, fifos and extended attributes; owners and devices in a directory only if you are
/// root. The same tree always gives the same tar stream, which is of the pax format, sorted by
/// name.
///
/// A directory may exist and is filled; what stands in the way of a file is replaced.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle export disk.img@s1a root/
    spindle export disk.img:/home home.tar
    spindle export disk.img - | zstd >disk.tar.zst")]
pub struct Args {
    /// Write a tar stream, whatever the name of TARGET
    #[arg(long)]
    tar: bool,
    #[command(flatten)]
    out: OutArgs,
    /// The image, or a directory or file in it
    #[arg(value_name = "IMAGE[:/PATH]")]
    source: OsString,
    /// A directory, or a tar stream: - for standard output, or a name that ends in .tar
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let caller = Caller::find();
    let source = Target::in_image(&args.source)?;
    let target = &args.target;
    let to_stdout = target == Path::new("-");
    let is_tar = to_stdout || args.tar || target.extension().is_some_and(|ext| ext == "tar");
    if !to_stdout {
        interrupt::watch()?;
    }
    let progress = Progress::new("exporting", None);
    image::read(&source.image, |vfs| {
        if to_stdout {
            if io::stdout().is_terminal() {
                return Err(Failure::usage(
                    "a tar stream would confuse the terminal; send it to a file or a pipe",
                ));
            }
            let out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
            send(vfs, &source.path, &mut TarWriter::new(out), &progress)
        } else if is_tar {
            let file = outfile::create(target, args.out.force)?;
            let out: Box<dyn Write> =
                if file.metadata()?.is_file() { Box::new(file) } else { Box::new(interrupt::Writer(file)) };
            let out = BufWriter::with_capacity(1 << 20, out);
            send(vfs, &source.path, &mut TarWriter::new(out), &progress)
                .inspect_err(|_| outfile::undo(target))
                .context(target.display())
        } else {
            std::fs::create_dir_all(target).context(target.display())?;
            let mut sink = LocalSink::new(target, true, caller.umask)?;
            send(vfs, &source.path, &mut sink, &progress)
        }
        .context(&source.image)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn send(vfs: &Vfs, path: &[u8], sink: &mut dyn Sink, progress: &Progress) -> Result<()> {
    let node = resolve(vfs, path, true)?;
    let name = if node.is_dir() { b"" } else { split(path).1 };
    let mut sink = Adjusted::new(sink, Adjust::default(), progress);
    ImageSource::new(vfs, node, true).walk(name, &mut sink)?;
    sink.finish()
}
