//! The structures of the log (`sys/sys/wapbl_replay.h` of NetBSD).
//!
//! A log is two places for a header, one log block each, and a ring of records. The header with the
//! greater generation counts: it says where the oldest record begins (`wc_tail`) and the newest
//! ends (`wc_head`), both as bytes from the start of the log; both zero means that there is none.
//! Each record is a whole number of log blocks, begins with its type and its length, and may wrap
//! around the end of the ring.

use spindle_ondisk::{Endian, Field, structure};

/// "WABL": type of a header.
pub const WAPBL_WC_HEADER: u32 = 0x5741_424c;
/// Type of a list of inodes that have no names any more.
pub const WAPBL_WC_INODES: u32 = WAPBL_WC_HEADER + 1;
/// Type of a list of blocks whose earlier records do not count.
pub const WAPBL_WC_REVOCATIONS: u32 = WAPBL_WC_HEADER + 2;
/// Type of a list of blocks, followed by their contents.
pub const WAPBL_WC_BLOCKS: u32 = WAPBL_WC_HEADER + 3;
/// Version of the format.
pub const WAPBL_VERSION: u32 = 1;

/// log2 of the bytes that block addresses count in (`DEV_BSHIFT`).
pub const DEV_BSHIFT: u32 = 9;
/// Bytes that block addresses count in.
pub const DEV_BSIZE: u64 = 1 << DEV_BSHIFT;

/// Entries of a list are this many bytes from its start.
pub const LIST_ENTRIES: usize = 16;
/// Bytes of an entry in a list of blocks.
pub const BLOCK_ENTRY: usize = 16;
/// Bytes of an entry in a list of inodes.
pub const INODE_ENTRY: usize = 8;

structure! {
    /// A header (`struct wapbl_wc_header`); what follows `wc_circ_size` is spare there and ours
    /// here.
    #[derive(Default)]
    pub struct WcHeader: 228 {
        /// [`WAPBL_WC_HEADER`].
        0 wc_type: u32,
        /// Bytes of the header: a log block.
        4 wc_len: u32,
        /// Not used by NetBSD.
        8 wc_checksum: u32,
        /// Counts up with each header written.
        12 wc_generation: u32,
        /// Not used by NetBSD.
        16 wc_fsid: [u32; 2],
        /// When it was written, seconds.
        24 wc_time: i64,
        /// Nanoseconds.
        32 wc_timensec: u32,
        /// [`WAPBL_VERSION`].
        36 wc_version: u32,
        /// log2 of a log block in bytes.
        40 wc_log_dev_bshift: u32,
        /// log2 of what block addresses count in.
        44 wc_fs_dev_bshift: u32,
        /// Where the newest record ends; 0 if there is none.
        48 wc_head: u64,
        /// Where the oldest record begins; 0 if there is none.
        56 wc_tail: u64,
        /// Where the ring begins.
        64 wc_circ_off: u64,
        /// Bytes of the ring.
        72 wc_circ_size: u64,
        /// [`Stamp::MAGIC`] if the fields below count.
        80 stamp_magic: u32,
        /// Sectors of [`DEV_BSIZE`] in the superblock.
        84 stamp_sectors: u32,
        /// Where this log stands on the device, in bytes: a copy of it stands elsewhere.
        88 stamp_at: u64,
        /// CRC-32C of each sector of the superblock before it was written last.
        96 stamp_before: [u32; SUPERBLOCK_SECTORS],
        /// CRC-32C of each sector of the superblock that was, or was going to be, written last.
        160 stamp_after: [u32; SUPERBLOCK_SECTORS],
        /// CRC-32C of the bytes of this header up to here: another system that writes the header
        /// leaves it wrong.
        224 stamp_hash: u32,
    }
}

/// Sectors of [`DEV_BSIZE`] in the largest superblock (`SBLOCKSIZE`).
pub const SUPERBLOCK_SECTORS: usize = 16;

/// The identity of a superblock: the CRC-32C of each of its sectors of [`DEV_BSIZE`], the last one
/// filled up with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    sectors: u32,
    sums: [u32; SUPERBLOCK_SECTORS],
}

impl Identity {
    /// Returns the identity of a superblock of at most [`SUPERBLOCK_SECTORS`].
    #[must_use]
    pub fn of(superblock: &[u8]) -> Self {
        const SECTOR: usize = 1 << DEV_BSHIFT;
        let mut sums = [0; SUPERBLOCK_SECTORS];
        let mut sectors = 0;
        for (sum, bytes) in sums.iter_mut().zip(superblock.chunks(SECTOR)) {
            let zeros = [0; SECTOR];
            *sum = crc32c::crc32c_append(crc32c::crc32c(bytes), &zeros[bytes.len()..]);
            sectors += 1;
        }
        Self { sectors, sums }
    }
}

/// The link between a log and its superblock: the two states that our last write of it can have
/// left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Before the superblock was written last.
    pub before: Identity,
    /// After that.
    pub after: Identity,
}

/// The state of a superblock as its log sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockState {
    /// As we have written it.
    Ours,
    /// Some sectors as we were going to write them last, and the others as before.
    Torn,
    /// Written by another system since: nothing in the log holds any more.
    Foreign,
}

impl Stamp {
    /// The letters `SpS2`.
    pub const MAGIC: u32 = 0x5370_5332;

    /// Returns what the superblock that is found is to this log. A write of ours that was cut
    /// short, or never reached the device, leaves each sector as it was before or as it was to be.
    /// Anything else was written by another system, whatever time it says: NetBSD does not set the
    /// time with each write.
    #[must_use]
    pub fn state_of(&self, found: Identity) -> SuperblockState {
        let Self { before, after } = self;
        if found == *after {
            return SuperblockState::Ours;
        }
        let same_size = found.sectors == before.sectors && found.sectors == after.sectors;
        let ours = found.sums.iter().zip(before.sums.iter().zip(&after.sums));
        if same_size && ours.clone().all(|(sum, (before, after))| sum == before || sum == after) {
            SuperblockState::Torn
        } else {
            SuperblockState::Foreign
        }
    }
}

impl WcHeader {
    /// Enters the stamp of a log that stands at `at`, after everything else.
    pub fn set_stamp(&mut self, at: u64, stamp: &Stamp) {
        self.stamp_magic = Stamp::MAGIC;
        self.stamp_sectors = stamp.after.sectors;
        self.stamp_at = at;
        self.stamp_before = stamp.before.sums;
        self.stamp_after = stamp.after.sums;
        self.stamp_hash = self.hash();
    }

    /// Returns the stamp of a log that stands at `at`, if we have written it.
    #[must_use]
    pub fn stamp(&self, at: u64) -> Option<Stamp> {
        let identity = |sums| Identity { sectors: self.stamp_sectors, sums };
        let ours = self.stamp_magic == Stamp::MAGIC && self.stamp_at == at && self.stamp_hash == self.hash();
        ours.then(|| Stamp { before: identity(self.stamp_before), after: identity(self.stamp_after) })
    }

    /// Returns the CRC-32C of all fields before it.
    fn hash(&self) -> u32 {
        let mut bytes = [0; Self::SIZE];
        self.encode(&mut bytes, Endian::Little);
        crc32c::crc32c(&bytes[..224])
    }
}

/// Decodes a header in whichever byte order makes it one.
#[must_use]
pub fn header_at(block: &[u8]) -> Option<(WcHeader, Endian)> {
    [Endian::Little, Endian::Big]
        .into_iter()
        .map(|endian| (WcHeader::decode(block, endian), endian))
        .find(|(header, _)| header.wc_type == WAPBL_WC_HEADER)
}

/// Returns a list of blocks or inodes in one log block, without what may follow it.
#[must_use]
pub fn list_block(kind: u32, total_bytes: usize, words: [u32; 2], block: usize, endian: Endian) -> Vec<u8> {
    let mut bytes = vec![0; block];
    kind.put(&mut bytes, endian);
    u32::try_from(total_bytes).unwrap_or(u32::MAX).put(&mut bytes[4..], endian);
    words[0].put(&mut bytes[8..], endian);
    words[1].put(&mut bytes[12..], endian);
    bytes
}
