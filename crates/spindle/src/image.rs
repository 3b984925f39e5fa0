//! An open file system in an image file, on a block device or in a partition.

use crate::detect::{Found, Kind, detect_damaged, version_name};
use crate::error::{Context, Error, Result};
use crate::path;
use crate::quota::{self, QuotaFiles};
use crate::set::OpenSet;
use crate::transfer::{ImageSink, NewFiles, Sink, Source};
use spindle_cache::Settings;
use spindle_clock::{Clock, TickClock};
use spindle_device::{Claim, Device, Spec};
use spindle_ffs::repair::{Journal, journal};
use spindle_ffs::{Allocation, Dialect, Ffs, JournalKind, LOG_NAME, LogUse, Superblock};
use spindle_mfs::Mfs;
use spindle_tree::Remount;
use spindle_v7::V7;
use spindle_vfs::{AclKind, AtimePolicy, Extent, FileSystem, Ino, Objection, Terminals, Vfs};
use std::sync::Arc;

/// Settings for opening a file system.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "they are switches, independent of each other")]
pub struct OpenOptions {
    /// Write nothing to the image.
    pub read_only: bool,
    /// Write in spite of objections that can be overridden.
    pub force: bool,
    /// The kind of file system; detected if `None`.
    pub kind: Option<Kind>,
    /// The copy of the superblock of a fast file system to read with: its sector of 512 bytes, or
    /// its byte. Without it, one is searched for if the superblock cannot be used.
    pub superblock: Option<u64>,
    /// Show what no directory names any more in place of the root directory. Only for reading, and
    /// not for a multi-structured file system.
    pub unnamed: bool,
    /// Rule by which reads change access times.
    pub atime: AtimePolicy,
    /// Seed of the random numbers, for reproducible images.
    pub seed: Option<u64>,
    /// How the system is kept from using a block device.
    pub claim: Claim,
    /// Source of timestamps.
    pub clock: Arc<dyn Clock>,
    /// Settings of the cache; those for programs, not mounts, if `None`.
    pub cache: Option<Settings>,
    /// Allocation policy of the fast file system when the next block of a file is in use.
    pub allocation: Allocation,
    /// Use of the log of the fast file system.
    pub log: LogUse,
    /// Size of a new log in bytes.
    pub log_bytes: Option<u64>,
    /// Declare space unused to the device when it is freed: of the fast file system with a log.
    pub discard: bool,
    /// Quotas to enforce while it is open for writing.
    pub quotas: QuotaFiles,
    /// Where users are warned that they meet a limit of a quota, besides the log.
    pub terminals: Option<Arc<dyn Terminals>>,
}

impl OpenOptions {
    /// Returns the settings of a program that reads.
    #[must_use]
    pub fn read_only() -> Self {
        Self {
            read_only: true,
            force: false,
            kind: None,
            superblock: None,
            unnamed: false,
            atime: AtimePolicy::Never,
            seed: None,
            claim: Claim::default(),
            clock: Arc::new(TickClock),
            cache: None,
            allocation: Allocation::default(),
            log: LogUse::IfThere,
            log_bytes: None,
            discard: false,
            quotas: QuotaFiles::default(),
            terminals: None,
        }
    }

    /// Returns the settings of a program that writes; its reads do not change access times, and it
    /// uses the log of a file system that has one.
    #[must_use]
    pub fn read_write() -> Self {
        Self { read_only: false, ..Self::read_only() }
    }
}

/// Something about the log that the user should know after the file system was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogNote {
    /// The file system was not unmounted cleanly; this many blocks were replayed from the log.
    Recovered {
        /// Number of blocks.
        blocks: usize,
    },
    /// The same, but it is open read-only: the blocks were replayed in memory.
    Shown {
        /// Number of blocks.
        blocks: usize,
    },
    /// The file system was put right with the journal of another system, so many records.
    JournalRecovered {
        /// Whose journal it is.
        kind: JournalKind,
        /// Number of records.
        records: usize,
    },
    /// A log was created.
    Created {
        /// Its size.
        bytes: u64,
        /// The dialect, which decides what file has the log's space ([`log_file`]).
        dialect: Dialect,
    },
    /// The existing log is kept, although another size was asked for.
    Kept {
        /// Its size.
        bytes: u64,
    },
}

/// The family that a file system belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The fast file system, which can have a log.
    Ffs,
    /// The old file systems, which have none.
    Old,
    /// The multi-structured file system, which always has one.
    Mfs,
}

/// An open file system.
///
/// Call [`Image::unmount`] at the end: it writes what is left and marks the file system clean.
/// Without it the file system stays marked as in use, and needs a recovery or a check.
pub struct Image {
    fs: Arc<dyn FileSystem>,
    /// The same, as what a mount can change.
    pub(crate) tree: Arc<dyn Remount>,
    /// The same, as what it is.
    pub(crate) kind: Opened,
    objections: Vec<Objection>,
    log_notes: Vec<LogNote>,
}

/// An open file system of each family.
pub(crate) enum Opened {
    Ffs(Arc<Ffs>),
    Old(Arc<V7>),
    Mfs(Arc<Mfs>, Arc<OpenSet>),
}

impl Image {
    /// Opens the file system in `spec`.
    ///
    /// What is not safe to write is opened read-only, whatever the options say: see
    /// [`Image::objections`].
    ///
    /// # Errors
    /// If there is no file system that can be read, or the device cannot be opened.
    pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        Self::prepare(spec, options)?.open()
    }

    /// Finds the file system in `spec`, and opens and locks its devices. Writes nothing.
    ///
    /// # Errors
    /// If there is no file system that can be read, or a device cannot be opened.
    pub fn prepare(spec: &Spec, options: &OpenOptions) -> Result<Prepared> {
        let device = open_with(spec, options)?;
        let cache = settings_for(options.cache.unwrap_or_default(), spec);
        Prepared::of(spec, device, cache, options).context(spec)
    }

    /// Opens a file system of one device in memory.
    pub(crate) fn open_in_memory(device: Arc<dyn Device>, options: &OpenOptions) -> Result<Self> {
        let cache = options.cache.unwrap_or_default();
        Self::open_device(&Spec::parse("memory")?, device, cache, options)
    }

    /// Opens the file system on a device, with these settings of the cache.
    pub(crate) fn open_device(
        spec: &Spec,
        device: Arc<dyn Device>,
        cache: Settings,
        options: &OpenOptions,
    ) -> Result<Self> {
        Prepared::of(spec, device, cache, options)?.open_found()
    }

    fn of<T: FileSystem + Remount + 'static>(
        fs: Arc<T>,
        kind: Opened,
        objections: Vec<Objection>,
        log_notes: Vec<LogNote>,
    ) -> Self {
        Self { fs: fs.clone(), tree: fs, kind, objections, log_notes }
    }

    /// Returns the file system.
    #[must_use]
    pub const fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// Returns the family of the file system.
    #[must_use]
    pub const fn family(&self) -> Family {
        match self.kind {
            Opened::Ffs(_) => Family::Ffs,
            Opened::Old(_) => Family::Old,
            Opened::Mfs(..) => Family::Mfs,
        }
    }

    /// Returns the name of the format: `UFS2`, `UFS1`, `v7-512-pdp`, `mfs` …
    #[must_use]
    pub fn format(&self) -> String {
        match &self.kind {
            Opened::Ffs(ffs) => version_name(ffs.layout().version, ffs.layout().inode_format).into(),
            Opened::Old(v7) => v7.layout().format.to_string(),
            Opened::Mfs(..) => "mfs".into(),
        }
    }

    /// Returns where the data of a regular file lies on the device, in the order of the file and
    /// without its holes; none if it does not lie there as it is.
    ///
    /// # Errors
    /// If it is not a regular file, or cannot be read.
    pub fn extents(&self, ino: Ino) -> Result<Option<Vec<Extent>>> {
        Ok(match &self.kind {
            Opened::Ffs(ffs) => Some(ffs.extents(ino)?),
            Opened::Old(v7) => Some(v7.extents(ino)?),
            Opened::Mfs(..) => None,
        })
    }

    /// Returns the least unit in which data of files lies on the device, in bytes: a fragment, or a
    /// block; none for a set.
    pub(crate) fn unit(&self) -> Option<u32> {
        match &self.kind {
            Opened::Ffs(ffs) => Some(ffs.layout().fs_fsize),
            Opened::Old(v7) => Some(v7.layout().format.bsize),
            Opened::Mfs(..) => None,
        }
    }

    /// Returns the dialect of a fast file system.
    #[must_use]
    pub fn dialect(&self) -> Option<Dialect> {
        match &self.kind {
            Opened::Ffs(ffs) => Some(ffs.superblock().dialect),
            Opened::Old(_) | Opened::Mfs(..) => None,
        }
    }

    /// Returns the reasons why it is open read-only although writing was asked for, with remedies;
    /// also those that `force` has overridden.
    #[must_use]
    pub fn objections(&self) -> &[Objection] {
        &self.objections
    }

    /// Returns what the user should know about the log.
    #[must_use]
    pub fn log_notes(&self) -> &[LogNote] {
        &self.log_notes
    }

    /// Fails with the objections if the file system is open read-only.
    ///
    /// # Errors
    /// All objections in one line, with their remedies.
    pub fn check_writable(&self) -> Result<()> {
        if self.fs.read_only() { Err(Error::new(reasons(&self.objections))) } else { Ok(()) }
    }

    /// Returns the view of the file system with paths, permissions and open files.
    #[must_use]
    pub fn vfs(&self) -> Vfs {
        Vfs::new(Arc::clone(&self.fs), spindle_vfs::Options::default())
    }

    /// Returns the content of the file at `path`; symbolic links are followed.
    ///
    /// # Errors
    /// If there is no such file, if it is not a regular one, or if it cannot be read.
    pub fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let vfs = self.vfs();
        let node = path::resolve(&vfs, path.as_ref(), true)?;
        let mut content = Vec::new();
        let mut buffer = vec![0; crate::transfer::CHUNK];
        loop {
            match self.fs.read(node.ino(), content.len() as u64, &mut buffer).named(path.as_ref())? {
                0 => return Ok(content),
                n => content.extend_from_slice(&buffer[..n]),
            }
        }
    }

    /// Copies a tree into the directory at `path`, with owners, permissions, times, flags and
    /// extended attributes as far as the format has them. Replaces existing files, and fills
    /// existing directories.
    ///
    /// # Errors
    /// The first failure of the source or of the file system; what was copied before it stays.
    pub fn import(&self, path: impl AsRef<[u8]>, source: impl Source) -> Result<()> {
        self.check_writable()?;
        let vfs = self.vfs();
        let dir = path::resolve(&vfs, path.as_ref(), true)?;
        if !dir.is_dir() {
            return Err(spindle_vfs::Error::NotDirectory).named(path.as_ref());
        }
        let mut sink = ImageSink::new(&dir, path.as_ref(), NewFiles::PRESERVED).without_log();
        let walked = source.walk(&mut sink);
        // Directories get their permissions and times in any case.
        walked.and(sink.finish())
    }

    /// Writes everything to the device, and marks the file system clean. Nothing can be changed
    /// afterwards.
    ///
    /// # Errors
    /// If something could not be written; the file system then stays marked as in use.
    pub fn unmount(self) -> Result<()> {
        Ok(self.fs.unmount()?)
    }
}

/// A file system that is found, with its devices open and locked. Nothing is written yet, and
/// [`open`](Self::open) needs no path any more.
pub struct Prepared {
    spec: Spec,
    options: OpenOptions,
    cache: Settings,
    devices: Devices,
}

/// The devices of a file system that is found.
enum Devices {
    Ffs(Box<spindle_ffs::Superblock>, Arc<dyn Device>),
    Old(Box<spindle_v7::Detected>, Arc<dyn Device>),
    Mfs(Arc<OpenSet>),
}

impl Prepared {
    /// Returns which access control lists its superblock has switched on.
    #[must_use]
    pub fn acls(&self) -> AclKind {
        match &self.devices {
            Devices::Ffs(superblock, _) => superblock.acls(),
            Devices::Old(..) | Devices::Mfs(_) => AclKind::None,
        }
    }

    fn of(spec: &Spec, device: Arc<dyn Device>, cache: Settings, options: &OpenOptions) -> Result<Self> {
        let devices = match detect_damaged(&*device, options.kind, options.superblock)? {
            Found::Old(_) | Found::Mfs(_) if !options.quotas.is_empty() => {
                return Err(Error::new(quota::NONE));
            }
            Found::Mfs(_) if options.unnamed => {
                return Err(Error::new(
                    "is a multi-structured file system, whose files without names spindle fsck -y puts into \
                     lost+found",
                ));
            }
            Found::Mfs(_) => {
                // It is opened again, with the others.
                drop(device);
                Devices::Mfs(Arc::new(OpenSet::open(spec, options)?))
            }
            Found::Ffs(found) => Devices::Ffs(found, device),
            Found::Old(found) => Devices::Old(found, device),
        };
        Ok(Self { spec: spec.clone(), options: options.clone(), cache, devices })
    }

    /// Opens the file system.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open(self) -> Result<Image> {
        let spec = self.spec.clone();
        self.open_found().context(spec)
    }

    fn open_found(self) -> Result<Image> {
        let Self { options, cache, devices, .. } = self;
        let clock = Arc::clone(&options.clock);
        match devices {
            Devices::Old(found, device) => {
                let v7_options = spindle_v7::OpenOptions {
                    read_only: options.read_only,
                    force: options.force,
                    format: None,
                    atime: options.atime,
                    cache,
                };
                let mut v7 = V7::open_found(*found, device, clock, &v7_options)?;
                if options.unnamed {
                    v7.show_unnamed()?;
                }
                let objections = v7.read_only_reasons().to_vec();
                let v7 = Arc::new(v7);
                Ok(Image::of(v7.clone(), Opened::Old(v7), objections, Vec::new()))
            }
            Devices::Ffs(mut found, device) => {
                let ffs_options = spindle_ffs::OpenOptions {
                    read_only: options.read_only,
                    force: options.force,
                    dialect: None,
                    atime: options.atime,
                    seed: options.seed,
                    cache,
                    allocation: options.allocation,
                    log: options.log,
                    log_bytes: options.log_bytes,
                    discard: options.discard,
                    quotas: options.quotas.clone(),
                    terminals: options.terminals.clone(),
                    for_repair: false,
                };
                let journal =
                    if options.read_only { None } else { follow_journal(&mut found, &device, &clock)? };
                let mut ffs = Ffs::open_found(*found, device, clock, &ffs_options)?;
                if options.unnamed {
                    ffs.show_unnamed()?;
                }
                let objections = ffs.read_only_reasons().to_vec();
                let notes = journal.into_iter().chain(log_notes(&ffs, &options)).collect();
                let ffs = Arc::new(ffs);
                Ok(Image::of(ffs.clone(), Opened::Ffs(ffs), objections, notes))
            }
            Devices::Mfs(set) => {
                let mfs_options =
                    spindle_mfs::OpenOptions { read_only: options.read_only, atime: options.atime, cache };
                let mfs = Mfs::open(&set.set, clock, &mfs_options)?;
                let objections = mfs.read_only_reasons().to_vec();
                let log_note = |blocks| {
                    let shown = mfs.read_only();
                    if shown { LogNote::Shown { blocks } } else { LogNote::Recovered { blocks } }
                };
                let log_notes = mfs.replayed_sectors().map(log_note).into_iter().collect();
                let mfs = Arc::new(mfs);
                Ok(Image::of(mfs.clone(), Opened::Mfs(mfs, set), objections, log_notes))
            }
        }
    }
}

/// Opens the device of a specification as the options say.
pub(crate) fn open_with(spec: &Spec, options: &OpenOptions) -> Result<Arc<dyn Device>> {
    let access = if options.read_only {
        spindle_device::OpenOptions::read_only()
    } else {
        spindle_device::OpenOptions::read_write()
    };
    Ok(spec.open(&spindle_device::OpenOptions { claim: options.claim, ..access })?)
}

/// Opens the device of a specification for reading.
///
/// # Errors
/// If it cannot be opened, or another program is writing it.
pub fn open_device(spec: &Spec) -> Result<Arc<dyn Device>> {
    Ok(spec.open(&spindle_device::OpenOptions::read_only())?)
}

/// Opens a device for reading without a lock: another program may be writing to it.
///
/// # Errors
/// If it cannot be opened.
pub fn open_device_unlocked(spec: &Spec) -> Result<Arc<dyn Device>> {
    Ok(open_unlocked(spec)?)
}

/// Does the same, with the error of the device.
pub(crate) fn open_unlocked(spec: &Spec) -> spindle_device::Result<Arc<dyn Device>> {
    spec.open(&spindle_device::OpenOptions::look())
}

/// Returns the settings for the device of `spec`: the system caches image files, but not block
/// devices.
fn settings_for(cache: Settings, spec: &Spec) -> Settings {
    let is_file = std::fs::metadata(&spec.path).is_ok_and(|metadata| metadata.is_file());
    if is_file { Settings { data: cache.data.on_image_file(), ..cache } } else { cache }
}

/// Recovers the file system whose superblock was found with the journal of another system, if there
/// is one to be followed. A journal that cannot be used changes nothing: then the file system is
/// one that was not unmounted cleanly.
fn follow_journal(
    found: &mut Superblock,
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
) -> spindle_vfs::Result<Option<LogNote>> {
    if device.info().read_only || found.salvaged.is_some() {
        return Ok(None);
    }
    match journal(device, clock)? {
        Journal::None => Ok(None),
        Journal::Useless(kind, reason) => {
            log::warn!("{}: the {kind} cannot be used: {reason}", device.info().name);
            Ok(None)
        }
        Journal::Usable(recovery) => {
            recovery.plan.apply(&**device)?;
            *found = Superblock::open(&**device)?;
            Ok(Some(LogNote::JournalRecovered { kind: recovery.kind, records: recovery.records }))
        }
    }
}

/// Returns what opening the file system did with the log.
fn log_notes(ffs: &Ffs, options: &OpenOptions) -> Vec<LogNote> {
    let before = ffs.log_at_open();
    let superblock = ffs.superblock();
    let mut notes = Vec::new();
    if let Some(blocks) = before.replayed_blocks {
        let shown = ffs.read_only();
        notes.push(if shown { LogNote::Shown { blocks } } else { LogNote::Recovered { blocks } });
    }
    if let Some(now) = superblock.log_place() {
        if before.place != Some(now) {
            notes.push(LogNote::Created { bytes: now.len, dialect: superblock.dialect });
        } else if options.log_bytes.is_some_and(|bytes| bytes != now.len) {
            notes.push(LogNote::Kept { bytes: now.len });
        }
    }
    notes
}

/// Returns the name of the file that has the log's space.
#[must_use]
pub fn log_file(dialect: Dialect) -> String {
    match dialect {
        Dialect::NetBsd => "an unnamed file, as NetBSD does".into(),
        _ => format!("the file /{}", String::from_utf8_lossy(LOG_NAME)),
    }
}

/// Returns the objections as one line; those that have the same remedy share it.
#[must_use]
pub fn reasons(objections: &[Objection]) -> String {
    if objections.is_empty() {
        return "the device is read-only".into();
    }
    let with_remedy = |chunk: &[Objection]| {
        let all: Vec<&str> = chunk.iter().map(|objection| objection.reason.as_str()).collect();
        format!("{}; {}", all.join(", and "), chunk[0].remedy)
    };
    let chunks = objections.chunk_by(|a, b| a.remedy == b.remedy);
    chunks.map(with_remedy).collect::<Vec<_>>().join("; and ")
}
