//! Classes of data: which files go where, what happens when one is full or gone, and that a file
//! reads the same whatever blocks it has.

mod support;

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::check;
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Class, Mfs, OpenOptions, Role, Set};
use spindle_vfs::{
    Error, FileKind, FileSystem, Ino, NewNode, Privilege, RenameMode, Result, SetAttr, XattrMode,
};
use std::sync::Arc;
use support::{class, clock, make_with_classes};

const BY: Privilege = Privilege::Root;
const CLASS: &[u8] = b"user.spindle.class";
/// The member with the only part of the class `large`.
const LARGE: usize = 3;

/// Returns the members of a new set with the classes `default` and `second`, whose blocks have 4
/// KiB, and `large`, whose blocks have 64 KiB.
fn members() -> Vec<Arc<MemoryDevice>> {
    make_with_classes([2048, 3072, 2048, 4096], [("second", 4096), ("large", 64 << 10)], false)
}

fn open_set(media: &[Arc<MemoryDevice>]) -> Set {
    Set::open(&media.iter().map(|device| device.clone() as Arc<dyn Device>).collect::<Vec<_>>()).unwrap()
}

fn open(media: &[Arc<MemoryDevice>]) -> Mfs {
    Mfs::open(&open_set(media), clock(), &OpenOptions::default()).unwrap()
}

fn create(fs: &Mfs, dir: Ino, name: &str, kind: FileKind) -> Ino {
    let ino = fs.create(dir, name.as_bytes(), &NewNode::new(kind, 0o755), BY).unwrap().ino;
    fs.forget(ino, 1);
    ino
}

fn set_class(fs: &Mfs, ino: Ino, name: &str) -> Result<()> {
    fs.setxattr(ino, CLASS, name.as_bytes(), XattrMode::Set, BY)
}

fn class_of(fs: &Mfs, ino: Ino) -> String {
    String::from_utf8(fs.getxattr(ino, CLASS).unwrap()).unwrap()
}

fn write(fs: &Mfs, ino: Ino, at: u64, len: usize, fill: u8) {
    assert_eq!(fs.write(ino, at, &vec![fill; len], BY).unwrap(), len);
}

fn read(fs: &Mfs, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(fs.getattr(ino).unwrap().size).unwrap()];
    assert_eq!(fs.read(ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Returns the bytes that each class has in use.
fn used(media: &[Arc<MemoryDevice>]) -> Vec<u64> {
    open_set(media).storage_use().unwrap().classes.iter().map(|share| share.used).collect()
}

fn assert_clean(media: &[Arc<MemoryDevice>]) {
    let report = check(&open_set(media), 100, &mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

/// Promise: new files and directories get the class of their directory and keep it when they move;
/// their data is stored there, in blocks of its size, and nowhere else.
#[test]
fn files_get_the_class_of_their_directory() {
    let media = members();
    let fs = open(&media);
    let dir = create(&fs, fs.root(), "dir", FileKind::Directory);
    assert_eq!(class_of(&fs, dir), "default");
    let before = create(&fs, dir, "before", FileKind::Regular);
    set_class(&fs, dir, "large").unwrap();
    let sub = create(&fs, dir, "sub", FileKind::Directory);
    let file = create(&fs, sub, "file", FileKind::Regular);
    assert_eq!([before, sub, file].map(|ino| class_of(&fs, ino)), ["default", "large", "large"]);
    write(&fs, file, 0, 100_000, 1);
    write(&fs, before, 0, 5000, 2);
    let attr = fs.getattr(file).unwrap();
    assert_eq!((attr.blksize, attr.blocks512), (65_536, 256));
    fs.rename(sub, b"file", fs.root(), b"moved", RenameMode::Replace, BY).unwrap();
    write(&fs, file, 150_000, 50, 3);
    let stat = fs.statfs_at(file).unwrap();
    assert_eq!((stat.frsize, stat.blocks - stat.bfree), (65_536, 3));
    assert_eq!(fs.statfs().unwrap().frsize, 4096, "of the root directory");
    fs.unmount().unwrap();
    assert_eq!(used(&media), [8192, 0, 3 << 16]);
    let fs = open(&media);
    assert_eq!(class_of(&fs, file), "large");
    let mut expected = vec![1; 100_000];
    expected.resize(150_000, 0);
    expected.resize(150_050, 3);
    assert!(read(&fs, file) == expected && read(&fs, before) == [2; 5000]);
    fs.unlink(fs.root(), b"moved").unwrap();
    fs.unmount().unwrap();
    assert_eq!(used(&media), [8192, 0, 0]);
    assert_clean(&media);
}

/// Promise: a class that there is not is refused with EINVAL; a file with blocks can have only a
/// class with blocks of that size, and then has blocks in both; each is freed where it is.
#[test]
fn a_file_can_change_its_class() {
    let media = members();
    let fs = open(&media);
    let file = create(&fs, fs.root(), "file", FileKind::Regular);
    assert!(matches!(set_class(&fs, file, "none"), Err(Error::Invalid)));
    assert!(matches!(fs.setxattr(file, CLASS, b"large", XattrMode::Create, BY), Err(Error::Exists)));
    let pipe = create(&fs, fs.root(), "pipe", FileKind::Fifo);
    assert!(matches!(set_class(&fs, pipe, "large"), Err(Error::Invalid)));
    // What is in the header is no block.
    write(&fs, file, 0, 300, 1);
    set_class(&fs, file, "large").unwrap();
    set_class(&fs, file, "default").unwrap();
    write(&fs, file, 0, 20_000, 1);
    assert!(matches!(set_class(&fs, file, "large"), Err(Error::NotEmpty)));
    set_class(&fs, file, "second").unwrap();
    write(&fs, file, 20_000, 30_000, 2);
    // In blocks that it has.
    write(&fs, file, 100, 10, 3);
    fs.sync().unwrap();
    assert_eq!(used(&media), [20_480, 32_768, 0]);
    assert!(fs.listxattr(file).unwrap().is_empty());
    fs.removexattr(file, CLASS).unwrap();
    assert_eq!(class_of(&fs, file), "default");
    let mut expected = vec![1; 20_000];
    expected[100..110].fill(3);
    expected.resize(50_000, 2);
    assert!(read(&fs, file) == expected);
    fs.unmount().unwrap();
    assert_clean(&media);
    let fs = open(&media);
    assert!(read(&fs, file) == expected);
    fs.unlink(fs.root(), b"file").unwrap();
    fs.unmount().unwrap();
    assert_eq!(used(&media), [0; 3]);
}

/// Promise: a file without blocks can change to a class with blocks of another size while it is in
/// use, and what is written and read before and after is right.
#[test]
fn a_file_in_use_gets_other_blocks() {
    let media = members();
    let fs = open(&media);
    let file = create(&fs, fs.root(), "file", FileKind::Regular);
    fs.lookup(fs.root(), b"file").unwrap();
    for (round, name) in ["default", "large", "default", "large"].into_iter().enumerate() {
        set_class(&fs, file, name).unwrap();
        let fill = u8::try_from(round).unwrap() + 1;
        write(&fs, file, 3000, 200_000, fill);
        let mut expected = vec![0; 3000];
        expected.resize(203_000, fill);
        assert!(read(&fs, file) == expected, "{name}");
        for size in [90_000, 0] {
            fs.setattr(file, &SetAttr { size: Some(size), ..SetAttr::default() }, BY).unwrap();
            assert!(read(&fs, file) == expected[..usize::try_from(size).unwrap()], "{name}");
        }
    }
    fs.forget(file, 1);
    fs.unmount().unwrap();
    assert_eq!(used(&media), [0; 3]);
    assert_clean(&media);
}

/// Promise: a class that is full gives ENOSPC, whatever others have; the others go on.
#[test]
fn a_full_class_is_full() {
    let media = members();
    let fs = open(&media);
    let dir = create(&fs, fs.root(), "dir", FileKind::Directory);
    set_class(&fs, dir, "second").unwrap();
    let file = create(&fs, dir, "file", FileKind::Regular);
    let mut at = 0;
    let full = loop {
        match fs.write(file, at, &vec![5; 50_000], BY) {
            Ok(written) => at += written as u64,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::NoSpace));
    assert_eq!(fs.statfs_at(dir).unwrap().bfree, 0);
    assert!(fs.statfs().unwrap().bfree > 200);
    let small = create(&fs, dir, "small", FileKind::Regular);
    write(&fs, small, 0, 384, 1);
    assert!(matches!(fs.write(small, 384, &[1], BY), Err(Error::NoSpace)));
    let elsewhere = create(&fs, fs.root(), "elsewhere", FileKind::Regular);
    write(&fs, elsewhere, 0, 500_000, 6);
    // The rest of the full file can go there too.
    set_class(&fs, file, "default").unwrap();
    write(&fs, file, at, 100_000, 7);
    fs.unmount().unwrap();
    assert_clean(&media);
}

/// Promise: without the member of a class only what is there cannot be read; nothing is written
/// then, and afterwards all is there.
#[test]
fn a_class_that_is_gone_takes_nothing_else() {
    let media = members();
    let fs = open(&media);
    let near = create(&fs, fs.root(), "near", FileKind::Regular);
    write(&fs, near, 0, 50_000, 1);
    let far = create(&fs, fs.root(), "far", FileKind::Regular);
    set_class(&fs, far, "large").unwrap();
    write(&fs, far, 0, 50_000, 2);
    fs.unmount().unwrap();
    let without: Vec<_> = media[..LARGE].to_vec();
    let fs = open(&without);
    let reasons: Vec<_> = fs.read_only_reasons().iter().map(|objection| objection.reason.clone()).collect();
    assert_eq!(reasons, ["data storage 2 is not available"]);
    assert!(read(&fs, near) == vec![1; 50_000]);
    assert!(matches!(fs.read(far, 0, &mut [0; 10]), Err(Error::Device(_))));
    assert!(matches!(fs.write(near, 0, b"x", BY), Err(Error::ReadOnly)));
    drop(fs);
    let fs = open(&media);
    assert!(read(&fs, far) == vec![2; 50_000]);
}

/// Promise: a set is not made with a class that has no member, no name of its own, or no possible
/// structure, and the members stay as they are.
#[test]
fn impossible_classes_are_refused() {
    let try_with = |classes: Vec<Class>| {
        let device = Arc::new(MemoryDevice::new(32 << 20));
        let mut member = Member::with_all(device.clone());
        member.areas.push(NewArea { class: 1, part: Some(1), ..NewArea::of(Role::Data) });
        let wishes = Wishes { classes, ..Wishes::new() };
        let made = make(&[member], &wishes, &*clock(), &mut StdRng::seed_from_u64(2)).map(drop);
        assert!(made.is_ok() || device.to_bytes().iter().all(|&byte| byte == 0));
        made.inspect_err(|error| println!("{error}")).is_ok()
    };
    assert!(try_with(vec![class("a", 4096)]));
    assert!(!try_with(vec![class("a", 4096), class("b", 4096)]), "b has no member");
    assert!(!try_with(vec![class("default", 4096)]));
    assert!(!try_with(vec![class("a", 3000)]));
    assert!(!try_with(Vec::new()), "the member has a class that there is not");
}
