//! Copies of control and log storage, and of the allocation map: one that is damaged without an
//! error costs nothing while another is whole.

mod support;

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::Timestamp;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::{Finding, check, repair};
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Mfs, OpenOptions, Role, Set, read_label};
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege};
use std::ops::Deref;
use std::sync::Arc;
use support::{MemorySet, clock};

const BY: Privilege = Privilege::Root;
/// Files of the set, half of them too long for their headers.
const FILES: usize = 150;

struct Victim(MemorySet);

impl Deref for Victim {
    type Target = MemorySet;
    fn deref(&self) -> &MemorySet {
        &self.0
    }
}

fn contents(n: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at + n * 7) % 251).unwrap();
    (0..if n.is_multiple_of(2) { 100 } else { 9000 }).map(byte).collect()
}

impl Victim {
    /// Makes a set with two copies of everything, and files.
    fn new(checksums: bool) -> Self {
        let roles = [Role::Control, Role::Data, Role::Log].into_iter().flat_map(|role| [role; 2]);
        let victim = Self(MemorySet::new(&roles.collect::<Vec<_>>(), checksums));
        let fs = victim.open();
        for n in 0..FILES {
            write(&fs, n);
        }
        fs.unmount().unwrap();
        victim
    }

    /// Returns the bytes of a copy.
    fn bytes(&self, role: Role, copy: usize) -> Vec<u8> {
        let (member, area) = &self.areas(role)[copy];
        let mut bytes = vec![0; usize::try_from(area.len).unwrap()];
        member.read_at(area.offset, &mut bytes).unwrap();
        bytes
    }

    /// Damages the sector at each multiple of `step` of a copy, with these bytes.
    fn damage(&self, role: Role, copy: usize, (first, step): (u64, usize), byte: u8) {
        let (member, area) = &self.areas(role)[copy];
        for at in (first..area.len).step_by(step) {
            member.write_at(area.offset + at, &[byte; 512]).unwrap();
        }
    }

    #[track_caller]
    fn is_clean(&self) {
        let report = check(&self.set(), 100, &mut |_| ()).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }
}

fn write(fs: &Mfs, n: usize) {
    let name = format!("file{n}");
    let node = NewNode::new(FileKind::Regular, 0o644);
    let ino = fs.create(fs.root(), name.as_bytes(), &node, BY).unwrap().ino;
    assert_eq!(fs.write(ino, 0, &contents(n), BY).unwrap(), contents(n).len());
    fs.forget(ino, 1);
}

#[track_caller]
fn expect(fs: &Mfs, files: usize) {
    for n in 0..files {
        let ino = fs.lookup(fs.root(), format!("file{n}").as_bytes()).unwrap().ino;
        let mut found = vec![0; contents(n).len()];
        fs.read(ino, 0, &mut found).unwrap();
        assert!(found == contents(n), "file{n}");
        fs.forget(ino, 1);
    }
}

/// Where copies of control storage are damaged: the descriptions of cylinders, the first header or
/// node of each, and others.
const PLACES: [(u64, usize); 3] = [(0, 64 << 10), (4096, 4096), (1536, 2560)];

/// Promise: whichever copy of control storage is damaged, with whatever bytes, the check finds only
/// that, a mount returns everything and can be written, and a scrub or a repair brings back the
/// damaged copy as it was and leaves the other.
#[test]
fn control_storage_is_read_from_the_whole_copy() {
    for checksums in [false, true] {
        let victim = Victim::new(checksums);
        for (n, place) in PLACES.into_iter().enumerate() {
            for copy in 0..2 {
                for byte in [0xee, 0] {
                    let before = [0, 1].map(|copy| victim.bytes(Role::Control, copy));
                    assert!(before[0] == before[1]);
                    victim.damage(Role::Control, copy, place, byte);
                    let report = check(&victim.set(), 100, &mut |_| ()).unwrap();
                    let listed = report.findings.iter().map(|found| &found.finding);
                    assert!(listed.eq([&Finding::Copies {}]), "{:?}", report.findings);
                    let found = victim.set().scrub(&mut |_| Ok(())).unwrap();
                    assert!(found.differed > 0 && found.wrong.is_empty(), "{found:?}");
                    let after = [0, 1].map(|copy| victim.bytes(Role::Control, copy));
                    assert!(after[0] == after[1]);
                    victim.is_clean();
                    victim.damage(Role::Control, copy, place, byte);
                    let repaired = repair(&victim.set(), &*clock(), false, 100, &mut |_| ()).unwrap();
                    assert!(repaired.changed && repaired.after.is_clean());
                    assert!(repaired.before.damages == 1 && repaired.before.serious == 0);
                    assert!(matches!(repaired.before.findings[0].finding, Finding::Copies {}));
                    assert!(victim.bytes(Role::Control, 0) == victim.bytes(Role::Control, 1));
                    let fs = victim.open();
                    expect(&fs, FILES);
                    write(&fs, FILES + 4 * n + 2 * copy + usize::from(byte == 0));
                    fs.unmount().unwrap();
                    drop(fs);
                    victim.is_clean();
                    victim.set().scrub(&mut |_| Ok(())).unwrap();
                }
            }
        }
        expect(&victim.open(), FILES);
    }
}

/// Promise: places of control storage that were never used may hold anything. The check finds
/// nothing, and a scrub makes them equal without a word.
#[test]
fn unused_control_storage_does_not_count() {
    const BLOCK: usize = 8192;
    for checksums in [false, true] {
        let victim = Victim::new(checksums);
        let areas = victim.areas(Role::Control);
        let used = victim.bytes(Role::Control, 0);
        // What lies in the middle of zeros is not the rest of a structure either.
        let zeros = |at: &usize| used[at - BLOCK..at + 2 * BLOCK].iter().all(|&byte| byte == 0);
        let mut unused = (BLOCK..used.len() - 2 * BLOCK).step_by(BLOCK).filter(zeros);
        let (first, last) = (unused.next().unwrap() as u64, unused.next_back().unwrap() as u64);
        for (byte, (member, area)) in [0xdd, 0xee].into_iter().zip(&areas) {
            for at in [first, last] {
                member.write_at(area.offset + at, &[byte; BLOCK]).unwrap();
            }
        }
        victim.is_clean();
        let found = victim.set().scrub(&mut |_| Ok(())).unwrap();
        assert_eq!((found.differed, found.undecided), (0, 0));
        assert!(victim.bytes(Role::Control, 0) == victim.bytes(Role::Control, 1));
        expect(&victim.open(), FILES);
    }
}

/// Promise: what a mount reads from a copy that is damaged is mended there at once.
#[test]
fn a_mount_mends_what_it_reads() {
    let victim = Victim::new(false);
    let before = victim.bytes(Role::Control, 0);
    let areas = victim.areas(Role::Control);
    let damaged = || {
        let copies = [0, 1].map(|copy| victim.bytes(Role::Control, copy));
        let differs = |copy: &Vec<u8>| {
            let sectors = copy.chunks_exact(512).zip(before.chunks_exact(512));
            sectors.filter(|(now, before)| before.starts_with(b"MNam") && now != before).count()
        };
        copies.iter().map(differs).sum::<usize>()
    };
    let nodes = before.chunks_exact(512).enumerate().filter(|(_, sector)| sector.starts_with(b"MNam"));
    // Each is damaged in one copy, so some are in the copy that is read.
    for (n, (at, _)) in nodes.enumerate() {
        let (member, area) = &areas[n % 2];
        member.write_at(area.offset + at as u64 * 512, &[0xee; 512]).unwrap();
    }
    let all = damaged();
    let fs = victim.open();
    expect(&fs, FILES);
    fs.unmount().unwrap();
    drop(fs);
    assert!(damaged() < all, "{} of {all}", damaged());
    victim.set().scrub(&mut |_| Ok(())).unwrap();
    assert_eq!(damaged(), 0);
}

/// Promise: after a crash a scrub makes equal what the crash explains, without a fault: data and
/// the log. What is used of control storage, and the allocation map, count as before; and so does
/// everything when there was no crash since the last scrub. What is not used of control storage
/// never counts, and a repair says nothing of it either.
#[test]
fn a_crash_excuses_only_what_it_explains() {
    let victim = Victim::new(false);
    let crash = |n: usize| {
        let fs = victim.open();
        write(&fs, FILES + n);
        fs.sync().unwrap();
        // Its power is cut.
        drop(fs);
        victim.open().unmount().unwrap();
        assert!(victim.set().label.unequal);
    };
    let last_cylinder = (victim.areas(Role::Control)[1].1.len >> 16) - 1;
    let unused = (last_cylinder << 16) + 8192;
    // Whether it is a fault after a crash, and without one.
    let places = [
        (Role::Data, 1 << 20, (false, true)),
        (Role::Log, 1 << 20, (false, true)),
        (Role::Control, unused, (false, false)),
        (Role::Data, 0, (true, true)),
        (Role::Control, 0, (true, true)),
        (Role::Control, last_cylinder << 16, (true, true)),
    ];
    for (n, (role, at, faults)) in places.into_iter().enumerate() {
        for crashed in [true, false] {
            let what = format!("{role}, byte {at}, crashed: {crashed}");
            if crashed {
                crash(n);
            }
            victim.damage(role, 1, (at, 64 << 20), 0xee);
            if crashed && role == Role::Control {
                let repaired = repair(&victim.set(), &*clock(), false, 100, &mut |_| ()).unwrap();
                assert_eq!(repaired.changed, faults.0, "{what}");
                victim.damage(role, 1, (at, 64 << 20), 0xee);
            }
            let found = victim.set().scrub(&mut |_| Ok(())).unwrap();
            let is_fault = if crashed { faults.0 } else { faults.1 };
            let is_explained = crashed && faults == (false, true);
            assert_eq!(found.differed, u64::from(is_fault), "{what}: {found:?}");
            assert_eq!(found.unclean, if is_explained { 512 } else { 0 }, "{what}: {found:?}");
            assert!(!victim.set().label.unequal, "{what}");
            for role in [Role::Control, Role::Data, Role::Log] {
                assert!(victim.bytes(role, 0) == victim.bytes(role, 1), "{what}");
            }
        }
    }
    expect(&victim.open(), FILES);
}

/// Promise: the same of pages of the allocation map.
#[test]
fn pages_of_the_map_are_read_from_the_whole_copy() {
    for copy in 0..2 {
        let victim = Victim::new(false);
        victim.damage(Role::Data, copy, (512, 64 << 20), 0xee);
        victim.is_clean();
        let fs = victim.open();
        write(&fs, FILES + 1);
        expect(&fs, FILES);
        fs.unmount().unwrap();
        drop(fs);
        victim.is_clean();
        victim.damage(Role::Data, copy, (512, 64 << 20), 0);
        victim.set().scrub(&mut |_| Ok(())).unwrap();
        let page = |copy| victim.bytes(Role::Data, copy)[..4096].to_vec();
        assert!(page(0) == page(1) && page(0).starts_with(b"MMap"));
        victim.is_clean();
    }
}

/// Promise: after a crash everything that was synced is there, though one copy of the log has
/// damaged headers, or a damaged record in its midst; and a second crash, in the replay, without
/// the whole copy, changes nothing about that.
#[test]
fn the_log_is_replayed_from_the_whole_copy() {
    for copy in 0..2 {
        for places in [&[0, 4096][..], &[8192], &[8192 + 512, 24576, 65536], &[0, 4096, 8192, 16384]] {
            let victim = Victim::new(false);
            let fs = victim.open();
            for n in 0..20 {
                write(&fs, FILES + n);
                fs.sync().unwrap();
            }
            // Its power is cut.
            drop(fs);
            let (member, area) = &victim.areas(Role::Log)[copy];
            for at in places {
                member.write_at(area.offset + at, &[0xee; 512]).unwrap();
            }
            let fs = victim.open();
            assert!(fs.replayed_sectors().unwrap() > 0);
            expect(&fs, FILES + 20);
            fs.unmount().unwrap();
            drop(fs);
            victim.is_clean();
        }
    }
}

/// Promise: a change of the members, a repair and a check are refused while the only copy of a part
/// of data storage is away, and when it is back it is used as before.
#[test]
fn the_only_copy_that_is_away_is_not_given_up() {
    let roles = [Role::Control, Role::Control, Role::Data, Role::Data, Role::Log];
    let members: Vec<_> = roles.iter().map(|_| Arc::new(MemoryDevice::new(4 << 20))).collect();
    let parts = [0, 0, 0, 1, 0];
    let area = |n: usize| vec![NewArea { part: Some(parts[n]), ..NewArea::of(roles[n]) }];
    let new: Vec<_> = (0..5).map(|n| Member { device: members[n].clone(), areas: area(n) }).collect();
    make(&new, &Wishes::new(), &*clock(), &mut StdRng::seed_from_u64(1)).unwrap();
    let victim = Victim(MemorySet { members });
    let fs = victim.open();
    (0..FILES).for_each(|n| write(&fs, n));
    fs.unmount().unwrap();
    drop(fs);
    let before: Vec<_> = victim.members.iter().map(|member| member.to_bytes()).collect();
    let left = [0, 1, 2, 4].map(|n| victim.members[n].clone() as Arc<dyn Device>);
    let set = || Set::open(&left).unwrap();
    assert!(set().begin_change(Timestamp::new(2_000_000_000, 0)).is_err());
    assert!(set().scrub(&mut |_| Ok(())).is_err());
    assert!(check(&set(), 100, &mut |_| ()).is_err());
    for harmless_only in [true, false] {
        assert!(repair(&set(), &*clock(), harmless_only, 100, &mut |_| ()).is_err());
    }
    assert!(victim.members.iter().zip(before).all(|(member, before)| member.to_bytes() == before));
    expect(&victim.open(), FILES);
}

/// Promise: a member that is left out of a mounted set is not held open, whether the set began with
/// it or it was added since.
#[test]
fn a_member_that_is_left_out_is_closed() {
    let victim = Victim::new(false);
    let set = victim.set();
    let fs = Mfs::open(&set, clock(), &OpenOptions::default()).unwrap();
    expect(&fs, FILES);
    for (n, role) in [Role::Control, Role::Data, Role::Log].into_iter().enumerate() {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(8 << 20));
        let added = Arc::downgrade(&device);
        set.add(role, 0, &device, [9; 16], &mut |_| Ok(())).unwrap();
        drop(device);
        write(&fs, FILES + n);
        set.remove([9; 16]).unwrap();
        assert!(added.upgrade().is_none(), "{role}");
        let first = &victim.members[2 * n];
        set.remove(read_label(&**first).unwrap().unwrap().member_id).unwrap();
        assert_eq!(Arc::strong_count(first), 1, "{role}");
    }
    fs.unmount().unwrap();
}
