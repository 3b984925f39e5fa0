//! Classes of data storage: each has parts and a structure of its own, and every file belongs to
//! one of them (paper, section 5.5: "different types of data have different access patterns, and
//! could benefit from different data storage structures").
//!
//! The class `default` is that of the parameters of a set; a label has a table of the others.

use spindle_ondisk::{Endian, structure};
use spindle_vfs::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Most classes of a set, with the default one.
pub const CLASSES_MAX: usize = 8;
/// Longest name of a class in bytes.
pub(super) const NAME_MAX: usize = 32;

structure! {
    /// A class in the table of a label.
    pub struct DiskClass: 48 {
        /// Its name, with zeros behind it.
        0 name: [u8; 32],
        /// Bytes of a block.
        32 block_bytes: u32,
        /// Blocks in a striped track.
        36 track_blocks: u32,
        /// Bytes of a stripe unit.
        40 stripe_bytes: u32,
        /// Bit 0: it is read-only.
        44 flags: u32,
    }
}

impl DiskClass {
    /// Returns the name.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is none.
    pub(super) fn name(&self) -> Result<ClassName> {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(NAME_MAX);
        String::from_utf8_lossy(&self.name[..end]).parse()
    }
}

/// The storage structure of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Bytes of a block: a power of two from 512 to 1 MiB.
    pub block_bytes: u32,
    /// Blocks in a striped track, from 8 to 8192, a multiple of 8.
    pub track_blocks: u32,
    /// Bytes of a stripe unit: whole sectors.
    pub stripe_bytes: u32,
}

impl Structure {
    /// Returns what is wrong with the structure.
    ///
    /// # Errors
    /// [`Error::Unsupported`], with the parameter.
    pub fn check(&self) -> Result<()> {
        within("data block size", self.block_bytes, 512, 1 << 20, self.block_bytes.is_power_of_two())?;
        within("blocks of a track", self.track_blocks, 8, 8192, self.track_blocks.is_multiple_of(8))?;
        within("stripe unit", self.stripe_bytes, 512, 1 << 30, self.stripe_bytes.is_multiple_of(512))
    }

    /// Returns what is wrong with the structure if its blocks have checksums: each copy of a block
    /// is read, judged and mended as a whole.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub(super) fn check_sums(&self) -> Result<()> {
        if self.stripe_bytes.is_multiple_of(self.block_bytes) {
            return Ok(());
        }
        let what = format!("checksums of blocks that lie on several devices ({})", self.stripe_bytes);
        Err(Error::unsupported(what, "make the stripe unit a multiple of the data block"))
    }

    /// Returns the bytes of a striped track.
    #[must_use]
    pub fn track_bytes(&self) -> u64 {
        u64::from(self.block_bytes) * u64::from(self.track_blocks)
    }
}

/// Checks that a parameter is `whole` and from `least` to `most`.
pub(super) fn within(name: &str, value: u32, least: u32, most: u32, whole: bool) -> Result<()> {
    if (least..=most).contains(&value) && whole {
        return Ok(());
    }
    Err(Error::unsupported(format!("a {name} of {value}"), format!("it is from {least} to {most}")))
}

/// The name of a class: from 1 to 32 letters, digits, `-`, `_` and `.` of ASCII.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassName(String);

impl ClassName {
    /// Returns the name of the class that every set has.
    #[must_use]
    pub fn default_class() -> Self {
        Self("default".into())
    }

    /// Returns the name with zeros behind it.
    pub(super) fn padded(&self) -> [u8; NAME_MAX] {
        let mut name = [0; NAME_MAX];
        name[..self.0.len()].copy_from_slice(self.0.as_bytes());
        name
    }
}

impl FromStr for ClassName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(allowed) {
            return Ok(Self(name.into()));
        }
        let remedy = format!("it takes 1 to {NAME_MAX} letters, digits, \"-\", \"_\" and \".\"");
        Err(Error::unsupported(format!("a class of data called {name:?}"), remedy))
    }
}

impl fmt::Display for ClassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A class of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: ClassName,
    /// Its structure.
    pub structure: Structure,
}

impl Class {
    /// Reads a class.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if its name or structure is none.
    pub(super) fn decode(disk: &DiskClass) -> Result<Self> {
        let DiskClass { block_bytes, track_blocks, stripe_bytes, .. } = *disk;
        let structure = Structure { block_bytes, track_blocks, stripe_bytes };
        structure.check()?;
        Ok(Self { name: disk.name()?, structure })
    }

    /// Writes the class.
    pub(super) fn encode(&self, bytes: &mut [u8]) {
        let Structure { block_bytes, track_blocks, stripe_bytes } = self.structure;
        let (name, flags) = (self.name.padded(), 0);
        DiskClass { name, block_bytes, track_blocks, stripe_bytes, flags }.encode(bytes, Endian::Little);
    }
}

/// Checks that there are not too many classes besides the default one, and that all have names and
/// structures of their own.
///
/// # Errors
/// [`Error::Unsupported`], with the reason.
pub fn check_classes(others: &[Class]) -> Result<()> {
    others.iter().try_for_each(|class| class.structure.check())?;
    check_names(others.iter().map(|class| &class.name))
}

/// Checks that there are not too many classes besides the default one, and that each has a name of
/// its own.
///
/// # Errors
/// [`Error::Unsupported`], with the reason.
pub(super) fn check_names<'a>(others: impl Iterator<Item = &'a ClassName>) -> Result<()> {
    let mut names = vec![ClassName::default_class()];
    for name in others {
        if names.contains(name) {
            let what = format!("two classes of data called {name}");
            return Err(Error::unsupported(what, "choose another name"));
        }
        names.push(name.clone());
    }
    if names.len() > CLASSES_MAX {
        let what = format!("{} classes of data", names.len());
        return Err(Error::unsupported(what, format!("a set has at most {CLASSES_MAX}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a class survives the disk with the longest name; what cannot be the name of a class
    /// is refused.
    #[test]
    fn a_class_is_stored() {
        let structure = Structure { block_bytes: 65536, track_blocks: 8, stripe_bytes: 1 << 20 };
        for name in ["a", "video-2.old_1", &"x".repeat(32)] {
            let class = Class { name: name.parse().unwrap(), structure };
            let mut bytes = [0xff; DiskClass::SIZE];
            class.encode(&mut bytes);
            assert_eq!(Class::decode(&DiskClass::decode(&bytes, Endian::Little)).unwrap(), class);
        }
        for name in ["", "a b", "ä", "a/b", "a=b", &"x".repeat(33)] {
            assert!(name.parse::<ClassName>().is_err(), "{name}");
        }
    }

    /// Promise: no two classes have one name, and none has that of the default one.
    #[test]
    fn names_are_used_once() {
        let structure = Structure { block_bytes: 4096, track_blocks: 8, stripe_bytes: 4096 };
        let class = |name: &str| Class { name: name.parse().unwrap(), structure };
        assert!(check_classes(&[class("a"), class("b")]).is_ok());
        assert!(check_classes(&[class("a"), class("a")]).is_err());
        assert!(check_classes(&[class("default")]).is_err());
        let many: Vec<_> = (0..8).map(|n| class(&format!("c{n}"))).collect();
        assert!(check_classes(&many).is_err() && check_classes(&many[1..]).is_ok());
    }
}
