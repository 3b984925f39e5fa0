//! Access control lists on whole file systems: mode and list agree after any operation, the disk
//! has them as the BSDs do, and malformed ones open nothing.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Format, Parameters, Plan};
use spindle_ffs::ondisk::FS_UFS2EA_MAGIC;
use spindle_ffs::tunefs::{self, Tuning, tune};
use spindle_ffs::{Dialect, Ffs, LogUse, OpenOptions, Superblock};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::acl::{ACCESS_ACL, DEFAULT_ACL, Entry, NFS4_ACL, Who};
use spindle_vfs::nfs4;
use spindle_vfs::{
    Acl, AclKind, Attr, Cred, Error, FileKind, FileSystem, Ino, NewNode, Nfs4Acl, OpenFlags, Options,
    Privilege, Result, SetAttr, Vfs, XattrMode,
};
use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;

/// The name under which the list is kept where it is not shown as one.
const STORED: &[u8] = b"system.posix1e.acl_access";

fn make(dialect: Dialect, endian: Endian) -> Arc<MemoryDevice> {
    let parameters = Parameters {
        dialect: Some(dialect),
        format: Format::Ufs2,
        endian: Some(endian),
        bsize: Some(8192),
        fsize: Some(1024),
        check_hashes: false,
        ..Parameters::new(8 << 20)
    };
    let device = Arc::new(MemoryDevice::new(parameters.size_bytes));
    let plan = Plan::new(&parameters).unwrap();
    let random = &mut StdRng::seed_from_u64(1);
    newfs::write(&plan, &*device, &ManualClock::at(1_700_000_000), random, &mut |_, _| ()).unwrap();
    if dialect == Dialect::NetBsd {
        let superblock = Superblock::open(&*device).unwrap();
        let mut raw = superblock.raw().to_vec();
        FS_UFS2EA_MAGIC.put(&mut raw[1372..], endian);
        device.write_at(superblock.layout.fs_sblockloc, &raw).unwrap();
    }
    device
}

/// Switches lists of this kind on, and all others off.
fn switch(device: &MemoryDevice, kind: AclKind) {
    let tuning = Tuning {
        posix_acls: Some(kind == AclKind::Posix),
        nfs4_acls: Some(kind == AclKind::Nfs4),
        ..Tuning::default()
    };
    // The replicas too: those of NetBSD's UFS2ea have been made with another magic.
    tune(device, &tuning, tunefs::Options { force: false, replicas: true }).unwrap();
}

/// Returns a file system of FreeBSD with lists of POSIX.1e.
fn posix() -> Arc<MemoryDevice> {
    let device = make(Dialect::FreeBsd, Endian::Little);
    switch(&device, AclKind::Posix);
    device
}

fn open(device: &Arc<MemoryDevice>) -> Ffs {
    let log = if Superblock::open(&**device).unwrap().layout.endian == Endian::Little {
        LogUse::Wanted
    } else {
        LogUse::Never
    };
    let options = OpenOptions { log, log_bytes: Some(512 << 10), seed: Some(1), ..OpenOptions::default() };
    Ffs::open(device.clone(), Arc::new(ManualClock::at(1_700_000_000)), &options).unwrap()
}

fn expect_clean(device: &MemoryDevice, what: &str) {
    let report = check(device, &check::Options::default(), &mut |_| ()).unwrap();
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.marked_clean && found.is_empty(), "{what}: {found:?}");
}

fn create(fs: &Ffs, dir: Ino, name: &str, kind: FileKind, perm: u32) -> Attr {
    fs.create(dir, name.as_bytes(), &NewNode::new(kind, perm), Privilege::Root).unwrap()
}

fn set(fs: &Ffs, ino: Ino, name: &[u8], acl: &Acl) -> Result<()> {
    fs.setxattr(ino, name, &acl.to_linux(), XattrMode::Set, Privilege::Root)
}

fn get(fs: &Ffs, ino: Ino, name: &[u8]) -> Option<Acl> {
    match fs.getxattr(ino, name) {
        Ok(value) => Some(Acl::from_linux(&value).unwrap().expect("a list has entries")),
        Err(Error::NoAttribute) => None,
        Err(error) => panic!("{error}"),
    }
}

fn chmod(fs: &Ffs, ino: Ino, perm: u32) {
    fs.setattr(ino, &SetAttr { perm: Some(perm), ..SetAttr::default() }, Privilege::Root).unwrap();
}

fn perm(fs: &Ffs, ino: Ino) -> u32 {
    fs.getattr(ino).unwrap().perm
}

fn acl(entries: &[(Who, u8)]) -> Acl {
    Acl::new(entries.iter().map(|&(who, perm)| Entry { who, perm }).collect()).unwrap()
}

/// Returns the list `u::rwx,u:1001:rw-,g::r-x,m::rwx,o::---`.
fn list() -> Acl {
    acl(&[(Who::Owner, 7), (Who::User(1001), 6), (Who::OwningGroup, 5), (Who::Mask, 7), (Who::Other, 0)])
}

/// Returns the bytes of the record `name` as they are on the device.
fn stored(device: &MemoryDevice, name: &[u8]) -> Option<Vec<u8>> {
    let bytes = device.to_bytes();
    let at = bytes.windows(name.len()).position(|window| window == name)?;
    let value = at - 7 + (7 + name.len()).next_multiple_of(8);
    Some(bytes[value..value + 388].to_vec())
}

/// Promise: lists can be had where the superblock says so, on FreeBSD and on `UFS2ea` of NetBSD in
/// both byte orders, and nowhere else; they are on the disk as those systems have them.
#[test]
fn where_the_superblock_says_so() {
    for (dialect, endian) in [
        (Dialect::FreeBsd, Endian::Little),
        (Dialect::FreeBsd, Endian::Big),
        (Dialect::NetBsd, Endian::Little),
        (Dialect::NetBsd, Endian::Big),
    ] {
        let device = make(dialect, endian);
        let fs = open(&device);
        assert_eq!(fs.limits().acls, AclKind::None);
        let refused = set(&fs, fs.root(), ACCESS_ACL, &list());
        assert!(matches!(refused, Err(Error::NotSupported)), "{dialect:?}: {refused:?}");
        fs.unmount().unwrap();
        switch(&device, AclKind::Posix);
        let fs = open(&device);
        assert_eq!(fs.limits().acls, AclKind::Posix);
        let file = create(&fs, fs.root(), "file", FileKind::Regular, 0o640).ino;
        assert_eq!(get(&fs, file, ACCESS_ACL), None);
        set(&fs, file, ACCESS_ACL, &list()).unwrap();
        assert_eq!((perm(&fs, file), get(&fs, file, ACCESS_ACL)), (0o770, Some(list())));
        assert_eq!(fs.listxattr(file).unwrap(), [ACCESS_ACL]);
        assert!(matches!(fs.getxattr(file, STORED), Err(Error::NotSupported)), "only under one name");
        fs.unmount().unwrap();
        let value = stored(&device, b"posix1e.acl_access").unwrap();
        let wide = dialect == Dialect::NetBsd;
        let word = |at: usize| u32::get(&value[at..], endian);
        let entry = |n: usize| {
            let at = 4 + 12 * n;
            let perm = if wide { word(at + 8) } else { u16::get(&value[at + 8..], endian).into() };
            (word(at), word(at + 4), perm)
        };
        assert_eq!(word(0), 5, "{dialect:?} {endian:?}");
        let expected =
            [(1, u32::MAX, 7), (2, 1001, 6), (4, u32::MAX, 5), (0x10, u32::MAX, 7), (0x20, u32::MAX, 0)];
        assert_eq!([0, 1, 2, 3, 4].map(entry), expected, "{dialect:?} {endian:?}");
        expect_clean(&device, "with lists");
    }
}

/// Promise: the list is an ordinary attribute of the system again when the flag is off, and obeyed
/// when it is on again, with the mode that the file has got meanwhile.
#[test]
fn switched_off_and_on() {
    let device = posix();
    let fs = open(&device);
    let file = create(&fs, fs.root(), "file", FileKind::Regular, 0o640).ino;
    set(&fs, file, ACCESS_ACL, &list()).unwrap();
    fs.unmount().unwrap();
    switch(&device, AclKind::None);
    let fs = open(&device);
    assert_eq!(fs.listxattr(file).unwrap(), [STORED]);
    assert_eq!(fs.getxattr(file, STORED).unwrap().len(), 388);
    chmod(&fs, file, 0o604);
    fs.unmount().unwrap();
    switch(&device, AclKind::Posix);
    let fs = open(&device);
    assert_eq!(get(&fs, file, ACCESS_ACL), Some(list().with_perm(0o604)));
    fs.unmount().unwrap();
}

/// Promise: symbolic links have no lists, files no default ones; a list that is too long or not
/// valid is refused; nothing of that changes anything.
#[test]
fn refusals() {
    let device = posix();
    let fs = open(&device);
    let file = create(&fs, fs.root(), "file", FileKind::Regular, 0o640).ino;
    let link = NewNode { target: b"file", ..NewNode::new(FileKind::Symlink, 0o777) };
    let link = fs.create(fs.root(), b"link", &link, Privilege::Root).unwrap().ino;
    assert!(matches!(set(&fs, link, ACCESS_ACL, &list()), Err(Error::NotSupported)));
    assert!(matches!(fs.getxattr(link, ACCESS_ACL), Err(Error::NotSupported)));
    assert!(matches!(set(&fs, file, DEFAULT_ACL, &list()), Err(Error::Access)));
    let mut entries = list().entries().to_vec();
    entries.extend((0..28).map(|uid| Entry { who: Who::User(uid), perm: 7 }));
    let long = Acl::new(entries.clone()).unwrap();
    assert!(matches!(set(&fs, file, ACCESS_ACL, &long), Err(Error::NoSpace)), "33 entries");
    let wrong = fs.setxattr(file, ACCESS_ACL, b"\x02\0\0\0\x01", XattrMode::Set, Privilege::Root);
    assert!(matches!(wrong, Err(Error::Invalid)));
    assert_eq!((perm(&fs, file), fs.listxattr(file).unwrap().len()), (0o640, 0));
    entries.pop();
    set(&fs, file, ACCESS_ACL, &Acl::new(entries).unwrap()).unwrap();
    assert_eq!(get(&fs, file, ACCESS_ACL).unwrap().entries().len(), 32);
    set(&fs, file, ACCESS_ACL, &Acl::minimal(0o604)).unwrap();
    assert_eq!((perm(&fs, file), get(&fs, file, ACCESS_ACL)), (0o604, None));
    // Removing what is not there is no error, as on FreeBSD.
    fs.removexattr(file, ACCESS_ACL).unwrap();
    fs.removexattr(fs.root(), DEFAULT_ACL).unwrap();
    fs.unmount().unwrap();
    expect_clean(&device, "refusals");
}

/// What a file is by the rules of POSIX.1e, computed on its own: lists are maps.
#[derive(Clone, Debug, Default)]
struct Model {
    perm: u32,
    access: Option<BTreeMap<Who, u8>>,
    default: Option<BTreeMap<Who, u8>>,
    is_dir: bool,
}

impl Model {
    /// Returns whose entry the group's permission bits are.
    fn group_class(list: &BTreeMap<Who, u8>) -> Who {
        if list.contains_key(&Who::Mask) { Who::Mask } else { Who::OwningGroup }
    }

    fn chmod(&mut self, perm: u32) {
        self.perm = perm;
        if let Some(list) = &mut self.access {
            let three = |shift: u32| u8::try_from(perm >> shift & 7).unwrap();
            let group = Self::group_class(list);
            list.insert(Who::Owner, three(6));
            list.insert(group, three(3));
            list.insert(Who::Other, three(0));
        }
    }

    fn set_access(&mut self, list: &BTreeMap<Who, u8>) {
        let bits = |who| u32::from(list[&who]);
        let nine = bits(Who::Owner) << 6 | bits(Self::group_class(list)) << 3 | bits(Who::Other);
        self.perm = self.perm & 0o7000 | nine;
        self.access = (list.len() > 3).then(|| list.clone());
    }

    fn child(&self, mode: u32, umask: u32, is_dir: bool) -> Self {
        let mut child = Self { is_dir, ..Self::default() };
        let Some(list) = &self.default else {
            child.perm = mode & !umask;
            return child;
        };
        let mut list = list.clone();
        let group = Self::group_class(&list);
        for (who, shift) in [(Who::Owner, 6), (group, 3), (Who::Other, 0)] {
            *list.get_mut(&who).unwrap() &= u8::try_from(mode >> shift & 7).unwrap();
        }
        child.perm = mode;
        child.set_access(&list);
        child.default = is_dir.then(|| self.default.clone()).flatten();
        child
    }
}

fn random_list(rng: &mut StdRng) -> BTreeMap<Who, u8> {
    let mut list = BTreeMap::new();
    for who in [Who::Owner, Who::OwningGroup, Who::Other] {
        list.insert(who, rng.random_range(0..8));
    }
    let named = rng.random_range(0..6);
    for _ in 0..named {
        let id = rng.random_range(1000..1010);
        list.insert(if rng.random() { Who::User(id) } else { Who::Group(id) }, rng.random_range(0..8));
    }
    if named > 0 || rng.random_ratio(1, 4) {
        list.insert(Who::Mask, rng.random_range(0..8));
    }
    list
}

fn as_acl(list: &BTreeMap<Who, u8>) -> Acl {
    acl(&list.iter().map(|(&who, &perm)| (who, perm)).collect::<Vec<_>>())
}

/// Promise: after any order of creations, chmod, and lists set and removed, each file has the mode
/// and the lists that POSIX.1e says, also after the next mount, and the check finds nothing.
#[test]
fn torture_mode_and_list_agree() {
    let given = |name| env::var(name).ok().and_then(|value| value.parse().ok());
    let seed = given("SPINDLE_SEED").unwrap_or_else(|| StdRng::from_os_rng().random());
    println!("SPINDLE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for case in 0..given("SPINDLE_CASES").unwrap_or(12) {
        let dialect = *[Dialect::FreeBsd, Dialect::NetBsd].choose(&mut rng).unwrap();
        let endian = *[Endian::Little, Endian::Big].choose(&mut rng).unwrap();
        let device = make(dialect, endian);
        switch(&device, AclKind::Posix);
        let mut fs = open(&device);
        let root = Model { perm: fs.getattr(fs.root()).unwrap().perm, is_dir: true, ..Model::default() };
        let mut files = vec![(fs.root(), root)];
        for step in 0..150 {
            let n = rng.random_range(0..files.len());
            let (ino, model) = &mut files[n];
            let what = format!("case {case}, step {step}, inode {}", ino.0);
            match rng.random_range(0..9) {
                0..3 if model.is_dir => {
                    let is_dir = rng.random_ratio(1, 3);
                    let (mode, umask) = (rng.random_range(0..0o10000), rng.random_range(0..0o1000));
                    let kind = if is_dir { FileKind::Directory } else { FileKind::Regular };
                    let node = NewNode { masked: mode & umask, ..NewNode::new(kind, mode & !umask) };
                    let name = format!("f{step}");
                    let made = fs.create(*ino, name.as_bytes(), &node, Privilege::Root).unwrap();
                    let child = model.child(mode, umask, is_dir);
                    assert_eq!(made.perm, child.perm, "{what}: created with {mode:o}, umask {umask:o}");
                    files.push((made.ino, child));
                }
                3 => {
                    let perm = rng.random_range(0..0o10000);
                    model.chmod(perm);
                    chmod(&fs, *ino, perm);
                }
                4 | 5 => {
                    let list = random_list(&mut rng);
                    model.set_access(&list);
                    set(&fs, *ino, ACCESS_ACL, &as_acl(&list)).unwrap();
                }
                6 => {
                    model.access = None;
                    fs.removexattr(*ino, ACCESS_ACL).unwrap();
                }
                7 if model.is_dir => {
                    let list = rng.random_ratio(3, 4).then(|| random_list(&mut rng));
                    match &list {
                        Some(list) => set(&fs, *ino, DEFAULT_ACL, &as_acl(list)).unwrap(),
                        None => fs.removexattr(*ino, DEFAULT_ACL).unwrap(),
                    }
                    model.default = list;
                }
                8 => {
                    fs.unmount().unwrap();
                    fs = open(&device);
                }
                _ => {}
            }
            let (ino, model) = files.last().filter(|_| rng.random()).unwrap_or(&files[n]);
            assert_eq!(perm(&fs, *ino), model.perm, "{what}");
            assert_eq!(get(&fs, *ino, ACCESS_ACL), model.access.as_ref().map(as_acl), "{what}");
            assert_eq!(get(&fs, *ino, DEFAULT_ACL), model.default.as_ref().map(as_acl), "{what}");
            let lists = usize::from(model.access.is_some()) + usize::from(model.default.is_some());
            assert_eq!(fs.listxattr(*ino).unwrap().len(), lists, "{what}");
        }
        fs.unmount().unwrap();
        expect_clean(&device, &format!("case {case}"));
    }
}

/// Promise: whatever is stored as a list, everything else of the file can be used; a list that is
/// malformed gives nobody but the owner access; a new list, or chmod and its removal, repair it.
#[test]
fn malformed_lists() {
    let device = posix();
    let fs = open(&device);
    let dir = create(&fs, fs.root(), "dir", FileKind::Directory, 0o755).ino;
    let file = create(&fs, dir, "file", FileKind::Regular, 0o664).ino;
    fs.write(file, 0, b"data", Privilege::Root).unwrap();
    fs.unmount().unwrap();
    let well_formed = {
        let fs = open(&device);
        set(&fs, file, ACCESS_ACL, &list()).unwrap();
        fs.unmount().unwrap();
        switch(&device, AclKind::None);
        open(&device).getxattr(file, STORED).unwrap()
    };
    let mut hostile = vec![vec![], vec![0xff; 388], well_formed[..100].to_vec(), vec![7; 4096]];
    for (at, byte) in [(0, 33), (3, 0x80), (0, 2), (4, 0), (4, 0x40), (16, 1), (24, 8), (20, 0xff), (12, 9)] {
        let mut damaged = well_formed.clone();
        damaged[at] = byte;
        if at == 20 {
            damaged[20..24].fill(0xff);
        }
        hostile.push(damaged);
    }
    for (n, value) in hostile.iter().enumerate() {
        switch(&device, AclKind::None);
        let fs = open(&device);
        for (ino, name) in [(file, STORED), (dir, b"system.posix1e.acl_default")] {
            fs.setxattr(ino, name, value, XattrMode::Set, Privilege::Root).unwrap();
        }
        chmod(&fs, file, 0o664);
        fs.unmount().unwrap();
        switch(&device, AclKind::Posix);
        let fs = open(&device);
        assert_eq!(get(&fs, file, ACCESS_ACL), Some(Acl::only_owner(0o664)), "list {n}");
        assert_eq!(fs.listxattr(file).unwrap(), [ACCESS_ACL]);
        let mut data = [0; 4];
        assert_eq!(fs.read(file, 0, &mut data).unwrap(), 4);
        assert!(matches!(fs.getxattr(dir, DEFAULT_ACL), Err(Error::NotPermitted)), "list {n}");
        let made = fs.create(dir, b"new", &NewNode::new(FileKind::Regular, 0o644), Privilege::Root);
        assert!(matches!(made, Err(Error::NotPermitted)), "list {n}: {made:?}");
        fs.removexattr(dir, DEFAULT_ACL).unwrap();
        create(&fs, dir, "new", FileKind::Regular, 0o644);
        fs.unlink(dir, b"new").unwrap();
        set(&fs, file, ACCESS_ACL, &list()).unwrap();
        assert_eq!((perm(&fs, file), get(&fs, file, ACCESS_ACL)), (0o770, Some(list())));
        fs.unmount().unwrap();
        expect_clean(&device, "malformed lists");
    }
}

/// Promise: a front-end of its own enforces lists: for users, groups and the mask, and for names in
/// directories; only the owner changes them.
#[test]
fn enforced_without_a_kernel() {
    let device = posix();
    let fs = Arc::new(open(&device));
    let dir = create(&fs, fs.root(), "dir", FileKind::Directory, 0o700).ino;
    let file = create(&fs, dir, "file", FileKind::Regular, 0o600).ino;
    let vfs = Vfs::new(fs.clone(), Options::default());
    let (user, other) = (Cred::user(1001, 1001), Cred::user(1002, 1002));
    let opens = |cred: &Cred<'_>, flags| {
        let reached = vfs.lookup(cred, dir, b"file").map(|attr| vfs.forget(attr.ino, 1));
        reached.and_then(|()| vfs.open(cred, file, flags)).map(|handle| vfs.close(handle).unwrap())
    };
    assert!(matches!(opens(&user, OpenFlags::READ), Err(Error::Access)));
    let with = |who, perm, mask| {
        acl(&[(Who::Owner, 7), (who, perm), (Who::OwningGroup, 0), (Who::Mask, mask), (Who::Other, 0)])
    };
    set(&fs, dir, ACCESS_ACL, &with(Who::User(1001), 1, 7)).unwrap();
    set(&fs, file, ACCESS_ACL, &with(Who::User(1001), 6, 4)).unwrap();
    opens(&user, OpenFlags::READ).unwrap();
    assert!(matches!(opens(&user, OpenFlags::WRITE), Err(Error::Access)), "the mask holds");
    assert!(matches!(opens(&other, OpenFlags::READ), Err(Error::Access)));
    chmod(&fs, file, 0o660);
    opens(&user, OpenFlags::READ_WRITE).unwrap();
    assert!(matches!(vfs.unlink(&user, dir, b"file"), Err(Error::Access)));
    set(&fs, dir, ACCESS_ACL, &with(Who::Group(1002), 7, 7)).unwrap();
    assert!(matches!(opens(&user, OpenFlags::READ), Err(Error::Access)));
    assert_eq!(vfs.getxattr(&other, file, ACCESS_ACL).unwrap(), fs.getxattr(file, ACCESS_ACL).unwrap());
    let more = with(Who::User(1002), 7, 7).to_linux();
    let refused = vfs.setxattr(&other, file, ACCESS_ACL, &more, XattrMode::Set);
    assert!(matches!(refused, Err(Error::NotPermitted)));
    vfs.unlink(&other, dir, b"file").unwrap();
    fs.unmount().unwrap();
}

/// Returns a list of `NFSv4` that lets a user do this, besides what permission bits say.
fn nfs4_list(uid: u32, perms: nfs4::Perms, flags: nfs4::Flags, perm: u32) -> Nfs4Acl {
    let entry = nfs4::Entry { who: nfs4::Who::User(uid), allows: true, perms, flags };
    let rest = Nfs4Acl::trivial(perm);
    Nfs4Acl::new([&[entry], rest.entries()].concat()).unwrap()
}

fn set_nfs4(fs: &Ffs, ino: Ino, acl: &Nfs4Acl) -> Result<()> {
    fs.setxattr(ino, NFS4_ACL, &acl.to_linux(), XattrMode::Replace, Privilege::Root)
}

fn get_nfs4(fs: &Ffs, ino: Ino) -> Nfs4Acl {
    Nfs4Acl::from_linux(&fs.getxattr(ino, NFS4_ACL).unwrap()).unwrap()
}

/// Promise: a list of `NFSv4` is set with the permission bits that belong to it, is on the disk as
/// FreeBSD and NetBSD have it, in both byte orders, and under one name; a file without one has that
/// of its permission bits; one that permission bits can say is not stored; and chmod removes it if
/// it changes permissions, as on FreeBSD, and nothing else does.
#[test]
fn nfs4_lists() {
    let posix_list = list();
    for (dialect, endian) in [
        (Dialect::FreeBsd, Endian::Little),
        (Dialect::FreeBsd, Endian::Big),
        (Dialect::NetBsd, Endian::Little),
    ] {
        let device = make(dialect, endian);
        switch(&device, AclKind::Nfs4);
        let fs = open(&device);
        assert_eq!(fs.limits().acls, AclKind::Nfs4);
        let file = create(&fs, fs.root(), "file", FileKind::Regular, 0o4640).ino;
        assert_eq!(get_nfs4(&fs, file), Nfs4Acl::trivial(0o640));
        assert!(fs.listxattr(file).unwrap().is_empty());
        let list = nfs4_list(1001, nfs4::Perms::WRITE_DATA, nfs4::Flags::NONE, 0o750);
        set_nfs4(&fs, file, &list).unwrap();
        assert_eq!((perm(&fs, file), get_nfs4(&fs, file)), (0o4750, list.clone()));
        assert_eq!(fs.listxattr(file).unwrap(), [NFS4_ACL]);
        assert!(matches!(fs.getxattr(file, b"system.nfs4.acl"), Err(Error::NotSupported)));
        assert!(matches!(set(&fs, file, ACCESS_ACL, &posix_list), Err(Error::NotSupported)));
        fs.unmount().unwrap();
        let bytes = stored(&device, b"nfs4.acl").unwrap();
        let word = |at: usize| u32::get(&bytes[at..], endian);
        assert_eq!((word(0), word(4)), (254, 4));
        assert_eq!((word(24), word(28), word(32)), (0x02, 1001, 0x10));
        assert_eq!((word(40), word(44)), (0x01, u32::MAX));
        let fs = open(&device);
        let file = fs.lookup(fs.root(), b"file").unwrap().ino;
        chmod(&fs, file, 0o750);
        fs.setattr(file, &SetAttr { uid: Some(7), ..SetAttr::default() }, Privilege::Root).unwrap();
        assert_eq!(get_nfs4(&fs, file), list, "no permission has changed");
        chmod(&fs, file, 0o600);
        assert_eq!(get_nfs4(&fs, file), Nfs4Acl::trivial(0o600));
        assert!(fs.listxattr(file).unwrap().is_empty());
        set_nfs4(&fs, file, &list).unwrap();
        set_nfs4(&fs, file, &Nfs4Acl::trivial(0o444)).unwrap();
        assert_eq!(perm(&fs, file), 0o444);
        assert!(fs.listxattr(file).unwrap().is_empty());
        set_nfs4(&fs, file, &list).unwrap();
        fs.removexattr(file, NFS4_ACL).unwrap();
        assert_eq!((perm(&fs, file), get_nfs4(&fs, file)), (0o750, Nfs4Acl::trivial(0o750)));
        fs.unmount().unwrap();
        expect_clean(&device, "lists of NFSv4");
    }
}

/// Promise: what FreeBSD refuses is refused, and changes nothing: flags of inheritance on a file,
/// more entries than chmod has room for, what is no list, and lists of symbolic links.
#[test]
fn nfs4_lists_that_are_refused() {
    let device = make(Dialect::FreeBsd, Endian::Little);
    switch(&device, AclKind::Nfs4);
    let fs = open(&device);
    let file = create(&fs, fs.root(), "file", FileKind::Regular, 0o640).ino;
    let dir = create(&fs, fs.root(), "dir", FileKind::Directory, 0o755).ino;
    let inherited = nfs4_list(9, nfs4::Perms::ALL, nfs4::Flags::FILE_INHERIT, 0o777);
    assert!(matches!(set_nfs4(&fs, file, &inherited), Err(Error::Invalid)));
    set_nfs4(&fs, dir, &inherited).unwrap();
    let everyone = nfs4::Entry::new(nfs4::Who::Everyone, true, nfs4::Perms::ALL);
    let long = |count| Nfs4Acl::new(vec![everyone; count]).unwrap();
    assert!(matches!(set_nfs4(&fs, file, &long(125)), Err(Error::NoSpace)));
    let garbage = fs.setxattr(file, NFS4_ACL, b"rwx", XattrMode::Set, Privilege::Root);
    assert!(matches!(garbage, Err(Error::Invalid)));
    let value = long(1).to_linux();
    let again = fs.setxattr(file, NFS4_ACL, &value, XattrMode::Create, Privilege::Root);
    assert!(matches!(again, Err(Error::Exists)));
    assert_eq!((perm(&fs, file), get_nfs4(&fs, file)), (0o640, Nfs4Acl::trivial(0o640)));
    set_nfs4(&fs, file, &long(124)).unwrap();
    assert_eq!(perm(&fs, file), 0o777);
    let link = NewNode { target: b"file", ..NewNode::new(FileKind::Symlink, 0o777) };
    let link = fs.create(dir, b"link", &link, Privilege::Root).unwrap().ino;
    assert!(fs.listxattr(link).unwrap().is_empty());
    assert!(matches!(set_nfs4(&fs, link, &long(1)), Err(Error::NotSupported)));
    fs.unmount().unwrap();
    expect_clean(&device, "refused lists");
}

/// Promise: new files and directories inherit, each in the transaction that makes it, and what they
/// inherit decides who may use them: a user whom the permission bits refuse, and nobody else.
#[test]
fn nfs4_lists_are_inherited_and_enforced() {
    use nfs4::{Flags, Perms};
    let device = make(Dialect::FreeBsd, Endian::Little);
    switch(&device, AclKind::Nfs4);
    let fs = Arc::new(open(&device));
    let dir = create(&fs, fs.root(), "dir", FileKind::Directory, 0o700).ino;
    let perms = Perms::READ_DATA.and(Perms::WRITE_DATA).and(Perms::EXECUTE).and(Perms::DELETE);
    let flags = Flags::FILE_INHERIT.and(Flags::DIRECTORY_INHERIT);
    set_nfs4(&fs, dir, &nfs4_list(1001, perms, flags, 0o700)).unwrap();
    let below = create(&fs, dir, "below", FileKind::Directory, 0o770).ino;
    let file = create(&fs, below, "file", FileKind::Regular, 0o660).ino;
    assert_eq!((perm(&fs, below), perm(&fs, file)), (0o770, 0o660));
    let entry = get_nfs4(&fs, file).entries()[0];
    assert_eq!(entry.perms, perms.without(Perms::EXECUTE), "the group executes nothing");
    assert_eq!(entry.flags, Flags::INHERITED);
    let closed = create(&fs, below, "closed", FileKind::Regular, 0o600).ino;
    let vfs = Vfs::new(fs.clone(), Options::default());
    let (user, other) = (Cred::user(1001, 1001), Cred::user(1002, 1002));
    let opens = |cred: &Cred<'_>, ino, flags| vfs.open(cred, ino, flags).map(|h| vfs.close(h).unwrap());
    opens(&user, file, OpenFlags::READ_WRITE).unwrap();
    assert!(matches!(opens(&user, closed, OpenFlags::READ), Err(Error::Access)));
    assert!(matches!(opens(&other, file, OpenFlags::READ), Err(Error::Access)));
    assert!(matches!(vfs.lookup(&other, below, b"file"), Err(Error::Access)));
    let node = NewNode { uid: 1001, gid: 1001, ..NewNode::new(FileKind::Regular, 0o640) };
    let made = vfs.create(&user, below, b"made", &node).unwrap();
    vfs.forget(made.ino, 1);
    let node = NewNode { kind: FileKind::Directory, ..node };
    let refused = vfs.create(&user, below, b"directory", &node);
    assert!(matches!(refused, Err(Error::Access)), "to add directories is another permission");
    assert!(matches!(vfs.unlink(&other, below, b"file"), Err(Error::Access)));
    vfs.unlink(&user, below, b"file").unwrap();
    let mine = vfs.setxattr(&user, made.ino, NFS4_ACL, &Nfs4Acl::trivial(0o600).to_linux(), XattrMode::Set);
    mine.unwrap();
    let theirs = vfs.setxattr(&user, closed, NFS4_ACL, &Nfs4Acl::trivial(0o777).to_linux(), XattrMode::Set);
    assert!(matches!(theirs, Err(Error::NotPermitted)));
    drop(vfs);
    fs.unmount().unwrap();
    expect_clean(&device, "inherited lists of NFSv4");
}

/// Promise: a malformed list of `NFSv4` opens nothing: only the owner has access, nothing is
/// created in such a directory, and a new list or chmod repairs it.
#[test]
fn malformed_nfs4_lists() {
    let device = make(Dialect::FreeBsd, Endian::Little);
    let fs = open(&device);
    let dir = create(&fs, fs.root(), "dir", FileKind::Directory, 0o777).ino;
    fs.setxattr(dir, b"system.nfs4.acl", b"none", XattrMode::Set, Privilege::Root).unwrap();
    fs.unmount().unwrap();
    switch(&device, AclKind::Nfs4);
    let fs = open(&device);
    assert_eq!(get_nfs4(&fs, dir), Nfs4Acl::only_owner(0o777));
    let refused = fs.create(dir, b"file", &NewNode::new(FileKind::Regular, 0o644), Privilege::Root);
    assert!(matches!(refused, Err(Error::NotPermitted)));
    chmod(&fs, dir, 0o755);
    create(&fs, dir, "file", FileKind::Regular, 0o644);
    fs.unmount().unwrap();
    expect_clean(&device, "a malformed list of NFSv4");
}
