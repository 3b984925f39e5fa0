//! The blocks of files: pointers that lead nowhere, and blocks that two files have.
//!
//! One walk through all files in the order of the check, in which the first one that points at a
//! fragment has it. A bad pointer becomes a hole. A block that somebody has already is copied, and
//! where there is no space for that becomes a hole. An indirect block most of whose pointers are
//! bad is none.

use super::Round;
use super::space::Space;
use crate::check::BlockPlace;
use crate::check::Finding;
use crate::check::inodes::bad_address;
use crate::check::node::{Node, kind};
use crate::check::reader::Reader;
use crate::check::state::{BlockMap, State};
use crate::check::walk::{Next, Step, Walker, pointer_at};
use crate::format::layout::Layout;
use crate::format::ondisk::NDADDR;
use crate::format::units::{Frag, Lbn};
use spindle_ondisk::Field;
use spindle_vfs::{Error, Result};

/// Bytes of files that are copied at most: they are kept in memory until the repair is known to be
/// whole.
const COPIED_MAX: u64 = 256 << 20;
/// Bytes of inodes read at once.
const RUN_BYTES: usize = 64 << 10;

/// Data of a file that is moved when the plan is carried out: nothing that is planned reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    /// First fragment, of so many.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) frags: u32,
}

/// A walk through all files.
struct Walk<'w, 'a> {
    round: &'w Round<'a>,
    claimed: BlockMap,
    space: Space<'w>,
    /// Bytes that may still be copied.
    left: u64,
    /// Data that is moved when the plan is carried out, if it is not copied at once.
    later: Option<Vec<Copy>>,
    changed: bool,
    /// A pointer of the file at hand has become a hole.
    lost: bool,
}

impl Round<'_> {
    /// Repairs pointers, if any are wrong, or lead to what no file is to use.
    pub(super) fn blocks(&mut self) -> Result<bool> {
        let wrong = |finding: &Finding| {
            matches!(
                finding,
                Finding::PartlyTruncated { .. }
                    | Finding::BadBlock { .. }
                    | Finding::ExcessiveBadBlocks { .. }
                    | Finding::DuplicateBlock { .. }
                    | Finding::ExcessiveDuplicateBlocks { .. }
            )
        };
        let is_vacant = self.vacant.clone().all(|frag| !self.checker.state.used.get(frag));
        if is_vacant && !self.checker.findings.list().iter().any(wrong) {
            return Ok(false);
        }
        let files: Vec<u32> = self.files();
        let layout = self.checker.layout;
        let (mut claims, mut claimed) = (self.all_claims(&files)?, State::new(layout).used);
        for frag in self.vacant.clone() {
            claims.set(frag);
            claimed.set(frag);
        }
        if let Some(taken) = self.taken {
            claims.join(taken);
        }
        let space = Space::new(layout, claims);
        let later = self.taken.map(|_| Vec::new());
        let (left, changed, lost) = (COPIED_MAX, false, false);
        let mut walk = Walk { round: self, claimed, space, left, later, changed, lost };
        let mut reader = Reader::new(self.image.device);
        for ino in files {
            let (block, offset) = layout.ino_to_fsba(ino);
            let bytes = reader.read(layout.byte(block) + offset as u64, layout.inode_size(), RUN_BYTES)?;
            let node = Node::decode(layout, bytes);
            walk.file(ino, &node)?;
        }
        if walk.left == 0 && !self.vacant.is_empty() {
            return Err(Error::NoSpace);
        }
        let Walk { later, changed, .. } = walk;
        self.memory.later.extend(later.unwrap_or_default());
        Ok(changed)
    }

    /// Returns the inodes in use that have not to be cleared.
    fn files(&self) -> Vec<u32> {
        let groups = (0_u32..).zip(&self.checker.state.inodes);
        groups
            .flat_map(|(cgx, states)| {
                let first = cgx * self.checker.layout.fs_ipg;
                (first..).zip(states).filter(|(_, state)| state.kind != 0 && !state.clear)
            })
            .map(|(ino, _)| ino)
            .collect()
    }

    /// Returns every fragment that any file points at, and those of the file system itself.
    fn all_claims(&self, files: &[u32]) -> Result<BlockMap> {
        let layout = self.layout();
        let mut claims = State::new(layout).used;
        let mut entered = BlockMap::new(layout.fs_size);
        let mut walker = Walker::default();
        let mut blocks = Reader::new(self.image.device);
        for &ino in files {
            walker.walk(layout, &mut blocks, &self.node(ino)?, &mut |step| {
                let Step::Block(piece) = step else { return Next::Continue };
                if bad_address(layout, piece.frag, piece.frags).is_some() {
                    return Next::Skip;
                }
                claims.set_bits(piece.frag, piece.frags);
                if matches!(piece.place, BlockPlace::Indirect { .. }) {
                    if entered.get(piece.frag) {
                        return Next::Skip;
                    }
                    entered.set(piece.frag);
                }
                Next::Continue
            });
        }
        Ok(claims)
    }
}

impl Walk<'_, '_> {
    /// Goes through the pointers of a file. A symbolic link without all of its target is cleared.
    fn file(&mut self, ino: u32, node: &Node) -> Result<()> {
        let (layout, image) = (self.round.layout(), self.round.image);
        self.lost = false;
        let mut pointers = Vec::new();
        if node.has_blocks(layout) {
            let blocks = node.size.div_ceil(layout.fs_bsize.into());
            for ((n, lbn), &old) in (0..).zip(0..blocks).zip(&node.db) {
                let frags = layout.numfrags(layout.blksize(node.size, Lbn(lbn)));
                pointers.push((n, old, self.data(node, old, frags, true)?));
            }
            let (mut lbn, mut span) = (NDADDR as u64, 1_u64);
            for (n, level, &old) in (NDADDR..).zip(1..).zip(&node.ib).map(|((n, level), old)| (n, level, old))
            {
                if lbn >= blocks {
                    break;
                }
                pointers.push((n, old, self.indirect(node, level, old, blocks - lbn)?));
                span = span.saturating_mul(layout.fs_nindir.into());
                lbn = lbn.saturating_add(span);
            }
        }
        let mut attributes = Vec::new();
        if node.extsize > 0 {
            let size = u64::from(node.extsize);
            for ((n, lbn), &old) in (0..).zip(0..size.div_ceil(layout.fs_bsize.into())).zip(&node.extb) {
                let frags = layout.numfrags(layout.blksize(size, Lbn(lbn)));
                attributes.push((n, old, self.data(node, old, frags, false)?));
            }
        }
        let spoilt = attributes.iter().any(|&(_, old, new)| old != 0 && new == 0);
        pointers.retain(|(_, old, new)| old != new);
        attributes.retain(|(_, old, new)| old != new);
        if pointers.is_empty() && attributes.is_empty() {
            return Ok(());
        }
        self.changed = true;
        if self.lost && node.kind() == kind::LNK {
            return image.clear_inode(ino).map(drop);
        }
        image.change_inode(ino, |fields| {
            for (n, _, new) in pointers {
                fields.set_pointer(n, new);
            }
            for (n, _, new) in attributes {
                fields.set_attribute_pointer(n, new);
            }
            if spoilt {
                fields.set_attributes(0);
            }
        })?;
        Ok(())
    }

    /// Returns what a pointer to `frags` fragments should be, of data or of extended attributes.
    fn data(&mut self, node: &Node, old: u64, frags: u32, is_data: bool) -> Result<u64> {
        if node.is_hole(old) {
            return Ok(old);
        }
        let (layout, image) = (self.round.layout(), self.round.image);
        if bad_address(layout, old, frags).is_some() {
            self.lost = true;
            return Ok(0);
        }
        if self.claim(old, frags) {
            return Ok(old);
        }
        let is_later = self.later.is_some() && is_data && node.kind() == kind::REG;
        let Some(new) = self.room(frags, is_later) else { return Ok(0) };
        if let Some(later) = self.later.as_mut().filter(|_| is_later) {
            later.push(Copy { from: old, to: new, frags });
            return Ok(new);
        }
        let bytes = image.read(layout.byte(Frag(old)), (frags << layout.fs_fshift) as usize)?;
        image.put(layout.byte(Frag(new)), &bytes)?;
        Ok(new)
    }

    /// Returns what a pointer to an indirect block should be, from which the last `blocks` blocks
    /// of the file hang, and puts the pointers in it right.
    fn indirect(&mut self, node: &Node, level: u32, old: u64, blocks: u64) -> Result<u64> {
        if node.is_hole(old) {
            return Ok(old);
        }
        let (layout, image) = (self.round.layout(), self.round.image);
        let width = layout.pointer_size();
        let held =
            bad_address(layout, old, layout.fs_frag).is_none() && self.claimed.bits(old, layout.fs_frag) != 0;
        if bad_address(layout, old, layout.fs_frag).is_some() || (held && self.left == 0) {
            self.lost = true;
            return Ok(0);
        }
        let at = layout.byte(Frag(old));
        let before = image.read(at, layout.fs_bsize as usize)?;
        let span = u64::from(layout.fs_nindir).saturating_pow(level - 1);
        let reached = blocks.div_ceil(span).min(layout.fs_nindir.into());
        let (mut some, mut bad) = (0, 0);
        for bytes in before.chunks_exact(width).take(usize::try_from(reached).unwrap_or(usize::MAX)) {
            let pointer = pointer_at(layout, bytes);
            some += u32::from(pointer != 0);
            bad +=
                u32::from(!node.is_hole(pointer) && bad_address(layout, pointer, layout.fs_frag).is_some());
        }
        if bad > some / 2 {
            self.lost = true;
            return Ok(0);
        }
        let new = if self.claim(old, layout.fs_frag) {
            old
        } else {
            let Some(new) = self.room(layout.fs_frag, false) else { return Ok(0) };
            new
        };
        let mut after = before.clone();
        for (n, bytes) in (0_u64..).zip(after.chunks_exact_mut(width)) {
            let pointer = pointer_at(layout, bytes);
            let wanted = match level {
                _ if n >= reached => 0,
                1 => self.data(node, pointer, layout.fs_frag, true)?,
                _ => self.indirect(node, level - 1, pointer, blocks - n * span)?,
            };
            if wanted != pointer {
                put_pointer(layout, bytes, wanted);
            }
        }
        if new != old || after != before {
            self.changed = true;
            image.put(layout.byte(Frag(new)), &after)?;
        }
        Ok(new)
    }

    /// Claims fragments; returns false if somebody has some of them.
    fn claim(&mut self, frag: u64, frags: u32) -> bool {
        let free = self.claimed.bits(frag, frags) == 0;
        if free {
            self.claimed.set_bits(frag, frags);
        }
        free
    }

    /// Returns free fragments for a copy, which is kept in memory unless it is made later. Without
    /// any, the file at hand loses what should be copied.
    fn room(&mut self, frags: u32, is_later: bool) -> Option<u64> {
        let bytes = if is_later { 0 } else { u64::from(frags) << self.round.layout().fs_fshift };
        let room = if self.left >= bytes { self.space.take(frags) } else { None };
        if room.is_none() {
            // Nobody else looks for some any more.
            self.left = 0;
        }
        match room {
            Some(frag) => {
                self.left -= bytes;
                self.claimed.set_bits(frag, frags);
            }
            None => self.lost = true,
        }
        room
    }
}

/// Sets the pointer at the start of `bytes`.
pub(super) fn put_pointer(layout: &Layout, bytes: &mut [u8], frag: u64) {
    if layout.pointer_size() == 8 {
        frag.put(bytes, layout.endian);
    } else {
        u32::try_from(frag).unwrap_or(0).put(bytes, layout.endian);
    }
}
