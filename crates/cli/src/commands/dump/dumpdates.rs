//! The file dumpdates: a line for each file system and level, with the date of the last dump.
//!
//! A line is the name, the level and the date as ctime(3) prints it. Linux adds the time zone, and
//! so do we; a date without one is in UTC. Lines that are none stay as they are.

use crate::date;
use rustix::fs::{Access, FlockOperation};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Columns of a name, at least.
const NAME_COLUMNS: usize = 32;

/// A dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dumped {
    /// Level.
    pub level: i32,
    /// Date, in seconds since 1970.
    pub date: i64,
}

/// The contents of the file.
#[derive(Debug, Default)]
pub struct Dumpdates(Vec<u8>);

impl Dumpdates {
    /// Reads the file; one that does not exist is empty.
    pub fn read(path: &Path) -> io::Result<Self> {
        match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
            Ok(mut file) => {
                rustix::fs::flock(&file, FlockOperation::LockShared)?;
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                Ok(Self(bytes))
            }
        }
    }

    /// Returns the dump on which one of this level is based: the last one of a lower level.
    pub fn base(&self, name: &[u8], level: i32) -> Option<Dumped> {
        let entries = self.0.split(|&b| b == b'\n').filter_map(parse);
        let below = entries.filter(|(of, dumped)| of == name && dumped.level < level);
        below.map(|(_, dumped)| dumped).max_by_key(|dumped| dumped.date)
    }

    /// Fails if the file could not be written: better before a dump than after it.
    pub fn check_writable(path: &Path) -> io::Result<()> {
        match OpenOptions::new().append(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
                let dir = dir.unwrap_or(Path::new("."));
                Ok(rustix::fs::access(dir, Access::WRITE_OK)?)
            }
            opened => opened.map(drop),
        }
    }

    /// Enters a dump into the file, in place of the one of the same level, and makes the file if
    /// there is none.
    pub fn record(path: &Path, name: &[u8], level: i32, date: i64) -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let bytes = Self(bytes).with(name, Dumped { level, date });
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()
    }

    /// Returns the contents of the file with a dump in place of the one of the same level.
    fn with(self, name: &[u8], dumped: Dumped) -> Vec<u8> {
        let is_replaced =
            |line: &&[u8]| parse(line).is_some_and(|(of, known)| of == name && known.level == dumped.level);
        let lines = self.0.split(|&b| b == b'\n').filter(|line| !line.is_empty());
        let mut kept: Vec<Vec<u8>> = lines.filter(|line| !is_replaced(line)).map(<[u8]>::to_vec).collect();
        kept.push(line(name, dumped));
        kept.into_iter().flat_map(|line| line.into_iter().chain([b'\n'])).collect()
    }
}

/// Returns the line of a dump.
fn line(name: &[u8], Dumped { level, date }: Dumped) -> Vec<u8> {
    let mut line = escaped(name);
    line.resize(line.len().max(NAME_COLUMNS), b' ');
    line.extend_from_slice(format!(" {level} {} +0000", date::ctime(date)).as_bytes());
    line
}

/// Returns the name and the dump of a line; none if it is none.
fn parse(line: &[u8]) -> Option<(Vec<u8>, Dumped)> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let name = unescaped(words.next()?);
    let text = |word: &[u8]| std::str::from_utf8(word).ok().map(ToOwned::to_owned);
    let level = text(words.next()?)?.parse().ok()?;
    let date = words.map(text).collect::<Option<Vec<_>>>()?.join(" ");
    Some((name, Dumped { level, date: date::parse_ctime(&date)? }))
}

/// Returns a name without blanks: they, control characters and backslashes become octal numbers, as
/// in fstab(5).
fn escaped(name: &[u8]) -> Vec<u8> {
    let escape = |&byte: &u8| match byte {
        0..=b' ' | b'\\' | 0x7f => format!("\\{byte:03o}").into_bytes(),
        _ => vec![byte],
    };
    name.iter().flat_map(escape).collect()
}

/// Returns a name from its escaped form.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = octal.filter(|_| byte == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        name.push(octal.unwrap_or(byte));
        rest = &after[if octal.is_some() { 3 } else { 0 }..];
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &[u8] = b"/dev/da0p2                       0 Thu Jan  1 00:00:10 1970\n\
        not a line\n\
        /dev/da0p2                       1 Thu Jan  1 00:02:00 1970\n\
        /tmp/a\\040b 0 Thu Jan  1 01:00:00 1970 +0030\n";

    /// Promise: the base is the last dump of a lower level of the same image; dates without a zone
    /// are in UTC.
    #[test]
    fn the_base_of_a_level() {
        let dumpdates = || Dumpdates(OLD.to_vec());
        let base = |name: &str, level| dumpdates().base(name.as_bytes(), level);
        assert_eq!(base("/dev/da0p2", 0), None);
        assert_eq!(base("/dev/da0p2", 1), Some(Dumped { level: 0, date: 10 }));
        assert_eq!(base("/dev/da0p2", 9), Some(Dumped { level: 1, date: 120 }));
        assert_eq!(base("/tmp/a b", 9), Some(Dumped { level: 0, date: 1800 }));
        assert_eq!(base("/dev/da0p3", 9), None);
    }

    /// Promise: a dump replaces the one of its level and no other, all other lines stay, and what
    /// was written is read.
    #[test]
    fn dumps_are_entered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dumpdates");
        assert!(Dumpdates::read(&path).unwrap().0.is_empty());
        std::fs::write(&path, OLD).unwrap();
        for (name, level, date) in
            [("/dev/da0p2", 1, 2_000_000_000), ("a\tb\\c\u{e4}", 3, -5), ("a\tb\\c\u{e4}", 3, 7)]
        {
            Dumpdates::record(&path, name.as_bytes(), level, date).unwrap();
            let read = Dumpdates::read(&path).unwrap();
            assert_eq!(read.base(name.as_bytes(), level + 1), Some(Dumped { level, date }));
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let wanted = "/dev/da0p2                       1 Wed May 18 03:33:20 2033 +0000\n";
        assert!(text.contains("not a line\n") && text.contains(wanted), "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
    }
}
