//! Access rights: pure decisions from attributes and credentials (POSIX, with BSD's file flags).
//!
//! A refusal by permission bits is [`Error::Access`]; a refusal for lack of ownership or because of
//! file flags is [`Error::NotPermitted`].

use crate::nfs4::{Perms, Verdict};
use crate::{AccessList, Attr, Caller, Error, FallocateMode, FileKind, Privilege, Result, SetAttr, SetTime};
use std::borrow::Cow;

// Bits of a mode (POSIX `sys/stat.h`).
pub(crate) const S_ISUID: u32 = 0o4000;
pub(crate) const S_ISGID: u32 = 0o2000;
const S_ISVTX: u32 = 0o1000;
const S_IXGRP: u32 = 0o010;

/// File flags that forbid any change (`UF_IMMUTABLE`, `SF_IMMUTABLE`; FreeBSD `sys/stat.h`).
pub const IMMUTABLE: u32 = 0x2 | 0x2_0000;
/// File flags that allow only appending (`UF_APPEND`, `SF_APPEND`).
pub const APPEND: u32 = 0x4 | 0x4_0000;
/// File flags that forbid removing and renaming (`UF_NOUNLINK`, `SF_NOUNLINK`).
pub const NOUNLINK: u32 = 0x10 | 0x10_0000;
/// File flags that only the superuser may change (`SF_SETTABLE`).
const SUPERUSER_FLAGS: u32 = 0xffff_0000;
/// Those of them with which only the superuser may change any flag (`SF_IMMUTABLE`, `SF_APPEND`,
/// `SF_NOUNLINK`).
const SUPERUSER_HOLDS: u32 = (IMMUTABLE | APPEND | NOUNLINK) & SUPERUSER_FLAGS;

/// Identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred<'a> {
    /// User.
    pub uid: u32,
    /// Group; new files get it.
    pub gid: u32,
    /// Additional groups.
    pub groups: Cow<'a, [u32]>,
    /// Permission bits removed from the mode of new files; 0 if the caller's kernel has removed
    /// them already.
    pub umask: u32,
    /// Process; 0 if it is not known.
    pub process: u32,
}

impl Cred<'static> {
    /// Returns the superuser, with no umask.
    #[must_use]
    pub const fn root() -> Self {
        Self::user(0, 0)
    }

    /// Returns a user with one group and no umask.
    #[must_use]
    pub const fn user(uid: u32, gid: u32) -> Self {
        Self { uid, gid, groups: Cow::Borrowed(&[]), umask: 0, process: 0 }
    }
}

impl Cred<'_> {
    /// Returns true for the superuser, to whom permission bits do not apply.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Returns true if `gid` is one of the caller's groups.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Returns the right to space.
    #[must_use]
    pub const fn privilege(&self) -> Privilege {
        match (self.is_root(), self.process) {
            (true, _) => Privilege::Root,
            (false, 0) => Privilege::User,
            (false, process) => Privilege::Process(Caller { user: self.uid, process }),
        }
    }

    pub(crate) fn owns(&self, attr: &Attr) -> bool {
        self.is_root() || self.uid == attr.uid
    }
}

/// Requested access to a file: a set of [`Access::READ`], [`Access::WRITE`] and
/// [`Access::EXECUTE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// No access; the file must exist.
    pub const EXISTS: Self = Self(0);
    /// Executing a file, or searching a directory.
    pub const EXECUTE: Self = Self(1);
    /// Writing.
    pub const WRITE: Self = Self(2);
    /// Reading.
    pub const READ: Self = Self(4);

    /// Returns the access for the bits of `access(2)`; other bits are ignored.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & 7)
    }

    /// Returns the union of the two.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if all of `other` is included.
    #[must_use]
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Checks permission bits, or the access control list that they are a part of.
///
/// # Errors
/// [`Error::Access`] if they do not grant `want`; [`Error::NotPermitted`] if a file flag forbids
/// writing.
pub fn permit(attr: &Attr, acl: Option<&AccessList>, cred: &Cred<'_>, want: Access) -> Result<()> {
    if want.includes(Access::WRITE) {
        permit_write_by_flags(attr.flags, true)?;
    }
    if let Some(acl) = acl.filter(|_| !cred.is_root()) {
        return if acl.grants(attr, cred, want) { Ok(()) } else { Err(Error::Access) };
    }
    let granted = if cred.is_root() {
        let executable = attr.kind == FileKind::Directory || attr.perm & 0o111 != 0;
        Access(if executable { 7 } else { 6 })
    } else if cred.uid == attr.uid {
        Access(attr.perm >> 6 & 7)
    } else if cred.in_group(attr.gid) {
        Access(attr.perm >> 3 & 7)
    } else {
        Access(attr.perm & 7)
    };
    if granted.includes(want) { Ok(()) } else { Err(Error::Access) }
}

/// Checks that file flags permit writing to a file, or changing a directory. `only_adds` is true
/// for an append, and for a new name.
///
/// # Errors
/// [`Error::NotPermitted`].
pub const fn permit_write_by_flags(flags: u32, only_adds: bool) -> Result<()> {
    let forbidden = flags & IMMUTABLE != 0 || flags & APPEND != 0 && !only_adds;
    if forbidden { Err(Error::NotPermitted) } else { Ok(()) }
}

/// Checks that file flags permit this `fallocate`: where only appending is allowed, it may add
/// space and change no byte.
///
/// # Errors
/// [`Error::NotPermitted`].
pub const fn permit_fallocate_by_flags(flags: u32, mode: FallocateMode) -> Result<()> {
    permit_write_by_flags(flags, matches!(mode, FallocateMode::Allocate { .. }))
}

/// Checks that file flags permit removing a name of `attr` from directory `dir` (`unlink`, `rmdir`,
/// `rename`).
///
/// # Errors
/// [`Error::NotPermitted`].
pub fn permit_removal_by_flags(dir: &Attr, attr: &Attr) -> Result<()> {
    let held = attr.flags & (IMMUTABLE | APPEND | NOUNLINK) | dir.flags & (IMMUTABLE | APPEND);
    if held == 0 { Ok(()) } else { Err(Error::NotPermitted) }
}

/// Checks that `cred` may add a name to `dir`, which may have a list; `is_directory` is true for
/// that of a directory, which lists of `NFSv4` distinguish.
///
/// # Errors
/// [`Error::Access`] without permission on the directory; [`Error::NotPermitted`] if a file flag
/// forbids it.
pub fn permit_adding(
    dir: &Attr,
    acl: Option<&AccessList>,
    cred: &Cred<'_>,
    is_directory: bool,
) -> Result<()> {
    permit_write_by_flags(dir.flags, true)?;
    match acl.and_then(AccessList::nfs4).filter(|_| !cred.is_root() && is_directory) {
        Some(acl) if acl.allows(dir, cred, Perms::APPEND_DATA) => Ok(()),
        Some(_) => Err(Error::Access),
        None => permit(dir, acl, cred, Access::WRITE),
    }
}

/// Checks that `cred` may remove or rename a name of `attr` in `dir`, each of which may have a
/// list: this needs write and search permission, and in a sticky directory ownership of the file or
/// the directory. Lists of `NFSv4` have permissions of their own for it, of the file or of the
/// directory; where these say nothing, it is as without them.
///
/// # Errors
/// [`Error::Access`] without permission on the directory, [`Error::NotPermitted`] because of the
/// sticky bit, or where a list denies it.
pub fn permit_removal(
    (dir, dir_acl): (&Attr, Option<&AccessList>),
    (attr, acl): (&Attr, Option<&AccessList>),
    cred: &Cred<'_>,
) -> Result<()> {
    permit(dir, dir_acl, cred, Access::EXECUTE)?;
    let verdict = |of: &Attr, acl: Option<&AccessList>, want| match acl.and_then(AccessList::nfs4) {
        Some(acl) if !cred.is_root() => acl.verdict(of, cred, want),
        _ => Verdict::Unnamed,
    };
    if verdict(attr, acl, Perms::DELETE) == Verdict::Allowed {
        return Ok(());
    }
    match verdict(dir, dir_acl, Perms::DELETE_CHILD) {
        Verdict::Allowed => return Ok(()),
        Verdict::Denied => return Err(Error::NotPermitted),
        Verdict::Unnamed => permit(dir, dir_acl, cred, Access::WRITE)?,
    }
    let free = dir.perm & S_ISVTX == 0 || cred.owns(dir) || cred.owns(attr);
    if free { Ok(()) } else { Err(Error::NotPermitted) }
}

/// Checks that `cred` may read (or with `writes` change) the list of a file that has this one. A
/// file without one has it from its permission bits: everybody reads it, and the owner changes it.
///
/// # Errors
/// [`Error::Access`] if it may not be read, [`Error::NotPermitted`] if it may not be changed.
pub fn permit_list(attr: &Attr, acl: Option<&AccessList>, cred: &Cred<'_>, writes: bool) -> Result<()> {
    let (want, refusal) =
        if writes { (Perms::WRITE_ACL, Error::NotPermitted) } else { (Perms::READ_ACL, Error::Access) };
    let granted = cred.is_root()
        || match acl.and_then(AccessList::nfs4) {
            Some(acl) => acl.allows(attr, cred, want),
            None => !writes || cred.owns(attr),
        };
    if granted { Ok(()) } else { Err(refusal) }
}

/// Returns the mode without the set-id bits, which a change by a user clears. Set-group-id without
/// group execute permission has another meaning (System V's mandatory locking): it stays if the
/// user is `in_group`, that of the file (Linux 6.2, `setattr_should_drop_sgid`).
pub fn without_set_id(perm: u32, in_group: impl FnOnce() -> bool) -> u32 {
    let perm = perm & !S_ISUID;
    let stays = perm & S_ISGID == 0 || perm & S_IXGRP == 0 && in_group();
    if stays { perm } else { perm & !S_ISGID }
}

/// Checks that file flags permit applying `set` to `attr`.
///
/// # Errors
/// [`Error::NotPermitted`].
pub fn permit_setattr_by_flags(attr: &Attr, set: &SetAttr) -> Result<()> {
    let only_flags = SetAttr { flags: None, ..set.clone() } == SetAttr::default();
    let touches = SetAttr { atime: None, mtime: None, flags: None, ..set.clone() } == SetAttr::default()
        && [set.atime, set.mtime].iter().all(|time| matches!(time, None | Some(SetTime::Now)));
    let held = attr.flags & IMMUTABLE != 0 && !only_flags || attr.flags & APPEND != 0 && !touches;
    if held { Err(Error::NotPermitted) } else { Ok(()) }
}

/// Checks that `cred` may give a file these file flags (FreeBSD `ufs_setattr`).
///
/// # Errors
/// [`Error::NotPermitted`].
pub fn permit_chflags(attr: &Attr, cred: &Cred<'_>, flags: u32) -> Result<()> {
    let of_superuser = attr.flags & SUPERUSER_HOLDS | (flags ^ attr.flags) & SUPERUSER_FLAGS;
    let permitted = cred.owns(attr) && (cred.is_root() || of_superuser == 0);
    if permitted { Ok(()) } else { Err(Error::NotPermitted) }
}

/// Checks that `cred` may apply `set` to `attr`, and returns the changes to apply, which clear
/// set-id bits where necessary. `acl` is the list of the file, if it has one. `writable` means that
/// the file is open for writing, which permits setting its size.
///
/// # Errors
/// [`Error::NotPermitted`] without ownership, [`Error::Access`] without write permission.
pub fn permit_setattr(
    attr: &Attr,
    acl: Option<&AccessList>,
    cred: &Cred<'_>,
    set: &SetAttr,
    writable: bool,
) -> Result<SetAttr> {
    let mut set = set.clone();
    let must_own = |owned: bool| if owned { Ok(()) } else { Err(Error::NotPermitted) };
    // What permission bits reserve for the owner, a list of `NFSv4` can allow to others.
    let nfs4 = acl.and_then(AccessList::nfs4).filter(|_| !cred.is_root());
    let may = |want| nfs4.map_or_else(|| cred.owns(attr), |acl| acl.allows(attr, cred, want));
    let takes_over = |uid| nfs4.is_some() && uid == cred.uid;
    let gives_away = set.uid.is_some_and(|uid| uid != attr.uid && !takes_over(uid));
    must_own(!gives_away || cred.is_root())?;
    if let Some(gid) = set.gid {
        must_own(cred.is_root() || gid == attr.gid || cred.in_group(gid))?;
    }
    if set.uid.is_some() || set.gid.is_some() {
        must_own(may(Perms::WRITE_OWNER))?;
    }
    if let Some(perm) = set.perm {
        must_own(may(Perms::WRITE_ACL) && (perm & S_ISUID == 0 || cred.owns(attr)))?;
    }
    if set.ctime.is_some() || set.birthtime.is_some() {
        must_own(cred.owns(attr))?;
    }
    if let Some(flags) = set.flags {
        permit_chflags(attr, cred, flags)?;
    }
    match (set.atime, set.mtime) {
        (None, None) => {}
        (Some(SetTime::Now), Some(SetTime::Now)) => {
            if !may(Perms::WRITE_ATTRIBUTES) {
                permit(attr, acl, cred, Access::WRITE)?;
            }
        }
        _ => must_own(may(Perms::WRITE_ATTRIBUTES))?,
    }
    if set.size.is_some() && !writable {
        permit(attr, acl, cred, Access::WRITE)?;
    }
    let chowned = (set.uid.is_some() || set.gid.is_some()) && attr.kind != FileKind::Directory;
    let truncated = set.size.is_some() && !cred.is_root();
    if let Some(perm) = &mut set.perm {
        if *perm & S_ISGID != 0 && !cred.is_root() && !cred.in_group(set.gid.unwrap_or(attr.gid)) {
            *perm &= !S_ISGID;
        }
    } else if (chowned || truncated) && attr.perm & (S_ISUID | S_ISGID) != 0 {
        set.perm = Some(without_set_id(attr.perm, || cred.is_root() || cred.in_group(attr.gid)));
    }
    Ok(set)
}

/// Rule for the group of a new file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupRule {
    /// The creator's group, unless the directory is set-group-id (System V, Linux).
    #[default]
    SysV,
    /// The directory's group (BSD).
    Bsd,
}

/// Returns the permission bits and the group of a new file of `kind` in `dir`, created with `perm`.
#[must_use]
pub fn new_file(
    rule: GroupRule,
    dir: &Attr,
    cred: &Cred<'_>,
    kind: FileKind,
    perm: u32,
    gid: u32,
) -> (u32, u32) {
    let mut perm = if kind == FileKind::Symlink { perm } else { perm & !(cred.umask & 0o777) };
    let inherits = dir.perm & S_ISGID != 0;
    let gid = if inherits || rule == GroupRule::Bsd { dir.gid } else { gid };
    if kind == FileKind::Directory {
        if inherits && rule == GroupRule::SysV {
            perm |= S_ISGID;
        }
    } else if perm & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP && !cred.is_root() && !cred.in_group(gid) {
        perm &= !S_ISGID;
    }
    (perm, gid)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Ino, Rdev};
    use FileKind::{Directory, Regular, Symlink};
    use spindle_clock::Timestamp;

    pub(crate) fn attr(kind: FileKind, perm: u32, uid: u32, gid: u32) -> Attr {
        let time = Timestamp::new(0, 0);
        Attr {
            ino: Ino(5),
            generation: 1,
            kind,
            perm,
            nlink: 1,
            uid,
            gid,
            rdev: Rdev::default(),
            size: 0,
            blocks512: 0,
            blksize: 4096,
            atime: time,
            mtime: time,
            ctime: time,
            birthtime: None,
            flags: 0,
        }
    }

    fn errno<T>(result: Result<T>) -> i32 {
        result.err().map_or(0, |error| error.errno())
    }

    /// Promise: only the first class that matches decides: owner, then group, then others.
    #[test]
    fn one_class_decides() {
        let member = Cred { groups: Cow::Borrowed(&[7]), ..Cred::user(2, 2) };
        for (perm, owner, group, other) in
            [(0o700, true, false, false), (0o070, false, true, false), (0o007, false, false, true)]
        {
            let file = attr(FileKind::Regular, perm, 1, 7);
            for want in [Access::READ, Access::WRITE, Access::EXECUTE, Access::from_bits(7)] {
                assert_eq!(permit(&file, None, &Cred::user(1, 7), want).is_ok(), owner);
                assert_eq!(permit(&file, None, &member, want).is_ok(), group);
                assert_eq!(permit(&file, None, &Cred::user(3, 3), want).is_ok(), other);
            }
        }
    }

    /// Promise: the superuser reads and writes all files, executes files that have an execute bit,
    /// and cannot change immutable files.
    #[test]
    fn superuser() {
        let root = Cred::root();
        let mut file = attr(FileKind::Regular, 0, 1, 1);
        permit(&file, None, &root, Access::READ.and(Access::WRITE)).unwrap();
        assert_eq!(errno(permit(&file, None, &root, Access::EXECUTE)), 13);
        permit(&attr(FileKind::Directory, 0, 1, 1), None, &root, Access::EXECUTE).unwrap();
        file.perm = 0o001;
        permit(&file, None, &root, Access::EXECUTE).unwrap();
        file.flags = 0x2_0000;
        assert_eq!(errno(permit(&file, None, &root, Access::WRITE)), 1);
        permit(&file, None, &root, Access::READ).unwrap();
    }

    /// Promise: in a sticky directory only the owner of the file or of the directory may remove the
    /// file.
    #[test]
    fn sticky() {
        let dir = attr(FileKind::Directory, 0o1777, 1, 1);
        let file = attr(FileKind::Regular, 0o666, 2, 2);
        for (uid, expected) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
            assert_eq!(
                errno(permit_removal((&dir, None), (&file, None), &Cred::user(uid, 9))),
                expected,
                "user {uid}"
            );
        }
        let closed = attr(FileKind::Directory, 0o755, 1, 1);
        assert_eq!(errno(permit_removal((&closed, None), (&file, None), &Cred::user(2, 2))), 13);
    }

    /// Promise: file flags protect names and attributes, also from the superuser.
    #[test]
    fn flags_hold() {
        let dir = attr(FileKind::Directory, 0o777, 1, 1);
        let mut file = attr(FileKind::Regular, 0o666, 1, 1);
        let chmod = SetAttr { perm: Some(0), ..SetAttr::default() };
        let chflags = SetAttr { flags: Some(0), ..SetAttr::default() };
        let touch = SetAttr { atime: Some(SetTime::Now), mtime: Some(SetTime::Now), ..SetAttr::default() };
        for (flags, removal, change, touched) in [
            (0, 0, 0, 0),
            (0x2, 1, 1, 1),
            (0x4, 1, 1, 0),
            (0x10, 1, 0, 0),
            (0x10_0000, 1, 0, 0),
            (0x1, 0, 0, 0),
        ] {
            file.flags = flags;
            assert_eq!(errno(permit_removal_by_flags(&dir, &file)), removal, "{flags:#x}");
            assert_eq!(errno(permit_setattr_by_flags(&file, &chmod)), change, "{flags:#x}");
            assert_eq!(errno(permit_setattr_by_flags(&file, &touch)), touched, "{flags:#x}");
            assert_eq!(errno(permit_setattr_by_flags(&file, &chflags)), 0, "{flags:#x}");
        }
        file.flags = 0;
        assert_eq!(errno(permit_removal_by_flags(&Attr { flags: 0x4, ..dir }, &file)), 1);
    }

    /// Promise: each attribute can be changed only by those who have the right to it.
    #[test]
    fn setattr_rules() {
        let file = attr(FileKind::Regular, 0o664, 1, 10);
        let none = SetAttr::default();
        let owner = Cred { groups: Cow::Borrowed(&[11]), ..Cred::user(1, 10) };
        let member = Cred::user(2, 10);
        let other = Cred::user(3, 30);
        let now = Some(SetTime::Now);
        let then = Some(SetTime::At(Timestamp::new(1, 0)));
        let cases = [
            (SetAttr { perm: Some(0o600), ..none.clone() }, [0, 0, 1, 1]),
            (SetAttr { uid: Some(1), ..none.clone() }, [0, 0, 1, 1]),
            (SetAttr { uid: Some(2), ..none.clone() }, [0, 1, 1, 1]),
            (SetAttr { gid: Some(11), ..none.clone() }, [0, 0, 1, 1]),
            (SetAttr { gid: Some(12), ..none.clone() }, [0, 1, 1, 1]),
            (SetAttr { size: Some(0), ..none.clone() }, [0, 0, 0, 13]),
            (SetAttr { atime: now, mtime: now, ..none.clone() }, [0, 0, 0, 13]),
            (SetAttr { atime: then, mtime: now, ..none.clone() }, [0, 0, 1, 1]),
            (SetAttr { mtime: then, ..none.clone() }, [0, 0, 1, 1]),
            (SetAttr { flags: Some(1), ..none.clone() }, [0, 0, 1, 1]),
            (SetAttr { flags: Some(0x2_0000), ..none.clone() }, [0, 1, 1, 1]),
            (none, [0; 4]),
        ];
        for (set, expected) in cases {
            for (cred, expected) in [&Cred::root(), &owner, &member, &other].into_iter().zip(expected) {
                assert_eq!(
                    errno(permit_setattr(&file, None, cred, &set, false)),
                    expected,
                    "{set:?} by {cred:?}"
                );
            }
        }
        let cut = SetAttr { size: Some(0), ..SetAttr::default() };
        permit_setattr(&file, None, &other, &cut, true).unwrap();
    }

    /// Promise: the owner changes the owner's file flags, but none of a file that the superuser
    /// holds.
    #[test]
    fn who_changes_flags() {
        let mut file = attr(FileKind::Regular, 0o644, 1, 10);
        let owner = Cred::user(1, 10);
        for (before, after, by_root, by_owner) in [
            (0, 0x3, 0, 0),
            (0x3, 0, 0, 0),
            (0, 0x2_0000, 0, 1),
            (0x2_0000, 0, 0, 1),
            (0x2_0000, 0x2_0001, 0, 1),
            (0x10_0000, 0x10_0001, 0, 1),
            (0x1_0000, 0x1_0001, 0, 0),
        ] {
            file.flags = before;
            assert_eq!(errno(permit_chflags(&file, &Cred::root(), after)), by_root, "{before:#x}");
            assert_eq!(errno(permit_chflags(&file, &owner, after)), by_owner, "{before:#x} {after:#x}");
            assert_eq!(errno(permit_chflags(&file, &Cred::user(2, 10), after)), 1);
        }
    }

    /// Promise: set-id bits are cleared by chown, by a truncation by a user, and by a group that
    /// the owner is not in; other modes stay.
    #[test]
    fn set_id_bits_are_cleared() {
        let none = SetAttr::default();
        let file = attr(FileKind::Regular, 0o6755, 1, 10);
        let applied = |file: &Attr, cred: &Cred<'_>, set: &SetAttr| {
            permit_setattr(file, None, cred, set, true).unwrap().perm
        };
        let chown = SetAttr { gid: Some(10), ..none.clone() };
        assert_eq!(applied(&file, &Cred::root(), &chown), Some(0o755));
        assert_eq!(applied(&attr(FileKind::Directory, 0o6755, 1, 10), &Cred::root(), &chown), None);
        let locked = attr(FileKind::Regular, 0o6745, 1, 10);
        assert_eq!(applied(&locked, &Cred::root(), &chown), Some(0o2745));
        let cut = SetAttr { size: Some(0), ..none.clone() };
        assert_eq!(applied(&file, &Cred::user(1, 10), &cut), Some(0o755));
        assert_eq!(applied(&file, &Cred::root(), &cut), None);
        let member = Cred { groups: [7, 10].as_slice().into(), ..Cred::user(1, 11) };
        for (cred, perm) in [(Cred::user(1, 10), 0o2745), (member, 0o2745), (Cred::user(1, 11), 0o745)] {
            assert_eq!(applied(&locked, &cred, &cut), Some(perm));
        }
        let chmod = SetAttr { perm: Some(0o2755), ..none };
        assert_eq!(applied(&file, &Cred::user(1, 10), &chmod), Some(0o2755));
        assert_eq!(applied(&file, &Cred::user(1, 11), &chmod), Some(0o755));
        assert_eq!(applied(&file, &Cred::root(), &chmod), Some(0o2755));
    }

    /// Promise: the group and the bits of a new file follow the rule, the directory and the umask.
    #[test]
    fn new_files() {
        let cred = Cred { umask: 0o022, ..Cred::user(1, 10) };
        let plain = attr(FileKind::Directory, 0o777, 0, 20);
        let set_gid = attr(FileKind::Directory, 0o2777, 0, 20);
        let new = |rule, dir: &Attr, kind, perm| new_file(rule, dir, &cred, kind, perm, 10);
        assert_eq!(new(GroupRule::SysV, &plain, Regular, 0o666), (0o644, 10));
        assert_eq!(new(GroupRule::Bsd, &plain, Regular, 0o666), (0o644, 20));
        assert_eq!(new(GroupRule::SysV, &set_gid, Regular, 0o666), (0o644, 20));
        assert_eq!(new(GroupRule::SysV, &set_gid, Directory, 0o777), (0o2755, 20));
        assert_eq!(new(GroupRule::Bsd, &set_gid, Directory, 0o777), (0o755, 20));
        assert_eq!(new(GroupRule::SysV, &set_gid, Regular, 0o2777), (0o755, 20), "not in that group");
        assert_eq!(new(GroupRule::SysV, &plain, Regular, 0o2777), (0o2755, 10));
        assert_eq!(new(GroupRule::SysV, &plain, Symlink, 0o777), (0o777, 10));
    }
}
