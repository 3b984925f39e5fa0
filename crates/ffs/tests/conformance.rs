//! The conformance suite and random operation sequences on every format, each followed by a full
//! check.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_cache::{DataSettings, Naming, Settings};
use spindle_clock::ManualClock;
use spindle_conformance::random::{random_run, seed};
use spindle_conformance::suite::{Feature, Harness};
use spindle_device::MemoryDevice;
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Format, Geometry, Parameters, Plan};
use spindle_ffs::{Allocation, Dialect, Ffs, LogUse, OpenOptions};
use spindle_ondisk::Endian;
use spindle_vfs::{Error, FileSystem};
use std::sync::Arc;

const START: i64 = 1_700_000_000;

/// A UFS in memory.
struct Ufs {
    device: Arc<MemoryDevice>,
    clock: Arc<ManualClock>,
    options: OpenOptions,
    fs: Arc<Ffs>,
    lacks: Vec<Feature>,
}

impl Ufs {
    fn make(parameters: &Parameters) -> Box<dyn Harness> {
        Self::make_with(parameters, &OpenOptions::default())
    }

    fn make_with(parameters: &Parameters, options: &OpenOptions) -> Box<dyn Harness> {
        let device = Arc::new(MemoryDevice::new(parameters.size_bytes));
        let clock = Arc::new(ManualClock::at(START));
        let plan = Plan::new(parameters).unwrap();
        newfs::write(&plan, &*device, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        let options = OpenOptions { seed: Some(2), dialect: parameters.dialect, ..options.clone() };
        let fs = Self::open(&device, &clock, &options);
        // The old newfs makes lost+found; the suite begins with an empty root.
        match fs.rmdir(fs.root(), b"lost+found") {
            Ok(()) | Err(Error::NotFound) => {}
            Err(error) => panic!("lost+found: {error}"),
        }
        let mut lacks = vec![Feature::KeepSize];
        let old = parameters.format == Format::Old || matches!(parameters.dialect, Some(Dialect::Sun { .. }));
        if old {
            lacks.push(Feature::Flags);
        }
        Box::new(Self { device, clock, options, fs, lacks })
    }

    fn open(device: &Arc<MemoryDevice>, clock: &Arc<ManualClock>, options: &OpenOptions) -> Arc<Ffs> {
        let fs = Ffs::open(device.clone(), clock.clone(), options).unwrap();
        assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
        Arc::new(fs)
    }

    /// Ends the mount: with a log by a crash after a sync.
    fn end(&mut self) {
        if self.options.log == LogUse::Wanted {
            self.fs.sync().unwrap();
            self.device = Arc::new(self.device.branch());
        } else {
            self.fs.unmount().unwrap();
        }
    }
}

impl Harness for Ufs {
    fn fs(&self) -> Arc<dyn FileSystem> {
        self.fs.clone()
    }

    fn remount(&mut self) {
        self.end();
        self.fs = Self::open(&self.device, &self.clock, &self.options);
    }

    fn check(&mut self) -> Vec<String> {
        self.remount();
        self.fs.unmount().unwrap();
        let report = check(&*self.device, &check::Options::default(), &mut |_| ()).unwrap();
        self.fs = Self::open(&self.device, &self.clock, &self.options);
        report.findings.iter().filter(|f| f.severity.is_damage()).map(ToString::to_string).collect()
    }

    fn tick(&mut self) -> bool {
        self.clock.advance(2);
        true
    }

    fn lacks(&self) -> &[Feature] {
        &self.lacks
    }
}

/// Returns the defaults without the directory for snapshots: the suite begins with an empty root.
fn empty(size_bytes: u64) -> Parameters {
    Parameters { snap_dir: false, ..Parameters::new(size_bytes) }
}

/// Returns FreeBSD's default: UFS2 with check-hashes, 32 KiB blocks.
fn ufs2_le() -> Parameters {
    empty(48 << 20)
}

/// Returns big-endian UFS2 with small blocks, where indirect blocks come early.
fn ufs2_be() -> Parameters {
    let (bsize, fsize) = (Some(4096), Some(512));
    Parameters { endian: Some(Endian::Big), bsize, fsize, density: Some(4096), ..empty(32 << 20) }
}

/// Returns the shape of game consoles: blocks and fragments of 64 KiB.
fn ufs2_64k() -> Parameters {
    let whole = Some(65536);
    Parameters { bsize: whole, fsize: whole, minfree: Some(0), density: Some(8192), ..empty(64 << 20) }
}

/// Returns UFS1 as FreeBSD makes it.
fn ufs1_le() -> Parameters {
    let (bsize, fsize) = (Some(8192), Some(1024));
    Parameters { format: Format::Ufs1, bsize, fsize, density: Some(4096), ..empty(32 << 20) }
}

/// Returns UFS1 of 4.4BSD, big-endian, with a disk's geometry, rotational tables and a rotational
/// delay.
fn ufs1_be_rotational() -> Parameters {
    let geometry = Geometry {
        rpm: Some(3600),
        nsect: Some(32),
        ntrak: Some(16),
        rotdelay_ms: Some(4),
        ..Geometry::default()
    };
    Parameters {
        format: Format::Ufs1,
        dialect: Some(Dialect::Bsd44),
        endian: Some(Endian::Big),
        bsize: Some(4096),
        fsize: Some(1024),
        density: Some(4096),
        geometry,
        ..empty(32 << 20)
    }
}

/// Returns 4.3BSD: 16-bit owners, names without kinds.
fn old_format() -> Parameters {
    let (bsize, fsize) = (Some(4096), Some(1024));
    Parameters { format: Format::Old, bsize, fsize, density: Some(2048), ..empty(24 << 20) }
}

/// Solaris on SPARC.
fn sun() -> Parameters {
    let (bsize, fsize) = (Some(8192), Some(1024));
    Parameters {
        format: Format::Ufs1,
        dialect: Some(Dialect::Sun { x86: false }),
        bsize,
        fsize,
        density: Some(4096),
        ..empty(32 << 20)
    }
}

spindle_conformance::conformance_tests!(on_ufs2_le, || Ufs::make(&ufs2_le()));
spindle_conformance::conformance_tests!(on_ufs2_be, || Ufs::make(&ufs2_be()));
spindle_conformance::conformance_tests!(on_ufs2_64k, || Ufs::make(&ufs2_64k()));
spindle_conformance::conformance_tests!(on_ufs1_le, || Ufs::make(&ufs1_le()));
spindle_conformance::conformance_tests!(on_ufs1_be_rotational, || Ufs::make(&ufs1_be_rotational()));
spindle_conformance::conformance_tests!(on_old_format, || Ufs::make(&old_format()));
/// Returns the old way: block by block in a few blocks of memory, names written at once.
fn old_way() -> OpenOptions {
    let cache = Settings {
        naming: Naming::Synchronous,
        data: DataSettings::old(4096, 40 << 10),
        ..Settings::default()
    };
    OpenOptions { cache, ..OpenOptions::default() }
}

/// Clusters in a few blocks of memory, and files go on in runs.
fn clusters() -> OpenOptions {
    let data = DataSettings { small_file_bytes: 2048, ..DataSettings::clustered(56 << 10, 200 << 10) };
    let cache = Settings { data, ..Settings::default() };
    OpenOptions { cache, allocation: Allocation::Runs, ..OpenOptions::default() }
}

/// Returns the settings for a log, in little memory.
fn logged() -> OpenOptions {
    OpenOptions { log: LogUse::Wanted, log_bytes: Some(512 << 10), ..clusters() }
}

/// Returns NetBSD's UFS2, whose log has no name.
fn ufs2_netbsd() -> Parameters {
    Parameters { dialect: Some(Dialect::NetBsd), endian: Some(Endian::Little), ..ufs2_be() }
}

spindle_conformance::conformance_tests!(the_old_way, || Ufs::make_with(&ufs1_be_rotational(), &old_way()));
spindle_conformance::conformance_tests!(in_clusters, || Ufs::make_with(&ufs2_be(), &clusters()));
spindle_conformance::conformance_tests!(with_a_log, || Ufs::make_with(&ufs2_netbsd(), &logged()));
spindle_conformance::conformance_tests!(on_sun, || Ufs::make(&sun()));

macro_rules! random_tests {
    ($($name:ident: $parameters:expr;)*) => {$(
        /// Promise: any sequence of operations has the model's results, with remounts and full
        /// checks in between.
        #[test]
        fn $name() {
            random_run(&mut *Ufs::make(&$parameters), seed(), 4000);
        }
    )*};
}

/// Promise: the same holds however data and names move between memory and the device.
#[test]
fn random_with_other_settings() {
    random_run(&mut *Ufs::make_with(&ufs1_be_rotational(), &old_way()), seed(), 4000);
    random_run(&mut *Ufs::make_with(&ufs2_be(), &clusters()), seed(), 4000);
}

/// Promise: with a log the same holds when each remount is a crash after a sync.
#[test]
fn random_with_a_log() {
    random_run(&mut *Ufs::make_with(&ufs2_netbsd(), &logged()), seed(), 4000);
}

random_tests! {
    random_on_ufs2_le: ufs2_le();
    random_on_ufs2_be: ufs2_be();
    random_on_ufs2_64k: ufs2_64k();
    random_on_ufs1_le: ufs1_le();
    random_on_ufs1_be_rotational: ufs1_be_rotational();
    random_on_old_format: old_format();
    random_on_sun: sun();
}
