//! The headers of files, for the operations that all file systems share ([`spindle_tree`]).

use super::mount::Mfs;
use crate::format::attributes::Attributes;
use crate::format::header::{Contents, Header, NameMap, SYMLINK_MAX};
use crate::format::layout::ROOT_INO;
use crate::format::node::{Entry, NAME_MAX};
use crate::tree::names::{DOT_DOT, EntryKey};
use crate::volume::attributes::bytes_for_attributes;
use crate::volume::tx::{OPERATION_BYTES, Tx};
use spindle_cache::{Restore, Stream};
use spindle_clock::Timestamp;
use spindle_tree::{Condition, Found, NewInode, NodesOf, Tree};
use spindle_vfs::{Attr, Error, FileKind, NewNode, Privilege, Result};
use std::sync::Arc;

/// A file in memory.
pub(crate) type Inode = spindle_tree::InodeOf<Mfs>;
/// The state of a file, which its lock protects.
pub(crate) type State = spindle_tree::StateOf<Mfs>;

impl spindle_tree::Dinode for Header {
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
        [self.times[0], self.times[1], self.times[2]]
    }
    fn set_atime(&mut self, atime: Timestamp) {
        self.times[0] = atime;
    }
    fn set_modified(&mut self, now: Timestamp) {
        (self.times[1], self.times[2]) = (now, now);
    }
    fn set_changed(&mut self, now: Timestamp) {
        self.times[2] = now;
    }
}

impl Mfs {
    /// Returns the header of a new file in the directory `parent`, whose class of data it gets.
    fn new_header(&self, parent: &Header, node: &NewNode<'_>) -> Header {
        let contents = match node.kind {
            FileKind::Regular | FileKind::Symlink => Contents::Immediate(Vec::new()),
            FileKind::Directory => Contents::Names(NameMap::default()),
            FileKind::BlockDevice | FileKind::CharDevice | FileKind::Fifo | FileKind::Socket => {
                Contents::Node(node.rdev)
            }
        };
        Header {
            mode: u16::try_from(node.kind.mode_bits() | node.perm & 0o7777).unwrap_or(0),
            nlink: if node.kind == FileKind::Directory { 2 } else { 1 },
            uid: node.uid,
            gid: node.gid,
            class: parent.class,
            times: [self.now(); 4],
            contents,
            ..Header::free(0)
        }
    }
}

impl Tree for Mfs {
    type Number = u64;
    type Dinode = Header;
    type Derived = ();
    type Tx<'a> = Tx<'a>;
    type EntrySpace = EntryKey;

    const ROOT: u64 = ROOT_INO;

    fn nodes(&self) -> &NodesOf<Self> {
        &self.nodes
    }

    fn name_max(&self) -> usize {
        NAME_MAX
    }

    fn link_max(&self) -> u16 {
        u16::MAX
    }

    fn condition(&self) -> &Condition {
        &self.volume
    }

    fn check_changes(&self) -> Result<()> {
        Ok(self.volume.cache.check()?)
    }

    fn now(&self) -> Timestamp {
        self.volume.clock.now()
    }

    fn transact<R: Restore, V>(
        &self,
        touched: R,
        change: impl FnOnce(&Tx<'_>, &mut R) -> Result<V>,
    ) -> Result<V> {
        self.volume.transact(self.volume.name_bytes(), touched, change)
    }

    fn read_inode(&self, ino: u64) -> Result<Header> {
        if ino < ROOT_INO {
            return Err(Error::Stale);
        }
        let header = self.volume.read_header(ino)?;
        if header.mode == 0 { Err(Error::Stale) } else { Ok(header) }
    }

    fn derive(&self) {}

    fn new_stream(&self, di: &Header) -> Arc<Stream> {
        let page_bytes = self.layout().smallest_block();
        let track = self.layout().class(di.class.into()).structure.track_bytes() / u64::from(page_bytes);
        self.volume.cache.stream(page_bytes, u32::try_from(track).unwrap_or(u32::MAX))
    }

    fn store(&self, tx: &Tx<'_>, ino: u64, di: &Header) -> Result<()> {
        self.volume.store(tx, ino, di)
    }

    fn check_node(&self, node: &NewNode<'_>) -> Result<()> {
        if node.target.len() > SYMLINK_MAX { Err(Error::NameTooLong) } else { Ok(()) }
    }

    fn make_inode(
        &self,
        tx: &Tx<'_>,
        parent: (u64, &Header),
        node: &NewNode<'_>,
        _by: Privilege,
    ) -> Result<NewInode<Self>> {
        let mut di = self.new_header(parent.1, node);
        let ino = self.volume.alloc_header(tx, parent.0)?;
        // A header that was never used says nothing of those that the cylinder had before.
        di.generation = match self.volume.generation(ino)? {
            0 => self.now().nanos.max(1),
            generation => generation,
        };
        if node.kind == FileKind::Directory {
            di.parent = parent.0;
        }
        let stream = self.new_stream(&di);
        let written = self.write_file(tx, (ino, &stream), &mut di, 0, node.target)?;
        if written < node.target.len() {
            return Err(Error::NoSpace);
        }
        self.volume.store(tx, ino, &di)?;
        Ok(NewInode { ino, di, stream })
    }

    fn free_orphan(&self, inode: &Arc<Inode>) -> Result<()> {
        let mut state = inode.state.write();
        if state.di.nlink > 0 || state.di.mode == 0 || self.volume.is_read_only() {
            return Ok(());
        }
        while !state.di.extents().is_empty() {
            self.volume.transact(OPERATION_BYTES, &mut *state, |tx, state| {
                self.shrink_some(tx, inode, &mut state.di, 0)?;
                self.volume.store(tx, inode.ino, &state.di)
            })?;
        }
        let chain = self.volume.read_attributes(inode.ino, &state.di)?;
        let bytes = bytes_for_attributes(&chain, 0);
        self.volume.transact(bytes, &mut *state, |tx, state| {
            let generation = state.di.generation.wrapping_add(1);
            if let Contents::Names(NameMap { root: Some(root), .. }) = state.di.contents {
                return Err(Error::corrupt(
                    format!("a removed directory has names in block {}", root.0),
                    "names",
                ));
            }
            let none = Attributes::default();
            self.volume.write_attributes(tx, (inode.ino, &mut state.di), chain, &none)?;
            self.volume.note_orphan(tx, inode.ino, -1)?;
            state.di = Header::free(generation);
            self.volume.give_up_header(tx, inode.ino, generation)
        })?;
        self.nodes.table.drop_freed(inode);
        Ok(())
    }

    fn commit_freed(&self) -> Result<bool> {
        self.volume.commit_freed()
    }

    fn attr(&self, inode: &Inode, state: &State) -> Attr {
        self.attributes_of(inode, state)
    }

    fn note_first_name(&self, tx: &Tx<'_>, ino: u64, _derived: &mut Self::Derived) -> Result<()> {
        self.volume.note_orphan(tx, ino, -1)
    }

    fn note_orphan(&self, tx: &Tx<'_>, ino: u64, _di: &Header) {
        if let Err(error) = self.volume.note_orphan(tx, ino, 1) {
            log::error!("file {ino} would not be freed after a crash: {error}");
        }
    }

    fn dir_find(&self, ino: u64, state: &State, name: &[u8]) -> Result<Option<Found<u64>>> {
        self.find_name(ino, &state.di, name)
    }

    fn dir_reserve(
        &self,
        _tx: &Tx<'_>,
        ino: u64,
        state: &mut State,
        name: &[u8],
        _by: Privilege,
    ) -> Result<EntryKey> {
        self.free_key(ino, &state.di, name)
    }

    fn dir_enter(
        &self,
        tx: &Tx<'_>,
        ino: u64,
        state: &mut State,
        EntryKey(key): EntryKey,
        name: &[u8],
        (target, kind): (u64, FileKind),
    ) -> Result<()> {
        self.enter_name(tx, ino, &mut state.di, Entry { key, ino: target, kind, name: name.into() })
    }

    fn dir_remove(&self, tx: &Tx<'_>, ino: u64, state: &mut State, _name: &[u8], place: u64) -> Result<()> {
        self.remove_key(tx, ino, &mut state.di, place)
    }

    fn dir_rewrite(
        &self,
        tx: &Tx<'_>,
        ino: u64,
        state: &mut State,
        place: u64,
        target: (u64, FileKind),
    ) -> Result<()> {
        if place == DOT_DOT {
            state.di.parent = target.0;
            return Ok(());
        }
        self.rewrite_key(tx, ino, &state.di, place, target)
    }

    fn dir_is_empty(&self, _ino: u64, di: &Header) -> Result<bool> {
        Ok(matches!(di.contents, Contents::Names(NameMap { root: None, .. })))
    }
}
