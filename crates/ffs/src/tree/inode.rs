//! The inodes of UFS under the operations that all file systems share ([`spindle_tree`]).

use super::dirindex::DirIndex;
use super::file::Content;
use super::lost_root;
use super::mount::Ffs;
use crate::format::dinode::Dinode;
use crate::format::layout::{ROOT_INO, Version};
use crate::format::ondisk::MAXNAMLEN;
use crate::volume::tx::{Deferred, Progress, Tx};
use spindle_cache::{Epoch, Restore, Stream};
use spindle_clock::Timestamp;
use spindle_tree::{Condition, Found, NewInode, NodesOf, Tree};
use spindle_vfs::{Attr, Error, FileKind, FileSystem, NewNode, Privilege, Result};
use std::sync::{Arc, OnceLock};

/// Most names of one file (`UFS_LINK_MAX`).
pub(crate) const LINK_MAX: u16 = 32767;

/// An inode in memory.
pub(crate) type Inode = spindle_tree::InodeOf<Ffs>;
/// The state of an inode, which its lock protects.
pub(crate) type State = spindle_tree::StateOf<Ffs>;

/// State derived from an inode and kept with it in memory.
pub struct Derived {
    /// The epoch that last changed where its data is, or its size.
    pub(crate) mapped_in: Epoch,
    /// Index of a directory's names, once a name has been looked up.
    pub(crate) index: OnceLock<DirIndex>,
    /// Units of 512 bytes that `di_blocks` counts and no pointer leads to, once a hole has been
    /// read. Each change counts in both, so they stay the same.
    pub(crate) blocks_missing: OnceLock<u64>,
}

impl Restore for Derived {
    /// The epoch, and the version of the index of a directory.
    type Saved = (Epoch, Option<u64>);
    fn save(&self) -> Self::Saved {
        (self.mapped_in, self.index.get().map(DirIndex::version))
    }
    fn restore(&mut self, (mapped_in, version): Self::Saved) {
        self.mapped_in = mapped_in;
        // An index that was built since is right only if no name was entered.
        if self.index.get().map(DirIndex::version) != version {
            self.index.take();
        }
    }
}

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

/// Returns what the blocks of an inode hold.
pub(crate) fn content<'a>(inode: &'a Inode, di: &Dinode) -> Content<'a> {
    if di.is_directory() { Content::Directory } else { Content::Data(&inode.stream) }
}

impl Ffs {
    fn set_target(
        &self,
        tx: &Tx<'_>,
        (ino, stream): (u32, &Arc<Stream>),
        di: &mut Dinode,
        target: &[u8],
        by: Privilege,
    ) -> Result<()> {
        if target.len() < self.layout().fs_maxsymlinklen as usize {
            di.inline_target = Some(target.to_vec());
            di.size = target.len() as u64;
            return Ok(());
        }
        // A target fits into a block, for which there is always room in the log.
        match self.write_file(tx, (ino, stream), di, 0, target, by)? {
            Progress::Done(n) if n == target.len() => Ok(self.volume.cache.precede_data(stream, 0..1)?),
            _ => Err(Error::NoSpace),
        }
    }
}

impl Tree for Ffs {
    type Number = u32;
    type Dinode = Dinode;
    type Derived = Derived;
    type Tx<'a> = Tx<'a>;
    /// The index of the directory knows where there is room.
    type EntrySpace = ();

    const ROOT: u32 = ROOT_INO;

    fn nodes(&self) -> &NodesOf<Self> {
        &self.nodes
    }

    fn name_max(&self) -> usize {
        MAXNAMLEN
    }

    fn link_max(&self) -> u16 {
        LINK_MAX
    }

    fn condition(&self) -> &Condition {
        &self.volume
    }

    fn check_changes(&self) -> Result<()> {
        Ok(self.volume.cache.check()?)
    }

    fn now(&self) -> Timestamp {
        self.storable(self.volume.clock.now())
    }

    fn transact<R: Restore, V>(
        &self,
        touched: R,
        change: impl FnOnce(&Tx<'_>, &mut R) -> Result<V>,
    ) -> Result<V> {
        self.volume.transact(touched, change)
    }

    fn transact_naming<R: Restore, V>(
        &self,
        touched: R,
        change: impl FnOnce(&Tx<'_>, &mut R) -> Result<V>,
    ) -> Result<V> {
        self.make_room_for_quotas()?;
        self.volume.transact_naming(touched, change)
    }

    fn read_inode(&self, ino: u32) -> Result<Dinode> {
        if ino == ROOT_INO && self.lost_root.is_some() {
            return Ok(lost_root::inode());
        }
        self.volume.read_inode(ino)
    }

    fn derive(&self) -> Derived {
        // What a former user of the inode has changed may not be durable yet.
        Derived {
            mapped_in: self.volume.cache.epoch(),
            index: OnceLock::new(),
            blocks_missing: OnceLock::new(),
        }
    }

    fn new_stream(&self, _di: &Self::Dinode) -> Arc<Stream> {
        self.volume.new_stream()
    }

    fn store(&self, tx: &Tx<'_>, ino: u32, di: &Dinode) -> Result<()> {
        self.volume.store(tx, ino, di)
    }

    fn check_node(&self, node: &NewNode<'_>) -> Result<()> {
        let too_long = node.kind == FileKind::Symlink && node.target.len() > self.limits().symlink_max;
        if too_long { Err(Error::NameTooLong) } else { Ok(()) }
    }

    fn make_inode(
        &self,
        tx: &Tx<'_>,
        parent: (u32, &Dinode),
        node: &NewNode<'_>,
        by: Privilege,
    ) -> Result<NewInode<Self>> {
        let directory = node.kind == FileKind::Directory;
        let now = self.now();
        let inherited = self.inherited(parent, node)?;
        let perm = inherited.as_ref().map_or(node.perm, |inherited| inherited.perm);
        let mode = node.kind.mode_bits() | perm & 0o7777;
        let mut di = Dinode {
            mode: u16::try_from(mode).unwrap_or(u16::MAX),
            nlink: if directory { 2 } else { 1 },
            uid: self.check_id(node.uid)?,
            gid: self.check_id(node.gid)?,
            atime: now,
            mtime: now,
            ctime: now,
            birthtime: now,
            ..Dinode::free(0)
        };
        if matches!(node.kind, FileKind::BlockDevice | FileKind::CharDevice) {
            di.set_rdev(self.volume.dialect, node.rdev, self.layout().version)?;
        }
        self.volume.charge_change(tx, None, self.volume.bill_of_new(&di), by)?;
        let ino = self.volume.alloc_inode(tx, parent.0, directory)?;
        di.r#gen = self.volume.next_generation(ino)?;
        let stream = self.volume.new_stream();
        match node.kind {
            FileKind::Directory => {
                if self.layout().version == Version::Ufs2 {
                    di.dirdepth = parent.1.dirdepth.wrapping_add(1);
                }
                self.dir_init(tx, ino, &mut di, parent.0, by)?;
            }
            FileKind::Symlink => self.set_target(tx, (ino, &stream), &mut di, node.target, by)?,
            _ => {}
        }
        if let Some(inherited) = inherited {
            self.write_extattr(tx, ino, &mut di, &inherited.area, by)?;
        }
        self.volume.store(tx, ino, &di)?;
        Ok(NewInode { ino, di, stream })
    }

    fn free_orphan(&self, inode: &Arc<Inode>) -> Result<()> {
        self.free_if_orphan(inode)
    }

    fn commit_freed(&self) -> Result<bool> {
        let waits = self.volume.pending.frags() > 0;
        if waits {
            self.volume.commit()?;
        }
        Ok(waits)
    }

    fn attr(&self, inode: &Inode, state: &State) -> Attr {
        self.attributes_of(inode, state)
    }

    fn check_changeable(&self, ino: u32) -> Result<()> {
        self.check_not_kept(ino)
    }

    fn check_orphans(&self) -> Result<()> {
        self.volume.check_orphans()
    }

    fn note_orphan(&self, tx: &Tx<'_>, ino: u32, di: &Dinode) {
        tx.defer(Deferred::LastName(ino, di.mode));
    }

    fn note_first_name(&self, tx: &Tx<'_>, ino: u32, derived: &mut Derived) -> Result<()> {
        // Without its name a crash would free the file with all its data.
        derived.mapped_in = self.volume.cache.epoch();
        tx.defer(Deferred::FirstName(ino));
        Ok(())
    }

    fn note_new_parent(&self, di: &mut Dinode, parent: &Dinode) {
        if self.layout().version == Version::Ufs2 {
            di.dirdepth = parent.dirdepth.wrapping_add(1);
        }
    }

    fn dir_find(&self, ino: u32, state: &State, name: &[u8]) -> Result<Option<Found<u32>>> {
        match &self.lost_root {
            Some(lost) if ino == ROOT_INO => lost.find(name),
            _ => self.find_entry(ino, state, name),
        }
    }

    fn shows_unnamed(&self, ino: u32) -> bool {
        self.lost_root.is_some() && ino == ROOT_INO
    }

    fn dir_reserve(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        state: &mut State,
        name: &[u8],
        by: Privilege,
    ) -> Result<()> {
        self.reserve_entry(tx, ino, state, name.len(), by)
    }

    fn dir_enter(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        state: &mut State,
        (): (),
        name: &[u8],
        target: (u32, FileKind),
    ) -> Result<()> {
        self.enter_entry(tx, ino, state, name, target)
    }

    fn dir_remove(&self, tx: &Tx<'_>, ino: u32, state: &mut State, name: &[u8], place: u64) -> Result<()> {
        self.remove_entry(tx, ino, state, name, place)
    }

    fn dir_rewrite(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        state: &mut State,
        place: u64,
        target: (u32, FileKind),
    ) -> Result<()> {
        self.rewrite_entry(tx, ino, &state.di, place, target)
    }

    fn dir_is_empty(&self, ino: u32, di: &Dinode) -> Result<bool> {
        self.has_no_names(ino, di)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::newfs::{self, Parameters, Plan};
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use spindle_clock::ManualClock;
    use spindle_device::MemoryDevice;
    use spindle_tree::Operations;
    use spindle_vfs::{Ino, RenameMode};

    /// Promise: no rename gives a directory more links than its format can count, whichever side of
    /// an exchange it is on, and a refused one changes nothing.
    #[test]
    fn links_stay_within_the_limit() {
        let device = Arc::new(MemoryDevice::new(8 << 20));
        let clock = Arc::new(ManualClock::at(0));
        let plan = Plan::new(&Parameters::new(8 << 20)).unwrap();
        newfs::write(&plan, &*device, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        let fs = Ffs::open(device, clock, &OpenOptions::default()).unwrap();
        let make = |dir: Ino, name: &[u8], kind| {
            let node = NewNode::new(kind, 0o755);
            fs.create(dir, name, &node, Privilege::Root).unwrap().ino
        };
        let [full, other] = [b"full", b"othr"].map(|name| make(fs.root(), name, FileKind::Directory));
        let (inner, file) =
            (make(other, b"dir", FileKind::Directory), make(full, b"file", FileKind::Regular));
        let inode = fs.iget_ino(full).unwrap();
        inode.state.write().di.nlink = LINK_MAX;
        let rename = |from, to, mode| fs.rename(from, b"dir", to, b"file", mode, Privilege::Root);
        let exchanges = [
            rename(other, full, RenameMode::Exchange),
            fs.rename(full, b"file", other, b"dir", RenameMode::Exchange, Privilege::Root),
            fs.rename(other, b"dir", full, b"new", RenameMode::Replace, Privilege::Root),
        ];
        for exchange in exchanges {
            assert!(matches!(exchange, Err(Error::TooManyLinks)), "{exchange:?}");
        }
        assert_eq!(fs.getattr(full).unwrap().nlink, u32::from(LINK_MAX));
        assert_eq!(fs.lookup(other, b"dir").unwrap().ino, inner);
        assert_eq!(fs.lookup(full, b"file").unwrap().ino, file);
        // In the other direction it loses one.
        inode.state.write().di.nlink = 2;
        rename(other, full, RenameMode::Exchange).unwrap();
        assert_eq!(fs.getattr(full).unwrap().nlink, 3);
    }

    /// Promise: an inode that was read before its file was removed does not come into memory after
    /// it, where it would be a file again.
    #[test]
    fn what_was_read_before_a_removal_is_not_entered() {
        let device = Arc::new(MemoryDevice::new(8 << 20));
        let clock = Arc::new(ManualClock::at(0));
        let plan = Plan::new(&Parameters::new(8 << 20)).unwrap();
        newfs::write(&plan, &*device, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        let open = || Ffs::open(device.clone(), clock.clone(), &OpenOptions::default()).unwrap();
        let fs = open();
        let made = fs.create(fs.root(), b"file", &NewNode::new(FileKind::Regular, 0o644), Privilege::Root);
        let ino = made.unwrap().ino;
        fs.unmount().unwrap();
        let fs = open();
        let number = u32::try_from(ino.0).unwrap();
        let table = &fs.nodes.table;
        let read = |fs: &Ffs| {
            let di = fs.read_inode(number).unwrap();
            let stream = fs.new_stream(&di);
            (di, fs.derive(), stream)
        };
        let missing = table.find(number).map(|_| ()).unwrap_err();
        let (di, derived, stream) = read(&fs);
        let entered = table.enter(&missing, number, di, derived, stream).unwrap();
        assert!(Arc::ptr_eq(&entered, &table.find(number).unwrap()));
        drop(entered);
        fs.unmount().unwrap();
        let fs = open();
        let table = &fs.nodes.table;
        let missing = table.find(number).map(|_| ()).unwrap_err();
        let (di, derived, stream) = read(&fs);
        fs.unlink(fs.root(), b"file").unwrap();
        assert!(table.enter(&missing, number, di, derived, stream).is_none());
        assert!(matches!(fs.reference(ino), Err(Error::Stale)));
    }
}
