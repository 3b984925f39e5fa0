//! The blocks of one file: which, in which order, and how far from each other.

use super::{Inspector, Sink};
use crate::check::BlockPlace;
use crate::check::inodes::bad_address;
use crate::check::node::Node;
use crate::check::reader::Reader;
use crate::check::walk::{Next, Piece, Step, Walker};
use crate::format::layout::Layout;
use crate::format::units::Frag;
use serde::Serialize;
use spindle_vfs::Result;
use std::collections::HashSet;

/// Contiguous fragments of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// What its first block is in the file.
    pub first: BlockPlace,
    /// Address of its first fragment.
    pub frag: u64,
    /// Fragments.
    pub frags: u64,
    /// Blocks, the last one perhaps in part.
    pub blocks: u64,
    /// Cylinder group of its first fragment.
    pub group: u32,
    /// Fragments from the end of the run before to its beginning; negative if it lies before that.
    pub distance: Option<i64>,
}

/// Where a file lies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileMap {
    /// Number of its inode.
    pub ino: u32,
    /// Bytes.
    pub size: u64,
    /// Its runs in the order of the file; each indirect block stands before what it leads to.
    pub runs: Vec<Run>,
    /// How its data is laid out.
    pub data: Contiguity,
    /// Indirect blocks.
    pub indirect_blocks: u64,
    /// What of it cannot be followed.
    pub damage: Damage,
}

/// How contiguous the data of a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contiguity {
    /// Blocks of data, a last one in fragments included.
    pub blocks: u64,
    /// Fragments of data.
    pub frags: u64,
    /// Runs on the disk.
    pub runs: u64,
}

impl Contiguity {
    /// Returns the layout score of Smith and Seltzer: the share of the blocks, without the first,
    /// that follow the one before. None if there is only one.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        (self.blocks > 1).then(|| ratio(self.blocks - self.runs, self.blocks - 1))
    }
}

/// Returns a quotient of counts.
#[allow(clippy::cast_precision_loss)] // For people.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// Pointers of a file that lead nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Pointers to where no block of a file can be.
    pub bad_pointers: u64,
    /// Indirect blocks that are followed already, or that cannot be read.
    pub lost_indirect_blocks: u64,
    /// It claims more than the file system has; the rest was left out.
    pub too_much: bool,
}

impl Damage {
    /// Returns true if nothing is wrong.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Counts the runs of a sequence of blocks.
#[derive(Default)]
pub(super) struct Counter {
    pub(super) counted: Contiguity,
    end: u64,
}

impl Counter {
    pub(super) fn add(&mut self, piece: Piece) {
        self.counted.blocks += 1;
        self.counted.frags += u64::from(piece.frags);
        if self.counted.blocks == 1 || piece.frag != self.end {
            self.counted.runs += 1;
        }
        self.end = piece.frag + u64::from(piece.frags);
    }
}

/// Calls `visit` with each piece of an inode whose address can be right. Indirect blocks in
/// `entered` are not followed again.
pub(super) fn walk_pieces(
    layout: &Layout,
    reader: &mut Reader<'_>,
    walker: &mut Walker,
    node: &Node,
    entered: &mut HashSet<u64>,
    visit: &mut dyn FnMut(Piece),
) -> Damage {
    let mut damage = Damage::default();
    let mut left = layout.fs_size;
    walker.walk(layout, reader, node, &mut |step| {
        let piece = match step {
            Step::Block(piece) => piece,
            Step::Stray { .. } => return Next::Continue,
            Step::Unreadable { .. } => {
                damage.lost_indirect_blocks += 1;
                return Next::Continue;
            }
        };
        if bad_address(layout, piece.frag, piece.frags).is_some() {
            damage.bad_pointers += 1;
            return Next::Skip;
        }
        let Some(rest) = left.checked_sub(piece.frags.into()) else {
            damage.too_much = true;
            return Next::Stop;
        };
        left = rest;
        visit(piece);
        if matches!(piece.place, BlockPlace::Indirect { .. }) && !entered.insert(piece.frag) {
            damage.lost_indirect_blocks += 1;
            return Next::Skip;
        }
        Next::Continue
    });
    damage
}

impl Inspector<'_> {
    /// Returns where the file of an inode lies.
    ///
    /// # Errors
    /// As [`Self::inode_bytes`].
    pub fn file_map(&mut self, ino: u32) -> Result<FileMap> {
        let node = self.node(ino)?;
        let mut map = FileMap { ino, size: node.size, ..FileMap::default() };
        let mut counter = Counter::default();
        let mut entered = HashSet::new();
        let layout = self.layout;
        let (runs, indirect) = (&mut map.runs, &mut map.indirect_blocks);
        let mut visit = |piece: Piece| {
            match piece.place {
                BlockPlace::Data { .. } => counter.add(piece),
                BlockPlace::Indirect { .. } => *indirect += 1,
                BlockPlace::Extattr { .. } => {}
            }
            add(layout, runs, piece);
        };
        let walker = &mut Walker::default();
        map.damage = walk_pieces(layout, &mut self.reader, walker, &node, &mut entered, &mut visit);
        map.data = counter.counted;
        Ok(map)
    }

    /// Calls `visit` with the bytes of a file that stand on the device, in order, each with where
    /// it stands in the file; in between are holes. What cannot be read is left out and counted.
    ///
    /// # Errors
    /// As [`Self::inode_bytes`]; those of `visit`.
    pub fn read_file<E: From<spindle_vfs::Error>>(
        &mut self,
        ino: u32,
        visit: Sink<'_, E>,
    ) -> std::result::Result<u64, E> {
        let map = self.file_map(ino)?;
        let layout = self.layout;
        let lost = map.damage;
        let mut unread = lost.bad_pointers + lost.lost_indirect_blocks + u64::from(lost.too_much);
        for run in &map.runs {
            let BlockPlace::Data { lbn } = run.first else { continue };
            let (mut at, mut frag, mut left) = (lbn << layout.fs_bshift, run.frag, run.frags);
            while left > 0 && at < map.size {
                let frags = left.min(layout.fs_frag.into());
                let len = (frags << layout.fs_fshift).min(map.size - at);
                let len = usize::try_from(len).unwrap_or(0);
                match self.reader.read(layout.byte(Frag(frag)), len, 0) {
                    Ok(bytes) => visit(at, bytes)?,
                    Err(_) => unread += 1,
                }
                at += frags << layout.fs_fshift;
                frag += frags;
                left -= frags;
            }
        }
        Ok(unread)
    }
}

/// Adds a piece to the last run, if it goes on there, or as a new run.
fn add(layout: &Layout, runs: &mut Vec<Run>, piece: Piece) {
    let Piece { place, frag, frags } = piece;
    let frags = u64::from(frags);
    let end = runs.last().map(|run| run.frag + run.frags);
    if let Some(run) = runs.last_mut()
        && Some(frag) == end
        && follows(run, place, layout)
    {
        run.frags += frags;
        run.blocks += 1;
        return;
    }
    let distance = end.map(|end| frag.cast_signed().wrapping_sub(end.cast_signed()));
    runs.push(Run { first: place, frag, frags, blocks: 1, group: layout.dtog(Frag(frag)), distance });
}

/// Returns true if a block of the file at `place` is the next one of a run.
fn follows(run: &Run, place: BlockPlace, layout: &Layout) -> bool {
    let whole = run.frags == run.blocks * u64::from(layout.fs_frag);
    match (run.first, place) {
        (BlockPlace::Data { lbn: first }, BlockPlace::Data { lbn })
        | (BlockPlace::Extattr { lbn: first }, BlockPlace::Extattr { lbn }) => {
            whole && lbn == first + run.blocks
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the layout score is the share of the blocks, without the first, that follow the one
    /// before; a file of one block has none.
    #[test]
    fn layout_scores() {
        let score = |frags: &[u64]| {
            let mut counter = Counter::default();
            for (lbn, &frag) in (0..).zip(frags) {
                counter.add(Piece { place: BlockPlace::Data { lbn }, frag, frags: 8 });
            }
            (counter.counted.runs, counter.counted.score())
        };
        assert_eq!(score(&[]), (0, None));
        assert_eq!(score(&[80]), (1, None));
        assert_eq!(score(&[80, 88, 96]), (1, Some(1.0)));
        assert_eq!(score(&[80, 72, 64]), (3, Some(0.0)));
        assert_eq!(score(&[80, 88, 800, 808, 816]), (2, Some(0.75)));
    }
}
