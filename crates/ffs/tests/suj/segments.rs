//! Which segments of a journal count, and which journals are not believed at all.

use crate::builder::{Crashed, KINDS, MOUNTED, Rec, Segment, add, block, planned, recover, refused, remove};
use crate::victim::tree;
use spindle_device::Device;
use spindle_ffs::ondisk::{flags, jop};

/// Returns a file system of each kind in which the name of `d/f3` has left the disk, with the
/// record of that.
fn without_name() -> Vec<(Crashed, Rec)> {
    let case = |kind| {
        let mut crashed = Crashed::new(kind);
        let (ino, dir, at) = crashed.name("d/f3");
        crashed.unname("d/f3");
        (crashed, remove(ino, dir, at))
    };
    KINDS.map(case).into()
}

/// A record with which no journal would be used.
const UNKNOWN: Rec = Rec::Unknown(99);

fn recovers(crashed: &Crashed, records: usize) {
    let device = crashed.device();
    assert_eq!(planned(&device).records, records);
    recover(&device);
    assert!(!tree(&device).contains_key("/d/f3"));
}

/// Promise: segments are found on disks with sectors of every size, whatever an image says; those
/// that are larger than a sector, too.
#[test]
fn sectors_of_every_size() {
    for sector in [512, 1024, 2048, 4096] {
        for (mut crashed, record) in without_name() {
            if sector > crashed.image.layout().fs_fsize as usize {
                continue;
            }
            let (ino, _, _) = crashed.name("large");
            let other = block(jop::NEWBLK, ino, crashed.image.block(ino, 3), 3, 1);
            let many: Vec<Rec> = (0..300).map(|_| other).collect();
            let all = [Segment::new(1, &many), Segment::new(2, &[record]), Segment::new(3, &many[..40])];
            crashed.segments(0, sector, &all);
            recovers(&crashed, 341);
        }
    }
}

/// Promise: a journal that has begun again at its start is read in the order of its segments.
#[test]
fn wrapped_journal() {
    for (mut crashed, record) in without_name() {
        let segment = |seq, records: &[Rec]| Segment { oldest: 7, ..Segment::new(seq, records) };
        crashed.segments(0, 512, &[segment(9, &[record]), Segment::new(4, &[UNKNOWN])]);
        let end = crate::builder::BYTES - 1024;
        crashed.segments(end, 512, &[segment(7, &[record]), segment(8, &[record])]);
        recovers(&crashed, 3);
    }
}

/// Promise: segments before the oldest that is not done, those of another mount, those behind a
/// gap, and those of which a sector is missing, do not count.
#[test]
fn segments_that_do_not_count() {
    for (mut crashed, record) in without_name() {
        let segment = |seq, records: &[Rec]| Segment { oldest: 2, ..Segment::new(seq, records) };
        let torn = segment(4, &[UNKNOWN; 40]);
        let other = Segment { time: MOUNTED - 1, ..segment(3, &[UNKNOWN]) };
        let endian = crashed.image.layout().endian;
        let mut bytes = segment(1, &[UNKNOWN]).bytes(512, endian);
        bytes.extend(segment(2, &[record]).bytes(512, endian));
        bytes.extend(segment(3, &[record]).bytes(512, endian));
        let whole = torn.bytes(512, endian);
        bytes.extend(&whole[..512]);
        bytes.extend([0; 512]);
        bytes.extend(&whole[1024..]);
        bytes.extend(other.bytes(512, endian));
        bytes.extend(segment(6, &[UNKNOWN]).bytes(512, endian));
        crashed.put(8192, &bytes);
        recovers(&crashed, 2);
    }
}

/// Promise: a journal that cannot be believed is not followed, and the reason is said: it was
/// written before the last mount, a full check was asked for, segments are missing or there twice,
/// records are of unknown types or name what there is not.
#[test]
fn journals_that_are_not_believed() {
    type Change = fn(&mut Crashed, Rec);
    let changes: [(&str, Change); 12] = [
        ("written since", |c, _| {
            let sb = c.image.sb();
            c.image.put(sb + 1208, MOUNTED + 1);
        }),
        ("full check", |c, _| c.flags(flags::FS_NEEDSFSCK)),
        ("full check", |c, _| c.flags(flags::FS_UNCLEAN)),
        ("as a snapshot", |c, _| c.image.put(c.image.sb() + 1116, 9_u32)),
        ("not one that FreeBSD has made", |c, _| c.names(c.journal, 2)),
        ("bytes", |c, _| c.size(c.journal, 1 << 20)),
        ("holes", |c, _| c.pointer(c.journal, 3, 0)),
        ("oldest", |c, r| c.segments(0, 512, &[Segment::new(2, &[r])])),
        ("two segments", |c, r| c.segments(0, 512, &[Segment::new(1, &[r]), Segment::new(1, &[r])])),
        ("type 99", |c, r| c.records(&[r, UNKNOWN])),
        ("inode", |c, _| c.records(&[add(u32::MAX, 2, 24)])),
        ("fragments", |c, _| c.records(&[block(jop::NEWBLK, 2, 1 << 40, 0, 1)])),
    ];
    for (wanted, change) in changes {
        for (mut crashed, record) in without_name() {
            crashed.records(&[record]);
            change(&mut crashed, record);
            crashed.hash_superblock();
            let reason = refused(&crashed.device());
            assert!(reason.contains(wanted), "{wanted}: {reason}");
        }
    }
}

/// Promise: a journal that does not explain what a check finds is not followed: a file without a
/// name that it does not name, or other damage.
#[test]
fn damage_that_is_not_explained() {
    for (mut crashed, record) in without_name() {
        crashed.records(&[record]);
        crashed.unname("d/f5");
        let reason = refused(&crashed.device());
        assert!(reason.contains("does not explain: UNREF FILE"), "{reason}");
    }
    for (mut crashed, record) in without_name() {
        crashed.records(&[record]);
        let (ino, _, _) = crashed.name("large");
        crashed.pointer(ino, 2, 1);
        let reason = refused(&crashed.device());
        assert!(reason.contains("does not explain"), "{reason}");
    }
}

/// Promise: nothing is written while a recovery is planned.
#[test]
fn planning_writes_nothing() {
    for (mut crashed, record) in without_name() {
        crashed.records(&[record]);
        let device = crashed.device();
        planned(&device);
        assert!(device.to_bytes() == crashed.image.bytes);
        assert!(!device.info().read_only);
    }
}
