//! The conformance suite and random operation sequences on sets of several shapes, each followed by
//! a full check.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_conformance::random::{random_run, seed};
use spindle_conformance::suite::{Feature, Harness};
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::check;
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Class, Mfs, OpenOptions, Role, Set, Structure};
use spindle_vfs::{FileSystem, Privilege, XattrMode};
use std::sync::Arc;

/// A set in memory.
struct Sets {
    devices: Vec<Arc<dyn Device>>,
    clock: Arc<ManualClock>,
    fs: Arc<Mfs>,
}

fn device(mib: u64) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(mib << 20))
}

impl Sets {
    /// Makes a set all of whose storage is on one member.
    fn one() -> Box<dyn Harness> {
        Self::with(vec![Member::with_all(device(48))], &Wishes::new())
    }

    /// Makes a set with two copies of control storage, three unequal members of data storage and
    /// two of log storage.
    fn many() -> Box<dyn Harness> {
        let data = [9, 14, 23].map(|mib| Member::of(device(mib), Role::Data));
        let control = [8, 9].map(|mib| Member::of(device(mib), Role::Control));
        let log = [2, 3].map(|mib| Member::of(device(mib), Role::Log));
        Self::with(data.into_iter().chain(control).chain(log).collect(), &Wishes::new())
    }

    /// Makes a set with the smallest blocks, cylinders, tracks and log, so that everything
    /// overflows soon.
    fn small() -> Box<dyn Harness> {
        Self::small_with(&Self::smallest())
    }

    fn smallest() -> Wishes {
        let mut wishes = Wishes::new();
        wishes.parameters.block_bytes = 1024;
        wishes.parameters.cylinder_bytes = 8 << 10;
        wishes.parameters.data_block_bytes = 512;
        wishes.parameters.track_blocks = 8;
        wishes.parameters.stripe_bytes = 512;
        wishes
    }

    fn small_with(wishes: &Wishes) -> Box<dyn Harness> {
        let members = [(10, Role::Control), (20, Role::Data), (20, Role::Data), (2, Role::Log)];
        Self::with(members.map(|(mib, role)| Member::of(device(mib), role)).into(), wishes)
    }

    /// Makes a set whose data has checksums, with copies of some parts of it.
    fn summed() -> Box<dyn Harness> {
        let copy = |mib: u64, role, part| {
            let areas = vec![NewArea { part: Some(part), ..NewArea::of(role) }];
            Member { device: device(mib), areas }
        };
        let mut wishes = Wishes::new();
        wishes.parameters.checksums = true;
        wishes.parameters.block_bytes = 1024;
        wishes.parameters.cylinder_bytes = 9 << 10;
        wishes.parameters.track_blocks = 8;
        wishes.parameters.stripe_bytes = 8192;
        let data = [(20, 0), (23, 0), (9, 1)].map(|(mib, part)| copy(mib, Role::Data, part));
        let rest = [copy(9, Role::Control, 0), copy(10, Role::Control, 0), copy(3, Role::Log, 0)];
        Self::with(data.into_iter().chain(rest).collect(), &wishes)
    }

    /// Makes a set with checksums of the smallest blocks.
    fn summed_small() -> Box<dyn Harness> {
        let mut wishes = Self::smallest();
        wishes.parameters.checksums = true;
        Self::small_with(&wishes)
    }

    /// Makes a set whose files are of a second class, with blocks of 16 KiB; those of the first one
    /// have 1 KiB.
    fn second_class() -> Box<dyn Harness> {
        Self::second_class_with(8192, false)
    }

    /// Makes such a set whose data has checksums.
    fn summed_second_class() -> Box<dyn Harness> {
        Self::second_class_with(16 << 10, true)
    }

    fn second_class_with(stripe_bytes: u32, checksums: bool) -> Box<dyn Harness> {
        let mut wishes = Wishes::new();
        wishes.parameters.checksums = checksums;
        wishes.parameters.data_block_bytes = 1024;
        let structure = Structure { block_bytes: 16 << 10, track_blocks: 16, stripe_bytes };
        wishes.classes = vec![Class { name: "large".parse().unwrap(), structure }];
        let large = |part| {
            let areas = vec![NewArea { class: 1, part: Some(part), ..NewArea::of(Role::Data) }];
            Member { device: device(20), areas }
        };
        let others = [(10, Role::Control), (4, Role::Data), (2, Role::Log)];
        let others = others.map(|(mib, role)| Member::of(device(mib), role));
        let sets = Self::with(others.into_iter().chain([large(1), large(2)]).collect(), &wishes);
        let fs = sets.fs();
        fs.setxattr(fs.root(), b"user.spindle.class", b"large", XattrMode::Set, Privilege::Root).unwrap();
        sets
    }

    fn with(members: Vec<Member>, wishes: &Wishes) -> Box<dyn Harness> {
        let clock = Arc::new(ManualClock::at(1_000_000_000));
        make(&members, wishes, &*clock, &mut StdRng::seed_from_u64(1)).unwrap();
        // Members are found in any order.
        let devices: Vec<_> = members.into_iter().rev().map(|member| member.device).collect();
        let fs = Self::open(&devices, &clock);
        Box::new(Self { devices, clock, fs })
    }

    fn open(devices: &[Arc<dyn Device>], clock: &Arc<ManualClock>) -> Arc<Mfs> {
        let set = Set::open(devices).unwrap();
        let fs = Mfs::open(&set, clock.clone(), &OpenOptions::default()).unwrap();
        assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
        Arc::new(fs)
    }
}

impl Harness for Sets {
    fn fs(&self) -> Arc<dyn FileSystem> {
        self.fs.clone()
    }

    fn remount(&mut self) {
        self.fs.unmount().unwrap();
        self.fs = Self::open(&self.devices, &self.clock);
    }

    fn check(&mut self) -> Vec<String> {
        self.fs.unmount().unwrap();
        let report = check(&Set::open(&self.devices).unwrap(), 1000, &mut |_| ()).unwrap();
        self.fs = Self::open(&self.devices, &self.clock);
        report.findings.iter().map(ToString::to_string).collect()
    }

    fn tick(&mut self) -> bool {
        self.clock.advance(2);
        true
    }

    fn lacks(&self) -> &[Feature] {
        &[]
    }
}

spindle_conformance::conformance_tests!(on_one_member, Sets::one);
spindle_conformance::conformance_tests!(on_many_members, Sets::many);
spindle_conformance::conformance_tests!(with_small_structures, Sets::small);
spindle_conformance::conformance_tests!(in_a_second_class, Sets::second_class);
spindle_conformance::conformance_tests!(with_checksums, Sets::summed);
spindle_conformance::conformance_tests!(with_checksums_of_small_blocks, Sets::summed_small);
spindle_conformance::conformance_tests!(with_checksums_of_a_second_class, Sets::summed_second_class);

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
    random_on_one_member: Sets::one();
    random_on_many_members: Sets::many();
    random_with_small_structures: Sets::small();
    random_in_a_second_class: Sets::second_class();
    random_with_checksums: Sets::summed();
    random_with_checksums_of_small_blocks: Sets::summed_small();
    random_with_checksums_of_a_second_class: Sets::summed_second_class();
}
