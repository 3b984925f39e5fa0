//! What is on a device: a fast file system, an old one, a member of a set, a partition table, or
//! nothing known.

use crate::error::Result;
use crate::foreign::{START_BYTES, recognise, recognise_start, refusal};
use spindle_device::{Device, FileDevice, partitions};
use spindle_ffs::{Dialect, InodeFormat, Version};
use spindle_v7::Format;
use spindle_vfs::Error;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::str::FromStr;

pub use crate::foreign::is_dump;

/// What a device with the label of a set is.
const MEMBER: &str = "a member of a multi-structured file system";

/// The formats of old file systems, as a user names them.
pub(crate) const OLD_FORMATS: &str = "v7, 32v, bsd, sysv or sysv16";

/// The kind of a file system, by which a caller can replace the detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The fast file system in this dialect.
    Ffs(Dialect),
    /// An old file system in this format.
    Old(Format),
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let dialect: Result<Dialect, String> = name.parse();
        let old =
            || name.parse().map(Self::Old).map_err(|e| format!("not a dialect of the fast file system: {e}"));
        dialect.map_or_else(|_| old(), |dialect| Ok(Self::Ffs(dialect)))
    }
}

/// A file system found on a device.
#[derive(Clone, Debug)]
pub enum Found {
    /// A fast file system.
    Ffs(Box<spindle_ffs::Superblock>),
    /// An old file system.
    Old(Box<spindle_v7::Detected>),
    /// A member of a multi-structured file system: its label.
    Mfs(Box<spindle_mfs::Label>),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ffs(found) => {
                let version = version_name(found.layout.version, found.layout.inode_format);
                write!(f, "a {version} file system of {}", found.dialect)
            }
            Self::Old(found) => write!(f, "an old UNIX file system ({})", found.superblock.format),
            Self::Mfs(_) => f.write_str(MEMBER),
        }
    }
}

/// Returns the name of a version of UFS together with its format of inodes.
#[must_use]
pub const fn version_name(version: Version, inodes: InodeFormat) -> &'static str {
    match (version, inodes) {
        (Version::Ufs2, _) => "UFS2",
        (Version::Ufs1, InodeFormat::Old) => "UFS1 (old inodes)",
        (Version::Ufs1, InodeFormat::New) => "UFS1",
        (Version::Ufs1, InodeFormat::Sun) => "UFS1 (Solaris inodes)",
    }
}

/// Finds the file system on a device. Old file systems are tried last, as most of their formats
/// have no magic number.
///
/// # Errors
/// [`Error::Unsupported`] if there is none that this crate knows, [`Error::Corrupt`] if there is
/// one whose superblock cannot be used, and the device's errors.
pub fn detect(device: &dyn Device) -> spindle_vfs::Result<Found> {
    detect_as(device, None)
}

/// Finds the file system on a device; only one of this kind if there is a `kind`.
///
/// # Errors
/// As for [`detect`].
pub fn detect_as(device: &dyn Device, kind: Option<Kind>) -> spindle_vfs::Result<Found> {
    let old = |format| Ok(Found::Old(Box::new(spindle_v7::Superblock::open(device, format)?)));
    let ffs = || spindle_ffs::Superblock::open(device).map(Box::new);
    match kind {
        Some(Kind::Old(format)) => old(Some(format)),
        Some(Kind::Ffs(dialect)) => {
            let mut found = ffs()?;
            found.set_dialect(dialect);
            Ok(Found::Ffs(found))
        }
        None => match ffs() {
            Err(none @ Error::Unsupported { .. }) => match spindle_mfs::read_label(device)? {
                Some(label) => Ok(Found::Mfs(Box::new(label))),
                None => match old(None) {
                    Err(Error::Unsupported { .. }) => Err(refusal(device, neither(none))?),
                    found => found,
                },
            },
            found => Ok(Found::Ffs(found?)),
        },
    }
}

/// Returns the error of a device with neither a fast nor an old file system, from that of the
/// former: without its super-block an old one may be recognised by nothing but its name.
fn neither(none: Error) -> Error {
    match none {
        Error::Unsupported { what, remedy } => Error::unsupported(
            format!("{what}, nor one of V7 or System V"),
            format!(
                "{remedy}, or the format of an old UNIX disk (--dialect {OLD_FORMATS}; mount: -o \
                 dialect=; fsck: -t)"
            ),
        ),
        other => other,
    }
}

/// Finds the file system on a device as [`detect_as`] does; failing that, one that can at least be
/// read: a fast file system that the device holds only in part, or whose superblock is lost and has
/// copies, or an old one whose super-block is lost or has wrong sizes. `superblock` names the copy
/// to use: a sector of 512 bytes, or a byte.
///
/// This may search a gigabyte of the device.
///
/// # Errors
/// As for [`detect`].
pub fn detect_damaged(
    device: &dyn Device,
    kind: Option<Kind>,
    superblock: Option<u64>,
) -> spindle_vfs::Result<Found> {
    let old =
        |format| spindle_v7::Superblock::salvage(device, format).map(|found| Found::Old(Box::new(found)));
    let ffs = |mut found: spindle_ffs::Superblock| {
        if let Some(Kind::Ffs(dialect)) = kind {
            found.set_dialect(dialect);
        }
        Found::Ffs(Box::new(found))
    };
    let salvage = || match (kind, spindle_ffs::Superblock::salvage(device).map(ffs)) {
        (None, Err(Error::Unsupported { .. } | Error::Corrupt { .. })) => old(None),
        (_, found) => found,
    };
    if let Some(Kind::Old(format)) = kind {
        check_named(device, format)?;
    }
    match (superblock, detect_as(device, kind)) {
        (Some(place), _) => spindle_ffs::Superblock::read_copy(device, place).map(ffs),
        (None, Err(refused @ (Error::Unsupported { .. } | Error::Corrupt { .. }))) => {
            let salvaged = if let Some(Kind::Old(format)) = kind { old(Some(format)) } else { salvage() };
            match salvaged {
                Err(Error::Unsupported { .. } | Error::Corrupt { .. }) => Err(refused),
                found => found,
            }
        }
        (None, Ok(Found::Old(found))) => Ok(Found::Old(Box::new(found.with_better_sizes(device)))),
        (None, found) => found,
    }
}

/// Refuses an old format that the user names for a device that has something else for certain: read
/// in a format that is not its own, a file system has files that nobody made. Where the device has
/// a root directory in that format, both may be there, and the user decides.
fn check_named(device: &dyn Device, format: Format) -> spindle_vfs::Result<()> {
    let Ok(found) = detect(device) else { return Ok(()) };
    if found.may_be(format) || spindle_v7::Superblock::is_readable_as(device, format) {
        return Ok(());
    }
    let fits = match &found {
        Found::Old(old) => format!("name {}, or leave the format out", old.superblock.format),
        Found::Ffs(_) | Found::Mfs(_) => "leave the format out".into(),
    };
    Err(Error::unsupported(format!("is {found}, and has no root directory as {format} has it"), fits))
}

impl Found {
    /// Returns true if it may be an old file system of this format: anything else has nothing that
    /// can be read as such, and a repair as such would destroy it.
    pub(crate) fn may_be(&self, format: Format) -> bool {
        match self {
            Self::Old(found) => found.superblock.format == format || found.others.contains(&format),
            Self::Ffs(_) | Self::Mfs(_) => false,
        }
    }

    /// Returns the bytes that it takes on its device.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Ffs(found) => found.layout.fs_size * u64::from(found.layout.fs_fsize),
            Self::Old(found) => {
                u64::from(found.superblock.head.s_fsize) * u64::from(found.superblock.format.bsize)
            }
            Self::Mfs(label) => label.member_bytes,
        }
    }
}

/// Returns a description of the file system or partition table on a device, if there is one, also
/// of those that this program does not read: what a command that overwrites the device would
/// destroy.
///
/// # Errors
/// Those of the device.
pub fn contents(device: &dyn Device) -> Result<Option<String>> {
    match detect(device) {
        Ok(found) => return Ok(Some(found.to_string())),
        Err(_) if spindle_mfs::is_member(device)? => return Ok(Some(MEMBER.into())),
        Err(Error::Corrupt { .. }) => return Ok(Some("a damaged file system".into())),
        Err(_) => {}
    }
    let table = partitions(device)?;
    if table.scheme.is_none() {
        return Ok(recognise(device)?.filter(|found| found.is_disk()).map(|found| found.name.into()));
    }
    Ok(table.scheme.map(|scheme| {
        let names: Vec<&str> = table.partitions.iter().map(|p| p.name.as_str()).collect();
        format!("a partition table ({scheme}: {})", names.join(", "))
    }))
}

/// Returns the first 256 KiB of the regular file at `path`, and a description of what it holds:
/// none if it is empty, or has nothing but zeros there and in its last 256 KiB, as a new image has.
///
/// # Errors
/// If it cannot be read.
pub fn held_by(path: &Path) -> Result<(Vec<u8>, Option<String>)> {
    const LEN: u64 = START_BYTES as u64;
    let mut file = File::open(path)?;
    let mut start = Vec::new();
    (&mut file).take(LEN).read_to_end(&mut start)?;
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(LEN)))?;
    (&mut file).take(LEN).read_to_end(&mut end)?;
    if start.iter().chain(&end).all(|&byte| byte == 0) {
        return Ok((start, None));
    }
    let image = contents(&FileDevice::open(path, &spindle_device::OpenOptions::look())?)?;
    let text = || !start.contains(&0) && std::str::from_utf8(&start[..start.len().min(512)]).is_ok();
    let holds = match (image, recognise_start(&start)) {
        (Some(image), _) => image,
        (None, Some(found)) if found.name.starts_with('a') => found.name.into(),
        (None, Some(found)) if found.name.starts_with("compressed") => format!("data {}", found.name),
        (None, _) if text() => "text".into(),
        (None, _) => "data of an unknown kind".into(),
    };
    Ok((start, Some(holds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_device::MemoryDevice;
    use spindle_mfs::newfs::{Member, Wishes, make};
    use std::sync::Arc;

    /// Promise: a member of a set is recognised, and not taken for an empty device.
    #[test]
    fn members_of_sets_are_recognised() {
        use rand::SeedableRng;
        let device = Arc::new(MemoryDevice::new(32 << 20));
        assert!(contents(&*device).unwrap().is_none());
        let clock = spindle_clock::ManualClock::at(0);
        // Nor is it taken for what was there before.
        let wishes = spindle_ffs::newfs::Parameters::new(32 << 20);
        let plan = spindle_ffs::newfs::Plan::new(&wishes).unwrap();
        let mut random = rand::rngs::StdRng::seed_from_u64(1);
        spindle_ffs::newfs::write(&plan, &*device, &clock, &mut random, &mut |_, _| ()).unwrap();
        assert!(contents(&*device).unwrap().unwrap().contains("UFS2"));
        make(&[Member::with_all(device.clone())], &Wishes::new(), &clock, &mut random).unwrap();
        assert_eq!(contents(&*device).unwrap().as_deref(), Some(MEMBER));
        assert!(matches!(detect(&*device), Ok(Found::Mfs(_))));
    }
}
