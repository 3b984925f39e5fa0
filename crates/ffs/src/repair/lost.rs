//! Files and directories without names, which get some in `lost+found`, and a log that no
//! superblock names.
//!
//! This is done by the file system itself, mounted on the planned state: at that time everything
//! but these names and their counts is right.

use super::Round;
use crate::check::Finding;
use crate::check::node::kind;
use crate::format::layout::ROOT_INO;
use crate::format::superblock::Superblock;
use crate::log::LogUse;
use crate::tree::inode::Inode;
use crate::tree::mount::{Ffs, OpenOptions};
use spindle_clock::Clock;
use spindle_device::Device;
use spindle_tree::{Operations, Tree};
use spindle_vfs::{Error, FileKind, FileSystem, Ino, NewNode, Privilege, Result};
use std::sync::Arc;

/// The directory.
const LOST_FOUND: &[u8] = b"lost+found";
/// Directories of this kind that are tried if another file has the name.
const OTHERS: u32 = 100;

impl Round<'_> {
    /// Returns what has no name and should have one.
    pub(super) fn unnamed(&self) -> Result<Vec<(u32, FileKind)>> {
        let mut unnamed = Vec::new();
        for finding in self.findings() {
            let (Finding::UnreferencedFile { ino, .. } | Finding::UnreferencedDirectory { ino, .. }) =
                finding
            else {
                continue;
            };
            let state = self.checker.state.inode(self.layout(), ino);
            let removed =
                if state.kind == kind::DIR { self.is_removed_directory(ino)? } else { self.is_unwanted(ino) };
            let kind = FileKind::from_mode(u32::from(state.kind) << 12);
            if let (false, Some(kind)) = (removed, kind) {
                unnamed.push((ino, kind));
            }
        }
        Ok(unnamed)
    }
}

/// Enters these inodes into `lost+found` of the file system on `device`. Returns true if at least
/// one has got a name.
///
/// # Errors
/// Device errors.
pub(super) fn give_names(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    unnamed: &[(u32, FileKind)],
) -> Result<bool> {
    let ffs = mount(device, clock)?;
    if ffs.read_only() {
        return Err(Error::ReadOnly);
    }
    let mut named = false;
    let result = (|| {
        let dir = lost_found(&ffs)?;
        for &(ino, kind) in unnamed {
            enter(&ffs, &dir, ino, kind)?;
            named = true;
        }
        Ok(())
    })();
    ffs.unmount()?;
    match result {
        Ok(()) | Err(Error::NoSpace | Error::TooManyLinks) => Ok(named),
        Err(error) => Err(error),
    }
}

/// Puts the place of the log into the superblock of the file system on `device`, if a log is there
/// that it does not name: one from a replica does not, nor one that a repair has left behind that
/// was cut. Nothing of such a log is replayed.
///
/// # Errors
/// Device errors.
pub fn find_log(device: &Arc<dyn Device>, clock: &Arc<dyn Clock>) -> Result<()> {
    let place = mount(device, clock)?.forgotten_log()?;
    if place.is_some() {
        let mut superblock = Superblock::open(&**device)?;
        superblock.set_log_place(place);
        superblock.write(&**device)?;
    }
    Ok(())
}

/// Mounts the planned state; quotas inside it are put right at the end, and so is what snapshots
/// need.
pub(super) fn mount(device: &Arc<dyn Device>, clock: &Arc<dyn Clock>) -> Result<Ffs> {
    let (log, seed) = (LogUse::Never, Some(0));
    let options = OpenOptions { force: true, log, seed, for_repair: true, ..OpenOptions::default() };
    Ffs::open(device.clone(), clock.clone(), &options)
}

/// Returns `lost+found`, made if there is none.
fn lost_found(ffs: &Ffs) -> Result<Arc<Inode>> {
    let root = Ino(ROOT_INO.into());
    for n in 0..OTHERS {
        let mut name = LOST_FOUND.to_vec();
        if n > 0 {
            name.extend(format!(".{n}").into_bytes());
        }
        let attr = match ffs.lookup(root, &name) {
            Err(Error::NotFound) => {
                let node = NewNode::new(FileKind::Directory, 0o700);
                ffs.create(root, &name, &node, Privilege::Root)?
            }
            found => found?,
        };
        if attr.kind == FileKind::Directory {
            return ffs.directory(attr.ino);
        }
    }
    Err(Error::Exists)
}

/// Gives an inode a name in a directory.
fn enter(ffs: &Ffs, dir: &Arc<Inode>, ino: u32, kind: FileKind) -> Result<()> {
    let mut state = dir.state.write();
    let mut name = format!("#{ino:08}").into_bytes();
    while ffs.find_entry(dir.ino, &state, &name)?.is_some() {
        name.push(b'_');
    }
    ffs.transact_naming(&mut *state, |tx, state| {
        ffs.reserve_entry(tx, dir.ino, state, name.len(), Privilege::Root)?;
        ffs.enter_entry(tx, dir.ino, state, &name, (ino, kind))?;
        ffs.note_modified(&mut state.di);
        ffs.store(tx, dir.ino, &state.di)
    })
}
