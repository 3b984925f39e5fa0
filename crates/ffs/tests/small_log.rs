//! Small logs: whatever is larger than the log goes on in steps or is refused before anything was
//! done, and never ends all changes.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::MemoryDevice;
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Format, Geometry, Parameters, Plan};
use spindle_ffs::{Dialect, Ffs, LogUse, OpenOptions};
use spindle_vfs::{
    AtimePolicy, Error, FallocateMode, FileKind, FileSystem, Ino, NewNode, Privilege, SetAttr,
};
use std::sync::Arc;

struct Disk {
    device: Arc<MemoryDevice>,
    clock: Arc<ManualClock>,
}

impl Disk {
    fn new(parameters: &Parameters) -> Self {
        let device = Arc::new(MemoryDevice::new(parameters.size_bytes).with_sectors(parameters.sector_bytes));
        let clock = Arc::new(ManualClock::at(1_700_000_000));
        let plan = Plan::new(parameters).unwrap();
        newfs::write(&plan, &*device, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        Self { device, clock }
    }

    fn open(&self, log_bytes: Option<u64>) -> Ffs {
        let options = OpenOptions {
            log: LogUse::Wanted,
            log_bytes,
            seed: Some(3),
            atime: AtimePolicy::Always,
            ..OpenOptions::default()
        };
        let fs = Ffs::open(self.device.clone(), self.clock.clone(), &options).unwrap();
        assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
        fs
    }

    /// Returns what the medium has now, as after a crash.
    fn crash(&self) -> Self {
        Self { device: Arc::new(self.device.branch()), clock: self.clock.clone() }
    }

    fn damage(&self) -> Vec<String> {
        let report = check(&*self.device, &check::Options::default(), &mut |_| ()).unwrap();
        let damage = report.findings.iter().filter(|f| f.severity.is_damage());
        damage.map(ToString::to_string).collect()
    }

    /// Returns the log that is there, in bytes.
    fn log_bytes(fs: &Ffs) -> Option<u64> {
        fs.superblock().log_place().map(|place| place.len)
    }
}

fn make(fs: &Ffs, name: &str, kind: FileKind) -> Result<Ino, Error> {
    let node = NewNode::new(kind, 0o644);
    Ok(fs.create(fs.root(), name.as_bytes(), &node, Privilege::Root)?.ino)
}

/// Returns parameters with many small groups, so that a scattered file touches many maps.
fn many_groups() -> Parameters {
    Parameters {
        bsize: Some(4096),
        fsize: Some(512),
        density: Some(16_384),
        maxbpg: Some(1),
        blocks_per_group: Some(64),
        snap_dir: false,
        ..Parameters::new(64 << 20)
    }
}

/// Promise: freeing, cutting, punching and allocating what is all over the disk needs more of the
/// log than there is, and goes on in steps; a crash in between leaves nothing that a check finds,
/// and none of them stops further changes.
#[test]
fn large_operations_go_on_in_steps() {
    let disk = Disk::new(&many_groups());
    let fs = disk.open(Some(56 << 10));
    assert_eq!(Disk::log_bytes(&fs), Some(56 << 10));
    let groups = fs.layout().fs_ncg;
    assert!(groups > 100, "{groups} groups");
    let size = 12 << 20;
    let crashed = |what: &str| {
        let crashed = disk.crash();
        let fs = crashed.open(None);
        fs.unmount().unwrap();
        assert_eq!(crashed.damage(), Vec::<String>::new(), "{what}");
    };
    let ino = make(&fs, "spread", FileKind::Regular).unwrap();
    fs.fallocate(ino, FallocateMode::Allocate { keep_size: false }, 0, size, Privilege::Root).unwrap();
    crashed("allocated");
    fs.sync().unwrap();
    let free = fs.statfs().unwrap().bfree;
    fs.fallocate(ino, FallocateMode::PunchHole, 100, size - 200, Privilege::Root).unwrap();
    crashed("punched");
    let mut done = 0;
    while done < size {
        let piece = vec![7; usize::try_from((size - done).min(1 << 20)).unwrap()];
        done += fs.write(ino, done, &piece, Privilege::Root).unwrap() as u64;
    }
    crashed("written");
    fs.sync().unwrap();
    assert_eq!(fs.statfs().unwrap().bfree, free);
    fs.setattr(ino, &SetAttr { size: Some(5000), ..SetAttr::default() }, Privilege::Root).unwrap();
    crashed("cut");
    fs.fallocate(ino, FallocateMode::Allocate { keep_size: false }, 0, size, Privilege::Root).unwrap();
    fs.unlink(fs.root(), b"spread").unwrap();
    fs.forget(ino, 1);
    crashed("freed");
    make(&fs, "after", FileKind::Regular).unwrap();
    fs.unmount().unwrap();
    assert_eq!(disk.damage(), Vec::<String>::new());
}

/// Promise: more files than the log can list are unlinked while they are open: unlinking the next
/// is refused, nothing else is, and what was listed is freed by a recovery.
#[test]
fn more_orphans_than_the_log_can_list() {
    let disk = Disk::new(&Parameters {
        bsize: Some(4096),
        fsize: Some(512),
        density: Some(1024),
        snap_dir: false,
        ..Parameters::new(16 << 20)
    });
    let fs = disk.open(Some(64 << 10));
    let free = fs.statfs().unwrap().ffree;
    let mut held = Vec::new();
    let mut refused = 0;
    for n in 0..3000 {
        let name = format!("f{n}");
        held.push(make(&fs, &name, FileKind::Regular).unwrap());
        match fs.unlink(fs.root(), name.as_bytes()) {
            Ok(()) => {}
            Err(Error::NoSpace) => {
                refused += 1;
                assert!(fs.lookup(fs.root(), name.as_bytes()).is_ok(), "refused wholly");
                fs.forget(held[n], 1);
            }
            Err(error) => panic!("{name}: {error}"),
        }
        if n % 500 == 0 {
            fs.sync().unwrap();
        }
    }
    assert!(refused > 1000, "{refused}");
    let made = make(&fs, "made", FileKind::Regular).unwrap();
    fs.write(made, 0, b"kept", Privilege::Root).unwrap();
    fs.sync().unwrap();
    let crashed = disk.crash();
    let recovered = crashed.open(None);
    assert_eq!(recovered.statfs().unwrap().ffree, free - refused - 1);
    recovered.unmount().unwrap();
    assert_eq!(crashed.damage(), Vec::<String>::new());
    // Those that are closed make room for others.
    held.iter().take(100).for_each(|&ino| fs.forget(ino, 1));
    fs.unlink(fs.root(), b"made").unwrap();
    fs.unmount().unwrap();
    assert_eq!(disk.damage(), Vec::<String>::new());
}

/// Promise: where no run of free blocks is as long as the log should be, a shorter one is taken if
/// every operation fits into it: on an old disk with small groups, and on a disk that is in pieces.
#[test]
fn a_shorter_log_is_better_than_none() {
    let sun = Parameters {
        format: Format::Ufs1,
        dialect: Some(Dialect::Sun { x86: false }),
        bsize: Some(8192),
        fsize: Some(1024),
        geometry: Geometry { nsect: Some(32), ntrak: Some(8), cpg: Some(16), ..Geometry::default() },
        ..Parameters::new(512 << 20)
    };
    let disk = Disk::new(&sun);
    let fs = disk.open(Some(32 << 20));
    let found = Disk::log_bytes(&fs).expect("a log");
    assert!((128 << 10..4 << 20).contains(&found), "{found} bytes");
    fs.unmount().unwrap();
    assert_eq!(disk.damage(), Vec::<String>::new());

    // As Solaris makes it: no group of 8 MiB has room for the 32 MiB that a log should have.
    let disk = Disk::new(&Parameters {
        format: Format::Ufs1,
        dialect: Some(Dialect::Sun { x86: false }),
        ..Parameters::new(4 << 30)
    });
    let fs = disk.open(None);
    let (found, group) = (Disk::log_bytes(&fs).expect("a log"), u64::from(fs.layout().fs_fpg) << 10);
    assert!((group / 2..group).contains(&found), "{found} bytes in groups of {group}");
    fs.unmount().unwrap();
    assert_eq!(disk.damage(), Vec::<String>::new());

    let disk = Disk::new(&Parameters {
        bsize: Some(65_536),
        fsize: Some(8192),
        minfree: Some(0),
        snap_dir: false,
        ..Parameters::new(64 << 20)
    });
    let options = OpenOptions { log: LogUse::Never, ..OpenOptions::default() };
    let fs = Ffs::open(disk.device.clone(), disk.clock.clone(), &options).unwrap();
    let mut full = 0;
    while let Ok(ino) = make(&fs, &format!("f{full}"), FileKind::Regular)
        && fs.write(ino, 0, &vec![1; 65_536], Privilege::Root).is_ok()
    {
        full += 1;
    }
    // Of each seven blocks six are free, and no more than six in a row.
    for n in (0..full).filter(|n| n % 7 != 0) {
        let ino = fs.lookup(fs.root(), format!("f{n}").as_bytes()).unwrap().ino;
        fs.unlink(fs.root(), format!("f{n}").as_bytes()).unwrap();
        fs.forget(ino, 2);
    }
    fs.unmount().unwrap();
    let fs = disk.open(None);
    let found = Disk::log_bytes(&fs).expect("a log");
    assert!((64 << 10..=12 * 65_536).contains(&found), "{found} bytes");
    for n in 0..200 {
        make(&fs, &format!("d{n}"), FileKind::Directory).unwrap();
    }
    fs.unmount().unwrap();
    assert_eq!(disk.damage(), Vec::<String>::new());
}

/// Promise: an access time that nothing else goes with is there after an unmount.
#[test]
fn access_times_survive_an_unmount() {
    for log in [LogUse::Wanted, LogUse::Never] {
        let disk = Disk::new(&Parameters { snap_dir: false, ..Parameters::new(32 << 20) });
        let options = OpenOptions { log, atime: AtimePolicy::Always, ..OpenOptions::default() };
        let open = || Ffs::open(disk.device.clone(), disk.clock.clone(), &options).unwrap();
        let fs = open();
        let ino = make(&fs, "file", FileKind::Regular).unwrap();
        fs.write(ino, 0, b"read me", Privilege::Root).unwrap();
        fs.unmount().unwrap();
        drop(fs);
        disk.clock.advance(100);
        let fs = open();
        fs.read(ino, 0, &mut [0; 7]).unwrap();
        let read = fs.getattr(ino).unwrap().atime;
        fs.unmount().unwrap();
        drop(fs);
        let fs = open();
        assert_eq!(fs.getattr(ino).unwrap().atime, read, "{log:?}");
        assert_eq!(read.secs, 1_700_000_100, "{log:?}");
    }
}
