//! Inodes: on the disk 64 bytes, in memory one entry for each number in use, with its lock and its
//! references.
//!
//! An [`Inode`]'s state is written through: whoever changes the [`Dinode`] calls [`V7::store`] in
//! the same transaction, so an entry that nobody uses can be dropped at any time.
//!
//! Order of locks: a directory before the file in it, and among other files the lower number first.
//! Only the holder of [`V7::rename_lock`] waits for a second directory: a damaged tree may have a
//! directory below itself, where there is no order among directories. A transaction is begun after
//! all inode locks are held, never before one.

use crate::layout::{Block, ROOT_INO};
use crate::mount::V7;
use crate::ondisk::{DiskInode, INODE_SIZE, NADDR, get_addr, put_addr};
use crate::tx::Tx;
use spindle_cache::{Buffer, Stream};
use spindle_clock::{Mutex, RwLock, Timestamp};
use spindle_ondisk::Endian;
use spindle_vfs::{Error, FileKind, Ino, Rdev, Result};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// What an inode holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dinode {
    pub(crate) mode: u16,
    pub(crate) nlink: u16,
    pub(crate) uid: u16,
    pub(crate) gid: u16,
    pub(crate) size: u64,
    /// Block addresses; of a device node, the first is its number.
    pub(crate) addr: [u32; NADDR],
    /// The byte behind the addresses, which is somebody else's.
    pub(crate) spare: u8,
    pub(crate) atime: Timestamp,
    pub(crate) mtime: Timestamp,
    pub(crate) ctime: Timestamp,
    /// Blocks held, indirect ones included, once somebody has counted them: the disk does not say.
    pub(crate) held: OnceLock<u64>,
}

impl Dinode {
    pub(crate) fn decode(bytes: &[u8], endian: Endian) -> Self {
        let disk = DiskInode::decode(bytes, endian);
        let time = |secs: i32| Timestamp::new(secs.into(), 0);
        Self {
            mode: disk.di_mode,
            nlink: disk.di_nlink.cast_unsigned(),
            uid: disk.di_uid,
            gid: disk.di_gid,
            size: disk.di_size.cast_unsigned().into(),
            addr: std::array::from_fn(|n| get_addr(&disk.di_addr[n * 3..], endian)),
            spare: disk.di_addr[NADDR * 3],
            atime: time(disk.di_atime),
            mtime: time(disk.di_mtime),
            ctime: time(disk.di_ctime),
            held: OnceLock::new(),
        }
    }

    pub(crate) fn encode(&self, bytes: &mut [u8], endian: Endian) {
        let mut di_addr = [self.spare; NADDR * 3 + 1];
        for (addr, bytes) in self.addr.iter().zip(di_addr.chunks_mut(3)) {
            put_addr(*addr, bytes, endian);
        }
        let size = u32::try_from(self.size).unwrap_or(u32::MAX);
        DiskInode {
            di_mode: self.mode,
            di_nlink: self.nlink.cast_signed(),
            di_uid: self.uid,
            di_gid: self.gid,
            di_size: size.cast_signed(),
            di_addr,
            di_atime: seconds(self.atime),
            di_mtime: seconds(self.mtime),
            di_ctime: seconds(self.ctime),
        }
        .encode(bytes, endian);
    }

    /// Returns what it is; the Seventh Edition's multiplexed devices pass for ordinary ones.
    pub(crate) fn kind(&self) -> Option<FileKind> {
        match self.mode & 0o170_000 {
            0o030_000 => Some(FileKind::CharDevice),
            0o070_000 => Some(FileKind::BlockDevice),
            mode => FileKind::from_mode(mode.into()),
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == Some(FileKind::Directory)
    }

    /// Returns true if its addresses are those of blocks.
    pub(crate) fn has_blocks(&self) -> bool {
        matches!(self.kind(), Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink))
    }

    /// Adds to the blocks held, if they have been counted.
    pub(crate) fn account(&mut self, blocks: i64) {
        if let Some(held) = self.held.get_mut() {
            *held = held.saturating_add_signed(blocks);
        }
    }

    /// Returns the device that a device node names: a byte for the driver, one for the unit.
    pub(crate) fn rdev(&self) -> Rdev {
        match self.kind() {
            Some(FileKind::BlockDevice | FileKind::CharDevice) => {
                Rdev { major: self.addr[0] >> 8 & 0xff, minor: self.addr[0] & 0xff }
            }
            _ => Rdev::default(),
        }
    }
}

/// Returns the seconds of a time, moved into the range of the disk.
pub(crate) fn seconds(time: Timestamp) -> i32 {
    i32::try_from(time.secs).unwrap_or(if time.secs < 0 { i32::MIN } else { i32::MAX })
}

/// An inode in memory.
pub(crate) struct Inode {
    pub(crate) ino: u16,
    /// Stays the same as long as a name or a reference leads to it, so that asking takes no lock.
    pub(crate) is_directory: bool,
    /// Its data in memory, if it is a file.
    pub(crate) stream: Arc<Stream>,
    pub(crate) state: RwLock<State>,
}

/// What an inode's lock protects.
pub(crate) struct State {
    pub(crate) di: Dinode,
    /// The access time in memory is newer than the stored one.
    pub(crate) atime_pending: Mutex<Option<Timestamp>>,
}

/// Inodes in memory before the idle ones are dropped for the first time.
const SWEEP_AT_LEAST: usize = 1024;

#[derive(Default)]
struct Table {
    entries: HashMap<u16, (Arc<Inode>, u64)>,
    /// Inodes at which the idle ones are dropped next: twice what the last sweep left.
    sweep_at: usize,
}

/// All inodes in memory, with their references.
#[derive(Default)]
pub(crate) struct InodeTable(Mutex<Table>);

impl InodeTable {
    fn find(&self, ino: u16) -> Option<Arc<Inode>> {
        self.0.lock().entries.get(&ino).map(|(inode, _)| inode.clone())
    }

    /// Enters an inode, or gives the one that somebody else has entered meanwhile.
    fn enter(&self, ino: u16, di: Dinode, stream: Arc<Stream>) -> Arc<Inode> {
        let mut table = self.0.lock();
        if table.entries.len() >= table.sweep_at.max(SWEEP_AT_LEAST) {
            table.entries.retain(|_, (inode, references)| {
                // The cache holds streams with data that the device does not have.
                let written = Arc::strong_count(&inode.stream) == 1;
                let idle = *references == 0 && Arc::strong_count(inode) == 1 && written;
                !idle || inode.state.read().atime_pending.lock().is_some()
            });
            table.sweep_at = table.entries.len() * 2;
        }
        let is_directory = di.is_directory();
        let state = RwLock::new(State { di, atime_pending: Mutex::new(None) });
        let fresh = || (Arc::new(Inode { ino, is_directory, stream, state }), 0);
        table.entries.entry(ino).or_insert_with(fresh).0.clone()
    }

    /// Takes a reference; the caller holds the inode's lock or that of a directory that names it.
    pub(crate) fn reference(&self, inode: &Arc<Inode>) {
        self.0.lock().entries.entry(inode.ino).or_insert_with(|| (inode.clone(), 0)).1 += 1;
    }

    /// Gives references back; the inode if these were the last.
    pub(crate) fn release(&self, ino: u16, count: u64) -> Option<Arc<Inode>> {
        let mut table = self.0.lock();
        let (inode, references) = table.entries.get_mut(&ino)?;
        *references = references.saturating_sub(count);
        (*references == 0).then(|| inode.clone())
    }

    pub(crate) fn is_referenced(&self, ino: u16) -> bool {
        self.0.lock().entries.get(&ino).is_some_and(|(_, references)| *references > 0)
    }

    /// Drops an inode that was freed, unless its number has been given to another meanwhile.
    pub(crate) fn drop_freed(&self, freed: &Arc<Inode>) {
        let mut table = self.0.lock();
        if table.entries.get(&freed.ino).is_some_and(|(inode, _)| Arc::ptr_eq(inode, freed)) {
            table.entries.remove(&freed.ino);
        }
    }

    /// Returns all inodes in memory, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        let mut all: Vec<_> = self.0.lock().entries.values().map(|(inode, _)| inode.clone()).collect();
        all.sort_by_key(|inode| inode.ino);
        all
    }
}

impl V7 {
    /// Returns the inode behind a number that a directory or a caller gave.
    ///
    /// # Errors
    /// [`Error::Stale`] if the number is not in use.
    pub(crate) fn iget(&self, ino: u16) -> Result<Arc<Inode>> {
        if let Some(inode) = self.inodes.find(ino) {
            return Ok(inode);
        }
        if ino < ROOT_INO || ino > self.layout.last_ino() {
            return Err(Error::Stale);
        }
        let (block, offset) = self.layout.inode_at(ino);
        let di = Dinode::decode(&self.metadata(block)?.read()[offset..], self.layout.format.endian);
        let damaged = |what: String| Err(Error::corrupt(what, format!("inode {ino}")));
        if di.mode == 0 {
            return Err(Error::Stale);
        }
        if di.kind().is_none() {
            return damaged(format!("mode is {:o}", di.mode));
        }
        let most = u64::from(self.layout.s_fsize) * u64::from(self.layout.format.bsize);
        if di.size > self.layout.file_size_max() || (di.is_directory() && di.size > most) {
            return damaged(format!("size is {}", di.size));
        }
        Ok(self.inodes.enter(ino, di, self.cache.stream(self.layout.format.bsize, 1)))
    }

    /// Returns the inode behind a number from above the seam.
    pub(crate) fn iget_ino(&self, ino: Ino) -> Result<Arc<Inode>> {
        self.iget(u16::try_from(ino.0).map_err(|_| Error::Stale)?)
    }

    /// Writes an inode's state into its block.
    pub(crate) fn store(&self, tx: &Tx<'_>, ino: u16, di: &Dinode) -> Result<()> {
        let (block, offset) = self.layout.inode_at(ino);
        let range = offset..offset + INODE_SIZE;
        di.encode(self.metadata(block)?.write(tx).bytes_mut(range), self.layout.format.endian);
        Ok(())
    }

    /// Enters a newly allocated inode into the table, replacing whatever was left of the number's
    /// former file.
    pub(crate) fn enter_new(&self, ino: u16, di: Dinode) -> Arc<Inode> {
        self.inodes.0.lock().entries.remove(&ino);
        self.inodes.enter(ino, di, self.cache.stream(self.layout.format.bsize, 1))
    }

    /// Returns the buffer of a block that holds something of the file system's own.
    pub(crate) fn metadata(&self, block: Block) -> Result<Buffer<'_>> {
        Ok(self.cache.get(self.layout.byte(block), self.layout.bsize(), None)?)
    }

    /// Returns the block that a pointer found on the disk leads to; `None` for a hole.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where it leads out of the data or to a free block.
    pub(crate) fn pointer(&self, raw: u32, ino: u16) -> Result<Option<Block>> {
        if raw == 0 {
            return Ok(None);
        }
        let damaged =
            |what: &str| Error::corrupt(format!("block pointer {raw} {what}"), format!("inode {ino}"));
        let block = self.layout.data_block(raw).ok_or_else(|| damaged("leads outside the data"))?;
        if self.space.lock().free.has(block) {
            Err(damaged("leads to a free block"))
        } else {
            Ok(Some(block))
        }
    }
}
