//! Writing a log: commits, and giving up what has gone home.
//!
//! Two barriers per commit and no others: before the header, so that it never tells of what is not there, and after it, so
//! that the commit is durable. Space is used again only once a durable header has given it up.

use super::format::{
    BLOCK_ENTRY, DEV_BSHIFT, DEV_BSIZE, INODE_ENTRY, Identity, LIST_ENTRIES, Stamp, WAPBL_VERSION,
    WAPBL_WC_BLOCKS, WAPBL_WC_HEADER, WAPBL_WC_INODES, WAPBL_WC_REVOCATIONS, WcHeader, list_block,
};
use super::replay::Replay;
use super::ring::Ring;
use crate::units::index;
use spindle_cache::{Change, Group, Log};
use spindle_clock::{Clock, Mutex};
use spindle_device::{Device, Error, Result};
use spindle_ondisk::{Endian, Field};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A log that is written to.
pub(crate) struct Wapbl {
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    ring: Ring,
    endian: Endian,
    state: Mutex<State>,
    /// Inodes in use that have no names, with their modes, as of the group that is being committed.
    nameless: Mutex<BTreeMap<u32, u16>>,
}

struct State {
    /// Number of the next header.
    generation: u32,
    /// Where the next record begins.
    head: u64,
    /// Bytes before that which still count.
    used: u64,
    /// Bytes before that which count for the header on the device: they are not written over.
    held: u64,
    /// Bytes of the last list of inodes, which ends at the head; 0 if nothing is on it.
    list: u64,
    stamp: Stamp,
}

impl Wapbl {
    /// A new, empty log, durable when this returns.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn create(
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        ring: Ring,
        endian: Endian,
        superblock: Identity,
    ) -> Result<Self> {
        let stamp = Stamp { before: superblock, after: superblock };
        let state = State { generation: 0, head: ring.circ_off, used: 0, held: 0, list: 0, stamp };
        let log = Self { device, clock, ring, endian, state: Mutex::new(state), nameless: Mutex::default() };
        // Whatever stood there before, both places now hold headers of this log.
        for _ in 0..2 {
            log.write_header(&mut log.state.lock())?;
        }
        Ok(log)
    }

    /// Goes on with a log whose changes, if any count, are home and durable, from the first [`Self::restamp`] on. `inodes` are
    /// those in use without names.
    pub(crate) fn resume(
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        replay: &Replay,
        inodes: BTreeMap<u32, u16>,
        superblock: Identity,
    ) -> Self {
        let (ring, header) = (replay.ring, &replay.header);
        let state = State {
            generation: header.wc_generation.wrapping_add(1),
            head: ring.advance(header.wc_head, 0),
            used: 0,
            held: ring.used(header.wc_head, header.wc_tail),
            list: 0,
            stamp: Stamp { before: superblock, after: superblock },
        };
        let (state, nameless) = (Mutex::new(state), Mutex::new(inodes));
        Self { device, clock, ring, endian: replay.endian, state, nameless }
    }

    /// Where it is.
    pub(crate) const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Says which inodes in use have no names, as the group that is committed next leaves them.
    pub(crate) fn set_nameless(&self, inodes: BTreeMap<u32, u16>) {
        *self.nameless.lock() = inodes;
    }

    /// Notes durably that the superblock is going to be written.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn restamp(&self, stamp: Stamp) -> Result<()> {
        let mut state = self.state.lock();
        state.stamp = stamp;
        if state.list == 0 && !self.nameless.lock().is_empty() {
            self.append(&mut state, &Group::default())
        } else {
            self.write_header(&mut state)
        }
    }

    /// Writes the header, and makes it durable.
    fn write_header(&self, state: &mut State) -> Result<()> {
        let now = self.clock.now();
        let header = WcHeader {
            wc_type: WAPBL_WC_HEADER,
            wc_len: u32::try_from(self.ring.block).unwrap_or(u32::MAX),
            wc_generation: state.generation,
            wc_time: now.secs,
            wc_timensec: now.nanos,
            wc_version: WAPBL_VERSION,
            wc_log_dev_bshift: self.ring.block.trailing_zeros(),
            wc_fs_dev_bshift: DEV_BSHIFT,
            wc_head: if state.used == 0 { 0 } else { state.head },
            wc_tail: if state.used == 0 { 0 } else { self.ring.back(state.head, state.used) },
            wc_circ_off: self.ring.circ_off,
            wc_circ_size: self.ring.circ_size,
            stamp_magic: Stamp::MAGIC,
            stamp_at: self.ring.at,
            before_time: state.stamp.before.time,
            before_hash: state.stamp.before.hash,
            after_time: state.stamp.after.time,
            after_hash: state.stamp.after.hash,
            ..WcHeader::default()
        };
        let mut block = vec![0; index(self.ring.block)];
        header.encode(&mut block, self.endian);
        let place = u64::from(state.generation % 2) * self.ring.block;
        self.device.write_at(self.ring.at + place, &block)?;
        self.device.flush()?;
        state.generation = state.generation.wrapping_add(1);
        state.held = state.used;
        Ok(())
    }

    /// Appends the records of a group and makes them count.
    fn append(&self, state: &mut State, group: &Group) -> Result<()> {
        let mut records = Records::new(self.ring.block, self.endian);
        records.revocations(&group.revoked);
        records.blocks(&group.changes);
        let before_list = records.bytes.len() as u64;
        let nameless = self.nameless.lock().clone();
        if !nameless.is_empty() || state.list > 0 {
            records.inodes(&nameless);
        }
        let need = records.bytes.len() as u64;
        // Room for the list is kept, so that it can be written again before all else is given up.
        let most = self.ring.circ_size - self.list_bytes(nameless.len());
        if state.held + need > most {
            if state.used + need > most {
                let size = self.ring.circ_size;
                let what = std::io::Error::other(format!("{need} bytes at once in a log of {size}"));
                return Err(Error::io(&self.device.info().name, "logging", what));
            }
            self.write_header(state)?;
        }
        self.ring.write(&*self.device, state.head, &records.bytes)?;
        self.device.flush()?;
        state.head = self.ring.advance(state.head, need);
        state.used += need;
        state.list = if nameless.is_empty() { 0 } else { need - before_list };
        self.write_header(state)
    }

    /// Bytes of a list of `inodes`.
    fn list_bytes(&self, inodes: usize) -> u64 {
        self.lists(inodes, INODE_ENTRY)
    }

    /// Bytes of the blocks that `count` entries of `size` bytes take.
    fn lists(&self, count: usize, size: usize) -> u64 {
        let most = (index(self.ring.block) - LIST_ENTRIES) / size;
        count.div_ceil(most).max(1) as u64 * self.ring.block
    }

    /// The most that the records of a group can take, in bytes, with the room that is kept for the list of inodes.
    fn bytes_of(&self, group: &Group) -> u64 {
        let content: u64 = group.changes.iter().map(|change| change.bytes.len() as u64).sum();
        // What a record has too little to fill its last block is less than a block.
        content
            + 2 * self.lists(group.changes.len(), BLOCK_ENTRY)
            + self.lists(group.revoked.len(), BLOCK_ENTRY)
            + 2 * self.list_bytes(self.nameless.lock().len())
    }
}

impl Log for Wapbl {
    fn group_bytes(&self) -> usize {
        index(self.ring.circ_size / 4)
    }

    fn has_room(&self, group: &Group) -> bool {
        self.bytes_of(group) <= self.ring.circ_size - self.state.lock().used
    }

    fn commit(&self, group: &Group) -> Result<()> {
        self.append(&mut self.state.lock(), group)
    }

    fn wants_trim(&self) -> bool {
        self.state.lock().used > self.ring.circ_size / 2
    }

    fn trim(&self) {
        let mut state = self.state.lock();
        state.used = state.list;
    }
}

/// Records being put together.
struct Records {
    bytes: Vec<u8>,
    block: usize,
    endian: Endian,
}

impl Records {
    fn new(block: u64, endian: Endian) -> Self {
        Self { bytes: Vec::new(), block: index(block), endian }
    }

    /// Starts a record of one block and gives the place of its entries.
    fn start(&mut self, kind: u32, total: usize, words: [u32; 2]) -> usize {
        let at = self.bytes.len();
        self.bytes.extend(list_block(kind, total, words, self.block, self.endian));
        at + LIST_ENTRIES
    }

    fn block_entry(&mut self, at: usize, address: u64, bytes: u64) {
        (address / DEV_BSIZE).put(&mut self.bytes[at..], self.endian);
        u32::try_from(bytes).unwrap_or(u32::MAX).put(&mut self.bytes[at + 12..], self.endian);
    }

    fn most(&self, entry: usize) -> usize {
        (self.block - LIST_ENTRIES) / entry
    }

    fn revocations(&mut self, ranges: &[Range<u64>]) {
        for some in ranges.chunks(self.most(BLOCK_ENTRY)) {
            let at = self.start(WAPBL_WC_REVOCATIONS, self.block, [count(some.len()), 0]);
            for (n, range) in some.iter().enumerate() {
                self.block_entry(at + n * BLOCK_ENTRY, range.start, range.end - range.start);
            }
        }
    }

    fn blocks(&mut self, changes: &[Change]) {
        for some in changes.chunks(self.most(BLOCK_ENTRY)) {
            let content: usize = some.iter().map(|change| change.bytes.len()).sum();
            let total = self.block + content.next_multiple_of(self.block);
            let record = self.bytes.len();
            let at = self.start(WAPBL_WC_BLOCKS, total, [count(some.len()), 0]);
            for (n, change) in some.iter().enumerate() {
                self.block_entry(at + n * BLOCK_ENTRY, change.at, change.bytes.len() as u64);
            }
            for change in some {
                self.bytes.extend_from_slice(&change.bytes);
            }
            self.bytes.resize(record + total, 0);
        }
    }

    fn inodes(&mut self, inodes: &BTreeMap<u32, u16>) {
        let all: Vec<_> = inodes.iter().collect();
        let most = self.most(INODE_ENTRY);
        // Without any, the list takes back the one before it.
        for start in (0..all.len().max(1)).step_by(most) {
            let some = &all[start..(start + most).min(all.len())];
            let clear = u32::from(start == 0);
            let at = self.start(WAPBL_WC_INODES, self.block, [count(some.len()), clear]);
            for (n, &(&ino, &mode)) in some.iter().enumerate() {
                let entry = at + n * INODE_ENTRY;
                ino.put(&mut self.bytes[entry..], self.endian);
                u32::from(mode).put(&mut self.bytes[entry + 4..], self.endian);
            }
        }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
