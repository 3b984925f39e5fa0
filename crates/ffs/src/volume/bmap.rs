//! From a block of a file to its place: the pointers of the inode and of the indirect blocks.
//!
//! `bmap` answers with an address *and a length*, so that the caller moves whole runs (clustering
//! paper).

use super::Volume;
use crate::format::dinode::Dinode;
use crate::format::ondisk::{NDADDR, NIADDR};
use crate::format::units::{Frag, Lbn, index};
use spindle_cache::{Buffer, BufferMut};
use spindle_ondisk::Field;
use spindle_vfs::{Error, Result};
use std::ops::ControlFlow;

/// A run of blocks of a file: contiguous on the device, or all missing. A file has at most two runs
/// for each of its blocks, indirect ones included, and a few for the pointers of its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Where the first block is; `None` for a hole.
    pub(crate) at: Option<Frag>,
    /// Blocks.
    pub(crate) blocks: u64,
}

/// Is called with a block that a file has and its fragments, or with why it cannot be known.
pub(crate) type Held<'a> = &'a mut dyn FnMut(Result<(Frag, u32)>) -> ControlFlow<()>;

/// Where the pointer to a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointerAt {
    /// In the inode.
    Direct(usize),
    /// Behind `levels` indirect blocks (1 to 3), the first of them `di_ib[levels - 1]`; the indices
    /// of the pointers in them, outermost first, are the last `levels` of `path`.
    Indirect { levels: usize, path: [usize; NIADDR] },
}

impl Volume {
    /// Returns where the pointer to block `lbn` stands.
    pub(crate) fn pointer_at(&self, lbn: Lbn) -> Result<PointerAt> {
        if let Ok(direct) = usize::try_from(lbn.0)
            && direct < NDADDR
        {
            return Ok(PointerAt::Direct(direct));
        }
        let n = u64::from(self.layout.fs_nindir);
        let mut rest = lbn.0 - NDADDR as u64;
        let mut span = n;
        for levels in 1..=NIADDR {
            if rest < span {
                let path = [index(rest / (n * n) % n), index(rest / n % n), index(rest % n)];
                return Ok(PointerAt::Indirect { levels, path });
            }
            rest -= span;
            span *= n;
        }
        Err(Error::TooBig)
    }

    /// Returns the buffer of an indirect block.
    pub(crate) fn indirect(&self, at: Frag) -> Result<Buffer<'_>> {
        Ok(self.cache.get(self.layout.byte(at), self.layout.fs_bsize as usize, None)?)
    }

    /// Pointer number `n` of an indirect block.
    pub(crate) fn get_pointer(&self, block: &[u8], n: usize) -> u64 {
        let at = &block[n * self.layout.pointer_size()..];
        if self.layout.pointer_size() == 4 {
            u32::get(at, self.layout.endian).into()
        } else {
            u64::get(at, self.layout.endian)
        }
    }

    /// Sets pointer number `n` of an indirect block.
    pub(crate) fn put_pointer(&self, block: &mut BufferMut<'_>, n: usize, value: u64) {
        let size = self.layout.pointer_size();
        self.encode_pointer(block.bytes_mut(n * size..(n + 1) * size), value);
    }

    /// Puts a pointer into its bytes.
    pub(super) fn encode_pointer(&self, at: &mut [u8], value: u64) {
        match u32::try_from(value) {
            Ok(value) if self.layout.pointer_size() == 4 => value.put(at, self.layout.endian),
            _ => value.put(at, self.layout.endian),
        }
    }

    /// Returns the run of at most `most` blocks that starts at `lbn`. A run ends at the latest
    /// where its indirect block does. What a snapshot has not copied is where it is on the device.
    pub(crate) fn bmap(&self, ino: u32, di: &Dinode, lbn: Lbn, most: u64) -> Result<Run> {
        let is_snapshot = self.is_snapshot(ino, di);
        let now = is_snapshot.then(|| self.with_pointers(ino, di));
        let di = now.as_ref().unwrap_or(di);
        match self.pointer_at(lbn)? {
            PointerAt::Direct(first) => {
                let most = most.min((NDADDR - first) as u64);
                if is_snapshot {
                    return self.run_of_snapshot(ino, lbn, most, |i| di.db[first + index(i)]);
                }
                self.run_of(
                    ino,
                    most,
                    |i| di.db[first + index(i)],
                    |i| self.layout.numfrags(self.layout.blksize(di.size, lbn + i)).max(1),
                )
            }
            PointerAt::Indirect { levels, path } => {
                let n = u64::from(self.layout.fs_nindir);
                let depth = |levels: usize| n.pow(u32::try_from(levels).unwrap_or(0));
                // How far into the blocks behind one pointer, with so many levels below it, the
                // path leads.
                let within =
                    |levels: usize| path[NIADDR - levels..].iter().fold(0, |sum, &i| sum * n + i as u64);
                let hole = |blocks: u64| {
                    let most = blocks.min(most);
                    if is_snapshot {
                        Ok(self.not_copied(lbn, most))
                    } else {
                        Ok(Run { at: None, blocks: most })
                    }
                };
                let Some(mut block) = self.pointer(di.ib[levels - 1], self.layout.fs_frag, ino)? else {
                    return hole(depth(levels) - within(levels));
                };
                for level in (0..levels).rev() {
                    let step = path[NIADDR - 1 - level];
                    let buffer = self.indirect(block)?;
                    let bytes = buffer.read();
                    if level > 0 {
                        let raw = self.get_pointer(&bytes, step);
                        let Some(next) = self.pointer(raw, self.layout.fs_frag, ino)? else {
                            let missing =
                                (step..index(n)).take_while(|&i| self.get_pointer(&bytes, i) == 0).count();
                            return hole(missing as u64 * depth(level) - within(level));
                        };
                        block = next;
                        continue;
                    }
                    let most = most.min(n - step as u64);
                    let pointer = |i| self.get_pointer(&bytes, step + index(i));
                    if is_snapshot {
                        return self.run_of_snapshot(ino, lbn, most, pointer);
                    }
                    return self.run_of(ino, most, pointer, |_| self.layout.fs_frag);
                }
                Err(Error::corrupt("an indirect block without a level", format!("inode {ino}")))
            }
        }
    }

    /// Returns how many fragments a file has, with its indirect blocks and its extended attributes;
    /// at least `enough`, if it has more.
    ///
    /// # Errors
    /// Device errors, and [`Error::Corrupt`] if a pointer is invalid.
    pub(crate) fn frags_held(&self, ino: u32, di: &Dinode, enough: u64) -> Result<u64> {
        let (mut held, mut failed) = (0, Ok(()));
        self.each_held(ino, di, &mut |found| match found {
            Ok(_) if held >= enough => ControlFlow::Break(()),
            Ok((_, frags)) => {
                held += u64::from(frags);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Err(error);
                ControlFlow::Break(())
            }
        });
        failed.map(|()| held)
    }

    /// Passes each block that a file has to `visit`, with its fragments: those of extended
    /// attributes, of data and of indirect blocks; or why one cannot be known. Ends when `visit`
    /// breaks, and where there are more blocks than the file system has: then pointers lead in
    /// circles.
    pub(crate) fn each_held(&self, ino: u32, di: &Dinode, visit: Held<'_>) {
        let mut left = self.layout.fs_size;
        let mut visit = |found: Result<(Frag, u32)>| {
            if let Ok((_, frags)) = &found {
                let Some(rest) = left.checked_sub(u64::from(*frags)) else { return ControlFlow::Break(()) };
                left = rest;
            }
            visit(found)
        };
        // Only the flow matters.
        let _ = self.walk_held(ino, di, &mut visit);
    }

    fn walk_held(&self, ino: u32, di: &Dinode, visit: Held<'_>) -> ControlFlow<()> {
        let mut extattr = di.extsize;
        for &raw in &di.extb {
            let here = self.layout.numfrags(extattr.min(self.layout.fs_bsize));
            extattr = extattr.saturating_sub(self.layout.fs_bsize);
            if here > 0 {
                self.visit_tree(ino, (raw, here), 0, visit)?;
            }
        }
        for (lbn, &raw) in di.db.iter().enumerate() {
            let here = self.layout.numfrags(self.layout.blksize(di.size, Lbn(lbn as u64))).max(1);
            self.visit_tree(ino, (raw, here), 0, visit)?;
        }
        for (n, &raw) in di.ib.iter().enumerate() {
            self.visit_tree(ino, (raw, self.layout.fs_frag), n + 1, visit)?;
        }
        ControlFlow::Continue(())
    }

    /// Visits the block of a pointer, of so many fragments, and those of the `levels` levels below.
    fn visit_tree(
        &self,
        ino: u32,
        (raw, frags): (u64, u32),
        levels: usize,
        visit: Held<'_>,
    ) -> ControlFlow<()> {
        let block = match self.pointer(raw, frags, ino) {
            Ok(None) => return ControlFlow::Continue(()),
            Ok(Some(block)) => block,
            Err(error) => return visit(Err(error)),
        };
        visit(Ok((block, frags)))?;
        if levels > 0 {
            let buffer = match self.indirect(block) {
                Ok(buffer) => buffer,
                Err(error) => return visit(Err(error)),
            };
            let bytes = buffer.read();
            for n in 0..self.layout.fs_nindir as usize {
                let below = (self.get_pointer(&bytes, n), self.layout.fs_frag);
                self.visit_tree(ino, below, levels - 1, visit)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the bytes up to the end of the last block that a file has; none if it has no such
    /// block, or its pointers lead in circles.
    ///
    /// # Errors
    /// Device errors, and [`Error::Corrupt`] if a pointer is invalid.
    pub(crate) fn end_of_blocks(&self, ino: u32, di: &Dinode) -> Result<Option<u64>> {
        let n = u64::from(self.layout.fs_nindir);
        let firsts = [NDADDR as u64, NDADDR as u64 + n, NDADDR as u64 + n + n * n];
        let mut left = self.layout.fs_size;
        for levels in (1..=NIADDR).rev() {
            let (raw, first) = (di.ib[levels - 1], firsts[levels - 1]);
            if let Some(last) = self.last_below(ino, raw, levels, first, &mut left)? {
                return Ok(Some((last + 1) << self.layout.fs_bshift));
            }
        }
        Ok(di.db.iter().rposition(|&raw| raw != 0).map(|last| (last as u64 + 1) << self.layout.fs_bshift))
    }

    /// Returns the last block of a file below a pointer with `levels` levels of indirect blocks,
    /// whose first one is `first`. Looks at `left` indirect blocks at most.
    fn last_below(
        &self,
        ino: u32,
        raw: u64,
        levels: usize,
        first: u64,
        left: &mut u64,
    ) -> Result<Option<u64>> {
        let Some(block) = self.pointer(raw, self.layout.fs_frag, ino)? else { return Ok(None) };
        if levels == 0 {
            return Ok(Some(first));
        }
        let Some(rest) = left.checked_sub(1) else { return Ok(None) };
        *left = rest;
        let buffer = self.indirect(block)?;
        let bytes = buffer.read();
        let span = u64::from(self.layout.fs_nindir).pow(u32::try_from(levels).unwrap_or(0) - 1);
        for n in (0..self.layout.fs_nindir as usize).rev() {
            let first = first + n as u64 * span;
            let below = self.get_pointer(&bytes, n);
            if let Some(last) = self.last_below(ino, below, levels - 1, first, left)? {
                return Ok(Some(last));
            }
        }
        Ok(None)
    }

    /// Returns how many blocks of a file from `lbn` on depend on the pointer or the indirect block
    /// because of which [`bmap`](Self::bmap) fails at `lbn`; 1 if it does not.
    pub(crate) fn blocks_unmapped(&self, ino: u32, di: &Dinode, lbn: Lbn) -> u64 {
        let Ok(PointerAt::Indirect { levels, path }) = self.pointer_at(lbn) else { return 1 };
        let n = u64::from(self.layout.fs_nindir);
        let mut raw = di.ib[levels - 1];
        for level in (0..levels).rev() {
            let behind = || {
                let span = n.pow(u32::try_from(level).unwrap_or(0) + 1);
                span - path[NIADDR - 1 - level..].iter().fold(0, |sum, &i| sum * n + i as u64)
            };
            let block = match self.pointer(raw, self.layout.fs_frag, ino) {
                Ok(Some(block)) => block,
                Ok(None) => return 1,
                Err(_) => return behind(),
            };
            let Ok(buffer) = self.indirect(block) else { return behind() };
            raw = self.get_pointer(&buffer.read(), path[NIADDR - 1 - level]);
        }
        1
    }

    /// Returns the run at the start of an array of at least `most` pointers; `frags` gives the
    /// fragments of each block.
    fn run_of(
        &self,
        ino: u32,
        most: u64,
        pointer: impl Fn(u64) -> u64,
        frags: impl Fn(u64) -> u32,
    ) -> Result<Run> {
        let at = self.pointer(pointer(0), frags(0), ino)?;
        let step = u64::from(self.layout.fs_frag);
        let mut blocks = 1;
        while blocks < most {
            let expected = at.map_or(0, |at| at.0 + blocks * step);
            if pointer(blocks) != expected {
                break;
            }
            self.pointer(expected, frags(blocks), ino)?;
            blocks += 1;
        }
        Ok(Run { at, blocks })
    }
}
