//! Damage of every kind is found, reported, and repaired.

mod support;

use spindle_ondisk::{Endian, Field};
use spindle_v7::check::{Options, Repaired, check, repair};
use spindle_v7::{Block, Format};
use spindle_vfs::{FileSystem, Ino};
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
    repair(&*victim.device, &*victim.clock, &options(victim), false, &mut |_| ()).unwrap()
}

/// Replaces the names in a text by inode numbers.
fn numbered(victim: &Victim, text: &str) -> String {
    let Victim { dir, sub, file, other, .. } = victim;
    [("{dir}", dir), ("{sub}", sub), ("{file}", file), ("{other}", other)]
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
    (" BAD I={other} (ADDRESS 1) (/other)", |v| v.set_addr(v.other, 1, v.layout.s_fsize)),
    ("1 BAD I={other} (ADDRESS 2)", |v| v.set_addr(v.other, 2, 1)),
    (" DUP I={file} (ADDRESS 3) (/dir/file)", |v| v.set_addr(v.other, 0, v.addr(v.file, 3))),
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
    ("BAD FREE LIST: corrupt: it says that it holds 77", |v| v.change_superblock(|s| s.head.s_nfree = 77)),
    ("BAD FREE LIST: corrupt: address 16777000 is outside", |v| {
        v.change_superblock(|s| s.head.s_free[1] = 16_777_000);
    }),
    ("BAD FREE LIST: corrupt: block ", |v| v.change_superblock(|s| s.head.s_free[1] = s.head.s_free[2])),
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

/// Promise: without a `lost+found`, a file without a name stays, and so does its finding;
/// everything else is repaired.
#[test]
fn nowhere_to_put_a_file() {
    let victim = Victim::new(Format::V7);
    victim.set_entry(2, 2, victim.lost, Some(b"elsewhere"));
    victim.set_entry(2, 4, 0, None);
    victim.change_superblock(|s| s.head.s_nfree = -1);
    let Repaired { before, after, changed } = mend(&victim);
    assert!(changed);
    assert_eq!((before.damages, after.damages), (2, 1), "{after:#?}");
    assert!(after.findings[0].to_string().starts_with("UNREF FILE"));
}

/// Promise: a repair that is limited to harmless damage changes nothing if there is serious damage.
#[test]
fn only_what_is_harmless() {
    let harmless = |victim: &Victim| {
        repair(&*victim.device, &*victim.clock, &options(victim), true, &mut |_| ()).unwrap()
    };
    let victim = Victim::new(Format::V7);
    victim.change_inode(victim.other, |inode| inode.di_nlink = 3);
    victim.change_superblock(|s| s.head.s_nfree -= 1);
    assert!(harmless(&victim).after.is_clean());
    victim.set_addr(victim.other, 0, 1);
    let bytes = victim.device.to_bytes();
    let Repaired { after, changed, .. } = harmless(&victim);
    assert!(!changed && !after.is_clean() && victim.device.to_bytes() == bytes);
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
