//! What a mount does differently for each system, found out from the image alone.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Format, Parameters, Plan};
use spindle_ffs::ondisk::{FS_UFS2EA_MAGIC, FsNetBsd};
use spindle_ffs::{Dialect, Ffs, LOG_NAME, LogUse, OpenOptions, Superblock};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, FileKind, FileSystem, NewNode, Privilege, Rdev, XattrMode};
use std::sync::Arc;

fn make(dialect: Dialect, format: Format, endian: Endian) -> Arc<MemoryDevice> {
    let parameters = Parameters {
        dialect: Some(dialect),
        format,
        endian: Some(endian),
        bsize: Some(8192),
        fsize: Some(1024),
        ..Parameters::new(8 << 20)
    };
    let device = Arc::new(MemoryDevice::new(parameters.size_bytes));
    let clock = ManualClock::at(1_700_000_000);
    let plan = Plan::new(&parameters).unwrap();
    newfs::write(&plan, &*device, &clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
    device
}

/// Opens what is there as its superblock has it.
fn open(device: &Arc<MemoryDevice>, log: LogUse) -> Ffs {
    let options = OpenOptions { log, log_bytes: Some(512 << 10), seed: Some(1), ..OpenOptions::default() };
    Ffs::open(device.clone(), Arc::new(ManualClock::at(1_700_000_000)), &options).unwrap()
}

fn expect_clean(device: &MemoryDevice, what: &str) {
    let report = check(device, &check::Options::default(), &mut |_| ()).unwrap();
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.marked_clean && found.is_empty(), "{what}: {found:?}");
}

/// Promise: a mount of NetBSD's makes NetBSD's own log, without a name, and after a crash it is
/// carried out; nobody has to say whose it is.
#[test]
fn netbsd_gets_its_own_log() {
    for format in [Format::Ufs1, Format::Ufs2] {
        let device = make(Dialect::NetBsd, format, Endian::Little);
        let fs = open(&device, LogUse::Wanted);
        let node = NewNode::new(FileKind::Regular, 0o644);
        fs.create(fs.root(), b"kept", &node, Privilege::Root).unwrap();
        fs.sync().unwrap();
        let crashed = Arc::new(device.branch());
        let superblock = Superblock::open(&*crashed).unwrap();
        assert_eq!(superblock.dialect, Dialect::NetBsd);
        let journal = FsNetBsd::decode(superblock.raw(), Endian::Little);
        assert_eq!((journal.fs_journal_version, journal.fs_journal_location), (1, 2));
        let fs = open(&crashed, LogUse::Wanted);
        assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
        fs.lookup(fs.root(), b"kept").unwrap();
        assert!(matches!(fs.lookup(fs.root(), LOG_NAME), Err(Error::NotFound)));
        fs.unmount().unwrap();
        expect_clean(&crashed, "recovered");
    }
}

/// Promise: what a mount without a log has left behind after a crash is read-only, and says why,
/// whatever its system: also those that have no clean flag. After an unmount it is clean.
#[test]
fn what_was_left_in_use_is_not_written() {
    let systems = [
        (Dialect::Bsd43, Format::Old),
        (Dialect::Bsd44, Format::Ufs1),
        (Dialect::Apple, Format::Ufs1),
        (Dialect::Sun { x86: false }, Format::Ufs1),
        (Dialect::OpenBsd, Format::Ufs1),
        (Dialect::NetBsd, Format::Ufs2),
        (Dialect::FreeBsd, Format::Ufs2),
    ];
    for (dialect, format) in systems {
        let device = make(dialect, format, Endian::Big);
        let fs = open(&device, LogUse::Never);
        let node = NewNode::new(FileKind::Regular, 0o644);
        fs.create(fs.root(), b"kept", &node, Privilege::Root).unwrap();
        fs.sync().unwrap();
        let crashed = Arc::new(device.branch());
        assert!(!Superblock::open(&*crashed).unwrap().is_marked_clean(), "{dialect}");
        let left = open(&crashed, LogUse::Never);
        assert!(left.read_only(), "{dialect}");
        let reasons = format!("{:?}", left.read_only_reasons());
        assert!(reasons.contains("not unmounted cleanly"), "{dialect}: {reasons}");
        let report = check(&*crashed, &check::Options::default(), &mut |_| ()).unwrap();
        assert!(!report.marked_clean, "{dialect}");
        fs.unmount().unwrap();
        drop(fs);
        assert!(Superblock::open(&*device).unwrap().is_marked_clean(), "{dialect}");
        assert!(!open(&device, LogUse::Never).read_only(), "{dialect}");
        expect_clean(&device, &dialect.to_string());
    }
}

/// Promise: a device file has the number that its system reads, in that system's coding, and we
/// read it again.
#[test]
fn device_numbers_are_coded_as_the_system_does() {
    let rdev = Rdev { major: 0x31, minor: 0x1234 };
    for (dialect, coded) in [
        (Dialect::FreeBsd, 0x0000_0012_0000_3134_u64),
        (Dialect::NetBsd, 0x0120_3134),
        (Dialect::OpenBsd, 0x0012_3134),
    ] {
        let device = make(dialect, Format::Ufs2, Endian::Little);
        let fs = open(&device, LogUse::Never);
        let node =
            NewNode { kind: FileKind::CharDevice, perm: 0o600, uid: 0, gid: 0, masked: 0, rdev, target: b"" };
        let ino = fs.create(fs.root(), b"device", &node, Privilege::Root).unwrap().ino;
        fs.unmount().unwrap();
        let superblock = Superblock::open(&*device).unwrap();
        let (block, offset) = superblock.layout.ino_to_fsba(u32::try_from(ino.0).unwrap());
        let at = usize::try_from(superblock.layout.byte(block)).unwrap() + offset;
        assert_eq!(u64::get(&device.to_bytes()[at + 112..], Endian::Little), coded, "{dialect}");
        let fs = open(&device, LogUse::Never);
        assert_eq!(fs.lookup(fs.root(), b"device").unwrap().rdev, rdev, "{dialect}");
    }
}

/// Promise: extended attributes are refused where the file's own system would lose their blocks.
#[test]
fn attributes_only_where_the_system_has_them() {
    let netbsd_with = make(Dialect::NetBsd, Format::Ufs2, Endian::Little);
    let superblock = Superblock::open(&*netbsd_with).unwrap();
    let mut raw = superblock.raw().to_vec();
    FS_UFS2EA_MAGIC.put(&mut raw[1372..], Endian::Little);
    netbsd_with.write_at(superblock.layout.fs_sblockloc, &raw).unwrap();
    let made = |dialect| make(dialect, Format::Ufs2, Endian::Little);
    for (device, what, has) in [
        (made(Dialect::FreeBsd), "FreeBSD", true),
        (made(Dialect::NetBsd), "NetBSD", false),
        (netbsd_with, "NetBSD, with attributes", true),
        (made(Dialect::OpenBsd), "OpenBSD", false),
    ] {
        let fs = open(&device, LogUse::Never);
        assert_eq!(fs.limits().xattrs, has, "{what}");
        let set = fs.setxattr(fs.root(), b"user.x", b"value", XattrMode::Set, Privilege::Root);
        let got = fs.getxattr(fs.root(), b"user.x");
        if has {
            assert!(set.is_ok() && got.unwrap() == b"value", "{what}: {set:?}");
        } else {
            assert!(matches!((&set, &got), (Err(Error::NotSupported), Err(Error::NotSupported))), "{what}");
        }
        fs.unmount().unwrap();
    }
}

/// Promise: NetBSD's file system in the order of bytes of few machines is only read where a log
/// would be used, with the reason; without a log it is written.
#[test]
fn logs_of_either_order_are_not_mixed() {
    for format in [Format::Ufs1, Format::Ufs2] {
        let device = make(Dialect::NetBsd, format, Endian::Big);
        let before = device.to_bytes();
        let fs = open(&device, LogUse::Wanted);
        let reasons = fs.read_only_reasons();
        assert!(fs.read_only() && reasons.iter().any(|o| o.reason.contains("order of bytes")), "{reasons:?}");
        fs.unmount().unwrap();
        assert!(device.to_bytes() == before, "nothing is written");
        for log in [LogUse::IfThere, LogUse::Never] {
            let fs = open(&device, log);
            assert!(!fs.read_only(), "{log:?}: {:?}", fs.read_only_reasons());
            drop(fs.rmdir(fs.root(), b"none"));
            fs.unmount().unwrap();
        }
    }
}

/// Promise: the inode of NetBSD's log is no damage, in whichever order of bytes NetBSD has noted
/// where it is: its kernel keeps to the machine's, whatever the file system's is.
#[test]
fn the_logs_inode_is_known_in_either_order() {
    for order in [Endian::Big, Endian::Little] {
        let device = make(Dialect::NetBsd, Format::Ufs2, Endian::Big);
        let fs = open(&device, LogUse::Never);
        let node = NewNode::new(FileKind::Regular, 0o600);
        let ino = fs.create(fs.root(), b"the-log", &node, Privilege::Root).unwrap().ino;
        fs.write(ino, 0, &[7; 8192], Privilege::Root).unwrap();
        fs.forget(ino, 1);
        fs.unmount().unwrap();
        let mut bytes = device.to_bytes();
        let name = bytes.windows(7).position(|w| w == b"the-log").unwrap();
        bytes[name - 8..name - 4].fill(0);
        device.write_at(0, &bytes).unwrap();
        let superblock = Superblock::open(&*device).unwrap();
        let mut raw = superblock.raw().to_vec();
        let journal = FsNetBsd {
            fs_journal_version: 1,
            fs_journal_location: 2,
            fs_journallocs: [4096, 16, 512, ino.0],
            ..FsNetBsd::decode(&raw, Endian::Big)
        };
        journal.encode(&mut raw, order);
        device.write_at(superblock.layout.fs_sblockloc, &raw).unwrap();
        expect_clean(&device, &format!("{order:?}"));
    }
}
