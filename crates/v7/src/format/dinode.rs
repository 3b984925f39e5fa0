//! An inode, decoded from any of the formats.

use super::entry::name_of;
use super::kind::Format;
use super::layout::{Block, Layout, index};
use super::ondisk::{Direct, DiskInode, ENTRY_SIZE, NADDR, NDIRECT, get_addr, put_addr};
use spindle_clock::Timestamp;
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, FileKind, Rdev, Result};
use std::sync::OnceLock;

/// Longest target of a symbolic link in bytes (`MAXPATHLEN` of System V).
const SYMLINK_MAX: u64 = 1024;

/// The contents of an inode.
#[derive(Clone, Debug, Default)]
pub struct Dinode {
    pub(crate) mode: u16,
    pub(crate) nlink: u16,
    pub(crate) uid: u16,
    pub(crate) gid: u16,
    pub(crate) size: u64,
    /// Block addresses; the first one of a device node is its device number.
    pub(crate) addr: [u32; NADDR],
    /// How many files have had this number before, counted in the byte after the addresses, as in
    /// System V Release 4. The older systems neither read nor write it.
    pub(crate) generation: u8,
    pub(crate) atime: Timestamp,
    pub(crate) mtime: Timestamp,
    pub(crate) ctime: Timestamp,
    /// Blocks of the file with its indirect blocks, once counted: the disk does not store it.
    pub(crate) held: OnceLock<u64>,
}

impl Dinode {
    pub(crate) fn decode(bytes: &[u8], endian: Endian) -> Self {
        let disk = DiskInode::decode(bytes, endian);
        let time = |secs: i32| Timestamp::new(secs.into(), 0);
        Self {
            mode: disk.di_mode,
            nlink: disk.di_nlink.cast_unsigned(),
            uid: disk.di_uid,
            gid: disk.di_gid,
            size: disk.di_size.cast_unsigned().into(),
            addr: std::array::from_fn(|n| get_addr(&disk.di_addr[n * 3..], endian)),
            generation: disk.di_addr[NADDR * 3],
            atime: time(disk.di_atime),
            mtime: time(disk.di_mtime),
            ctime: time(disk.di_ctime),
            held: OnceLock::new(),
        }
    }

    /// Returns the free inode that a file leaves.
    pub(crate) fn freed(&self) -> Self {
        Self { generation: self.generation.wrapping_add(1), ..Self::default() }
    }

    pub(crate) fn encode(&self, bytes: &mut [u8], endian: Endian) {
        let mut di_addr = [self.generation; NADDR * 3 + 1];
        for (addr, bytes) in self.addr.iter().zip(di_addr.chunks_mut(3)) {
            put_addr(*addr, bytes, endian);
        }
        let size = u32::try_from(self.size).unwrap_or(u32::MAX);
        DiskInode {
            di_mode: self.mode,
            di_nlink: self.nlink.cast_signed(),
            di_uid: self.uid,
            di_gid: self.gid,
            di_size: size.cast_signed(),
            di_addr,
            di_atime: seconds(self.atime),
            di_mtime: seconds(self.mtime),
            di_ctime: seconds(self.ctime),
        }
        .encode(bytes, endian);
    }

    /// Returns the kind of file; the Seventh Edition's multiplexed devices count as ordinary
    /// devices.
    pub(crate) fn kind(&self) -> Option<FileKind> {
        match self.mode & 0o170_000 {
            0o030_000 => Some(FileKind::CharDevice),
            0o070_000 => Some(FileKind::BlockDevice),
            mode => FileKind::from_mode(mode.into()),
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == Some(FileKind::Directory)
    }

    /// Returns the kind of file, if systems of this format have such files.
    pub(crate) fn kind_in(&self, format: Format) -> Option<FileKind> {
        self.kind().filter(|kind| format.has(*kind))
    }

    /// Returns the size of the largest file of its kind in bytes.
    pub(crate) fn size_max(&self, layout: &Layout) -> u64 {
        match self.kind() {
            Some(FileKind::Regular) => layout.file_size_max(),
            Some(FileKind::Directory) => layout.file_size_max().min(layout.size_bytes()),
            Some(FileKind::Symlink) => SYMLINK_MAX,
            _ => 0,
        }
    }

    /// Returns true if its addresses are addresses of blocks.
    pub(crate) fn has_blocks(&self) -> bool {
        matches!(self.kind(), Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink))
    }

    /// Returns true if a check counts its blocks as those of a file: a symbolic link with an
    /// impossible size is cleared.
    pub(crate) fn claims_blocks(&self, layout: &Layout) -> bool {
        let is_sized = self.kind() != Some(FileKind::Symlink) || self.size <= self.size_max(layout);
        self.mode != 0 && self.kind_in(layout.format).is_some() && self.has_blocks() && is_sized
    }

    /// Returns the greatest size that its blocks allow, if it has a greater one: one that its kind
    /// cannot have, or one without the block in which the file ends, whatever is stored behind
    /// that. `read` reads a block.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn least_size(
        &self,
        layout: &Layout,
        read: &mut dyn FnMut(Block) -> Result<Vec<u8>>,
    ) -> Result<Option<u64>> {
        let (most, is_symlink) = (self.size_max(layout), self.kind() == Some(FileKind::Symlink));
        if !self.has_blocks() || is_symlink {
            return Ok(None);
        }
        let bsize = u64::from(layout.format.bsize);
        let mut search = Search { layout, read, left: layout.data_blocks(), end: self.size.div_ceil(bsize) };
        let mut end = 0;
        for (n, &raw) in self.addr.iter().enumerate().rev() {
            let levels = (n + 1).saturating_sub(NDIRECT);
            let first = if levels == 0 { n as u64 } else { layout.first_behind(levels).0 };
            if let Some(last) = search.last_below(raw, levels, first)? {
                end = (last + 1) * bsize;
                break;
            }
        }
        Ok((self.size > end.min(most)).then_some(end.min(most)))
    }

    /// Returns where the names in the blocks of a directory end, if that is behind its size: all
    /// entries there must be possible, and one at least name an inode that `is_in_use`. Only blocks
    /// of direct addresses are looked at. `read` reads a block.
    ///
    /// # Errors
    /// Those of `read` and `is_in_use`.
    pub(crate) fn names_end(
        &self,
        layout: &Layout,
        read: &mut dyn FnMut(Block) -> Result<Vec<u8>>,
        is_in_use: &mut dyn FnMut(u16) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let (bsize, entry_bytes) = (u64::from(layout.format.bsize), ENTRY_SIZE as u64);
        if self.kind() != Some(FileKind::Directory) || !self.size.is_multiple_of(entry_bytes) {
            return Ok(None);
        }
        let (mut end, mut names_one) = (self.size, false);
        for (lbn, &raw) in (0_u64..).zip(&self.addr[..NDIRECT]).skip(index(self.size / bsize)) {
            let Some(block) = layout.data_block(raw) else { break };
            let from = self.size.saturating_sub(lbn * bsize);
            let bytes = read(block)?;
            for (n, entry) in (from / entry_bytes..).zip(bytes[index(from)..].chunks_exact(ENTRY_SIZE)) {
                let entry = Direct::decode(entry, layout.format.endian);
                let name = name_of(&entry.d_name);
                if entry.d_ino == 0 {
                    continue;
                }
                if entry.d_ino > layout.last_ino() || name.is_empty() || name.contains(&b'/') {
                    return Ok(None);
                }
                names_one = names_one || is_in_use(entry.d_ino)?;
                end = lbn * bsize + (n + 1) * entry_bytes;
            }
        }
        Ok(names_one.then_some(end))
    }

    /// Adds to the number of blocks of the file, if they have been counted.
    pub(crate) fn account(&mut self, blocks: i64) {
        if let Some(held) = self.held.get_mut() {
            *held = held.saturating_add_signed(blocks);
        }
    }

    /// Returns the device number of a device node: a byte for the driver, one for the unit.
    pub(crate) fn rdev(&self) -> Rdev {
        match self.kind() {
            Some(FileKind::BlockDevice | FileKind::CharDevice) => {
                Rdev { major: self.addr[0] >> 8 & 0xff, minor: self.addr[0] & 0xff }
            }
            _ => Rdev::default(),
        }
    }
}

/// The search for the last block of a file.
struct Search<'a> {
    layout: &'a Layout,
    read: &'a mut dyn FnMut(Block) -> Result<Vec<u8>>,
    /// Indirect blocks that may still be read.
    left: u32,
    /// The first block that the size does not reach.
    end: u64,
}

impl Search<'_> {
    /// Returns the last block before the end of the file below a pointer with `levels` levels of
    /// indirect blocks, which leads to block `first` of the file and those behind it.
    fn last_below(&mut self, raw: u32, levels: usize, first: u64) -> Result<Option<u64>> {
        let Some(block) = self.layout.data_block(raw).filter(|_| first < self.end) else { return Ok(None) };
        if levels == 0 {
            return Ok(Some(first));
        }
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let span = self.layout.span(levels - 1);
        for (n, pointer) in (self.read)(block)?.chunks_exact(u32::SIZE).enumerate().rev() {
            let below = u32::get(pointer, self.layout.format.endian);
            let last = self.last_below(below, levels - 1, first + n as u64 * span)?;
            if last.is_some() {
                return Ok(last);
            }
        }
        Ok(None)
    }
}

/// Returns a time as the disk can store it.
pub(crate) fn storable(time: Timestamp) -> Timestamp {
    Timestamp::new(seconds(time).into(), 0)
}

/// Converts the number of a user or group to its width on the disk.
pub(crate) fn id(id: u32) -> Result<u16> {
    u16::try_from(id).map_err(|_| Error::Overflow)
}

/// Returns the seconds of a time, clamped to the range that the disk can store.
pub(crate) fn seconds(time: Timestamp) -> i32 {
    i32::try_from(time.secs).unwrap_or(if time.secs < 0 { i32::MIN } else { i32::MAX })
}
