//! Damage of every kind is found, reported, and repaired.

mod support;

use spindle_device::{Device, MemoryDevice};
use spindle_ondisk::{Endian, Field};
use spindle_v7::check::{Options, Repaired, check, repair};
use spindle_v7::{Block, Format, OpenOptions, Superblock, V7};
use spindle_vfs::{Error, FileKind, FileSystem, Ino, Privilege};
use std::sync::Arc;
use support::{Victim, contents};

const FORMATS: [Format; 3] = [Format::V7, Format::BSD41, Format::sysv(Endian::Big)];

fn options(victim: &Victim) -> Options {
    Options { format: Some(victim.layout.format), ..Options::default() }
}

fn findings(victim: &Victim) -> Vec<String> {
    let report = check(&*victim.device, &options(victim), &mut |_| ()).unwrap();
    report.findings.iter().map(ToString::to_string).collect()
}

fn mend(victim: &Victim) -> Repaired {
    repair(&victim.shared(), &*victim.clock, &options(victim), false, &mut |_| ()).unwrap()
}

/// Replaces the names in a text by inode numbers.
fn numbered(victim: &Victim, text: &str) -> String {
    let Victim { dir, sub, file, other, .. } = victim;
    [("{dir}", dir), ("{sub}", sub), ("{file}", file), ("{other}", other), ("{first}", file.min(other))]
        .into_iter()
        .fold(text.to_owned(), |text, (name, ino)| text.replace(name, &ino.to_string()))
}

type Plant = (&'static str, fn(&Victim));

/// The damages, each with the finding that the check reports first.
const PLANTS: &[Plant] = &[
    ("UNKNOWN FILE TYPE I={other} MODE=50007 (/other)", |v| {
        v.change_inode(v.other, |i| i.di_mode = 0o050_007);
    }),
    ("FILE SIZE ERROR I={other}", |v| v.change_inode(v.other, |i| i.di_size = -5)),
    ("FILE SIZE ERROR I={sub}", |v| v.change_inode(v.sub, |i| i.di_size = 0x7000_0000)),
    ("DIRECTORY SIZE 57 IS NOT A MULTIPLE OF 16 I={sub}", |v| v.change_inode(v.sub, |i| i.di_size = 57)),
    ("DIRECTORY I={dir} HAS SIZE 32, BUT ITS BLOCKS HOLD NAMES UP TO ", |v| {
        v.change_inode(v.dir, |i| i.di_size = 32);
    }),
    ("DEVICE OR PIPE WITH CONTENTS I={other}", |v| v.change_inode(v.other, |i| i.di_mode = 0o010_644)),
    ("DEVICE OR PIPE WITH CONTENTS I={other}", |v| v.change_inode(v.other, |i| i.di_mode = 0o020_644)),
    ("UNKNOWN FILE TYPE I={other} MODE=140644", |v| v.change_inode(v.other, |i| i.di_mode = 0o140_644)),
    ("BAD FREE INODE LIST: it says that it holds 500", |v| {
        v.change_superblock(|s| s.head.s_ninode = 500);
    }),
    ("BAD FREE INODE LIST: inode 9999 does not exist", |v| {
        v.change_superblock(|s| (s.head.s_ninode, s.head.s_inode[0]) = (1, 9999));
    }),
    (" BAD I={other} (ADDRESS 1) (/other)", |v| v.set_addr(v.other, 1, v.layout.s_fsize)),
    ("1 BAD I={other} (ADDRESS 2)", |v| v.set_addr(v.other, 2, 1)),
    ("also I={first}; a repair copies it)", |v| v.set_addr(v.other, 0, v.addr(v.file, 3))),
    (" BAD I={file} (POINTER 5 OF INDIRECT BLOCK ", |v| {
        v.change(Block(v.addr(v.file, 10)), |b| 0xff_ffff_u32.put(&mut b[20..], v.layout.format.endian));
    }),
    ("UNALLOCATED I=200 NAME=nothing DIR I={dir}", |v| v.set_entry(v.dir, 4, 200, Some(b"nothing"))),
    ("I OUT OF RANGE I=65535 NAME=far", |v| v.set_entry(v.dir, 4, 0xffff, Some(b"far"))),
    ("IMPOSSIBLE NAME I={other} NAME=a/b", |v| v.set_entry(v.dir, 4, v.other, Some(b"a/b"))),
    ("DUPLICATE NAME I={other} NAME=file", |v| v.set_entry(v.dir, 4, v.other, Some(b"file"))),
    ("EXTRANEOUS HARD LINK TO DIRECTORY I=2 NAME=up", |v| v.set_entry(v.dir, 4, 2, Some(b"up"))),
    ("DIRECTORIES IN A RING", |v| {
        v.set_entry(2, 3, 0, None);
        v.set_entry(v.sub, 3, v.dir, Some(b"ring"));
    }),
    ("BAD INODE NUMBER: I=2 NAME=. DIR I={sub}", |v| v.set_entry(v.sub, 0, 2, None)),
    ("BAD INODE NUMBER: I=2 NAME=.. DIR I={sub}", |v| v.set_entry(v.sub, 1, 2, None)),
    ("MISSING '..' I={sub}", |v| v.set_entry(v.sub, 1, 0, None)),
    ("UNREF DIR I={dir}", |v| v.set_entry(2, 3, 0, None)),
    ("UNREF FILE I={other} LINKS=1", |v| v.set_entry(2, 4, 0, None)),
    ("UNREF FILE I={other} WITHOUT LINKS", |v| {
        v.set_entry(2, 4, 0, None);
        v.change_inode(v.other, |i| i.di_nlink = 0);
    }),
    ("LINK COUNT I={other} COUNT 3 SHOULD BE 1 (/other)", |v| v.change_inode(v.other, |i| i.di_nlink = 3)),
    ("LINK COUNT I={dir} COUNT 9 SHOULD BE 3 (/dir)", |v| v.change_inode(v.dir, |i| i.di_nlink = 9)),
    ("BAD FREE LIST: it says that it holds 77", |v| v.change_superblock(|s| s.head.s_nfree = 77)),
    ("BAD FREE LIST: address 16777000 is outside", |v| {
        v.change_superblock(|s| s.head.s_free[1] = 16_777_000);
    }),
    ("BAD FREE LIST: block ", |v| v.change_superblock(|s| s.head.s_free[1] = s.head.s_free[2])),
    ("1 DUP BLKS IN FREE LIST", |v| {
        let used = v.addr(v.other, 1);
        v.change_superblock(|s| s.head.s_free[1] = used);
    }),
    ("1 BLK(S) MISSING", |v| v.change_superblock(|s| s.head.s_nfree -= 1)),
];

/// Promise: the check finds each kind of damage without writing anything, the repair removes it,
/// and everything else is still there; a file that had lost its name is in `lost+found`.
#[test]
fn every_damage_is_found_and_repaired() {
    for format in FORMATS {
        for (expected, plant) in PLANTS {
            let victim = Victim::new(format);
            let expected = &numbered(&victim, expected);
            assert_eq!(findings(&victim), Vec::<String>::new());
            plant(&victim);
            let damaged = victim.device.to_bytes();
            let found = findings(&victim);
            assert!(found.iter().any(|text| text.contains(expected)), "{format}: {expected}: {found:#?}");
            assert!(victim.device.to_bytes() == damaged, "a check only reads");

            let Repaired { after, changed, .. } = mend(&victim);
            assert!(changed && after.is_clean() && after.marked_clean, "{format}: {expected}: {after:#?}");
            assert_eq!(findings(&victim), Vec::<String>::new(), "{format}: {expected}");
            let fs = victim.open();
            assert!(!fs.read_only());
            let mut bytes = contents();
            fs.read(Ino(victim.file.into()), 0, &mut bytes).unwrap();
            let differ = bytes.iter().zip(contents()).filter(|(now, then)| **now != *then).count();
            assert!(
                differ <= victim.layout.bsize(),
                "{format}: {expected}: {differ} bytes of another file are lost"
            );
            let lost = fs.lookup(Ino(victim.lost.into()), format!("#{:05}", victim.other).as_bytes());
            assert_eq!(lost.is_ok(), expected.contains("LINKS=1"), "{format}: {expected}");
        }
    }
}

/// Promise: the block in which a file ends is missed also if blocks behind the end are there, and
/// after the repair the file can be read.
#[test]
fn a_block_behind_the_end_does_not_stand_for_the_last() {
    for format in FORMATS {
        let victim = Victim::new(format);
        victim.change_inode(victim.other, |inode| inode.di_size = 2 * format.bsize.cast_signed() - 1);
        victim.set_addr(victim.other, 1, 0);
        let found = findings(&victim);
        let expected = format!("FILE SIZE ERROR I={}", victim.other);
        assert!(found.iter().any(|text| text.contains(&expected)), "{format}: {found:#?}");
        assert!(mend(&victim).after.is_clean(), "{format}");
        let mut bytes = vec![0; 2 * victim.layout.bsize()];
        let read = victim.open().read(Ino(victim.other.into()), 0, &mut bytes).unwrap();
        assert!(bytes[..read] == vec![7; victim.layout.bsize()], "{format}");
    }
}

/// Promise: a missing `lost+found` is made, and grows as far as is needed.
#[test]
fn a_lost_and_found_is_made() {
    for format in FORMATS {
        let victim = Victim::new(format);
        victim.set_entry(2, 2, victim.lost, Some(b"elsewhere"));
        let fs = victim.open();
        let files: Vec<_> = (0..100)
            .map(|n| {
                let name = format!("file-{n}");
                let ino = support::make(&fs, Ino(victim.sub.into()), name.as_bytes(), FileKind::Regular);
                fs.write(ino, 0, b"data", Privilege::Root).unwrap();
                ino
            })
            .collect();
        fs.unmount().unwrap();
        victim.change_inode(victim.sub, |inode| inode.di_mode = 0);
        let Repaired { after, changed, .. } = mend(&victim);
        assert!(changed && after.is_clean(), "{format}: {after:#?}");
        let fs = victim.open();
        assert!(!fs.read_only());
        let lost = fs.lookup(fs.root(), b"lost+found").unwrap().ino;
        for ino in files {
            let found = fs.lookup(lost, format!("#{:05}", ino.0).as_bytes()).unwrap();
            assert_eq!((found.ino, found.size), (ino, 4));
        }
    }
}

/// Promise: where `lost+found` is no directory, or is full, what has lost its name goes to
/// `lost+found.1`.
#[test]
fn a_lost_and_found_is_not_enough() {
    // A directory of V7 that a repair fills has ten blocks of 32 names.
    for (files, is_taken, expected) in [(1, true, [0, 1]), (400, false, [318, 82])] {
        let victim = Victim::new(Format::V7);
        let fs = victim.open();
        for n in 0..files {
            let name = format!("file-{n}");
            let ino = support::make(&fs, Ino(victim.sub.into()), name.as_bytes(), FileKind::Regular);
            fs.write(ino, 0, b"data", Privilege::Root).unwrap();
        }
        fs.unlink(Ino(victim.sub.into()), b"deep").unwrap();
        fs.unmount().unwrap();
        victim.change_inode(victim.sub, |inode| inode.di_mode = 0);
        if is_taken {
            victim.change_inode(victim.lost, |inode| inode.di_mode = 0o100_644);
        }
        assert!(mend(&victim).after.is_clean());
        let fs = victim.open();
        let names = |dir: &[u8]| {
            let mut names = 0;
            let attr = fs.lookup(fs.root(), dir).unwrap();
            let _ = fs.readdir(attr.ino, 0, &mut |entry| {
                names += usize::from(entry.name.starts_with(b"#"));
                std::ops::ControlFlow::Continue(())
            });
            names
        };
        assert_eq!([&b"lost+found"[..], b"lost+found.1"].map(names), expected);
    }
}

/// Promise: a root whose inode is lost is made again with its names, and without its block empty;
/// then all that was in it is in `lost+found`.
#[test]
fn a_lost_root() {
    type Plant = (&'static str, fn(&Victim));
    const PLANTS: [Plant; 4] = [
        ("dir", |v| v.change_inode(2, |inode| inode.di_mode = 0)),
        ("dir", |v| v.change_inode(2, |inode| inode.di_mode = 0o100_644)),
        ("dir", |v| v.change_inode(2, |inode| (inode.di_mode, inode.di_addr) = (0o150_000, [0xee; 40]))),
        ("lost+found", |v| {
            v.change(Block(v.addr(2, 0)), |bytes| bytes.fill(0xa5));
            v.change_inode(2, |inode| (inode.di_mode, inode.di_size, inode.di_addr) = (0, 0, [0; 40]));
        }),
    ];
    for format in FORMATS {
        for (first, plant) in PLANTS {
            let victim = Victim::new(format);
            plant(&victim);
            let fs = victim.open();
            assert!(fs.read_only() && fs.read_only_reasons()[0].reason.contains("root inode"), "{format}");
            assert!(findings(&victim).iter().any(|text| text.starts_with("ROOT INODE")));
            let Repaired { after, .. } = mend(&victim);
            assert!(after.is_clean(), "{format}, {first}: {after:#?}");
            let fs = victim.open();
            assert!(!fs.read_only());
            let dir = if first == "dir" {
                fs.lookup(fs.root(), b"dir").unwrap().ino
            } else {
                let lost = fs.lookup(fs.root(), b"lost+found").unwrap().ino;
                fs.lookup(lost, format!("#{:05}", victim.dir).as_bytes()).unwrap().ino
            };
            let file = fs.lookup(dir, b"file").unwrap();
            assert_eq!((file.ino, file.nlink), (Ino(victim.file.into()), 1), "{format}, {first}");
            let mut bytes = contents();
            bytes.fill(0);
            fs.read(file.ino, 0, &mut bytes).unwrap();
            assert!(bytes == contents());
        }
    }
}

/// Promise: with the format named, a lost super-block is made again with the sizes that it had;
/// nothing behind the file system is written, nor claimed.
#[test]
fn a_lost_superblock() {
    for format in FORMATS {
        let victim = Victim::new(format);
        let free = victim.open().statfs().unwrap().bfree;
        let (block, offset) = victim.layout.superblock_at();
        victim.change(block, |bytes| bytes[offset..offset + 512].fill(0xa5));
        let mut bytes = victim.device.to_bytes();
        let end = bytes.len();
        bytes.extend(Victim::new(format).device.to_bytes());
        let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
        let device: Arc<dyn Device> = memory.clone();
        let repaired = repair(&device, &*victim.clock, &options(&victim), false, &mut |_| ()).unwrap();
        let Repaired { before, after, changed } = repaired;
        assert!(before.findings[0].to_string().starts_with("SUPERBLOCK LOST"), "{before:#?}");
        assert!(changed && after.is_clean(), "{format}: {after:#?}");
        assert!(memory.to_bytes()[end..] == bytes[end..], "{format}: written behind the end");
        let fs = V7::open(device, victim.clock.clone(), &OpenOptions::default()).unwrap();
        assert!(!fs.read_only());
        assert_eq!(*fs.layout(), victim.layout);
        assert_eq!(fs.statfs().unwrap().bfree, free, "{format}");
        let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
        let mut read = vec![0; contents().len()];
        let file = fs.lookup(dir, b"file").unwrap().ino;
        fs.read(file, 0, &mut read).unwrap();
        assert!(read == contents());
    }
}

/// Promise: one damaged inode does not decide where the data begin, so a lost super-block is made
/// again with the sizes that it had, and the files are there.
#[test]
fn a_lost_superblock_and_a_damaged_address() {
    for format in FORMATS {
        let victim = Victim::new(format);
        let (block, offset) = victim.layout.superblock_at();
        victim.change(block, |bytes| bytes[offset..offset + 512].fill(0));
        victim.set_addr(2, 0, 4);
        assert!(mend(&victim).after.is_clean(), "{format}");
        let fs = victim.open();
        assert_eq!(*fs.layout(), victim.layout);
        let mut bytes = vec![0; contents().len()];
        fs.read(Ino(victim.file.into()), 0, &mut bytes).unwrap();
        assert!(bytes == contents(), "{format}");
    }
}

/// Promise: sizes that several files contradict are found and corrected, and no file loses a block
/// to them; if a file reaches beyond the device, the image is cut off, and nothing is written.
#[test]
fn wrong_sizes() {
    type Change = fn(&mut Superblock);
    const CHANGES: [Change; 7] = [
        |s| s.head.s_isize += 7,
        |s| s.head.s_isize = 3,
        |s| s.head.s_isize ^= 0x100,
        |s| s.head.s_fsize /= 2,
        |s| s.head.s_fsize = u32::from(s.head.s_isize) + 1,
        |s| s.head.s_fsize ^= 0x1_0000,
        |s| (s.head.s_isize, s.head.s_fsize) = (4, 40),
    ];
    for format in FORMATS {
        for (n, change) in CHANGES.into_iter().enumerate() {
            let victim = Victim::new(format);
            let free = victim.open().statfs().unwrap().bfree;
            victim.change_superblock(change);
            let Repaired { before, after, .. } = mend(&victim);
            let first = before.findings[0].to_string();
            assert!(first.contains("WRONG IN SUPERBLOCK; INODES END"), "{format}, {n}: {first}");
            assert!(after.is_clean(), "{format}, {n}: {after:#?}");
            let fs = victim.open();
            assert!(!fs.read_only());
            assert_eq!(*fs.layout(), victim.layout, "{format}, {n}");
            assert_eq!(fs.statfs().unwrap().bfree, free, "{format}, {n}");
            let mut read = vec![0; contents().len()];
            fs.read(Ino(victim.file.into()), 0, &mut read).unwrap();
            assert!(read == contents(), "{format}, {n}");
        }
        let victim = Victim::new(format);
        let short = MemoryDevice::from_bytes(&victim.device.to_bytes()[..200 << 10]);
        let device: Arc<dyn Device> = Arc::new(short.branch());
        let refused = repair(&device, &*victim.clock, &options(&victim), false, &mut |_| ());
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{format}");
        let mut bytes = vec![0; 200 << 10];
        device.read_at(0, &mut bytes).unwrap();
        assert!(bytes == short.to_bytes(), "{format}");
    }
}

/// Promise: a wrong magic number or block size, for which System V and an opening without `-t`
/// refuse it, is found and repaired without loss.
#[test]
fn a_wrong_magic_number() {
    for at in [504, 511] {
        let victim = Victim::new(Format::sysv(Endian::Big));
        let (block, offset) = victim.layout.superblock_at();
        victim.change(block, |bytes| bytes[offset + at] ^= 1);
        assert_eq!(findings(&victim), ["BAD MAGIC NUMBER OR TYPE IN SUPERBLOCK"]);
        let repaired =
            repair(&victim.shared(), &*victim.clock, &options(&victim), true, &mut |_| ()).unwrap();
        assert!(repaired.changed && repaired.after.is_clean());
        assert!(!victim.open().read_only());
    }
}

/// Promise: what no system of the format has, and links without a target, are damage, to a check
/// and to every reader.
#[test]
fn symbolic_links() {
    let sysv = Format::sysv(Endian::Big);
    for (format, size, text) in [
        (Format::V7, 4, "UNKNOWN FILE TYPE I={other} MODE=120777"),
        (Format::BSD41, 4, "UNKNOWN FILE TYPE I={other} MODE=120777"),
        (sysv, 423_445_876, "FILE SIZE ERROR I={other}: SIZE 423445876 BEYOND 1024"),
        (sysv, 0, "SYMBOLIC LINK WITHOUT A TARGET I={other}"),
        (sysv, 9, "SYMBOLIC LINK WITHOUT A TARGET I={other}"),
        (sysv, 4, ""),
    ] {
        let victim = Victim::new(format);
        let block = Block(victim.addr(victim.other, 0));
        victim.change(block, |bytes| bytes[..9].copy_from_slice(b"/dir\0\0\0\0\0"));
        victim.change_inode(victim.other, |inode| (inode.di_mode, inode.di_size) = (0o120_777, size));
        for n in 1..3 {
            victim.set_addr(victim.other, n, 0);
        }
        let fs = victim.open();
        let target = fs.lookup(fs.root(), b"other").and_then(|attr| fs.readlink(attr.ino));
        drop(fs);
        let found = findings(&victim);
        if text.is_empty() {
            assert_eq!(target.unwrap(), b"/dir");
            assert!(!found.iter().any(|found| found.contains("LINK")), "{found:#?}");
        } else {
            assert!(matches!(target, Err(Error::Corrupt { .. })), "{format}, {size}: {target:?}");
            let text = numbered(&victim, text);
            assert!(found.iter().any(|found| found.starts_with(&text)), "{text}: {found:#?}");
        }
        assert!(mend(&victim).after.is_clean());
    }
}

/// Promise: a repair that is limited to harmless damage mends free lists, as 4.1BSD's did after a
/// crash, and changes nothing if there is serious damage.
#[test]
fn only_what_is_harmless() {
    let harmless = |victim: &Victim| {
        repair(&victim.shared(), &*victim.clock, &options(victim), true, &mut |_| ()).unwrap()
    };
    let victim = Victim::new(Format::V7);
    victim.change_inode(victim.other, |inode| inode.di_nlink = 3);
    victim.change_superblock(|s| s.head.s_nfree -= 1);
    assert!(harmless(&victim).after.is_clean());
    let used = victim.addr(victim.other, 1);
    for list in [[used, 1], [9, 1], [60_000, 1]] {
        victim.change_superblock(|s| s.head.s_free[1..3].copy_from_slice(&list));
        assert!(harmless(&victim).after.is_clean(), "{list:?}");
    }
    victim.change_superblock(|s| s.head.s_nfree = -1);
    assert!(harmless(&victim).after.is_clean());
    assert!(!victim.open().read_only());
    victim.set_addr(victim.other, 0, 1);
    let bytes = victim.device.to_bytes();
    let Repaired { after, changed, .. } = harmless(&victim);
    assert!(!changed && !after.is_clean() && victim.device.to_bytes() == bytes);
}

/// Promise: a file system whose free list has a block of a file, or goes round in a circle, or in
/// which two files have one block, is not written, even by force, until it is repaired.
#[test]
fn a_block_that_is_not_free_is_not_given_out() {
    type Plant = (&'static str, fn(&Victim));
    const PLANTS: [Plant; 4] = [
        ("is in the free list and in a file", |v| {
            let names = v.addr(2, 0);
            v.change_superblock(|s| {
                let top = usize::try_from(s.head.s_nfree).unwrap() - 1;
                s.head.s_free[top] = names;
            });
        }),
        ("its free list is damaged", |v| {
            let mut first = 0;
            v.change_superblock(|s| first = s.head.s_free[0]);
            let mut link = v.block(Block(first));
            v.change_superblock(|s| {
                s.head.s_nfree = 1;
                s.head.s_free[0] = first;
            });
            let at = if v.layout.format == Format::V7 { 2 } else { 4 };
            first.put(&mut link[at..], v.layout.format.endian);
            v.change(Block(first), |bytes| bytes.copy_from_slice(&link));
        }),
        ("belongs to inode", |v| v.set_addr(v.other, 0, v.addr(v.file, 3))),
        ("belongs to inode", |v| v.set_addr(v.other, 0, v.addr(v.file, 10))),
    ];
    for format in FORMATS {
        for (expected, plant) in PLANTS {
            let victim = Victim::new(format);
            plant(&victim);
            let detected = Superblock::open(&*victim.device, None).unwrap();
            let shown = detected.objections(&*victim.device);
            let force = OpenOptions { force: true, ..OpenOptions::default() };
            let fs = V7::open(victim.device.clone(), victim.clock.clone(), &force).unwrap();
            assert!(fs.read_only(), "{format}: {expected}");
            assert!(shown[0].reason.contains(expected), "{format}: {shown:?}");
            assert_eq!(fs.read_only_reasons(), shown);
            drop(fs);
            mend(&victim);
            assert!(!victim.open().read_only());
        }
    }
}

/// Promise: a file system that was not unmounted is opened read-only, with the remedy, until it has
/// been checked: System V marks this itself, and in the others Spindle marks its own mounts.
#[test]
fn not_unmounted() {
    for format in FORMATS {
        let victim = Victim::new(format);
        let fs = victim.open();
        support::make(&fs, fs.root(), b"new", spindle_vfs::FileKind::Regular);
        fs.sync().unwrap();
        drop(fs);
        let fs = victim.open();
        assert!(fs.read_only());
        assert!(fs.read_only_reasons()[0].reason.contains("not unmounted"), "{:?}", fs.read_only_reasons());
        drop(fs);
        assert_eq!(findings(&victim), ["FILE SYSTEM WAS NOT UNMOUNTED CLEANLY"]);
        assert!(mend(&victim).changed);
        assert!(!victim.open().read_only());
    }
}

/// Promise: a regular file whose mode is damaged into that of a device or a pipe loses nothing:
/// what repairs only what is harmless leaves it alone, and a full repair makes it a regular file.
#[test]
fn files_that_look_like_devices_keep_their_blocks() {
    for format in FORMATS {
        for mode in [0o010_644, 0o020_644, 0o060_600] {
            let victim = Victim::new(format);
            victim.change_inode(victim.file, |i| i.di_mode = mode);
            let before = victim.device.to_bytes();
            let harmless = repair(&victim.shared(), &*victim.clock, &options(&victim), true, &mut |_| ());
            assert!(harmless.is_err() || !harmless.unwrap().after.is_clean(), "{format}: {mode:o}");
            assert!(victim.device.to_bytes() == before, "{format}: {mode:o}: written");
            assert!(mend(&victim).after.is_clean(), "{format}: {mode:o}");
            let fs = victim.open();
            let mut bytes = vec![0; contents().len()];
            assert_eq!(fs.read(Ino(victim.file.into()), 0, &mut bytes).unwrap(), bytes.len());
            assert!(bytes == contents(), "{format}: {mode:o}");
        }
    }
}
