//! What is read of old file systems without a mount.

mod support;

use spindle_ondisk::{Endian, Field};
use spindle_v7::inspect::{Inspector, Use};
use spindle_v7::{Block, Format, Superblock};
use spindle_vfs::{FileKind, FileSystem};
use support::{Victim, contents};

/// Promise: in every format the blocks of files are found with their owners, all blocks have a use
/// that agrees with the check, and names and inodes that were deleted are shown.
#[test]
fn what_is_where() {
    for format in [Format::V7, Format::BSD41, Format::sysv(Endian::Little), Format::sysv(Endian::Big)] {
        let victim = Victim::new(format);
        let detected = Superblock::open(&*victim.device, Some(format)).unwrap();
        let inspector = Inspector::new(&*victim.device, &detected).unwrap();
        assert_eq!(inspector.lookup(b"/dir/file").unwrap(), victim.file, "{format}");
        let inode = inspector.inode(victim.file).unwrap();
        let bytes = contents();
        assert_eq!((inode.kind, inode.di_size), (Some(FileKind::Regular), bytes.len() as u64), "{format}");
        let blocks = inspector.blocks(victim.file).unwrap();
        let bsize = victim.layout.bsize();
        for pointer in blocks.iter().filter(|pointer| pointer.level == 0) {
            let at = usize::try_from(pointer.lbn).unwrap() * bsize;
            let len = bsize.min(bytes.len() - at);
            assert_eq!(victim.block(Block(pointer.block))[..len], bytes[at..at + len], "{format}");
        }
        let data = blocks.iter().filter(|pointer| pointer.level == 0).count();
        assert_eq!(data, bytes.len().div_ceil(bsize), "{format}");
        let last = *blocks.last().unwrap();
        assert_eq!(inspector.owners(last.block), [(victim.file, last)], "{format}");
        let survey = inspector.survey();
        assert_eq!((survey.shared_blocks, survey.bad_pointers, survey.free_list.clone()), (0, 0, None));
        let counts = survey.counts();
        let count = |wanted| counts.iter().find(|(used, _)| *used == wanted).unwrap().1;
        assert_eq!(count(Use::Unknown), 0, "{format}");
        assert_eq!(count(Use::Free), u64::from(inspector.free_blocks().0), "{format}");
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), u64::from(victim.layout.s_fsize));
        assert_eq!(survey.uses[last.block as usize], Use::Data, "{format}");
        assert!(!inspector.is_free(last.block), "{format}");
    }
}

/// Promise: a deleted name is shown as long as its bytes are there, a free inode with what is left
/// of its blocks; what a circle of indirect blocks leads to is counted once.
#[test]
fn what_was_deleted() {
    let victim = Victim::new(Format::V7);
    let fs = victim.open();
    let root = fs.root();
    fs.unlink(root, b"other").unwrap();
    fs.unmount().unwrap();
    let detected = Superblock::open(&*victim.device, Some(Format::V7)).unwrap();
    let find = |victim: &Victim| Inspector::new(&*victim.device, &detected).unwrap().deleted();
    let found = find(&victim);
    assert!(found.inodes.is_empty(), "{found:?}");
    // As a system leaves it that went down between the inode and its addresses.
    let (block, at) = victim.layout.inode_at(victim.file);
    victim.change(block, |bytes| bytes[at..at + 2].fill(0));
    let blocks = Inspector::new(&*victim.device, &detected).unwrap().blocks(victim.file).unwrap();
    let found = find(&victim);
    let deleted = &found.inodes[0];
    assert_eq!((deleted.inode.ino, deleted.used_again), (victim.file, 0));
    assert_eq!(deleted.left, blocks.len() as u64);
    // A name whose inode number is gone.
    let entries = Inspector::new(&*victim.device, &detected).unwrap().entries(victim.dir).unwrap();
    let entry = entries.iter().find(|entry| entry.name == b"file").unwrap();
    let dir = Inspector::new(&*victim.device, &detected).unwrap().blocks(victim.dir).unwrap()[0];
    let at = usize::try_from(entry.at).unwrap();
    victim.change(Block(dir.block), |bytes| bytes[at..at + 2].fill(0));
    let found = find(&victim);
    assert!(found.names.iter().any(|(dir, entry)| *dir == victim.dir && entry.name == b"file"));
    // An indirect block that leads to itself.
    let indirect = blocks.iter().find(|pointer| pointer.level == 1).unwrap().block;
    victim.change(Block(indirect), |bytes| {
        for pointer in bytes.chunks_exact_mut(4) {
            indirect.put(pointer, Endian::Pdp);
        }
    });
    assert!(find(&victim).inodes[0].left > 0);
}
