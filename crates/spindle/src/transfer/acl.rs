//! Access control lists on their way: their text in tar streams, and what is left of the
//! permissions of a file whose list the target cannot have.
//!
//! The text is that of POSIX.1e, which GNU tar, star and libarchive write into the records
//! `SCHILY.acl.access` and `SCHILY.acl.default` (star(5), tar(5) of libarchive): entries between
//! commas or ends of lines, `user:lisa:r-x` or `user:lisa:r-x:1001`.

use super::mtree::Names;
use crate::error::Error;
use spindle_vfs::Acl;
use spindle_vfs::acl::{ACCESS_ACL, DEFAULT_ACL, Entry, NFS4_ACL, Who, is_acl_name};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Keys of records, and the names of the attributes that hold the same lists.
const RECORDS: [(&[u8], &[u8]); 2] =
    [(b"SCHILY.acl.access", ACCESS_ACL), (b"SCHILY.acl.default", DEFAULT_ACL)];
/// Begin of the keys of all lists; `SCHILY.acl.ace` is one of `NFSv4`.
const PREFIX: &[u8] = b"SCHILY.acl.";
/// A list of `NFSv4` under the name of its attribute.
const STORED_NFS4: &[u8] = b"system.nfs4.acl";

/// The users and groups of this machine.
static HOST: LazyLock<Names> = LazyLock::new(|| {
    let read = |path| std::fs::read(path).unwrap_or_default();
    Names::parse(&read("/etc/passwd"), &read("/etc/group"))
});

/// Returns true for the names under which lists travel.
pub(super) fn is_list(name: &[u8]) -> bool {
    is_acl_name(name) || name == NFS4_ACL || name == STORED_NFS4 || name.starts_with(PREFIX)
}

/// Returns the list of a record of a tar stream as an attribute: under Linux's name and in its form
/// if it can be read, else as it is, which no target stores.
pub(super) fn attribute(key: &[u8], text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if !key.starts_with(PREFIX) {
        return None;
    }
    let name = RECORDS.iter().find(|(record, _)| *record == key).map(|(_, name)| name.to_vec());
    let entries: Option<Vec<Entry>> = entries(text, &HOST).collect();
    let list = entries.and_then(|entries| Acl::new(entries).ok());
    Some(name.zip(list).map_or_else(|| (key.to_vec(), text.to_vec()), |(name, list)| (name, list.to_linux())))
}

/// Returns the record of a tar stream for a list in Linux's form; `None` if it is no list.
pub(super) fn record(name: &[u8], value: &[u8]) -> Option<(&'static [u8], String)> {
    let (key, _) = RECORDS.into_iter().find(|(_, attribute)| *attribute == name)?;
    let list = Acl::from_linux(value).ok()??;
    let text = |entry: &Entry| {
        let bit = |bit: u8, c: char| if entry.perm & bit != 0 { c } else { '-' };
        let perm: String = [bit(4, 'r'), bit(2, 'w'), bit(1, 'x')].iter().collect();
        match entry.who {
            Who::Owner => format!("user::{perm}"),
            Who::User(id) => format!("user:{id}:{perm}"),
            Who::OwningGroup => format!("group::{perm}"),
            Who::Group(id) => format!("group:{id}:{perm}"),
            Who::Mask => format!("mask::{perm}"),
            Who::Other => format!("other::{perm}"),
        }
    };
    Some((key, list.entries().iter().map(text).collect::<Vec<_>>().join(",")))
}

/// Returns the permissions of a file with the permission bits `perm` without this list, whose mask
/// those of the group were: the owning group keeps what it had. `None` if they say all that the
/// list says.
pub(super) fn lost(name: &[u8], value: &[u8], perm: u32) -> Option<u32> {
    let entries: Cow<'_, [Entry]> = match Acl::from_linux(value) {
        Ok(None) if is_acl_name(name) => return None,
        Ok(Some(list)) if list.is_minimal() && name == ACCESS_ACL => return None,
        Ok(Some(list)) => list.entries().to_vec().into(),
        _ => entries(value, &HOST).flatten().collect::<Vec<_>>().into(),
    };
    let of = |who| entries.iter().find(|entry| entry.who == who).map(|entry| u32::from(entry.perm));
    let is_access = name == ACCESS_ACL || name == RECORDS[0].0;
    Some(match of(Who::OwningGroup).filter(|_| is_access) {
        Some(group) => perm & !0o070 | (perm >> 3 & group & 7) << 3,
        None => perm,
    })
}

/// Returns the error of a list that is left out, because `target` has none of its kind.
pub(super) fn left_out(name: &[u8], target: &str) -> Error {
    let which = if name == DEFAULT_ACL || name == RECORDS[1].0 { "default " } else { "" };
    Error::new(if name == RECORDS[0].0 || name == RECORDS[1].0 {
        format!(
            "its {which}access control list is left out: it is not valid, or names a user or group \
             that /etc/passwd and /etc/group do not have"
        )
    } else if is_acl_name(name) {
        format!("its {which}access control list is left out: {target}")
    } else if name == NFS4_ACL {
        format!("its access control list of NFSv4 is left out: {target}")
    } else {
        "its access control list of NFSv4 is left out: it cannot be stored".into()
    })
}

/// Returns the entries of a text; none in place of each that cannot be read.
fn entries<'a>(text: &'a [u8], names: &'a Names) -> impl Iterator<Item = Option<Entry>> + 'a {
    let pieces = text.split(|byte| matches!(byte, b',' | b'\n'));
    let pieces = pieces.map(|piece| piece.split(|&byte| byte == b'#').next().unwrap_or_default());
    let pieces = pieces.map(<[u8]>::trim_ascii).filter(|piece| !piece.is_empty());
    pieces.map(|piece| entry(piece, names))
}

/// Parses an entry. A number in the fourth field counts before the name in the second.
fn entry(text: &[u8], names: &Names) -> Option<Entry> {
    let fields: Vec<&[u8]> = text.split(|&byte| byte == b':').map(<[u8]>::trim_ascii).collect();
    let (tag, whom, perm, number) = match fields[..] {
        [tag @ (b"mask" | b"m" | b"other" | b"o"), perm] => (tag, &b""[..], perm, None),
        [tag, whom, perm] => (tag, whom, perm, None),
        [tag, whom, perm, number] => (tag, whom, perm, Some(number)),
        _ => return None,
    };
    let parse = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse().ok();
    let id = |known: Option<u32>| number.and_then(parse).or_else(|| parse(whom)).or(known);
    let who = match (tag, whom.is_empty()) {
        (b"user" | b"u", true) => Who::Owner,
        (b"user" | b"u", false) => Who::User(id(names.user(whom))?),
        (b"group" | b"g", true) => Who::OwningGroup,
        (b"group" | b"g", false) => Who::Group(id(names.group(whom))?),
        (b"mask" | b"m", true) => Who::Mask,
        (b"other" | b"o", true) => Who::Other,
        _ => return None,
    };
    let perm = perm.iter().try_fold(0, |perm, byte| match byte {
        b'r' => Some(perm | 4),
        b'w' => Some(perm | 2),
        b'x' => Some(perm | 1),
        b'-' => Some(perm),
        _ => None,
    })?;
    Some(Entry { who, perm })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Option<Acl> {
        let names = Names::parse(b"lisa:*:502:20::/:/bin/sh\n", b"staff:*:20:\n");
        Acl::new(entries(text.as_bytes(), &names).collect::<Option<_>>()?).ok()
    }

    /// Promise: the texts of GNU tar, star and libarchive are read, by name and by number, and
    /// what is no list is refused.
    #[test]
    fn texts_are_read() {
        let expected = list("user::rwx,user:502:r-x,group::r--,group:20:-w-,mask::rwx,other::---").unwrap();
        for text in [
            "user::rwx\nuser:lisa:r-x\ngroup::r--\ngroup:staff:-w-\nmask::rwx\nother::---\n",
            "user::rwx,user:nobody-here:r-x:502,group::r--,group:staff:-w-:20,mask::rwx,other::---",
            "u::rwx,u:lisa:rx,g::r,g:20:w,m:rwx,o:---",
            "user::rwx\nuser:lisa:r-x\t#effective:r-x\ngroup::r--\ngroup:staff:-w-\nmask::rwx\nother::---",
        ] {
            assert_eq!(list(text), Some(expected.clone()), "{text}");
        }
        for wrong in ["", "user::rwx", "user::rwx,user:who:r--,group::r--,mask::r--,other::---", "other"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
        for (key, name) in RECORDS {
            let (written, text) = record(name, &expected.to_linux()).unwrap();
            assert_eq!(written, key);
            assert_eq!(attribute(key, text.as_bytes()), Some((name.to_vec(), expected.to_linux())));
        }
        assert_eq!(record(b"user.x", b""), None);
        assert_eq!(attribute(b"SCHILY.xattr.user.x", b""), None);
    }

    /// Promise: without its list a file gives its group what that had, never what the mask let
    /// others have; a list that permission bits say is not lost.
    #[test]
    fn the_group_keeps_its_own() {
        let value = list("user::rwx,user:1:rwx,group::r-x,mask::rw-,other::r--").unwrap().to_linux();
        assert_eq!(lost(ACCESS_ACL, &value, 0o4764), Some(0o4744));
        assert_eq!(lost(DEFAULT_ACL, &value, 0o764), Some(0o764));
        assert_eq!(
            lost(RECORDS[0].0, b"user::rwx,user:nobody-here:rwx,group::r-x,mask::rwx", 0o770),
            Some(0o750)
        );
        assert_eq!(lost(ACCESS_ACL, &Acl::minimal(0o640).to_linux(), 0o640), None);
        assert_eq!(lost(RECORDS[0].0, b"", 0o640), Some(0o640));
    }
}
