//! Names: looked up, created, linked, removed. The inode is complete before the entry that leads to
//! it.

use crate::{Dinode, Operations, StateOf, Tree};
use spindle_vfs::{Attr, Error, FileKind, Ino, NewNode, Privilege, Result};

/// Refuses to enter names into a directory that was removed while it was open.
pub(crate) fn check_alive(di: &impl Dinode) -> Result<()> {
    if di.nlink() == 0 { Err(Error::NotFound) } else { Ok(()) }
}

/// Refuses what cannot be created, removed or renamed.
pub(crate) fn check_name<T: Tree + ?Sized>(tree: &T, name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(Error::NotFound),
        b"." | b".." => Err(Error::Invalid),
        _ if name.len() > tree.name_max() => Err(Error::NameTooLong),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Error::Invalid),
        _ => Ok(()),
    }
}

/// Returns the kind of file that an entry has for an inode.
pub(crate) fn kind_of<T: Tree + ?Sized>(state: &StateOf<T>) -> FileKind {
    state.di.kind().unwrap_or(FileKind::Regular)
}

/// Implements [`Operations::look_up`].
pub(crate) fn look_up<T: Tree + ?Sized>(tree: &T, dir: Ino, name: &[u8]) -> Result<Attr> {
    let dir = tree.directory(dir)?;
    if name.len() > tree.name_max() {
        return Err(Error::NameTooLong);
    }
    let dir_state = dir.state.read();
    let table = &tree.nodes().table;
    if name == b"." {
        table.reference(&dir);
        return Ok(tree.attr(&dir, &dir_state));
    }
    if name == b".." && !dir.read_without_links {
        // What a directory that was removed while it was open had above it may be another by now.
        check_alive(&dir_state.di)?;
    }
    let found = tree.note(tree.dir_find(dir.ino, &dir_state, name))?.ok_or(Error::NotFound)?;
    let child = tree.note(tree.iget_named(found.ino))?;
    if child.read_without_links && !tree.shows_unnamed(dir.ino) && !tree.condition().note_damage() {
        log::warn!("inode {}: a name leads to it, but it counts no names: run a check", child.ino);
    }
    table.reference(&child);
    // The reference keeps it from being freed.
    drop(dir_state);
    let state = child.state.read();
    Ok(tree.attr(&child, &state))
}

/// Implements [`Operations::create_name`].
pub(crate) fn create<T: Tree + ?Sized>(
    tree: &T,
    dir: Ino,
    name: &[u8],
    node: &NewNode<'_>,
    by: Privilege,
) -> Result<Attr> {
    if matches!(name, b"." | b"..") {
        return Err(Error::Exists);
    }
    check_name(tree, name)?;
    tree.check_node(node)?;
    if node.kind == FileKind::Symlink && (node.target.is_empty() || node.target.contains(&0)) {
        return Err(Error::Invalid);
    }
    let dir = tree.directory(dir)?;
    let mut dir_state = dir.state.write();
    check_alive(&dir_state.di)?;
    if tree.dir_find(dir.ino, &dir_state, name)?.is_some() {
        return Err(Error::Exists);
    }
    let directory = node.kind == FileKind::Directory;
    if directory && dir_state.di.nlink() >= tree.link_max() {
        return Err(Error::TooManyLinks);
    }
    tree.transact_naming(&mut *dir_state, |tx, dir_state| {
        let room = tree.dir_reserve(tx, dir.ino, dir_state, name, by)?;
        let new = tree.make_inode(tx, (dir.ino, &dir_state.di), node, by)?;
        tree.dir_enter(tx, dir.ino, dir_state, room, name, (new.ino, node.kind))?;
        tree.note_modified(&mut dir_state.di);
        let nlink = dir_state.di.nlink();
        dir_state.di.set_nlink(nlink + u16::from(directory));
        tree.store(tx, dir.ino, &dir_state.di)?;
        let inode = tree.enter_new(new);
        tree.nodes().table.reference(&inode);
        let state = inode.state.read();
        Ok(tree.attr(&inode, &state))
    })
}

/// Implements [`Operations::create_without_name`].
pub(crate) fn create_unnamed<T: Tree + ?Sized>(
    tree: &T,
    dir: Ino,
    node: &NewNode<'_>,
    by: Privilege,
) -> Result<Attr> {
    if node.kind != FileKind::Regular {
        return Err(Error::Invalid);
    }
    tree.check_node(node)?;
    let dir = tree.directory(dir)?;
    let dir_state = dir.state.read();
    check_alive(&dir_state.di)?;
    tree.check_orphans()?;
    tree.transact((), |tx, ()| {
        let mut new = tree.make_inode(tx, (dir.ino, &dir_state.di), node, by)?;
        new.di.set_nlink(0);
        tree.store(tx, new.ino, &new.di)?;
        tree.note_orphan(tx, new.ino, &new.di);
        let inode = tree.enter_new(new);
        tree.nodes().table.reference(&inode);
        let mut state = inode.state.write();
        state.nameable = true;
        Ok(tree.attr(&inode, &state))
    })
}

/// Implements [`Operations::link_name`].
pub(crate) fn link<T: Tree + ?Sized>(
    tree: &T,
    ino: Ino,
    dir: Ino,
    name: &[u8],
    by: Privilege,
) -> Result<Attr> {
    if matches!(name, b"." | b"..") {
        return Err(Error::Exists);
    }
    check_name(tree, name)?;
    let inode = tree.iget_ino(ino)?;
    let dir = tree.directory(dir)?;
    if inode.is_directory {
        return Err(Error::NotPermitted);
    }
    let mut dir_state = dir.state.write();
    let mut state = inode.state.write();
    check_alive(&dir_state.di)?;
    tree.check_changeable(inode.ino)?;
    if !state.nameable {
        check_alive(&state.di)?;
    }
    if tree.dir_find(dir.ino, &dir_state, name)?.is_some() {
        return Err(Error::Exists);
    }
    if state.di.nlink() >= tree.link_max() {
        return Err(Error::TooManyLinks);
    }
    tree.transact_naming((&mut *dir_state, &mut *state), |tx, (dir_state, state)| {
        let room = tree.dir_reserve(tx, dir.ino, dir_state, name, by)?;
        tree.dir_enter(tx, dir.ino, dir_state, room, name, (inode.ino, kind_of::<T>(state)))?;
        let now = tree.now();
        dir_state.di.set_modified(now);
        if std::mem::take(&mut state.nameable) {
            tree.note_first_name(tx, inode.ino, &mut state.derived)?;
        }
        let nlink = state.di.nlink();
        state.di.set_nlink(nlink + 1);
        state.di.set_changed(now);
        tree.store(tx, dir.ino, &dir_state.di)?;
        tree.store(tx, inode.ino, &state.di)?;
        tree.nodes().table.reference(&inode);
        Ok(tree.attr(&inode, state))
    })
}

/// Implements [`Operations::remove_name`].
pub(crate) fn remove<T: Tree + ?Sized>(tree: &T, dir: Ino, name: &[u8], directory: bool) -> Result<()> {
    check_name(tree, name)?;
    let dir = tree.directory(dir)?;
    let child = {
        let _two_directories = directory.then(|| tree.nodes().rename_lock.lock());
        let mut dir_state = dir.state.write();
        check_alive(&dir_state.di)?;
        let found = tree.dir_find(dir.ino, &dir_state, name)?.ok_or(Error::NotFound)?;
        let child = tree.iget_named(found.ino)?;
        if child.ino == dir.ino {
            return Err(Error::Invalid);
        }
        tree.check_changeable(child.ino)?;
        match (directory, child.is_directory) {
            (true, false) => return Err(Error::NotDirectory),
            (false, true) => return Err(Error::IsDirectory),
            _ => {}
        }
        let mut state = child.state.write();
        if directory && !tree.dir_is_empty(child.ino, &state.di)? {
            return Err(Error::NotEmpty);
        }
        tree.check_orphans()?;
        tree.transact_naming((&mut *dir_state, &mut *state), |tx, (dir_state, state)| {
            let now = tree.now();
            tree.dir_remove(tx, dir.ino, dir_state, name, found.place)?;
            dir_state.di.set_modified(now);
            state.di.set_changed(now);
            if directory {
                let nlink = dir_state.di.nlink();
                dir_state.di.set_nlink(nlink.saturating_sub(1));
            }
            lose_name(tree, tx, child.ino, state);
            tree.store(tx, dir.ino, &dir_state.di)?;
            tree.store(tx, child.ino, &state.di)
        })?;
        drop(state);
        child
    };
    tree.reclaim(&child);
    Ok(())
}

/// Takes a name from an inode. Of a directory its own name, its `.` and its `..` in the parent go
/// together.
pub(crate) fn lose_name<T: Tree + ?Sized>(tree: &T, tx: &T::Tx<'_>, ino: T::Number, state: &mut StateOf<T>) {
    let left = if state.di.is_directory() { 0 } else { state.di.nlink().saturating_sub(1) };
    state.di.set_nlink(left);
    if left == 0 {
        tree.note_orphan(tx, ino, &state.di);
    }
}
