//! Where things go: the layout policies of the paper (section 3.3) as pure functions.
//!
//! Global policies choose a cylinder group from the summaries: [`directory_group`] for a new
//! directory, [`block_preference`] for the next block of a file. Local ones say in which order
//! groups are tried when the preferred one is full ([`group_order`]), and when fragments are traded
//! for time ([`optimization`]).

use crate::format::dialect::Dialect;
use crate::format::layout::Layout;
use crate::format::ondisk::{Csum, FS_OPTSPACE, FS_OPTTIME, Fs, NDADDR};

/// Returns the group for a new directory: more free inodes than the average, and of those the
/// fewest directories. The search starts at the parent's group, so that ties stay near. 0 if there
/// are no groups.
#[must_use]
pub fn directory_group(groups: &[Csum], parent: u32) -> u32 {
    let count = groups.len().max(1);
    let average = groups.iter().map(|cs| i64::from(cs.cs_nifree)).sum::<i64>()
        / i64::try_from(count).unwrap_or(i64::MAX);
    let from = parent as usize % count;
    let best = (0..groups.len())
        .map(|n| (from + n) % count)
        .filter(|&g| groups[g].cs_nifree > 0 && i64::from(groups[g].cs_nifree) >= average)
        .min_by_key(|&g| groups[g].cs_ndir);
    u32::try_from(best.unwrap_or(from)).unwrap_or(0)
}

/// Where the next block of a file would best go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Right behind the previous block, or a rotational delay after it: so many fragments further.
    After(u32),
    /// In the inode's own group, wherever there is room.
    OwnGroup,
    /// In the first group, counted from this one, with more free blocks than the average.
    NewGroup(u32),
}

/// The block that [`block_preference`] is asked for.
#[derive(Clone, Copy, Debug)]
pub struct NextBlock {
    /// Number of the block in its file.
    pub lbn: u64,
    /// Its index among the pointers that it is entered in: those of the inode, or of one indirect
    /// block.
    pub index: u64,
    /// Group of the block before it in that array, if there is one.
    pub previous_group: Option<u32>,
    /// Group of the inode.
    pub own_group: u32,
    /// Blocks before it, back to the last gap, that are contiguous.
    pub contiguous: u32,
}

/// The settings that [`block_preference`] follows.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Direct pointers: where these end, a file first leaves its group.
    pub direct: u64,
    /// Blocks of a file in one group before it leaves.
    pub maxbpg: u64,
    /// Blocks laid out contiguously before a rotational delay.
    pub maxcontig: u32,
    /// Fragments that pass the head in one rotational delay, whole blocks; 0 for none.
    pub delay_frags: u32,
    /// Fragments in a block.
    pub frag: u32,
    /// Fragments set aside for metadata after the inodes of a group.
    pub metaspace: u32,
}

impl Placement {
    /// Returns what the superblock of a file system says; a rotational delay only where the
    /// geometry is known.
    #[must_use]
    pub fn of(fs: &Fs, layout: &Layout, dialect: Dialect) -> Self {
        let positive = |value: i32| u32::try_from(value).unwrap_or(0);
        let (rotdelay_ms, rps) = (positive(fs.fs_old_rotdelay), positive(fs.fs_old_rps));
        let delay = |r: &crate::format::rotation::Rotation| {
            rotational_delay(rotdelay_ms, rps, r.fs_old_nsect, r.fs_old_nspf)
        };
        Self {
            direct: NDADDR as u64,
            maxbpg: positive(fs.fs_maxbpg).max(1).into(),
            maxcontig: positive(fs.fs_maxcontig),
            delay_frags: layout.rotation.as_ref().map_or(0, delay),
            frag: layout.fs_frag,
            metaspace: dialect.metaspace(fs, layout),
        }
    }
}

/// Decides as `ffs_blkpref` does: leave the group where the first indirect block begins and after
/// every `maxbpg` blocks, stay behind the previous block otherwise.
#[must_use]
pub fn block_preference(next: &NextBlock, by: &Placement) -> Preference {
    let leaves = next.index.is_multiple_of(by.maxbpg.max(1));
    match next.previous_group {
        Some(_) if !leaves => {
            let gap = if by.delay_frags > 0 && next.contiguous >= by.maxcontig.max(1) {
                by.delay_frags.next_multiple_of(by.frag)
            } else {
                0
            };
            Preference::After(by.frag + gap)
        }
        _ if next.lbn < by.direct => Preference::OwnGroup,
        Some(group) => Preference::NewGroup(group.wrapping_add(1)),
        None => {
            let spread = u32::try_from(next.lbn / by.maxbpg.max(1)).unwrap_or(0);
            Preference::NewGroup(next.own_group.wrapping_add(spread))
        }
    }
}

/// Returns the first group from `start` with at least the average of free blocks.
#[must_use]
pub fn group_with_room(groups: &[Csum], start: u32) -> u32 {
    let count = groups.len().max(1);
    let average = groups.iter().map(|cs| i64::from(cs.cs_nbfree)).sum::<i64>()
        / i64::try_from(count).unwrap_or(i64::MAX);
    let from = start as usize % count;
    let found =
        (0..groups.len()).map(|n| (from + n) % count).find(|&g| i64::from(groups[g].cs_nbfree) >= average);
    u32::try_from(found.unwrap_or(from)).unwrap_or(0)
}

/// Returns the order in which groups are tried: the preferred one, a quadratic rehash from it, then
/// all the others.
pub fn group_order(preferred: u32, ncg: u32) -> impl Iterator<Item = u32> {
    let start = u64::from(preferred % ncg.max(1));
    let ncg64 = u64::from(ncg);
    let steps = std::iter::successors(Some(1_u64), |i| Some(i * 2)).take_while(move |&i| i < ncg64);
    let rehash = steps.scan(start, move |group, i| {
        *group = (*group + i) % ncg64;
        Some(*group)
    });
    // The rehash has tried the group next to the preferred one.
    let rest = (2..ncg64).map(move |i| (start + i) % ncg64);
    std::iter::once(start).chain(rehash).chain(rest).map(|g| u32::try_from(g).unwrap_or(0))
}

/// Returns what to optimise a growing fragment for, and whether the file system's preference is to
/// change to it (`ffs_realloccg`): with little fragmentation a whole block is taken at once and the
/// unused rest given back; when more than the reserve allows lies in loose fragments, space comes
/// first.
#[must_use]
pub fn optimization(current: i32, minfree: u32, nffree: i64, dsize: u64) -> i32 {
    let dsize = i64::try_from(dsize).unwrap_or(i64::MAX);
    let percent = |p: u32| dsize / 100 * i64::from(p);
    if current == FS_OPTSPACE {
        if minfree <= 5 || nffree > percent(minfree) / 2 { FS_OPTSPACE } else { FS_OPTTIME }
    } else if nffree < percent(minfree.saturating_sub(2)) || minfree <= 2 {
        FS_OPTTIME
    } else {
        FS_OPTSPACE
    }
}

/// Returns the fragments that pass the head while the next transfer is made ready (paper, section
/// 3.2): `rotdelay_ms` at `rps` revolutions of `nsect` sectors, `nspf` of them to a fragment.
#[must_use]
pub fn rotational_delay(rotdelay_ms: u32, rps: u32, nsect: u32, nspf: u32) -> u32 {
    // Damaged numbers exceed 64 bits; a delay that exceeds 31 is none.
    let sectors = u128::from(rotdelay_ms) * u128::from(rps) * u128::from(nsect) / 1000;
    i32::try_from(sectors / u128::from(nspf.max(1))).unwrap_or(0).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cs(cs_ndir: i32, cs_nbfree: i32, cs_nifree: i32) -> Csum {
        Csum { cs_ndir, cs_nbfree, cs_nifree, cs_nffree: 0 }
    }

    /// Promise: of the groups with above-average free inodes, the one with the fewest directories
    /// is taken.
    #[test]
    fn directories_spread() {
        let groups = [cs(5, 0, 100), cs(1, 0, 10), cs(3, 0, 90), cs(4, 0, 120)];
        assert_eq!(directory_group(&groups, 0), 2);
        assert_eq!(directory_group(&[cs(0, 0, 0); 3], 1), 1);
    }

    /// Promise: a file stays contiguous, leaves its group where the first indirect block begins and
    /// after every maxbpg blocks, and keeps the rotational distance after maxcontig blocks.
    #[test]
    fn files_move_on() {
        let by = Placement { direct: 12, maxbpg: 256, maxcontig: 1, delay_frags: 0, frag: 8, metaspace: 0 };
        let next = NextBlock { lbn: 3, index: 3, previous_group: Some(4), own_group: 4, contiguous: 1 };
        assert_eq!(block_preference(&next, &by), Preference::After(8));
        let first = NextBlock { lbn: 0, index: 0, previous_group: None, ..next };
        assert_eq!(block_preference(&first, &by), Preference::OwnGroup);
        let indirect = NextBlock { lbn: 12, index: 0, previous_group: None, ..next };
        assert_eq!(block_preference(&indirect, &by), Preference::NewGroup(4));
        let megabyte = NextBlock { lbn: 268, index: 256, previous_group: Some(4), ..next };
        assert_eq!(block_preference(&megabyte, &by), Preference::NewGroup(5));
        let slow = Placement { delay_frags: 3, ..by };
        assert_eq!(block_preference(&next, &slow), Preference::After(16));
        assert_eq!(rotational_delay(4, 60, 32, 2), 3);
        let damaged = i32::MAX.unsigned_abs();
        assert_eq!(rotational_delay(damaged, damaged, u32::MAX, 1), 0);
    }

    /// Promise: every group is tried, the preferred one first, then by quadratic rehash.
    #[test]
    fn all_groups_are_tried() {
        for ncg in 1..70 {
            for start in 0..ncg {
                let order: Vec<_> = group_order(start, ncg).collect();
                assert_eq!(order[0], start);
                assert!((0..ncg).all(|g| order.contains(&g)), "{ncg} groups from {start}: {order:?}");
            }
        }
        assert_eq!(group_order(3, 20).take(5).collect::<Vec<_>>(), [3, 4, 6, 10, 18]);
    }

    /// Promise: growing fragments are traded for time while few fragments lie loose, for space when
    /// many do.
    #[test]
    fn optimization_follows_fragmentation() {
        assert_eq!(optimization(FS_OPTTIME, 8, 10, 10_000), FS_OPTTIME);
        assert_eq!(optimization(FS_OPTTIME, 8, 700, 10_000), FS_OPTSPACE);
        assert_eq!(optimization(FS_OPTSPACE, 8, 700, 10_000), FS_OPTSPACE);
        assert_eq!(optimization(FS_OPTSPACE, 8, 100, 10_000), FS_OPTTIME);
    }

    /// Promise: the group with room is the first from the start that has at least the average.
    #[test]
    fn room_is_found() {
        assert_eq!(group_with_room(&[cs(0, 10, 0), cs(0, 1, 0), cs(0, 7, 0)], 1), 2);
    }
}
