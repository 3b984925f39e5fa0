//! Directories: names in chunks of 512 bytes (paper, section 5.1).
//!
//! A chunk is wholly accounted for by the lengths of its entries, and no entry crosses into the
//! next; the space of a deleted entry goes to the one before it. Entries never move once they are
//! written, so the byte offset of an entry is a stable cookie for walking the directory while
//! it changes.

use crate::format::dinode::Dinode;
use crate::format::layout::{InodeFormat, Layout};
use crate::format::ondisk::{DIRECT_HEADER, DirectHeader, MAXNAMLEN, dirsiz};
use crate::format::units::{Lbn, index};
use crate::tree::dirindex::DirIndex;
use crate::tree::file::{Content, Request};
use crate::tree::inode::State;
use crate::tree::mount::Ffs;
use crate::volume::tx::Tx;
use spindle_cache::Buffer;
use spindle_ondisk::Field;
use spindle_tree::{Found, Listing, Unreadable, lost_names};
use spindle_vfs::{Error, FileKind, Privilege, Result};
use std::ops::{ControlFlow, Range};

/// One entry of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Byte offset in the directory.
    pub(crate) place: u64,
    /// 0 if it is only free space.
    pub(crate) ino: u32,
    pub(crate) reclen: usize,
    /// Bytes of its name, which are in the chunk; 0 if it has none, or none that can be used.
    pub(crate) namlen: usize,
    /// Its kind, where the format says.
    pub(crate) kind: Option<FileKind>,
    /// The problem that makes it unusable, if there is one: it keeps its space and is otherwise
    /// passed over.
    pub(crate) damage: Option<&'static str>,
}

impl Entry {
    /// Returns the bytes that it needs itself.
    const fn used(&self) -> usize {
        match self {
            Self { damage: Some(_), reclen, .. } => *reclen,
            Self { ino: 0, .. } => 0,
            Self { namlen, .. } => dirsiz(*namlen),
        }
    }

    /// Returns the bytes that another entry could have.
    const fn slack(&self) -> usize {
        self.reclen - self.used()
    }

    /// Returns the entry of directory `ino`, unless it is damaged.
    pub(crate) fn usable(self, ino: u32) -> Result<Self> {
        match self.damage {
            Some(what) => Err(Error::corrupt(what, format!("directory inode {ino}, offset {}", self.place))),
            None => Ok(self),
        }
    }
}

/// Returns the entries of the chunk `bytes`, which stands at byte `base` of directory `ino`.
pub(crate) fn entries<'a>(
    layout: &'a Layout,
    ino: u32,
    base: u64,
    bytes: &'a [u8],
) -> impl Iterator<Item = Result<Entry>> + 'a {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let entry = entry_at(layout, ino, base, bytes, at);
        // After damage the rest of the chunk cannot be divided into entries.
        at = entry.as_ref().map_or(bytes.len(), |e| at + e.reclen);
        Some(entry)
    })
}

fn entry_at(layout: &Layout, ino: u32, base: u64, bytes: &[u8], at: usize) -> Result<Entry> {
    let place = base + at as u64;
    let damaged = |what: &str| Error::corrupt(what, format!("directory inode {ino}, offset {place}"));
    let rest = bytes.len() - at;
    if rest < DIRECT_HEADER {
        return Err(damaged("an entry begins too near the end of its chunk"));
    }
    let head = DirectHeader::decode(&bytes[at..], layout.endian);
    let (namlen, kind) = if layout.inode_format == InodeFormat::New {
        (usize::from(head.d_namlen), FileKind::from_mode(u32::from(head.d_type) << 12))
    } else {
        (usize::from(u16::get(&bytes[at + 6..], layout.endian)), None)
    };
    let reclen = usize::from(head.d_reclen);
    if reclen < DIRECT_HEADER || !reclen.is_multiple_of(4) || reclen > rest {
        return Err(damaged("d_reclen leads out of the chunk"));
    }
    let damage = if head.d_ino == 0 {
        None
    } else if head.d_ino >= layout.inodes() {
        Some("d_ino is beyond the last inode")
    } else if namlen == 0 || namlen > MAXNAMLEN || dirsiz(namlen) > reclen {
        Some("d_namlen does not fit the entry")
    } else if bytes[at + DIRECT_HEADER..][..namlen].iter().any(|&byte| matches!(byte, 0 | b'/')) {
        Some("a name with a slash or a NUL")
    } else {
        None
    };
    let namlen = if head.d_ino == 0 || damage.is_some() { 0 } else { namlen };
    Ok(Entry { place, ino: head.d_ino, reclen, namlen, kind, damage })
}

impl Ffs {
    /// Returns the buffer of a directory's block, and the block's range of bytes in the directory.
    pub(crate) fn dir_block(&self, ino: u32, di: &Dinode, lbn: Lbn) -> Result<(Buffer<'_>, Range<u64>)> {
        let run = self.volume.bmap(ino, di, lbn, 1)?;
        let start = lbn.0 << self.layout().fs_bshift;
        let at = run
            .at
            .ok_or_else(|| Error::corrupt("a hole", format!("directory inode {ino}, offset {start}")))?;
        let len = self.layout().blksize(di.size, lbn);
        let buffer = self.volume.cache.get(self.layout().byte(at), len as usize, None)?;
        let end = di.size.min(start + u64::from(len));
        Ok((buffer, start..end))
    }

    /// Returns the block of the chunk that holds byte `place`, and the chunk's range in the block.
    fn chunk_of(&self, ino: u32, di: &Dinode, place: u64) -> Result<(Buffer<'_>, u64, Range<usize>)> {
        if place >= di.size {
            return Err(Error::corrupt(
                format!("offset {place} is beyond its end"),
                format!("directory inode {ino}"),
            ));
        }
        let (buffer, range) = self.dir_block(ino, di, self.layout().lblkno(place))?;
        let chunk = place - place % u64::from(self.layout().dirblksiz);
        let start = index(chunk - range.start);
        Ok((buffer, chunk, start..start + self.layout().dirblksiz as usize))
    }

    /// Returns what was read of a directory for a listing; nothing where it cannot be read, which
    /// the listing notes.
    pub(crate) fn pass_over<T>(&self, listing: &mut Listing, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                self.volume.pass_over(&error);
                listing.pass(error).map(|()| None)
            }
        }
    }

    /// Checks that the first chunk of a directory begins with `.`, which names the directory: else
    /// it has the block of another.
    pub(crate) fn check_dot(&self, ino: u32, chunk: &[u8]) -> Result<()> {
        let first = entry_at(self.layout(), ino, 0, chunk, 0)?.usable(ino)?;
        let what = match (name_of(chunk, 0, &first), first.ino) {
            (b".", target) if target == ino => return Ok(()),
            (b".", target) if target != 0 => format!("it has the names of directory inode {target}"),
            _ => "it does not begin with '.'".to_owned(),
        };
        Err(Error::corrupt(what, format!("directory inode {ino}, offset 0")))
    }

    /// Refuses a directory that is not whole chunks, or that is shorter than its blocks.
    pub(crate) fn check_directory(&self, ino: u32, di: &Dinode) -> Result<()> {
        if di.size == 0 || !di.size.is_multiple_of(self.layout().dirblksiz.into()) {
            return Err(Error::corrupt(
                format!("size {} is not whole chunks of {}", di.size, self.layout().dirblksiz),
                format!("directory inode {ino}"),
            ));
        }
        self.volume.check_end(ino, di)
    }

    /// Returns the index of a directory, built from it on the first call.
    pub(crate) fn dir_index<'s>(&self, ino: u32, state: &'s State) -> Result<&'s DirIndex> {
        if state.derived.index.get().is_none() {
            let built = self.build_index(ino, &state.di)?;
            // Two readers may have built it at once; one copy stays.
            let _ = state.derived.index.set(built);
        }
        state.derived.index.get().ok_or_else(|| Error::corrupt("no index", format!("directory inode {ino}")))
    }

    /// Passes every chunk of a directory, with the byte it stands at, to `look` until that breaks.
    /// Returns false if a part was passed over.
    pub(crate) fn each_chunk(
        &self,
        ino: u32,
        di: &Dinode,
        unreadable: Unreadable,
        mut look: impl FnMut(u64, &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<bool> {
        let mut whole = self.volume.past_damage(self.check_directory(ino, di), unreadable)?.is_some();
        let chunk_bytes = self.layout().dirblksiz as usize;
        for lbn in 0..di.size.div_ceil(self.layout().fs_bsize.into()) {
            let Some((buffer, range)) =
                self.volume.past_damage(self.dir_block(ino, di, Lbn(lbn)), unreadable)?
            else {
                whole = false;
                continue;
            };
            let bytes = buffer.read();
            let len = index(range.end - range.start);
            for (n, chunk) in bytes[..len].chunks_exact(chunk_bytes).enumerate() {
                if look(range.start + (n * chunk_bytes) as u64, chunk)?.is_break() {
                    return Ok(whole);
                }
            }
        }
        Ok(whole)
    }

    /// Returns the entries of a chunk that are in use and can be used. One that is damaged costs no
    /// other: it is noted and passed over, and with it, if its length is wrong, what follows in its
    /// chunk. `lost` is set if there is one.
    pub(crate) fn usable_entries<'a>(
        &'a self,
        ino: u32,
        base: u64,
        chunk: &'a [u8],
        lost: &'a mut bool,
    ) -> impl Iterator<Item = Entry> + 'a {
        entries(self.layout(), ino, base, chunk)
            .filter_map(move |entry| {
                let usable = entry.and_then(|entry| entry.usable(ino));
                usable
                    .inspect_err(|error| {
                        *lost = true;
                        self.volume.pass_over(error);
                    })
                    .ok()
            })
            .filter(|entry| entry.ino != 0)
    }

    fn build_index(&self, ino: u32, di: &Dinode) -> Result<DirIndex> {
        let mut built = DirIndex::new(self.layout().dirblksiz);
        let mut lost = false;
        let whole = self.each_chunk(ino, di, Unreadable::Fails, |base, chunk| {
            for entry in self.usable_entries(ino, base, chunk, &mut lost) {
                let hash = self.name_hash.of(name_of(chunk, base, &entry));
                built.insert(hash, entry.place, |place| self.hash_at(ino, di, place))?;
            }
            built.set_room(built.chunks(), self.room_of(ino, base, chunk));
            Ok(ControlFlow::Continue(()))
        })?;
        built.set_lost(lost || !whole);
        Ok(built)
    }

    /// Returns the hash of the name at a place.
    fn hash_at(&self, ino: u32, di: &Dinode, place: u64) -> Result<u64> {
        let (buffer, base, range) = self.chunk_of(ino, di, place)?;
        let bytes = buffer.read();
        let chunk = &bytes[range];
        let entry = entry_at(self.layout(), ino, base, chunk, index(place - base))?;
        Ok(self.name_hash.of(name_of(chunk, base, &entry)))
    }

    /// Finds a name.
    pub(crate) fn find_entry(&self, ino: u32, state: &State, name: &[u8]) -> Result<Option<Found<u32>>> {
        let index_of = match self.dir_index(ino, state) {
            // An index would stay incomplete, even if the device has failed for a moment only.
            Err(Error::Device(_)) if self.volume.is_read_only() => {
                return self.find_without_index(ino, &state.di, name);
            }
            index_of => index_of?,
        };
        for place in index_of.candidates(self.name_hash.of(name)) {
            let (buffer, base, range) = self.chunk_of(ino, &state.di, place)?;
            let bytes = buffer.read();
            let chunk = &bytes[range];
            let entry = entry_at(self.layout(), ino, base, chunk, index(place - base))?;
            if name_of(chunk, base, &entry) == name {
                return Ok(Some(Found { place, ino: entry.ino }));
            }
        }
        if index_of.has_lost() { self.volume.note(Err(lost_names(ino))) } else { Ok(None) }
    }

    /// Finds a name in what can be read of a directory.
    fn find_without_index(&self, ino: u32, di: &Dinode, name: &[u8]) -> Result<Option<Found<u32>>> {
        let (mut found, mut lost) = (None, false);
        let whole = self.each_chunk(ino, di, Unreadable::PassedOver, |base, chunk| {
            let mut entries = self.usable_entries(ino, base, chunk, &mut lost);
            found = entries.find(|entry| name_of(chunk, base, entry) == name);
            Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        match found {
            Some(entry) => Ok(Some(Found { place: entry.place, ino: entry.ino })),
            None if lost || !whole => Err(lost_names(ino)),
            None => Ok(None),
        }
    }

    /// Makes sure that a name of `namlen` bytes can be entered, growing the directory by a chunk if
    /// need be.
    pub(crate) fn reserve_entry(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        state: &mut State,
        namlen: usize,
        by: Privilege,
    ) -> Result<()> {
        self.dir_index(ino, state)?;
        let Some(built) = state.derived.index.get_mut() else { return Ok(()) };
        let need = u32::try_from(dirsiz(namlen)).unwrap_or(u32::MAX);
        if built.find_room(need).is_some() {
            return Ok(());
        }
        let chunk = self.layout().dirblksiz;
        let start = state.di.size;
        let final_size = start + u64::from(chunk);
        if final_size > u64::from(u32::MAX) * 2 {
            return Err(Error::TooBig);
        }
        let lbn = self.layout().lblkno(start);
        let request =
            Request { ino, lbn, final_size, written: 0..0, content: Content::Directory, by, given: None };
        let placed = self.place(tx, &mut state.di, &request)?;
        let byte = self.layout().byte(placed.at);
        let len = self.layout().blksize(final_size, lbn) as usize;
        let buffer = if placed.fresh {
            self.volume.cache.get_new(byte, len, None, tx)?
        } else {
            self.volume.cache.get(byte, len, None)?
        };
        let offset = self.layout().blkoff(start);
        let range = offset..offset + chunk as usize;
        let mut block = if placed.fresh { buffer.write(tx) } else { self.volume.change(tx, &buffer)? };
        write_entry(self.layout(), block.bytes_mut(range), 0, chunk as usize, None);
        drop(block);
        buffer.precede()?;
        state.di.size = final_size;
        self.volume.store(tx, ino, &state.di)?;
        built.set_room(built.chunks(), chunk);
        Ok(())
    }

    /// Enters a name for which [`Self::reserve_entry`] has made room.
    pub(crate) fn enter_entry(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        state: &mut State,
        name: &[u8],
        target: (u32, FileKind),
    ) -> Result<()> {
        let State { di, derived, .. } = state;
        let built = &mut derived.index;
        let built =
            built.get_mut().ok_or_else(|| Error::corrupt("no index", format!("directory inode {ino}")))?;
        let need = dirsiz(name.len());
        let chunk_no = built.find_room(u32::try_from(need).unwrap_or(u32::MAX)).ok_or(Error::NoSpace)?;
        let chunk_bytes = u64::from(self.layout().dirblksiz);
        let (buffer, base, range) = self.chunk_of(ino, di, chunk_no as u64 * chunk_bytes)?;
        let place = {
            let mut block = self.volume.change(tx, &buffer)?;
            let mut host = None;
            for entry in entries(self.layout(), ino, base, &block[range.clone()]) {
                // Nothing is entered into a chunk of which a part cannot be read.
                let entry = entry?;
                host = host.or((entry.slack() >= need).then_some(entry));
            }
            let host = host.ok_or_else(|| {
                Error::corrupt(
                    "less room than its index says",
                    format!("directory inode {ino}, offset {base}"),
                )
            })?;
            let (at, used) = (index(host.place - base), host.used());
            let chunk = block.bytes_mut(range.clone());
            if used > 0 {
                put_reclen(self.layout(), &mut chunk[at..], used);
            }
            write_entry(
                self.layout(),
                &mut chunk[at + used..],
                target.0,
                host.slack(),
                Some((name, target.1)),
            );
            host.place + used as u64
        };
        let room = self.room_of(ino, base, &buffer.read()[range]);
        built.set_room(chunk_no, room);
        built.insert(self.name_hash.of(name), place, |place| self.hash_at(ino, di, place))
    }

    /// Returns the largest space that an entry could have in a chunk; none in one of which a part
    /// cannot be read.
    fn room_of(&self, ino: u32, base: u64, chunk: &[u8]) -> u32 {
        let room = entries(self.layout(), ino, base, chunk)
            .try_fold(0, |room, entry| entry.map(|entry| room.max(entry.slack())));
        u32::try_from(room.unwrap_or(0)).unwrap_or(0)
    }

    /// Takes a name out.
    pub(crate) fn remove_entry(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        state: &mut State,
        name: &[u8],
        place: u64,
    ) -> Result<()> {
        let State { di, derived, .. } = state;
        let built = &mut derived.index;
        let (buffer, base, range) = self.chunk_of(ino, di, place)?;
        let room = {
            let mut block = self.volume.change(tx, &buffer)?;
            // What comes behind damage does not matter to what stands before it.
            let mut all = entries(self.layout(), ino, base, &block[range.clone()]).map_while(Result::ok);
            let mut before: Option<Entry> = None;
            let reclen = loop {
                let entry = all.next().ok_or_else(|| {
                    Error::corrupt("an entry has gone", format!("directory inode {ino}, offset {place}"))
                })?;
                if entry.place == place {
                    break entry.reclen;
                }
                before = Some(entry);
            };
            drop(all);
            let at = index(place - base);
            let chunk = block.bytes_mut(range);
            if let Some(before) = before {
                chunk[at..at + reclen].fill(0);
                put_reclen(self.layout(), &mut chunk[index(before.place - base)..], before.reclen + reclen);
            } else {
                write_entry(self.layout(), &mut chunk[at..], 0, reclen, None);
            }
            self.room_of(ino, base, chunk)
        };
        let Some(built) = built.get_mut() else { return Ok(()) };
        built.remove(self.name_hash.of(name), place);
        built.set_room(index(base / u64::from(self.layout().dirblksiz)), room);
        let in_use = built.chunks_in_use();
        if in_use < built.chunks() {
            built.cut(in_use);
            self.shrink(tx, ino, di, in_use as u64 * u64::from(self.layout().dirblksiz), Content::Directory)?;
            self.volume.store(tx, ino, di)?;
        }
        Ok(())
    }

    /// Makes an existing name mean another inode.
    pub(crate) fn rewrite_entry(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &Dinode,
        place: u64,
        target: (u32, FileKind),
    ) -> Result<()> {
        let (buffer, base, range) = self.chunk_of(ino, di, place)?;
        let at = range.start + index(place - base);
        let mut block = self.volume.change(tx, &buffer)?;
        let entry = block.bytes_mut(at..at + DIRECT_HEADER);
        target.0.put(entry, self.layout().endian);
        if self.layout().inode_format == InodeFormat::New {
            entry[6] = dirent_type(target.1);
        }
        Ok(())
    }

    /// Returns true if there are only `.` and `..`.
    pub(crate) fn has_no_names(&self, ino: u32, di: &Dinode) -> Result<bool> {
        let mut empty = true;
        self.each_chunk(ino, di, Unreadable::Fails, |base, chunk| {
            for entry in entries(self.layout(), ino, base, chunk) {
                let entry = entry?.usable(ino)?;
                if entry.ino != 0 && !matches!(name_of(chunk, base, &entry), b"." | b"..") {
                    empty = false;
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(empty)
    }

    /// Fills a new directory with `.` and `..`.
    pub(crate) fn dir_init(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        parent: u32,
        by: Privilege,
    ) -> Result<()> {
        let chunk = self.layout().dirblksiz;
        let lbn = Lbn(0);
        let final_size = u64::from(chunk);
        let request =
            Request { ino, lbn, final_size, written: 0..0, content: Content::Directory, by, given: None };
        let placed = self.place(tx, di, &request)?;
        let len = self.layout().blksize(final_size, lbn) as usize;
        let buffer = self.volume.cache.get_new(self.layout().byte(placed.at), len, None, tx)?;
        let mut block = buffer.write(tx);
        let bytes = block.bytes_mut(0..chunk as usize);
        let dot = dirsiz(1);
        write_entry(self.layout(), bytes, ino, dot, Some((b".", FileKind::Directory)));
        let rest = chunk as usize - dot;
        write_entry(self.layout(), &mut bytes[dot..], parent, rest, Some((b"..", FileKind::Directory)));
        drop(block);
        buffer.precede()?;
        di.size = final_size;
        Ok(())
    }
}

/// Returns the name of an entry of the chunk that stands at byte `base`.
pub(crate) fn name_of<'a>(chunk: &'a [u8], base: u64, entry: &Entry) -> &'a [u8] {
    let at = index(entry.place - base) + DIRECT_HEADER;
    &chunk[at..at + entry.namlen]
}

fn dirent_type(kind: FileKind) -> u8 {
    u8::try_from(kind.mode_bits() >> 12).unwrap_or(0)
}

fn put_reclen(layout: &Layout, bytes: &mut [u8], reclen: usize) {
    u16::try_from(reclen).unwrap_or(u16::MAX).put(&mut bytes[4..], layout.endian);
}

/// Writes an entry at the start of `bytes`, which then accounts for `reclen` bytes; free space
/// without a name.
fn write_entry(layout: &Layout, bytes: &mut [u8], ino: u32, reclen: usize, name: Option<(&[u8], FileKind)>) {
    bytes[..reclen].fill(0);
    ino.put(bytes, layout.endian);
    put_reclen(layout, bytes, reclen);
    let Some((name, kind)) = name else { return };
    if layout.inode_format == InodeFormat::New {
        bytes[6] = dirent_type(kind);
        bytes[7] = u8::try_from(name.len()).unwrap_or(u8::MAX);
    } else {
        u16::try_from(name.len()).unwrap_or(u16::MAX).put(&mut bytes[6..], layout.endian);
    }
    bytes[DIRECT_HEADER..DIRECT_HEADER + name.len()].copy_from_slice(name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::newfs::{self, Parameters, Plan};
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use spindle_clock::ManualClock;
    use spindle_device::MemoryDevice;
    use std::sync::Arc;

    /// Promise: an entry has room for its name with the NUL and the padding, or is damage; so the
    /// space that is left in it can be computed.
    #[test]
    fn names_fit_their_entries() {
        let layout = Plan::new(&Parameters::new(32 << 20)).unwrap().layout;
        let mut chunk = [0; 16];
        for namlen in 1..=8 {
            write_entry(&layout, &mut chunk, 2, 16, Some((&b"abcdefgh"[..namlen], FileKind::Regular)));
            let read: Result<Vec<_>> = entries(&layout, 2, 0, &chunk).collect();
            match read {
                Ok(all) if namlen < 8 => {
                    assert_eq!((all[0].damage, all[0].slack()), (None, 16 - dirsiz(namlen)));
                }
                Ok(all) => assert!(all[0].damage.is_some() && all[0].slack() == 0),
                Err(error) => panic!("{namlen}: {error}"),
            }
        }
    }

    /// Promise: an entry that is unused or damaged has no name, whatever it says of its length, so
    /// that no name leads out of the chunk.
    #[test]
    fn names_are_in_the_chunk() {
        let parameters = Parameters { format: newfs::Format::Old, ..Parameters::new(32 << 20) };
        let layout = Plan::new(&parameters).unwrap().layout;
        let mut chunk = [0; 16];
        for ino in [0, 2, u32::MAX] {
            write_entry(&layout, &mut chunk, ino, 16, Some((b"name", FileKind::Regular)));
            3076_u16.put(&mut chunk[6..], layout.endian);
            let entry = entry_at(&layout, 2, 0, &chunk, 0).unwrap();
            assert_eq!((name_of(&chunk, 0, &entry), entry.damage.is_some()), (&b""[..], ino != 0));
        }
    }

    /// Promise: each mount hashes names with another key.
    #[test]
    fn mounts_hash_differently() {
        let plan = Plan::new(&Parameters::new(8 << 20)).unwrap();
        let device = Arc::new(MemoryDevice::new(plan.size_bytes()));
        let clock = Arc::new(ManualClock::at(1_700_000_000));
        newfs::write(&plan, &*device, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        let hash = || {
            let fs = Ffs::open(device.clone(), clock.clone(), &OpenOptions::default()).unwrap();
            fs.name_hash.of(b"name")
        };
        assert_ne!(hash(), hash());
    }
}
