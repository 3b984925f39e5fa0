//! Dumps, with the `dump` and `restore` of Linux on the other side: its `restore` reads our
//! streams, and ours reads the streams of its `dump`, whole and in chains.
//!
//! Linux's `restore` leaves out sockets and names of 255 bytes, and takes nanoseconds of UFS2's
//! headers for microseconds: what has any gets the present time. So the trees have whole seconds,
//! but for the last reads of symbolic links.

use spindle_interop::crash::loopback::Loopback;
use spindle_interop::linux::RealImage;
use spindle_interop::record::{Kind, Listing, Record, differences};
use spindle_interop::spindle::{binary, export, spindle};
use spindle_interop::tool::{command, run};
use spindle_interop::tree::{Shape, plant};
use spindle_interop::{Result, host};
use std::path::PathBuf;

/// A temporary directory.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("temporary directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a shell script in the directory.
    fn shell(&self, script: &str) -> Result<String> {
        let printed = run(command("sh").args(["-ec", script]).current_dir(self.0.path()))?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    /// Runs `spindle` in the directory.
    fn spindle(&self, words: &str) -> Result<()> {
        run(command(binary()).args(words.split_whitespace()).current_dir(self.0.path())).map(drop)
    }

    /// Lists a directory, without what belongs to its file system or to a restore.
    fn list(&self, name: &str) -> Result<Listing> {
        let mut listing = host::list(&self.path(name))?;
        for other in [&b"restoresymtable"[..], b"lost+found", b"."] {
            listing.remove(other);
        }
        Ok(listing)
    }
}

/// Fails if a directory has not the files of another.
fn same(expected: &Listing, actual: &Listing, what: &str) {
    let differences = differences(expected, actual, |kind| kind != Kind::Socket);
    assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
    let names =
        |listing: &Listing| listing.values().filter(|record| record.kind != Some(Kind::Socket)).count();
    assert_eq!(names(expected), names(actual), "{what}");
}

/// Returns a listing without the times of some files.
fn without_times(mut listing: Listing, of: impl Fn(&Record) -> bool) -> Listing {
    for record in listing.values_mut().filter(|record| of(record)) {
        record.mtime = None;
    }
    listing
}

/// Gives all files times of whole seconds.
const WHOLE_SECONDS: &str = "find tree -depth -exec sh -c \
    'for file; do touch -h -d @$(stat -c %Y \"$file\") \"$file\"; done' sh {} +";

/// Promise: what Linux's `restore` makes of our streams of UFS1 and UFS2 is what was dumped.
#[test]
fn linux_restores_our_dumps() -> Result<()> {
    for (format, shape, seed) in [
        ("-O2", Shape { wide_times: false, ..Shape::ufs2(32768, 4096) }, 1),
        ("-O2 --endian big -b 8192 -f 1024", Shape { wide_times: false, ..Shape::ufs2(8192, 1024) }, 2),
        ("-O1 -b 4096 -f 512", Shape::ufs1(4096, 512), 3),
        ("-O1 --dialect openbsd", Shape::ufs1(16384, 2048), 4),
    ] {
        let bench = Bench::new();
        std::fs::create_dir(bench.path("tree")).expect("a new directory");
        plant(&bench.path("tree"), shape, seed)?;
        bench.shell("rm -f tree/names/$(printf 'n%.0s' $(seq 255))")?;
        bench.shell(WHOLE_SECONDS)?;
        bench.spindle(&format!("import {format} tree image"))?;
        bench.spindle("dump -0 -f stream image")?;
        bench.shell("mkdir back; cd back; restore -r -f ../stream 2>/dev/null")?;
        let is_link = |record: &Record| record.kind == Some(Kind::Symlink);
        let expected = without_times(bench.list("tree")?, is_link);
        same(&expected, &without_times(bench.list("back")?, is_link), format);
    }
    Ok(())
}

/// Promise: Linux's `restore` puts our volumes together, and so do we those of its `dump`.
#[test]
fn volumes_of_both() -> Result<()> {
    let bench = Bench::new();
    let shape = Shape { wide_times: false, ..Shape::ufs2(32768, 4096) };
    std::fs::create_dir(bench.path("tree")).expect("a new directory");
    plant(&bench.path("tree"), shape, 7)?;
    bench.shell("rm -f tree/names/$(printf 'n%.0s' $(seq 255)); seq 400000 >tree/large")?;
    bench.shell(WHOLE_SECONDS)?;
    bench.spindle("import tree image")?;
    bench.spindle("dump -0 -B 770 -M -f ours image")?;
    assert!(bench.path("ours003").exists());
    bench.shell("mkdir back; cd back; restore -r -M -f ../ours 2>../said")?;
    let is_link = |record: &Record| record.kind == Some(Kind::Symlink);
    let expected = without_times(bench.list("tree")?, is_link);
    same(&expected, &without_times(bench.list("back")?, is_link), "Linux of ours");
    // A file in the middle, for which Linux's passes over the volumes before.
    bench.shell(
        "mkdir some; cd some; restore -x -a -o -M -f ../ours ./large 2>../said; cmp large ../tree/large",
    )?;

    std::fs::create_dir(bench.path("tree2")).expect("a new directory");
    plant(&bench.path("tree2"), Shape::ufs1(4096, 1024), 8)?;
    bench.shell("seq 400000 >tree2/large; find tree2 -depth -exec touch -h -d @1000000000 {} +")?;
    bench.shell("truncate -s 256M image2; mke2fs -q -t ext4 -d tree2 image2")?;
    let device = Loopback::new(&bench.path("image2"))?;
    bench.shell(&format!("dump -0 -B 770 -M -f theirs {} 2>/dev/null", device.path().display()))?;
    assert!(bench.path("theirs003").exists());
    bench.spindle("restore -r -M -f theirs --to back2")?;
    same(&bench.list("tree2")?, &bench.list("back2")?, "ours of Linux's");
    Ok(())
}

/// Promise: Linux's `restore` makes the last tree of a chain of our dumps, in which files were
/// made, changed, moved, replaced and removed; so do we.
#[test]
fn linux_restores_our_chains() -> Result<()> {
    let bench = Bench::new();
    bench.shell(
        "mkdir -p tree/a/b/c tree/d; cd tree; seq 9999 >a/one; seq 99 >a/b/two; seq 9 >a/b/c/three
        ln a/one d/again; ln -s a/one link; mkfifo d/fifo; seq 5 >d/gone; mkdir -p e/f; seq 7 >e/f/deep
        find . -depth -exec touch -h -d @1000000000 {} +",
    )?;
    bench.spindle("import -s 8m -O2 tree image")?;
    let dump = |level: u32| {
        bench.shell("sleep 1.1")?;
        bench.spindle(&format!("dump -{level} -u -D dumpdates -f stream.{level} image"))
    };
    dump(0)?;
    bench.shell("seq 77 >new")?;
    for change in [
        "mv image:/a/b image:/d/moved",
        "rm image:/d/gone",
        "cp new image:/d/made",
        "rm -r image:/e",
        "mkdir image:/gone",
        "chmod 0600 image:/a/one",
    ] {
        bench.spindle(change)?;
    }
    dump(1)?;
    for change in [
        "mv image:/d/moved/c image:/e",
        "rm image:/a/one",
        "cp new image:/a/one",
        "mkdir image:/d/gone",
        "ln image:/a/one image:/e/linked",
        "touch -d @1000000007 image:/d/made",
    ] {
        bench.spindle(change)?;
    }
    dump(2)?;
    bench.spindle("export image wanted")?;
    bench.shell("mkdir back; cd back; for n in 0 1 2; do restore -r -f ../stream.$n 2>/dev/null; done")?;
    bench.spindle("restore -r -f stream.0 -f stream.1 -f stream.2 --to ours")?;
    let wanted = bench.list("wanted")?;
    same(&wanted, &bench.list("ours")?, "ours");
    // Links and times that were made now have fractions of seconds.
    same(&without_times(wanted, |_| true), &without_times(bench.list("back")?, |_| true), "Linux's");
    Ok(())
}

/// Promise: from the streams of Linux's `dump` of ext2 and ext4 we restore what was dumped, with
/// extended attributes, into a directory and into an image.
#[test]
fn we_restore_dumps_of_linux() -> Result<()> {
    for (format, seed) in [("ext2", 5), ("ext4", 6)] {
        let bench = Bench::new();
        std::fs::create_dir(bench.path("tree")).expect("a new directory");
        plant(&bench.path("tree"), Shape::ufs1(4096, 1024), seed)?;
        bench.shell(WHOLE_SECONDS)?;
        bench.shell("setfattr -n user.kept -v value tree/attributes 2>/dev/null || setfattr -n user.kept -v value tree")?;
        bench.shell(&format!("truncate -s 256M image; mke2fs -q -t {format} -d tree image"))?;
        let device = Loopback::new(&bench.path("image"))?;
        bench.shell(&format!("dump -0 -f stream {} 2>/dev/null", device.path().display()))?;
        bench.spindle("restore -r -f stream --to back")?;
        let tree = bench.list("tree")?;
        same(&tree, &bench.list("back")?, format);
        bench.spindle("newfs -n -s 256m -O2 ours")?;
        bench.spindle("restore -r -f stream --to ours")?;
        bench.spindle("fsck -n ours")?;
        bench.spindle("export ours back2")?;
        same(&tree, &bench.list("back2")?, format);
    }
    Ok(())
}

/// Promise: so we do from a chain of them.
#[test]
fn we_restore_chains_of_linux() -> Result<()> {
    let bench = Bench::new();
    bench.shell(
        "mkdir -p mnt tree/a/b tree/d; seq 9999 >tree/a/one; seq 99 >tree/a/b/two; ln tree/a/one tree/d/again
        truncate -s 32M image; mke2fs -q -t ext4 -d tree image",
    )?;
    let device = Loopback::new(&bench.path("image"))?;
    let dump = |level: u32| {
        let device = device.path().display();
        bench.shell(&format!("sleep 1.1; dump -{level}u -D dumpdates -f stream.{level} {device} 2>/dev/null"))
    };
    dump(0)?;
    bench.shell(&format!(
        "mount {} mnt; mv mnt/a/b mnt/d/moved; rm mnt/a/one; seq 5 >mnt/a/one; mkdir mnt/e; \
         setfattr -n user.x -v y mnt/e; umount mnt",
        device.path().display()
    ))?;
    dump(1)?;
    bench.spindle("restore -r -f stream.0 -f stream.1 --to back")?;
    bench.shell(&format!("mount -o ro {} mnt; cp -a mnt wanted; umount mnt", device.path().display()))?;
    let is_new = |record: &Record| record.mtime.is_some_and(|stamp| stamp.nanos != Some(0));
    let (wanted, back) = (bench.list("wanted")?, bench.list("back")?);
    same(&without_times(wanted, is_new), &without_times(back, |_| false), "ext4");
    assert!(bench.shell("getfattr -d back/e")?.contains("user.x=\"y\""));
    Ok(())
}

/// Promise: a dump of an image of a real system restores what an export of it has.
#[test]
fn images_of_real_systems_come_back() -> Result<()> {
    let names = ["freebsd-ufs2-le", "freebsd-ufs2-be", "openbsd28-ufs1", "openbsd28-43bsd", "v7-pdp11-root"];
    for image in &RealImage::unpack(&names)? {
        let bench = Bench::new();
        let path = image.path().display().to_string();
        bench.spindle(&format!("dump -0 -f stream {path}"))?;
        bench.spindle("restore -r -f stream --to back")?;
        export(&image.path(), &bench.path("wanted"))?;
        same(&bench.list("wanted")?, &bench.list("back")?, image.name);
    }
    Ok(())
}

/// Promise: a compressed stream of Linux's `dump` is refused with the reason.
#[test]
fn compressed_dumps_are_refused() -> Result<()> {
    let bench = Bench::new();
    bench
        .shell("mkdir tree; seq 99999 >tree/file; truncate -s 16M image; mke2fs -q -t ext4 -d tree image")?;
    let device = Loopback::new(&bench.path("image"))?;
    bench.shell(&format!("dump -0 -z -f stream {} 2>/dev/null", device.path().display()))?;
    let stream = bench.path("stream");
    let failed = spindle(["restore", "-t", "-f", stream.to_str().expect("a path in UTF-8")]);
    assert!(failed.unwrap_err().to_string().contains("is compressed by Linux's dump"));
    Ok(())
}
