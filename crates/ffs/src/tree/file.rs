//! Reading and writing files: bytes to runs of blocks.
//!
//! Invariants of every file: the bytes of its last fragment beyond its size are zero; only the last
//! block of a file without indirect blocks is in fragments, as many as the size needs; the block
//! with the last byte exists (BSD checkers cut a file back to its last block).
//!
//! The three cases of growth (paper, section 3.1) are [`Ffs::place`]: the space is there; new
//! blocks are needed; a fragment must grow, in place if what follows it is free, by a copy
//! otherwise.

use crate::format::dinode::Dinode;
use crate::format::ondisk::{NDADDR, NIADDR, SF_SNAPSHOT};
use crate::format::units::{Frag, Lbn, index};
use crate::tree::mount::Ffs;
use crate::volume::Volume;
use crate::volume::bmap::{PointerAt, Slot};
use crate::volume::policy::{NextBlock, Preference, block_preference, group_with_room};
use crate::volume::tx::{Progress, Tx};
use spindle_cache::{Extent, Space, Stream};
use spindle_vfs::{Error, Privilege, Result, Seek};
use std::ops::Range;
use std::sync::Arc;

/// The content of the blocks of a file, which decides how their bytes are accessed.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    /// File data: the file's stream.
    Data(&'a Arc<Stream>),
    /// Directories: buffers.
    Directory,
}

/// Space for a block of a file.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    pub(crate) at: Frag,
    /// The block was allocated just now and holds nothing of the file.
    pub(crate) fresh: bool,
}

/// One request to [`Ffs::place`].
pub(crate) struct Request<'a> {
    pub(crate) ino: u32,
    pub(crate) lbn: Lbn,
    /// Size of the file when the operation is done.
    pub(crate) final_size: u64,
    /// Bytes of the block that the caller writes itself.
    pub(crate) written: Range<usize>,
    pub(crate) content: Content<'a>,
    pub(crate) by: Privilege,
    /// A whole block that the caller has taken for it.
    pub(crate) given: Option<Frag>,
}

impl Ffs {
    /// Reads from a file; short at its end.
    pub(crate) fn read_file(
        &self,
        ino: u32,
        stream: &Arc<Stream>,
        di: &Dinode,
        offset: u64,
        buf: &mut [u8],
        at_hole: impl Fn() -> Result<()>,
    ) -> Result<usize> {
        if offset >= di.size {
            return Ok(0);
        }
        let want = index((di.size - offset).min(buf.len() as u64));
        if self.read_live_snapshot(ino, di, offset, &mut buf[..want])? {
            return Ok(want);
        }
        self.volume.cache.read(stream, di.size, offset, &mut buf[..want], |block, most| {
            let left = di.size.div_ceil(self.layout().fs_bsize.into()) - block;
            let run = self.volume.bmap(ino, di, Lbn(block), most.min(left))?;
            if run.at.is_none() {
                at_hole()?;
            }
            Ok::<_, Error>(Extent { at: run.at.map(|at| self.layout().byte(at)), blocks: run.blocks })
        })?;
        Ok(want)
    }

    /// Writes to a file, growing it as needed, and returns the bytes written: fewer when space or
    /// the quota ran out, or, as [`Progress::Partial`], when there was no more room in the log. The
    /// caller stores the inode.
    pub(crate) fn write_file(
        &self,
        tx: &Tx<'_>,
        (ino, stream): (u32, &Arc<Stream>),
        di: &mut Dinode,
        offset: u64,
        data: &[u8],
        by: Privilege,
    ) -> Result<Progress<usize>> {
        let most = self.layout().fs_maxfilesize;
        if offset >= most {
            return Err(Error::TooBig);
        }
        let data = &data[..index((most - offset).min(data.len() as u64))];
        // When data is written over, nothing may fail any more.
        self.volume.preserve_inode(tx, ino)?;
        let final_size = di.size.max(offset + data.len() as u64);
        let mut done = 0;
        let mut pending = PendingWrite::default();
        let result = loop {
            if done == data.len() {
                break Ok(Progress::Done(done));
            }
            if done > 0 && !tx.has_room(&self.volume, self.volume.block_sectors()) {
                break Ok(Progress::Partial(done));
            }
            let at = offset + done as u64;
            let lbn = self.layout().lblkno(at);
            let start = self.layout().blkoff(at);
            let end = (start + data.len() - done).min(self.layout().fs_bsize as usize);
            let content = Content::Data(stream);
            let request = Request { ino, lbn, final_size, written: start..end, content, by, given: None };
            let placed = match self.place_or_roll_back(tx, di, &request) {
                Ok(placed) => placed,
                Err(error) => break Err(error),
            };
            let byte = self.layout().byte(placed.at);
            let size = self.layout().blksize(final_size, lbn);
            if placed.fresh && (start > 0 || end < size as usize) {
                let written = if start == 0 { end } else { 0 };
                self.volume.cache.write_zeros(stream, tx, lbn.0, byte, written..size as usize)?;
            }
            let space =
                Space { offset: at, at: byte + start as u64, end: at - start as u64 + u64::from(size) };
            if !pending.join(space, done, end - start) {
                pending.write(&self.volume, tx, stream, data)?;
                pending.join(space, done, end - start);
            }
            done += end - start;
            di.size = di.size.max(at + (end - start) as u64);
        };
        pending.write(&self.volume, tx, stream, data)?;
        match result {
            // What is written ends with a block, so all of its blocks are whole, as they should be.
            Err(Error::NoSpace | Error::QuotaExceeded) if done > 0 => Ok(Progress::Done(done)),
            result => result,
        }
    }

    /// Does what [`Self::place`] does, and rolls back if it fails.
    fn place_or_roll_back(&self, tx: &Tx<'_>, di: &mut Dinode, request: &Request<'_>) -> Result<Placed> {
        let (mark, before) = (tx.savepoint(), di.clone());
        self.place(tx, di, request).or_else(|error| {
            *di = before;
            self.volume.roll_back(tx, &mark)?;
            Err(error)
        })
    }

    /// Zeros a range of a block of a file that has `size` bytes of space at `byte`.
    fn zero(
        &self,
        tx: &Tx<'_>,
        stream: &Arc<Stream>,
        lbn: Lbn,
        (byte, size): (u64, u32),
        range: Range<usize>,
    ) -> Result<()> {
        if !range.is_empty() {
            let start = lbn.0 << self.layout().fs_bshift;
            let space = Space {
                offset: start + range.start as u64,
                at: byte + range.start as u64,
                end: start + u64::from(size),
            };
            self.volume.cache.write(stream, tx, space, &vec![0; range.len()])?;
        }
        Ok(())
    }

    /// Finds or makes space for one block of a file that is about to be written or to become the
    /// last. What is made and not `written` by the caller reads as zeros, unless it is wholly
    /// fresh.
    pub(crate) fn place(&self, tx: &Tx<'_>, di: &mut Dinode, request: &Request<'_>) -> Result<Placed> {
        self.clear_tail(tx, di, request)?;
        self.complete_tail(tx, di, request)?;
        let lbn = request.lbn;
        match self.volume.pointer_at(lbn)? {
            PointerAt::Direct(n) => {
                let need = self.layout().blksize(request.final_size, lbn);
                if let Some(at) = self.volume.pointer(di.db[n], 1, request.ino)? {
                    let have = self.layout().blksize(di.size, lbn);
                    let at = if need > have {
                        self.grow(tx, di, n, have, need, request)?
                    } else {
                        self.unshared(tx, di, request, lbn)?.unwrap_or(at)
                    };
                    return Ok(Placed { at, fresh: false });
                }
                let frags = self.layout().numfrags(need);
                let at = if let Some(given) = request.given {
                    given
                } else {
                    let mut wanted = self.wanted(request.ino, lbn, n as u64, |i| di.db[index(i)]);
                    if frags == self.layout().fs_frag {
                        wanted = self.volume.redirect(wanted, lbn)?;
                    }
                    self.volume.alloc(tx, frags, wanted, request.by)?
                };
                di.db[n] = at.0;
                self.account(tx, request.ino, di, frags.into(), request.by)?;
                Self::note_new_space(tx, request);
                Ok(Placed { at, fresh: true })
            }
            PointerAt::Indirect { levels, path } => self.place_indirect(tx, di, request, levels, path),
        }
    }

    /// Has a rollback forget what is written to a block that has just got space.
    fn note_new_space(tx: &Tx<'_>, request: &Request<'_>) {
        if let Content::Data(stream) = request.content {
            tx.forget_data_on_rollback(stream, request.lbn.0..request.lbn.0 + 1);
        }
    }

    /// Zeroes what a file that is about to grow will show of the space behind its end. There may be
    /// old bytes: a crash keeps the size of before and the data of after, and other systems leave
    /// what they had.
    fn clear_tail(&self, tx: &Tx<'_>, di: &mut Dinode, request: &Request<'_>) -> Result<()> {
        let (last, from) = (self.layout().lblkno(di.size), self.layout().blkoff(di.size));
        let Content::Data(stream) = request.content else { return Ok(()) };
        if request.final_size <= di.size || request.lbn < last {
            return Ok(());
        }
        let have = self.layout().blksize(di.size, last);
        let whole = request.lbn > last || request.written.is_empty();
        let to = if whole { have as usize } else { request.written.start.min(have as usize) };
        if from == 0 || from >= to {
            return Ok(());
        }
        let Some(at) = self.volume.bmap(request.ino, di, last, 1)?.at else { return Ok(()) };
        let (offset, byte) = (last.0 << self.layout().fs_bshift, self.layout().byte(at));
        let space = Space { offset, at: byte, end: offset + u64::from(have) };
        if self.read_space(stream, space)?[from..to].iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let byte = self.unshared(tx, di, request, last)?.map_or(byte, |at| self.layout().byte(at));
        self.zero(tx, stream, last, (byte, have), from..to)
    }

    /// Gives a block of a file another place if a snapshot needs what it has, so that its data can
    /// be written over. Returns the place; none if it stays where it is.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; device errors.
    pub(crate) fn unshared(
        &self,
        tx: &Tx<'_>,
        di: &mut Dinode,
        request: &Request<'_>,
        lbn: Lbn,
    ) -> Result<Option<Frag>> {
        let (Content::Data(_), true) = (request.content, self.volume.snapshots.count() > 0) else {
            return Ok(None);
        };
        let Some(from) = self.volume.bmap(request.ino, di, lbn, 1)?.at else { return Ok(None) };
        if !self.volume.must_move(from)? {
            return Ok(None);
        }
        let bytes = self.layout().blksize(di.size, lbn);
        let frags = self.layout().numfrags(bytes);
        let wanted = from + u64::from(self.layout().fs_frag);
        let to = self.volume.alloc(tx, frags, wanted, request.by)?;
        self.volume.free(tx, from, frags.into())?;
        let request = Request { lbn, written: 0..0, ..*request };
        match self.volume.slot_of(request.ino, &di.ib, lbn)? {
            Slot::Inode(n) => di.db[n] = to.0,
            Slot::Indirect(block, n) => {
                let buffer = self.volume.indirect(block)?;
                self.volume.put_pointer(&mut self.volume.change(tx, &buffer)?, n, to.0);
            }
        }
        self.move_fragments(tx, &request, (from, bytes as usize), (to, bytes as usize))?;
        tx.note_moved();
        Ok(Some(to))
    }

    /// Reads from a snapshot that changes are preserved for; false for other files.
    fn read_live_snapshot(&self, ino: u32, di: &Dinode, offset: u64, buf: &mut [u8]) -> Result<bool> {
        if di.flags & SF_SNAPSHOT == 0 {
            return Ok(false);
        }
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let Some(block) = self.volume.read_snapshot(ino, self.layout().lblkno(at))? else {
                return Ok(false);
            };
            let from = self.layout().blkoff(at);
            let part = (block.len() - from).min(buf.len() - done);
            buf[done..done + part].copy_from_slice(&block[from..from + part]);
            done += part;
        }
        Ok(true)
    }

    /// Gives a file that grows beyond a last block in fragments the whole of that block first.
    fn complete_tail(&self, tx: &Tx<'_>, di: &mut Dinode, request: &Request<'_>) -> Result<()> {
        let last = self.layout().lblkno(di.size);
        let Some(n) = usize::try_from(last.0).ok().filter(|&n| n < NDADDR && last < request.lbn) else {
            return Ok(());
        };
        let have = self.layout().blksize(di.size, last);
        if have > 0 && have < self.layout().fs_bsize && di.db[n] != 0 {
            let tail = Request { lbn: last, written: 0..0, ..*request };
            self.grow(tx, di, n, have, self.layout().fs_bsize, &tail)?;
            di.size = (last.0 + 1) << self.layout().fs_bshift;
        }
        Ok(())
    }

    /// Grows direct block `n` from `have` to `need` bytes (`ffs_realloccg`).
    fn grow(
        &self,
        tx: &Tx<'_>,
        di: &mut Dinode,
        n: usize,
        have: u32,
        need: u32,
        request: &Request<'_>,
    ) -> Result<Frag> {
        let (old, new) = (self.layout().numfrags(have), self.layout().numfrags(need));
        let Some(at) = self.volume.pointer(di.db[n], old, request.ino)? else {
            return Err(Error::corrupt("a hole was to grow", format!("inode {}", request.ino)));
        };
        if self.volume.free_frags_for(request.by) < (new - old).into() {
            return Err(Error::NoSpace);
        }
        let shared = matches!(request.content, Content::Data(_)) && self.volume.must_move(at)?;
        let now_at = if !shared && self.volume.extend(tx, at, old, new)? {
            if let Content::Data(stream) = request.content {
                tx.cut_data_on_rollback(stream, request.lbn.0, have as usize);
            }
            at
        } else {
            let ask = self.volume.growth_request(new);
            let wanted = self.wanted(request.ino, request.lbn, n as u64, |i| di.db[index(i)]);
            // The reserve was looked at above: what is taken beyond `new` comes back at once.
            let (to, got) = match self.volume.alloc(tx, ask, wanted, Privilege::Root) {
                Err(Error::NoSpace) if ask > new => {
                    (self.volume.alloc(tx, new, wanted, Privilege::Root)?, new)
                }
                other => (other?, ask),
            };
            if got > new {
                self.volume.free(tx, to + u64::from(new), (got - new).into())?;
            }
            match request.content {
                Content::Data(_) => self.volume.free(tx, at, old.into())?,
                Content::Directory => self.volume.free_metadata(tx, at, old.into())?,
            }
            self.move_fragments(tx, request, (at, have as usize), (to, need as usize))?;
            di.db[n] = to.0;
            to
        };
        self.account(tx, request.ino, di, (new - old).into(), request.by)?;
        let (from, to) = (have as usize, need as usize);
        match request.content {
            Content::Data(stream) => {
                let space = (self.layout().byte(now_at), need);
                // All of it, and before the data, so that nothing has to be read around it.
                if request.written.start > from || request.written.end < to {
                    self.zero(tx, stream, request.lbn, space, from..to)?;
                }
            }
            Content::Directory => {
                let byte = self.layout().byte(now_at);
                if now_at == at {
                    drop(self.volume.cache.get(byte, from, None)?);
                    self.volume.cache.resize(byte, to, tx)?;
                }
                let buffer = self.volume.cache.get(byte, to, None)?;
                self.volume.change(tx, &buffer)?.bytes_mut(from..to).fill(0);
                if now_at != at {
                    buffer.precede()?;
                }
            }
        }
        Ok(now_at)
    }

    /// Moves the `have` bytes of a fragment to its new place, where it has `need`.
    fn move_fragments(
        &self,
        tx: &Tx<'_>,
        request: &Request<'_>,
        (from, have): (Frag, usize),
        (to, need): (Frag, usize),
    ) -> Result<()> {
        let (from, to) = (self.layout().byte(from), self.layout().byte(to));
        match request.content {
            Content::Data(stream) => {
                let lbn = request.lbn.0;
                let offset = lbn << self.layout().fs_bshift;
                let space = |at, len| Space { offset, at, end: offset + len as u64 };
                let bytes = self.read_space(stream, space(from, have))?;
                tx.move_data_back_on_rollback(stream, space(from, have), bytes.clone());
                self.volume.cache.discard(stream, lbn..lbn + 1)?;
                // Only what was moved: the rest would be read around it, and is written next.
                self.volume.cache.write(stream, tx, space(to, have), &bytes)?;
            }
            Content::Directory => {
                let bytes = self.volume.cache.get(from, have, None)?.read().to_vec();
                self.volume
                    .cache
                    .get_new(to, need, None, tx)?
                    .write(tx)
                    .bytes_mut(0..have)
                    .copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    /// Reads all bytes of the space of a block of a file, also those beyond its size.
    pub(crate) fn read_space(&self, stream: &Arc<Stream>, space: Space) -> Result<Vec<u8>> {
        let mut bytes = vec![0; index(space.end - space.offset)];
        self.volume.cache.read(stream, space.end, space.offset, &mut bytes, |_, _| {
            Ok::<_, Error>(Extent { at: Some(space.at), blocks: 1 })
        })?;
        Ok(bytes)
    }

    /// [`Self::place`] behind indirect blocks, which are made as needed.
    fn place_indirect(
        &self,
        tx: &Tx<'_>,
        di: &mut Dinode,
        request: &Request<'_>,
        levels: usize,
        path: [usize; NIADDR],
    ) -> Result<Placed> {
        let frag = self.layout().fs_frag;
        let mut block = if let Some(at) = self.volume.pointer(di.ib[levels - 1], frag, request.ino)? {
            at
        } else {
            let at = self.make_indirect(tx, di, request)?;
            di.ib[levels - 1] = at.0;
            at
        };
        for level in (0..levels).rev() {
            let step = path[NIADDR - 1 - level];
            let buffer = self.volume.indirect(block)?;
            let raw = self.volume.get_pointer(&buffer.read(), step);
            let known = self.volume.pointer(raw, frag, request.ino)?;
            if level == 0 {
                if let Some(at) = known {
                    let at = self.unshared(tx, di, request, request.lbn)?.unwrap_or(at);
                    return Ok(Placed { at, fresh: false });
                }
                let at = if let Some(given) = request.given {
                    given
                } else {
                    let wanted = {
                        let bytes = buffer.read();
                        self.wanted(request.ino, request.lbn, step as u64, |i| {
                            self.volume.get_pointer(&bytes, index(i))
                        })
                    };
                    self.volume.alloc(tx, frag, self.volume.redirect(wanted, request.lbn)?, request.by)?
                };
                self.volume.put_pointer(&mut self.volume.change(tx, &buffer)?, step, at.0);
                self.account(tx, request.ino, di, frag.into(), request.by)?;
                Self::note_new_space(tx, request);
                return Ok(Placed { at, fresh: true });
            }
            block = if let Some(at) = known {
                at
            } else {
                let at = self.make_indirect(tx, di, request)?;
                self.volume.put_pointer(&mut self.volume.change(tx, &buffer)?, step, at.0);
                at
            };
        }
        Err(Error::corrupt("an indirect block without a level", format!("inode {}", request.ino)))
    }

    fn make_indirect(&self, tx: &Tx<'_>, di: &mut Dinode, request: &Request<'_>) -> Result<Frag> {
        let own = self.layout().ino_to_cg(request.ino);
        let wanted = if self.volume.placement().metaspace > 0 {
            self.layout().cgdmin(own)
        } else {
            self.wanted(request.ino, request.lbn, 0, |_| 0)
        };
        let at = self.volume.alloc(tx, self.layout().fs_frag, wanted, request.by)?;
        self.account(tx, request.ino, di, self.layout().fs_frag.into(), request.by)?;
        let bytes = self.layout().fs_bsize as usize;
        self.volume.cache.get_new(self.layout().byte(at), bytes, None, tx)?.precede()?;
        Ok(at)
    }

    /// Adds fragments to the space a file holds, and charges them to its owner and group.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`]; the caller rolls back.
    pub(crate) fn account(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        frags: i64,
        by: Privilege,
    ) -> Result<()> {
        let before = self.volume.bill(ino, di);
        di.blocks = di.blocks.saturating_add_signed(frags << self.layout().fs_fshift >> 9);
        self.volume.charge_change(tx, before, self.volume.bill(ino, di), by)
    }

    /// Returns where the policy wants block `lbn`, whose pointer is number `at` of an array read by
    /// `pointer`.
    fn wanted(&self, ino: u32, lbn: Lbn, at: u64, pointer: impl Fn(u64) -> u64) -> Frag {
        let layout = self.layout();
        let frag = u64::from(layout.fs_frag);
        let previous = at.checked_sub(1).map(&pointer).filter(|&p| p > 0 && p < layout.fs_size);
        let contiguous = if self.volume.placement().delay_frags == 0 {
            1
        } else {
            let chained = |i: &u64| pointer(at - i) == pointer(at - i - 1) + frag;
            1 + u32::try_from((1..at).take(64).take_while(chained).count()).unwrap_or(0)
        };
        let own_group = layout.ino_to_cg(ino);
        let next = NextBlock {
            lbn: lbn.0,
            index: at,
            previous_group: previous.map(|p| layout.dtog(Frag(p))),
            own_group,
            contiguous,
        };
        let first_data = |cgx: u32| layout.cgdmin(cgx) + u64::from(self.volume.placement().metaspace);
        match (block_preference(&next, &self.volume.placement()), previous) {
            (Preference::After(frags), Some(previous)) => {
                let previous = previous - previous % frag;
                Frag(previous + u64::from(frags))
            }
            (Preference::NewGroup(start), _) => {
                first_data(self.volume.summaries.choose(|groups| group_with_room(groups, start)))
            }
            _ => first_data(own_group),
        }
    }

    /// Runs of blocks, holes included, that a file can have. Pointers that lead to the same blocks
    /// over and over would take as long to follow as they please.
    pub(crate) fn most_runs(&self) -> u64 {
        2 * (self.layout().fs_size / u64::from(self.layout().fs_frag)) + 64
    }

    /// Counts one of [`Self::most_runs`].
    pub(crate) fn spend_run(ino: u32, left: &mut u64) -> Result<()> {
        *left = left.checked_sub(1).ok_or_else(|| {
            Error::corrupt("more runs of blocks than there are blocks", format!("inode {ino}"))
        })?;
        Ok(())
    }

    /// Returns the next data or hole at or after `offset`.
    pub(crate) fn seek_file(
        &self,
        ino: u32,
        di: &Dinode,
        (offset, what): (u64, Seek),
        at_hole: impl Fn() -> Result<()>,
    ) -> Result<u64> {
        if offset >= di.size {
            return Err(Error::NoSuchOffset);
        }
        let mut at = offset;
        let mut left_runs = self.most_runs();
        while at < di.size {
            Self::spend_run(ino, &mut left_runs)?;
            let lbn = self.layout().lblkno(at);
            let left = (di.size - (lbn.0 << self.layout().fs_bshift)).div_ceil(self.layout().fs_bsize.into());
            let run = self.volume.bmap(ino, di, lbn, left)?;
            if run.at.is_some() == (what == Seek::Data) {
                return Ok(at);
            }
            if run.at.is_none() {
                at_hole()?;
            }
            at = (lbn.0 + run.blocks) << self.layout().fs_bshift;
        }
        match what {
            Seek::Data => Err(Error::NoSuchOffset),
            Seek::Hole => Ok(di.size),
        }
    }
}

/// File data that goes to one contiguous place and is not written yet.
struct PendingWrite {
    space: Space,
    start: usize,
    len: usize,
}

impl Default for PendingWrite {
    fn default() -> Self {
        Self { space: Space { offset: 0, at: 0, end: 0 }, start: 0, len: 0 }
    }
}

impl PendingWrite {
    /// Adds `len` bytes of the data from `start`, which go to `space`; false if they do not follow.
    fn join(&mut self, space: Space, start: usize, len: usize) -> bool {
        if self.len == 0 {
            *self = Self { space, start, len };
            return true;
        }
        let follows = space.at == self.space.at + self.len as u64 && start == self.start + self.len;
        if follows {
            self.len += len;
            self.space.end = space.end;
        }
        follows
    }

    fn write(&mut self, volume: &Volume, tx: &Tx<'_>, stream: &Arc<Stream>, data: &[u8]) -> Result<()> {
        let Self { space, start, len } = std::mem::take(self);
        if len > 0 {
            volume.cache.write(stream, tx, space, &data[start..start + len])?;
        }
        Ok(())
    }
}
