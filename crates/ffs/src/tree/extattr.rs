//! Extended attributes of UFS2: up to two blocks of the inode's own, full of records
//! ([`crate::format::extattr`]). The whole area is read, changed and written at once.

use super::mount::Ffs;
use crate::format::dinode::Dinode;
use crate::format::extattr::{Record, push_record, records};
use crate::format::units::Frag;
use crate::volume::tx::Tx;
use spindle_vfs::{Error, Privilege, Result, XattrMode};

/// Returns a record, or the damage in its place.
fn whole(record: Option<Record<'_>>, ino: u32) -> Result<Record<'_>> {
    record.ok_or_else(|| Error::corrupt("a record that does not fit", format!("attributes of inode {ino}")))
}

impl Ffs {
    /// Returns the pieces of the attribute area: block number, fragments, bytes.
    fn extattr_pieces(&self, extsize: u32) -> impl Iterator<Item = (usize, u32, usize)> + use<> {
        let (bsize, fsize) = (self.layout().fs_bsize, self.layout().fs_fsize);
        let pieces = [extsize.min(bsize), extsize.saturating_sub(bsize)];
        pieces
            .into_iter()
            .enumerate()
            .filter(|&(_, n)| n > 0)
            .map(move |(i, n)| (i, n.div_ceil(fsize), n as usize))
    }

    /// Returns the attribute area of an inode.
    fn read_extattr(&self, ino: u32, di: &Dinode) -> Result<Vec<u8>> {
        let mut area = Vec::with_capacity(di.extsize as usize);
        for (i, frags, bytes) in self.extattr_pieces(di.extsize) {
            let at = self
                .volume
                .pointer(di.extb[i], frags, ino)?
                .ok_or_else(|| Error::corrupt("a hole", format!("attributes of inode {ino}")))?;
            let buffer = self.volume.cache.get(
                self.layout().byte(at),
                (frags << self.layout().fs_fshift) as usize,
                None,
            )?;
            area.extend_from_slice(&buffer.read()[..bytes]);
        }
        Ok(area)
    }

    /// Replaces the attribute area. The caller stores the inode.
    pub(super) fn write_extattr(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        area: &[u8],
        by: Privilege,
    ) -> Result<()> {
        let size = u32::try_from(area.len()).map_err(|_| Error::NoSpace)?;
        if size > 2 * self.layout().fs_bsize {
            return Err(Error::NoSpace);
        }
        let mut fresh: Vec<(Frag, u32)> = Vec::new();
        let own = self.layout().ino_to_cg(ino);
        for (_, frags, _) in self.extattr_pieces(size) {
            fresh.push((self.volume.alloc(tx, frags, self.layout().cgdmin(own), by)?, frags));
        }
        self.free_extattr(tx, ino, di)?;
        let mut rest = area;
        for (i, (at, frags)) in fresh.into_iter().enumerate() {
            let len = (frags << self.layout().fs_fshift) as usize;
            let (piece, more) = rest.split_at(rest.len().min(self.layout().fs_bsize as usize));
            let buffer = self.volume.cache.get_new(self.layout().byte(at), len, None, tx)?;
            buffer.write(tx).bytes_mut(0..piece.len()).copy_from_slice(piece);
            buffer.precede()?;
            di.extb[i] = at.0;
            self.account(tx, ino, di, frags.into(), by)?;
            rest = more;
        }
        di.extsize = size;
        Ok(())
    }

    /// Gives the attribute area's space back. The caller stores the inode.
    pub(crate) fn free_extattr(&self, tx: &Tx<'_>, ino: u32, di: &mut Dinode) -> Result<()> {
        for (i, frags, _) in self.extattr_pieces(di.extsize) {
            if let Some(at) = self.volume.pointer(di.extb[i], frags, ino)? {
                self.volume.free_metadata(tx, at, frags.into())?;
                self.account(tx, ino, di, -i64::from(frags), Privilege::Root)?;
            }
            di.extb[i] = 0;
        }
        di.extsize = 0;
        Ok(())
    }

    /// Returns the value of a record.
    pub(super) fn extattr_record(&self, ino: u32, di: &Dinode, key: (u8, &[u8])) -> Result<Option<Vec<u8>>> {
        let area = self.read_extattr(ino, di)?;
        for record in records(&area, self.layout().endian) {
            let record = whole(record, ino)?;
            if (record.space, record.name) == key {
                return Ok(Some(record.value.to_vec()));
            }
        }
        Ok(None)
    }

    pub(crate) fn extattr_get(&self, ino: u32, di: &Dinode, name: &[u8]) -> Result<Vec<u8>> {
        if self.is_acl(name) {
            return self.acl_get(ino, di, name);
        }
        let key = self.plain_key(name).ok_or(Error::NotSupported)?;
        self.extattr_record(ino, di, key)?.ok_or(Error::NoAttribute)
    }

    pub(crate) fn extattr_list(&self, ino: u32, di: &Dinode) -> Result<Vec<Vec<u8>>> {
        let area = self.read_extattr(ino, di)?;
        let mut names = Vec::new();
        for record in records(&area, self.layout().endian) {
            let record = whole(record, ino)?;
            names.extend(self.listed_name(ino, di, &record));
        }
        Ok(names)
    }

    /// Sets (`Some`) or removes (`None`) an attribute. The caller stores the inode.
    pub(crate) fn extattr_put(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        name: &[u8],
        value: Option<(&[u8], XattrMode)>,
        by: Privilege,
    ) -> Result<()> {
        if self.is_acl(name) {
            return self.acl_put(tx, ino, di, name, value, by);
        }
        let key = self.plain_key(name).ok_or(Error::NotSupported)?;
        if key.1.is_empty() {
            return Err(Error::Invalid);
        }
        // A list may come from a system with another order of bytes.
        let own = value.and_then(|(value, mode)| Some((self.own_form(key, value)?, mode)));
        let value = own.as_ref().map(|(value, mode)| (&value[..], *mode)).or(value);
        self.replace_record(tx, ino, di, key, value, by)
    }

    /// Sets (`Some`) or removes (`None`) a record. The caller stores the inode.
    pub(super) fn replace_record(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        key: (u8, &[u8]),
        value: Option<(&[u8], XattrMode)>,
        by: Privilege,
    ) -> Result<()> {
        let endian = self.layout().endian;
        let old = self.read_extattr(ino, di)?;
        let mut area = Vec::with_capacity(old.len());
        let mut existed = false;
        for record in records(&old, endian) {
            let record = whole(record, ino)?;
            if (record.space, record.name) == key {
                existed = true;
            } else {
                area.extend_from_slice(record.bytes);
            }
        }
        match value {
            None | Some((_, XattrMode::Replace)) if !existed => return Err(Error::NoAttribute),
            Some((_, XattrMode::Create)) if existed => return Err(Error::Exists),
            Some((value, _)) => push_record(&mut area, endian, key.0, key.1, value)?,
            None => {}
        }
        self.write_extattr(tx, ino, di, &area, by)
    }
}
