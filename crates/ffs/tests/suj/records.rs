//! Each kind of record, with the states of the disk that it is for.

use crate::builder::{Crashed, KINDS, LARGE, add, block, cut, moved, planned, recover, remove, synced};
use crate::victim::{Tree, tree};
use spindle_device::MemoryDevice;
use spindle_ffs::ondisk::jop;

/// Returns the files before and after the recovery of what `crash` leaves of each kind of file
/// system.
fn each(crash: impl Fn(&mut Crashed)) -> Vec<(Tree, Tree, MemoryDevice)> {
    let case = |kind| {
        let mut crashed = Crashed::new(kind);
        let before = files(&crashed.device());
        crash(&mut crashed);
        let device = crashed.device();
        recover(&device);
        (before, files(&device), device)
    };
    KINDS.map(case).into()
}

/// Returns all files but the journal.
fn files(device: &MemoryDevice) -> Tree {
    let mut files = tree(device);
    files.remove("/.sujournal");
    files
}

/// Asserts that exactly these paths are gone.
fn assert_gone(before: &Tree, after: &Tree, gone: &[&str]) {
    let mut expected = before.clone();
    expected.retain(|path, _| !gone.contains(&path.as_str()));
    assert_eq!(after.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    assert!(*after == expected);
}

/// Promise: a file whose last name has left the disk, but not its inode, is freed and not put into
/// `lost+found`.
#[test]
fn removed_file() {
    for (before, after, _) in each(|crashed| {
        let (ino, dir, at) = crashed.name("d/f3");
        crashed.records(&[remove(ino, dir, at)]);
        crashed.unname("d/f3");
    }) {
        assert_gone(&before, &after, &["/d/f3"]);
    }
}

/// Promise: a removal of which only the journal has reached the disk has not happened.
#[test]
fn removal_that_did_not_begin() {
    for (before, after, _) in each(|crashed| {
        let (ino, dir, at) = crashed.name("d/f3");
        crashed.records(&[remove(ino, dir, at)]);
    }) {
        assert_gone(&before, &after, &[]);
    }
}

/// Promise: a new file whose inode is on the disk, but not its name, is freed.
#[test]
fn created_file_without_its_name() {
    for (before, after, _) in each(|crashed| {
        let (ino, dir, at) = crashed.name("d/f9");
        crashed.records(&[add(ino, dir, at)]);
        crashed.unname("d/f9");
    }) {
        assert_gone(&before, &after, &["/d/f9"]);
    }
}

/// Promise: a second name of which the count is on the disk, but not the name, is taken off the
/// count, and so is one that was removed before the count went down.
#[test]
fn counts_of_names() {
    for records in [add as fn(_, _, _) -> _, remove] {
        for (before, after, _) in each(|crashed| {
            let (ino, dir, _) = crashed.name("d/f3");
            crashed.records(&[records(ino, dir, 400)]);
            crashed.names(ino, 2);
        }) {
            assert_gone(&before, &after, &[]);
        }
    }
}

/// Promise: a file that was renamed and has both names is kept with a count of two.
#[test]
fn renamed_file_with_both_names() {
    for (before, after, device) in each(|crashed| {
        let (ino, dir, at) = crashed.name("d/f3");
        let (other, _, place) = crashed.name("d/f4");
        let entry = crashed.image.entry("d/f4");
        crashed.image.put(entry, ino);
        crashed.records(&[add(ino, dir, place), remove(ino, dir, at), remove(other, dir, place)]);
    }) {
        assert_eq!(after["/d/f3"], after["/d/f4"]);
        assert_eq!(after["/d/f3"], before["/d/f3"]);
        let image = crate::images::Image::new(&device);
        assert_eq!(image.get::<u16>(image.inode(image.ino("d/f3")) + 2), 2);
    }
}

/// Promise: a directory that was removed is freed, and the count of names of its parent is right,
/// whichever of its parts have reached the disk.
#[test]
fn removed_directory() {
    for emptied in [false, true] {
        for (before, after, _) in each(|crashed| {
            let (ino, dir, at) = crashed.name("e");
            crashed.records(&[remove(ino, dir, at), remove(ino, ino, 0), remove(dir, ino, 12)]);
            crashed.unname("e");
            if emptied {
                crashed.size(ino, 0);
                crashed.pointer(ino, 0, 0);
            }
        }) {
            assert_gone(&before, &after, &["/e"]);
        }
    }
}

/// Promise: a directory that has lost its blocks before its name loses its name.
#[test]
fn emptied_directory_with_its_name() {
    for (before, after, _) in each(|crashed| {
        let (ino, dir, at) = crashed.name("e");
        crashed.records(&[remove(ino, dir, at), remove(ino, ino, 0), remove(dir, ino, 12)]);
        crashed.size(ino, 0);
        crashed.pointer(ino, 0, 0);
    }) {
        assert_gone(&before, &after, &["/e"]);
    }
}

/// Promise: a new directory that has not got its name is freed with the new files in it.
#[test]
fn created_directory_with_files() {
    for (before, after, _) in each(|crashed| {
        let (ino, root, at) = crashed.name("d");
        let mut records = vec![add(ino, root, at), add(ino, ino, 0), add(root, ino, 12)];
        for n in 0..10 {
            let (file, dir, at) = crashed.name(&format!("d/f{n}"));
            records.push(add(file, dir, at));
        }
        crashed.records(&records);
        crashed.unname("d");
    }) {
        let gone: Vec<_> = before.keys().filter(|path| path.starts_with("/d")).map(String::as_str).collect();
        assert_gone(&before, &after, &gone);
    }
}

/// Promise: a name that has moved within its directory is found in both places.
#[test]
fn moved_name() {
    for (before, after, _) in each(|crashed| {
        let (ino, dir, at) = crashed.name("d/f3");
        crashed.records(&[moved(ino, dir, 300, at), remove(ino, dir, at)]);
        // The inode is on the disk as it is without the file, the directory is not.
        crashed.clear(ino);
    }) {
        assert_gone(&before, &after, &["/d/f3"]);
    }
}

/// Promise: a file that was being cut is cut, nothing of the rest can be read later, and its
/// blocks are free: where nothing of it is on the disk, and where only the size is.
#[test]
fn cut_files() {
    for bytes in [0, 5000, 40_000, 700_000] {
        for size_first in [false, true] {
            for (before, after, _) in each(|crashed| {
                let (ino, _, _) = crashed.name("large");
                crashed.records(&[
                    cut(ino, bytes),
                    block(jop::FREEBLK, ino, crashed.image.block(ino, 12), -12, 1),
                ]);
                if size_first {
                    crashed.size(ino, bytes);
                }
            }) {
                let len = usize::try_from(bytes).unwrap();
                assert!(after["/large"].content == before["/large"].content[..len]);
                assert_eq!(after.len(), before.len());
            }
        }
    }
}

/// Promise: what was cut and then made durable is not cut again.
#[test]
fn cut_and_made_durable() {
    for (before, after, _) in each(|crashed| {
        let (ino, _, _) = crashed.name("large");
        crashed.records(&[cut(ino, 5000), synced(ino)]);
    }) {
        assert_eq!(after["/large"].content.len() as u64, LARGE);
        assert_gone(&before, &after, &[]);
    }
}

/// Promise: blocks that were allocated and not used, and blocks that were freed, and are not free
/// in the maps, are free afterwards; the counts of blocks of their inodes are right.
#[test]
fn blocks_that_nobody_has() {
    for (before, after, _) in each(|crashed| {
        let (ino, _, _) = crashed.name("large");
        let bsize = u64::from(crashed.image.layout().fs_bsize);
        let (last, frag) = (11, crashed.image.block(ino, 11));
        let indirect = crashed.image.block(ino, 12);
        let frags = u16::try_from(crashed.image.layout().fs_frag).unwrap();
        crashed.records(&[
            block(jop::NEWBLK, ino, frag, last, frags),
            block(jop::NEWBLK, ino, indirect, -12, frags),
            block(jop::FREEBLK, ino, frag, last, frags),
        ]);
        // The inode is as it was before they belonged to it, but for its count.
        crashed.pointer(ino, 11, 0);
        crashed.pointer(ino, 12, 0);
        crashed.size(ino, 11 * bsize);
    }) {
        assert!(before["/large"].content.starts_with(&after["/large"].content));
    }
}

/// Promise: files that were removed while they were open are freed: the superblock names the first
/// of them, each the next.
#[test]
fn files_that_were_open() {
    for (before, after, _) in each(|crashed| {
        let (one, two) = (crashed.name("d/f1").0, crashed.name("e").0);
        crashed.unname("d/f1");
        crashed.unname("e");
        crashed.names(one, 0);
        crashed.names(two, 0);
        let link = if crashed.image.is_ufs2() { 240 } else { 4 };
        let at = crashed.image.inode(one);
        crashed.image.put(at + link, two);
        crashed.hash(one);
        // Elsewhere that is the depth of a directory.
        let at = crashed.image.inode(two);
        crashed.image.put(at + link, 0_u32);
        crashed.hash(two);
        let sb = crashed.image.sb();
        crashed.image.put(sb + 1216, one);
        crashed.hash_superblock();
    }) {
        assert_gone(&before, &after, &["/d/f1", "/e"]);
    }
}

/// Promise: an empty journal says that nothing was under way.
#[test]
fn empty_journal() {
    for (before, after, _) in each(|_| ()) {
        assert_gone(&before, &after, &[]);
    }
    assert_eq!(planned(&Crashed::new(KINDS[0]).device()).records, 0);
}
