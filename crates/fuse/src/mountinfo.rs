//! The table of mounts, `/proc/self/mountinfo`. It shows which mount is on a directory without an
//! access to the mounted file system.

use crate::{Error, Result};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A device number `major:minor`, which identifies a file system while it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MountDevice {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl std::fmt::Display for MountDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl std::str::FromStr for MountDevice {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let (major, minor) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self { major: major.parse()?, minor: minor.parse()? })
    }
}

/// A FUSE mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuseMount {
    /// The directory, an absolute path without symbolic links.
    pub dir: PathBuf,
    /// What is mounted, as the table shows it.
    pub source: PathBuf,
    /// The device number of its file system, `major:minor`.
    pub device: String,
    /// The user who mounted it.
    pub user: u32,
    /// Nothing can be changed.
    pub read_only: bool,
}

impl FuseMount {
    /// Returns the FUSE mount on exactly the directory `dir`.
    ///
    /// # Errors
    /// If nothing is mounted there, or something else.
    pub fn on(dir: &Path) -> Result<Self> {
        let dir = canonical(dir).map_err(|e| Error::mount("look at", dir, e))?;
        Ok(fuse_mount_on(&dir)?.into())
    }
}

impl From<MountEntry> for FuseMount {
    fn from(entry: MountEntry) -> Self {
        let MountEntry { device, mount_point: dir, source, read_only, user_id, .. } = entry;
        // Every FUSE mount has the option user_id.
        Self { dir, source, device: device.to_string(), user: user_id.unwrap_or(0), read_only }
    }
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    /// Number of the mount; a file system can have several mounts.
    id: u32,
    pub(crate) device: MountDevice,
    pub(crate) mount_point: PathBuf,
    pub(crate) source: PathBuf,
    read_only: bool,
    pub(crate) fs_type: String,
    /// The user who mounted it, for a FUSE mount.
    pub(crate) user_id: Option<u32>,
}

impl MountEntry {
    /// Returns true for a FUSE mount with a subtype.
    pub(crate) fn is_fuse(&self) -> bool {
        ["fuse.", "fuseblk."].iter().any(|kind| self.fs_type.starts_with(kind))
    }
}

/// Returns the FUSE mounts that this process sees, in the order in which they were mounted.
///
/// # Errors
/// If the table of mounts cannot be read.
pub fn fuse_mounts() -> Result<Vec<FuseMount>> {
    let fuse = all()?.into_iter().filter(MountEntry::is_fuse);
    Ok(fuse.map(FuseMount::from).collect())
}

/// Returns the topmost mount on exactly this directory if it is a FUSE mount.
pub(crate) fn fuse_mount_on(dir: &Path) -> Result<MountEntry> {
    let Some(entry) = mounted_on(dir)? else {
        return Err(Error::State(format!("nothing is mounted on {}", dir.display())));
    };
    if !entry.is_fuse() {
        let (dir, found) = (dir.display(), entry.fs_type);
        return Err(Error::State(format!("{dir} is a mount of type {found}, not of Spindle")));
    }
    Ok(entry)
}

/// Returns the topmost mount on exactly this directory, an absolute path without symbolic links.
pub(crate) fn mounted_on(dir: &Path) -> Result<Option<MountEntry>> {
    Ok(all()?.into_iter().rfind(|entry| entry.mount_point == dir))
}

/// Returns true if the file system of `mount` is also mounted at another place that this process
/// sees. Call it while `mount` exists: afterwards another file system may get its device number.
pub(crate) fn is_elsewhere(mount: &MountEntry) -> Result<bool> {
    Ok(all()?.iter().any(|entry| entry.device == mount.device && entry.id != mount.id))
}

/// Returns true if a file system with this number is mounted at any place that this process sees.
pub(crate) fn is_mounted(device: MountDevice) -> Result<bool> {
    Ok(!with_number(device)?.is_empty())
}

/// Returns the mounts of the file system with this number.
pub(crate) fn with_number(device: MountDevice) -> Result<Vec<MountEntry>> {
    Ok(all()?.into_iter().filter(|entry| entry.device == device).collect())
}

fn all() -> Result<Vec<MountEntry>> {
    const PATH: &str = "/proc/self/mountinfo";
    let text = std::fs::read(PATH).map_err(|e| Error::system(format!("cannot read {PATH}"), e))?;
    Ok(text.split(|&b| b == b'\n').filter_map(parse_line).collect())
}

/// Parses a line. Its fields are, after proc(5): id, parent, device, root, mount point, options,
/// optional fields, `-`, type, source, super-block options.
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&b| b == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
    let mount_point = path(fields.nth(1)?);
    let options = fields.next()?;
    let mut fields = fields.skip_while(|&field| field != b"-").skip(1);
    let fs_type = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = path(fields.next().unwrap_or_default());
    let super_options = fields.next().unwrap_or_default();
    let read_only = [options, super_options]
        .iter()
        .any(|options| options.split(|&b| b == b',').any(|word| word == b"ro"));
    let user_id = super_options
        .split(|&b| b == b',')
        .find_map(|option| std::str::from_utf8(option.strip_prefix(b"user_id=")?).ok()?.parse().ok());
    Some(MountEntry { id, device, mount_point, source, read_only, fs_type, user_id })
}

fn path(field: &[u8]) -> PathBuf {
    OsString::from_vec(unescape(field)).into()
}

/// Returns a field with its escapes resolved: space, tab, newline and backslash are escaped as a
/// backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|d| first == b'\\' && d.iter().all(|b| (b'0'..=b'7').contains(b)));
        let code = octal.map(|d| d.iter().fold(0u32, |code, digit| code * 8 + u32::from(digit - b'0')));
        let byte = code.and_then(|code| u8::try_from(code).ok());
        rest = if byte.is_some() { &tail[3..] } else { tail };
        bytes.push(byte.unwrap_or(first));
    }
    bytes
}

/// Returns true if an access failed because the daemon of the mount has died. What was asked while
/// it died is aborted: with `io_uring` the system ends the connection a moment after the process.
pub(crate) fn is_dead(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED))
}

/// Returns the path without symbolic links, also in its last component. Does not access the file
/// system that is mounted there.
pub(crate) fn canonical(dir: &Path) -> std::io::Result<PathBuf> {
    // `canonicalize` only reads symbolic links, but fails on the root of a dead mount; then
    // only the parent is resolved.
    dir.canonicalize().or_else(|error| {
        let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else { return Err(error) };
        let parent = if parent.as_os_str().as_bytes().is_empty() { Path::new(".") } else { parent };
        if is_dead(&error) { Ok(parent.canonicalize()?.join(name)) } else { Err(error) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: lines with any optional fields and escaped paths are parsed.
    #[test]
    fn lines_are_parsed() {
        let line = br"98 30 0:45 / /mnt/a\040b rw,nosuid shared:3 master:1 - fuse.spindle a\054b rw,user_id=7,group_id=0";
        let entry = parse_line(line).unwrap();
        assert_eq!(entry.id, 98);
        assert_eq!(entry.device, MountDevice { major: 0, minor: 45 });
        assert_eq!(entry.mount_point, Path::new("/mnt/a b"));
        assert_eq!((entry.fs_type.as_str(), entry.user_id), ("fuse.spindle", Some(7)));
        assert_eq!((entry.source.as_path(), entry.read_only), (Path::new("a,b"), false));
        let entry = parse_line(b"22 1 8:1 / / ro,noatime - ext4 /dev/sda1 rw").unwrap();
        assert!(entry.read_only && entry.source == Path::new("/dev/sda1"));
        assert_eq!((entry.fs_type.as_str(), entry.user_id), ("ext4", None));
        assert_eq!(parse_line(b"garbage"), None);
        assert_eq!(parse_line(b"1 2 x:y / / rw - t s o"), None);
    }

    /// Promise: only valid escapes are resolved.
    #[test]
    fn escapes() {
        assert_eq!(unescape(br"\134\777\04"), br"\\777\04");
    }
}
