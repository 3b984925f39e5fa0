//! The file systems that the workloads run on: small, one of each format. Each is filled once with
//! junk, so that stale bytes differ from zeros, and then with the tree that all workloads start
//! from.

use super::operation::{Driver, Op};
use super::oracle::Tree;
use super::recorder::Recorder;
use crate::base::MADE;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_cache::{DataSettings, Naming, Settings};
use spindle_clock::{Clock, ManualClock};
use spindle_conformance::model::{ModelFs, ModelOptions};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::newfs::{self, Format, Geometry, Parameters, Plan};
use spindle_ffs::quota::Kind;
use spindle_ffs::repair::switch_quotas;
use spindle_ffs::{Dialect, Ffs, LogUse, OpenOptions};
use spindle_ondisk::Endian;
use spindle_vfs::{AtimePolicy, Error, FileKind, FileSystem, Limits, Privilege, Result};
use std::sync::Arc;

/// First serial number of the writes that make the tree; those of workloads are smaller.
const FIRST_SERIAL: u64 = 1 << 32;
/// Sectors of the log: hardly more than are needed where quotas are inside, whose operations change
/// the most of them.
const LOG_SECTORS: u64 = 128;
/// Sectors of the log where an operation may need copies for two snapshots.
const LOG_SECTORS_WITH_SNAPSHOTS: u64 = 800;

/// A format, and how it is mounted.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its name, as in the names of states.
    pub name: &'static str,
    /// The parameters of newfs.
    pub parameters: Parameters,
    /// The kind of mount.
    pub mounting: Mounting,
    /// It keeps NetBSD's quotas inside, of users and of groups.
    pub quotas_inside: bool,
    /// Sectors of its log.
    pub log_sectors: u64,
    /// Its workloads make and remove snapshots.
    pub snapshots: bool,
}

/// The kind of mount while a workload runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounting {
    /// As on a block device. Each operation has its own time.
    Plain,
    /// As on an image file, where large writes go directly to the device, those of at least this
    /// many bytes, and so do writes of whole sectors at random. All operations are done within one
    /// tick of the clock.
    Straight(usize),
    /// With little memory for delayed writes, so data goes to the device early. All operations are
    /// done within one tick of the clock.
    Eager,
    /// With `-o discard`: what a commit has freed is discarded.
    Discarding,
    /// With `-o sync`: without a log, and each change of names is durable when it is done. A repair
    /// comes before the next mount.
    Synchronous,
}

impl Mounting {
    /// Returns the settings of the cache.
    pub(crate) fn settings(self) -> Settings {
        let plain = Settings { capacity_bytes: 1 << 20, dirty_limit_bytes: 256 << 10, ..Settings::default() };
        match self {
            Self::Plain | Self::Discarding => plain,
            Self::Straight(least) => {
                let data = plain.data.on_image_file();
                let straight_bytes = data.straight_bytes.map(|bytes| bytes.min(least));
                let start_bytes = Some(16 << 10);
                // The files of the model are small.
                let straight_random_bytes = data.straight_random_bytes.map(|bytes| bytes.min(512));
                let data = DataSettings { straight_bytes, straight_random_bytes, start_bytes, ..data };
                Settings { data, ..plain }
            }
            Self::Eager => Settings { dirty_limit_bytes: 2048, ..plain },
            Self::Synchronous => Settings { naming: Naming::Durable, ..plain },
        }
    }

    /// Returns true if the clock advances between operations.
    #[must_use]
    pub fn ticks(self) -> bool {
        matches!(self, Self::Plain | Self::Discarding | Self::Synchronous)
    }
}

/// An image of a file system with the tree in it, cleanly unmounted.
pub struct Image {
    /// The name of its format.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Bytes of a sector of its device, which is written wholly or not at all.
    pub sector_bytes: u32,
    /// The limits of its format.
    pub limits: Limits,
    /// The use of a log when it is opened.
    pub log: LogUse,
    /// The kind of mount while a workload runs.
    pub mounting: Mounting,
    /// Its workloads make and remove snapshots.
    pub snapshots: bool,
}

/// Returns the formats with a log, the most important one first.
#[must_use]
pub fn shapes() -> Vec<Shape> {
    let size = 1 << 20;
    let shape = |bsize, fsize| Parameters {
        bsize: Some(bsize),
        fsize: Some(fsize),
        density: Some(8192),
        snap_dir: false,
        minfree: Some(0),
        ..Parameters::new(size)
    };
    let ufs1 = |dialect, endian| Parameters {
        format: Format::Ufs1,
        dialect: Some(dialect),
        endian: Some(endian),
        ..shape(4096, 512)
    };
    let disk = Geometry {
        rpm: Some(3600),
        nsect: Some(32),
        ntrak: Some(8),
        cpg: Some(4),
        rotdelay_ms: Some(0),
        ..Geometry::default()
    };
    let named = |name, parameters| Shape {
        name,
        parameters,
        mounting: Mounting::Plain,
        quotas_inside: false,
        log_sectors: LOG_SECTORS,
        snapshots: false,
    };
    let mounted = |name, mounting| Shape { mounting, ..named(name, shape(4096, 512)) };
    vec![
        named("ufs2-freebsd", shape(4096, 512)),
        mounted("ufs2-image-file", Mounting::Straight(usize::MAX)),
        mounted("ufs2-straight", Mounting::Straight(1024)),
        mounted("ufs2-eager", Mounting::Eager),
        mounted("ufs2-discard", Mounting::Discarding),
        named(
            "ufs2-sectors-of-4k",
            Parameters { sector_bytes: 4096, size_bytes: 2 * size, ..shape(8192, 4096) },
        ),
        named("ufs2-netbsd", Parameters { dialect: Some(Dialect::NetBsd), ..shape(8192, 1024) }),
        Shape {
            quotas_inside: true,
            ..named("ufs2-netbsd-quotas", Parameters { dialect: Some(Dialect::NetBsd), ..shape(4096, 512) })
        },
        named("ufs1-freebsd", ufs1(Dialect::FreeBsd, Endian::Little)),
        // With big-endian numbers there would be no log: NetBSD's kernels do not agree on its byte
        // order.
        named("ufs1-netbsd", ufs1(Dialect::NetBsd, Endian::Little)),
        named(
            "ufs1-44bsd",
            Parameters {
                geometry: disk,
                bsize: Some(4096),
                fsize: Some(1024),
                ..ufs1(Dialect::Bsd44, Endian::Little)
            },
        ),
        named(
            "sun-sparc",
            Parameters {
                geometry: disk,
                bsize: Some(4096),
                fsize: Some(1024),
                ..ufs1(Dialect::Sun { x86: false }, Endian::Big)
            },
        ),
    ]
}

/// Returns formats for workloads that make snapshots, with room for two in the log.
#[must_use]
pub fn snapshot_shapes() -> Vec<Shape> {
    let named = [
        ("ufs2-freebsd", "ufs2-snapshots"),
        ("ufs2-straight", "ufs2-straight-snapshots"),
        ("ufs2-eager", "ufs2-eager-snapshots"),
        ("ufs2-discard", "ufs2-discard-snapshots"),
        ("ufs1-freebsd", "ufs1-snapshots"),
        ("ufs2-netbsd", "ufs2-netbsd-snapshots"),
    ];
    let shape = |mut shape: Shape| {
        let (_, name) = named.into_iter().find(|(of, _)| *of == shape.name)?;
        shape.parameters.size_bytes *= 2;
        Some(Shape { name, log_sectors: LOG_SECTORS_WITH_SNAPSHOTS, snapshots: true, ..shape })
    };
    shapes().into_iter().filter_map(shape).collect()
}

/// Returns formats that are mounted with `-o sync`.
#[must_use]
pub fn synchronous_shapes() -> Vec<Shape> {
    let named = [("ufs2-freebsd", "ufs2-sync"), ("ufs1-44bsd", "ufs1-sync")];
    let shape = |shape: Shape| {
        let (_, name) = named.into_iter().find(|(of, _)| *of == shape.name)?;
        Some(Shape { name, mounting: Mounting::Synchronous, ..shape })
    };
    shapes().into_iter().filter_map(shape).collect()
}

/// Returns the operations that make the tree.
#[must_use]
pub fn tree(limits: &Limits) -> Vec<Op> {
    let file = |path: &str| Op::Create(path.into(), FileKind::Regular);
    let dir = |path: &str| Op::Create(path.into(), FileKind::Directory);
    let write = |path: &str, offset, len| Op::Write(path.into(), offset, len);
    let mut ops = vec![
        dir("A"),
        dir("A/C"),
        dir("B"),
        dir("D"),
        file("foo"),
        write("foo", 0, 10_000),
        file("bar"),
        write("bar", 0, 300),
        Op::Link("bar".into(), "A/bar".into()),
        file("A/foo"),
        write("A/foo", 0, 5000),
        file("D/x"),
        write("D/x", 0, 100),
        file("sparse"),
        write("sparse", 0, 1000),
        write("sparse", 14 * 4096, 6000),
        Op::Symlink("sym".into(), 30),
    ];
    if limits.xattrs {
        ops.push(Op::SetXattr("A/foo".into(), "user.a", 40));
    }
    ops
}

/// Returns the model of a file system with the tree in it.
///
/// # Panics
/// If the tree cannot be made.
#[must_use]
pub fn model(limits: &Limits, clock: Arc<ManualClock>) -> ModelFs {
    let options = ModelOptions {
        limits: limits.clone(),
        block_bytes: 512,
        blocks: 1 << 40,
        reserve_blocks: 0,
        files: 1 << 40,
        read_only: false,
        atime: AtimePolicy::Never,
    };
    let model = ModelFs::new(options, clock);
    plant(&model).expect("the model takes the tree");
    model
}

/// Makes the tree.
pub(crate) fn plant(fs: &dyn FileSystem) -> Result<()> {
    let mut driver = Driver::new(fs);
    for (n, op) in tree(&fs.limits()).iter().enumerate() {
        driver.apply(op, FIRST_SERIAL + n as u64, usize::MAX)?;
    }
    Ok(())
}

/// Opens a file system with the settings of [`Mounting::Plain`].
///
/// # Errors
/// Those of opening it.
pub fn open(device: Arc<dyn Device>, clock: Arc<ManualClock>, log: LogUse) -> Result<Ffs> {
    open_as(device, clock, log, Mounting::Plain)
}

/// Opens a file system with the settings of a kind of mount.
///
/// # Errors
/// Those of opening it.
pub fn open_as(
    device: Arc<dyn Device>,
    clock: Arc<ManualClock>,
    log: LogUse,
    mounting: Mounting,
) -> Result<Ffs> {
    open_with_log_of(LOG_SECTORS, device, clock, log, mounting)
}

fn open_with_log_of(
    sectors: u64,
    device: Arc<dyn Device>,
    clock: Arc<ManualClock>,
    log: LogUse,
    mounting: Mounting,
) -> Result<Ffs> {
    let log_bytes = sectors * u64::from(device.info().sector_bytes);
    let options = OpenOptions {
        atime: AtimePolicy::Never,
        seed: Some(1),
        cache: mounting.settings(),
        log,
        log_bytes: Some(log_bytes),
        discard: mounting == Mounting::Discarding,
        ..OpenOptions::default()
    };
    Ffs::open(device, clock, &options)
}

/// Returns a clock that shows the time at which images are made.
#[must_use]
pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(MADE))
}

impl Image {
    /// Makes all images, with logs unless `log` says otherwise.
    ///
    /// # Panics
    /// If one cannot be made.
    #[must_use]
    pub fn all(log: LogUse) -> Vec<Self> {
        shapes().iter().map(|shape| Self::new(shape, log)).collect()
    }

    /// Makes those for workloads that make snapshots.
    ///
    /// # Panics
    /// If one cannot be made.
    #[must_use]
    pub fn for_snapshots() -> Vec<Self> {
        snapshot_shapes().iter().map(|shape| Self::new(shape, LogUse::Wanted)).collect()
    }

    /// Makes an image with a log, or without.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new(shape: &Shape, log: LogUse) -> Self {
        let sector_bytes = shape.parameters.sector_bytes;
        let device = Arc::new(MemoryDevice::new(shape.parameters.size_bytes).with_sectors(sector_bytes));
        let limits = Self::make(shape, &device, log).unwrap_or_else(|e| panic!("{}: {e}", shape.name));
        let Shape { name, mounting, snapshots, .. } = *shape;
        let (bytes, log) = (device.to_bytes(), LogUse::IfThere);
        Self { name, bytes, sector_bytes, limits, log, mounting, snapshots }
    }

    fn make(shape: &Shape, device: &Arc<MemoryDevice>, log: LogUse) -> Result<Limits> {
        let clock = clock();
        let plan = Plan::new(&shape.parameters)?;
        newfs::write(&plan, &**device, &*clock, &mut SmallRng::seed_from_u64(1), &mut |_, _| ())?;
        if shape.quotas_inside {
            let (device, clock): (Arc<dyn Device>, Arc<dyn Clock>) = (device.clone(), clock.clone());
            switch_quotas(&device, &clock, &Kind::ALL, true)?;
        }
        let fs = open_with_log_of(shape.log_sectors, device.clone(), clock, log, Mounting::Plain)?;
        assert_eq!(fs.superblock().log_place().is_some(), log == LogUse::Wanted, "{}: a log", shape.name);
        match fs.rmdir(fs.root(), b"lost+found") {
            Ok(()) | Err(Error::NotFound) => {}
            Err(error) => return Err(error),
        }
        fill_with_junk(&fs)?;
        plant(&fs)?;
        let limits = fs.limits();
        fs.unmount()?;
        Ok(limits)
    }

    /// Returns a device that holds the image.
    #[must_use]
    pub fn device(&self) -> MemoryDevice {
        MemoryDevice::from_bytes(&self.bytes).with_sectors(self.sector_bytes)
    }

    /// Returns a device that holds the image and records events.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder::new(self.bytes.clone(), self.sector_bytes)
    }

    /// Returns the tree in the image.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let fs = open(Arc::new(self.device()), clock(), LogUse::IfThere).expect("a good image");
        Tree::of(&fs, std::iter::empty()).expect("a good image")
    }
}

/// Fills all free space with a file, and removes the file.
pub(crate) fn fill_with_junk(fs: &dyn FileSystem) -> Result<()> {
    let mut driver = Driver::new(fs);
    let junk = || "junk".to_owned();
    driver.apply(&Op::Create(junk(), FileKind::Regular), 0, 0)?;
    let ino = driver.resolve("junk")?;
    let mut at = 0;
    loop {
        // `bytes_of` can return this byte, too, but not so many times in sequence.
        match fs.write(ino, at, &[0xdd; 4096], Privilege::Root) {
            Ok(written) => at += written as u64,
            Err(Error::NoSpace) => break,
            Err(error) => return Err(error),
        }
    }
    fs.sync()?;
    driver.apply(&Op::Unlink(junk()), 0, 0)?;
    fs.sync()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: images of NetBSD's dialect have NetBSD's own log, which has no name.
    #[test]
    fn netbsd_images_have_netbsds_log() {
        for shape in shapes().iter().filter(|shape| shape.name.contains("netbsd")) {
            let image = Image::new(shape, LogUse::Wanted);
            let superblock = spindle_ffs::Superblock::open(&*Arc::new(image.device())).unwrap();
            assert_eq!(superblock.dialect, Dialect::NetBsd, "{}", shape.name);
            assert!(superblock.log_place().is_some(), "{}", shape.name);
        }
    }
}
