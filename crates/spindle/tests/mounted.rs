//! What is asked of a mount while it ends, or while its file system is closed for a moment.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle::mounted::MountedImage;
use spindle::{Error, Image, OpenOptions};
use spindle_clock::ManualClock;
use spindle_device::{MemoryDevice, Part, Spec};
use spindle_ffs::Superblock;
use spindle_ffs::check::{Options, check};
use spindle_ffs::newfs::{Parameters, Plan, write};
use spindle_ffs::tunefs::Tuning;
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege};

/// Returns the bytes of a new file system.
fn new_image() -> Vec<u8> {
    let plan = Plan::new(&Parameters::new(4 << 20)).unwrap();
    let device = MemoryDevice::new(4 << 20);
    let (clock, mut rng) = (ManualClock::at(1_700_000_000), SmallRng::seed_from_u64(3));
    write(&plan, &device, &clock, &mut rng, &mut |_, _| ()).unwrap();
    device.to_bytes()
}

/// Promise: a change that is asked for while a mount ends is done before the file system is marked
/// clean, or refused: the unmount leaves it clean.
#[test]
fn requests_leave_an_ending_mount_clean() {
    let new = new_image();
    let file = tempfile::NamedTempFile::new().unwrap();
    let spec = Spec { path: file.path().to_owned(), part: Part::Whole };
    for round in 0..40 {
        std::fs::write(file.path(), &new).unwrap();
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

/// Promise: growth that is interrupted or refused leaves the mount as it was; after it, references
/// are what they were.
#[test]
fn growth_that_fails_changes_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), new_image()).unwrap();
    let spec = Spec { path: file.path().to_owned(), part: Part::Whole };
    let options = OpenOptions::read_write();
    let mounted = MountedImage::new(spec.clone(), Image::open(&spec, &options).unwrap());
    let node = NewNode::new(FileKind::Regular, 0o644);
    let made = mounted.create(mounted.root(), b"file", &node, Privilege::Root).unwrap();
    mounted.write(made.ino, 0, b"text", Privilege::User).unwrap();
    let text = || {
        let mut text = [0; 4];
        mounted.read(made.ino, 0, &mut text).unwrap();
        text
    };
    let references = [(made.ino, 1)];
    let growing = mounted.plan_growth(Some(64 << 20), false).unwrap();

    let blocks = mounted.statfs().unwrap().blocks;
    let mut end = |_| Err(Error::new("interrupted"));
    let ended = mounted.grow(&growing, &options, &references, &mut end).unwrap_err();
    assert!(ended.to_string().contains("interrupted"), "{ended}");
    assert_eq!((mounted.statfs().unwrap().blocks, &text()), (blocks, b"text"));
    assert_eq!(file.as_file().metadata().unwrap().len(), 4 << 20);

    mounted.unlink(mounted.root(), b"file").unwrap();
    let removed = mounted.grow(&growing, &options, &references, &mut |_| Ok(())).unwrap_err();
    assert!(removed.to_string().contains("removed are still open"), "{removed}");
    assert_eq!(&text(), b"text");
    mounted.forget(made.ino, 1);

    let kept = mounted.create(mounted.root(), b"kept", &node, Privilege::Root).unwrap();
    mounted.grow(&growing, &options, &[(kept.ino, 1)], &mut |_| Ok(())).unwrap();
    assert!(mounted.statfs().unwrap().blocks > 8 * blocks);
    assert_eq!(mounted.getattr(kept.ino).unwrap().size, 0);
    mounted.forget(kept.ino, 1);
    mounted.unmount().unwrap();
    let left = spec.open(&spindle_device::OpenOptions::read_only()).unwrap();
    assert!(check(&*left, &Options::default(), &mut |_| ()).unwrap().findings.is_empty());
}
