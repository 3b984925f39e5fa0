//! Making a log, and going on with one that is there.
//!
//! A new log is made through itself: its headers are written to a run of free blocks, and the
//! transaction that gives the run to a file is the first one committed to it. Only then does the
//! superblock say where it is. So a crash at any moment leaves the file system either without a log
//! or with one that recovery can use.

use crate::format::dialect::Dialect;
use crate::format::dinode::Dinode;
use crate::format::layout::ROOT_INO;
use crate::format::layout::{InodeFormat, Layout, Version};
use crate::format::units::{Frag, Lbn};
use crate::log::LogUse;
use crate::log::locate::{FoundLog, LogPlace, MAX_LOG_BYTES, default_log_bytes};
use crate::log::wapbl::{Identity, Ring, Wapbl};
use crate::tree::file::{Content, Request};
use crate::tree::mount::{Ffs, OpenOptions};
use crate::volume::tx::Tx;
use spindle_tree::{Operations, Tree};
use spindle_vfs::{Error, FileKind, Privilege, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The file that has the log's space, in the root directory, where the dialect is not NetBSD's.
pub const LOG_NAME: &[u8] = b".spindlelog";

/// Inode flags: not to be changed (`SF_IMMUTABLE`), not to be removed (`SF_NOUNLINK`), not to be
/// dumped (`UF_NODUMP`).
const LOG_FLAGS: u32 = 0x0002_0000 | 0x0010_0000 | 0x0000_0001;
/// Inode flags of NetBSD's log (`SF_LOG`).
const SF_LOG: u32 = 0x0040_0000;

/// Returns the bytes of the log that is made where there is a run of free blocks that long:
/// `asked`, or a share of the file system; none if that is too small to spare any.
#[must_use]
pub fn log_bytes(layout: &Layout, asked: Option<u64>) -> Option<u64> {
    let wanted = asked.or_else(|| default_log_bytes(layout.fs_dsize << layout.fs_fshift))?;
    Some(wanted.min(MAX_LOG_BYTES).div_ceil(layout.fs_bsize.into()).max(1) << layout.fs_bshift)
}

impl Ffs {
    /// Starts to use the log that was found, or makes one, as `options` say; frees the orphans that
    /// a recovery found. Returns false if there is no log and snapshots need one; then nothing has
    /// been written.
    pub(crate) fn take_up_log(&mut self, found: &FoundLog, options: &OpenOptions) -> Result<bool> {
        let place = self.own_log()?;
        self.log_ino = place.and_then(|place| place.ino);
        let recovery = matches!(found, FoundLog::Recovery(_));
        let orphans: BTreeMap<u32, u16> = match found {
            FoundLog::Recovery(replay) => replay.orphans().collect(),
            _ => BTreeMap::new(),
        };
        let identity = self.volume.superblock.lock().identity();
        if options.log != LogUse::Never {
            let (device, clock) = (self.volume.cache.device().clone(), self.volume.clock.clone());
            match (place, found) {
                (Some(place), _) if !self.is_enough_log(place.len) => log::warn!(
                    "no log: the one that is there has {} bytes, which is too few; \
                     make a larger one (tunefs)",
                    place.len
                ),
                (Some(_), FoundLog::Ready(replay) | FoundLog::Recovery(replay)) => {
                    let exact = self.wants_exact_orphans();
                    let log = Wapbl::resume(device, clock, replay, orphans.clone(), exact, identity);
                    self.use_log(log);
                }
                (Some(place), _) => {
                    let ring = Ring::new(place.at, place.len, self.log_block());
                    self.use_log(self.create_log(ring, identity)?);
                }
                (None, _) if options.log == LogUse::IfThere => {}
                (None, _) => self.make_log(options)?,
            }
        }
        if self.volume.log.is_none() && self.volume.snapshots.count() > 0 {
            return Ok(false);
        }
        if recovery {
            self.volume.inherit_orphans(orphans);
            self.volume.mark_in_use()?;
            self.free_orphans()?;
        }
        Ok(true)
    }

    /// Returns a new log on the ring.
    fn create_log(&self, ring: Ring, identity: Identity) -> Result<Wapbl> {
        let (device, clock) = (self.volume.cache.device().clone(), self.volume.clock.clone());
        let exact = self.wants_exact_orphans();
        Ok(Wapbl::create(device, clock, ring, self.layout().endian, exact, identity)?)
    }

    /// Returns true if the system that may replay the log wants an exact list of orphans.
    fn wants_exact_orphans(&self) -> bool {
        self.volume.dialect == Dialect::NetBsd
    }

    /// Has all changes go through `log` from now on. Nothing may have been changed yet.
    fn use_log(&mut self, log: Wapbl) {
        let log = Arc::new(log);
        self.volume.cache.set_log(Some(log.clone()));
        self.volume.log = Some(log);
    }

    /// Returns the bytes of a block of the log.
    fn log_block(&self) -> u64 {
        self.volume.cache.device().info().sector_bytes.into()
    }

    /// Returns true if a log of so many bytes can take every operation.
    fn is_enough_log(&self, bytes: u64) -> bool {
        Wapbl::is_enough(bytes, self.log_block(), self.volume.operation_sectors())
    }

    /// Returns the place of the log that the superblock names, if its space still belongs to it.
    pub(crate) fn own_log(&self) -> Result<Option<LogPlace>> {
        let place = self.volume.superblock.lock().log_place();
        place.map_or(Ok(None), |place| Ok(self.owns(&place)?.then_some(place)))
    }

    /// Returns true if the log's space still belongs to it: somebody may have removed the file, and
    /// others have its blocks.
    pub(crate) fn owns(&self, place: &LogPlace) -> Result<bool> {
        let Some(ino) = place.ino else { return Ok(true) };
        let owns = || {
            let inode = self.iget(ino)?;
            let state = inode.state.read();
            let di = &state.di;
            if di.kind() != Some(FileKind::Regular) || di.nlink != 1 || di.size < place.len {
                return Ok(false);
            }
            let (mut lbn, blocks) = (0, place.len >> self.layout().fs_bshift);
            while lbn < blocks {
                let run = self.volume.bmap(ino, di, Lbn(lbn), blocks - lbn)?;
                let expected = place.at + (lbn << self.layout().fs_bshift);
                if run.at.map(|at| self.layout().byte(at)) != Some(expected) {
                    return Ok(false);
                }
                lbn += run.blocks;
            }
            Ok::<_, Error>(true)
        };
        match owns() {
            Err(Error::Stale | Error::Corrupt { .. }) => Ok(false),
            result => result,
        }
    }

    /// Returns where the log is whose file the superblock does not name, if there is one.
    pub(crate) fn forgotten_log(&self) -> Result<Option<LogPlace>> {
        let layout = self.layout();
        {
            let superblock = self.volume.superblock.lock();
            if self.volume.dialect == Dialect::NetBsd
                || superblock.log_place().is_some()
                || !LogPlace::can_be_kept(&superblock)
            {
                return Ok(None);
            }
        }
        let root = self.iget(ROOT_INO)?;
        let Some(found) = self.find_entry(root.ino, &root.state.read(), LOG_NAME)? else { return Ok(None) };
        let inode = self.iget(found.ino)?;
        let state = inode.state.read();
        let flagged = layout.inode_format != InodeFormat::New || state.di.flags == LOG_FLAGS;
        let len = state.di.size.min(MAX_LOG_BYTES) >> layout.fs_bshift << layout.fs_bshift;
        if !flagged || state.di.kind() != Some(FileKind::Regular) || len == 0 {
            return Ok(None);
        }
        let Some(at) = self.volume.bmap(found.ino, &state.di, Lbn(0), 1)?.at else { return Ok(None) };
        drop(state);
        let place = LogPlace { at: layout.byte(at), len, ino: Some(found.ino) };
        Ok(self.owns(&place)?.then_some(place))
    }

    /// Makes a log. Where there is no room for one, or no way to say where it is, there is none,
    /// and a warning is logged; or this fails, where it is required.
    fn make_log(&mut self, options: &OpenOptions) -> Result<()> {
        let is_required = options.log == LogUse::Required;
        let without = |why: &str, remedy: &str| {
            let refusal = Error::unsupported(format!("no log: {why}"), remedy);
            if is_required {
                return Err(refusal);
            }
            log::warn!("{refusal}; after a crash this file system needs a check");
            Ok(())
        };
        if !LogPlace::can_be_kept(&self.volume.superblock.lock()) {
            return without(
                "a superblock of this age cannot say where it is",
                "only later formats can have one",
            );
        }
        let asked = options.log_bytes.filter(|_| is_required);
        if asked.is_some_and(|asked| asked > MAX_LOG_BYTES) {
            let most = format!("choose at most {} KiB", MAX_LOG_BYTES >> 10);
            return without("the size is larger than any log", &most);
        }
        let Some(wanted) = log_bytes(self.layout(), options.log_bytes) else {
            return without("the file system is too small for one of the default size", "choose its size");
        };
        if !self.is_enough_log(wanted) {
            let least = Wapbl::least_bytes(self.log_block(), self.volume.operation_sectors()) >> 10;
            return without(&format!("{wanted} bytes are too few"), &format!("choose at least {least} KiB"));
        }
        if self.volume.dialect != Dialect::NetBsd && self.has_file_in_place_of_log()? {
            let name = String::from_utf8_lossy(LOG_NAME);
            let why = format!("/{name} is there, and is no log of this file system");
            return without(&why, "rename or remove it, and try again");
        }
        // Before anything is written: all of them will be needed.
        (0..self.layout().fs_ncg).try_for_each(|cgx| self.volume.view_group(cgx, |_| ()))?;
        let (at, blocks) = self.free_run(wanted >> self.layout().fs_bshift)?;
        let len = blocks << self.layout().fs_bshift;
        let is_enough = self.is_enough_log(len);
        if !is_enough || asked.is_some() && len < wanted {
            let kib = len >> 10;
            let why = format!("the longest run of free blocks has {kib} KiB");
            let smaller = format!("free some space, or choose at most {kib} KiB");
            return without(&why, if is_enough { &smaller } else { "free some space" });
        }
        let ring = Ring::new(self.layout().byte(at), len, self.log_block());
        let identity = self.volume.superblock.lock().identity();
        self.use_log(self.create_log(ring, identity)?);
        let ino = match self.make_log_file(at, blocks) {
            Ok(ino) => ino,
            Err(Error::NoSpace) => {
                self.volume.cache.set_log(None);
                self.volume.log = None;
                return without("there is no room for its file", "free some space");
            }
            Err(error) => return Err(error),
        };
        self.volume.commit()?;
        {
            // Still clean, so that what was committed counts only with the next write of it.
            let mut superblock = self.volume.superblock.lock();
            superblock.set_log_place(Some(LogPlace { at: ring.at, len, ino: Some(ino) }));
            self.volume.cache.directly(|device| {
                superblock.write(device)?;
                device.flush()
            })?;
        }
        self.log_ino = Some(ino);
        self.volume.mark_in_use()
    }

    /// Returns true if the root directory has a file of the name that the log's file gets.
    fn has_file_in_place_of_log(&self) -> Result<bool> {
        let root = self.iget(ROOT_INO)?;
        Ok(self.find_entry(root.ino, &root.state.read(), LOG_NAME)?.is_some())
    }

    /// Returns a run of `blocks` free blocks, or the longest there is; the groups in the middle are
    /// looked at first.
    fn free_run(&self, blocks: u64) -> Result<(Frag, u64)> {
        let frag = self.layout().fs_frag;
        let mut best = (Frag(0), 0);
        let middle = self.layout().fs_ncg / 2;
        for cgx in (middle..self.layout().fs_ncg).chain((0..middle).rev()) {
            let wanted = u32::try_from(blocks).unwrap_or(u32::MAX);
            let (bno, found) = self.volume.view_group(cgx, |group| {
                let (mut best, mut start) = ((0, 0), None);
                let ends = group.fragments();
                for bno in (0..=ends).step_by(frag as usize) {
                    if bno < ends && group.is_block(bno) {
                        start.get_or_insert(bno);
                    }
                    let run = start.map_or(0, |start: u32| (bno - start) / frag);
                    let over = bno >= ends || !group.is_block(bno);
                    if let Some(first) = start
                        && (over || run >= wanted)
                    {
                        if run > best.1 {
                            best = (first, run);
                        }
                        start = None;
                        if run >= wanted {
                            break;
                        }
                    }
                }
                best
            })?;
            if u64::from(found) > best.1 {
                best = (self.layout().cgbase(cgx) + u64::from(bno), found.into());
            }
            if u64::from(found) >= blocks {
                break;
            }
        }
        Ok(best)
    }

    /// Makes the file whose blocks are `blocks` from `at`.
    fn make_log_file(&self, at: Frag, blocks: u64) -> Result<u32> {
        let now = self.now();
        let (mut flags, mut perm) = (LOG_FLAGS, 0o400);
        if self.volume.dialect == Dialect::NetBsd {
            (flags, perm) = (SF_LOG, 0);
        }
        let mut di = Dinode {
            mode: u16::try_from(FileKind::Regular.mode_bits() | perm).unwrap_or(u16::MAX),
            nlink: 1,
            flags: if self.layout().inode_format == InodeFormat::New { flags } else { 0 },
            atime: now,
            mtime: now,
            ctime: now,
            birthtime: now,
            ..Dinode::free(0)
        };
        let root = self.iget(ROOT_INO)?;
        let mut root = (root.ino, root.state.write());
        if self.volume.dialect == Dialect::NetBsd {
            return self.volume.transact_unmarked((), |tx, ()| {
                let ino = self.volume.alloc_inode(tx, ROOT_INO, false)?;
                let unpaid = |unpaid| {
                    self.volume.quotas.iter().for_each(|quotas| quotas.set_unpaid(ino, unpaid));
                };
                unpaid(true);
                self.give_log_blocks(tx, ino, &mut di, at, blocks).inspect_err(|_| unpaid(false))?;
                Ok(ino)
            });
        }
        self.volume.transact_unmarked(&mut *root.1, |tx, state| {
            self.reserve_entry(tx, root.0, state, LOG_NAME.len(), Privilege::Root)?;
            let ino = self.volume.alloc_inode(tx, ROOT_INO, false)?;
            self.give_log_blocks(tx, ino, &mut di, at, blocks)?;
            self.enter_entry(tx, root.0, state, LOG_NAME, (ino, FileKind::Regular))?;
            (state.di.mtime, state.di.ctime) = (now, now);
            self.volume.store(tx, root.0, &state.di)?;
            Ok(ino)
        })
    }

    /// Gives inode `ino` the blocks of the log, and stores it.
    fn give_log_blocks(&self, tx: &Tx<'_>, ino: u32, di: &mut Dinode, at: Frag, blocks: u64) -> Result<()> {
        di.r#gen = self.volume.next_generation(ino)?;
        let stream = self.volume.new_stream();
        let size = blocks << self.layout().fs_bshift;
        let block = |n: u64| at + n * u64::from(self.layout().fs_frag);
        // All of them first, so that no indirect block gets one.
        (0..blocks).try_for_each(|n| self.volume.alloc_exactly(tx, block(n)).map(drop))?;
        for n in 0..blocks {
            let request = Request {
                ino,
                lbn: Lbn(n),
                final_size: size,
                written: 0..self.layout().fs_bsize as usize,
                content: Content::Data(&stream),
                by: Privilege::Root,
                given: Some(block(n)),
            };
            self.place(tx, di, &request)?;
            di.size = (n + 1) << self.layout().fs_bshift;
        }
        debug_assert!(self.layout().version == Version::Ufs2 || di.size <= self.layout().fs_maxfilesize);
        self.volume.store(tx, ino, di)
    }

    /// Refuses to change what the mount keeps for itself: the file that has the log's space, and
    /// the files of quotas that are on.
    pub(crate) fn check_not_kept(&self, ino: u32) -> Result<()> {
        let is_quota = self.volume.quotas.as_ref().is_some_and(|quotas| quotas.is_file(ino));
        if is_quota || self.log_ino == Some(ino) { Err(Error::NotPermitted) } else { Ok(()) }
    }
}
