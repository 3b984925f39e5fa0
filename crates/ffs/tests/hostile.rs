//! Images that somebody has thought out: each would lead an operation astray that believes what it
//! reads.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_conformance::damaged::names_left;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{Finding, Options, check};
use spindle_ffs::newfs::{self, Format, Parameters, Plan};
use spindle_ffs::ondisk::Dinode2;
use spindle_ffs::{Ffs, OpenOptions, Superblock};
use spindle_vfs::{
    Attr, Error, FallocateMode, FileKind, FileSystem, Ino, NewNode, Privilege, RenameMode, Seek, SetAttr,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A UFS2 in memory that can be damaged between two mounts.
struct Victim {
    device: Arc<MemoryDevice>,
    clock: Arc<ManualClock>,
}

impl Victim {
    fn parameters() -> Parameters {
        Parameters { snap_dir: false, check_hashes: false, ..Parameters::new(16 << 20) }
    }

    fn new(fill: impl FnOnce(&Ffs)) -> Self {
        Self::with(&Self::parameters(), fill)
    }

    fn with(parameters: &Parameters, fill: impl FnOnce(&Ffs)) -> Self {
        let victim = Self {
            device: Arc::new(MemoryDevice::new(parameters.size_bytes)),
            clock: Arc::new(ManualClock::at(1_700_000_000)),
        };
        let plan = Plan::new(parameters).unwrap();
        let mut random = StdRng::seed_from_u64(1);
        newfs::write(&plan, &*victim.device, &*victim.clock, &mut random, &mut |_, _| ()).unwrap();
        let fs = victim.open();
        fill(&fs);
        fs.unmount().unwrap();
        victim
    }

    fn open(&self) -> Ffs {
        let options = OpenOptions { seed: Some(2), force: true, ..OpenOptions::default() };
        Ffs::open(self.device.clone(), self.clock.clone(), &options).unwrap()
    }

    /// Changes an inode on the device.
    fn change_inode(&self, ino: Ino, change: impl FnOnce(&mut Dinode2)) {
        let layout = Superblock::open(&*self.device).unwrap().layout;
        let (block, offset) = layout.ino_to_fsba(u32::try_from(ino.0).unwrap());
        let mut bytes = self.device.to_bytes();
        let inode = &mut bytes[usize::try_from(layout.byte(block)).unwrap() + offset..];
        let mut dinode = Dinode2::decode(inode, layout.endian);
        change(&mut dinode);
        dinode.encode(inode, layout.endian);
        self.device.write_at(0, &bytes).unwrap();
    }

    fn open_to_read(&self) -> Ffs {
        let options = OpenOptions { read_only: true, seed: Some(2), ..OpenOptions::default() };
        Ffs::open(self.device.clone(), self.clock.clone(), &options).unwrap()
    }

    /// Makes the only entry called `name` lead to another inode.
    fn redirect(&self, name: &[u8], to: Ino) {
        let mut bytes = self.device.to_bytes();
        let at = bytes.windows(name.len()).position(|w| w == name).unwrap() - 8;
        bytes[at..at + 4].copy_from_slice(&u32::try_from(to.0).unwrap().to_le_bytes());
        self.device.write_at(0, &bytes).unwrap();
    }
}

fn make(fs: &Ffs, dir: Ino, name: &[u8], kind: FileKind) -> Ino {
    let node = NewNode::new(kind, 0o755);
    fs.create(dir, name, &node, Privilege::Root).unwrap().ino
}

fn mkdir(fs: &Ffs, dir: Ino, name: &[u8]) -> Ino {
    make(fs, dir, name, FileKind::Directory)
}

fn cut_to(fs: &Ffs, ino: Ino, size: u64) -> Result<Attr, Error> {
    fs.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }, Privilege::Root)
}

/// Promise: a symbolic link whose target was zeroed, in its inode or in its block, cannot be read.
#[test]
fn targets_of_zeros() {
    let targets = [&[b't'; 70][..], &[b'T'; 700]];
    let victim = Victim::new(|fs| {
        for (name, target) in [&b"short"[..], b"long"].into_iter().zip(targets) {
            let node = NewNode { target, ..NewNode::new(FileKind::Symlink, 0o755) };
            fs.create(fs.root(), name, &node, Privilege::Root).unwrap();
        }
    });
    let mut bytes = victim.device.to_bytes();
    for target in targets {
        let at = bytes.windows(target.len()).position(|window| window == target).unwrap();
        bytes[at..at + target.len()].fill(0);
    }
    victim.device.write_at(0, &bytes).unwrap();
    let fs = victim.open();
    for name in [&b"short"[..], b"long"] {
        let link = fs.lookup(fs.root(), name).unwrap().ino;
        assert!(fs.readlink(link).is_err_and(|error| matches!(error, Error::Corrupt { .. })));
    }
}

/// Promise: in a file whose indirect block leads to itself, which makes it as large as the format
/// allows, looking for a hole, filling and cutting back end, and with a complaint.
#[test]
fn pointers_in_circles() {
    let parameters = Parameters { bsize: Some(65536), fsize: Some(65536), ..Victim::parameters() };
    let (mut file, mut size) = (Ino(0), 0);
    let victim = Victim::with(&parameters, |fs| {
        file = make(fs, fs.root(), b"file", FileKind::Regular);
        size = fs.limits().file_size_max;
        fs.write(file, 100 * 65536, b"one byte behind the first indirect block", Privilege::Root).unwrap();
        cut_to(fs, file, size).unwrap();
    });
    let superblock = Superblock::open(&*victim.device).unwrap();
    let layout = superblock.layout;
    let (block, offset) = layout.ino_to_fsba(u32::try_from(file.0).unwrap());
    let mut bytes = victim.device.to_bytes();
    let inode = usize::try_from(layout.byte(block)).unwrap() + offset;
    let mut dinode = Dinode2::decode(&bytes[inode..], layout.endian);
    let circle = dinode.di_ib[0];
    dinode.di_ib = [circle; 3];
    dinode.encode(&mut bytes[inode..], layout.endian);
    let start = usize::try_from(circle).unwrap() * 65536;
    for pointer in bytes[start..start + 65536].chunks_mut(8) {
        pointer.copy_from_slice(&circle.to_le_bytes());
    }
    victim.device.write_at(0, &bytes).unwrap();

    let fs = victim.open();
    let corrupt = |error: &Error| matches!(error, Error::Corrupt { .. });
    assert!(fs.seek(file, 12 * 65536, Seek::Hole).is_err_and(|e| corrupt(&e)));
    let filled = fs.fallocate(
        file,
        FallocateMode::Allocate { keep_size: false },
        12 * 65536,
        size / 2,
        Privilege::Root,
    );
    assert!(matches!(filled, Err(Error::NoSpace)), "{filled:?}");
    let before = fs.getattr(file).unwrap();
    assert!(cut_to(&fs, file, 0).is_err_and(|e| corrupt(&e)));
    // Half a truncation is none, and a file system in which damage was met is not called clean.
    assert_eq!(fs.getattr(file).unwrap(), before);
    fs.unmount().unwrap();
    assert!(!Superblock::open(&*victim.device).unwrap().is_clean());
}

/// Promise: a removed file that cannot be freed is complained of at unmount, after everything else
/// was written; and the file system is not called clean.
#[test]
fn unmount_writes_everything_else() {
    let mut file = Ino(0);
    let victim = Victim::new(|fs| {
        file = make(fs, fs.root(), b"file", FileKind::Regular);
        fs.write(file, 0, &[1; 100], Privilege::Root).unwrap();
    });
    let layout = Superblock::open(&*victim.device).unwrap().layout;
    let (block, offset) = layout.ino_to_fsba(u32::try_from(file.0).unwrap());
    let mut bytes = victim.device.to_bytes();
    let inode = usize::try_from(layout.byte(block)).unwrap() + offset;
    let mut dinode = Dinode2::decode(&bytes[inode..], layout.endian);
    dinode.di_db[0] = i64::MAX;
    dinode.encode(&mut bytes[inode..], layout.endian);
    victim.device.write_at(0, &bytes).unwrap();

    let fs = victim.open();
    fs.lookup(fs.root(), b"file").unwrap();
    fs.unlink(fs.root(), b"file").unwrap();
    mkdir(&fs, fs.root(), b"written");
    let unmounted = fs.unmount();
    assert!(matches!(unmounted, Err(Error::Corrupt { .. })), "{unmounted:?}");
    assert_eq!(Superblock::open(&*victim.device).unwrap().fs.fs_clean, 0);
    let again = victim.open();
    again.lookup(again.root(), b"written").unwrap();
}

/// Promise: cutting back the largest sparse file takes time in proportion to what is stored in it.
#[test]
fn immense_and_empty() {
    let parameters = Parameters { bsize: Some(65536), fsize: Some(65536), ..Victim::parameters() };
    let victim = Victim::with(&parameters, |fs| {
        let file = make(fs, fs.root(), b"file", FileKind::Regular);
        let size = fs.limits().file_size_max;
        let before = fs.statfs().unwrap().bfree;
        for at in [0, 1 << 30, 1 << 40, size / 2, size - 10] {
            fs.write(file, at, b"ten bytes.", Privilege::Root).unwrap();
        }
        for at in [1 << 40, 1 << 30, 5] {
            cut_to(fs, file, at + 10).unwrap();
            assert_eq!(fs.seek(file, at, Seek::Data).unwrap(), at);
        }
        cut_to(fs, file, 0).unwrap();
        assert_eq!(fs.statfs().unwrap().bfree, before);
    });
    let report = check(&*victim.device, &Options::default(), &mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Promise: a group block of 4.2BSD is as large as its map of free fragments, whose place is fixed,
/// needs.
#[test]
fn old_groups_hold_their_maps() {
    const FS_CGSIZE: usize = 160;
    let parameters = Parameters {
        format: Format::Old,
        static_tables: true,
        bsize: Some(4096),
        fsize: Some(1024),
        ..Victim::parameters()
    };
    let victim = Victim::with(&parameters, |_| ());
    let layout = Superblock::open(&*victim.device).unwrap().layout;
    let least = i32::try_from(984 + layout.fs_fpg.div_ceil(8)).unwrap();
    for (fs_cgsize, good) in [(least, true), (least - 1, false)] {
        let mut bytes = victim.device.to_bytes();
        bytes[8192 + FS_CGSIZE..][..4].copy_from_slice(&fs_cgsize.to_le_bytes());
        victim.device.write_at(0, &bytes).unwrap();
        let opened = Superblock::open(&*victim.device);
        assert_eq!(opened.is_ok(), good, "{fs_cgsize}: {:?}", opened.err());
    }
}

/// Promise: a time in the superblock at the end of all time does not keep it from being mounted and
/// changed.
#[test]
fn the_end_of_time() {
    const FS_MTIME: usize = 1208;
    let victim = Victim::new(|_| ());
    let mut bytes = victim.device.to_bytes();
    bytes[65536 + FS_MTIME..][..8].copy_from_slice(&i64::MAX.to_le_bytes());
    victim.device.write_at(0, &bytes).unwrap();
    let fs = victim.open();
    mkdir(&fs, fs.root(), b"new");
    assert_ne!(fs.superblock().fs.fs_mtime, i64::MAX);
    fs.unmount().unwrap();
}

/// Promise: a name that leads to its own directory or one above it is damage to a rename, which
/// locks both ends; it does not wait for itself.
#[test]
fn renames_of_names_that_lead_up() {
    let (mut one, mut two) = (Ino(0), Ino(0));
    let victim = Victim::new(|fs| {
        one = mkdir(fs, fs.root(), b"one");
        two = mkdir(fs, one, b"two");
        mkdir(fs, two, b"leads up");
        mkdir(fs, fs.root(), b"innocent");
    });
    for (target, mode) in
        [(two, RenameMode::Replace), (one, RenameMode::Replace), (two, RenameMode::Exchange)]
    {
        victim.redirect(b"leads up", target);
        let fs = victim.open();
        let root = fs.root();
        let by = Privilege::Root;
        let moved = fs.rename(two, b"leads up", root, b"innocent", mode, by);
        assert!(matches!(moved, Err(Error::Corrupt { .. })), "{moved:?}");
        let moved = fs.rename(two, b"leads up", root, b"elsewhere", RenameMode::Replace, by);
        assert!(matches!(moved, Err(Error::Corrupt { .. })), "{moved:?}");
        let replaced = fs.rename(root, b"innocent", two, b"leads up", mode, by);
        assert!(matches!(replaced, Err(Error::Corrupt { .. })), "{replaced:?}");
        fs.unmount().unwrap();
    }
}

/// Promise: threads that work on directories that are below each other, in opposite directions, do
/// not wait for each other for ever.
#[test]
fn directories_below_each_other() {
    const ROUNDS: usize = 3000;
    let (mut one, mut two) = (Ino(0), Ino(0));
    let victim = Victim::new(|fs| {
        one = mkdir(fs, fs.root(), b"one");
        two = mkdir(fs, one, b"two");
        mkdir(fs, two, b"leads up");
    });
    victim.redirect(b"leads up", one);
    let fs = victim.open();
    let work = |dir: Ino, name: &[u8]| {
        for _ in 0..ROUNDS {
            assert!(fs.rmdir(dir, name).is_err());
            assert!(matches!(fs.unlink(dir, name), Err(Error::IsDirectory)));
            fs.lookup(dir, name).unwrap();
            assert!(fs.rename(dir, name, dir, b"other", RenameMode::Exchange, Privilege::Root).is_err());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(one, b"two"));
        scope.spawn(|| work(two, b"leads up"));
    });
}

/// Promise: a wrong count of links keeps nobody from the names in a directory, the root among them,
/// and what has a name is not freed because it counts none, wherever the file system is used; but
/// it is not clean any more.
#[test]
fn directories_without_links() {
    let mut inodes = [Ino(0); 2];
    let victim = Victim::new(|fs| {
        let dir = mkdir(fs, fs.root(), b"dir");
        let file = make(fs, dir, b"file", FileKind::Regular);
        fs.write(file, 0, b"contents", Privilege::Root).unwrap();
        inodes = [dir, file];
    });
    let [dir, file] = inodes;
    for ino in [victim.open_to_read().root(), dir, file] {
        victim.change_inode(ino, |dinode| dinode.di_nlink = 0);
    }
    for open in [Victim::open_to_read, Victim::open, Victim::open] {
        let fs = open(&victim);
        for _ in 0..2 {
            assert_eq!(fs.lookup(fs.root(), b"dir").unwrap().ino, dir);
            assert_eq!(fs.lookup(dir, b"..").unwrap().ino, fs.root());
            assert_eq!(fs.lookup(dir, b"file").unwrap().ino, file);
            let mut bytes = [0; 8];
            assert_eq!((fs.read(file, 0, &mut bytes).unwrap(), &bytes), (8, b"contents"));
            for ino in [file, fs.root(), dir] {
                fs.forget(ino, 1);
            }
        }
        if !fs.read_only() {
            let new = NewNode::new(FileKind::Regular, 0o644);
            assert!(matches!(fs.create(dir, b"new", &new, Privilege::Root), Err(Error::NotFound)));
            assert!(fs.unmount().is_err() || !Superblock::open(&*victim.device).unwrap().is_clean());
        }
    }
    let mut fs = victim.open_to_read();
    fs.show_unnamed().unwrap();
    let mut shown = 0;
    fs.readdir(fs.root(), 0, &mut |_| {
        shown += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(shown, 2, "what has names is not lost");
}

/// Promise: a device, pipe or socket that has contents is damage to whatever meets it, and a file
/// system that was written meanwhile is not clean: its mode may be that of a file.
#[test]
fn special_files_with_contents() {
    let mut dir = Ino(0);
    let victim = Victim::new(|fs| dir = mkdir(fs, fs.root(), b"dir"));
    for mode in [0o010_644, 0o020_644, 0o060_644, 0o140_644] {
        victim.change_inode(dir, |dinode| dinode.di_mode = mode);
        for open in [Victim::open_to_read, Victim::open] {
            let fs = open(&victim);
            assert_eq!(fs.lookup(fs.root(), b"dir").unwrap().ino, dir);
            let damage = fs.passed_over();
            assert!(matches!(&damage[..], [one] if one.contains("mode is damaged")), "{mode:o}: {damage:?}");
            fs.forget(dir, 1);
            if !fs.read_only() {
                make(&fs, fs.root(), format!("{mode:o}").as_bytes(), FileKind::Regular);
                fs.unmount().unwrap();
                assert!(!Superblock::open(&*victim.device).unwrap().is_clean(), "{mode:o}");
            }
        }
    }
}

/// Promise: an inode with a wrong check-hash is read with what it has, and named as damage, where
/// nothing can be written; elsewhere it is refused.
#[test]
fn wrong_check_hashes_are_read() {
    let mut inodes = [Ino(0); 2];
    let parameters = Parameters { check_hashes: true, ..Victim::parameters() };
    let victim = Victim::with(&parameters, |fs| {
        let dir = mkdir(fs, fs.root(), b"dir");
        let file = make(fs, dir, b"file", FileKind::Regular);
        fs.write(file, 0, b"contents", Privilege::Root).unwrap();
        inodes = [dir, file];
    });
    let [dir, file] = inodes;
    assert!(victim.open_to_read().lookup(dir, b"file").is_ok());
    for ino in inodes {
        victim.change_inode(ino, |dinode| dinode.di_atime ^= 1);
    }
    let fs = victim.open_to_read();
    assert_eq!(fs.lookup(fs.root(), b"dir").unwrap().ino, dir);
    assert_eq!(fs.lookup(dir, b"file").unwrap().ino, file);
    let mut bytes = [0; 8];
    assert_eq!((fs.read(file, 0, &mut bytes).unwrap(), &bytes), (8, b"contents"));
    let damage = fs.passed_over();
    assert_eq!(damage.len(), 2, "{damage:?}");
    for (said, ino) in damage.iter().zip(inodes) {
        assert!(said.contains("check-hash") && said.contains(&format!("inode {}", ino.0)), "{said}");
    }
    let fs = victim.open();
    assert!(matches!(fs.lookup(fs.root(), b"dir"), Err(Error::Corrupt { .. })));
    victim.change_inode(victim.open_to_read().root(), |dinode| dinode.di_atime ^= 1);
    for open in [Victim::open_to_read, Victim::open] {
        let fs = open(&victim);
        assert!(fs.read_only());
        assert!(fs.lookup(fs.root(), b"dir").is_ok(), "the names in a root of this kind are there");
    }
}

/// Promise: what was removed while it was open has no way up.
#[test]
fn removed_directories_have_no_parent() {
    Victim::new(|fs| {
        let dir = mkdir(fs, fs.root(), b"dir");
        fs.rmdir(fs.root(), b"dir").unwrap();
        assert!(matches!(fs.lookup(dir, b".."), Err(Error::NotFound)));
        assert!(matches!(fs.lookup(dir, b"name"), Err(Error::NotFound)));
        fs.forget(dir, 1);
    });
}

/// Promise: a root's inode that holds anything but a directory is a lost root: what was in it is
/// shown by the numbers of its inodes.
#[test]
fn a_root_that_is_no_directory() {
    let mut dir = Ino(0);
    let victim = Victim::new(|fs| {
        dir = mkdir(fs, fs.root(), b"dir");
        make(fs, dir, b"file", FileKind::Regular);
    });
    for mode in [0o100_644, 0o020_644, 0o060_644, 0o010_644, 0o120_777, 0o140_644, 0] {
        victim.change_inode(victim.open_to_read().root(), |dinode| dinode.di_mode = mode);
        for open in [Victim::open_to_read, Victim::open] {
            let fs = open(&victim);
            assert!(fs.read_only(), "{mode:o}");
            let number = format!("#{}", dir.0);
            assert_eq!(names_left(&fs, fs.root()), [".", "..", &number], "{mode:o}");
            assert_eq!(fs.lookup(fs.root(), number.as_bytes()).unwrap().ino, dir, "{mode:o}");
            assert!(fs.lookup(dir, b"file").is_ok(), "{mode:o}");
        }
    }
}

/// Promise: whatever is wrong with one entry of a directory, the others are shown, found and
/// removed; nobody sees the bad one, but the listing ends in an error, a name that is not found may
/// be the bad one, and none is entered that may be it; the check reports it, and the file system is
/// not called clean.
#[test]
fn one_bad_entry_costs_no_other() {
    type Damage = fn(&mut [u8]);
    // True if the entries that follow in the same chunk can still be found.
    let damages: [(&str, bool, Damage); 7] = [
        ("a slash", true, |entry| entry[8 + 1] = b'/'),
        ("a NUL", true, |entry| entry[8 + 1] = 0),
        ("no name", true, |entry| entry[7] = 0),
        ("a name longer than the entry", true, |entry| entry[7] = 200),
        ("an inode beyond the last", true, |entry| entry[..4].copy_from_slice(&u32::MAX.to_le_bytes())),
        ("a length out of the chunk", false, |entry| entry[4..6].copy_from_slice(&0x7ffc_u16.to_le_bytes())),
        ("no length", false, |entry| entry[4..6].copy_from_slice(&[0; 2])),
    ];
    for (what, legible, damage) in damages {
        let victim = Victim::new(|fs| {
            let dir = mkdir(fs, fs.root(), b"dir");
            for name in [&b"before"[..], b"victim", b"behind"] {
                make(fs, dir, name, FileKind::Regular);
            }
            for n in 0..60 {
                make(fs, dir, format!("in-the-next-chunks-{n}").as_bytes(), FileKind::Regular);
            }
        });
        let mut bytes = victim.device.to_bytes();
        let at = bytes.windows(6).position(|w| w == b"victim").unwrap() - 8;
        damage(&mut bytes[at..at + 16]);
        victim.device.write_at(0, &bytes).unwrap();
        let report = check(&*victim.device, &Options::default(), &mut |_| ()).unwrap();
        let reported = report.findings.iter().any(|found| {
            matches!(found.finding, Finding::DirectoryCorrupt { .. } | Finding::EntryOutOfRange { .. })
        });
        assert!(reported, "{what}: {:?}", report.findings);

        let fs = victim.open();
        let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
        let shown = names_left(&fs, dir);
        assert_eq!(shown.iter().any(|name| name == "behind"), legible, "{what}");
        assert!(
            shown.iter().all(|name| !name.is_empty() && !name.contains(['/', '\0'])),
            "{what}: {shown:?}"
        );
        for name in &shown {
            let ino = fs.lookup(dir, name.as_bytes()).unwrap_or_else(|e| panic!("{what}: {name}: {e}")).ino;
            fs.forget(ino, 1);
        }
        assert!(shown.len() > 40 && !shown.contains(&"victim".into()), "{what}: {shown:?}");
        assert!(matches!(fs.lookup(dir, b"victim"), Err(Error::Corrupt { .. })), "{what}");
        let made = fs.create(dir, b"victim", &NewNode::new(FileKind::Regular, 0o644), Privilege::Root);
        assert!(matches!(made, Err(Error::Corrupt { .. })), "{what}: {made:?}");

        fs.unlink(dir, b"before").unwrap_or_else(|e| panic!("{what}: {e}"));
        fs.unlink(dir, b"in-the-next-chunks-30").unwrap();
        // What nobody can see is not thrown away with the directory.
        for name in names_left(&fs, dir).iter().filter(|name| !name.starts_with('.')) {
            fs.unlink(dir, name.as_bytes()).unwrap_or_else(|e| panic!("{what}: {name}: {e}"));
        }
        let removed = fs.rmdir(fs.root(), b"dir");
        assert!(matches!(removed, Err(Error::Corrupt { .. })), "{what}: {removed:?}");
        fs.unmount().unwrap();
        assert!(!Superblock::open(&*victim.device).unwrap().is_clean(), "{what}");
    }
}

/// Promise: bytes that stand behind the end of a file, as a crash or another system leaves them,
/// never become part of it, in whatever way it grows.
#[test]
fn what_stands_behind_the_end_is_never_shown() {
    type Resize = fn(&Ffs, Ino);
    fn resize(fs: &Ffs, ino: Ino, size: u64) {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        fs.setattr(ino, &set, Privilege::Root).unwrap();
    }
    let growths: [(&str, Resize); 5] = [
        ("a size within the fragment", |fs, ino| resize(fs, ino, 150)),
        ("a size in another block", |fs, ino| resize(fs, ino, 100_000)),
        ("a write behind a gap in the fragment", |fs, ino| {
            assert_eq!(fs.write(ino, 200, b"x", Privilege::Root).unwrap(), 1);
        }),
        ("a write in another block", |fs, ino| {
            assert_eq!(fs.write(ino, 100_000, b"x", Privilege::Root).unwrap(), 1);
        }),
        ("space", |fs, ino| {
            fs.fallocate(ino, FallocateMode::Allocate { keep_size: false }, 300, 700, Privilege::Root)
                .unwrap();
        }),
    ];
    for (what, grow) in growths {
        let victim = Victim::new(|fs| {
            let ino = make(fs, fs.root(), b"file", FileKind::Regular);
            fs.write(ino, 0, &[b'H'; 100], Privilege::Root).unwrap();
        });
        let mut bytes = victim.device.to_bytes();
        let at = bytes.windows(100).position(|w| w == [b'H'; 100]).unwrap();
        bytes[at + 100..at + 600].fill(b'G');
        victim.device.write_at(0, &bytes).unwrap();
        for remounted in [false, true] {
            let fs = victim.open();
            let ino = fs.lookup(fs.root(), b"file").unwrap().ino;
            if !remounted {
                grow(&fs, ino);
            }
            let mut shown = vec![0; 200_000];
            let len = fs.read(ino, 0, &mut shown).unwrap();
            assert!(len > 100 && shown[..100] == [b'H'; 100], "{what}");
            assert!(!shown[100..len].contains(&b'G'), "{what}");
            fs.forget(ino, 1);
            fs.unmount().unwrap();
        }
    }
}
