//! Images that somebody has thought out: each would lead an operation astray that believes what it reads.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::newfs::{self, Parameters, Plan};
use spindle_ffs::{Ffs, OpenOptions};
use spindle_vfs::{Error, FileKind, FileSystem, Ino, NewNode, Privilege, Rdev, RenameMode};
use std::sync::Arc;

/// A UFS2 in memory that can be damaged between two mounts.
struct Victim {
    device: Arc<MemoryDevice>,
    clock: Arc<ManualClock>,
}

impl Victim {
    fn new(fill: impl FnOnce(&Ffs)) -> Self {
        let parameters = Parameters { snap_dir: false, check_hashes: false, ..Parameters::new(16 << 20) };
        let victim = Self {
            device: Arc::new(MemoryDevice::new(parameters.size_bytes)),
            clock: Arc::new(ManualClock::at(1_700_000_000)),
        };
        let plan = Plan::new(&parameters).unwrap();
        let mut random = StdRng::seed_from_u64(1);
        newfs::write(&plan, &*victim.device, &*victim.clock, &mut random, &mut |_, _| ()).unwrap();
        let fs = victim.open();
        fill(&fs);
        fs.unmount().unwrap();
        victim
    }

    fn open(&self) -> Ffs {
        let options = OpenOptions { seed: Some(2), force: true, ..OpenOptions::default() };
        Ffs::open(self.device.clone(), self.clock.clone(), &options).unwrap()
    }

    /// Makes the only entry called `name` lead to another inode.
    fn redirect(&self, name: &[u8], to: Ino) {
        let mut bytes = self.device.to_bytes();
        let at = bytes.windows(name.len()).position(|w| w == name).unwrap() - 8;
        bytes[at..at + 4].copy_from_slice(&u32::try_from(to.0).unwrap().to_le_bytes());
        self.device.write_at(0, &bytes).unwrap();
    }
}

fn mkdir(fs: &Ffs, dir: Ino, name: &[u8]) -> Ino {
    let node = NewNode {
        kind: FileKind::Directory,
        perm: 0o755,
        uid: 0,
        gid: 0,
        rdev: Rdev::default(),
        target: b"",
    };
    fs.create(dir, name, &node, Privilege::Root).unwrap().ino
}

/// Promise: a time in the superblock at the end of all time does not keep it from being mounted and changed.
#[test]
fn the_end_of_time() {
    const FS_MTIME: usize = 1208;
    let victim = Victim::new(|_| ());
    let mut bytes = victim.device.to_bytes();
    bytes[65536 + FS_MTIME..][..8].copy_from_slice(&i64::MAX.to_le_bytes());
    victim.device.write_at(0, &bytes).unwrap();
    let fs = victim.open();
    mkdir(&fs, fs.root(), b"new");
    assert_ne!(fs.superblock().fs.fs_mtime, i64::MAX);
    fs.unmount().unwrap();
}

/// Promise: a name that leads to its own directory or one above it is damage to a rename, which locks both ends;
/// it does not wait for itself.
#[test]
fn renames_of_names_that_lead_up() {
    let (mut one, mut two) = (Ino(0), Ino(0));
    let victim = Victim::new(|fs| {
        one = mkdir(fs, fs.root(), b"one");
        two = mkdir(fs, one, b"two");
        mkdir(fs, two, b"leads up");
        mkdir(fs, fs.root(), b"innocent");
    });
    for (target, mode) in
        [(two, RenameMode::Replace), (one, RenameMode::Replace), (two, RenameMode::Exchange)]
    {
        victim.redirect(b"leads up", target);
        let fs = victim.open();
        let root = fs.root();
        let by = Privilege::Root;
        let moved = fs.rename(two, b"leads up", root, b"innocent", mode, by);
        assert!(matches!(moved, Err(Error::Corrupt { .. })), "{moved:?}");
        let moved = fs.rename(two, b"leads up", root, b"elsewhere", RenameMode::Replace, by);
        assert!(matches!(moved, Err(Error::Corrupt { .. })), "{moved:?}");
        let replaced = fs.rename(root, b"innocent", two, b"leads up", mode, by);
        assert!(matches!(replaced, Err(Error::Corrupt { .. })), "{replaced:?}");
        fs.unmount().unwrap();
    }
}
