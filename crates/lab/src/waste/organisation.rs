//! The ways to organise a disk that are compared, and the arithmetic of each.

use super::{OLD_ENTRY, Object, Usage, data_bytes};
use spindle_ffs::newfs::{Format, Parameters, Plan};
use std::fmt;
use std::ops::Range;
use std::slice::from_ref;

/// Bytes of a directory chunk of the new file system.
const DIRBLKSIZ: u64 = 512;
/// Bytes of a disk for which superblocks and maps are worked out.
const DISK: u64 = 1 << 30;

/// A way to organise a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Organisation {
    /// Data alone, end to end.
    Packed,
    /// Data alone, each file starting at a multiple.
    Aligned {
        /// Bytes.
        to: u64,
    },
    /// The old file system: 10 direct blocks, inodes of 64 bytes, and a free list that lives in
    /// free blocks.
    Old {
        /// Block size in bytes.
        block: u64,
    },
    /// The new file system.
    Fast {
        /// Block size in bytes.
        bsize: u32,
        /// Fragment size in bytes.
        fsize: u32,
        /// UFS2, with inodes of 256 bytes and pointers of 8; otherwise 128 and 4.
        ufs2: bool,
        /// Short symbolic links stand in the inode (from 4.4BSD on).
        short_links: bool,
    },
}

/// Table 1's rows in its order, those its text compares, and the defaults of today.
pub const ORGANISATIONS: &[Organisation] = &[
    Organisation::Packed,
    Organisation::Aligned { to: 512 },
    Organisation::Old { block: 512 },
    Organisation::Old { block: 1024 },
    Organisation::Old { block: 2048 },
    Organisation::Old { block: 4096 },
    Organisation::Fast { bsize: 4096, fsize: 512, ufs2: false, short_links: false },
    Organisation::Fast { bsize: 4096, fsize: 1024, ufs2: false, short_links: false },
    Organisation::Fast { bsize: 8192, fsize: 1024, ufs2: false, short_links: false },
    Organisation::Fast { bsize: 16384, fsize: 2048, ufs2: false, short_links: true },
    Organisation::Fast { bsize: 16384, fsize: 2048, ufs2: true, short_links: true },
    Organisation::Fast { bsize: 32768, fsize: 4096, ufs2: true, short_links: true },
];

impl fmt::Display for Organisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packed => f.write_str("data only, no separation"),
            Self::Aligned { to } => write!(f, "data only, each file on {to} bytes"),
            Self::Old { block } => write!(f, "old file system, {block}"),
            Self::Fast { bsize, fsize, ufs2, short_links } => {
                let name = match (ufs2, short_links) {
                    (true, _) => "UFS2",
                    (false, true) => "UFS1",
                    (false, false) => "new file system",
                };
                write!(f, "{name}, {bsize}/{fsize}")
            }
        }
    }
}

impl Organisation {
    /// Returns the parameters of newfs for such a file system on a disk of `size_bytes`; `None` for
    /// organisations other than [`Self::Fast`].
    #[must_use]
    pub fn parameters(&self, size_bytes: u64) -> Option<Parameters> {
        let &Self::Fast { bsize, fsize, ufs2, short_links } = self else { return None };
        Some(Parameters {
            format: match (ufs2, short_links) {
                (true, _) => Format::Ufs2,
                (false, true) => Format::Ufs1,
                (false, false) => Format::Old,
            },
            bsize: Some(bsize),
            fsize: Some(fsize),
            // Blocks of file data only.
            snap_dir: false,
            ..Parameters::new(size_bytes)
        })
    }

    /// Adds the space that an object takes.
    pub(super) fn add(&self, object: Object<'_>, usage: &mut Usage) {
        let Some(shape) = Shape::of(self) else {
            let to = if let Self::Aligned { to } = self { *to } else { 1 };
            usage.data += data_bytes(object).next_multiple_of(to);
            return;
        };
        usage.inodes += shape.inode;
        let size = match object {
            Object::Directory(names) if shape.chunks => chunks(names) * DIRBLKSIZ,
            Object::Directory(names) => OLD_ENTRY * (2 + names.len() as u64),
            Object::Symlink(size) if size < shape.short_link => return,
            Object::File(size) | Object::Sparse(size, _) | Object::Symlink(size) => size,
            Object::Special => return,
        };
        let whole = 0..size;
        let extents = if let Object::Sparse(_, extents) = object { extents } else { from_ref(&whole) };
        shape.add_data(size, extents, usage);
    }

    /// Returns the usage with superblocks and maps, which stand to the rest as in a new file system
    /// on a disk of 1 GiB.
    pub(super) fn with_maps(&self, mut usage: Usage) -> Usage {
        let layout =
            self.parameters(DISK).and_then(|parameters| Plan::new(&parameters).ok()).map(|plan| plan.layout);
        if let Some(layout) = layout {
            let group = u128::from(layout.fs_fpg);
            let head = u128::from(layout.cgimin(0) - layout.cgsblock(0));
            let rest = u128::from(usage.total());
            usage.maps = u64::try_from(rest * head / (group - head)).unwrap_or(u64::MAX);
        }
        usage
    }
}

/// The sizes that determine the use of space.
struct Shape {
    bsize: u64,
    fsize: u64,
    direct: u64,
    /// Pointers in an indirect block.
    nindir: u64,
    inode: u64,
    /// Links shorter than this take no space.
    short_link: u64,
    /// Directories come in chunks, and the last block exists even if it is a hole.
    chunks: bool,
}

impl Shape {
    fn of(organisation: &Organisation) -> Option<Self> {
        match *organisation {
            Organisation::Packed | Organisation::Aligned { .. } => None,
            Organisation::Old { block } => Some(Self {
                bsize: block,
                fsize: block,
                direct: 10,
                nindir: block / 4,
                inode: 64,
                short_link: 0,
                chunks: false,
            }),
            Organisation::Fast { bsize, fsize, ufs2, short_links } => {
                let pointer = if ufs2 { 8 } else { 4 };
                Some(Self {
                    bsize: bsize.into(),
                    fsize: fsize.into(),
                    direct: 12,
                    nindir: u64::from(bsize) / pointer,
                    inode: 32 * pointer,
                    short_link: if short_links { 15 * pointer } else { 0 },
                    chunks: true,
                })
            }
        }
    }

    fn add_data(&self, size: u64, extents: &[Range<u64>], usage: &mut Usage) {
        if size == 0 {
            return;
        }
        let mut pointers = Pointers::default();
        let mut next = 0;
        let last = size.div_ceil(self.bsize) - 1;
        let end_block = last * self.bsize..size;
        let end = if self.chunks { from_ref(&end_block) } else { &[] };
        for extent in extents.iter().chain(end) {
            let first = (extent.start / self.bsize).max(next);
            let behind = extent.end.min(size).div_ceil(self.bsize);
            if extent.start >= extent.end.min(size) || first >= behind {
                continue;
            }
            next = behind;
            usage.data += (behind - first) * self.bsize;
            if behind > last && last < self.direct {
                // The end of a small file takes only its fragments.
                usage.data -= self.bsize - (size - last * self.bsize).next_multiple_of(self.fsize);
            }
            usage.indirect += self.bsize * pointers.count(self, first..behind);
        }
    }
}

/// Indirect blocks counted so far.
#[derive(Default)]
struct Pointers {
    /// Roots of the single, double and triple tree.
    roots: [bool; 3],
    /// The last block counted at each level below a root.
    below: [Option<u64>; 3],
}

impl Pointers {
    /// Returns the indirect blocks that lead to the blocks `lbns` and were not counted. Calls come
    /// with rising ranges.
    fn count(&mut self, shape: &Shape, lbns: Range<u64>) -> u64 {
        let n = shape.nindir;
        let mut counted = 0;
        let mut start = shape.direct;
        for (tree, span) in [n, n * n, n * n * n].into_iter().enumerate() {
            let part =
                lbns.start.max(start).saturating_sub(start)..lbns.end.min(start + span).saturating_sub(start);
            start += span;
            if part.start >= part.end {
                continue;
            }
            counted += u64::from(!std::mem::replace(&mut self.roots[tree], true));
            // Below the double root there is one level, below the triple root there are two.
            let levels: &[(usize, u64)] = match tree {
                0 => &[],
                1 => &[(0, n)],
                _ => &[(1, n), (2, n * n)],
            };
            for &(level, reach) in levels {
                let (first, last) = (part.start / reach, (part.end - 1) / reach);
                let first = self.below[level].map_or(first, |seen| first.max(seen + 1));
                counted += (last + 1).saturating_sub(first);
                self.below[level] = Some(last);
            }
        }
        counted
    }
}

/// Returns the number of chunks of a directory with names of these lengths, in order of creation.
fn chunks(names: &[usize]) -> u64 {
    let entry = |len: usize| (8 + len as u64 + 1).next_multiple_of(4);
    let (mut chunks, mut used) = (1, 2 * entry(1));
    for &len in names {
        if used + entry(len) > DIRBLKSIZ {
            chunks += 1;
            used = 0;
        }
        used += entry(len);
    }
    chunks
}
