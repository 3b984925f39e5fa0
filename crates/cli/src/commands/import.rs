//! `spindle import`

use super::mkdir::make_all;
use super::restore::NEW;
use crate::caller::Caller;
use crate::error::{Context, Failure, Result};
use crate::image::{self, Failures, WriteArgs};
use crate::interrupt;
use crate::interruptible::Interruptible;
use crate::logger;
use crate::mkfs::{FsArgs, Kind, make, parse_kind};
use crate::progress::Progress;
use crate::target::{ImagePath, Target};
use crate::text;
use crate::timestamp::source_date_epoch;
use rustix::fs::OFlags;
use spindle::detect::detect;
use spindle::image::open_device_unlocked;
use spindle::newfs::{
    self, Created, Fitted, NewFs, Parameters, Plan, Room, Wanted, clock, misfits_in, old, open_new,
    plan_to_fit, seed,
};
use spindle::path::{resolve, sorted_names};
use spindle::transfer::{
    self, Adjust, Adjusted, ImageSink, LocalSource, Manifest, Manifested, Misfit, Names, NewFiles, Original,
    Sink, Source as _, TarReader, Times, misfits_behind, rehearse,
};
use spindle::{OpenOptions, Spec, partition};
use spindle_clock::Timestamp;
use spindle_v7::Format;
use spindle_vfs::{Error, Privilege, SetAttr};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Import a directory, tar stream or manifest into an image
///
/// SOURCE is a directory, a tar stream in a file, - for a tar stream from standard input, or a
/// manifest of mtree(5) that names files of this machine. It is imported into the root directory of
/// IMAGE, or into the directory IMAGE:/PATH, which is created if it does not exist. Import keeps
/// names, contents, holes, hard and symbolic links, owners, permissions, times with nanoseconds,
/// device nodes, fifos, sockets, extended attributes of the user name space (UFS2), and access
/// control lists if the image has them switched on (tunefs -a enable). Existing files are replaced,
/// existing directories are filled.
///
/// If IMAGE does not exist, or a size is given, a file system is created first, with the parameters
/// of newfs. "-s fit", the default for a new image, creates the smallest one that holds everything
/// and still has its reserve (-m) free, plus what --free-bytes and --free-percent ask for. With
/// "-m 0" it does not fit into a fragment less. It is tried out in memory first, so what the format
/// cannot store is listed before anything is written. A stream from standard input cannot be
/// measured beforehand and needs a size.
///
/// With --timestamp, the same tree gives the same image to the byte; also with SOURCE_DATE_EPOCH in
/// the environment, which replaces only the times that are later.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    after_long_help = "EXAMPLES
    spindle import src/ disk.img:/usr/src            into an existing one
    spindle import root/ disk.img                    create an image that fits
    spindle import -m 0 root/ disk.img               smallest, without reserve
    spindle import -t v7 root/ root.v7               an old one that fits
    spindle import -F METALOG -x -N root/etc root/ disk.img
                                                     owners of a manifest
    spindle import --timestamp 0 --uid 0 --gid 0 -O1 root/ disk.img
    tar -cf - . | spindle import -s 2g - disk.img

FROM makefs
    -B ORDER  --endian            -b N, N%  --free-bytes, --free-percent
    -F, -N, -x, -M, -R, -T, -t    the same
    -f N, N%  --free-inodes       -m SIZE   --max-size
    -O BYTES  IMAGE@offset=BYTES  -s, -S    the same
    -o version=1,bsize=B,fsize=F,density=D,minfree=M,optimization=O,label=L
              -O 1 -b B -f F -i D -m M -o O -L L"
)]
pub struct Args {
    /// Create a file system first: its size in bytes, with k, m, g or t for powers of 1024, or
    /// "fit"
    #[arg(short = 's', long, value_name = "SIZE|fit", value_parser = parse_size)]
    size: Option<Size>,
    /// Type of a new file system: ffs, or an old one: v7, 32v, bsd (4.1BSD), sysv, sysv16, with
    /// block size and byte order if they are not the usual ones (sysv-2048-be, v7-le)
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "ffs", value_parser = parse_kind)]
    kind: Kind,
    /// With -s fit: have this many bytes of free space
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = text::parse_bytes, hide_default_value = true)]
    free_bytes: u64,
    /// With -s fit: have free space, in percent of the size that is needed
    #[arg(long, value_name = "PERCENT", default_value_t = 0, hide_default_value = true)]
    free_percent: u16,
    /// With -s fit: have this many free inodes, or so many percent of those in use (default: those
    /// that newfs gives to the free space)
    #[arg(long, value_name = "COUNT|PERCENT%", value_parser = parse_share)]
    free_inodes: Option<Share>,
    /// Make the image at least so large
    #[arg(short = 'M', long, value_name = "SIZE", value_parser = text::parse_bytes)]
    min_size: Option<u64>,
    /// Fail if the image would be larger
    #[arg(long, value_name = "SIZE", value_parser = text::parse_bytes)]
    max_size: Option<u64>,
    /// Make the size a multiple of this
    #[arg(short = 'R', long, value_name = "SIZE", value_parser = text::parse_bytes)]
    round_size: Option<u64>,
    /// A manifest of mtree(5), - for standard input: what it lists gets its owners, permissions,
    /// times, flags, link targets and contents, and is created if SOURCE does not have it
    ///
    /// Files that it does not list are imported as they are; see -x. Checksums are not compared.
    #[arg(short = 'F', long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// With a manifest: leave out the files that it does not list
    #[arg(short = 'x', long)]
    only_listed: bool,
    /// With a manifest: find the numbers of users and groups in master.passwd (or passwd) and group
    /// in this directory, not in /etc
    #[arg(short = 'N', long, value_name = "DIR")]
    user_db: Option<PathBuf>,
    /// Make this user the owner of everything
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,
    /// Make this group the group of everything
    #[arg(long, value_name = "GID")]
    gid: Option<u32>,
    /// Use this time for all timestamps, in seconds since 1970, and as the seed of random
    /// numbers: gives reproducible images
    #[arg(short = 'T', long, value_name = "SECONDS", allow_negative_numbers = true)]
    timestamp: Option<i64>,
    #[command(flatten)]
    write: WriteArgs,
    /// A directory, a tar stream in a file, - for standard input, or a manifest
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

impl Args {
    /// Refuses what contradicts the size of the file system.
    fn check_size(&self, size: Option<Size>) -> Result<()> {
        let has_free = self.free_bytes > 0 || self.free_percent > 0 || self.free_inodes.is_some();
        let has_limits = self.min_size.is_some() || self.max_size.is_some() || self.round_size.is_some();
        if self.round_size == Some(0) {
            return Err(Failure::usage("-R 0: give the size that the image is to be a multiple of"));
        }
        if let (Some(min), Some(max)) = (self.min_size, self.max_size)
            && min > max
        {
            return Err(Failure::usage(format!("-M {min} is more than --max-size {max}")));
        }
        match size {
            None if has_free || has_limits => Err(Failure::usage(
                "--free-*, -M, --max-size and -R are for a new file system; make one with -s",
            )),
            Some(Size::Bytes(size)) if has_free => Err(Failure::usage(format!(
                "--free-* is for -s fit; -s fit -M {size} --max-size {size} makes one of this size, or fails"
            ))),
            Some(Size::Bytes(size)) => {
                let (min, max) = (self.min_size.unwrap_or(0), self.max_size.unwrap_or(u64::MAX));
                if !(min..=max).contains(&size) {
                    return Err(Failure::usage(format!("-s {size} contradicts -M or --max-size")));
                }
                if self.round_size.is_some_and(|unit| !size.is_multiple_of(unit)) {
                    return Err(Failure::usage(format!("-s {size} is not a multiple of what -R gives")));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// A number, or percents of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Count(u64),
    Percent(u16),
}

fn parse_share(text: &str) -> Result<Share, String> {
    let parsed = match text.strip_suffix('%') {
        Some(percent) => percent.parse().map(Share::Percent).ok(),
        None => text.parse().map(Share::Count).ok(),
    };
    parsed.ok_or_else(|| "give a number, or percents as 20%".into())
}

/// The size of a new file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Fit,
    Bytes(u64),
}

fn parse_size(text: &str) -> Result<Size, String> {
    if text == "fit" { Ok(Size::Fit) } else { text::parse_size(text).map(Size::Bytes) }
}

/// The source of an import.
struct Source {
    tree: Tree,
    manifest: Option<Manifest>,
    only_listed: bool,
    /// The file that is imported into, which is no part of the source.
    image: PathBuf,
}

/// What is called while data is read.
struct Heard<'a> {
    /// With the path of the image itself, which is left out.
    said: &'a dyn Fn(&str),
    /// With the path of a file that changes while it is read.
    changed: &'a dyn Fn(&str, spindle::Error) -> spindle::Result<()>,
}

/// The files of a source.
enum Tree {
    Directory(PathBuf),
    TarFile(PathBuf),
    Stdin,
    /// Those that the manifest names.
    Manifest,
}

impl Source {
    fn find(args: &Args, image: &str) -> Result<Self> {
        let path = &args.source;
        let image = Spec::parse(image)?.path;
        let (tree, listed) = if path == Path::new("-") {
            (Tree::Stdin, None)
        } else if std::fs::metadata(path).context(path.display())?.is_dir() {
            (Tree::Directory(path.clone()), None)
        } else if is_manifest(path).context(path.display())? {
            (Tree::Manifest, Some(path))
        } else {
            if is_same_file(path, &image) {
                return Err(Failure::new("it is the image itself; import it into another one"))
                    .context(path.display());
            }
            (Tree::TarFile(path.clone()), None)
        };
        if listed.is_some() && args.manifest.is_some() {
            return Err(Failure::usage("SOURCE is a manifest itself; give one without -F"));
        }
        let manifest = listed.or(args.manifest.as_ref());
        if matches!(tree, Tree::Stdin) && manifest.is_some_and(|path| path == Path::new("-")) {
            return Err(Failure::usage("standard input can be either the source or the manifest"));
        }
        if manifest.is_none() && (args.only_listed || args.user_db.is_some()) {
            return Err(Failure::usage("-x and -N belong to a manifest (-F)"));
        }
        let manifest = manifest.map(|path| read_manifest(path, args.user_db.as_deref())).transpose()?;
        Ok(Self { tree, manifest, only_listed: args.only_listed, image })
    }

    /// Returns true if the source can be walked more than once.
    fn can_be_repeated(&self) -> bool {
        match &self.tree {
            Tree::Directory(_) | Tree::Manifest => true,
            Tree::TarFile(path) => path.metadata().is_ok_and(|found| found.is_file()),
            Tree::Stdin => false,
        }
    }

    /// Returns the place in the source of a path of the transfer, for messages.
    fn path_of(&self, path: &[u8]) -> String {
        match &self.tree {
            Tree::Directory(dir) => text::printable(dir.join(OsStr::from_bytes(path)).as_os_str().as_bytes()),
            Tree::TarFile(file) => format!("{}: {}", file.display(), text::printable(path)),
            Tree::Stdin | Tree::Manifest => text::printable(path),
        }
    }

    /// Passes everything to a sink. `heard` is there if it reads data.
    fn walk(&self, sink: &mut dyn Sink, heard: Option<&Heard<'_>>) -> Result<()> {
        match &self.tree {
            Tree::Directory(path) => {
                let source = LocalSource::new(path);
                let Some(Heard { said, changed }) = heard else {
                    return self.walk_tree(Some(source.without(&self.image, &|_| ())), sink);
                };
                let source = source.without(&self.image, said).noticing(changed);
                // The data of what a manifest does not list is not read.
                match &self.manifest {
                    Some(_) => self.walk_tree(Some(source), sink),
                    None => self.walk_tree(Some(source.ahead()), sink),
                }
            }
            Tree::TarFile(path) => {
                let reader = tar_file(path).context(path.display())?;
                self.walk_tree(Some(reader), sink).context(path.display())
            }
            Tree::Stdin => {
                let stdin = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
                let reader = TarReader::stream(interrupt::Reader(File::from(stdin)));
                self.walk_tree(Some(reader), sink).context("standard input")
            }
            Tree::Manifest => self.walk_tree(None::<LocalSource>, sink),
        }
    }

    fn walk_tree<S: transfer::Source>(&self, source: Option<S>, sink: &mut dyn Sink) -> Result<()> {
        match (&self.manifest, source) {
            (Some(manifest), source) => {
                Ok(Manifested { source, manifest, only_listed: self.only_listed }.walk(sink)?)
            }
            (None, Some(source)) => Ok(source.walk(sink)?),
            (None, None) => Ok(()),
        }
    }
}

/// Returns true if a file is a manifest: it begins like one, and is text where a tar stream has
/// zeros.
fn is_manifest(path: &Path) -> Result<bool> {
    if !path.metadata()?.is_file() {
        return Ok(false);
    }
    let mut head = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut head)?;
    let begins = [&b"#"[..], b"/set ", b"./", b". "].iter().any(|begin| head.starts_with(begin));
    Ok(begins && !head.contains(&0))
}

/// Reads a manifest, with the numbers of users from this directory, or from /etc.
fn read_manifest(path: &Path, user_db: Option<&Path>) -> Result<Manifest> {
    let read = |path: &Path| std::fs::read(path).context(path.display());
    let text = if path == Path::new("-") {
        let mut text = Vec::new();
        io::stdin().read_to_end(&mut text).context("standard input")?;
        text
    } else {
        read(path)?
    };
    let dir = user_db.unwrap_or(Path::new("/etc"));
    let master = dir.join("master.passwd");
    let passwd = if user_db.is_some() && master.exists() { master } else { dir.join("passwd") };
    let names = Names::parse(&read(&passwd)?, &read(&dir.join("group"))?);
    Ok(Manifest::parse(&path.display().to_string(), &text, &names)?)
}

/// Returns true if both paths lead to the same file or device.
fn is_same_file(a: &Path, b: &Path) -> bool {
    let file = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino(), found.rdev())).ok();
    file(a).is_some_and(|a| file(b) == Some(a))
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
    let timestamp = Timestamps::of(args)?;
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
    let source = Source::find(args, &target.image)?;
    let is_new = newfs::is_new(&Spec::parse(&target.image)?);
    let size = size.or_else(|| is_new.then_some(Size::Fit));
    args.check_size(size)?;
    let import = Import { args, source: &source, target: &target, caller, timestamp };
    let Some(size) = size else {
        if args.fs.root_owner().is_some() {
            return Err(Failure::usage("--root-owner is for a new file system; make one with -s"));
        }
        if !matches!(args.kind, Kind::Ffs) {
            return Err(Failure::usage("-t is for a new file system; give its size with -s"));
        }
        check_misfits(args, &source, &target.image, timestamp)?;
        return import.fill(None, false).map_err(|failure| explained(failure, &target, full));
    };
    if target.path != b"/" {
        return Err(Failure::usage("a new file system is filled from its root; give no path in it"));
    }
    let mut total = None;
    let plan = plan(args, &source, &target.image, size, timestamp, is_new, &mut total)?;
    let created = make_file_system(args, &target.image, &plan, timestamp)?;
    let strict = is_new && source.can_be_repeated();
    import.fill(total, strict).map_err(|failure| {
        created.undo_written();
        if let (true, Failure::Message { error, .. }) = (strict, &failure) {
            let walk = |sink: &mut dyn Sink| walk_unread(args, &source, timestamp, sink);
            let misfits = misfits_behind(error, &plan, timestamp.fixed(), &walk);
            if !misfits.is_empty() {
                return refuse(&misfits, &source, &target.image);
            }
        }
        explained(failure, &target, too_small)
    })
}

/// Adds the remedy to a failure for lack of space: that of `full`, if it is the image.
fn explained(failure: Failure, target: &ImagePath, full: fn(&Failure, &str) -> Failure) -> Failure {
    match &failure {
        Failure::Message { error, .. } if error.is(&Error::NoSpace) && error.is_of_device() => {
            host_full(&failure)
        }
        Failure::Message { error, .. } if error.is(&Error::NoSpace) => full(&failure, &target.image),
        _ => failure,
    }
}

/// Returns the plan of the new file system, after trying it out, unless it gets its size and a new
/// file, which is removed if it does not hold everything. Stores the bytes of data to import in
/// `total` if they were counted.
fn plan(
    args: &Args,
    source: &Source,
    image: &str,
    size: Size,
    timestamp: Timestamps,
    is_new: bool,
    total: &mut Option<u64>,
) -> Result<NewFs> {
    let ffs = |size_bytes| Parameters { snap_dir: false, ..args.fs.parameters(size_bytes) };
    let name = args.fs.label().unwrap_or_default().as_bytes();
    let format = if let Kind::Old(format) = args.kind { format } else { Format::V7 };
    let old = |size| old::Parameters { name: name.to_vec(), ..old::Parameters::new(format, size) };
    let wanted = match args.kind {
        Kind::Ffs => Wanted::Ffs(&ffs),
        Kind::Old(_) if args.fs.is_for_ffs() => {
            return Err(Failure::usage("an old file system takes no parameters of newfs but -L"));
        }
        Kind::Old(_) => Wanted::Old(&old),
        Kind::Mfs => return Err(Failure::usage("make it with newfs -t mfs, and import into that")),
    };
    let walk = |sink: &mut dyn Sink| walk_unread(args, source, timestamp, sink);
    let misfits = match size {
        Size::Bytes(bytes) => {
            let plan = match wanted {
                Wanted::Ffs(of) => {
                    let plan = Plan::new(&of(bytes)).map_err(spindle::Error::from);
                    NewFs::Ffs(Box::new(plan.context(image)?))
                }
                Wanted::Old(of) => NewFs::Old(old::Plan::new(&of(bytes)).context(image)?),
            };
            if is_new || !source.can_be_repeated() {
                return Ok(plan);
            }
            let rehearsed = rehearse(&plan, timestamp.fixed(), &walk)?;
            if rehearsed.misfits.is_empty() {
                return match rehearsed.used {
                    Some(_) => Ok(plan),
                    None => Err(too_small(&Error::NoSpace.into(), image)),
                };
            }
            rehearsed.misfits
        }
        Size::Fit => {
            if !source.can_be_repeated() {
                return Err(Failure::usage("a stream cannot be measured beforehand; give the size with -s"))
                    .context(image);
            }
            let place = |path: &[u8]| source.path_of(path);
            let original = Original { walk: &walk, step: &|_| interrupt::check(), place: &place };
            match plan_to_fit(wanted, &room(args), timestamp.fixed(), original).context(image)? {
                Fitted::Plan(plan, bytes) => {
                    *total = Some(bytes);
                    return Ok(plan);
                }
                Fitted::Misfits(misfits) => misfits,
            }
        }
    };
    Err(refuse(&misfits, source, image))
}

/// Lists what the format cannot store, and returns the failure.
fn refuse(misfits: &[Misfit], source: &Source, image: &str) -> Failure {
    for Misfit { path, error } in misfits {
        logger::error(format_args!("{}: {error}", source.path_of(path)));
    }
    let count = misfits.len();
    let things = if count == 1 { "1 thing does" } else { &format!("{count} things do") };
    Failure::new(format!("{image}: {things} not fit into the format, as said above; nothing was written"))
}

/// Refuses what an existing file system cannot store, before anything is written.
fn check_misfits(args: &Args, source: &Source, image: &str, timestamp: Timestamps) -> Result<()> {
    if !source.can_be_repeated() {
        return Ok(());
    }
    let found = detect(&*open_device_unlocked(&partition::find(image)?)?).context(image)?;
    let walk = |sink: &mut dyn Sink| walk_unread(args, source, timestamp, sink);
    let place = |path: &[u8]| source.path_of(path);
    let original = Original { walk: &walk, step: &|_| interrupt::check(), place: &place };
    let misfits = misfits_in(&found, original)?;
    if misfits.is_empty() { Ok(()) } else { Err(refuse(&misfits, source, image)) }
}

/// Passes the source to a sink that does not read data.
fn walk_unread(
    args: &Args,
    source: &Source,
    timestamp: Timestamps,
    sink: &mut dyn Sink,
) -> spindle::Result<()> {
    let step = |_| interrupt::check();
    let mut sink = Adjusted::new(sink, timestamp.adjust(args), &step);
    source.walk(&mut sink, None).map_err(Failure::into_error)
}

/// Returns how large a file system that fits is to be.
fn room(args: &Args) -> Room {
    let (free_inodes, free_inodes_percent) = match args.free_inodes {
        Some(Share::Count(count)) => (Some(count), None),
        Some(Share::Percent(percent)) => (None, Some(percent)),
        None => (None, None),
    };
    Room {
        free_bytes: args.free_bytes,
        free_percent: args.free_percent,
        free_inodes,
        free_inodes_percent,
        min_bytes: args.min_size.unwrap_or(0),
        max_bytes: args.max_size,
        multiple_of: args.round_size.unwrap_or(1).max(1),
    }
}

/// Creates the file system.
fn make_file_system(args: &Args, image: &str, plan: &NewFs, timestamp: Timestamps) -> Result<Created> {
    let spec = Spec::parse(image)?;
    let (device, created) = open_new(&spec, Some(plan.size_bytes()), args.write.force)?;
    let done = match plan {
        NewFs::Ffs(plan) => {
            for note in &plan.notes {
                log::info!("{image}: {note}");
            }
            make(plan, &*device, timestamp.fixed())
        }
        NewFs::Old(_) => Ok(plan.write(&Interruptible(&*device), timestamp.fixed(), &mut || ())?),
    };
    done.context(image).inspect_err(|_| created.undo())?;
    Ok(created)
}

/// Adds the remedy to a failure for lack of space in a new image.
fn too_small(failure: &Failure, image: &str) -> Failure {
    Failure::new(format!("{failure}; {image} is full: give a larger size with -s"))
}

/// Adds the remedy to a failure for lack of space in an image that was there.
fn full(failure: &Failure, image: &str) -> Failure {
    Failure::new(format!("{failure}; {image} is full: remove files from it, or enlarge it (spindle growfs)"))
}

/// Adds the remedy to a failure for lack of space below the image.
fn host_full(failure: &Failure) -> Failure {
    Failure::new(format!(
        "{failure}; the file system that holds the image is full, not the image: free space there"
    ))
}

/// What is imported, and where.
struct Import<'a> {
    args: &'a Args,
    source: &'a Source,
    target: &'a ImagePath,
    caller: Caller,
    timestamp: Timestamps,
}

impl Import<'_> {
    /// Fills the file system with `total` bytes, if that is known. `strict` means that what the
    /// format cannot store is a failure also where something near it could be stored.
    fn fill(&self, total: Option<u64>, strict: bool) -> Result<ExitCode> {
        let Self { args, source, target, caller, timestamp } = *self;
        let options = OpenOptions {
            clock: clock(timestamp.fixed()),
            seed: seed(timestamp.fixed()),
            ..args.write.open_options()?
        };
        let new = NewFiles { preserve: true, uid: caller.uid, gid: caller.gid, umask: caller.umask };
        let new = NewFiles { uid: args.uid.unwrap_or(new.uid), gid: args.gid.unwrap_or(new.gid), ..new };
        let failures = Failures::default();
        let failed = |path: &[u8], error| failures.add_file(source.path_of(path).as_bytes(), error);
        let progress = Progress::new("importing", total);
        let step = |bytes| progress.step(bytes);
        image::run(&target.image, &options, |vfs| {
            let dir = match resolve(vfs, &target.path, true) {
                Err(error) if error.is(&Error::NotFound) => {
                    let caller = Caller { uid: new.uid, gid: new.gid, ..caller };
                    make_all(vfs, &target.path, 0o777 & !caller.umask, &caller).context(&target.image)?;
                    resolve(vfs, &target.path, true)
                }
                found => found,
            };
            let dir = dir.context(&target.image)?;
            if !dir.is_dir() {
                return Err(Error::NotDirectory).context(target.display());
            }
            if sorted_names(vfs, dir.ino())?.iter().any(|name| !NEW.contains(&&name[..])) {
                logger::note(format_args!(
                    "{}: has files already: they stay, but those that the source has too are replaced",
                    target.display()
                ));
            }
            let sink =
                ImageSink::new(&dir, &target.path, new).past_failures(&failed).strict(strict).without_log();
            let mut sink = Adjusted::new(sink, timestamp.adjust(args), &step);
            let said = |place: &str| {
                logger::note(format_args!("{place}: is the image itself, and is left out"));
            };
            let changed = |place: &str, error: spindle::Error| {
                failures.add(error.within(place)).map_err(Failure::into_error)
            };
            let walked = source.walk(&mut sink, Some(&Heard { said: &said, changed: &changed }));
            // Directories get their permissions and times in any case.
            let finished = sink.finish();
            walked.and_then(|()| Ok(finished?)).and_then(|()| {
                // The source's root has an owner of its own.
                let Some((uid, gid)) = args.fs.root_owner() else { return Ok(()) };
                let set = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
                vfs.fs().setattr(dir.ino(), &set, Privilege::Root).map_err(spindle::Error::from)?;
                Ok(())
            })
        })?;
        Ok(failures.exit_code())
    }
}

/// Where times come from, apart from the source.
#[derive(Clone, Copy, Debug)]
enum Timestamps {
    /// The clock.
    Now,
    /// This second for everything (`--timestamp`).
    All(i64),
    /// This second for the file system, and as the latest of files (`SOURCE_DATE_EPOCH`).
    Latest(i64),
}

impl Timestamps {
    fn of(args: &Args) -> Result<Self> {
        Ok(match args.timestamp {
            Some(secs) => Self::All(secs),
            None => source_date_epoch()?.map_or(Self::Now, Self::Latest),
        })
    }

    /// Returns the second at which the clock stands.
    const fn fixed(self) -> Option<i64> {
        match self {
            Self::Now => None,
            Self::All(secs) | Self::Latest(secs) => Some(secs),
        }
    }

    /// Returns the changes to make to every file.
    fn adjust(self, args: &Args) -> Adjust {
        let times = match self {
            Self::Now => Times::Kept,
            Self::All(secs) => Times::All(Timestamp::new(secs, 0)),
            Self::Latest(secs) => Times::Latest(Timestamp::new(secs, 0)),
        };
        Adjust { uid: args.uid, gid: args.gid, times }
    }
}
