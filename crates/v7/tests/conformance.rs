//! The conformance suite and random operation sequences on every format, each followed by a full
//! check.

use spindle_cache::{DataSettings, Settings};
use spindle_clock::ManualClock;
use spindle_conformance::random::{random_run, seed};
use spindle_conformance::suite::{Feature, Harness};
use spindle_device::MemoryDevice;
use spindle_ondisk::Endian;
use spindle_v7::check::{self, check};
use spindle_v7::newfs::{self, Parameters, Plan};
use spindle_v7::{Format, OpenOptions, V7};
use spindle_vfs::FileSystem;
use std::sync::Arc;

/// An old file system in memory.
struct Old {
    device: Arc<MemoryDevice>,
    clock: Arc<ManualClock>,
    fs: Arc<V7>,
    cache: Settings,
}

impl Old {
    fn make(format: Format) -> Box<dyn Harness> {
        Self::with(format, Settings::default())
    }

    /// Makes one with the buffer cache of its time: a few blocks, written one by one and read one
    /// ahead.
    fn small(format: Format) -> Box<dyn Harness> {
        let data = DataSettings::old(format.bsize as usize, 32 << 10);
        Self::with(
            format,
            Settings { capacity_bytes: 64 << 10, dirty_limit_bytes: 64 << 10, data, ..Settings::default() },
        )
    }

    fn with(format: Format, cache: Settings) -> Box<dyn Harness> {
        let device = Arc::new(MemoryDevice::new(24 << 20));
        let clock = Arc::new(ManualClock::at(1_000_000_000));
        let parameters = Parameters { inodes: Some(8000), ..Parameters::new(format, 24 << 20) };
        newfs::write(&Plan::new(&parameters).unwrap(), &*device, &*clock).unwrap();
        let fs = Self::open(&device, &clock, cache);
        assert_eq!(fs.layout().format, format);
        Box::new(Self { device, clock, fs, cache })
    }

    fn open(device: &Arc<MemoryDevice>, clock: &Arc<ManualClock>, cache: Settings) -> Arc<V7> {
        let options = OpenOptions { cache, ..OpenOptions::default() };
        let fs = V7::open(device.clone(), clock.clone(), &options).unwrap();
        assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
        Arc::new(fs)
    }
}

impl Harness for Old {
    fn fs(&self) -> Arc<dyn FileSystem> {
        self.fs.clone()
    }

    fn remount(&mut self) {
        self.fs.unmount().unwrap();
        self.fs = Self::open(&self.device, &self.clock, self.cache);
    }

    fn check(&mut self) -> Vec<String> {
        self.fs.unmount().unwrap();
        let report = check(&*self.device, &check::Options::default(), &mut |_| ()).unwrap();
        self.fs = Self::open(&self.device, &self.clock, self.cache);
        report.findings.iter().map(ToString::to_string).collect()
    }

    fn tick(&mut self) -> bool {
        self.clock.advance(2);
        true
    }

    fn lacks(&self) -> &[Feature] {
        &[Feature::KeepSize, Feature::FifosAndSockets, Feature::Flags]
    }
}

const SYSV_LE: Format = Format::sysv(Endian::Little);
const SYSV_BE: Format = Format::sysv(Endian::Big);

spindle_conformance::conformance_tests!(on_v7, || Old::make(Format::V7));
spindle_conformance::conformance_tests!(on_41bsd, || Old::make(Format::BSD41));
spindle_conformance::conformance_tests!(on_sysv_le, || Old::make(SYSV_LE));
spindle_conformance::conformance_tests!(on_sysv_be, || Old::make(SYSV_BE));

macro_rules! random_tests {
    ($($name:ident: $fs:expr;)*) => {$(
        /// Promise: any sequence of operations has the model's results, with remounts and full
        /// checks in between.
        #[test]
        fn $name() {
            random_run(&mut *$fs, seed(), 3000);
        }
    )*};
}

random_tests! {
    random_on_v7: Old::make(Format::V7);
    random_on_v7_le: Old::make(Format { endian: Endian::Little, ..Format::V7 });
    random_on_v7_be: Old::make(Format { endian: Endian::Big, ..Format::V7 });
    random_on_32v: Old::make(Format::V32);
    random_on_41bsd: Old::make(Format::BSD41);
    random_on_sysv_512_be: Old::make(Format { bsize: 512, ..SYSV_BE });
    random_on_sysv_1024_le: Old::make(SYSV_LE);
    random_on_sysv_2048_be: Old::make(Format { bsize: 2048, ..SYSV_BE });
    random_on_sysv16: Old::make(Format { family: spindle_v7::Family::SysV16, ..SYSV_LE });
    random_on_v7_with_a_small_cache: Old::small(Format::V7);
    random_on_41bsd_with_a_small_cache: Old::small(Format::BSD41);
}
