//! Changing a file's size and giving its space back.
//!
//! Blocks are freed from the last to the first, as far as the transaction has room in the log; what
//! is left is a shorter file, and another transaction goes on with it. Freed pointers are cleared
//! in the transaction that frees the blocks. Pointers that lead to one place twice are met as
//! damage when it is freed again.

use crate::format::dinode::Dinode;
use crate::format::ondisk::{NDADDR, NIADDR};
use crate::format::units::{Frag, Lbn, index};
use crate::tree::file::{Content, Request};
use crate::tree::inode::{Inode, State, content};
use crate::tree::mount::Ffs;
use crate::volume::Volume;
use crate::volume::tx::{Deferred, Progress, Tx};
use spindle_cache::Space;
use spindle_tree::Operations;
use spindle_vfs::{Error, FallocateMode, Privilege, Result};
use std::ops::Range;

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
        if size > self.layout().fs_maxfilesize {
            return Err(Error::TooBig);
        }
        let lbn = self.layout().lblkno(size - 1);
        let content = Content::Data(&inode.stream);
        let request =
            Request { ino: inode.ino, lbn, final_size: size, written: 0..0, content, by, given: None };
        self.place_zeroed(tx, di, &request)?;
        di.size = size;
        Ok(())
    }

    /// [`Self::place`] for a block that nobody is going to write: it reads as zeros where it held
    /// nothing.
    fn place_zeroed(&self, tx: &Tx<'_>, di: &mut Dinode, request: &Request<'_>) -> Result<()> {
        let placed = self.place(tx, di, request)?;
        if let (true, Content::Data(stream)) = (placed.fresh, request.content) {
            let bytes = self.layout().blksize(request.final_size, request.lbn);
            let byte = self.layout().byte(placed.at);
            self.volume.cache.write_zeros(stream, tx, request.lbn.0, byte, 0..bytes as usize)?;
        }
        Ok(())
    }

    /// Cuts a file back to `size`, or towards it while there is room in the log. The caller stores
    /// the inode, and does nothing after it that can fail.
    pub(crate) fn shrink(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        size: u64,
        content: Content<'_>,
    ) -> Result<Progress<()>> {
        let old_size = di.size;
        let keep = size.div_ceil(self.layout().fs_bsize.into());
        let freed_from = self.free_blocks(tx, ino, di, old_size, keep..u64::MAX, content)?;
        if freed_from > keep {
            di.size = freed_from << self.layout().fs_bshift;
            return Ok(Progress::Partial(()));
        }
        di.size = size;
        if size == 0 || self.layout().blkoff(size) == 0 {
            return Ok(Progress::Done(()));
        }
        let last = Lbn(keep - 1);
        if old_size > size {
            let by = Privilege::Root;
            let whole =
                Request { ino, lbn: last, final_size: old_size, written: 0..0, content, by, given: None };
            di.size = old_size;
            let moved = self.unshared(tx, di, &whole, last);
            di.size = size;
            moved?;
        }
        let run = self.volume.bmap(ino, di, last, 1)?;
        let Some(at) = run.at else {
            // The last byte must have a block; a hole reads as zeros, and so does this.
            return Ok(Progress::Done(()));
        };
        let (had, has) = (self.layout().blksize(old_size, last), self.layout().blksize(size, last));
        let extra = self.layout().numfrags(had).saturating_sub(self.layout().numfrags(has));
        let byte = self.layout().byte(at);
        if extra > 0 {
            let cut = at + u64::from(self.layout().numfrags(has));
            match content {
                Content::Directory => {
                    self.volume.free_metadata(tx, cut, extra.into())?;
                    tx.defer(Deferred::Tail(byte, has as usize));
                }
                Content::Data(stream) => {
                    self.volume.free(tx, cut, extra.into())?;
                    self.volume.cache.settle(stream, last.0..last.0 + 1)?;
                }
            }
            self.account(tx, ino, di, -i64::from(extra), Privilege::Root)?;
        }
        let from = self.layout().blkoff(size);
        if let Content::Data(stream) = content
            && old_size > size
        {
            // The caller is going to store the inode: that must not fail when the bytes are gone.
            self.volume.preserve_inode(tx, ino)?;
            let _inode = self.volume.inode_buffer(ino)?;
            let space =
                Space { offset: size, at: byte + from as u64, end: size - from as u64 + u64::from(has) };
            self.volume.cache.write(stream, tx, space, &vec![0; has as usize - from])?;
        }
        Ok(Progress::Done(()))
    }

    /// [`Self::shrink`], after giving the block that becomes the last one space if it is a hole:
    /// the caller needs the right to that space, as in the BSDs (`ffs_truncate`).
    pub(crate) fn shrink_exactly(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        size: u64,
        content: Content<'_>,
        by: Privilege,
    ) -> Result<Progress<()>> {
        if size > 0 && matches!(content, Content::Data(_)) {
            let (lbn, final_size) = (self.layout().lblkno(size - 1), di.size);
            if self.volume.bmap(ino, di, lbn, 1)?.at.is_none() {
                let request = Request { ino, lbn, final_size, written: 0..0, content, by, given: None };
                self.place_zeroed(tx, di, &request)?;
            }
        }
        self.shrink(tx, ino, di, size, content)
    }

    /// Frees the whole blocks `range` of a file that is `old_size` long, and the indirect blocks
    /// that become empty, from the last on while there is room in the log. Returns the first block
    /// from which on all are free.
    fn free_blocks(
        &self,
        tx: &Tx<'_>,
        ino: u32,
        di: &mut Dinode,
        old_size: u64,
        range: Range<u64>,
        content: Content<'_>,
    ) -> Result<u64> {
        let mut freeing =
            Freeing { ino, range: range.clone(), content, run: None, frags: 0, claims: 0, stopped: None };
        let n = u64::from(self.layout().fs_nindir);
        let spans: [u64; NIADDR] = [n, n * n, n * n * n];
        for level in (0..NIADDR).rev() {
            let first = NDADDR as u64 + spans[..level].iter().sum::<u64>();
            let wanted = first < range.end && range.start < first + spans[level];
            if di.ib[level] != 0
                && wanted
                && freeing.stopped.is_none()
                && self.free_tree(tx, &mut freeing, di.ib[level], level, first)?
            {
                di.ib[level] = 0;
            }
        }
        for n in (0..NDADDR).rev() {
            let lbn = n as u64;
            if !range.contains(&lbn) || di.db[n] == 0 || freeing.stopped.is_some() {
                continue;
            }
            let frags = self.layout().numfrags(self.layout().blksize(old_size, Lbn(lbn)));
            if let Some(at) = self.volume.pointer(di.db[n], frags, ino)?.filter(|_| frags > 0) {
                if !freeing.claims(&self.volume, tx, at, frags.into())? {
                    freeing.stopped = Some(lbn);
                    break;
                }
                di.db[n] = 0;
                self.release(tx, at, frags.into(), content)?;
                freeing.frags += u64::from(frags);
            }
        }
        self.release_run(tx, &mut freeing)?;
        self.account(tx, ino, di, -freeing.frags.cast_signed(), Privilege::Root)?;
        let from = freeing.stopped.map_or(range.start, |lbn| lbn + 1);
        if let Content::Data(stream) = content {
            tx.defer(Deferred::Data(stream.clone(), from..range.end));
        }
        Ok(from)
    }

    /// Frees the wanted blocks below one indirect block with `level` levels of others below it, and
    /// the block itself if it becomes empty: then it returns true.
    fn free_tree(
        &self,
        tx: &Tx<'_>,
        freeing: &mut Freeing<'_>,
        raw: u64,
        level: usize,
        first: u64,
    ) -> Result<bool> {
        let frag = self.layout().fs_frag;
        let Some(block) = self.volume.pointer(raw, frag, freeing.ino)? else { return Ok(true) };
        let n = u64::from(self.layout().fs_nindir);
        let span = n.pow(u32::try_from(level).unwrap_or(0));
        if !freeing.claims(&self.volume, tx, block, frag.into())? {
            freeing.stopped = Some(first + n * span - 1);
            return Ok(false);
        }
        let buffer = self.volume.indirect(block)?;
        let pointers: Vec<u64> = {
            let bytes = buffer.read();
            (0..index(n)).map(|i| self.volume.get_pointer(&bytes, i)).collect()
        };
        let mut left = pointers.iter().filter(|&&p| p != 0).count();
        let from = index(freeing.range.start.saturating_sub(first) / span);
        let to = index(freeing.range.end.saturating_sub(first).div_ceil(span).min(n));
        for (i, &raw) in pointers.iter().enumerate().take(to).skip(from).rev() {
            if raw == 0 {
                continue;
            }
            let here = first + i as u64 * span;
            if level > 0 {
                if !self.free_tree(tx, freeing, raw, level - 1, here)? {
                    if freeing.stopped.is_some() {
                        return Ok(false);
                    }
                    continue;
                }
            } else if let Some(at) = self.volume.pointer(raw, frag, freeing.ino)? {
                if !freeing.claims(&self.volume, tx, at, frag.into())? {
                    freeing.stopped = Some(here);
                    return Ok(false);
                }
                self.free_block(tx, freeing, at)?;
            }
            self.volume.put_pointer(&mut self.volume.change(tx, &buffer)?, i, 0);
            left -= 1;
        }
        if left > 0 {
            return Ok(false);
        }
        drop(buffer);
        self.volume.free_metadata(tx, block, frag.into())?;
        freeing.frags += u64::from(frag);
        Ok(true)
    }

    /// Frees a block of a file, together with its neighbours.
    fn free_block(&self, tx: &Tx<'_>, freeing: &mut Freeing<'_>, at: Frag) -> Result<()> {
        let frag = u64::from(self.layout().fs_frag);
        freeing.frags += frag;
        match &mut freeing.run {
            Some((start, count)) if at + frag == *start => {
                (*start, *count) = (at, *count + frag);
            }
            _ => {
                self.release_run(tx, freeing)?;
                freeing.run = Some((at, frag));
            }
        }
        Ok(())
    }

    fn release_run(&self, tx: &Tx<'_>, freeing: &mut Freeing<'_>) -> Result<()> {
        let run = freeing.run.take();
        run.map_or(Ok(()), |(at, count)| self.release(tx, at, count, freeing.content))
    }

    /// Frees the space of file blocks, and forgets the buffers of a directory's.
    fn release(&self, tx: &Tx<'_>, at: Frag, count: u64, content: Content<'_>) -> Result<()> {
        match content {
            Content::Data(_) => self.volume.free(tx, at, count),
            Content::Directory => {
                let frag = u64::from(self.layout().fs_frag);
                (0..count)
                    .step_by(self.layout().fs_frag as usize)
                    .try_for_each(|block| self.volume.free_metadata(tx, at + block, frag.min(count - block)))
            }
        }
    }

    /// Allocates, zeroes or frees a range of a regular file, in as many transactions as that takes.
    /// Each of them dates the file, so that the last leaves nothing to be done that could fail.
    pub(crate) fn fallocate_file(
        &self,
        inode: &Inode,
        state: &mut State,
        mode: FallocateMode,
        range: Range<u64>,
        by: Privilege,
    ) -> Result<()> {
        let _no_snapshot = self.volume.snapshots.keep_off();
        match mode {
            FallocateMode::PunchHole => self.punch(inode, state, range.start..range.end.min(state.di.size)),
            FallocateMode::ZeroRange { keep_size } => {
                // What is missing first: if there is no space, nothing has been zeroed. The rest
                // together with the last of that, so that a new size is never seen with old bytes,
                // unless it is too much.
                let stored = self.stored_runs(inode, &state.di, range.start..range.end.min(state.di.size))?;
                let bytes: u64 = stored.iter().map(|run| run.end - run.start).sum();
                let (now, later) =
                    if bytes <= FILL_BYTES { (stored, Vec::new()) } else { (Vec::new(), stored) };
                self.fill(inode, state, range, keep_size, by, &now)?;
                later.into_iter().try_for_each(|run| self.zero_in_place(inode, state, run))
            }
            FallocateMode::Allocate { keep_size } => self.fill(inode, state, range, keep_size, by, &[]),
        }
    }

    /// Gives every missing block of a range space that reads as zeros, and in the end zeroes what
    /// is stored in `zeroed`.
    fn fill(
        &self,
        inode: &Inode,
        state: &mut State,
        range: Range<u64>,
        keep_size: bool,
        by: Privilege,
        zeroed: &[Range<u64>],
    ) -> Result<()> {
        if range.end > self.layout().fs_maxfilesize {
            return Err(Error::TooBig);
        }
        // Space beyond the size would be taken for damage by every BSD checker.
        if keep_size && range.end > state.di.size {
            return Err(Error::NotSupported);
        }
        let end = range.end;
        if end - range.start > (self.layout().fs_size + 1) << self.layout().fs_fshift {
            return Err(Error::NoSpace);
        }
        self.check_space_for(inode, &state.di, range.clone(), by)?;
        self.unshare(inode, state, zeroed)?;
        let old_size = state.di.size;
        let final_size = old_size.max(end);
        let mut at = range.start;
        while at < end {
            let stop = end.min(at.saturating_add(FILL_BYTES));
            let filled = self.volume.transact_in_parts(&mut *state, |tx, state| {
                let reached = self.fill_part(tx, inode, &mut state.di, at..stop, final_size, by)?;
                self.store_modified(tx, inode, state)?;
                if reached < stop {
                    return Ok(Progress::Partial(reached));
                }
                if stop == end {
                    self.zero_stored(tx, inode, &state.di, zeroed)?;
                }
                Ok(Progress::Done(reached))
            });
            match filled {
                Ok(reached) => at = reached.split().0,
                Err(error) => {
                    // Somebody else has taken the space that was there.
                    if state.di.size > old_size {
                        self.cut_back(inode, state, old_size)?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Refuses at once what there is no space or no quota for.
    fn check_space_for(&self, inode: &Inode, di: &Dinode, range: Range<u64>, by: Privilege) -> Result<()> {
        let mut missing = 0;
        let (mut lbn, end) = (self.layout().lblkno(range.start), self.layout().lblkno(range.end - 1) + 1);
        let mut left_runs = self.most_runs();
        while lbn < end {
            Self::spend_run(inode.ino, &mut left_runs)?;
            let run = self.volume.bmap(inode.ino, di, lbn, end.0 - lbn.0)?;
            if run.at.is_none() {
                missing += run.blocks;
            }
            lbn = lbn + run.blocks;
        }
        // The last block may need less than a whole one.
        let frags = missing.saturating_sub(1).saturating_mul(self.layout().fs_frag.into());
        let free = u64::try_from(self.volume.free_frags_for(by)).unwrap_or(0) + self.volume.pending.frags();
        if frags > free {
            return Err(Error::NoSpace);
        }
        self.volume.check_quota(inode.ino, di, frags, by)
    }

    /// Fills missing blocks until the end of `part` or until there is no more room in the log;
    /// returns the offset that was reached.
    fn fill_part(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        di: &mut Dinode,
        part: Range<u64>,
        final_size: u64,
        by: Privilege,
    ) -> Result<u64> {
        let mut lbn = self.layout().lblkno(part.start);
        let last = self.layout().lblkno(part.end - 1);
        while lbn <= last && tx.has_room(&self.volume, self.volume.block_sectors()) {
            let content = Content::Data(&inode.stream);
            let request =
                Request { ino: inode.ino, lbn, final_size, written: 0..0, content, by, given: None };
            self.place_zeroed(tx, di, &request)?;
            di.size = di.size.max(((lbn.0 + 1) << self.layout().fs_bshift).min(final_size));
            lbn = lbn + 1;
        }
        Ok(part.end.min(lbn.0 << self.layout().fs_bshift))
    }

    /// Cuts a file back to `size` in as many transactions as that takes.
    fn cut_back(&self, inode: &Inode, state: &mut State, size: u64) -> Result<()> {
        loop {
            let content = content(inode, &state.di);
            let cut = self.volume.transact_in_parts(&mut *state, |tx, state| {
                let cut = self.shrink(tx, inode.ino, &mut state.di, size, content)?;
                self.store_modified(tx, inode, state)?;
                Ok(cut)
            })?;
            if let Progress::Done(()) = cut {
                return Ok(());
            }
        }
    }

    /// Frees the whole blocks of a range within the file, and zeroes its ragged ends. The file's
    /// last block stays.
    fn punch(&self, inode: &Inode, state: &mut State, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return self.volume.transact(&mut *state, |tx, state| self.store_modified(tx, inode, state));
        }
        let bsize = u64::from(self.layout().fs_bsize);
        let last = self.layout().lblkno(state.di.size - 1).0;
        let whole = range.start.div_ceil(bsize)..(range.end / bsize).min(last);
        if whole.is_empty() {
            return self.zero_in_place(inode, state, range);
        }
        let ends = [range.start..whole.start * bsize, whole.end * bsize..range.end];
        self.unshare(inode, state, &ends)?;
        let content = Content::Data(&inode.stream);
        let mut end = whole.end;
        while end > whole.start {
            let freed = self.volume.transact_in_parts(&mut *state, |tx, state| {
                let (di, blocks) = (&mut state.di, whole.start..end);
                let freed_from = self.free_blocks(tx, inode.ino, di, di.size, blocks, content)?;
                self.store_modified(tx, inode, state)?;
                if freed_from > whole.start {
                    return Ok(Progress::Partial(freed_from));
                }
                self.zero_stored(tx, inode, &state.di, &ends)?;
                Ok(Progress::Done(freed_from))
            })?;
            end = freed.split().0;
        }
        Ok(())
    }

    /// Returns the parts of a range that have space, in the order of their offsets.
    fn stored_runs(&self, inode: &Inode, di: &Dinode, range: Range<u64>) -> Result<Vec<Range<u64>>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut at = range.start;
        let mut left_runs = self.most_runs();
        while at < range.end {
            Self::spend_run(inode.ino, &mut left_runs)?;
            let lbn = self.layout().lblkno(at);
            let blocks =
                (range.end - (lbn.0 << self.layout().fs_bshift)).div_ceil(self.layout().fs_bsize.into());
            let run = self.volume.bmap(inode.ino, di, lbn, blocks)?;
            let stop = range.end.min((lbn.0 + run.blocks) << self.layout().fs_bshift);
            match runs.last_mut() {
                _ if run.at.is_none() => {}
                Some(last) if last.end == at => last.end = stop,
                _ => runs.push(at..stop),
            }
            at = stop;
        }
        Ok(runs)
    }

    /// Gives the blocks of some ranges other places if snapshots need what they have, in as many
    /// transactions as that takes, so that they can be written over. The caller keeps snapshots
    /// from being taken.
    fn unshare(&self, inode: &Inode, state: &mut State, ranges: &[Range<u64>]) -> Result<()> {
        if self.volume.snapshots.count() == 0 {
            return Ok(());
        }
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let mut lbn = self.layout().lblkno(range.start);
            let last = self.layout().lblkno(range.end - 1);
            while lbn <= last {
                let reached = self.volume.transact_in_parts(&mut *state, |tx, state| {
                    let mut lbn = lbn;
                    while lbn <= last && tx.has_room(&self.volume, self.volume.block_sectors()) {
                        let content = Content::Data(&inode.stream);
                        let (by, final_size) = (Privilege::Root, state.di.size);
                        let request = Request {
                            ino: inode.ino,
                            lbn,
                            final_size,
                            written: 0..0,
                            content,
                            by,
                            given: None,
                        };
                        self.unshared(tx, &mut state.di, &request, lbn)?;
                        lbn = lbn + 1;
                    }
                    if tx.has_moved() {
                        state.derived.mapped_in = self.volume.cache.epoch();
                        self.volume.store(tx, inode.ino, &state.di)?;
                    }
                    Ok(if lbn <= last { Progress::Partial(lbn) } else { Progress::Done(lbn) })
                })?;
                lbn = reached.split().0;
            }
        }
        Ok(())
    }

    /// Zeroes the stored bytes of a range, a part in each transaction.
    fn zero_in_place(&self, inode: &Inode, state: &mut State, range: Range<u64>) -> Result<()> {
        self.unshare(inode, state, std::slice::from_ref(&range))?;
        let mut at = range.start;
        while at < range.end {
            let stop = range.end.min(at.saturating_add(FILL_BYTES));
            self.volume.transact(&mut *state, |tx, state| {
                self.store_modified(tx, inode, state)?;
                self.zero_stored(tx, inode, &state.di, std::slice::from_ref(&(at..stop)))
            })?;
            at = stop;
        }
        Ok(())
    }

    /// Stores the inode of a file whose blocks or bytes a transaction changes, with the time.
    fn store_modified(&self, tx: &Tx<'_>, inode: &Inode, state: &mut State) -> Result<()> {
        state.derived.mapped_in = self.volume.cache.epoch();
        self.note_modified(&mut state.di);
        self.volume.store(tx, inode.ino, &state.di)
    }

    /// Zeroes the stored bytes of some ranges. A block that is zeroed in part is kept whole for a
    /// rollback, which must not have to read; such blocks of all ranges come first, because only
    /// they can fail.
    fn zero_stored(&self, tx: &Tx<'_>, inode: &Inode, di: &Dinode, ranges: &[Range<u64>]) -> Result<()> {
        let mut whole = Vec::new();
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let lbn = self.layout().lblkno(at);
                let start = lbn.0 << self.layout().fs_bshift;
                let stop = range.end.min((lbn.0 + 1) << self.layout().fs_bshift);
                if let Some(frag) = self.volume.bmap(inode.ino, di, lbn, 1)?.at {
                    let end = start + u64::from(self.layout().blksize(di.size, lbn));
                    let byte = self.layout().byte(frag) + self.layout().blkoff(at) as u64;
                    let space = Space { offset: at, at: byte, end };
                    if at > start || stop < end.min(di.size) {
                        let all = Space { offset: start, at: self.layout().byte(frag), end };
                        let former = self.read_space(&inode.stream, all)?;
                        tx.restore_data_on_rollback(&inode.stream, all, former);
                        self.volume.cache.write(&inode.stream, tx, space, &vec![0; index(stop - at)])?;
                    } else {
                        whole.push((space, index(stop - at)));
                    }
                }
                at = stop;
            }
        }
        whole.into_iter().try_for_each(|(space, len)| {
            Ok(self.volume.cache.write(&inode.stream, tx, space, &vec![0; len])?)
        })
    }
}

/// Blocks of a file being freed, from the last on.
struct Freeing<'a> {
    ino: u32,
    /// The blocks that are wanted.
    range: Range<u64>,
    content: Content<'a>,
    /// Neighbours on the device that are freed and not given up yet.
    run: Option<(Frag, u64)>,
    /// Fragments freed so far.
    frags: u64,
    /// Blocks for which room in the log was claimed.
    claims: usize,
    /// The last block that is left because there was no more room in the log.
    stopped: Option<u64>,
}

impl Freeing<'_> {
    /// Claims room in the log for freeing a block; false if there is none. For the first blocks
    /// there always is: one of data, and the indirect ones that lead to it.
    fn claims(&mut self, volume: &Volume, tx: &Tx<'_>, at: Frag, count: u64) -> Result<bool> {
        self.claims += 1;
        volume.claim_to_free(tx, at, count)?;
        Ok(self.claims <= 1 + NIADDR || tx.has_room(volume, volume.pointer_sectors()))
    }
}
