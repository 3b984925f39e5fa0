//! The extents of files, for measurements of layout.

use crate::format::layout::Lbn;
use crate::tree::attr::check_regular;
use crate::tree::mount::V7;
use spindle_tree::Operations;
use spindle_vfs::{Extent, Ino, Result};

impl V7 {
    /// Returns the extents of a regular file, in the order of the file, without holes. Sync first:
    /// data without a block yet is not among them.
    ///
    /// # Errors
    /// [`spindle_vfs::Error::Stale`], [`spindle_vfs::Error::IsDirectory`] or
    /// [`spindle_vfs::Error::Invalid`] if it is not a regular file, and errors of the device.
    pub fn extents(&self, ino: Ino) -> Result<Vec<Extent>> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        Extent::of_file(state.di.size, self.layout().format.bsize, |lbn, _| {
            let run = self.volume.bmap(inode.ino, &state.di, Lbn(lbn))?;
            Ok((run.at.map(|at| self.layout().byte(at)), run.blocks))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, OpenOptions, newfs};
    use spindle_clock::ManualClock;
    use spindle_device::{Device, MemoryDevice};
    use spindle_vfs::{Error, FileKind, FileSystem, NewNode, Privilege};
    use std::sync::Arc;

    /// Promise: a file's bytes are on the device at its extents, and holes have none.
    #[test]
    fn lie_where_they_say() {
        let device = Arc::new(MemoryDevice::new(4 << 20));
        let clock = Arc::new(ManualClock::at(0));
        let plan = newfs::Plan::new(&newfs::Parameters::new(Format::BSD41, 4 << 20)).unwrap();
        newfs::write(&plan, &*device, &*clock).unwrap();
        let options = OpenOptions { format: Some(Format::BSD41), ..OpenOptions::default() };
        let fs = V7::open(device.clone(), clock, &options).unwrap();
        let kind = FileKind::Regular;
        let node = NewNode::new(kind, 0o644);
        let file = fs.create(fs.root(), b"f", &node, Privilege::Root).unwrap().ino;
        let data: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        fs.write(file, 100 << 10, &data, Privilege::Root).unwrap();
        fs.sync().unwrap();
        let extents = fs.extents(file).unwrap();
        assert_eq!(extents[0].offset, 100 << 10);
        assert_eq!(extents.iter().map(|extent| extent.len).sum::<u64>(), data.len() as u64);
        for extent in &extents {
            let mut stored = vec![0; usize::try_from(extent.len.next_multiple_of(512)).unwrap()];
            device.read_at(extent.at, &mut stored).unwrap();
            let from = usize::try_from(extent.offset - (100 << 10)).unwrap();
            let len = usize::try_from(extent.len).unwrap();
            assert!(stored[..len] == data[from..from + len], "{extent:?}");
        }
        assert!(matches!(fs.extents(fs.root()), Err(Error::IsDirectory)));
    }
}
