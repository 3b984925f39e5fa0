//! Free runs: where a file goes on when the block behind its last one is taken.
//!
//! BSD takes the next free block, so that on a disk in use a large file fills one small hole after
//! the other. With [`Allocation::Runs`] a file goes on where a run of free blocks begins that is as
//! long as the file is already: what has grown to n blocks is expected to grow by n more, up to a
//! cluster. Of the runs that are long enough the shortest is taken, so that small files fill the
//! small holes and leave the long runs to large ones.
//!
//! Nothing is reserved or moved, and the format is as ever: only the address that the allocator is
//! asked for is another. Should somebody else take it first, the allocator does what it always
//! does.

use super::Volume;
use crate::format::group::find_bit;
use crate::format::units::{Frag, Lbn};
use crate::volume::policy::group_order;
use spindle_vfs::Result;
use std::ops::Range;

/// Groups that are looked at for a run: what is not found in so many is not worth reading the maps
/// of more.
const GROUPS: usize = 16;

/// Where a file goes on when the block behind its last one is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// At the nearest free block: as BSD, rotational positions included.
    #[default]
    Nearest,
    /// Where a free run begins that has room for as much again as the file has, up to a cluster. Of
    /// no use, and without effect, where blocks are laid out with a rotational delay.
    Runs,
}

/// Free blocks that follow each other. Greater is longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FreeRun {
    blocks: u32,
    /// The first of them, counted from the start of the group.
    block: u32,
}

impl Volume {
    /// Returns where block `lbn` of a file should go if the policy of BSD wants it at `wanted`.
    ///
    /// # Errors
    /// When a group cannot be read.
    pub(crate) fn redirect(&self, wanted: Frag, lbn: Lbn) -> Result<Frag> {
        let layout = &self.layout;
        let off = self.allocation == Allocation::Nearest || self.placement().delay_frags > 0;
        if off || wanted.0 >= layout.fs_size {
            return Ok(wanted);
        }
        let cluster = self.placement.maxcontig.clamp(1, (layout.fs_fpg / layout.fs_frag).max(1));
        let run = u32::try_from(lbn.0).unwrap_or(u32::MAX).clamp(1, cluster);
        let preferred = layout.dtog(wanted);
        let near = layout.dtogd(wanted) / layout.fs_frag;
        let mut best: Option<(u32, Frag)> = None;
        for cgx in group_order(preferred, layout.fs_ncg).take(GROUPS) {
            let longest = best.map_or(0, |(blocks, _)| blocks);
            if self.summaries.group(cgx).cs_nbfree <= longest.cast_signed() {
                continue;
            }
            let from = if cgx == preferred { near } else { 0 };
            let end = layout.cg_frags(cgx) / layout.fs_frag;
            let found = self.view_group(cgx, |group| {
                if cgx == preferred && group.is_block(near * layout.fs_frag) {
                    return Some(FreeRun { blocks: run, block: near });
                }
                let find = |blocks| free_run(group.blksfree(), layout.fs_frag, blocks, run);
                match find(from..end) {
                    Some(behind) if behind.blocks >= run => Some(behind),
                    behind => find(0..from).max(behind),
                }
            })?;
            if let Some(found) = found.filter(|found| found.blocks > longest) {
                best = Some((found.blocks, layout.cgbase(cgx) + u64::from(found.block * layout.fs_frag)));
                if found.blocks >= run {
                    break;
                }
            }
        }
        Ok(best.map_or(wanted, |(_, at)| at))
    }
}

/// Returns the shortest run of at least `run` whole free blocks among `blocks`, or else the
/// longest, in a map of free fragments. Of several the first.
fn free_run(map: &[u8], frag: u32, blocks: Range<u32>, run: u32) -> Option<FreeRun> {
    let mut best: Option<FreeRun> = None;
    let mut at = blocks.start;
    while let Some(bit) = find_bit(map, at * frag..blocks.end * frag, true) {
        let block = bit / frag;
        let end = find_bit(map, block * frag..blocks.end * frag, false).map_or(blocks.end, |bit| bit / frag);
        if end == block {
            // Of this block only a part is free.
            at = block + 1;
            continue;
        }
        let found = FreeRun { blocks: end - block, block };
        if found.blocks == run {
            return Some(found);
        }
        let better = best.is_none_or(|best| {
            if best.blocks >= run {
                (run..best.blocks).contains(&found.blocks)
            } else {
                found.blocks > best.blocks
            }
        });
        if better {
            best = Some(found);
        }
        at = end;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{self, check};
    use crate::newfs::{self, Parameters, Plan};
    use crate::{Ffs, OpenOptions};
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use spindle_clock::ManualClock;
    use spindle_device::MemoryDevice;
    use spindle_tree::Operations;
    use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege};
    use std::sync::Arc;

    /// Promise: of the runs that are long enough the shortest is found, or else the longest;
    /// fragments of a block that is partly taken are no run.
    #[test]
    fn runs_are_found() {
        // Blocks of 4 fragments: 0 taken, 1 and 2 free, 3 half free, 4 to 6 free, 7 taken.
        let map = [0b1111_0000, 0b1100_1111, 0b1111_1111, 0b0000_1111];
        let find = |blocks, run| free_run(&map, 4, blocks, run).map(|run| (run.block, run.blocks));
        assert_eq!(find(0..8, 1), Some((1, 2)));
        assert_eq!(find(0..8, 3), Some((4, 3)));
        assert_eq!(find(0..8, 9), Some((4, 3)));
        assert_eq!(find(0..6, 9), Some((1, 2)));
        assert_eq!(find(2..8, 2), Some((4, 3)));
        assert_eq!(find(2..8, 1), Some((2, 1)));
        assert_eq!(find(7..8, 1), None);
        assert_eq!(find(3..4, 1), None);
    }

    fn file(fs: &Ffs, name: &str) -> Ino {
        let node = NewNode::new(FileKind::Regular, 0o644);
        let ino = fs.create(fs.root(), name.as_bytes(), &node, Privilege::Root).unwrap().ino;
        fs.forget(ino, 1);
        ino
    }

    /// Runs of a file of 12 blocks on a disk that was full up to the reserve with files of a block,
    /// of which every other is gone.
    fn pieces(allocation: Allocation) -> usize {
        let device = Arc::new(MemoryDevice::new(48 << 20));
        let parameters = Parameters {
            bsize: Some(8192),
            fsize: Some(1024),
            density: Some(4096),
            ..Parameters::new(48 << 20)
        };
        let clock = Arc::new(ManualClock::at(0));
        let plan = Plan::new(&parameters).unwrap();
        newfs::write(&plan, &*device, &*clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        let options = OpenOptions { seed: Some(1), allocation, ..OpenOptions::default() };
        let fs = Ffs::open(device.clone(), clock, &options).unwrap();
        let mut full = 0;
        while fs.write(file(&fs, &full.to_string()), 0, &[1; 8192], Privilege::User).is_ok() {
            full += 1;
        }
        for n in (0..full).step_by(2) {
            fs.unlink(fs.root(), n.to_string().as_bytes()).unwrap();
        }
        let ino = file(&fs, "large");
        let blocks = 12;
        for n in 0..blocks {
            fs.write(ino, n * 8192, &[2; 8192], Privilege::Root).unwrap();
        }
        let inode = fs.iget_ino(ino).unwrap();
        let mut at = 0;
        let mut runs = 0;
        while at < blocks {
            at += fs.volume.bmap(inode.ino, &inode.state.read().di, Lbn(at), blocks - at).unwrap().blocks;
            runs += 1;
        }
        fs.unmount().unwrap();
        let report = check(&*device, &check::Options::default(), &mut |_| ()).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        runs
    }

    /// Promise: among holes a growing file soon finds the long runs, where BSD's policy fills hole
    /// after hole; a check finds nothing wrong with either.
    #[test]
    fn files_grow_where_there_is_room() {
        let [nearest, runs] = [Allocation::Nearest, Allocation::Runs].map(pieces);
        assert!(nearest > 10 && runs < 5, "{nearest} {runs}");
    }
}
