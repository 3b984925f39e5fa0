//! File headers: the attributes of a file and its storage map, or the data itself if it is short
//! (an immediate file; paper, section 4.2). A storage map that does not fit into the header goes on
//! in overflow headers ([`super::overflow`]).

use super::attributes::is_attributes;
use super::checksum::{is_sealed, seal};
use super::extent::{EXTENT_BYTES, Extent, Extents};
use super::layout::{ControlBlock, DataBlock, HEADER_BYTES, Layout, index};
use super::overflow::{Overflow, Part, is_overflow};
use spindle_clock::Timestamp;
use spindle_ondisk::{Endian, structure};
use spindle_vfs::{Error, FileKind, Rdev, Result};

/// Longest target of a symbolic link in bytes.
pub const SYMLINK_MAX: usize = 4095;
/// Bytes of the storage map, and of the longest immediate file.
pub const MAP_BYTES: usize = 384;
/// Extents in a header.
pub const HEADER_EXTENTS: usize = MAP_BYTES / EXTENT_BYTES;
const HEADER_MAGIC: u16 = u16::from_le_bytes(*b"MH");
const CHECKSUM: usize = HEADER_BYTES - 4;
const MAP: usize = 120;

structure! {
    /// A file header; the storage map follows at byte 120, the checksum is at byte 508.
    pub struct DiskHeader: 120 {
        /// `MH`; 0 in a free header.
        0 magic: u16,
        /// Kind and permissions, as `st_mode`.
        2 mode: u16,
        /// Number of names.
        4 nlink: u16,
        /// 0 extents, 1 immediate data, 2 name map, 3 device number.
        6 map_kind: u8,
        /// Class of data storage: of new blocks; of a directory, of its new files.
        7 class: u8,
        /// Owner.
        8 uid: u32,
        /// Group.
        12 gid: u32,
        /// BSD file flags.
        16 flags: u32,
        /// Number of files that the header had before.
        20 generation: u32,
        /// Size in bytes; of a directory, its names.
        24 size: u64,
        /// Extents in the whole map, or bytes of immediate data.
        32 map_count: u64,
        /// Seconds of the times: access, modification, change, birth.
        40 seconds: [i64; 4],
        /// Nanoseconds of the times.
        72 nanoseconds: [u32; 4],
        /// The number of this header.
        88 ino: u64,
        /// The first overflow header, or 0.
        96 overflow: u64,
        /// Of a directory: the directory that names it.
        104 parent: u64,
        /// The first attribute header, or 0.
        112 attributes: u64,
    }
}

/// Where the contents of a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// In data storage.
    Extents(Extents),
    /// In the header: as many bytes as the size says.
    Immediate(Vec<u8>),
    /// In a name map.
    Names(NameMap),
    /// Nowhere: a device node with its number, a pipe or a socket.
    Node(Rdev),
}

/// The name map of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameMap {
    /// Its root; none if there are no names.
    pub root: Option<ControlBlock>,
    /// Number of its blocks.
    pub blocks: u64,
}

/// A file header in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind and permissions, as `st_mode`; 0 if the header is free.
    pub mode: u16,
    /// Number of names.
    pub nlink: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// BSD file flags.
    pub flags: u32,
    /// Number of files that the header had before.
    pub generation: u32,
    /// Size in bytes; of a directory, its names.
    pub size: u64,
    /// Class of data storage: of new blocks; of a directory, of its new files.
    pub class: u8,
    /// Times of the last access, modification and change, and of birth.
    pub times: [Timestamp; 4],
    /// Of a directory: the directory that names it.
    pub parent: u64,
    /// The contents.
    pub contents: Contents,
    /// The overflow headers, in order.
    pub overflow: Vec<Part>,
    /// The first attribute header.
    pub attributes: Option<u64>,
}

impl Header {
    /// Returns a free header that was used by `generation` files before.
    #[must_use]
    pub fn free(generation: u32) -> Self {
        Self {
            mode: 0,
            nlink: 0,
            uid: 0,
            gid: 0,
            flags: 0,
            generation,
            size: 0,
            class: 0,
            times: [Timestamp::default(); 4],
            parent: 0,
            contents: Contents::Immediate(Vec::new()),
            overflow: Vec::new(),
            attributes: None,
        }
    }

    /// Returns the kind of file; none if the mode is that of no file.
    #[must_use]
    pub const fn kind(&self) -> Option<FileKind> {
        FileKind::from_mode(self.mode as u32)
    }

    /// Returns the extents of the file, if it has any.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        match &self.contents {
            Contents::Extents(extents) => extents.as_slice(),
            _ => &[],
        }
    }

    /// Returns the extents of the file, for changing them; it has none yet if its contents were
    /// elsewhere.
    pub fn extents_mut(&mut self) -> &mut Extents {
        if !matches!(self.contents, Contents::Extents(_)) {
            self.contents = Contents::Extents(Extents::default());
        }
        match &mut self.contents {
            Contents::Extents(extents) => extents,
            _ => unreachable!("it has just become one"),
        }
    }

    /// Returns the address of a block of the file, none for a hole, and the number of blocks for
    /// which the same holds.
    #[must_use]
    pub fn find(&self, lbn: u64) -> (Option<DataBlock>, u64) {
        match &self.contents {
            Contents::Extents(extents) => extents.find(lbn),
            _ => (None, u64::MAX - lbn),
        }
    }

    /// Reads a header, with `overflow` for the headers that its map goes on in. Returns a header
    /// with mode 0 if it is free.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; those of `overflow`.
    pub fn decode(
        bytes: &[u8],
        ino: u64,
        layout: &Layout,
        mut overflow: impl FnMut(u64) -> Result<Overflow>,
    ) -> Result<Self> {
        let disk = DiskHeader::decode(bytes, Endian::Little);
        let place = format!("file header {ino}");
        let damaged = |what: String| Err(Error::corrupt(what, place.clone()));
        if disk.magic == 0 {
            return Ok(Self::free(disk.generation));
        }
        if is_overflow(bytes) || is_attributes(bytes) {
            // A name cannot lead here; the number of a former file may.
            return Ok(Self::free(0));
        }
        if disk.magic != HEADER_MAGIC || !is_sealed(&bytes[..HEADER_BYTES], CHECKSUM) {
            return damaged("it is damaged".into());
        }
        if disk.ino != ino {
            return damaged(format!("it is that of file {}", disk.ino));
        }
        let Some(kind) = FileKind::from_mode(disk.mode.into()) else {
            return damaged(format!("mode is {:o}", disk.mode));
        };
        let Some(class) = layout.classes.get(usize::from(disk.class)) else {
            return damaged(format!("its class of data is {}", disk.class));
        };
        if disk.size > class.file_size_max() {
            return damaged(format!("size is {}", disk.size));
        }
        let map = &bytes[MAP..MAP + MAP_BYTES];
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| map[at + n]));
        let mut chain = Vec::new();
        let data = matches!(kind, FileKind::Regular | FileKind::Symlink);
        let contents = match (disk.map_kind, kind) {
            (0, _) if data => {
                // No map can have more extents than there are data blocks.
                if disk.map_count > layout.data_blocks() {
                    return damaged(format!("{} extents", disk.map_count));
                }
                let count = usize::try_from(disk.map_count).unwrap_or(usize::MAX);
                let here = map.chunks_exact(EXTENT_BYTES).take(count.min(HEADER_EXTENTS));
                let mut extents: Vec<_> = here.map(Extent::decode).collect();
                let mut next = (disk.overflow != 0).then_some(disk.overflow);
                while let Some(at) = next.filter(|_| extents.len() < count) {
                    let more = overflow(at)?;
                    // In order, so that a circle ends here.
                    let end = extents.last().map_or(0, Extent::end);
                    if more.extents.first().is_none_or(|first| first.lbn < end) {
                        return damaged(format!("overflow header {at} does not go on from block {end}"));
                    }
                    chain.push(Part { at, len: more.extents.len() });
                    extents.extend(more.extents);
                    next = more.next;
                }
                if extents.len() != count || next.is_some() {
                    return damaged(format!("{} extents of {count}", extents.len()));
                }
                Contents::Extents(Extents::new(extents, layout, disk.class, &place)?)
            }
            (1, _) if data => match usize::try_from(disk.map_count) {
                Ok(count) if count <= MAP_BYTES && disk.map_count == disk.size => {
                    Contents::Immediate(map[..count].to_vec())
                }
                _ => return damaged(format!("{} bytes of immediate data", disk.map_count)),
            },
            (2, FileKind::Directory) => {
                let root = ControlBlock(word(0));
                if root.0 != 0 && layout.block_place(root).is_none() {
                    return damaged(format!("its name map begins in block {}", root.0));
                }
                if word(8) > layout.cylinders * u64::from(layout.cylinder_blocks()) {
                    return damaged(format!("{} blocks of names", word(8)));
                }
                Contents::Names(NameMap { root: (root.0 != 0).then_some(root), blocks: word(8) })
            }
            (3, _) if !data && kind != FileKind::Directory => {
                let half = |n: u64| u32::try_from(n & u64::from(u32::MAX)).unwrap_or(0);
                Contents::Node(Rdev { major: half(word(0) >> 32), minor: half(word(0)) })
            }
            (other, _) => return damaged(format!("a map of kind {other}")),
        };
        let time =
            |n: usize| Timestamp { secs: disk.seconds[n], nanos: disk.nanoseconds[n].min(999_999_999) };
        Ok(Self {
            mode: disk.mode,
            nlink: disk.nlink,
            uid: disk.uid,
            gid: disk.gid,
            flags: disk.flags,
            generation: disk.generation,
            size: disk.size,
            class: disk.class,
            times: std::array::from_fn(time),
            parent: disk.parent,
            contents,
            overflow: chain,
            attributes: (disk.attributes != 0).then_some(disk.attributes),
        })
    }

    /// Reads a header whose map is damaged: the extents up to the first that is wrong or cannot be
    /// read, without the overflow headers that they need; of a directory nothing.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if anything else is damaged.
    pub fn salvage(
        bytes: &[u8],
        ino: u64,
        layout: &Layout,
        mut overflow: impl FnMut(u64) -> Result<Overflow>,
    ) -> Result<Self> {
        let mut disk = DiskHeader::decode(bytes, Endian::Little);
        let mut rest = bytes[..HEADER_BYTES].to_vec();
        if disk.magic != HEADER_MAGIC
            || !is_sealed(&rest, CHECKSUM)
            || !matches!(disk.map_kind, 0 | 2)
            || usize::from(disk.class) >= layout.classes.len()
        {
            return Err(Error::corrupt("it is damaged", format!("file header {ino}")));
        }
        let mut next = (disk.overflow != 0).then_some(disk.overflow);
        let count =
            if next.is_some() { HEADER_EXTENTS } else { index(disk.map_count.min(HEADER_EXTENTS as u64)) };
        let here = bytes[MAP..MAP + MAP_BYTES].chunks_exact(EXTENT_BYTES).take(count);
        let mut found: Vec<Extent> = here.map(Extent::decode).collect();
        let mut extents: Vec<Extent> = Vec::new();
        loop {
            let whole = found.into_iter().all(|extent| {
                let end = extents.last().map_or(0, Extent::end);
                let right = extent.follows(end, layout, disk.class);
                extents.extend(right.then_some(extent));
                right
            });
            let Some(more) = next.filter(|_| whole).and_then(|at| overflow(at).ok()) else { break };
            if more.extents.is_empty() {
                break;
            }
            (found, next) = (more.extents, more.next);
        }
        // All else is read as ever.
        (disk.map_count, disk.overflow) = (0, 0);
        rest[MAP..MAP + MAP_BYTES].fill(0);
        disk.encode(&mut rest, Endian::Little);
        seal(&mut rest, CHECKSUM);
        let mut header = Self::decode(&rest, ino, layout, overflow)?;
        if let Contents::Extents(_) = header.contents {
            let extents = Extents::new(extents, layout, header.class, "a part of them")?;
            header.contents = Contents::Extents(extents);
        }
        Ok(header)
    }

    /// Writes the header to its [`HEADER_BYTES`] bytes.
    pub fn encode(&self, bytes: &mut [u8], ino: u64) {
        bytes[..HEADER_BYTES].fill(0);
        let map = &mut bytes[MAP..MAP + MAP_BYTES];
        let (map_kind, map_count) = match &self.contents {
            Contents::Extents(extents) => {
                let here = extents.as_slice().iter().take(HEADER_EXTENTS);
                here.zip(map.chunks_exact_mut(EXTENT_BYTES)).for_each(|(extent, out)| extent.encode(out));
                (0, extents.as_slice().len() as u64)
            }
            Contents::Immediate(data) => {
                map[..data.len()].copy_from_slice(data);
                (1, data.len() as u64)
            }
            Contents::Names(NameMap { root, blocks }) => {
                map[..8].copy_from_slice(&root.map_or(0, |root| root.0).to_le_bytes());
                map[8..16].copy_from_slice(&blocks.to_le_bytes());
                (2, 0)
            }
            Contents::Node(rdev) => {
                let number = u64::from(rdev.major) << 32 | u64::from(rdev.minor);
                map[..8].copy_from_slice(&number.to_le_bytes());
                (3, 0)
            }
        };
        let disk = DiskHeader {
            magic: if self.mode == 0 { 0 } else { HEADER_MAGIC },
            mode: self.mode,
            nlink: self.nlink,
            map_kind,
            class: self.class,
            uid: self.uid,
            gid: self.gid,
            flags: self.flags,
            generation: self.generation,
            size: self.size,
            map_count,
            seconds: self.times.map(|time| time.secs),
            nanoseconds: self.times.map(|time| time.nanos),
            ino,
            overflow: self.overflow.first().map_or(0, |part| part.at),
            parent: self.parent,
            attributes: self.attributes.unwrap_or(0),
        };
        disk.encode(bytes, Endian::Little);
        seal(&mut bytes[..HEADER_BYTES], CHECKSUM);
    }
}

/// Returns true if a header is in use, by a file or as an overflow or attribute header.
#[must_use]
pub fn is_used(bytes: &[u8]) -> bool {
    bytes[..2] != [0, 0]
}

/// Returns true if a header in use is whole: its checksum is right, and a file header is that of
/// file `ino`, its place.
#[must_use]
pub fn is_whole(bytes: &[u8], ino: u64) -> bool {
    let disk = DiskHeader::decode(bytes, Endian::Little);
    let part = is_overflow(bytes) || is_attributes(bytes);
    (part || disk.magic == HEADER_MAGIC && disk.ino == ino) && is_sealed(&bytes[..HEADER_BYTES], CHECKSUM)
}

/// Returns true if a sector is a whole header, in use or freed, whose place is that of file `ino`.
#[must_use]
pub fn has_its_place(bytes: &[u8], ino: u64) -> bool {
    let is_freed = || !is_used(bytes) && DiskHeader::decode(bytes, Endian::Little).ino == ino;
    is_whole(bytes, ino) || is_freed() && is_sealed(&bytes[..HEADER_BYTES], CHECKSUM)
}

/// Returns the number of files that a free header had before.
#[must_use]
pub fn generation_of(bytes: &[u8]) -> u32 {
    DiskHeader::decode(bytes, Endian::Little).generation
}
