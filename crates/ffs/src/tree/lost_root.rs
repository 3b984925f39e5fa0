//! What stands in for a root directory that cannot be read: the files without a name.
//!
//! Where the root directory is lost, so are the names of what was in it, but not the files. A file
//! system that is open to read shows each file and directory that no directory names any more, as
//! `#` and the number of its inode; below such a directory all is as it was. That is what fsck
//! would leave in `lost+found`. Nothing is written.

use super::dir::{Unreadable, name_of};
use super::mount::Ffs;
use crate::format::dinode::Dinode;
use crate::format::group::{isset, setbit};
use crate::format::layout::ROOT_INO;
use spindle_tree::Found;
use spindle_vfs::{DirEntry, Error, FileKind, Ino, Result};
use std::ops::ControlFlow;

/// The files and directories that no directory names.
pub(crate) struct LostRoot {
    /// Their inodes, in order, with their kinds.
    unnamed: Vec<(u32, Option<FileKind>)>,
}

impl LostRoot {
    /// Returns the inode of the directory that stands in.
    pub(crate) fn inode() -> Dinode {
        Dinode { mode: 0o040_755, nlink: 2, ..Dinode::free(0) }
    }

    /// Finds a name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Found<u32>> {
        let ino = match name {
            b"." | b".." => ROOT_INO,
            _ => {
                let ino = std::str::from_utf8(name.strip_prefix(b"#")?).ok()?.parse().ok()?;
                self.unnamed.binary_search_by_key(&ino, |&(ino, _)| ino).ok()?;
                ino
            }
        };
        Some(Found { place: 0, ino })
    }

    /// Passes the names to `sink`, from the one with this cookie on.
    pub(crate) fn list(&self, from: u64, sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>) {
        let directory = Some(FileKind::Directory);
        let dots = [(".".to_owned(), ROOT_INO, directory), ("..".to_owned(), ROOT_INO, directory)];
        let files = self.unnamed.iter().map(|&(ino, kind)| (format!("#{ino}"), ino, kind));
        for (n, (name, ino, kind)) in (0..).zip(dots.into_iter().chain(files)) {
            let entry = DirEntry { name: name.as_bytes(), ino: Ino(ino.into()), kind, next: n + 1 };
            if n >= from && sink(&entry).is_break() {
                return;
            }
        }
    }
}

impl Ffs {
    /// Returns what stands in for the root directory, which fails with this error. Reads all inodes
    /// and directories.
    ///
    /// # Errors
    /// The error of the root directory, if the file system can be changed, or has no files left.
    pub(crate) fn stand_in_for_root(&self, error: Error) -> Result<LostRoot> {
        match &error {
            // The device may have failed for a moment only.
            Error::Device(_) => return Err(error),
            Error::Corrupt { what, place } if !self.volume.is_read_only() => {
                return Err(Error::corrupt(format!("{what}: open it read-only to see what is left"), place));
            }
            _ => {}
        }
        let inodes = ROOT_INO + 1..self.inodes_on_device();
        let map_bytes = inodes.end as usize / 8 + 1;
        let mut named = vec![0; map_bytes];
        let mut in_use = vec![0; map_bytes];
        for ino in inodes.clone() {
            // Inodes that cannot be read are lost with the root.
            let Ok(di) = self.volume.read_inode(ino) else { continue };
            if di.nlink == 0 {
                continue;
            }
            setbit(&mut in_use, ino);
            if di.is_directory() {
                self.each_chunk(ino, &di, Unreadable::PassedOver, |base, chunk| {
                    for entry in self.usable_entries(ino, base, chunk) {
                        let dot = matches!(name_of(chunk, base, &entry), b"." | b"..");
                        if !dot && entry.ino < inodes.end {
                            setbit(&mut named, entry.ino);
                        }
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
            }
        }
        let unnamed: Vec<_> = inodes
            .filter(|&ino| isset(&in_use, ino) && !isset(&named, ino))
            .map(|ino| (ino, self.volume.read_inode(ino).ok().and_then(|di| di.kind())))
            .collect();
        if unnamed.is_empty() {
            return Err(error);
        }
        self.volume.pass_over(&error);
        log::warn!("the root directory is lost; {} files in it are shown by their inodes", unnamed.len());
        Ok(LostRoot { unnamed })
    }

    /// Returns the number behind the last inode that can be on the device, which may end before the
    /// file system does.
    fn inodes_on_device(&self) -> u32 {
        let (layout, bytes) = (self.layout(), self.volume.cache.device().info().size_bytes);
        let groups = (0..layout.fs_ncg).take_while(|&cgx| layout.byte(layout.cgbase(cgx)) < bytes);
        u32::try_from(groups.count()).unwrap_or(layout.fs_ncg) * layout.fs_ipg
    }
}
