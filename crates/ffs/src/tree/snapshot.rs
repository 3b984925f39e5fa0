//! Making and removing snapshots: their inodes and names. What they hold is the volume's business.
//!
//! A snapshot that is being made is an inode without a name, so that whatever ends it early, a
//! failure or a crash, ends with its space being freed. The superblock lists it before it gets its
//! name: an entry that leads to an inode without one, or to another file, is passed over by every
//! system. A snapshot that has lost its last name and is not open is taken apart and freed; the
//! superblock forgets it first.

use super::inode::{Inode, State};
use super::mount::Ffs;
use crate::format::dialect::Dialect;
use crate::format::dinode::Dinode;
use crate::format::layout::Version;
use crate::format::ondisk::SF_SNAPSHOT;
use crate::format::units::{Frag, Lbn};
use crate::log::wapbl::Wapbl;
use crate::volume::snapshot::Needed;
use crate::volume::tx::Deferred;
use spindle_tree::{NewInode, Operations, Tree};
use spindle_vfs::{Attr, Cred, Error, FileKind, FileSystem, Ino, Objection, Privilege, Result};

/// How often a snapshot is tried to be taken while files without names come and go.
const TRIES: usize = 100;

impl Ffs {
    /// Makes a snapshot of the file system as it is now, under a new name, and makes it durable. It
    /// belongs to `owner`, who alone can read it; quotas do not count it. Changes go on while it is
    /// prepared; while it is taken, they wait.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Exists`]; [`Error::NoSpace`]; [`Error::Unsupported`] where
    /// there can be none: without a log, with one that is too small, on systems other than FreeBSD
    /// and NetBSD, with quotas inside the file system, and with as many as the superblock can list;
    /// device errors.
    pub fn make_snapshot(&self, dir: Ino, name: &[u8], owner: &Cred<'_>) -> Result<Attr> {
        self.check_changes()?;
        if self.read_only() {
            return Err(Error::ReadOnly);
        }
        let _one = self.making_snapshot.lock();
        self.check_snapshot_possible()?;
        if name.is_empty()
            || name.len() > self.name_max()
            || name.contains(&b'/')
            || matches!(name, b"." | b"..")
        {
            return Err(Error::Invalid);
        }
        let parent = self.directory(dir)?;
        if self.find_entry(parent.ino, &parent.state.read(), name)?.is_some() {
            return Err(Error::Exists);
        }
        self.volume.check_orphans()?;
        let now = self.now();
        let size = self.volume.snapshot_blocks() << self.layout().fs_bshift;
        let inode = self.changing(|| {
            self.volume.transact((), |tx, ()| {
                let ino = self.volume.alloc_inode(tx, parent.ino, false)?;
                let di = Dinode {
                    mode: u16::try_from(FileKind::Regular.mode_bits() | 0o400).unwrap_or(u16::MAX),
                    uid: owner.uid,
                    gid: owner.gid,
                    flags: SF_SNAPSHOT,
                    size,
                    atime: now,
                    mtime: now,
                    ctime: now,
                    birthtime: now,
                    ..Dinode::free(self.volume.next_generation(ino)?)
                };
                self.volume.store(tx, ino, &di)?;
                tx.defer(Deferred::LastName(ino, di.mode));
                self.volume.begin_snapshot(ino, &di);
                Ok(self.enter_new(NewInode { ino, di, stream: self.volume.new_stream() }))
            })
        })?;
        let made = self.finish_snapshot(&inode, dir, name);
        if made.is_err() {
            // What cannot be freed now is freed when space is wanted, or by a recovery.
            self.reclaim(&inode);
        }
        made
    }

    /// Refuses where no snapshot can be made.
    fn check_snapshot_possible(&self) -> Result<()> {
        let refuse =
            |what: &str, remedy: &str| Err(Error::unsupported(format!("no snapshot: {what}"), remedy));
        let superblock = self.volume.current_superblock();
        if !matches!(superblock.dialect, Dialect::FreeBsd | Dialect::NetBsd)
            || self.layout().version == Version::Ufs1 && !self.layout().flags_updated
        {
            return refuse("this format has none", "copy the file system to UFS of FreeBSD or NetBSD");
        }
        if self.volume.quotas.as_ref().is_some_and(crate::quota::table::Quotas::is_inside) {
            return refuse("the file system keeps quotas inside", "turn them off (spindle quota off)");
        }
        if superblock.snapshots().len() >= superblock.fs.fs_snapinum.len() {
            return refuse("the superblock can list no more", "remove one of them (spindle snapshot rm)");
        }
        let Some(log) = &self.volume.log else {
            return refuse("there is no log, without which none is kept", "mount it with a log");
        };
        let sectors = self.volume.operation_sectors_with(self.volume.snapshots.count() + 1);
        let block = u64::from(self.volume.cache.device().info().sector_bytes);
        if !Wapbl::is_enough(log.ring().len, block, sectors) {
            let least = Wapbl::least_bytes(block, sectors) >> 10;
            let remedy = format!("make a log of at least {least} KiB (tunefs)");
            return refuse("the log is too small for one more", &remedy);
        }
        if size_of_snapshot(self) > self.layout().fs_maxfilesize {
            return refuse("no file can be as long as the file system", "use larger blocks");
        }
        Ok(())
    }

    /// Gives a snapshot everything that it needs, takes it, and gives it its name.
    fn finish_snapshot(&self, inode: &Inode, dir: Ino, name: &[u8]) -> Result<Attr> {
        let ino = inode.ino;
        let blocks = self.volume.snapshot_blocks();
        let step = self.layout().fs_nindir as usize;
        let leaves = (crate::format::ondisk::NDADDR as u64..blocks).step_by(step);
        self.give_blocks(ino, leaves, false)?;
        self.give_blocks(ino, self.volume.blocks_to_copy(self.log_ino), true)?;
        let mut tries = 0;
        let size = loop {
            match self.volume.take_snapshot(ino, self.log_ino)? {
                Needed::Nothing(size) => break size,
                Needed::Blocks(_) if tries == TRIES => return Err(Error::WouldBlock),
                Needed::Blocks(blocks) => self.give_blocks(ino, blocks, true)?,
            }
            tries += 1;
        };
        self.volume.change_superblock(|superblock| {
            let mut listed = superblock.snapshots();
            listed.push(ino);
            superblock.set_snapshots(&listed)
        })?;
        let attr = self.changing(|| {
            let parent = self.directory(dir)?;
            let mut parent_state = parent.state.write();
            let mut state = inode.state.write();
            if parent_state.di.nlink == 0 {
                return Err(Error::NotFound);
            }
            if self.find_entry(parent.ino, &parent_state, name)?.is_some() {
                return Err(Error::Exists);
            }
            self.volume.transact_naming((&mut *parent_state, &mut *state), |tx, (parent_state, state)| {
                self.reserve_entry(tx, parent.ino, parent_state, name.len(), Privilege::Root)?;
                self.enter_entry(tx, parent.ino, parent_state, name, (ino, FileKind::Regular))?;
                let now = self.now();
                (parent_state.di.mtime, parent_state.di.ctime) = (now, now);
                self.volume.store(tx, parent.ino, &parent_state.di)?;
                (state.di.nlink, state.di.size, state.di.ctime) = (1, size, now);
                self.volume.store(tx, ino, &state.di)?;
                tx.defer(Deferred::FirstName(ino));
                Ok(self.attributes_of(inode, state))
            })
        })?;
        self.volume.commit()?;
        Ok(attr)
    }

    fn give_blocks(&self, ino: u32, blocks: impl IntoIterator<Item = u64>, with_block: bool) -> Result<()> {
        blocks.into_iter().try_for_each(|lbn| {
            self.changing(|| {
                self.volume.transact((), |tx, ()| self.volume.give_block(tx, ino, Lbn(lbn), with_block))
            })
        })
    }

    /// Takes a snapshot apart that nobody has any more; afterwards it is freed as any other file.
    pub(super) fn give_up_snapshot(&self, ino: u32, state: &mut State) -> Result<()> {
        self.volume.set_apart(ino, &state.di);
        let mut listed = self.volume.current_superblock().snapshots();
        if listed.contains(&ino) {
            listed.retain(|&other| other != ino);
            self.volume.change_superblock(|superblock| superblock.set_snapshots(&listed))?;
        }
        // The list behind the last block, too, whatever the size says of it.
        let blocks = self.volume.snapshot_blocks();
        let end = size_of_snapshot(self).div_ceil(self.layout().fs_bsize.into()).max(blocks);
        let mut from = 0;
        while from < end {
            let reached =
                self.volume.transact((), |tx, ()| self.volume.take_apart(tx, ino, from, end))?.split().0;
            from = reached;
        }
        self.volume.forget_apart(ino, &mut state.di);
        Ok(())
    }

    /// Takes up the snapshots of a file system that is going to be written to. Returns what speaks
    /// against that.
    pub(super) fn take_up_snapshots(&mut self) -> Result<Option<Objection>> {
        if self.volume.superblock.lock().snapshots().is_empty() {
            return Ok(None);
        }
        let refuse = |reason: &str, remedy: &str| {
            Some(Objection { reason: reason.to_owned(), remedy: remedy.to_owned(), overridable: false })
        };
        if !self.was_clean {
            return Ok(refuse(
                "it has snapshots, and was not unmounted cleanly",
                crate::format::dialect::CHECK,
            ));
        }
        if self.volume.superblock.lock().keeps_quotas_inside() {
            return Ok(refuse(
                "it has snapshots, and quotas inside, whose changes would not be preserved for them",
                "turn its quotas off on NetBSD (tunefs -q nouser, -q nogroup), or remove the snapshots there",
            ));
        }
        let log = self.own_log()?.filter(|place| place.ino.is_some());
        let shift = self.layout().fs_fshift;
        let log = log.map(|place| (Frag(place.at >> shift), place.len >> shift));
        Ok(self.volume.take_up_snapshots(log)?.err())
    }

    /// Refuses to change the content or the attributes of a snapshot, where anything can be
    /// changed.
    pub(super) fn check_no_snapshot(&self, di: &Dinode) -> Result<()> {
        if di.is_snapshot() && !self.read_only() { Err(Error::NotPermitted) } else { Ok(()) }
    }
}

/// Returns the most bytes that a snapshot can have, with its list.
fn size_of_snapshot(fs: &Ffs) -> u64 {
    let blocks = fs.volume.snapshot_blocks();
    let list = (blocks + 1) * 8;
    (blocks << fs.layout().fs_bshift) + list
}
