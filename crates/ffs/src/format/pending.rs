//! The mark of a change that is to happen as a whole: the superblock says where the rest of it is.
//!
//! While such a change is carried out, the last bytes of `fs_fsmnt` that share the first sector of
//! 512 bytes with `fs_clean` hold the mark, whatever the format: magic (8 bytes), identity of the
//! change (8), place of its first block on the device (8), bytes of a block (4), and the CRC-32C of
//! the superblock up to there (4); little-endian. The mark is written with that sector alone, so it
//! is there or not. If another system has written the superblock since, the CRC does not agree, and
//! there is no such change any more.
//!
//! The blocks themselves are in [`crate::repair`]. As long as the mark stands, the file system may
//! be half of each state, and nobody opens it.

use crate::format::superblock::Superblock;
use spindle_device::Device;
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{Error, Result};

/// The first bytes of the mark.
const MAGIC: &[u8; 8] = b"SpChang\x01";
/// Where it stands in the superblock.
const AT: usize = 480;
/// Its end, and that of the smallest sector.
const END: usize = 512;
const LITTLE: Endian = Endian::Little;

/// A change that is to be carried out, or has been in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Its identity, which all its blocks have.
    pub(crate) id: u64,
    /// Byte of its first block on the device.
    pub(crate) first: u64,
    /// Bytes of a block.
    pub(crate) block: u32,
}

impl Pending {
    /// Refuses a file system with such a change.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there is one; device errors.
    pub(crate) fn refuse(device: &dyn Device) -> Result<()> {
        match Superblock::find_pending(device)? {
            None => Ok(()),
            Some((at, _)) => Err(Error::corrupt(
                "changing its size, or a repair, was interrupted; finish that first (spindle fsck -p)",
                format!("superblock at byte {at}"),
            )),
        }
    }

    /// Returns the change that the first sector of a superblock names.
    pub(crate) fn decode(sector: &[u8]) -> Option<Self> {
        let mark = &sector[AT..END];
        let sum = u32::get(&mark[28..], LITTLE);
        (mark.starts_with(MAGIC) && crc32c::crc32c(&sector[..END - 4]) == sum).then(|| Self {
            id: u64::get(&mark[8..], LITTLE),
            first: u64::get(&mark[16..], LITTLE),
            block: u32::get(&mark[24..], LITTLE),
        })
    }

    /// Enters the mark into the first sector of a superblock.
    pub(crate) fn encode(&self, sector: &mut [u8]) {
        let mark = &mut sector[AT..END];
        mark[..8].copy_from_slice(MAGIC);
        self.id.put(&mut mark[8..], LITTLE);
        self.first.put(&mut mark[16..], LITTLE);
        self.block.put(&mut mark[24..], LITTLE);
        let sum = crc32c::crc32c(&sector[..END - 4]);
        sum.put(&mut sector[END - 4..], LITTLE);
    }
}
