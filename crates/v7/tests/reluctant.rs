//! A device that refuses to read for a while: what could not be freed is reported, and what could
//! not be read keeps the file system in use.

mod support;

use spindle_conformance::reluctant::Reluctant;
use spindle_ondisk::Endian;
use spindle_v7::{Format, OpenOptions, Superblock, V7};
use spindle_vfs::{Error, FileKind, FileSystem};
use std::sync::Arc;
use support::{Victim, make};

/// Promise: an unmount that cannot free a removed file, because its blocks cannot be read, reports
/// that and leaves the file system marked as in use; if they can be read again, it frees the file
/// and marks the file system clean.
#[test]
fn an_unfreed_file_is_reported() {
    for refuses_to_the_end in [true, false] {
        let victim = Victim::new(Format::sysv(Endian::Little));
        let device = Arc::new(Reluctant::new(victim.device.clone()));
        let fs = V7::open(device.clone(), victim.clock.clone(), &OpenOptions::default()).unwrap();
        let free = fs.statfs().unwrap().bfree;
        let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
        // This reads all that the removal needs, but for the indirect block of the file.
        make(&fs, dir, b"new", FileKind::Regular);
        device.refuse(true);
        fs.unlink(dir, b"file").unwrap();
        device.refuse(refuses_to_the_end);
        let unmounted = fs.unmount();
        device.refuse(false);
        let found = Superblock::open(&*device, None).unwrap().superblock;
        if refuses_to_the_end {
            assert!(matches!(unmounted, Err(Error::Device(_))), "{unmounted:?}");
            assert!(!found.is_clean());
        } else {
            unmounted.unwrap();
            assert!(found.is_clean());
            let fs = V7::open(device, victim.clock.clone(), &OpenOptions::default()).unwrap();
            assert!(fs.statfs().unwrap().bfree > free);
        }
    }
}

/// Promise: a file system that was changed is not marked clean while there is metadata that could
/// not be read; it is if that was read later.
#[test]
fn unread_metadata_keeps_it_in_use() {
    for read_later in [false, true] {
        let victim = Victim::new(Format::sysv(Endian::Little));
        let device = Arc::new(Reluctant::new(victim.device.clone()));
        let fs = V7::open(device.clone(), victim.clock.clone(), &OpenOptions::default()).unwrap();
        make(&fs, fs.root(), b"changes it", FileKind::Regular);
        let dir = fs.lookup(fs.root(), b"dir").unwrap().ino;
        device.refuse(true);
        assert!(matches!(fs.lookup(dir, b"file"), Err(Error::Device(_))));
        device.refuse(false);
        assert!(!read_later || fs.lookup(dir, b"file").is_ok());
        fs.unmount().unwrap();
        assert_eq!(Superblock::open(&*device, None).unwrap().superblock.is_clean(), read_later);
    }
}
