//! Rename: atomic, with the check for loops (the paper of 1984, section 5.4).
//!
//! A rename that moves or replaces a directory holds the rename lock, so that the tree above the
//! two directories does not change. Their chains of ancestors are read first, and decide both the
//! order of the locks (an ancestor first) and whether a directory would end below itself. All other
//! renames lock one directory and then files in the order of their numbers.

use crate::names::{check_alive, check_name, kind_of, lose_name};
use crate::{Dinode, InodeOf, NewInode, Operations, State, StateOf, Tree};
use spindle_cache::Restore;
use spindle_clock::{MutexGuard, RwLockWriteGuard};
use spindle_vfs::{Error, FileKind, Ino, Privilege, RenameMode, Result};
use std::sync::Arc;

type Locked<'a, D, X> = RwLockWriteGuard<'a, State<D, X>>;

/// The states of the two directories, which may be one.
struct Pair<'a, D, X> {
    from: Locked<'a, D, X>,
    to: Option<Locked<'a, D, X>>,
}

impl<D, X> Pair<'_, D, X> {
    fn to(&mut self) -> &mut State<D, X> {
        self.to.as_mut().unwrap_or(&mut self.from)
    }
}

impl<D: Clone, X: Restore> Restore for Pair<'_, D, X> {
    type Saved = (<State<D, X> as Restore>::Saved, Option<<State<D, X> as Restore>::Saved>);
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

type LockedOf<'a, T> = Locked<'a, <T as Tree>::Dinode, <T as Tree>::Derived>;
type PairOf<'a, T> = Pair<'a, <T as Tree>::Dinode, <T as Tree>::Derived>;

/// One end of a rename.
struct End<'a, T: Tree + ?Sized> {
    dir: Arc<InodeOf<T>>,
    name: &'a [u8],
    /// The directory's ancestors, itself first; empty if no directory moves.
    chain: Vec<T::Number>,
}

/// A name that is moved, and the inode that it names.
struct Move<'a, T: Tree + ?Sized> {
    from: &'a End<'a, T>,
    to: &'a End<'a, T>,
    /// Byte offset of the entry.
    place: u64,
    inode: &'a Arc<InodeOf<T>>,
}

impl<T: Tree + ?Sized> Move<'_, T> {
    fn changes_parent(&self) -> bool {
        self.from.dir.ino != self.to.dir.ino
    }
}

/// The outcome of a rename after one attempt with the locks held.
enum Outcome<T: Tree + ?Sized> {
    /// It is done.
    Done,
    /// It is done, and this inode has lost a name.
    Replaced(Arc<InodeOf<T>>),
    /// A directory is involved, and the rename lock is not held.
    NeedsLock,
}

/// Implements [`Operations::rename_name`].
pub(crate) fn rename<T: Tree + ?Sized>(
    tree: &T,
    from: (Ino, &[u8]),
    to: (Ino, &[u8]),
    mode: RenameMode,
    by: Privilege,
) -> Result<()> {
    check_name(tree, from.1)?;
    check_name(tree, to.1)?;
    let one_directory = from.0 == to.0;
    let (mut from, mut to) = (end(tree, from)?, end(tree, to)?);
    if one_directory {
        match attempt(tree, &from, &to, mode, by, None)? {
            Outcome::NeedsLock => {}
            outcome => return finish(tree, &outcome),
        }
    }
    let lock = tree.nodes().rename_lock.lock();
    from.chain = ancestors(tree, from.dir.ino)?;
    to.chain = ancestors(tree, to.dir.ino)?;
    let outcome = attempt(tree, &from, &to, mode, by, Some(&lock))?;
    finish(tree, &outcome)
}

fn end<'a, T: Tree + ?Sized>(tree: &T, (dir, name): (Ino, &'a [u8])) -> Result<End<'a, T>> {
    Ok(End { dir: tree.directory(dir)?, name, chain: Vec::new() })
}

/// Frees what the rename has replaced, now that no lock is held.
fn finish<T: Tree + ?Sized>(tree: &T, outcome: &Outcome<T>) -> Result<()> {
    match outcome {
        Outcome::Done => {}
        Outcome::Replaced(inode) => tree.reclaim(inode),
        Outcome::NeedsLock => return Err(Error::Stale),
    }
    Ok(())
}

/// Returns a directory and all above it.
fn ancestors<T: Tree + ?Sized>(tree: &T, dir: T::Number) -> Result<Vec<T::Number>> {
    let mut chain = vec![dir];
    let mut at = dir;
    while at != T::ROOT {
        let inode = tree.iget(at)?;
        let state = inode.state.read();
        // A removed directory has no parent any more; what follows will refuse it.
        let Some(found) = tree.dir_find(at, &state, b"..")?.filter(|_| state.di.nlink() > 0) else { break };
        if chain.contains(&found.ino) {
            return Err(Error::corrupt("directories form a ring", format!("directory inode {dir}")));
        }
        at = found.ino;
        chain.push(at);
    }
    Ok(chain)
}

/// Locks the two directories, an ancestor first.
fn lock_pair<'a, T: Tree + ?Sized>(from: &'a End<'_, T>, to: &'a End<'_, T>) -> PairOf<'a, T> {
    if from.dir.ino == to.dir.ino {
        return Pair { from: from.dir.state.write(), to: None };
    }
    let to_first =
        from.chain.contains(&to.dir.ino) || !to.chain.contains(&from.dir.ino) && to.dir.ino < from.dir.ino;
    if to_first {
        let to = to.dir.state.write();
        Pair { from: from.dir.state.write(), to: Some(to) }
    } else {
        let from = from.dir.state.write();
        Pair { from, to: Some(to.dir.state.write()) }
    }
}

/// Renames, unless a directory turns out to be involved and the rename lock is not held.
fn attempt<T: Tree + ?Sized>(
    tree: &T,
    from: &End<'_, T>,
    to: &End<'_, T>,
    mode: RenameMode,
    by: Privilege,
    rename_lock: Option<&MutexGuard<'_, ()>>,
) -> Result<Outcome<T>> {
    let mut dirs = lock_pair(from, to);
    check_alive(&dirs.from.di)?;
    check_alive(&dirs.to().di)?;
    let source = tree.dir_find(from.dir.ino, &dirs.from, from.name)?.ok_or(Error::NotFound)?;
    let target = tree.dir_find(to.dir.ino, dirs.to(), to.name)?;
    let source_inode = tree.iget_named(source.ino)?;
    let target = target.map(|found| Ok::<_, Error>((found, tree.iget_named(found.ino)?))).transpose()?;
    match (&target, mode) {
        (Some(_), RenameMode::NoReplace) => return Err(Error::Exists),
        (None, RenameMode::Exchange) => return Err(Error::NotFound),
        (Some((found, _)), _) if found.ino == source.ino => return Ok(Outcome::Done),
        _ => {}
    }
    let source_is_dir = source_inode.is_directory;
    let target_is_dir = target.as_ref().is_some_and(|(_, inode)| inode.is_directory);
    if (source_is_dir || target_is_dir) && rename_lock.is_none() {
        return Ok(Outcome::NeedsLock);
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
    tree.check_changeable(source.ino)?;
    target.as_ref().map_or(Ok(()), |(found, _)| tree.check_changeable(found.ino))?;
    let what = Move { from, to, place: source.place, inode: &source_inode };
    match target {
        Some((found, inode)) if mode == RenameMode::Exchange => {
            exchange(tree, &mut dirs, &what, (found.place, &inode))?;
            Ok(Outcome::Done)
        }
        Some((found, inode)) => {
            match (source_is_dir, target_is_dir) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                _ => {}
            }
            replace(tree, &mut dirs, &what, (found.place, &inode), (mode, by))?;
            Ok(Outcome::Replaced(inode))
        }
        None => {
            move_name(tree, &mut dirs, &what, (mode, by))?;
            Ok(Outcome::Done)
        }
    }
}

/// Moves a name to where there is none.
fn move_name<T: Tree + ?Sized>(
    tree: &T,
    dirs: &mut PairOf<'_, T>,
    what: &Move<'_, T>,
    (mode, by): (RenameMode, Privilege),
) -> Result<()> {
    let mut source = what.inode.state.write();
    let moves_directory = what.inode.is_directory && what.changes_parent();
    if moves_directory && dirs.to().di.nlink() >= tree.link_max() {
        return Err(Error::TooManyLinks);
    }
    tree.transact_naming((dirs, &mut *source), |tx, (dirs, source)| {
        let (to_ino, name) = (what.to.dir.ino, what.to.name);
        let room = tree.dir_reserve(tx, to_ino, dirs.to(), name, by)?;
        tree.dir_enter(tx, to_ino, dirs.to(), room, name, (what.inode.ino, kind_of::<T>(source)))?;
        let whiteout = leave(tree, tx, &mut dirs.from, what, (mode, by))?;
        if moves_directory {
            reparent(tree, tx, what.inode.ino, source, (to_ino, &dirs.to().di))?;
            add_links(dirs.to(), 1);
            add_links(&mut dirs.from, -1);
        }
        store_all(tree, tx, dirs, what, source)?;
        whiteout.map(|new| tree.enter_new(new));
        Ok(())
    })
}

/// Moves a name over another of the same sort.
fn replace<T: Tree + ?Sized>(
    tree: &T,
    dirs: &mut PairOf<'_, T>,
    what: &Move<'_, T>,
    target: (u64, &Arc<InodeOf<T>>),
    (mode, by): (RenameMode, Privilege),
) -> Result<()> {
    let (mut source, mut old) = lock_both::<T>(what.inode, target.1);
    if what.inode.is_directory && !tree.dir_is_empty(target.1.ino, &old.di)? {
        return Err(Error::NotEmpty);
    }
    tree.check_orphans()?;
    tree.transact_naming((dirs, &mut *source, &mut *old), |tx, (dirs, source, old)| {
        let to_ino = what.to.dir.ino;
        let now_named = (what.inode.ino, kind_of::<T>(source));
        tree.dir_rewrite(tx, to_ino, dirs.to(), target.0, now_named)?;
        let whiteout = leave(tree, tx, &mut dirs.from, what, (mode, by))?;
        if what.inode.is_directory {
            // One directory less where the source was; in the new parent it takes the place of the
            // old one.
            add_links(&mut dirs.from, -1);
            if what.changes_parent() {
                reparent(tree, tx, what.inode.ino, source, (to_ino, &dirs.to().di))?;
            }
        }
        lose_name(tree, tx, target.1.ino, old);
        old.di.set_changed(tree.now());
        tree.store(tx, target.1.ino, &old.di)?;
        store_all(tree, tx, dirs, what, source)?;
        whiteout.map(|new| tree.enter_new(new));
        Ok(())
    })
}

/// Takes the old name away, or makes it that of a whiteout, which is returned.
fn leave<T: Tree + ?Sized>(
    tree: &T,
    tx: &T::Tx<'_>,
    from: &mut StateOf<T>,
    what: &Move<'_, T>,
    (mode, by): (RenameMode, Privilege),
) -> Result<Option<NewInode<T>>> {
    let dir = what.from.dir.ino;
    let Some(node) = mode.whiteout() else {
        tree.dir_remove(tx, dir, from, what.from.name, what.place)?;
        return Ok(None);
    };
    let new = tree.make_inode(tx, (dir, &from.di), &node, by)?;
    tree.dir_rewrite(tx, dir, from, what.place, (new.ino, node.kind))?;
    Ok(Some(new))
}

/// Swaps two names.
fn exchange<T: Tree + ?Sized>(
    tree: &T,
    dirs: &mut PairOf<'_, T>,
    what: &Move<'_, T>,
    target: (u64, &Arc<InodeOf<T>>),
) -> Result<()> {
    let (source_is_dir, target_is_dir) = (what.inode.is_directory, target.1.is_directory);
    let (mut source, mut other) = lock_both::<T>(what.inode, target.1);
    let more = if what.changes_parent() { i16::from(source_is_dir) - i16::from(target_is_dir) } else { 0 };
    let grown = if more > 0 { dirs.to().di.nlink() } else { dirs.from.di.nlink() };
    if more != 0 && grown >= tree.link_max() {
        return Err(Error::TooManyLinks);
    }
    tree.transact_naming((dirs, &mut *source, &mut *other), |tx, (dirs, source, other)| {
        let (from_ino, to_ino) = (what.from.dir.ino, what.to.dir.ino);
        tree.dir_rewrite(tx, to_ino, dirs.to(), target.0, (what.inode.ino, kind_of::<T>(source)))?;
        tree.dir_rewrite(tx, from_ino, &mut dirs.from, what.place, (target.1.ino, kind_of::<T>(other)))?;
        if what.changes_parent() {
            if source_is_dir {
                reparent(tree, tx, what.inode.ino, source, (to_ino, &dirs.to().di))?;
            }
            if target_is_dir {
                reparent(tree, tx, target.1.ino, other, (from_ino, &dirs.from.di))?;
            }
            add_links(dirs.to(), more);
            add_links(&mut dirs.from, -more);
        }
        other.di.set_changed(tree.now());
        tree.store(tx, target.1.ino, &other.di)?;
        store_all(tree, tx, dirs, what, source)
    })
}

fn add_links<D: Dinode, X>(dir: &mut State<D, X>, more: i16) {
    let nlink = dir.di.nlink();
    dir.di.set_nlink(nlink.saturating_add_signed(more));
}

/// Makes the `..` of a directory lead to its new parent.
fn reparent<T: Tree + ?Sized>(
    tree: &T,
    tx: &T::Tx<'_>,
    ino: T::Number,
    state: &mut StateOf<T>,
    parent: (T::Number, &T::Dinode),
) -> Result<()> {
    let found = tree
        .dir_find(ino, state, b"..")?
        .ok_or_else(|| Error::corrupt("no ..", format!("directory inode {ino}")))?;
    tree.dir_rewrite(tx, ino, state, found.place, (parent.0, FileKind::Directory))?;
    tree.note_new_parent(&mut state.di, parent.1);
    Ok(())
}

/// Sets the times, and stores the source and both directories.
fn store_all<T: Tree + ?Sized>(
    tree: &T,
    tx: &T::Tx<'_>,
    dirs: &mut PairOf<'_, T>,
    what: &Move<'_, T>,
    source: &mut StateOf<T>,
) -> Result<()> {
    let now = tree.now();
    source.di.set_changed(now);
    tree.store(tx, what.inode.ino, &source.di)?;
    dirs.from.di.set_modified(now);
    tree.store(tx, what.from.dir.ino, &dirs.from.di)?;
    let to = dirs.to();
    to.di.set_modified(now);
    tree.store(tx, what.to.dir.ino, &to.di)
}

/// Locks two inodes, a directory first, otherwise the lower number.
fn lock_both<'a, T: Tree + ?Sized>(
    a: &'a InodeOf<T>,
    b: &'a InodeOf<T>,
) -> (LockedOf<'a, T>, LockedOf<'a, T>) {
    let rank = |inode: &InodeOf<T>| (!inode.is_directory, inode.ino);
    if rank(a) < rank(b) {
        let first = a.state.write();
        (first, b.state.write())
    } else {
        let first = b.state.write();
        (a.state.write(), first)
    }
}
