//! Journals of other systems, as commands follow and show them.

use crate::helpers::run_as;
use crate::support::Bench;
use spindle_clock::SystemClock;
use spindle_device::MemoryDevice;
use spindle_ffs::ondisk::{Delta, FsSun, JrefRec, JsegRec, delta_type, flags, jop};
use spindle_ffs::{Ffs, Frag, OpenOptions, Superblock, check_hash};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::FileSystem;
use std::sync::Arc;

/// The time of the mount that has written the journal.
const MOUNTED: i64 = 1_750_000_000;

fn put(bytes: &mut [u8], at: u64, value: &impl Field) {
    value.put(&mut bytes[usize::try_from(at).unwrap()..], Endian::Little);
}

/// Makes `a.img`, a file system of FreeBSD with a journal of soft updates, as a crash leaves it:
/// the name of the file `gone` has left the disk, its inode has not.
fn crashed(bench: &Bench) {
    bench.ok("newfs -s 24m a.img");
    std::fs::write(bench.path("journal"), vec![0; 4 << 20]).unwrap();
    bench.write("gone", "removed");
    bench.write("kept", "kept");
    bench.ok("cp journal a.img:/.sujournal");
    bench.ok("cp gone a.img:/gone");
    bench.ok("cp kept a.img:/kept");
    bench.ok("chmod 400 a.img:/.sujournal");
    bench.ok("chflags schg,sunlnk a.img:/.sujournal");

    let mut bytes = std::fs::read(bench.path("a.img")).unwrap();
    let device = MemoryDevice::from_bytes(&bytes);
    let superblock = Superblock::open(&device).unwrap();
    let layout = &superblock.layout;
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let fs = Ffs::open(Arc::new(device), Arc::new(SystemClock), &options).unwrap();
    let ino = |name: &[u8]| u32::try_from(fs.lookup(fs.root(), name).unwrap().ino.0).unwrap();
    let inode = |ino: u32| {
        let (block, offset) = layout.ino_to_fsba(ino);
        layout.byte(block) + offset as u64
    };
    let pointer = |bytes: &[u8], ino: u32| {
        let at = usize::try_from(inode(ino) + 112).unwrap();
        layout.byte(Frag(u64::get(&bytes[at..], Endian::Little)))
    };

    let root = usize::try_from(pointer(&bytes, 2)).unwrap();
    let name = bytes[root..].windows(5).position(|bytes| bytes == b"gone\0").unwrap() - 8;
    put(&mut bytes, (root + name) as u64, &0_u32);
    let jsr = JsegRec { jsr_seq: 1, jsr_oldest: 1, jsr_cnt: 1, jsr_blocks: 1, jsr_crc: 0, jsr_time: MOUNTED };
    let jr = JrefRec {
        jr_op: jop::REMREF,
        jr_ino: ino(b"gone"),
        jr_parent: 2,
        jr_nlink: 1,
        jr_mode: 0o100_644,
        jr_diroff: i64::try_from(name).unwrap(),
        jr_unused: 0,
    };
    let journal = pointer(&bytes, ino(b".sujournal"));
    put(&mut bytes, journal, &jsr);
    put(&mut bytes, journal + 32, &jr);

    let at = inode(ino(b".sujournal"));
    put(&mut bytes, at + 232, &MOUNTED);
    let start = usize::try_from(at).unwrap();
    let hash = check_hash(&bytes[start..start + 256], 244);
    put(&mut bytes, at + 244, &hash);
    let sb = layout.fs_sblockloc;
    put(&mut bytes, sb + 209, &0_u8);
    put(&mut bytes, sb + 1208, &MOUNTED);
    put(&mut bytes, sb + 1312, &(superblock.flags() | flags::FS_SUJ | flags::FS_DOSOFTDEP));
    sealed(&mut bytes, &superblock);
    std::fs::write(bench.path("a.img"), bytes).unwrap();
}

/// Puts the check-hash of the superblock right.
fn sealed(bytes: &mut [u8], superblock: &Superblock) {
    let sb = superblock.layout.fs_sblockloc;
    let start = usize::try_from(sb).unwrap();
    let hash = check_hash(&bytes[start..start + superblock.layout.fs_sbsize as usize], 1304);
    put(bytes, sb + 1304, &hash);
}

/// Promise: `fsck -n` shows the state after a recovery and writes nothing; `-p` and `-y` recover,
/// say so, and exit with 0; what was removed is gone and not in lost+found. With `--undo` that can
/// be taken back.
#[test]
fn fsck_follows_a_journal_of_soft_updates() {
    let bench = Bench::new();
    crashed(&bench);
    let before = std::fs::read(bench.path("a.img")).unwrap();
    let out = bench.ok("fsck -n a.img");
    assert!(out.contains("checking the state after recovery with the journal of soft updates"), "{out}");
    assert!(out.contains("a.img: no problems found\n"), "{out}");
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    for option in ["-p", "-y"] {
        bench.shell("cp a.img b.img; rm -f undo");
        let out = bench.ok(&format!("fsck {option} --undo undo b.img"));
        assert!(out.contains("recovered with the journal of soft updates (records: 1)"), "{out}");
        assert!(out.contains("b.img: no problems found\n"), "{out}");
        assert!(!bench.ok("fsck -n b.img").contains("journal"));
        assert_eq!(bench.ok("ls b.img:/"), "kept\n");
        bench.ok("fsck --undo-with undo b.img");
        assert!(std::fs::read(bench.path("b.img")).unwrap() == before);
    }
}

/// Promise: whatever writes recovers first, and says so; what only reads does not.
#[test]
fn writing_follows_a_journal_of_soft_updates() {
    let bench = Bench::new();
    crashed(&bench);
    let before = std::fs::read(bench.path("a.img")).unwrap();
    assert_eq!(bench.ok("ls a.img:/"), "kept\n");
    let info = bench.ok("info a.img");
    assert!(info.contains("journal of soft updates, followed by fsck -p"), "{info}");
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    let ran = bench.run("mkdir a.img:/new");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("a.img: recovered with the journal of soft updates (records: 1)"),
        "{}",
        ran.err
    );
    assert_eq!(bench.ok("ls a.img:/"), "kept\nnew\n");
    assert!(bench.ok("fsck -n a.img").contains("a.img: no problems found\n"));
    assert!(!bench.ok("info a.img").contains("followed by"));
}

/// Promise: a read-only mount changes nothing; a mount that writes recovers first, and says so.
#[test]
fn mounts_follow_a_journal_of_soft_updates() {
    let bench = Bench::new();
    crashed(&bench);
    bench.shell("mkdir mnt; cp a.img b.img");
    let before = std::fs::read(bench.path("a.img")).unwrap();
    let spindle = |words: &str| {
        let ran = run_as(&bench, "spindle", words);
        assert_eq!(ran.code, 0, "spindle {words}: {}", ran.err);
        ran.err
    };
    spindle("mount -o ro a.img mnt");
    assert_eq!(bench.shell("ls mnt"), "kept\n");
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    spindle("umount mnt");
    let note = "recovered with the journal of soft updates (records: 1)";
    let err = spindle("mount b.img mnt");
    assert!(err.contains(note), "{err}");
    bench.shell("echo new > mnt/new");
    spindle("umount mnt");
    assert!(bench.ok("fsck -n b.img").contains("b.img: no problems found\n"));
    assert_eq!(bench.ok("ls b.img:/"), "kept\nnew\n");
}

/// Makes `sun.img`, a file system of Solaris whose log has a committed change: the file `word` says
/// `NEW` and not `old`.
fn logged(bench: &Bench) {
    bench.ok("newfs -O1 --dialect sunx86 -s 16m sun.img");
    bench.write("word", "old");
    std::fs::write(bench.path("log"), vec![0; 4 * 8192]).unwrap();
    bench.ok("cp word sun.img:/word");
    bench.ok("cp log sun.img:/log");
    let mut bytes = std::fs::read(bench.path("sun.img")).unwrap();
    let device = MemoryDevice::from_bytes(&bytes);
    let superblock = Superblock::open(&device).unwrap();
    let layout = superblock.layout;
    assert_eq!(layout.fs_bsize, 8192);
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let fs = Ffs::open(Arc::new(device), Arc::new(SystemClock), &options).unwrap();
    let block = |bytes: &[u8], name: &[u8], n: u64| {
        let ino = u32::try_from(fs.lookup(fs.root(), name).unwrap().ino.0).unwrap();
        let (block, offset) = layout.ino_to_fsba(ino);
        let at = layout.byte(block) + offset as u64 + 40 + 4 * n;
        let frag = u32::get(&bytes[usize::try_from(at).unwrap()..], Endian::Little);
        layout.byte(Frag(frag.into()))
    };
    let (list, word) = (block(&bytes, b"log", 0), block(&bytes, b"word", 0));
    let log = [1, 2, 3].map(|n| block(&bytes, b"log", n));

    let sector = |at: u64| u32::try_from(at / 512).unwrap();
    let mut words = vec![0, 0, 3, 3 * 8192, 0];
    for (n, at) in (0..).zip(log) {
        words.extend([n * 16, sector(at), 16]);
    }
    words[1] = words.iter().sum();
    for (at, word) in (list..).step_by(4).zip(&words) {
        put(&mut bytes, at, word);
    }
    let head: [(u64, u32); 8] =
        [(0, 1), (16, 512), (20, 1024), (24, 3 * 8192), (48, 1024), (52, 5), (56, 1024), (64, 5)];
    for (offset, word) in head {
        put(&mut bytes, log[0] + offset, &word);
    }
    let delta = |d_mof: u64, d_nb, d_typ| Delta { d_mof: d_mof.cast_signed(), d_nb, d_typ };
    let first = log[0] + 1024;
    put(&mut bytes, first, &delta(word, 3, delta_type::DT_AB));
    put(&mut bytes, first + 16, &u32::from_le_bytes(*b"NEW\0"));
    put(&mut bytes, first + 19, &delta(0, 0, delta_type::DT_COMMIT));
    put(&mut bytes, first + 508, &5_u32);
    let sb = layout.fs_sblockloc;
    put(&mut bytes, sb + 209, &FsSun::FSLOG);
    put(&mut bytes, sb + 1324, &sector(list));
    std::fs::write(bench.path("sun.img"), bytes).unwrap();
}

/// Promise: what reads a file system of Solaris sees the state after the replay of its log, without
/// a write; what writes replays it first, says so, and gives it up.
#[test]
fn the_log_of_solaris_is_replayed() {
    let bench = Bench::new();
    logged(&bench);
    let before = std::fs::read(bench.path("sun.img")).unwrap();
    let ran = bench.run("cat sun.img:/word");
    assert_eq!((ran.code, ran.out.as_str()), (0, "NEW"), "{}", ran.err);
    let out = bench.ok("fsck -n sun.img");
    assert!(out.contains("checking the state after recovery with the Solaris log (records: 1)"), "{out}");
    assert!(out.contains("sun.img: no problems found\n"), "{out}");
    assert!(bench.ok("info sun.img").contains("Solaris log, followed by fsck -p"));
    assert!(std::fs::read(bench.path("sun.img")).unwrap() == before);
    bench.shell("cp sun.img b.img");
    let out = bench.ok("fsck -p --undo undo b.img");
    assert!(out.contains("recovered with the Solaris log (records: 1)"), "{out}");
    bench.ok("fsck --undo-with undo b.img");
    assert!(std::fs::read(bench.path("b.img")).unwrap() == before);
    let ran = bench.run("mkdir sun.img:/new");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("recovered with the Solaris log (records: 1)"), "{}", ran.err);
    assert_eq!(bench.ok("cat sun.img:/word"), "NEW");
    assert!(!bench.ok("info sun.img").contains("Solaris log"));
    assert!(bench.ok("fsck -n sun.img").contains("sun.img: no problems found\n"));
}

/// Promise: a journal that cannot be used is left to the full check, with the reason; nothing is
/// written over what it would have put right.
#[test]
fn a_useless_journal_is_left_to_the_full_check() {
    let bench = Bench::new();
    crashed(&bench);
    let mut bytes = std::fs::read(bench.path("a.img")).unwrap();
    let superblock = Superblock::open(&MemoryDevice::from_bytes(&bytes)).unwrap();
    put(&mut bytes, superblock.layout.fs_sblockloc + 1208, &(MOUNTED + 9));
    sealed(&mut bytes, &superblock);
    std::fs::write(bench.path("a.img"), &bytes).unwrap();
    let ran = bench.run("mkdir a.img:/new");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains("the journal of soft updates cannot be used: it was written since"),
        "{}",
        ran.err
    );
    assert!(std::fs::read(bench.path("a.img")).unwrap() == bytes);
    let ran = bench.run("fsck -p a.img");
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("cannot be used, this is a full check: it was written since"), "{}", ran.out);
    assert!(bench.ok("ls a.img:/lost+found").starts_with('#'));
    assert!(bench.ok("fsck -n a.img").contains("a.img: no problems found\n"));
}
