//! The log, as the commands and mounts show it.

use crate::helpers::called;
use crate::support::{Bench, Ran};
use std::fs::File;
use std::process::{Command, Stdio};

/// Runs `spindle` for at most a minute.
fn spindle(bench: &Bench, words: &str) -> Ran {
    called(bench, "spindle", words)
}

/// Runs `spindle`, wants success, and gives what it said on standard error.
fn said(bench: &Bench, words: &str) -> String {
    let ran = spindle(bench, words);
    assert_eq!(ran.code, 0, "spindle {words}: {}", ran.err);
    ran.err
}

/// An image as a crash of its daemon leaves it: `kept` was synced and `lost` was not, and the log
/// holds changes.
fn crashed(bench: &Bench, newfs: &str) {
    bench.shell("mkdir -p mnt");
    bench.ok(&format!("newfs -s 32m {newfs} live.img"));
    said(bench, "mount -o commit=300 live.img mnt");
    bench.write("mnt/kept", "synced");
    File::open(bench.path("mnt/kept")).unwrap().sync_all().unwrap();
    bench.write("mnt/lost", "not synced");
    bench.shell("cp live.img a.img");
    said(bench, "umount mnt");
}

/// Promise: the first mount makes a log and says so once with its size and file, later ones go on
/// with it in silence; nolog, sync and read-only mounts make none.
#[test]
fn mounts_make_one() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    bench.ok("newfs -s 32m a.img");
    let clean = std::fs::read(bench.path("a.img")).unwrap();
    for options in ["nolog", "sync", "dirsync", "ro"] {
        assert_eq!(said(&bench, &format!("mount -o {options} a.img mnt")), "", "{options}");
        assert_eq!(said(&bench, "umount mnt"), "");
        assert!(std::fs::read(bench.path("a.img")).unwrap() == clean, "{options}");
    }
    bench.fails("mount a.img missing", 32, &["missing"]);
    assert!(std::fs::read(bench.path("a.img")).unwrap() == clean, "a mount that failed");
    bench.fails("mount -o log,sync a.img mnt", 32, &["sync", "log"]);
    bench.ok("mkdir a.img:/by-hand");
    assert!(!bench.ok("ls -a a.img:/").contains(".spindlelog"), "a command makes none");
    let told = said(&bench, "mount -o logsize=512k a.img mnt");
    assert!(told.contains("a.img: made a log of 512 KiB: the file /.spindlelog"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert_eq!(said(&bench, "umount mnt"), "");
    assert_eq!(said(&bench, "mount a.img mnt"), "");
    assert!(std::fs::remove_file(bench.path("mnt/.spindlelog")).is_err());
    assert_eq!(said(&bench, "umount mnt"), "");
    bench.check("a.img");
    bench.ok("newfs -s 4m small.img");
    let told = said(&bench, "mount small.img mnt");
    assert!(told.contains("no log") && told.contains("after a crash"), "{told}");
    said(&bench, "umount mnt");
    bench.ok("newfs -t v7 -s 2m old.img");
    assert_eq!(said(&bench, "mount old.img mnt"), "");
    said(&bench, "umount mnt");
    let told = said(&bench, "mount -o log old.img mnt");
    assert!(told.contains("no log") && told.contains("after a crash"), "{told}");
    said(&bench, "umount mnt");
}

/// Promise: after a crash, commands that read and read-only mounts show the state that the log
/// makes, say so in one line and write nothing; a mount that writes recovers it and says how much.
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
        let told = said(&bench, "mount -o ro a.img mnt");
        assert!(told.contains("nothing is written") && told.lines().count() == 1, "{newfs}: {told}");
        assert_eq!(std::fs::read(bench.path("mnt/kept")).unwrap(), b"synced");
        said(&bench, "umount mnt");
        assert!(std::fs::read(bench.path("a.img")).unwrap() == before, "{newfs}");
        let told = said(&bench, "mount a.img mnt");
        assert!(
            told.contains("a.img: recovered ") && told.contains(" blocks from the log"),
            "{newfs}: {told}"
        );
        assert_eq!(told.lines().count(), 1, "{newfs}: {told}");
        assert_eq!(std::fs::read(bench.path("mnt/kept")).unwrap(), b"synced");
        assert!(!bench.path("mnt/lost").exists());
        said(&bench, "umount mnt");
        bench.check("a.img");
    }
}

/// Promise: when the image cannot be written any more, that is told, who asks for a change is
/// refused, reading goes on, and the daemon and who unmounts hear that not everything is there; the
/// next mount recovers what had been made durable.
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
    // The kernel writes back when it likes: the failure itself, or that nothing is written any
    // more.
    assert!(matches!(error.raw_os_error(), Some(5 | 30)), "{error}");
    let refused = std::fs::create_dir(bench.path("mnt/late")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(std::fs::read(bench.path("mnt/kept")).unwrap(), b"synced");
    bench.fails("umount mnt", 32, &["could not be written completely", "too large"]);
    let ended = Ran::from(daemon.wait_with_output().unwrap());
    assert_eq!(ended.code, 32, "{}", ended.err);
    let told = ended.err.matches("no more changes are accepted").count();
    assert_eq!(told, 1, "{}", ended.err);
    let told = said(&bench, "mount a.img mnt");
    assert!(told.contains("recovered"), "{told}");
    assert_eq!(std::fs::read(bench.path("mnt/kept")).unwrap(), b"synced");
    said(&bench, "umount mnt");
    bench.check("a.img");
}

/// Promise: on a crashed image `fsck -n` looks at what the log makes and changes nothing, `fsck -p`
/// carries the log out, both find no damage; info tells where the log is, how large and in what
/// state.
#[test]
fn checked_and_told() {
    for newfs in ["", "-O1 --dialect 44bsd --endian big", "-O2 --dialect netbsd"] {
        let bench = Bench::new();
        crashed(&bench, newfs);
        let before = std::fs::read(bench.path("a.img")).unwrap();
        let told = bench.ok("fsck -n a.img");
        assert!(told.contains("checking what its log (") && told.contains("no damage found\n"), "{told}");
        let log = bench.json("info --json a.img")["file_system"]["log"].clone();
        assert_eq!(
            (&log["state"], &log["len"], &log["writer"]),
            (&"recovery".into(), &(1 << 20).into(), &"Spindle".into())
        );
        assert!(log["blocks"].as_u64().unwrap() > 0 && log["ino"].as_u64().unwrap() > 2, "{log}");
        assert!(bench.ok("info a.img").contains(" blocks to be carried out, written by Spindle\n"));
        assert!(std::fs::read(bench.path("a.img")).unwrap() == before, "{newfs}");
        let told = bench.ok("fsck -p a.img");
        assert!(told.contains("recovered ") && told.contains("no damage found\n"), "{told}");
        assert_eq!(bench.json("info --json a.img")["file_system"]["log"]["state"], "empty");
        assert_eq!(bench.ok("cat a.img:/kept"), "synced");
        assert!(!bench.ok("fsck -n a.img").contains("log"));
    }
}

/// Promise: a log that must not be believed is told with the reason.
#[test]
fn useless_logs() {
    let bench = Bench::new();
    crashed(&bench, "--no-check-hashes");
    // As another system that writes the superblock: its time is another.
    bench.shell("printf '\\001' | dd bs=1 seek=$((65536 + 1072 + 3)) conv=notrunc of=a.img status=none");
    let told = bench.run("fsck -n a.img").out;
    assert!(told.contains("another system has written to it"), "{told}");
    let told = bench.ok("info a.img");
    assert!(told.contains("useless: another system") && told.contains("mounts read-only"), "{told}");
}

/// Promise: newfs and tunefs make a log, tunefs changes its size and takes it off, and the image
/// has no damage after each.
#[test]
fn made_and_taken_off() {
    for newfs in ["", "-O1 --dialect sun", "-O2 --dialect netbsd"] {
        let bench = Bench::new();
        let planned = bench.ok(&format!("newfs -N -s 32m --log {newfs} a.img"));
        assert!(planned.contains("log: 1 MiB, if that many bytes are free in one place\n"), "{planned}");
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

/// Promise: a log is taken off an unclean image only if that is insisted on, and never made there,
/// because it would vouch for what nobody has checked.
#[test]
fn unclean_images_get_none() {
    let bench = Bench::new();
    bench.ok("newfs -s 32m --log --no-check-hashes a.img");
    // fs_clean, and a log that counts no more, as another system leaves them.
    bench.shell("printf '\\000' | dd bs=1 seek=$((65536 + 209)) conv=notrunc of=a.img status=none");
    bench.shell("printf '\\001' | dd bs=1 seek=$((65536 + 1072 + 3)) conv=notrunc of=a.img status=none");
    bench.fails("tunefs --log=none a.img", 1, &["not unmounted cleanly"]);
    assert_eq!(bench.ok("tunefs --force --log=none a.img"), "log changes from 1 MiB to none\n");
    bench.fails("tunefs --force --log a.img", 1, &["no log is made", "not unmounted cleanly"]);
    assert!(bench.ok("info a.img").contains("not clean"));
}
