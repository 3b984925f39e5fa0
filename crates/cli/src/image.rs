//! Opening an image that the user names.
//!
//! [`open`] detects the kind of the file system ([`detect`]) and returns it as a [`FileSystem`].
//! [`read`] and [`change`] open an image, work on it, and unmount it in any case.

use crate::error::{Context, Failure, Result};
use crate::interrupt;
use crate::logger;
use crate::partition;
use spindle_cache::Settings;
use spindle_clock::{Clock, TickClock};
use spindle_device::{Caching, Device, Spec};
use spindle_ffs::{Allocation, Dialect, Ffs, FoundLog, LOG_NAME, LogPlace, LogUse};
use spindle_report::number;
use spindle_v7::{Format, V7};
use spindle_vfs::{AtimePolicy, Error, FileSystem, Objection, Options, Vfs};
use std::str::FromStr;
use std::sync::Arc;

/// Options of all commands that change the contents of an image.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct WriteArgs {
    /// Write in spite of objections that can be overridden
    ///
    /// Without this option, for example, an image that was not unmounted cleanly is not written.
    /// Writes that can never be right, as to an image whose journal still holds changes, are
    /// refused even with this option.
    #[arg(long)]
    pub force: bool,
}

/// The kind of file system that the user names, which replaces detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The fast file system in this dialect.
    Ffs(Dialect),
    /// An old file system in this format.
    Old(Format),
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let dialect: Result<Dialect, String> = name.parse();
        let old =
            || name.parse().map(Self::Old).map_err(|e| format!("not a dialect of the fast file system: {e}"));
        dialect.map_or_else(|_| old(), |dialect| Ok(Self::Ffs(dialect)))
    }
}

/// A file system found on a device.
pub enum Found {
    /// A fast file system.
    Ffs(Box<spindle_ffs::Superblock>),
    /// An old file system.
    Old(Box<spindle_v7::Detected>),
}

/// Finds the file system on a device. Old file systems are tried last, as most of their formats
/// have no magic number.
pub fn detect(device: &dyn Device) -> spindle_vfs::Result<Found> {
    match spindle_ffs::Superblock::open(device) {
        Err(none @ Error::Unsupported { .. }) => match spindle_v7::Superblock::open(device, None) {
            Err(Error::Unsupported { .. }) => Err(none),
            found => Ok(Found::Old(Box::new(found?))),
        },
        found => Ok(Found::Ffs(Box::new(found?))),
    }
}

/// Settings for opening a file system.
#[derive(Clone)]
pub struct OpenSettings {
    /// Write nothing to the image.
    pub read_only: bool,
    /// Write in spite of objections that can be overridden.
    pub force: bool,
    /// The kind of file system; detected if `None`.
    pub kind: Option<Kind>,
    /// Rule by which reads change access times.
    pub atime: AtimePolicy,
    /// Seed of the random numbers, for reproducible images.
    pub seed: Option<u64>,
    /// Read without a lock, because this command holds the lock for another partition of the disk.
    pub shared: bool,
    /// Let the kernel claim the block device for a mount.
    pub mountable: bool,
    /// Source of timestamps.
    pub clock: Arc<dyn Clock>,
    /// Settings of the cache; defaults for commands if `None`.
    pub cache: Option<Settings>,
    /// Allocation policy of the fast file system when the next block of a file is in use.
    pub allocation: Allocation,
    /// Use of the log of the fast file system; only mounts create one.
    pub log: LogUse,
    /// Size of a new log in bytes.
    pub log_bytes: Option<u64>,
}

impl OpenSettings {
    /// Returns the settings of a command that reads.
    pub fn read_only() -> Self {
        Self {
            read_only: true,
            force: false,
            kind: None,
            atime: AtimePolicy::Never,
            seed: None,
            shared: false,
            mountable: false,
            clock: Arc::new(TickClock),
            cache: None,
            allocation: Allocation::default(),
            log: LogUse::IfThere,
            log_bytes: None,
        }
    }

    /// Returns the settings of a command that writes; its reads do not change access times.
    pub fn read_write(write: WriteArgs) -> Self {
        Self { read_only: false, force: write.force, ..Self::read_only() }
    }
}

/// An open file system.
pub struct Opened {
    /// The file system.
    pub fs: Arc<dyn FileSystem>,
    /// True for an old file system, which cannot have a log.
    pub old: bool,
    /// The reasons why it is open read-only although writing was asked for.
    pub objections: Vec<Objection>,
    /// Messages for the user about the log.
    pub notes: Vec<String>,
}

/// Parses a device specification.
pub fn parse_spec(image: &str) -> Result<Spec> {
    Ok(Spec::parse(image)?)
}

/// Opens the device of a specification for reading.
pub fn open_device(spec: &Spec) -> Result<Arc<dyn Device>> {
    Ok(spec.open(&spindle_device::OpenOptions::read_only())?)
}

/// Opens a device for reading without a lock: another program may be writing to it.
pub fn open_device_unlocked(spec: &Spec) -> Result<Arc<dyn Device>> {
    let options = spindle_device::OpenOptions {
        lock: false,
        caching: Caching::Buffered,
        ..spindle_device::OpenOptions::read_only()
    };
    Ok(spec.open(&options)?)
}

/// Returns the settings for the device of `spec`: the system caches image files, but not block
/// devices.
fn settings_for(cache: Settings, spec: &Spec) -> Settings {
    let is_file = std::fs::metadata(&spec.path).is_ok_and(|metadata| metadata.is_file());
    if is_file { Settings { data: cache.data.on_image_file(), ..cache } } else { cache }
}

/// Opens the file system in `spec`.
pub fn open(spec: &Spec, settings: &OpenSettings) -> Result<Opened> {
    let device = match (settings.read_only, settings.shared) {
        (true, true) => open_device_unlocked(spec)?,
        (true, false) => open_device(spec)?,
        (false, _) => spec.open(&spindle_device::OpenOptions {
            mountable: settings.mountable,
            ..spindle_device::OpenOptions::read_write()
        })?,
    };
    let clock = Arc::clone(&settings.clock);
    let cache = settings_for(settings.cache.unwrap_or_default(), spec);
    let old = match settings.kind {
        Some(kind) => matches!(kind, Kind::Old(_)),
        None => matches!(detect(&*device), Ok(Found::Old(_))),
    };
    if old {
        let options = spindle_v7::OpenOptions {
            read_only: settings.read_only,
            force: settings.force,
            format: settings
                .kind
                .and_then(|kind| if let Kind::Old(format) = kind { Some(format) } else { None }),
            atime: settings.atime,
            cache,
        };
        let v7 = V7::open(device, clock, &options).context(spec)?;
        let objections = v7.read_only_reasons().to_vec();
        return Ok(Opened { fs: Arc::new(v7), old, objections, notes: Vec::new() });
    }
    let (place, found) = find_log(&*device, settings).context(spec)?;
    let options = spindle_ffs::OpenOptions {
        read_only: settings.read_only,
        force: settings.force,
        dialect: settings
            .kind
            .and_then(|kind| if let Kind::Ffs(dialect) = kind { Some(dialect) } else { None }),
        atime: settings.atime,
        seed: settings.seed,
        cache,
        allocation: settings.allocation,
        log: settings.log,
        log_bytes: settings.log_bytes,
    };
    let ffs = Ffs::open(device, clock, &options).context(spec)?;
    let objections = ffs.read_only_reasons().to_vec();
    let notes = log_notes(place, &found, &ffs, settings);
    Ok(Opened { fs: Arc::new(ffs), old, objections, notes })
}

/// Returns the log as it is before the mount. Errors of the superblock are left to the mount.
fn find_log(
    device: &dyn Device,
    settings: &OpenSettings,
) -> spindle_vfs::Result<(Option<LogPlace>, FoundLog)> {
    let Ok(mut superblock) = spindle_ffs::Superblock::open(device) else { return Ok((None, FoundLog::None)) };
    if let Some(Kind::Ffs(dialect)) = settings.kind {
        superblock.dialect = dialect;
    }
    Ok((superblock.log_place(), FoundLog::look(device, &superblock)?))
}

/// Returns messages about what the mount did with the log `found`, which was at `before`.
fn log_notes(before: Option<LogPlace>, found: &FoundLog, ffs: &Ffs, settings: &OpenSettings) -> Vec<String> {
    let superblock = ffs.superblock();
    let mut notes = Vec::new();
    match found {
        FoundLog::Recovery(replay) if ffs.read_only() => notes.push(format!(
            "not unmounted cleanly: showing the state after replay of its log ({} blocks); nothing is written",
            replay.blocks()
        )),
        FoundLog::Recovery(replay) => {
            notes.push(format!("recovered {} blocks from the log", replay.blocks()));
        }
        _ => {}
    }
    if let Some(now) = superblock.log_place() {
        let size = number::bytes(now.len);
        if before != Some(now) {
            notes.push(format!(
                "created a {size} log in {}; mount with -o nolog to do without",
                log_file(superblock.dialect)
            ));
        } else if settings.log_bytes.is_some_and(|bytes| bytes != now.len) {
            notes.push(format!("the log of {size} is kept; logsize= applies only to a new log"));
        }
    }
    notes
}

/// Returns the name of the file that holds the log.
pub fn log_file(dialect: Dialect) -> String {
    match dialect {
        Dialect::NetBsd => "an unnamed file, as NetBSD does".into(),
        _ => format!("the file /{}", String::from_utf8_lossy(LOG_NAME)),
    }
}

/// Opens an image for reading, and calls `work` with it.
pub fn read<T>(image: &str, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    run(image, &OpenSettings::read_only(), work)
}

/// Opens an image for writing, and calls `work` with it. Fails with the objections if it cannot be
/// written.
pub fn change<T>(image: &str, write: WriteArgs, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    interrupt::watch()?;
    run(image, &OpenSettings::read_write(write), work)
}

/// Opens an image, calls `work` with it, and unmounts it. Returns the first failure.
pub fn run<T>(image: &str, settings: &OpenSettings, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    let spec = partition::spec(image)?;
    let opened = open(&spec, settings)?;
    if !settings.read_only && opened.fs.read_only() {
        // Nothing was changed, so nothing is lost if this fails.
        let _ = opened.fs.unmount();
        return Err(Failure::new(reasons(&opened.objections)))
            .context(format_args!("{image} cannot be written"));
    }
    for note in &opened.notes {
        logger::note(format_args!("{image}: {note}"));
    }
    let done = work(&Vfs::new(Arc::clone(&opened.fs), Options::default()));
    let closed = opened.fs.unmount().context(image);
    let value = done?;
    closed?;
    Ok(value)
}

/// Returns the objections as one line.
pub fn reasons(objections: &[Objection]) -> String {
    if objections.is_empty() {
        return "the device is read-only".into();
    }
    let lines: Vec<String> = objections.iter().map(|o| format!("{}; {}", o.reason, o.remedy)).collect();
    lines.join("; and ")
}
