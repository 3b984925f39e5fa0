//! Rename: atomic, with the loop check (paper, section 5.4).
//!
//! A rename that moves or replaces a directory holds [`Ffs::rename_lock`], so that the tree above
//! the two directories stands still: their chains of ancestors are taken down first, and decide
//! both the order of the locks (an ancestor first) and whether a directory would end below itself.
//! All other renames lock one directory and then files in the order of their numbers.

use crate::format::layout::ROOT_INO;
use crate::format::layout::Version;
use crate::tree::inode::{Inode, SavedState, State};
use crate::tree::mount::Ffs;
use crate::tree::names::{LINK_MAX, check_alive, check_name, dangling};
use crate::volume::tx::{GivenUp, Tx};
use spindle_cache::Restore;
use spindle_clock::{MutexGuard, RwLockWriteGuard};
use spindle_vfs::{Error, FileKind, Ino, Privilege, RenameMode, Result};
use std::sync::Arc;

type Locked<'a> = RwLockWriteGuard<'a, State>;

/// The states of the two directories, which may be one.
struct Pair<'a> {
    from: Locked<'a>,
    to: Option<Locked<'a>>,
}

impl Pair<'_> {
    fn to(&mut self) -> &mut State {
        self.to.as_mut().unwrap_or(&mut self.from)
    }
}

impl Restore for Pair<'_> {
    type Saved = (SavedState, Option<SavedState>);
    fn save(&self) -> Self::Saved {
        (self.from.save(), self.to.as_ref().map(|to| to.save()))
    }
    fn restore(&mut self, (from, to): Self::Saved) {
        self.from.restore(from);
        if let (Some(state), Some(saved)) = (&mut self.to, to) {
            state.restore(saved);
        }
    }
}

/// One end of a rename.
struct End<'a> {
    dir: Arc<Inode>,
    name: &'a [u8],
    /// The directory's ancestors, itself first; empty where no directory moves.
    chain: Vec<u32>,
}

impl Ffs {
    pub(crate) fn rename_entry(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        by: Privilege,
    ) -> Result<()> {
        check_name(from.1)?;
        check_name(to.1)?;
        let one_directory = from.0 == to.0;
        let end = |(dir, name)| Ok::<_, Error>(End { dir: self.directory(dir)?, name, chain: Vec::new() });
        let (mut from, mut to) = (end(from)?, end(to)?);
        if one_directory && let Some(result) = self.try_rename(&from, &to, mode, by, None) {
            return result;
        }
        let rename_lock = self.rename_lock.lock();
        from.chain = self.ancestors(from.dir.ino)?;
        to.chain = self.ancestors(to.dir.ino)?;
        self.try_rename(&from, &to, mode, by, Some(&rename_lock)).unwrap_or(Err(Error::Stale))
    }

    /// Returns a directory and all above it.
    fn ancestors(&self, dir: u32) -> Result<Vec<u32>> {
        let mut chain = vec![dir];
        let mut at = dir;
        while at != ROOT_INO {
            let inode = self.iget(at)?;
            let state = inode.state.read();
            // A removed directory has no parent any more; what follows will refuse it.
            let Some(found) = self.dir_find(at, &state, b"..")?.filter(|_| state.di.nlink > 0) else { break };
            if chain.contains(&found.ino) {
                return Err(Error::corrupt("directories form a ring", format!("directory inode {dir}")));
            }
            at = found.ino;
            chain.push(at);
        }
        Ok(chain)
    }

    /// Locks the two directories, an ancestor first.
    fn lock_pair<'a>(from: &'a End<'_>, to: &'a End<'_>) -> Pair<'a> {
        if from.dir.ino == to.dir.ino {
            return Pair { from: from.dir.state.write(), to: None };
        }
        let to_first = from.chain.contains(&to.dir.ino)
            || !to.chain.contains(&from.dir.ino) && to.dir.ino < from.dir.ino;
        if to_first {
            let to = to.dir.state.write();
            Pair { from: from.dir.state.write(), to: Some(to) }
        } else {
            let from = from.dir.state.write();
            Pair { from, to: Some(to.dir.state.write()) }
        }
    }

    /// Does it; `None` if a directory turns out to be involved and the tree is not held still.
    fn try_rename(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        mode: RenameMode,
        by: Privilege,
        rename_lock: Option<&MutexGuard<'_, ()>>,
    ) -> Option<Result<()>> {
        let mut dirs = Self::lock_pair(from, to);
        let replaced = (|| {
            check_alive(&dirs.from.di)?;
            check_alive(&dirs.to().di)?;
            let source = self.dir_find(from.dir.ino, &dirs.from, from.name)?.ok_or(Error::NotFound)?;
            let target = self.dir_find(to.dir.ino, dirs.to(), to.name)?;
            let get = |ino| self.iget(ino).map_err(|e| dangling(e, ino));
            let source_inode = get(source.ino)?;
            let target = target.map(|found| Ok::<_, Error>((found, get(found.ino)?))).transpose()?;
            match (&target, mode) {
                (Some(_), RenameMode::NoReplace) => return Err(Error::Exists),
                (None, RenameMode::Exchange) => return Err(Error::NotFound),
                (Some((found, _)), _) if found.ino == source.ino => return Ok(Some(None)),
                _ => {}
            }
            let source_is_dir = source_inode.is_directory;
            let target_is_dir = target.as_ref().is_some_and(|(_, inode)| inode.is_directory);
            if (source_is_dir || target_is_dir) && rename_lock.is_none() {
                return Ok(None);
            }
            if source_is_dir && to.chain.contains(&source.ino) {
                return Err(Error::Invalid);
            }
            if target.as_ref().is_some_and(|(found, _)| from.chain.contains(&found.ino)) {
                return Err(if mode == RenameMode::Exchange { Error::Invalid } else { Error::NotEmpty });
            }
            // Two locks of one inode would wait for each other, so this must not go on.
            for (end, found) in [(from, Some(&source)), (to, target.as_ref().map(|(found, _)| found))] {
                if let Some(found) = found.filter(|found| end.chain.contains(&found.ino)) {
                    return Err(Error::corrupt(
                        format!("a name leads up to inode {}", found.ino),
                        format!("directory inode {}, offset {}", end.dir.ino, found.place),
                    ));
                }
            }
            self.check_not_log(source.ino)?;
            target.as_ref().map_or(Ok(()), |(found, _)| self.check_not_log(found.ino))?;
            let what = Move { from, to, source: (source.place, &source_inode), source_is_dir };
            match target {
                Some((found, inode)) if mode == RenameMode::Exchange => {
                    self.exchange(&mut dirs, &what, (found.place, &inode), target_is_dir)?;
                    Ok(Some(None))
                }
                Some((found, inode)) => {
                    match (source_is_dir, target_is_dir) {
                        (true, false) => return Err(Error::NotDirectory),
                        (false, true) => return Err(Error::IsDirectory),
                        _ => {}
                    }
                    self.replace(&mut dirs, &what, (found.place, &inode))?;
                    Ok(Some(Some(inode)))
                }
                None => {
                    self.move_entry(&mut dirs, &what, by)?;
                    Ok(Some(None))
                }
            }
        })();
        drop(dirs);
        match replaced {
            Ok(None) => None,
            Ok(Some(None)) => Some(Ok(())),
            Ok(Some(Some(inode))) => {
                self.reclaim(&inode);
                Some(Ok(()))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Moves a name to where there is none.
    fn move_entry(&self, dirs: &mut Pair<'_>, what: &Move<'_>, by: Privilege) -> Result<()> {
        let mut source = what.source.1.state.write();
        let moves_up = what.source_is_dir && what.changes_parent();
        if moves_up && dirs.to().di.nlink >= LINK_MAX {
            return Err(Error::TooManyLinks);
        }
        self.volume.transact_naming((dirs, &mut *source), |tx, (dirs, source)| {
            let (to_ino, name) = (what.to.dir.ino, what.to.name);
            self.dir_reserve(tx, to_ino, dirs.to(), name.len(), by)?;
            let target = (what.source.1.ino, source.di.kind().unwrap_or(FileKind::Regular));
            self.dir_enter(tx, to_ino, dirs.to(), name, target)?;
            self.dir_remove(tx, what.from.dir.ino, &mut dirs.from, what.from.name, what.source.0)?;
            if moves_up {
                self.reparent(tx, what.source.1.ino, source, (to_ino, dirs.to().di.dirdepth))?;
                dirs.to().di.nlink += 1;
                dirs.from.di.nlink = dirs.from.di.nlink.saturating_sub(1);
            }
            self.finish_rename(tx, dirs, what, source)
        })
    }

    /// Moves a name over another of the same sort.
    fn replace(&self, dirs: &mut Pair<'_>, what: &Move<'_>, target: (u64, &Arc<Inode>)) -> Result<()> {
        let (mut source, mut old) = lock_both(what.source.1, target.1);
        if what.source_is_dir && !self.dir_is_empty(target.1.ino, &old.di)? {
            return Err(Error::NotEmpty);
        }
        self.volume.check_orphans()?;
        self.volume.transact_naming((dirs, &mut *source, &mut *old), |tx, (dirs, source, old)| {
            let to_ino = what.to.dir.ino;
            let now_named = (what.source.1.ino, source.di.kind().unwrap_or(FileKind::Regular));
            self.dir_rewrite(tx, to_ino, &dirs.to().di, target.0, now_named)?;
            self.dir_remove(tx, what.from.dir.ino, &mut dirs.from, what.from.name, what.source.0)?;
            if what.source_is_dir {
                // One directory less in the place the source leaves; its place in the new parent is
                // the old one's.
                dirs.from.di.nlink = dirs.from.di.nlink.saturating_sub(1);
                if what.changes_parent() {
                    self.reparent(tx, what.source.1.ino, source, (to_ino, dirs.to().di.dirdepth))?;
                }
                old.di.nlink = 0;
            } else {
                old.di.nlink = old.di.nlink.saturating_sub(1);
            }
            if old.di.nlink == 0 {
                tx.give_up(GivenUp::LastName(target.1.ino, old.di.mode));
            }
            old.di.ctime = self.now();
            self.volume.store(tx, target.1.ino, &old.di)?;
            self.finish_rename(tx, dirs, what, source)
        })
    }

    /// Swaps two names.
    fn exchange(
        &self,
        dirs: &mut Pair<'_>,
        what: &Move<'_>,
        target: (u64, &Arc<Inode>),
        target_is_dir: bool,
    ) -> Result<()> {
        let (mut source, mut other) = lock_both(what.source.1, target.1);
        let change =
            if what.changes_parent() { i16::from(what.source_is_dir) - i16::from(target_is_dir) } else { 0 };
        let grown = if change > 0 { dirs.to().di.nlink } else { dirs.from.di.nlink };
        if change != 0 && grown >= LINK_MAX {
            return Err(Error::TooManyLinks);
        }
        self.volume.transact_naming((dirs, &mut *source, &mut *other), |tx, (dirs, source, other)| {
            let (from_ino, to_ino) = (what.from.dir.ino, what.to.dir.ino);
            let kind = |state: &State| state.di.kind().unwrap_or(FileKind::Regular);
            self.dir_rewrite(tx, to_ino, &dirs.to().di, target.0, (what.source.1.ino, kind(source)))?;
            self.dir_rewrite(tx, from_ino, &dirs.from.di, what.source.0, (target.1.ino, kind(other)))?;
            if what.changes_parent() {
                if what.source_is_dir {
                    self.reparent(tx, what.source.1.ino, source, (to_ino, dirs.to().di.dirdepth))?;
                }
                if target_is_dir {
                    self.reparent(tx, target.1.ino, other, (from_ino, dirs.from.di.dirdepth))?;
                }
                dirs.to().di.nlink = dirs.to().di.nlink.saturating_add_signed(change);
                dirs.from.di.nlink = dirs.from.di.nlink.saturating_add_signed(-change);
            }
            other.di.ctime = self.now();
            self.volume.store(tx, target.1.ino, &other.di)?;
            self.finish_rename(tx, dirs, what, source)
        })
    }

    /// Makes a directory's `..` lead to its new parent, of which number and depth are given.
    fn reparent(&self, tx: &Tx<'_>, ino: u32, state: &mut State, parent: (u32, u32)) -> Result<()> {
        let found = self
            .dir_find(ino, state, b"..")?
            .ok_or_else(|| Error::corrupt("no ..", format!("directory inode {ino}")))?;
        self.dir_rewrite(tx, ino, &state.di, found.place, (parent.0, FileKind::Directory))?;
        if self.layout().version == Version::Ufs2 {
            state.di.dirdepth = parent.1.wrapping_add(1);
        }
        Ok(())
    }

    /// Sets the times and stores what has changed.
    fn finish_rename(
        &self,
        tx: &Tx<'_>,
        dirs: &mut Pair<'_>,
        what: &Move<'_>,
        source: &mut State,
    ) -> Result<()> {
        let now = self.now();
        source.di.ctime = now;
        self.volume.store(tx, what.source.1.ino, &source.di)?;
        (dirs.from.di.mtime, dirs.from.di.ctime) = (now, now);
        self.volume.store(tx, what.from.dir.ino, &dirs.from.di)?;
        let to = dirs.to();
        (to.di.mtime, to.di.ctime) = (now, now);
        self.volume.store(tx, what.to.dir.ino, &to.di)
    }
}

/// What is renamed.
struct Move<'a> {
    from: &'a End<'a>,
    to: &'a End<'a>,
    /// Place of the name and the inode it names.
    source: (u64, &'a Arc<Inode>),
    source_is_dir: bool,
}

impl Move<'_> {
    fn changes_parent(&self) -> bool {
        self.from.dir.ino != self.to.dir.ino
    }
}

/// Locks two inodes, a directory first, otherwise the lower number.
fn lock_both<'a>(a: &'a Inode, b: &'a Inode) -> (Locked<'a>, Locked<'a>) {
    let rank = |inode: &Inode| (!inode.is_directory, inode.ino);
    if rank(a) < rank(b) {
        let first = a.state.write();
        (first, b.state.write())
    } else {
        let first = b.state.write();
        (a.state.write(), first)
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
    use spindle_vfs::{FileSystem, NewNode, Rdev};

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
            let node = NewNode { kind, perm: 0o755, uid: 0, gid: 0, rdev: Rdev::default(), target: b"" };
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
}
