//! Writing a log: commits, and giving up what was checkpointed.
//!
//! Two barriers per commit and no others: before the header, so that it never covers records that
//! are not there, and after it, so that the commit is durable. Space is used again only once a
//! durable header has given it up.
//!
//! The list of orphans is a record of its own. A commit adds to it what the epoch has orphaned; it
//! is written anew as a whole only when a checkpoint is going to give up the record that has it, or
//! when too much of it is out of date. Until then a replay finds inodes on it that are free again
//! or have a name, which is harmless here; NetBSD insists on an exact list.

use super::format::{
    BLOCK_ENTRY, DEV_BSHIFT, DEV_BSIZE, INODE_ENTRY, Identity, LIST_ENTRIES, Stamp, WAPBL_VERSION,
    WAPBL_WC_BLOCKS, WAPBL_WC_HEADER, WAPBL_WC_INODES, WAPBL_WC_REVOCATIONS, WcHeader, list_block,
};
use super::replay::Replay;
use super::ring::Ring;
use crate::format::units::index;
use spindle_cache::{Change, Changes, Log};
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
    /// True if the system that may replay it wants the list of orphans to be exact (NetBSD).
    exact_orphans: bool,
    state: Mutex<State>,
}

/// Changes of the orphans since the last commit.
#[derive(Debug, Default)]
pub(crate) struct OrphanChanges {
    /// New ones, with their modes.
    pub(crate) added: BTreeMap<u32, u16>,
    /// Those that are none any more, and were when the last commit was made; before the new ones
    /// came.
    pub(crate) removed: Vec<u32>,
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
    orphans: Orphans,
    stamp: Stamp,
}

/// The list of orphans.
#[derive(Default)]
struct Orphans {
    /// All of them, with their modes.
    all: BTreeMap<u32, u16>,
    /// Those that no record lists yet.
    unlisted: BTreeMap<u32, u16>,
    /// Number of listed inodes that are not orphans any more.
    stale: usize,
    /// Bytes of the record of all of them, if it is the last one before the head; 0 if it is not.
    last: u64,
    /// A checkpoint waits for the list to be written anew: nothing else before the head counts.
    relist: bool,
}

impl Orphans {
    /// Returns true if the next commit has to write the whole list: a short one, of no more than
    /// `few`, whenever it is out of date; a longer one when most of it is, so that listing costs
    /// each orphan a constant.
    fn is_due(&self, exact: bool, few: usize) -> bool {
        let tolerable = if exact || self.all.len() <= few { 0 } else { self.all.len() };
        self.relist || self.stale > tolerable
    }

    /// Returns true if replaying needs a list.
    fn is_needed(&self) -> bool {
        !self.all.is_empty()
    }
}

impl Wapbl {
    /// Returns a new, empty log, durable when this returns.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn create(
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        ring: Ring,
        endian: Endian,
        exact_orphans: bool,
        superblock: Identity,
    ) -> Result<Self> {
        let stamp = Stamp { before: superblock, after: superblock };
        let state = State {
            generation: 0,
            head: ring.circ_off,
            used: 0,
            held: 0,
            orphans: Orphans::default(),
            stamp,
        };
        let log = Self { device, clock, ring, endian, exact_orphans, state: Mutex::new(state) };
        // Whatever stood there before, both places now hold headers of this log.
        for _ in 0..2 {
            log.write_header(&mut log.state.lock())?;
        }
        Ok(log)
    }

    /// Goes on with a log whose changes, if any count, are in their places and durable, from the
    /// first [`Self::restamp`] on. `orphans` are the inodes without names that are in use.
    pub(crate) fn resume(
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        replay: &Replay,
        orphans: BTreeMap<u32, u16>,
        exact_orphans: bool,
        superblock: Identity,
    ) -> Self {
        let (ring, header) = (replay.ring, &replay.header);
        let relist = !orphans.is_empty();
        let state = State {
            generation: header.wc_generation.wrapping_add(1),
            head: ring.advance(header.wc_head, 0),
            used: 0,
            held: ring.used(header.wc_head, header.wc_tail),
            orphans: Orphans { all: orphans, relist, ..Orphans::default() },
            stamp: Stamp { before: superblock, after: superblock },
        };
        Self { device, clock, ring, endian: replay.endian, exact_orphans, state: Mutex::new(state) }
    }

    /// Returns where it is.
    pub(crate) const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the bytes of the largest list of orphans: a share of the ring that is always kept
    /// free for one.
    fn list_room(&self) -> u64 {
        (self.ring.circ_size / 8 / self.ring.block).max(2) * self.ring.block
    }

    /// Returns the most orphans that it can list, but for a few that several threads make at once.
    pub(crate) fn most_orphans(&self) -> usize {
        (index(self.list_room() / self.ring.block) - 1) * self.entries(INODE_ENTRY)
    }

    /// Returns true if a log of `bytes`, in blocks of `block`, can take operations that change so
    /// many of these.
    pub(crate) fn is_enough(bytes: u64, block: u64, sectors: usize) -> bool {
        limit_bytes(&Ring::new(0, bytes, block)) >= sectors * index(block)
    }

    /// Returns the bytes of the smallest log that is enough, in blocks of `block`.
    pub(crate) fn least_bytes(block: u64, sectors: usize) -> u64 {
        let mut bytes = block;
        while !Self::is_enough(bytes, block, sectors) {
            bytes += block;
        }
        bytes
    }

    /// Notes how the orphans have changed, as the epoch that is committed next leaves them.
    pub(crate) fn note_orphans(&self, changes: OrphanChanges) {
        let orphans = &mut self.state.lock().orphans;
        for ino in changes.removed {
            orphans.all.remove(&ino);
            if orphans.unlisted.remove(&ino).is_none() {
                orphans.stale += 1;
            }
        }
        // A number that was freed may have been given to another file, which is an orphan by now.
        orphans.all.extend(&changes.added);
        orphans.unlisted.extend(changes.added);
    }

    /// Notes what the superblock is that the epoch has which is committed next, where it is logged.
    pub(crate) fn note_superblock(&self, identity: Identity) {
        self.state.lock().stamp.after = identity;
    }

    /// Notes that the superblock is on the device as the last stamp says.
    pub(crate) fn superblock_written(&self) {
        let stamp = &mut self.state.lock().stamp;
        stamp.before = stamp.after;
    }

    /// Notes durably that the superblock is going to be written.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn restamp(&self, stamp: Stamp) -> Result<()> {
        let mut state = self.state.lock();
        state.stamp = stamp;
        if state.orphans.relist {
            self.append(&mut state, &Changes::default())
        } else {
            self.write_header(&mut state)
        }
    }

    /// Writes the header, and makes it durable.
    fn write_header(&self, state: &mut State) -> Result<()> {
        let now = self.clock.now();
        let mut header = WcHeader {
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
            ..WcHeader::default()
        };
        header.set_stamp(self.ring.at, &state.stamp);
        let mut block = vec![0; index(self.ring.block)];
        header.encode(&mut block, self.endian);
        let place = u64::from(state.generation % 2) * self.ring.block;
        self.device.write_at(self.ring.at + place, &block)?;
        self.device.flush()?;
        state.generation = state.generation.wrapping_add(1);
        state.held = state.used;
        Ok(())
    }

    /// Appends the records of an epoch and makes them count.
    fn append(&self, state: &mut State, changes: &Changes) -> Result<()> {
        let most = self.ring.circ_size - self.list_room();
        let mut records = self.records(state, changes);
        if state.held + records.bytes() > most {
            let bytes = records.bytes();
            if self.kept(state) + bytes > most {
                let size = self.ring.circ_size;
                let what = std::io::Error::other(format!("{bytes} bytes at once in a log of {size}"));
                return Err(Error::io(&self.device.info().name, "logging", what));
            }
            if state.orphans.relist {
                // The list alone fits in any case.
                let list = self.records(state, &Changes::default());
                self.write_records(state, &list)?;
            } else {
                self.write_header(state)?;
            }
            records = self.records(state, changes);
        }
        self.write_records(state, &records)
    }

    /// Returns the records of an epoch, with what has to be listed of the orphans.
    fn records(&self, state: &State, changes: &Changes) -> Composed {
        let orphans = &state.orphans;
        let mut records = Records::new(self.ring.block, self.endian);
        records.revocations(&changes.revoked);
        records.blocks(&changes.changed);
        let before = records.bytes.len() as u64;
        let whole = orphans.is_due(self.exact_orphans, self.entries(INODE_ENTRY));
        if whole {
            records.inodes(&orphans.all, true);
        } else if !orphans.unlisted.is_empty() {
            records.inodes(&orphans.unlisted, false);
        }
        let list = records.bytes.len() as u64 - before;
        Composed { bytes: records.bytes, list, whole }
    }

    /// Writes records behind the others, and then the header.
    fn write_records(&self, state: &mut State, records: &Composed) -> Result<()> {
        let Composed { bytes, list, whole } = records;
        let need = bytes.len() as u64;
        self.ring.write(&*self.device, state.head, bytes)?;
        self.device.flush()?;
        state.head = self.ring.advance(state.head, need);
        state.used = if state.orphans.relist { need } else { state.used + need };
        let orphans = &mut state.orphans;
        orphans.last = if *whole { *list } else { 0 };
        if *whole {
            (orphans.stale, orphans.relist) = (0, false);
        }
        orphans.unlisted.clear();
        self.write_header(state)
    }

    /// Returns the bytes that still count once a checkpoint has its way.
    fn kept(&self, state: &State) -> u64 {
        if state.orphans.relist { self.list_bytes(state.orphans.all.len()) } else { state.used }
    }

    /// Returns the entries of `size` bytes in a block of a list.
    fn entries(&self, size: usize) -> usize {
        (index(self.ring.block) - LIST_ENTRIES) / size
    }

    /// Returns the bytes of a list of `inodes`.
    fn list_bytes(&self, inodes: usize) -> u64 {
        self.lists(inodes, INODE_ENTRY)
    }

    /// Returns the bytes of the blocks that `count` entries of `size` bytes take.
    fn lists(&self, count: usize, size: usize) -> u64 {
        count.div_ceil(self.entries(size)).max(1) as u64 * self.ring.block
    }

    /// Returns the most that the records of an epoch can take, in bytes.
    fn bytes_of(&self, changes: &Changes) -> u64 {
        let content: u64 = changes.changed.iter().map(|change| change.bytes.len() as u64).sum();
        // What a record has too little to fill its last block is less than a block.
        content
            + 2 * self.lists(changes.changed.len(), BLOCK_ENTRY)
            + self.lists(changes.revoked.len(), BLOCK_ENTRY)
            + self.list_bytes(self.state.lock().orphans.all.len())
    }
}

impl Log for Wapbl {
    fn commit_bytes(&self) -> usize {
        self.limit_bytes() / 2
    }

    fn limit_bytes(&self) -> usize {
        limit_bytes(&self.ring)
    }

    fn has_room(&self, changes: &Changes) -> bool {
        let need = self.bytes_of(changes);
        need <= self.ring.circ_size - self.list_room() - self.kept(&self.state.lock())
    }

    fn commit(&self, changes: &Changes) -> Result<()> {
        self.append(&mut self.state.lock(), changes)
    }

    fn wants_checkpoint(&self) -> bool {
        let state = self.state.lock();
        !state.orphans.relist && state.used > self.ring.circ_size / 2
    }

    fn checkpointed(&self) {
        let mut state = self.state.lock();
        // Where the superblock is logged, it is in its place now, too.
        state.stamp.before = state.stamp.after;
        let State { orphans, used, .. } = &mut *state;
        if !orphans.is_needed() || orphans.last > 0 {
            *used = if orphans.is_needed() { orphans.last } else { 0 };
            orphans.stale = if orphans.is_needed() { orphans.stale } else { 0 };
        } else {
            orphans.relist = true;
        }
    }
}

/// Returns the most bytes of changes that an epoch may have in a log with this ring.
///
/// Three lists of orphans may be there: the one that counts, the one that the epoch writes, and
/// room for one more. Of the rest each sector may be a change of its own, with its entry in a list,
/// and each list has a last block that is not full.
fn limit_bytes(ring: &Ring) -> usize {
    let rest = index(ring.circ_size / 8 * 5);
    let entries = (index(ring.block) - LIST_ENTRIES) / BLOCK_ENTRY;
    (rest / (entries + 2) * entries).saturating_sub(3 * index(ring.block))
}

/// Records that are ready to be written.
struct Composed {
    bytes: Vec<u8>,
    /// Bytes of the list of orphans at their end.
    list: u64,
    /// The list is of all orphans.
    whole: bool,
}

impl Composed {
    const fn bytes(&self) -> u64 {
        self.bytes.len() as u64
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

    /// Adds a list of inodes; with `whole` it takes the place of all lists before it.
    fn inodes(&mut self, inodes: &BTreeMap<u32, u16>, whole: bool) {
        let all: Vec<_> = inodes.iter().collect();
        let most = self.most(INODE_ENTRY);
        // Without any, the list takes back the one before it.
        for start in (0..all.len().max(1)).step_by(most) {
            let some = &all[start..(start + most).min(all.len())];
            let clear = u32::from(whole && start == 0);
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
