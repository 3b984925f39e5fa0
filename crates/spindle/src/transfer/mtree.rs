//! Manifests of mtree(5): what `mtree -c` and the METALOG of a BSD build write.
//!
//! A line names a file and has keywords: `bin/sh type=file uid=0 mode=0555`. A name without a slash
//! is in the current directory, which such a line enters if it is one, and `..` leaves; a name with
//! a slash is a path from the root. `/set` gives keywords to all lines that follow, `/unset` takes
//! them back. Of a path with several lines, later keywords win.

use super::{check_name, join, split};
use crate::error::{Context, Error, Result};
use crate::flags;
use crate::text::printable;
use spindle_clock::Timestamp;
use spindle_vfs::Rdev;
use std::collections::BTreeMap;

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// `type=file`.
    File,
    /// `type=dir`.
    Directory,
    /// `type=link`.
    Symlink,
    /// `type=block`.
    Block,
    /// `type=char`.
    Char,
    /// `type=fifo`.
    Fifo,
    /// `type=socket`.
    Socket,
}

/// The keywords of one line, or of several for the same path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Number of the last line, from 1.
    pub line: usize,
    /// `type`.
    pub kind: Option<EntryKind>,
    /// `uid`, or the number of `uname`.
    pub uid: Option<u32>,
    /// `gid`, or the number of `gname`.
    pub gid: Option<u32>,
    /// `mode`.
    pub perm: Option<u32>,
    /// `time`.
    pub time: Option<Timestamp>,
    /// `flags`.
    pub flags: Option<u32>,
    /// `link`: the target of a symbolic link.
    pub link: Option<Vec<u8>>,
    /// `contents`: the file of this machine with the content.
    pub contents: Option<Vec<u8>>,
    /// `device`.
    pub device: Option<Rdev>,
    /// `optional`: nothing is created if there is no such file.
    pub optional: bool,
}

/// Numbers of users and groups by name.
#[derive(Clone, Debug, Default)]
pub struct Names {
    users: BTreeMap<Vec<u8>, u32>,
    groups: BTreeMap<Vec<u8>, u32>,
}

impl Names {
    /// Reads the texts of a `master.passwd` or `passwd`, and of a `group`.
    #[must_use]
    pub fn parse(passwd: &[u8], group: &[u8]) -> Self {
        let table = |text: &[u8]| {
            let mut table = BTreeMap::new();
            for line in text.split(|&b| b == b'\n').filter(|line| !line.starts_with(b"#")) {
                let mut fields = line.split(|&b| b == b':');
                let (name, id) = (fields.next(), fields.nth(1));
                if let (Some(name), Some(id)) = (name, id.and_then(|id| number(id, 10)))
                    && let Ok(id) = u32::try_from(id)
                {
                    // The first line of a name counts, as for getpwnam(3).
                    table.entry(name.to_vec()).or_insert(id);
                }
            }
            table
        };
        Self { users: table(passwd), groups: table(group) }
    }

    /// Returns the number of a user.
    pub(super) fn user(&self, name: &[u8]) -> Option<u32> {
        self.users.get(name).copied()
    }

    /// Returns the number of a group.
    pub(super) fn group(&self, name: &[u8]) -> Option<u32> {
        self.groups.get(name).copied()
    }
}

/// A manifest: entries by path. The path of the root is empty.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// What messages call it.
    pub name: String,
    /// The entries, each directory before what is in it.
    pub entries: BTreeMap<Vec<u8>, Entry>,
}

/// Keywords of mtree(5) that are not about what an image has.
const SKIPPED: [&[u8]; 21] = [
    b"cksum",
    b"ignore",
    b"inode",
    b"md5",
    b"md5digest",
    b"nlink",
    b"nochange",
    b"resdevice",
    b"ripemd160digest",
    b"rmd160",
    b"rmd160digest",
    b"sha1",
    b"sha1digest",
    b"sha256",
    b"sha256digest",
    b"sha384",
    b"sha384digest",
    b"sha512",
    b"sha512digest",
    b"size",
    b"tags",
];

impl Manifest {
    /// Reads the text of a manifest.
    ///
    /// # Errors
    /// The first line that is not valid, with its number.
    pub fn parse(name: &str, text: &[u8], names: &Names) -> Result<Self> {
        let mut parser = Parser { names, set: BTreeMap::new(), cwd: Vec::new(), begun: false };
        let mut manifest = Self { name: name.to_owned(), entries: BTreeMap::new() };
        let mut lines = text.split(|&b| b == b'\n').enumerate();
        while let Some((number, first)) = lines.next() {
            let mut line = first.strip_suffix(b"\r").unwrap_or(first).to_vec();
            while line.ends_with(b"\\") && !line.trim_ascii_start().starts_with(b"#") {
                line.pop();
                line.push(b' ');
                let Some((_, next)) = lines.next() else { break };
                line.extend_from_slice(next.strip_suffix(b"\r").unwrap_or(next));
            }
            let number = number + 1;
            parser.line(number, &line, &mut manifest.entries).context(manifest.at(number))?;
        }
        Ok(manifest)
    }

    /// Returns what messages about a line begin with.
    #[must_use]
    pub fn at(&self, line: usize) -> String {
        format!("{}: line {line}", self.name)
    }
}

struct Parser<'a> {
    names: &'a Names,
    /// The keywords of `/set`, with their values.
    set: BTreeMap<Vec<u8>, Vec<u8>>,
    cwd: Vec<u8>,
    /// True after the first entry, which is the root in the form without slashes.
    begun: bool,
}

impl Parser<'_> {
    fn line(&mut self, number: usize, line: &[u8], entries: &mut BTreeMap<Vec<u8>, Entry>) -> Result<()> {
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut words = words.take_while(|word| !word.starts_with(b"#"));
        let Some(name) = words.next() else { return Ok(()) };
        match name {
            b"/set" => {
                for word in words {
                    let (keyword, value) = keyword_of(word);
                    // What is not valid is found here, and not line after line.
                    self.apply(&mut Entry::default(), keyword, value)?;
                    self.set.insert(keyword.to_vec(), value.to_vec());
                }
                return Ok(());
            }
            b"/unset" => {
                for word in words {
                    if word == b"all" {
                        self.set.clear();
                    }
                    self.set.remove(word);
                }
                return Ok(());
            }
            b".." => {
                if self.cwd.is_empty() && !self.begun {
                    return Err(Error::new(".. above the root"));
                }
                self.begun = !self.cwd.is_empty();
                self.cwd = split(&self.cwd).0.to_vec();
                return Ok(());
            }
            _ => {}
        }
        let name = unvis(name)?;
        let (path, relative) = self.path(&name)?;
        let entry = entries.entry(path.clone()).or_default();
        entry.line = number;
        for (keyword, value) in &self.set {
            self.apply(entry, keyword, value)?;
        }
        for word in words {
            let (keyword, value) = keyword_of(word);
            self.apply(entry, keyword, value)?;
        }
        if relative && entry.kind == Some(EntryKind::Directory) {
            self.cwd = path;
            self.begun = true;
        }
        Ok(())
    }

    /// Returns the path of an entry, and whether it is relative to the current directory.
    fn path(&self, name: &[u8]) -> Result<(Vec<u8>, bool)> {
        if name == b"." {
            return Ok((self.cwd.clone(), true));
        }
        if !name.contains(&b'/') {
            check_name(name)?;
            return Ok((join(&self.cwd, name), true));
        }
        let mut path = Vec::with_capacity(name.len());
        for part in name.split(|&b| b == b'/').filter(|part| !part.is_empty() && part != b".") {
            check_name(part).named(name)?;
            path = join(&path, part);
        }
        Ok((path, false))
    }

    /// Applies a keyword. Those that are not about what an image has are skipped.
    fn apply(&self, entry: &mut Entry, keyword: &[u8], value: &[u8]) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(format!("{}: {what}", printable(&word_of(keyword, value)))));
        let id = |base| number(value, base).and_then(|n| u32::try_from(n).ok());
        match keyword {
            b"type" => {
                entry.kind = Some(match value {
                    b"file" => EntryKind::File,
                    b"dir" => EntryKind::Directory,
                    b"link" => EntryKind::Symlink,
                    b"block" => EntryKind::Block,
                    b"char" => EntryKind::Char,
                    b"fifo" => EntryKind::Fifo,
                    b"socket" => EntryKind::Socket,
                    _ => return wrong("give file, dir, link, block, char, fifo or socket"),
                });
            }
            b"uid" | b"gid" => {
                let Some(id) = id(10) else { return wrong("give a number") };
                *(if keyword == b"uid" { &mut entry.uid } else { &mut entry.gid }) = Some(id);
            }
            b"uname" | b"gname" => {
                let user = keyword == b"uname";
                let table = if user { &self.names.users } else { &self.names.groups };
                let Some(&id) = table.get(&unvis(value)?) else {
                    return wrong("there is no such name in the user database (-N)");
                };
                *(if user { &mut entry.uid } else { &mut entry.gid }) = Some(id);
            }
            b"mode" => match id(8) {
                Some(perm) if perm <= 0o7777 => entry.perm = Some(perm),
                _ => return wrong("give an octal number up to 7777"),
            },
            b"time" => match time(value) {
                Some(time) => entry.time = Some(time),
                None => return wrong("give seconds since 1970, and nanoseconds after a dot"),
            },
            b"flags" => entry.flags = Some(flags_named(value)?),
            b"link" => entry.link = Some(unvis(value)?),
            b"contents" | b"content" => entry.contents = Some(unvis(value)?),
            b"device" => match device(value) {
                Some(rdev) => entry.device = Some(rdev),
                None => {
                    return wrong(
                        "give FORMAT,MAJOR,MINOR, as in device=netbsd,8,1: each system divides a number \
                         above 0xffff in its own way",
                    );
                }
            },
            b"optional" => entry.optional = true,
            keyword if SKIPPED.contains(&keyword) => {}
            _ => return wrong("is not a keyword of mtree(5)"),
        }
        Ok(())
    }
}

/// Splits `keyword=value`.
fn keyword_of(word: &[u8]) -> (&[u8], &[u8]) {
    match word.iter().position(|&b| b == b'=') {
        Some(at) => (&word[..at], &word[at + 1..]),
        None => (word, b""),
    }
}

fn word_of(keyword: &[u8], value: &[u8]) -> Vec<u8> {
    if value.is_empty() { keyword.to_vec() } else { [keyword, b"=", value].concat() }
}

/// Returns a number of digits only.
fn number(digits: &[u8], base: u32) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    u64::from_str_radix(digits, base).ok()
}

/// Returns the time of `seconds.nanoseconds`; the second part is a number, not a fraction.
fn time(value: &[u8]) -> Option<Timestamp> {
    let (secs, nanos) = match value.iter().position(|&b| b == b'.') {
        Some(at) => (&value[..at], number(&value[at + 1..], 10)?),
        None => (value, 0),
    };
    let nanos = u32::try_from(nanos).ok().filter(|&nanos| nanos < 1_000_000_000)?;
    let (negative, digits) = secs.strip_prefix(b"-").map_or((false, secs), |digits| (true, digits));
    let secs = i64::try_from(number(digits, 10)?).ok()?;
    Some(Timestamp::new(if negative { -secs } else { secs }, nanos))
}

/// Returns the file flags of names with commas between them, or `none`.
fn flags_named(value: &[u8]) -> Result<u32> {
    let mut bits = 0;
    for name in value.split(|&b| b == b',').filter(|name| !name.is_empty() && *name != b"none") {
        match std::str::from_utf8(name).ok().and_then(flags::value) {
            Some(bit) => bits |= bit,
            None => return Err(Error::new(format!("there is no file flag {}", printable(name)))),
        }
    }
    Ok(bits)
}

/// Returns a device number: `format,major,minor`, or a number whose two bytes they are, which all
/// systems read alike.
fn device(value: &[u8]) -> Option<Rdev> {
    let parse = |text: &[u8]| {
        let hex = text.strip_prefix(b"0x");
        let octal = text.strip_prefix(b"0").filter(|rest| !rest.is_empty());
        let n = match (hex, octal) {
            (Some(hex), _) => number(hex, 16),
            (None, Some(octal)) => number(octal, 8),
            (None, None) => number(text, 10),
        };
        n.and_then(|n| u32::try_from(n).ok())
    };
    let mut fields = value.split(|&b| b == b',');
    match (fields.next()?, fields.next(), fields.next(), fields.next()) {
        (raw, None, None, None) => {
            let raw = parse(raw).filter(|&raw| raw <= 0xffff)?;
            Some(Rdev { major: raw >> 8, minor: raw & 0xff })
        }
        (_, Some(major), Some(minor), None) => Some(Rdev { major: parse(major)?, minor: parse(minor)? }),
        _ => None,
    }
}

/// Decodes a name that vis(3) has encoded: octal numbers, the escapes of C, `\^C` for control
/// characters and `\M-C`, `\M^C` for those with the high bit.
fn unvis(text: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'\\' {
            out.push(byte);
            rest = after;
            continue;
        }
        let Some((decoded, len)) = escape(after) else {
            return Err(Error::new("is not a name that vis(3) writes")).named(text);
        };
        out.extend(decoded);
        rest = &after[len..];
    }
    Ok(out)
}

/// Decodes what follows a backslash. Returns the byte, if it stands for one, and the length.
fn escape(text: &[u8]) -> Option<(Option<u8>, usize)> {
    let control = |byte: u8| if byte == b'?' { 0x7f } else { byte & 0x1f };
    let single = |byte| Some((Some(byte), 1));
    match *text {
        [b'0'..=b'7', ..] => {
            let len = text.iter().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
            let n = text[..len].iter().fold(0_u32, |n, &digit| n * 8 + u32::from(digit - b'0'));
            Some((Some(u8::try_from(n).ok()?), len))
        }
        [b'^', byte, ..] => Some((Some(control(byte)), 2)),
        [b'M', b'-', byte, ..] => Some((Some(byte | 0x80), 3)),
        [b'M', b'^', byte, ..] => Some((Some(control(byte) | 0x80), 3)),
        [b'M' | b'^', ..] | [] => None,
        [b'a', ..] => single(7),
        [b'b', ..] => single(8),
        [b't', ..] => single(b'\t'),
        [b'n', ..] => single(b'\n'),
        [b'v', ..] => single(11),
        [b'f', ..] => single(12),
        [b'r', ..] => single(b'\r'),
        [b's', ..] => single(b' '),
        [b'E', ..] => single(27),
        [b'$', ..] => Some((None, 1)),
        [byte, ..] => single(byte),
    }
}

#[cfg(test)]
mod tests;
