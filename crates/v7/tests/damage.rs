//! Damaged file systems that can be read.

mod support;

use spindle_conformance::damaged::names_left;
use spindle_device::{Device, MemoryDevice};
use spindle_ondisk::{Endian, Field};
use spindle_v7::{Block, Format, OpenOptions, Superblock, V7};
use spindle_vfs::{DirEntry, Error, FallocateMode, FileSystem, Ino, Privilege, SetAttr};
use std::ops::ControlFlow;
use std::sync::Arc;
use support::{Victim, contents};

/// Returns a format for each way in which inodes and directories can be read.
fn formats() -> Vec<Format> {
    let v7 = [Endian::Pdp, Endian::Little, Endian::Big].map(|endian| Format { endian, ..Format::V7 });
    let sysv = [512, 1024, 2048].map(|bsize| Format { bsize, ..Format::sysv(Endian::Big) });
    v7.into_iter().chain([Format::BSD41]).chain(sysv).collect()
}

fn salvage(victim: &Victim, format: Option<Format>) -> spindle_vfs::Result<V7> {
    let device: Arc<dyn Device> = victim.device.clone();
    let options = OpenOptions { force: true, ..OpenOptions::default() };
    V7::open_found(Superblock::salvage(&*device, format)?, device, victim.clock.clone(), &options)
}

fn names(fs: &V7, dir: Ino) -> Vec<String> {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |entry: &DirEntry<'_>| {
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        ControlFlow::Continue(())
    })
    .unwrap();
    names
}

fn read(fs: &V7, dir: Ino, name: &[u8]) -> Vec<u8> {
    let attr = fs.lookup(dir, name).unwrap();
    let mut bytes = vec![0; usize::try_from(attr.size).unwrap()];
    assert_eq!(fs.read(attr.ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Promise: without a super-block, a file system of each format is recognised by its root, read
/// whole, and not written, whatever the options say.
#[test]
fn a_lost_superblock() {
    for format in formats() {
        let victim = Victim::new(format);
        let (block, offset) = victim.layout.superblock_at();
        victim.change(block, |bytes| bytes[offset..offset + 512].fill(0xa5));
        assert!(Superblock::open(&*victim.device, None).is_err(), "{format}");
        for named in [None, Some(format)] {
            let fs = salvage(&victim, named).unwrap();
            assert!(fs.read_only() && fs.read_only_reasons().iter().any(|o| !o.overridable), "{format}");
            assert_eq!(fs.layout().format.bsize, format.bsize);
            assert_eq!(fs.layout().s_isize, victim.layout.s_isize, "{format}");
            assert_eq!(names(&fs, fs.root()), [".", "..", "lost+found", "dir", "other"]);
            let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
            assert_eq!(read(&fs, dir, b"file"), contents());
        }
    }
}

/// Promise: where nothing is or only noise, no super-block is guessed.
#[test]
fn nothing_is_not_salvaged() {
    for byte in [0, 0x5a, 0xff] {
        let device = MemoryDevice::from_bytes(&vec![byte; 1 << 20]);
        assert!(matches!(Superblock::salvage(&device, None), Err(Error::Unsupported { .. })));
    }
}

/// Promise: without the root's inode, files are shown by the numbers of their inodes, only to read.
#[test]
fn a_lost_root() {
    for mode in [0o170_000, 0o100_644, 0o020_644, 0] {
        lost_root_with(mode);
    }
}

/// Loses the root by giving its inode this mode.
fn lost_root_with(mode: u16) {
    let victim = Victim::new(Format::V7);
    victim.change_inode(2, |inode| inode.di_mode = mode);
    let fs = salvage(&victim, Some(Format::V7)).unwrap();
    assert!(fs.read_only() && fs.read_only_reasons()[0].reason.contains("root"));
    let device: Arc<dyn Device> = victim.device.clone();
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let found = Superblock::open(&*device, Some(Format::V7)).unwrap();
    let fs = V7::open_found(found, device, victim.clock.clone(), &options).unwrap();
    let by_number = |ino: u16| format!("#{ino}");
    let mut expected = [victim.lost, victim.dir, victim.other];
    expected.sort_unstable();
    let expected = expected.map(by_number);
    assert_eq!(names_left(&fs, fs.root())[2..], expected);
    let dir = fs.lookup(fs.root(), by_number(victim.dir).as_bytes()).unwrap().ino;
    assert_eq!(read(&fs, dir, b"file"), contents());
    assert!(fs.passed_over().iter().any(|said| said.contains("root directory")), "{mode:o}");
}

/// Promise: a wrong count of links keeps nobody from the names in a directory, the root among them,
/// and what has a name is not freed because it counts none.
#[test]
fn directories_without_links() {
    for format in formats() {
        let victim = Victim::new(format);
        for ino in [2, victim.dir, victim.file] {
            victim.change_inode(ino, |inode| inode.di_nlink = 0);
        }
        let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
        for options in [read_only, OpenOptions::default(), OpenOptions::default()] {
            let fs = V7::open(victim.device.clone(), victim.clock.clone(), &options).unwrap();
            let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
            assert_eq!(read(&fs, dir, b"file"), contents(), "{format}");
            for ino in [victim.file, victim.dir] {
                fs.forget(Ino(ino.into()), 1);
            }
            let _left_unclean = fs.unmount();
        }
    }
}

/// Promise: a device or pipe that has contents is damage to whatever meets it: its mode may be that
/// of a file.
#[test]
fn special_files_with_contents() {
    for format in formats() {
        let victim = Victim::new(format);
        victim.change_inode(victim.other, |inode| inode.di_mode = 0o020_644);
        let fs = victim.open();
        assert!(fs.lookup(fs.root(), b"other").is_ok());
        let damage = fs.passed_over();
        assert!(matches!(&damage[..], [one] if one.contains("mode is damaged")), "{format}: {damage:?}");
    }
}

/// Promise: what was in a lost directory is shown by the numbers of its inodes, if that is asked
/// for and the file system is only read.
#[test]
fn a_lost_directory() {
    let victim = Victim::new(Format::V7);
    assert!(victim.open().show_unnamed().is_err());
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let open = || {
        let mut fs = V7::open(victim.device.clone(), victim.clock.clone(), &options).unwrap();
        fs.show_unnamed().unwrap();
        fs
    };
    let whole = open();
    assert_eq!(names(&whole, whole.root()).len(), 2);
    drop(whole);
    victim.change_inode(victim.dir, |inode| inode.di_mode = 0);
    let fs = open();
    let mut expected = [victim.sub, victim.file];
    expected.sort_unstable();
    assert_eq!(names(&fs, fs.root())[2..], expected.map(|ino| format!("#{ino}")));
    assert_eq!(read(&fs, fs.root(), format!("#{}", victim.file).as_bytes()), contents());
}

/// Promise: reading does not need the free list: files whose blocks it claims are read whole.
#[test]
fn a_wrong_free_list() {
    let victim = Victim::new(Format::V7);
    let claimed = victim.addr(victim.file, 0);
    victim.change_superblock(|superblock| superblock.head.s_free[1] = claimed);
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let fs = V7::open(victim.device.clone(), victim.clock.clone(), &options).unwrap();
    let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
    assert_eq!(read(&fs, dir, b"file"), contents());
}

/// Promise: a block of a directory that cannot be read costs its own names only.
#[test]
fn a_lost_block_of_a_directory() {
    let victim = Victim::new(Format::V7);
    let fs = victim.open();
    let dir = Ino(victim.dir.into());
    for n in 0..100 {
        let name = format!("name-{n}");
        support::make(&fs, dir, name.as_bytes(), spindle_vfs::FileKind::Regular);
    }
    fs.unmount().unwrap();
    let end = Block(victim.layout.s_fsize);
    victim.set_addr(victim.dir, 1, end.0);
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let fs = V7::open(victim.device.clone(), victim.clock.clone(), &options).unwrap();
    let in_a_block = victim.layout.bsize() / 16;
    assert_eq!(names_left(&fs, dir).len(), 104 - in_a_block);
    assert!(fs.lookup(dir, b"name-99").is_ok());
    assert_eq!(fs.passed_over().len(), 1);
}

/// Promise: a directory that is larger than the device is read as far as it can be
/// true, whatever the super-block says, and that is noted.
#[test]
fn a_directory_larger_than_the_device() {
    // In these byte orders the pointers are entries that are not used.
    for (format, s_fsize) in [(Format::V7, 2), (Format::sysv(Endian::Big), 4)] {
        let victim = Victim::new(format);
        let (block, offset) = victim.layout.superblock_at();
        let size = 40 << 20;
        victim.change(block, |bytes| {
            (size / format.bsize).put(&mut bytes[offset + s_fsize..], format.endian);
        });
        // All of its blocks, and those with their numbers, are one.
        let loop_of_itself = victim.addr(victim.other, 0);
        victim.change(Block(loop_of_itself), |bytes| {
            bytes.chunks_exact_mut(4).for_each(|pointer| loop_of_itself.put(pointer, format.endian));
        });
        victim.change_inode(victim.sub, |inode| inode.di_size = size.cast_signed());
        (10..13).for_each(|n| victim.set_addr(victim.sub, n, loop_of_itself));
        let options = OpenOptions { read_only: true, format: Some(format), ..OpenOptions::default() };
        let fs = V7::open(victim.device.clone(), victim.clock.clone(), &options).unwrap();
        let mut found = 0;
        let listed = fs.readdir(Ino(victim.sub.into()), 0, &mut |_| {
            found += 1;
            ControlFlow::Continue(())
        });
        assert!(matches!(listed, Err(Error::Corrupt { .. })), "{format}: {listed:?}");
        assert!(found <= (1 << 20) / 16, "{format}: {found}");
        let said = fs.passed_over();
        assert!(said.iter().any(|what| what.contains("more than the device has")), "{format}: {said:?}");
    }
}

/// Promise: a directory whose entries are zeros is not shown as an empty one: on a file system that
/// is only read it is noted as damage, on another one it gives an error, also when it is removed. A
/// directory that was emptied is undamaged.
#[test]
fn a_directory_without_entries() {
    for format in formats() {
        let victim = Victim::new(format);
        let fs = victim.open();
        fs.unlink(Ino(victim.sub.into()), b"deep").unwrap();
        assert_eq!(names(&fs, Ino(victim.sub.into())), [".", ".."]);
        fs.unmount().unwrap();
        assert_eq!(fs.passed_over(), Vec::<String>::new());
        victim.change(Block(victim.addr(victim.dir, 0)), |bytes| bytes.fill(0));
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let fs = V7::open(victim.device.clone(), victim.clock.clone(), &options).unwrap();
        assert_eq!(names_left(&fs, Ino(victim.dir.into())), Vec::<String>::new());
        assert_eq!(names(&fs, fs.root()).len(), 5);
        let said = fs.passed_over();
        assert!(said.iter().any(|what| what.contains("its names are lost")), "{format}: {said:?}");
        let fs = victim.open();
        let listed = fs.readdir(Ino(victim.dir.into()), 0, &mut |_| ControlFlow::Continue(()));
        assert!(matches!(listed, Err(Error::Corrupt { .. })), "{format}: {listed:?}");
        let removed = fs.rmdir(fs.root(), b"dir");
        assert!(matches!(removed, Err(Error::Corrupt { .. })), "{format}: {removed:?}");
        let options = spindle_v7::check::Options { format: Some(format), ..Default::default() };
        let report = spindle_v7::check::check(&*victim.device, &options, &mut |_| ()).unwrap();
        let found = report.findings.iter().any(|found| found.to_string().starts_with("MISSING '.'"));
        assert!(found && !report.is_clean(), "{format}");
    }
}

/// Promise: of a file with an impossible size, or one that no block stands for and that the file
/// system could not hold, as much is read as its blocks hold, and the size is noted as damage; a
/// repair sets it to their end, and the file keeps its bytes.
#[test]
fn an_impossible_size() {
    for format in formats() {
        for size in [-5, i32::MAX, 0x3f00_0000, 3 << 20] {
            let victim = Victim::new(format);
            victim.change_inode(victim.file, |inode| inode.di_size = size);
            let end = contents().len().next_multiple_of(victim.layout.bsize());
            let options = OpenOptions { read_only: true, ..OpenOptions::default() };
            let fs = V7::open(victim.device.clone(), victim.clock.clone(), &options).unwrap();
            let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
            let bytes = read(&fs, dir, b"file");
            assert_eq!(bytes.len(), end, "{format}, {size}");
            assert!(bytes.starts_with(&contents()), "{format}, {size}");
            let said = fs.passed_over();
            assert!(said.len() == 1 && said[0].contains("its blocks end at"), "{format}: {said:?}");
            let fs = victim.open();
            assert!(matches!(fs.lookup(dir, b"file"), Err(Error::Corrupt { .. })), "{format}, {size}");
            drop(fs);
            let options = spindle_v7::check::Options { format: Some(format), ..Default::default() };
            let repaired =
                spindle_v7::check::repair(&victim.shared(), &*victim.clock, &options, false, &mut |_| ());
            let spindle_v7::check::Repaired { before, after, .. } = repaired.unwrap();
            let found = before.findings.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert!(found[0].contains("FILE SIZE ERROR") && after.is_clean(), "{format}: {found:?}");
            assert_eq!(read(&victim.open(), dir, b"file"), bytes, "{format}, {size}");
        }
    }
}

/// Promise: a file that was made longer than the file system, and cut or emptied at its end since,
/// is not taken for damaged.
#[test]
fn a_long_file_with_holes() {
    for format in formats() {
        let victim = Victim::new(format);
        let fs = victim.open();
        let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
        let file = fs.lookup(dir, b"file").unwrap().ino;
        for size in [1 << 29, 1 << 28, (1 << 28) + 1, 5 << 20] {
            fs.setattr(file, &SetAttr { size: Some(size), ..SetAttr::default() }, Privilege::Root).unwrap();
            let end = size - 3000..size;
            fs.fallocate(file, FallocateMode::PunchHole, end.start, 3000, Privilege::Root).unwrap();
            fs.sync().unwrap();
            let options = OpenOptions { read_only: true, ..OpenOptions::default() };
            let reader = V7::open(victim.device.clone(), victim.clock.clone(), &options).unwrap();
            assert_eq!(reader.lookup(dir, b"file").unwrap().size, size, "{format}");
            let mut last = [1; 3000];
            reader.read(file, end.start, &mut last).unwrap();
            assert!(last == [0; 3000] && reader.passed_over().is_empty(), "{format}, {size}");
        }
    }
}

/// Promise: with sizes in the super-block that its inodes contradict, all files are read, and
/// nothing is written.
#[test]
fn sizes_that_inodes_contradict() {
    for format in formats() {
        let changes: [fn(&mut Superblock); 3] =
            [|s| s.head.s_isize += 7, |s| s.head.s_isize = 3, |s| s.head.s_fsize = 200];
        for (n, change) in changes.into_iter().enumerate() {
            let victim = Victim::new(format);
            victim.change_superblock(change);
            let options = OpenOptions { format: Some(format), force: true, ..OpenOptions::default() };
            let device: Arc<dyn Device> = victim.device.clone();
            let refused = V7::open(device.clone(), victim.clock.clone(), &options).unwrap();
            let says = |fs: &V7| fs.read_only_reasons().iter().any(|why| why.reason.contains("contradict"));
            assert!(refused.read_only() && says(&refused), "{format}, {n}");
            let found = Superblock::open(&*device, Some(format)).unwrap().with_better_sizes(&*device);
            let fs = V7::open_found(found, device, victim.clock.clone(), &options).unwrap();
            assert!(fs.read_only() && says(&fs), "{format}, {n}");
            let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
            assert_eq!(read(&fs, dir, b"file"), contents(), "{format}, {n}");
        }
    }
}
