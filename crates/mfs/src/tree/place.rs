//! Files whose data lies in a read-only class.

use super::mount::Mfs;
use crate::format::extent::{EXTENT_BLOCKS_MAX, Extent};
use crate::format::layout::{ClassLayout, DataBlock};
use crate::tree::attr::check_regular;
use crate::volume::tx::OPERATION_BYTES;
use spindle_tree::Operations;
use spindle_vfs::{Error, Ino, Result};

/// Most extents that a transaction enters: those of nine overflow headers.
const AT_ONCE: usize = 256;

impl Mfs {
    /// Gives an empty regular file of `size` bytes the blocks of the read-only class `name` in
    /// which its bytes are: `runs` has bytes of the file and of the class, in the order of the
    /// file. What is written over them goes to the class `write_class`, if there is one, which has
    /// blocks of the same size. The times of the file stay.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such class, or runs are not whole blocks of it that it
    /// has; [`Error::NotEmpty`] if the file has blocks; [`Error::TooBig`].
    pub fn place(
        &self,
        ino: Ino,
        size: u64,
        (name, write_class): (&[u8], Option<&[u8]>),
        runs: &[spindle_vfs::Extent],
    ) -> Result<()> {
        let (number, class) = self.layout().class_named(name).ok_or(Error::Invalid)?;
        let extents = extents_of(class, number.into(), size, runs).ok_or(Error::Invalid)?;
        let own = match write_class.map(|name| self.layout().class_named(name)) {
            None => number,
            Some(Some((own, to))) if !to.read_only && to.block_bytes() == class.block_bytes() => own,
            Some(_) => return Err(Error::Invalid),
        };
        if size > class.file_size_max() {
            return Err(Error::TooBig);
        }
        let inode = self.iget_ino(ino)?;
        let mut state = inode.state.write();
        check_regular(&state.di)?;
        if state.di.size > 0 || !state.di.extents().is_empty() {
            return Err(Error::NotEmpty);
        }
        let mut parts = extents.chunks(AT_ONCE).peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            self.volume.transact(OPERATION_BYTES, &mut *state, |tx, state| {
                let di = &mut state.di;
                di.class = own;
                for &extent in part {
                    di.extents_mut().insert(extent);
                }
                self.volume.store_overflow(tx, inode.ino, di)?;
                if is_last {
                    di.size = size;
                }
                self.volume.store(tx, inode.ino, di)
            })?;
        }
        Ok(())
    }
}

/// Returns the extents of a file of `size` bytes; none if they are not whole blocks of the class,
/// which it has.
fn extents_of(
    class: &ClassLayout,
    number: usize,
    size: u64,
    runs: &[spindle_vfs::Extent],
) -> Option<Vec<Extent>> {
    let block = class.block_bytes();
    let (mut extents, mut end) = (Vec::new(), 0);
    for run in runs {
        let ends_file = run.offset.checked_add(run.len)? == size;
        let is_whole = run.len.is_multiple_of(block) || ends_file;
        if !(run.offset.is_multiple_of(block) && run.at.is_multiple_of(block) && is_whole) {
            return None;
        }
        let (mut lbn, mut start, mut left) = (run.offset / block, run.at / block, run.len.div_ceil(block));
        if left == 0 || lbn < end || start.checked_add(left)? > class.blocks() || run.offset + run.len > size
        {
            return None;
        }
        while left > 0 {
            let len = left.min(EXTENT_BLOCKS_MAX);
            extents.push(Extent { lbn, start: DataBlock::of(number, start).0, len });
            (lbn, start, left) = (lbn + len, start + len, left - len);
        }
        end = lbn;
    }
    (class.read_only && !extents.is_empty()).then_some(extents)
}
