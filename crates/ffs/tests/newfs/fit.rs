//! newfs sized to fit: what the census says suffices when files are really allocated, and is not
//! much more.

use super::audit::FORMATS;
use super::seeded;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::newfs::{Census, Parameters, Plan, fit, write};
use spindle_ffs::{GroupMap, GroupMut, Superblock};

struct Store {
    superblock: Superblock,
    groups: Vec<(GroupMap, Vec<u8>)>,
}

impl Store {
    fn new(plan: &Plan) -> Self {
        let device = MemoryDevice::new(plan.size_bytes());
        let mut random = StdRng::seed_from_u64(3);
        let superblock = write(plan, &device, &ManualClock::at(0), &mut random, &mut |_, _| ()).unwrap();
        let layout = &superblock.layout;
        let groups = (0..layout.fs_ncg)
            .map(|cgx| {
                let mut block = vec![0; layout.fs_bsize as usize];
                device.read_at(layout.byte(layout.cgtod(cgx)), &mut block).unwrap();
                (GroupMap::check(layout, &block, cgx).unwrap(), block)
            })
            .collect();
        Self { superblock, groups }
    }

    /// Takes `frags` fragments of one block, group by group from `home`, best fit within a group.
    fn take(&mut self, home: usize, frags: u32) -> bool {
        let layout = &self.superblock.layout;
        let n = self.groups.len();
        for cgx in (0..n).map(|i| (home + i) % n) {
            let (map, block) = &mut self.groups[cgx];
            let mut group = GroupMut::new(layout, map, block.as_mut_slice());
            let first = |want: u32| find(&group, map.ndblk, layout.fs_frag, want);
            let found = (frags..=layout.fs_frag).find_map(first);
            let Some(at) = found else { continue };
            if frags == layout.fs_frag {
                group.take_block(at);
            } else {
                group.take_frags(at, frags);
            }
            return true;
        }
        false
    }
}

/// Returns the first free run of exactly `want` fragments within one block.
fn find(group: &GroupMut<'_>, ndblk: u32, frag: u32, want: u32) -> Option<u32> {
    if want == frag {
        return (0..ndblk).step_by(frag as usize).find(|&bno| group.view().is_block(bno));
    }
    if group.view().frsum(want) == 0 {
        return None;
    }
    (0..ndblk).step_by(frag as usize).filter(|&bno| !group.view().is_block(bno)).find_map(|bno| {
        let bits = u32::from(group.view().blkmap(bno));
        let run = (1 << want) - 1;
        (0..=frag - want).find_map(|shift| {
            let above = if shift + want < frag { bits >> (shift + want) & 1 } else { 0 };
            let below = if shift > 0 { bits >> (shift - 1) & 1 } else { 0 };
            (bits >> shift & run == run && above == 0 && below == 0).then_some(bno + shift)
        })
    })
}

/// Returns the blocks of a dense file with its indirect blocks, by walking every block; and the
/// fragments of its tail.
fn pieces(size: u64, bsize: u64, fsize: u64, nindir: u64) -> (u64, u32) {
    let blocks = size.div_ceil(bsize);
    let tail = if blocks <= 12 { size % bsize } else { 0 };
    let whole = blocks - u64::from(tail > 0);
    let mut indirect = std::collections::BTreeSet::new();
    for lbn in 12..blocks {
        let n = lbn - 12;
        if n < nindir {
            indirect.insert((1, 0));
        } else if n < nindir + nindir * nindir {
            indirect.insert((2, 0));
            indirect.insert((3, (n - nindir) / nindir));
        } else {
            indirect.insert((4, 0));
            indirect.insert((5, (n - nindir - nindir * nindir) / nindir / nindir));
            indirect.insert((6, (n - nindir - nindir * nindir) / nindir));
        }
    }
    (whole + indirect.len() as u64, u32::try_from(tail.div_ceil(fsize)).unwrap())
}

/// Promise: a file system sized to fit takes all the files, allocated one after the other; one that
/// is smaller by more than the reserve and a twentieth does not.
#[test]
fn fits_and_is_tight() {
    let mut random = seeded("fits_and_is_tight");
    for (round, (format, dialect, static_tables)) in FORMATS.into_iter().enumerate() {
        let mut parameters = Parameters::new(0);
        (parameters.format, parameters.dialect) = (format, dialect);
        parameters.static_tables = static_tables;
        let bsize: u32 = 1 << random.random_range(12..=15);
        let fsize = bsize >> random.random_range(0..=3);
        (parameters.bsize, parameters.fsize) = (Some(bsize), Some(fsize));
        parameters.minfree = Some([0, 8][random.random_range(0..2)]);
        let mut census = Census::new(&parameters).unwrap();
        let files: Vec<u64> = (0..random.random_range(1..800))
            .map(|_| if random.random_ratio(1, 40) { 3 << 20 } else { random.random_range(0..40_000) })
            .collect();
        for &size in &files {
            census.add_file(size);
        }
        let plan = fit(&parameters, &census).unwrap();
        let mut store = Store::new(&plan);
        let nindir = u64::from(store.superblock.layout.fs_nindir);
        let frag = store.superblock.layout.fs_frag;
        let mut taken = 0;
        for (n, &size) in files.iter().enumerate() {
            let home = n * 7 % store.groups.len();
            let (blocks, tail) = pieces(size, bsize.into(), fsize.into(), nindir);
            for _ in 0..blocks {
                assert!(store.take(home, frag), "round {round}: file {n} of {}", files.len());
            }
            if tail > 0 {
                assert!(store.take(home, tail), "round {round}: tail of file {n} of {}", files.len());
            }
            taken += blocks * u64::from(frag) + u64::from(tail);
        }
        assert!(plan.totals().cs_nifree >= i64::try_from(files.len()).unwrap());
        // What is left: the reserve, some blocks for each group, broken blocks, and steps of
        // rounding.
        let totals = plan.totals();
        let free = u64::try_from(totals.cs_nbfree).unwrap() * u64::from(frag);
        let ncg = u64::from(plan.layout.fs_ncg);
        let allowed = plan.layout.fs_dsize / 10 + free / 20 + (3 * ncg + 8) * u64::from(frag);
        assert!(
            free <= taken + allowed + files.len() as u64,
            "round {round}: {free} fragments free for {taken}, {ncg} groups"
        );
    }
}

/// Promise: the census counts the indirect blocks of dense files as a walk over their blocks does.
#[test]
fn indirect_blocks_are_counted() {
    let mut parameters = Parameters::new(0);
    (parameters.bsize, parameters.fsize) = (Some(4096), Some(4096));
    for blocks in [0, 1, 12, 13, 12 + 512, 13 + 512, 12 + 512 + 513, 12 + 512 + 512 * 512, 300_000] {
        let mut census = Census::new(&parameters).unwrap();
        census.add_file(blocks * 4096);
        assert_eq!(census.bytes() / 4096, pieces(blocks * 4096, 4096, 4096, 512).0, "{blocks}");
    }
}

/// Promise: holes cost nothing, and extents that share a block or an indirect block share its cost.
#[test]
fn sparse_files_are_counted() {
    let mut parameters = Parameters::new(0);
    (parameters.bsize, parameters.fsize) = (Some(4096), Some(512));
    let count = |size: u64, extents: &[(u64, u64)]| {
        let mut census = Census::new(&parameters).unwrap();
        census.add_sparse_file(size, extents.iter().map(|&(start, end)| start..end));
        census.bytes() / 4096
    };
    assert_eq!(count(1 << 40, &[]), 0);
    assert_eq!(count(1 << 40, &[(0, 10)]), 1);
    assert_eq!(count(1 << 20, &[(0, 10), (100, 200), (4096, 4097)]), 2);
    // A data block and its single indirect block; two data blocks below one.
    assert_eq!(count(1 << 20, &[(65536, 65537)]), 2);
    assert_eq!(count(1 << 20, &[(65536, 65537), (81920, 81921)]), 3);
    // Below the double: the root, the one below, the data.
    let far = (12 + 512 + 5) * 4096;
    assert_eq!(count(1 << 40, &[(far, far + 1), (far + 8192, far + 8193)]), 4);
    // Below the triple: three levels above each far block.
    let farther = (12 + 512 + 512 * 512 + 5) * 4096;
    assert_eq!(count(1 << 40, &[(far, far + 1), (farther, farther + 1)]), 3 + 4);
}

/// Promise: many small objects get inodes enough without being asked for, and short links take no
/// space.
#[test]
fn inodes_suffice() {
    let parameters = Parameters::new(0);
    let mut census = Census::new(&parameters).unwrap();
    for _ in 0..20_000 {
        census.add_symlink(40);
        census.add_special();
    }
    census.add_dir(std::iter::repeat_n(20, 40_000));
    assert_eq!(census.inodes(), 40_001);
    let plan = fit(&parameters, &census).unwrap();
    assert!(plan.totals().cs_nifree >= 40_001);
    assert!(plan.size_bytes() < 40_001 * 1024, "{}", plan.size_bytes());
}
