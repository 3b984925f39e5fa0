//! Mounts that other users use: their permissions, and set-id bits after their writes.

use crate::harness::{Mounted, in_both_modes};
use crate::xattrs;
use nix::fcntl::FallocateFlags;
use spindle_vfs::FileSystem;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

const NOBODY: u32 = 65534;

/// Runs a shell command on the mount as a user without privilege. Returns true if it succeeded.
fn nobody(m: &Mounted, line: &str) -> bool {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).current_dir("/").env("M", m.path("")).uid(NOBODY).gid(NOBODY);
    command.stderr(std::process::Stdio::null()).status().unwrap().success()
}

/// Runs `work` in a thread without privilege.
fn as_nobody(work: impl FnOnce() + Send) {
    as_nobody_in(&[], work);
}

/// Does the same, as a member of these groups, too.
#[allow(unsafe_code)] // The system calls change only the calling thread, unlike the functions of the C library.
fn as_nobody_in(groups: &[libc::gid_t], work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let id = libc::c_long::from(NOBODY);
            unsafe {
                assert_eq!(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()), 0);
                assert_eq!(libc::syscall(libc::SYS_setresgid, id, id, id), 0);
                assert_eq!(libc::syscall(libc::SYS_setresuid, id, id, id), 0);
            }
            work();
        });
        thread.join().unwrap();
    });
}

/// Copies with `copy_file_range(2)` at the current offsets of the files.
#[allow(unsafe_code)] // Without offsets it takes no pointers.
fn copy(from: &File, to: &File, len: usize) {
    let none = std::ptr::null_mut;
    let copied = unsafe { libc::copy_file_range(from.as_raw_fd(), none(), to.as_raw_fd(), none(), len, 0) };
    assert_eq!(usize::try_from(copied), Ok(len));
}

fn set_mode(m: &Mounted, name: &str, mode: u32) {
    fs::set_permissions(m.path(name), Permissions::from_mode(mode)).unwrap();
}

fn mode(m: &Mounted, name: &str) -> u32 {
    fs::metadata(m.path(name)).unwrap().mode() & 0o7777
}

/// Promise: other users can use the mount only with `allow_other`, and then the kernel enforces
/// owners and modes.
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

/// Promise: writes, truncations and changes of owner clear set-id bits, in the file and in the
/// kernel's cache, with every kind of write, with extended attributes and without. Writes by root
/// do not clear them.
#[test]
fn set_id_bits() {
    for words in ["allow_other", "allow_other,nouser_xattr"] {
        in_both_modes(words, |m| {
            fs::write(m.path("from"), b"from").unwrap();
            for (line, cleared) in [
                ("echo >> $M/f", true),
                (": > $M/f", true),
                ("truncate -s 3 $M/f", true),
                ("fallocate -l 9999 $M/f", true),
                ("fallocate -p -l 4096 $M/f", true),
                ("fallocate -z -l 4096 $M/f", true),
                ("dd if=/dev/zero of=$M/f bs=4096 count=1 conv=notrunc", true),
                ("dd if=/dev/zero of=$M/f bs=1M count=1 conv=notrunc", true),
                ("dd if=/dev/zero of=$M/f bs=4096 count=1 conv=notrunc oflag=direct", true),
                ("cp --reflink=never /etc/passwd $M/f", true),
                ("cat $M/f > /dev/null", false),
                ("chmod u+s $M/f; true", false),
            ] {
                fs::write(m.path("f"), b"program").unwrap();
                set_mode(&m, "f", 0o6777);
                assert!(nobody(&m, line), "{line}");
                let expected = if cleared { 0o777 } else { 0o6777 };
                assert_eq!(mode(&m, "f"), expected, "{words}: {line}");
                let attr = m.fs.lookup(m.fs.root(), b"f").unwrap();
                m.fs.forget(attr.ino, 1);
                assert_eq!(attr.perm, expected, "{words}: {line}");
            }
            set_mode(&m, "f", 0o6777);
            as_nobody(|| {
                let to = OpenOptions::new().write(true).open(m.path("f")).unwrap();
                let from = File::open(m.path("from")).unwrap();
                copy(&from, &to, 4);
            });
            assert_eq!(mode(&m, "f"), 0o777, "{words}: copy_file_range");
            set_mode(&m, "f", 0o6777);
            fs::write(m.path("f"), b"new program").unwrap();
            assert_eq!(mode(&m, "f"), 0o6777, "{words}: root");
            chown(m.path("f"), Some(1), Some(1)).unwrap();
            assert_eq!(mode(&m, "f"), 0o777, "{words}: chown");
            // Set-group-id without group execution has another meaning, and stays if root or a
            // member of the group changes the file.
            let changes: [fn(&File); 3] = [
                |mut file| file.write_all(b"x").unwrap(),
                |file| file.set_len(3).unwrap(),
                |file| nix::fcntl::fallocate(file, FallocateFlags::empty(), 0, 9999).unwrap(),
            ];
            for (gid, groups, expected) in [(1, &[7][..], 0o766), (1, &[7, 1], 0o2766), (NOBODY, &[], 0o2766)]
            {
                chown(m.path("f"), Some(2), Some(gid)).unwrap();
                for (n, change) in changes.into_iter().enumerate() {
                    set_mode(&m, "f", 0o2766);
                    let path = m.path("f");
                    as_nobody_in(groups, || change(&OpenOptions::new().append(true).open(path).unwrap()));
                    assert_eq!(mode(&m, "f"), expected, "{words}: change {n} with groups {groups:?}");
                }
            }
            set_mode(&m, "f", 0o2766);
            chown(m.path("f"), Some(3), None).unwrap();
            assert_eq!(mode(&m, "f"), 0o2766, "{words}: root");
        });
    }
}

/// Promise: a new program keeps the set-group-id bit if its maker is in the group that it gets, by
/// whichever of his groups, and loses it otherwise.
#[test]
fn new_programs_of_a_group() {
    for words in ["allow_other", "allow_other,grpid"] {
        let Some(m) = Mounted::new(words) else { return };
        fs::create_dir(m.path("d")).unwrap();
        chown(m.path("d"), Some(NOBODY), Some(1)).unwrap();
        set_mode(&m, "d", if words.ends_with("grpid") { 0o777 } else { 0o2777 });
        for (name, groups, expected) in [("d/theirs", &[7, 1][..], 0o2755), ("d/others", &[7], 0o755)] {
            let path = m.path(name);
            as_nobody_in(groups, || {
                OpenOptions::new().write(true).create_new(true).mode(0o2755).open(path).unwrap();
            });
            assert_eq!((mode(&m, name), fs::metadata(m.path(name)).unwrap().gid()), (expected, 1), "{words}");
        }
    }
}

/// Promise: after any kind of write by another user, a program no longer runs as its owner.
#[test]
fn overwritten_programs_have_no_privilege() {
    in_both_modes("allow_other,suid", |m| {
        let runs_as_root = || nobody(&m, "test $($M/id -u) = 0");
        for line in [
            "dd if=/usr/bin/id of=$M/id bs=4096 count=1 conv=notrunc oflag=direct",
            "dd if=/usr/bin/id of=$M/id bs=1M conv=notrunc",
            "fallocate -l 4096 $M/id",
            "fallocate -p -o 1M -l 4096 $M/id",
            "truncate -s 1M $M/id",
        ] {
            fs::copy("/usr/bin/id", m.path("id")).unwrap();
            chown(m.path("id"), Some(0), Some(0)).unwrap();
            set_mode(&m, "id", 0o4777);
            assert!(runs_as_root(), "{line}");
            assert!(nobody(&m, line), "{line}");
            assert!(!runs_as_root(), "{line}");
            assert!(nobody(&m, "$M/id -u"), "{line}: it still runs");
        }
    });
}

/// Promise: access to attributes of `user` needs the permissions of the file, attributes of
/// `system` and `trusted` are only for the superuser, and other name spaces do not exist.
#[test]
fn extended_attributes_of_others() {
    use xattrs::{get, list, remove, set};
    let Some(m) = Mounted::new("allow_other") else { return };
    let path = m.path("f");
    fs::write(&path, b"").unwrap();
    chown(&path, Some(NOBODY), None).unwrap();
    set(&path, "user.a", b"v").unwrap();
    set(&path, "system.a", b"v").unwrap();
    set(&path, "trusted.a", b"v").unwrap();
    assert_eq!(set(&path, "security.a", b"v"), Err(libc::EOPNOTSUPP));
    as_nobody(|| {
        // This user is the owner, but not the superuser.
        set(&path, "user.a", b"w").unwrap();
        assert_eq!(set(&path, "system.a", b"w"), Err(libc::EPERM));
        assert_eq!(get(&path, "system.a"), Err(libc::ENODATA));
        assert_eq!(remove(&path, "system.a"), Err(libc::EPERM));
        assert_eq!(get(&path, "trusted.a"), Err(libc::ENODATA));
        assert!(set(&path, "trusted.a", b"w").is_err() && set(&path, "security.a", b"w").is_err());
        assert!(remove(&path, "trusted.a").is_err());
        assert_eq!(list(&path).unwrap(), b"user.a\0");
    });
    assert_eq!(get(&path, "system.a").unwrap(), b"v");
    assert_eq!(get(&path, "trusted.a").unwrap(), b"v");
    assert_eq!(list(&path).unwrap(), b"system.a\0trusted.a\0user.a\0");
    chown(&path, Some(0), None).unwrap();
    set_mode(&m, "f", 0o644);
    as_nobody(|| {
        assert_eq!(get(&path, "user.a").unwrap(), b"w");
        assert_eq!(set(&path, "user.a", b"x"), Err(libc::EACCES));
        assert_eq!(remove(&path, "user.a"), Err(libc::EACCES));
    });
    set_mode(&m, "f", 0o600);
    as_nobody(|| assert_eq!(get(&path, "user.a"), Err(libc::EACCES)));
    assert_eq!(get(&path, "user.a").unwrap(), b"w");
}

/// Promise: with `allow_root` other users have no access, not even to data in the kernel's cache.
#[test]
fn allow_root() {
    let Some(m) = Mounted::new("allow_root") else { return };
    fs::create_dir(m.path("d")).unwrap();
    fs::write(m.path("d/f"), b"x").unwrap();
    assert_eq!(fs::read(m.path("d/f")).unwrap(), b"x");
    for line in ["cat $M/d/f", "stat $M/d/f", "stat $M", "ls $M/d", "cd $M"] {
        assert!(!nobody(&m, line), "{line}");
    }
}
