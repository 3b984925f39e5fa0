//! What distinguishes systems and does not stand in the superblock.
//!
//! Apple's volumes have a label in front of the superblock. NEXTSTEP, OPENSTEP and Apple fill
//! directories in chunks of 1024 bytes, where all others have 512: the root directory shows it as
//! soon as one of its entries lies across byte 512. Sources: `sys/ufs/ffs/ffs_appleufs.c` and
//! `sys/ufs/ffs/ffs_vfsops.c` of NetBSD, `fs/ufs/super.c` of Linux.

use crate::format::dialect::Dialect;
use crate::format::dinode::Dinode;
use crate::format::layout::{InodeFormat, Layout, ROOT_INO, Version};
use crate::format::ondisk::{AppleLabel, DIRECT_HEADER, DirectHeader, SBLOCK_UFS1, dirsiz};
use crate::format::units::Frag;
use spindle_device::Device;
use spindle_ondisk::Endian;

/// Bytes of a directory chunk of NEXTSTEP, OPENSTEP and Apple (`APPLEUFS_DIRBLKSIZ`).
pub(crate) const LARGE_DIRBLKSIZ: u32 = 1024;
/// Bytes of a directory chunk of all other systems (`DIRBLKSIZ`).
pub(crate) const DIRBLKSIZ: u32 = 512;

impl AppleLabel {
    /// Returns the label of a volume called `name`, of which the first 512 bytes count, as bytes.
    #[must_use]
    pub fn new_bytes(name: &[u8], secs: i64, uuid: u64) -> Vec<u8> {
        let len = name.len().min(512);
        let mut ul_name = [0; 512];
        ul_name[..len].copy_from_slice(&name[..len]);
        let mut label = Self {
            ul_magic: Self::MAGIC,
            ul_checksum: 0,
            ul_version: Self::VERSION,
            ul_time: u32::try_from(secs).unwrap_or(u32::MAX),
            ul_namelen: u16::try_from(len).unwrap_or(512),
            ul_name,
            ul_uuid: uuid,
        };
        let mut bytes = vec![0; Self::SIZE];
        label.encode(&mut bytes, Endian::Big);
        label.ul_checksum = checksum(&bytes);
        label.encode(&mut bytes, Endian::Big);
        bytes
    }

    /// Returns the label of the file system that begins at byte 0, if it has a whole one. What
    /// cannot be read is none.
    pub fn read(device: &dyn Device) -> Option<Self> {
        // The whole area before the superblock, which is made of whole sectors.
        let mut area = vec![0; usize::try_from(SBLOCK_UFS1).ok()?];
        if device.info().size_bytes < SBLOCK_UFS1 || device.read_at(0, &mut area).is_err() {
            return None;
        }
        let bytes = &area[usize::try_from(Self::AT).ok()?..];
        let label = Self::decode(bytes, Endian::Big);
        let whole = label.ul_magic == Self::MAGIC && checksum(bytes) == label.ul_checksum;
        whole.then_some(label)
    }

    /// Returns the name of the volume.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.ul_name[..usize::from(self.ul_namelen).min(self.ul_name.len())]
    }
}

/// Returns the checksum of a label (`ffs_appleufs_cksum`), whatever stands in its place.
fn checksum(label: &[u8]) -> u16 {
    let words = label.chunks_exact(2).enumerate().filter(|&(n, _)| n != 2);
    let sum: u32 = words.map(|(_, word)| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (sum >> 16) + (sum & 0xffff);
    !u16::try_from((folded + (folded >> 16)) & 0xffff).unwrap_or(0)
}

/// Returns the dialect of a file system whose superblock says `found`, after what stands beside the
/// superblock, and the bytes of a directory chunk, if they are certain. Only what says nothing of a
/// newer system can be one of these.
pub(crate) fn look(device: &dyn Device, layout: &Layout, found: Dialect) -> (Dialect, Option<u32>) {
    if layout.version != Version::Ufs1 || !matches!(found, Dialect::Bsd43 | Dialect::Bsd44) {
        return (found, Some(DIRBLKSIZ));
    }
    let chunk = root_chunk(device, layout);
    let new = layout.inode_format == InodeFormat::New;
    let may_be_apple = new && !layout.flags_updated && layout.fs_sblockloc == SBLOCK_UFS1;
    if may_be_apple && chunk != Some(DIRBLKSIZ) && AppleLabel::read(device).is_some() {
        return (Dialect::Apple, Some(LARGE_DIRBLKSIZ));
    }
    match chunk {
        Some(LARGE_DIRBLKSIZ) if new => (Dialect::OpenStep, chunk),
        Some(LARGE_DIRBLKSIZ) => (Dialect::NextStep, chunk),
        _ => (found, chunk),
    }
}

/// Returns the bytes of a directory chunk, if the root directory proves how many.
fn root_chunk(device: &dyn Device, layout: &Layout) -> Option<u32> {
    let (block, within) = layout.ino_to_fsba(ROOT_INO);
    let mut bytes = vec![0; layout.fs_bsize as usize];
    device.read_at(layout.byte(block), &mut bytes).ok()?;
    let root = Dinode::decode(&bytes[within..], layout);
    if !root.is_directory() || root.size == 0 {
        return None;
    }
    let chunk = if root.size.is_multiple_of(LARGE_DIRBLKSIZ.into()) { LARGE_DIRBLKSIZ } else { DIRBLKSIZ };
    let frags = layout.numfrags(chunk);
    if root.db[0] == 0 || !layout.contains(Frag(root.db[0]), frags.into()) {
        return None;
    }
    bytes.resize((frags * layout.fs_fsize) as usize, 0);
    device.read_at(layout.byte(Frag(root.db[0])), &mut bytes).ok()?;
    let crossed = crosses_512(&bytes[..chunk as usize], layout)?;
    (crossed == (chunk == LARGE_DIRBLKSIZ)).then_some(chunk)
}

/// Returns true if one of the entries of a chunk lies across its byte 512; `None` if they are not
/// whole, or do not fill it.
fn crosses_512(chunk: &[u8], layout: &Layout) -> Option<bool> {
    let (middle, mut at, mut crossed) = (DIRBLKSIZ as usize, 0, false);
    while at < chunk.len() {
        let head = DirectHeader::decode(&chunk[at..], layout.endian);
        let reclen = usize::from(head.d_reclen);
        let namlen = match (layout.inode_format, layout.endian) {
            (InodeFormat::New, _) | (_, Endian::Big) => head.d_namlen,
            _ => head.d_type,
        };
        let least = if head.d_ino == 0 { DIRECT_HEADER } else { dirsiz(namlen.into()) };
        if reclen < least || !reclen.is_multiple_of(4) || reclen > chunk.len() - at {
            return None;
        }
        crossed |= at < middle && at + reclen > middle;
        at += reclen;
    }
    Some(crossed)
}
