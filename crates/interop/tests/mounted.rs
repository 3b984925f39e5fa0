//! Real programs on mounted images, each followed by an unmount and a check: nothing wrong while it
//! is mounted, nothing wrong on the disk afterwards. Each program works with both ways of writing:
//! passed through, and kept by the kernel.

use std::path::{Path, PathBuf};

use spindle_conformance::random::seed;
use spindle_interop::record::differences;
use spindle_interop::spindle::{Mounted, fsck, spindle};
use spindle_interop::tool::{command, run};
use spindle_interop::tree::{Shape, plant};
use spindle_interop::workload::{fio, fsx, pjdfstest, programs, storm};
use spindle_interop::{Failure, Result, host};
use tempfile::TempDir;

/// FreeBSD's newfs, by default.
const UFS2: &[&str] = &[];
/// What differs most from it.
const UFS1: &[&str] = &["-O1", "-b8192", "-f1024", "--endian", "big"];

/// The multi-structured file system in one file.
const MFS: &[&str] = &["-t", "mfs"];
/// The same over several files in the image's directory, which % stands for, with copies of control
/// storage and of a part of data storage, and small blocks.
const SET: &[&str] = &[
    "-t",
    "mfs",
    "-b1024",
    "--stripe=8k",
    "--control-block=1024",
    "--cylinder=64k",
    "--control=%/image:128m,%/control1:130m",
    "--data=%/data0:400m+%/copy0:400m,%/data1:500m",
    "--log=%/log0:32m,%/log1:40m",
];

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
    let near = image.path.parent().and_then(Path::to_str).unwrap_or_default();
    let mut words: Vec<String> = newfs.iter().map(|word| word.replace('%', near)).collect();
    if !words.iter().any(|word| word.starts_with("--control=")) {
        words.extend(["-s", "1g", place].map(str::to_owned));
    }
    spindle(std::iter::once("newfs".to_owned()).chain(words))?;
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

/// Promise: nor is it otherwise on a multi-structured file system.
#[test]
fn posix_mfs() -> Result<()> {
    on(MFS, THROUGH, pjdfstest::run)?;
    on(SET, BACK, pjdfstest::run).map(drop)
}

/// Promise: 100,000 operations on a file, mappings included, half of them each way of writing,
/// never show a wrong byte.
#[test]
fn fsx_ufs2() -> Result<()> {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test mounted fsx_ufs2");
    for (number, mode) in (0..).zip(MODES) {
        on(UFS2, mode, |mount| fsx::run(mount, seed.wrapping_add(number), 50_000))?;
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

/// Promise: nor do they on a multi-structured file system, with checksums of data or without.
#[test]
fn fsx_mfs() -> Result<()> {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test mounted fsx_mfs");
    on(MFS, THROUGH, |mount| fsx::run(mount, seed, 25_000))?;
    on(MFS, BACK, |mount| fsx::run(mount, seed.wrapping_add(1), 25_000))?;
    on(SET, THROUGH, |mount| fsx::run(mount, seed.wrapping_add(2), 10_000))?;
    let with_sums = [SET, &["--checksums"]].concat();
    for (number, mode) in (3..).zip(MODES) {
        on(&with_sums, mode, |mount| fsx::run(mount, seed.wrapping_add(number), 10_000))?;
    }
    Ok(())
}

/// Promise: every block read is the block written, whatever the way, the size and the order.
#[test]
fn fio_verifies() -> Result<()> {
    on(UFS2, THROUGH, fio::run)?;
    on(UFS2, BACK, fio::run)?;
    on(UFS1, THROUGH, fio::run)?;
    on(MFS, BACK, fio::run)?;
    on(SET, THROUGH, fio::run).map(drop)
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
    on(UFS1, THROUGH, all)?;
    on(MFS, BACK, all)?;
    on(SET, THROUGH, all).map(drop)
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

/// Promise: nor is a tree changed on a multi-structured file system.
#[test]
fn archives_mfs() -> Result<()> {
    let copy = |mount: &Path| programs::tar(Path::new("/usr/include"), mount, "include");
    on(MFS, BACK, copy)?;
    on(SET, THROUGH, copy).map(drop)
}

/// Promise: after two million small operations from four threads everything is as it must be, also
/// after mounting again.
#[test]
fn storm_of_operations() -> Result<()> {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test mounted storm_of_operations");
    for (newfs, mode, operations) in
        [(UFS1, THROUGH, 200_000), (UFS1, BACK, 200_000), (UFS2, THROUGH, 2_000_000), (SET, THROUGH, 200_000)]
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

/// Mounts an overlayfs on `at` with the directories `lower`, `upper` and `work` beside it.
fn overlay(at: &Path) -> Result<()> {
    let beside = at.parent().map(Path::display).expect("a directory");
    let options = format!("lowerdir={beside}/lower,upperdir={beside}/upper,workdir={beside}/work");
    run(command("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(at)).map(drop)
}

/// Promise: a mount is the upper directory of an overlayfs: what is removed, renamed and replaced
/// in it stays so when it is mounted again, and the lower one does not change.
#[test]
fn the_upper_directory_of_an_overlay() -> Result<()> {
    for (newfs, mode) in [(UFS2, THROUGH), (UFS2, BACK), (MFS, THROUGH)] {
        on(newfs, mode, |mount| {
            let at = |name: &str| mount.join(name);
            let failed = |error: std::io::Error| Failure::new(format!("overlay: {error}"));
            for dir in ["lower", "lower/dir", "upper", "work", "merged"] {
                std::fs::create_dir(at(dir)).map_err(failed)?;
            }
            for file in ["kept", "removed", "renamed", "over", "dir/in"] {
                std::fs::write(at("lower").join(file), file).map_err(failed)?;
            }
            let merged = at("merged");
            overlay(&merged)?;
            let change = || {
                std::fs::remove_file(merged.join("removed"))?;
                std::fs::rename(merged.join("renamed"), merged.join("elsewhere"))?;
                std::fs::rename(merged.join("kept"), merged.join("over"))?;
                std::fs::remove_dir_all(merged.join("dir"))?;
                std::fs::create_dir(merged.join("dir"))?;
                std::fs::write(merged.join("dir/new"), "new")
            };
            let changed = change().map_err(failed);
            run(command("umount").arg(&merged))?;
            changed?;
            overlay(&merged)?;
            let held = host::list(&merged);
            let read = |name: &str| std::fs::read_to_string(merged.join(name)).map_err(failed);
            let contents = [read("dir/new"), read("elsewhere"), read("over")];
            run(command("umount").arg(&merged))?;
            let names: Vec<_> = held?.into_keys().collect();
            assert_eq!(
                names,
                [".", "dir", "dir/new", "elsewhere", "over"].map(|name| name.as_bytes().to_vec())
            );
            assert_eq!(contents.map(Result::unwrap), ["new", "renamed", "kept"]);
            assert_eq!(std::fs::read_to_string(at("lower/removed")).map_err(failed)?, "removed");
            Ok(())
        })?;
    }
    Ok(())
}
