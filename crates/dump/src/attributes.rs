//! Extended attributes in a stream: the records of UFS2, and Linux's blocks of ext2.

use spindle_ffs::{acl, extattr};
use spindle_ondisk::{Endian, Field};
use spindle_tree::xattr::{join, split};
use spindle_vfs::Acl;
use spindle_vfs::acl::{ACCESS_ACL, DEFAULT_ACL, Entry, NFS4_ACL, is_acl_name, who};
use std::borrow::Cow;

/// Full names and values.
pub type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

/// Name spaces of ext2 with the prefixes that their names have here.
const EXT2_SPACES: [(u8, &[u8]); 5] =
    [(1, b"user."), (2, ACCESS_ACL), (3, DEFAULT_ACL), (4, b"trusted."), (6, b"security.")];

/// Returns attributes as UFS2 has them, little-endian, and how many it cannot have.
#[must_use]
pub fn encode(attributes: &[(Vec<u8>, Vec<u8>)]) -> (Vec<u8>, usize) {
    let mut area = Vec::new();
    let mut left_out = 0;
    for (name, value) in attributes {
        let record = if is_acl_name(name) || name == NFS4_ACL {
            acl::for_freebsd(name, value).map(|(name, value)| (acl::SPACE, name, Cow::Owned(value)))
        } else {
            split(name).map(|(space, name)| (space, name, Cow::Borrowed(&value[..])))
        };
        let pushed = record.is_some_and(|(space, name, value)| {
            extattr::push_record(&mut area, Endian::Little, space, name, &value).is_ok()
        });
        left_out += usize::from(!pushed);
    }
    (area, left_out)
}

/// Returns the attributes in data of UFS2, and what is wrong with it.
#[must_use]
pub fn decode(area: &[u8], endian: Endian) -> (Attributes, Option<String>) {
    let mut found = Vec::new();
    let mut rest = area;
    for record in extattr::records(area, endian) {
        let Some(record) = record else { return (found, Some("a record that does not fit".into())) };
        rest = &rest[record.bytes.len()..];
        if let Some(name) = join(record.space, record.name) {
            found.push((name, record.value.to_vec()));
        } else if record.space != 0 {
            return (found, Some(format!("the unknown name space {}", record.space)));
        }
    }
    let is_empty = rest.iter().all(|byte| *byte == 0);
    (found, (!is_empty).then(|| "no record where one should be".to_owned()))
}

/// Returns the attributes in a block or an inode of ext2, as Linux's dump writes it.
#[must_use]
pub fn decode_ext2(bytes: &[u8], endian: Endian) -> (Attributes, Option<String>) {
    /// Magic numbers of a block, and of what stands in an inode.
    const BLOCK: u32 = 0xea02_0000;
    const IN_INODE: u32 = 0xea02_0001;
    let wrong = |what: &str| Some(what.to_owned());
    let word = |at: usize| bytes.get(at..at + 4).map(|word| u32::get(word, endian));
    let (mut at, base) = match word(0) {
        Some(BLOCK) => (32, 0),
        Some(IN_INODE) => (4, 4),
        _ => return (Vec::new(), wrong("no attributes of ext2")),
    };
    let mut found = Vec::new();
    while word(at).is_some_and(|word| word != 0) {
        let Some(head) = bytes.get(at..at + 16) else { return (found, wrong("an entry that does not fit")) };
        let (name_len, index) = (usize::from(head[0]), head[1]);
        let offset = usize::from(u16::get(&head[2..], endian)) + base;
        let size = usize::try_from(u32::get(&head[8..], endian)).unwrap_or(usize::MAX);
        let name = bytes.get(at + 16..at + 16 + name_len);
        let value = offset.checked_add(size).and_then(|end| bytes.get(offset..end));
        let (Some(name), Some(value)) = (name, value) else {
            return (found, wrong("an entry that does not fit"));
        };
        match EXT2_SPACES.iter().find(|(space, _)| *space == index) {
            Some((_, prefix)) if is_acl_name(prefix) => {
                let Some(list) = list_of_ext2(value, endian) else {
                    return (found, wrong("a malformed access control list"));
                };
                found.push((prefix.to_vec(), list.to_linux()));
            }
            Some((_, prefix)) => found.push(([prefix, name].concat(), value.to_vec())),
            None => return (found, Some(format!("the unknown name space {index}"))),
        }
        at += (16 + name_len).next_multiple_of(4);
    }
    (found, None)
}

/// Returns an access control list of ext2: a version, and entries, of which only those of users and
/// groups have a number.
fn list_of_ext2(value: &[u8], endian: Endian) -> Option<Acl> {
    const VERSION: u32 = 1;
    let (version, mut rest) = value.split_at_checked(4)?;
    let mut entries = Vec::new();
    while let Some((head, behind)) = rest.split_at_checked(4) {
        let tag = u32::from(u16::get(head, endian));
        let has_id = matches!(tag, 0x02 | 0x08);
        let (id, behind) = behind.split_at_checked(if has_id { 4 } else { 0 })?;
        let id = if has_id { u32::get(id, endian) } else { u32::MAX };
        let perm = u8::try_from(u16::get(&head[2..], endian)).ok()?;
        entries.push(Entry { who: who(tag, id)?, perm });
        rest = behind;
    }
    let whole = rest.is_empty() && u32::get(version, endian) == VERSION;
    Acl::new(entries).ok().filter(|_| whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (name.as_bytes().to_vec(), value.to_vec())
    }

    /// Promise: attributes of all name spaces of UFS2 come back, and others are counted.
    #[test]
    fn attributes_round_trip() {
        let kept = [
            pair("user.a", b""),
            pair("user.long", &[7; 3000]),
            pair("system.x", b"12345678"),
            pair("trusted.x", b"1"),
        ];
        let all = [&kept[..], &[pair("security.t", b"1")]].concat();
        let (area, left_out) = encode(&all);
        assert_eq!(left_out, 1);
        assert_eq!(decode(&area, Endian::Little), (kept.to_vec(), None));
        let (some, wrong) = decode(&area[..area.len() - 8], Endian::Little);
        assert!(some.len() == 3 && wrong.is_some());
    }

    /// Promise: access control lists are in a stream as FreeBSD has them; those of ext2 come as
    /// Linux has them.
    #[test]
    fn lists_are_translated() {
        let linux = |perm| Acl::minimal(perm).to_linux();
        let lists = [pair("system.posix_acl_access", &linux(0o640)), pair("user.a", b"1")];
        let (area, left_out) = encode(&lists);
        assert_eq!(left_out, 0);
        let record = extattr::records(&area, Endian::Little).next().unwrap().unwrap();
        assert_eq!((record.space, record.name), (2, &b"posix1e.acl_access"[..]));
        assert_eq!((record.value.len(), &record.value[..8]), (388, &[3, 0, 0, 0, 1, 0, 0, 0][..]));
        assert_eq!(acl::decode_any(record.value), Some(Acl::minimal(0o640)));
        assert_eq!(encode(&[pair("system.posix_acl_default", b"none")]).1, 1);
        let bytes = [1, 0, 0, 0, 1, 0, 6, 0, 4, 0, 4, 0, 0x20, 0, 0, 0];
        assert_eq!(list_of_ext2(&bytes, Endian::Little), Some(Acl::minimal(0o640)));
        let named = [&bytes[..8], &[2, 0, 7, 0, 9, 0, 0, 0], &bytes[8..12], &[16, 0, 4, 0], &bytes[12..]];
        assert_eq!(list_of_ext2(&named.concat(), Endian::Little).unwrap().entries().len(), 5);
        for len in 0..bytes.len() {
            assert_eq!(list_of_ext2(&bytes[..len], Endian::Little), None);
        }
    }

    /// Promise: a block of ext2 as Linux's dump has written it is read, and no byte of it leads out
    /// of it.
    #[test]
    fn blocks_of_ext2() {
        let mut block = vec![0; 256];
        0xea02_0001_u32.put(&mut block, Endian::Little);
        block[4] = 1;
        block[5] = 1;
        block[6] = 100;
        block[12] = 3;
        block[20] = b'a';
        block[104..107].copy_from_slice(b"val");
        assert_eq!(decode_ext2(&block, Endian::Little), (vec![pair("user.a", b"val")], None));
        for at in 4..24 {
            for byte in [0xff, 0x80, 0] {
                let mut damaged = block.clone();
                damaged[at] = byte;
                let _ = decode_ext2(&damaged, Endian::Little);
            }
        }
    }
}
