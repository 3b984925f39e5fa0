//! Real programs on mounted images, each followed by an unmount and a check: nothing wrong while it is mounted, nothing
//! wrong on the disk afterwards.

use std::path::{Path, PathBuf};

use spindle_interop::record::differences;
use spindle_interop::spindle::{Mounted, fsck, spindle};
use spindle_interop::tree::{Shape, plant};
use spindle_interop::workload::{fio, fsx, pjdfstest, programs, storm};
use spindle_interop::{Result, host};
use spindle_vfs::random::seed;
use tempfile::TempDir;

/// FreeBSD's newfs, by default.
const UFS2: &[&str] = &[];
/// What differs most from it.
const UFS1: &[&str] = &["-O1", "-b8192", "-f1024", "--endian", "big"];

/// An image in a directory of its own.
struct Image {
    _directory: TempDir,
    path: PathBuf,
}

/// Makes a file system, runs `work` on its mount, unmounts and checks it.
fn on(newfs: &[&str], work: impl FnOnce(&Path) -> Result<()>) -> Result<Image> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let image = Image { path: directory.path().join("image"), _directory: directory };
    let place = image.path.to_str().expect("a path in UTF-8");
    spindle(["newfs", "-s", "1g"].iter().chain(newfs).chain(&[place]))?;
    let mounted = Mounted::new(&image.path, "allow_other,default_permissions,suid,dev")?;
    work(mounted.path())?;
    mounted.unmount()?;
    fsck(&image.path)?;
    Ok(image)
}

/// Promise: every call means what POSIX says.
#[test]
fn posix() -> Result<()> {
    on(UFS2, pjdfstest::run).map(drop)
}

/// Promise: 100,000 operations on one file, mappings included, never show a wrong byte; with two seeds.
#[test]
fn fsx_ufs2() -> Result<()> {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test mounted fsx_ufs2");
    on(UFS2, |mount| {
        fsx::run(mount, seed, 100_000)?;
        fsx::run(mount, seed.wrapping_add(1), 100_000)
    })
    .map(drop)
}

/// Promise: nor do they with small blocks of the other byte order.
#[test]
fn fsx_ufs1() -> Result<()> {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test mounted fsx_ufs1");
    on(UFS1, |mount| fsx::run(mount, seed, 30_000)).map(drop)
}

/// Promise: every block read is the block written, whatever the way, the size and the order.
#[test]
fn fio_verifies() -> Result<()> {
    on(UFS2, fio::run)?;
    on(UFS1, fio::run).map(drop)
}

/// Promise: version control, databases and compilers work.
#[test]
fn daily_use() -> Result<()> {
    let all = |mount: &Path| {
        programs::git(mount)?;
        programs::sqlite(mount)?;
        programs::compile(mount)
    };
    on(UFS2, all)?;
    on(UFS1, all).map(drop)
}

/// Promise: a large tree goes through `tar` unchanged.
#[test]
fn archives() -> Result<()> {
    let source = tempfile::tempdir().expect("temporary directory");
    plant(source.path(), Shape::ufs2(32768, 4096), 1)?;
    let copy = |mount: &Path| {
        programs::tar(source.path(), mount, "planted")?;
        programs::tar(Path::new("/usr/include"), mount, "include")
    };
    on(UFS2, copy).map(drop)
}

/// Promise: after two million small operations from four threads everything is as it must be, also after mounting again.
#[test]
fn storm_of_operations() -> Result<()> {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test mounted storm_of_operations");
    for (newfs, operations) in [(UFS1, 200_000), (UFS2, 2_000_000)] {
        let mut expected = None;
        let image = on(newfs, |mount| {
            expected = Some(storm::run(&mount.join("storm"), 4, operations, seed)?);
            Ok(())
        })?;
        let mounted = Mounted::new(&image.path, "ro")?;
        let mut listing = host::list(&mounted.path().join("storm"))?;
        mounted.unmount()?;
        listing.remove(&b"."[..]);
        let found = differences(&expected.expect("the storm is over"), &listing, |_| true);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
    Ok(())
}
