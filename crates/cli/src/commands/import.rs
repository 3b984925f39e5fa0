//! `spindle import`

use crate::caller::Caller;
use crate::error::{Context, Failure, Result};
use crate::image::{self, WriteArgs};
use crate::interrupt;
use crate::mkfs::{FsArgs, make};
use crate::progress::Progress;
use crate::target::{ImagePath, Target};
use crate::text;
use rustix::fs::OFlags;
use spindle::newfs::{Created, Parameters, Plan, Spare, clock, open_new, plan_to_fit, seed};
use spindle::path::resolve;
use spindle::transfer::{Adjust, Adjusted, ImageSink, LocalSource, NewFiles, Sink, Source as _, TarReader};
use spindle::{OpenOptions, Spec};
use spindle_clock::Timestamp;
use spindle_vfs::{Error, Privilege, SetAttr};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Import a directory or tar stream into an image
///
/// SOURCE is a directory, a tar stream in a file, or - for a tar stream from standard input. It is
/// imported into the root directory of IMAGE, or into the directory IMAGE:/PATH. Import keeps
/// names, contents, holes, hard and symbolic links, owners, permissions, times with nanoseconds,
/// device nodes, fifos, sockets, and extended attributes of the user name space (UFS2). Existing
/// files are replaced, existing directories are filled.
///
/// If IMAGE does not exist, or a size is given, a file system is created first, with the parameters
/// of newfs. "-s fit", the default for a new image, creates the smallest one that holds everything,
/// plus the free space given by --free-bytes and --free-percent. A stream from standard input
/// cannot be measured beforehand and needs a size.
///
/// With --timestamp, the same tree gives the same image to the byte.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    after_long_help = "EXAMPLES
    spindle import src/ disk.img:/usr/src            into an existing file system
    spindle import root/ disk.img                    create an image that fits
    spindle import --timestamp 0 --uid 0 --gid 0 -O1 root/ disk.img
    tar -cf - . | spindle import -s 2g - disk.img"
)]
pub struct Args {
    /// Create a file system first: its size in bytes, with k, m, g or t for powers of 1024, or
    /// "fit"
    #[arg(short = 's', long, value_name = "SIZE|fit", value_parser = parse_size)]
    size: Option<Size>,
    /// With -s fit: add this many bytes of free space
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = text::parse_bytes, hide_default_value = true)]
    free_bytes: u64,
    /// With -s fit: add free space, in percent of the space needed
    #[arg(long, value_name = "PERCENT", default_value_t = 0, hide_default_value = true)]
    free_percent: u16,
    /// Make this user the owner of everything
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,
    /// Make this group the group of everything
    #[arg(long, value_name = "GID")]
    gid: Option<u32>,
    /// Use this time for all timestamps, in seconds since 1970, and as the seed of random
    /// numbers: gives reproducible images
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    timestamp: Option<i64>,
    #[command(flatten)]
    write: WriteArgs,
    /// A directory, a tar stream in a file, or - for standard input
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// The image, or a directory in it
    #[arg(value_name = "IMAGE[:/PATH]")]
    target: OsString,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    fs: FsArgs,
}

/// The size of a new file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Fit,
    Bytes(u64),
}

fn parse_size(text: &str) -> Result<Size, String> {
    if text == "fit" { Ok(Size::Fit) } else { text::parse_bytes(text).map(Size::Bytes) }
}

/// The source of an import.
enum Source {
    Directory(PathBuf),
    TarFile(PathBuf),
    Stdin,
}

impl Source {
    fn find(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdin);
        }
        let metadata = std::fs::metadata(path).context(path.display())?;
        Ok(if metadata.is_dir() { Self::Directory(path.into()) } else { Self::TarFile(path.into()) })
    }

    fn walk(&self, sink: &mut dyn Sink) -> Result<()> {
        match self {
            Self::Directory(path) => Ok(LocalSource::new(path).walk(sink)?),
            Self::TarFile(path) => tar_file(path).context(path.display())?.walk(sink).context(path.display()),
            Self::Stdin => {
                let stdin = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
                TarReader::stream(interrupt::Reader(File::from(stdin))).walk(sink).context("standard input")
            }
        }
    }
}

/// Opens a tar file, or a named pipe, whose reads wait for a writer and can be interrupted.
fn tar_file(path: &Path) -> std::io::Result<TarReader> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    let is_file = file.metadata()?.is_file();
    let file = interrupt::Reader(file);
    Ok(if is_file { TarReader::seekable(file) } else { TarReader::stream(file) })
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    let caller = Caller::find();
    let source = Source::find(&args.source)?;
    let (target, size) = match Target::in_image(&args.target) {
        Ok(target) => (target, args.size),
        Err(missing) => {
            // The image is to be created: its name must be possible for a file.
            let path = Path::new(&args.target);
            let image = path.to_str().filter(|text| !path.is_dir() && !text.contains(":/")).ok_or(missing)?;
            let target = ImagePath { image: image.to_owned(), path: b"/".to_vec() };
            (target, Some(args.size.unwrap_or(Size::Fit)))
        }
    };
    let mut total = None;
    let created = match size {
        None if args.fs.root_owner().is_some() => {
            return Err(Failure::usage("--root-owner is for a new file system; make one with -s"));
        }
        None => None,
        Some(size) => {
            if target.path != b"/" {
                return Err(Failure::usage("a new file system is filled from its root; give no path in it"));
            }
            Some(make_file_system(args, &source, &target.image, size, &mut total)?)
        }
    };
    fill(args, &source, &target, caller, total).inspect_err(|_| {
        if let Some(created) = &created {
            created.undo_written();
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the parameters of the new file system, without the directory .snap.
fn parameters(args: &Args, size_bytes: u64) -> Parameters {
    Parameters { snap_dir: false, ..args.fs.parameters(size_bytes) }
}

/// Creates the file system. Stores the bytes of data to import in `total` if they were counted.
fn make_file_system(
    args: &Args,
    source: &Source,
    image: &str,
    size: Size,
    total: &mut Option<u64>,
) -> Result<Created> {
    let spec = Spec::parse(image)?;
    let plan = match size {
        Size::Bytes(bytes) => {
            Plan::new(&parameters(args, bytes)).map_err(spindle::Error::from).context(image)?
        }
        Size::Fit => {
            if matches!(source, Source::Stdin) {
                return Err(Failure::usage("a stream cannot be measured beforehand; give the size with -s"))
                    .context(image);
            }
            let spare = Spare { bytes: args.free_bytes, percent: args.free_percent };
            let walk = |sink: &mut dyn Sink| {
                let step = |_| interrupt::check();
                source.walk(&mut Adjusted::new(sink, Adjust::default(), &step)).map_err(Failure::into_error)
            };
            let (plan, bytes) = plan_to_fit(|size| parameters(args, size), spare, walk).context(image)?;
            *total = Some(bytes);
            plan
        }
    };
    for note in &plan.notes {
        log::info!("{image}: {note}");
    }
    let (device, created) = open_new(&spec, Some(plan.size_bytes()), args.write.force)?;
    make(&plan, &*device, args.timestamp).context(image).inspect_err(|_| created.undo())?;
    Ok(created)
}

/// Fills the file system.
fn fill(args: &Args, source: &Source, target: &ImagePath, caller: Caller, total: Option<u64>) -> Result<()> {
    let options =
        OpenOptions { clock: clock(args.timestamp), seed: seed(args.timestamp), ..args.write.open_options() };
    let new = NewFiles { preserve: true, uid: caller.uid, gid: caller.gid, umask: caller.umask };
    let new = NewFiles { uid: args.uid.unwrap_or(new.uid), gid: args.gid.unwrap_or(new.gid), ..new };
    let time = args.timestamp.map(|secs| Timestamp::new(secs, 0));
    let adjust = Adjust { uid: args.uid, gid: args.gid, time };
    let progress = Progress::new("importing", total);
    let step = |bytes| progress.step(bytes);
    image::run(&target.image, &options, |vfs| {
        let dir = resolve(vfs, &target.path, true).context(&target.image)?;
        if !dir.is_dir() {
            return Err(Error::NotDirectory).context(target.display());
        }
        let mut sink = Adjusted::new(ImageSink::new(&dir, &target.path, new), adjust, &step);
        let done = source.walk(&mut sink).and_then(|()| Ok(sink.finish()?));
        let done = done.and_then(|()| {
            // The source's root has an owner of its own.
            let Some((uid, gid)) = args.fs.root_owner() else { return Ok(()) };
            let set = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
            vfs.fs().setattr(dir.ino(), &set, Privilege::Root).map_err(spindle::Error::from)?;
            Ok(())
        });
        done.map_err(|failure| {
            if failure.is(&Error::NoSpace) {
                return Failure::new(format!(
                    "{failure}; {} is full: give a larger size with -s",
                    target.image
                ));
            }
            failure
        })
    })
}
