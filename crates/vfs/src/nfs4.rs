//! Access control lists of `NFSv4` (RFC 7530, section 6): what they grant, what new files inherit
//! of them, the permission bits that belong to them, and the form in which Linux has them in the
//! extended attribute [`NFS4_ACL`](crate::acl::NFS4_ACL).
//!
//! A list is read from its beginning: for each permission the first entry that is about the caller
//! and names it decides, to allow or to deny it. What no entry names is denied. So the order of
//! entries counts, and the owner has no entry before all others. Inheritance, the lists that belong
//! to permission bits, and what the owner may always do are those of FreeBSD, which has them from
//! Solaris (PSARC/2010/029).

use crate::access::Access;
use crate::{Attr, Cred, Error, FileKind, Result};

/// A set of permissions, with the bits of NFS (`ACE4_READ_DATA` …).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Perms(u32);

impl Perms {
    /// None.
    pub const NONE: Self = Self(0);
    /// Reading a file, or listing a directory.
    pub const READ_DATA: Self = Self(0x1);
    /// Writing a file, or adding something to a directory that is no directory.
    pub const WRITE_DATA: Self = Self(0x2);
    /// Adding a directory to a directory. To append to a file needs [`Self::WRITE_DATA`].
    pub const APPEND_DATA: Self = Self(0x4);
    /// Executing a file, or searching a directory.
    pub const EXECUTE: Self = Self(0x20);
    /// Removing anything from a directory.
    pub const DELETE_CHILD: Self = Self(0x40);
    /// Setting times.
    pub const WRITE_ATTRIBUTES: Self = Self(0x100);
    /// Removing the file itself, whatever its directory allows.
    pub const DELETE: Self = Self(0x1_0000);
    /// Reading the list.
    pub const READ_ACL: Self = Self(0x2_0000);
    /// Changing the list or the permission bits.
    pub const WRITE_ACL: Self = Self(0x4_0000);
    /// Taking the file over, or giving it to a group that one is in.
    pub const WRITE_OWNER: Self = Self(0x8_0000);
    /// All that there are.
    pub const ALL: Self = Self(0x1f_01ff);

    const READ_NAMED_ATTRS: Self = Self(0x8);
    const WRITE_NAMED_ATTRS: Self = Self(0x10);
    const READ_ATTRIBUTES: Self = Self(0x80);
    const SYNCHRONIZE: Self = Self(0x10_0000);
    /// Writing a file, or adding anything to a directory.
    const WRITE: Self = Self::WRITE_DATA.and(Self::APPEND_DATA);
    /// What everybody has in a list that permission bits can say.
    const EVERYBODY: Self =
        Self::READ_ACL.and(Self::READ_ATTRIBUTES).and(Self::READ_NAMED_ATTRS).and(Self::SYNCHRONIZE);
    /// What the owner has there besides.
    const OWNER: Self =
        Self::WRITE_ACL.and(Self::WRITE_OWNER).and(Self::WRITE_ATTRIBUTES).and(Self::WRITE_NAMED_ATTRS);
    /// What the owner has whatever a list says, so that no list locks its author out.
    const ALWAYS_OWNER: Self =
        Self::READ_ACL.and(Self::WRITE_ACL).and(Self::READ_ATTRIBUTES).and(Self::WRITE_ATTRIBUTES);
    /// The permissions of each permission bit: to read, to write, to execute.
    const OF_BITS: [(u32, Self); 3] = [(4, Self::READ_DATA), (2, Self::WRITE), (1, Self::EXECUTE)];

    /// Returns the set with these bits; `None` if there are others among them.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 { Some(Self(bits)) } else { None }
    }

    /// Returns the bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the union of the two.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns what is here and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the permissions of three permission bits, the lowest of `perm`.
    fn of_bits(perm: u32) -> Self {
        let granted = Self::OF_BITS.into_iter().filter(|&(bit, _)| perm & bit != 0);
        granted.fold(Self::NONE, |all, (_, perms)| all.and(perms))
    }
}

impl From<Access> for Perms {
    fn from(want: Access) -> Self {
        [(Access::READ, Self::READ_DATA), (Access::WRITE, Self::WRITE_DATA), (Access::EXECUTE, Self::EXECUTE)]
            .into_iter()
            .filter(|&(access, _)| want.includes(access))
            .fold(Self::NONE, |all, (_, perms)| all.and(perms))
    }
}

/// The flags of an entry, with the bits of NFS and of the BSDs: which new files inherit it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// Files inherit it.
    pub const FILE_INHERIT: Self = Self(0x1);
    /// Directories inherit it.
    pub const DIRECTORY_INHERIT: Self = Self(0x2);
    /// Only what is created in the directory itself inherits it.
    pub const NO_PROPAGATE: Self = Self(0x4);
    /// It says nothing about the directory itself.
    pub const INHERIT_ONLY: Self = Self(0x8);
    /// It was inherited.
    pub const INHERITED: Self = Self(0x80);

    /// Those that only directories have.
    const OF_DIRECTORY: Self = Self(0xf);
    const INHERITS: Self = Self(0x3);

    /// Returns the flags with these bits; `None` if there are others among them, as those of
    /// entries that only report accesses.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Option<Self> {
        if bits & !(Self::OF_DIRECTORY.0 | Self::INHERITED.0) == 0 { Some(Self(bits)) } else { None }
    }

    /// Returns the bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns the union of the two.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// The owner of the file (`OWNER@`).
    Owner,
    /// A user.
    User(u32),
    /// The group of the file (`GROUP@`).
    OwningGroup,
    /// A group.
    Group(u32),
    /// Everybody (`EVERYONE@`), also the owner and the group.
    Everyone,
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whom it is about.
    pub who: Who,
    /// True if it allows, false if it denies.
    pub allows: bool,
    /// What it allows or denies.
    pub perms: Perms,
    /// Which new files inherit it.
    pub flags: Flags,
}

impl Entry {
    /// Returns an entry that nothing inherits.
    #[must_use]
    pub const fn new(who: Who, allows: bool, perms: Perms) -> Self {
        Self { who, allows, perms, flags: Flags::NONE }
    }

    /// Returns true if it decides about accesses of `cred` to a file with the attributes `attr`.
    fn concerns(&self, attr: &Attr, cred: &Cred<'_>) -> bool {
        !self.flags.has(Flags::INHERIT_ONLY)
            && match self.who {
                Who::Owner => cred.uid == attr.uid,
                Who::User(uid) => cred.uid == uid,
                Who::OwningGroup => cred.in_group(attr.gid),
                Who::Group(gid) => cred.in_group(gid),
                Who::Everyone => true,
            }
    }
}

/// What a list says of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it is allowed.
    Allowed,
    /// No entry names some of it, so it is denied.
    Unnamed,
    /// An entry denies some of it.
    Denied,
}

/// A list. It may be of any length and order, and say nothing of anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nfs4Acl(Vec<Entry>);

/// Number of a user or group that is none.
const NO_ID: u32 = u32::MAX;
/// The flag of NFS that says that an entry is about a group (`ACE4_IDENTIFIER_GROUP`).
const IDENTIFIER_GROUP: u32 = 0x40;

impl Nfs4Acl {
    /// Returns the list of these entries.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are none, or one is about a user or group that cannot be.
    pub fn new(entries: Vec<Entry>) -> Result<Self> {
        let nobody = |entry: &Entry| matches!(entry.who, Who::User(NO_ID) | Who::Group(NO_ID));
        if entries.is_empty() || entries.iter().any(nobody) { Err(Error::Invalid) } else { Ok(Self(entries)) }
    }

    /// Returns the list that says the same as permission bits.
    #[must_use]
    pub fn trivial(perm: u32) -> Self {
        Self::around(perm, Vec::new())
    }

    /// Returns a list that allows nothing to anybody but the owner: for a file whose list cannot be
    /// read, so that nobody gets what it may have denied.
    #[must_use]
    pub fn only_owner(perm: u32) -> Self {
        let owner = Perms::of_bits(perm >> 6).and(Perms::EVERYBODY).and(Perms::OWNER);
        Self(vec![Entry::new(Who::Owner, true, owner), Entry::new(Who::Everyone, false, Perms::ALL)])
    }

    /// Returns the list of permission bits with `others` in it, behind what it denies and before
    /// what it allows. The owner's bits hold for the owner alone, also where the group or everybody
    /// has more, so what these have more is denied first; and where the group has less than
    /// everybody, the owner gets it before the group is denied it.
    fn around(perm: u32, others: Vec<Entry>) -> Self {
        let of = |shift: u32| Perms::of_bits(perm >> shift);
        let (owner, group, everyone) = (of(6), of(3), of(0));
        let owner_denied = group.and(everyone).without(owner);
        let group_denied = everyone.without(group);
        let owner_first = group_denied.without(owner_denied);
        let first = [
            Entry::new(Who::Owner, true, owner_first),
            Entry::new(Who::Owner, false, owner_denied),
            Entry::new(Who::OwningGroup, false, group_denied),
        ];
        let mut entries: Vec<_> = first.into_iter().filter(|entry| entry.perms != Perms::NONE).collect();
        entries.extend(others);
        entries.extend([
            Entry::new(Who::Owner, true, owner.and(Perms::EVERYBODY).and(Perms::OWNER)),
            Entry::new(Who::OwningGroup, true, group.and(Perms::EVERYBODY)),
            Entry::new(Who::Everyone, true, everyone.and(Perms::EVERYBODY)),
        ]);
        Self(entries)
    }

    /// Returns the six entries that older systems have for permission bits: a denial and a
    /// permission for each of the three.
    fn six(perm: u32) -> Self {
        let all = Perms::of_bits(7);
        let pair = |who, shift: u32, denied: Perms, allowed: Perms| {
            let bits = Perms::of_bits(perm >> shift);
            let denied = Entry::new(who, false, all.without(bits).and(denied));
            [denied, Entry::new(who, true, bits.and(allowed))]
        };
        let owner = pair(Who::Owner, 6, Perms::NONE, Perms::OWNER);
        let group = pair(Who::OwningGroup, 3, Perms::NONE, Perms::NONE);
        let everyone = pair(Who::Everyone, 0, Perms::OWNER, Perms::EVERYBODY);
        Self([owner, group, everyone].concat())
    }

    /// Returns the entries in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Returns true if it is a list that stands for permission bits, so that they say everything.
    #[must_use]
    pub fn is_trivial(&self) -> bool {
        let perm = self.perm();
        *self == Self::trivial(perm) || *self == Self::six(perm)
    }

    /// Returns the nine permission bits that belong to this list: for each class what the first
    /// entry says that is about all of it. To write means to write data.
    #[must_use]
    pub fn perm(&self) -> u32 {
        let (mut seen, mut perm) = (0, 0);
        for entry in self.0.iter().filter(|entry| !entry.flags.has(Flags::INHERIT_ONLY)) {
            let classes = match entry.who {
                Who::Owner => 0o100,
                Who::OwningGroup => 0o010,
                Who::Everyone => 0o111,
                Who::User(_) | Who::Group(_) => 0,
            };
            let named = [(4, Perms::READ_DATA), (2, Perms::WRITE_DATA), (1, Perms::EXECUTE)];
            for (bit, _) in named.into_iter().filter(|&(_, perms)| entry.perms.meets(perms)) {
                let fresh = (bit * classes) & !seen;
                seen |= fresh;
                perm |= if entry.allows { fresh } else { 0 };
            }
        }
        perm
    }

    /// Returns true if an entry is meant for new files.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.0.iter().any(|entry| entry.flags.has(Flags::INHERITS))
    }

    /// Returns true if only directories can have this list.
    #[must_use]
    pub fn is_for_directories(&self) -> bool {
        self.0.iter().any(|entry| entry.flags.has(Flags::OF_DIRECTORY))
    }

    /// Returns the list of a new file that is created with the permission bits `perm` in a
    /// directory with this list. Entries of the owner, the group and everybody are not inherited:
    /// `perm` says it for these.
    #[must_use]
    pub fn inherited(&self, perm: u32, is_directory: bool) -> Self {
        let named = |entry: &&Entry| matches!(entry.who, Who::User(_) | Who::Group(_));
        let goes_on = |entry: &&Entry| {
            if is_directory {
                entry.flags.has(Flags::DIRECTORY_INHERIT)
                    || entry.flags.has(Flags::FILE_INHERIT) && !entry.flags.has(Flags::NO_PROPAGATE)
            } else {
                entry.flags.has(Flags::FILE_INHERIT)
            }
        };
        let inherit = |entry: &Entry| {
            let mut new = *entry;
            new.flags = if is_directory && !entry.flags.has(Flags::NO_PROPAGATE) {
                let passes = !entry.flags.has(Flags::DIRECTORY_INHERIT);
                let only = if passes { Flags::INHERIT_ONLY } else { Flags::NONE };
                entry.flags.without(Flags::INHERIT_ONLY).and(only)
            } else {
                entry.flags.without(Flags::OF_DIRECTORY)
            };
            if new.allows && !new.flags.has(Flags::INHERIT_ONLY) {
                // Nobody inherits what makes an owner, nor more than the group gets.
                let missing = Perms::of_bits(7).without(Perms::of_bits(perm >> 3));
                new.perms = new.perms.without(Perms::OWNER).without(missing);
            }
            new.flags = new.flags.and(Flags::INHERITED);
            new
        };
        Self::around(perm, self.0.iter().filter(named).filter(goes_on).map(inherit).collect())
    }

    /// Returns what this list, that of a file with the attributes `attr`, says of `want`. The
    /// superuser is not considered.
    #[must_use]
    pub fn verdict(&self, attr: &Attr, cred: &Cred<'_>, want: Perms) -> Verdict {
        let mut want = if cred.uid == attr.uid { want.without(Perms::ALWAYS_OWNER) } else { want };
        if attr.kind != FileKind::Directory && want.meets(Perms::APPEND_DATA) {
            want = want.without(Perms::APPEND_DATA).and(Perms::WRITE_DATA);
        }
        for entry in self.0.iter().filter(|entry| entry.concerns(attr, cred)) {
            if want == Perms::NONE {
                break;
            }
            if !entry.allows && entry.perms.meets(want) {
                return Verdict::Denied;
            }
            if entry.allows {
                want = want.without(entry.perms);
            }
        }
        if want == Perms::NONE { Verdict::Allowed } else { Verdict::Unnamed }
    }

    /// Returns true if this list allows all of `want`.
    #[must_use]
    pub fn allows(&self, attr: &Attr, cred: &Cred<'_>, want: Perms) -> bool {
        self.verdict(attr, cred, want) == Verdict::Allowed
    }

    /// Decodes the value of Linux's attribute, the list as NFS transfers it in XDR. Users and
    /// groups have numbers for names.
    ///
    /// # Errors
    /// [`Error::Invalid`], also for names, and for entries that only report accesses.
    pub fn from_linux(value: &[u8]) -> Result<Self> {
        let mut rest = value;
        let count = word(&mut rest)?;
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(entry(&mut rest)?);
        }
        if rest.is_empty() { Self::new(entries) } else { Err(Error::Invalid) }
    }

    /// Returns the value of Linux's attribute.
    #[must_use]
    pub fn to_linux(&self) -> Vec<u8> {
        let len = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let mut value = len(self.0.len()).to_be_bytes().to_vec();
        for entry in &self.0 {
            let (who, is_group) = match entry.who {
                Who::Owner => ("OWNER@".to_owned(), false),
                Who::User(uid) => (uid.to_string(), false),
                Who::OwningGroup => ("GROUP@".to_owned(), true),
                Who::Group(gid) => (gid.to_string(), true),
                Who::Everyone => ("EVERYONE@".to_owned(), false),
            };
            let flags = u32::from(entry.flags.bits()) | if is_group { IDENTIFIER_GROUP } else { 0 };
            for word in [u32::from(!entry.allows), flags, entry.perms.bits(), len(who.len())] {
                value.extend(word.to_be_bytes());
            }
            value.extend(who.as_bytes());
            value.resize(value.len().next_multiple_of(4), 0);
        }
        value
    }
}

/// Takes a word of XDR off the beginning of `rest`.
fn word(rest: &mut &[u8]) -> Result<u32> {
    let (word, behind) = rest.split_first_chunk().ok_or(Error::Invalid)?;
    *rest = behind;
    Ok(u32::from_be_bytes(*word))
}

/// Takes an entry off the beginning of `rest`.
fn entry(rest: &mut &[u8]) -> Result<Entry> {
    let allows = match word(rest)? {
        0 => true,
        1 => false,
        _ => return Err(Error::Invalid),
    };
    let flags = word(rest)?;
    let perms = Perms::from_bits(word(rest)?).ok_or(Error::Invalid)?;
    let len = usize::try_from(word(rest)?).map_err(|_| Error::Invalid)?;
    let padded = len.checked_next_multiple_of(4).ok_or(Error::Invalid)?;
    let (name, behind) = rest.split_at_checked(padded).ok_or(Error::Invalid)?;
    *rest = behind;
    let (name, padding) = name.split_at(len);
    if padding.iter().any(|&byte| byte != 0) {
        return Err(Error::Invalid);
    }
    let who = match (name, flags & IDENTIFIER_GROUP != 0) {
        (b"OWNER@", _) => Who::Owner,
        (b"GROUP@", _) => Who::OwningGroup,
        (b"EVERYONE@", _) => Who::Everyone,
        (digits, is_group) => {
            let digits = Some(digits).filter(|digits| digits.iter().all(u8::is_ascii_digit));
            let id = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            let id = id.ok_or(Error::Invalid)?;
            if is_group { Who::Group(id) } else { Who::User(id) }
        }
    };
    let flags = u16::try_from(flags & !IDENTIFIER_GROUP).ok().and_then(Flags::from_bits);
    Ok(Entry { who, allows, perms, flags: flags.ok_or(Error::Invalid)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tests::attr;
    use crate::access::{permit_adding, permit_list, permit_removal, permit_setattr};
    use crate::{AccessList, SetAttr, SetTime};
    use FileKind::{Directory, Regular};
    use std::borrow::Cow;

    /// The letters of permissions in getfacl of FreeBSD.
    const LETTERS: [(char, Perms); 14] = [
        ('r', Perms::READ_DATA),
        ('w', Perms::WRITE_DATA),
        ('x', Perms::EXECUTE),
        ('p', Perms::APPEND_DATA),
        ('D', Perms::DELETE_CHILD),
        ('d', Perms::DELETE),
        ('a', Perms::READ_ATTRIBUTES),
        ('A', Perms::WRITE_ATTRIBUTES),
        ('R', Perms::READ_NAMED_ATTRS),
        ('W', Perms::WRITE_NAMED_ATTRS),
        ('c', Perms::READ_ACL),
        ('C', Perms::WRITE_ACL),
        ('o', Perms::WRITE_OWNER),
        ('s', Perms::SYNCHRONIZE),
    ];

    /// Returns a list from entries as getfacl of FreeBSD prints them, without dashes.
    fn list(text: &str) -> Nfs4Acl {
        let entry = |line: &str| {
            let fields: Vec<_> = line.split(':').collect();
            let (who, rest) = match fields[..] {
                ["owner@", ref rest @ ..] => (Who::Owner, rest),
                ["group@", ref rest @ ..] => (Who::OwningGroup, rest),
                ["everyone@", ref rest @ ..] => (Who::Everyone, rest),
                ["user", id, ref rest @ ..] => (Who::User(id.parse().unwrap()), rest),
                ["group", id, ref rest @ ..] => (Who::Group(id.parse().unwrap()), rest),
                _ => panic!("{line}"),
            };
            let [perms, flags, kind] = rest else { panic!("{line}") };
            let perms = perms.chars().map(|c| LETTERS.iter().find(|(letter, _)| *letter == c).unwrap().1);
            let flags = flags.chars().map(|c| match c {
                'f' => Flags::FILE_INHERIT,
                'd' => Flags::DIRECTORY_INHERIT,
                'n' => Flags::NO_PROPAGATE,
                'i' => Flags::INHERIT_ONLY,
                'I' => Flags::INHERITED,
                _ => panic!("{line}"),
            });
            let (perms, flags) = (perms.fold(Perms::NONE, Perms::and), flags.fold(Flags::NONE, Flags::and));
            Entry { who, allows: *kind == "allow", perms, flags }
        };
        Nfs4Acl::new(text.split_whitespace().map(entry).collect()).unwrap()
    }

    /// Promise: permission bits have the lists that FreeBSD makes of them, these say the bits
    /// again, and both they and the six entries of older systems count as nothing but the bits.
    #[test]
    fn lists_of_permission_bits() {
        for (perm, expected) in [
            (0o644, "owner@:rwpaARWcCos::allow group@:raRcs::allow everyone@:raRcs::allow"),
            (
                0o124,
                "owner@:rwp::deny group@:r::deny owner@:xaARWcCos::allow group@:wpaRcs::allow \
                 everyone@:raRcs::allow",
            ),
            (
                0o412,
                "owner@:wxp::deny group@:wp::deny owner@:raARWcCos::allow group@:xaRcs::allow \
                 everyone@:wpaRcs::allow",
            ),
        ] {
            assert_eq!(Nfs4Acl::trivial(perm), list(expected), "{perm:o}");
        }
        let cred = |uid, gid| Cred::user(uid, gid);
        for perm in 0..0o1000 {
            let (trivial, six) = (Nfs4Acl::trivial(perm), Nfs4Acl::six(perm));
            assert_eq!((trivial.perm(), six.perm()), (perm, perm), "{perm:o}");
            assert!(trivial.is_trivial() && six.is_trivial());
            for (by, shift) in [(cred(1, 10), 6), (cred(1, 3), 6), (cred(2, 10), 3), (cred(2, 3), 0)] {
                for want in 0..8 {
                    let want = Access::from_bits(want);
                    let granted = Access::from_bits(perm >> shift).includes(want);
                    let file = attr(Regular, perm, 1, 10);
                    assert_eq!(trivial.allows(&file, &by, want.into()), granted, "{perm:o} {by:?} {want:?}");
                    assert_eq!(six.allows(&file, &by, want.into()), granted, "{perm:o} {by:?} {want:?}");
                }
            }
            let nobody = Nfs4Acl::only_owner(perm);
            assert!(nobody.perm() == perm & 0o700 && !nobody.is_trivial());
            assert!(!nobody.allows(&attr(Directory, perm, 1, 10), &cred(2, 10), Perms::EXECUTE));
        }
        assert!(!list("user:42:r::allow owner@:rwpaARWcCos::allow").is_trivial());
    }

    /// Promise: the permission bits of a list are what its first entries say of owner, group and
    /// everybody, as on FreeBSD; entries of users, and those that are only inherited, do not count.
    #[test]
    fn permission_bits_of_lists() {
        for (entries, expected) in [
            ("user:42:rwx:fi:allow owner@:rwxp::allow group@:rx::allow everyone@:rx::allow", 0o755),
            ("owner@:r::allow group@:w::deny group@:wx::allow", 0o410),
            ("owner@:r::allow group@:w:fi:deny group@:wx::allow", 0o430),
            ("owner@:r::allow group:43:w::deny group:43:wx::allow", 0o400),
            ("owner@:r::allow user:43:w::deny user:43:wx::allow", 0o400),
            ("owner@:w::deny everyone@:rw::allow", 0o466),
            ("everyone@:p::allow", 0),
        ] {
            assert_eq!(list(entries).perm(), expected, "{entries}");
        }
    }

    /// Promise: files and directories inherit what FreeBSD's test of inheritance expects, with the
    /// modes of its umasks.
    #[test]
    fn inheritance() {
        let parent = list(
            "user:41:wA:fn:allow group:41:ra:din:allow user:42:Co:fi:allow user:42:rx:fi:allow \
             group:42:wD:dn:deny group:43:wC:fin:deny user:43:rwxp::allow owner@:rwxpaARWcCos::allow \
             group@:rxaRcs::allow everyone@:rxaRcs::allow",
        );
        assert!(parent.is_inherited() && parent.is_for_directories());
        for (perm, is_directory, expected) in [
            (
                0o644,
                false,
                "user:41::I:allow user:42::I:allow user:42:r:I:allow group:43:wC:I:deny \
                 owner@:rwpaARWcCos::allow group@:raRcs::allow everyone@:raRcs::allow",
            ),
            (
                0o006,
                false,
                "owner@:rwp::deny group@:rwp::deny user:41::I:allow user:42::I:allow user:42::I:allow \
                 group:43:wC:I:deny owner@:aARWcCos::allow group@:aRcs::allow everyone@:rwpaRcs::allow",
            ),
            (
                0o060,
                false,
                "owner@:rwp::deny user:41:w:I:allow user:42::I:allow user:42:r:I:allow \
                 group:43:wC:I:deny owner@:aARWcCos::allow group@:rwpaRcs::allow everyone@:aRcs::allow",
            ),
            (
                0o700,
                true,
                "group:41:a:I:allow user:42:Co:fiI:allow user:42:rx:fiI:allow group:42:wD:I:deny \
                 owner@:rwxpaARWcCos::allow group@:aRcs::allow everyone@:aRcs::allow",
            ),
            (
                0o070,
                true,
                "owner@:rwxp::deny group:41:ra:I:allow user:42:Co:fiI:allow user:42:rx:fiI:allow \
                 group:42:wD:I:deny owner@:aARWcCos::allow group@:rwxpaRcs::allow everyone@:aRcs::allow",
            ),
        ] {
            let new = parent.inherited(perm, is_directory);
            assert_eq!(new, list(expected), "{perm:o}");
            assert_eq!(new.perm(), perm);
        }
        let nothing = list("user:9:r::allow everyone@:rwx:fd:allow");
        assert!(nothing.inherited(0o750, true).is_trivial(), "entries of classes are not inherited");
        let both = list("user:44:Cor:fd:allow").inherited(0o755, true);
        assert_eq!(both.entries()[0], list("user:44:r:fdI:allow").entries()[0]);
    }

    /// Promise: the first entry that names a permission decides it, whatever stands behind it;
    /// what none names is denied, but not as an entry denies; and the owner keeps the right to the
    /// list and to times.
    #[test]
    fn the_first_entry_decides() {
        let file = attr(Regular, 0, 1, 10);
        let both = Cred { groups: Cow::Borrowed(&[50, 51]), ..Cred::user(9, 9) };
        for (entries, want, expected) in [
            ("user:9:r::allow user:9:r::deny", Perms::READ_DATA, Verdict::Allowed),
            ("user:9:r::deny everyone@:rw::allow", Perms::READ_DATA, Verdict::Denied),
            ("user:9:r::deny everyone@:rw::allow", Perms::WRITE_DATA, Verdict::Allowed),
            (
                "group:50:r::allow group:51:w::allow",
                Perms::READ_DATA.and(Perms::WRITE_DATA),
                Verdict::Allowed,
            ),
            ("group:51:w::deny group:50:w::allow", Perms::WRITE_DATA, Verdict::Denied),
            ("group@:r::allow owner@:r::allow", Perms::READ_DATA, Verdict::Unnamed),
            ("user:9:r:fi:deny everyone@:r::allow", Perms::READ_DATA, Verdict::Allowed),
            ("user:9:w::allow", Perms::APPEND_DATA, Verdict::Allowed),
            ("user:9:p::allow", Perms::APPEND_DATA, Verdict::Unnamed),
        ] {
            assert_eq!(list(entries).verdict(&file, &both, want), expected, "{entries}");
        }
        let locked = list("everyone@:rwxpaARWcCos::deny");
        let owner = Cred::user(1, 1);
        assert!(locked.allows(&file, &owner, Perms::WRITE_ACL.and(Perms::READ_ACL)));
        assert_eq!(locked.verdict(&file, &owner, Perms::READ_DATA), Verdict::Denied);
        assert_eq!(locked.verdict(&file, &owner, Perms::WRITE_OWNER), Verdict::Denied);
    }

    /// Promise: to add files, to add directories and to remove are permissions of their own, of the
    /// directory or of the file; a denied removal stays denied, and where nothing is said, writing
    /// and the sticky bit decide.
    #[test]
    fn directories() {
        let (dir, file) = (attr(Directory, 0o1777, 1, 1), attr(Regular, 0o666, 2, 2));
        let by = Cred::user(9, 9);
        let as_list = |entries: &str| Some(AccessList::Nfs4(list(entries)));
        for (entries, adds_file, adds_directory) in [
            ("user:9:w::allow", true, false),
            ("user:9:p::allow", false, true),
            ("user:9:w::deny everyone@:wp::allow", false, true),
        ] {
            let acl = as_list(entries);
            assert_eq!(permit_adding(&dir, acl.as_ref(), &by, false).is_ok(), adds_file, "{entries}");
            assert_eq!(permit_adding(&dir, acl.as_ref(), &by, true).is_ok(), adds_directory, "{entries}");
            permit_adding(&dir, acl.as_ref(), &Cred::root(), true).unwrap();
        }
        for (of_dir, of_file, expected) in [
            ("user:9:x::allow", "user:9:d::allow", Ok(())),
            ("user:9:xD::allow", "everyone@:r::allow", Ok(())),
            ("user:9:D::allow", "user:9:d::allow", Err(13)),
            ("user:9:D::deny user:9:wx::allow", "everyone@:r::allow", Err(1)),
            ("user:9:D::deny user:9:wx::allow", "user:9:d::allow", Ok(())),
            ("user:9:x::allow", "everyone@:r::allow", Err(13)),
            ("user:9:wx::allow", "everyone@:r::allow", Err(1)),
        ] {
            let (dir_acl, acl) = (as_list(of_dir), as_list(of_file));
            let removed = permit_removal((&dir, dir_acl.as_ref()), (&file, acl.as_ref()), &by);
            assert_eq!(removed.map_err(|error| error.errno()), expected, "{of_dir} {of_file}");
        }
        let open = attr(Directory, 0o777, 1, 1);
        let acl = as_list("user:9:wx::allow");
        permit_removal((&open, acl.as_ref()), (&file, None), &by).unwrap();
    }

    /// Promise: a list can give others the right to permissions, times, ownership and itself, and
    /// nothing that goes beyond: a file is taken over and never given away.
    #[test]
    fn attributes() {
        let file = attr(Regular, 0o600, 1, 10);
        let by = Cred { groups: Cow::Borrowed(&[50]), ..Cred::user(9, 9) };
        let none = SetAttr::default();
        let time = Some(SetTime::At(spindle_clock::Timestamp::new(1, 0)));
        let now = Some(SetTime::Now);
        let errno = |entries: &str, set: &SetAttr| {
            let acl = AccessList::Nfs4(list(entries));
            permit_setattr(&file, Some(&acl), &by, set, false).err().map_or(0, |error| error.errno())
        };
        for (letter, set) in [
            ("C", SetAttr { perm: Some(0o640), ..none.clone() }),
            ("A", SetAttr { mtime: time, ..none.clone() }),
            ("A", SetAttr { atime: now, mtime: now, ..none.clone() }),
            ("w", SetAttr { atime: now, mtime: now, ..none.clone() }),
            ("o", SetAttr { uid: Some(9), gid: Some(50), ..none.clone() }),
            ("w", SetAttr { size: Some(0), ..none.clone() }),
        ] {
            assert_eq!(errno(&format!("user:9:{letter}::allow"), &set), 0, "{letter} {set:?}");
            assert_ne!(errno("user:9:rx::allow", &set), 0, "{set:?}");
        }
        let all = "everyone@:rwxpaARWcCos::allow";
        for refused in [
            SetAttr { uid: Some(2), ..none.clone() },
            SetAttr { gid: Some(77), ..none.clone() },
            SetAttr { perm: Some(0o4755), ..none.clone() },
            SetAttr { flags: Some(1), ..none },
        ] {
            assert_eq!(errno(all, &refused), 1, "{refused:?}");
        }
        for (entries, reads, writes) in
            [("user:9:c::allow", 0, 1), ("user:9:C::allow", 13, 0), ("user:9:cC::deny", 13, 1)]
        {
            let acl = AccessList::Nfs4(list(entries));
            for (is_write, expected) in [(false, reads), (true, writes)] {
                let got =
                    permit_list(&file, Some(&acl), &by, is_write).err().map_or(0, |error| error.errno());
                assert_eq!(got, expected, "{entries} {is_write}");
                permit_list(&file, Some(&acl), &Cred::user(1, 1), is_write).unwrap();
            }
        }
    }

    /// Promise: Linux's form is that of NFS, byte for byte; names that are no numbers, unknown
    /// permissions and flags, entries that only report, and lists that are cut are refused.
    #[test]
    fn linux_form() {
        #[rustfmt::skip]
        let bytes = [
            &[0, 0, 0, 3][..],
            &[0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 4], b"1001",
            &[0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0x10, 0, 0x20, 0, 0, 0, 6], b"GROUP@\0\0",
            &[0, 0, 0, 0, 0, 0, 0, 0x80, 0, 2, 0, 0x80, 0, 0, 0, 9], b"EVERYONE@\0\0\0",
        ].concat();
        let acl = list("user:1001:rw:fd:deny group@:xs::allow everyone@:ac:I:allow");
        assert_eq!(acl.to_linux(), bytes);
        assert_eq!(Nfs4Acl::from_linux(&bytes).unwrap(), acl);
        for len in 0..bytes.len() {
            Nfs4Acl::from_linux(&bytes[..len]).unwrap_err();
        }
        Nfs4Acl::from_linux(&[0; 4]).unwrap_err();
        Nfs4Acl::from_linux(&[&bytes[..], &[0; 4]].concat()).unwrap_err();
        for (at, byte) in
            [(7, 2), (11, 0x10), (8, 1), (12, 0x80), (14, 0x02), (20, b'x'), (20, b'+'), (47, 1)]
        {
            let mut other = bytes.clone();
            other[at] = byte;
            Nfs4Acl::from_linux(&other).unwrap_err();
        }
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut changed = bytes.clone();
                changed[at] = value;
                if let Ok(read) = Nfs4Acl::from_linux(&changed) {
                    assert_eq!(Nfs4Acl::from_linux(&read.to_linux()).unwrap(), read);
                }
            }
        }
    }
}
