//! The old file systems, both ways: a real disk is read exactly, the Seventh Edition itself reads
//! and writes what we made, and a reader that shares nothing with us sees the same in every format.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, lchown};
use std::path::Path;

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use spindle_conformance::random::seed;
use spindle_interop::linux::RealImage;
use spindle_interop::record::{Kind, Listing, differences};
use spindle_interop::spindle::{Mounted, disagrees, fsck, spindle};
use spindle_interop::workload::{fio, fsx, programs};
use spindle_interop::{Result, host, oldunix, simh};
use tempfile::TempDir;

/// Fails unless we, in every way, and the reader in Python see exactly `expected`, and the check
/// finds no damage.
fn everyone_sees(image: &Path, format: &str, expected: &Listing) -> Result<()> {
    let none = |reader: &str, differences: Vec<String>| {
        let first = differences.iter().take(30).cloned().collect::<Vec<_>>().join("\n");
        assert!(differences.is_empty(), "{reader} on {format}: {} differences\n{first}", differences.len());
    };
    fsck(image)?;
    none("spindle export", disagrees(image, expected)?);
    let mounted = Mounted::new(image, "ro")?;
    let listing = host::list(mounted.path())?;
    mounted.unmount()?;
    none("spindle mount", differences(expected, &listing, |_| true));
    none("oldunix.py", differences(expected, &oldunix::list(image, format)?, |_| true));
    Ok(())
}

/// Fills a directory with what these formats can hold: sizes around every border, holes, many and
/// long names, links, devices, owners and modes.
fn plant(root: &Path, bsize: u64, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut bytes = |len: u64| {
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        rng.fill_bytes(&mut bytes);
        bytes
    };
    for dir in ["sizes", "many", "holes", "kinds"] {
        fs::create_dir(root.join(dir)).unwrap();
    }
    for border in [bsize, 10 * bsize, (10 + bsize / 4) * bsize] {
        for size in [border - 1, border, border + 1] {
            fs::write(root.join(format!("sizes/{size}")), bytes(size)).unwrap();
        }
    }
    for n in 0..100 {
        fs::write(root.join(format!("many/{n:014}")), bytes(n % 3)).unwrap();
    }
    for n in (0..100).step_by(7) {
        fs::remove_file(root.join(format!("many/{n:014}"))).unwrap();
    }
    for (name, at) in [("first", 3 * bsize), ("single", 30 * bsize), ("double", (15 + bsize / 4) * bsize)] {
        let file = fs::File::create(root.join("holes").join(name)).unwrap();
        file.write_all_at(b"data behind a hole", at).unwrap();
    }
    fs::hard_link(root.join("holes/first"), root.join("kinds/link")).unwrap();
    for (name, kind) in [("block", FileType::BlockDevice), ("char", FileType::CharacterDevice)] {
        mknodat(CWD, root.join("kinds").join(name), kind, Mode::from_raw_mode(0o640), makedev(7, 200))
            .unwrap();
    }
    let owned = root.join("kinds/owned");
    fs::write(&owned, b"").unwrap();
    lchown(&owned, Some(300), Some(65_000)).unwrap();
    fs::set_permissions(&owned, fs::Permissions::from_mode(0o4751)).unwrap();
}

/// Makes an image of a format and fills it through a mount.
fn planted(image: &Path, kind: &str, bsize: u64, size: &str) -> Result<Listing> {
    let path = image.to_str().unwrap();
    spindle(["newfs", "-t", kind, "-s", size, path])?;
    change(image, bsize)
}

/// Plants a tree into a directory of an image; the listing that the mount then shows.
fn change(image: &Path, bsize: u64) -> Result<Listing> {
    let mounted = Mounted::new(image, "allow_other")?;
    let root = mounted.path().join("planted");
    fs::create_dir(&root).unwrap();
    plant(&root, bsize, 1);
    // The kernel's times of what it has not written yet are not the file system's.
    rustix::fs::syncfs(fs::File::open(mounted.path()).unwrap()).unwrap();
    let listing = host::list(mounted.path())?;
    mounted.unmount()?;
    Ok(listing)
}

/// Promise: the real disk of the Seventh Edition is read exactly as Linux's driver read it, and
/// after we wrote to it everyone agrees on what is there.
#[test]
fn real_seventh_edition() -> Result<()> {
    for real in RealImage::unpack(&["v7-pdp11-root"])? {
        everyone_sees(&real.path(), "v7-512-pdp", &real.listing)?;
        let changed = change(&real.path(), 512)?;
        everyone_sees(&real.path(), "v7-512-pdp", &changed)?;
    }
    Ok(())
}

/// Promise: in every format, what went in through a mount is what comes out of the tools, of
/// another mount and of the independent reader, which accounts for every block.
#[test]
fn every_format() -> Result<()> {
    for (kind, bsize) in [
        ("v7-512-pdp", 512),
        ("v7-512-be", 512),
        ("bsd-512-le", 512),
        ("bsd-1024-le", 1024),
        ("sysv-1024-le", 1024),
        ("sysv-1024-be", 1024),
        ("sysv-2048-le", 2048),
        ("sysv16-1024-pdp", 1024),
    ] {
        let directory = TempDir::new().unwrap();
        let image = directory.path().join("image");
        let listing = planted(&image, kind, bsize, "4m")?;
        everyone_sees(&image, kind, &listing)?;
    }
    Ok(())
}

/// Promise: programs of today work on a mounted old file system: every block and every byte read is
/// the one written, whatever the way; a compiler builds; `tar` copies a tree unchanged; and the
/// check finds no damage afterwards.
#[test]
fn programs_of_today() -> Result<()> {
    // fsx names its file by it.
    let seed = seed() % 1_000_000_000;
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test old programs_of_today");
    let on = |kind: &str, work: &dyn Fn(&Path) -> Result<()>| -> Result<()> {
        let directory = TempDir::new().unwrap();
        let image = directory.path().join("image");
        spindle(["newfs", "-t", kind, "-s", "160m", image.to_str().unwrap()])?;
        let mounted = Mounted::new(&image, "allow_other")?;
        work(mounted.path())?;
        mounted.unmount()?;
        fsck(&image)
    };
    for (kind, bsize) in [("v7", 512), ("sysv-2048-be", 2048)] {
        on(kind, &|mount| {
            let source = mount.join("source");
            fs::create_dir(&source).unwrap();
            plant(&source, bsize, seed);
            rustix::fs::syncfs(fs::File::open(mount).unwrap()).unwrap();
            programs::tar(&source, mount, "copy")?;
            programs::compile(mount)?;
            fsx::run(mount, seed, 5_000)
        })?;
    }
    on("bsd", &fio::run)?;
    Ok(())
}

/// Returns the checksum of `sum` in the Seventh Edition.
fn sum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0_u16, |sum, &byte| sum.rotate_right(1).wrapping_add(byte.into()))
}

/// Promise: the Seventh Edition, running on a PDP-11, reads what we have written and its own
/// checkers find nothing amiss; what it writes we read, and our check finds nothing amiss either,
/// on our disk and on its own, to which both have written.
#[test]
fn the_seventh_edition_agrees() -> Result<()> {
    // The system is on that disk.
    let Some(real) = RealImage::unpack(&["v7-pdp11-root"])?.pop() else { return Ok(()) };
    let directory = TempDir::new().unwrap();
    let disk = directory.path().join("disk");
    planted(&disk, "v7", 512, "4m")?;
    let mounted = Mounted::new(&disk, "ro")?;
    let mut expected: BTreeMap<String, (u16, usize)> = BTreeMap::new();
    for dir in ["sizes", "many", "holes"] {
        for entry in fs::read_dir(mounted.path().join("planted").join(dir)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{dir}/{}", entry.file_name().to_str().unwrap());
            let bytes = fs::read(entry.path()).unwrap();
            expected.insert(name, (sum(&bytes), bytes.len().div_ceil(512)));
        }
    }
    mounted.unmount()?;

    let said = simh::run(
        &real.path(),
        &disk,
        "/etc/mount /dev/disk /mnt
cd /mnt/planted
for i in sizes many holes; do (cd $i; for j in *; do echo $i/$j `sum <$j`; done) done
mkdir made made/sub
cp /unix /bin/ls made
ln made/ls made/sub/again
rm sizes/51*
cp /bin/sh holes/first
cd /
sync
/etc/umount /dev/disk
icheck /dev/rdisk /dev/rrp0
dcheck /dev/rdisk",
    )?;

    let (mut sums, mut missing) = (BTreeMap::new(), Vec::new());
    for line in said.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [name, sum, blocks] if name.contains('/') => {
                sums.insert(name.to_owned(), (sum.parse().unwrap(), blocks.parse().unwrap()));
            }
            ["missing", blocks] => missing.push(blocks),
            ["/dev/rdisk:" | "/dev/rrp0:"] | ["files" | "used" | "free", ..] => {}
            _ => panic!("the Seventh Edition says {line:?} in:\n{said}"),
        }
    }
    assert_eq!(sums, expected, "{said}");
    assert_eq!(missing, ["0", "0"], "{said}");

    fsck(&real.path())?;
    let theirs = oldunix::list(&real.path(), "v7-512-pdp")?;
    let ours = oldunix::list(&disk, "v7-512-pdp")?;
    everyone_sees(&disk, "v7-512-pdp", &ours)?;
    let content = |listing: &Listing, path: &str| listing[path.as_bytes()].content.clone().unwrap();
    for (copy, original) in [
        ("made/unix", "unix"),
        ("made/ls", "bin/ls"),
        ("made/sub/again", "bin/ls"),
        ("holes/first", "bin/sh"),
    ] {
        assert_eq!(content(&ours, &format!("planted/{copy}")), content(&theirs, original), "{copy}");
    }
    assert_eq!(ours[&b"planted/made/sub"[..]].kind, Some(Kind::Directory));
    assert!(!ours.contains_key(&b"planted/sizes/512"[..]) && ours.contains_key(&b"planted/sizes/70656"[..]));
    Ok(())
}
