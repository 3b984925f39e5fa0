//! `spindle export`

use crate::caller::Caller;
use crate::error::{Context, Failure, Result};
use crate::image::{self, Losses, ReadArgs};
use crate::interrupt;
use crate::outfile::{self, OutArgs};
use crate::progress::Progress;
use crate::target::Target;
use spindle::path::resolve;
use spindle::transfer::{Adjust, Adjusted, ImageSource, LocalSink, Sink, Source, TarWriter, split};
use spindle_vfs::Vfs;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Export an image, or a part of it, to a directory or a tar stream
///
/// Export keeps names, contents, holes, hard and symbolic links, permissions, times with
/// nanoseconds, owners, device nodes, fifos and extended attributes. In a directory it keeps owners
/// and device nodes only if you are root. The tar stream has the pax format and is sorted by name;
/// the same tree always gives the same stream.
///
/// An existing directory is filled, and existing files in it are replaced.
///
/// What cannot be read in a damaged image is listed on standard error, and export goes on: a file
/// or directory is left out, and zeros stand in place of a part of a file. The exit code is then 1.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle export disk.img@s1a root/
    spindle export disk.img:/home home.tar
    spindle export disk.img - | zstd >disk.tar.zst")]
pub struct Args {
    /// Write a tar stream even if TARGET does not end in .tar
    #[arg(long)]
    tar: bool,
    #[command(flatten)]
    out: OutArgs,
    #[command(flatten)]
    read: ReadArgs,
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
    let losses = Losses::default();
    let lost = |error| losses.add(&source.image, error);
    image::read(&source.image, args.read, |vfs| {
        let from = From { vfs, path: &source.path, lost: &lost };
        if to_stdout {
            if io::stdout().is_terminal() {
                return Err(Failure::usage(
                    "will not write a tar stream to a terminal; redirect it to a file or a pipe",
                ));
            }
            let out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
            send(from, &mut TarWriter::new(out, "standard output"), &progress)
        } else if is_tar {
            let file = outfile::create(target, args.out.force)?;
            let out: Box<dyn Write> =
                if file.metadata()?.is_file() { Box::new(file) } else { Box::new(interrupt::Writer(file)) };
            let out = BufWriter::with_capacity(1 << 20, out);
            let mut sink = TarWriter::new(out, target.display().to_string());
            send(from, &mut sink, &progress).inspect_err(|_| outfile::remove_unfinished(target))
        } else {
            std::fs::create_dir_all(target).context(target.display())?;
            let mut sink = LocalSink::new(target, true, caller.umask)?;
            send(from, &mut sink, &progress)
        }
        .context(&source.image)
    })?;
    losses.check().context(&source.image)?;
    Ok(ExitCode::SUCCESS)
}

/// What is exported.
#[derive(Clone, Copy)]
struct From<'a> {
    vfs: &'a Vfs,
    path: &'a [u8],
    /// Is called with what cannot be read.
    lost: &'a dyn Fn(spindle::Error),
}

fn send(from: From<'_>, sink: &mut dyn Sink, progress: &Progress) -> Result<()> {
    let From { vfs, path, lost } = from;
    let node = resolve(vfs, path, true)?;
    let name = if node.is_dir() { b"" } else { split(path).1 };
    let step = |bytes| progress.step(bytes);
    let mut sink = Adjusted::new(sink, Adjust::default(), &step);
    ImageSource::new(vfs, node).below(name).past_damage(lost).walk(&mut sink)?;
    Ok(sink.finish()?)
}
