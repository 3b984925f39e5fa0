//! Changing a file's size and giving its space back.
//!
//! Freed pointers are cleared in the transaction that frees the blocks. A leaf of pointers is freed before
//! the next is looked at, so that pointers that lead to one place twice are met as damage, soon.

use crate::dinode::Dinode;
use crate::file::{Content, Request};
use crate::inode::Inode;
use crate::mount::Ffs;
use crate::ondisk::{NDADDR, NIADDR};
use crate::units::{Frag, Lbn, index};
use spindle_cache::{Space, Tx};
use spindle_vfs::{Error, FallocateMode, FileKind, Privilege, Result};
use std::ops::Range;
use std::sync::Arc;

/// A file is cut back in steps of at most this many bytes, one transaction each.
const STEP_BYTES: u64 = 16 << 30;
/// Space is allocated in steps of at most this many bytes: it is given zeros.
const FILL_BYTES: u64 = 64 << 20;

impl Ffs {
    /// Grows a file to `size`; the new part reads as zeros and only its last block takes space.
    pub(crate) fn extend_file(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        di: &mut Dinode,
        size: u64,
        by: Privilege,
    ) -> Result<()> {
        if size > self.layout.fs_maxfilesize {
            return Err(Error::TooBig);
        }
        let old_size = di.size;
        let lbn = self.layout.lblkno(size - 1);
        let content = Content::Data(&inode.stream);
        let request =
            Request { ino: inode.ino, lbn, final_size: size, written: 0..0, content, by, given: None };
        match self.place_zeroed(tx, di, &request) {
            Ok(()) => {
                di.size = size;
                Ok(())
            }
            Err(error) => {
                self.shrink(tx, inode.ino, di, old_size, content)?;
                Err(error)
            }
        }
    }

    /// [`Self::place`] for a block that nobody is going to write: it reads as zeros where it held nothing.
    fn place_zeroed(&self, tx: &Tx<'_>, di: &mut Dinode, request: &Request<'_>) -> Result<()> {
        let placed = self.place(tx, di, request)?;
        if let (true, Content::Data(stream)) = (placed.fresh, request.content) {
            let bytes = self.layout.blksize(request.final_size, request.lbn);
            self.cache.write_zeros(stream, tx, request.lbn.0, self.layout.byte(placed.at), bytes)?;
        }
        Ok(())
    }

    /// Cuts a file back to `size`, or a file with space beyond its size to that size.
    pub(crate) fn shrink(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        size: u64,
        content: Content<'_>,
    ) -> Result<()> {
        let old_size = di.size;
        let keep = size.div_ceil(self.layout.fs_bsize.into());
        di.size = size;
        self.free_blocks(tx, ino, di, old_size, keep..u64::MAX, content)?;
        if size == 0 || self.layout.blkoff(size) == 0 {
            return Ok(());
        }
        let last = Lbn(keep - 1);
        let run = self.bmap(ino, di, last, 1)?;
        let Some(at) = run.at else {
            // The last byte must have a block; a hole reads as zeros, and so does this.
            return Ok(());
        };
        let (had, has) = (self.layout.blksize(old_size, last), self.layout.blksize(size, last));
        let extra = self.layout.numfrags(had).saturating_sub(self.layout.numfrags(has));
        if extra > 0 {
            let cut = at + u64::from(self.layout.numfrags(has));
            match content {
                Content::Directory => {
                    drop(self.cache.get(self.layout.byte(at), has as usize, None)?);
                    self.free_metadata(tx, cut, extra.into())?;
                }
                Content::Data(stream) => {
                    self.cache.settle(stream, last.0..last.0 + 1)?;
                    self.free(tx, cut, extra.into())?;
                }
            }
            self.account(di, -i64::from(extra));
        }
        let from = self.layout.blkoff(size);
        if let Content::Data(stream) = content
            && old_size > size
        {
            let at = self.layout.byte(at) + from as u64;
            let space = Space { offset: size, at, end: size - from as u64 + u64::from(has) };
            self.cache.write(stream, tx, space, &vec![0; has as usize - from])?;
        }
        Ok(())
    }

    /// Cuts a file back towards `size` in as many transactions as that takes but the last, in which the caller does the rest with
    /// [`Self::shrink_exactly`]. The caller holds the inode's lock.
    pub(crate) fn shrink_in_steps(&self, inode: &Inode, di: &mut Dinode, size: u64) -> Result<()> {
        loop {
            // What is not stored takes no time to cut off.
            let stored = self.stored_end(inode.ino, di)?.0.saturating_mul(self.layout.fs_bsize.into());
            let step = stored.min(di.size).saturating_sub(self.step_bytes());
            if step <= size {
                return Ok(());
            }
            self.transact(|tx| {
                self.shrink(tx, inode.ino, di, step, inode.content(di))?;
                self.store(tx, inode.ino, di)
            })?;
        }
    }

    /// Bytes of a file that one transaction may free or allocate.
    pub(crate) fn step_bytes(&self) -> u64 {
        // For each block a bit of the map and a pointer, which are logged by the sector at the worst.
        const LOGGED_PER_BLOCK: u64 = 32;
        self.log.as_ref().map_or(STEP_BYTES, |log| {
            let blocks = log.ring().circ_size / 4 / LOGGED_PER_BLOCK;
            STEP_BYTES.min(blocks << self.layout.fs_bshift)
        })
    }

    /// [`Self::shrink`], after giving the block that becomes the last one space if it is a hole.
    pub(crate) fn shrink_exactly(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        size: u64,
        content: Content<'_>,
    ) -> Result<()> {
        if size > 0 && matches!(content, Content::Data(_)) {
            let (lbn, final_size) = (self.layout.lblkno(size - 1), di.size);
            if self.bmap(ino, di, lbn, 1)?.at.is_none() {
                let by = Privilege::Root;
                let request = Request { ino, lbn, final_size, written: 0..0, content, by, given: None };
                self.place_zeroed(tx, di, &request)?;
            }
        }
        self.shrink(tx, ino, di, size, content)
    }

    /// Frees the whole blocks `range` of a file that was `old_size` long, and the indirect blocks that become empty.
    fn free_blocks(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        old_size: u64,
        range: Range<u64>,
        content: Content<'_>,
    ) -> Result<()> {
        if let Content::Data(stream) = content {
            self.cache.discard(stream, range.clone())?;
        }
        let mut freed = 0;
        for n in 0..NDADDR {
            if !range.contains(&(n as u64)) || di.db[n] == 0 {
                continue;
            }
            let frags = self.layout.numfrags(self.layout.blksize(old_size, Lbn(n as u64)));
            if let Some(at) = self.pointer(di.db[n], frags, ino)?.filter(|_| frags > 0) {
                di.db[n] = 0;
                self.release(tx, at, frags.into(), content)?;
                freed += u64::from(frags);
            }
        }
        let n = u64::from(self.layout.fs_nindir);
        let mut first = NDADDR as u64;
        let mut span = n;
        for level in 0..NIADDR {
            let here = first..first + span;
            if di.ib[level] != 0 && here.start < range.end && range.start < here.end {
                let tree = Tree { ino, range: &range, content };
                let (count, empty) = self.free_tree(tx, &tree, di.ib[level], level, first)?;
                freed += count;
                if empty {
                    di.ib[level] = 0;
                }
            }
            first += span;
            span *= n;
        }
        self.account(di, -freed.cast_signed());
        Ok(())
    }

    /// Frees the blocks of a range below one indirect block with `level` levels of others below it; the fragments freed,
    /// and whether the block itself was among them.
    fn free_tree(
        &self,
        tx: &Tx<'_>,
        tree: &Tree<'_>,
        raw: u64,
        level: usize,
        first: u64,
    ) -> Result<(u64, bool)> {
        let frag = self.layout.fs_frag;
        let Some(block) = self.pointer(raw, frag, tree.ino)? else { return Ok((0, true)) };
        let n = u64::from(self.layout.fs_nindir);
        let span = n.pow(u32::try_from(level).unwrap_or(0));
        let buffer = self.indirect(block)?;
        let pointers: Vec<u64> = {
            let bytes = buffer.read();
            (0..index(n)).map(|i| self.get_pointer(&bytes, i)).collect()
        };
        let mut freed = 0;
        let mut left = pointers.iter().filter(|&&p| p != 0).count();
        let from = index(tree.range.start.saturating_sub(first) / span);
        let to = index(tree.range.end.saturating_sub(first).div_ceil(span).min(n));
        let mut run: Option<(Frag, u64)> = None;
        for (i, &raw) in pointers.iter().enumerate().take(to).skip(from) {
            if raw == 0 {
                continue;
            }
            if level > 0 {
                let (count, empty) = self.free_tree(tx, tree, raw, level - 1, first + i as u64 * span)?;
                freed += count;
                if !empty {
                    continue;
                }
                self.put_pointer(&mut buffer.write(tx), i, 0);
            } else {
                let Some(at) = self.pointer(raw, frag, tree.ino)? else { continue };
                self.put_pointer(&mut buffer.write(tx), i, 0);
                freed += u64::from(frag);
                run = match run {
                    Some((start, count)) if start + count == at => Some((start, count + u64::from(frag))),
                    other => {
                        self.release_run(tx, other, tree.content)?;
                        Some((at, frag.into()))
                    }
                };
            }
            left -= 1;
        }
        self.release_run(tx, run, tree.content)?;
        if left > 0 {
            return Ok((freed, false));
        }
        drop(buffer);
        self.free_metadata(tx, block, frag.into())?;
        Ok((freed + u64::from(frag), true))
    }

    fn release_run(&self, tx: &Tx<'_>, run: Option<(Frag, u64)>, content: Content<'_>) -> Result<()> {
        run.map_or(Ok(()), |(at, count)| self.release(tx, at, count, content))
    }

    /// Frees the space of file blocks, and forgets the buffers of a directory's.
    fn release(&self, tx: &Tx<'_>, at: Frag, count: u64, content: Content<'_>) -> Result<()> {
        match content {
            Content::Data(_) => self.free(tx, at, count),
            Content::Directory => {
                let frag = u64::from(self.layout.fs_frag);
                (0..count)
                    .step_by(self.layout.fs_frag as usize)
                    .try_for_each(|block| self.free_metadata(tx, at + block, frag.min(count - block)))
            }
        }
    }

    /// Allocates, zeroes or frees a range of a regular file.
    pub(crate) fn fallocate_file(
        &self,
        inode: &Inode,
        di: &mut Dinode,
        mode: FallocateMode,
        range: Range<u64>,
        by: Privilege,
    ) -> Result<()> {
        match mode {
            FallocateMode::PunchHole => self.punch(inode, di, range.start..range.end.min(di.size)),
            FallocateMode::ZeroRange { keep_size } => {
                let within = range.start..range.end.min(di.size);
                if !within.is_empty() {
                    self.punch(inode, di, within)?;
                }
                self.fill(inode, di, range, keep_size, by)
            }
            FallocateMode::Allocate { keep_size } => self.fill(inode, di, range, keep_size, by),
        }
    }

    /// Gives every missing block of a range space that reads as zeros.
    fn fill(
        &self,
        inode: &Inode,
        di: &mut Dinode,
        range: Range<u64>,
        keep_size: bool,
        by: Privilege,
    ) -> Result<()> {
        if range.end > self.layout.fs_maxfilesize {
            return Err(Error::TooBig);
        }
        // Space beyond the size would be taken for damage by every BSD checker: with `keep_size` there is none.
        let end = if keep_size { range.end.min(di.size) } else { range.end };
        if end.saturating_sub(range.start) > (self.layout.fs_size + 1) << self.layout.fs_fshift {
            return Err(Error::NoSpace);
        }
        let old_size = di.size;
        let final_size = old_size.max(end);
        let mut at = range.start;
        while at < end {
            let stop = end.min(at.saturating_add(FILL_BYTES.min(self.step_bytes())));
            self.transact(|tx| {
                let result = self.fill_part(tx, inode, di, at..stop, final_size, by);
                if result.is_err() {
                    self.shrink(tx, inode.ino, di, old_size, Content::Data(&inode.stream))?;
                }
                self.store(tx, inode.ino, di)?;
                result
            })?;
            at = stop;
        }
        Ok(())
    }

    fn fill_part(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        di: &mut Dinode,
        part: Range<u64>,
        final_size: u64,
        by: Privilege,
    ) -> Result<()> {
        let mut lbn = self.layout.lblkno(part.start);
        let last = self.layout.lblkno(part.end - 1);
        while lbn <= last {
            let content = Content::Data(&inode.stream);
            let request =
                Request { ino: inode.ino, lbn, final_size, written: 0..0, content, by, given: None };
            self.place_zeroed(tx, di, &request)?;
            di.size = di.size.max(((lbn.0 + 1) << self.layout.fs_bshift).min(final_size));
            lbn = lbn + 1;
        }
        Ok(())
    }

    /// Frees the whole blocks of a range within the file, and zeroes its ragged ends. The file's last block stays.
    fn punch(&self, inode: &Inode, di: &mut Dinode, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let bsize = u64::from(self.layout.fs_bsize);
        let last = self.layout.lblkno(di.size - 1).0;
        let whole = range.start.div_ceil(bsize)..(range.end / bsize).min(last);
        if whole.is_empty() {
            return self.transact(|tx| self.zero_stored(tx, inode, di, range));
        }
        let content = Content::Data(&inode.stream);
        let most = self.step_bytes() >> self.layout.fs_bshift;
        let mut left_runs = self.most_runs();
        let mut first = whole.start;
        while first < whole.end {
            Self::spend_run(inode.ino, &mut left_runs)?;
            let run = self.bmap(inode.ino, di, Lbn(first), whole.end - first)?;
            let stop = whole.end.min(first + if run.at.is_some() { most } else { run.blocks });
            if run.at.is_some() {
                self.transact(|tx| {
                    let result = self.free_blocks(tx, inode.ino, di, di.size, first..stop, content);
                    self.store(tx, inode.ino, di)?;
                    result
                })?;
            }
            first = stop;
        }
        self.transact(|tx| {
            self.zero_stored(tx, inode, di, range.start..whole.start * bsize)?;
            self.zero_stored(tx, inode, di, whole.end * bsize..range.end)
        })
    }

    /// Zeroes the stored bytes of a range.
    fn zero_stored(&self, tx: &Tx<'_>, inode: &Inode, di: &Dinode, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let lbn = self.layout.lblkno(at);
            let stop = range.end.min((lbn.0 + 1) << self.layout.fs_bshift);
            if let Some(frag) = self.bmap(inode.ino, di, lbn, 1)?.at {
                let end = (lbn.0 << self.layout.fs_bshift) + u64::from(self.layout.blksize(di.size, lbn));
                let space =
                    Space { offset: at, at: self.layout.byte(frag) + self.layout.blkoff(at) as u64, end };
                self.cache.write(&inode.stream, tx, space, &vec![0; index(stop - at)])?;
            }
            at = stop;
        }
        Ok(())
    }

    /// Frees an inode that has just lost a name or a reference, if it has none of either. What it has lost is lost, whatever comes of
    /// it: if it cannot be freed now, that is tried again when space is wanted, and at the unmount, which complains.
    pub(crate) fn reclaim(&self, inode: &Arc<Inode>) {
        if self.inodes.is_referenced(inode.ino) {
            return;
        }
        if let Err(error) = self.note(self.free_nameless(inode)) {
            log::error!("inode {} could not be freed yet: {error}", inode.ino);
            self.pending.keep_unfreed(inode.ino);
        }
    }

    /// Frees an inode if it has no names: its blocks, its attributes, itself. Whoever had references has them no more.
    pub(crate) fn free_nameless(&self, inode: &Arc<Inode>) -> Result<()> {
        let mut state = inode.state.write();
        if state.di.nlink > 0 || state.di.mode == 0 || self.is_read_only() {
            return Ok(());
        }
        let directory = state.di.is_directory();
        let has_blocks =
            matches!(state.di.kind(), Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink));
        let has_blocks = has_blocks && state.di.inline_target.is_none();
        if has_blocks {
            self.shrink_in_steps(inode, &mut state.di, 0)?;
        }
        self.transact_naming(|tx| {
            if has_blocks {
                let content = inode.content(&state.di);
                self.shrink(tx, inode.ino, &mut state.di, 0, content)?;
            }
            self.free_extattr(tx, inode.ino, &mut state.di)?;
            state.di = Dinode::free(state.di.r#gen);
            self.store(tx, inode.ino, &state.di)?;
            self.free_inode(tx, inode.ino, directory)?;
            self.end_nameless(tx, inode.ino);
            self.inodes.drop_freed(inode);
            Ok(())
        })
    }
}

/// What [`Ffs::free_tree`] frees.
struct Tree<'a> {
    ino: u32,
    range: &'a Range<u64>,
    content: Content<'a>,
}
