//! Access control lists: what the attributes that hold them mean ([`crate::format::acl`]).
//!
//! Lists are shown and set under Linux's names and in Linux's form, and under no other, so that who
//! copies all attributes copies each list once. Setting one changes the permission bits in the same
//! transaction. Those of POSIX.1e have the permission bits of the inode as a part, and reading one
//! takes them from the inode. So chmod needs to change nothing but the inode, and what the stored
//! list says of the same bits may be out of date, as it is on FreeBSD and NetBSD. A list of `NFSv4`
//! goes when chmod changes the permissions, also as on FreeBSD; a file without one has that of its
//! permission bits.

use super::mount::Ffs;
use crate::format::acl::{NFS4, POSIX1E_ACCESS, POSIX1E_DEFAULT, SPACE, decode, decode_any, encode};
use crate::format::dinode::Dinode;
use crate::format::extattr::{Record, push_record};
use crate::format::nfs4;
use crate::volume::tx::Tx;
use spindle_tree::xattr::{join, split};
use spindle_vfs::acl::{ACCESS_ACL, DEFAULT_ACL, NFS4_ACL};
use spindle_vfs::{Acl, AclKind, Error, FileKind, NewNode, Nfs4Acl, Privilege, Result, XattrMode};

/// What a new file gets from a list of its directory.
pub(crate) struct Inherited {
    /// Its permission bits.
    pub(crate) perm: u32,
    /// Its attribute area.
    pub(crate) area: Vec<u8>,
}

/// Returns the name of the record that holds a list.
fn stored_name(name: &[u8]) -> &'static [u8] {
    if name == DEFAULT_ACL { POSIX1E_DEFAULT } else { POSIX1E_ACCESS }
}

impl Ffs {
    /// Returns true for the names of lists that this file system has.
    pub(super) fn is_acl(&self, name: &[u8]) -> bool {
        self.acls.has(name)
    }

    /// Returns the record that an attribute is kept in as it comes. Those of lists that are shown
    /// under another name are nobody's.
    pub(super) fn plain_key<'a>(&self, name: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let key = split(name).filter(|_| name != NFS4_ACL)?;
        let shown: &[&[u8]] = match self.acls {
            AclKind::None => &[],
            AclKind::Posix => &[POSIX1E_ACCESS, POSIX1E_DEFAULT],
            AclKind::Nfs4 => &[NFS4],
        };
        (key.0 != SPACE || !shown.contains(&key.1)).then_some(key)
    }

    /// Returns a list in the form of this file system, for one that is set as it was stored
    /// elsewhere.
    pub(super) fn own_form(&self, key: (u8, &[u8]), value: &[u8]) -> Option<Vec<u8>> {
        let endian = self.layout().endian;
        match key {
            (SPACE, POSIX1E_ACCESS | POSIX1E_DEFAULT) => {
                encode(&decode_any(value)?, self.volume.dialect, endian).ok()
            }
            (SPACE, NFS4) => nfs4::encode(&nfs4::decode_any(value)?, endian).ok(),
            _ => None,
        }
    }

    fn decode_acl(&self, value: &[u8]) -> Result<Option<Acl>> {
        decode(value, self.volume.dialect, self.layout().endian)
    }

    /// Returns the list that decides about access, with the permission bits of the file; `None` if
    /// they are all there is.
    fn access_acl(&self, ino: u32, di: &Dinode, stored: Option<&[u8]>) -> Option<Acl> {
        let perm = u32::from(di.mode);
        let Ok(acl) = self.decode_acl(stored?) else {
            log::warn!(
                "inode {ino}: its access control list is malformed; only its owner has access until \
                 setfacl gives it another one"
            );
            return Some(Acl::only_owner(perm));
        };
        acl.map(|acl| acl.with_perm(perm)).filter(|acl| !acl.is_minimal())
    }

    /// Returns the list that new files of a directory get.
    fn default_acl(&self, ino: u32, di: &Dinode) -> Result<Option<Acl>> {
        if !di.is_directory() || di.extsize == 0 {
            return Ok(None);
        }
        let stored = self.extattr_record(ino, di, (SPACE, POSIX1E_DEFAULT))?;
        stored.map_or(Ok(None), |stored| self.decode_acl(&stored)).map_err(|_| {
            log::warn!("inode {ino}: its default access control list is malformed; setfacl -k removes it");
            Error::NotPermitted
        })
    }

    /// Returns the list of `NFSv4` that is stored for an inode.
    fn stored_nfs4(&self, ino: u32, di: &Dinode) -> Result<Option<Nfs4Acl>> {
        if di.extsize == 0 {
            return Ok(None);
        }
        let stored = self.volume.note(self.extattr_record(ino, di, (SPACE, NFS4)))?;
        stored.map(|stored| nfs4::decode(&stored, self.layout().endian)).transpose()
    }

    /// Returns the list of `NFSv4` that decides about access.
    fn nfs4_acl(&self, ino: u32, di: &Dinode) -> Result<Nfs4Acl> {
        let perm = u32::from(di.mode);
        match self.stored_nfs4(ino, di) {
            Ok(stored) => Ok(stored.unwrap_or_else(|| Nfs4Acl::trivial(perm))),
            Err(Error::Invalid) => {
                log::warn!(
                    "inode {ino}: its access control list is malformed; only its owner has access \
                     until nfs4_setfacl or chmod gives it another one"
                );
                Ok(Nfs4Acl::only_owner(perm))
            }
            // A list that denies something may be lost.
            Err(Error::Corrupt { .. }) => Ok(Nfs4Acl::only_owner(perm)),
            Err(error) => Err(error),
        }
    }

    /// Returns a list in Linux's form.
    pub(super) fn acl_get(&self, ino: u32, di: &Dinode, name: &[u8]) -> Result<Vec<u8>> {
        if di.kind() == Some(FileKind::Symlink) {
            return Err(Error::NotSupported);
        }
        if name == NFS4_ACL {
            return Ok(self.nfs4_acl(ino, di)?.to_linux());
        }
        let acl = if name == DEFAULT_ACL {
            self.default_acl(ino, di)?
        } else {
            match self.volume.note(self.extattr_record(ino, di, (SPACE, POSIX1E_ACCESS))) {
                Ok(stored) => self.access_acl(ino, di, stored.as_deref()),
                // A list that denies something may be lost. The kernel refuses even the superuser
                // if it gets an error here.
                Err(Error::Corrupt { .. }) => Some(Acl::only_owner(di.mode.into())),
                Err(error) => return Err(error),
            }
        };
        acl.map(|acl| acl.to_linux()).ok_or(Error::NoAttribute)
    }

    /// Returns the name under which a record is listed; `None` if it is not.
    pub(super) fn listed_name(&self, ino: u32, di: &Dinode, record: &Record<'_>) -> Option<Vec<u8>> {
        let name = match (self.acls, record.space, record.name) {
            (AclKind::Posix, SPACE, POSIX1E_ACCESS) => {
                self.access_acl(ino, di, Some(record.value))?;
                ACCESS_ACL.to_vec()
            }
            (AclKind::Posix, SPACE, POSIX1E_DEFAULT) => {
                let acl = self.decode_acl(record.value).ok().flatten();
                acl.filter(|_| di.is_directory())?;
                DEFAULT_ACL.to_vec()
            }
            (AclKind::Nfs4, SPACE, NFS4) => NFS4_ACL.to_vec(),
            _ => join(record.space, record.name)?,
        };
        Some(name)
    }

    /// Sets (`Some`) or removes (`None`) a list, and changes the permission bits with it. The
    /// caller stores the inode. A list that permission bits can say is not stored.
    pub(super) fn acl_put(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        name: &[u8],
        value: Option<(&[u8], XattrMode)>,
        by: Privilege,
    ) -> Result<()> {
        if di.kind() == Some(FileKind::Symlink) {
            return Err(Error::NotSupported);
        }
        if name == NFS4_ACL {
            return self.nfs4_put(tx, ino, di, value, by);
        }
        let (acl, mode) = match value {
            Some((value, mode)) => (Acl::from_linux(value)?, mode),
            None => (None, XattrMode::Set),
        };
        if name == DEFAULT_ACL && acl.is_some() && !di.is_directory() {
            return Err(Error::Access);
        }
        let mut stored = acl.as_ref();
        if let Some(acl) = stored.filter(|_| name == ACCESS_ACL) {
            di.mode = di.mode & !0o777 | u16::try_from(acl.perm()).unwrap_or(0);
            stored = stored.filter(|acl| !acl.is_minimal());
        }
        let key = (SPACE, stored_name(name));
        match stored {
            Some(acl) => {
                let value = encode(acl, self.volume.dialect, self.layout().endian)?;
                self.replace_record(tx, ino, di, key, Some((&value, mode)), by)
            }
            None => self.remove_record(tx, ino, di, key, by),
        }
    }

    /// Sets or removes a list of `NFSv4`. Every file has one, so there is always one to replace.
    fn nfs4_put(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        value: Option<(&[u8], XattrMode)>,
        by: Privilege,
    ) -> Result<()> {
        let key = (SPACE, NFS4);
        let Some((value, mode)) = value else { return self.remove_record(tx, ino, di, key, by) };
        let acl = Nfs4Acl::from_linux(value)?;
        if mode == XattrMode::Create {
            return Err(Error::Exists);
        }
        if acl.is_for_directories() && !di.is_directory() {
            return Err(Error::Invalid);
        }
        if acl.entries().len() > nfs4::MOST_SET {
            return Err(Error::NoSpace);
        }
        di.mode = di.mode & !0o777 | u16::try_from(acl.perm()).unwrap_or(0);
        if acl.is_trivial() {
            return self.remove_record(tx, ino, di, key, by);
        }
        let stored = nfs4::encode(&acl, self.layout().endian)?;
        self.replace_record(tx, ino, di, key, Some((&stored, XattrMode::Set)), by)
    }

    /// Removes a record that need not be there.
    fn remove_record(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        key: (u8, &[u8]),
        by: Privilege,
    ) -> Result<()> {
        if di.extsize == 0 {
            return Ok(());
        }
        match self.replace_record(tx, ino, di, key, None, by) {
            Err(Error::NoAttribute) => Ok(()),
            other => other,
        }
    }

    /// Makes the list of a file follow a change of its permission bits. One of POSIX.1e does by
    /// itself; one of `NFSv4` is removed, as FreeBSD removes it: the permission bits are all that
    /// is left of it.
    pub(crate) fn acl_follows_chmod(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        by: Privilege,
    ) -> Result<()> {
        match self.acls {
            AclKind::Nfs4 => self.volume.note(self.remove_record(tx, ino, di, (SPACE, NFS4), by)),
            AclKind::None | AclKind::Posix => Ok(()),
        }
    }

    /// Returns what a new file gets from the directory `parent`, if that has a list for new files.
    pub(crate) fn inherited(&self, parent: (u32, &Dinode), node: &NewNode<'_>) -> Result<Option<Inherited>> {
        match self.acls {
            _ if node.kind == FileKind::Symlink => Ok(None),
            AclKind::None => Ok(None),
            AclKind::Posix => self.inherited_posix(parent, node),
            AclKind::Nfs4 => self.inherited_nfs4(parent, node),
        }
    }

    fn inherited_nfs4(&self, parent: (u32, &Dinode), node: &NewNode<'_>) -> Result<Option<Inherited>> {
        let stored = self.stored_nfs4(parent.0, parent.1).map_err(|error| match error {
            Error::Invalid => {
                log::warn!(
                    "inode {}: its access control list is malformed, so nothing can be created in it; \
                     nfs4_setfacl or chmod gives it another one",
                    parent.0
                );
                Error::NotPermitted
            }
            error => error,
        })?;
        let Some(list) = stored.filter(Nfs4Acl::is_inherited) else { return Ok(None) };
        let acl = list.inherited(node.perm, node.kind == FileKind::Directory);
        if acl.is_trivial() {
            return Ok(None);
        }
        let (mut area, endian) = (Vec::new(), self.layout().endian);
        push_record(&mut area, endian, SPACE, NFS4, &nfs4::encode(&acl, endian)?)?;
        Ok(Some(Inherited { perm: node.perm, area }))
    }

    fn inherited_posix(&self, parent: (u32, &Dinode), node: &NewNode<'_>) -> Result<Option<Inherited>> {
        let Some(default) = self.volume.note(self.default_acl(parent.0, parent.1))? else { return Ok(None) };
        let (perm, acl) = default.inherited(node.perm | node.masked);
        let mut area = Vec::new();
        let (dialect, endian) = (self.volume.dialect, self.layout().endian);
        let lists = [
            (POSIX1E_ACCESS, &acl, !acl.is_minimal()),
            (POSIX1E_DEFAULT, &default, node.kind == FileKind::Directory),
        ];
        for (name, acl, _) in lists.into_iter().filter(|list| list.2) {
            push_record(&mut area, endian, SPACE, name, &encode(acl, dialect, endian)?)?;
        }
        Ok(Some(Inherited { perm, area }))
    }
}
