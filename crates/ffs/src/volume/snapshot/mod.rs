//! Snapshots: files that hold the file system as it was.
//!
//! Block `n` of a snapshot is block `n` of the file system at the time of the snapshot. A block has
//! a copy in the snapshot once the file system has changed it; until then, the pointer is 0 and the
//! block is read where it is. Two marks stand for blocks of zeros: what was free ([`NOT_COPIED`]),
//! and what belonged to another snapshot ([`OF_A_SNAPSHOT`]). Behind the last block of the file
//! system stands a list of the blocks that were copied when the snapshot was made, for the kernel.
//!
//! The one rule: **what a block held is preserved before the block changes on the device.**
//! - *Metadata* is changed through [`Volume::change`], which gives each snapshot whose pointer is 0
//!   a copy first, a new buffer, which a commit writes before the log says anything.
//! - *File data* goes to its place before a commit, so a block that a snapshot needs is never
//!   overwritten: the file gets another one ([`Volume::must_move`]).
//! - *A whole block that is freed* becomes the snapshot's own ([`Volume::unclaimed`]): its pointer
//!   is then the number of the block itself. Fragments have their block copied before they are.
//!
//! Invariant: where a pointer is 0, the device has what the snapshot holds. That is so when it is
//! made, because everything is checkpointed then, and everything that would end it comes here.
//! Copies and pointers stay when a transaction is rolled back: they are right at any time.
//!
//! What is never preserved, because a snapshot has it from the beginning: the superblock, the
//! summaries, the groups, and the inodes of snapshots; and the blocks of snapshots themselves,
//! which are free in the view of each snapshot. Where they belonged to it when it was made, the
//! BSDs leave the pointer 0; what is read there then changes, and no file of the view has it.
//!
//! The pointers of a snapshot change in transactions that do not hold its inode, so they are kept
//! here, and [`Volume::store`] puts them into the inode; what the inode in memory says of them does
//! not count.
//!
//! Source: FreeBSD `sys/ufs/ffs/ffs_snapshot.c` and `ufs_bmaparray` in `sys/ufs/ufs/ufs_bmap.c`.

mod make;
mod open;
mod remove;

use super::Volume;
use super::bmap::{Run, Slot};
use super::tx::{MapSector, Tx};
use crate::format::dinode::Dinode;
use crate::format::ondisk::{NDADDR, NIADDR, SF_SNAPSHOT, SNAPSHOT_MARKS};
use crate::format::units::{Frag, Lbn, index};
use spindle_cache::{Buffer, BufferMut, Epoch};
use spindle_clock::{Mutex, MutexGuard, RmLock, RmLockReadGuard, RwLock, RwLockReadGuard};
use spindle_device::AlignedBuf;
use spindle_vfs::{Error, Privilege, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use make::Needed;

/// The mark of a block that was free (`BLK_NOCOPY`).
pub(super) const NOT_COPIED: u8 = 1;
/// The mark of a block that belonged to an older snapshot (`BLK_SNAP`).
pub(super) const OF_A_SNAPSHOT: u8 = 2;

/// Sectors of the log that a copy for one snapshot may need: of a group, the summaries, the
/// pointer and the inode.
const COPY_SECTORS: usize = 10;
/// Sectors of the log that a claim of a freed block may need: the pointer, and the inode.
const CLAIM_SECTORS: usize = 2;
/// Sectors of the log that an operation may need for each snapshot: 16 blocks of metadata change or
/// are freed at the most.
pub(crate) const SNAPSHOT_SECTORS: usize = 16 * COPY_SECTORS;
/// Blocks of metadata that change when a file gets one more block.
const BLOCK_COPIES: usize = 5;

/// The snapshots of a volume that is written to.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// How many there are that changes are preserved for.
    live: AtomicUsize,
    state: Mutex<State>,
    /// Held shared by each transaction, exclusively while a snapshot is taken.
    changes: RmLock<()>,
    /// Held shared by who has to rely on it through several transactions that no snapshot is taken;
    /// before [`Self::changes`].
    long: RwLock<()>,
}

#[derive(Default)]
struct State {
    /// Those that changes are preserved for, the oldest first.
    live: Vec<Pointers>,
    /// Those that are being made or removed: nothing is preserved for them.
    apart: Vec<Pointers>,
    /// A bit for each block of the file system that no snapshot needs any more.
    settled: Vec<u64>,
    /// Copies that may not be durable, with their epochs.
    fresh: HashMap<u64, Epoch>,
    /// The blocks of the inodes of all snapshots have been preserved.
    inodes_settled: bool,
    /// Where the next copy should go.
    wanted: Option<Frag>,
}

/// What an inode says of the space of a snapshot.
#[derive(Clone)]
struct Pointers {
    ino: u32,
    blocks: u64,
    db: [u64; NDADDR],
    ib: [u64; NIADDR],
}

impl Pointers {
    fn of(ino: u32, di: &Dinode) -> Self {
        Self { ino, blocks: di.blocks, db: di.db, ib: di.ib }
    }

    fn put(&self, di: &mut Dinode) {
        (di.blocks, di.db, di.ib) = (self.blocks, self.db, self.ib);
    }
}

impl State {
    fn is_settled(&self, block: u64) -> bool {
        self.settled.get(index(block / 64)).is_some_and(|word| word >> (block % 64) & 1 != 0)
    }

    fn settle(&mut self, block: u64) {
        let word = index(block / 64);
        if self.settled.len() <= word {
            self.settled.resize(word + 1, 0);
        }
        self.settled[word] |= 1 << (block % 64);
    }

    fn pointers_of(&self, ino: u32) -> Option<&Pointers> {
        self.live.iter().chain(&self.apart).find(|pointers| pointers.ino == ino)
    }
}

impl Snapshots {
    /// Returns the number of snapshots that changes are preserved for.
    pub(crate) fn count(&self) -> usize {
        self.live.load(Ordering::Acquire)
    }

    /// Keeps snapshots from being taken, until the result is dropped, during a change that takes
    /// several transactions. The caller has none open.
    pub(crate) fn keep_off(&self) -> RwLockReadGuard<'_, ()> {
        self.long.read()
    }

    /// Keeps them from being taken during a transaction.
    pub(super) fn enter(&self) -> RmLockReadGuard<'_, ()> {
        self.changes.read()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Notes how many there are now.
    fn counted(&self, state: &mut State) {
        if state.live.is_empty() {
            (state.settled, state.fresh) = (Vec::new(), HashMap::new());
        }
        self.live.store(state.live.len(), Ordering::Release);
    }
}

impl Volume {
    /// Returns true if a file is read as a snapshot.
    pub(super) fn is_snapshot(&self, ino: u32, di: &Dinode) -> bool {
        di.is_snapshot() && (self.is_read_only() || self.snapshots.lock().pointers_of(ino).is_some())
    }

    /// Returns the inode of a snapshot with its pointers as they are now; other inodes as they are.
    pub(crate) fn with_pointers(&self, ino: u32, di: &Dinode) -> Dinode {
        let mut di = di.clone();
        if di.flags & SF_SNAPSHOT != 0
            && let Some(pointers) = self.snapshots.lock().pointers_of(ino)
        {
            pointers.put(&mut di);
        }
        di
    }

    /// Returns the units of 512 bytes that a file holds.
    pub(crate) fn blocks_counted(&self, ino: u32, di: &Dinode) -> u64 {
        if di.flags & SF_SNAPSHOT == 0 {
            return di.blocks;
        }
        self.snapshots.lock().pointers_of(ino).map_or(di.blocks, |pointers| pointers.blocks)
    }

    /// Returns the run at the start of an array of at least `most` pointers of a snapshot, the
    /// first of them that of block `lbn`.
    pub(super) fn run_of_snapshot(
        &self,
        ino: u32,
        lbn: Lbn,
        most: u64,
        pointer: impl Fn(u64) -> u64,
    ) -> Result<Run> {
        let place = |i: u64| match pointer(i) {
            0 => Ok(self.not_copied(lbn + i, 1).at),
            raw if SNAPSHOT_MARKS.contains(&raw) => Ok(None),
            raw => self.pointer(raw, self.layout.fs_frag, ino),
        };
        let at = place(0)?;
        let mut blocks = 1;
        while blocks < most && place(blocks)? == at.map(|at| at + blocks * u64::from(self.layout.fs_frag)) {
            blocks += 1;
        }
        Ok(Run { at, blocks })
    }

    /// Returns the run of at most `most` blocks from `lbn` on that a snapshot has not copied: where
    /// they are on the device. Behind the last whole block of the file system it is a hole.
    pub(super) fn not_copied(&self, lbn: Lbn, most: u64) -> Run {
        match (self.layout.fs_size / u64::from(self.layout.fs_frag)).checked_sub(lbn.0) {
            None | Some(0) => Run { at: None, blocks: most },
            Some(left) => {
                Run { at: Some(Frag(lbn.0 * u64::from(self.layout.fs_frag))), blocks: left.min(most) }
            }
        }
    }

    /// Returns block `lbn` of a snapshot that changes are preserved for; none for other files. What
    /// stands there cannot change meanwhile.
    pub(crate) fn read_snapshot(&self, ino: u32, lbn: Lbn) -> Result<Option<Vec<u8>>> {
        if self.snapshots.count() == 0 {
            return Ok(None);
        }
        let state = self.snapshots.lock();
        let Some(pointers) = state.live.iter().find(|pointers| pointers.ino == ino) else { return Ok(None) };
        let pointer = self.slot_pointer(pointers, self.slot(pointers, lbn)?)?;
        let bytes = match pointer {
            0 => self.read_original(lbn.0)?.to_vec(),
            mark if SNAPSHOT_MARKS.contains(&mark) => vec![0; self.layout.fs_bsize as usize],
            _ => match self.pointer(pointer, self.layout.fs_frag, ino)? {
                Some(at) => self.indirect(at)?.read().to_vec(),
                None => vec![0; self.layout.fs_bsize as usize],
            },
        };
        Ok(Some(bytes))
    }

    /// Returns the number of a block of the file system, of which `at` is a fragment.
    pub(crate) fn block_of(&self, at: Frag) -> u64 {
        at.0 / u64::from(self.layout.fs_frag)
    }

    /// Returns the number of blocks that a snapshot of this file system has.
    pub(crate) fn snapshot_blocks(&self) -> u64 {
        self.layout.fs_size.div_ceil(self.layout.fs_frag.into())
    }

    /// Reads a block of the file system from the device; what lies behind the end is zero.
    fn read_original(&self, block: u64) -> Result<AlignedBuf> {
        let first = block * u64::from(self.layout.fs_frag);
        let frags = u64::from(self.layout.fs_frag).min(self.layout.fs_size.saturating_sub(first));
        let mut bytes = AlignedBuf::zeroed(self.layout.fs_bsize as usize);
        let there = index(frags << self.layout.fs_fshift);
        self.cache.read_unbuffered(self.layout.byte(Frag(first)), &mut bytes[..there])?;
        Ok(bytes)
    }

    fn slot(&self, pointers: &Pointers, lbn: Lbn) -> Result<Slot> {
        self.slot_of(pointers.ino, &pointers.ib, lbn)
    }

    fn slot_pointer(&self, pointers: &Pointers, slot: Slot) -> Result<u64> {
        match slot {
            Slot::Inode(n) => Ok(pointers.db[n]),
            Slot::Indirect(block, n) => Ok(self.get_pointer(&self.indirect(block)?.read(), n)),
        }
    }

    fn needs(&self, pointers: &Pointers, block: u64) -> Result<bool> {
        Ok(self.slot_pointer(pointers, self.slot(pointers, Lbn(block))?)? == 0)
    }

    /// Sets a pointer, whatever becomes of the transaction. The caller stores the inode.
    fn put_slot(
        &self,
        tx: &spindle_cache::Tx<'_>,
        pointers: &mut Pointers,
        slot: Slot,
        value: u64,
    ) -> Result<()> {
        match slot {
            Slot::Inode(n) => pointers.db[n] = value,
            Slot::Indirect(block, n) => {
                let buffer = self.indirect(block)?;
                self.put_pointer(&mut buffer.write_shared(tx), n, value);
            }
        }
        Ok(())
    }

    /// Puts the pointers of a snapshot into its inode, whatever becomes of the transaction.
    fn store_pointers(&self, tx: &spindle_cache::Tx<'_>, pointers: &Pointers) -> Result<()> {
        let (_, offset) = self.layout.ino_to_fsba(pointers.ino);
        let buffer = self.inode_buffer(pointers.ino)?;
        let mut block = buffer.write_shared(tx);
        let mut di = Dinode::decode(&block[offset..], &self.layout);
        pointers.put(&mut di);
        let range = offset..offset + self.layout.inode_size();
        di.encode(block.bytes_mut(range), &self.layout, self.hashes.inodes);
        Ok(())
    }

    /// Puts the pointers of snapshots back into inodes that a rollback has restored.
    pub(super) fn restore_pointers(&self, tx: &spindle_cache::Tx<'_>, inodes: &[u32]) -> Result<()> {
        let state = self.snapshots.lock();
        let restored = inodes.iter().filter_map(|&ino| state.pointers_of(ino));
        restored.into_iter().try_for_each(|pointers| self.store_pointers(tx, pointers))
    }

    /// Writes the inode of a snapshot with the pointers that it has now. Returns false if it is not
    /// that of a snapshot.
    pub(super) fn store_snapshot(&self, tx: &Tx<'_>, ino: u32, di: &Dinode) -> Result<bool> {
        if di.flags & SF_SNAPSHOT == 0 {
            return Ok(false);
        }
        let state = self.snapshots.lock();
        let Some(pointers) = state.pointers_of(ino) else { return Ok(false) };
        let mut di = di.clone();
        pointers.put(&mut di);
        tx.note_pointers(ino);
        let (_, offset) = self.layout.ino_to_fsba(ino);
        let buffer = self.inode_buffer(ino)?;
        let range = offset..offset + self.layout.inode_size();
        di.encode(buffer.write(tx).bytes_mut(range), &self.layout, self.hashes.inodes);
        Ok(true)
    }

    /// Locks the bytes of a buffer for changing them, after preserving what its block holds.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is no space for a copy; device errors.
    pub(crate) fn change<'b>(&self, tx: &'b Tx<'_>, buffer: &'b Buffer<'_>) -> Result<BufferMut<'b>> {
        self.preserve(tx, Frag(buffer.at() >> self.layout.fs_fshift))?;
        Ok(buffer.write(tx))
    }

    /// Makes sure that storing an inode finds what its block held preserved.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub(crate) fn preserve_inode(&self, tx: &Tx<'_>, ino: u32) -> Result<()> {
        self.preserve(tx, self.layout.ino_to_fsba(ino).0)
    }

    /// Gives each snapshot that needs it a copy of the block that `at` is in.
    fn preserve(&self, tx: &Tx<'_>, at: Frag) -> Result<()> {
        if self.snapshots.count() == 0 {
            return Ok(());
        }
        let state = &mut *self.snapshots.lock();
        if !state.inodes_settled {
            // A copy changes the inode of its snapshot, which must not need one then.
            let inodes: Vec<_> = state.live.iter().map(|pointers| pointers.ino).collect();
            for ino in inodes {
                self.copy(tx, state, self.block_of(self.layout.ino_to_fsba(ino).0))?;
            }
            state.inodes_settled = true;
        }
        self.copy(tx, state, self.block_of(at))
    }

    fn copy(&self, tx: &Tx<'_>, state: &mut State, block: u64) -> Result<()> {
        if state.is_settled(block) {
            return Ok(());
        }
        let mut bytes = None;
        for n in 0..state.live.len() {
            let slot = self.slot(&state.live[n], Lbn(block))?;
            if self.slot_pointer(&state.live[n], slot)? != 0 {
                continue;
            }
            if !tx.has_room(self, COPY_SECTORS) {
                return Err(Error::NoSpace);
            }
            let bytes = match &bytes {
                Some(bytes) => bytes,
                None => bytes.insert(self.read_original(block)?),
            };
            let _inode = self.inode_buffer(state.live[n].ino)?;
            let to = self.new_block(tx, state, block, bytes)?;
            let pointers = &mut state.live[n];
            pointers.blocks += u64::from(self.layout.fs_bsize >> 9);
            self.put_slot(tx, pointers, slot, to.0)
                .and_then(|()| self.store_pointers(tx, pointers))
                .map_err(|error| self.cache.half_done(&error))?;
            state.fresh.insert(block, self.cache.epoch());
        }
        if state.fresh.len() > 1024 {
            state.fresh.retain(|_, epoch| !self.cache.is_durable(*epoch));
        }
        state.settle(block);
        Ok(())
    }

    /// Takes a block with these bytes, near `block` or the one taken before, for good.
    fn new_block(&self, tx: &Tx<'_>, state: &mut State, block: u64, bytes: &[u8]) -> Result<Frag> {
        let frag = u64::from(self.layout.fs_frag);
        let wanted = state.wanted.unwrap_or(Frag(block * frag));
        let to = self.alloc_for_good(tx, self.layout.fs_frag, wanted, Privilege::Root)?;
        state.wanted = Some(to + frag);
        let made = self.cache.get_new_for_good(self.layout.byte(to), bytes.len(), None, tx).map(|buffer| {
            buffer.write_shared(tx).bytes_mut(0..bytes.len()).copy_from_slice(bytes);
        });
        if let Err(error) = made {
            self.free_in_map(tx, to, frag).map_err(|error| self.cache.half_done(&error))?;
            return Err(error.into());
        }
        Ok(to)
    }

    /// Returns true if file data must not be written over at these fragments: a snapshot needs
    /// them, or its copy of them is not durable yet.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn must_move(&self, at: Frag) -> Result<bool> {
        if self.snapshots.count() == 0 {
            return Ok(false);
        }
        let state = &mut *self.snapshots.lock();
        let block = self.block_of(at);
        if let Some(&epoch) = state.fresh.get(&block) {
            if !self.cache.is_durable(epoch) {
                return Ok(true);
            }
            state.fresh.remove(&block);
        }
        if state.is_settled(block) {
            return Ok(false);
        }
        for pointers in &state.live {
            if self.needs(pointers, block)? {
                return Ok(true);
            }
        }
        state.settle(block);
        Ok(false)
    }

    /// Prepares for fragments being freed: a block of which only a part is has it copied for the
    /// snapshots that need it.
    pub(super) fn preserve_freed(&self, tx: &Tx<'_>, at: Frag, count: u64) -> Result<()> {
        if self.snapshots.count() == 0 {
            return Ok(());
        }
        let frag = u64::from(self.layout.fs_frag);
        let end = at.0 + count;
        let is_part = |block: u64| block * frag < at.0 || (block + 1) * frag > end;
        let (first, last) = (at.0 / frag, (end - 1) / frag);
        for block in [first, last] {
            if is_part(block) {
                self.preserve(tx, Frag(block * frag))?;
            }
        }
        Ok(())
    }

    /// Returns the sectors of the log that change when snapshots claim these fragments, and keeps
    /// what has them in memory.
    pub(super) fn sectors_to_claim(&self, tx: &Tx<'_>, at: Frag, count: u64) -> Result<Vec<MapSector>> {
        let mut sectors = Vec::new();
        if self.snapshots.count() == 0 {
            return Ok(sectors);
        }
        let state = self.snapshots.lock();
        let size = self.sector() as u64;
        let pointer_size = self.layout.pointer_size() as u64;
        for block in self.whole_blocks(at, count) {
            if state.is_settled(block) {
                continue;
            }
            for pointers in &state.live {
                let slot = self.slot(pointers, Lbn(block))?;
                if self.slot_pointer(pointers, slot)? != 0 {
                    continue;
                }
                if let Slot::Indirect(indirect, n) = slot {
                    self.indirect(indirect)?.hold(tx);
                    let byte = self.layout.byte(indirect) + n as u64 * pointer_size;
                    sectors.push(MapSector::Snapshot(byte / size));
                }
                self.inode_buffer(pointers.ino)?.hold(tx);
                let (inode, offset) = self.layout.ino_to_fsba(pointers.ino);
                sectors.push(MapSector::Snapshot((self.layout.byte(inode) + offset as u64) / size));
                break;
            }
        }
        Ok(sectors)
    }

    /// Returns the numbers of the blocks that are wholly among these fragments.
    fn whole_blocks(&self, at: Frag, count: u64) -> std::ops::Range<u64> {
        let frag = u64::from(self.layout.fs_frag);
        at.0.div_ceil(frag)..(at.0 + count) / frag
    }

    /// Has snapshots claim the blocks of freed space that they need, and returns the rest.
    pub(super) fn unclaimed(&self, tx: &spindle_cache::Tx<'_>, at: Frag, count: u64) -> Vec<(Frag, u64)> {
        if self.snapshots.count() == 0 {
            return vec![(at, count)];
        }
        let mut rest = Vec::new();
        let (frag, end) = (u64::from(self.layout.fs_frag), at.0 + count);
        let mut start = at.0;
        for block in self.whole_blocks(at, count) {
            let state = &mut *self.snapshots.lock();
            let claimed = self.claim(tx, state, block);
            // A block that is neither claimed nor free is lost, and the snapshot still has it.
            let is_gone = *claimed.as_ref().unwrap_or(&true);
            self.note_lost(claimed.map(drop), || format!("block {block}"));
            if is_gone {
                if start < block * frag {
                    rest.push((Frag(start), block * frag - start));
                }
                start = (block + 1) * frag;
            }
        }
        if start < end {
            rest.push((Frag(start), end - start));
        }
        rest
    }

    /// Gives a block that is freed to the first snapshot that needs it.
    fn claim(&self, tx: &spindle_cache::Tx<'_>, state: &mut State, block: u64) -> Result<bool> {
        if state.is_settled(block) {
            return Ok(false);
        }
        for pointers in &mut state.live {
            let slot = self.slot(pointers, Lbn(block))?;
            if self.slot_pointer(pointers, slot)? == 0 {
                self.put_slot(tx, pointers, slot, block * u64::from(self.layout.fs_frag))?;
                pointers.blocks += u64::from(self.layout.fs_bsize >> 9);
                self.store_pointers(tx, pointers)?;
                state.settle(block);
                return Ok(true);
            }
        }
        state.settle(block);
        Ok(false)
    }

    /// Returns the sectors of the log that one more block of a file may need for snapshots.
    pub(super) fn block_copies(&self) -> usize {
        self.snapshots.count() * (BLOCK_COPIES * COPY_SECTORS + CLAIM_SECTORS)
    }

    /// Returns the sectors of the log that clearing one more pointer may need for snapshots.
    pub(super) fn pointer_copies(&self) -> usize {
        self.snapshots.count() * (2 * COPY_SECTORS + CLAIM_SECTORS)
    }
}
