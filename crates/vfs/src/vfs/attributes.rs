//! Changes of attributes, and extended attributes.

use super::{HandleId, Vfs};
use crate::access::{self, Access, Cred, S_ISGID};
use crate::acl::{ACCESS_ACL, NFS4_ACL, is_acl_name};
use crate::{Attr, Error, FileKind, Ino, Result, SetAttr, XattrMode};

#[allow(clippy::missing_errors_doc)] // As `FileSystem` says, and `Access` or `NotPermitted` for want of permission.
impl Vfs {
    /// Changes attributes. A new size needs write permission, unless `handle` is open for writing.
    pub fn setattr(
        &self,
        cred: &Cred<'_>,
        ino: Ino,
        set: &SetAttr,
        handle: Option<HandleId>,
    ) -> Result<Attr> {
        let writable = handle.is_some_and(|handle| self.files.may_write(handle, ino));
        self.set_attributes(cred, ino, set, writable)
    }

    /// Does the same for a caller that has the file open for writing if `writable`, as its kernel
    /// says.
    pub fn set_attributes(&self, cred: &Cred<'_>, ino: Ino, set: &SetAttr, writable: bool) -> Result<Attr> {
        let attr = self.fs.getattr(ino)?;
        let allowed;
        let set = if self.checks() {
            let acl = self.acl(&attr, cred)?;
            allowed = access::permit_setattr(&attr, acl.as_ref(), cred, set, writable)?;
            &allowed
        } else {
            set
        };
        access::permit_setattr_by_flags(&attr, set)?;
        let append = self.files.append_lock(ino);
        let _steady = append.as_ref().filter(|_| set.size.is_some()).map(|lock| lock.read());
        self.fs.setattr(ino, set, cred.privilege())
    }

    /// Gives a file other file flags: those that `change` makes of its present ones. Who may is
    /// checked also with [`Checking::ByKernel`](super::Checking): Linux knows only some of the
    /// flags.
    pub fn chflags(&self, cred: &Cred<'_>, ino: Ino, change: impl Fn(u32) -> u32) -> Result<Attr> {
        let attr = self.fs.getattr(ino)?;
        let flags = change(attr.flags);
        access::permit_chflags(&attr, cred, flags)?;
        self.fs.setattr(ino, &SetAttr { flags: Some(flags), ..SetAttr::default() }, cred.privilege())
    }

    /// Checks access to an extended attribute. Attributes of users have the permissions of the
    /// file's bytes, and only files and directories have them; the system's attributes are
    /// accessible only to the superuser, as in BSD, and invisible to others, except for access
    /// control lists, which everybody may see and the owner may change unless they say otherwise
    /// themselves, as those of `NFSv4` can. This applies also with
    /// [`Checking::ByKernel`](super::Checking): Linux leaves the check to the file system.
    fn permit_xattr(&self, cred: &Cred<'_>, ino: Ino, name: &[u8], want: Access) -> Result<()> {
        let attr = self.fs.getattr(ino)?;
        let writes = want.includes(Access::WRITE);
        if writes {
            access::permit_write_by_flags(attr.flags, false)?;
        }
        if is_acl_name(name) || name == NFS4_ACL {
            return access::permit_list(&attr, self.acl(&attr, cred)?.as_ref(), cred, writes);
        }
        if !name.starts_with(b"user.") {
            return match (cred.is_root(), writes) {
                (true, _) => Ok(()),
                (false, true) => Err(Error::NotPermitted),
                (false, false) => Err(Error::NoAttribute),
            };
        }
        if !self.checks() {
            return Ok(());
        }
        match attr.kind {
            FileKind::Regular | FileKind::Directory => self.permit(&attr, cred, want),
            _ if writes => Err(Error::NotPermitted),
            _ => Err(Error::NoAttribute),
        }
    }

    /// Returns the value of an extended attribute.
    pub fn getxattr(&self, cred: &Cred<'_>, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.permit_xattr(cred, ino, name, Access::READ)?;
        self.fs.getxattr(ino, name)
    }

    /// Sets an extended attribute.
    pub fn setxattr(
        &self,
        cred: &Cred<'_>,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.permit_xattr(cred, ino, name, Access::WRITE)?;
        if (name == ACCESS_ACL || name == NFS4_ACL) && self.checks() {
            // As chmod does: who is not in the group must not give the group's rights away.
            let attr = self.fs.getattr(ino)?;
            if !cred.is_root() && !cred.in_group(attr.gid) {
                self.clear_set_gid(&attr, cred)?;
            }
        }
        self.fs.setxattr(ino, name, value, mode, cred.privilege())
    }

    /// Clears the set-group-id bit of a file that gets another access control list.
    pub fn clear_set_gid(&self, attr: &Attr, cred: &Cred<'_>) -> Result<()> {
        if attr.perm & S_ISGID != 0 {
            let set = SetAttr { perm: Some(attr.perm & !S_ISGID), ..SetAttr::default() };
            self.fs.setattr(attr.ino, &set, cred.privilege())?;
        }
        Ok(())
    }

    /// Returns the names of all extended attributes that `cred` may see: everybody sees those of
    /// users, and access control lists.
    pub fn listxattr(&self, cred: &Cred<'_>, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let mut names = self.fs.listxattr(ino)?;
        let shown = |name: &[u8]| name.starts_with(b"user.") || is_acl_name(name) || name == NFS4_ACL;
        names.retain(|name| cred.is_root() || shown(name));
        Ok(names)
    }

    /// Removes an extended attribute.
    pub fn removexattr(&self, cred: &Cred<'_>, ino: Ino, name: &[u8]) -> Result<()> {
        self.permit_xattr(cred, ino, name, Access::WRITE)?;
        self.fs.removexattr(ino, name)
    }
}
