//! The file system under repair: bytes anywhere, and the fields of inodes.

use crate::check::node::kind;
use crate::format::ckhash::check_hash;
use crate::format::layout::{Layout, Version};
use crate::format::ondisk::{DI_CKHASH, Dinode1, Dinode2, NDADDR, NIADDR, SF_SNAPSHOT};
use crate::format::superblock::CheckHashes;
use crate::format::units::{index, low_word};
use spindle_clock::Timestamp;
use spindle_device::Device;
use spindle_ondisk::Field;
use spindle_vfs::Result;

/// Byte offsets of the generation.
const DI_GEN1: usize = 108;
const DI_GEN2: usize = 80;
const IFDIR: u16 = 0o040_000;

/// The planned state of the device.
#[derive(Clone, Copy)]
pub(crate) struct Image<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) layout: &'a Layout,
    pub(crate) hashes: CheckHashes,
}

impl Image<'_> {
    /// Returns the start of the sectors that hold these bytes, and their end.
    fn sectors(&self, at: u64, len: usize) -> (u64, u64) {
        let sector = u64::from(self.device.info().sector_bytes);
        (at / sector * sector, (at + len as u64).next_multiple_of(sector))
    }

    /// Returns the bytes `at..at + len`.
    pub(crate) fn read(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        let (start, end) = self.sectors(at, len);
        let mut bytes = vec![0; index(end - start)];
        self.device.read_at(start, &mut bytes)?;
        Ok(bytes[index(at - start)..][..len].to_vec())
    }

    /// Changes the bytes `at..at + len`. Returns true if they are others afterwards.
    pub(crate) fn change(&self, at: u64, len: usize, change: impl FnOnce(&mut [u8])) -> Result<bool> {
        let (start, end) = self.sectors(at, len);
        let mut bytes = vec![0; index(end - start)];
        self.device.read_at(start, &mut bytes)?;
        let before = bytes.clone();
        change(&mut bytes[index(at - start)..][..len]);
        if bytes == before {
            return Ok(false);
        }
        self.device.write_at(start, &bytes)?;
        Ok(true)
    }

    /// Writes these bytes at byte `at`. Returns true if there were others.
    pub(crate) fn put(&self, at: u64, new: &[u8]) -> Result<bool> {
        self.change(at, new.len(), |bytes| bytes.copy_from_slice(new))
    }

    fn inode_at(&self, ino: u32) -> u64 {
        let (block, offset) = self.layout.ino_to_fsba(ino);
        self.layout.byte(block) + offset as u64
    }

    /// Returns the bytes of an inode.
    pub(crate) fn inode(&self, ino: u32) -> Result<Vec<u8>> {
        self.read(self.inode_at(ino), self.layout.inode_size())
    }

    /// Changes fields of an inode and puts its check-hash right. Returns true if that makes a
    /// difference.
    pub(crate) fn change_inode(&self, ino: u32, change: impl FnOnce(&mut Fields)) -> Result<bool> {
        self.change(self.inode_at(ino), self.layout.inode_size(), |bytes| {
            let mut fields = Fields::decode(self.layout, bytes);
            change(&mut fields);
            fields.encode(self.layout, bytes);
            if self.hashes.inodes {
                let hash = check_hash(bytes, DI_CKHASH);
                hash.put(&mut bytes[DI_CKHASH..], self.layout.endian);
            }
        })
    }

    /// Gives an inode the times that it has in another image of the same layout.
    pub(crate) fn keep_times(&self, ino: u32, from: &Self) -> Result<bool> {
        let was = Fields::decode(self.layout, &from.inode(ino)?);
        self.change_inode(ino, |fields| fields.keep_times(&was))
    }

    /// Makes inode `to` what `from` is, with another generation than it had: handles of the file
    /// that had the number before must not lead to this one.
    pub(crate) fn move_inode(&self, from: u32, to: u32) -> Result<bool> {
        let mut bytes = self.inode(from)?;
        let at = if self.layout.version == Version::Ufs1 { DI_GEN1 } else { DI_GEN2 };
        let before: u32 = Field::get(&self.inode(to)?[at..], self.layout.endian);
        let own: u32 = Field::get(&bytes[at..], self.layout.endian);
        // A generation of 0 is none.
        let next = if before == 0 { own } else { before.wrapping_add(1).max(1) };
        next.put(&mut bytes[at..], self.layout.endian);
        if self.hashes.inodes {
            let hash = check_hash(&bytes, DI_CKHASH);
            hash.put(&mut bytes[DI_CKHASH..], self.layout.endian);
        }
        self.put(self.inode_at(to), &bytes)
    }

    /// Makes an inode a free one; its generation stays.
    pub(crate) fn clear_inode(&self, ino: u32) -> Result<bool> {
        let at = if self.layout.version == Version::Ufs1 { DI_GEN1 } else { DI_GEN2 };
        self.change(self.inode_at(ino), self.layout.inode_size(), |bytes| {
            bytes[..at].fill(0);
            bytes[at + u32::SIZE..].fill(0);
        })
    }
}

/// An inode whose fields are changed one by one; all other bytes stay as they are.
pub(crate) enum Fields {
    Ufs1(Dinode1),
    Ufs2(Dinode2),
}

/// Sets a field that both formats have.
macro_rules! set {
    ($self:ident, $field:ident, $value:expr) => {
        match $self {
            Self::Ufs1(d) => d.$field = $value,
            Self::Ufs2(d) => d.$field = $value,
        }
    };
}

impl Fields {
    fn decode(layout: &Layout, bytes: &[u8]) -> Self {
        match layout.version {
            Version::Ufs1 => Self::Ufs1(Dinode1::decode(bytes, layout.endian)),
            Version::Ufs2 => Self::Ufs2(Dinode2::decode(bytes, layout.endian)),
        }
    }

    fn encode(&self, layout: &Layout, bytes: &mut [u8]) {
        match self {
            Self::Ufs1(d) => d.encode(bytes, layout.endian),
            Self::Ufs2(d) => d.encode(bytes, layout.endian),
        }
    }

    const fn mode(&self) -> u16 {
        match self {
            Self::Ufs1(d) => d.di_mode,
            Self::Ufs2(d) => d.di_mode,
        }
    }

    pub(crate) const fn set_size(&mut self, bytes: u64) {
        set!(self, di_size, bytes);
    }

    pub(crate) const fn set_nlink(&mut self, names: u16) {
        set!(self, di_nlink, names.cast_signed());
    }

    /// Sets the space that it holds, in units of 512 bytes.
    pub(crate) fn set_blocks(&mut self, blocks: u64) {
        match self {
            Self::Ufs1(d) => d.di_blocks = u32::try_from(blocks).unwrap_or(u32::MAX),
            Self::Ufs2(d) => d.di_blocks = blocks,
        }
    }

    /// Sets direct pointer `n`, from [`NDADDR`] on indirect ones.
    pub(crate) fn set_pointer(&mut self, n: usize, frag: u64) {
        match self {
            Self::Ufs1(d) => {
                let frag = low_word(frag.cast_signed());
                if n < NDADDR { d.di_db[n] = frag } else { d.di_ib[n - NDADDR] = frag }
            }
            Self::Ufs2(d) => {
                let frag = frag.cast_signed();
                if n < NDADDR { d.di_db[n] = frag } else { d.di_ib[n - NDADDR] = frag }
            }
        }
    }

    /// Points the direct pointers at these blocks, and nothing else.
    pub(crate) fn set_direct(&mut self, frags: &[u64]) {
        for n in 0..NDADDR + NIADDR {
            self.set_pointer(n, frags.get(n).copied().unwrap_or(0));
        }
    }

    /// Makes it a directory. Its permissions stay, if there are any.
    pub(crate) fn set_directory(&mut self) {
        let permissions = match self.mode() & 0o7777 {
            0 => 0o755,
            some => some,
        };
        set!(self, di_mode, IFDIR | permissions);
    }

    /// Clears the flag of a snapshot.
    pub(crate) fn clear_snapshot_flag(&mut self) {
        match self {
            Self::Ufs1(d) => d.di_flags &= !SF_SNAPSHOT,
            Self::Ufs2(d) => d.di_flags &= !SF_SNAPSHOT,
        }
    }

    /// Sets the size of the extended attributes; where that is 0 they hold nothing.
    pub(crate) fn set_attributes(&mut self, bytes: u32) {
        if let Self::Ufs2(d) = self {
            d.di_extsize = bytes;
            if bytes == 0 {
                d.di_extb = [0; 2];
            }
        }
    }

    /// Sets pointer `n` to the extended attributes.
    pub(crate) fn set_attribute_pointer(&mut self, n: usize, frag: u64) {
        if let Self::Ufs2(d) = self {
            d.di_extb[n] = frag.cast_signed();
        }
    }

    /// Sets the inode of the access control list (Solaris).
    pub(crate) const fn set_shadow(&mut self, ino: u32) {
        if let Self::Ufs1(d) = self {
            d.di_uid = ino;
        }
    }

    /// Sets FreeBSD's hint how deep a directory is.
    pub(crate) const fn set_depth(&mut self, steps: u32) {
        if let Self::Ufs2(d) = self {
            d.di_freelink = steps;
        }
    }

    /// Takes over when it was read and changed.
    fn keep_times(&mut self, from: &Self) {
        match (self, from) {
            (Self::Ufs1(d), Self::Ufs1(from)) => {
                (d.di_atime, d.di_atimensec) = (from.di_atime, from.di_atimensec);
                (d.di_mtime, d.di_mtimensec) = (from.di_mtime, from.di_mtimensec);
                (d.di_ctime, d.di_ctimensec) = (from.di_ctime, from.di_ctimensec);
            }
            (Self::Ufs2(d), Self::Ufs2(from)) => {
                (d.di_atime, d.di_atimensec) = (from.di_atime, from.di_atimensec);
                (d.di_mtime, d.di_mtimensec) = (from.di_mtime, from.di_mtimensec);
                (d.di_ctime, d.di_ctimensec) = (from.di_ctime, from.di_ctimensec);
            }
            _ => {}
        }
    }

    /// Sets all times.
    pub(crate) fn set_times(&mut self, now: Timestamp) {
        match self {
            Self::Ufs1(d) => {
                let secs = low_word(now.secs);
                (d.di_atime, d.di_mtime, d.di_ctime) = (secs, secs, secs);
            }
            Self::Ufs2(d) => {
                (d.di_atime, d.di_mtime) = (now.secs, now.secs);
                (d.di_ctime, d.di_birthtime) = (now.secs, now.secs);
            }
        }
    }
}

/// Returns true if the first block of an inode begins as the directory of this number does.
pub(crate) fn is_directory_of(chunk: &[u8], layout: &Layout, ino: u32) -> bool {
    let dot = |at: usize| crate::format::entries::parse(layout, &chunk[at..], at).ok();
    let is_kind = |found: Option<u8>| found.is_none_or(|found| found == kind::DIR);
    let Some((first, reclen)) = dot(0) else { return false };
    let second = chunk.get(reclen..).and_then(|_| dot(reclen));
    first.name == b"."
        && first.ino == ino
        && is_kind(first.kind)
        && second.is_some_and(|(entry, _)| entry.name == b".." && is_kind(entry.kind))
}
