//! Access control lists of `NFSv4`, as FreeBSD and NetBSD store them and as Linux shows them.
//!
//! On the disk such a list is a `struct acl` (`sys/sys/acl.h`): the most entries there can be,
//! their number, four spare words, and room for 254 entries. Linux's attribute `system.nfs4_acl` is
//! the list as NFS transfers it (RFC 7530, in XDR); `nfs4_getfacl` reads it.

use spindle_ondisk::{Endian, Field};

/// Most entries (`ACL_MAX_ENTRIES`).
const ACL_MAX_ENTRIES: usize = 254;
/// Bytes before the entries.
const HEADER_BYTES: usize = 24;
/// Bytes of an entry: tag, number, permissions, type, flags.
const ENTRY_BYTES: usize = 16;

/// Permissions of the BSDs (`ACL_READ_DATA` …) with those of NFS (`ACE4_READ_DATA` …).
const PERMISSIONS: [(u32, u32); 14] = [
    (0x0008, 0x0001),
    (0x0010, 0x0002),
    (0x0020, 0x0004),
    (0x0040, 0x0008),
    (0x0080, 0x0010),
    (0x0001, 0x0020),
    (0x0100, 0x0040),
    (0x0200, 0x0080),
    (0x0400, 0x0100),
    (0x0800, 0x1_0000),
    (0x1000, 0x2_0000),
    (0x2000, 0x4_0000),
    (0x4000, 0x8_0000),
    (0x8000, 0x10_0000),
];
/// Types of entries: allow, deny, audit, alarm.
const TYPES: [u16; 4] = [0x100, 0x200, 0x400, 0x800];
/// Flags that both have; in NFS another one says that the entry is about a group.
const FLAGS: u16 = 0xbf;
/// That flag (`ACE4_IDENTIFIER_GROUP`).
const IDENTIFIER_GROUP: u32 = 0x40;

/// Returns a stored list in Linux's form; `None` if it is malformed.
#[must_use]
pub fn to_linux(stored: &[u8], endian: Endian) -> Option<Vec<u8>> {
    let (header, entries) = stored.split_at_checked(HEADER_BYTES)?;
    let count = usize::try_from(u32::get(&header[4..], endian)).ok()?;
    if entries.len() != ACL_MAX_ENTRIES * ENTRY_BYTES || count > ACL_MAX_ENTRIES {
        return None;
    }
    let mut value = u32::try_from(count).ok()?.to_be_bytes().to_vec();
    for entry in entries.chunks_exact(ENTRY_BYTES).take(count) {
        let id = u32::get(&entry[4..], endian);
        let (who, group) = match u32::get(entry, endian) {
            0x01 => ("OWNER@".to_owned(), false),
            0x02 => (id.to_string(), false),
            0x04 => ("GROUP@".to_owned(), true),
            0x08 => (id.to_string(), true),
            0x40 => ("EVERYONE@".to_owned(), false),
            _ => return None,
        };
        let perm = u32::get(&entry[8..], endian);
        let mask =
            PERMISSIONS.iter().filter(|(ours, _)| perm & ours != 0).fold(0, |mask, (_, nfs)| mask | nfs);
        let entry_type = u16::get(&entry[12..], endian);
        let entry_type = u32::try_from(TYPES.iter().position(|&known| known == entry_type)?).ok()?;
        let flags =
            u32::from(u16::get(&entry[14..], endian) & FLAGS) | if group { IDENTIFIER_GROUP } else { 0 };
        let len = u32::try_from(who.len()).ok()?;
        for word in [entry_type, flags, mask, len] {
            value.extend(word.to_be_bytes());
        }
        value.extend(who.as_bytes());
        value.resize(value.len().next_multiple_of(4), 0);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a stored list comes out as NFS has it, in both byte orders, and what is malformed
    /// does not.
    #[test]
    fn lists_are_translated() {
        for endian in [Endian::Little, Endian::Big] {
            let mut stored = vec![0; HEADER_BYTES + ACL_MAX_ENTRIES * ENTRY_BYTES];
            254_u32.put(&mut stored, endian);
            3_u32.put(&mut stored[4..], endian);
            let entries: [(u32, u32, u32, u16, u16); 3] = [
                (0x02, 1001, 0x18, 0x200, 0x3),
                (0x04, u32::MAX, 0x8001, 0x100, 0),
                (0x40, u32::MAX, 0x1200, 0x100, 0x80),
            ];
            for (n, (tag, id, perm, entry_type, flags)) in entries.into_iter().enumerate() {
                let entry = &mut stored[HEADER_BYTES + n * ENTRY_BYTES..];
                tag.put(entry, endian);
                id.put(&mut entry[4..], endian);
                perm.put(&mut entry[8..], endian);
                entry_type.put(&mut entry[12..], endian);
                flags.put(&mut entry[14..], endian);
            }
            #[rustfmt::skip]
            let expected = [
                &[0, 0, 0, 3][..],
                &[0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 4], b"1001",
                &[0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0x10, 0, 0x20, 0, 0, 0, 6], b"GROUP@\0\0",
                &[0, 0, 0, 0, 0, 0, 0, 0x80, 0, 2, 0, 0x80, 0, 0, 0, 9], b"EVERYONE@\0\0\0",
            ].concat();
            assert_eq!(to_linux(&stored, endian), Some(expected));
            assert_eq!(to_linux(&stored[..stored.len() - 1], endian), None);
            for (at, value) in [(4, 255_u32), (HEADER_BYTES, 3), (HEADER_BYTES + 12, 0)] {
                let mut damaged = stored.clone();
                value.put(&mut damaged[at..], endian);
                assert_eq!(to_linux(&damaged, endian), None, "{at}");
            }
        }
    }
}
