//! The old file system's inodes, for the operations that all file systems share ([`spindle_tree`]).

use super::lost_root;
use super::mount::V7;
use crate::format::dinode::{Dinode, id, storable};
use crate::format::layout::ROOT_INO;
use crate::format::ondisk::DIRSIZ;
use crate::volume::tx::Tx;
use spindle_cache::{Restore, Stream};
use spindle_clock::Timestamp;
use spindle_tree::{Condition, Found, NewInode, NodesOf, Tree};
use spindle_vfs::{Attr, Error, FileKind, NewNode, Privilege, Result};
use std::sync::{Arc, OnceLock};

/// An inode in memory.
pub(crate) type Inode = spindle_tree::InodeOf<V7>;
/// The state that the lock of an inode protects.
pub(crate) type State = spindle_tree::StateOf<V7>;

impl spindle_tree::Dinode for Dinode {
    fn kind(&self) -> Option<FileKind> {
        self.kind()
    }
    fn is_free(&self) -> bool {
        self.mode == 0
    }
    fn nlink(&self) -> u16 {
        self.nlink
    }
    fn set_nlink(&mut self, nlink: u16) {
        self.nlink = nlink;
    }
    fn times(&self) -> [Timestamp; 3] {
        [self.atime, self.mtime, self.ctime]
    }
    fn set_atime(&mut self, atime: Timestamp) {
        self.atime = atime;
    }
    fn set_modified(&mut self, now: Timestamp) {
        (self.mtime, self.ctime) = (now, now);
    }
    fn set_changed(&mut self, now: Timestamp) {
        self.ctime = now;
    }
}

impl V7 {
    /// Returns the contents of a new inode.
    fn new_dinode(&self, node: &NewNode<'_>) -> Result<Dinode> {
        let mut di = Dinode::default();
        match node.kind {
            FileKind::Regular | FileKind::Directory => {}
            FileKind::BlockDevice | FileKind::CharDevice => {
                let byte = |n: u32| u8::try_from(n).map(u32::from).map_err(|_| Error::Overflow);
                di.addr[0] = byte(node.rdev.major)? << 8 | byte(node.rdev.minor)?;
            }
            FileKind::Fifo if self.layout().format.is_sysv() => {}
            FileKind::Fifo | FileKind::Socket | FileKind::Symlink => return Err(Error::NotSupported),
        }
        let now = self.now();
        Ok(Dinode {
            mode: u16::try_from(node.kind.mode_bits() | node.perm & 0o7777).unwrap_or(0),
            nlink: if node.kind == FileKind::Directory { 2 } else { 1 },
            uid: id(node.uid)?,
            gid: id(node.gid)?,
            atime: now,
            mtime: now,
            ctime: now,
            held: OnceLock::from(0),
            ..di
        })
    }
}

impl Tree for V7 {
    type Number = u16;
    type Dinode = Dinode;
    type Derived = ();
    type Tx<'a> = Tx<'a>;
    /// Byte offset of a free entry.
    type EntrySpace = u64;

    const ROOT: u16 = ROOT_INO;

    fn nodes(&self) -> &NodesOf<Self> {
        &self.nodes
    }

    fn name_max(&self) -> usize {
        DIRSIZ
    }

    /// Returns the greatest number of names: the inode counts to 32767, but `dcheck` counts in a
    /// signed byte, and System V stops at its `MAXLINK`.
    fn link_max(&self) -> u16 {
        if self.layout().format.is_sysv() { 1000 } else { 127 }
    }

    fn condition(&self) -> &Condition {
        &self.volume
    }

    fn check_changes(&self) -> Result<()> {
        Ok(self.volume.cache.check()?)
    }

    fn now(&self) -> Timestamp {
        storable(self.volume.clock.now())
    }

    fn transact<R: Restore, V>(
        &self,
        touched: R,
        change: impl FnOnce(&Tx<'_>, &mut R) -> Result<V>,
    ) -> Result<V> {
        self.volume.transact(touched, change)
    }

    fn read_inode(&self, ino: u16) -> Result<Dinode> {
        if ino == ROOT_INO && self.lost_root.is_some() {
            return Ok(lost_root::inode());
        }
        self.volume.read_dinode(ino)
    }

    fn derive(&self) {}

    fn new_stream(&self, _di: &Self::Dinode) -> Arc<Stream> {
        self.volume.cache.stream(self.layout().format.bsize, 1)
    }

    fn store(&self, tx: &Tx<'_>, ino: u16, di: &Dinode) -> Result<()> {
        self.volume.store(tx, ino, di)
    }

    fn check_node(&self, node: &NewNode<'_>) -> Result<()> {
        self.new_dinode(node).map(drop)
    }

    fn make_inode(
        &self,
        tx: &Tx<'_>,
        parent: (u16, &Dinode),
        node: &NewNode<'_>,
        _by: Privilege,
    ) -> Result<NewInode<Self>> {
        let mut di = self.new_dinode(node)?;
        let ino = self.volume.alloc_inode(tx, &mut di)?;
        if di.is_directory() {
            self.dir_init(tx, ino, &mut di, parent.0)?;
        }
        self.volume.store(tx, ino, &di)?;
        let stream = self.new_stream(&di);
        Ok(NewInode { ino, di, stream })
    }

    fn free_orphan(&self, inode: &Arc<Inode>) -> Result<()> {
        let mut state = inode.state.write();
        if state.di.nlink > 0 || state.di.mode == 0 || self.volume.is_read_only() {
            return Ok(());
        }
        self.volume.transact(&mut *state, |tx, state| {
            if state.di.has_blocks() {
                self.shrink(tx, inode, &mut state.di, 0)?;
            }
            state.di = state.di.freed();
            self.volume.free_inode(tx, inode.ino)
        })?;
        self.nodes.table.drop_freed(inode);
        Ok(())
    }

    fn attr(&self, inode: &Inode, state: &State) -> Attr {
        self.attributes_of(inode, state)
    }

    fn dir_find(&self, ino: u16, state: &State, name: &[u8]) -> Result<Option<Found<u16>>> {
        match &self.lost_root {
            Some(lost) if ino == ROOT_INO => lost.find(name),
            _ => self.find_entry(ino, &state.di, name),
        }
    }

    fn shows_unnamed(&self, ino: u16) -> bool {
        self.lost_root.is_some() && ino == ROOT_INO
    }

    fn dir_reserve(
        &self,
        tx: &Tx<'_>,
        ino: u16,
        state: &mut State,
        _name: &[u8],
        _by: Privilege,
    ) -> Result<u64> {
        self.reserve_entry(tx, ino, &mut state.di)
    }

    fn dir_enter(
        &self,
        tx: &Tx<'_>,
        ino: u16,
        state: &mut State,
        room: u64,
        name: &[u8],
        (target, _): (u16, FileKind),
    ) -> Result<()> {
        self.enter_entry(tx, ino, &state.di, room, name, target)
    }

    fn dir_remove(&self, tx: &Tx<'_>, ino: u16, state: &mut State, _name: &[u8], place: u64) -> Result<()> {
        self.point_entry(tx, ino, &state.di, place, 0)
    }

    fn dir_rewrite(
        &self,
        tx: &Tx<'_>,
        ino: u16,
        state: &mut State,
        place: u64,
        (target, _): (u16, FileKind),
    ) -> Result<()> {
        self.point_entry(tx, ino, &state.di, place, target)
    }

    fn dir_is_empty(&self, ino: u16, di: &Dinode) -> Result<bool> {
        self.has_no_names(ino, di)
    }
}
