//! Damage at random: a repair leaves nothing that a check finds, and all files that were not hit.

mod support;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_conformance::cuts::{Recorder, cut};
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_ondisk::{Endian, Field};
use spindle_v7::check::{Options, Repaired, check, repair};
use spindle_v7::ondisk::INODE_SIZE;
use spindle_v7::{Block, Format, OpenOptions, Superblock, V7};
use spindle_vfs::{FileKind, FileSystem, Ino, Privilege};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use support::Victim;

/// Returns a file system of several directories and files, some of which have indirect blocks.
fn filled(format: Format, rng: &mut SmallRng) -> Victim {
    let victim = Victim::new(format);
    let fs = victim.open();
    let mut dirs = vec![fs.root(), Ino(victim.dir.into()), Ino(victim.sub.into())];
    for n in 0..40 {
        let parent = dirs[rng.random_range(0..dirs.len())];
        if rng.random_range(0..6) == 0 {
            dirs.push(support::make(&fs, parent, format!("dir{n}").as_bytes(), FileKind::Directory));
            continue;
        }
        let file = support::make(&fs, parent, format!("file{n}").as_bytes(), FileKind::Regular);
        let mut bytes = vec![0; rng.random_range(1..20_000)];
        rng.fill(&mut bytes[..]);
        fs.write(file, 0, &bytes, Privilege::Root).unwrap();
    }
    fs.unmount().unwrap();
    victim
}

/// Adds the blocks below a pointer with `levels` levels of indirect blocks to `found`.
fn collect(victim: &Victim, raw: u32, levels: usize, found: &mut BTreeSet<u32>) {
    if victim.layout.data_block(raw).is_none() {
        return;
    }
    found.insert(raw);
    for pointer in victim.block(Block(raw)).chunks_exact(4).filter(|_| levels > 0) {
        collect(victim, u32::get(pointer, victim.layout.format.endian), levels - 1, found);
    }
}

/// Returns the blocks of the files and directories, by inode.
fn blocks(victim: &Victim) -> BTreeMap<u16, BTreeSet<u32>> {
    let mut found = BTreeMap::new();
    for ino in 2..=victim.layout.last_ino() {
        if matches!(victim.inode(ino).di_mode & 0o170_000, 0o040_000 | 0o100_000) {
            let of_inode: &mut BTreeSet<u32> = found.entry(ino).or_default();
            (0..13).for_each(|n| collect(victim, victim.addr(ino, n), (n + 1).saturating_sub(10), of_inode));
        }
    }
    found
}

/// Returns the contents of the files that have names, by inode.
fn contents(victim: &Victim, device: &Arc<dyn Device>) -> BTreeMap<u16, Vec<u8>> {
    let options =
        OpenOptions { format: Some(victim.layout.format), read_only: true, ..OpenOptions::default() };
    let fs = V7::open(device.clone(), victim.clock.clone(), &options).unwrap();
    let (mut dirs, mut found) = (vec![fs.root()], BTreeMap::new());
    while let Some(dir) = dirs.pop() {
        let mut names = Vec::new();
        fs.readdir(dir, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
        for name in names.into_iter().filter(|name| name != b"." && name != b"..") {
            let attr = fs.lookup(dir, &name).unwrap();
            match attr.kind {
                FileKind::Directory => dirs.push(attr.ino),
                FileKind::Regular => {
                    let mut bytes = vec![0; usize::try_from(attr.size).unwrap()];
                    fs.read(attr.ino, 0, &mut bytes).unwrap();
                    found.insert(u16::try_from(attr.ino.0).unwrap(), bytes);
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns a number that is likely to be nearly valid somewhere.
fn number(victim: &Victim, rng: &mut SmallRng) -> u32 {
    match rng.random_range(0..6) {
        0 => rng.random(),
        1 => rng.random_range(0..victim.layout.s_fsize + 2),
        2 => rng.random_range(0..u32::from(victim.layout.last_ino()) + 2),
        3 => [0, 1, 2, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, u32::MAX][rng.random_range(0..8)],
        4 => rng.random_range(0..64),
        _ => 1 << rng.random_range(0..32),
    }
}

/// Damages part of a block.
fn damage_block(victim: &Victim, block: u32, rng: &mut SmallRng) {
    let other = rng.random_range(1..victim.layout.s_fsize);
    let value = number(victim, rng);
    let copy = victim.block(Block(other));
    victim.change(Block(block), |bytes| {
        let at = rng.random_range(0..bytes.len() / 4) * 4;
        match rng.random_range(0..8) {
            0 => bytes.fill(0),
            1 => rng.fill(bytes),
            2 => bytes.copy_from_slice(&copy),
            3 => bytes[at..].fill(0),
            4 => rng.fill(&mut bytes[at..at + 4]),
            5 => bytes[at..at + 2].copy_from_slice(&value.to_le_bytes()[..2]),
            _ => value.put(&mut bytes[at..], victim.layout.format.endian),
        }
    });
}

/// Damages something, mostly structures.
fn damage(victim: &Victim, blocks: &BTreeMap<u16, BTreeSet<u32>>, rng: &mut SmallRng) {
    let inodes: Vec<u16> = blocks.keys().copied().collect();
    let ino = inodes[rng.random_range(0..inodes.len())];
    match rng.random_range(0..10) {
        0 | 1 => {
            let (block, offset) = victim.layout.superblock_at();
            let value = number(victim, rng);
            victim.change(block, |bytes| {
                let bytes = &mut bytes[offset..offset + 512];
                let at = rng.random_range(0..256) * 2;
                match rng.random_range(0..8) {
                    0 => bytes.fill(0),
                    1 => rng.fill(bytes),
                    2 => rng.fill(&mut bytes[at..at + 2]),
                    3 => bytes[..at].fill(0),
                    4 => value.put(&mut bytes[at.min(508)..], victim.layout.format.endian),
                    5 => u16::try_from(value & 0xffff).unwrap().put(bytes, victim.layout.format.endian),
                    6 => value.put(&mut bytes[2..], victim.layout.format.endian),
                    _ => value.put(&mut bytes[4..], victim.layout.format.endian),
                }
            });
        }
        2 => damage_block(victim, victim.layout.inode_at(ino).0.0, rng),
        3 => damage_block(victim, *blocks[&2].first().unwrap(), rng),
        4 => damage_block(victim, victim.layout.inode_at(2).0.0, rng),
        5 => {
            let at = blocks[&ino].iter().nth(rng.random_range(0..blocks[&ino].len().max(1)));
            if let Some(block) = at {
                damage_block(victim, *block, rng);
            }
        }
        6 => damage_block(victim, rng.random_range(1..victim.layout.s_fsize), rng),
        _ => {
            let value = number(victim, rng);
            let (block, offset) = victim.layout.inode_at(ino);
            victim.change(block, |bytes| {
                let bytes = &mut bytes[offset..offset + INODE_SIZE];
                let at = rng.random_range(0..INODE_SIZE / 2) * 2;
                match rng.random_range(0..4) {
                    0 => rng.fill(bytes),
                    1 => rng.fill(&mut bytes[at..at + 2]),
                    2 => value.put(&mut bytes[at.min(60)..], victim.layout.format.endian),
                    _ => bytes[..at].fill(0),
                }
            });
        }
    }
}

/// Returns the files that were not hit: neither their inodes nor their blocks.
fn unhit(victim: &Victim, before: &MemoryDevice, blocks: &BTreeMap<u16, BTreeSet<u32>>) -> Vec<u16> {
    let read = |device: &MemoryDevice, block: Block| {
        let mut bytes = vec![0; victim.layout.bsize()];
        device.read_at(victim.layout.byte(block), &mut bytes).unwrap();
        bytes
    };
    let is_same = |ino: u16| {
        let (block, offset) = victim.layout.inode_at(ino);
        let inode = |device| read(device, block)[offset..offset + INODE_SIZE].to_vec();
        inode(before) == inode(&victim.device)
            && blocks[&ino]
                .iter()
                .all(|&block| read(before, Block(block)) == read(&victim.device, Block(block)))
    };
    blocks.keys().copied().filter(|&ino| is_same(ino)).collect()
}

/// Returns the files that reach behind a damaged size, if inodes do not speak against it: of a file
/// system that seems to end before them, a repair does not make a larger one because of one inode.
fn cut_off(victim: &Victim, blocks: &BTreeMap<u16, BTreeSet<u32>>) -> Vec<u16> {
    let Ok(found) = Superblock::open(&*victim.device, Some(victim.layout.format)) else { return Vec::new() };
    let end = found.superblock.head.s_fsize;
    let cut = |ino: &u16| blocks[ino].last().is_some_and(|last| *last >= end);
    let is_beyond =
        |ino: &&u16| (0..13).any(|n| (end..victim.layout.s_fsize).contains(&victim.addr(**ino, n)));
    if blocks.keys().filter(is_beyond).count() >= 2 {
        return Vec::new();
    }
    blocks.keys().copied().filter(cut).collect()
}

/// Returns the files among `expected` that are not there with their bytes, and have some.
fn lost(victim: &Victim, device: &Arc<dyn Device>, expected: &BTreeMap<u16, Vec<u8>>) -> Vec<u16> {
    let after = contents(victim, device);
    let is_lost = |(ino, bytes): &(&u16, &Vec<u8>)| !bytes.is_empty() && after.get(ino) != Some(bytes);
    expected.iter().filter(is_lost).map(|(ino, _)| *ino).collect()
}

/// Repairs a file system, and checks that nothing is left to find. Returns false if that is
/// refused, because the device is too short.
fn mend(victim: &Victim, device: &Arc<dyn Device>, seed: u64) -> bool {
    let options = Options { format: Some(victim.layout.format), ..Options::default() };
    match repair(device, &*victim.clock, &options, false, &mut |_| ()) {
        Ok(Repaired { after, .. }) => assert!(after.is_clean(), "seed {seed}: {after:#?}"),
        Err(error) => {
            assert!(error.to_string().contains("the device ends before"), "seed {seed}: {error}");
            return false;
        }
    }
    let again = check(&**device, &options, &mut |_| ()).unwrap();
    assert!(again.is_clean() && again.marked_clean, "seed {seed}: {again:#?}");
    true
}

/// Promise: whatever is damaged, the repair of a named format leaves nothing to another check, and
/// every file whose inode and blocks were not hit has its bytes, with a name, unless a single inode
/// leads to where the size says that nothing is; also if the repair was cut anywhere and then
/// repeated. It refuses only what seems to be cut off, and then writes
/// nothing.
#[test]
fn torture_damaged_at_random() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-v7 --test random");
    let cases = std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200);
    let mut refused = 0;
    for case in 0..cases {
        let seed = seed.wrapping_add(case);
        let mut rng = SmallRng::seed_from_u64(seed);
        let sysv = Format::sysv(if rng.random() { Endian::Big } else { Endian::Little });
        let format = [Format::V7, Format::BSD41, sysv][rng.random_range(0..3)];
        let victim = filled(format, &mut rng);
        let (blocks, before) = (blocks(&victim), victim.device.branch());
        let mut expected = contents(&victim, &victim.shared());
        for _ in 0..rng.random_range(1..4) {
            damage(&victim, &blocks, &mut rng);
        }
        let unhit = unhit(&victim, &before, &blocks);
        let cut_off = cut_off(&victim, &blocks);
        expected.retain(|ino, _| unhit.contains(ino) && !cut_off.contains(ino));
        let damaged = victim.device.branch();
        let recorder = Arc::new(Recorder::over(&damaged));
        let device: Arc<dyn Device> = recorder.clone();
        if !mend(&victim, &device, seed) {
            assert!(recorder.events.lock().is_empty(), "seed {seed}");
            refused += 1;
            continue;
        }
        assert_eq!(lost(&victim, &device, &expected), [], "seed {seed}, {format}");
        let events = recorder.events.lock().clone();
        for _ in 0..3.min(events.len()) {
            let end = rng.random_range(1..=events.len());
            let medium: Arc<dyn Device> = Arc::new(cut(&damaged, &events, end, &mut rng));
            assert!(mend(&victim, &medium, seed), "seed {seed}, cut at {end}");
            assert_eq!(lost(&victim, &medium, &expected), [], "seed {seed}, {format}, cut at {end}");
        }
    }
    assert!(refused * 20 <= cases, "{refused} of {cases} are refused");
}
