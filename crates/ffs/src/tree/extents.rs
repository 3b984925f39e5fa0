//! Where a file lies: for who measures layout, from outside.

use crate::format::units::Lbn;
use crate::tree::attr::check_regular;
use crate::tree::mount::Ffs;
use spindle_tree::Operations;
use spindle_vfs::{Extent, Ino, Result};

impl Ffs {
    /// Returns the extents of a regular file, in its order, without its holes. Data that is not
    /// placed yet is not among them: sync first.
    ///
    /// # Errors
    /// [`spindle_vfs::Error::Stale`], [`spindle_vfs::Error::IsDirectory`] or
    /// [`spindle_vfs::Error::Invalid`] for what is not a regular file, and the device's.
    pub fn extents(&self, ino: Ino) -> Result<Vec<Extent>> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        check_regular(&state.di)?;
        Extent::of_file(state.di.size, self.layout().fs_bsize, |lbn, most| {
            let run = self.volume.bmap(inode.ino, &state.di, Lbn(lbn), most)?;
            Ok((run.at.map(|at| self.layout().byte(at)), run.blocks))
        })
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
    use spindle_device::{Device, MemoryDevice};
    use spindle_vfs::{Error, FileKind, FileSystem, NewNode, Privilege};
    use std::sync::Arc;

    /// Promise: a file's bytes stand on the device where its extents say, holes have none, and
    /// neighbours are one extent.
    #[test]
    fn lie_where_they_say() {
        let device = Arc::new(MemoryDevice::new(32 << 20));
        let clock = Arc::new(ManualClock::at(0));
        let parameters = Parameters { bsize: Some(4096), fsize: Some(512), ..Parameters::new(32 << 20) };
        let plan = Plan::new(&parameters).unwrap();
        let mut random = StdRng::seed_from_u64(1);
        newfs::write(&plan, &*device, &*clock, &mut random, &mut |_, _| {}).unwrap();
        let fs = Ffs::open(device.clone(), clock, &OpenOptions::default()).unwrap();
        let node = |kind| NewNode::new(kind, 0o644);
        let file = fs.create(fs.root(), b"f", &node(FileKind::Regular), Privilege::Root).unwrap().ino;
        let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        fs.write(file, 1 << 20, &data, Privilege::Root).unwrap();
        fs.sync().unwrap();
        let extents = fs.extents(file).unwrap();
        assert_eq!(extents[0].offset, 1 << 20);
        assert_eq!(extents.iter().map(|extent| extent.len).sum::<u64>(), data.len() as u64);
        for (n, extent) in extents.iter().enumerate() {
            let mut stored = vec![0; usize::try_from(extent.len.next_multiple_of(512)).unwrap()];
            device.read_at(extent.at, &mut stored).unwrap();
            let from = usize::try_from(extent.offset - (1 << 20)).unwrap();
            let len = usize::try_from(extent.len).unwrap();
            assert!(stored[..len] == data[from..from + len], "extent {n}");
            assert!(n == 0 || extents[n - 1].at + extents[n - 1].len != extent.at, "extent {n}");
        }
        assert!(matches!(fs.extents(fs.root()), Err(Error::IsDirectory)));
        assert!(matches!(fs.extents(Ino(9999)), Err(Error::Stale)));
    }
}
