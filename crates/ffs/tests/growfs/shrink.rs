//! File systems that are made smaller: every format and dialect, to any size, also when it is cut.

use super::{BY, all, assert_whole, cases, each_failure, enlarged, fill, images, mount};
use crate::victim::{Tree, checked, clock, damage, tree};
use rand::rngs::{SmallRng, StdRng};
use rand::{Rng, SeedableRng};
use spindle_clock::Timestamp;
use spindle_conformance::cuts::{Recorder, cut};
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::growfs::{Resize, Shrink, shrink, shrink_to_fit};
use spindle_ffs::newfs::{Format, Geometry, Parameters};
use spindle_ffs::repair::{resume, undo};
use spindle_ffs::{Ffs, LogUse, OpenOptions, Superblock};
use spindle_samples::present;
use spindle_vfs::{Error, FileKind, FileSystem, Ino, NewNode, Result, SetAttr, SetTime, XattrMode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the plan to make a file system at most so many bytes large.
fn planned(device: &Arc<dyn Device>, bytes: u64) -> Result<Shrink> {
    let sizes = Resize::smaller(&Superblock::open(&**device)?, bytes)?;
    shrink(device, &clock(), &mut StdRng::seed_from_u64(7), &sizes)
}

/// Makes it so.
fn shrunk(device: &Arc<dyn Device>, bytes: u64) -> Result<Shrink> {
    let plan = planned(device, bytes)?;
    plan.apply(&**device, &mut |_, _| Ok(()))?;
    Ok(plan)
}

/// Returns files without the numbers of their inodes; instead each has the first path of its inode.
fn numberless(files: &Tree) -> Tree {
    let mut firsts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut files = files.clone();
    for (file, n) in files.values_mut().zip(0..) {
        file.ino = *firsts.entry(file.ino).or_insert(n);
    }
    files
}

fn bytes_of(device: &dyn Device) -> u64 {
    let layout = Superblock::open(device).unwrap().layout;
    layout.fs_size << layout.fs_fshift
}

/// Gives files second names, some of them in other directories, and extended attributes where there
/// are any, and makes symbolic links.
fn furnish(device: &MemoryDevice, rng: &mut SmallRng) -> MemoryDevice {
    let files = tree(device);
    let device = Arc::new(device.branch());
    let fs = mount(device.clone());
    let kind = |kind| files.values().filter(move |file| file.kind == kind).map(|file| Ino(file.ino));
    let dirs: Vec<_> = kind(FileKind::Directory).chain([fs.root()]).collect();
    for ino in kind(FileKind::Regular) {
        let n = ino.0;
        let dir = dirs[rng.random_range(0..dirs.len())];
        let full = match rng.random_range(0..12) {
            0 | 1 => fs.link(ino, dir, format!("link{n}").as_bytes(), BY).map(|_| fs.forget(ino, 1)),
            2 => {
                let target = "x/".repeat(rng.random_range(5..400)).into_bytes();
                let link = NewNode { target: &target, ..NewNode::new(FileKind::Symlink, 0o777) };
                fs.create(dir, format!("soft{n}").as_bytes(), &link, BY).map(|made| fs.forget(made.ino, 1))
            }
            3 | 4 => fs.setxattr(ino, b"user.a", &vec![7; rng.random_range(1..3000)], XattrMode::Set, BY),
            _ => Ok(()),
        };
        assert!(matches!(full, Ok(()) | Err(Error::NoSpace | Error::NotSupported)), "{full:?}");
    }
    fs.unmount().unwrap();
    drop(fs);
    Arc::into_inner(device).unwrap()
}

/// Returns parameters with many small groups, where the format allows that.
fn small_groups(parameters: &Parameters, bytes: u64, rng: &mut SmallRng) -> Parameters {
    let mut parameters = Parameters { size_bytes: bytes, ..parameters.clone() };
    if rng.random() {
        let bsize = if parameters.format == Format::Ufs2 { [8192, 16384] } else { [4096, 8192] };
        (parameters.bsize, parameters.fsize) = (Some(bsize[rng.random_range(0..2)]), Some(1024));
    }
    if rng.random() && parameters.geometry == Geometry::default() {
        parameters.blocks_per_group = Some(rng.random_range(100..400));
    }
    if rng.random() {
        // Inodes are scarce.
        parameters.density = Some(40_000);
    }
    parameters
}

/// Promise: a file system of any format becomes smaller, by any size, also again and again, if what
/// it holds fits; a check finds nothing then, every file and all its names are there, all space can
/// be used, and behind the new end nothing is used.
#[test]
fn torture_shrinking() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test growfs torture_shrinking");
    let all = all();
    let (cases, mut done, mut renumbered) = (cases(all.len() as u64), 0, 0);
    for case in 0..cases {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(case));
        let (name, parameters) = &all[usize::try_from(case).unwrap() % all.len()];
        let size = rng.random_range(12_u64 << 20..40 << 20);
        let parameters = small_groups(parameters, size, &mut rng);
        let Ok(plan) = spindle_ffs::newfs::Plan::new(&parameters) else { continue };
        let device = images::new(&parameters);
        let device = fill(&device, plan.size_bytes() * rng.random_range(0..90) / 100, &mut rng);
        let device = furnish(&device, &mut rng);
        let files = tree(&device);
        let wanted = numberless(&files);
        for step in 0..3 {
            let size = bytes_of(&device);
            let group = u64::from(Superblock::open(&device).unwrap().layout.fs_fpg) * 1024;
            let bytes = match rng.random_range(0..4) {
                0 => size - rng.random_range(0..group.min(size)),
                1 => size * rng.random_range(20..100) / 100,
                2 => size.saturating_sub(group),
                _ => size - rng.random_range(0..size / 2),
            };
            let what = format!("seed {}: {name}, {size} to {bytes}, step {step}", seed.wrapping_add(case));
            let branch = Arc::new(device.branch());
            match shrunk(&(branch.clone() as Arc<dyn Device>), bytes) {
                Ok(plan) => {
                    done += 1;
                    renumbered += plan.moved_inodes;
                    assert!(plan.after.is_clean(), "{what}");
                    assert_eq!(bytes_of(&*branch), plan.sizes.new_bytes, "{what}");
                    assert!(plan.sizes.new_bytes + plan.sizes.unused_bytes == bytes, "{what}");
                    let mut short = branch.to_bytes();
                    short.truncate(usize::try_from(plan.sizes.new_bytes).unwrap());
                    let short = MemoryDevice::from_bytes(&short);
                    let now = tree(&short);
                    assert!(numberless(&now) == wanted, "{what}: the files are others");
                    assert_whole(&short, &now, &what);
                    device.write_at(0, &branch.to_bytes()).unwrap();
                }
                Err(Error::NoSpace | Error::Unsupported { .. }) => {
                    assert!(branch.to_bytes() == device.to_bytes(), "{what}: something was written");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    assert!(done >= cases / 2, "only {done} of {cases} have shrunk");
    assert!(cases < 10 || renumbered > 0, "no inode has moved");
}

/// Returns a filled file system with small groups, where its format allows them, and a size to
/// which it may shrink.
fn shrinkable(parameters: &Parameters, rng: &mut SmallRng) -> (MemoryDevice, u64) {
    let mut parameters = Parameters { size_bytes: 12 << 20, ..parameters.clone() };
    if parameters.geometry == Geometry::default() {
        (parameters.bsize, parameters.fsize) = (Some(8192), Some(1024));
        parameters.blocks_per_group = Some(rng.random_range(90..200));
    }
    let device = fill(&images::new(&parameters), 4 << 20, rng);
    let device = furnish(&device, rng);
    let bytes = bytes_of(&device) * rng.random_range(50..90) / 100;
    (device, bytes)
}

/// Finishes what was cut as `fsck -p` does it, also if that is cut, and checks that the file system
/// has one of the `sizes`, the old and the new one, with all files and no damage. Returns false if
/// there was nothing to finish.
fn assert_finished(
    medium: &MemoryDevice,
    sizes: &Resize,
    wanted: &Tree,
    rng: &mut SmallRng,
    what: &str,
) -> bool {
    let is_cut = Superblock::open(medium).is_err();
    if is_cut {
        let refused = Ffs::open(Arc::new(medium.branch()), clock(), &OpenOptions::default());
        let error = refused.err().expect("nobody opens what is half changed").to_string();
        assert!(error.contains("fsck -p"), "{what}: {error}");
        let again = Recorder::over(medium);
        assert!(resume(&again).unwrap().is_some(), "{what}");
        let events = std::mem::take(&mut *again.events.lock());
        let end = rng.random_range(1..=events.len());
        resume(medium).unwrap();
        let torn = cut(medium, &events, end, rng);
        resume(&torn).unwrap();
        assert!(numberless(&tree(&torn)) == *wanted && damage(&torn).is_empty(), "{what}: again");
        assert_eq!(bytes_of(medium), sizes.new_bytes, "{what}");
    }
    assert_eq!(resume(medium).unwrap(), None, "{what}");
    assert!([sizes.old_bytes, sizes.new_bytes].contains(&bytes_of(medium)), "{what}");
    assert_eq!(damage(medium), Vec::<String>::new(), "{what}");
    assert!(checked(medium).marked_clean, "{what}");
    assert!(numberless(&tree(medium)) == *wanted, "{what}: the files are others");
    is_cut
}

/// Promise: wherever shrinking is cut, and whatever of the writes since the last flush is lost, it
/// is finished as `fsck -p` does it, also if that is cut, or nothing has happened; the file system
/// has the old or the new size, every file with all its names, and no damage. If a write or a flush
/// fails, shrinking says so, and what is on the disk then is finished as well.
#[test]
fn torture_cut_shrinking() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test growfs torture_cut_shrinking");
    let all = all();
    let (cases, mut done, mut finished) = (cases(all.len() as u64), 0, 0);
    for case in 0..cases {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(case));
        let (name, parameters) = &all[usize::try_from(case).unwrap() % all.len()];
        let name = format!("seed {}: {name}", seed.wrapping_add(case));
        let (device, bytes) = shrinkable(parameters, &mut rng);
        let wanted = numberless(&tree(&device));
        let recorder = Arc::new(Recorder::over(&device));
        let Ok(plan) = shrunk(&(recorder.clone() as Arc<dyn Device>), bytes) else { continue };
        done += 1;
        let events = std::mem::take(&mut *recorder.events.lock());
        for end in 1..=events.len() {
            let what = format!("{name}, cut at {end} of {}", events.len());
            let medium = cut(&device, &events, end, &mut rng);
            finished += u64::from(assert_finished(&medium, &plan.sizes, &wanted, &mut rng, &what));
        }
        let shrink = |device: &_| shrunk(device, bytes).err();
        each_failure(&device, events.len(), &mut rng, shrink, |medium, rng, what| {
            assert_finished(medium, &plan.sizes, &wanted, rng, &format!("{name}, {what}"));
        });
        let medium = cut(&device, &events, events.len() / 2, &mut rng);
        resume(&medium).unwrap();
        let again: Arc<dyn Device> = Arc::new(medium);
        if bytes_of(&*again) < plan.sizes.old_bytes {
            continue;
        }
        shrunk(&again, bytes).unwrap_or_else(|error| panic!("{name}: again: {error}"));
    }
    assert!(done >= cases / 4 && finished >= done, "{done} of {cases} have shrunk, {finished} finished");
}

/// Promise: images that real systems wrote become smaller as well, as small as can be done, and
/// keep what they hold.
#[test]
fn images_of_real_systems_shrink() {
    for sample in present(&["freebsd-ufs2-le", "freebsd-ufs2-be", "openbsd28-ufs1", "openbsd28-43bsd"]) {
        let name = sample.name;
        let device = MemoryDevice::from_bytes(&sample.image());
        let wanted = numberless(&tree(&device));
        let smaller: Arc<MemoryDevice> = Arc::new(device.branch());
        let view: Arc<dyn Device> = smaller.clone();
        let plan = shrink_to_fit(&view, &clock(), &mut StdRng::seed_from_u64(1))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(plan.sizes.new_bytes < plan.sizes.old_bytes, "{name}");
        plan.apply(&*view, &mut |_, _| Ok(())).unwrap();
        let now = tree(&smaller);
        assert!(numberless(&now) == wanted, "{name}: the files are others");
        assert_whole(&smaller, &now, name);
    }
}

/// Promise: the smallest size is near to what the files take, and is one that the file system can
/// have; made so large again it is as it was before.
#[test]
fn the_smallest_size_is_small() {
    for (name, parameters) in all() {
        let parameters = Parameters { size_bytes: 24 << 20, ..parameters };
        let device = fill(&images::new(&parameters), 3 << 20, &mut SmallRng::seed_from_u64(4));
        let device = furnish(&device, &mut SmallRng::seed_from_u64(5));
        let wanted = numberless(&tree(&device));
        let whole = Arc::new(device.branch());
        let view: Arc<dyn Device> = whole.clone();
        let plan = shrink_to_fit(&view, &clock(), &mut StdRng::seed_from_u64(1))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        plan.apply(&*view, &mut |_, _| Ok(())).unwrap();
        let now = tree(&whole);
        assert!(numberless(&now) == wanted, "{name}: the files are others");
        assert_whole(&whole, &now, &name);
        let layout = Superblock::open(&*whole).unwrap().layout;
        let free = checked(&whole).usage.free_frags;
        assert!(free <= layout.fs_dsize / 4 + 64, "{name}: {free} of {} are free", layout.fs_dsize);
        let grown = super::grown(&view, plan.sizes.old_bytes);
        let (_, report) = grown.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(report.is_clean() && numberless(&tree(&whole)) == wanted, "{name}: grown again");
    }
}

/// Promise: a log that is in the way is made again before the new end, and works; one that is not
/// stays. The root directory, which nobody has changed, keeps its times.
#[test]
fn logs_move() {
    for (name, parameters) in all() {
        let parameters = Parameters { size_bytes: 40 << 20, ..parameters };
        let device = Arc::new(fill(&images::new(&parameters), 2 << 20, &mut SmallRng::seed_from_u64(2)));
        let options = OpenOptions { seed: Some(1), log: LogUse::Wanted, ..OpenOptions::default() };
        let fs = Ffs::open(device.clone(), clock(), &options).unwrap();
        let Some(place) = fs.superblock().log_place() else { continue };
        let earlier = Some(SetTime::At(Timestamp::new(1_000_000_000, 0)));
        let set = SetAttr { atime: earlier, mtime: earlier, ..SetAttr::default() };
        fs.setattr(fs.root(), &set, BY).unwrap();
        let times = |fs: &Ffs| {
            let root = fs.getattr(fs.root()).unwrap();
            (root.atime, root.mtime, root.ctime)
        };
        let before = times(&fs);
        fs.unmount().unwrap();
        drop(fs);
        let wanted = numberless(&tree(&device));
        for bytes in [place.at + place.len / 2, (place.at + place.len).next_multiple_of(1 << 16) + (1 << 16)]
        {
            let smaller = Arc::new(device.branch());
            let plan = shrunk(&(smaller.clone() as Arc<dyn Device>), bytes)
                .unwrap_or_else(|error| panic!("{name} to {bytes}: {error}"));
            assert_eq!(bytes_of(&*smaller), plan.sizes.new_bytes, "{name}");
            let now = Superblock::open(&*smaller).unwrap().log_place().expect("the log is there");
            assert!(now.at + now.len <= plan.sizes.new_bytes && now.len == place.len, "{name}");
            assert_eq!(damage(&smaller), Vec::<String>::new(), "{name}");
            // The inode of NetBSD's log is another one, the files are the same.
            assert!(numberless(&tree(&smaller)).keys().eq(wanted.keys()), "{name}");
            let options = OpenOptions { log: LogUse::IfThere, ..options.clone() };
            let fs = Ffs::open(smaller.clone(), clock(), &options).unwrap();
            assert_eq!(times(&fs), before, "{name}");
            super::create(&fs, fs.root(), "logged", FileKind::Regular).unwrap();
            fs.sync().unwrap();
            let crashed = Arc::new(smaller.branch());
            let recovered = Ffs::open(crashed.clone(), clock(), &options).unwrap();
            assert!(recovered.log_at_open().replayed_blocks.is_some(), "{name}");
            recovered.lookup(recovered.root(), b"logged").unwrap();
            fs.unmount().unwrap();
        }
    }
}

/// Promise: with its undo file shrinking is taken back, also if that is cut and done again: all
/// that was in use is as it was, to the byte.
#[test]
fn shrinking_is_taken_back() {
    for (name, parameters) in all() {
        let parameters = Parameters { size_bytes: 16 << 20, ..parameters };
        let mut rng = SmallRng::seed_from_u64(8);
        let device = fill(&images::new(&parameters), 5 << 20, &mut rng);
        let device = furnish(&device, &mut rng);
        let files = tree(&device);
        let before = device.branch();
        let medium = Recorder::over(&device);
        let medium = Arc::new(medium);
        let plan = shrunk(&(medium.clone() as Arc<dyn Device>), 10 << 20)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let after = medium.inner.branch();
        medium.events.lock().clear();
        undo(&*medium, plan.undo_bytes()).unwrap();
        let events = std::mem::take(&mut *medium.events.lock());
        for end in 1..=events.len() {
            let cut = cut(&after, &events, end, &mut rng);
            undo(&cut, plan.undo_bytes()).unwrap_or_else(|error| panic!("{name}, cut at {end}: {error}"));
            assert_eq!(damage(&cut), Vec::<String>::new(), "{name}");
            assert!(tree(&cut) == files, "{name}: the files are others");
        }
        let read = |device: &MemoryDevice| {
            let mut sector = vec![0; 8192];
            device.read_at(Superblock::open(device).unwrap().layout.fs_sblockloc, &mut sector).unwrap();
            sector
        };
        assert!(read(&medium.inner) == read(&before), "{name}: another superblock");
    }
}

/// Promise: what is damaged, or in use, or does not fit, does not shrink, and nothing of it is
/// written; nor does it become larger.
#[test]
fn what_is_not_whole_does_not_shrink() {
    let device = fill(&images::new(&Parameters::new(24 << 20)), 12 << 20, &mut SmallRng::seed_from_u64(1));
    let superblock = Superblock::open(&device).unwrap();
    let refused = |device: &MemoryDevice, bytes: u64, reason: &str| {
        let before = device.to_bytes();
        let branch = Arc::new(device.branch());
        let error = shrunk(&(branch.clone() as Arc<dyn Device>), bytes).err().expect(reason).to_string();
        assert!(error.contains(reason), "{error}");
        assert!(branch.to_bytes() == before, "{reason}: something was written");
    };
    let damaged = device.branch();
    damaged.write_at(superblock.layout.byte(superblock.layout.fs_csaddr), &[7; 512]).unwrap();
    refused(&damaged, 20 << 20, "damage");
    refused(&device, 8 << 20, "space");
    refused(&device, 4096, "do not hold the first cylinder group");
    refused(&device, 25 << 20, "more than");
    let used = Arc::new(device.branch());
    let fs = mount(used.clone());
    super::create(&fs, fs.root(), "new", FileKind::Regular).unwrap();
    fs.sync().unwrap();
    refused(&used, 20 << 20, "not unmounted");
    fs.unmount().unwrap();
}

/// Promise: shrinking that was cut and after which another system has written the superblock is not
/// finished over what that has done; nor is one whose list is damaged, and nothing is written then.
#[test]
fn what_others_have_changed_is_not_finished() {
    let device = fill(&images::new(&Parameters::new(24 << 20)), 2 << 20, &mut SmallRng::seed_from_u64(1));
    let recorder = Arc::new(Recorder::over(&device));
    shrunk(&(recorder.clone() as Arc<dyn Device>), 12 << 20).unwrap();
    let events = std::mem::take(&mut *recorder.events.lock());
    let mut rng = SmallRng::seed_from_u64(1);
    let marked = (1..=events.len())
        .map(|end| cut(&device, &events, end, &mut rng))
        .find(|medium| Superblock::open(medium).is_err())
        .expect("the mark stands for a while");
    let at = Superblock::open(&device).unwrap().layout.fs_sblockloc;
    let mut sector = vec![0; 512];
    marked.read_at(at, &mut sector).unwrap();
    let place = u64::from_le_bytes(sector[496..504].try_into().unwrap());
    let other = marked.branch();
    // The time in fs_old_time.
    sector[32] ^= 1;
    other.write_at(at, &sector).unwrap();
    assert_eq!(resume(&other).unwrap(), None);
    for byte in [0, 8, 16, 24, 28, 40, 400] {
        let torn = marked.branch();
        let mut block = vec![0; 512];
        torn.read_at(place, &mut block).unwrap();
        block[byte] ^= 1;
        torn.write_at(place, &block).unwrap();
        let before = torn.to_bytes();
        assert!(resume(&torn).unwrap_err().to_string().contains("cannot be read"), "byte {byte}");
        assert!(torn.to_bytes() == before);
    }
    assert!(resume(&marked).unwrap().is_some());
    assert_eq!(damage(&marked), Vec::<String>::new());
}

/// Promise: on sectors of any size that its fragments allow, a file system shrinks.
#[test]
fn large_sectors_shrink() {
    for (name, parameters) in all() {
        for sector_bytes in [1024, 2048, 4096] {
            let fsize = sector_bytes.max(1024);
            let (bsize, fsize) = (Some(8 * fsize), Some(fsize));
            let parameters =
                Parameters { size_bytes: 40 << 20, sector_bytes, bsize, fsize, ..parameters.clone() };
            let what = format!("{name}, sectors of {sector_bytes}");
            let device = enlarged(&images::new(&parameters), 40 << 20).with_sectors(sector_bytes);
            let device = Arc::new(fill(&device, 3 << 20, &mut SmallRng::seed_from_u64(3)));
            let wanted = numberless(&tree(&device));
            shrunk(&(device.clone() as Arc<dyn Device>), 24 << 20)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(damage(&device), Vec::<String>::new(), "{what}");
            assert!(numberless(&tree(&device)) == wanted, "{what}: the files are others");
        }
    }
}
