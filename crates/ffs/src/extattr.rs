//! Extended attributes of UFS2: a list of records in up to two blocks of the inode's own
//! (`sys/ufs/ufs/extattr.h`).
//!
//! A record is its length, name space, padding, length of the name, the name padded to eight bytes,
//! and the value padded to eight bytes. The whole area is read, changed and written at once. Above
//! the seam a name carries its name space as a prefix, `user.` or `system.`.

use crate::dinode::Dinode;
use crate::mount::Ffs;
use crate::tx::Tx;
use crate::units::Frag;
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, Privilege, Result, XattrMode};

/// Bytes of a record before its name.
const HEADER: usize = 7;

/// The name spaces with their prefixes.
const SPACES: [(u8, &[u8]); 2] = [(1, b"user."), (2, b"system.")];

/// Returns true if a name space is one of those there are.
pub(crate) fn knows(space: u8) -> bool {
    SPACES.iter().any(|&(known, _)| known == space)
}

/// One attribute.
struct Record<'a> {
    space: u8,
    name: &'a [u8],
    value: &'a [u8],
    /// The whole record.
    bytes: &'a [u8],
}

/// The names by which Linux asks for access control lists, in an encoding of its own. Kept as they
/// come they would control nothing, and `cp -a` would leave out the permission bits that it
/// believes to be in them.
const LINUX_ACL: &[u8] = b"system.posix_acl_";

/// Splits a name into its name space and the rest.
fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    if name.starts_with(LINUX_ACL) {
        return None;
    }
    SPACES.iter().find_map(|&(space, prefix)| name.strip_prefix(prefix).map(|rest| (space, rest)))
}

fn records(area: &[u8], endian: Endian, ino: u32) -> impl Iterator<Item = Result<Record<'_>>> {
    let mut rest = area;
    std::iter::from_fn(move || {
        // The area may end in padding too short for a record.
        if rest.len() < HEADER + 1 || u32::get(rest, endian) == 0 {
            return None;
        }
        let record = record_at(rest, endian);
        rest = record.as_ref().map_or(&[], |r| &rest[r.bytes.len()..]);
        Some(record.ok_or_else(|| {
            Error::corrupt("a record that does not fit", format!("attributes of inode {ino}"))
        }))
    })
}

fn record_at(bytes: &[u8], endian: Endian) -> Option<Record<'_>> {
    let length = usize::try_from(u32::get(bytes, endian)).ok()?;
    let (space, padding, namelen) = (bytes[4], usize::from(bytes[5]), usize::from(bytes[6]));
    let value_at = (HEADER + namelen).next_multiple_of(8);
    let bytes = bytes.get(..length)?;
    let value = bytes.get(value_at..length.checked_sub(padding)?)?;
    Some(Record { space, name: &bytes[HEADER..HEADER + namelen], value, bytes })
}

fn push_record(area: &mut Vec<u8>, endian: Endian, space: u8, name: &[u8], value: &[u8]) -> Result<()> {
    let start = area.len();
    let namelen = u8::try_from(name.len()).map_err(|_| Error::NameTooLong)?;
    let padding = value.len().next_multiple_of(8) - value.len();
    area.extend([0; 4]);
    area.extend([space, u8::try_from(padding).unwrap_or(0), namelen]);
    area.extend_from_slice(name);
    area.resize(start + (HEADER + name.len()).next_multiple_of(8), 0);
    area.extend_from_slice(value);
    area.resize(area.len() + padding, 0);
    u32::try_from(area.len() - start).map_err(|_| Error::NoSpace)?.put(&mut area[start..], endian);
    Ok(())
}

impl Ffs {
    /// Returns the pieces of the attribute area: block number, fragments, bytes.
    fn extattr_pieces(&self, extsize: u32) -> impl Iterator<Item = (usize, u32, usize)> + use<> {
        let (bsize, fsize) = (self.layout.fs_bsize, self.layout.fs_fsize);
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
                .pointer(di.extb[i], frags, ino)?
                .ok_or_else(|| Error::corrupt("a hole", format!("attributes of inode {ino}")))?;
            let buffer =
                self.cache.get(self.layout.byte(at), (frags << self.layout.fs_fshift) as usize, None)?;
            area.extend_from_slice(&buffer.read()[..bytes]);
        }
        Ok(area)
    }

    /// Replaces the attribute area. The caller stores the inode.
    fn write_extattr(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        area: &[u8],
        by: Privilege,
    ) -> Result<()> {
        let size = u32::try_from(area.len()).map_err(|_| Error::NoSpace)?;
        if size > 2 * self.layout.fs_bsize {
            return Err(Error::NoSpace);
        }
        let mut fresh: Vec<(Frag, u32)> = Vec::new();
        let own = self.layout.ino_to_cg(ino);
        for (_, frags, _) in self.extattr_pieces(size) {
            fresh.push((self.alloc(tx, frags, self.layout.cgdmin(own), by)?, frags));
        }
        self.free_extattr(tx, ino, di)?;
        let mut rest = area;
        for (i, (at, frags)) in fresh.into_iter().enumerate() {
            let len = (frags << self.layout.fs_fshift) as usize;
            let (piece, more) = rest.split_at(rest.len().min(self.layout.fs_bsize as usize));
            let buffer = self.cache.get_new(self.layout.byte(at), len, None, tx)?;
            buffer.write(tx).bytes_mut(0..piece.len()).copy_from_slice(piece);
            di.extb[i] = at.0;
            self.account(di, frags.into());
            rest = more;
        }
        di.extsize = size;
        Ok(())
    }

    /// Gives the attribute area's space back. The caller stores the inode.
    pub(crate) fn free_extattr(&self, tx: &Tx<'_>, ino: u32, di: &mut Dinode) -> Result<()> {
        for (i, frags, _) in self.extattr_pieces(di.extsize) {
            if let Some(at) = self.pointer(di.extb[i], frags, ino)? {
                self.free_metadata(tx, at, frags.into())?;
                self.account(di, -i64::from(frags));
            }
            di.extb[i] = 0;
        }
        di.extsize = 0;
        Ok(())
    }

    pub(crate) fn extattr_get(&self, ino: u32, di: &Dinode, name: &[u8]) -> Result<Vec<u8>> {
        let (space, name) = split(name).ok_or(Error::NotSupported)?;
        let area = self.read_extattr(ino, di)?;
        for record in records(&area, self.layout.endian, ino) {
            let record = record?;
            if (record.space, record.name) == (space, name) {
                return Ok(record.value.to_vec());
            }
        }
        Err(Error::NoAttribute)
    }

    pub(crate) fn extattr_list(&self, ino: u32, di: &Dinode) -> Result<Vec<Vec<u8>>> {
        let area = self.read_extattr(ino, di)?;
        let mut names = Vec::new();
        for record in records(&area, self.layout.endian, ino) {
            let record = record?;
            if let Some((_, prefix)) = SPACES.iter().find(|(space, _)| *space == record.space) {
                names.push([prefix, record.name].concat());
            }
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
        let (space, name) = split(name).ok_or(Error::NotSupported)?;
        if name.is_empty() {
            return Err(Error::Invalid);
        }
        let endian = self.layout.endian;
        let old = self.read_extattr(ino, di)?;
        let mut area = Vec::with_capacity(old.len());
        let mut existed = false;
        for record in records(&old, endian, ino) {
            let record = record?;
            if (record.space, record.name) == (space, name) {
                existed = true;
            } else {
                area.extend_from_slice(record.bytes);
            }
        }
        match value {
            None | Some((_, XattrMode::Replace)) if !existed => return Err(Error::NoAttribute),
            Some((_, XattrMode::Create)) if existed => return Err(Error::Exists),
            Some((value, _)) => push_record(&mut area, endian, space, name, value)?,
            None => {}
        }
        self.write_extattr(tx, ino, di, &area, by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: names of the two name spaces are told apart, and what Linux would take for an
    /// access control list is nobody's.
    #[test]
    fn names_have_a_space() {
        assert_eq!(split(b"user.x"), Some((1, &b"x"[..])));
        assert_eq!(split(b"system.posix1e.acl_access"), Some((2, &b"posix1e.acl_access"[..])));
        assert_eq!(split(b"system.posix_acl_access"), None);
        assert_eq!(split(b"trusted.x"), None);
    }

    /// Promise: a record read back is the record written, in both byte orders, and nothing is read
    /// past damage.
    #[test]
    fn records_round_trip() {
        for endian in [Endian::Little, Endian::Big] {
            let mut area = Vec::new();
            for len in 0..20 {
                push_record(&mut area, endian, 1, &vec![b'n'; len + 1], &vec![7; len]).unwrap();
            }
            assert!(area.len().is_multiple_of(8));
            let lengths: Vec<_> = records(&area, endian, 3).map(|r| r.unwrap().value.len()).collect();
            assert_eq!(lengths, (0..20).collect::<Vec<_>>());
            1_u32.put(&mut area, endian);
            assert!(records(&area, endian, 3).next().unwrap().is_err());
        }
    }
}
