//! The log, as commands and mounts use and show it.

use crate::helpers::run_as;
use crate::support::{Bench, Ran};
use std::fs::File;
use std::process::{Command, Stdio};

/// Runs `spindle` with a timeout of a minute.
fn spindle(bench: &Bench, words: &str) -> Ran {
    run_as(bench, "spindle", words)
}

/// Runs `spindle`, expects success, and returns its standard error.
fn stderr_of(bench: &Bench, words: &str) -> String {
    let ran = spindle(bench, words);
    assert_eq!(ran.code, 0, "spindle {words}: {}", ran.err);
    ran.err
}

/// Makes `a.img`, an image as a crash of its daemon leaves it: `kept` was synced, `lost` was not,
/// and the log contains changes.
fn crashed(bench: &Bench, newfs: &str) {
    bench.shell("mkdir -p mnt");
    bench.ok(&format!("newfs -s 32m {newfs} live.img"));
    stderr_of(bench, "mount -o commit=300 live.img mnt");
    bench.write("mnt/kept", "synced");
    File::open(bench.path("mnt/kept")).unwrap().sync_all().unwrap();
    bench.write("mnt/lost", "not synced");
    bench.shell("cp live.img a.img");
    stderr_of(bench, "umount mnt");
}

/// Promise: the first mount creates a log and prints its size and file, later mounts use it without
/// a message; mounts with nolog, sync or ro create none.
#[test]
fn the_first_mount_creates_a_log() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    bench.ok("newfs -s 32m a.img");
    let clean = std::fs::read(bench.path("a.img")).unwrap();
    for options in ["nolog", "sync", "dirsync", "ro"] {
        assert_eq!(stderr_of(&bench, &format!("mount -o {options} a.img mnt")), "", "{options}");
        assert_eq!(stderr_of(&bench, "umount mnt"), "");
        assert!(std::fs::read(bench.path("a.img")).unwrap() == clean, "{options}");
    }
    bench.fails("mount a.img missing", 32, &["missing"]);
    assert!(std::fs::read(bench.path("a.img")).unwrap() == clean, "a mount that failed");
    bench.fails("mount -o log,sync a.img mnt", 32, &["sync", "log"]);
    bench.ok("mkdir a.img:/by-hand");
    assert!(!bench.ok("ls -a a.img:/").contains(".spindlelog"), "a command creates no log");
    let output = stderr_of(&bench, "mount -o logsize=512k a.img mnt");
    assert!(
        output.contains(
            "a.img: created a 512 KiB log in the file /.spindlelog; mount with -o nolog to do without"
        ),
        "{output}"
    );
    assert_eq!(output.lines().count(), 1, "{output}");
    assert_eq!(stderr_of(&bench, "umount mnt"), "");
    assert_eq!(stderr_of(&bench, "mount a.img mnt"), "");
    assert!(std::fs::remove_file(bench.path("mnt/.spindlelog")).is_err());
    assert_eq!(stderr_of(&bench, "umount mnt"), "");
    bench.check("a.img");
    bench.ok("newfs -s 4m small.img");
    let output = stderr_of(&bench, "mount small.img mnt");
    assert!(output.contains("no log") && output.contains("after a crash"), "{output}");
    stderr_of(&bench, "umount mnt");
    bench.ok("newfs -t v7 -s 2m old.img");
    assert_eq!(stderr_of(&bench, "mount old.img mnt"), "");
    stderr_of(&bench, "umount mnt");
    let output = stderr_of(&bench, "mount -o log old.img mnt");
    assert!(output.contains("no log") && output.contains("after a crash"), "{output}");
    stderr_of(&bench, "umount mnt");
}

/// Promise: after a crash, commands that read and read-only mounts show the recovered state, say so
/// in one line and write nothing; a mount that writes recovers the image and prints the number of
/// blocks.
#[test]
fn after_a_crash() {
    for newfs in ["", "-O1 --dialect sun", "-O2 --dialect netbsd"] {
        let bench = Bench::new();
        crashed(&bench, newfs);
        let before = std::fs::read(bench.path("a.img")).unwrap();
        let ran = spindle(&bench, "cat a.img:/kept");
        assert_eq!((ran.code, ran.out.as_str()), (0, "synced"), "{newfs}: {}", ran.err);
        assert!(ran.err.contains("log") && ran.err.contains("nothing is written"), "{newfs}: {}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{newfs}: {}", ran.err);
        let output = stderr_of(&bench, "mount -o ro a.img mnt");
        assert!(output.contains("nothing is written") && output.lines().count() == 1, "{newfs}: {output}");
        assert_eq!(std::fs::read(bench.path("mnt/kept")).unwrap(), b"synced");
        stderr_of(&bench, "umount mnt");
        assert!(std::fs::read(bench.path("a.img")).unwrap() == before, "{newfs}");
        let output = stderr_of(&bench, "mount a.img mnt");
        assert!(
            output.contains("a.img: recovered ") && output.contains(" blocks from the log"),
            "{newfs}: {output}"
        );
        assert_eq!(output.lines().count(), 1, "{newfs}: {output}");
        assert_eq!(std::fs::read(bench.path("mnt/kept")).unwrap(), b"synced");
        assert!(!bench.path("mnt/lost").exists());
        stderr_of(&bench, "umount mnt");
        bench.check("a.img");
    }
}

/// Promise: when the image cannot be written any more, the daemon says so once, changes are
/// refused, reads continue, and the daemon and `umount` report that not everything was written; the
/// next mount recovers everything that was durable.
#[test]
fn a_failing_image() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    bench.ok("newfs -s 32m a.img");
    let program = env!("CARGO_BIN_EXE_spindle");
    // The image may not be written beyond 20 MiB; the log lies below.
    let limited = format!("trap '' XFSZ; ulimit -f 40960; exec {program} mount -f a.img mnt");
    let mut daemon = Command::new("sh");
    daemon.args(["-c", &limited]).current_dir(bench.path(""));
    let daemon = daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !bench.path("mnt/.spindlelog").exists() {
        std::thread::yield_now();
    }
    bench.write("mnt/kept", "synced");
    File::open(bench.path("mnt/kept")).unwrap().sync_all().unwrap();
    let written = std::fs::write(bench.path("mnt/big"), vec![1; 28 << 20])
        .and_then(|()| File::open(bench.path("mnt/big"))?.sync_all());
    let error = written.unwrap_err();
    // The kernel may see the first failed write (EIO) or the read-only state after it (EROFS).
    assert!(matches!(error.raw_os_error(), Some(5 | 30)), "{error}");
    let refused = std::fs::create_dir(bench.path("mnt/late")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(std::fs::read(bench.path("mnt/kept")).unwrap(), b"synced");
    bench.fails("umount mnt", 32, &["could not be written completely", "too large"]);
    let ended = Ran::from(daemon.wait_with_output().unwrap());
    assert_eq!(ended.code, 32, "{}", ended.err);
    let output = ended.err.matches("no more changes are accepted").count();
    assert_eq!(output, 1, "{}", ended.err);
    let output = stderr_of(&bench, "mount a.img mnt");
    assert!(output.contains("recovered"), "{output}");
    assert_eq!(std::fs::read(bench.path("mnt/kept")).unwrap(), b"synced");
    stderr_of(&bench, "umount mnt");
    bench.check("a.img");
}

/// Promise: on a crashed image `fsck -n` checks the state after replay of the log and changes
/// nothing, `fsck -p` replays the log, and both find no damage; info shows place, size and state of
/// the log.
#[test]
fn fsck_and_info_of_a_crashed_image() {
    for newfs in ["", "-O1 --dialect 44bsd --endian big", "-O2 --dialect netbsd"] {
        let bench = Bench::new();
        crashed(&bench, newfs);
        let before = std::fs::read(bench.path("a.img")).unwrap();
        let output = bench.ok("fsck -n a.img");
        assert!(
            output.contains("checking the state after replay of its log (")
                && output.contains("no problems found\n"),
            "{output}"
        );
        let log = bench.json("info --json a.img")["file_system"]["log"].clone();
        assert_eq!(
            (&log["state"], &log["len"], &log["writer"]),
            (&"recovery".into(), &(1 << 20).into(), &"Spindle".into())
        );
        assert!(log["blocks"].as_u64().unwrap() > 0 && log["ino"].as_u64().unwrap() > 2, "{log}");
        assert!(bench.ok("info a.img").contains(" blocks to replay, written by Spindle\n"));
        assert!(std::fs::read(bench.path("a.img")).unwrap() == before, "{newfs}");
        let output = bench.ok("fsck -p a.img");
        assert!(output.contains("recovered ") && output.contains("no problems found\n"), "{output}");
        assert_eq!(bench.json("info --json a.img")["file_system"]["log"]["state"], "empty");
        assert_eq!(bench.ok("cat a.img:/kept"), "synced");
        assert!(!bench.ok("fsck -n a.img").contains("log"));
    }
}

/// Promise: for a log that must not be replayed, fsck and info print the reason.
#[test]
fn useless_logs() {
    let bench = Bench::new();
    crashed(&bench, "--no-check-hashes");
    // Changes the time in the superblock, as another system does when it writes the superblock.
    bench.shell("printf '\\001' | dd bs=1 seek=$((65536 + 1072 + 3)) conv=notrunc of=a.img status=none");
    let output = bench.run("fsck -n a.img").out;
    assert!(output.contains("another system has written to it"), "{output}");
    let output = bench.ok("info a.img");
    assert!(output.contains("useless: another system") && output.contains("mounts read-only"), "{output}");
}

/// Promise: newfs and tunefs create a log, tunefs changes its size and removes it, and the image
/// never has damage.
#[test]
fn newfs_and_tunefs_change_the_log() {
    for newfs in ["", "-O1 --dialect sun", "-O2 --dialect netbsd"] {
        let bench = Bench::new();
        let planned = bench.ok(&format!("newfs -N -s 32m --log {newfs} a.img"));
        assert!(planned.contains("log: 1 MiB, if that much contiguous space is free\n"), "{planned}");
        let made = bench.json(&format!("newfs -s 32m --log --json {newfs} a.img"));
        assert_eq!(made["log"]["len"], 1 << 20);
        bench.check("a.img");
        assert_eq!(bench.ok("tunefs --log a.img"), "log remains 1 MiB\n");
        assert_eq!(bench.ok("tunefs --log=512k a.img"), "log changes from 1 MiB to 512 KiB\n");
        bench.check("a.img");
        assert!(bench.ok("tunefs -p a.img").ends_with("--log              512 KiB\n"));
        assert_eq!(bench.ok("tunefs --log=none a.img"), "log changes from 512 KiB to none\n");
        bench.check("a.img");
        assert_eq!(bench.json("tunefs -p --json a.img")["log"], serde_json::Value::Null);
    }
    let bench = Bench::new();
    bench.fails("newfs -t v7 -s 2m --log old.img", 2, &["cannot have a log"]);
    bench.fails("newfs -s 2m --log small.img", 1, &["too small", "--log=SIZE"]);
    assert!(!bench.path("small.img").exists());
}

/// Promise: a log of a chosen size has that size: one for which there is no room is refused with
/// what would fit, and neither the log that is there nor anything else is changed.
#[test]
fn a_log_that_does_not_fit_is_refused() {
    let bench = Bench::new();
    bench.fails("newfs -s 32m --log=60m new.img", 1, &["new.img", "no log: the longest run", "at most"]);
    assert!(!bench.path("new.img").exists());
    bench.ok("newfs -s 32m --log=512k a.img");
    let before = std::fs::read(bench.path("a.img")).unwrap();
    bench.fails("tunefs --log=100g a.img", 2, &["--log", "64k to 64m"]);
    let ran = bench.run("tunefs -m 9 --log=60m a.img");
    assert!(ran.code == 1 && ran.err.contains("a.img: no log: the longest run"), "{}", ran.err);
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before, "a refused change");
    let (_, most) = ran.err.split_once("choose at most ").unwrap();
    let kib: u64 = most.split_once(" KiB").unwrap().0.parse().unwrap();
    bench.ok(&format!("tunefs --log={kib}k a.img"));
    assert_eq!(bench.json("info --json a.img")["file_system"]["log"]["len"], kib << 10);
    bench.check("a.img");
}

/// Promise: the log of an unclean image is removed only with --force, and none is created there,
/// because it would vouch for a file system that nobody has checked.
#[test]
fn unclean_images_get_no_log() {
    let bench = Bench::new();
    bench.ok("newfs -s 32m --log --no-check-hashes a.img");
    // Clears fs_clean and invalidates the log, as another system does.
    bench.shell("printf '\\000' | dd bs=1 seek=$((65536 + 209)) conv=notrunc of=a.img status=none");
    bench.shell("printf '\\001' | dd bs=1 seek=$((65536 + 1072 + 3)) conv=notrunc of=a.img status=none");
    bench.fails("tunefs --log=none a.img", 1, &["not unmounted cleanly"]);
    assert_eq!(bench.ok("tunefs --force --log=none a.img"), "log changes from 1 MiB to none\n");
    bench.fails("tunefs --force --log a.img", 1, &["cannot create a log", "not unmounted cleanly"]);
    assert!(bench.ok("info a.img").contains("not clean"));
}

/// Promise: no copy of a tree has the file of the log, and no import brings one: it says that it
/// was left out, fills an image that has a log, and the first mount of a new image creates one.
#[test]
fn the_log_is_not_copied() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    bench.ok("newfs -s 32m a.img");
    stderr_of(&bench, "mount a.img mnt");
    bench.write("mnt/file", "content");
    bench.write("mnt/zz/last", "last");
    bench.shell("cp -a mnt tree; tar -C mnt -cf old.tar .; test -s tree/.spindlelog");
    stderr_of(&bench, "umount mnt");
    bench.ok("export a.img out");
    bench.ok("export a.img out.tar");
    bench.ok("cp -r a.img:/ copied");
    bench.shell("test ! -e out/.spindlelog; test ! -e copied/.spindlelog; test -e copied/zz/last");
    bench.shell("! tar tf out.tar | grep spindlelog; tar tf out.tar | grep zz/last");
    let note = "left out: 1 log of another file system, whose name is kept for the log of the image";
    for (n, source) in ["tree", "old.tar"].into_iter().enumerate() {
        let ran = bench.run(&format!("import {source} new{n}.img -s 32m"));
        assert!(ran.code == 0 && ran.err.contains(note) && ran.err.lines().count() == 1, "{}", ran.err);
        assert!(!bench.ok(&format!("ls -a new{n}.img")).contains(".spindlelog"));
        let mounted = stderr_of(&bench, &format!("mount new{n}.img mnt"));
        assert!(mounted.contains("created a"), "{mounted}");
        assert_eq!(std::fs::read(bench.path("mnt/zz/last")).unwrap(), b"last");
        stderr_of(&bench, "umount mnt");
        bench.ok("rm -r a.img:/zz");
        assert!(stderr_of(&bench, &format!("import {source} a.img")).contains(note));
        assert_eq!(bench.ok("cat a.img:/zz/last"), "last");
        bench.check("a.img");
        assert!(stderr_of(&bench, &format!("import {source} a.img:/below{n}")).contains(note));
        bench.fails(&format!("cat a.img:/below{n}/.spindlelog"), 1, &["no such file"]);
    }
    let kept = "/.spindlelog: is the name of the log of a file system; give the copy another name";
    bench.fails("cp tree/.spindlelog a.img:/", 1, &[kept]);
    bench.check("a.img");
}

/// Promise: where a file has the name of the log, the mount and tunefs name it and the remedy, and
/// the file stays. A superblock that names a file that is no log any more hides no file.
#[test]
fn a_file_in_the_place_of_the_log_is_named() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    bench.ok("newfs -s 32m a.img");
    stderr_of(&bench, "mount -o nolog a.img mnt");
    bench.write("mnt/.spindlelog", "mine");
    stderr_of(&bench, "umount mnt");
    let why = "no log: /.spindlelog is there, and is no log of this file system; rename or remove it";
    let mounted = stderr_of(&bench, "mount a.img mnt");
    assert!(mounted.contains(why), "{mounted}");
    stderr_of(&bench, "umount mnt");
    let ran = bench.run("tunefs --log a.img");
    assert!(ran.code == 1 && ran.err.contains(why), "{}", ran.err);
    assert_eq!(bench.ok("cat a.img:/.spindlelog"), "mine");
    bench.ok("export a.img out");
    bench.shell("test \"$(cat out/.spindlelog)\" = mine");
    bench.ok("mv a.img:/.spindlelog a.img:/kept");
    bench.ok("tunefs --log a.img");
    bench.check("a.img");
}
