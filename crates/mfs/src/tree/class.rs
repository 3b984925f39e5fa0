//! The class of data of a file: where its new blocks go. A directory gives it to its new files.
//!
//! Above the seam it is an extended attribute that every file has. It is not listed, so that what
//! copies all attributes does not carry the classes of one set to another.

use super::mount::Mfs;
use crate::volume::tx::OPERATION_BYTES;
use spindle_tree::{Operations, Tree};
use spindle_vfs::{Error, FileKind, Ino, Result};

/// The extended attribute of a file that is the name of its class of data.
pub const CLASS_ATTRIBUTE: &[u8] = b"user.spindle.class";

impl Mfs {
    /// Returns the name of the class of a file.
    pub(crate) fn class_name(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.iget_ino(ino)?;
        let class = inode.state.read().di.class;
        Ok(self.layout().class(class.into()).name.to_string().into_bytes())
    }

    /// Gives a file another class, for blocks that it gets later: those that it has stay where they
    /// are.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no class with this name, or the file is one without data;
    /// [`Error::ReadOnly`] if nothing of the class can be written;
    /// [`Error::NotEmpty`] if it has blocks, and those of the class are of another size;
    /// [`Error::TooBig`] if no file of the class can be as large.
    pub(crate) fn set_class(&self, ino: Ino, name: &[u8]) -> Result<()> {
        if self.volume.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let (number, class) = self.layout().class_named(name).ok_or(Error::Invalid)?;
        if class.read_only {
            return Err(Error::ReadOnly);
        }
        let inode = self.iget_ino(ino)?;
        let mut state = inode.state.write();
        let di = &state.di;
        if !matches!(di.kind(), Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink)) {
            return Err(Error::Invalid);
        }
        if !di.extents().is_empty() && class.block_bytes() != self.bsize(di) {
            return Err(Error::NotEmpty);
        }
        if di.size > class.file_size_max() {
            return Err(Error::TooBig);
        }
        if di.class == number {
            return Ok(());
        }
        self.volume.transact(OPERATION_BYTES, &mut *state, |tx, state| {
            state.di.class = number;
            state.di.times[2] = self.now();
            self.volume.store(tx, inode.ino, &state.di)
        })
    }
}
