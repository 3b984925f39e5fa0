//! The recognition of old file systems.

mod support;

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use spindle_conformance::random::seed;
use spindle_device::{Device, MemoryDevice};
use spindle_ondisk::Endian;
use spindle_v7::{Format, OpenOptions, Superblock, V7};
use spindle_vfs::{Error, FileSystem};
use std::sync::Arc;
use support::Victim;

fn found(device: &dyn Device) -> Option<Format> {
    match Superblock::open(device, None) {
        Ok(detected) => {
            assert!(detected.others.is_empty(), "{:?}", detected.others);
            Some(detected.superblock.format)
        }
        Err(Error::Unsupported { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Promise: every format is recognised from the contents of a new file system.
#[test]
fn each_format_is_found() {
    let v7 = [Endian::Pdp, Endian::Little, Endian::Big].map(|endian| Format { endian, ..Format::V7 });
    let sysv = [512, 1024, 2048].map(|bsize| Format { bsize, ..Format::sysv(Endian::Big) });
    for format in v7.into_iter().chain([Format::V32, Format::BSD41, Format::sysv(Endian::Little)]).chain(sysv)
    {
        assert_eq!(found(&*Victim::new(format).device), Some(format));
    }
}

/// Promise: a super-block whose lists are damaged, or whose root is lost, is still that
/// super-block.
#[test]
fn damage_does_not_hide_it() {
    type Plant = fn(&Victim);
    const PLANTS: [Plant; 9] = [
        |v| v.change_superblock(|s| s.head.s_nfree = 77),
        |v| v.change_superblock(|s| s.head.s_nfree = -1),
        |v| v.change_superblock(|s| s.head.s_free[1] = 9),
        |v| v.change_superblock(|s| s.head.s_free[1] = 60_000),
        |v| v.change_superblock(|s| s.head.s_ninode = 500),
        |v| v.change_superblock(|s| (s.head.s_ninode, s.head.s_inode[0]) = (1, 9999)),
        |v| v.change_inode(2, |inode| inode.di_mode = 0),
        |v| v.change_inode(2, |inode| inode.di_size = 31),
        |v| v.set_entry(2, 1, 2, Some(b"...")),
    ];
    for format in [Format::V7, Format::V32, Format::BSD41, Format::sysv(Endian::Big)] {
        for plant in PLANTS {
            let victim = Victim::new(format);
            plant(&victim);
            assert_eq!(found(&*victim.device), Some(format));
        }
    }
}

/// Promise: a disk without an old file system is not taken for one: empty, noise, too short, or
/// without any directory.
#[test]
fn nothing_else_is_found() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} repeats it");
    let mut rng = StdRng::seed_from_u64(seed);
    for size in [0, 512, 1024, 4096, 1 << 20] {
        assert_eq!(found(&MemoryDevice::new(size)), None);
    }
    for _ in 0..200 {
        let mut noise = vec![0; 16 << 10];
        rng.fill_bytes(&mut noise);
        // Small numbers are more often valid.
        noise.chunks_mut(2).for_each(|word| word[1] &= 3);
        assert_eq!(found(&MemoryDevice::from_bytes(&noise)), None);
    }
    let victim = Victim::new(Format::V7);
    for dir in [2, victim.lost, victim.dir, victim.sub] {
        victim.set_entry(dir, 1, 2, Some(b"..."));
    }
    assert_eq!(found(&*victim.device), None);
    let named = OpenOptions { format: Some(Format::V7), ..OpenOptions::default() };
    V7::open(victim.device.clone(), victim.clock.clone(), &named).unwrap();
}

/// Promise: a file system that could be read in two formats is not written until one is named.
#[test]
fn ambiguous() {
    let format = Format { endian: Endian::Little, ..Format::V7 };
    let victim = Victim::new(format);
    // Where longs are aligned to four bytes, these three addresses are read as a size, and the
    // first of them as an empty free list.
    victim.change_superblock(|superblock| {
        let top = usize::try_from(superblock.head.s_nfree).unwrap();
        superblock.head.s_free.copy_within(top - 3..top, 0);
        superblock.head.s_free[0] = 0;
        superblock.head.s_nfree = 3;
        superblock.head.s_ninode = 0;
        superblock.head.s_inode.fill(0);
    });
    let device = Arc::new(MemoryDevice::new(128 << 20));
    device.write_at(0, &victim.device.to_bytes()).unwrap();
    let open = |format| {
        let options = OpenOptions { format, force: true, ..OpenOptions::default() };
        V7::open(device.clone(), victim.clock.clone(), &options).unwrap()
    };
    let fs = open(None);
    let reason = &fs.read_only_reasons()[0];
    assert!(
        fs.read_only() && reason.reason.contains("bsd-512-le") && reason.remedy.contains("dialect="),
        "{reason:?}"
    );
    assert!(!open(Some(format)).read_only());
}

/// Promise: an image that was cut off can be read as far as it goes, and is not written.
#[test]
fn cut_off() {
    let victim = Victim::new(Format::V7);
    let mut bytes = victim.device.to_bytes();
    bytes.truncate(512 << 10);
    let device = Arc::new(MemoryDevice::from_bytes(&bytes));
    let fs = V7::open(device, victim.clock.clone(), &OpenOptions::default()).unwrap();
    let objection = fs.read_only_reasons()[0].clone();
    assert!(fs.read_only() && objection.remedy.contains("+524288"), "{objection:?}");
    fs.lookup(fs.root(), b"other").unwrap();
}
