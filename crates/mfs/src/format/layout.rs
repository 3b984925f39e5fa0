//! Where everything is: one address space for control storage and data storage.
//!
//! Control storage begins at byte 0, and each class of data storage at a multiple of
//! [`CLASS_BYTES`]. All addresses are computed here.
//!
//! Control storage is cylinders of equal size. The first block of each describes it; the others
//! hold either file headers or nodes of name maps. The number of a file is the position of its
//! header among all headers that there could be.
//!
//! A class of data begins with the pages of its allocation map; the tracks of data blocks follow. A
//! read-only class has neither: its blocks begin at its first byte.
//! The checksums of data blocks, if there are any, lie in control storage behind the cylinders:
//! those of a class begin with a sector of their own.

use super::class::{Class, ClassName, Structure};
use super::label::{Label, Parameters, Role};
use super::map_page::{MAP_PAGE_BYTES, tracks_in_page};
use super::read_only::ReadOnlyClass;
use super::sums::{SUM_PAGE_BYTES, SUM_SECTOR_BYTES, SUMS_IN_SECTOR};
use spindle_vfs::{Error, Result};
use std::ops::Range;

/// Bytes of a file header.
pub const HEADER_BYTES: usize = HEADER_SIZE as usize;
/// The same, for arithmetic with sizes of blocks.
const HEADER_SIZE: u32 = 512;
/// Sectors in a page of the table of checksums.
const SUM_SECTORS: u64 = (SUM_PAGE_BYTES / SUM_SECTOR_BYTES) as u64;
/// Bytes of addresses that control storage, and each class of data storage, has: the classes follow
/// control storage in their order.
pub const CLASS_BYTES: u64 = 1 << 56;
/// Bits of the number of a data block that say where it is in its class; those above are the class.
const CLASS_SHIFT: u32 = 44;
/// The number of the root directory. Numbers 0 and 1 are never used.
pub const ROOT_INO: u64 = 2;

/// Converts a number to an index: Spindle needs a machine with 64 bits.
#[allow(clippy::cast_possible_truncation)] // Asserted beside it.
pub(crate) const fn index(n: u64) -> usize {
    const { assert!(size_of::<usize>() == size_of::<u64>()) };
    n as usize
}

/// A block of control storage, counted from its first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControlBlock(pub u64);

/// A block of data storage: the class, and the block counted from the first of the class that can
/// hold data. Blocks that follow each other have numbers that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataBlock(pub u64);

impl DataBlock {
    /// Returns a block of a class.
    #[must_use]
    pub const fn of(class: usize, block: u64) -> Self {
        Self((class as u64) << CLASS_SHIFT | block)
    }

    /// Returns the class.
    #[must_use]
    pub fn class(self) -> usize {
        index(self.0 >> CLASS_SHIFT)
    }

    /// Returns the position of the block in its class.
    #[must_use]
    pub const fn within(self) -> u64 {
        self.0 & ((1 << CLASS_SHIFT) - 1)
    }
}

/// The checked geometry of a class of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassLayout {
    /// Its name.
    pub name: ClassName,
    /// Its structure; of a read-only class the tracks and units are those in which it is read.
    pub structure: Structure,
    /// Nothing of it is written.
    pub read_only: bool,
    /// Pages of its allocation map; a read-only class has none.
    pub map_pages: u64,
    blocks: u64,
    /// Address of its first byte.
    base: u64,
    /// Byte of the class at which the tracks begin.
    data_start: u64,
}

impl ClassLayout {
    /// Returns the geometry of the class number `n` with `bytes` of storage.
    fn new(Class { name, structure }: Class, n: usize, bytes: u64) -> Result<Self> {
        structure.check()?;
        let track_bytes = structure.track_bytes();
        let page_tracks = tracks_in_page(structure.track_blocks);
        let start_of = |pages: u64| (pages * MAP_PAGE_BYTES as u64).next_multiple_of(track_bytes);
        let mut map_pages = (bytes / track_bytes).div_ceil(page_tracks);
        // One page less may do, because the pages take space themselves.
        let tracks_with =
            |pages: u64| (bytes.saturating_sub(start_of(pages)) / track_bytes).min(pages * page_tracks);
        if map_pages > 1 && tracks_with(map_pages - 1) >= tracks_with(map_pages) {
            map_pages -= 1;
        }
        let tracks = tracks_with(map_pages);
        let data = match n {
            0 => "data storage".into(),
            _ => format!("data storage of class {name}"),
        };
        if tracks == 0 {
            let remedy = format!("it takes at least {} bytes", 2 * track_bytes);
            return Err(Error::unsupported(format!("{bytes} bytes of {data}"), remedy));
        }
        if bytes >= CLASS_BYTES || tracks >= (1 << CLASS_SHIFT) / u64::from(structure.track_blocks) {
            return Err(Error::unsupported(format!("{bytes} bytes of {data}"), "choose larger blocks"));
        }
        let (read_only, blocks) = (false, tracks * u64::from(structure.track_blocks));
        let (base, data_start) = (CLASS_BYTES * (n as u64 + 1), start_of(map_pages));
        Ok(Self { name, structure, read_only, map_pages, blocks, base, data_start })
    }

    /// Returns the geometry of a read-only class with the number `n`.
    fn of_read_only(class: &ReadOnlyClass, n: usize) -> Result<Self> {
        /// Bytes that are read together, as far as a track can have them.
        const TRACK_BYTES: u32 = 1 << 20;
        class.check()?;
        let (name, block_bytes, blocks) = (class.name.clone(), class.block_bytes, class.blocks());
        if blocks >= 1 << CLASS_SHIFT || class.area.is_some_and(|area| area.bytes >= CLASS_BYTES) {
            let what = format!("{blocks} blocks of the read-only class {name}");
            return Err(Error::unsupported(what, "choose larger blocks"));
        }
        let track_blocks = (TRACK_BYTES / block_bytes).max(8);
        let structure = Structure { block_bytes, track_blocks, stripe_bytes: block_bytes };
        let base = CLASS_BYTES * (n as u64 + 1);
        Ok(Self { name, structure, read_only: true, map_pages: 0, blocks, base, data_start: 0 })
    }

    /// Returns the bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.structure.block_bytes.into()
    }

    /// Returns the number of blocks.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the address of a page of the allocation map.
    #[must_use]
    pub const fn map_page_at(&self, page: u64) -> u64 {
        self.base + page * MAP_PAGE_BYTES as u64
    }

    /// Returns the page of the allocation map that has a block, and the position of the block
    /// there.
    #[must_use]
    pub fn map_place(&self, block: u64) -> (u64, u32) {
        let each = self.blocks_in_page();
        (block / each, u32::try_from(block % each).unwrap_or(0))
    }

    /// Returns the block that has a byte of the class; none if it is of the map, or no block's.
    #[must_use]
    pub fn block_at(&self, byte: u64) -> Option<u64> {
        let block = byte.checked_sub(self.data_start)? / self.block_bytes();
        (block < self.blocks()).then_some(block)
    }

    /// Returns the sectors that the checksums of the class take.
    fn sum_sectors(&self) -> u64 {
        if self.read_only { 0 } else { self.blocks().div_ceil(SUMS_IN_SECTOR) }
    }

    /// Returns the blocks that a page of the allocation map describes, if it is full.
    #[must_use]
    pub fn blocks_in_page(&self) -> u64 {
        tracks_in_page(self.structure.track_blocks) * u64::from(self.structure.track_blocks)
    }

    /// Returns the largest size of a file in bytes.
    #[must_use]
    pub fn file_size_max(&self) -> u64 {
        // Offsets are signed numbers of 64 bits in the system calls, and blocks of a file have 48.
        ((1_u64 << 48) - 1).saturating_mul(self.block_bytes()).min(i64::MAX as u64)
    }
}

/// The checked geometry of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The parameters that the set was made with.
    pub parameters: Parameters,
    /// Cylinders of control storage.
    pub cylinders: u64,
    /// The classes of data; the first one is the default one, and the read-only ones come last.
    pub classes: Vec<ClassLayout>,
    /// Pages of the table of checksums; 0 if data has none.
    pub sum_pages: u64,
}

impl Layout {
    /// Returns the geometry of the set of a label.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if control storage or a class of data is too small, or a parameter is
    /// wrong.
    pub fn of(label: &Label) -> Result<Self> {
        let parameters = label.parameters;
        parameters.check()?;
        let control_bytes = label.part_bytes(Role::Control).into_iter().min().unwrap_or(0);
        let of_class = |(n, class): (usize, Class)| {
            if parameters.checksums {
                class.structure.check_sums()?;
            }
            let unit = u64::from(class.structure.stripe_bytes);
            let parts = label.class_bytes(n).into_iter().map(|len| len / unit * unit);
            ClassLayout::new(class, n, parts.fold(0, u64::saturating_add))
        };
        let mut classes =
            label.all_classes().into_iter().enumerate().map(of_class).collect::<Result<Vec<_>>>()?;
        for class in &label.read_only {
            classes.push(ClassLayout::of_read_only(class, classes.len())?);
        }
        let sectors: u64 = classes.iter().map(ClassLayout::sum_sectors).sum();
        let sum_pages = if parameters.checksums { sectors.div_ceil(SUM_SECTORS) } else { 0 };
        let page = SUM_PAGE_BYTES as u64;
        let for_cylinders = match sum_pages {
            0 => control_bytes,
            pages => (control_bytes / page).saturating_sub(pages) * page,
        };
        let cylinders = for_cylinders / u64::from(parameters.cylinder_bytes);
        if cylinders < 2 {
            let least = 2 * u64::from(parameters.cylinder_bytes) + sum_pages * page;
            let remedy = format!("it takes at least {least} bytes");
            return Err(Error::unsupported(format!("{control_bytes} bytes of control storage"), remedy));
        }
        Ok(Self { parameters, cylinders, classes, sum_pages })
    }

    /// Returns the bytes of a block of control storage.
    #[must_use]
    pub const fn block_bytes(&self) -> usize {
        self.parameters.block_bytes as usize
    }

    /// Returns the class of a file or of a block, whose number must be that of one.
    #[must_use]
    pub fn class(&self, class: usize) -> &ClassLayout {
        &self.classes[class]
    }

    /// Returns the class with this name, and its number.
    #[must_use]
    pub fn class_named(&self, name: &[u8]) -> Option<(u8, &ClassLayout)> {
        (0..).zip(&self.classes).find(|(_, class)| class.name.to_string().as_bytes() == name)
    }

    /// Returns the number of data blocks of all classes.
    #[must_use]
    pub fn data_blocks(&self) -> u64 {
        self.classes.iter().map(ClassLayout::blocks).sum()
    }

    /// Returns the number of data blocks of all classes that can be written.
    #[must_use]
    pub fn writable_blocks(&self) -> u64 {
        self.writable().map(ClassLayout::blocks).sum()
    }

    /// Returns the classes that can be written.
    pub fn writable(&self) -> impl Iterator<Item = &ClassLayout> {
        self.classes.iter().filter(|class| !class.read_only)
    }

    /// Returns the bytes of the blocks of all classes that can be written.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.writable().map(|class| class.blocks() * class.block_bytes()).sum()
    }

    /// Returns true if nothing of a class is written.
    #[must_use]
    pub fn is_read_only(&self, class: usize) -> bool {
        self.class(class).read_only
    }

    /// Returns true if a file of `class` can have these blocks: they are those of one class, which
    /// has blocks of the same size.
    #[must_use]
    pub fn can_have(&self, class: usize, start: DataBlock, len: u64) -> bool {
        let size = self.class(class).structure.block_bytes;
        self.classes
            .get(start.class())
            .is_some_and(|of| of.structure.block_bytes == size && start.within() + len <= of.blocks())
    }

    /// Returns the bytes of the smallest block of data: all blocks are whole ones of it.
    #[must_use]
    pub fn smallest_block(&self) -> u32 {
        self.classes.iter().map(|class| class.structure.block_bytes).min().unwrap_or(0)
    }

    /// Returns the blocks of a cylinder, without the first one.
    #[must_use]
    pub const fn cylinder_blocks(&self) -> u32 {
        self.parameters.cylinder_bytes / self.parameters.block_bytes - 1
    }

    /// Returns the headers in a block.
    #[must_use]
    pub const fn headers_in_block(&self) -> u32 {
        self.parameters.block_bytes / HEADER_SIZE
    }

    /// Returns the headers that a cylinder can hold.
    #[must_use]
    pub fn headers_in_cylinder(&self) -> u64 {
        u64::from(self.cylinder_blocks()) * u64::from(self.headers_in_block())
    }

    /// Returns the address of the first block of a cylinder.
    #[must_use]
    pub fn cylinder_at(&self, cylinder: u64) -> u64 {
        cylinder * u64::from(self.parameters.cylinder_bytes)
    }

    /// Returns the cylinder and the position in it that the header of a file has; none if there is
    /// no such number.
    #[must_use]
    pub fn header_place(&self, ino: u64) -> Option<(u64, u32)> {
        let cylinder = ino / self.headers_in_cylinder();
        let slot = u32::try_from(ino % self.headers_in_cylinder()).ok()?;
        (cylinder < self.cylinders).then_some((cylinder, slot))
    }

    /// Returns the number of the file whose header is there.
    #[must_use]
    pub fn ino_of(&self, cylinder: u64, slot: u32) -> u64 {
        cylinder * self.headers_in_cylinder() + u64::from(slot)
    }

    /// Returns the address of the block of a file's header, and the byte of the header in it; none
    /// if there is no such number.
    #[must_use]
    pub fn header_at(&self, ino: u64) -> Option<(u64, usize)> {
        let (cylinder, slot) = self.header_place(ino)?;
        let block = 1 + slot / self.headers_in_block();
        let within = (slot % self.headers_in_block()) as usize * HEADER_BYTES;
        Some((self.cylinder_at(cylinder) + u64::from(block) * u64::from(self.parameters.block_bytes), within))
    }

    /// Returns the block of a cylinder: 0 is its first one.
    #[must_use]
    pub fn block_of(&self, cylinder: u64, block: u32) -> ControlBlock {
        ControlBlock(cylinder * u64::from(self.cylinder_blocks() + 1) + u64::from(block))
    }

    /// Returns the cylinder of a block and its position there; none if there is no such block or
    /// it is the first one of its cylinder.
    #[must_use]
    pub fn block_place(&self, ControlBlock(block): ControlBlock) -> Option<(u64, u32)> {
        let blocks = u64::from(self.cylinder_blocks() + 1);
        let position = u32::try_from(block % blocks).ok().filter(|&position| position > 0)?;
        (block / blocks < self.cylinders).then_some((block / blocks, position))
    }

    /// Returns the address of a block of control storage.
    #[must_use]
    pub fn control_byte(&self, ControlBlock(block): ControlBlock) -> u64 {
        block * u64::from(self.parameters.block_bytes)
    }

    /// Returns the address of a page of the table of checksums.
    #[must_use]
    pub fn sum_page_at(&self, page: u64) -> u64 {
        let size = SUM_PAGE_BYTES as u64;
        self.cylinder_at(self.cylinders).next_multiple_of(size) + page * size
    }

    /// Returns the first sector of the table of checksums that describes blocks of a class.
    fn first_sum_sector(&self, class: usize) -> u64 {
        self.classes[..class].iter().map(ClassLayout::sum_sectors).sum()
    }

    /// Returns the sector of the table of checksums that describes a block, whose class there must
    /// be, and the position of the block there.
    #[must_use]
    pub fn sum_place(&self, block: DataBlock) -> (u64, u64) {
        let first = self.first_sum_sector(block.class());
        (first + block.within() / SUMS_IN_SECTOR, block.within() % SUMS_IN_SECTOR)
    }

    /// Returns the class of the blocks that a sector of the table of checksums describes, and the
    /// blocks in it; none if the sector is behind those of the last class.
    #[must_use]
    pub fn summed_by(&self, sector: u64) -> Option<(usize, Range<u64>)> {
        let writable = self.writable().count();
        let class = (0..writable).rfind(|&class| self.first_sum_sector(class) <= sector)?;
        let first = (sector - self.first_sum_sector(class)) * SUMS_IN_SECTOR;
        let blocks = self.class(class).blocks();
        (first < blocks).then(|| (class, first..blocks.min(first + SUMS_IN_SECTOR)))
    }

    /// Returns the address of the page that has a sector of the table, and the byte of the sector
    /// there.
    #[must_use]
    pub fn sum_sector_at(&self, sector: u64) -> (u64, usize) {
        (self.sum_page_at(sector / SUM_SECTORS), index(sector % SUM_SECTORS) * SUM_SECTOR_BYTES)
    }

    /// Returns the data blocks of a class that only data which takes the place of other data can
    /// have: so it can be overwritten, cut and removed when everything else is in use.
    #[must_use]
    pub fn spare_blocks(&self, class: usize) -> u64 {
        const MOST_BYTES: u64 = 64 << 20;
        let class = self.class(class);
        if self.sum_pages == 0 || class.read_only {
            return 0;
        }
        (class.blocks() / 64).clamp(1, (MOST_BYTES / class.block_bytes()).max(1))
    }

    /// Returns the address of a data block, whose class there must be.
    #[must_use]
    pub fn data_byte(&self, block: DataBlock) -> u64 {
        let class = self.class(block.class());
        class.base + class.data_start + block.within() * class.block_bytes()
    }
}
