//! Blocks that several files have: a repair loses nothing of any of them.

mod support;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_conformance::cuts::{Recorder, cut};
use spindle_conformance::random::seed;
use spindle_device::Device;
use spindle_ondisk::{Endian, Field};
use spindle_v7::check::{Options, Repaired, check, repair};
use spindle_v7::{Block, Format, OpenOptions, V7};
use spindle_vfs::{FileKind, FileSystem, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use support::Victim;

const FORMATS: [Format; 3] = [Format::V7, Format::BSD41, Format::sysv(Endian::Big)];

/// Returns the blocks of all regular files that can be read, by inode and number.
fn contents(victim: &Victim, device: &Arc<dyn Device>) -> BTreeMap<(u16, u64), Vec<u8>> {
    let format = Some(victim.layout.format);
    let options = OpenOptions { format, read_only: true, ..OpenOptions::default() };
    let fs = V7::open(device.clone(), victim.clock.clone(), &options).unwrap();
    let bsize = victim.layout.bsize();
    let mut found = BTreeMap::new();
    for ino in 3..=victim.layout.last_ino() {
        let attr = fs.getattr(Ino(ino.into())).ok().filter(|attr| attr.kind == FileKind::Regular);
        for n in 0..attr.map_or(0, |attr| attr.size.div_ceil(bsize as u64)) {
            let mut bytes = vec![0; bsize];
            if fs.read(Ino(ino.into()), n * bsize as u64, &mut bytes).is_ok() {
                found.insert((ino, n), bytes);
            }
        }
    }
    found
}

/// Returns the blocks that are others now, or cannot be read.
fn lost(
    before: &BTreeMap<(u16, u64), Vec<u8>>,
    victim: &Victim,
    device: &Arc<dyn Device>,
) -> Vec<(u16, u64)> {
    let now = contents(victim, device);
    before.iter().filter(|(at, bytes)| now.get(at) != Some(bytes)).map(|(at, _)| *at).collect()
}

fn mend(victim: &Victim, device: &Arc<dyn Device>) -> Repaired {
    let options = Options { format: Some(victim.layout.format), ..Options::default() };
    repair(device, &*victim.clock, &options, false, &mut |_| ()).unwrap()
}

/// Returns what a check finds, without its notes.
fn findings(victim: &Victim, device: &dyn Device) -> Vec<String> {
    let options = Options { format: Some(victim.layout.format), ..Options::default() };
    let report = check(device, &options, &mut |_| ()).unwrap();
    let damage = report.findings.iter().filter(|found| found.severity.is_damage());
    damage.map(ToString::to_string).collect()
}

/// Sets pointer `n` of an indirect block.
fn set_pointer(victim: &Victim, block: u32, n: usize, to: u32) {
    let endian = victim.layout.format.endian;
    victim.change(Block(block), |bytes| to.put(&mut bytes[n * 4..], endian));
}

type Plant = fn(&Victim);

/// Ways in which two files come to claim a block.
const PLANTS: [Plant; 9] = [
    // Data of both, the earlier or the later file being the one that has lost its own.
    |v| v.set_addr(v.other, 0, v.addr(v.file, 3)),
    |v| v.set_addr(v.file, 3, v.addr(v.other, 0)),
    // An indirect block of both.
    |v| {
        v.set_addr(v.other, 10, v.addr(v.file, 10));
        v.change_inode(v.other, |inode| inode.di_size = 40_000);
    },
    // An indirect block is data of another file.
    |v| v.set_addr(v.other, 1, v.addr(v.file, 10)),
    // Data of a file is the indirect block of another one, which has no other.
    |v| v.set_addr(v.other, 10, v.addr(v.file, 2)),
    // A block of a directory is data of a file, and the directory has a name to be removed.
    |v| {
        v.set_addr(v.other, 2, v.addr(v.dir, 0));
        v.set_entry(v.dir, 4, 200, Some(b"nothing"));
    },
    // A file twice over.
    |v| v.set_addr(v.other, 2, v.addr(v.other, 0)),
    // An indirect block of both, with a pointer that leads nowhere, which is data of one, too.
    |v| {
        v.set_addr(v.other, 10, v.addr(v.file, 10));
        v.set_addr(v.file, 3, v.addr(v.file, 10));
        set_pointer(v, v.addr(v.file, 10), 1, 0xff_ffff);
    },
    // An indirect block below itself.
    |v| set_pointer(v, v.addr(v.file, 10), 7, v.addr(v.file, 10)),
];

/// Promise: each file that claims a block keeps its bytes, whether it is data, an indirect block or
/// part of a directory to others; nothing of that is left to a second repair.
#[test]
fn each_file_gets_a_copy() {
    for format in FORMATS {
        for (n, plant) in PLANTS.iter().enumerate() {
            let victim = Victim::new(format);
            plant(&victim);
            let device = victim.shared();
            let before = contents(&victim, &device);
            assert!(findings(&victim, &*device).iter().any(|text| text.contains(" DUP I=")), "{format}, {n}");
            let Repaired { after, .. } = mend(&victim, &device);
            assert!(after.is_clean() && after.marked_clean, "{format}, {n}: {after:#?}");
            assert_eq!(findings(&victim, &*device), Vec::<String>::new(), "{format}, {n}");
            assert!(!mend(&victim, &device).changed, "{format}, {n}");
            assert_eq!(lost(&before, &victim, &device), [], "{format}, {n}");
        }
    }
}

/// Adds the blocks below a pointer with `levels` levels of indirect blocks to `found`.
fn collect(victim: &Victim, raw: u32, levels: usize, found: &mut BTreeSet<u32>) {
    if victim.layout.data_block(raw).is_none() {
        return;
    }
    found.insert(raw);
    let endian = victim.layout.format.endian;
    for pointer in victim.block(Block(raw)).chunks_exact(4).filter(|_| levels > 0) {
        collect(victim, u32::get(pointer, endian), levels - 1, found);
    }
}

/// Gives all blocks that no file has to the file `hog`, which has none.
fn fill(victim: &Victim, hog: u16) {
    let mut used = BTreeSet::new();
    for ino in 1..=victim.layout.last_ino() {
        if matches!(victim.inode(ino).di_mode & 0o170_000, 0o100_000 | 0o040_000) {
            (0..12).for_each(|n| collect(victim, victim.addr(ino, n), n.saturating_sub(9), &mut used));
        }
    }
    let layout = &victim.layout;
    let mut free: Vec<u32> = (layout.s_isize..layout.s_fsize).filter(|block| !used.contains(block)).collect();
    (0..free.len().min(10)).for_each(|n| victim.set_addr(hog, n, free.pop().unwrap()));
    if let Some(double) = free.pop() {
        victim.set_addr(hog, 11, double);
        victim.change(Block(double), |bytes| bytes.fill(0));
        let mut n = 0;
        while let Some(single) = free.pop() {
            set_pointer(victim, double, n, single);
            victim.change(Block(single), |bytes| bytes.fill(0));
            for below in 0..layout.nindir() {
                let Some(data) = free.pop() else { break };
                set_pointer(victim, single, below, data);
            }
            n += 1;
        }
    }
    victim.change_inode(hog, |inode| inode.di_size = 1 << 22);
}

/// Promise: without a free block, a block of two files stays as it is, and so does every byte of
/// them; the findings say that, and everything else is repaired.
#[test]
fn without_space_nothing_is_lost() {
    for format in FORMATS {
        for (n, plant) in PLANTS.iter().enumerate() {
            let victim = Victim::new(format);
            let fs = victim.open();
            let hog = support::make(&fs, Ino(victim.sub.into()), b"hog", FileKind::Regular);
            fs.unmount().unwrap();
            plant(&victim);
            fill(&victim, u16::try_from(hog.0).unwrap());
            victim.change_inode(victim.lost, |inode| inode.di_nlink = 9);
            let device = victim.shared();
            let before = contents(&victim, &device);
            let Repaired { after, .. } = mend(&victim, &device);
            let left: Vec<_> = after.findings.iter().map(ToString::to_string).collect();
            assert!(!left.iter().any(|text| text.contains("LINK COUNT")), "{format}, {n}: {left:#?}");
            // An indirect block without a good pointer needs no copy.
            if n != 4 {
                let says = |what: &str| left.iter().any(|text| text.contains(what));
                assert!(says("DUP BLKS TO COPY AND 0 FREE") && says(" DUP I="), "{format}, {n}: {left:#?}");
                assert!(!after.marked_clean, "{format}, {n}");
            }
            assert_eq!(lost(&before, &victim, &device), [], "{format}, {n}");
        }
    }
}

/// Returns a file system in which some pointers lead to blocks of others, at random and in one of
/// the ways of the table.
fn crossed(rng: &mut SmallRng) -> Victim {
    let victim = Victim::new(FORMATS[rng.random_range(0..FORMATS.len())]);
    let indirect = victim.addr(victim.file, 10);
    let files = [victim.file, victim.other, victim.dir, victim.sub];
    let blocks: Vec<u32> = files
        .iter()
        .flat_map(|&ino| (0..11).map(move |n| (ino, n)))
        .map(|(ino, n)| victim.addr(ino, n))
        .filter(|&addr| addr != 0)
        .collect();
    for _ in 0..rng.random_range(1..5) {
        let to = blocks[rng.random_range(0..blocks.len())];
        if rng.random_range(0..3) == 0 {
            set_pointer(&victim, indirect, rng.random_range(0..victim.layout.nindir()), to);
        } else {
            victim.set_addr([victim.file, victim.other][rng.random_range(0..2)], rng.random_range(0..12), to);
        }
    }
    PLANTS[rng.random_range(0..PLANTS.len())](&victim);
    victim
}

/// Promise: with pointers to any blocks of other files, all files read the same before and after a
/// repair, and the same again if it was cut at any write and then repeated; what is changed before
/// the last write is never marked clean.
#[test]
fn torture_crossed_pointers() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-v7 --test duplicates torture_crossed_pointers");
    let cases = std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    for case in 0..cases {
        let seed = seed.wrapping_add(case);
        let mut rng = SmallRng::seed_from_u64(seed);
        let victim = crossed(&mut rng);
        let damaged = victim.device.branch();
        let before = contents(&victim, &victim.shared());
        let recorder = Arc::new(Recorder::over(&damaged));
        let device: Arc<dyn Device> = recorder.clone();
        let Repaired { after, .. } = mend(&victim, &device);
        assert!(after.is_clean(), "seed {seed}: {after:#?}");
        assert_eq!(lost(&before, &victim, &device), [], "seed {seed}");
        let whole = contents(&victim, &device);
        let events = recorder.events.lock().clone();
        for end in 1..=events.len() {
            let medium: Arc<dyn Device> = Arc::new(cut(&damaged, &events, end, &mut rng));
            let Repaired { after, .. } = mend(&victim, &medium);
            assert!(after.is_clean(), "seed {seed}, cut at {end}: {after:#?}");
            assert_eq!(findings(&victim, &*medium), Vec::<String>::new(), "seed {seed}, cut at {end}");
            assert_eq!(lost(&whole, &victim, &medium), [], "seed {seed}, cut at {end}");
        }
    }
}
