//! Real programs on mounted images, each followed by an unmount and a check: nothing wrong while it
//! is mounted, nothing wrong on the disk afterwards. Each program works with both ways of writing:
//! passed through, and kept by the kernel.

use std::path::{Path, PathBuf};

use spindle_conformance::random::seed;
use spindle_interop::record::differences;
use spindle_interop::spindle::{Mounted, fsck, spindle};
use spindle_interop::tree::{Shape, plant};
use spindle_interop::workload::{fio, fsx, pjdfstest, programs, storm};
use spindle_interop::{Result, host};
use tempfile::TempDir;

/// FreeBSD's newfs, by default.
const UFS2: &[&str] = &[];
/// What differs most from it.
const UFS1: &[&str] = &["-O1", "-b8192", "-f1024", "--endian", "big"];

/// The two ways of writing.
const MODES: [&str; 2] = [THROUGH, BACK];
/// A write reaches the daemon before it returns.
const THROUGH: &str = "writethrough";
/// The kernel keeps it.
const BACK: &str = "writeback";

/// An image in a directory of its own.
struct Image {
    _directory: TempDir,
    path: PathBuf,
}

/// Makes a file system, runs `work` on its mount with this way of writing, unmounts and checks it.
fn on(newfs: &[&str], mode: &str, work: impl FnOnce(&Path) -> Result<()>) -> Result<Image> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let image = Image { path: directory.path().join("image"), _directory: directory };
    let place = image.path.to_str().expect("a path in UTF-8");
    spindle(["newfs", "-s", "1g"].iter().chain(newfs).chain(&[place]))?;
    let mounted = Mounted::new(&image.path, &format!("allow_other,default_permissions,suid,dev,{mode}"))?;
    work(mounted.path())?;
    mounted.unmount()?;
    fsck(&image.path)?;
    Ok(image)
}

/// Promise: every call means what POSIX says.
#[test]
fn posix() -> Result<()> {
    MODES.into_iter().try_for_each(|mode| on(UFS2, mode, pjdfstest::run).map(drop))
}

/// Promise: 100,000 operations on one file, mappings included, never show a wrong byte, whichever
/// way they are written.
#[test]
fn fsx_ufs2() -> Result<()> {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test mounted fsx_ufs2");
    for (number, mode) in (0..).zip(MODES) {
        on(UFS2, mode, |mount| fsx::run(mount, seed.wrapping_add(number), 100_000))?;
    }
    Ok(())
}

/// Promise: nor do they with small blocks of the other byte order.
#[test]
fn fsx_ufs1() -> Result<()> {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test mounted fsx_ufs1");
    for (number, mode) in (0..).zip(MODES) {
        on(UFS1, mode, |mount| fsx::run(mount, seed.wrapping_add(number), 15_000))?;
    }
    Ok(())
}

/// Promise: every block read is the block written, whatever the way, the size and the order.
#[test]
fn fio_verifies() -> Result<()> {
    on(UFS2, THROUGH, fio::run)?;
    on(UFS2, BACK, fio::run)?;
    on(UFS1, THROUGH, fio::run).map(drop)
}

/// Promise: version control, databases and compilers work.
#[test]
fn daily_use() -> Result<()> {
    let all = |mount: &Path| {
        programs::git(mount)?;
        programs::sqlite(mount)?;
        programs::compile(mount)
    };
    on(UFS2, THROUGH, all)?;
    on(UFS2, BACK, all)?;
    on(UFS1, THROUGH, all).map(drop)
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
    MODES.into_iter().try_for_each(|mode| on(UFS2, mode, copy).map(drop))
}

/// Promise: after two million small operations from four threads everything is as it must be, also
/// after mounting again.
#[test]
fn storm_of_operations() -> Result<()> {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test mounted storm_of_operations");
    for (newfs, mode, operations) in
        [(UFS1, THROUGH, 200_000), (UFS1, BACK, 200_000), (UFS2, THROUGH, 2_000_000)]
    {
        let mut expected = None;
        let image = on(newfs, mode, |mount| {
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
