//! File flags that the kernel does not know: nothing that was written before is lost by them, and
//! what they forbid is neither stored nor shown, and is reported.

use crate::errno;
use crate::harness::{Mounted, in_both_modes};
use spindle_vfs::FileSystem;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::time::{Duration, SystemTime};

fn chattr(m: &Mounted, change: &str, name: &str) {
    assert!(Command::new("chattr").arg(change).arg(m.path(name)).status().unwrap().success());
}

/// A page of a file, mapped shared.
struct Page(*mut libc::c_void);

#[allow(unsafe_code)] // The page is mapped until this is dropped, and no reference to it is made.
impl Page {
    const BYTES: usize = 4096;

    fn map(file: &File) -> Self {
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        let at = unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES, access, libc::MAP_SHARED, fd, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at)
    }

    fn store(&self, byte: u8) {
        unsafe { self.0.cast::<u8>().write_volatile(byte) };
    }

    fn sync(&self) -> i32 {
        let result = unsafe { libc::msync(self.0, Self::BYTES, libc::MS_SYNC) };
        if result == 0 { 0 } else { nix::errno::Errno::last_raw() }
    }
}

#[allow(unsafe_code)]
impl Drop for Page {
    fn drop(&mut self) {
        unsafe { libc::munmap(self.0, Self::BYTES) };
    }
}

#[allow(unsafe_code)] // The descriptor is the caller's own.
fn close(file: File) -> i32 {
    let result = unsafe { libc::close(file.into_raw_fd()) };
    if result == 0 { 0 } else { nix::errno::Errno::last_raw() }
}

/// Promise: what was written before a file became immutable or append-only is stored, with its
/// time, whether the kernel had passed it on or not.
#[test]
fn what_was_written_before_is_stored() {
    in_both_modes("", |mut m| {
        for (name, change) in [("immutable", "+i"), ("append-only", "+a")] {
            fs::write(m.path(name), vec![b'a'; 8192]).unwrap();
            let file = OpenOptions::new().read(true).write(true).open(m.path(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            let page = Page::map(&file);
            page.store(b'1');
            file.write_all_at(b"2", 4096).unwrap();
            chattr(&m, change, name);
            let mut bytes = vec![b'a'; 8192];
            (bytes[0], bytes[4096]) = (b'1', b'2');
            drop(page);
            assert_eq!(close(file), 0, "{name}");
            assert!(fs::read(m.path(name)).unwrap() == bytes, "{name}");
            m.remount();
            assert!(fs::read(m.path(name)).unwrap() == bytes, "{name}");
            assert_ne!(fs::metadata(m.path(name)).unwrap().mtime(), 0, "{name}");
            chattr(&m, "-ia", name);
        }
    });
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

/// Promise: a store into a shared mapping of an immutable or append-only file fails at `msync`, at
/// `fsync`, or at the close after it, and a write at once or at the close; nobody reads any more
/// what was stored, the file is as it was, and the unmount names it.
#[test]
fn forbidden_stores_are_reported() {
    in_both_modes("", |mut m| {
        for (name, change) in [("immutable", "+i"), ("append-only", "+a")] {
            fs::write(m.path(name), vec![b'a'; 8192]).unwrap();
            chattr(&m, change, name);
            let open = || OpenOptions::new().read(true).write(true).open(m.path(name)).unwrap();
            // The kernel drops the page after it has reported the failure.
            let is_whole = || {
                (0..500).any(|_| {
                    std::thread::sleep(Duration::from_millis(10));
                    fs::read(m.path(name)).unwrap() == vec![b'a'; 8192]
                })
            };
            let file = open();
            let page = Page::map(&file);
            page.store(b'X');
            assert_ne!(page.sync(), 0, "{name}: msync");
            assert!(is_whole(), "{name}: msync");
            page.store(b'Y');
            assert!(file.sync_all().is_err(), "{name}: fsync");
            assert!(is_whole(), "{name}: fsync");
            page.store(b'Z');
            drop(page);
            assert_ne!(close(file), 0, "{name}: close");
            assert!(is_whole(), "{name}: close");
            let file = open();
            let (written, closed) = (file.write_all_at(b"w", 0), close(file));
            assert!(written.is_err() || closed != 0, "{name}: write");
            assert!(is_whole(), "{name}: write");
            let attr = m.fs.lookup(m.fs.root(), name.as_bytes()).unwrap();
            m.fs.forget(attr.ino, 1);
            let mut bytes = vec![0; 8192];
            assert_eq!(m.fs.read(attr.ino, 0, &mut bytes).unwrap(), 8192);
            assert!(bytes == vec![b'a'; 8192], "{name}");
            let lost = m.end().unwrap_err().to_string();
            assert!(lost.contains(&format!("4096 bytes of /{name} (operation not permitted)")), "{lost}");
            m.remount_ended();
            chattr(&m, "-ia", name);
        }
    });
}
