//! What is asked of a mount while it ends.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle::mounted::MountedImage;
use spindle::{Image, OpenOptions};
use spindle_clock::ManualClock;
use spindle_device::{MemoryDevice, Part, Spec};
use spindle_ffs::Superblock;
use spindle_ffs::newfs::{Parameters, Plan, write};
use spindle_ffs::tunefs::Tuning;
use spindle_vfs::FileSystem;

/// Promise: a change that is asked for while a mount ends is done before the file system is marked
/// clean, or refused: the unmount leaves it clean.
#[test]
fn requests_leave_an_ending_mount_clean() {
    let plan = Plan::new(&Parameters::new(4 << 20)).unwrap();
    let device = MemoryDevice::new(4 << 20);
    let (clock, mut rng) = (ManualClock::at(1_700_000_000), SmallRng::seed_from_u64(3));
    write(&plan, &device, &clock, &mut rng, &mut |_, _| ()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let spec = Spec { path: file.path().to_owned(), part: Part::Whole };
    for round in 0..40 {
        std::fs::write(file.path(), device.to_bytes()).unwrap();
        let image = Image::open(&spec, &OpenOptions::read_write()).unwrap();
        let mounted = MountedImage::new(spec.clone(), image);
        std::thread::scope(|threads| {
            let (begun, done) = std::sync::mpsc::channel();
            let asking = &mounted;
            for first in 1..5 {
                let begun = begun.clone();
                threads.spawn(move || {
                    for percent in (first..20).cycle() {
                        if asking.tune(&Tuning { minfree: Some(percent), ..Tuning::default() }).is_err() {
                            break;
                        }
                        let _ = begun.send(());
                    }
                });
            }
            done.recv().unwrap();
            mounted.unmount().unwrap();
        });
        let left = spec.open(&spindle_device::OpenOptions::read_only()).unwrap();
        assert!(Superblock::open(&*left).unwrap().is_clean(), "round {round}");
    }
}
