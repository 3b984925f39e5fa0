//! Where everything is: one address space for control storage and data storage.
//!
//! Control storage begins at byte 0 and data storage at [`DATA_BASE`]. All addresses are computed
//! here.
//!
//! Control storage is cylinders of equal size. The first block of each describes it; the others
//! hold either file headers or nodes of name maps. The number of a file is the position of its
//! header among all headers that there could be.
//!
//! Data storage begins with the pages of the allocation map, then come the tracks of data blocks.
//! The checksums of data blocks, if there are any, lie in control storage behind the cylinders.

use super::label::{Label, Parameters, Role};
use super::map_page::{MAP_PAGE_BYTES, tracks_in_page};
use super::sums::{SUM_PAGE_BYTES, SUM_SECTOR_BYTES, SUMS_IN_PAGE, SUMS_IN_SECTOR};
use spindle_vfs::{Error, Result};

/// Bytes of a file header.
pub const HEADER_BYTES: usize = HEADER_SIZE as usize;
/// The same, for arithmetic with sizes of blocks.
const HEADER_SIZE: u32 = 512;
/// Byte at which data storage begins.
pub const DATA_BASE: u64 = 1 << 56;
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

/// A block of data storage, counted from the first that can hold data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataBlock(pub u64);

/// The checked geometry of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The parameters that the set was made with.
    pub parameters: Parameters,
    /// Cylinders of control storage.
    pub cylinders: u64,
    /// Pages of the allocation map.
    pub map_pages: u64,
    /// Tracks of data.
    pub tracks: u64,
    /// Pages of the table of checksums.
    pub sum_pages: u64,
    /// Byte of data storage at which the tracks begin.
    data_start: u64,
}

impl Layout {
    /// Returns the geometry of a set with these bytes of control and data storage.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if one of them is too small, or a parameter is wrong.
    pub fn new(parameters: Parameters, control_bytes: u64, data_bytes: u64) -> Result<Self> {
        parameters.check()?;
        let track_bytes = u64::from(parameters.data_block_bytes) * u64::from(parameters.track_blocks);
        let page_tracks = tracks_in_page(parameters.track_blocks);
        let start_of = |pages: u64| (pages * MAP_PAGE_BYTES as u64).next_multiple_of(track_bytes);
        let mut map_pages = (data_bytes / track_bytes).div_ceil(page_tracks);
        // One page less may do, because the pages take space themselves.
        let tracks_with =
            |pages: u64| (data_bytes.saturating_sub(start_of(pages)) / track_bytes).min(pages * page_tracks);
        if map_pages > 1 && tracks_with(map_pages - 1) >= tracks_with(map_pages) {
            map_pages -= 1;
        }
        let tracks = tracks_with(map_pages);
        if tracks == 0 {
            let remedy = format!("it takes at least {} bytes", 2 * track_bytes);
            return Err(Error::unsupported(format!("{data_bytes} bytes of data storage"), remedy));
        }
        let blocks = tracks * u64::from(parameters.track_blocks);
        let sum_pages = if parameters.checksums { blocks.div_ceil(SUMS_IN_PAGE) } else { 0 };
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
        let data_start = start_of(map_pages);
        Ok(Self { parameters, cylinders, map_pages, tracks, sum_pages, data_start })
    }

    /// Returns the geometry of the set of a label.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of(label: &Label) -> Result<Self> {
        let least = label.part_bytes(Role::Control).into_iter().min().unwrap_or(0);
        let unit = u64::from(label.parameters.stripe_bytes);
        let data = label.part_bytes(Role::Data).into_iter().map(|len| len / unit * unit);
        Self::new(label.parameters, least, data.fold(0, u64::saturating_add))
    }

    /// Returns the bytes of a block of control storage.
    #[must_use]
    pub const fn block_bytes(&self) -> usize {
        self.parameters.block_bytes as usize
    }

    /// Returns the bytes of a block of data storage.
    #[must_use]
    pub fn data_block_bytes(&self) -> u64 {
        self.parameters.data_block_bytes.into()
    }

    /// Returns the number of data blocks.
    #[must_use]
    pub fn data_blocks(&self) -> u64 {
        self.tracks * u64::from(self.parameters.track_blocks)
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

    /// Returns the address of a page of the allocation map.
    #[must_use]
    pub const fn map_page_at(&self, page: u64) -> u64 {
        DATA_BASE + page * MAP_PAGE_BYTES as u64
    }

    /// Returns the address of a page of the table of checksums.
    #[must_use]
    pub fn sum_page_at(&self, page: u64) -> u64 {
        let size = SUM_PAGE_BYTES as u64;
        self.cylinder_at(self.cylinders).next_multiple_of(size) + page * size
    }

    /// Returns the sector of the table of checksums that describes a block, and the position of the
    /// block there.
    #[must_use]
    pub const fn sum_place(&self, DataBlock(block): DataBlock) -> (u64, u64) {
        (block / SUMS_IN_SECTOR, block % SUMS_IN_SECTOR)
    }

    /// Returns the address of the page that has a sector of the table, and the byte of the sector
    /// there.
    #[must_use]
    pub fn sum_sector_at(&self, sector: u64) -> (u64, usize) {
        const SECTORS: u64 = (SUM_PAGE_BYTES / SUM_SECTOR_BYTES) as u64;
        (self.sum_page_at(sector / SECTORS), index(sector % SECTORS) * SUM_SECTOR_BYTES)
    }

    /// Returns the page of the allocation map that has a block, and the position of the block
    /// there.
    #[must_use]
    pub fn map_place(&self, DataBlock(block): DataBlock) -> (u64, u32) {
        let each = self.blocks_in_page();
        (block / each, u32::try_from(block % each).unwrap_or(0))
    }

    /// Returns the data blocks that only data which takes the place of other data can have: so it
    /// can be overwritten, cut and removed when everything else is in use.
    #[must_use]
    pub fn spare_blocks(&self) -> u64 {
        const MOST_BYTES: u64 = 64 << 20;
        if self.sum_pages == 0 {
            return 0;
        }
        (self.data_blocks() / 64).clamp(1, (MOST_BYTES / self.data_block_bytes()).max(1))
    }

    /// Returns the data block that has a byte of data storage; none if it is of the map, or no
    /// block's.
    #[must_use]
    pub fn block_at(&self, byte: u64) -> Option<DataBlock> {
        let block = byte.checked_sub(self.data_start)? / self.data_block_bytes();
        (block < self.data_blocks()).then_some(DataBlock(block))
    }

    /// Returns the data blocks that a page of the allocation map describes, if it is full.
    #[must_use]
    pub fn blocks_in_page(&self) -> u64 {
        tracks_in_page(self.parameters.track_blocks) * u64::from(self.parameters.track_blocks)
    }

    /// Returns the address of a data block.
    #[must_use]
    pub fn data_byte(&self, DataBlock(block): DataBlock) -> u64 {
        DATA_BASE + self.data_start + block * self.data_block_bytes()
    }

    /// Returns the largest size of a file in bytes.
    #[must_use]
    pub fn file_size_max(&self) -> u64 {
        // Offsets are signed numbers of 64 bits in the system calls, and blocks of a file have 48.
        ((1_u64 << 48) - 1).saturating_mul(self.data_block_bytes()).min(i64::MAX as u64)
    }
}
