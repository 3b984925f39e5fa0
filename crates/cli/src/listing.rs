//! The lines of `ls -l` and `find -ls`, and how names are printed in lists.

use crate::date;
use crate::describe::is_device;
use crate::text::{human, mode_string, printable, quoted};
use spindle_clock::Timestamp;
use spindle_vfs::acl::{ACCESS_ACL, DEFAULT_ACL, NFS4_ACL};
use spindle_vfs::{AclKind, Attr, FileKind, FileSystem, Nfs4Acl};
use std::io::IsTerminal;

/// How names are printed in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Such that a shell reads them: see [`quoted`].
    Quoted,
    /// With escapes for all characters that are not plain: see [`printable`].
    Escaped,
    /// With a question mark for each of these characters.
    Hidden,
}

impl Names {
    /// Returns what suits standard output: names that can be pasted on a terminal, one form for all
    /// names elsewhere.
    pub fn for_stdout() -> Self {
        if std::io::stdout().is_terminal() { Self::Quoted } else { Self::Escaped }
    }

    /// Returns a name as text.
    pub fn show(self, name: &[u8]) -> String {
        match self {
            Self::Quoted => quoted(name),
            Self::Escaped => printable(name),
            Self::Hidden => name.utf8_chunks().fold(String::new(), |mut out, chunk| {
                let plain =
                    |c: char| c == '\\' || printable(c.encode_utf8(&mut [0; 4]).as_bytes()).chars().eq([c]);
                out.extend(chunk.valid().chars().map(|c| if plain(c) { c } else { '?' }));
                out.extend(chunk.invalid().iter().map(|_| '?'));
                out
            }),
        }
    }
}

/// Returns the size of a file as listings show it: of a device, its number.
pub fn size(attr: &Attr, in_units: bool) -> String {
    if is_device(attr.kind) {
        format!("{}, {}", attr.rdev.major, attr.rdev.minor)
    } else if in_units {
        human(attr.size)
    } else {
        attr.size.to_string()
    }
}

/// Returns true if a file has an access control list that says more than its permissions.
pub fn has_acl(fs: &dyn FileSystem, attr: &Attr) -> bool {
    let list = |name| fs.getxattr(attr.ino, name);
    // Of lists of NFSv4 every file has one.
    let says_more = |value: Vec<u8>| !Nfs4Acl::from_linux(&value).is_ok_and(|acl| acl.is_trivial());
    attr.kind != FileKind::Symlink
        && match fs.limits().acls {
            AclKind::None => false,
            AclKind::Posix => list(ACCESS_ACL).is_ok() || list(DEFAULT_ACL).is_ok(),
            AclKind::Nfs4 => list(NFS4_ACL).is_ok_and(says_more),
        }
}

/// Returns what stands in front of a name: type and permissions, with a plus if there is an access
/// control list, links, owner, group, this column of flags if they are wanted, this size and time.
pub fn long(attr: &Attr, has_acl: bool, flags: Option<&str>, size: &str, time: &str) -> String {
    let (plus, width) = if has_acl { ("+", 2) } else { ("", 3) };
    format!(
        "{}{plus} {:>width$} {:>5} {:>5}{} {size:>12} {time}",
        mode_string(attr.kind, attr.perm),
        attr.nlink,
        attr.uid,
        attr.gid,
        column_of(flags),
    )
}

/// Returns the same for a file whose inode cannot be read; the time has so many characters.
pub fn long_unknown(flags: Option<&str>, time_width: usize) -> String {
    format!("?????????? {0:>3} {0:>5} {0:>5}{1} {0:>12} {0:>time_width$}", '?', column_of(flags))
}

fn column_of(flags: Option<&str>) -> String {
    flags.map_or_else(String::new, |flags| format!(" {flags}"))
}

/// Returns a time to the minute, or in full.
pub fn time(time: Timestamp, full: bool) -> String {
    if full { time.to_string() } else { date::minute(time) }
}

/// Returns the character behind the name of a file of this kind, as `ls -F` prints it.
pub fn mark(attr: &Attr) -> &'static str {
    match attr.kind {
        FileKind::Directory => "/",
        FileKind::Symlink => "@",
        FileKind::Fifo => "|",
        FileKind::Socket => "=",
        FileKind::Regular if attr.perm & 0o111 != 0 => "*",
        FileKind::Regular | FileKind::BlockDevice | FileKind::CharDevice => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: each way of printing names hides what could control a terminal, and leaves plain
    /// names alone.
    #[test]
    fn names() {
        let name = b"a b\n\xff\\".as_slice();
        assert_eq!(Names::Quoted.show(name), r"$'a b\n\377\\'");
        assert_eq!(Names::Escaped.show(name), r"a b\n\xff\\");
        assert_eq!(Names::Hidden.show(name), r"a b??\");
        for names in [Names::Quoted, Names::Escaped, Names::Hidden] {
            assert_eq!(names.show("für.txt".as_bytes()), "für.txt");
        }
    }
}
