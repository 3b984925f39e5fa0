//! Access control lists of `NFSv4`, as FreeBSD and NetBSD store them.
//!
//! On the disk such a list is a `struct acl` (`sys/sys/acl.h`): the most entries there can be,
//! their number, four spare words, and room for 254 entries.

use spindle_ondisk::{Endian, Field};
use spindle_vfs::nfs4::{Entry, Flags, Perms, Who};
use spindle_vfs::{Error, Nfs4Acl, Result};

/// Most entries (`ACL_MAX_ENTRIES`).
const ACL_MAX_ENTRIES: usize = 254;
/// Most entries of a list that is set: FreeBSD keeps room for two entries in the place of each, and
/// for six more.
pub const MOST_SET: usize = (ACL_MAX_ENTRIES - 6) / 2;
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
/// All permissions of the BSDs (`ACL_NFS4_PERM_BITS`).
const PERM_BITS: u32 = 0xfff9;
/// Types of entries: allow and deny. Others, which only report accesses, FreeBSD refuses too.
const ALLOW: u16 = 0x100;
const DENY: u16 = 0x200;
/// The number in an entry that is about neither a user nor a group (`ACL_UNDEFINED_ID`).
const UNDEFINED_ID: u32 = u32::MAX;

/// Decodes a stored list.
///
/// # Errors
/// [`Error::Invalid`] if it is not a valid list.
pub fn decode(stored: &[u8], endian: Endian) -> Result<Nfs4Acl> {
    let (header, entries) = stored.split_at_checked(HEADER_BYTES).ok_or(Error::Invalid)?;
    let count = usize::try_from(u32::get(&header[4..], endian)).unwrap_or(usize::MAX);
    if entries.len() != ACL_MAX_ENTRIES * ENTRY_BYTES || count > ACL_MAX_ENTRIES {
        return Err(Error::Invalid);
    }
    let entry = |bytes: &[u8]| {
        let id = u32::get(&bytes[4..], endian);
        let who = match (u32::get(bytes, endian), id) {
            (0x01, UNDEFINED_ID) => Who::Owner,
            (0x02, _) => Who::User(id),
            (0x04, UNDEFINED_ID) => Who::OwningGroup,
            (0x08, _) => Who::Group(id),
            (0x40, UNDEFINED_ID) => Who::Everyone,
            _ => return Err(Error::Invalid),
        };
        let perm = u32::get(&bytes[8..], endian);
        let named = PERMISSIONS.iter().filter(|(ours, _)| perm & ours != 0);
        let perms = Perms::from_bits(named.fold(0, |perms, (_, nfs)| perms | nfs));
        let perms = perms.filter(|_| perm & !PERM_BITS == 0).ok_or(Error::Invalid)?;
        let allows = match u16::get(&bytes[12..], endian) {
            ALLOW => true,
            DENY => false,
            _ => return Err(Error::Invalid),
        };
        let flags = Flags::from_bits(u16::get(&bytes[14..], endian)).ok_or(Error::Invalid)?;
        Ok(Entry { who, allows, perms, flags })
    };
    Nfs4Acl::new(entries.chunks_exact(ENTRY_BYTES).take(count).map(entry).collect::<Result<_>>()?)
}

/// Decodes a stored list of a system of which nobody knows any more which it was.
#[must_use]
pub fn decode_any(stored: &[u8]) -> Option<Nfs4Acl> {
    [Endian::Little, Endian::Big].into_iter().find_map(|endian| decode(stored, endian).ok())
}

/// Returns a list as a `struct acl`.
///
/// # Errors
/// [`Error::NoSpace`] if it has more than 254 entries.
pub fn encode(acl: &Nfs4Acl, endian: Endian) -> Result<Vec<u8>> {
    let count = acl.entries().len();
    if count > ACL_MAX_ENTRIES {
        return Err(Error::NoSpace);
    }
    let mut stored = vec![0; HEADER_BYTES + ACL_MAX_ENTRIES * ENTRY_BYTES];
    254_u32.put(&mut stored, endian);
    u32::try_from(count).unwrap_or(0).put(&mut stored[4..], endian);
    for (bytes, entry) in stored[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES).zip(acl.entries()) {
        let (tag, id): (u32, u32) = match entry.who {
            Who::Owner => (0x01, UNDEFINED_ID),
            Who::User(uid) => (0x02, uid),
            Who::OwningGroup => (0x04, UNDEFINED_ID),
            Who::Group(gid) => (0x08, gid),
            Who::Everyone => (0x40, UNDEFINED_ID),
        };
        let perms = entry.perms.bits();
        let perm =
            PERMISSIONS.iter().filter(|(_, nfs)| perms & nfs != 0).fold(0, |perm, (ours, _)| perm | ours);
        tag.put(bytes, endian);
        id.put(&mut bytes[4..], endian);
        perm.put(&mut bytes[8..], endian);
        (if entry.allows { ALLOW } else { DENY }).put(&mut bytes[12..], endian);
        entry.flags.bits().put(&mut bytes[14..], endian);
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a stored list is read and written byte for byte, in both byte orders, with the
    /// permissions that NFS has for those of the BSDs; and what is malformed is no list.
    #[test]
    fn stored_form() {
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
            let acl = decode(&stored, endian).unwrap();
            let shown: Vec<_> = acl
                .entries()
                .iter()
                .map(|entry| (entry.who, entry.allows, entry.perms.bits(), entry.flags.bits()))
                .collect();
            let expected = [
                (Who::User(1001), false, 0x3, 0x3),
                (Who::OwningGroup, true, 0x10_0020, 0),
                (Who::Everyone, true, 0x2_0080, 0x80),
            ];
            assert_eq!(shown, expected);
            assert_eq!(encode(&acl, endian).unwrap(), stored);
            assert_eq!(decode_any(&stored), Some(acl));
            decode(&stored[..stored.len() - 1], endian).unwrap_err();
            for (at, value) in [
                (4, 0_u32),
                (4, 255),
                (HEADER_BYTES, 3),
                (HEADER_BYTES, 1),
                (HEADER_BYTES + 4, u32::MAX),
                (HEADER_BYTES + 8, 0x1_0000),
                (HEADER_BYTES + 12, 0),
            ] {
                let mut damaged = stored.clone();
                value.put(&mut damaged[at..], endian);
                decode(&damaged, endian).unwrap_err();
            }
        }
        let many = |count| Nfs4Acl::new(vec![Entry::new(Who::Everyone, true, Perms::ALL); count]).unwrap();
        assert_eq!(decode_any(&encode(&many(254), Endian::Big).unwrap()), Some(many(254)));
        encode(&many(255), Endian::Big).unwrap_err();
    }
}
