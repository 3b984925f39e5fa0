//! The super-block: finding it, recognising its format, and the objections to writing.
//!
//! System V's super-block has a magic number and a clean flag. The others have neither: their
//! contents must look like a file system in all that can be checked, down to the first two names of
//! the root directory, and in one format only. Their kernels always write `s_fmod` as 0. While
//! Spindle has such a file system mounted for writing it is 1, which no kernel minds, so that at
//! least Spindle's own crashes are recognised.

use crate::format::kind::{Family, Format};
use crate::format::layout::{Block, Layout, ROOT_INO, index};
use crate::format::ondisk::{
    Direct, DiskInode, ENTRY_SIZE, FS_ACTIVE, FS_MAGIC, FS_OKAY, Filsys, FilsysTail, NICFREE, NICINOD,
    SysVMark, get_addr,
};
use spindle_device::Device;
use spindle_ondisk::Endian;
use spindle_vfs::{Error, Objection, Result};

/// Size of the super-block in bytes.
pub(crate) const SIZE: usize = 512;

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
    /// Why the one on the device cannot be used, if this one was guessed to read with: see
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

    /// Returns the checked geometry.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its sizes are impossible.
    pub fn layout(&self) -> Result<Layout> {
        Layout::new(self.format, &self.head).map_err(|what| Error::corrupt(what, "super-block"))
    }

    /// Returns true if this looks like a file system of its format in all that `start`, the start
    /// of the device, shows.
    fn is_likely(&self, device: &dyn Device, start: &[u8]) -> bool {
        let Ok(layout) = self.layout() else { return false };
        let head = &self.head;
        let among = |count: i16, most: usize| usize::try_from(count).is_ok_and(|count| count <= most);
        if !among(head.s_nfree, NICFREE) || !among(head.s_ninode, NICINOD) {
            return false;
        }
        let is_data = |raw: u32| layout.data_block(raw).is_some();
        let free = &head.s_free[..usize::try_from(head.s_nfree).unwrap_or(0)];
        let free_is_data = free.iter().enumerate().all(|(n, &raw)| is_data(raw) || (n == 0 && raw == 0));
        let remembered = &head.s_inode[..usize::try_from(head.s_ninode).unwrap_or(0)];
        let remembers_inodes = remembered.iter().all(|ino| *ino <= layout.last_ino());
        free_is_data && remembers_inodes && has_root(&layout, device, start).unwrap_or(false)
    }

    /// Returns true if the device has a root directory, read with this super-block.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn has_root(&self, device: &dyn Device) -> Result<bool> {
        has_root(&self.layout()?, device, &start_of(device)?)
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
    #[must_use]
    pub fn objections(&self, device: &dyn Device) -> Vec<Objection> {
        let mut found = Vec::new();
        let mut object = |reason: String, remedy: String, overridable| {
            found.push(Objection { reason, remedy, overridable });
        };
        let Superblock { format, head, s_state, .. } = &self.superblock;
        if !self.others.is_empty() {
            let others: Vec<_> = self.others.iter().map(ToString::to_string).collect();
            let reason = format!("it could be {format} as well as {}", others.join(" or "));
            object(reason, "name its format".into(), false);
        }
        if let Some(why) = &self.unusable {
            let reason = format!("its super-block cannot be used ({why}); its sizes are guessed");
            object(reason, "copy its files away".into(), false);
        }
        if !self.superblock.is_clean() {
            let why = if format.is_sysv() { format!("s_state {s_state:#x}") } else { "s_fmod is set".into() };
            object(format!("it was not unmounted cleanly ({why})"), CHECK.into(), true);
        }
        let bytes = u64::from(head.s_fsize) * u64::from(format.bsize);
        if device.info().size_bytes < bytes {
            let reason = format!("the device ends before the file system, at {}", device.info().size_bytes);
            object(reason, format!("make it {bytes} bytes long (truncate -s, if it is a file)"), false);
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

/// Returns the super-blocks, read by `read`, of all formats in which the device could be read.
fn candidates(device: &dyn Device, start: &[u8], read: impl Fn(Format) -> Superblock) -> Vec<Superblock> {
    let marked = marked_formats(start);
    let formats = if marked.is_empty() { Format::UNMARKED.to_vec() } else { marked };
    let mut all: Vec<_> = formats.into_iter().map(read).filter(|found| found.layout().is_ok()).collect();
    let mut likely: Vec<_> = all.iter().filter(|found| found.is_likely(device, start)).cloned().collect();
    let fits = |found: &Superblock| {
        u64::from(found.head.s_fsize) * u64::from(found.format.bsize) <= device.info().size_bytes
    };
    if likely.iter().any(fits) {
        // An image may be cut off, but a complete one is likelier.
        likely.retain(fits);
    }
    if likely.is_empty() {
        // A damaged file system with a magic number still counts.
        all.retain(|found| found.format.is_sysv());
        all.truncate(1);
        return all;
    }
    likely
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

/// Returns true if the root's inode is a directory, and that directory begins as every root does.
fn has_root(layout: &Layout, device: &dyn Device, start: &[u8]) -> Result<bool> {
    let (block, offset) = layout.inode_at(ROOT_INO);
    let endian = layout.format.endian;
    let inode = DiskInode::decode(&start[index(layout.byte(block)) + offset..], endian);
    let is_directory = inode.di_mode & 0o170_000 == 0o040_000 && inode.di_nlink >= 2;
    let Some(first) = layout.data_block(get_addr(&inode.di_addr, endian)) else { return Ok(false) };
    let size = usize::try_from(inode.di_size).unwrap_or(0);
    if !is_directory || size < 2 * ENTRY_SIZE || !size.is_multiple_of(ENTRY_SIZE) {
        return Ok(false);
    }
    let mut names = vec![0; layout.bsize()];
    device.read_at(layout.byte(first), &mut names)?;
    let begins = |n: usize, name: &[u8; 3]| {
        let Direct { d_ino, d_name } = Direct::decode(&names[n * ENTRY_SIZE..], endian);
        d_ino == ROOT_INO && d_name.starts_with(name)
    };
    Ok(begins(0, b".\0\0") && begins(1, b"..\0"))
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
