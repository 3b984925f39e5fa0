//! File systems that are made smaller: every format and dialect, to any size, also when it is cut.

use super::{BY, all, assert_whole, cases, create, fill, images, mount};
use crate::victim::{Tree, checked, clock, damage, tree};
use rand::rngs::{SmallRng, StdRng};
use rand::{Rng, SeedableRng};
use spindle_conformance::cuts::{Recorder, cut};
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::growfs::{Resize, Shrink, shrink, shrink_to_fit};
use spindle_ffs::newfs::{Format, Geometry, Parameters};
use spindle_ffs::repair::{resume, undo};
use spindle_ffs::{Dialect, Ffs, LogUse, OpenOptions, Superblock};
use spindle_samples::present;
use spindle_vfs::{Error, FileKind, FileSystem, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Plans to make a file system at most so many bytes large.
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

/// Gives files second names, some of them in other directories.
fn link(device: &MemoryDevice, rng: &mut SmallRng) {
    let fs = mount(Arc::new(device.branch()));
    fs.unmount().unwrap();
    let files = tree(device);
    let same = device.branch();
    let same = Arc::new(same);
    let fs = mount(same.clone());
    let kind = |kind| files.values().filter(move |file| file.kind == kind).map(|file| file.ino);
    let dirs: Vec<_> = kind(FileKind::Directory).collect();
    for ino in kind(FileKind::Regular).collect::<Vec<_>>() {
        if dirs.is_empty() || !rng.random_ratio(1, 6) {
            continue;
        }
        let dir = dirs[rng.random_range(0..dirs.len())];
        let name = format!("link{ino}");
        match fs.link(spindle_vfs::Ino(ino), spindle_vfs::Ino(dir), name.as_bytes(), BY) {
            Ok(_) => fs.forget(spindle_vfs::Ino(ino), 1),
            Err(Error::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    fs.unmount().unwrap();
    drop(fs);
    device.write_at(0, &same.to_bytes()).unwrap();
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
        link(&device, &mut rng);
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

/// Promise: wherever shrinking is cut, and whatever of the writes since the last flush is lost, it
/// is finished as `fsck -p` does it, also if that is cut, or nothing has happened; the file system
/// has the old or the new size, every file with all its names, and no damage.
#[test]
fn torture_cut_shrinking() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test growfs torture_cut_shrinking");
    let all = all();
    let (cases, mut done, mut finished) = (cases(all.len() as u64), 0, 0);
    for case in 0..cases {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(case));
        let (name, parameters) = &all[usize::try_from(case).unwrap() % all.len()];
        let mut parameters = Parameters { size_bytes: 12 << 20, ..parameters.clone() };
        if parameters.geometry == Geometry::default() {
            (parameters.bsize, parameters.fsize) = (Some(8192), Some(1024));
            parameters.blocks_per_group = Some(rng.random_range(90..200));
        }
        let device = fill(&images::new(&parameters), 4 << 20, &mut rng);
        link(&device, &mut rng);
        let wanted = numberless(&tree(&device));
        let size = bytes_of(&device);
        let bytes = size * rng.random_range(50..90) / 100;
        let recorder = Arc::new(Recorder::over(&device));
        let Ok(plan) = shrunk(&(recorder.clone() as Arc<dyn Device>), bytes) else { continue };
        done += 1;
        let events = std::mem::take(&mut *recorder.events.lock());
        for end in 1..=events.len() {
            let what = format!("seed {}: {name}, cut at {end} of {}", seed.wrapping_add(case), events.len());
            let medium = cut(&device, &events, end, &mut rng);
            if Superblock::open(&medium).is_err() {
                let refused = Ffs::open(Arc::new(medium.branch()), clock(), &OpenOptions::default());
                let error = refused.err().expect("nobody opens what is half changed").to_string();
                assert!(error.contains("fsck -p"), "{what}: {error}");
                let again = Recorder::over(&medium);
                assert!(resume(&again).unwrap().is_some(), "{what}");
                let events = std::mem::take(&mut *again.events.lock());
                let end = rng.random_range(1..=events.len());
                resume(&medium).unwrap();
                let torn = cut(&medium, &events, end, &mut rng);
                resume(&torn).unwrap();
                assert!(numberless(&tree(&torn)) == wanted && damage(&torn).is_empty(), "{what}: again");
                assert_eq!(bytes_of(&medium), plan.sizes.new_bytes, "{what}");
                finished += 1;
            }
            assert_eq!(resume(&medium).unwrap(), None, "{what}");
            assert!([size, plan.sizes.new_bytes].contains(&bytes_of(&medium)), "{what}");
            assert_eq!(damage(&medium), Vec::<String>::new(), "{what}");
            assert!(checked(&medium).marked_clean, "{what}");
            assert!(numberless(&tree(&medium)) == wanted, "{what}: the files are others");
        }
        let medium = cut(&device, &events, events.len() / 2, &mut rng);
        resume(&medium).unwrap();
        let again: Arc<dyn Device> = Arc::new(medium);
        shrunk(&again, bytes).unwrap_or_else(|error| panic!("{name}: again: {error}"));
    }
    assert!(done >= cases / 4 && finished >= done, "{done} of {cases} have shrunk, {finished} finished");
}
