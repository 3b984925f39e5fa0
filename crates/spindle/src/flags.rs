//! BSD's file flags by name, as `chflags`, `ls -lo` and mtree(5) write them.
//!
//! Names and values: FreeBSD `sys/stat.h` and `strtofflags(3)`.

use crate::error::{Error, Result};
use spindle_vfs::access::{APPEND, IMMUTABLE, NOUNLINK};
use std::str::FromStr;

/// The snapshot flag, which only the file system itself sets (`SF_SNAPSHOT`).
pub(crate) const SNAPSHOT: u32 = 0x20_0000;

/// The flags that forbid changes: `uchg`, `schg`, `uappnd`, `sappnd`, `uunlnk` and `sunlnk`.
const FORBIDDING: u32 = IMMUTABLE | APPEND | NOUNLINK;

/// The flags: value, name, other names. Those that only the superuser may change come first.
const FLAGS: &[(u32, &str, &[&str])] = &[
    (0x1_0000, "arch", &["archived"]),
    (0x2_0000, "schg", &["schange", "simmutable"]),
    (0x4_0000, "sappnd", &["sappend"]),
    (0x10_0000, "sunlnk", &["sunlink"]),
    (SNAPSHOT, "snapshot", &["snap"]),
    (0x1, "nodump", &[]),
    (0x2, "uchg", &["uchange", "uimmutable"]),
    (0x4, "uappnd", &["uappend"]),
    (0x8, "opaque", &[]),
    (0x10, "uunlnk", &["uunlink"]),
    (0x80, "usystem", &["system"]),
    (0x100, "usparse", &["sparse"]),
    (0x200, "uoffline", &["offline"]),
    (0x400, "ureparse", &["reparse"]),
    (0x800, "uarch", &["uarchive"]),
    (0x1000, "urdonly", &["rdonly", "readonly"]),
    (0x8000, "uhidden", &["hidden"]),
];

/// Returns the flag of a name.
#[must_use]
pub fn value(name: &str) -> Option<u32> {
    FLAGS.iter().find(|(_, known, others)| *known == name || others.contains(&name)).map(|(bit, ..)| *bit)
}

/// Returns the names of flags, with commas between them; bits without a name as a number, and `-`
/// if there are none.
#[must_use]
pub fn names(flags: u32) -> String {
    let named = FLAGS.iter().filter(|(bit, ..)| flags & bit != 0);
    let mut names: Vec<_> = named.clone().map(|(_, name, _)| (*name).to_owned()).collect();
    let unnamed = named.fold(flags, |rest, (bit, ..)| rest & !bit);
    if unnamed != 0 {
        names.push(format!("{unnamed:#x}"));
    }
    if names.is_empty() { "-".to_owned() } else { names.join(",") }
}

/// Returns the result of a change that the flags of these files may forbid, even to root until they
/// are cleared, with that remedy.
///
/// # Errors
/// Those of the result.
pub fn explained<T>(done: spindle_vfs::Result<T>, flags: &[u32]) -> Result<T> {
    let held = flags.iter().fold(0, |all, flags| all | flags) & FORBIDDING;
    match done {
        Err(spindle_vfs::Error::NotPermitted) if held != 0 => {
            let text = "the file flags of it or of its directory forbid this";
            let names = names(held);
            let change = format!("no{}", names.replace(',', ",no"));
            Err(Error::new(format!("{text} ({names}); spindle chflags {change} clears them")))
        }
        done => Ok(done?),
    }
}

/// A change of flags: all of them, or some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    keep: u32,
    set: u32,
}

impl Change {
    /// Returns what flags become.
    #[must_use]
    pub const fn apply(self, flags: u32) -> u32 {
        flags & self.keep | self.set
    }
}

impl FromStr for Change {
    type Err = String;

    /// Reads what `chflags` takes: an octal number for all flags, or names with commas between
    /// them, of which those with `no` in front are cleared (of `nodump`, `dump`).
    fn from_str(text: &str) -> Result<Self, String> {
        let snapshot = || Err("the snapshot flag belongs to the file system".to_owned());
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return match u32::from_str_radix(text, 8) {
                Ok(flags) if flags & SNAPSHOT != 0 => snapshot(),
                // A snapshot stays one.
                Ok(flags) => Ok(Self { keep: SNAPSHOT, set: flags }),
                Err(_) => Err(format!("'{text}' is no octal number of flags")),
            };
        }
        let mut change = Self { keep: !0, set: 0 };
        for name in text.split(',') {
            let cleared = if name == "dump" { Some("nodump") } else { name.strip_prefix("no") };
            match (value(name), cleared.and_then(value)) {
                (Some(SNAPSHOT), _) | (_, Some(SNAPSHOT)) => return snapshot(),
                (Some(bit), _) => change = Self { keep: change.keep & !bit, set: change.set | bit },
                (None, Some(bit)) => change = Self { keep: change.keep & !bit, set: change.set & !bit },
                (None, None) => {
                    let known: Vec<_> = FLAGS.iter().map(|(_, name, _)| *name).collect();
                    return Err(format!("'{name}' is no file flag; they are {}", known.join(", ")));
                }
            }
        }
        Ok(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what `names` writes is read back as the same flags, each name has one flag, and
    /// bits without a name are shown.
    #[test]
    fn names_are_read_back() {
        for (bit, name, others) in FLAGS {
            assert_eq!(names(*bit), *name);
            for name in others.iter().chain([name]) {
                assert_eq!(value(name), Some(*bit));
            }
        }
        let both = 0x2_0001;
        assert_eq!(names(both), "schg,nodump");
        assert_eq!("schg,nodump".parse::<Change>().unwrap().apply(0), both);
        assert_eq!((names(0), names(0x4000_0002)), ("-".into(), "uchg,0x40000000".into()));
    }

    /// Promise: names set flags, `no` and `dump` clear them, the last word about a flag counts, a
    /// number stands for all, and nothing changes the snapshot flag.
    #[test]
    fn changes() {
        let apply = |change: &str, flags| change.parse::<Change>().map(|change| change.apply(flags));
        assert_eq!(apply("uappnd", 0x1), Ok(0x5));
        assert_eq!(apply("nouappnd,dump", 0x7), Ok(0x2));
        assert_eq!(apply("nodump,noschg", 0x2_0002), Ok(0x3));
        assert_eq!(apply("uchg,nouchg", 0), Ok(0));
        assert_eq!(apply("nouchg,uchg", 0), Ok(0x2));
        assert_eq!(apply("0", 0x2_0007 | SNAPSHOT), Ok(SNAPSHOT));
        assert_eq!(apply("0400002", 0x1), Ok(0x2_0002));
        for wrong in ["snapshot", "nosnap", "010000000", "9", "uchg,", "no", "immutable", ""] {
            assert!(apply(wrong, 0).is_err(), "{wrong}");
        }
    }
}
