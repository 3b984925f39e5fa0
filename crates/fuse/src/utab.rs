//! Having umount(8) call our helper.
//!
//! umount(8) unmounts by itself what root wants to unmount, and so returns before the daemon has
//! completed the image, and does not hear that data was lost. It leaves the work to the program
//! `umount.TYPE` if the option `uhelper=TYPE` is noted for the mount in libmount's table,
//! `/run/mount/utab`: lines of `KEY=VALUE`, replaced as a whole under a lock on `utab.lock`.

use crate::mountinfo;
use nix::fcntl::{Flock, FlockArg};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// libmount's directory.
const DIRECTORY: &str = "/run/mount";
/// The type, and where umount(8) looks for its helpers.
const HELPER: &str = "fuse.spindle";
const HELPER_DIRECTORIES: [&str; 3] = ["/sbin", "/sbin/fs.d", "/sbin/fs"];

/// The line of a mount, which is removed with this value.
#[derive(Debug)]
pub(crate) struct Line {
    target: Vec<u8>,
}

impl Line {
    /// Notes that umount(8) is to call the helper for the mount on `target`. Does nothing if the
    /// helper is not installed, or libmount has no table here.
    pub(crate) fn add(target: &Path) -> Option<Self> {
        let is_helper = |dir: &&&str| Path::new(dir).join(format!("umount.{HELPER}")).exists();
        HELPER_DIRECTORIES.iter().find(is_helper)?;
        let source = mountinfo::mounted_on(target).ok()??.source;
        let target = field(b"TARGET=", target.as_os_str());
        let mut line = field(b"SRC=", source.as_os_str());
        line.push(b' ');
        line.extend_from_slice(&target);
        line.extend_from_slice(format!(" ROOT=/ ATTRS=uhelper={HELPER}").as_bytes());
        match change(&target, Some(&line)) {
            Ok(()) => Some(Self { target }),
            Err(error) => {
                log::debug!("umount(8) will not wait for the image: {DIRECTORY}/utab: {error}");
                None
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Err(error) = change(&self.target, None) {
            log::debug!("{DIRECTORY}/utab: {error}");
        }
    }
}

/// Returns a field with its value, in which space, tab, newline and backslash are octal numbers.
fn field(key: &[u8], value: &OsStr) -> Vec<u8> {
    let mut field = key.to_vec();
    for &byte in value.as_bytes() {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\\') {
            field.extend_from_slice(format!("\\{byte:03o}").as_bytes());
        } else {
            field.push(byte);
        }
    }
    field
}

/// Returns the table with `line` instead of our lines that have the field `target`.
fn changed(table: &[u8], target: &[u8], line: Option<&[u8]>) -> Vec<u8> {
    let ours = format!("uhelper={HELPER}");
    let is_replaced = |old: &&[u8]| {
        let words: Vec<_> = old.split(|&byte| byte == b' ').collect();
        words.contains(&target) && words.iter().any(|word| word.ends_with(ours.as_bytes()))
    };
    let kept = table.split(|&byte| byte == b'\n').filter(|old| !old.is_empty() && !is_replaced(old));
    kept.chain(line).flat_map(|line| [line, b"\n"]).flatten().copied().collect()
}

fn change(target: &[u8], line: Option<&[u8]>) -> io::Result<()> {
    let directory = Path::new(DIRECTORY);
    if line.is_some() {
        fs::create_dir_all(directory)?;
    }
    let writable = |name: &str, truncate| {
        let path = directory.join(name);
        let open = File::options().write(true).create(true).truncate(truncate).mode(0o644).open(&path);
        open.map(|file| (file, path))
    };
    let (lock, _) = writable("utab.lock", false)?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| error)?;
    let path = directory.join("utab");
    let table = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        table => table?,
    };
    let new = changed(&table, target, line);
    if new == table {
        return Ok(());
    }
    let (mut file, temporary) = writable("utab.spindle", true)?;
    file.write_all(&new)?;
    fs::rename(temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: lines of others stay; ours for the same directory is replaced, and removed.
    #[test]
    fn lines_are_replaced() {
        let other = b"ID=30 SRC=/dev/sda1 TARGET=/a\\040b ROOT=/ OPTS=_netdev\n";
        let target = field(b"TARGET=", OsStr::new("/a b"));
        assert_eq!(target, b"TARGET=/a\\040b");
        let line = |source: &str| format!("SRC={source} TARGET=/a\\040b ROOT=/ ATTRS=uhelper={HELPER}");
        let table = changed(other, &target, Some(line("x").as_bytes()));
        assert_eq!(table, [&other[..], line("x").as_bytes(), b"\n"].concat());
        let again = changed(&table, &target, Some(line("y").as_bytes()));
        assert_eq!(again, [&other[..], line("y").as_bytes(), b"\n"].concat());
        assert_eq!(changed(&again, &target, None), other);
        assert_eq!(changed(&again, b"TARGET=/a", None), again);
    }
}
