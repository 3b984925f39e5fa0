//! File flags that the kernel does not know, on a file that another process has mapped: nothing
//! that was written before is lost by them, and what they forbid is neither stored nor shown, and
//! is reported.

use crate::client::Client;
use crate::{TestMount, WRITE_MODES, lost_at_unmount};
use spindle_fuse::{Umount, umount};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The flags, with the names of files that have them.
const FLAGS: [(&str, &str); 2] = [("immutable", "+i"), ("append-only", "+a")];

/// Bytes of the files: the client's page, and one behind it.
const SIZE: usize = 8192;

fn chattr(change: &str, path: &Path) {
    assert!(Command::new("chattr").arg(change).arg(path).status().unwrap().success());
}

/// Promise: what was written before a file became immutable or append-only is stored, with its
/// time, whether the kernel had passed it on or not.
pub fn what_was_written_before_is_stored() {
    for (mode, (name, change)) in WRITE_MODES.into_iter().flat_map(|mode| FLAGS.map(|flag| (mode, flag))) {
        let mount_dir = TestMount::new();
        assert!(mount_dir.daemon(mode).status.success());
        let path = mount_dir.mount_point.join(name);
        fs::write(&path, [b'a'; SIZE]).unwrap();
        let mut client = Client::start(&path);
        for command in ["age", "map", "map-write 0 1", "write 4096 2"] {
            assert_eq!(client.ask(command), "ok", "{mode}, {name}: {command}");
        }
        chattr(change, &path);
        assert_eq!(client.ask("unmap"), "ok", "{mode}, {name}");
        assert_eq!(client.ask("close"), "ok", "{mode}, {name}");
        let mut bytes = [b'a'; SIZE];
        (bytes[0], bytes[4096]) = (b'1', b'2');
        assert!(fs::read(&path).unwrap() == bytes, "{mode}, {name}");
        drop(client);
        umount(&mount_dir.mount_point, Umount::Unused).unwrap();
        let expected = format!("{name}={}\n", String::from_utf8_lossy(&bytes));
        assert!(fs::read_to_string(mount_dir.report()).unwrap() == expected, "{mode}, {name}");
    }
}

/// Promise: a store into a shared mapping of an immutable or append-only file fails at `msync`, at
/// `fsync`, or at the close after it, and a write at once or at the close; nobody reads any more
/// what was stored, the file is as it was, and the unmount names it.
pub fn forbidden_stores_are_reported() {
    for (mode, (name, change)) in WRITE_MODES.into_iter().flat_map(|mode| FLAGS.map(|flag| (mode, flag))) {
        let mount_dir = TestMount::new();
        let mut server = mount_dir.foreground_with(mode);
        let path = mount_dir.mount_point.join(name);
        fs::write(&path, [b'a'; SIZE]).unwrap();
        chattr(change, &path);
        // The kernel drops the page after it has reported the failure.
        let is_whole = || {
            (0..500).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                fs::read(&path).unwrap() == [b'a'; SIZE]
            })
        };
        let mut client = Client::start(&path);
        assert_eq!(client.ask("map"), "ok");
        for (byte, ending) in [("X", "msync"), ("Y", "fsync"), ("Z", "close")] {
            assert_eq!(client.ask(&format!("map-write 0 {byte}")), "ok");
            if ending == "close" {
                assert_eq!(client.ask("unmap"), "ok");
            }
            assert_ne!(client.ask(ending), "ok", "{mode}, {name}: {ending}");
            assert!(is_whole(), "{mode}, {name}: {ending}");
        }
        assert_eq!(client.ask("reopen"), "ok");
        let answers = [client.ask("write 0 w"), client.ask("close")];
        assert_ne!(answers, ["ok", "ok"], "{mode}, {name}: write");
        assert!(is_whole(), "{mode}, {name}: write");
        drop(client);
        let lost = lost_at_unmount(&mount_dir, &mut server);
        assert!(lost.contains(&format!("4096 bytes of /{name} (operation not permitted)")), "{lost}");
        let report = fs::read_to_string(mount_dir.report()).unwrap();
        assert!(report == format!("{name}={}\n", "a".repeat(SIZE)), "{mode}, {name}");
    }
}
