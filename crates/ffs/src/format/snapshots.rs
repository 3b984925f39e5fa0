//! The list of snapshots in the superblock (`fs_snapinum`), which may be wrong.
//!
//! FreeBSD's kernel takes a number that is not that of a snapshot out of the list when it mounts
//! the file system, and moves up those behind it (`ffs_snapshot_mount`).

use super::dialect;
use super::dinode::Dinode;
use super::ondisk::SF_SNAPSHOT;
use super::superblock::Superblock;
use super::units::Frag;
use spindle_device::Device;
use spindle_vfs::{Error, FileKind, Result};

impl Superblock {
    /// Returns the inodes of its snapshots (`fs_snapinum`).
    #[must_use]
    pub fn snapshots(&self) -> Vec<u32> {
        dialect::snapshots(&self.fs, &self.layout, self.dialect)
    }

    /// Lists the inodes of its snapshots, the oldest first.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there are too many; then nothing is changed.
    pub(crate) fn set_snapshots(&mut self, inodes: &[u32]) -> Result<()> {
        if inodes.len() > self.fs.fs_snapinum.len() {
            return Err(Error::NoSpace);
        }
        self.fs.fs_snapinum.fill(0);
        self.fs.fs_snapinum[..inodes.len()].copy_from_slice(inodes);
        Ok(())
    }

    /// Returns those numbers in the list of snapshots that name no inode of a snapshot. What cannot
    /// be read counts as one.
    #[must_use]
    pub fn false_snapshots(&self, device: &dyn Device) -> Vec<u32> {
        let mut found = self.snapshots();
        found.retain(|&ino| !self.is_snapshot(device, ino));
        found
    }

    /// Returns true if an inode with the flag of a snapshot may be one: a regular file that the
    /// superblock lists, or that is as long as the file system, as each snapshot is. One that the
    /// superblock has lost has marks in place of pointers, and must not be taken for another file.
    pub(crate) fn may_be_snapshot(&self, ino: u32, kind: Option<FileKind>, size: u64) -> bool {
        kind == Some(FileKind::Regular)
            && dialect::has_snapshots(&self.layout, self.dialect)
            && (size >= self.layout.byte(Frag(self.layout.fs_size)) || self.snapshots().contains(&ino))
    }

    /// Returns true if an inode is that of a snapshot, or cannot be read.
    fn is_snapshot(&self, device: &dyn Device, ino: u32) -> bool {
        let layout = &self.layout;
        if ino >= layout.inodes() {
            return false;
        }
        let (block, at) = layout.ino_to_fsba(ino);
        let mut bytes = vec![0; layout.fs_bsize as usize];
        if device.read_at(layout.byte(block), &mut bytes).is_err() {
            return true;
        }
        let di = Dinode::decode(&bytes[at..at + layout.inode_size()], layout);
        di.kind() == Some(FileKind::Regular) && di.flags & SF_SNAPSHOT != 0
    }

    /// Takes those numbers out of the list of snapshots that name no inode of one. Returns false if
    /// there are none.
    pub(crate) fn drop_false_snapshots(&mut self, device: &dyn Device) -> bool {
        let mut listed = self.snapshots();
        let before = listed.len();
        listed.retain(|&ino| self.is_snapshot(device, ino));
        listed.len() < before && self.set_snapshots(&listed).is_ok()
    }
}
