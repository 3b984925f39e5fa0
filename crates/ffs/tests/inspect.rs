//! Looking inside: what it says agrees with the maps, the mount and the check, and it writes
//! nothing.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::{AlignedBuf, Device, Info, MemoryDevice, Op, Request, Result, Ticket};
use spindle_ffs::check::{Options, check};
use spindle_ffs::inspect::{BlockPlace, Editor, Grid, InodeNow, Inspector, Owner, Use};
use spindle_ffs::newfs::{self, Format, Parameters, Plan};
use spindle_ffs::{Ffs, Frag, Group, OpenOptions, ROOT_INO, Superblock};
use spindle_samples::present;
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege};
use std::collections::HashSet;
use std::sync::Arc;

/// Images of real systems.
const REAL: [&str; 4] = ["freebsd-ufs2-le", "freebsd-ufs2-be", "openbsd28-ufs1", "openbsd28-43bsd"];

/// A device that must not be written.
struct ReadOnly(MemoryDevice);

impl Device for ReadOnly {
    fn info(&self) -> &Info {
        self.0.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        assert!(matches!(request.op, Op::Read), "a reader writes");
        self.0.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.0.wait(ticket)
    }
    fn flush(&self) -> Result<()> {
        panic!("a reader flushes")
    }
    fn discard(&self, _: u64, _: u64) -> Result<()> {
        panic!("a reader discards")
    }
}

/// A file system in memory with files of all shapes.
struct Filled {
    device: Arc<MemoryDevice>,
    clock: Arc<ManualClock>,
    /// A file of more blocks than an inode points at, with a hole, and its content.
    large: (u32, Vec<u8>),
    /// A file with two names.
    linked: u32,
}

impl Filled {
    fn new(format: Format) -> Self {
        let parameters = Parameters { format, ..Parameters::new(32 << 20) };
        let device = Arc::new(MemoryDevice::new(parameters.size_bytes));
        let clock = Arc::new(ManualClock::at(1_700_000_000));
        let plan = Plan::new(&parameters).unwrap();
        let mut random = StdRng::seed_from_u64(1);
        newfs::write(&plan, &*device, &*clock, &mut random, &mut |_, _| ()).unwrap();
        let mut filled = Self { device, clock, large: (0, Vec::new()), linked: 0 };
        let fs = filled.open();
        let file = |dir: Ino, name: &str| {
            let node = NewNode::new(FileKind::Regular, 0o644);
            fs.create(dir, name.as_bytes(), &node, Privilege::Root).unwrap().ino
        };
        let sub = NewNode::new(FileKind::Directory, 0o755);
        let sub = fs.create(fs.root(), b"sub", &sub, Privilege::Root).unwrap().ino;
        for n in 0..40 {
            let ino = file(if n % 2 == 0 { sub } else { fs.root() }, &format!("file{n}"));
            fs.write(ino, 0, &vec![7; n * 3000], Privilege::Root).unwrap();
            fs.forget(ino, 1);
        }
        let large = file(fs.root(), "large");
        let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 5).to_le_bytes()[0]).collect();
        fs.write(large, 0, &content[..1_000_000], Privilege::Root).unwrap();
        fs.write(large, 2_000_000, &content[2_000_000..], Privilege::Root).unwrap();
        let mut content = content;
        content[1_000_000..2_000_000].fill(0);
        let linked = file(fs.root(), "one");
        fs.link(linked, sub, b"two", Privilege::Root).unwrap();
        fs.forget(large, 1);
        fs.forget(linked, 2);
        fs.forget(sub, 1);
        fs.unmount().unwrap();
        filled.large = (u32::try_from(large.0).unwrap(), content);
        filled.linked = u32::try_from(linked.0).unwrap();
        filled
    }

    fn open(&self) -> Ffs {
        let options = OpenOptions { seed: Some(2), force: true, ..OpenOptions::default() };
        Ffs::open(self.device.clone(), self.clock.clone(), &options).unwrap()
    }

    fn both() -> [Self; 2] {
        [Format::Ufs1, Format::Ufs2].map(Self::new)
    }
}

/// Returns all images, each on a device that must not be written.
fn images() -> Vec<(String, ReadOnly)> {
    let made = Filled::both().map(|filled| ("made".to_owned(), filled.device.to_bytes()));
    let real = present(&REAL).into_iter().map(|real| (real.name.to_owned(), real.image()));
    made.into_iter()
        .chain(real)
        .map(|(name, bytes)| (name, ReadOnly(MemoryDevice::from_bytes(&bytes))))
        .collect()
}

/// Promise: a survey of a good image accounts for every fragment, and its groups have the free
/// blocks, fragments, inodes and directories that they say themselves; the check counts the same.
/// The device is not written.
#[test]
fn surveys_agree_with_the_counts() {
    for (name, device) in images() {
        let superblock = Superblock::open(&device).unwrap();
        let layout = &superblock.layout;
        let mut inspector = Inspector::new(&device, &superblock);
        let survey = inspector.survey(Grid::new(layout, 24, 70), &mut |_, _| ());
        assert_eq!(survey.uses.iter().sum::<u64>(), layout.fs_size, "{name}");
        let damage = (survey.shared_frags, survey.bad_pointers, survey.unread_inode_blocks);
        assert_eq!(damage, (0, 0, 0), "{name}");
        for found in &survey.groups {
            let (block, map) = inspector.group(found.group).unwrap();
            let cs = Group::new(layout, &map, &block).cs();
            let counted = (found.free_blocks, found.free_frags, found.directories);
            let said = (cs.cs_nbfree, cs.cs_nffree, cs.cs_ndir);
            let said = (u64::try_from(said.0), u64::try_from(said.1), u32::try_from(said.2));
            assert_eq!((Ok(counted.0), Ok(counted.1), Ok(counted.2)), said, "{name} {}", found.group);
            assert_eq!(i64::from(found.inodes - found.used_inodes), cs.cs_nifree.into(), "{name}");
        }
        let usage = check(&device, &Options::default(), &mut |_| ()).unwrap().usage;
        let [.., free, unknown] = survey.uses;
        assert_eq!(free, usage.free_frags, "{name}");
        let files: u64 = [Use::Directory, Use::Indirect, Use::Data, Use::Fragment, Use::Log]
            .into_iter()
            .map(|used| survey.uses[used as usize])
            .sum();
        assert_eq!(files, usage.used_frags, "{name}");
        // What a group cuts off at its end is in no map.
        assert!(unknown < u64::from(layout.fs_frag) * u64::from(layout.fs_ncg), "{name}: {unknown}");
        let runs: u64 = survey.free_runs.iter().map(|length| length.blocks).sum();
        assert_eq!(runs, usage.free_blocks, "{name}");
    }
}

/// Promise: of a good image, exactly the fragments that the maps say are used have an owner, and
/// one each.
#[test]
fn owners_agree_with_the_maps() {
    for (name, device) in images() {
        let superblock = Superblock::open(&device).unwrap();
        let mut inspector = Inspector::new(&device, &superblock);
        let all: Vec<u64> = (0..superblock.layout.fs_size).collect();
        let owners = inspector.owners(&all, &mut |_, _| ()).unwrap();
        let mut used = 0;
        for (frag, owners) in owners {
            let is_used = inspector.is_frag_used(frag).unwrap();
            assert_eq!(owners.len(), usize::from(is_used), "{name} fragment {frag}: {owners:?}");
            used += usize::from(is_used);
        }
        assert!(used > 100, "{name}");
    }
}

/// Promise: a file read by its pointers is what was written, holes included; its map says which
/// fragments it has; both of its names are found; a directory lists what a mount lists.
#[test]
fn files_and_names() {
    for filled in Filled::both() {
        let device = ReadOnly(MemoryDevice::from_bytes(&filled.device.to_bytes()));
        let superblock = Superblock::open(&device).unwrap();
        let layout = &superblock.layout;
        let mut inspector = Inspector::new(&device, &superblock);
        let (ino, content) = &filled.large;
        assert_eq!(inspector.lookup(ROOT_INO, b"/large").unwrap(), *ino);
        let mut read = vec![0; content.len()];
        let unread = inspector.read_file(*ino, &mut |at, bytes| {
            let at = usize::try_from(at).unwrap();
            read[at..at + bytes.len()].copy_from_slice(bytes);
            Ok::<(), spindle_vfs::Error>(())
        });
        assert!(unread.unwrap() == 0 && read == *content);
        let map = inspector.file_map(*ino).unwrap();
        assert!(map.damage.is_none() && map.indirect_blocks > 0);
        let data: Vec<_> =
            map.runs.iter().filter(|run| matches!(run.first, BlockPlace::Data { .. })).collect();
        assert_eq!(data.iter().map(|run| run.frags).sum::<u64>(), map.data.frags);
        assert_eq!(data.iter().map(|run| run.blocks).sum::<u64>(), map.data.blocks);
        for pair in map.runs.windows(2) {
            let end = i64::try_from(pair[0].frag + pair[0].frags).unwrap();
            assert_eq!(pair[1].distance, Some(i64::try_from(pair[1].frag).unwrap() - end));
            assert_eq!(pair[1].group, layout.dtog(Frag(pair[1].frag)));
        }
        let owner = inspector.owners(&[data[0].frag], &mut |_, _| ()).unwrap();
        let first = Owner::File { ino: *ino, place: BlockPlace::Data { lbn: 0 } };
        assert_eq!(owner[&data[0].frag], [first]);

        let names = inspector.names(&HashSet::from([filled.linked]), &mut |_, _| ());
        let paths: HashSet<_> = names[&filled.linked].iter().map(Vec::as_slice).collect();
        assert_eq!(paths, HashSet::from([&b"/one"[..], b"/sub/two"]));
        let sub = inspector.lookup(ROOT_INO, b"sub").unwrap();
        let (listed, damaged) = inspector.list(sub).unwrap();
        assert!(!damaged && listed.len() == 2 + 20 + 1, "{listed:?}");
        assert!(inspector.lookup(sub, b"../sub/./file3").is_err());
        assert!(inspector.list(*ino).is_err() && inspector.inode(u32::MAX).is_err());
    }
}

/// Promise: the names that OpenBSD has removed are found with their inodes, and what became of
/// these.
#[test]
fn deleted_names_of_a_real_system() {
    for real in present(&["openbsd28-ufs1", "openbsd28-43bsd"]) {
        let device = ReadOnly(MemoryDevice::from_bytes(&real.image()));
        let superblock = Superblock::open(&device).unwrap();
        let deleted = Inspector::new(&device, &superblock).deleted(&mut |_, _| ());
        let found: Vec<_> = deleted
            .names
            .iter()
            .map(|name| (name.ino, &name.name[..], name.dir_path.as_deref().unwrap(), name.inode))
            .collect();
        let expected = [
            (1926, &b"f5"[..], &b"/d"[..], InodeNow::Cleared),
            (1927, b"f6", b"/d", InodeNow::Cleared),
            (1928, b"f7", b"/d", InodeNow::InUse),
        ];
        assert_eq!(found, expected);
        assert!(deleted.inodes.is_empty() && deleted.unlinked.is_empty());
    }
}

/// Promise: of an inode that is free and has its pointers, all is found as long as its blocks are
/// free; what two of them claim is counted as shared; what is in use again is not read.
#[test]
fn deleted_inodes() {
    for filled in Filled::both() {
        let (ino, content) = &filled.large;
        let superblock = Superblock::open(&*filled.device).unwrap();
        let layout = &superblock.layout;
        let place = |ino: u32| {
            let (block, offset) = layout.ino_to_fsba(ino);
            usize::try_from(layout.byte(block)).unwrap() + offset
        };
        let before = filled.device.to_bytes();
        let inode = before[place(*ino)..][..layout.inode_size()].to_vec();
        let fs = filled.open();
        fs.unlink(fs.root(), b"large").unwrap();
        fs.unlink(fs.root(), b"file1").unwrap();
        fs.unmount().unwrap();
        let put = |ino: u32| {
            let mut bytes = filled.device.to_bytes();
            bytes[place(ino)..][..inode.len()].copy_from_slice(&inode);
            filled.device.write_at(0, &bytes).unwrap();
        };
        let deleted = |work: &mut dyn FnMut(&mut Inspector<'_>, &spindle_ffs::inspect::Deleted)| {
            let device = ReadOnly(MemoryDevice::from_bytes(&filled.device.to_bytes()));
            let superblock = Superblock::open(&device).unwrap();
            let mut inspector = Inspector::new(&device, &superblock);
            let deleted = inspector.deleted(&mut |_, _| ());
            work(&mut inspector, &deleted);
        };
        deleted(&mut |_, deleted| assert!(deleted.inodes.is_empty() && deleted.names.is_empty()));
        put(*ino);
        let mut frags = 0;
        deleted(&mut |inspector, deleted| {
            let [inode] = &deleted.inodes[..] else { panic!("{:?}", deleted.inodes) };
            assert_eq!((inode.ino, inode.size), (*ino, Some(content.len() as u64)));
            assert!(inode.remains.is_whole(), "{:?}", inode.remains);
            frags = inode.remains.free;
            let mut read = vec![0; content.len()];
            let unread = inspector.read_deleted(deleted, inode, &mut |at, bytes| {
                let at = usize::try_from(at).unwrap();
                read[at..at + bytes.len()].copy_from_slice(bytes);
                Ok::<(), ()>(())
            });
            assert!(unread == Ok(0) && read == *content);
        });
        // The inode of the other file that was removed.
        let fs = filled.open();
        let free = fs.lookup(fs.root(), b"file3").unwrap().ino;
        fs.unlink(fs.root(), b"file3").unwrap();
        fs.forget(free, 1);
        fs.unmount().unwrap();
        put(u32::try_from(free.0).unwrap());
        deleted(&mut |_, deleted| {
            assert_eq!(deleted.inodes.len(), 2);
            for inode in &deleted.inodes {
                let remains = inode.remains;
                assert_eq!((remains.free, remains.shared, remains.is_whole()), (0, frags, false));
            }
        });
        let fs = filled.open();
        let keep = fs.lookup(fs.root(), b"file39").unwrap().ino;
        let mut at = 0;
        while let Ok(written) = fs.write(keep, at, &[9; 1 << 13], Privilege::Root) {
            at += written as u64;
        }
        fs.forget(keep, 1);
        fs.unmount().unwrap();
        deleted(&mut |inspector, deleted| {
            for inode in &deleted.inodes {
                assert_eq!((inode.remains.free, inode.remains.shared), (0, 0));
                assert!(inode.remains.used_again > 0 && inode.remains.lost_indirect_blocks > 0);
                let read = inspector.read_deleted(deleted, inode, &mut |_, _| Err(()));
                assert_eq!(read, Ok(0));
            }
        });
    }
}

/// Promise: an inode that has lost its kind and was not freed is found with all its data, which its
/// group marks in use; an inode whose names are gone, and nothing else, is found as one of those.
#[test]
fn inodes_that_were_not_freed() {
    for filled in Filled::both() {
        let (ino, content) = &filled.large;
        let mut editor = Editor::begin(filled.device.clone(), filled.clock.clone(), false).unwrap();
        editor.set_inode(*ino, "mode", 0).unwrap();
        editor.unlink(ROOT_INO, b"one").unwrap();
        let lost = editor.unlink(ROOT_INO, b"file1").unwrap();
        drop(editor);
        let device = ReadOnly(MemoryDevice::from_bytes(&filled.device.to_bytes()));
        let superblock = Superblock::open(&device).unwrap();
        let mut inspector = Inspector::new(&device, &superblock);
        let deleted = inspector.deleted(&mut |_, _| ());
        assert_eq!(deleted.unnamed, [lost], "the other file has another name");
        let [inode] = &deleted.inodes[..] else { panic!("{:?}", deleted.inodes) };
        assert_eq!((inode.ino, inode.kind, inode.size), (*ino, None, Some(content.len() as u64)));
        assert!(inode.remains.is_whole() && inode.remains.free > 0, "{:?}", inode.remains);
        let mut read = vec![0; content.len()];
        let unread = inspector.read_deleted(&deleted, inode, &mut |at, bytes| {
            let at = usize::try_from(at).unwrap();
            read[at..at + bytes.len()].copy_from_slice(bytes);
            Ok::<(), ()>(())
        });
        assert!(unread == Ok(0) && read == *content);
    }
}

/// Promise: each change is on the device with right check-hashes, nothing else is changed, the file
/// system then asks for a check, and what is refused changes nothing.
#[test]
fn edits() {
    for filled in Filled::both() {
        let begin = |force| Editor::begin(filled.device.clone(), filled.clock.clone(), force);
        let before = filled.device.to_bytes();
        let mut editor = begin(false).unwrap();
        let ino = filled.linked;
        assert!(editor.set_inode(ino, "mode", 1 << 40).is_err());
        assert!(editor.set_inode(ino, "nonsense", 1).is_err());
        assert!(editor.set_inode(u32::MAX, "mode", 0).is_err());
        assert!(editor.set_superblock("fs_ncg", 77).is_err());
        assert!(editor.set_superblock("fs_bsize", 0).is_err());
        assert!(editor.unlink(ROOT_INO, b"nobody").is_err());
        assert!(editor.link(ROOT_INO, b"one", ino).is_err());
        assert!(editor.link(ROOT_INO, b"a/b", ino).is_err());
        assert!(before == filled.device.to_bytes(), "a refused change has written");

        let edited = editor.set_inode(ino, "di_uid", 77).unwrap();
        assert_eq!((edited.old, edited.new), (0, 77));
        editor.set_inode(ino, "mtime", 5).unwrap();
        editor.set_superblock("minfree", 3).unwrap();
        let superblock = Superblock::open(&*filled.device).unwrap();
        assert_eq!((superblock.fs.fs_minfree, superblock.is_clean()), (3, false));
        let mut inspector = Inspector::new(&*filled.device, &superblock);
        let inode = inspector.inode(ino).unwrap();
        assert_eq!((inode.uid, inode.mtime.secs), (77, 5));
        let damage = |device: &dyn Device| {
            let report = check(device, &Options::default(), &mut |_| ()).unwrap();
            assert!(!report.marked_clean);
            let damage = report.findings.iter().filter(|found| found.severity.is_damage());
            damage.map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(damage(&*filled.device), Vec::<String>::new());

        assert!(begin(false).is_err(), "an unclean file system is not written without force");
        let mut editor = begin(true).unwrap();
        editor.link(ROOT_INO, b"three", ino).unwrap();
        let found = damage(&*filled.device);
        assert!(found.len() == 1 && found[0].contains("COUNT 2 SHOULD BE 3"), "{found:?}");
        assert_eq!(editor.unlink(ROOT_INO, b"one").unwrap(), ino);
        assert_eq!(damage(&*filled.device), Vec::<String>::new());
        editor.clear_inode(ino).unwrap();
        assert!(!damage(&*filled.device).is_empty());
    }
}
