//! `spindle import`

use crate::caller::Caller;
use crate::error::{Context, Failure, Result};
use crate::image::{self, OpenSettings, WriteArgs};
use crate::interrupt;
use crate::mkfs::{Created, Destination, FsArgs, clock, make, open_new, seed};
use crate::paths::resolve;
use crate::progress::Progress;
use crate::target::{ImagePath, Target};
use crate::text;
use crate::transfer::{Adjust, Adjusted, CensusSink, ImageSink, LocalSource, NewFiles, Sink, TarReader};
use spindle_clock::Timestamp;
use spindle_ffs::newfs::{Census, ParameterError, Parameters, Plan, fit};
use spindle_vfs::Error;
use std::ffi::OsString;
use std::os::fd::AsFd;
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
    #[command(flatten)]
    fs: FsArgs,
    /// A directory, a tar stream in a file, or - for standard input
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// The image, or a directory in it
    #[arg(value_name = "IMAGE[:/PATH]")]
    target: OsString,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
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
            Self::Directory(path) => LocalSource::new(path, true).walk(b"", sink),
            Self::TarFile(path) => {
                TarReader::file(path).and_then(|mut tar| tar.walk(sink)).context(path.display())
            }
            Self::Stdin => {
                let stdin = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
                TarReader::stream(stdin.into()).walk(sink).context("standard input")
            }
        }
    }
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
    let invalid = |e: ParameterError| Failure::new(e.to_string());
    let plan = match size {
        Size::Bytes(bytes) => Plan::new(&parameters(args, bytes)).map_err(invalid).context(image)?,
        Size::Fit => {
            let (plan, bytes) = plan_to_fit(args, source).context(image)?;
            *total = Some(bytes);
            plan
        }
    };
    for note in &plan.notes {
        log::info!("{image}: {note}");
    }
    let destination = Destination { image, size: Some(plan.size_bytes()), force: args.write.force };
    let (device, created) = open_new(&destination)?;
    make(&plan, &*device, args.timestamp).context(image).inspect_err(|_| created.undo())?;
    Ok(created)
}

/// Measures the source and plans the smallest file system for it. Returns the plan and the bytes of
/// data.
fn plan_to_fit(args: &Args, source: &Source) -> Result<(Plan, u64)> {
    if matches!(source, Source::Stdin) {
        return Err(Failure::usage("a stream cannot be measured beforehand; give the size with -s"));
    }
    let invalid = |e: ParameterError| Failure::new(e.to_string());
    // Some dialects use larger blocks for larger file systems: repeat with the resulting size
    // until the block size stays the same.
    let mut guess = 1 << 30;
    for _ in 0..4 {
        let parameters_for_guess = parameters(args, guess);
        let mut counting = CensusSink::new(Census::new(&parameters_for_guess).map_err(invalid)?);
        source.walk(&mut counting)?;
        let (census, bytes) = counting.counted();
        let plan = fit(&parameters_for_guess, &census).map_err(invalid)?;
        let needed = plan.size_bytes();
        let more =
            u64::try_from(u128::from(needed) * u128::from(args.free_percent) / 100).unwrap_or(u64::MAX);
        let extra = more.saturating_add(args.free_bytes);
        let plan = if extra == 0 {
            plan
        } else {
            let (bsize, fsize) = (Some(plan.layout.fs_bsize), Some(plan.layout.fs_fsize));
            let size = needed.saturating_add(extra);
            Plan::new(&Parameters { bsize, fsize, ..parameters(args, size) }).map_err(invalid)?
        };
        let by_itself = Plan::new(&parameters(args, plan.size_bytes()));
        if by_itself.is_ok_and(|other| other.layout.fs_bsize == plan.layout.fs_bsize) {
            return Ok((plan, bytes));
        }
        guess = plan.size_bytes();
    }
    Err(Failure::new("found no block size that fits; choose one with -b and -f"))
}

/// Fills the file system.
fn fill(args: &Args, source: &Source, target: &ImagePath, caller: Caller, total: Option<u64>) -> Result<()> {
    let settings = OpenSettings {
        clock: clock(args.timestamp),
        seed: seed(args.timestamp),
        ..OpenSettings::read_write(args.write)
    };
    let new = NewFiles { preserve: true, uid: caller.uid, gid: caller.gid, umask: caller.umask };
    let new = NewFiles { uid: args.uid.unwrap_or(new.uid), gid: args.gid.unwrap_or(new.gid), ..new };
    let time = args.timestamp.map(|secs| Timestamp::new(secs, 0));
    let adjust = Adjust { uid: args.uid, gid: args.gid, time };
    let progress = Progress::new("importing", total);
    image::run(&target.image, &settings, |vfs| {
        let dir = resolve(vfs, &target.path, true).context(&target.image)?;
        if !dir.is_dir() {
            return Err(Error::NotDirectory).context(target.display());
        }
        let mut sink = Adjusted::new(ImageSink::new(&dir, &target.path, new), adjust, &progress);
        let done = source.walk(&mut sink).and_then(|()| sink.finish());
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
