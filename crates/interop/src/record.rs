//! What a reader saw: one [`Record`] for each path, and the comparison of two such listings.
//!
//! A field is `None` where a reader cannot know it. Two records differ only in fields that both
//! know.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::io::Read;

use sha2::{Digest as _, Sha256};

/// Files longer than this many bytes are listed without their content: the real images hold sparse
/// files of half a terabyte.
pub const CONTENT_LIMIT_BYTES: u64 = 256 << 20;

/// Records by path: raw bytes, relative to the root, without a leading `./`; the root itself is
/// `.`.
pub type Listing = BTreeMap<Vec<u8>, Record>;

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what it is called")]
pub enum Kind {
    Regular,
    Directory,
    Symlink,
    Character,
    Block,
    Fifo,
    Socket,
}

impl Kind {
    /// Converts the type bits of a mode, as every Unix has them.
    #[must_use]
    pub fn of_mode(mode: u32) -> Option<Self> {
        Some(match mode & 0o170_000 {
            0o100_000 => Self::Regular,
            0o040_000 => Self::Directory,
            0o120_000 => Self::Symlink,
            0o020_000 => Self::Character,
            0o060_000 => Self::Block,
            0o010_000 => Self::Fifo,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }

    /// Converts the letter that `ls -l` prints (`-` or `r` for a regular file).
    #[must_use]
    pub fn of_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'-' | b'r' => Self::Regular,
            b'd' => Self::Directory,
            b'l' => Self::Symlink,
            b'c' => Self::Character,
            b'b' => Self::Block,
            b'p' => Self::Fifo,
            b's' | b'h' => Self::Socket,
            _ => return None,
        })
    }
}

/// A time stamp; `nanos` is `None` from a reader that shows whole seconds.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Seconds since 1970.
    pub secs: i64,
    /// Nanoseconds within the second.
    pub nanos: Option<u32>,
}

impl PartialEq for Stamp {
    fn eq(&self, other: &Self) -> bool {
        self.secs == other.secs && self.nanos.zip(other.nanos).is_none_or(|(mine, theirs)| mine == theirs)
    }
}

/// SHA-256 of a file's bytes, holes as zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Digest {
    /// Returns the digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest of all that `source` gives.
    ///
    /// # Errors
    /// Those of `source`.
    pub fn of_stream(mut source: impl Read) -> std::io::Result<Self> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match source.read(&mut buffer)? {
                0 => return Ok(Self(hasher.finalize().into())),
                read => hasher.update(&buffer[..read]),
            }
        }
    }
}

/// A regular file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// All of it was read and has this digest.
    Read(Digest),
    /// The reader lists the file but fails on its content, saying this.
    Unreadable(String),
}

impl Content {
    /// Returns what reading gave.
    pub fn of<E: std::fmt::Display>(read: std::result::Result<Digest, E>) -> Self {
        read.map_or_else(|error| Self::Unreadable(error.to_string()), Self::Read)
    }
}

/// What is known of one path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Type of the file.
    pub kind: Option<Kind>,
    /// Permission and set-id bits, 07777.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes. Of a directory it is known for images only: a host's directories have
    /// lengths of their own.
    pub size: Option<u64>,
    /// Names of the file; for a directory 2 and one for each directory in it.
    pub nlink: Option<u32>,
    /// Last change of the content.
    pub mtime: Option<Stamp>,
    /// Major and minor number of a device.
    pub device: Option<(u32, u32)>,
    /// Where a symbolic link points.
    pub target: Option<Vec<u8>>,
    /// Content of a regular file.
    pub content: Option<Content>,
}

/// Says in words how `actual` differs from `expected`: paths that only one has, and fields that
/// both know and that are not equal. Empty when they agree. Records in `expected` of a kind that
/// `sees` denies are not looked for, and what `actual` has at their paths is not looked at.
#[must_use]
pub fn differences(expected: &Listing, actual: &Listing, sees: impl Fn(Kind) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let unseen = |record: &Record| record.kind.is_some_and(|kind| !sees(kind));
    for (path, want) in expected.iter().filter(|(_, record)| !unseen(record)) {
        let name = path.escape_ascii();
        match actual.get(path) {
            None => found.push(format!("{name}: missing")),
            Some(have) => {
                let mut line = String::new();
                compare(&mut line, "kind", want.kind.as_ref(), have.kind.as_ref());
                compare(&mut line, "mode", want.mode.as_ref(), have.mode.as_ref());
                compare(&mut line, "uid", want.uid.as_ref(), have.uid.as_ref());
                compare(&mut line, "gid", want.gid.as_ref(), have.gid.as_ref());
                compare(&mut line, "size", want.size.as_ref(), have.size.as_ref());
                compare(&mut line, "nlink", want.nlink.as_ref(), have.nlink.as_ref());
                compare(&mut line, "mtime", want.mtime.as_ref(), have.mtime.as_ref());
                compare(&mut line, "device", want.device.as_ref(), have.device.as_ref());
                let text = |target: &Option<Vec<u8>>| target.as_ref().map(|t| t.escape_ascii().to_string());
                compare(&mut line, "target", text(&want.target).as_ref(), text(&have.target).as_ref());
                compare(&mut line, "content", want.content.as_ref(), have.content.as_ref());
                if !line.is_empty() {
                    found.push(format!("{name}:{line}"));
                }
            }
        }
    }
    let extra = actual.keys().filter(|path| !expected.contains_key(*path));
    found.extend(extra.map(|path| format!("{}: not expected", path.escape_ascii())));
    found
}

fn compare<T: PartialEq + Debug>(line: &mut String, field: &str, want: Option<&T>, have: Option<&T>) {
    if let (Some(want), Some(have)) = (want, have)
        && want != have
    {
        let _ = write!(line, " {field} {have:?} instead of {want:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(path: &str, record: Record) -> Listing {
        Listing::from([(path.into(), record)])
    }

    /// Promise: a missing path, an unexpected path and a differing field are each reported.
    #[test]
    fn reports_each_kind_of_difference() {
        let file = Record { kind: Some(Kind::Regular), size: Some(3), ..Record::default() };
        let longer = Record { size: Some(4), ..file.clone() };
        let all = |_| true;
        assert!(differences(&listing("a", file.clone()), &listing("a", file.clone()), all).is_empty());
        assert_eq!(differences(&listing("a", file.clone()), &Listing::new(), all), ["a: missing"]);
        assert_eq!(differences(&Listing::new(), &listing("a", file.clone()), all), ["a: not expected"]);
        assert_eq!(differences(&listing("a", file), &listing("a", longer), all), ["a: size 4 instead of 3"]);
    }

    /// Promise: what one side does not know, and kinds that a reader does not show, are no
    /// difference.
    #[test]
    fn unknown_fields_and_unseen_kinds_agree() {
        let fifo = Record { kind: Some(Kind::Fifo), uid: Some(1), ..Record::default() };
        assert!(
            differences(&listing("p", fifo.clone()), &Listing::new(), |kind| kind != Kind::Fifo).is_empty()
        );
        assert!(differences(&listing("p", fifo), &listing("p", Record::default()), |_| true).is_empty());
        let whole = Stamp { secs: 5, nanos: None };
        assert_eq!(whole, Stamp { secs: 5, nanos: Some(7) });
        assert_ne!(Stamp { secs: 5, nanos: Some(8) }, Stamp { secs: 5, nanos: Some(7) });
    }
}
