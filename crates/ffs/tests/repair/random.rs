//! Damage at random.

use super::victim::{File, Tree, damage, planned, repair, tree};
use crate::images::Image;
use crate::tables;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::repair::Scope;
use spindle_ffs::{Frag, Layout};
use std::ops::Range;

/// Returns the number of cases of a random test.
pub fn cases(default: u64) -> u64 {
    std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

/// A structure that is damaged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Superblock,
    Replica,
    Group,
    Summaries,
    Inode,
    Directory,
    Indirect,
}

/// What may be damaged together, so that everything that is not damaged can be found: names, or the
/// maps that show which inodes there are.
const NAMES: [Target; 5] =
    [Target::Inode, Target::Directory, Target::Indirect, Target::Summaries, Target::Replica];
const MAPS: [Target; 5] =
    [Target::Group, Target::Indirect, Target::Summaries, Target::Superblock, Target::Replica];

fn index(n: u64) -> usize {
    usize::try_from(n).unwrap()
}

/// Returns the inodes in use of the first groups, with their kinds.
fn inodes(image: &Image) -> Vec<(u32, u16)> {
    let most = image.layout().inodes().min(4096);
    let all = (2..most).map(|ino| (ino, image.get::<u16>(image.inode(ino)) >> 12));
    all.filter(|&(_, kind)| kind != 0).collect()
}

fn place(image: &Image, inodes: &[(u32, u16)], target: Target, rng: &mut SmallRng) -> Option<Range<u64>> {
    let layout = image.layout();
    let cgx = rng.random_range(0..layout.fs_ncg);
    let &(ino, _) = inodes.get(rng.random_range(0..inodes.len()))?;
    let of_kind = |wanted: u16| inodes.iter().filter(move |&&(_, kind)| kind == wanted).map(|&(ino, _)| ino);
    let pick = |all: Vec<u32>, rng: &mut SmallRng| {
        if all.is_empty() { None } else { Some(all[rng.random_range(0..all.len())]) }
    };
    let start_and_len = match target {
        Target::Superblock => (image.sb(), 1376),
        Target::Replica => (image.replica(cgx), 1376),
        Target::Group => (image.cg(cgx), u64::from(layout.fs_cgsize)),
        Target::Summaries => (layout.byte(layout.fs_csaddr), u64::from(layout.fs_cssize)),
        Target::Inode => (image.inode(ino), layout.inode_size() as u64),
        Target::Directory => {
            let dir = pick(of_kind(4).collect(), rng)?;
            let block = image.block(dir, 0);
            (layout.byte(Frag(block)), 512)
        }
        Target::Indirect => {
            let files = of_kind(8).filter(|&ino| image.block(ino, 12) != 0).collect();
            (layout.byte(Frag(image.block(pick(files, rng)?, 12))), u64::from(layout.fs_bsize))
        }
    };
    Some(start_and_len.0..start_and_len.0 + start_and_len.1)
}

/// Changes bytes of a device.
fn change(device: &MemoryDevice, range: &Range<u64>, edit: impl FnOnce(&mut [u8])) {
    let sectors = range.start / 512 * 512..range.end.next_multiple_of(512);
    let mut bytes = vec![0; index(sectors.end - sectors.start)];
    device.read_at(sectors.start, &mut bytes).unwrap();
    edit(&mut bytes[index(range.start - sectors.start)..index(range.end - sectors.start)]);
    device.write_at(sectors.start, &bytes).unwrap();
}

/// Damages some structures of a device that holds an image. Returns the bytes that may be others
/// now.
fn hurt(image: &Image, device: &MemoryDevice, rng: &mut SmallRng) -> Vec<Range<u64>> {
    let inodes = inodes(image);
    let targets = if rng.random() { NAMES } else { MAPS };
    let mut damaged = Vec::new();
    for _ in 0..[1, 1, 2, 5, 20][rng.random_range(0..5)] {
        let target = targets[rng.random_range(0..targets.len())];
        let Some(range) = place(image, &inodes, target, rng) else { continue };
        change(device, &range, |bytes| overwrite(bytes, rng));
        damaged.push(range);
    }
    damaged
}

/// Overwrites some bytes of a structure.
fn overwrite(bytes: &mut [u8], rng: &mut SmallRng) {
    if rng.random_ratio(1, 10) {
        // A sector that was lost or written to the wrong place.
        let at = rng.random_range(0..bytes.len().div_ceil(512)) * 512;
        let end = bytes.len().min(at + 512);
        let fill = rng.random();
        bytes[at..end].fill(fill);
        return;
    }
    for _ in 0..rng.random_range(1..5) {
        // Most of what matters is at the beginning.
        let end = [32, 200, bytes.len()][rng.random_range(0..3)].min(bytes.len());
        let at = rng.random_range(0..end);
        match rng.random_range(0..5) {
            0 => bytes[at] = 0,
            1 => bytes[at] = 0xff,
            2 => bytes[at] ^= 1 << rng.random_range(0..8),
            3 => bytes[at] = rng.random_range(0..16),
            _ => {
                let end = bytes.len().min(at + 8);
                rng.fill_bytes(&mut bytes[at..end]);
            }
        }
    }
}

/// Returns the bytes of an image that a file consists of: its inode and blocks, as far as single
/// indirect blocks reach.
fn extents(image: &Image, ino: u32) -> Vec<Range<u64>> {
    let layout = image.layout();
    let at = image.inode(ino);
    let mut extents: Vec<_> = std::iter::once(at..at + layout.inode_size() as u64).collect();
    let block = |frag: u64, layout: &Layout| {
        let at = layout.byte(Frag(frag));
        at..at + u64::from(layout.fs_bsize)
    };
    for n in 0..13 {
        let frag = image.block(ino, n);
        if frag == 0 || frag >= layout.fs_size {
            continue;
        }
        extents.push(block(frag, layout));
        if n == 12 {
            let width = if image.is_ufs2() { 8 } else { 4 };
            for at in block(frag, layout).step_by(width) {
                let frag = if width == 8 { image.get::<u64>(at) } else { image.get::<u32>(at).into() };
                if frag != 0 && frag < layout.fs_size {
                    extents.push(block(frag, layout));
                }
            }
        }
    }
    extents
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Returns the files that the damage has not touched and that are gone.
fn lost<'a>(image: &Image, damaged: &[Range<u64>], before: &'a Tree, after: &Tree) -> Vec<&'a str> {
    let untouched = |file: &File| {
        let extents = extents(image, u32::try_from(file.ino).unwrap());
        !extents.iter().any(|extent| damaged.iter().any(|range| overlap(extent, range)))
    };
    let same = |file: &File, other: &File| {
        let is_directory = file.kind == spindle_vfs::FileKind::Directory;
        other.ino == file.ino && other.kind == file.kind && (is_directory || other.content == file.content)
    };
    let gone = |file: &File| !after.values().any(|other| same(file, other));
    let lost = before.iter().filter(|(_, file)| untouched(file) && gone(file));
    lost.map(|(path, _)| path.as_str()).collect()
}

/// Promise: whatever the structures hold, planning a repair ends without a panic; it leaves a file
/// system without damage, or changes nothing; a second repair changes nothing; and files whose
/// inode and blocks were not damaged are still there with their contents. A repair that may lose
/// nothing never lets a file go.
#[test]
fn torture_random_damage() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test repair torture_random_damage");
    let images: Vec<&Image> = tables::all().iter().filter_map(|(image, _)| *image).collect();
    let devices: Vec<_> = images.iter().map(|image| MemoryDevice::from_bytes(&image.bytes)).collect();
    let trees: Vec<Tree> = devices.iter().map(tree).collect();
    let (mut done, mut refused) = (0, 0);
    for case in 0..cases(60) {
        let case = seed.wrapping_add(case);
        let mut rng = SmallRng::seed_from_u64(case);
        let n = rng.random_range(0..images.len());
        let device = devices[n].branch();
        let damaged = hurt(images[n], &device, &mut rng);
        let given = device.branch();
        let scope = if rng.random_ratio(1, 4) { Scope::Harmless } else { Scope::All };
        if spindle_ffs::Superblock::open(&device).is_err()
            && spindle_ffs::Superblock::find_replica(&device).is_err()
        {
            continue;
        }
        let plan = planned(&device, scope);
        plan.apply(&device).unwrap();
        if let Some(reason) = &plan.refusal {
            assert!(device == given, "seed {case}: {reason}");
            refused += u32::from(scope == Scope::All);
            if scope == Scope::All {
                println!("seed {case}: refused: {reason}");
            }
            continue;
        }
        done += 1;
        assert_eq!(damage(&device), Vec::<String>::new(), "seed {case}");
        let repaired = device.branch();
        repair(&device);
        assert!(device == repaired, "seed {case}: a second repair writes");
        let after = tree(&device);
        let lost = lost(images[n], &damaged, &trees[n], &after);
        assert!(lost.is_empty(), "seed {case}: {lost:?} lost");
    }
    println!("{done} repaired, {refused} refused");
    assert!(done > refused, "most can be repaired");
}
