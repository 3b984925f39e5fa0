//! What is replayed, and what is not.

use crate::builder::{BY, DIALECTS, IDENT, Logged, Piece, file, planned, recover};
use crate::victim::{Tree, checked, clock, tree};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_conformance::cuts::{Event, Recorder, cut};
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::ondisk::{Delta, FsSun, LufsHead};
use spindle_ffs::repair::{Scope, undo};
use spindle_ffs::{Ffs, Group, GroupMap, OpenOptions, isset};
use spindle_vfs::FileSystem;
use std::sync::Arc;

/// Makes a file, removes one, and writes on one.
fn operations(fs: &Ffs) {
    let dir = fs.lookup(fs.root(), b"d").unwrap().ino;
    file(fs, dir, "new", &vec![0x55; 20_000]);
    fs.unlink(dir, b"f3").unwrap();
    let ino = fs.lookup(dir, b"f4").unwrap().ino;
    fs.write(ino, 0, &[0x66; 100], BY).unwrap();
    fs.forget(ino, 1);
    fs.forget(dir, 1);
}

fn logged() -> [Logged; 2] {
    DIALECTS.map(|dialect| Logged::new(dialect, operations))
}

/// Returns the changes in two transactions.
fn transactions(logged: &Logged) -> Vec<Piece> {
    let mut pieces = logged.changes();
    assert!(pieces.len() > 4);
    pieces.insert(pieces.len() / 2, Piece::Commit);
    pieces.push(Piece::Commit);
    pieces
}

/// Returns the files of the image after the operations.
fn expected(logged: &Logged) -> Tree {
    let after = tree(&MemoryDevice::from_bytes(&logged.after.bytes));
    assert!(after.contains_key("/d/new") && !after.contains_key("/d/f3"));
    after
}

/// Promise: transactions that are committed are replayed, in either order of bytes, wherever in the
/// ring they begin and whether or not they go on at its start; the file system has no log
/// afterwards, and its blocks are free.
#[test]
fn committed_transactions() {
    for logged in logged() {
        let end = logged.end();
        for lof in [1024, 1024 + 100, end - 512, end - 1024 - 30, 4096 + 504 - 8] {
            let mut logged = logged.clone();
            logged.head(lof, IDENT);
            let pieces = transactions(&logged);
            logged.pieces(lof, IDENT, &pieces);
            let device = logged.device();
            assert_eq!(planned(&device).unwrap().records, logged.changes().len());
            recover(&device);
            assert!(tree(&device) == expected(&logged), "from {lof}");
        }
    }
}

/// Promise: what is read of a file system with a log is the state after the replay, and nothing is
/// written for that.
#[test]
fn reading() {
    for mut logged in logged() {
        let pieces = transactions(&logged);
        logged.pieces(1024, IDENT, &pieces);
        let device = logged.device();
        assert!(tree(&device) == expected(&logged));
        assert!(device.to_bytes() == logged.image.bytes);
        let fs = Ffs::open(Arc::new(device), clock(), &OpenOptions::default()).unwrap();
        assert!(fs.read_only());
        assert_eq!(fs.log_at_open().replayed_blocks, Some(logged.changes().len()));
        assert!(fs.read_only_reasons().iter().any(|objection| objection.reason.contains("Solaris log")));
        fs.unmount().unwrap();
    }
}

/// Promise: an empty log, as an unmount leaves it, changes nothing but that it is given up.
#[test]
fn empty_log() {
    for logged in logged() {
        let device = logged.device();
        let before = tree(&device);
        recover(&device);
        assert!(tree(&device) == before);
    }
}

/// Promise: a transaction that is not committed, or of which a sector is missing, has not happened,
/// nor has what is behind it.
#[test]
fn unfinished_transactions() {
    for logged in logged() {
        let before = tree(&logged.device());
        let mut pieces = logged.changes();
        let mut open = logged.clone();
        open.pieces(1024, IDENT, &pieces);
        recover_to(&open, &before);

        pieces.push(Piece::Commit);
        let sectors = logged.clone().pieces(1024, IDENT, &pieces);
        for lost in [0, 1, sectors / 2, sectors - 1] {
            let mut torn = logged.clone();
            torn.pieces(1024, IDENT, &pieces);
            torn.sector(1024 + lost * 512, &[0xa5; 512]);
            recover_to(&torn, &before);
        }
    }
}

fn recover_to(logged: &Logged, expected: &Tree) {
    let device = logged.device();
    recover(&device);
    assert!(tree(&device) == *expected);
}

/// Promise: deltas that were cancelled by a committed transaction are not replayed; zeros that are
/// not in the log are; the later of two deltas counts.
#[test]
fn cancelled_deltas() {
    for mut logged in logged() {
        let (ino, _) = logged.image.lookup("d/f9");
        let at = logged.image.layout().byte(spindle_ffs::Frag(logged.image.block(ino, 0)));
        let data = |byte: u8| Piece::Data(at, vec![byte; 512]);
        logged.pieces(
            1024,
            IDENT,
            &[
                data(1),
                Piece::Data(at + 1024, vec![9; 512]),
                Piece::Zeros(at + 2048, 512),
                data(2),
                Piece::Commit,
                Piece::Data(at + 512, vec![8; 100]),
                Piece::Cancel(at + 1024, 512),
                Piece::Commit,
                // This has not happened.
                Piece::Cancel(at, 1024),
            ],
        );
        let device = logged.device();
        let mut expected = tree(&logged.device());
        recover(&device);
        let after = tree(&device);
        let content = &after["/d/f9"].content;
        assert_eq!(content[..512], [2; 512]);
        assert_eq!(content[512..612], [8; 100]);
        assert_eq!(content[1024..1536], [10; 512]);
        assert_eq!(content[2048..2560], [0; 512]);
        expected.get_mut("/d/f9").unwrap().content.clone_from(content);
        assert!(after == expected);
    }
}

/// Promise: a log that cannot be believed is not replayed, and the reason is said.
#[test]
fn logs_that_are_not_believed() {
    type Change = fn(&mut Logged);
    let changes: [(&str, Change); 9] = [
        ("sector 0", |l| l.image.put(l.image.sb() + 1324, 0)),
        ("sector", |l| l.image.put(l.image.sb() + 1324, i32::MAX)),
        ("list of its extents", |l| {
            let at = u64::from(l.image.get::<u32>(l.image.sb() + 1324)) * 512;
            l.image.add(at + 24, 1);
        }),
        ("head is damaged", |l| {
            l.sector(0, &[1; 512]);
            l.sector(512, &[1; 512]);
        }),
        ("marked it as bad", |l| {
            let endian = l.image.layout().endian;
            l.put_head(&LufsHead { od_badlog: 1, ..head_of(l) }, endian);
        }),
        ("version", |l| {
            let endian = l.image.layout().endian;
            l.put_head(&LufsHead { od_version: 2, ..head_of(l) }, endian);
        }),
        ("cannot be", |l| {
            let endian = l.image.layout().endian;
            l.put_head(&LufsHead { od_head_lof: i32::MAX, ..head_of(l) }, endian);
        }),
        ("type 99", |l| {
            let raw = Piece::Raw(Delta { d_mof: 0, d_nb: 0, d_typ: 99 });
            l.head(1024, 7);
            l.pieces(1024, 7, &[raw, Piece::Commit]);
        }),
        ("bytes for byte", |l| {
            l.head(1024, 7);
            l.pieces(1024, 7, &[Piece::Data(1 << 40, vec![0; 8]), Piece::Commit]);
        }),
    ];
    for (wanted, change) in changes {
        for mut logged in logged() {
            let pieces = transactions(&logged);
            logged.pieces(1024, IDENT, &pieces);
            change(&mut logged);
            let device = logged.device();
            let reason = planned(&device).err().unwrap_or_else(|| panic!("{wanted}: it is believed"));
            assert!(reason.contains(wanted), "{wanted}: {reason}");
            assert!(device.to_bytes() == logged.image.bytes);
            // The full repair gives it up.
            crate::victim::repair(&device);
            let image = crate::images::Image::new(&device);
            assert_eq!(image.get::<i32>(image.sb() + 1324), 0, "{wanted}");
            assert!(image.superblock.is_clean(), "{wanted}");
        }
    }
}

fn head_of(logged: &Logged) -> LufsHead {
    LufsHead {
        od_version: 1,
        od_badlog: 0,
        od_devbsize: 512,
        od_bol_lof: 1024,
        od_eol_lof: i32::try_from(logged.end()).unwrap(),
        od_statesize: 1024,
        od_logsize: 0,
        od_head_lof: 1024,
        od_head_ident: IDENT,
        od_tail_lof: 1024,
        od_tail_ident: 0,
        od_chksum: IDENT,
        od_head_tid: 0,
    }
}

/// Returns the free blocks that the maps of all groups have.
fn free_blocks(image: &crate::images::Image) -> i64 {
    let layout = image.layout();
    let count = |cgx| {
        let at = usize::try_from(image.cg(cgx)).unwrap();
        let block = &image.bytes[at..at + layout.fs_cgsize as usize];
        let map = GroupMap::check(layout, block, cgx).unwrap();
        let group = Group::new(layout, &map, block);
        (0..map.ndblk).filter(|&frag| isset(group.blksfree(), frag)).count()
    };
    (0..layout.fs_ncg).map(|cgx| i64::try_from(count(cgx)).unwrap()).sum()
}

/// Promise: a replayed state in which a check finds damage is not believed.
#[test]
fn replay_to_damage() {
    for mut logged in logged() {
        let at = logged.image.inode(logged.image.ino("d/f5"));
        logged.pieces(1024, IDENT, &[Piece::Data(at, vec![0x77; 128]), Piece::Commit]);
        let reason = planned(&logged.device()).err().unwrap();
        assert!(reason.contains("does not explain"), "{reason}");
    }
}

/// Promise: wherever a recovery is cut, another one, or a repair that loses nothing, comes to the
/// same files. As long as the superblock names the log, its blocks are not free: Solaris would go
/// on with it. A recovery can be taken back.
#[test]
fn torture_cut_replays() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test lufs torture_cut_replays");
    for mut logged in logged() {
        let pieces = transactions(&logged);
        logged.pieces(1024, IDENT, &pieces);
        let mut rng = SmallRng::seed_from_u64(seed);
        let device = logged.device();
        let recorder = Recorder::over(&device);
        let plan = planned(&device).unwrap().plan;
        plan.apply(&recorder).unwrap();
        let events = recorder.events.lock().clone();
        let most = free_blocks(&logged.image).max(free_blocks(&logged.after));
        let flushes = (0..events.len()).filter(|&n| matches!(events[n], Event::Flush));
        let flushes: Vec<_> = flushes.collect();
        for end in 0..=flushes[flushes.len() - 2] {
            for _ in 0..3 {
                let medium = cut(&device, &events, end, &mut rng);
                let image = crate::images::Image::new(&medium);
                let names_log = image.get::<i32>(image.sb() + 1324) != 0;
                assert!(!names_log || free_blocks(&image) <= most, "seed {seed}, cut at {end}");
                assert!(!image.superblock.is_clean());
                if names_log && image.superblock.fs.fs_clean == FsSun::FSLOG {
                    recover(&medium);
                } else {
                    let plan = crate::victim::planned(&medium, Scope::Harmless);
                    assert_eq!(plan.refusal, None, "seed {seed}, cut at {end}");
                    plan.apply(&medium).unwrap();
                    assert!(checked(&medium).is_clean());
                }
                let image = crate::images::Image::new(&medium);
                assert_eq!(image.get::<i32>(image.sb() + 1324), 0);
                assert!(tree(&medium) == expected(&logged), "seed {seed}, cut at {end}");
            }
        }
        plan.apply(&device).unwrap();
        undo(&device, &plan.undo_bytes()).unwrap();
        assert!(device.to_bytes() == logged.image.bytes);
        assert!(device.info().size_bytes > 0);
    }
}
