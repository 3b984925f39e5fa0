//! Extended attributes: how many there can be, what they cost, and that nothing is left of them.

mod support;

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::{Usage, check};
use spindle_mfs::newfs::{Member, Wishes, make};
use spindle_mfs::{Mfs, OpenOptions, Role, Set};
use spindle_vfs::{Error, FileKind, FileSystem, Ino, NewNode, Privilege, XattrMode};
use std::sync::Arc;
use support::clock;

const BY: Privilege = Privilege::Root;
/// Bytes of attributes in a header, of a record without name and value, and most headers of a file.
const PIECE: usize = 476;
const RECORD: usize = 6;
const MOST: usize = 256;

/// Returns the members of a new set with so many KiB of control storage.
fn members(control_kib: u64) -> Vec<Arc<dyn Device>> {
    let roles = [(control_kib, Role::Control), (2048, Role::Data), (1280, Role::Log)];
    let members = roles.map(|(kib, role)| Member::of(Arc::new(MemoryDevice::new(kib << 10)), role));
    let mut wishes = Wishes::new();
    wishes.parameters.block_bytes = 1024;
    wishes.parameters.cylinder_bytes = 32 << 10;
    wishes.parameters.track_blocks = 8;
    make(&members, &wishes, &*clock(), &mut StdRng::seed_from_u64(5)).unwrap();
    members.into_iter().map(|member| member.device).collect()
}

fn open(devices: &[Arc<dyn Device>]) -> Mfs {
    Mfs::open(&Set::open(devices).unwrap(), clock(), &OpenOptions::default()).unwrap()
}

fn create(fs: &Mfs, name: &str) -> Ino {
    fs.create(fs.root(), name.as_bytes(), &NewNode::new(FileKind::Regular, 0o644), BY).unwrap().ino
}

/// Checks a set that was unmounted.
fn usage(devices: &[Arc<dyn Device>]) -> Usage {
    let report = check(&Set::open(devices).unwrap(), 100, &mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    report.usage
}

/// Promise: a file can have the longest value that Linux sets, and as many attributes as its
/// headers hold; what is more is refused and changes nothing. They take no more headers than they
/// need.
#[test]
fn attributes_to_the_limit() {
    let devices = members(2048);
    let fs = open(&devices);
    let ino = create(&fs, "file");
    let free = fs.statfs().unwrap().ffree;
    fs.setxattr(ino, b"user.long", &vec![7; 65536], XattrMode::Set, BY).unwrap();
    let rest = MOST * PIECE - (RECORD + 4 + 65536) - (RECORD + 4);
    let refused = fs.setxattr(ino, b"user.rest", &vec![8; rest + 1], XattrMode::Set, BY);
    assert!(matches!(refused, Err(Error::NoSpace)));
    assert_eq!(fs.listxattr(ino).unwrap(), [b"user.long"]);
    fs.setxattr(ino, b"user.rest", &vec![8; rest], XattrMode::Set, BY).unwrap();
    assert_eq!(fs.statfs().unwrap().ffree, free - MOST as u64);
    let name = [b"user.".as_slice(), &[b'n'; 256]].concat();
    assert!(matches!(fs.setxattr(ino, &name, b"", XattrMode::Set, BY), Err(Error::NameTooLong)));
    fs.unmount().unwrap();
    assert_eq!(usage(&devices).attribute_headers, MOST as u64);
    let fs = open(&devices);
    assert_eq!(fs.getxattr(ino, b"user.long").unwrap(), vec![7; 65536]);
    assert_eq!(fs.getxattr(ino, b"user.rest").unwrap(), vec![8; rest]);
    fs.setxattr(ino, b"user.long", b"short", XattrMode::Set, BY).unwrap();
    let bytes = (RECORD + 4 + 5) + (RECORD + 4 + rest);
    assert_eq!(fs.statfs().unwrap().ffree, free - bytes.div_ceil(PIECE) as u64);
    fs.removexattr(ino, b"user.rest").unwrap();
    fs.removexattr(ino, b"user.long").unwrap();
    assert_eq!(fs.statfs().unwrap().ffree, free);
    fs.unmount().unwrap();
    assert_eq!(usage(&devices).attribute_headers, 0);
}

/// Promise: attributes go with their file: at once, at its last reference, and in the recovery of a
/// set that was not unmounted.
#[test]
fn attributes_are_freed_with_the_file() {
    for (open_at_end, unmounted) in [(false, true), (true, true), (true, false)] {
        let devices = members(2048);
        let fs = open(&devices);
        let free = fs.statfs().unwrap().ffree;
        let ino = create(&fs, "file");
        fs.setxattr(ino, b"user.a", &[7; 5000], XattrMode::Set, BY).unwrap();
        if !open_at_end {
            fs.forget(ino, 1);
        }
        fs.unlink(fs.root(), b"file").unwrap();
        if open_at_end {
            fs.setxattr(ino, b"user.b", &[8; 5000], XattrMode::Set, BY).unwrap();
        }
        fs.sync().unwrap();
        if unmounted {
            fs.unmount().unwrap();
        }
        drop(fs);
        let fs = open(&devices);
        assert_eq!(fs.replayed_sectors().is_some(), !unmounted);
        assert_eq!(fs.statfs().unwrap().ffree, free);
        fs.unmount().unwrap();
        assert_eq!(usage(&devices).attribute_headers, 0);
    }
}

/// Promise: without free headers an attribute is refused, and all that were there before are
/// unchanged; smaller ones that fit into the same headers are set, and removing always works.
#[test]
fn attributes_of_a_full_set() {
    let devices = members(320);
    let fs = open(&devices);
    let files: Vec<_> = (0..6).map(|n| create(&fs, &format!("file{n}"))).collect();
    for &ino in &files {
        fs.setxattr(ino, b"user.old", &[5; 900], XattrMode::Set, BY).unwrap();
    }
    let mut set: Vec<(Ino, usize)> = files.iter().map(|&ino| (ino, 0)).collect();
    let mut refused = 0;
    for len in [400, 7000, 20_000, 40_000, 30_000] {
        for (ino, most) in &mut set {
            let before = fs.statfs().unwrap().ffree;
            match fs.setxattr(*ino, b"user.new", &vec![6; len], XattrMode::Set, BY) {
                Ok(()) => *most = len,
                Err(error) => {
                    assert!(matches!(error, Error::NoSpace), "{error}");
                    assert_eq!(fs.statfs().unwrap().ffree, before);
                    refused += 1;
                }
            }
            assert_eq!(fs.getxattr(*ino, b"user.old").unwrap(), [5; 900]);
            let value = fs.getxattr(*ino, b"user.new").ok();
            assert_eq!(value, (*most > 0).then(|| vec![6; *most]));
        }
    }
    assert!(refused > 3, "{refused}");
    fs.unmount().unwrap();
    let headers = |(_, len): &(Ino, usize)| {
        let new = if *len > 0 { RECORD + 3 + len } else { 0 };
        (RECORD + 3 + 900 + new).div_ceil(PIECE) as u64
    };
    assert_eq!(usage(&devices).attribute_headers, set.iter().map(headers).sum::<u64>());
    let fs = open(&devices);
    for (ino, len) in set {
        fs.setxattr(ino, b"user.old", &[9; 800], XattrMode::Replace, BY).unwrap();
        fs.removexattr(ino, b"user.old").unwrap();
        if len > 0 {
            fs.removexattr(ino, b"user.new").unwrap();
        }
    }
    fs.unmount().unwrap();
    assert_eq!(usage(&devices).attribute_headers, 0);
}
