//! Opening what users name as an image.
//!
//! [`open`] finds out what kind of file system is there ([`detect`]) and gives it behind
//! [`FileSystem`]; [`read`] and [`change`] do something with it and bring it to its end, whatever
//! happened.

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

/// Options of all commands that change what is in an image.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct WriteArgs {
    /// Write even if something speaks against it that may be overridden
    ///
    /// An image that was not unmounted cleanly, for example, is not written otherwise. What cannot
    /// be right in any case, like writing below a journal that still holds changes, is refused
    /// nevertheless.
    #[arg(long)]
    pub force: bool,
}

/// What kind of file system to take it for, whatever it looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The fast file system as this system writes it.
    Ffs(Dialect),
    /// The old file system in this format.
    Old(Format),
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let dialect: Result<Dialect, String> = name.parse();
        let old =
            || name.parse().map(Self::Old).map_err(|e| format!("no dialect of the fast file system: {e}"));
        dialect.map_or_else(|_| old(), |dialect| Ok(Self::Ffs(dialect)))
    }
}

/// What was found on a device.
pub enum Found {
    /// A fast file system.
    Ffs(Box<spindle_ffs::Superblock>),
    /// An old file system.
    Old(Box<spindle_v7::Detected>),
}

/// Finds the file system on a device. The old one is thought of last, as most of its formats have
/// no magic number.
pub fn detect(device: &dyn Device) -> spindle_vfs::Result<Found> {
    match spindle_ffs::Superblock::open(device) {
        Err(none @ Error::Unsupported { .. }) => match spindle_v7::Superblock::open(device, None) {
            Err(Error::Unsupported { .. }) => Err(none),
            found => Ok(Found::Old(Box::new(found?))),
        },
        found => Ok(Found::Ffs(Box::new(found?))),
    }
}

/// How to open a file system.
#[derive(Clone)]
pub struct Opening {
    /// Change nothing at all.
    pub read_only: bool,
    /// Write in spite of objections that can be overridden.
    pub force: bool,
    /// Take it for this.
    pub kind: Option<Kind>,
    /// When reading changes the access time.
    pub atime: AtimePolicy,
    /// Start value of random numbers, for images that are the same every time.
    pub seed: Option<u64>,
    /// Read without a lock: this very command has locked the disk, for another part of it.
    pub shared: bool,
    /// Let the kernel claim a block device, for a mount of it.
    pub mountable: bool,
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
    /// What to keep in memory, and how file data moves; what suits the commands without.
    pub cache: Option<Settings>,
    /// Where files of the fast file system go on when their next block is taken.
    pub allocation: Allocation,
    /// Whether changes of the fast file system go through a log; only mounts make one.
    pub log: LogUse,
    /// Bytes of a log that is made.
    pub log_bytes: Option<u64>,
}

impl Opening {
    /// For reading.
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

    /// For changes by a tool, whose reading is nobody's business.
    pub fn read_write(write: WriteArgs) -> Self {
        Self { read_only: false, force: write.force, ..Self::read_only() }
    }
}

/// An open file system.
pub struct Opened {
    /// It.
    pub fs: Arc<dyn FileSystem>,
    /// It is an old one, which cannot have a log.
    pub old: bool,
    /// Why it was opened read-only although more was asked for.
    pub objections: Vec<Objection>,
    /// What opening did with the log, for the user.
    pub notes: Vec<String>,
}

/// Reads a device specification.
pub fn parse_spec(image: &str) -> Result<Spec> {
    Ok(Spec::parse(image)?)
}

/// Opens the device of a specification for reading.
pub fn open_device(spec: &Spec) -> Result<Arc<dyn Device>> {
    Ok(spec.open(&spindle_device::OpenOptions::read_only())?)
}

/// Opens a device for looking at it only: another program may be writing to it.
pub fn open_device_unlocked(spec: &Spec) -> Result<Arc<dyn Device>> {
    let options = spindle_device::OpenOptions {
        lock: false,
        caching: Caching::Buffered,
        ..spindle_device::OpenOptions::read_only()
    };
    Ok(spec.open(&options)?)
}

/// Returns what suits the device of `spec`: block devices are opened past the memory of the system.
fn suited(cache: Settings, spec: &Spec) -> Settings {
    let is_file = std::fs::metadata(&spec.path).is_ok_and(|metadata| metadata.is_file());
    if is_file { Settings { data: cache.data.on_image_file(), ..cache } } else { cache }
}

/// Opens the file system in `spec`.
pub fn open(spec: &Spec, opening: &Opening) -> Result<Opened> {
    let device = match (opening.read_only, opening.shared) {
        (true, true) => open_device_unlocked(spec)?,
        (true, false) => open_device(spec)?,
        (false, _) => spec.open(&spindle_device::OpenOptions {
            mountable: opening.mountable,
            ..spindle_device::OpenOptions::read_write()
        })?,
    };
    let clock = Arc::clone(&opening.clock);
    let cache = suited(opening.cache.unwrap_or_default(), spec);
    let old = match opening.kind {
        Some(kind) => matches!(kind, Kind::Old(_)),
        None => matches!(detect(&*device), Ok(Found::Old(_))),
    };
    if old {
        let options = spindle_v7::OpenOptions {
            read_only: opening.read_only,
            force: opening.force,
            format: opening
                .kind
                .and_then(|kind| if let Kind::Old(format) = kind { Some(format) } else { None }),
            atime: opening.atime,
            cache,
        };
        let v7 = V7::open(device, clock, &options).context(spec)?;
        let objections = v7.read_only_reasons().to_vec();
        return Ok(Opened { fs: Arc::new(v7), old, objections, notes: Vec::new() });
    }
    let (place, found) = find_log(&*device, opening).context(spec)?;
    let options = spindle_ffs::OpenOptions {
        read_only: opening.read_only,
        force: opening.force,
        dialect: opening
            .kind
            .and_then(|kind| if let Kind::Ffs(dialect) = kind { Some(dialect) } else { None }),
        atime: opening.atime,
        seed: opening.seed,
        cache,
        allocation: opening.allocation,
        log: opening.log,
        log_bytes: opening.log_bytes,
    };
    let ffs = Ffs::open(device, clock, &options).context(spec)?;
    let objections = ffs.read_only_reasons().to_vec();
    let notes = log_notes(place, &found, &ffs, opening);
    Ok(Opened { fs: Arc::new(ffs), old, objections, notes })
}

/// Returns the log as it is before a mount does anything about it; an image that cannot be read is
/// for the mount to refuse.
fn find_log(device: &dyn Device, opening: &Opening) -> spindle_vfs::Result<(Option<LogPlace>, FoundLog)> {
    let Ok(mut superblock) = spindle_ffs::Superblock::open(device) else { return Ok((None, FoundLog::None)) };
    if let Some(Kind::Ffs(dialect)) = opening.kind {
        superblock.dialect = dialect;
    }
    Ok((superblock.log_place(), FoundLog::look(device, &superblock)?))
}

/// Returns what opening did with the log that was found at `before`.
fn log_notes(before: Option<LogPlace>, found: &FoundLog, ffs: &Ffs, opening: &Opening) -> Vec<String> {
    let superblock = ffs.superblock();
    let mut notes = Vec::new();
    match found {
        FoundLog::Recovery(replay) if ffs.read_only() => notes.push(format!(
            "not unmounted cleanly: shown as its log ({} blocks) would put it right; nothing is written",
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
            notes.push(format!("made a log of {size}: {}; nolog is without", log_file(superblock.dialect)));
        } else if opening.log_bytes.is_some_and(|bytes| bytes != now.len) {
            notes.push(format!("it has a log of {size} already; logsize= is for new ones"));
        }
    }
    notes
}

/// Returns the file that has the log's space.
pub fn log_file(dialect: Dialect) -> String {
    match dialect {
        Dialect::NetBsd => "a file without a name, as NetBSD has it".into(),
        _ => format!("the file /{}", String::from_utf8_lossy(LOG_NAME)),
    }
}

/// Reads something in an image.
pub fn read<T>(image: &str, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    run(image, &Opening::read_only(), work)
}

/// Changes something in an image; refused with the reasons if it cannot be written.
pub fn change<T>(image: &str, write: WriteArgs, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    interrupt::watch()?;
    run(image, &Opening::read_write(write), work)
}

/// Opens, works, and closes; the first thing that went wrong is what is told.
pub fn run<T>(image: &str, opening: &Opening, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    let spec = partition::spec(image)?;
    let opened = open(&spec, opening)?;
    if !opening.read_only && opened.fs.read_only() {
        // Nothing was changed, so there is nothing to lose if this fails.
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

/// Objections as one line.
pub fn reasons(objections: &[Objection]) -> String {
    if objections.is_empty() {
        return "its device is read-only".into();
    }
    let told: Vec<String> = objections.iter().map(|o| format!("{}; {}", o.reason, o.remedy)).collect();
    told.join("; and ")
}
