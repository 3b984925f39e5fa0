//! The super-block: finding it, recognising its format, and the objections to writing.
//!
//! System V's super-block has a magic number and a clean flag. The others have neither: their
//! contents must look like a file system down to `.` and `..` of the root directory, and in one
//! format only. Their kernels always write `s_fmod` as 0. While
//! Spindle has such a file system mounted for writing it is 1, which no kernel minds, so that at
//! least Spindle's own crashes are recognised.

use crate::format::entry::name_of;
use crate::format::kind::{Family, Format};
use crate::format::layout::{Block, Layout, ROOT_INO, index};
use crate::format::ondisk::{
    Direct, DiskInode, ENTRY_SIZE, FS_ACTIVE, FS_MAGIC, FS_OKAY, Filsys, FilsysTail, INODE_SIZE, NICFREE,
    NICINOD, SysVMark, get_addr,
};
use spindle_device::Device;
use spindle_ondisk::Endian;
use spindle_vfs::{Error, Objection, Result};

/// Size of the super-block in bytes.
pub(crate) const SIZE: usize = 512;

/// Largest size of a block in bytes.
const MOST_BSIZE: usize = 2048;

/// Bytes at the start of a device that contain the super-block and the root's inode in any format.
const START_BYTES: usize = 8192;

const CHECK: &str = "run spindle fsck on it, or insist with the option force";

/// A super-block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Its format.
    pub format: Format,
    /// Sizes, free list and free inodes.
    pub head: Filsys,
    /// Counts, interleave and names. The Seventh Edition itself does not maintain them.
    pub tail: FilsysTail,
    /// `s_state` of System V.
    pub s_state: u32,
}

/// A super-block found on a device.
#[derive(Clone, Debug)]
pub struct Detected {
    /// The super-block.
    pub superblock: Superblock,
    /// Other formats in which the device could also be read.
    pub others: Vec<Format>,
    /// What is wrong with the one on the device, if this one was guessed to read with: see
    /// [`Superblock::salvage`].
    pub unusable: Option<String>,
}

impl Superblock {
    /// Reads a super-block of a given format from its bytes.
    #[must_use]
    pub fn decode(format: Format, bytes: &[u8]) -> Self {
        Self {
            format,
            head: format.decode_head(bytes),
            tail: format.decode_tail(bytes),
            s_state: if format.is_sysv() { SysVMark::decode(bytes, format.endian).s_state } else { 0 },
        }
    }

    /// Writes the super-block into `bytes`, and leaves fields that it does not know unchanged.
    pub fn encode(&self, bytes: &mut [u8]) {
        self.format.encode_head(&self.head, bytes);
        self.format.encode_tail(&self.tail, bytes);
        if self.format.is_sysv() {
            let s_type = self.format.bsize.ilog2() - 8;
            let mark = SysVMark { s_state: self.s_state, s_magic: FS_MAGIC, s_type };
            mark.encode(bytes, self.format.endian);
        }
    }

    /// Finds the super-block, in a given format or in the only one that is possible.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is none, [`Error::Corrupt`] if its sizes are impossible.
    pub fn open(device: &dyn Device, format: Option<Format>) -> Result<Detected> {
        let start = start_of(device)?;
        let read = |format: Format| Self::decode(format, &start[index(format.superblock_byte())..]);
        let mut found =
            if let Some(format) = format { vec![read(format)] } else { candidates(device, &start, read) };
        if found.is_empty() {
            let remedy = "name the format if it is an old UNIX file system";
            return Err(Error::unsupported("no file system that could be recognised", remedy));
        }
        let superblock = found.remove(0);
        superblock.layout()?;
        let others = found.iter().map(|other| other.format).collect();
        Ok(Detected { superblock, others, unusable: None })
    }

    /// Bytes from the first one of a file system on that [`Self::may_begin`] looks at.
    pub const BEGINNING_BYTES: usize = 2 * MOST_BSIZE + 2 * INODE_SIZE;

    /// Returns true if a file system may begin with these bytes, in some format: where the root's
    /// inode would be, there is one of a directory. Most bytes of a disk are refused, so that a
    /// search need not open what begins at each sector.
    #[must_use]
    pub fn may_begin(bytes: &[u8]) -> bool {
        let is_root = |(bsize, endian): (usize, Endian)| {
            // Inode 2 is the second one in block 2.
            let at = 2 * bsize + INODE_SIZE;
            bytes.get(at..at + INODE_SIZE).is_some_and(|inode| {
                let inode = DiskInode::decode(inode, endian);
                inode.di_mode & 0o170_000 == 0o040_000
                    && inode.di_nlink >= 2
                    && usize::try_from(inode.di_size)
                        .is_ok_and(|size| size >= 2 * ENTRY_SIZE && size.is_multiple_of(ENTRY_SIZE))
            })
        };
        let endians = [Endian::Little, Endian::Big, Endian::Pdp];
        [512, 1024, MOST_BSIZE].into_iter().any(|bsize| endians.into_iter().any(|e| is_root((bsize, e))))
    }

    /// Returns true if a device has a super-block with possible sizes, and a root directory, in a
    /// format.
    #[must_use]
    pub fn is_readable_as(device: &dyn Device, format: Format) -> bool {
        Self::open(device, Some(format)).and_then(|found| found.superblock.has_root(device)).unwrap_or(false)
    }

    /// Returns the checked geometry.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its sizes are impossible.
    pub fn layout(&self) -> Result<Layout> {
        Layout::new(self.format, &self.head).map_err(|what| Error::corrupt(what, "super-block"))
    }

    /// Sets the sizes.
    pub(crate) fn set_sizes(&mut self, layout: &Layout) {
        self.head.s_isize = u16::try_from(layout.s_isize).unwrap_or(u16::MAX);
        self.head.s_fsize = layout.s_fsize;
    }

    /// Returns true if the device has the magic number and the block size of its format there, if
    /// it has such.
    pub(crate) fn has_magic(&self, device: &dyn Device) -> Result<bool> {
        let formats = marked_formats(&start_of(device)?);
        Ok(!self.format.is_sysv() || formats.contains(&self.format))
    }

    /// Returns how much this looks like a file system of its format; nothing if its sizes are
    /// impossible.
    fn likeness(&self, device: &dyn Device) -> Option<Likeness> {
        let layout = self.layout().ok()?;
        let free = free_addresses(self.head.s_nfree, &self.head.s_free).ok();
        let is_data = |raw: u32| layout.data_block(raw).is_some();
        let free_is_data =
            |free: &[u32]| free.iter().enumerate().all(|(n, &raw)| is_data(raw) || (n == 0 && raw == 0));
        Some(Likeness {
            root: has_root(&layout, device).unwrap_or(false),
            lists: free.is_some_and(free_is_data) && self.damage_of_inode_list(&layout).is_none(),
            fits: layout.byte(Block(layout.s_fsize)) <= device.info().size_bytes,
        })
    }

    /// Returns what is wrong with the list of free inodes. The old kernels trust it.
    pub(crate) fn damage_of_inode_list(&self, layout: &Layout) -> Option<String> {
        let Filsys { s_ninode, s_inode, .. } = &self.head;
        let Some(listed) = usize::try_from(*s_ninode).ok().and_then(|count| s_inode.get(..count)) else {
            return Some(format!("it says that it holds {s_ninode} of {NICINOD} inodes"));
        };
        let wrong = listed.iter().find(|&&ino| ino > layout.last_ino())?;
        Some(format!("inode {wrong} does not exist"))
    }

    /// Returns true if the device has a root directory, read with this super-block.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn has_root(&self, device: &dyn Device) -> Result<bool> {
        has_root(&self.layout()?, device)
    }

    /// Returns true if the device has a directory besides the root, read with this super-block.
    fn has_directory(&self, device: &dyn Device) -> Result<bool> {
        let layout = self.layout()?;
        let (first, _) = layout.inode_at(1);
        let mut inodes = vec![0; usize::from(layout.last_ino()) * INODE_SIZE];
        device.read_at(layout.byte(first), &mut inodes)?;
        for (ino, inode) in (1..=layout.last_ino()).zip(inodes.chunks_exact(INODE_SIZE)) {
            if ino != ROOT_INO && names_itself(&layout, device, ino, inode)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if it is marked as unmounted, as far as its format has such a mark.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        if self.format.is_sysv() {
            self.s_state == FS_OKAY.wrapping_sub(self.head.s_time.cast_unsigned())
        } else {
            self.head.s_fmod == 0
        }
    }

    /// Marks it as in use or as unmounted, at a time in seconds since 1970.
    pub fn set_clean(&mut self, clean: bool, now: i32) {
        self.head.s_time = now;
        if !self.format.is_sysv() {
            self.head.s_fmod = u8::from(!clean);
        } else if clean {
            self.s_state = FS_OKAY.wrapping_sub(now.cast_unsigned());
        } else {
            self.s_state = FS_ACTIVE;
        }
    }
}

impl Detected {
    /// Returns the objections to writing that the super-block shows.
    pub(crate) fn objections_of_superblock(&self, device: &dyn Device) -> Vec<Objection> {
        let mut found = Vec::new();
        let mut object = |reason: String, remedy: String, overridable| {
            found.push(Objection { reason, remedy, overridable });
        };
        let Superblock { format, head, s_state, .. } = &self.superblock;
        if !self.others.is_empty() {
            let others: Vec<_> = self.others.iter().map(ToString::to_string).collect();
            let reason = format!("it could be {format} as well as {}", others.join(" or "));
            let remedy = format!("mount it with the format that it has, as -o dialect={format}");
            object(reason, remedy, false);
        }
        if let Some(why) = &self.unusable {
            let which = if self.others.is_empty() {
                format!("-t {format}")
            } else {
                "-t with the format that it has".into()
            };
            let remedy =
                format!("copy its files away, or run spindle fsck -y {which}, which makes a new one");
            object(format!("{why}; its sizes are guessed"), remedy, false);
        }
        if !self.superblock.is_clean() {
            let why = if format.is_sysv() { format!("s_state {s_state:#x}") } else { "s_fmod is set".into() };
            object(format!("it was not unmounted cleanly ({why})"), CHECK.into(), true);
        }
        let bytes = u64::from(head.s_fsize) * u64::from(format.bsize);
        if device.info().size_bytes < bytes {
            let reason = format!("the device ends before the file system, at {}", device.info().size_bytes);
            // A length would cut an image in which this is a partition.
            let missing = bytes - device.info().size_bytes;
            let remedy = format!("find the rest, or append zeros (truncate -s +{missing}, if it is a file)");
            object(reason, remedy, false);
        }
        found
    }
}

/// Returns the first bytes of a device, with zeros behind its end.
fn start_of(device: &dyn Device) -> Result<Vec<u8>> {
    let mut start = vec![0; START_BYTES.min(index(device.info().size_bytes))];
    device.read_at(0, &mut start)?;
    start.resize(START_BYTES, 0);
    Ok(start)
}

/// How much a super-block looks like one of its format: the more, the greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Likeness {
    /// The root directory begins as every root does.
    root: bool,
    /// The lists of free blocks and inodes hold such blocks and inodes.
    lists: bool,
    /// The device is large enough. An image may be cut off, but a complete one is likelier.
    fits: bool,
}

/// Returns the super-blocks, read by `read`, of all formats in which the device could be read. One
/// with a magic number counts in any case. Of the others the root and either the lists or the size
/// must look right, so that damage to one of them does not hide the file system; failing the root,
/// another directory.
fn candidates(device: &dyn Device, start: &[u8], read: impl Fn(Format) -> Superblock) -> Vec<Superblock> {
    let marked = marked_formats(start);
    let is_marked = !marked.is_empty();
    let formats = if is_marked { marked } else { Format::UNMARKED.to_vec() };
    let mut found = Vec::new();
    for superblock in formats.into_iter().map(read) {
        let Some(likeness) = superblock.likeness(device) else { continue };
        let Likeness { root, lists, fits } = likeness;
        let has_directory = || superblock.has_directory(device).unwrap_or(false);
        let is_likely = if root { lists || fits } else { lists && fits && has_directory() };
        if is_likely || is_marked {
            found.push((likeness, superblock));
        }
    }
    let best = found.iter().map(|(likeness, _)| *likeness).max();
    found.retain(|(likeness, _)| Some(*likeness) == best);
    if best.is_some_and(|best| is_marked && !best.root) {
        found.truncate(1);
    }
    found.into_iter().map(|(_, superblock)| superblock).collect()
}

/// Returns the formats that System V's magic number admits.
fn marked_formats(start: &[u8]) -> Vec<Format> {
    let mut formats = Vec::new();
    for endian in [Endian::Little, Endian::Big, Endian::Pdp] {
        let mark = SysVMark::decode(&start[512..], endian);
        if mark.s_magic == FS_MAGIC {
            let bsize = 256 << mark.s_type.min(4);
            formats.extend([Family::SysV, Family::SysV16].map(|family| Format { family, bsize, endian }));
        }
    }
    formats.retain(|format| format.is_possible());
    formats
}

/// Returns true if the root's inode is a directory, and its first block has `.` and `..`.
fn has_root(layout: &Layout, device: &dyn Device) -> Result<bool> {
    let (block, offset) = layout.inode_at(ROOT_INO);
    let mut inodes = vec![0; layout.bsize()];
    device.read_at(layout.byte(block), &mut inodes)?;
    Ok(names_itself(layout, device, ROOT_INO, &inodes[offset..])? == Some(ROOT_INO))
}

/// Returns the inode of `..`, if this is the inode of a directory whose first block has `.` and
/// `..`, the former with its own number.
fn names_itself(layout: &Layout, device: &dyn Device, ino: u16, inode: &[u8]) -> Result<Option<u16>> {
    let endian = layout.format.endian;
    let inode = DiskInode::decode(inode, endian);
    let Some(first) = layout.data_block(get_addr(&inode.di_addr, endian)) else { return Ok(None) };
    if inode.di_mode & 0o170_000 != 0o040_000 || inode.di_size <= 0 {
        return Ok(None);
    }
    let mut names = vec![0; layout.bsize()];
    device.read_at(layout.byte(first), &mut names)?;
    let find = |name: &[u8]| {
        let mut entries = names.chunks_exact(ENTRY_SIZE).map(|entry| Direct::decode(entry, endian));
        entries.find(|entry| entry.d_ino != 0 && name_of(&entry.d_name) == name).map(|entry| entry.d_ino)
    };
    Ok(find(b"..").filter(|_| find(b".") == Some(ino)))
}

/// Returns the addresses in a link of the free list, or a description of an impossible count.
pub(crate) fn free_addresses(count: i16, addresses: &[u32; NICFREE]) -> std::result::Result<&[u32], String> {
    usize::try_from(count)
        .ok()
        .and_then(|count| addresses.get(..count))
        .ok_or_else(|| format!("it says that it holds {count} of {NICFREE} addresses"))
}

/// Returns the location of a link of the free list, for messages.
pub(crate) fn holder(link: Option<Block>) -> String {
    link.map_or_else(|| "super-block".to_owned(), |block| format!("free list, block {}", block.0))
}
