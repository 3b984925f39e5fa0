//! What users other than root may do, and what their doing takes away.

use crate::harness::Mounted;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

const NOBODY: u32 = 65534;

/// Runs a line of shell in the mount as someone without privilege; true if it succeeded.
fn nobody(m: &Mounted, line: &str) -> bool {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).current_dir("/").env("M", m.path("")).uid(NOBODY).gid(NOBODY);
    command.stderr(std::process::Stdio::null()).status().unwrap().success()
}

fn set_mode(m: &Mounted, name: &str, mode: u32) {
    fs::set_permissions(m.path(name), Permissions::from_mode(mode)).unwrap();
}

fn mode(m: &Mounted, name: &str) -> u32 {
    fs::metadata(m.path(name)).unwrap().mode() & 0o7777
}

/// Promise: others come in only with `allow_other`, and then the kernel holds them to owners and modes.
#[test]
fn permissions() {
    let Some(m) = Mounted::new("") else { return };
    fs::write(m.path("open"), b"x").unwrap();
    assert!(!nobody(&m, "cat $M/open"));
    drop(m);
    let Some(m) = Mounted::new("allow_other") else { return };
    fs::write(m.path("open"), b"x").unwrap();
    fs::write(m.path("closed"), b"x").unwrap();
    set_mode(&m, "closed", 0o600);
    fs::create_dir(m.path("sticky")).unwrap();
    set_mode(&m, "sticky", 0o1777);
    fs::write(m.path("sticky/root's"), b"").unwrap();
    assert!(nobody(&m, "cat $M/open > /dev/null"));
    assert!(!nobody(&m, "cat $M/closed"));
    assert!(!nobody(&m, "echo > $M/new"));
    assert!(nobody(&m, "echo > $M/sticky/new && rm $M/sticky/new && mkdir $M/sticky/d"));
    assert_eq!(fs::metadata(m.path("sticky/d")).unwrap().uid(), NOBODY);
    assert!(!nobody(&m, "rm -f \"$M/sticky/root's\""));
    assert!(!nobody(&m, "chmod 666 $M/open || chown 65534 $M/open"));
    chown(m.path("sticky/d"), Some(NOBODY), Some(NOBODY)).unwrap();
    assert!(nobody(&m, "touch -d 1960-01-01T00:00:00.25Z $M/sticky/d && chmod 700 $M/sticky/d"));
    assert_eq!(fs::metadata(m.path("sticky/d")).unwrap().mtime_nsec(), 250_000_000);
}

/// Promise: writing, truncating and giving away clear set-id bits, whether the format has extended attributes (then
/// this crate does it) or not (then the kernel does); root writes without clearing them.
#[test]
fn set_id_bits() {
    for words in ["allow_other", "allow_other,nouser_xattr"] {
        let Some(m) = Mounted::new(words) else { return };
        for (line, cleared) in [
            ("echo >> $M/f", true),
            (": > $M/f", true),
            ("truncate -s 3 $M/f", true),
            ("fallocate -l 9999 $M/f", true),
            ("dd if=/dev/zero of=$M/f bs=4096 count=1 conv=notrunc", true),
            ("cat $M/f > /dev/null", false),
            ("chmod u+s $M/f; true", false),
        ] {
            fs::write(m.path("f"), b"program").unwrap();
            set_mode(&m, "f", 0o6777);
            assert!(nobody(&m, line), "{line}");
            assert_eq!(mode(&m, "f"), if cleared { 0o777 } else { 0o6777 }, "{words}: {line}");
        }
        set_mode(&m, "f", 0o6777);
        fs::write(m.path("f"), b"new program").unwrap();
        assert_eq!(mode(&m, "f"), 0o6777, "{words}: root");
        chown(m.path("f"), Some(1), Some(1)).unwrap();
        assert_eq!(mode(&m, "f"), 0o777, "{words}: chown");
        // Set-group-id without group execution means something else and stays.
        set_mode(&m, "f", 0o2766);
        assert!(nobody(&m, "echo >> $M/f"));
        chown(m.path("f"), Some(2), None).unwrap();
        assert_eq!(mode(&m, "f"), 0o2766, "{words}: no group execution");
    }
}
