//! A change of the size of a file system that was interrupted, as a check and `growfs` find it.

use rand::SeedableRng;
use rand::rngs::{SmallRng, StdRng};
use spindle::check::{Checked, LogEffect, Options, Repair, check};
use spindle::growfs::{Planned, Shrinking};
use spindle_clock::{Clock, ManualClock};
use spindle_conformance::cuts::{Recorder, cut};
use spindle_device::{Device, MemoryDevice, Part, Spec};
use spindle_ffs::Superblock;
use spindle_ffs::growfs::{Resize, shrink};
use spindle_ffs::newfs::{Parameters, Plan, write};
use std::sync::Arc;

/// Returns an image whose shrinking was interrupted.
fn interrupted() -> Vec<u8> {
    let parameters = Parameters::new(16 << 20);
    let device = MemoryDevice::new(16 << 20);
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(1_700_000_000));
    let mut rng = SmallRng::seed_from_u64(3);
    write(&Plan::new(&parameters).unwrap(), &device, &*clock, &mut rng, &mut |_, _| ()).unwrap();
    let sizes = Resize::smaller(&Superblock::open(&device).unwrap(), 8 << 20).unwrap();
    let recorder = Arc::new(Recorder::over(&device));
    let view: Arc<dyn Device> = recorder.clone();
    let plan = shrink(&view, &clock, &mut StdRng::seed_from_u64(1), &sizes).unwrap();
    plan.apply(&*view, &mut |_, _| Ok(())).unwrap();
    let events = std::mem::take(&mut *recorder.events.lock());
    let cuts = (1..=events.len()).map(|end| cut(&device, &events, end, &mut rng));
    let half = cuts.filter(|medium| Superblock::open(medium).is_err()).last();
    half.expect("the mark stands for a while").to_bytes()
}

/// Promise: nobody opens what is half changed; a check that may change nothing shows what it will
/// be, without a write; `fsck -p`, and shrinking again, finish it, and then it is without damage.
#[test]
fn interrupted_changes_are_finished() {
    let image = interrupted();
    let file = tempfile::NamedTempFile::new().unwrap();
    let spec = Spec { path: file.path().to_owned(), part: Part::Whole };
    let effect = |repair| {
        let options = Options { repair, ..Options::default() };
        let checked = check(&spec, &options, &mut |_| ()).unwrap();
        assert!(checked.is_clean());
        let Checked::Ffs { log, .. } = checked else { panic!("it is UFS") };
        log
    };
    let size = || {
        let superblock = Superblock::open(&*spec.open(&spindle_device::OpenOptions::read_only()).unwrap());
        superblock.map(|superblock| superblock.layout.fs_size << superblock.layout.fs_fshift)
    };
    for finish in [true, false] {
        std::fs::write(file.path(), &image).unwrap();
        assert!(size().unwrap_err().to_string().contains("fsck -p"));
        assert_eq!(effect(Repair::No), Some(LogEffect::ResizeShown));
        assert!(std::fs::read(file.path()).unwrap() == image, "a check has written");
        if finish {
            assert_eq!(effect(Repair::Preen), Some(LogEffect::Resized));
        } else {
            let shown = Shrinking::plan(&spec, Some(8 << 20), true).unwrap();
            assert!(matches!(shown.plan, Planned::Finished) && std::fs::read(file.path()).unwrap() == image);
            assert!(matches!(Shrinking::plan(&spec, Some(8 << 20), false).unwrap().plan, Planned::Finished));
        }
        assert_eq!(effect(Repair::No), None);
        assert!(size().unwrap() <= 8 << 20);
    }
}
