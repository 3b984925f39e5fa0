//! `spindle export`

use crate::caller::Caller;
use crate::error::{Context, Failure, Result};
use crate::image::{self, Failures, Losses, ReadArgs};
use crate::outfile::{self, Kind, Out, OutArgs};
use crate::progress::Progress;
use crate::target::Target;
use crate::{interrupt, text};
use spindle::path::resolve;
use spindle::transfer::{
    Adjust, Adjusted, Asked, ImageSource, LocalSink, PastFailures, Sink, Source, TarWriter, split,
};
use spindle_vfs::{Node, Vfs};
use std::ffi::{OsStr, OsString};
use std::io::BufWriter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Export an image, or a part of it, to a directory or a tar stream
///
/// Export keeps names, contents, holes, hard and symbolic links, permissions, times with
/// nanoseconds, owners, device nodes, fifos and extended attributes. In a directory it keeps owners
/// and device nodes only if you are root, set-user-id and set-group-id bits only of files whose
/// owner and group are the same there, and no file flags of BSD; it says what it has left out. A
/// tar stream keeps all that, as bsdtar does; it has the pax format and is sorted by name, and the
/// same tree always gives the same stream.
///
/// An existing directory is filled, and existing files in it are replaced.
///
/// What cannot be exported is listed on standard error, and export goes on, unless the target is
/// full or fails: a file, directory, attribute or access control list is left out, and zeros stand
/// in place of what cannot be read of a file in a damaged image. Files that claim the same space
/// are exported and named: one of them has contents of the other. The exit code is then 1. File
/// flags, which Linux does not have, and sockets, which a tar stream cannot contain, are left out
/// with a warning only.
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
    /// A directory, or a tar stream: - for standard output, or a name that ends in .tar (for one
    /// that is compressed, use a pipe)
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let caller = Caller::find();
    let source = Target::in_image(&args.source)?;
    let target = &args.target;
    let is_tar = outfile::is_stdout(target) || args.tar || target.extension().is_some_and(|ext| ext == "tar");
    if !is_tar {
        refuse_archive(target)?;
    }
    interrupt::watch()?;
    let progress = Progress::new("exporting", None);
    let (losses, failures) = (Losses::default(), Failures::default());
    let lost = |error| losses.add(&source.image, error);
    image::read(&source.image, args.read, |vfs| {
        let image = &source.image;
        let root = resolve(vfs, &source.path, true).context(image)?;
        let from = From { vfs, path: &source.path, lost: &lost, progress: &progress };
        let failed_in_tar = |path: &[u8], error| failures.add_file(path, error);
        if is_tar {
            let out = Out::create(target, Kind::Tar, args.out.force)?;
            let stream = BufWriter::with_capacity(1 << 20, out.writer()?);
            let mut sink = TarWriter::new(stream, &out.name).past_failures(&failed_in_tar);
            let sent = from.send(root, &mut sink).and_then(|()| Ok(sink.finish()?));
            drop(sink);
            sent.and_then(|()| out.finish())
        } else {
            std::fs::create_dir_all(target).context(target.display())?;
            let failed = |path: &[u8], error| {
                let place = target.join(OsStr::from_bytes(path));
                failures.add_file(place.as_os_str().as_bytes(), error)
            };
            let sink = LocalSink::new(target, true, caller.umask)?.past_failures(&failed);
            let mut sink = sink.asking_for(Asked { xattrs: true, flags: false });
            let place =
                |path: &[u8]| text::quoted(target.join(OsStr::from_bytes(path)).as_os_str().as_bytes());
            let sent = from.send(root, &mut PastFailures::new(&mut sink, &failed).naming(&place));
            // Directories get their permissions and times in any case.
            let finished = sink.finish();
            sent.and_then(|()| Ok(finished?))
        }
        .context(image)
    })?;
    losses.check().context(&source.image)?;
    Ok(failures.exit_code())
}

/// Ends of names of archives, and what makes them from a tar stream.
const ARCHIVES: [(&str, &[&str]); 7] = [
    ("gzip", &[".tar.gz", ".tgz", ".taz"]),
    ("zstd", &[".tar.zst", ".tzst"]),
    ("xz", &[".tar.xz", ".txz"]),
    ("bzip2", &[".tar.bz2", ".tbz", ".tbz2"]),
    ("lz4", &[".tar.lz4"]),
    ("lzip", &[".tar.lz", ".tlz"]),
    ("compress", &[".tar.z"]),
];

/// Refuses the name of a compressed archive, which somebody expects to become one, and which would
/// become a directory. One that is a directory already is filled.
fn refuse_archive(target: &Path) -> Result<()> {
    let name = target.to_string_lossy().to_ascii_lowercase();
    let program = ARCHIVES.iter().find(|(_, ends)| ends.iter().any(|end| name.ends_with(end)));
    match program {
        Some((program, _)) if !target.is_dir() => Err(Failure::new(format!(
            "{0}: export does not compress; use a pipe: spindle export IMAGE - | {program} >{0}",
            text::quoted(target.as_os_str().as_bytes())
        ))),
        _ => Ok(()),
    }
}

/// What is exported.
#[derive(Clone, Copy)]
struct From<'a> {
    vfs: &'a Vfs,
    path: &'a [u8],
    /// Is called with what cannot be read.
    lost: &'a dyn Fn(spindle::Error),
    progress: &'a Progress,
}

impl<'a> From<'a> {
    /// Passes the tree at `root` to a sink, and does not finish it.
    fn send(self, root: Node<'a>, sink: &mut dyn Sink) -> Result<()> {
        let name = if root.is_dir() { b"" } else { split(self.path).1 };
        let step = |bytes| self.progress.step(bytes);
        let mut sink = Adjusted::new(sink, Adjust::default(), &step);
        let source = ImageSource::new(self.vfs, root).at(self.path).below(name);
        Ok(source.past_damage(self.lost).walk(&mut sink)?)
    }
}
