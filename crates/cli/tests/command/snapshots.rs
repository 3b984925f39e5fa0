//! `spindle snapshot`, and snapshots as files and as images.

use crate::helpers::run_as;
use crate::mounts::in_home;
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
    bench.ok("snapshot make mnt /.snap/tuesday");
    bench.shell("test -f mnt/.snap/tuesday");
    bench.fails("snapshot rm mnt /a", 1, &["/a", "is no snapshot"]);
    bench.ok("snapshot rm mnt /.snap/monday");
    bench.shell("! test -e mnt/.snap/monday; test \"$(ls mnt/.snap)\" = tuesday");
    bench.shell("rm -f mnt/.snap/tuesday && ! test -e mnt/.snap/tuesday");
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

/// Promise: a file system with snapshots is repaired, and they show what they showed: also where
/// the superblock was lost, whose copies do not list them. It is taken back, too. A snapshot that
/// cannot be believed is named by `-n`, and removed by `-y` alone.
#[test]
fn file_systems_with_snapshots_are_repaired() {
    let bench = Bench::new();
    bench.shell(
        "mkdir tree; head -c 300k /dev/urandom >tree/b; echo one >tree/a; touch -d @1234567890 tree/a",
    );
    bench.ok("newfs -O1 -s 64m disk.img");
    bench.ok("import tree disk.img:/");
    bench.ok("snapshot make disk.img /monday");
    bench.ok("rm disk.img:/b");
    bench.shell("cp disk.img before.img");
    // An inode has its links at byte 2, its time of access at byte 16, and its flags at byte 100.
    let find = |bytes: &[u8], is: &dyn Fn(&[u8]) -> bool| {
        (0..bytes.len()).step_by(128).find(|&at| is(&bytes[at..at + 128])).unwrap()
    };
    let mut bytes = std::fs::read(bench.path("disk.img")).unwrap();
    let time = 1_234_567_890_u32.to_le_bytes();
    let inode = find(&bytes, &|inode| inode[16..20] == time && inode[2] == 1);
    bytes[inode + 2] = 7;
    bytes[8192..16384].fill(0);
    bench.write("disk.img", bytes);
    let damaged = bench.shell("sha256sum <disk.img");
    assert_eq!(bench.run("fsck -p disk.img").code, 4);
    assert_eq!(bench.shell("sha256sum <disk.img"), damaged);
    let ran = bench.run("fsck -y --undo disk.undo disk.img");
    assert_eq!(ran.code, 1, "{} {}", ran.out, ran.err);
    bench.ok("fsck -n disk.img");
    assert!(bench.ok("snapshot list disk.img").ends_with(" /monday\n"));
    bench.ok("cp disk.img:/monday monday.img");
    bench.ok("cp monday.img:/b b");
    bench.shell("cmp b tree/b");
    bench.ok("fsck --undo-with disk.undo disk.img");
    assert_eq!(bench.shell("sha256sum <disk.img"), damaged);
    // The count of what the snapshot holds.
    bench.shell("cp before.img disk.img");
    let mut bytes = std::fs::read(bench.path("disk.img")).unwrap();
    let inode = find(&bytes, &|inode| inode[..4] == [0, 0x81, 1, 0] && inode[100..104] == [0, 0, 0x20, 0]);
    bytes[inode + 105] += 1;
    bench.write("disk.img", bytes);
    let ran = bench.run("fsck -n disk.img");
    assert!(ran.code == 4 && ran.out.contains("CANNOT BE BELIEVED: blocks of it are missing"), "{}", ran.out);
    assert_eq!(bench.run("fsck -p disk.img").code, 4);
    let ran = bench.run("fsck -y disk.img");
    assert!(ran.code == 1 && ran.out.contains("/monday"), "{} {}", ran.out, ran.err);
    assert_eq!(bench.ok("snapshot list disk.img"), "");
    bench.ok("fsck -n disk.img");
    assert_eq!(bench.ok("cat disk.img:/a"), "one\n");
}

/// Returns a bench with an image of a new file system with such options, mounted on `mnt`.
fn mounted(newfs: &str, options: &str) -> Bench {
    let bench = Bench::new();
    bench.ok(&format!("newfs -s 64m {newfs} disk.img"));
    bench.shell("mkdir mnt");
    assert_eq!(run_as(&bench, "mount.spindle", &format!("disk.img mnt -o {options}")).code, 0);
    bench
}

/// Waits until the image, which is still mounted, has no snapshot any more, also none without a
/// name: it takes no more space than `free` blocks leave.
fn await_free(bench: &Bench, free: &str) {
    let free = free.trim();
    bench.shell(&format!(
        "for n in $(seq 200); do sync -f mnt; test \"$(stat -f -c %f mnt)\" -ge {free} && exit; sleep 0.05; done
         exit 1"
    ));
}

/// Promise: the name of a snapshot that is made on a mount is seen at once, also by who has just
/// looked and found none.
#[test]
fn new_snapshots_are_seen_at_once() {
    let bench = mounted("", "rw");
    bench.shell("! test -e mnt/.snap/monday");
    bench.ok("snapshot make mnt /.snap/monday");
    bench.shell("test -f mnt/.snap/monday");
    bench.ok("umount mnt");
}

/// Promise: who has mounted an image without root makes, lists, reads and removes snapshots of it,
/// dumps it and checks it by one, all without root; no other user reads them. Where the directory
/// belongs to somebody else, the remedy works.
#[test]
fn users_have_snapshots() {
    in_home(
        &Bench::new(),
        r#"ann() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        ann ./program newfs -s 64m disk.img
        ann mkdir mnt monday
        ann ./program mount disk.img mnt
        ann sh -c 'echo one >mnt/a; head -c 3M /dev/urandom >mnt/large; cp mnt/large large'
        ann ./program snapshot make mnt /.snap/monday
        test "$(ann stat -c '%u %g %a' mnt/.snap/monday)" = '65534 65534 400'
        ann sh -c 'echo two >mnt/a; head -c 3M /dev/zero | dd of=mnt/large conv=notrunc 2>error'
        ann ./program snapshot list mnt | grep ' /.snap/monday$'
        test "$(ann ./program cat mnt/.snap/monday:/a)" = one
        ann ./program cp mnt/.snap/monday:/large copy
        cmp copy large
        ann ./program mount -r mnt/.snap/monday monday
        ann cmp monday/large large
        ann ./program umount monday
        ann ./program fsck -B mnt | grep 'no problems found'
        ann ./program dump -0 -L -f home.0 disk.img
        ann ./program restore -r -f home.0 --to back
        test "$(cat back/a)" = two
        ann ./program snapshot rm mnt /.snap/monday
        test -z "$(ann ls -A mnt/.snap)"
        ann ./program snapshot make disk.img /tuesday
        ann rm -f mnt/tuesday
        ann ./program umount mnt
        ann ./program fsck -n disk.img | grep 'no problems found'
        # An image in which the directory is root's.
        ann ./program chown 0:0 disk.img:/.snap
        ann ./program mount disk.img mnt
        ! ann ./program fsck -B mnt 2>error
        grep 'make that directory anew, as this user (rmdir .*mnt/.snap; mkdir .*mnt/.snap)' error
        ann sh -c 'rmdir mnt/.snap; mkdir mnt/.snap'
        ann ./program fsck -B mnt | grep 'no problems found'
        ann ./program umount mnt
        # What is made in an image is read on its mount.
        ann ./program snapshot make disk.img /.snap/monday
        ann ./program mount disk.img mnt
        test "$(ann ./program cat mnt/.snap/monday:/a)" = two
        ! setpriv --reuid 1 --regid 1 --clear-groups head -c 1 mnt/.snap/monday
        ann ./program umount mnt"#,
    );
}

/// Promise: `dump -L` of a mount dumps the file system as it was at one moment, with all that was
/// written before, also what the kernel keeps; the next level has what has changed since, also
/// during the dump; and no snapshot is left.
#[test]
fn live_dumps_form_chains() {
    let bench = mounted("", "rw,writeback,commit=300");
    bench.shell(
        "mkdir mnt/dir; echo one >mnt/dir/a; echo kept >mnt/dir/b; head -c 20M /dev/urandom >mnt/large",
    );
    let free = bench.shell("sync -f mnt; stat -f -c %f mnt");
    bench.fails("dump -0 -f d.0 disk.img", 1, &["is mounted on", "mnt", "-L", "unmount"]);
    bench.shell("! test -e mnt/.snap/dump_snapshot; cp mnt/large large");
    let program = env!("CARGO_BIN_EXE_spindle");
    // The reader of the dump waits in the middle of it, and changes the file system.
    bench.shell(&format!(
        "{program} dump -0 -u -D dumpdates -L -f - disk.img 2>notes | {{ head -c 100000 >d.0
         echo two >mnt/dir/a; rm mnt/dir/b; echo new >mnt/c; head -c 1000 /dev/zero >mnt/large; cat >>d.0; }}
         grep -q 'level 0 dump of everything' notes; ls -A mnt/.snap | grep . && exit 1; true"
    ));
    bench.ok("restore -r -f d.0 --to back");
    bench.shell("cmp back/large large; grep -qx one back/dir/a; grep -qx kept back/dir/b; ! test -e back/c");
    bench.shell("! test -e back/.spindlelog");
    // By the directory of the mount, which is another name of it.
    let ran = bench.run("dump -1 -u -D dumpdates -L -f d.1 mnt");
    assert!(ran.code == 0 && ran.err.contains("what has changed since"), "{}", ran.err);
    bench.ok("restore -r -f d.0 -f d.1 --to both");
    bench.shell(
        "grep -qx two both/dir/a; grep -qx new both/c; ! test -e both/dir/b; cmp mnt/large both/large",
    );
    bench.shell("rm mnt/large mnt/c");
    await_free(&bench, &free);
    bench.ok("umount mnt");
    assert_eq!(bench.ok("snapshot list disk.img"), "");
    bench.check("disk.img");
    // What is not mounted is dumped as it is, and so is a read-only mount.
    assert_eq!(bench.run("dump -0 -L -f d.2 disk.img").code, 0);
    assert_eq!(run_as(&bench, "mount.spindle", "disk.img mnt -o ro").code, 0);
    for live in ["", "-L"] {
        assert_eq!(bench.run(&format!("dump -0 {live} -f d.3 mnt")).code, 0);
    }
    bench.ok("umount mnt");
}

/// Promise: however a dump of a mount ends, by a signal, SIGKILL included, a full disk or a missing
/// directory, no snapshot of it is left; one that has its name is named with the remedy, and stays.
#[test]
fn live_dumps_leave_no_snapshot() {
    let bench = mounted("", "rw");
    bench.shell("head -c 20M /dev/urandom >mnt/large");
    let free = bench.shell("sync -f mnt; stat -f -c %f mnt");
    let program = env!("CARGO_BIN_EXE_spindle");
    for (signal, code) in [("INT", 130), ("TERM", 143), ("KILL", 137)] {
        bench.shell(&format!(
            "mkfifo pipe; env --default-signal=INT,TERM {program} dump -0 -u -D dumpdates -L -f pipe --force disk.img \
                 2>notes & dump=$!
             exec 3<pipe; head -c 100000 <&3 >/dev/null; kill -{signal} $dump
             set +e; wait $dump; code=$?; exec 3<&-; rm pipe; set -e
             test $code = {code}; ! test -e dumpdates; ls -A mnt/.snap | grep . && exit 1; true"
        ));
        await_free(&bench, &free);
    }
    assert_eq!(bench.run("dump -0 -L -f /dev/full disk.img").code, 1);
    await_free(&bench, &free);
    bench.ok("snapshot make mnt /.snap/dump_snapshot");
    bench.fails("dump -0 -L -f d.0 disk.img", 1, &["exists", "killed", "rm ", "mnt/.snap/dump_snapshot"]);
    bench.shell("! test -e d.0; rm -f mnt/.snap/dump_snapshot; rmdir mnt/.snap");
    bench.fails("dump -0 -L -f d.0 disk.img", 1, &["there is no directory", "mkdir", "mnt/.snap"]);
    bench.ok("umount mnt");
    assert_eq!(bench.ok("snapshot list disk.img"), "");
    bench.check("disk.img");
    let bench = Bench::new();
    bench.ok("newfs -t v7 -s 4m disk.img");
    bench.shell("mkdir mnt");
    assert_eq!(run_as(&bench, "mount.spindle", "disk.img mnt -o rw").code, 0);
    bench.shell("mkdir mnt/.snap");
    bench.fails("dump -0 -L -f d.0 disk.img", 1, &["only UFS has snapshots"]);
    bench.ok("umount mnt");
}

/// Promise: `fsck -B` checks what is mounted, by a snapshot: a whole file system has no finding,
/// not even a note, whatever is written meanwhile; damage is found, with what repairs it, and
/// nothing is changed; and no snapshot is left. Without it a mount is refused with that remedy.
#[test]
fn mounts_are_checked() {
    for newfs in ["", "-O1", "-O2 --dialect netbsd"] {
        let bench = mounted(newfs, "rw");
        bench.shell("mkdir -p mnt/.snap mnt/dir; echo a >mnt/dir/a; head -c 5M /dev/urandom >mnt/large");
        bench.shell("exec 3>mnt/open; rm mnt/open; echo x >&3; sync -f mnt");
        let free = bench.shell("sync -f mnt; stat -f -c %f mnt");
        bench.shell(
            "(until test -e stop; do echo $$ >mnt/dir/b; mv mnt/dir/b mnt/dir/c; done; : >stopped) >log 2>&1 &",
        );
        for name in ["disk.img", "-n disk.img"] {
            let ran = bench.run(&format!("fsck -B {name}"));
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{newfs} {name}: {}", ran.out);
            assert!(ran.out.contains("is mounted; checking a snapshot of it"), "{}", ran.out);
            assert!(ran.out.contains("no problems found") && !ran.out.contains("**"), "{}", ran.out);
        }
        bench.fails("fsck -n disk.img", 8, &["is mounted on", "-B", "unmount"]);
        bench.fails("fsck -B -y mnt", 2, &["cannot be used with"]);
        bench.shell(
            "touch stop; until test -e stopped; do sleep 0.05; done; rm -r mnt/dir
             ls -A mnt/.snap | grep . && exit 1; true",
        );
        await_free(&bench, &free);
        bench.ok("umount mnt");
        assert_eq!(bench.ok("snapshot list disk.img"), "");
        bench.check("disk.img");
    }
    let bench = Bench::new();
    bench.shell("mkdir tree; echo a >tree/a; touch -d @1234567890 tree/a");
    bench.ok("newfs -O1 -s 64m disk.img");
    bench.ok("import tree disk.img:/");
    // An inode has its links at byte 2, and its time of access at byte 16.
    let mut bytes = std::fs::read(bench.path("disk.img")).unwrap();
    let time = 1_234_567_890_u32.to_le_bytes();
    let inode = bytes.windows(4).position(|found| found == time).unwrap() - 16;
    assert_eq!(std::mem::replace(&mut bytes[inode + 2], 7), 1);
    bench.write("disk.img", bytes);
    assert_eq!(bench.run("fsck -B disk.img").code, 4);
    bench.shell("mkdir mnt");
    assert_eq!(run_as(&bench, "mount.spindle", "disk.img mnt -o rw").code, 0);
    let ran = bench.run("fsck -B disk.img");
    assert_eq!((ran.code, ran.err.as_str()), (4, ""), "{}", ran.out);
    assert!(ran.out.contains("LINK COUNT") && ran.out.contains("1 problem found"), "{}", ran.out);
    assert!(ran.out.contains("to repair it, unmount it: spindle fsck -y "), "{}", ran.out);
    bench.ok("umount mnt");
    assert_eq!(bench.run("fsck -n disk.img").code, 4);
}
