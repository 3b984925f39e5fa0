//! Repairs that depend on more than one structure.

use super::crashes::events;
use super::victim::{checked, clock, damage, missing, planned, repair, tree};
use crate::images::{self, Image, makefs};
use crate::tables;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_conformance::cuts::Event;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{Finding, Options};
use spindle_ffs::growfs::{Resize, grow};
use spindle_ffs::newfs::{Format, Parameters};
use spindle_ffs::ondisk::flags;
use spindle_ffs::repair::{Scope, plan, remedy};
use spindle_ffs::{Dialect, Ffs, InodeFormat, LogUse, OpenOptions, Superblock};
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege};
use std::sync::Arc;

const BY: Privilege = Privilege::Root;

/// Returns a file system of each dialect with files in two directories of different groups, one of
/// them large.
fn filled() -> Vec<MemoryDevice> {
    let dialects = [
        (Format::Ufs2, Some(Dialect::FreeBsd)),
        (Format::Ufs2, Some(Dialect::NetBsd)),
        (Format::Ufs2, Some(Dialect::OpenBsd)),
        (Format::Ufs1, Some(Dialect::FreeBsd)),
        (Format::Ufs1, Some(Dialect::Sun { x86: true })),
        (Format::Old, None),
    ];
    let device = |(format, dialect)| {
        let parameters = Parameters { format, dialect, ..Parameters::new(16 << 20) };
        let device = images::new(&parameters);
        let device = Arc::new(device);
        let options = OpenOptions { seed: Some(1), log: LogUse::Never, ..OpenOptions::default() };
        let fs = Ffs::open(device.clone(), clock(), &options).unwrap();
        for name in [b"one", b"two"] {
            let dir = fs.create(fs.root(), name, &NewNode::new(FileKind::Directory, 0o755), BY).unwrap().ino;
            for n in 0..30_u8 {
                let file = NewNode::new(FileKind::Regular, 0o644);
                let file = fs.create(dir, format!("file{n}").as_bytes(), &file, BY).unwrap().ino;
                let len = if n == 7 { 1_000_000 } else { usize::from(n) * 700 };
                fs.write(file, 0, &vec![n + 1; len], BY).unwrap();
            }
        }
        fs.unmount().unwrap();
        drop(fs);
        Arc::into_inner(device).unwrap()
    };
    dialects.map(device).into()
}

/// Returns the bytes of an image whose superblock was changed, with the check-hash that it needs.
fn hashed(mut image: Image) -> Vec<u8> {
    image.hash_superblock();
    image.bytes
}

/// Promise: with all group blocks and all summaries destroyed, every file is still there.
#[test]
fn groups_are_made_anew_from_the_inodes() {
    for device in filled() {
        let before = tree(&device);
        let image = Image::new(&device);
        let layout = image.layout();
        for cgx in 0..layout.fs_ncg {
            device
                .write_at(image.cg(cgx), &vec![0xa5; layout.fs_cgsize.next_multiple_of(512) as usize])
                .unwrap();
        }
        let summaries = vec![0xa5; layout.fs_cssize.next_multiple_of(512) as usize];
        device.write_at(layout.byte(layout.fs_csaddr), &summaries).unwrap();
        assert_eq!(repair(&device).refusal, None, "{}", image.superblock.dialect);
        assert_eq!(damage(&device), Vec::<String>::new());
        assert_eq!(tree(&device), before, "{}", image.superblock.dialect);
    }
}

/// Promise: a group that says that fewer inodes were ever used than have names hides no file from
/// the repair, whatever else is wrong with it.
#[test]
fn no_group_hides_inodes() {
    for (device, also_magic) in filled().into_iter().zip([false, true].into_iter().cycle()) {
        let before = tree(&device);
        let mut image = Image::new(&device);
        if !image.is_ufs2() {
            continue;
        }
        for cgx in 0..image.layout().fs_ncg {
            let least = image.layout().fs_inopb;
            image.put(image.cg(cgx) + 120, least);
            if also_magic {
                image.put(image.cg(cgx) + 4, 0_u32);
            }
        }
        let device = MemoryDevice::from_bytes(&image.bytes);
        assert_eq!(repair(&device).refusal, None);
        assert_eq!(damage(&device), Vec::<String>::new());
        assert_eq!(tree(&device), before, "{}", image.superblock.dialect);
    }
}

/// Promise: without a root directory, everything that was in it is in `lost+found`, where only the
/// superuser can look.
#[test]
fn a_lost_root_is_replaced() {
    for device in filled() {
        let before = tree(&device);
        let image = Image::new(&device);
        let at = image.inode(2) / 512 * 512;
        let mut sector = vec![0; 512];
        device.read_at(at, &mut sector).unwrap();
        let from = usize::try_from(image.inode(2) - at).unwrap();
        sector[from..from + image.layout().inode_size()].fill(0);
        device.write_at(at, &sector).unwrap();
        assert_eq!(repair(&device).refusal, None);
        assert_eq!(damage(&device), Vec::<String>::new());
        let after = tree(&device);
        let gone: Vec<_> = missing(&before, &after);
        assert!(gone.iter().all(|path| path == "/lost+found"), "{}: {gone:?}", image.superblock.dialect);
        let found = Ffs::open(Arc::new(device.branch()), clock(), &OpenOptions::default()).unwrap();
        let lost_found = found.lookup(found.root(), b"lost+found").unwrap();
        assert_eq!((lost_found.perm, lost_found.uid), (0o700, 0));
        let names = |path: &str| after.keys().filter(|name| name.ends_with(path)).count();
        assert_eq!(names("/file7"), 2);
    }
}

/// Promise: a superblock is written again from a copy, which is found without being named; where
/// only its check-hash is wrong, its own fields are kept.
#[test]
fn a_superblock_is_restored() {
    for device in filled() {
        let before = tree(&device);
        let image = Image::new(&device);
        let totals = image.superblock.totals();
        device.write_at(image.sb(), &[0; 8192]).unwrap();
        assert_eq!(repair(&device).refusal, None);
        assert_eq!(damage(&device), Vec::<String>::new());
        let restored = Superblock::open(&device).unwrap();
        let counts = |t: spindle_ffs::ondisk::CsumTotal| (t.cs_ndir, t.cs_nbfree, t.cs_nifree, t.cs_nffree);
        assert_eq!(counts(restored.totals()), counts(totals));
        assert!(checked(&device).marked_clean);
        assert_eq!(tree(&device), before);
    }
    let mut image = Image::new(&filled()[0]);
    let at = usize::try_from(image.sb()).unwrap() + 680;
    image.bytes[at..at + 4].copy_from_slice(b"name");
    let device = MemoryDevice::from_bytes(&image.bytes);
    assert_eq!(repair(&device).refusal, None);
    assert_eq!(device.to_bytes()[at..at + 4], *b"name");
}

/// Promise: where `fs_sblkno` is damaged, so that no replica is where it says, the check names that
/// and nothing else, all files can be read, and a mount does not write; the replicas put it right,
/// and no file is taken for a part of the metadata.
#[test]
fn a_damaged_place_of_the_replicas() {
    for device in filled() {
        let before = tree(&device);
        let good = Image::new(&device);
        let fs_sblkno = good.sb() + 8;
        let right: i32 = good.get(fs_sblkno);
        for wrong in [0, 1, right - 1, right + 1] {
            let mut image = good.clone();
            image.put(fs_sblkno, wrong);
            let device = MemoryDevice::from_bytes(&image.bytes);
            if !good.superblock.check_hashes().superblock {
                let named = format!("IMPOSSIBLE fs_sblkno={wrong} IN SUPERBLOCK, SHOULD BE {right}");
                assert_eq!(damage(&device), [named]);
                assert_eq!(tree(&device), before, "{}: {wrong}", good.superblock.dialect);
                let fs = Ffs::open(Arc::new(device.branch()), clock(), &OpenOptions::default()).unwrap();
                let reasons: Vec<_> = fs.read_only_reasons().iter().map(|why| why.reason.as_str()).collect();
                assert_eq!(reasons, [format!("its fs_sblkno is {wrong}, and its replicas are at {right}")]);
            }
            assert_eq!(repair(&device).refusal, None, "{wrong}");
            assert_eq!(damage(&device), Vec::<String>::new(), "{wrong}");
            let repaired = Image::new(&device);
            assert_eq!(repaired.get::<i32>(fs_sblkno), right);
            assert_eq!(tree(&device), before, "{}: {wrong}", good.superblock.dialect);
        }
    }
}

/// Puts a smaller size into a replica.
fn shrink_replica(image: &mut Image, cgx: u32) {
    let at = image.replica(cgx);
    if image.is_ufs2() {
        image.put(at + 1080, image.get::<u64>(at + 1080) - 8);
    } else {
        image.add(at + 36, -8);
    }
}

/// Promise: replicas from before a growth that was cut do not make a file system small again.
#[test]
fn replicas_from_before_a_growth() {
    for small in filled() {
        let bytes = small.info().size_bytes + (8 << 20);
        let old = Image::new(&small);
        let device = MemoryDevice::new(bytes);
        device.write_at(0, &old.bytes).unwrap();
        let device: Arc<dyn Device> = Arc::new(device);
        let growth = Resize::of(&old.superblock, bytes).unwrap();
        let mut random = SmallRng::seed_from_u64(1);
        grow(&device, &clock(), &mut random, &growth, &mut |_, _| Ok(())).unwrap();
        let mut all = vec![0; usize::try_from(bytes).unwrap()];
        device.read_at(0, &mut all).unwrap();
        let device = MemoryDevice::from_bytes(&all);
        let before = tree(&device);
        let grown = Superblock::open(&device).unwrap().layout;
        let sbsize = old.layout().fs_sbsize.next_multiple_of(512) as usize;
        for cgx in 0..old.layout().fs_ncg {
            let at = usize::try_from(old.replica(cgx)).unwrap();
            device.write_at(at as u64, &old.bytes[at..at + sbsize]).unwrap();
        }
        assert!(grown.fs_ncg > old.layout().fs_ncg && !damage(&device).is_empty());
        assert_eq!(repair(&device).refusal, None, "{}", old.superblock.dialect);
        assert_eq!(damage(&device), Vec::<String>::new(), "{}", old.superblock.dialect);
        assert_eq!(Superblock::open(&device).unwrap().layout, grown);
        assert_eq!(tree(&device), before, "{}", old.superblock.dialect);
    }
}

/// Promise: a replica with a smaller size that differs from the superblock in more than that is
/// none from before a growth: the replicas decide as they do without it.
#[test]
fn a_damaged_replica_is_none_from_before_a_growth() {
    for device in filled() {
        let before = tree(&device);
        let mut image = Image::new(&device);
        let layout = image.layout().clone();
        assert!(layout.fs_ncg > 3, "most replicas are whole");
        if image.superblock.check_hashes().superblock {
            continue;
        }
        shrink_replica(&mut image, 1);
        // The first data is somewhere else, says the superblock.
        image.put(image.sb() + 20, layout.fs_dblkno + layout.fs_frag);
        let device = MemoryDevice::from_bytes(&image.bytes);
        assert_eq!(repair(&device).refusal, None, "{}", image.superblock.dialect);
        assert_eq!(damage(&device), Vec::<String>::new(), "{}", image.superblock.dialect);
        assert_eq!(tree(&device), before, "{}", image.superblock.dialect);
    }
}

/// Promise: the log is found again where the superblock that named it is lost, and a mount goes on
/// with it.
#[test]
fn a_log_is_found_again() {
    let parameters = Parameters::new(64 << 20);
    let device = Arc::new(images::new(&parameters));
    let options = OpenOptions { seed: Some(1), log: LogUse::Wanted, ..OpenOptions::default() };
    let mount = |device: &Arc<MemoryDevice>| Ffs::open(device.clone(), clock(), &options).unwrap();
    mount(&device).unmount().unwrap();
    let place = Superblock::open(&*device).unwrap().log_place();
    assert!(place.is_some());
    device.write_at(65536, &[0; 8192]).unwrap();
    assert_eq!(repair(&device).refusal, None);
    assert_eq!(damage(&device), Vec::<String>::new());
    assert_eq!(Superblock::open(&*device).unwrap().log_place(), place);
    let fs = mount(&device);
    assert_eq!(fs.log_at_open().place, place);
    fs.create(fs.root(), b"new", &NewNode::new(FileKind::Regular, 0o644), BY).unwrap();
    fs.unmount().unwrap();
    assert_eq!(damage(&device), Vec::<String>::new());
    assert!(tree(&device).contains_key("/new"));
}

/// Promise: without space for a name in `lost+found` nothing is changed, and the reason is given.
#[test]
fn full_file_systems_are_refused() {
    let device = Arc::new(images::new(&Parameters { minfree: Some(0), ..Parameters::new(2 << 20) }));
    let options = OpenOptions { seed: Some(1), log: LogUse::Never, ..OpenOptions::default() };
    let fs = Ffs::open(device.clone(), clock(), &options).unwrap();
    let node = NewNode::new(FileKind::Regular, 0o644);
    fs.create(fs.root(), b"orphan", &node, BY).unwrap();
    let dir = fs.create(fs.root(), b"dir", &NewNode::new(FileKind::Directory, 0o755), BY).unwrap().ino;
    for n in 0.. {
        let Ok(file) = fs.create(dir, format!("{n}").as_bytes(), &node, BY) else { break };
        if fs.write(file.ino, 0, &[1; 4096], BY).is_err() {
            break;
        }
    }
    fs.unmount().unwrap();
    drop(fs);
    let mut image = Image::new(&device);
    let entry = image.entry("orphan");
    image.put(entry, 0_u32);
    let device = MemoryDevice::from_bytes(&image.bytes);
    let plan = repair(&device);
    assert!(plan.refusal.is_some_and(|reason| reason.contains("no space")), "{:?}", damage(&device));
    assert!(device.to_bytes() == image.bytes);
}

/// Promise: where most replicas agree against the superblock about where things are, they are
/// right; where it is one against one, nothing is changed.
#[test]
fn replicas_decide() {
    let tree_of = tempfile::tempdir().unwrap();
    std::fs::write(tree_of.path().join("file"), vec![b'x'; 100_000]).unwrap();
    let options = ["-B", "le", "-o", "version=2,bsize=8192,fsize=1024", "-s", "8m"];
    for device in [filled().swap_remove(2), makefs(tree_of.path(), &options)] {
        let before = tree(&device);
        let mut image = Image::new(&device);
        let groups = image.layout().fs_ncg > 1;
        // The inodes are somewhere else, says the superblock.
        let frags = image.layout().fs_frag;
        image.put(image.sb() + 16, image.layout().fs_iblkno + frags);
        image.put(image.sb() + 20, image.layout().fs_dblkno + frags);
        let device = MemoryDevice::from_bytes(&image.bytes);
        let plan = repair(&device);
        if groups {
            assert_eq!(plan.refusal, None);
            assert_eq!((damage(&device), tree(&device)), (Vec::new(), before));
        } else {
            assert!(plan.refusal.is_some_and(|reason| reason.contains("replicas do not agree")));
            assert!(device.to_bytes() == image.bytes);
        }
    }
}

/// Checks that a repair refuses the image with a reason that has these words, and changes nothing.
fn assert_refused(image: &Image, words: &str) {
    let device = MemoryDevice::from_bytes(&image.bytes);
    let refusal = repair(&device).refusal.unwrap_or_default();
    assert!(refusal.contains(words), "{refusal}");
    assert!(device.to_bytes() == image.bytes);
}

/// Promise: where the superblock alone has another limit of short symbolic links, or another place
/// of the summaries, by which good files would look damaged, a repair changes nothing, and a mount
/// does not write; nor where one of the replicas has a smaller size besides.
#[test]
fn a_misleading_superblock_is_refused() {
    let device = filled().swap_remove(2);
    for (at, by, also_size) in [(1320, -60, false), (1096, 64, false), (1320, -60, true), (1096, 64, true)] {
        let mut image = Image::new(&device);
        if also_size {
            shrink_replica(&mut image, 1);
        }
        let ino = image.ino("one/file3");
        image.put(image.inode(ino) + 2, 9_u16);
        let reasons = |image: &Image| {
            let device = MemoryDevice::from_bytes(&image.bytes);
            let objections = Superblock::open(&device).unwrap().objections_to_mounting(&device).unwrap();
            objections.into_iter().map(|objection| objection.reason).collect::<Vec<_>>()
        };
        assert_eq!(reasons(&image), Vec::<String>::new());
        image.add(image.sb() + at, by);
        assert!(reasons(&image)[0].ends_with("in its replicas"), "{:?}", reasons(&image));
        assert_refused(&image, "replicas");
    }
}

/// Promise: a superblock that alone has another format of inodes, by which all files would look
/// damaged, is not believed, also where there is only one replica; the check names the field, and
/// the superblock is restored from a replica that the user names.
#[test]
fn another_format_of_inodes_is_refused() {
    let small = images::new(&Parameters { format: Format::Ufs1, ..Parameters::new(1 << 20) });
    assert_eq!(Image::new(&small).layout().fs_ncg, 1);
    for device in [filled().swap_remove(3), small] {
        let before = tree(&device);
        let mut image = Image::new(&device);
        assert_eq!(image.layout().inode_format, InodeFormat::New);
        image.put(image.sb() + 1324, 0);
        assert_refused(&image, "other formats");
        let device = MemoryDevice::from_bytes(&image.bytes);
        let all = damage(&device);
        assert!(all[0].contains("fs_old_inodefmt IS 2, NOT 0"), "{}", all[0]);
        let branch: Arc<dyn Device> = Arc::new(device.branch());
        let named = Options { replica: Some(image.replica(0)), ..Options::default() };
        let plan = plan(&branch, &clock(), &named, Scope::All, &mut |_| true, &mut |_| ()).unwrap();
        assert_eq!(plan.refusal, None);
        plan.apply(&device).unwrap();
        assert_eq!((damage(&device), tree(&device)), (Vec::new(), before));
    }
}

/// Promise: two replicas with the same damage do not outvote a whole superblock, although no other
/// agrees with it in everything.
#[test]
fn replicas_with_the_same_damage_are_not_believed() {
    let device = filled().swap_remove(3);
    let mut image = Image::new(&device);
    let layout = image.layout().clone();
    assert!(layout.fs_ncg > 3);
    for cgx in 0..layout.fs_ncg {
        // First data in two, a mask in each of two others; any others are gone.
        let field = [20, 20, 72, 76].get(cgx as usize).unwrap_or(&1372);
        let value = if *field == 20 { layout.fs_dblkno + layout.fs_frag } else { 0 };
        image.put(image.replica(cgx) + field, value);
    }
    assert_refused(&image, "replicas do not agree");
}

/// Promise: without a superblock, a replica is not believed that most others contradict, although
/// no two of them agree, and the cylinder groups are where it says.
#[test]
fn a_contradicted_replica_is_refused() {
    let device = filled().swap_remove(3);
    let before = tree(&device);
    let mut image = Image::new(&device);
    let layout = image.layout().clone();
    assert!(layout.fs_ncg > 3);
    image.put(image.sb() + 1372, 0);
    for cgx in 1..layout.fs_ncg {
        // A mask in each of two, a shift in the third one; any others are gone.
        let field = [72, 76, 96].get(cgx as usize - 1).unwrap_or(&1372);
        image.put(image.replica(cgx) + field, 0);
    }
    let whole = MemoryDevice::from_bytes(&image.bytes);
    assert_eq!(repair(&whole).refusal, None);
    assert_eq!((damage(&whole), tree(&whole)), (Vec::new(), before));
    // Its summaries reach into the files behind them.
    image.put(image.replica(0) + 156, layout.fs_cssize + layout.fs_bsize);
    assert_refused(&image, "do not agree");
}

/// Promise: both of two files with the same blocks have all of their content afterwards, each in
/// blocks of its own.
#[test]
fn duplicate_blocks_are_copied() {
    for device in filled() {
        let before = tree(&device);
        let mut image = Image::new(&device);
        let (a, b) = (image.ino("one/file7"), image.ino("two/file7"));
        for n in 0..13 {
            let (from, to) = (image.pointer(a, n), image.pointer(b, n));
            if image.is_ufs2() {
                image.put(to, image.get::<u64>(from));
            } else {
                image.put(to, image.get::<u32>(from));
            }
        }
        let device = MemoryDevice::from_bytes(&image.bytes);
        assert_eq!(repair(&device).refusal, None);
        assert_eq!(damage(&device), Vec::<String>::new());
        assert_eq!(tree(&device), before, "{}", image.superblock.dialect);
    }
}

/// Promise: a repair that may lose nothing corrects maps and counts, and changes nothing if a
/// file may be lost.
#[test]
fn preening_loses_nothing() {
    for device in filled() {
        let mut image = Image::new(&device);
        let at = image.layout().byte(image.layout().fs_csaddr) + 8;
        image.add(at, 3);
        let ino = image.ino("one/file3");
        image.put(image.inode(ino) + 2, 9_u16);
        if image.superblock.check_hashes().inodes {
            image.hash_inode(ino);
        }
        let device = MemoryDevice::from_bytes(&image.bytes);
        let plan = planned(&device, Scope::Harmless);
        assert_eq!(plan.refusal, None, "{}", image.superblock.dialect);
        plan.apply(&device).unwrap();
        assert_eq!(damage(&device), Vec::<String>::new());
        image.put(image.entry("one/file3"), image.layout().inodes() + 5);
        let device = MemoryDevice::from_bytes(&image.bytes);
        let plan = planned(&device, Scope::Harmless);
        assert!(plan.refusal.is_some() && !plan.changes_anything());
    }
}

/// Promise: without consent to one kind of repair nothing is planned, and consent is asked for
/// once for each kind.
#[test]
fn consent_is_asked_for_each_kind() {
    let device = filled().remove(0);
    let mut image = Image::new(&device);
    let at = image.layout().byte(image.layout().fs_csaddr) + 8;
    image.add(at, 3);
    for name in ["one/file3", "two/file4", "one/file9"] {
        let ino = image.ino(name);
        image.put(image.inode(ino) + 2, 9_u16);
        image.hash_inode(ino);
    }
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::from_bytes(&image.bytes));
    let mut asked = Vec::new();
    let mut plan_with = |refuse: &str| {
        let mut agree = |finding: &Finding| {
            asked.push(finding.kind());
            finding.kind() != refuse
        };
        plan(&device, &clock(), &Options::default(), Scope::All, &mut agree, &mut |_| ()).unwrap()
    };
    assert!(plan_with("").changes_anything());
    assert!(!plan_with("LinkCount").changes_anything());
    let once = |kind: &str| asked.iter().filter(|&&asked| asked == kind).count();
    assert_eq!((once("LinkCount"), once("SummaryCounts")), (2, 1));
}

/// Promise: FreeBSD's file systems with a journal of soft updates that was not carried out are
/// repaired by a full check, as FreeBSD does it; from the first change on, FreeBSD does not believe
/// that journal any more, and if the repair is cut it makes a full check.
#[test]
fn a_journal_of_soft_updates_is_outdated() {
    let device = filled().remove(0);
    let mut image = Image::new(&device);
    let summaries = image.layout().byte(image.layout().fs_csaddr) + 8;
    image.add(summaries, 3);
    let sb = image.sb();
    image.put(sb + 1312, image.get::<u32>(sb + 1312) | flags::FS_SUJ | flags::FS_DOSOFTDEP);
    image.put(sb + 209, 0_u8);
    image.put(sb + 1216, 77_u32);
    // The clock of the machine that it comes from was ahead.
    let of_journal = 1_i64 << 33;
    image.put(sb + 1208, of_journal);
    let device = MemoryDevice::from_bytes(&hashed(image));
    let plan = planned(&device, Scope::Harmless);
    assert_eq!(plan.refusal, None);
    let events = events(&plan, &device);
    let first = events.iter().position(|event| matches!(event, Event::Flush)).unwrap();
    let medium = device.branch();
    for event in &events[..first] {
        let Event::Write(at, bytes) = event else { continue };
        medium.write_at(*at, bytes).unwrap();
    }
    let meanwhile = Superblock::open(&medium).unwrap();
    assert!(!meanwhile.is_clean() && meanwhile.flags() & flags::FS_NEEDSFSCK != 0);
    assert_ne!(meanwhile.fs.fs_mtime, of_journal);
    plan.apply(&device).unwrap();
    let after = Superblock::open(&device).unwrap();
    assert!(after.is_clean() && after.flags() & (flags::FS_NEEDSFSCK | flags::FS_SUJ) == flags::FS_SUJ);
    assert!(after.fs.fs_mtime > of_journal && after.fs.fs_sujfree == 0);
    assert_eq!(damage(&device), Vec::<String>::new());
}

/// Promise: what is not safe to write is not repaired: flags that nobody knows.
#[test]
fn what_must_not_be_written_is_refused() {
    let device = filled().remove(0);
    let mut image = Image::new(&device);
    let at = image.layout().byte(image.layout().fs_csaddr) + 8;
    image.add(at, 3);
    image.put(image.sb() + 1312, image.get::<u32>(image.sb() + 1312) | 0x10_0000);
    let bytes = hashed(image);
    let device = MemoryDevice::from_bytes(&bytes);
    let refusal = repair(&device).refusal.unwrap_or_default();
    assert!(refusal.contains("unknown bits"), "{refusal}");
    assert!(device.to_bytes() == bytes);
}

/// Promise: every finding of the tables that is damage has a remedy, unless it is named as beyond
/// repair.
#[test]
fn remedies_are_stated() {
    for (image, table) in tables::all() {
        let Some(image) = image else { continue };
        for (name, plant) in table {
            let mut image = image.clone();
            plant(&mut image);
            for found in image.check().findings {
                let is_note = found.severity == spindle_tree::check::Severity::Note;
                let beyond = super::victim::beyond_repair(&found.finding);
                assert_eq!(remedy(&found.finding).is_none(), is_note || beyond, "{name}: {found}");
            }
        }
    }
}
