//! A device that refuses to read for a while: nothing is lost, and everything works when it reads
//! again.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_conformance::reluctant::Reluctant;
use spindle_device::MemoryDevice;
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Format, Parameters, Plan};
use spindle_ffs::{Dialect, Ffs, LogUse, OpenOptions, Superblock};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege};
use std::sync::Arc;

fn made(parameters: &Parameters, clock: &ManualClock) -> Arc<Reluctant> {
    let inner = MemoryDevice::new(parameters.size_bytes);
    let plan = Plan::new(parameters).unwrap();
    newfs::write(&plan, &inner, clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
    Arc::new(Reluctant::new(Arc::new(inner)))
}

fn create(fs: &Ffs, name: &str) -> Ino {
    let node = NewNode::new(FileKind::Regular, 0o644);
    fs.create(fs.root(), name.as_bytes(), &node, Privilege::Root).unwrap().ino
}

/// Promise: where a file's blocks cannot be read when it loses its name, its space is there again
/// as soon as it is wanted and they can.
#[test]
fn space_is_regained() {
    const SIZE: u64 = 4 << 20;
    for log in [LogUse::Wanted, LogUse::Never] {
        let clock = Arc::new(ManualClock::at(1_700_000_000));
        let parameters = Parameters { bsize: Some(4096), fsize: Some(512), ..Parameters::new(SIZE) };
        let device = made(&parameters, &clock);
        let open = || {
            let options = OpenOptions { log, log_bytes: Some(64 << 10), ..OpenOptions::default() };
            Ffs::open(device.clone(), clock.clone(), &options).unwrap()
        };
        let fs = open();
        let large = create(&fs, "large");
        let mut len = 0;
        while let Ok(written) = fs.write(large, len, &[7; 4096], Privilege::User) {
            len += written as u64;
        }
        fs.forget(large, 1);
        fs.unmount().unwrap();

        let fs = open();
        let next = create(&fs, "next");
        let found = fs.lookup(fs.root(), b"large").unwrap();
        fs.forget(found.ino, 1);
        device.refuse(true);
        fs.unlink(fs.root(), b"large").unwrap();
        device.refuse(false);
        let bytes = vec![9; usize::try_from(len / 2).unwrap()];
        assert_eq!(fs.write(next, 0, &bytes, Privilege::User).unwrap(), bytes.len(), "{log:?}");
        fs.forget(next, 1);
        fs.unmount().unwrap();
    }
}

/// Promise: a commit that cannot read what it needs changes nothing, and the next one does all of
/// it: also on NetBSD's dialect, where the superblock is a part of it.
#[test]
fn a_commit_is_tried_again() {
    for dialect in [Dialect::FreeBsd, Dialect::NetBsd] {
        let clock = Arc::new(ManualClock::at(1_700_000_000));
        let parameters = Parameters { dialect: Some(dialect), ..Parameters::new(32 << 20) };
        let device = made(&parameters, &clock);
        let options = OpenOptions { log: LogUse::Wanted, ..OpenOptions::default() };
        let open = || Ffs::open(device.clone(), clock.clone(), &options).unwrap();
        let fs = open();
        let free = fs.statfs().unwrap().bfree;
        let gone = create(&fs, "gone");
        fs.write(gone, 0, &[7; 4096], Privilege::User).unwrap();
        fs.unlink(fs.root(), b"gone").unwrap();
        fs.forget(gone, 1);
        device.refuse(true);
        let refused = fs.sync();
        assert!(matches!(refused, Ok(()) | Err(spindle_vfs::Error::Device(_))), "{dialect:?}: {refused:?}");
        device.refuse(false);
        fs.sync().unwrap_or_else(|error| panic!("{dialect:?}: {error}"));
        assert_eq!(fs.statfs().unwrap().bfree, free, "{dialect:?}");
        fs.unmount().unwrap();
        let report = check(&*device, &check::Options::default(), &mut |_| ()).unwrap();
        assert_eq!(report.findings, [], "{dialect:?}");
    }
}

/// Promise: a file system that was changed is not marked clean while there is metadata that could
/// not be read, with a log and without, and the next mount asks for a check; it is clean if that
/// was read later, or was the data of a file.
#[test]
fn unread_metadata_keeps_it_in_use() {
    type Read = fn(&Ffs, Ino) -> bool;
    let names: Read = |fs, dir| fs.lookup(dir, b"file").map(|attr| fs.forget(attr.ino, 1)).is_ok();
    let data: Read = |fs, _| {
        let file = fs.lookup(fs.root(), b"data").unwrap().ino;
        let read = fs.read(file, 0, &mut [0; 100]);
        fs.forget(file, 1);
        read.is_ok()
    };
    let kinds = [
        (Dialect::FreeBsd, Format::Ufs2),
        (Dialect::NetBsd, Format::Ufs2),
        (Dialect::Bsd44, Format::Ufs1),
        (Dialect::Sun { x86: true }, Format::Ufs1),
    ];
    let logs = [LogUse::Required, LogUse::Never];
    for ((dialect, format), log) in kinds.iter().flat_map(|kind| logs.map(|log| (*kind, log))) {
        for (read, again, clean) in [(names, false, false), (names, true, true), (data, false, true)] {
            let clock = Arc::new(ManualClock::at(1_700_000_000));
            let parameters = Parameters { dialect: Some(dialect), format, ..Parameters::new(16 << 20) };
            let device = made(&parameters, &clock);
            let options = OpenOptions { log, log_bytes: Some(256 << 10), ..OpenOptions::default() };
            let open = || Ffs::open(device.clone(), clock.clone(), &options).unwrap();
            let fs = open();
            let node = NewNode::new(FileKind::Directory, 0o755);
            let dir = fs.create(fs.root(), b"dir", &node, Privilege::Root).unwrap().ino;
            let node = NewNode::new(FileKind::Regular, 0o644);
            fs.create(dir, b"file", &node, Privilege::Root).unwrap();
            fs.write(create(&fs, "data"), 0, &[7; 100], Privilege::User).unwrap();
            fs.unmount().unwrap();

            let fs = open();
            create(&fs, "changes it");
            let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
            let file = fs.lookup(fs.root(), b"data").unwrap().ino;
            device.refuse(true);
            assert!(!read(&fs, dir));
            device.refuse(false);
            assert!(!again || read(&fs, dir));
            fs.forget(dir, 1);
            fs.forget(file, 1);
            fs.unmount().unwrap();
            let what = format!("{dialect:?}, {log:?}, again: {again}");
            assert_eq!(Superblock::open(&*device).unwrap().is_clean(), clean, "{what}");
            assert_eq!(open().read_only(), !clean, "{what}");
        }
    }
}
