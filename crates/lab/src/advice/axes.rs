//! What is varied: one property of a candidate at a time.

use super::Ground;
use super::candidate::{Apart, Candidate, Layout, Names};
use super::window::Basis;
use spindle_report::number::bytes;

/// A property, and what it can be instead.
pub(super) struct Axis {
    /// Its name.
    pub name: &'static str,
    /// Returns candidates that differ from this one in the property, in the order in which they
    /// are preferred if they make no difference.
    pub others: fn(&Candidate, &Setting<'_>) -> Vec<Candidate>,
    /// Returns what it is in a candidate, in words.
    pub value: fn(&Candidate) -> String,
    /// True if the best is kept: memory is what the user has, so it is only said how much is
    /// enough.
    pub is_kept: bool,
}

/// What decides which candidates make sense.
pub(super) struct Setting<'a> {
    pub ground: &'a Ground,
    pub basis: &'a Basis,
}

/// All of them, in the order in which they are varied. Other systems come after all that UFS has,
/// so that they are compared with the best of it, and memory last, because how much is enough
/// depends on all others.
pub(super) const ALL: [Axis; 9] = [
    Axis {
        name: "block size",
        others: blocks,
        value: |now| bytes(now.layout.block_bytes().into()),
        is_kept: true,
    },
    Axis {
        name: "fragment size",
        others: fragments,
        value: |now| layout_number(now, |(fragment, _)| fragment),
        is_kept: true,
    },
    Axis { name: "clusters", others: clusters, value: |now| bytes(now.cluster_bytes.into()), is_kept: true },
    Axis {
        name: "bytes for each inode",
        others: densities,
        value: |now| layout_number(now, |(_, density)| density),
        is_kept: true,
    },
    Axis { name: "log", others: logs, value: |now| now.names.name().into(), is_kept: true },
    Axis {
        name: "write policy",
        others: commits,
        value: |now| format!("commits every {} s", now.commit_seconds),
        is_kept: true,
    },
    Axis { name: "file system", others: systems, value: |now| system(now), is_kept: true },
    Axis { name: "second disk", others: second_disks, value: |now| system(now), is_kept: true },
    Axis { name: "memory", others: memories, value: |now| bytes(now.memory_bytes), is_kept: false },
];

const BLOCKS: [u32; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Fragments of a block.
const FRAGMENTS: [u32; 4] = [1, 2, 4, 8];
/// The smallest fragment: a sector of most disks.
const LEAST_FRAGMENT: u32 = 512;
/// Clusters, besides those of one block.
const CLUSTERS: [u32; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// The most blocks of a cluster that `newfs` takes.
const MOST_BLOCKS: u32 = 256;
/// Bytes for each inode: the denser, the longer files can become smaller than they are now.
const DENSITIES: [u32; 11] = [
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
];
/// Intervals of commits in seconds.
const COMMITS: [u32; 3] = [1, 5, 30];
/// Parts of the memory that may be enough, as shifts.
const MEMORIES: [u32; 4] = [8, 6, 4, 2];
/// The least of it in bytes: with less, a cluster and what is read ahead take all.
const LEAST_MEMORY: u64 = 4 << 20;

/// Returns the system in words, with what distinguishes those that are compared.
fn system(now: &Candidate) -> String {
    let system = now.layout.system();
    match now.layout {
        Layout::Ufs { .. } => system.into(),
        Layout::Mfs { block_bytes, .. } => format!("{system} (blocks of {})", bytes(block_bytes.into())),
    }
}

/// Returns a number of bytes that only UFS has, of its fragment size and its density, in words.
fn layout_number(now: &Candidate, of: fn((u32, u32)) -> u32) -> String {
    match now.layout {
        Layout::Ufs { fragment_bytes, density_bytes, .. } => {
            bytes(of((fragment_bytes, density_bytes)).into())
        }
        Layout::Mfs { .. } => "none".into(),
    }
}

fn with(candidate: &Candidate, layout: Layout) -> Candidate {
    Candidate { layout, ..candidate.clone() }
}

fn systems(now: &Candidate, setting: &Setting<'_>) -> Vec<Candidate> {
    let Layout::Ufs { block_bytes, fragment_bytes, density_bytes, .. } = now.layout else {
        return Vec::new();
    };
    let ufs1 = Layout::Ufs { version: 1, block_bytes, fragment_bytes, density_bytes };
    let sets = sets(now, setting, &[Apart::Nothing]);
    std::iter::once(with(now, ufs1)).chain(sets).collect()
}

/// Returns multi-structured file systems with the smallest blocks, and with those of the present
/// one; none if only UFS is wanted.
fn sets(now: &Candidate, setting: &Setting<'_>, all: &[Apart]) -> Vec<Candidate> {
    let (least, block) = (BLOCKS[0], now.layout.block_bytes());
    let sizes = if block == least { vec![least] } else { vec![least, block] };
    let layouts = sizes
        .into_iter()
        .flat_map(|block_bytes| all.iter().map(move |&apart| Layout::Mfs { block_bytes, apart }));
    let set = |layout| Candidate { layout, names: Names::Logged, ..now.clone() };
    layouts.filter(|_| !setting.ground.only_ufs).map(set).collect()
}

fn blocks(now: &Candidate, _: &Setting<'_>) -> Vec<Candidate> {
    let layout = |block: u32| match now.layout {
        Layout::Ufs { version, block_bytes, fragment_bytes, density_bytes } => Layout::Ufs {
            version,
            block_bytes: block,
            fragment_bytes: block / (block_bytes / fragment_bytes),
            density_bytes,
        },
        Layout::Mfs { apart, .. } => Layout::Mfs { block_bytes: block, apart },
    };
    BLOCKS.into_iter().map(|block| with(now, layout(block))).collect()
}

fn fragments(now: &Candidate, _: &Setting<'_>) -> Vec<Candidate> {
    let Layout::Ufs { version, block_bytes, density_bytes, .. } = now.layout else { return Vec::new() };
    let sizes = FRAGMENTS.into_iter().map(|each| block_bytes / each);
    sizes
        .filter(|&size| size >= LEAST_FRAGMENT)
        .map(|fragment_bytes| with(now, Layout::Ufs { version, block_bytes, fragment_bytes, density_bytes }))
        .collect()
}

fn clusters(now: &Candidate, _: &Setting<'_>) -> Vec<Candidate> {
    let block = now.layout.block_bytes();
    let larger = CLUSTERS.into_iter().filter(|&size| size > block && size / block <= MOST_BLOCKS);
    let sizes = std::iter::once(block).chain(larger);
    sizes.map(|cluster_bytes| Candidate { cluster_bytes, ..now.clone() }).collect()
}

fn densities(now: &Candidate, _: &Setting<'_>) -> Vec<Candidate> {
    let Layout::Ufs { version, block_bytes, fragment_bytes, .. } = now.layout else { return Vec::new() };
    let layout = |density_bytes| Layout::Ufs { version, block_bytes, fragment_bytes, density_bytes };
    DENSITIES.into_iter().map(|density| with(now, layout(density))).collect()
}

fn logs(now: &Candidate, _: &Setting<'_>) -> Vec<Candidate> {
    if matches!(now.layout, Layout::Mfs { .. }) {
        return Vec::new();
    }
    let names = [Names::Logged, Names::Synchronous, Names::Unordered];
    names.map(|names| Candidate { names, ..now.clone() }).to_vec()
}

fn commits(now: &Candidate, setting: &Setting<'_>) -> Vec<Candidate> {
    // In less time than two intervals a longer one shows nothing.
    let shows = |seconds: &u32| 2.0 * f64::from(*seconds) <= setting.basis.seconds_simulated;
    let seconds = COMMITS.into_iter().filter(shows);
    seconds.map(|commit_seconds| Candidate { commit_seconds, ..now.clone() }).collect()
}

fn second_disks(now: &Candidate, setting: &Setting<'_>) -> Vec<Candidate> {
    match setting.ground.second {
        Some(_) => sets(now, setting, &[Apart::Log, Apart::Control]),
        None => Vec::new(),
    }
}

fn memories(now: &Candidate, setting: &Setting<'_>) -> Vec<Candidate> {
    let smaller = MEMORIES.into_iter().map(|shift| setting.ground.memory >> shift);
    let smaller = smaller.filter(|&memory| memory >= LEAST_MEMORY);
    let all = smaller.chain([setting.ground.memory, setting.ground.memory.saturating_mul(4)]);
    all.map(|memory_bytes| Candidate { memory_bytes, ..now.clone() }).collect()
}
