//! `spindle snapshot`, and snapshots as files and as images.

use crate::helpers::run_as;
use crate::support::Bench;

/// Returns a bench with an image that has a tree and a snapshot, in which nothing has a copy: it
/// reads as the whole image.
fn snapped() -> Bench {
    snapped_with("")
}

/// Returns the same, after these commands of `debug`, too.
fn snapped_with(more: &str) -> Bench {
    let bench = Bench::new();
    bench.shell("mkdir -p tree/sub tree/.snap; head -c 300k /dev/urandom >tree/a; echo hello >tree/sub/b");
    bench.shell("truncate -s 16m tree/.snap/monday");
    bench.ok("newfs -s 16m disk.img");
    bench.ok("import tree disk.img:/");
    let ino = bench.json("stat --json disk.img:/.snap/monday")[0]["ino"].as_u64().unwrap();
    let set = format!("set /.snap/monday flags 0x200000; setsuper fs_snapinum[0] {ino}; {more}");
    bench.run_args(["debug", "-w", "disk.img", &set]);
    bench
}

/// Promise: the list has what the superblock names, with its path, also one that is none; other
/// file systems have no snapshots, which is an error.
#[test]
fn snapshots_are_listed() {
    let bench = snapped();
    let ino = bench.json("stat --json disk.img:/.snap/monday")[0]["ino"].clone();
    let list = bench.json("snapshot list --json disk.img")["snapshots"].clone();
    assert_eq!(list[0]["path"], "/.snap/monday");
    assert_eq!((&list[0]["inode"], &list[0]["size_bytes"]), (&ino, &(16 << 20).into()));
    assert!(list[0]["used_bytes"].as_u64().unwrap() < 1 << 20, "{list}");
    let text = bench.ok("snapshot list disk.img");
    assert!(text.lines().count() == 1 && text.trim_end().ends_with("/.snap/monday"), "{text}");
    let bench = snapped_with("setsuper fs_snapinum[1] 3999");
    let text = bench.ok("snapshot list disk.img");
    assert!(text.contains("(inode 3999, without a name): its inode is not that of a snapshot"), "{text}");
    bench.ok("newfs -s 16m none.img");
    assert_eq!(bench.ok("snapshot list none.img"), "");
    bench.ok("newfs -t v7 -s 1m v7.img");
    bench.fails("snapshot list v7.img", 1, &["v7.img", "only UFS has snapshots"]);
}

/// Promise: a snapshot is copied by its name, and the copy is an image; a copy of the tree leaves
/// it out and says so.
#[test]
fn snapshots_are_copied_by_name() {
    let bench = snapped();
    bench.ok("cp disk.img:/.snap/monday monday.img");
    bench.ok("cp monday.img:/a a");
    bench.shell("cmp a tree/a");
    assert_eq!(bench.ok("cat monday.img:/sub/b"), "hello\n");
    let ran = bench.run("export disk.img out.tar");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("/.snap/monday: is a snapshot, and left out"), "{}", ran.err);
    assert_eq!(bench.shell("tar tf out.tar | grep -c monday || true").trim(), "0");
    bench.shell("tar xf out.tar a && cmp a tree/a");
}

/// Promise: where an image with a snapshot is mounted read-only, the snapshot is an image that
/// commands read and that can be mounted.
#[test]
fn snapshots_are_images_on_mounts() {
    let bench = snapped();
    bench.shell("mkdir mnt monday");
    let ran = run_as(&bench, "mount.spindle", "disk.img mnt -o rw");
    assert!(ran.code == 0 && ran.err.contains("mounted read-only"), "{}", ran.err);
    assert_eq!(bench.ok("cat mnt/.snap/monday:/sub/b"), "hello\n");
    bench.shell("! touch mnt/x 2>/dev/null");
    assert_eq!(run_as(&bench, "mount.spindle", "mnt/.snap/monday monday -o ro").code, 0);
    bench.shell("cmp monday/a tree/a && test $(cat monday/sub/b) = hello");
    bench.ok("umount monday");
    bench.ok("umount mnt");
}

/// Promise: a snapshot that is made of an image reads as the tree was, whatever changes; the image
/// is checked clean, goes on being written, and the snapshot is removed by its name, nothing else.
#[test]
fn snapshots_are_made_and_removed() {
    let bench = Bench::new();
    bench.shell("mkdir -p tree/sub; head -c 300k /dev/urandom >tree/a; echo hello >tree/sub/b");
    bench.ok("newfs -s 64m disk.img");
    bench.ok("import tree disk.img:/");
    bench.ok("snapshot make disk.img /.snap/monday");
    bench.fails("snapshot make disk.img /.snap/monday", 1, &["/.snap/monday", "exists"]);
    bench.ok("rm disk.img:/a");
    bench.shell("echo other >b");
    bench.ok("cp b disk.img:/sub/b");
    bench.ok("fsck -n disk.img");
    bench.ok("cp disk.img:/.snap/monday monday.img");
    bench.ok("fsck -n monday.img");
    bench.ok("cp monday.img:/a a");
    bench.shell("cmp a tree/a");
    assert_eq!(bench.ok("cat monday.img:/sub/b"), "hello\n");
    assert_eq!(bench.ok("cat disk.img:/sub/b"), "other\n");
    bench.fails("snapshot rm disk.img /sub/b", 1, &["/sub/b", "is no snapshot"]);
    bench.ok("snapshot rm disk.img /.snap/monday");
    assert_eq!(bench.ok("snapshot list disk.img"), "");
    bench.ok("fsck -n disk.img");
    bench.ok("newfs -t v7 -s 1m v7.img");
    bench.fails("snapshot make v7.img /x", 1, &["v7.img", "only UFS has snapshots"]);
}

/// Promise: a snapshot is made of what is mounted, is seen at once, is an image for commands and
/// for a mount, and is removed with rm; the file system goes on being written.
#[test]
fn snapshots_are_made_on_mounts() {
    let bench = Bench::new();
    bench.ok("newfs -s 64m disk.img");
    bench.shell("mkdir mnt monday");
    assert_eq!(run_as(&bench, "mount.spindle", "disk.img mnt -o rw").code, 0);
    bench.shell("ls mnt/.snap; echo one >mnt/a; head -c 3M /dev/urandom >mnt/large; cp mnt/large large");
    bench.ok("snapshot make mnt /.snap/monday");
    bench.shell("test -f mnt/.snap/monday && ls mnt/.snap | grep -q monday");
    // The mount knows it before the image does.
    let listed = bench.ok("snapshot list mnt");
    assert!(listed.ends_with(" used  /.snap/monday\n") && listed.lines().count() == 1, "{listed}");
    let by_image = bench.json("snapshot list --json disk.img")["snapshots"].clone();
    assert_eq!(bench.json("snapshot list --json mnt")["snapshots"], by_image);
    assert!(by_image[0]["size_bytes"].as_u64() > Some(64 << 20), "{by_image}");
    bench.shell("echo two >mnt/a; head -c 3M /dev/zero | dd of=mnt/large conv=notrunc 2>/dev/null; sync");
    assert_eq!(bench.ok("cat mnt/.snap/monday:/a"), "one\n");
    assert_eq!(run_as(&bench, "mount.spindle", "mnt/.snap/monday monday -o ro").code, 0);
    bench.shell("cmp monday/large large && test $(cat monday/a) = one && test $(cat mnt/a) = two");
    bench.ok("umount monday");
    bench.fails("snapshot rm disk.img /.snap/monday", 1, &["mounted", "rm"]);
    bench.shell("rm -f mnt/.snap/monday && ! test -e mnt/.snap/monday");
    bench.ok("umount mnt");
    bench.ok("fsck -n disk.img");
    assert_eq!(bench.ok("snapshot list disk.img"), "");
}

/// Promise: after a crash of a file system with snapshots, `fsck` replays the log as a mount does:
/// `-n` in memory, finding nothing; `-p` for good, so that a writing mount follows. The snapshot is
/// what it was. One that was not clean and had no log is marked clean.
#[test]
fn snapshots_survive_crashes_and_checks() {
    for newfs in ["", "-O2 --dialect netbsd"] {
        let bench = Bench::new();
        bench.ok(&format!("newfs -s 64m {newfs} live.img"));
        bench.shell("mkdir mnt");
        assert_eq!(run_as(&bench, "mount.spindle", "live.img mnt -o commit=300").code, 0);
        bench.shell(
            "head -c 3M /dev/urandom >mnt/large; cp mnt/large large; mkdir mnt/dir; echo one >mnt/dir/a",
        );
        bench.ok("snapshot make mnt /monday");
        bench.shell(
            "head -c 3M /dev/zero | dd of=mnt/large conv=notrunc 2>/dev/null; rm -r mnt/dir; echo two >mnt/b; \
             sync mnt/b; cp live.img a.img",
        );
        bench.ok("umount mnt");
        let before = std::fs::read(bench.path("a.img")).unwrap();
        let ran = bench.run("fsck -n a.img");
        assert_eq!(ran.code, 0, "{newfs}: {} {}", ran.out, ran.err);
        assert!(std::fs::read(bench.path("a.img")).unwrap() == before, "{newfs}");
        let ran = bench.run("fsck -p a.img");
        assert_eq!(ran.code, 0, "{newfs}: {} {}", ran.out, ran.err);
        let info = bench.ok("info a.img");
        assert!(info.contains("clean, can be mounted read-write"), "{newfs}: {info}");
        assert_eq!(bench.ok("cat a.img:/b"), "two\n");
        bench.ok("cp a.img:/monday monday.img");
        bench.ok("fsck -n monday.img");
        bench.ok("cp monday.img:/large copy");
        bench.shell("cmp copy large");
        assert_eq!(bench.ok("cat monday.img:/dir/a"), "one\n");
        bench.run_args(["debug", "-w", "a.img", "setsuper fs_clean 0"]);
        let ran = bench.run("fsck -p a.img");
        assert!(ran.code <= 1, "{newfs}: {} {}", ran.out, ran.err);
        assert_eq!(run_as(&bench, "mount.spindle", "a.img mnt -o rw").code, 0);
        bench.shell("echo three >mnt/c");
        bench.ok("umount mnt");
        bench.ok("fsck -n a.img");
    }
}
