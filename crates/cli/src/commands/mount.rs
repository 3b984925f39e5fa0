//! `spindle mount`

use crate::error::{Context, Failure, Result};
use crate::image::{self, Opening};
use crate::logger;
use crate::outfile;
use crate::partition;
use spindle_cache::{DataSettings, Naming, Settings};
use spindle_clock::SystemClock;
use spindle_device::{Part, Spec};
use spindle_ffs::{Allocation, LogUse};
use spindle_fuse::{Mode, MountOptions, Ready, Signals, WriteLimit, launch, serve};
use spindle_trace::traced::Recorder;
use spindle_vfs::{Ino, Observer};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Mount a file system
///
/// Mounts the file system in IMAGE on the directory DIR through FUSE, and returns when it is live;
/// a daemon serves it until it is unmounted (spindle umount, umount(8), or a SIGTERM to the daemon)
/// and leaves the image clean. With -f it is served in the foreground.
///
/// What is not safe to write is mounted read-only, and the reasons are told. In /etc/fstab the type
/// is "spindle", and the options below go where options go.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "OPTIONS OF -o
    ro, rw                      read-only or not
    force                       write in spite of objections that may be overridden
    offset=BYTES                where in IMAGE the file system starts
    dialect=NAME                whose file system it is, where that is in doubt: freebsd, netbsd, openbsd, sun, sunx86,
                                43bsd or 44bsd; or the format of an old one: v7, 32v, bsd, sysv, sysv16, with block size
                                and byte order where they are not the usual ones (sysv-2048-be)
    noatime, relatime, strictatime
                                when reading changes access times: never, rarely (the default), always
    allow_other                 everyone may use the mount, as far as the permissions of the files go; without, the user alone
    allow_root                  for mounts of root, where it changes nothing; refused to others, as the kernel could not keep it
    default_permissions         have the kernel check permissions in any case
    uid=N, gid=N, umask=M, fmask=M, dmask=M
                                show everything with this owner, group and these permissions
    suid, dev                   let set-id bits and device nodes count (root only; nosuid, nodev by default)
    noexec                      no programs
    grpid, nogrpid              new files get the group of the directory, or of the user
    fsname=NAME, subtype=NAME   what mount and df show
    commit=SECONDS              make changes durable at least so often (5)
    threads=N                   threads that serve (2)
    writethrough, writeback     writethrough (the default): write(2) returns when the write has its space, or says that the disk is
                                full. writeback: the kernel keeps what is written and sends it later, which makes small writes
                                faster; its price: that the disk is full (or the write beyond the largest file, or not allowed) is
                                told by fsync or close, if the program asks, else by the system's log and by umount, which then
                                fails; nothing written so gets of the reserve for root, unless only root can use the mount; and
                                size and times of a file come from the kernel, the image has them later
    nouser_xattr                no extended attributes
    cluster=SIZE, nocluster     move file data in clusters of this many bytes (k and m for powers of 1024; at most 16m),
                                or block by block; without, in clusters as tunefs -a has set them
    readahead, noreadahead      read the next cluster while one is used (the default on block devices; in image files the
                                system does), or only what is asked for
    runs, noruns                a file whose next block is taken goes on where there is a long run of free blocks, which keeps a
                                disk in use fast, or at the nearest free block, as with BSD (the default)
    writelimit=SIZE, nowritelimit
                                who writes waits while so many bytes of the file are on their way to the device (4m)
    log, nolog                  changes go through a log, so that after a crash the next mount finds each operation done or not
                                done, in order, and what fsync had reported done is there (the default for UFS; the first
                                mount makes the log, as the file /.spindlelog or, for NetBSD, as NetBSD does); or without:
                                after a crash the image needs a check, and what it finds is lost or half done
    logsize=SIZE                bytes of a log that is made (k and m; a 128th of the file system without, 1m to 64m)
    sync, async                 sync: each change of names is on the device before it is reported done, one block after
                                the other, as in 1984 and without a log (dirsync means the same); async is the default
    trace=FILE                  record what is done with the files into FILE, a trace (docs/SPEC-trace.md), until it is unmounted;
                                what the system answers from its cache is not seen (\"spindle trace record\" sees it)
    auto_unmount                unmount even if the daemon is killed

EXIT CODES
    0   it is live
    32  it could not be mounted

EXAMPLES
    spindle mount disk.img@s1a /mnt
    spindle mount -o ro,allow_other,uid=1000 sun.img /mnt
    echo '/srv/disk.img /srv/disk spindle noauto,user 0 0' >>/etc/fstab")]
pub struct Args {
    /// Mount options, separated by commas; may be given several times
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Serve in the foreground
    #[arg(short = 'f', long)]
    foreground: bool,
    /// Mount read-only, as -o ro
    #[arg(short = 'r', long)]
    read_only: bool,
    /// The image: a file, a block device, or a partition in one (disk.img@s1a)
    #[arg(value_name = "IMAGE[@PARTITION]")]
    image: String,
    /// The directory to mount on
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Args {
    /// As mount(8) calls its helper.
    pub fn from_helper(image: String, dir: PathBuf, options: Vec<String>) -> Self {
        Self { options, foreground: false, read_only: false, image, dir }
    }
}

/// Exit code for a mount that failed, as mount(8) has it.
pub const MOUNT_FAILED: u8 = 32;

/// Runs the command. Must be called before there are threads.
pub fn run(args: &Args) -> ExitCode {
    let mode = if args.foreground { Mode::Foreground } else { Mode::Daemon };
    launch(mode, "spindle: mount", |signals, ready| {
        if mode == Mode::Daemon {
            logger::start_system_log();
        }
        mount(args, signals, ready)
    })
}

/// Checks the options without mounting anything.
pub fn check(args: &Args) -> Result<MountOptions> {
    let mut options = MountOptions::default();
    for text in &args.options {
        options.parse(text).map_err(|e| Failure::new(e.to_string()))?;
    }
    options.read_only |= args.read_only;
    Ok(options)
}

/// Returns what the options say about the log.
fn log_use(options: &MountOptions) -> LogUse {
    match options.log {
        Some(false) => LogUse::Never,
        _ if options.synchronous_names => LogUse::Never,
        _ => LogUse::Wanted,
    }
}

/// Returns what the options say about names and file data.
fn settings(options: &MountOptions) -> Settings {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let usual = DataSettings::THROUGH;
    Settings {
        naming: if options.synchronous_names { Naming::Durable } else { Naming::Delayed },
        data: DataSettings {
            cluster_bytes: options.cluster_bytes.map(bytes),
            // Block by block means large requests, too.
            random_clusters: options.cluster_bytes != Some(0),
            read_ahead: options.read_ahead,
            write_limit_bytes: match options.write_limit {
                WriteLimit::Usual => usual.write_limit_bytes,
                WriteLimit::Bytes(limit) => Some(bytes(limit)),
                WriteLimit::Unlimited => None,
            },
            ..usual
        },
        ..Settings::default()
    }
}

fn mount(args: &Args, signals: Signals, ready: Ready) -> Result<()> {
    let mut options = check(args)?;
    // Opening may make a log, which is not to happen for a mount that cannot be.
    std::fs::read_dir(&args.dir).context(args.dir.display())?;
    if let Some(trace) = &options.trace {
        outfile::refuse(trace, "")?;
    }
    // The daemon goes to / in the end; messages and the mount table are to name the image for
    // everybody.
    let mut spec = image::parse_spec(&args.image)?;
    spec.path = spec.path.canonicalize().context(spec.path.display())?;
    if let Some(offset) = options.offset {
        if spec.part != Part::Whole {
            return Err(Failure::new(format!("{spec}: names a part already; offset= would name another")));
        }
        spec = Spec { part: Part::Offset(offset), ..spec };
    }
    spec = partition::choose(spec)?;
    let writable = rustix::fs::access(&spec.path, rustix::fs::Access::WRITE_OK).is_ok();
    if !options.read_only && !writable {
        log::warn!("{spec}: not writable; mounting it read-only");
        options.read_only = true;
    }
    let kind = options.dialect.as_deref().map(str::parse).transpose().map_err(Failure::new)?;
    let opening = Opening {
        read_only: options.read_only,
        force: options.force,
        kind,
        mountable: is_block_device(&spec.path) && rustix::process::geteuid().is_root(),
        atime: options.atime,
        cache: Some(settings(&options)),
        allocation: if options.runs { Allocation::Runs } else { Allocation::Nearest },
        log: log_use(&options),
        log_bytes: options.log_bytes,
        ..Opening::read_only()
    };
    if spindle_fuse::is_held_by_ending(&spec.path) {
        logger::note(format_args!(
            "{spec}: waiting for the daemon of its last mount, which is completing it"
        ));
        spindle_fuse::wait_for_ending(&spec.path, &SystemClock);
    }
    let opened = image::open(&spec, &opening)?;
    for note in &opened.notes {
        logger::note(format_args!("{spec}: {note}"));
    }
    if opened.old && options.log == Some(true) {
        log::warn!("{spec}: no log: an old file system cannot have one; after a crash it needs a check");
    }
    if opened.fs.read_only() && !options.read_only {
        log::warn!("{spec}: mounted read-only: {}", image::reasons(&opened.objections));
        options.read_only = true;
    }
    options.block_device = is_block_device(&spec.path).then(|| spec.path.clone());
    let recorder = options
        .trace
        .as_deref()
        .map(|file| record(file, &args.dir, &spec.path, opened.fs.root()))
        .transpose()?;
    let observer = recorder.clone().map(|recorder| recorder as Arc<dyn Observer>);
    let served = serve(&opened.fs, &args.dir, &spec.to_string(), &options, observer, signals, ready);
    if let (Some(recorder), Some(file)) = (recorder, &options.trace) {
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

/// Starts recording what will be done with the files of the mount.
fn record(file: &Path, dir: &Path, image: &Path, root: Ino) -> Result<Arc<Recorder>> {
    let dir = dir.canonicalize().context(dir.display())?;
    let parent = std::path::absolute(file).context(file.display())?;
    let parent = parent.parent().unwrap_or(&parent).canonicalize().context(file.display())?;
    if parent.starts_with(&dir) {
        return Err(Failure::new(format!("{}: the trace of a mount cannot be a file in it", file.display())));
    }
    let source = format!("mount {}", image.display());
    let told = file.to_owned();
    let failed = move |error: &spindle_trace::Error| {
        log::error!("the recording into {} ends here: {error}", told.display());
    };
    let clock = Arc::new(SystemClock);
    Ok(Arc::new(Recorder::start(file, &source, (&dir.to_string_lossy(), root), clock, failed)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_of(text: &str) -> Settings {
        let mut options = MountOptions::default();
        options.parse(text).unwrap();
        settings(&options)
    }

    /// Promise: each option about names and file data reaches the setting that it is about, and no
    /// other.
    #[test]
    fn options_reach_the_cache() {
        let usual = DataSettings::THROUGH;
        assert_eq!(settings_of("noatime").data, usual);
        for (text, data) in [
            ("cluster=64k", DataSettings { cluster_bytes: Some(64 << 10), ..usual }),
            ("nocluster", DataSettings { cluster_bytes: Some(0), random_clusters: false, ..usual }),
            ("cluster=0", DataSettings { cluster_bytes: Some(0), random_clusters: false, ..usual }),
            ("noreadahead", DataSettings { read_ahead: false, ..usual }),
            ("writelimit=240k", DataSettings { write_limit_bytes: Some(240 << 10), ..usual }),
            ("nowritelimit", DataSettings { write_limit_bytes: None, ..usual }),
        ] {
            assert_eq!(settings_of(text).data, data, "{text}");
            assert_eq!(settings_of(text).naming, Naming::Delayed, "{text}");
        }
        assert_eq!((settings_of("sync").naming, settings_of("sync").data), (Naming::Durable, usual));
        assert_eq!(settings_of("sync,async").naming, Naming::Delayed);
    }

    /// Promise: a mount has a log unless it is told not to, or to keep the discipline of 1984.
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
