//! Finding free space in one group: the local allocator's first two levels (paper, section 3.3).
//!
//! Pure functions of a group block: where the wanted block is free it is taken; otherwise the
//! rotationally closest free block of the same cylinder, where the format knows cylinders;
//! otherwise the next free one in the group.

use crate::format::group::{Group, find_bit};
use crate::format::layout::Layout;
use crate::format::rotation::Rotation;

/// Returns a free block, as a fragment of the group, for a request for the block at `wanted`.
#[must_use]
pub fn find_block(layout: &Layout, group: Group<'_>, ndblk: u32, wanted: Option<u32>) -> Option<u32> {
    let frag = layout.fs_frag;
    let start = wanted.filter(|&w| w < ndblk).unwrap_or_else(|| group.rotor());
    let start = start - start % frag;
    if group.is_block(start) {
        return Some(start);
    }
    if let (Some(rotation), Some(_)) = (&layout.rotation, wanted)
        && let Some(block) = same_cylinder(rotation, group, start, frag)
    {
        return Some(block);
    }
    let blocks = ndblk / frag;
    let clusters = group.clustersfree();
    let search = |from: u32, to: u32| {
        if clusters.is_empty() {
            next_whole_block(group, from, to, frag)
        } else {
            find_bit(clusters, from..to, true).map(|block| block * frag)
        }
    };
    // The map of clusters is a second copy of the truth; the map of fragments decides.
    search(start / frag, blocks).or_else(|| search(0, start / frag)).filter(|&bno| group.is_block(bno))
}

/// Returns the first whole free block among blocks `from..to`.
fn next_whole_block(group: Group<'_>, from: u32, to: u32, frag: u32) -> Option<u32> {
    let map = group.blksfree();
    let mut at = from * frag;
    while let Some(bit) = find_bit(map, at..to * frag, true) {
        let bno = bit - bit % frag;
        if group.is_block(bno) {
            return Some(bno);
        }
        at = bno + frag;
    }
    None
}

/// Returns the free block of the wanted one's cylinder that comes under the head soonest after it.
fn same_cylinder(rotation: &Rotation, group: Group<'_>, wanted: u32, frag: u32) -> Option<u32> {
    let cylinder = rotation.cylinder(wanted);
    if rotation.fs_old_cpc == 0 || group.blktot(cylinder) <= 0 {
        return None;
    }
    let in_cycle = cylinder % rotation.fs_old_cpc;
    let blocks_per_cylinder = u64::from(rotation.fs_old_spc) / u64::from(rotation.fs_old_nspf * frag);
    let base = u32::try_from(u64::from(cylinder - in_cycle) * blocks_per_cylinder).ok()?;
    let nrpos = rotation.fs_old_nrpos;
    let first = rotation.position(wanted);
    (0..nrpos).map(|n| (first + n) % nrpos).filter(|&rpos| group.blks(cylinder, rpos) > 0).find_map(|rpos| {
        rotation
            .blocks_at(in_cycle, rpos)
            .map(|b| (base + b) * frag)
            .find(|&bno| bno / 8 < u32::try_from(group.blksfree().len()).unwrap_or(0) && group.is_block(bno))
    })
}

/// Returns a free run of exactly `run` fragments (fewer than a block), nearest after `wanted`
/// (`ffs_mapsearch`).
#[must_use]
pub fn find_run(layout: &Layout, group: Group<'_>, ndblk: u32, wanted: Option<u32>, run: u32) -> Option<u32> {
    let frag = layout.fs_frag;
    let start = wanted.filter(|&w| w < ndblk).unwrap_or_else(|| group.frotor()) / frag;
    let blocks = ndblk.div_ceil(frag);
    let in_blocks = |from: u32, to: u32| {
        let (mut at, end) = (from * frag, (to * frag).min(ndblk));
        while let Some(bit) = find_bit(group.blksfree(), at..end, true) {
            let bno = bit - bit % frag;
            if group.is_block(bno) {
                // Whole free blocks have none, however many there are.
                let used = find_bit(group.blksfree(), bno + frag..end, false).unwrap_or(end);
                at = (used - used % frag).max(bno + frag);
            } else if let Some(offset) = run_in(group.blkmap(bno), frag, run) {
                return Some(bno + offset);
            } else {
                at = bno + frag;
            }
        }
        None
    };
    in_blocks(start, blocks).or_else(|| in_blocks(0, start))
}

/// Returns where in a block's bits a run of exactly `run` set bits begins.
fn run_in(bits: u8, frag: u32, run: u32) -> Option<u32> {
    let bits = u32::from(bits);
    let ones = (1 << run) - 1;
    (0..=frag - run).find(|&at| {
        let framed = bits << 1 >> at & (ones << 2 | 3);
        framed == ones << 1
    })
}

#[cfg(test)]
mod tests {
    use super::{find_run, run_in};
    use crate::format::group::{Group, GroupMap, clrbit, isset, setbit};
    use crate::newfs::{Parameters, Plan, write};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use spindle_clock::SystemClock;
    use spindle_device::{Device, MemoryDevice};

    /// Promise: a run is found only where it has exactly the length, as counted in `cg_frsum`.
    #[test]
    fn exact_runs() {
        assert_eq!(run_in(0b0000_0111, 8, 3), Some(0));
        assert_eq!(run_in(0b0000_0111, 8, 2), None);
        assert_eq!(run_in(0b1101_1000, 8, 2), Some(3));
        assert_eq!(run_in(0b1100_0000, 8, 2), Some(6));
        assert_eq!(run_in(0b0000_1010, 4, 1), Some(1));
        for bits in 0..=u8::MAX {
            for run in 1..8 {
                let naive = (0..=8 - run).find(|&at| {
                    let set = |n: u32| n < 8 && bits >> n & 1 != 0;
                    (at..at + run).all(set) && !(at > 0 && set(at - 1)) && !set(at + run)
                });
                assert_eq!(run_in(bits, 8, run), naive, "{bits:08b} {run}");
            }
        }
    }
    /// Promise: the nearest run of exactly the length is found, past any number of whole free
    /// blocks, and at the end of a group that is no whole block.
    #[test]
    fn nearest_exact_run() {
        for (fsize, spare) in [(4096, 0), (4096, 3), (8192, 2)] {
            let bytes = (8 << 20) + spare * u64::from(fsize);
            let parameters = Parameters { bsize: Some(32768), fsize: Some(fsize), ..Parameters::new(bytes) };
            let plan = Plan::new(&parameters).unwrap();
            let device = MemoryDevice::new(bytes);
            let random = &mut StdRng::seed_from_u64(1);
            write(&plan, &device, &SystemClock, random, &mut |_, _| ()).unwrap();
            let layout = &plan.layout;
            let cgx = layout.fs_ncg - 1;
            let mut block = vec![0; layout.fs_cgsize as usize];
            device.read_at(layout.byte(layout.cgtod(cgx)), &mut block).unwrap();
            let map = GroupMap::check(layout, &block, cgx).unwrap();
            let (ndblk, frag) = (layout.cg_frags(cgx), layout.fs_frag);
            let mut found = 0;
            for _ in 0..2000 {
                let blksfree = &mut block[map.blksfree.clone()];
                (0..ndblk).for_each(|n| setbit(blksfree, n));
                for _ in 0..random.random_range(0..40) {
                    let first = random.random_range(0..ndblk);
                    (first..ndblk.min(first + random.random_range(1..30))).for_each(|n| clrbit(blksfree, n));
                }
                let (run, wanted) = (random.random_range(1..frag), random.random_range(0..ndblk));
                let of_run = |bno: &u32| {
                    let free = |n: u32| n < ndblk && isset(&block[map.blksfree.clone()], n);
                    let in_block = |n: u32| n / frag == bno / frag && free(n);
                    let begins = bno.is_multiple_of(frag) || !free(bno - 1);
                    begins && (0..run).all(|n| in_block(bno + n)) && !in_block(bno + run)
                };
                let start = wanted - wanted % frag;
                let expected = (start..ndblk).chain(0..start).find(of_run);
                let group = Group::new(layout, &map, &block);
                assert_eq!(find_run(layout, group, ndblk, Some(wanted), run), expected, "{run} at {wanted}");
                found += u32::from(expected.is_some());
            }
            assert!((100..2000).contains(&found), "{found} of 2000 have a run");
        }
    }
}
