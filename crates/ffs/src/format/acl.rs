//! Access control lists as FreeBSD and NetBSD store them (`sys/sys/acl.h`): extended attributes of
//! the name space of the system that hold one structure of fixed size.
//!
//! Lists of POSIX.1e are a `struct oldacl`: a count, and room for 32 entries of a tag, the number
//! of a user or group, and permissions. What such a list says of the owner, of others, and of the
//! mask (the group, without a mask) does not count: the permission bits of the file do, which chmod
//! changes without the list. So both systems put them into the list when they read it, and so do
//! we. Lists of `NFSv4` are a `struct acl`, with room for 254 entries.

use super::dialect::Dialect;
use super::nfs4;
use crate::format::ondisk::flags;
use crate::format::superblock::Superblock;
use spindle_ondisk::{Endian, Field};
use spindle_vfs::acl::{ACCESS_ACL, DEFAULT_ACL, Entry, NFS4_ACL, tag, who};
use spindle_vfs::{Acl, AclKind, Error, Nfs4Acl, Result};

/// Name of the list that decides about access (`POSIX1E_ACL_ACCESS_EXTATTR_NAME`).
pub const POSIX1E_ACCESS: &[u8] = b"posix1e.acl_access";
/// Name of the list that new files of a directory get (`POSIX1E_ACL_DEFAULT_EXTATTR_NAME`).
pub const POSIX1E_DEFAULT: &[u8] = b"posix1e.acl_default";
/// Name of a list of `NFSv4` (`NFS4_ACL_EXTATTR_NAME`).
pub const NFS4: &[u8] = b"nfs4.acl";
/// Number of the name space of all of them (`EXTATTR_NAMESPACE_SYSTEM`).
pub const SPACE: u8 = 2;

/// Most entries of a list of POSIX.1e (`OLDACL_MAX_ENTRIES`).
const OLDACL_MAX_ENTRIES: usize = 32;
/// Bytes of an entry of one.
const ENTRY_BYTES: usize = 12;
/// Bytes of a `struct oldacl`.
const OLDACL_BYTES: usize = 4 + OLDACL_MAX_ENTRIES * ENTRY_BYTES;

/// Returns the lists of a file system. Without attributes in its inodes it has none: UFS1 of
/// FreeBSD kept them in files below `.attribute`, and other systems have no lists.
#[must_use]
pub fn kind_of(superblock: &Superblock) -> AclKind {
    let on = |flag| superblock.can_have_acls() && superblock.flags() & flag != 0;
    // FreeBSD and NetBSD prefer them in this order.
    if nfs4_flag(superblock.dialect).is_some_and(on) {
        AclKind::Nfs4
    } else if on(flags::FS_ACLS) {
        AclKind::Posix
    } else {
        AclKind::None
    }
}

/// Returns the flag of lists of `NFSv4`; `None` for a system that has no lists.
#[must_use]
pub const fn nfs4_flag(dialect: Dialect) -> Option<u32> {
    match dialect {
        Dialect::FreeBsd => Some(flags::FREEBSD_NFS4ACLS),
        Dialect::NetBsd => Some(flags::NETBSD_NFS4ACLS),
        _ => None,
    }
}

/// Returns true if permissions take four bytes instead of two and padding: a `mode_t` of NetBSD.
const fn is_wide(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::NetBsd)
}

/// Decodes a `struct oldacl`; returns `None` for a list without entries, which is none.
///
/// # Errors
/// [`Error::Invalid`] if it is not a valid list.
pub fn decode(value: &[u8], dialect: Dialect, endian: Endian) -> Result<Option<Acl>> {
    let count = if value.len() == OLDACL_BYTES { u32::get(value, endian) } else { u32::MAX };
    let count = usize::try_from(count).ok().filter(|&count| count <= OLDACL_MAX_ENTRIES);
    let entries = value.get(4..).unwrap_or_default().chunks_exact(ENTRY_BYTES);
    let entry = |bytes: &[u8]| {
        let perm = if is_wide(dialect) {
            u32::get(&bytes[8..], endian)
        } else {
            u16::get(&bytes[8..], endian).into()
        };
        let who = who(u32::get(bytes, endian), u32::get(&bytes[4..], endian)).ok_or(Error::Invalid)?;
        Ok(Entry { who, perm: u8::try_from(perm).map_err(|_| Error::Invalid)? })
    };
    match count {
        None => Err(Error::Invalid),
        Some(0) => Ok(None),
        Some(count) => Acl::new(entries.take(count).map(entry).collect::<Result<_>>()?).map(Some),
    }
}

/// Decodes a `struct oldacl` of a system of which nobody knows any more which it was.
#[must_use]
pub fn decode_any(value: &[u8]) -> Option<Acl> {
    let systems = [Dialect::FreeBsd, Dialect::NetBsd];
    let read = systems.into_iter().flat_map(|dialect| {
        [Endian::Little, Endian::Big].map(|endian| decode(value, dialect, endian).ok().flatten())
    });
    // Permissions where the other system has padding are zeros.
    read.flatten().max_by_key(|acl| acl.entries().iter().any(|entry| entry.perm != 0))
}

/// Returns the name and the value for Linux of a list that is named as it is stored.
#[must_use]
pub fn for_linux(name: &[u8], value: &[u8]) -> Option<(&'static [u8], Vec<u8>)> {
    let shown = match name.strip_prefix(b"system.")? {
        POSIX1E_ACCESS => ACCESS_ACL,
        POSIX1E_DEFAULT => DEFAULT_ACL,
        NFS4 => return Some((NFS4_ACL, nfs4::decode_any(value)?.to_linux())),
        _ => return None,
    };
    Some((shown, decode_any(value)?.to_linux()))
}

/// Returns the name and the value that a list in Linux's form has where FreeBSD stores it,
/// little-endian; `None` if it is no list, or has too many entries.
#[must_use]
pub fn for_freebsd(name: &[u8], value: &[u8]) -> Option<(&'static [u8], Vec<u8>)> {
    let posix = || encode(&Acl::from_linux(value).ok()??, Dialect::FreeBsd, Endian::Little).ok();
    match name {
        ACCESS_ACL => Some((POSIX1E_ACCESS, posix()?)),
        DEFAULT_ACL => Some((POSIX1E_DEFAULT, posix()?)),
        NFS4_ACL => Some((NFS4, nfs4::encode(&Nfs4Acl::from_linux(value).ok()?, Endian::Little).ok()?)),
        _ => None,
    }
}

/// Returns a list as a `struct oldacl`.
///
/// # Errors
/// [`Error::NoSpace`] if it has more than 32 entries.
pub fn encode(acl: &Acl, dialect: Dialect, endian: Endian) -> Result<Vec<u8>> {
    if acl.entries().len() > OLDACL_MAX_ENTRIES {
        return Err(Error::NoSpace);
    }
    let mut value = vec![0; OLDACL_BYTES];
    u32::try_from(acl.entries().len()).unwrap_or(0).put(&mut value, endian);
    for (bytes, entry) in value[4..].chunks_exact_mut(ENTRY_BYTES).zip(acl.entries()) {
        let (tag, id) = tag(entry.who);
        u32::from(tag).put(bytes, endian);
        id.put(&mut bytes[4..], endian);
        if is_wide(dialect) {
            u32::from(entry.perm).put(&mut bytes[8..], endian);
        } else {
            u16::from(entry.perm).put(&mut bytes[8..], endian);
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_vfs::acl::Who;

    /// Returns the list `u::rwx,u:1001:r-x,g::r--,g:70000:-w-,m::rwx,o::---`.
    fn list() -> Acl {
        let entries = [
            (Who::Owner, 7),
            (Who::User(1001), 5),
            (Who::OwningGroup, 4),
            (Who::Group(70000), 2),
            (Who::Mask, 7),
            (Who::Other, 0),
        ];
        Acl::new(entries.iter().map(|&(who, perm)| Entry { who, perm }).collect()).unwrap()
    }

    /// The same as FreeBSD has it, on a little-endian machine: the count, then tag, number and
    /// permissions with two bytes of padding.
    #[rustfmt::skip]
    const LITTLE: [u8; 76] = [
        6, 0, 0, 0,
        0x01, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0,
        0x02, 0, 0, 0, 0xe9, 0x03, 0, 0, 5, 0, 0, 0,
        0x04, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 4, 0, 0, 0,
        0x08, 0, 0, 0, 0x70, 0x11, 0x01, 0, 2, 0, 0, 0,
        0x10, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0,
        0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
    ];

    /// And on a big-endian one.
    #[rustfmt::skip]
    const BIG: [u8; 76] = [
        0, 0, 0, 6,
        0, 0, 0, 0x01, 0xff, 0xff, 0xff, 0xff, 0, 7, 0, 0,
        0, 0, 0, 0x02, 0, 0, 0x03, 0xe9, 0, 5, 0, 0,
        0, 0, 0, 0x04, 0xff, 0xff, 0xff, 0xff, 0, 4, 0, 0,
        0, 0, 0, 0x08, 0, 0x01, 0x11, 0x70, 0, 2, 0, 0,
        0, 0, 0, 0x10, 0xff, 0xff, 0xff, 0xff, 0, 7, 0, 0,
        0, 0, 0, 0x20, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
    ];

    fn padded(bytes: &[u8]) -> Vec<u8> {
        let mut value = bytes.to_vec();
        value.resize(388, 0);
        value
    }

    /// Promise: lists are read and written byte for byte as the structure has them, in both byte
    /// orders, and with NetBSD's wider permissions.
    #[test]
    fn stored_form() {
        let (free, net) = (Dialect::FreeBsd, Dialect::NetBsd);
        let mut wide = BIG;
        for entry in wide[4..].chunks_exact_mut(12) {
            (entry[11], entry[9]) = (entry[9], 0);
        }
        for (bytes, dialect, endian) in [
            (LITTLE, free, Endian::Little),
            (LITTLE, net, Endian::Little),
            (BIG, free, Endian::Big),
            (wide, net, Endian::Big),
        ] {
            assert_eq!(encode(&list(), dialect, endian).unwrap(), padded(&bytes), "{dialect:?} {endian:?}");
            assert_eq!(decode(&padded(&bytes), dialect, endian).unwrap(), Some(list()));
        }
        // What old kernels left in the padding does not count, nor what is behind the count.
        let mut dirty = padded(&LITTLE);
        dirty[14..16].fill(0xaa);
        dirty[80..].fill(0x55);
        assert_eq!(decode(&dirty, free, Endian::Little).unwrap(), Some(list()));
    }

    /// Promise: a list is also read without knowing whose it is, and gets Linux's name then.
    #[test]
    fn of_any_system() {
        for dialect in [Dialect::FreeBsd, Dialect::NetBsd] {
            for endian in [Endian::Little, Endian::Big] {
                let value = encode(&list(), dialect, endian).unwrap();
                assert_eq!(decode_any(&value), Some(list()), "{dialect:?} {endian:?}");
                let linux = for_linux(b"system.posix1e.acl_default", &value);
                assert_eq!(linux, Some((DEFAULT_ACL, list().to_linux())));
                assert_eq!(for_linux(b"system.other", &value), None);
            }
        }
        assert_eq!(for_linux(b"system.posix1e.acl_access", b"none"), None);
    }

    /// Promise: the order in which entries are stored does not matter.
    #[test]
    fn any_order() {
        let mut value = padded(&LITTLE);
        let (first, last) = (value[4..16].to_vec(), value[64..76].to_vec());
        value[4..16].copy_from_slice(&last);
        value[64..76].copy_from_slice(&first);
        assert_eq!(decode(&value, Dialect::FreeBsd, Endian::Little).unwrap(), Some(list()));
    }

    /// Promise: whatever is stored, it is a valid list, none, or refused; so are other lengths, and
    /// lists that are too long.
    #[test]
    fn damage_is_refused() {
        let value = padded(&LITTLE);
        for len in (0..400).filter(|&len| len != 388) {
            let mut other = value.clone();
            other.resize(len, 0);
            decode(&other, Dialect::FreeBsd, Endian::Little).unwrap_err();
        }
        for at in 0..100 {
            for byte in [0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xff] {
                let mut other = value.clone();
                other[at] = byte;
                if let Ok(Some(read)) = decode(&other, Dialect::FreeBsd, Endian::Little) {
                    assert_eq!(Acl::new(read.entries().to_vec()).unwrap(), read);
                }
            }
        }
        assert_eq!(decode(&vec![0; 388], Dialect::FreeBsd, Endian::Little).unwrap(), None);
        let users = (0..29).map(|uid| Entry { who: Who::User(uid), perm: 7 });
        let list = list();
        let rest = list.entries().iter().copied().filter(|e| !matches!(e.who, Who::User(_) | Who::Group(_)));
        let mut entries: Vec<_> = users.chain(rest).collect();
        encode(&Acl::new(entries.clone()).unwrap(), Dialect::FreeBsd, Endian::Little).unwrap_err();
        entries.remove(0);
        encode(&Acl::new(entries).unwrap(), Dialect::FreeBsd, Endian::Little).unwrap();
    }
}
