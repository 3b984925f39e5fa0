//! File flags that the kernel does not know. Those of files that are mapped are tested between
//! processes (`tests/processes/flags.rs`).

use crate::errno;
use crate::harness::{Mounted, in_both_modes};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::SystemTime;

fn chattr(m: &Mounted, change: &str, name: &str) {
    assert!(Command::new("chattr").arg(change).arg(m.path(name)).status().unwrap().success());
}

/// Promise: an append to an append-only file is stored, with its time.
#[test]
fn appends_have_their_time() {
    in_both_modes("", |mut m| {
        let mut file = File::create(m.path("log")).unwrap();
        file.write_all(b"first\n").unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        file.sync_all().unwrap();
        drop(file);
        chattr(&m, "+a", "log");
        let mut file = OpenOptions::new().append(true).open(m.path("log")).unwrap();
        file.write_all(b"second\n").unwrap();
        drop(file);
        m.remount();
        assert_eq!(fs::read(m.path("log")).unwrap(), b"first\nsecond\n");
        assert_ne!(fs::metadata(m.path("log")).unwrap().mtime(), 0);
        let set = File::open(m.path("log")).unwrap().set_modified(SystemTime::UNIX_EPOCH);
        assert_eq!(errno(&set.unwrap_err()), libc::EPERM);
    });
}
