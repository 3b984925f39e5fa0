//! Files that take the place of others.
//!
//! The new file gets a name of its own beside the old one, and takes its name when it is complete:
//! whatever fails before then leaves the old file as it was. Where there is no space for both, the
//! old file goes first, as with cp(1), but only if the new one should then fit.

use super::ImageSink;
use crate::error::{Error, Result};
use crate::flags;
use crate::path::{child, create};
use crate::transfer::{Content, Extents};
use spindle_vfs::Node as Held;
use spindle_vfs::{Attr, Cred, Error as FsError, NewNode, Privilege, RenameMode};

/// The blocks of a file to which its inode points, in the format that has the fewest of them.
const DIRECT_BLOCKS: u64 = 10;

/// A file that is being made.
pub(super) struct Making<'a> {
    pub file: Held<'a>,
    state: State,
}

/// What has become of the file whose name the new one gets.
enum State {
    /// There was none: the new file has its name.
    None,
    /// It stays until the new one, which has this name as yet, is complete.
    Stays { beside: Vec<u8>, old: Attr, need: Need },
    /// It was removed to make room.
    Removed,
}

/// The space that a file needs: its runs of data.
pub(super) struct Need(Extents);

impl Need {
    /// Returns the need of content without holes.
    pub(super) fn bytes(len: usize) -> Self {
        Self(vec![(0, len as u64)])
    }

    /// Returns the need of a file; where its holes are not known, it has none.
    pub(super) fn of(size: u64, content: &mut dyn Content) -> Result<Self> {
        Ok(Self(content.extents()?.unwrap_or_else(|| vec![(0, size)])))
    }

    /// Returns the bytes of data at or behind an offset.
    fn behind(&self, offset: u64) -> u64 {
        self.0.iter().map(|(at, len)| (at + len).saturating_sub(offset.max(*at))).sum()
    }
}

impl<'a> ImageSink<'a> {
    /// Makes a file of this name. What it needs is asked for if there is one of this name already.
    pub(super) fn begin(
        &self,
        name: &[u8],
        node: &NewNode<'_>,
        need: impl FnOnce() -> Result<Need>,
    ) -> Result<Making<'a>> {
        match create(self.vfs, self.top(), name, node) {
            Ok(file) => return Ok(Making { file, state: State::None }),
            Err(error) if !error.is(&FsError::Exists) => return Err(error),
            Err(_) => {}
        }
        let (old, need) = (self.replaced(name)?, need()?);
        match beside(|beside| create(self.vfs, self.top(), beside, node)) {
            Ok((beside, file)) => Ok(Making { file, state: State::Stays { beside, old, need } }),
            Err(error) if error.is(&FsError::NoSpace) => {
                if !self.fits_in_place_of(&old, &need, 0)? {
                    return Err(stays(error));
                }
                self.fs.unlink(self.top(), name)?;
                let file = create(self.vfs, self.top(), name, node).map_err(removed)?;
                Ok(Making { file, state: State::Removed })
            }
            Err(error) => Err(error),
        }
    }

    /// Gives up the file that the new one replaces, if there is still one and what is to be written
    /// at and behind `offset` then fits. Returns false if that is not so.
    pub(super) fn make_room(&self, name: &[u8], making: &mut Making<'a>, offset: u64) -> Result<bool> {
        let State::Stays { beside, old, need } = &making.state else { return Ok(false) };
        if !self.fits_in_place_of(old, need, offset)? {
            return Ok(false);
        }
        self.take_place(beside, name)?;
        making.state = State::Removed;
        Ok(true)
    }

    /// Ends the making of a file, which then has its name; if it has failed, nothing of it stays.
    pub(super) fn end(&self, name: &[u8], making: Making<'a>, done: Result<()>) -> Result<Held<'a>> {
        let Making { file, state } = making;
        let done = match &state {
            State::Stays { beside, .. } => done.and_then(|()| self.take_place(beside, name)),
            State::None | State::Removed => done,
        };
        let Err(error) = done else { return Ok(file) };
        let made = if let State::Stays { beside, .. } = &state { beside } else { name };
        // The caller reports the first failure.
        let _ = self.fs.unlink(self.top(), made);
        Err(match state {
            State::Stays { .. } if error.is(&FsError::NoSpace) => stays(error),
            State::Removed => removed(error),
            _ => error,
        })
    }

    /// Gives a name to something by `make`, in the place of what has that name.
    pub(super) fn replace(&self, name: &[u8], make: impl Fn(&[u8]) -> Result<()>) -> Result<()> {
        self.replaced(name)?;
        match beside(&make) {
            Ok((beside, ())) => self.take_place(&beside, name).inspect_err(|_| {
                // The caller reports the first failure.
                let _ = self.fs.unlink(self.top(), &beside);
            }),
            // A name needs no other space than that of the one before it.
            Err(error) if error.is(&FsError::NoSpace) => {
                self.fs.unlink(self.top(), name)?;
                make(name).map_err(removed)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a directory in the place of the file of this name. No rename does that at once, so the
    /// file goes when the directory is there.
    pub(super) fn replace_by_directory(&self, name: &[u8], node: &NewNode<'_>) -> Result<Held<'a>> {
        self.replaced(name)?;
        let made = beside(|beside| create(self.vfs, self.top(), beside, node));
        let (beside, dir) =
            made.map_err(|error| if error.is(&FsError::NoSpace) { stays(error) } else { error })?;
        let unlinked = self.fs.unlink(self.top(), name).map_err(Error::from);
        unlinked.and_then(|()| self.take_place(&beside, name)).inspect_err(|_| {
            // The caller reports the first failure.
            let _ = self.fs.rmdir(self.top(), &beside);
        })?;
        Ok(dir)
    }

    /// Returns the file that is to be replaced; refuses directories, and what its flags protect.
    fn replaced(&self, name: &[u8]) -> Result<Attr> {
        let dir = self.top();
        let there = child(self.vfs, dir, name)?;
        if there.is_dir() {
            return Err(Error::new("cannot replace a directory with a file"));
        }
        let old = there.attr().clone();
        let held = [self.fs.getattr(dir)?.flags, old.flags];
        flags::explained(self.vfs.permit_removal(&Cred::root(), dir, &old), &held)?;
        Ok(old)
    }

    fn take_place(&self, beside: &[u8], name: &[u8]) -> Result<()> {
        let dir = self.top();
        Ok(self.fs.rename(dir, beside, dir, name, RenameMode::Replace, Privilege::Root)?)
    }

    /// Returns true if what a file needs at and behind `offset` fits once `old` is removed.
    fn fits_in_place_of(&self, old: &Attr, need: &Need, offset: u64) -> Result<bool> {
        let stat = self.fs.statfs_at(self.top())?;
        let (unit, block) = (u64::from(stat.frsize), u64::from(stat.bsize));
        let freed = if old.nlink == 1 { old.blocks512.saturating_mul(512) } else { 0 };
        let free = stat.bfree.saturating_mul(unit).saturating_add(freed);
        let data = need.behind(offset).next_multiple_of(unit.max(1));
        // An indirect block has up to eight bytes for each block, and there may be one more of each
        // level than these fill.
        let has_pointers = need.behind(0) > DIRECT_BLOCKS * block;
        let pointers = if has_pointers { data / (block / 8).max(1) + 3 * block } else { 0 };
        Ok(data.saturating_add(pointers) <= free)
    }
}

/// Makes something under a name that is not in use. Returns that name.
fn beside<T>(mut make: impl FnMut(&[u8]) -> Result<T>) -> Result<(Vec<u8>, T)> {
    let mut number = 1_u64;
    loop {
        // As long as V7's names can be.
        let name = format!(".spindle-{number}").into_bytes();
        match make(&name) {
            Err(error) if error.is(&FsError::Exists) => number += 1,
            made => return made.map(|made| (name, made)),
        }
    }
}

/// Says of a failure that it has cost nothing.
fn stays(error: Error) -> Error {
    error.within("does not fit, and the file of this name stays")
}

/// Says of a failure what it has cost.
fn removed(error: Error) -> Error {
    error.within("the file of this name was removed to make room and is lost, and the new one failed")
}
