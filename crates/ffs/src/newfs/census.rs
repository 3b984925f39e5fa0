//! The space that a tree of files will take, and the smallest file system that holds it.
//!
//! A [`Census`] gets every object in the order in which they will be created and does what
//! the allocator will do with them: whole blocks, indirect blocks, and the last pieces of small
//! files best fit into broken blocks. [`fit`] then looks for the size.

use super::frame::Frame;
use super::parameters::{MIN_DENSITY, Parameters, Result};
use super::plan::Plan;
use super::{Format, ParameterError};
use crate::format::dialect::Dialect;
use crate::format::ondisk::{NDADDR, dirsiz};
use std::ops::Range;

/// Bytes of a directory chunk, which no entry crosses.
const DIRBLKSIZ: u64 = 512;
/// Solaris keeps shorter links in the inode.
const SUN_SYMLINKLEN: u64 = 57;

/// The space that a tree needs in a file system of certain block and fragment sizes.
#[derive(Clone, Debug)]
pub struct Census {
    bsize: u64,
    fsize: u64,
    /// Block pointers in an indirect block.
    nindir: u64,
    /// Links shorter than this take no space.
    symlinklen: u64,
    inodes: u64,
    blocks: u64,
    /// Broken blocks with a free run of so many fragments.
    runs: [u64; 8],
    /// Blocks broken for the ends of files.
    broken: u64,
}

impl Census {
    /// Returns an empty census for the block and fragment size that `parameters` ask for. Where the
    /// default sizes of a dialect depend on the size of the file system, `size_bytes` is the guess
    /// they are taken from.
    ///
    /// # Errors
    /// [`ParameterError`] if the parameters are not possible by themselves.
    pub fn new(parameters: &Parameters) -> Result<Self> {
        let wishes = parameters.resolve()?;
        let frame = Frame::new(&wishes);
        let pointer = if wishes.format == Format::Ufs2 { 8 } else { 4 };
        let symlinklen = match (wishes.format, wishes.dialect) {
            (_, Dialect::Sun { .. }) => SUN_SYMLINKLEN,
            (Format::Old, _) => 0,
            _ => 15 * pointer,
        };
        let bsize = u64::from(frame.bsize);
        Ok(Self {
            bsize,
            fsize: frame.fsize.into(),
            nindir: bsize / pointer,
            symlinklen,
            inodes: 0,
            blocks: 0,
            runs: [0; 8],
            broken: 0,
        })
    }

    /// Counts a file of `size` bytes without holes.
    pub fn add_file(&mut self, size: u64) {
        self.inodes += 1;
        self.add_data(size, std::iter::once(0..size));
    }

    /// Counts a file of `size` bytes of which only the ranges in `extents` hold data. They must
    /// rise.
    pub fn add_sparse_file(&mut self, size: u64, extents: impl IntoIterator<Item = Range<u64>>) {
        self.inodes += 1;
        self.add_data(size, extents);
    }

    /// Counts a directory with names of these lengths in bytes, besides "." and "..".
    pub fn add_dir(&mut self, names: impl IntoIterator<Item = usize>) {
        self.inodes += 1;
        let (mut chunks, mut used) = (1, 2 * dirsiz(1) as u64);
        for name in names {
            let entry = dirsiz(name) as u64;
            if used + entry > DIRBLKSIZ {
                chunks += 1;
                used = 0;
            }
            used += entry;
        }
        let size = chunks * DIRBLKSIZ;
        self.add_data(size, std::iter::once(0..size));
    }

    /// Counts a symbolic link to a path of `len` bytes.
    pub fn add_symlink(&mut self, len: u64) {
        self.inodes += 1;
        if len >= self.symlinklen {
            self.add_data(len, std::iter::once(0..len));
        }
    }

    /// Counts a device, pipe or socket.
    pub const fn add_special(&mut self) {
        self.inodes += 1;
    }

    /// Counts extended attributes of `bytes` for the object counted last (UFS2).
    pub fn add_extattr(&mut self, bytes: u64) {
        self.blocks += bytes / self.bsize;
        self.add_tail(bytes % self.bsize);
    }

    /// Returns the inodes counted.
    #[must_use]
    pub const fn inodes(&self) -> u64 {
        self.inodes
    }

    /// Returns the bytes of the blocks counted.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.blocks * self.bsize
    }

    fn add_data(&mut self, size: u64, extents: impl IntoIterator<Item = Range<u64>>) {
        let tree = Tree { nindir: self.nindir };
        let mut seen = Seen::default();
        let mut next = 0;
        for extent in extents {
            let end = extent.end.min(size);
            if extent.start >= end {
                continue;
            }
            let first = (extent.start / self.bsize).max(next);
            let mut last = end.div_ceil(self.bsize);
            next = next.max(last);
            // Only among the direct blocks can the end of a file take less than a block.
            let tail = size % self.bsize;
            if last * self.bsize > size && last <= NDADDR as u64 && first < last && tail > 0 {
                self.add_tail(tail);
                last -= 1;
            }
            if first < last {
                self.blocks += last - first + tree.indirect(first..last, &mut seen);
            }
        }
    }

    /// Places the last piece of a file as the allocator does: into the broken block it fits best.
    fn add_tail(&mut self, bytes: u64) {
        let frag = crate::format::units::index(self.bsize / self.fsize);
        let frags = crate::format::units::index(bytes.div_ceil(self.fsize));
        if frags == 0 {
            return;
        }
        if frags >= frag {
            self.blocks += 1;
            return;
        }
        let run = (frags..frag).find(|&run| self.runs[run] > 0);
        if let Some(run) = run {
            self.runs[run] -= 1;
        } else {
            self.broken += 1;
            self.blocks += 1;
        }
        let rest = run.unwrap_or(frag) - frags;
        if rest > 0 {
            self.runs[rest] += 1;
        }
    }

    /// Returns true if a new file system of this plan holds everything and still has its reserve.
    fn held_by(&self, plan: &Plan, inodes: bool) -> bool {
        let totals = plan.totals();
        let free = |n: i64| u64::try_from(n).unwrap_or(0);
        let layout = &plan.layout;
        let frag = u64::from(layout.fs_frag);
        // Files start in different groups, so their ends share blocks less well than they were
        // counted to: some blocks for each group, and a part of the broken ones, are allowed for
        // that.
        let apart = (u64::from(layout.fs_ncg) * 3 + self.broken / 32).min(self.broken);
        let blocks = self.blocks + apart;
        let all = free(totals.cs_nbfree) * frag + free(totals.cs_nffree);
        let reserve = layout.fs_dsize * u64::from(plan.minfree()) / 100;
        blocks <= free(totals.cs_nbfree)
            && blocks * frag + reserve <= all
            && (!inodes || self.inodes <= free(totals.cs_nifree))
    }
}

/// The tree of indirect blocks above a file's blocks.
struct Tree {
    nindir: u64,
}

/// The indirect block counted last, by level.
#[derive(Default)]
struct Seen {
    /// Single, double and triple root.
    roots: [bool; 3],
    /// Below the double root; below the triple root, and below those.
    below: [Option<u64>; 3],
}

impl Seen {
    /// Counts the blocks in `range` that were not counted yet; ranges come in rising order.
    fn count(&mut self, level: usize, range: Range<u64>) -> u64 {
        let start = self.below[level].map_or(range.start, |last| range.start.max(last + 1));
        self.below[level] = Some(range.end - 1);
        range.end.saturating_sub(start)
    }

    fn root(&mut self, level: usize) -> u64 {
        u64::from(!std::mem::replace(&mut self.roots[level], true))
    }
}

impl Tree {
    /// Returns the number of indirect blocks that the blocks `lbns` of a file need besides those
    /// already in `seen`.
    fn indirect(&self, lbns: Range<u64>, seen: &mut Seen) -> u64 {
        let n = self.nindir;
        let mut count = 0;
        let mut start = NDADDR as u64;
        for level in 0..3 {
            let span = n.pow(u32::try_from(level).unwrap_or(0) + 1);
            let from = lbns.start.max(start);
            let to = lbns.end.min(start.saturating_add(span));
            if from < to {
                let (from, to) = (from - start, to - start);
                count += seen.root(level);
                if level == 1 {
                    count += seen.count(0, from / n..to.div_ceil(n));
                }
                if level == 2 {
                    count += seen.count(1, from / (n * n)..to.div_ceil(n * n));
                    count += seen.count(2, from / n..to.div_ceil(n));
                }
            }
            start = start.saturating_add(span);
        }
        count
    }
}

/// Returns the plan of the smallest file system that holds everything in `census` and leaves the
/// reserve (`minfree`) free. The size in `parameters` is not used. If no density is asked for, the
/// inodes are made to suffice.
///
/// # Errors
/// [`ParameterError`] if the parameters are not possible, whatever the size.
pub fn fit(parameters: &Parameters, census: &Census) -> Result<Plan> {
    let mut wishes = parameters.clone();
    let size = |n: u64| u32::try_from(n).ok();
    (wishes.bsize, wishes.fsize) = (size(census.bsize), size(census.fsize));
    let plan = smallest(&wishes, census, true)?;
    if parameters.density.is_some() {
        return Ok(plan);
    }
    let data_only = smallest(&wishes, census, false)?;
    if data_only.size_bytes() >= plan.size_bytes() {
        return Ok(plan);
    }
    // More inodes in less space: from what the data alone would give, downwards.
    let per_inode = data_only.size_bytes() / census.inodes.max(1);
    let denser = [100, 90, 75, 50].into_iter().filter_map(|percent| {
        let density = (per_inode * percent / 100).max(MIN_DENSITY.into());
        let wishes = Parameters { density: u32::try_from(density).ok(), ..wishes.clone() };
        smallest(&wishes, census, true).ok()
    });
    Ok(denser.chain([plan]).min_by_key(Plan::size_bytes).unwrap_or(data_only))
}

/// Returns the smallest size by bisection. More space can hold less where a group more begins, so
/// what is returned is the smallest among those looked at, in steps of a block.
fn smallest(wishes: &Parameters, census: &Census, inodes: bool) -> Result<Plan> {
    let attempt = |blocks: u64| {
        let parameters = Parameters { size_bytes: blocks.saturating_mul(census.bsize), ..wishes.clone() };
        Plan::new(&parameters).map(|plan| census.held_by(&plan, inodes).then_some(plan))
    };
    let mut low = census.blocks + 1;
    let mut high = low;
    let mut best = loop {
        match attempt(high) {
            Ok(Some(plan)) => break plan,
            Err(error) if error.parameter != "size" || high > u64::MAX / 4 / census.bsize => {
                return Err(error);
            }
            _ => {}
        }
        if high > u64::MAX / 4 / census.bsize {
            let allowed = "less data, or larger blocks";
            return Err(ParameterError::new("size", format_args!("{high} blocks"), allowed));
        }
        low = high + 1;
        high += (high / 4).max(8);
    };
    while low < high {
        let middle = low + (high - low) / 2;
        if let Ok(Some(plan)) = attempt(middle) {
            (best, high) = (plan, middle);
        } else {
            low = middle + 1;
        }
    }
    Ok(best)
}
