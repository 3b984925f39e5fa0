//! Members of different moments: left out or refused, never mixed.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Mfs, OpenOptions, Role, Set};
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege};
use std::sync::Arc;

const BY: Privilege = Privilege::Root;
/// The members of a set, with the part of which each has a copy.
const ROLES: [(Role, u32); 6] = [
    (Role::Control, 0),
    (Role::Control, 0),
    (Role::Data, 0),
    (Role::Data, 0),
    (Role::Data, 1),
    (Role::Log, 0),
];

type Members = Vec<Arc<MemoryDevice>>;

fn clock(secs: i64) -> Arc<ManualClock> {
    Arc::new(ManualClock::at(secs))
}

fn new_set() -> Members {
    let media: Members = ROLES.iter().map(|_| Arc::new(MemoryDevice::new(8 << 20))).collect();
    let member = |(device, &(role, part)): (&Arc<MemoryDevice>, &(Role, u32))| Member {
        device: device.clone(),
        areas: vec![NewArea { part: Some(part), ..NewArea::of(role) }],
    };
    let members: Vec<_> = media.iter().zip(&ROLES).map(member).collect();
    make(&members, &Wishes::new(), &*clock(1), &mut StdRng::seed_from_u64(3)).unwrap();
    media
}

fn devices(members: &[Arc<MemoryDevice>]) -> Vec<Arc<dyn Device>> {
    members.iter().map(|member| member.clone() as Arc<dyn Device>).collect()
}

fn copies(members: &Members) -> Members {
    members.iter().map(|member| Arc::new(member.branch())).collect()
}

fn mount(members: &[Arc<MemoryDevice>], secs: i64) -> spindle_vfs::Result<Mfs> {
    Mfs::open(&Set::open(&devices(members))?, clock(secs), &OpenOptions::default())
}

/// Mounts, writes a file with these bytes, and unmounts.
fn write(members: &[Arc<MemoryDevice>], secs: i64, name: &str, bytes: &[u8]) {
    let fs = mount(members, secs).unwrap();
    assert!(!fs.read_only());
    let node = NewNode::new(FileKind::Regular, 0o644);
    let attr = fs.create(fs.root(), name.as_bytes(), &node, BY).unwrap();
    fs.write(attr.ino, 0, bytes, BY).unwrap();
    fs.forget(attr.ino, 1);
    fs.unmount().unwrap();
}

fn read(fs: &Mfs, name: &str) -> spindle_vfs::Result<Vec<u8>> {
    let attr = fs.lookup(fs.root(), name.as_bytes())?;
    let mut bytes = vec![0; usize::try_from(attr.size).unwrap()];
    fs.read(attr.ino, 0, &mut bytes)?;
    fs.forget(attr.ino, 1);
    Ok(bytes)
}

/// Promise: a member with the state of an earlier mount is left out. If there is another copy of
/// what it has, the set goes on; else the set is refused, or without a part of data storage only
/// read.
#[test]
fn a_member_of_an_earlier_moment_is_left_out() {
    let members = new_set();
    write(&members, 10, "first", &vec![1; 200_000]);
    let earlier = copies(&members);
    write(&members, 20, "second", &vec![2; 200_000]);
    for (n, (role, _)) in ROLES.iter().enumerate() {
        let mut mixed = copies(&members);
        mixed[n] = Arc::new(earlier[n].branch());
        let only = *role == Role::Log;
        let opened = mount(&mixed, 30);
        if only {
            let error = opened.err().unwrap().to_string();
            assert!(error.contains("log storage 0 is missing"), "{error}");
            continue;
        }
        let fs = opened.unwrap();
        if n == 4 {
            assert!(fs.read_only());
            let reason = &fs.read_only_reasons()[0].reason;
            assert!(reason.contains("data storage 1 is not available"), "{reason}");
            continue;
        }
        assert!(!fs.read_only());
        assert_eq!(read(&fs, "first").unwrap(), vec![1; 200_000]);
        assert_eq!(read(&fs, "second").unwrap(), vec![2; 200_000]);
        fs.unmount().unwrap();
        // From now on it counts as lost, and the set does not need it.
        mixed.remove(n);
        assert_eq!(read(&mount(&mixed, 40).unwrap(), "second").unwrap(), vec![2; 200_000]);
    }
}

/// Promise: two copies of a set that were both used are not mixed, although their members have
/// seen equally many mounts.
#[test]
fn copies_of_a_set_are_not_mixed() {
    let one = new_set();
    let other = copies(&one);
    write(&one, 10, "one", b"1");
    write(&other, 11, "other", b"2");
    for n in 0..ROLES.len() {
        let mut mixed = one.clone();
        mixed[n] = other[n].clone();
        let error = Set::open(&devices(&mixed)).err().unwrap().to_string();
        assert!(error.contains("used apart from each other"), "{error}");
    }
}

/// Promise: a part of data storage that is missing costs only what lies there: the set can be read,
/// and nothing is written.
#[test]
fn without_a_part_of_data_storage_the_rest_can_be_read() {
    let members = new_set();
    let fs = mount(&members, 10).unwrap();
    let node = NewNode::new(FileKind::Regular, 0o644);
    for n in 0..40 {
        let attr = fs.create(fs.root(), format!("{n}").as_bytes(), &node, BY).unwrap();
        fs.write(attr.ino, 0, &vec![n; 20_000], BY).unwrap();
        fs.forget(attr.ino, 1);
    }
    fs.unmount().unwrap();
    let before: Vec<_> = members.iter().map(|member| member.to_bytes()).collect();
    let fs = mount(&members[..4].iter().chain(&members[5..]).cloned().collect::<Members>(), 20).unwrap();
    let mut whole = 0;
    for n in 0..40 {
        match read(&fs, &n.to_string()) {
            Ok(bytes) => {
                assert_eq!(bytes, vec![n; 20_000]);
                whole += 1;
            }
            Err(error) => assert_eq!(error.errno(), 5, "{error}"),
        }
    }
    assert!((1..40).contains(&whole), "{whole} of 40 files do not depend on the part");
    assert!(fs.create(fs.root(), b"new", &node, BY).is_err());
    fs.unmount().unwrap();
    assert!(before == members.iter().map(|member| member.to_bytes()).collect::<Vec<_>>());
}

/// Promise: opening to read changes nothing on any member.
#[test]
fn reading_changes_nothing() {
    let members = new_set();
    write(&members, 10, "file", b"text");
    let before: Vec<_> = members.iter().map(|member| member.to_bytes()).collect();
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let fs = Mfs::open(&Set::open(&devices(&members)).unwrap(), clock(20), &options).unwrap();
    assert_eq!(read(&fs, "file").unwrap(), b"text");
    fs.unmount().unwrap();
    assert!(before == members.iter().map(|member| member.to_bytes()).collect::<Vec<_>>());
}
