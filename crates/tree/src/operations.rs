//! The operations that every [`Tree`] has.

use crate::{Dinode, InodeOf, NewInode, StateOf, Tree, names, rename};
use spindle_vfs::{Attr, Error, Ino, NewNode, Privilege, RenameMode, Result};
use std::sync::Arc;

/// The operations on the names and inodes of a file system.
pub trait Operations: Tree {
    /// Returns the inode with a number that a directory gave.
    ///
    /// # Errors
    /// [`Error::Stale`] if the number is not in use.
    fn iget(&self, ino: Self::Number) -> Result<Arc<InodeOf<Self>>> {
        let table = &self.nodes().table;
        loop {
            let missing = match table.find(ino) {
                Ok(inode) => return Ok(inode),
                Err(missing) => missing,
            };
            let di = self.read_inode(ino)?;
            let stream = self.new_stream(&di);
            if let Some(inode) = table.enter(&missing, ino, di, self.derive(), stream) {
                return Ok(inode);
            }
        }
    }

    /// Returns the inode with a number that a front-end gave.
    ///
    /// # Errors
    /// [`Error::Stale`] if the number is not in use.
    fn iget_ino(&self, ino: Ino) -> Result<Arc<InodeOf<Self>>> {
        self.iget(Self::Number::try_from(ino.0).map_err(|_| Error::Stale)?)
    }

    /// Returns the inode of a directory.
    ///
    /// # Errors
    /// [`Error::NotDirectory`].
    fn directory(&self, ino: Ino) -> Result<Arc<InodeOf<Self>>> {
        let inode = self.iget_ino(ino)?;
        if inode.is_directory { Ok(inode) } else { Err(Error::NotDirectory) }
    }

    /// Returns the inode that an entry of a directory names.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is free.
    fn iget_named(&self, ino: Self::Number) -> Result<Arc<InodeOf<Self>>> {
        self.iget(ino).map_err(|error| match error {
            Error::Stale => Error::corrupt("a name leads to a free inode", format!("inode {ino}")),
            other => other,
        })
    }

    /// Enters an inode that was just allocated into the table.
    fn enter_new(&self, new: NewInode<Self>) -> Arc<InodeOf<Self>> {
        self.nodes().table.enter_new(new.ino, new.di, self.derive(), new.stream)
    }

    /// Returns the attributes of an inode that is in use.
    ///
    /// # Errors
    /// [`Error::Stale`].
    fn attributes(&self, ino: Ino) -> Result<Attr> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        if state.di.is_free() { Err(Error::Stale) } else { Ok(self.attr(&inode, &state)) }
    }

    /// Sets the times of an inode whose data or names have changed.
    fn note_modified(&self, di: &mut Self::Dinode) {
        di.set_modified(self.now());
    }

    /// Notes that a file was read.
    fn touch(&self, state: &StateOf<Self>) {
        let mut pending = state.atime_pending.lock();
        let [atime, mtime, ctime] = state.di.times();
        let now = self.now();
        let due = self.nodes().atime().is_due(pending.unwrap_or(atime), mtime, ctime, now);
        if due && !self.is_read_only() {
            *pending = Some(now);
        }
    }

    /// Stores the access times that reading has changed.
    ///
    /// # Errors
    /// Device errors.
    fn store_access_times(&self) -> Result<()> {
        for inode in self.nodes().table.all() {
            if inode.state.read().atime_pending.lock().is_none() {
                continue;
            }
            let mut state = inode.state.write();
            let pending = *state.atime_pending.lock();
            if let Some(atime) = pending
                && !state.di.is_free()
            {
                self.transact(&mut *state, |tx, state| {
                    state.di.set_atime(atime);
                    self.store(tx, inode.ino, &state.di)
                })?;
            }
            state.atime_pending.lock().take();
        }
        Ok(())
    }

    /// Looks a name up, and takes a reference to what it names.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDirectory`], [`Error::NameTooLong`].
    fn look_up(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        names::look_up(self, dir, name)
    }

    /// Takes a reference to the file that has this number, if it has a name: what is freed or about
    /// to be freed stays so.
    ///
    /// # Errors
    /// [`Error::Stale`] if there is no such file.
    fn reference_number(&self, ino: Ino) -> Result<Attr> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        if state.di.is_free() || state.di.nlink() == 0 {
            return Err(Error::Stale);
        }
        self.nodes().table.reference(&inode);
        Ok(self.attr(&inode, &state))
    }

    /// Makes a file of any kind with a name, and takes a reference.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoSpace`], or what the format cannot keep.
    fn create_name(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, by: Privilege) -> Result<Attr> {
        names::create(self, dir, name, node, by)
    }

    /// Makes a regular file without a name, as for one in `dir`, and takes a reference.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another kind; [`Error::NoSpace`], or what the format cannot keep.
    fn create_without_name(&self, dir: Ino, node: &NewNode<'_>, by: Privilege) -> Result<Attr> {
        names::create_unnamed(self, dir, node, by)
    }

    /// Gives a file one more name, or its first, and takes a reference.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NotPermitted`] for a directory, [`Error::TooManyLinks`].
    fn link_name(&self, ino: Ino, dir: Ino, name: &[u8], by: Privilege) -> Result<Attr> {
        names::link(self, ino, dir, name, by)
    }

    /// Removes a name: that of a directory, or of anything else.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::IsDirectory`], [`Error::NotDirectory`].
    fn remove_name(&self, dir: Ino, name: &[u8], directory: bool) -> Result<()> {
        names::remove(self, dir, name, directory)
    }

    /// Renames, atomically.
    ///
    /// # Errors
    /// As `rename(2)`.
    fn rename_name(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        by: Privilege,
    ) -> Result<()> {
        rename::rename(self, from, to, mode, by)
    }

    /// Gives references back, and frees the file if they were the last and it has lost its names
    /// since it came into memory.
    fn forget_references(&self, ino: Ino, count: u64) {
        let Ok(number) = Self::Number::try_from(ino.0) else { return };
        if let Some(inode) = self.nodes().table.release(number, count)
            && !inode.read_without_links
        {
            self.reclaim(&inode);
        }
    }

    /// Frees an inode that has just lost a name or a reference, if it has none of either. If that
    /// fails, it is tried again when space is wanted and at the unmount, which reports the error.
    fn reclaim(&self, inode: &Arc<InodeOf<Self>>) {
        if self.nodes().table.is_referenced(inode.ino) {
            return;
        }
        if let Err(error) = self.note(self.free_orphan(inode)) {
            log::error!("inode {} could not be freed yet: {error}", inode.ino);
            self.nodes().unfreed.lock().insert(inode.ino);
        }
    }

    /// Frees all inodes that have no name, at the unmount, even if there are references. One that
    /// cannot be freed does not keep the others from being freed.
    ///
    /// # Errors
    /// The first reason why an inode could not be freed.
    fn free_unnamed(&self) -> Result<()> {
        let mut freed = Ok(());
        // An inode that could not be freed before may no longer be in memory.
        for ino in self.nodes().unfreed() {
            match self.note(self.iget(ino)) {
                Ok(inode) => freed = freed.and(self.note(self.free_orphan(&inode))),
                Err(Error::Stale) => {}
                Err(error) => freed = freed.and(Err(error)),
            }
        }
        for inode in self.nodes().table.all().into_iter().filter(|inode| !inode.read_without_links) {
            freed = freed.and(self.note(self.free_orphan(&inode)));
        }
        freed
    }

    /// Carries out an operation that changes something, and tries it again if it found no space and
    /// some could be regained. After a failure of the device it is refused.
    ///
    /// # Errors
    /// Those of the operation; the failure of the device.
    fn changing<V>(&self, mut attempt: impl FnMut() -> Result<V>) -> Result<V> {
        self.check_changes()?;
        match attempt() {
            Err(Error::NoSpace) if self.regain_space()? => attempt(),
            result => result,
        }
    }

    /// Frees the inodes that could not be freed before, and commits what was freed. Returns true if
    /// there was anything of either.
    ///
    /// # Errors
    /// Device errors.
    fn regain_space(&self) -> Result<bool> {
        let unfreed = std::mem::take(&mut *self.nodes().unfreed.lock());
        for &ino in &unfreed {
            match self.iget(ino) {
                Ok(inode) => self.reclaim(&inode),
                Err(Error::Stale) => {}
                Err(_) => {
                    self.nodes().unfreed.lock().insert(ino);
                }
            }
        }
        Ok(self.commit_freed()? || !unfreed.is_empty())
    }
}

impl<T: Tree + ?Sized> Operations for T {}
