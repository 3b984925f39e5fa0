//! Access control lists of POSIX.1e (draft 17): what they grant, how they and the permission bits
//! of a file say the same, and the form in which Linux has them in extended attributes.
//!
//! Of each list the entries of the owner, of others, and of the mask (of the group, where there is
//! no mask) are the nine permission bits of the file under another name. So a file that has no
//! list has one nevertheless, that of its permission bits: a *minimal* one.

use crate::access::Access;
use crate::{Attr, Cred, Error, Nfs4Acl, Result};

/// Name by which Linux asks for the list that decides about access to a file.
pub const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
/// Name by which Linux asks for the list that new files of a directory get.
pub const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// Name by which Linux asks for a list of `NFSv4`, as NFS transfers it ([`crate::nfs4`]).
pub const NFS4_ACL: &[u8] = b"system.nfs4_acl";

/// The lists that the files of a file system can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AclKind {
    /// Permission bits alone.
    #[default]
    None,
    /// Lists of POSIX.1e, as the attributes [`ACCESS_ACL`] and [`DEFAULT_ACL`].
    Posix,
    /// Lists of `NFSv4`, as the attribute [`NFS4_ACL`].
    Nfs4,
}

impl AclKind {
    /// Returns true if `name` is that of a list of this kind.
    #[must_use]
    pub fn has(self, name: &[u8]) -> bool {
        match self {
            Self::None => false,
            Self::Posix => is_acl_name(name),
            Self::Nfs4 => name == NFS4_ACL,
        }
    }
}

/// The list of a file that decides about access to it, in the place of its permission bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessList {
    /// One of POSIX.1e.
    Posix(Acl),
    /// One of `NFSv4`.
    Nfs4(Nfs4Acl),
}

impl AccessList {
    /// Returns true if this list, that of a file with the attributes `attr`, grants all of `want`.
    /// The superuser is not considered.
    #[must_use]
    pub fn grants(&self, attr: &Attr, cred: &Cred<'_>, want: Access) -> bool {
        match self {
            Self::Posix(acl) => acl.grants(attr, cred, want),
            Self::Nfs4(acl) => acl.allows(attr, cred, want.into()),
        }
    }

    /// Returns the list if it is one of `NFSv4`.
    #[must_use]
    pub const fn nfs4(&self) -> Option<&Nfs4Acl> {
        match self {
            Self::Posix(_) => None,
            Self::Nfs4(acl) => Some(acl),
        }
    }
}

/// Whom an entry is about, in the order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// The owner of the file.
    Owner,
    /// A user.
    User(u32),
    /// The group of the file.
    OwningGroup,
    /// A group.
    Group(u32),
    /// The most that users, the owning group and groups get.
    Mask,
    /// Everybody else.
    Other,
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// Whom it is about.
    pub who: Who,
    /// What is granted: 4 to read, 2 to write, 1 to execute.
    pub perm: u8,
}

/// A valid list: the owner, the owning group and others have one entry each, nobody has two, there
/// is a mask if there are users or groups, and the entries are in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<Entry>);

/// Number of a user or group that is none.
const NO_ID: u32 = u32::MAX;

impl Acl {
    /// Returns the list of these entries, in order.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none.
    pub fn new(mut entries: Vec<Entry>) -> Result<Self> {
        entries.sort_unstable();
        let has = |who| entries.iter().any(|entry| entry.who == who);
        let named = |who| matches!(who, Who::User(_) | Who::Group(_));
        let wrong = entries.iter().any(|entry| entry.perm > 7)
            || entries.iter().any(|entry| matches!(entry.who, Who::User(NO_ID) | Who::Group(NO_ID)))
            || entries.windows(2).any(|two| two[0].who == two[1].who)
            || !(has(Who::Owner) && has(Who::OwningGroup) && has(Who::Other))
            || entries.iter().any(|entry| named(entry.who)) && !has(Who::Mask);
        if wrong { Err(Error::Invalid) } else { Ok(Self(entries)) }
    }

    /// Returns the list that says the same as permission bits.
    #[must_use]
    pub fn minimal(perm: u32) -> Self {
        let entry = |who, shift| Entry { who, perm: bits(perm, shift) };
        Self(vec![entry(Who::Owner, 6), entry(Who::OwningGroup, 3), entry(Who::Other, 0)])
    }

    /// Returns a list that grants nothing to anybody but the owner: for a file whose list cannot be
    /// read, so that nobody gets what it may have denied. The mask makes it differ from a minimal
    /// one.
    #[must_use]
    pub fn only_owner(perm: u32) -> Self {
        let none = |who| Entry { who, perm: 0 };
        let owner = Entry { who: Who::Owner, perm: bits(perm, 6) };
        Self(vec![owner, none(Who::OwningGroup), none(Who::Mask), none(Who::Other)])
    }

    /// Returns the entries in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Returns true if permission bits say everything that this list says.
    #[must_use]
    pub fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// Returns the nine permission bits that belong to this list.
    #[must_use]
    pub fn perm(&self) -> u32 {
        self.0.iter().fold(0, |perm, entry| match self.shift(entry.who) {
            Some(shift) => perm | u32::from(entry.perm) << shift,
            None => perm,
        })
    }

    /// Returns the list with the permission bits of a file in it.
    #[must_use]
    pub fn with_perm(mut self, perm: u32) -> Self {
        for i in 0..self.0.len() {
            if let Some(shift) = self.shift(self.0[i].who) {
                self.0[i].perm = bits(perm, shift);
            }
        }
        self
    }

    /// Returns where in the permission bits an entry is.
    fn shift(&self, who: Who) -> Option<u32> {
        match who {
            Who::Owner => Some(6),
            Who::Mask => Some(3),
            Who::OwningGroup => self.mask().is_none().then_some(3),
            Who::Other => Some(0),
            Who::User(_) | Who::Group(_) => None,
        }
    }

    fn mask(&self) -> Option<u8> {
        self.0.iter().find(|entry| entry.who == Who::Mask).map(|entry| entry.perm)
    }

    /// Returns the permission bits and the list of a new file that is created with `perm` in a
    /// directory with this default list. The umask has no part in it.
    #[must_use]
    pub fn inherited(&self, perm: u32) -> (u32, Self) {
        let own = perm & (self.perm() | !0o777);
        (own, self.clone().with_perm(own))
    }

    /// Returns true if this list, that of a file with the attributes `attr`, grants all of `want`.
    /// The superuser is not considered.
    #[must_use]
    pub fn grants(&self, attr: &Attr, cred: &Cred<'_>, want: Access) -> bool {
        let mask = self.mask().unwrap_or(7);
        let includes = |perm: u8| Access::from_bits(perm.into()).includes(want);
        let of = |who| self.0.iter().find(|entry| entry.who == who).map(|entry| entry.perm);
        if cred.uid == attr.uid {
            return of(Who::Owner).is_some_and(includes);
        }
        if let Some(perm) = of(Who::User(cred.uid)) {
            return includes(perm & mask);
        }
        let mut groups = self.0.iter().filter(|entry| match entry.who {
            Who::OwningGroup => cred.in_group(attr.gid),
            Who::Group(gid) => cred.in_group(gid),
            _ => false,
        });
        match groups.next() {
            None => of(Who::Other).is_some_and(includes),
            Some(first) => includes(first.perm & mask) || groups.any(|entry| includes(entry.perm & mask)),
        }
    }

    /// Decodes the value of Linux's attributes ([`ACCESS_ACL`], [`DEFAULT_ACL`]). A list without
    /// entries is none: who sets it removes the list.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn from_linux(value: &[u8]) -> Result<Option<Self>> {
        let (version, rest) = value.split_at_checked(4).ok_or(Error::Invalid)?;
        let entries = rest.chunks_exact(8);
        if version != LINUX_VERSION.to_le_bytes() || !entries.remainder().is_empty() {
            return Err(Error::Invalid);
        }
        let entry = |bytes: &[u8]| {
            let perm = u8::try_from(u16::from_le_bytes([bytes[2], bytes[3]])).map_err(|_| Error::Invalid)?;
            let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            let who = who(u16::from_le_bytes([bytes[0], bytes[1]]).into(), id).ok_or(Error::Invalid)?;
            Ok(Entry { who, perm })
        };
        let entries = entries.map(entry).collect::<Result<Vec<_>>>()?;
        if entries.is_empty() { Ok(None) } else { Self::new(entries).map(Some) }
    }

    /// Returns the value of Linux's attributes.
    #[must_use]
    pub fn to_linux(&self) -> Vec<u8> {
        let mut value = LINUX_VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            let (tag, id) = tag(entry.who);
            value.extend(tag.to_le_bytes());
            value.extend(u16::from(entry.perm).to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }
}

/// Version of Linux's form (`POSIX_ACL_XATTR_VERSION`).
const LINUX_VERSION: u32 = 2;

/// Returns whom an entry with a tag is about. Linux and the BSDs have the same tags.
#[must_use]
pub const fn who(tag: u32, id: u32) -> Option<Who> {
    Some(match tag {
        0x01 => Who::Owner,
        0x02 => Who::User(id),
        0x04 => Who::OwningGroup,
        0x08 => Who::Group(id),
        0x10 => Who::Mask,
        0x20 => Who::Other,
        _ => return None,
    })
}

/// Returns the tag of an entry, and the number of its user or group.
#[must_use]
pub const fn tag(who: Who) -> (u16, u32) {
    match who {
        Who::Owner => (0x01, NO_ID),
        Who::User(id) => (0x02, id),
        Who::OwningGroup => (0x04, NO_ID),
        Who::Group(id) => (0x08, id),
        Who::Mask => (0x10, NO_ID),
        Who::Other => (0x20, NO_ID),
    }
}

/// Returns the three permission bits at `shift`.
fn bits(perm: u32, shift: u32) -> u8 {
    u8::try_from(perm >> shift & 7).unwrap_or(0)
}

/// Returns true for the names of [`ACCESS_ACL`] and [`DEFAULT_ACL`].
#[must_use]
pub fn is_acl_name(name: &[u8]) -> bool {
    name == ACCESS_ACL || name == DEFAULT_ACL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileKind;
    use crate::access::tests::attr;
    use std::borrow::Cow;

    fn acl(entries: &[(Who, u8)]) -> Result<Acl> {
        Acl::new(entries.iter().map(|&(who, perm)| Entry { who, perm }).collect())
    }

    /// Returns a list with a user, a group and a mask.
    fn long() -> Acl {
        acl(&[
            (Who::Mask, 5),
            (Who::Other, 1),
            (Who::Group(50), 2),
            (Who::Owner, 7),
            (Who::User(9), 6),
            (Who::OwningGroup, 4),
        ])
        .unwrap()
    }

    fn file() -> Attr {
        attr(FileKind::Regular, 0o751, 1, 10)
    }

    /// Promise: Linux's form, byte for byte, and nothing but valid lists comes out of it.
    #[test]
    fn linux_form() {
        #[rustfmt::skip]
        let bytes = [
            2, 0, 0, 0,
            0x01, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,
            0x02, 0, 6, 0, 9, 0, 0, 0,
            0x04, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,
            0x08, 0, 2, 0, 50, 0, 0, 0,
            0x10, 0, 5, 0, 0xff, 0xff, 0xff, 0xff,
            0x20, 0, 1, 0, 0xff, 0xff, 0xff, 0xff,
        ];
        assert_eq!(long().to_linux(), bytes);
        assert_eq!(Acl::from_linux(&bytes).unwrap(), Some(long()));
        assert_eq!(Acl::from_linux(&bytes[..4]).unwrap(), None);
        for len in (0..bytes.len()).filter(|&len| len != 4) {
            Acl::from_linux(&bytes[..len]).unwrap_err();
        }
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut changed = bytes;
                changed[at] = value;
                if let Ok(Some(read)) = Acl::from_linux(&changed) {
                    assert_eq!(Acl::new(read.entries().to_vec()).unwrap(), read);
                    assert_eq!(read.entries().len(), 6);
                }
            }
        }
    }

    /// Promise: a list needs owner, group and others, a mask if it names anybody, and names nobody
    /// twice.
    #[test]
    fn validity() {
        let base = [(Who::Owner, 7), (Who::OwningGroup, 5), (Who::Other, 0)];
        assert!(acl(&base).unwrap().is_minimal());
        for missing in 0..3 {
            let mut without = base.to_vec();
            without.remove(missing);
            acl(&without).unwrap_err();
        }
        for (more, valid) in [
            (vec![(Who::User(1), 1)], false),
            (vec![(Who::Group(1), 1)], false),
            (vec![(Who::Mask, 1)], true),
            (vec![(Who::User(1), 1), (Who::Mask, 1)], true),
            (vec![(Who::User(1), 8), (Who::Mask, 1)], false),
            (vec![(Who::User(1), 1), (Who::User(1), 2), (Who::Mask, 1)], false),
            (vec![(Who::User(u32::MAX), 1), (Who::Mask, 1)], false),
            (vec![(Who::Owner, 7)], false),
        ] {
            assert_eq!(acl(&[&base[..], &more[..]].concat()).is_ok(), valid, "{more:?}");
        }
    }

    /// Promise: permission bits and list always say the same: the group's bits are the mask, where
    /// there is one.
    #[test]
    fn lists_and_permission_bits() {
        assert_eq!(long().perm(), 0o751);
        assert_eq!(Acl::minimal(0o4751).perm(), 0o751);
        for perm in 0..0o1000 {
            assert_eq!(Acl::minimal(perm).perm(), perm);
            let changed = long().with_perm(perm);
            assert_eq!(changed.perm(), perm);
            assert_eq!(changed.entries()[2], Entry { who: Who::OwningGroup, perm: 4 });
            assert_eq!(changed.clone().with_perm(0o751), long());
            assert_eq!(Acl::only_owner(perm).perm(), perm & 0o700);
        }
    }

    /// Promise: a new file gets the default list, restricted to the permissions it is created with.
    #[test]
    fn inheritance() {
        let (perm, list) = long().inherited(0o1640);
        assert_eq!((perm, list.perm()), (0o1640, 0o640));
        let (perm, list) = long().inherited(0o666);
        assert_eq!((perm, list.perm()), (0o640, 0o640));
        assert_eq!(list.entries()[1], Entry { who: Who::User(9), perm: 6 });
        let (perm, list) = Acl::minimal(0o750).inherited(0o777);
        assert!(perm == 0o750 && list.is_minimal());
    }

    /// Promise: the owner's entry decides for the owner, a user's entry for that user, then any of
    /// the groups that grants everything; the mask holds for all of these but the owner.
    #[test]
    fn grants() {
        let user =
            |uid, groups: &'static [u32]| Cred { groups: Cow::Borrowed(groups), ..Cred::user(uid, 99) };
        let rights = |cred: &Cred<'_>| {
            let wants = (0..8).filter(|&want| long().grants(&file(), cred, Access::from_bits(want)));
            wants.collect::<Vec<_>>()
        };
        assert_eq!(rights(&user(1, &[10])).len(), 8);
        assert_eq!(rights(&user(9, &[10, 50])), [0, 4]);
        assert_eq!(rights(&user(2, &[10])), [0, 4]);
        assert_eq!(rights(&user(2, &[50])), [0]);
        assert_eq!(rights(&user(2, &[50, 10])), [0, 4]);
        assert_eq!(rights(&user(2, &[11])), [0, 1]);
        let two = acl(&[
            (Who::Owner, 0),
            (Who::OwningGroup, 4),
            (Who::Group(50), 2),
            (Who::Mask, 7),
            (Who::Other, 7),
        ]);
        let both = user(2, &[10, 50]);
        let two = two.unwrap();
        assert!(two.grants(&file(), &both, Access::READ) && two.grants(&file(), &both, Access::WRITE));
        assert!(!two.grants(&file(), &both, Access::READ.and(Access::WRITE)), "no entry grants both");
    }
}
