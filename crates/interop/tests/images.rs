//! Images both ways: what others write we read, what we write they read, and what we change stays
//! right.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use spindle_interop::format::Format;
use spindle_interop::linux::RealImage;
use spindle_interop::makefs::Makefs;
use spindle_interop::reader::Reader;
use spindle_interop::record::{Kind, Listing, differences};
use spindle_interop::spindle::{Mounted, disagrees, fsck, list, spindle};
use spindle_interop::tree::{Shape, plant};
use spindle_interop::{Result, host};
use tempfile::TempDir;

/// A planted tree and a place for an image of it.
struct Workshop {
    directory: TempDir,
    listing: Listing,
}

impl Workshop {
    fn new(shape: Shape) -> Result<Self> {
        let directory = tempfile::tempdir().expect("temporary directory");
        let source = directory.path().join("source");
        std::fs::create_dir(&source).expect("source directory");
        plant(&source, shape, 1)?;
        Ok(Self { listing: host::list(&source)?, directory })
    }

    fn source(&self) -> PathBuf {
        self.directory.path().join("source")
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }
}

/// Fails unless we and every foreign reader of the format see exactly `expected`, and the check
/// finds no damage.
fn everyone_sees(image: &Path, expected: &Listing) -> Result<()> {
    fsck(image)?;
    let mut copied = expected.clone();
    // Copies leave out the log.
    copied.remove(&b".spindlelog"[..]);
    none("spindle export", image, &disagrees(image, &copied)?);
    let mounted = Mounted::new(image, "ro")?;
    let listing = host::list(mounted.path())?;
    mounted.unmount()?;
    none("spindle mount", image, &differences(expected, &listing, |_| true));
    readers_see(image, expected)
}

fn readers_see(image: &Path, expected: &Listing) -> Result<()> {
    let format = Format::of(image)?;
    for reader in Reader::ALL.into_iter().filter(|reader| reader.reads(&format)) {
        none(&format!("{reader:?}"), image, &reader.disagrees(image, expected)?);
    }
    Ok(())
}

fn none(reader: &str, image: &Path, differences: &[String]) {
    let format = Format::of(image);
    let first = differences.iter().take(30).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{reader} on {format:?}: {} differences\n{first}", differences.len());
}

/// Makes an image of a planted tree with our tools and shows it to everyone.
fn ours(shape: Shape, newfs: &[&str]) -> Result<()> {
    let workshop = Workshop::new(shape)?;
    let image = workshop.image();
    let sizes = [format!("-b{}", shape.bsize), format!("-f{}", shape.fsize)];
    let mut words: Vec<&OsStr> = vec!["import".as_ref(), "-s".as_ref(), "256m".as_ref()];
    words.extend(newfs.iter().map(OsStr::new));
    words.extend(sizes.iter().map(OsStr::new));
    let source = workshop.source();
    words.extend([source.as_os_str(), image.as_os_str()]);
    spindle(words)?;
    let mut expected = workshop.listing.clone();
    if newfs.contains(&"-O0") {
        // Inodes of 4.3BSD have whole seconds.
        for stamp in expected.values_mut().filter_map(|record| record.mtime.as_mut()) {
            stamp.nanos = Some(0);
        }
    }
    let found = list(&image)?;
    // What newfs puts into a root is there besides.
    for extra in [&b".snap"[..], b"lost+found"] {
        expected.extend(found.get(extra).map(|record| (extra.to_vec(), record.clone())));
    }
    let root = found.get(&b"."[..]).cloned().expect("a root");
    expected.insert(b".".to_vec(), root);
    everyone_sees(&image, &expected)
}

/// Promise: what we make of a tree as UFS2 is the tree, to everyone, in both byte orders and from
/// the smallest to the `PlayStation`'s blocks.
#[test]
fn our_ufs2() -> Result<()> {
    ours(Shape::ufs2(4096, 512), &["-O2"])?;
    ours(Shape::ufs2(32768, 4096), &["-O2"])?;
    ours(Shape::ufs2(16384, 2048), &["-O2", "--endian", "big"])?;
    ours(Shape::ufs2(65536, 65536), &["-O2"])
}

/// Promise: the same as UFS1, with the directories of today and of before 4.4BSD.
#[test]
fn our_ufs1() -> Result<()> {
    ours(Shape::ufs1(8192, 1024), &["-O1"])?;
    ours(Shape::ufs1(8192, 1024), &["-O1", "--endian", "big"])?;
    ours(Shape { wide_ids: false, ..Shape::ufs1(4096, 1024) }, &["-O0"])?;
    ours(Shape { wide_ids: false, ..Shape::ufs1(8192, 1024) }, &["-O0", "--endian", "big"])
}

/// Reads an image of `makefs`, changes it through a mount and by the tools, and shows it to
/// everyone again.
fn theirs(makefs: Makefs) -> Result<()> {
    let shape = if makefs.ufs2 { Shape::ufs2 } else { Shape::ufs1 };
    let workshop = Workshop::new(shape(makefs.bsize, makefs.fsize))?;
    let image = workshop.image();
    makefs.write(&image, &workshop.source())?;
    everyone_sees(&image, &Makefs::keeps(&workshop.listing))?;
    let changed = change(&image, SMALL_LOG)?;
    everyone_sees(&image, &changed)?;
    let changed = change_by_tools(&image, changed)?;
    everyone_sees(&image, &changed)
}

/// Copies a tree in and reshapes it with the tools, does the same to the tree on the host, and
/// gives the listing that there must be.
fn change_by_tools(image: &Path, mut listing: Listing) -> Result<Listing> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let tree = directory.path().join("tree");
    for (path, len) in [("a", 3000), ("b", 30_000), ("dir/x", 0), ("dir/y", 12_345), ("gone/z", 20_000)] {
        let path = tree.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(&path, vec![b'x'; len]).expect("a file");
        // Whole seconds, which every format keeps.
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_234_567_890);
        std::fs::File::options().write(true).open(path).and_then(|f| f.set_modified(time)).expect("a time");
    }
    let at = |path: &str| format!("{}:/tools/{path}", image.display());
    let here = tree.to_str().expect("a UTF-8 path");

    spindle(["cp", "-rp", here, &format!("{}:/tools", image.display())])?;
    spindle(["mkdir", "-p", &at("new/deep")])?;
    spindle(["mv", &at("a"), &at("new/moved")])?;
    spindle(["ln", &at("new/moved"), &at("again")])?;
    spindle(["ln", "-s", "../b", &at("new/soft")])?;
    spindle(["rm", "-r", &at("gone")])?;
    spindle(["mv", &at("dir"), &at("new/deep/dir")])?;

    std::fs::create_dir_all(tree.join("new/deep")).expect("directories");
    std::fs::rename(tree.join("a"), tree.join("new/moved")).expect("a rename");
    std::fs::hard_link(tree.join("new/moved"), tree.join("again")).expect("a link");
    std::os::unix::fs::symlink("../b", tree.join("new/soft")).expect("a symbolic link");
    std::fs::remove_dir_all(tree.join("gone")).expect("a removal");
    std::fs::rename(tree.join("dir"), tree.join("new/deep/dir")).expect("a rename");

    let found = list(image)?;
    for (path, mut record) in host::list(&tree)? {
        let path = if path == b"." { b"tools".to_vec() } else { [b"tools/", &path[..]].concat() };
        if matches!(record.kind, Some(Kind::Directory | Kind::Symlink)) {
            // Made or changed here and there at different moments.
            record.mtime = None;
        }
        if record.kind == Some(Kind::Directory) {
            record.size = None;
        }
        listing.insert(path, record);
    }
    listing.insert(b".".to_vec(), found.get(&b"."[..]).cloned().expect("a root"));
    Ok(listing)
}

/// A log that leaves small images room for the trees.
const SMALL_LOG: &str = "logsize=256k";

/// Adds a tree through a mount with `log`, which makes one or not, and gives the listing that the
/// mount then shows.
fn change(image: &Path, log: &str) -> Result<Listing> {
    let mounted = Mounted::new(image, &format!("allow_other,{log}"))?;
    let fresh = mounted.path().join("fresh");
    std::fs::create_dir(&fresh).expect("a directory");
    let shape = Shape { names: 40, wide_ids: false, ..Shape::ufs1(4096, 512) };
    plant(&fresh, shape, 2)?;
    let mut listing = host::list(mounted.path())?;
    mounted.unmount()?;
    // What is in the log's file goes on changing; that it is there, everyone is to see.
    if log == SMALL_LOG {
        listing.get_mut(&b".spindlelog"[..]).expect("the log's file").content = None;
    }
    Ok(listing)
}

/// Promise: UFS1 images of `makefs` are read exactly, in both byte orders, and stay right when we
/// write them.
#[test]
fn makefs_ufs1() -> Result<()> {
    let makefs =
        Makefs { bsize: 8192, fsize: 1024, free_bytes: 8 << 20, free_files: 500, ..Makefs::default() };
    theirs(makefs)?;
    theirs(Makefs { big_endian: true, ..makefs })
}

/// Promise: the same of UFS2, with the superblock at 8192 and at 65536.
#[test]
fn makefs_ufs2() -> Result<()> {
    let makefs = Makefs {
        ufs2: true,
        bsize: 16384,
        fsize: 2048,
        free_bytes: 8 << 20,
        free_files: 500,
        ..Makefs::default()
    };
    theirs(makefs)?;
    theirs(Makefs { big_endian: true, ..makefs })?;
    theirs(Makefs { bsize: 65536, fsize: 8192, ..makefs })
}

/// Reads an image of a real system, changes it and shows it to everyone again.
fn real(name: &'static str, log: &str) -> Result<()> {
    let Some(real) = RealImage::unpack(&[name])?.pop() else { return Ok(()) };
    let image = real.path();
    everyone_sees(&image, &real.listing)?;
    let changed = change(&image, log)?;
    everyone_sees(&image, &changed)?;
    let changed = change_by_tools(&image, changed)?;
    everyone_sees(&image, &changed)
}

/// Promise: FreeBSD's little-endian UFS2, with its check-hashes, is read exactly as an
/// independent driver reads it, and after we wrote to it everyone agrees on what is there.
#[test]
fn freebsd_little_endian() -> Result<()> {
    real("freebsd-ufs2-le", "nolog")
}

/// Promise: FreeBSD's big-endian UFS2 is read exactly as an
/// independent driver reads it, and after we wrote to it everyone agrees on what is there.
#[test]
fn freebsd_big_endian() -> Result<()> {
    real("freebsd-ufs2-be", "nolog")
}

/// Promise: an early OpenBSD's UFS1, with its rotational tables, is read exactly as an
/// independent driver reads it, and after we wrote to it everyone agrees on what is there.
#[test]
fn openbsd_ufs1() -> Result<()> {
    real("openbsd28-ufs1", SMALL_LOG)
}

/// Promise: UFS1 with the inodes and directories of 4.3BSD is read exactly as an
/// independent driver reads it, and after we wrote to it everyone agrees on what is there.
#[test]
fn openbsd_43bsd() -> Result<()> {
    real("openbsd28-43bsd", SMALL_LOG)
}
