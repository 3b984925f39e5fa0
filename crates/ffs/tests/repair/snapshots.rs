//! Repairs of file systems that have snapshots: what these show stays as it was.

use super::kinds::LOSSES;
use super::random::cases;
use super::victim::{Tree, clock, damage, missing, planned, repair, tree};
use crate::images::{self, Image};
use crate::plants::UFS2;
use crate::tables;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_conformance::cuts::{Event, Recorder, cut};
use spindle_conformance::random::seed;
use spindle_device::MemoryDevice;
use spindle_ffs::check::Finding;
use spindle_ffs::newfs::Parameters;
use spindle_ffs::repair::{Plan, Scope, resume, undo};
use spindle_ffs::{Dialect, Ffs, LogUse, OpenOptions, Superblock};
use spindle_vfs::{Cred, Error, FileKind, FileSystem, Ino, NewNode, Privilege};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The names of the snapshots.
const SNAPSHOTS: [&str; 2] = ["/older", "/younger"];

/// What snapshots show, by inode: the files, and what a check finds.
type Views = BTreeMap<u32, (Tree, Vec<String>)>;

/// Something that damages an image.
type Change = fn(&mut Image);

/// Changes that damage snapshots, each of the first one: none of them may go on showing something.
const SPOILT: &[(&str, Change)] = &[
    ("a copy that is lost", |i| {
        let at = own_pointer(i);
        i.put(at, 0_u64);
    }),
    ("a copy that is nowhere", |i| {
        let at = own_pointer(i);
        i.put(at, 1_u64 << 40);
    }),
    ("a copy that another file has", |i| {
        let (ino, frag) = (i.ino("older"), i.ino("younger"));
        let (ours, theirs) = (own_pointer(i), i.pointer(frag, 12));
        let stolen: u64 = i.get(theirs);
        assert!(stolen > 2 && ino != frag);
        i.put(ours, stolen);
    }),
    ("an indirect block that is lost", |i| {
        let at = i.pointer(i.ino("older"), 12);
        i.put(at, 0_u64);
    }),
    ("an inode with a wrong check-hash", |i| {
        let ino = i.ino("older");
        let at = i.inode(ino) + 8;
        i.put(at, 77_u32);
    }),
    ("a group of its view", |i| {
        let (bsize, frag) = (u64::from(i.layout().fs_bsize), u64::from(i.layout().fs_frag));
        let at = i.layout().byte(i.layout().cgtod(0));
        let copy = i.block(i.ino("older"), at / bsize);
        assert!(copy > 2 * frag);
        let copy = copy * u64::from(i.layout().fs_fsize) + at % bsize;
        i.put(copy + 4, 0_u32);
    }),
];

/// Returns the byte of a direct pointer of the older snapshot to a copy.
fn own_pointer(i: &Image) -> u64 {
    let ino = i.ino("older");
    let n = (0..12).find(|&n| i.block(ino, n) > 2).expect("a copy");
    i.pointer(ino, n)
}

/// Returns an image with two snapshots of it, under both of which something was changed; none if
/// its system has none, or the image is too small.
fn snapped(image: &Image) -> Option<Image> {
    let device = Arc::new(MemoryDevice::from_bytes(&image.bytes));
    let (log, log_bytes, seed) = (LogUse::Required, Some(1 << 20), Some(1));
    let options = OpenOptions { log, log_bytes, seed, ..OpenOptions::default() };
    let fs = Ffs::open(device.clone(), clock(), &options).ok().filter(|fs| !fs.read_only())?;
    for name in SNAPSHOTS {
        let name = name.trim_start_matches('/').as_bytes();
        let Ok(made) = fs.make_snapshot(fs.root(), name, &Cred::root()) else {
            fs.unmount().unwrap();
            return None;
        };
        fs.forget(made.ino, 1);
        let file = fs
            .create(fs.root(), b"changed", &NewNode::new(FileKind::Regular, 0o644), Privilege::Root)
            .unwrap();
        fs.write(file.ino, 0, &[1; 5000], Privilege::Root).unwrap();
        fs.unlink(fs.root(), b"changed").unwrap();
        fs.forget(file.ino, 1);
    }
    fs.unmount().unwrap();
    assert_eq!(damage(&device), Vec::<String>::new());
    Some(Image::new(&device))
}

/// Returns a file system of FreeBSD with the files that the damage of UFS2 is planted in.
fn freebsd() -> Image {
    let parameters = Parameters {
        dialect: Some(Dialect::FreeBsd),
        bsize: Some(8192),
        fsize: Some(1024),
        blocks_per_group: Some(212),
        density: Some(54_272),
        ..Parameters::new(32 << 20)
    };
    let device = Arc::new(images::new(&parameters));
    let options = OpenOptions { log: LogUse::Never, seed: Some(1), ..OpenOptions::default() };
    let fs = Ffs::open(device.clone(), clock(), &options).unwrap();
    let mut dirs = BTreeMap::from([(String::new(), fs.root())]);
    let mut make = |path: &str, kind, bytes: usize| {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let node = NewNode::new(kind, 0o755);
        let made = fs.create(dirs[dir], name.as_bytes(), &node, Privilege::Root).unwrap();
        let mut done = 0;
        while done < bytes {
            let part = vec![b'd'; (bytes - done).min(8192)];
            done += fs.write(made.ino, done as u64, &part, Privilege::Root).unwrap();
        }
        dirs.insert(path.to_owned(), made.ino);
    };
    for dir in ["bare", "dir", "dir/sub", "many"] {
        make(dir, FileKind::Directory, 0);
    }
    let files = [("one", 100), ("two", 100), ("nil", 0), ("dir/a", 10), ("dir/b", 10), ("dir/sub/s", 1)];
    for (name, bytes) in files.into_iter().chain([("large", 1 << 20), ("also-large", 1 << 20)]) {
        make(name, FileKind::Regular, bytes);
    }
    for n in 0..600 {
        make(&format!("many/a-name-of-some-length-{n:04}"), FileKind::Regular, 0);
    }
    make("pipe", FileKind::Fifo, 0);
    dirs.into_values().filter(|&ino| ino != fs.root()).for_each(|ino| fs.forget(ino, 1));
    fs.unmount().unwrap();
    Image::new(&device)
}

/// Returns the images with snapshots, and what can be planted in them.
fn all() -> &'static [(Image, tables::Table)] {
    static ALL: OnceLock<Vec<(Image, tables::Table)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let others = tables::all().into_iter();
        let others = others.filter_map(|(image, table)| Some((snapped(image?)?, table)));
        std::iter::once((snapped(&freebsd()).unwrap(), UFS2)).chain(others).collect()
    })
}

/// Returns what the snapshots show that `good` lists, of a device whose superblock may be damaged.
fn views(device: &MemoryDevice, good: &Superblock) -> Views {
    let mut superblock = good.clone();
    let device = device.branch();
    superblock.write(&device).unwrap();
    let options = OpenOptions { read_only: true, seed: Some(0), ..OpenOptions::default() };
    let fs = Ffs::open(Arc::new(device), clock(), &options).unwrap();
    let shown = good.snapshots().into_iter().map(|ino| {
        let mut bytes =
            vec![0; usize::try_from(good.layout.byte(spindle_ffs::Frag(good.layout.fs_size))).unwrap()];
        let read = fs.read(Ino(ino.into()), 0, &mut bytes).unwrap();
        bytes.truncate(read);
        let view = MemoryDevice::from_bytes(&bytes);
        (ino, (tree(&view), damage(&view)))
    });
    shown.collect()
}

/// Returns the snapshots that a plan names as lost.
fn lost(plan: &Plan) -> Vec<u32> {
    let found = plan.before.findings.iter();
    found
        .filter_map(|found| match found.finding {
            Finding::DamagedSnapshot { ino, .. } => Some(ino),
            _ => None,
        })
        .collect()
}

/// Promise: each kind of damage is repaired where there are snapshots, too, at the same cost in
/// files; each snapshot is there afterwards, and shows what it showed before the repair, unless the
/// repair has named it as one that cannot be believed, and removed it. A second repair writes
/// nothing.
#[test]
fn snapshots_keep_what_they_show() {
    let mut wrong = Vec::new();
    let mut repaired = 0;
    for (healthy, table) in all() {
        let before = tree(&MemoryDevice::from_bytes(&healthy.bytes));
        for (name, plant) in *table {
            let mut image = healthy.clone();
            plant(&mut image);
            if !image.unreadable.is_empty() {
                continue;
            }
            let device = MemoryDevice::from_bytes(&image.bytes);
            let shown = views(&device, &healthy.superblock);
            let plan = repair(&device);
            if let Some(refusal) = &plan.refusal {
                wrong.push(format!("{name}: refused: {refusal}"));
                continue;
            }
            repaired += usize::from(plan.changes_anything());
            let left = damage(&device);
            if !left.is_empty() {
                wrong.push(format!("{name}: left {left:?}"));
                continue;
            }
            let after = Superblock::open(&device).unwrap();
            let now = views(&device, &after);
            for (ino, view) in &shown {
                match now.get(ino) {
                    None if lost(&plan).contains(ino) => {}
                    None => wrong.push(format!("{name}: snapshot {ino} is gone without a word")),
                    Some(now) if now == view => {}
                    Some(_) => wrong.push(format!("{name}: snapshot {ino} shows something else")),
                }
            }
            let bytes = device.to_bytes();
            repair(&device);
            if device.to_bytes() != bytes {
                wrong.push(format!("{name}: a second repair writes"));
            }
            let expected = LOSSES.iter().find(|(known, _)| known == name).map_or(&[][..], |(_, lost)| lost);
            let mut gone = missing(&before, &tree(&device));
            gone.retain(|path| !SNAPSHOTS.contains(&path.as_str()));
            if gone != expected {
                wrong.push(format!("{name}: lost {gone:?}"));
            }
        }
    }
    assert!(repaired > 50, "{repaired}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Promise: a snapshot that cannot be believed is named, and removed by the repair; files and the
/// other snapshot stay as they were.
#[test]
fn damaged_snapshots_are_removed() {
    let mut seen = 0;
    for (healthy, _) in
        all().iter().filter(|(image, _)| image.is_ufs2() && image.superblock.check_hashes().inodes)
    {
        let before = tree(&MemoryDevice::from_bytes(&healthy.bytes));
        for (name, change) in SPOILT {
            let mut image = healthy.clone();
            let ino = image.ino("older");
            change(&mut image);
            if !name.contains("check-hash") {
                image.hash_inode(ino);
            }
            let device = MemoryDevice::from_bytes(&image.bytes);
            let shown = views(&MemoryDevice::from_bytes(&healthy.bytes), &healthy.superblock);
            let plan = planned(&device, Scope::Harmless);
            assert!(plan.refusal.is_some() && !plan.changes_anything(), "{name}");
            let plan = repair(&device);
            assert_eq!((plan.refusal.as_deref(), damage(&device)), (None, vec![]), "{name}");
            assert!(lost(&plan).contains(&ino), "{name}: {:?}", plan.before.findings);
            let superblock = Superblock::open(&device).unwrap();
            assert!(!superblock.snapshots().contains(&ino), "{name}");
            for (other, view) in views(&device, &superblock) {
                assert!(shown[&other] == view, "{name}: snapshot {other}");
            }
            let mut gone = missing(&before, &tree(&device));
            gone.retain(|path| !SNAPSHOTS.contains(&path.as_str()));
            assert_eq!(gone, Vec::<String>::new(), "{name}");
            seen += 1;
        }
    }
    assert!(seen > 0);
}

/// Returns a damaged image with snapshots, and what is wrong with it.
fn damaged(rng: &mut SmallRng) -> (&'static str, &'static Image, MemoryDevice) {
    loop {
        let (healthy, table) = &all()[rng.random_range(0..all().len())];
        let (name, plant) = &table[rng.random_range(0..table.len())];
        let mut image = healthy.clone();
        plant(&mut image);
        let device = MemoryDevice::from_bytes(&image.bytes);
        if image.unreadable.is_empty() && !damage(&device).is_empty() {
            return (name, healthy, device);
        }
    }
}

/// Promise: wherever a repair under snapshots is cut, and whatever of the writes since the last
/// flush is lost, what finishes it or another repair comes to the same files, and snapshots show
/// what they showed before it at any time. It is taken back byte by byte.
#[test]
fn torture_cut_repairs_keep_snapshots() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test repair torture_cut_repairs_keep");
    for case in 0..cases(4) {
        let case = seed.wrapping_add(case);
        let mut rng = SmallRng::seed_from_u64(case);
        let (name, healthy, device) = damaged(&mut rng);
        let shown = views(&device, &healthy.superblock);
        let plan = planned(&device, Scope::All);
        assert_eq!(plan.refusal, None, "seed {case}: {name}");
        let recorder = Recorder::over(&device);
        plan.apply(&recorder).unwrap();
        let events: Vec<Event> = recorder.events.lock().clone();
        let whole = tree(&recorder.inner);
        for end in 1..events.len() {
            let medium = cut(&device, &events, end, &mut rng);
            resume(&medium).unwrap();
            let again = repair(&medium);
            let at = format!("seed {case}: {name}, cut at {end}");
            assert_eq!((again.refusal, damage(&medium)), (None, vec![]), "{at}");
            let superblock = Superblock::open(&medium).unwrap();
            for (ino, view) in views(&medium, &superblock) {
                assert!(shown[&ino] == view, "{at}: snapshot {ino}");
            }
            let mut gone = missing(&whole, &tree(&medium));
            gone.retain(|path| !SNAPSHOTS.contains(&path.as_str()) && !path.starts_with("/lost+found"));
            assert_eq!(gone, Vec::<String>::new(), "{at}");
        }
        let file = plan.undo_bytes();
        let medium = cut(&device, &events, rng.random_range(1..=events.len()), &mut rng);
        undo(&medium, &file).unwrap();
        assert!(medium.to_bytes() == device.to_bytes(), "seed {case}: {name}, taken back");
    }
}

/// Writes to a repaired image until it is full, and removes half of that.
fn fill(device: &Arc<MemoryDevice>, rng: &mut SmallRng, what: &str) {
    let options = OpenOptions {
        log: LogUse::Required,
        log_bytes: Some(1 << 20),
        seed: Some(1),
        ..OpenOptions::default()
    };
    let fs = Ffs::open(device.clone(), clock(), &options).unwrap();
    assert!(!fs.read_only(), "{what}");
    let node = NewNode::new(FileKind::Regular, 0o644);
    let write = |n: u32, bytes: usize| {
        let made = fs.create(fs.root(), format!("fill{n}").as_bytes(), &node, Privilege::Root)?;
        let written = fs.write(made.ino, 0, &vec![0xee; bytes], Privilege::Root);
        fs.forget(made.ino, 1);
        if written? < bytes { Err(Error::NoSpace) } else { Ok(()) }
    };
    let files = (0..).take_while(|&n| match write(n, rng.random_range(500_000..2_000_000)) {
        Ok(()) => true,
        Err(error) => {
            assert!(matches!(error, Error::NoSpace), "{what}: {error}");
            false
        }
    });
    let files = files.count();
    fs.sync().unwrap();
    for n in (0..files).step_by(2) {
        fs.unlink(fs.root(), format!("fill{n}").as_bytes()).unwrap();
    }
    fs.unmount().unwrap();
    assert_eq!(damage(device), Vec::<String>::new(), "{what}");
}

/// Promise: what a repair frees belongs to the snapshots that need it, whatever is written later: a
/// file that is lost for good is whole in both.
#[test]
fn what_is_freed_is_kept() {
    let (healthy, _) = &all()[0];
    let mut image = healthy.clone();
    let (large, also) = (image.ino("large"), image.ino("also-large"));
    image.put(image.inode(large), 0o030_644_u16);
    image.hash_inode(large);
    for n in 0..15 {
        image.put(image.pointer(also, n), 0_u64);
    }
    image.hash_inode(also);
    let device = Arc::new(MemoryDevice::from_bytes(&image.bytes));
    let shown = views(&device, &healthy.superblock);
    let whole = vec![b'd'; 1 << 20];
    assert!(shown.values().all(|(tree, damage)| {
        damage.is_empty() && ["/large", "/also-large"].iter().all(|path| tree[*path].content == whole)
    }));
    assert_eq!(repair(&device).refusal, None);
    assert!(!tree(&device).contains_key("/large"));
    assert!(views(&device, &healthy.superblock) == shown);
    fill(&device, &mut SmallRng::seed_from_u64(1), "what is freed");
    assert!(views(&device, &healthy.superblock) == shown);
}

/// Promise: after a repair snapshots go on showing what they showed, whatever is written: the disk
/// is filled, and files are removed.
#[test]
fn torture_repaired_snapshots_are_kept() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test repair torture_repaired_snapshots");
    for case in 0..cases(6) {
        let case = seed.wrapping_add(case);
        let mut rng = SmallRng::seed_from_u64(case);
        let (name, healthy, device) = damaged(&mut rng);
        if name == "the journal" {
            // The new log takes the place of what the damage says is one, which has no name.
            continue;
        }
        let shown = views(&device, &healthy.superblock);
        let plan = repair(&device);
        assert_eq!((plan.refusal, damage(&device)), (None, vec![]), "seed {case}: {name}");
        let device = Arc::new(device);
        fill(&device, &mut rng, &format!("seed {case}: {name}"));
        let superblock = Superblock::open(&*device).unwrap();
        for (ino, view) in views(&device, &superblock) {
            assert!(shown[&ino] == view, "seed {case}: {name}: snapshot {ino}");
        }
    }
}
