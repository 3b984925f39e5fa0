//! What a mount of a clean file system leaves for FreeBSD's next boot.

use crate::builder::{BY, Crashed, KINDS, MOUNTED, found, recover, refused, remove};
use crate::victim::{checked, clock};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::ondisk::flags;
use spindle_ffs::repair::Journal;
use spindle_ffs::{Ffs, LogUse, OpenOptions, Superblock};
use spindle_vfs::{FileKind, FileSystem, NewNode};
use std::sync::Arc;

/// Returns a clean file system with the journal of the mount before: were it followed again, it
/// would say that `d/f3` was removed.
fn unmounted(mut crashed: Crashed) -> MemoryDevice {
    let (ino, dir, at) = crashed.name("d/f3");
    crashed.records(&[remove(ino, dir, at)]);
    let device = crashed.device();
    recover(&device);
    let mut image = crate::images::Image::new(&device);
    // As it is if nothing had to be recovered: unmounted by FreeBSD itself.
    let sb = image.sb();
    image.put(sb + 1208, MOUNTED);
    crashed.image = image;
    crashed.hash_superblock();
    crashed.device()
}

/// Promise: a journal from before is never followed over what we have written. While it is mounted
/// and after a crash of ours the superblock asks for a full check, and the time of the mount is not
/// that of the journal; after an unmount it is still not, and the journal is on as before.
#[test]
fn an_old_journal_is_never_followed() {
    for kind in KINDS {
        for log in [LogUse::Never, LogUse::Wanted] {
            let device = Arc::new(unmounted(Crashed::new(kind)));
            assert!(matches!(found(&device), Journal::None));
            let options = OpenOptions { seed: Some(1), log, ..OpenOptions::default() };
            let fs = Ffs::open(device.clone() as Arc<dyn Device>, clock(), &options).unwrap();
            assert!(!fs.read_only());
            let node = NewNode::new(FileKind::Regular, 0o644);
            fs.create(fs.root(), b"new", &node, BY).unwrap();
            fs.sync().unwrap();

            let crashed = device.branch();
            let meanwhile = Superblock::open(&crashed).unwrap();
            assert!(!meanwhile.is_clean() && meanwhile.flags() & flags::FS_NEEDSFSCK != 0);
            assert_ne!(meanwhile.fs.fs_mtime, MOUNTED);
            assert!(refused(&crashed).contains("full check"));

            fs.unmount().unwrap();
            drop(fs);
            let after = Superblock::open(&*device).unwrap();
            let kept = flags::FS_SUJ | flags::FS_DOSOFTDEP;
            assert!(after.is_clean());
            assert_eq!(after.flags() & (kept | flags::FS_NEEDSFSCK), kept);
            assert_ne!(after.fs.fs_mtime, MOUNTED);
            assert!(checked(&device).is_clean());
            assert!(matches!(found(&device), Journal::None));
        }
    }
}
