//! The mounted file systems, as `/proc/self/mountinfo` lists them.

use crate::{Error, Result};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::path::Path;

const LIST: &str = "/proc/self/mountinfo";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    id: u64,
    /// Device number of the file system in the kernel's encoding. `stat` may return others: on
    /// btrfs each subvolume has one.
    device: u32,
    point: String,
}

/// The mounts of this process, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts(Vec<Mount>);

impl Mounts {
    /// Reads the list.
    pub fn read() -> Result<Self> {
        let text = std::fs::read(LIST).map_err(|source| Error::Io { path: LIST.into(), source })?;
        Ok(Self::parse(&text))
    }

    /// Parses a list (see `proc_pid_mountinfo(5)`); leaves out lines of another form.
    fn parse(text: &[u8]) -> Self {
        let mount = |line: &[u8]| {
            let mut words = line.split(|&byte| byte == b' ').map(unescaped);
            let id = words.next()?.parse().ok()?;
            let device = words.nth(1)?;
            let (major, minor) = device.split_once(':')?;
            let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
            Some(Mount { id, device: major << 20 | minor, point: words.nth(1)? })
        };
        Self(text.split(|&byte| byte == b'\n').filter_map(mount).collect())
    }

    /// Returns the device of the file system that contains `path`, in the kernel's encoding.
    pub fn device_of(&self, path: &Path) -> Result<u32> {
        let problem = |source| Error::Io { path: path.to_owned(), source };
        let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).map_err(|e| problem(e.into()))?;
        let mount = self.0.iter().find(|mount| mount.id == found.stx_mnt_id);
        mount
            .map(|mount| mount.device)
            .ok_or_else(|| problem(std::io::Error::other(format!("its mount is not in {LIST}"))))
    }

    /// Returns true if an absolute path is on the file system with this device, as far as its mount
    /// points say.
    pub fn is_on(&self, path: &str, device: u32) -> bool {
        let holds = |mount: &&Mount| is_below(path, &mount.point);
        // Of two on one point, the later one hides the other.
        let found = self.0.iter().filter(holds).max_by_key(|mount| mount.point.len());
        found.is_some_and(|mount| mount.device == device)
    }

    /// Returns true if a device is that of a mounted file system, in the kernel's encoding.
    pub fn has(&self, device: u32) -> bool {
        self.0.iter().any(|mount| mount.device == device)
    }
}

/// Returns true if `path` is `top`, or below it.
pub fn is_below(path: &str, top: &str) -> bool {
    let top = top.trim_end_matches('/');
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Replaces the octal numbers that stand for blanks and backslashes.
fn unescaped(word: &[u8]) -> String {
    let (mut out, mut rest) = (Vec::with_capacity(word.len()), word);
    while let Some((&byte, behind)) = rest.split_first() {
        let number = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        let escaped = behind.split_at_checked(3).filter(|_| byte == b'\\');
        let escaped = escaped.and_then(|(digits, behind)| Some((number(digits)?, behind)));
        let (byte, behind) = escaped.unwrap_or((byte, behind));
        out.push(byte);
        rest = behind;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /a\\040b rw - tmpfs tmpfs rw
31 30 0:26 / /a\\040b/c rw - overlay overlay rw
32 22 254:0 /sub /bind rw - ext4 /dev/vda rw
33 22 0:27 / /a\\040b rw - tmpfs tmpfs rw
nonsense
";

    /// Promise: a path is on the file system of the mount point nearest above it, of two on one
    /// point the later; blanks in their names are read.
    #[test]
    fn nearest_mount_points() {
        let mounts = Mounts::parse(TEXT);
        assert_eq!(mounts.0.len(), 5);
        for (path, device) in [
            ("/", 254 << 20),
            ("/a", 254 << 20),
            ("/a bc", 254 << 20),
            ("/bind/x", 254 << 20),
            ("/a b", 27),
            ("/a b/x/y", 27),
            ("/a b/c/x", 26),
        ] {
            assert!(mounts.is_on(path, device), "{path}");
            assert!(!mounts.is_on(path, 25), "{path}");
        }
        assert!(mounts.has(26) && !mounts.has(28));
    }

    /// Promise: the file system of a path is found, also through a symbolic link.
    #[test]
    fn devices_of_paths() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/proc", &link).unwrap();
        let mounts = Mounts::read().unwrap();
        let proc = std::fs::metadata("/proc").unwrap().dev();
        for path in [link.as_path(), Path::new("/proc")] {
            assert_eq!(u64::from(mounts.device_of(path).unwrap()), proc, "{path:?}");
        }
        assert!(mounts.device_of(&directory.path().join("none")).is_err());
    }
}
