//! Directories: files of 16-byte entries, searched from the start. An entry whose inode number is 0
//! is free for the next name. Entries never move and directories never shrink, so the byte offset
//! of an entry is a stable cookie.

use crate::format::dinode::Dinode;
use crate::format::entry::Entry;
use crate::format::layout::{Block, index};
use crate::format::ondisk::{DIRSIZ, Direct, ENTRY_SIZE, SECTOR};
use crate::tree::mount::V7;
use crate::volume::bmap::Run;
use crate::volume::tx::Tx;
use spindle_tree::{Found, Unreadable, lost_names};
use spindle_vfs::{Error, Result};
use std::ops::ControlFlow;

impl V7 {
    /// Calls `look` with every entry from byte `from` on, used or not, and its offset, until `look`
    /// breaks with a value. What cannot be read is given to `lost`, and passed over unless that
    /// fails.
    pub(crate) fn each_entry<T>(
        &self,
        ino: u16,
        di: &Dinode,
        from: u64,
        lost: &mut dyn FnMut(Error) -> Result<()>,
        mut look: impl FnMut(u64, &Entry<'_>) -> ControlFlow<T>,
    ) -> Result<Option<T>> {
        // A directory has no holes, but the super-block may say more than there is.
        let most = self.volume.blocks_there * u64::from(self.layout().format.bsize);
        let end = di.size.min(most) / ENTRY_SIZE as u64 * ENTRY_SIZE as u64;
        let mut at = from.next_multiple_of(ENTRY_SIZE as u64);
        while at < end {
            let (lbn, start) = self.layout().split(at);
            let damaged =
                |what: &str, at| Error::corrupt(what, format!("directory inode {ino}, offset {at}"));
            let (blocks, read) = match self.volume.bmap(ino, di, lbn) {
                Ok(Run { at: Some(block), blocks }) => (blocks, self.volume.metadata(block)),
                Ok(Run { at: None, blocks }) => (blocks, Err(damaged("a hole", at))),
                Err(error) => (1, Err(error)),
            };
            let next = (lbn.0 + blocks) * u64::from(self.layout().format.bsize);
            match read {
                Ok(buffer) => {
                    let bytes = buffer.read();
                    let entries = &bytes[start..start + index(end.min(next) - at)];
                    // A name stays when its file is removed, so no sector of names is all zeros.
                    for (n, sector) in entries.chunks(SECTOR).enumerate() {
                        if start % SECTOR == 0 && sector.iter().all(|&byte| byte == 0) {
                            lost(damaged("a sector of zeros", at + (n * SECTOR) as u64))?;
                        }
                    }
                    for (n, bytes) in entries.chunks_exact(ENTRY_SIZE).enumerate() {
                        let entry = Entry { bytes, endian: self.layout().format.endian };
                        if let ControlFlow::Break(found) = look(at + (n * ENTRY_SIZE) as u64, &entry) {
                            return Ok(Some(found));
                        }
                    }
                }
                Err(error) => lost(error)?,
            }
            at = next;
        }
        if di.size > most {
            let what = format!("size {}, more than the device has", di.size);
            lost(Error::corrupt(what, format!("directory inode {ino}")))?;
        }
        Ok(None)
    }

    /// Passes over what cannot be read of a directory, if nobody can change it.
    ///
    /// # Errors
    /// The error, if something can be changed.
    pub(crate) fn pass_over(&self, error: Error) -> Result<()> {
        self.volume.past_damage(Err(error), Unreadable::PassedOver).map(|_: Option<()>| ())
    }

    /// Checks that a directory begins with its own `.`, which every directory does until it is
    /// removed: without it, its entries were overwritten, and it looks empty; with that of another,
    /// it has the block of another.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its `.` names another inode, or it has neither `.` nor `..`; those of
    /// reading.
    pub(crate) fn check_dots(&self, ino: u16, di: &Dinode) -> Result<()> {
        let mut found = [None; 2];
        self.each_entry(ino, di, 0, &mut |error| self.pass_over(error), |_, entry| {
            for (name, found) in [&b"."[..], b".."].into_iter().zip(&mut found) {
                if entry.is(name) {
                    *found = Some(entry.ino());
                }
            }
            // Both are the first names.
            if found[0].is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let what = match found {
            [Some(target), _] if target != ino => format!("it has the names of directory inode {target}"),
            [None, None] => "neither '.' nor '..': its names are lost".to_owned(),
            _ => return Ok(()),
        };
        Err(Error::corrupt(what, format!("directory inode {ino}")))
    }

    /// Finds a name.
    pub(crate) fn find_entry(&self, ino: u16, di: &Dinode, name: &[u8]) -> Result<Option<Found<u16>>> {
        let mut lost = false;
        let mut pass = |error| {
            lost = true;
            self.pass_over(error)
        };
        let found = self.each_entry(ino, di, 0, &mut pass, |place, entry| {
            if entry.is(name) {
                ControlFlow::Break(Found { place, ino: entry.ino() })
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if found.is_none() && lost { Err(lost_names(ino)) } else { Ok(found) }
    }

    /// Finds a free entry, or adds one at the end, and returns its offset.
    pub(crate) fn reserve_entry(&self, tx: &Tx<'_>, ino: u16, di: &mut Dinode) -> Result<u64> {
        let free = self.each_entry(ino, di, 0, &mut Err, |place, entry| {
            if entry.ino() == 0 { ControlFlow::Break(place) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(place) = free {
            return Ok(place);
        }
        self.volume.note(self.volume.check_end(ino, di))?;
        let place = di.size - di.size % ENTRY_SIZE as u64;
        if place + ENTRY_SIZE as u64 > self.layout().file_size_max() {
            return Err(Error::TooBig);
        }
        let placed = self.volume.place(tx, ino, di, self.layout().split(place).0)?;
        if placed.fresh {
            self.volume.cache.get_new(self.layout().byte(placed.at), self.layout().bsize(), None, tx)?;
        }
        di.size = place + ENTRY_SIZE as u64;
        self.put_entry(tx, ino, di, place, Direct { d_ino: 0, d_name: [0; DIRSIZ] })?;
        self.volume.store(tx, ino, di)?;
        Ok(place)
    }

    fn entry_block(&self, ino: u16, di: &Dinode, place: u64) -> Result<(Block, usize)> {
        let (lbn, offset) = self.layout().split(place);
        let block = self.volume.bmap(ino, di, lbn)?.at;
        let block = block
            .ok_or_else(|| Error::corrupt("a hole", format!("directory inode {ino}, offset {place}")))?;
        Ok((block, offset))
    }

    fn put_entry(&self, tx: &Tx<'_>, ino: u16, di: &Dinode, place: u64, entry: Direct) -> Result<()> {
        let (block, offset) = self.entry_block(ino, di, place)?;
        let range = offset..offset + ENTRY_SIZE;
        entry.encode(self.volume.metadata(block)?.write(tx).bytes_mut(range), self.layout().format.endian);
        Ok(())
    }

    /// Enters a name at an offset that [`Self::reserve_entry`] returned.
    pub(crate) fn enter_entry(
        &self,
        tx: &Tx<'_>,
        ino: u16,
        di: &Dinode,
        place: u64,
        name: &[u8],
        target: u16,
    ) -> Result<()> {
        let mut d_name = [0; DIRSIZ];
        d_name[..name.len()].copy_from_slice(name);
        self.put_entry(tx, ino, di, place, Direct { d_ino: target, d_name })
    }

    /// Points the name at an offset to another inode, or with 0 to none. The bytes of the name stay
    /// on the disk, as in the old kernels.
    pub(crate) fn point_entry(
        &self,
        tx: &Tx<'_>,
        ino: u16,
        di: &Dinode,
        place: u64,
        target: u16,
    ) -> Result<()> {
        let (block, offset) = self.entry_block(ino, di, place)?;
        let old = Direct::decode(&self.volume.metadata(block)?.read()[offset..], self.layout().format.endian);
        self.put_entry(tx, ino, di, place, Direct { d_ino: target, ..old })
    }

    /// Returns true if there are only `.` and `..`.
    ///
    /// # Errors
    /// As [`Self::check_dots`], so that a damaged directory is not removed as an empty one.
    pub(crate) fn has_no_names(&self, ino: u16, di: &Dinode) -> Result<bool> {
        self.check_dots(ino, di)?;
        let other = self.each_entry(ino, di, 0, &mut Err, |_, entry| {
            let dots = matches!(entry.name(), b"." | b"..");
            if entry.ino() != 0 && !dots { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(other.is_none())
    }

    /// Fills a new directory with `.` and `..`.
    pub(crate) fn dir_init(&self, tx: &Tx<'_>, ino: u16, di: &mut Dinode, parent: u16) -> Result<()> {
        for (name, target) in [(&b"."[..], ino), (b"..", parent)] {
            let place = self.reserve_entry(tx, ino, di)?;
            self.enter_entry(tx, ino, di, place, name, target)?;
        }
        Ok(())
    }
}
