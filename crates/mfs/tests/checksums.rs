//! Checksums of data: whatever a device returns instead of what was written to it is noticed, never
//! returned, and mended where there is another copy.

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::{Finding, check, repair};
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Class, Layout, Mfs, OpenOptions, Role, Structure, read_label};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege, XattrMode};
use std::ops::Deref;
use std::sync::Arc;
use support::{MemorySet, clock};

const BY: Privilege = Privilege::Root;
const BLOCK: usize = 4096;
/// Blocks of the file.
const BLOCKS: usize = 40;

/// A set with a file, whose members can be damaged.
struct Victim {
    set: MemorySet,
    bytes: Vec<u8>,
}

impl Deref for Victim {
    type Target = MemorySet;
    fn deref(&self) -> &MemorySet {
        &self.set
    }
}

fn pattern(seed: usize, blocks: usize) -> Vec<u8> {
    let byte = |n: usize| u8::try_from(1 + (n / 3 + n / BLOCK * 17 + seed * 101) % 251).unwrap();
    (0..blocks * BLOCK).map(byte).collect()
}

fn lookup(fs: &Mfs) -> Ino {
    fs.lookup(fs.root(), b"file").unwrap().ino
}

impl Victim {
    /// Makes a set with so many copies of control and data storage.
    fn new(copies: usize) -> Self {
        let roles =
            [Role::Control, Role::Data].into_iter().flat_map(|role| std::iter::repeat_n(role, copies));
        let roles: Vec<_> = roles.chain([Role::Log]).collect();
        let victim = Self { set: MemorySet::new(&roles, true), bytes: pattern(0, BLOCKS) };
        let fs = victim.open();
        let ino = fs.create(fs.root(), b"file", &NewNode::new(FileKind::Regular, 0o644), BY).unwrap().ino;
        assert_eq!(fs.write(ino, 0, &victim.bytes, BY).unwrap(), victim.bytes.len());
        fs.unmount().unwrap();
        victim
    }

    /// Returns where a block of the file begins in the areas of data storage.
    fn place(&self, block: usize) -> u64 {
        let (member, area) = &self.areas(Role::Data)[0];
        let wanted = &self.bytes[block * BLOCK..(block + 1) * BLOCK];
        let mut all = vec![0; usize::try_from(area.len).unwrap()];
        member.read_at(area.offset, &mut all).unwrap();
        let found = all.chunks_exact(BLOCK).position(|chunk| chunk == wanted).expect("the block is there");
        (found * BLOCK) as u64
    }

    /// Returns a block of a copy of data storage.
    fn raw(&self, copy: usize, place: u64) -> Vec<u8> {
        let (member, area) = &self.areas(Role::Data)[copy];
        let mut block = vec![0; BLOCK];
        member.read_at(area.offset + place, &mut block).unwrap();
        block
    }

    fn put(&self, copy: usize, place: u64, block: &[u8]) {
        let (member, area) = &self.areas(Role::Data)[copy];
        member.write_at(area.offset + place, block).unwrap();
    }

    fn flip(&self, copy: usize, block: usize) {
        let place = self.place(block);
        let mut bytes = self.raw(copy, place);
        bytes[1000] ^= 4;
        self.put(copy, place, &bytes);
    }

    /// Flips a bit of a checksum in a copy of control storage.
    fn flip_sum(&self, copy: usize, place: u64) {
        let layout = Layout::of(&read_label(&*self.members[0]).unwrap().unwrap()).unwrap();
        let (member, area) = &self.areas(Role::Control)[copy];
        let first = u64::try_from(BLOCK).unwrap() * u64::from(layout.parameters.track_blocks);
        let block = place / BLOCK as u64 - first / BLOCK as u64;
        let at = area.offset + layout.sum_page_at(0) + block / 124 * 512;
        let mut sector = [0; 512];
        member.read_at(at, &mut sector).unwrap();
        assert_eq!(&sector[..4], b"MSum");
        sector[usize::try_from(16 + block % 124 * 4).unwrap()] ^= 1;
        member.write_at(at, &sector).unwrap();
    }

    /// Reads the file block by block; none for a block that cannot be read.
    fn read(fs: &Mfs) -> Vec<Option<Vec<u8>>> {
        let ino = lookup(fs);
        let mut read = |n: usize| {
            let mut block = vec![0; BLOCK];
            fs.read(ino, (n * BLOCK) as u64, &mut block).ok().map(|_| block)
        };
        let blocks = (0..BLOCKS).map(&mut read).collect();
        fs.forget(ino, 1);
        blocks
    }

    /// Checks that all blocks but `lost` are returned as they were written, and these not at all.
    #[track_caller]
    fn expect(&self, fs: &Mfs, lost: &[usize]) {
        for (n, block) in Self::read(fs).into_iter().enumerate() {
            let wanted = (!lost.contains(&n)).then(|| self.bytes[n * BLOCK..(n + 1) * BLOCK].to_vec());
            assert!(block == wanted, "block {n}");
        }
    }

    fn findings(&self) -> Vec<String> {
        let report = check(&self.set(), 100, &mut |_| ()).unwrap();
        report.findings.iter().map(ToString::to_string).collect()
    }
}

/// Promise: with two copies the right one is returned, whichever is damaged, and the wrong one is
/// mended; a scrub mends those that were not read.
#[test]
fn the_right_copy_is_returned_and_the_wrong_one_mended() {
    let victim = Victim::new(2);
    let places: Vec<_> = (0..BLOCKS).map(|n| victim.place(n)).collect();
    (0..BLOCKS).for_each(|n| victim.flip(n % 2, n));
    let fs = victim.open();
    victim.expect(&fs, &[]);
    fs.unmount().unwrap();
    drop(fs);
    assert!(victim.findings().is_empty());
    let found = victim.set().scrub(&mut |_| Ok(())).unwrap();
    assert!(found.wrong.is_empty());
    for (n, &place) in places.iter().enumerate() {
        let wanted = &victim.bytes[n * BLOCK..(n + 1) * BLOCK];
        assert!((0..2).all(|copy| victim.raw(copy, place) == wanted), "block {n}");
    }
    assert_eq!(victim.set().scrub(&mut |_| Ok(())).unwrap().differed, 0);
    // What nobody reads is mended by the scrub alone, also if the first copy is wrong.
    (0..BLOCKS).for_each(|n| victim.flip(n % 2, n));
    assert!(victim.set().scrub(&mut |_| Ok(())).unwrap().differed > 0);
    for (n, &place) in places.iter().enumerate() {
        let wanted = &victim.bytes[n * BLOCK..(n + 1) * BLOCK];
        assert!((0..2).all(|copy| victim.raw(copy, place) == wanted), "block {n}");
    }
}

/// Promise: a scrub of a mounted set does the same, also while what was written is not durable yet.
#[test]
fn a_mounted_set_is_scrubbed() {
    let victim = Victim::new(2);
    let places: Vec<_> = (0..BLOCKS).map(|n| victim.place(n)).collect();
    let set = victim.set();
    let fs = Mfs::open(&set, clock(), &OpenOptions::default()).unwrap();
    let ino = lookup(&fs);
    (0..BLOCKS).for_each(|n| victim.flip(n % 2, n));
    let new = pattern(7, 10);
    assert_eq!(fs.write(ino, 0, &new, BY).unwrap(), new.len());
    let found = set.scrub(&mut |_| Ok(())).unwrap();
    assert!(found.wrong.is_empty(), "{found:?}");
    assert!(found.differed > 0);
    for (n, &place) in places.iter().enumerate().skip(10) {
        let wanted = &victim.bytes[n * BLOCK..(n + 1) * BLOCK];
        assert!((0..2).all(|copy| victim.raw(copy, place) == wanted), "block {n}");
    }
    fs.unmount().unwrap();
    drop((fs, set));
    assert!(victim.findings().is_empty());
}

/// Promise: a block that is damaged in both copies, in different places, is not returned.
#[test]
fn two_wrong_copies_are_refused() {
    let victim = Victim::new(2);
    let place = victim.place(4);
    for copy in 0..2 {
        let mut block = victim.raw(copy, place);
        block[7 + copy] ^= 1;
        victim.put(copy, place, &block);
    }
    let fs = victim.open();
    victim.expect(&fs, &[4]);
    fs.unmount().unwrap();
    drop(fs);
    let found = victim.set().scrub(&mut |_| Ok(())).unwrap();
    assert_eq!(found.wrong.len(), 1);
    assert_eq!(victim.findings().len(), 1);
}

/// Promise: a block whose only copy is damaged is not returned, and all others are; the check and
/// the scrub name it, writing a part of it is refused, and writing all of it cures it.
#[test]
fn the_only_copy_is_refused() {
    let victim = Victim::new(1);
    victim.flip(0, 7);
    let fs = victim.open();
    victim.expect(&fs, &[7]);
    fs.unmount().unwrap();
    drop(fs);
    assert_eq!(victim.findings(), [format!("CHECKSUM OF DATA WRONG I=3 OFFSET={} (/file)", 7 * BLOCK)]);
    assert_eq!(victim.set().scrub(&mut |_| Ok(())).unwrap().wrong.len(), 1);
    // A repair cannot bring it back, and the set stays usable.
    let repaired = repair(&victim.set(), &*clock(), false, 100, &mut |_| ()).unwrap();
    assert_eq!((repaired.after.damages, repaired.after.marked_clean), (1, true));
    let fs = victim.open();
    let ino = lookup(&fs);
    assert!(fs.write(ino, (7 * BLOCK + 5) as u64, b"part", BY).is_err());
    victim.expect(&fs, &[7]);
    let whole = &victim.bytes[7 * BLOCK..8 * BLOCK];
    assert_eq!(fs.write(ino, (7 * BLOCK) as u64, whole, BY).unwrap(), BLOCK);
    victim.expect(&fs, &[]);
    fs.unmount().unwrap();
    drop(fs);
    assert!(victim.findings().is_empty());
}

/// Promise: a write that fails halfway, because a block that it keeps a part of is damaged, leaves
/// the blocks before it readable, also those that were written in their places.
#[test]
fn a_write_that_fails_halfway() {
    let victim = Victim::new(1);
    victim.flip(0, 7);
    let fs = victim.open();
    let ino = lookup(&fs);
    let write = |block: usize, bytes: &[u8]| fs.write(ino, (block * BLOCK) as u64, bytes, BY);
    // It moves now, and is written in its new place then.
    assert_eq!(write(6, &[1; BLOCK]).unwrap(), BLOCK);
    assert!(write(6, &[2; BLOCK + 100]).is_err());
    let check = |fs: &Mfs| {
        for (n, block) in Victim::read(fs).into_iter().enumerate() {
            match n {
                6 => assert!(block == Some(vec![1; BLOCK]) || block == Some(vec![2; BLOCK])),
                7 => assert!(block.is_none()),
                _ => assert!(block.unwrap() == victim.bytes[n * BLOCK..(n + 1) * BLOCK], "block {n}"),
            }
        }
    };
    check(&fs);
    fs.unmount().unwrap();
    drop(fs);
    check(&victim.open());
    assert_eq!(victim.findings().iter().filter(|found| found.contains("CHECKSUM")).count(), 1);
}

/// Promise: a block to which a write was lost, so that it has what was there before, and one that
/// got what belongs elsewhere, are noticed.
#[test]
fn lost_and_misdirected_writes_are_noticed() {
    let mut victim = Victim::new(1);
    // The former data of the places that the new data gets.
    let (member, area) = victim.areas(Role::Data).remove(0);
    let mut former = vec![0; usize::try_from(area.len).unwrap()];
    for round in 1..4 {
        member.read_at(area.offset, &mut former).unwrap();
        let fs = victim.open();
        let ino = lookup(&fs);
        victim.bytes = pattern(round, BLOCKS);
        assert_eq!(fs.write(ino, 0, &victim.bytes, BY).unwrap(), victim.bytes.len());
        fs.unmount().unwrap();
    }
    let lost = victim.place(3);
    let at = usize::try_from(lost).unwrap();
    assert!(former[at..at + BLOCK].iter().any(|byte| *byte != 0), "something else was there");
    victim.put(0, lost, &former[at..at + BLOCK]);
    let (from, to) = (victim.place(20), victim.place(21));
    victim.put(0, to, &victim.raw(0, from));
    let fs = victim.open();
    victim.expect(&fs, &[3, 21]);
    fs.unmount().unwrap();
}

/// Promise: a damaged checksum is read from the other copy of control storage; without one, its
/// blocks are refused until a repair makes it anew of the data.
#[test]
fn a_damaged_checksum() {
    let victim = Victim::new(2);
    victim.flip_sum(0, victim.place(5));
    let fs = victim.open();
    victim.expect(&fs, &[]);
    fs.unmount().unwrap();
    drop(fs);
    victim.set().scrub(&mut |_| Ok(())).unwrap();
    assert!(victim.findings().is_empty());
    let place = victim.place(5);
    (0..2).for_each(|copy| victim.flip_sum(copy, place));
    let fs = victim.open();
    assert!(Victim::read(&fs)[5].is_none());
    fs.unmount().unwrap();
    drop(fs);
    let before = check(&victim.set(), 100, &mut |_| ()).unwrap();
    let is_sums = |finding: &Finding| matches!(finding, Finding::Sums { .. });
    assert!(before.findings.iter().any(|found| is_sums(&found.finding)), "{:?}", victim.findings());
    let repaired = repair(&victim.set(), &*clock(), false, 100, &mut |_| ()).unwrap();
    assert!(repaired.after.is_clean(), "{:?}", repaired.after.findings);
    let fs = victim.open();
    victim.expect(&fs, &[]);
    fs.unmount().unwrap();
}

/// Promise: a repair that gives a file copies of blocks that another file has gives them their
/// checksums, and what was damaged in them stays refused.
#[test]
fn copies_of_a_repair_have_checksums() {
    const FILE: u64 = 3;
    let victim = Victim::new(1);
    let fs = victim.open();
    let other = fs.create(fs.root(), b"other", &NewNode::new(FileKind::Regular, 0o644), BY).unwrap().ino;
    assert_eq!(fs.write(other, 0, &pattern(5, BLOCKS), BY).unwrap(), BLOCKS * BLOCK);
    fs.unmount().unwrap();
    drop(fs);
    // The only extent of the one becomes that of the other.
    let (member, area) = victim.areas(Role::Control).remove(0);
    let layout = Layout::of(&read_label(&*victim.members[0]).unwrap().unwrap()).unwrap();
    let header = |ino| {
        let (at, within) = layout.header_at(ino).unwrap();
        let mut bytes = [0; 512];
        let at = area.offset + at + within as u64;
        member.read_at(at, &mut bytes).unwrap();
        (at, bytes)
    };
    let ((_, first), (at, mut second)) = (header(FILE), header(other.0));
    second[120..136].copy_from_slice(&first[120..136]);
    second[508..].fill(0);
    let sum = crc32c::crc32c(&second);
    second[508..].copy_from_slice(&sum.to_le_bytes());
    member.write_at(at, &second).unwrap();
    victim.flip(0, 9);
    let repaired = repair(&victim.set(), &*clock(), false, 100, &mut |_| ()).unwrap();
    assert!(repaired.changed);
    // The damaged block, in both files.
    assert_eq!(repaired.after.damages, 2, "{:?}", victim.findings());
    let fs = victim.open();
    victim.expect(&fs, &[9]);
    let ino = fs.lookup(fs.root(), b"other").unwrap().ino;
    for n in 0..BLOCKS {
        let mut block = vec![0; BLOCK];
        let read = fs.read(ino, (n * BLOCK) as u64, &mut block);
        assert_eq!(read.is_ok(), n != 9, "block {n}");
        assert!(n == 9 || block == victim.bytes[n * BLOCK..(n + 1) * BLOCK], "block {n}");
    }
    fs.unmount().unwrap();
}

/// Promise: a member that takes the place of another gets what is right, not what the copy that is
/// read first has.
#[test]
fn a_new_copy_gets_what_is_right() {
    let victim = Victim::new(2);
    let places: Vec<_> = (0..BLOCKS).map(|n| victim.place(n)).collect();
    (0..BLOCKS).for_each(|n| victim.flip(n % 2, n));
    let new = Arc::new(MemoryDevice::new(4 << 20));
    let device: Arc<dyn Device> = new.clone();
    let set = victim.set();
    set.begin_change(spindle_clock::Timestamp::new(2_000_000_000, 0)).unwrap();
    set.add(Role::Data, 0, &device, [9; 16], &mut |_| Ok(())).unwrap();
    let label = set.label_now();
    let area = label.areas.iter().find(|area| area.member_id == [9; 16]).unwrap();
    for (n, &place) in places.iter().enumerate() {
        let mut block = vec![0; BLOCK];
        new.read_at(area.offset + place, &mut block).unwrap();
        assert!(block == victim.bytes[n * BLOCK..(n + 1) * BLOCK], "block {n}");
    }
}

/// Bytes of a block of the class `large`.
const LARGE: usize = 16 << 10;

/// Returns the members of a set with a second class of data: its first part has one copy, its
/// second one two.
fn with_classes() -> Victim {
    let data = |class, part| NewArea { class, part: Some(part), ..NewArea::of(Role::Data) };
    let areas =
        [NewArea::of(Role::Control), data(0, 0), data(1, 1), data(1, 2), data(1, 2), NewArea::of(Role::Log)];
    let members: Vec<_> = areas.iter().map(|_| Arc::new(MemoryDevice::new(4 << 20))).collect();
    let new: Vec<_> = members
        .iter()
        .zip(areas)
        .map(|(device, area)| Member { device: device.clone(), areas: vec![area] })
        .collect();
    let mut wishes = Wishes::new();
    wishes.parameters.cylinder_bytes = 64 << 10;
    wishes.parameters.track_blocks = 8;
    wishes.parameters.checksums = true;
    let structure = Structure { block_bytes: 16 << 10, track_blocks: 8, stripe_bytes: 32 << 10 };
    wishes.classes = vec![Class { name: "large".parse().unwrap(), structure }];
    make(&new, &wishes, &*clock(), &mut StdRng::seed_from_u64(1)).unwrap();
    Victim { set: MemorySet { members }, bytes: pattern(0, BLOCKS) }
}

/// Makes a file of the class `large`.
fn create_large(fs: &Mfs) -> Ino {
    let ino = fs.create(fs.root(), b"large", &NewNode::new(FileKind::Regular, 0o644), BY).unwrap().ino;
    fs.setxattr(ino, b"user.spindle.class", b"large", XattrMode::Set, BY).unwrap();
    ino
}

/// Promise: each class of data has its own checksums: what is damaged in one is refused or mended
/// there, and a sector of the table that is damaged takes nothing of another class.
#[test]
fn classes_have_their_checksums() {
    let victim = with_classes();
    let mut bytes = vec![0; 24 * LARGE];
    StdRng::seed_from_u64(3).fill(&mut bytes[..]);
    let fs = victim.open();
    let ino = fs.create(fs.root(), b"file", &NewNode::new(FileKind::Regular, 0o644), BY).unwrap().ino;
    assert_eq!(fs.write(ino, 0, &victim.bytes, BY).unwrap(), victim.bytes.len());
    assert_eq!(fs.write(create_large(&fs), 0, &bytes, BY).unwrap(), bytes.len());
    fs.unmount().unwrap();
    drop(fs);
    let areas = victim.areas(Role::Data);
    let flip = |area: usize, wanted: &[u8]| {
        let (member, area) = &areas[area];
        let mut all = vec![0; usize::try_from(area.len).unwrap()];
        member.read_at(area.offset, &mut all).unwrap();
        let found = all.chunks_exact(wanted.len()).position(|chunk| chunk == wanted)?;
        let mut block = wanted.to_vec();
        block[9000 % wanted.len()] ^= 1;
        member.write_at(area.offset + (found * wanted.len()) as u64, &block).unwrap();
        Some(())
    };
    // All blocks of the part with two copies are damaged in one of them, and one of the other part.
    let blocks = || bytes.chunks_exact(LARGE).enumerate();
    let mirrored: Vec<_> = blocks().filter(|(n, b)| flip(2 + n % 2, b).is_some()).map(|(n, _)| n).collect();
    let lost = blocks().filter(|(n, _)| !mirrored.contains(n)).nth(5).unwrap();
    flip(1, lost.1).unwrap();
    flip(0, &victim.bytes[7 * BLOCK..8 * BLOCK]).unwrap();
    assert_eq!(mirrored.len(), 12);
    let damage = [
        format!("CHECKSUM OF DATA WRONG I=3 OFFSET={} (/file)", 7 * BLOCK),
        format!("CHECKSUM OF DATA WRONG I=4 OFFSET={} (/large)", lost.0 * LARGE),
    ];
    assert_eq!(victim.findings(), damage);
    let expect_large = |fs: &Mfs| {
        let ino = fs.lookup(fs.root(), b"large").unwrap().ino;
        for (n, wanted) in blocks() {
            let mut block = vec![0; LARGE];
            let read = fs.read(ino, (n * LARGE) as u64, &mut block);
            assert!(if n == lost.0 { read.is_err() } else { read.is_ok() && block == wanted }, "block {n}");
        }
    };
    let fs = victim.open();
    victim.expect(&fs, &[7]);
    expect_large(&fs);
    fs.unmount().unwrap();
    drop(fs);
    assert_eq!(victim.set().scrub(&mut |_| Ok(())).unwrap().wrong.len(), 2);
    // All are mended, so the other copy may fail now.
    for (n, block) in blocks().filter(|(n, _)| mirrored.contains(n)) {
        flip(3 - n % 2, block).unwrap();
    }
    expect_large(&victim.open());
    // The sector behind those of the first class is the first one of the second.
    let layout = Layout::of(&read_label(&*victim.members[0]).unwrap().unwrap()).unwrap();
    let (member, area) = victim.areas(Role::Control).remove(0);
    let sector = layout.class(0).blocks().div_ceil(124);
    let (page, within) = layout.sum_sector_at(sector);
    member.write_at(area.offset + page + within as u64, &[0; 512]).unwrap();
    let fs = victim.open();
    victim.expect(&fs, &[7]);
    let ino = fs.lookup(fs.root(), b"large").unwrap().ino;
    assert!((0..24).all(|n| fs.read(ino, n * LARGE as u64, &mut [0; 100]).is_err()));
    fs.unmount().unwrap();
    drop(fs);
    let before = victim.findings();
    let taken = format!("CHECKSUMS OF 24 BLOCKS LOST: SECTOR {sector} OF THE TABLE IS DAMAGED");
    assert!(before.contains(&taken), "{before:?}");
    repair(&victim.set(), &*clock(), false, 100, &mut |_| ()).unwrap();
    assert_eq!(victim.findings(), damage[..1], "the sums of the second class are those of its data now");
}

/// Promise: a block that comes to its device in pieces, because other classes have smaller blocks,
/// can be read and overwritten at any time, and has its checksum when it is durable.
#[test]
fn large_blocks_are_written_in_pieces() {
    const BYTES: usize = 40 * LARGE;
    let seed = spindle_conformance::random::seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test checksums large_blocks_are_written");
    let mut rng = StdRng::seed_from_u64(seed);
    let victim = with_classes();
    let mut options = OpenOptions::default();
    options.cache.data.keep = false;
    options.cache.data.cluster_bytes = Some(3 * BLOCK);
    options.cache.data.capacity_bytes = 64 << 10;
    options.cache.data.straight_bytes = None;
    let fs = Mfs::open(&victim.set(), clock(), &options).unwrap();
    let ino = create_large(&fs);
    let mut bytes = vec![0; BYTES];
    assert_eq!(fs.write(ino, 0, &bytes, BY).unwrap(), BYTES);
    for _ in 0..600 {
        let at = rng.random_range(0..BYTES - 1);
        let most = [100, 5000, 40_000][rng.random_range(0..3)];
        let len = rng.random_range(1..=most.min(BYTES - at));
        if rng.random_range(0..3) == 0 {
            let mut found = vec![0; len];
            assert_eq!(fs.read(ino, at as u64, &mut found).unwrap(), len);
            assert!(found == bytes[at..at + len], "{len} at {at}");
        } else {
            rng.fill(&mut bytes[at..at + len]);
            assert_eq!(fs.write(ino, at as u64, &bytes[at..at + len], BY).unwrap(), len);
        }
        if rng.random_range(0..40) == 0 {
            fs.sync().unwrap();
        }
    }
    fs.unmount().unwrap();
    drop(fs);
    assert!(victim.findings().is_empty());
    let fs = victim.open();
    let mut found = vec![0; BYTES];
    assert_eq!(fs.read(fs.lookup(fs.root(), b"large").unwrap().ino, 0, &mut found).unwrap(), BYTES);
    assert!(found == bytes);
}
