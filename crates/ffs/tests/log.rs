//! The log: what a crash leaves, and what other systems see of it. Crashes at every instant are
//! `spindle-torture`'s business.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::{Clock, ManualClock};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Format, Parameters, Plan};
use spindle_ffs::ondisk::CsumTotal;
use spindle_ffs::tunefs::{self, Tuning, tune};
use spindle_ffs::{Dialect, Ffs, FoundLog, LogUse, OpenOptions, Superblock, recover, remove_log};
use spindle_ondisk::Endian;
use spindle_vfs::{Error, FileKind, FileSystem, Ino, NewNode, Privilege, SetAttr};
use std::sync::Arc;

const START: i64 = 1_700_000_000;

fn large_sectors() -> Parameters {
    Parameters {
        sector_bytes: 4096,
        bsize: Some(16384),
        fsize: Some(4096),
        density: Some(4096),
        snap_dir: false,
        ..Parameters::new(8 << 20)
    }
}

fn formats() -> Vec<(&'static str, Parameters)> {
    let small = Parameters {
        bsize: Some(4096),
        fsize: Some(512),
        density: Some(4096),
        snap_dir: false,
        ..Parameters::new(8 << 20)
    };
    let ufs1 = |dialect, endian| Parameters {
        format: Format::Ufs1,
        dialect: Some(dialect),
        endian: Some(endian),
        ..small.clone()
    };
    vec![
        ("FreeBSD", small.clone()),
        ("FreeBSD, large blocks", Parameters { bsize: Some(32768), fsize: Some(4096), ..small.clone() }),
        ("FreeBSD, sectors of 4096 bytes", large_sectors()),
        ("NetBSD", Parameters { dialect: Some(Dialect::NetBsd), ..small.clone() }),
        ("OpenBSD", Parameters { dialect: Some(Dialect::OpenBsd), ..small.clone() }),
        ("4.4BSD", ufs1(Dialect::Bsd44, Endian::Big)),
        ("Apple", ufs1(Dialect::Apple, Endian::Big)),
        ("Sun", ufs1(Dialect::Sun { x86: false }, Endian::Big)),
    ]
}

struct Disk {
    device: Arc<MemoryDevice>,
    /// The dialect, for NetBSD, which looks like 4.4BSD until it has a log.
    dialect: Option<Dialect>,
    clock: Arc<ManualClock>,
}

impl Disk {
    fn new(parameters: &Parameters) -> Self {
        let device = Arc::new(MemoryDevice::new(parameters.size_bytes).with_sectors(parameters.sector_bytes));
        let clock = Arc::new(ManualClock::at(START));
        let plan = Plan::new(parameters).unwrap();
        newfs::write(&plan, &*device, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        Self { device, dialect: parameters.dialect, clock }
    }

    fn open(&self, log: LogUse) -> Ffs {
        let options = OpenOptions {
            log,
            log_bytes: Some(512 << 10),
            dialect: self.dialect,
            seed: Some(3),
            ..OpenOptions::default()
        };
        Ffs::open(self.device.clone(), self.clock.clone(), &options).unwrap()
    }

    /// Returns what the medium has now, as after a crash.
    fn crash(&self) -> Self {
        Self { device: Arc::new(self.device.branch()), dialect: self.dialect, clock: self.clock.clone() }
    }

    fn damage(&self) -> Vec<String> {
        let report = check(&*self.device, &check::Options::default(), &mut |_| ()).unwrap();
        let damage = report.findings.iter().filter(|f| f.severity.is_damage());
        damage.map(ToString::to_string).collect()
    }

    fn found(&self) -> FoundLog {
        FoundLog::look(&*self.device, &Superblock::open(&*self.device).unwrap()).unwrap()
    }
}

fn file(fs: &Ffs, name: &str, bytes: &[u8]) -> Ino {
    let node = NewNode::new(FileKind::Regular, 0o644);
    let ino = fs.create(fs.root(), name.as_bytes(), &node, Privilege::Root).unwrap().ino;
    assert_eq!(fs.write(ino, 0, bytes, Privilege::Root).unwrap(), bytes.len());
    ino
}

fn content(fs: &Ffs, name: &str) -> Result<Vec<u8>, Error> {
    let attr = fs.lookup(fs.root(), name.as_bytes())?;
    let mut bytes = vec![0; usize::try_from(attr.size).unwrap()];
    let n = fs.read(attr.ino, 0, &mut bytes)?;
    assert_eq!(n, bytes.len());
    fs.forget(attr.ino, 1);
    Ok(bytes)
}

/// Promise: on large sectors, of which each change takes at least one, a log too small for them is
/// not made.
#[test]
fn large_sectors_want_a_larger_log() {
    for (log_bytes, made) in [(64 << 10, false), (384 << 10, false), (400 << 10, true)] {
        let disk = Disk::new(&large_sectors());
        let options =
            OpenOptions { log: LogUse::Wanted, log_bytes: Some(log_bytes), ..OpenOptions::default() };
        let fs = Ffs::open(disk.device.clone(), disk.clock.clone(), &options).unwrap();
        assert_eq!(fs.superblock().log_place().is_some(), made, "{log_bytes}");
        file(&fs, "kept", &vec![7; 100_000]);
        fs.unmount().unwrap();
        assert_eq!(disk.damage(), Vec::<String>::new(), "{log_bytes}");
    }
}

/// Promise: after a crash, what was synced is there, what was not is wholly absent, an unlinked
/// open file is gone with its space, and the check finds nothing; the same without the log's being
/// carried out, read-only.
#[test]
fn synced_survives() {
    for (name, parameters) in formats() {
        let disk = Disk::new(&parameters);
        let fs = disk.open(LogUse::Wanted);
        let open = file(&fs, "open", &vec![1; 50_000]);
        file(&fs, "old", b"old");
        fs.sync().unwrap();
        let free = fs.statfs().unwrap().bfree;
        fs.unlink(fs.root(), b"open").unwrap();
        let kept = file(&fs, "kept", &vec![7; 100_000]);
        fs.fsync(kept, false).unwrap();
        file(&fs, "lost", &vec![9; 100_000]);
        let crashed = disk.crash();
        assert!(matches!(crashed.found(), FoundLog::Recovery(_)), "{name}");
        let before = crashed.device.to_bytes();
        let reader = Ffs::open(
            crashed.device.clone(),
            crashed.clock.clone(),
            &OpenOptions { read_only: true, ..OpenOptions::default() },
        )
        .unwrap();
        assert!(content(&reader, "kept").unwrap() == vec![7; 100_000], "{name}");
        assert!(matches!(content(&reader, "lost"), Err(Error::NotFound)), "{name}");
        drop(reader);
        assert!(crashed.device.to_bytes() == before, "{name}: reading has written");
        let fs = crashed.open(LogUse::IfThere);
        assert!(!fs.read_only(), "{name}: {:?}", fs.read_only_reasons());
        assert!(content(&fs, "kept").unwrap() == vec![7; 100_000], "{name}");
        assert!(matches!(content(&fs, "lost"), Err(Error::NotFound)), "{name}");
        assert!(matches!(content(&fs, "open"), Err(Error::NotFound)), "{name}");
        fs.unlink(fs.root(), b"kept").unwrap();
        fs.sync().unwrap();
        let freed = 50_000 / u64::from(fs.statfs().unwrap().frsize);
        assert!(fs.statfs().unwrap().bfree >= free + freed, "{name}: the open file's space");
        fs.unmount().unwrap();
        assert_eq!(crashed.damage(), Vec::<String>::new(), "{name}");
        let _ = open;
    }
}

/// Promise: syncing a directory's data makes its names durable, and syncing a file's data its size.
#[test]
fn data_alone_is_enough_to_find_it() {
    let disk = Disk::new(&formats()[0].1);
    let fs = disk.open(LogUse::Wanted);
    let a = file(&fs, "a", b"some");
    fs.sync().unwrap();
    fs.unlink(fs.root(), b"a").unwrap();
    fs.fsync(fs.root(), true).unwrap();
    assert!(matches!(content(&disk.crash().open(LogUse::IfThere), "a"), Err(Error::NotFound)));
    fs.forget(a, 1);
    let b = file(&fs, "b", &[1; 5000]);
    fs.sync().unwrap();
    fs.write(b, 100, &[2; 100], Privilege::Root).unwrap();
    fs.fsync(b, true).unwrap();
    assert_eq!(content(&disk.crash().open(LogUse::IfThere), "b").unwrap()[99..102], [1, 2, 2]);
    fs.write(b, 5000, &[3; 9000], Privilege::Root).unwrap();
    fs.fsync(b, true).unwrap();
    assert_eq!(content(&disk.crash().open(LogUse::IfThere), "b").unwrap().len(), 14_000);
}

/// Promise: syncing the data of a file that has just got its first name makes the name durable:
/// without it a crash would free the file, as it frees one that has none.
#[test]
fn data_of_a_first_name_brings_the_name() {
    for (name, parameters) in formats() {
        let disk = Disk::new(&parameters);
        let fs = disk.open(LogUse::Wanted);
        let make = || {
            let new = NewNode::new(FileKind::Regular, 0o644);
            let ino = fs.create_unnamed(fs.root(), &new, Privilege::Root).unwrap().ino;
            fs.write(ino, 0, &[9; 5000], Privilege::Root).unwrap();
            ino
        };
        let (named, other) = (make(), make());
        fs.sync().unwrap();
        let free = |fs: &Ffs| fs.statfs().unwrap().ffree;
        let before = free(&fs);
        fs.link(named, fs.root(), b"named", Privilege::Root).unwrap();
        fs.fsync(named, true).unwrap();
        assert_eq!(fs.getattr(other).unwrap().nlink, 0);
        let crashed = disk.crash();
        let after = crashed.open(LogUse::Wanted);
        assert_eq!(content(&after, "named").unwrap(), [9; 5000], "{name}");
        after.sync().unwrap();
        assert_eq!(free(&after), before + 1, "{name}: the other is freed by the recovery");
        after.unmount().unwrap();
        assert_eq!(crashed.damage(), [""; 0], "{name}");
    }
}

/// Promise: a full file system takes as much again each time that it was emptied, without a sync
/// between.
#[test]
fn no_space_is_lost() {
    for (name, parameters) in formats() {
        let disk = Disk::new(&parameters);
        let fs = disk.open(LogUse::Wanted);
        let piece = vec![7; 40_000];
        let fill = || {
            let mut written = 0;
            for n in 0.. {
                let ino = file(&fs, &format!("f{n}"), b"");
                let mut size = 0;
                while let Ok(more) = fs.write(ino, size, &piece, Privilege::Root) {
                    size += more as u64;
                    if size > 1 << 20 {
                        break;
                    }
                }
                fs.forget(ino, 1);
                written += size;
                if size <= 1 << 20 {
                    return (n, written);
                }
            }
            unreachable!()
        };
        let first = fill();
        for _ in 0..3 {
            for n in 0..=first.0 {
                fs.unlink(fs.root(), format!("f{n}").as_bytes()).unwrap();
            }
            let again = fill();
            assert!(again.1 + 100_000 >= first.1, "{name}: {first:?}, {again:?}");
        }
        fs.unmount().unwrap();
        assert_eq!(disk.damage(), Vec::<String>::new(), "{name}");
    }
}

/// Promise: the log lists just the inodes that have lost their names and are not free yet. Our
/// recovery checks what it is to free, NetBSD's insists on it (`ffs_wapbl_replay_finish`).
#[test]
fn only_orphans_are_listed() {
    for (name, parameters) in formats() {
        let disk = Disk::new(&parameters);
        let fs = disk.open(LogUse::Wanted);
        let listed = || match disk.found() {
            FoundLog::Recovery(replay) => {
                replay.orphans().map(|(ino, _)| Ino(ino.into())).collect::<Vec<_>>()
            }
            other => panic!("{name}: {other:?}"),
        };
        let ino = file(&fs, "open", &[1; 5000]);
        fs.sync().unwrap();
        assert_eq!(listed(), [], "{name}: named");
        fs.unlink(fs.root(), b"open").unwrap();
        fs.sync().unwrap();
        assert_eq!(listed(), [ino], "{name}: unlinked");
        fs.forget(ino, 1);
        fs.sync().unwrap();
        assert_eq!(listed(), [], "{name}: closed");
        assert_eq!(file(&fs, "heir", b"other"), ino, "{name}");
        fs.sync().unwrap();
        assert_eq!(listed(), [], "{name}: another's");
    }
}

/// Promise: a clean unmount leaves an empty log and a superblock that its own system takes for
/// clean; the mount that follows goes on with the same log.
#[test]
fn clean_unmount_leaves_an_empty_log() {
    for (name, parameters) in formats() {
        let disk = Disk::new(&parameters);
        let fs = disk.open(LogUse::Wanted);
        file(&fs, "a", b"some");
        fs.unmount().unwrap();
        let superblock = Superblock::open(&*disk.device).unwrap();
        let place = superblock.log_place().unwrap_or_else(|| panic!("{name}: no log"));
        assert!(superblock.is_clean(), "{name}");
        match disk.found() {
            FoundLog::Ready(replay) => assert!(replay.is_empty(), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(disk.damage(), Vec::<String>::new(), "{name}");
        let before = disk.device.to_bytes();
        drop(disk.open(LogUse::IfThere));
        assert!(disk.device.to_bytes() == before, "{name}: a mount that changes nothing has written");
        let fs = disk.open(LogUse::Wanted);
        file(&fs, "b", b"more");
        fs.unmount().unwrap();
        assert_eq!(Superblock::open(&*disk.device).unwrap().log_place(), Some(place), "{name}");
        assert_eq!(disk.damage(), Vec::<String>::new(), "{name}");
    }
}

/// Promise: a log is not believed once another system has written to the file system: neither after
/// its check has called it clean, nor when it is unclean again; and whether or not it has set the
/// time, which NetBSD leaves alone when it renames files or changes modes.
#[test]
fn foreign_hands_end_the_log() {
    for (name, parameters) in formats() {
        let disk = Disk::new(&parameters);
        let fs = disk.open(LogUse::Wanted);
        file(&fs, "a", b"some");
        fs.sync().unwrap();
        for (clean, later) in [(true, 1000), (false, 1000), (true, 0), (false, 0)] {
            let crashed = disk.crash();
            let mut superblock = Superblock::open(&*crashed.device).unwrap();
            let now = spindle_clock::Timestamp::new(START + later, 0);
            superblock.set_clean(clean, false, now);
            let totals = superblock.totals();
            superblock.set_totals(&CsumTotal { cs_nifree: totals.cs_nifree - 1, ..totals });
            superblock.write(&*crashed.device).unwrap();
            let believed = matches!(crashed.found(), FoundLog::Recovery(_));
            assert!(!believed, "{name}, clean {clean}, {later} seconds later");
            let fs = crashed.open(LogUse::Wanted);
            assert_eq!(fs.read_only(), !clean, "{name}: {:?}", fs.read_only_reasons());
        }
    }
}

/// Promise: on NetBSD's dialect a replay leaves a superblock whose counts are those of the groups,
/// and which NetBSD takes for one that was clean when it was mounted: it does not sum up again.
#[test]
fn netbsd_finds_the_counts_in_the_log() {
    let netbsd = || Parameters { dialect: Some(Dialect::NetBsd), ..formats()[0].1.clone() };
    for parameters in [netbsd(), Parameters { format: Format::Ufs1, ..netbsd() }] {
        let disk = Disk::new(&parameters);
        let fs = disk.open(LogUse::Wanted);
        let empty = fs.superblock().totals();
        for n in 0..40 {
            file(&fs, &format!("f{n}"), &[n; 5000]);
        }
        fs.sync().unwrap();
        let crashed = disk.crash();
        let FoundLog::Recovery(replay) = crashed.found() else { panic!("no recovery") };
        replay.replay(&*crashed.device).unwrap();
        let superblock = Superblock::open(&*crashed.device).unwrap();
        assert_eq!(superblock.totals(), fs.superblock().totals());
        assert_eq!(superblock.totals().cs_nifree, empty.cs_nifree - 40);
        assert_eq!(superblock.fs.fs_clean, 2, "FS_WASCLEAN");
        assert_eq!(crashed.damage(), Vec::<String>::new());
    }
}

/// Promise: nobody can change the file that has the log's space.
#[test]
fn the_log_is_nobodys() {
    let disk = Disk::new(&formats()[0].1);
    let fs = disk.open(LogUse::Wanted);
    let ino = fs.lookup(fs.root(), b".spindlelog").unwrap().ino;
    assert!(matches!(fs.unlink(fs.root(), b".spindlelog"), Err(Error::NotPermitted)));
    assert!(matches!(fs.write(ino, 0, b"x", Privilege::Root), Err(Error::NotPermitted)));
    let a = file(&fs, "a", b"some");
    let mode = spindle_vfs::RenameMode::Replace;
    let over = fs.rename(fs.root(), b"a", fs.root(), b".spindlelog", mode, Privilege::Root);
    assert!(matches!(over, Err(Error::NotPermitted)));
    let away = fs.rename(fs.root(), b".spindlelog", fs.root(), b"b", mode, Privilege::Root);
    assert!(matches!(away, Err(Error::NotPermitted)));
    fs.forget(a, 1);
    fs.unmount().unwrap();
}

/// Promise: where somebody has removed the log's file, its former space is not written to, and
/// another log is made.
#[test]
fn a_removed_log_is_left_alone() {
    let disk = Disk::new(&formats()[0].1);
    disk.open(LogUse::Wanted).unmount().unwrap();
    let place = Superblock::open(&*disk.device).unwrap().log_place().unwrap();
    // As a system that knows of no log does it.
    let mut superblock = Superblock::open(&*disk.device).unwrap();
    let marked = superblock.raw().to_vec();
    let mut hidden = marked.clone();
    hidden[1224..1228].fill(0);
    let hash = spindle_ffs::check_hash(&hidden[..superblock.layout.fs_sbsize as usize], 1304);
    hidden[1304..1308].copy_from_slice(&hash.to_le_bytes());
    disk.device.write_at(superblock.layout.fs_sblockloc, &hidden[..4096]).unwrap();
    let fs = disk.open(LogUse::Never);
    fs.unlink(fs.root(), b".spindlelog").unwrap();
    let filler = file(&fs, "filler", b"");
    let mut size = 0;
    while let Ok(n) = fs.write(filler, size, &[5; 4096], Privilege::Root) {
        size += n as u64;
    }
    fs.forget(filler, 1);
    fs.unmount().unwrap();
    superblock = Superblock::open(&*disk.device).unwrap();
    let mut shown = superblock.raw().to_vec();
    shown[1224..1248].copy_from_slice(&marked[1224..1248]);
    let hash = spindle_ffs::check_hash(&shown[..superblock.layout.fs_sbsize as usize], 1304);
    shown[1304..1308].copy_from_slice(&hash.to_le_bytes());
    disk.device.write_at(superblock.layout.fs_sblockloc, &shown[..4096]).unwrap();
    assert_eq!(Superblock::open(&*disk.device).unwrap().log_place(), Some(place));
    let fs = disk.open(LogUse::Wanted);
    let mode = SetAttr { perm: Some(0o600), ..SetAttr::default() };
    let filler = fs.lookup(fs.root(), b"filler").unwrap().ino;
    fs.setattr(filler, &mode, Privilege::Root).unwrap();
    fs.sync().unwrap();
    assert!(content(&fs, "filler").unwrap().iter().all(|&b| b == 5));
    fs.unmount().unwrap();
    assert_eq!(disk.damage(), Vec::<String>::new());
}

/// Promise: a log is taken off with its file and space, whatever the dialect; the check finds
/// nothing, and a new one can be made.
#[test]
fn logs_are_taken_off() {
    for (name, parameters) in formats() {
        let disk = Disk::new(&parameters);
        let fs = disk.open(LogUse::IfThere);
        let free = fs.statfs().unwrap();
        fs.unmount().unwrap();
        let fs = disk.open(LogUse::Wanted);
        file(&fs, "a", b"some");
        fs.unlink(fs.root(), b"a").unwrap();
        fs.unmount().unwrap();
        let (device, clock): (Arc<dyn Device>, Arc<dyn Clock>) = (disk.device.clone(), disk.clock.clone());
        assert!(remove_log(&device, &clock, false).unwrap().is_some(), "{name}");
        assert!(remove_log(&device, &clock, false).unwrap().is_none(), "{name}");
        assert!(matches!(disk.found(), FoundLog::None), "{name}");
        assert_eq!(disk.damage(), Vec::<String>::new(), "{name}");
        let fs = disk.open(LogUse::IfThere);
        let now = fs.statfs().unwrap();
        assert_eq!((now.bfree, now.ffree), (free.bfree, free.ffree), "{name}");
        fs.unmount().unwrap();
        disk.open(LogUse::Wanted).unmount().unwrap();
        assert!(matches!(disk.found(), FoundLog::Ready(_)), "{name}");
        assert_eq!(disk.damage(), Vec::<String>::new(), "{name}");
    }
}

/// Promise: where NetBSD keeps the length of its log, FreeBSD keeps the room for metadata in a
/// group. A log that is longer than a group is no damage, and the length of a log does not decide
/// where files go.
#[test]
fn the_length_of_netbsds_log_is_not_freebsds_metaspace() {
    let disk = Disk::new(&Parameters {
        dialect: Some(Dialect::NetBsd),
        bsize: Some(16384),
        fsize: Some(4096),
        density: Some(8192),
        blocks_per_group: Some(192),
        ..Parameters::new(16 << 20)
    });
    disk.open(LogUse::Wanted).unmount().unwrap();
    let superblock = Superblock::open(&*disk.device).unwrap();
    let layout = &superblock.layout;
    // NetBSD counts the log in sectors.
    assert!(superblock.log_place().unwrap().len / 512 > layout.fs_fpg.into());
    assert_eq!(Dialect::NetBsd.metaspace(&superblock.fs, layout), 0);
    let fs = disk.open(LogUse::IfThere);
    assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
    file(&fs, "kept", &vec![7; 100_000]);
    fs.unmount().unwrap();
    assert_eq!(disk.damage(), Vec::<String>::new());
}

/// Promise: in UFS1 the counts and the time stand alike in the old places and in the new ones after
/// a session of ours, whichever of them the system before us kept, so that old and new systems
/// agree.
#[test]
fn ufs1_keeps_both_places_alike() {
    for dialect in [Dialect::FreeBsd, Dialect::NetBsd, Dialect::OpenBsd] {
        let disk = Disk::new(&Parameters {
            format: Format::Ufs1,
            dialect: Some(dialect),
            bsize: Some(4096),
            fsize: Some(512),
            ..Parameters::new(8 << 20)
        });
        // NetBSD's kernel leaves the old counts as newfs has written them.
        if dialect == Dialect::NetBsd {
            let superblock = Superblock::open(&*disk.device).unwrap();
            let mut raw = superblock.raw().to_vec();
            raw[192..208].fill(0);
            disk.device.write_at(superblock.layout.fs_sblockloc, &raw).unwrap();
            assert_eq!(disk.damage(), Vec::<String>::new(), "{dialect}");
        }
        let made = Superblock::open(&*disk.device).unwrap();
        disk.clock.advance(60);
        let fs = disk.open(LogUse::Never);
        file(&fs, "kept", &vec![7; 100_000]);
        fs.unmount().unwrap();
        let superblock = Superblock::open(&*disk.device).unwrap();
        assert_eq!(superblock.old_totals(), superblock.totals(), "{dialect}");
        // OpenBSD's newfs does not say that the new places count, and its alternates must agree
        // with them.
        let (new, made) = (superblock.fs.fs_cstotal, made.fs.fs_cstotal);
        let expected = if dialect == Dialect::OpenBsd { made } else { superblock.old_totals() };
        assert_eq!(new, expected, "{dialect}");
        let same_time = superblock.fs.fs_time == i64::from(superblock.fs.fs_old_time);
        assert_eq!(same_time, dialect != Dialect::OpenBsd, "{dialect}");
        assert_eq!(disk.damage(), Vec::<String>::new(), "{dialect}");
    }
}

/// Promise: tuning a file system that was not unmounted is refused while its log holds changes;
/// once they are carried out it is tuned, and the log is still the file system's own, wherever the
/// power fails meanwhile.
#[test]
fn tuning_keeps_the_log() {
    let tuning = Tuning { minfree: Some(3), ..Tuning::default() };
    let at_once = tunefs::Options::default();
    for (name, parameters) in formats() {
        let disk = Disk::new(&parameters);
        let fs = disk.open(LogUse::Wanted);
        let ino = file(&fs, "kept", &[7; 5000]);
        fs.fsync(ino, false).unwrap();
        let crashed = disk.crash();
        assert!(matches!(crashed.found(), FoundLog::Recovery(_)), "{name}");
        let before = crashed.device.to_bytes();
        let refused = tune(&*crashed.device, &tuning, at_once).unwrap_err().to_string();
        assert!(refused.contains("log still holds changes"), "{name}: {refused}");
        assert!(crashed.device.to_bytes() == before, "{name}");
        let device: Arc<dyn Device> = crashed.device.clone();
        let clock: Arc<dyn Clock> = crashed.clock.clone();
        recover(&device, &clock, false).unwrap();
        tune(&*crashed.device, &tuning, at_once).unwrap();
        assert!(matches!(crashed.found(), FoundLog::Ready(_)), "{name}");
        assert_eq!(crashed.damage(), Vec::<String>::new(), "{name}");
        let fs = crashed.open(LogUse::IfThere);
        assert_eq!((content(&fs, "kept").unwrap(), fs.minfree()), (vec![7; 5000], 3), "{name}");
        let ino = file(&fs, "later", &[8; 3000]);
        fs.fsync(ino, false).unwrap();
        let again = crashed.crash();
        let fs = again.open(LogUse::IfThere);
        assert_eq!(content(&fs, "later").unwrap(), [8; 3000], "{name}");
        fs.unmount().unwrap();
        assert_eq!(again.damage(), Vec::<String>::new(), "{name}");
    }
}
