//! `spindle mount`

use crate::error::{Context, Failure, Result};
use crate::image::{await_last_mount, print_log_notes};
use crate::logger;
use crate::mounted::{Mount, quota_files};
use crate::outfile::{self, Out};
use crate::suggest::{did_you_mean, nearest};
use spindle::control::{Answering, Name, Request, Service, request};
use spindle::image::{Family, reasons};
use spindle::mounted::MountedImage;
use spindle::{Image, OpenOptions, partition};
use spindle_cache::{DataSettings, Naming, Settings};
use spindle_clock::SystemClock;
use spindle_device::{Claim, Part, Spec};
use spindle_ffs::{Allocation, LogUse};
use spindle_fuse::{
    Access, Attachment, FuseMount, Mode, MountOptions, ProcessTerminals, Ready, Remounter, Signals,
    WriteLimit, launch, serve,
};
use spindle_trace::traced::Recorder;
use spindle_vfs::{FileSystem, Ino, Observer, Terminals};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Returns the help below the options of the command.
fn more_help() -> String {
    format!(
        "OPTIONS OF -o
{}
EXIT CODES
    0   mounted
    32  could not be mounted

EXAMPLES
    spindle mount disk.img@s1a /mnt
    spindle mount -o ro,allow_other,uid=1000 sun.img /mnt
    echo '/srv/disk.img /srv/disk spindle noauto,user 0 0' >>/etc/fstab",
        MountOptions::help()
    )
}

/// Mount a file system
///
/// Mounts the file system in IMAGE on the directory DIR through FUSE, and returns when it is
/// mounted. A daemon serves it until it is unmounted (by spindle umount, umount(8), or a SIGTERM to
/// the daemon) and leaves the image clean. With -f it is served in the foreground.
///
/// A file system that is not safe to write is mounted read-only, with a message that gives the
/// reasons. In /etc/fstab the type is "spindle", and the options below go into the field for
/// options.
#[derive(clap::Args, Debug)]
#[command(
    allow_missing_positional = true,
    after_long_help = more_help()
)]
pub struct Args {
    /// Mount options, separated by commas; may be given several times
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Serve in the foreground
    #[arg(short = 'f', long)]
    foreground: bool,
    /// Mount read-only, like -o ro
    #[arg(short = 'r', long)]
    read_only: bool,
    /// The image: a file, a block device, or a partition in one (disk.img@s1a); not needed with -o
    /// remount
    #[arg(value_name = "IMAGE[@PARTITION]")]
    image: Option<String>,
    /// The directory to mount on
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Mount as kernel file systems are: for all users, with device nodes and set-id bits, if it is
    /// root that mounts.
    #[arg(skip)]
    as_kernel: bool,
}

impl Args {
    /// Returns the arguments with which mount(8) calls its helper.
    pub fn from_helper(image: String, dir: PathBuf, options: Vec<String>) -> Self {
        Self { options, foreground: false, read_only: false, image: Some(image), dir, as_kernel: true }
    }
}

/// Exit code of a failed mount or unmount, the same as that of mount(8).
pub const MOUNT_FAILED: u8 = 32;

/// Runs the command. Call it before starting threads.
///
/// # Errors
/// If the options are invalid, or a remount fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    let failed = |failure: Failure| failure.with_code(MOUNT_FAILED);
    let words = args.words();
    if MountOptions::ask_remount(&words) {
        return remount(&args.dir, &words).map(|()| ExitCode::SUCCESS).map_err(failed);
    }
    let Some(image) = &args.image else {
        return Err(Failure::usage("mount needs IMAGE and DIR"));
    };
    let mode = if args.foreground { Mode::Foreground } else { Mode::Daemon };
    // A daemon keeps no descriptors, so a path like /dev/fd/3 has a meaning only here.
    let image = find(image);
    if args.as_kernel
        && let Ok(spec) = &image
        && is_mounted_there(args, spec).map_err(failed)?
    {
        logger::note(format_args!("{spec}: is mounted on {} already", args.dir.display()));
        return Ok(ExitCode::SUCCESS);
    }
    Ok(launch(mode, "spindle: mount", |signals, ready| {
        if mode == Mode::Daemon {
            logger::start_system_log();
        }
        mount(args, image, signals, ready)
    }))
}

impl Args {
    /// Returns all options as one text.
    fn words(&self) -> String {
        let given = self.options.iter().map(String::as_str);
        given.chain(self.read_only.then_some("ro")).collect::<Vec<_>>().join(",")
    }
}

/// Returns true if the table of mounts has this partition on this directory under the name of the
/// device that the kernel has for it: then `mount -a` does not see that it is mounted, and what it
/// asks for is done.
///
/// # Errors
/// If it is to be read-only and is not.
fn is_mounted_there(args: &Args, spec: &Spec) -> Result<bool> {
    let Ok(device) = partition::choose(spec.clone()).and_then(|spec| Ok(spec.place()?.path)) else {
        return Ok(false);
    };
    let dir = args.dir.canonicalize().context(args.dir.display())?;
    let on_top = spindle_fuse::fuse_mounts().map_err(|e| Failure::new(e.to_string()))?;
    let there = on_top.into_iter().rfind(|mount| mount.dir == dir);
    let Some(there) = there.filter(|there| device != spec.path && there.source == device) else {
        return Ok(false);
    };
    if check(args)?.read_only && !there.read_only {
        return Err(Failure::new(format!(
            "{spec}: is mounted on {0} already, and not read-only; mount -o remount,ro {0} changes that",
            dir.display()
        )));
    }
    Ok(true)
}

/// Changes the mount on `dir` as these options of `-o` say.
pub fn remount(dir: &Path, options: &str) -> Result<()> {
    let mount = FuseMount::on(dir).map_err(|e| Failure::new(e.to_string()))?;
    let asked = Request::Remount(options.to_owned());
    match request::<()>(&Name::of_mount(&mount.device, mount.user), &asked, &mut |_| Ok(()))
        .context(dir.display())?
    {
        Some(()) => Ok(()),
        None => Err(Failure::new(
            "no process of Spindle serves it, or it belongs to another user; unmount it, and mount it again",
        ))
        .context(dir.display()),
    }
}

/// Returns the image with an absolute path: the daemon changes to /, and the mount table needs one.
fn find(image: &str) -> Result<Spec> {
    let mut spec = Spec::parse(image)?;
    spec.path = spec.path.canonicalize().context(spec.path.display())?;
    Ok(spec)
}

/// Checks the options without mounting anything.
pub fn check(args: &Args) -> Result<MountOptions> {
    let mut options = MountOptions::default();
    let words = args.words();
    if MountOptions::ask_remount(&words) {
        return Ok(options);
    }
    let as_kernel = args.as_kernel && rustix::process::geteuid().is_root();
    if as_kernel {
        options.access = Access::Everyone;
    }
    options.parse(&words).map_err(|error| {
        let near = match &error {
            spindle_fuse::Error::UnknownOption { word } => {
                nearest(word.split('=').next().unwrap_or(word), MountOptions::names())
            }
            _ => None,
        };
        Failure::new(format!("{error}{}", did_you_mean(near)))
    })?;
    if as_kernel && !options.auto_unmount {
        options.suid = options.suid.or(Some(true));
        options.dev = options.dev.or(Some(true));
    }
    Ok(options)
}

/// Returns the terminals of the processes that will use the mount on `dir`.
fn terminals(dir: &Path) -> Option<Arc<dyn Terminals>> {
    let found = dir.canonicalize().and_then(|dir| ProcessTerminals::new(&dir));
    let failed = |error: &_| log::debug!("warnings about quotas go only to the log: {error}");
    found.inspect_err(failed).ok().map(|found| Arc::new(found) as Arc<dyn Terminals>)
}

/// Returns the use of the log that the options ask for.
fn log_use(options: &MountOptions) -> LogUse {
    match options.log {
        Some(false) => LogUse::Never,
        _ if options.synchronous_names => LogUse::Never,
        _ => LogUse::Wanted,
    }
}

/// Returns the settings of the cache that the options ask for.
pub fn settings(options: &MountOptions) -> Settings {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let usual = DataSettings::THROUGH;
    Settings {
        naming: if options.synchronous_names { Naming::Durable } else { Naming::Delayed },
        data: DataSettings {
            cluster_bytes: options.cluster_bytes.map(bytes),
            // "nocluster" also splits large requests into blocks.
            random_clusters: options.cluster_bytes != Some(0),
            read_ahead: options.read_ahead,
            write_limit_bytes: match options.write_limit {
                WriteLimit::Usual => usual.write_limit_bytes,
                WriteLimit::Bytes(limit) => Some(bytes(limit)),
                WriteLimit::Unlimited => None,
            },
            keep: options.file_cache_bytes.is_some(),
            capacity_bytes: options.file_cache_bytes.map_or(usual.capacity_bytes, bytes),
            free_behind: options.free_behind,
            small_file_bytes: options.small_file_bytes.map_or(usual.small_file_bytes, bytes),
            ..usual
        },
        ..Settings::default()
    }
}

fn mount(args: &Args, image: Result<Spec>, signals: Signals, ready: Ready) -> Result<()> {
    let mut options = check(args)?;
    std::fs::read_dir(&args.dir).context(args.dir.display())?;
    let recording = options.trace.clone().map(|file| Recording::of(file, &args.dir)).transpose()?;
    let mut spec = image?;
    if let Some(offset) = options.offset {
        if spec.part != Part::Whole {
            return Err(Failure::new(format!(
                "{spec}: already names a partition; remove it or the option offset="
            )));
        }
        spec = Spec { part: Part::Offset { at: offset, len: None }, ..spec };
    }
    // As it was named, so that mount(8) knows it again in the table of mounts.
    let absolute = args.image.clone().filter(|image| image.starts_with('/'));
    let source = absolute.unwrap_or_else(|| spec.to_string());
    let kind = options.dialect.as_deref().map(str::parse).transpose().map_err(Failure::new)?;
    // If its kind has to be said, what is there cannot say how long it is.
    if kind.is_none() || spec.part == Part::Whole {
        spec = partition::choose(spec)?;
    }
    let device = spec.place()?.path;
    let writable = rustix::fs::access(&device, rustix::fs::Access::WRITE_OK).is_ok()
        && !spindle_device::is_write_protected(&device);
    if !options.read_only && !writable {
        log::warn!("{spec}: not writable; mounting it read-only");
        options.read_only = true;
    }
    // Of a block device that root mounts, the kernel has the claim.
    let claims = is_block_device(&device)
        && rustix::process::geteuid().is_root()
        && options.fsname.is_none()
        && !options.auto_unmount;
    options.block_device = claims.then(|| device.clone());
    let open_options = OpenOptions {
        read_only: options.read_only,
        force: options.force,
        kind,
        superblock: options.superblock,
        claim: if claims { Claim::Checked } else { Claim::Kept },
        atime: options.atime,
        cache: Some(settings(&options)),
        allocation: if options.runs { Allocation::Runs } else { Allocation::Nearest },
        log: log_use(&options),
        log_bytes: options.log_bytes,
        discard: options.discard,
        quotas: quota_files(&options),
        terminals: terminals(&args.dir),
        ..OpenOptions::read_only()
    };
    await_last_mount(&spec)?;
    // What can refuse the mount comes before anything is written: opening the file system replays
    // its log, or makes one.
    let prepared = Image::prepare(&spec, &open_options)?;
    options.acls = prepared.acls();
    let attachment =
        Attachment::new(&args.dir, &source, &options).map_err(|e| Failure::new(e.to_string()))?;
    let image = prepared.open()?;
    print_log_notes(&spec, &image);
    match (image.family(), options.log) {
        (Family::Old, Some(true)) => {
            log::warn!("{spec}: no log: an old file system cannot have one and needs a check after a crash");
        }
        (Family::Mfs, Some(false)) => {
            log::warn!("{spec}: a multi-structured file system always uses its log; nolog changes nothing");
        }
        _ => {}
    }
    if options.discard && (image.family() != Family::Ffs || log_use(&options) == LogUse::Never) {
        log::warn!("{spec}: discard has no effect: it needs a UFS that is mounted with its log");
    }
    if image.fs().read_only() && !options.read_only {
        log::warn!("{spec}: mounted read-only: {}", reasons(image.objections()));
        options.read_only = true;
    }
    let recorder = recording.as_ref().map(|to| to.start(&spec.path, image.fs().root())).transpose()?;
    let (recorder, out) = recorder.unzip();
    let observer = recorder.clone().map(|recorder| recorder as Arc<dyn Observer>);
    let image = Arc::new(MountedImage::new(spec.clone(), image));
    let fs: Arc<dyn FileSystem> = image.clone();
    let mounted = |remounter: Remounter| {
        if let Some(Err(error)) = out.map(Out::finish) {
            log::error!("the trace takes no place: {error}");
        }
        let names =
            [Ok(Name::of_mount(&remounter.device(), rustix::process::geteuid().as_raw())), image.name()];
        let mount = Mount::new(image, remounter, options.clone(), open_options);
        let answering: Arc<dyn Answering> = Arc::new(mount);
        let names = names.into_iter().collect::<spindle::Result<Vec<_>>>();
        names.and_then(|names| Service::start(&names, &answering)).inspect_err(|error| {
            log::warn!("{spec}: it cannot be changed while it is mounted: {error}");
        })
    };
    let served = serve(attachment, &fs, observer, (signals, ready), mounted);
    if let (Some(recorder), Some(Recording { file, .. })) = (recorder, recording) {
        match recorder.finish() {
            Ok(events) => log::info!("{}: {} events", file.display(), events.unwrap_or(0)),
            Err(error) => log::error!("the trace is not complete: {error}"),
        }
    }
    served.map_err(|e| Failure::new(e.to_string()))
}

fn is_block_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Where the use of the files of a mount is recorded.
struct Recording {
    file: PathBuf,
    /// The directory of the mount, without symbolic links.
    dir: PathBuf,
}

impl Recording {
    /// Checks that `file` can be written while something is mounted on `dir`.
    fn of(file: PathBuf, dir: &Path) -> Result<Self> {
        outfile::refuse(&file, outfile::Kind::Trace, "")?;
        let dir = dir.canonicalize().context(dir.display())?;
        let parent = std::path::absolute(&file).context(file.display())?;
        let parent = parent.parent().unwrap_or(&parent).canonicalize().context(file.display())?;
        if parent.starts_with(&dir) {
            return Err(Failure::new(format!(
                "{}: is below the mount that it would record; name a file elsewhere",
                file.display()
            )));
        }
        rustix::fs::access(&parent, rustix::fs::Access::WRITE_OK).context(parent.display())?;
        Ok(Self { file, dir })
    }

    /// Starts recording. Returns also the file, which takes its place when the mount has succeeded.
    fn start(&self, image: &Path, root: Ino) -> Result<(Arc<Recorder>, Out)> {
        let source = format!("mount {}", image.display());
        let name = self.file.clone();
        let failed = move |error: &spindle_trace::Error| {
            log::error!("stopped recording into {}: {error}", name.display());
        };
        let (clock, mounted) = (Arc::new(SystemClock), (&*self.dir.to_string_lossy(), root));
        let out = Out::create(&self.file, outfile::Kind::Trace, false)?;
        let recorder = Recorder::start((out.handle()?, &self.file), &source, mounted, clock, failed)?;
        Ok((Arc::new(recorder), out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_of(text: &str) -> Settings {
        let mut options = MountOptions::default();
        options.parse(text).unwrap();
        settings(&options)
    }

    /// Promise: each option about names and file data changes its own setting and no other.
    #[test]
    fn options_reach_the_cache() {
        let usual = DataSettings::THROUGH;
        let kept = DataSettings { keep: true, capacity_bytes: 8 << 20, ..usual };
        assert_eq!(settings_of("noatime").data, usual);
        for (text, data) in [
            ("cluster=64k", DataSettings { cluster_bytes: Some(64 << 10), ..usual }),
            ("nocluster", DataSettings { cluster_bytes: Some(0), random_clusters: false, ..usual }),
            ("cluster=0", DataSettings { cluster_bytes: Some(0), random_clusters: false, ..usual }),
            ("noreadahead", DataSettings { read_ahead: false, ..usual }),
            ("writelimit=240k", DataSettings { write_limit_bytes: Some(240 << 10), ..usual }),
            ("nowritelimit", DataSettings { write_limit_bytes: None, ..usual }),
            ("filecache=8m", kept),
            ("filecache=8m,nofreebehind", DataSettings { free_behind: false, ..kept }),
            ("filecache=8m,smallfiles=16k", DataSettings { small_file_bytes: 16 << 10, ..kept }),
        ] {
            assert_eq!(settings_of(text).data, data, "{text}");
            assert_eq!(settings_of(text).naming, Naming::Delayed, "{text}");
        }
        assert_eq!((settings_of("sync").naming, settings_of("sync").data), (Naming::Durable, usual));
        assert_eq!(settings_of("sync,async").naming, Naming::Delayed);
    }

    /// Promise: a mount has a log unless an option says `nolog`, `sync` or `dirsync`.
    #[test]
    fn mounts_have_a_log() {
        for (text, log) in [
            ("", LogUse::Wanted),
            ("log", LogUse::Wanted),
            ("logsize=2m", LogUse::Wanted),
            ("nolog", LogUse::Never),
            ("sync", LogUse::Never),
            ("dirsync", LogUse::Never),
            ("sync,async", LogUse::Wanted),
        ] {
            let mut options = MountOptions::default();
            options.parse(text).unwrap();
            assert_eq!(log_use(&options), log, "{text}");
        }
    }
}
