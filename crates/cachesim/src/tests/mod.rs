//! Small hand-made traces, and random ones compared with a naive simulator.

mod naive;
mod random;

use super::*;
use crate::replacement::PolicyName;
use naive::Naive;
use rand::{Rng, SeedableRng, rngs::StdRng};
use random::{MemorySource, events};
use spindle_report::outcome::Evidence;
use spindle_trace::{Event, FileId, Flags, Kind};
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;

fn grid(block: u32, sizes: &[u64], writes: &[Write]) -> CacheGrid {
    let sizes = sizes.to_vec();
    let (policies, writes) = (vec![PolicyName::Lru], writes.to_vec());
    CacheGrid { block, extras: Extras::default(), sizes, policies, writes, ages: false }
}

/// Returns the counts of caches with one block size, by size and write policy; both engines must
/// agree.
fn counts(events: &[Event], grid: &CacheGrid) -> Vec<Counts> {
    let run = |ages| {
        let grids = [CacheGrid { ages, ..grid.clone() }];
        let simulated = simulate(&mut MemorySource::new(events, 100), &grids, &|_| ()).unwrap();
        simulated.results[0].cells.iter().map(|cell| cell.counts).collect::<Vec<_>>()
    };
    let stack = run(false);
    assert_eq!(stack, run(true));
    stack
}

/// Returns a run of a file that ends with a seek, which reports no size.
fn run(second: i64, inode: u64, position: u64, read: u64, written: u64) -> Event {
    let file = FileId { device: 1, inode };
    Event {
        time: second * SECOND,
        kind: Kind::Seek,
        file,
        open: inode,
        position,
        read,
        written,
        ..Event::default()
    }
}

fn create(second: i64, inode: u64) -> Event {
    Event { kind: Kind::Create, ..run(second, inode, 0, 0, 0) }
}

fn unlink(second: i64, inode: u64) -> Event {
    Event { kind: Kind::Unlink, flags: Flags::LAST, ..run(second, inode, 0, 0, 0) }
}

fn close(second: i64, inode: u64, size: u64) -> Event {
    Event { kind: Kind::Close, size, ..run(second, inode, 0, 0, 0) }
}

/// Promise: the least recently used block is evicted; a hit costs nothing, a miss a disk read
/// (6.1).
#[test]
fn reads() {
    // Blocks 0 1 2 0 3 1: with three blocks, 3 evicts 1; with two or one, all miss.
    let events = [0, 1, 2, 0, 3, 1].map(|block| run(0, 1, block * 1024, 1024, 0));
    let found = counts(&events, &grid(1024, &[4096, 3072, 2048, 1024], &[Write::Delayed]));
    let reads: Vec<_> = found.iter().map(|counts| counts.disk_reads).collect();
    assert_eq!(reads, [4, 5, 6, 6]);
    assert!(found.iter().all(|counts| counts.reads == 6 && counts.writes == 0 && counts.disk_writes == 0));
    assert!((found[1].miss_ratio() - 5.0 / 6.0).abs() < 1e-12);
}

/// Promise: writing a whole block needs no read, writing a part needs one (6.1) unless it is in the
/// cache.
#[test]
fn writes_read_what_they_keep() {
    let events = [run(0, 1, 0, 0, 1024), run(0, 2, 10, 0, 10), run(0, 2, 0, 0, 1024), run(0, 1, 5, 0, 5)];
    let found = counts(&events, &grid(1024, &[1024, 2048], &[Write::Delayed]));
    let expected = |disk_reads, disk_writes, left| Counts {
        writes: 4,
        disk_reads,
        disk_writes,
        left,
        ..Counts::default()
    };
    assert_eq!(found, [expected(2, 2, 1), expected(1, 0, 2)]);
}

/// Promise: write-through writes at each access; delayed write when the block is evicted, once for
/// each state of it; blocks left at the end are counted separately.
#[test]
fn write_policies() {
    // Block a is written three times, then b and c evict it from two, a returns and is written once
    // more.
    let [a, b, c] = [0, 1, 2].map(|block| run(0, 1, block * 1024, 0, 1024));
    let events = [a, a, a, b, c, a];
    let found = counts(&events, &grid(1024, &[2048, 3072], &[Write::Through, Write::Delayed]));
    let count = |disk_writes, left| Counts { writes: 6, disk_writes, left, ..Counts::default() };
    assert_eq!(found, [count(6, 0), count(2, 2), count(6, 0), count(0, 3)]);
    assert!((found[1].never_written() - 2.0 / 6.0).abs() < 1e-12);
}

/// Promise: a flush writes the blocks modified since the last one, at whole intervals from the
/// first event on; a flush at the time of an event happens before it.
#[test]
fn flushes_happen_at_intervals() {
    let flush = [Write::Flush(Duration::from_secs(30))];
    let disk_writes = |seconds: &[i64]| {
        let first = run(100, 9, 0, 1, 0);
        let writes = seconds.iter().map(|&second| run(second, 1, 0, 0, 1024));
        let events: Vec<_> = [first].into_iter().chain(writes).collect();
        let found = counts(&events, &grid(1024, &[8192], &flush));
        (found[0].disk_writes, found[0].left)
    };
    assert_eq!(disk_writes(&[101, 129]), (0, 1));
    assert_eq!(disk_writes(&[101, 130]), (1, 1));
    assert_eq!(disk_writes(&[101, 129, 131, 159, 165]), (2, 1));
    // A long pause: one write.
    assert_eq!(disk_writes(&[101, 1000]), (1, 1));
    // Clean since the flush at 130: no write at 160.
    let events = [run(100, 1, 0, 0, 1024), run(131, 1, 0, 1, 0), run(170, 1, 0, 1, 0)];
    assert_eq!(counts(&events, &grid(1024, &[8192], &flush))[0].disk_writes, 1);
}

/// Promise: a block deleted before it is written is never written (6.2), and its place is free.
#[test]
fn deletion_saves_writes() {
    let events = [
        create(0, 1),
        run(1, 1, 0, 0, 1500),
        close(2, 1, 1500),
        run(2, 2, 0, 1024, 0),
        unlink(3, 1),
        run(40, 3, 0, 2048, 0),
        run(41, 2, 0, 1024, 0),
    ];
    let writes = [
        Write::Through,
        Write::Flush(Duration::from_secs(2)),
        Write::Flush(Duration::from_secs(30)),
        Write::Delayed,
    ];
    let found = counts(&events, &grid(1024, &[3072, 2048], &writes));
    let count = |disk_reads, disk_writes, dropped| Counts {
        reads: 4,
        writes: 2,
        disk_reads,
        disk_writes,
        dropped,
        left: 0,
    };
    // With three places, the two of the deleted file are filled first, and block 2 is still cached
    // at the end.
    assert_eq!(found[..4], [count(3, 2, 0), count(3, 2, 0), count(3, 0, 2), count(3, 0, 2)]);
    // With two, a block of file 1 must be evicted for file 2.
    assert_eq!(found[4..], [count(4, 2, 0), count(4, 2, 0), count(4, 1, 1), count(4, 1, 1)]);
}

/// Promise: ages count from when a block entered or became dirty to when it left, was written or
/// deleted, or the trace ended.
#[test]
fn ages() {
    let events = [
        run(0, 1, 0, 0, 1024),
        run(10, 1, 0, 0, 1024),
        // Dirty for 40 s and cached for 40 s.
        run(40, 2, 0, 0, 1024),
        // Cached for 400 s.
        unlink(440, 2),
        run(441, 3, 0, 1024, 0),
        run(2000, 3, 0, 0, 1024),
        // Dirty for 2 s at the end, cached for 1561 s.
        run(2002, 3, 0, 1, 0),
    ];
    let grids = [CacheGrid { ages: true, ..grid(1024, &[1024], &[Write::Delayed]) }];
    let simulated = simulate(&mut MemorySource::new(&events, 3), &grids, &|_| ()).unwrap();
    let (dirty, stays) = simulated.results[0].cells[0].ages.clone().unwrap();
    let over = |ages: &Ages| [0, 1, 2, 3, 4, 5].map(|n| (ages.over(n) * 3.0).round());
    assert_eq!((dirty.len(), over(&dirty)), (3, [2.0, 2.0, 1.0, 0.0, 0.0, 0.0]));
    assert_eq!((stays.len(), over(&stays)), (3, [3.0, 3.0, 2.0, 1.0, 0.0, 0.0]));
}

/// Promise: impossible caches are refused with the reason.
#[test]
fn impossible_caches_are_refused() {
    for (block, size, what) in
        [(4096, 4095, "holds no block"), (512, 1 << 50, "too many"), (0, 1, "must be above 0")]
    {
        let error =
            simulate(&mut MemorySource::new(&[], 1), &[grid(block, &[size], &[Write::Delayed])], &|_| ());
        let text = error.unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    }
}

/// Promise: an empty trace gives zeros, and the paper's tables are complete nevertheless.
#[test]
fn an_empty_trace() {
    let outcome = paper::tables(&mut MemorySource::new(&[], 1), Some(Evidence::Predicted), &|_| ()).unwrap();
    assert_eq!(outcome.tables.iter().map(|table| table.rows.len()).collect::<Vec<_>>(), [6, 6, 3]);
    assert!(outcome.comparisons().all(|comparison| comparison.ours == 0.0));
    assert_eq!(outcome.comparisons().count(), 24 + 30 + 3);
}

fn seed(test: &str) -> u64 {
    let asked =
        std::env::var("SPINDLE_SEED").ok().map(|text| text.parse().expect("SPINDLE_SEED is a number"));
    let seed = asked.unwrap_or_else(|| StdRng::from_os_rng().random());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-cachesim {test}");
    seed
}

fn cases(default: u32) -> u32 {
    std::env::var("SPINDLE_CASES").map_or(default, |text| text.parse().expect("SPINDLE_CASES is a number"))
}

const WRITES: [Write; 4] = [
    Write::Through,
    Write::Flush(Duration::from_secs(5)),
    Write::Flush(Duration::from_secs(60)),
    Write::Delayed,
];

/// Promise: on random traces both engines count the same as a naive simulator, for every cache
/// size, block size and write policy.
#[test]
fn torture_naive() {
    let mut rng = StdRng::seed_from_u64(seed("torture_naive"));
    for case in 0..cases(60) {
        let count = rng.random_range(1..300);
        let most = rng.random_range(8..600);
        let trace = events(&mut rng, count, most);
        let block = [1, 7, 16, 64][rng.random_range(0..4)];
        let sizes: Vec<u64> = [1, 2, 3, 5, 9, 20, 100].map(|blocks| blocks * u64::from(block)).to_vec();
        let extras = Extras { programs: rng.random(), mapped: rng.random() };
        let grid = CacheGrid { extras, ..grid(block, &sizes, &WRITES) };
        let mut expected = Vec::new();
        for &size in &sizes {
            let capacity = usize::try_from(size / u64::from(block)).unwrap();
            for write in WRITES {
                expected.push(Naive::new(block.into(), capacity, write, grid.extras).run(&trace));
            }
        }
        let found = counts(&trace, &grid);
        for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let (size, write) = (sizes[n / 4], WRITES[n % 4]);
            assert_eq!(found, expected, "case {case}: block {block}, cache {size}, {write}, {count} events");
        }
    }
}

/// Promise: many grids together give the same results as each alone, for any size of batches.
#[test]
fn torture_together_as_alone() {
    let mut rng = StdRng::seed_from_u64(seed("torture_together"));
    for _ in 0..cases(2) {
        let trace = events(&mut rng, 1500, 3000);
        let policies: Vec<_> = PolicyName::ALL.to_vec();
        let grids: Vec<_> = [64, 256, 1024]
            .into_iter()
            .flat_map(|block| [(block, false), (block, true)])
            .map(|(block, programs)| CacheGrid {
                extras: Extras { programs, mapped: rng.random() },
                policies: policies.clone(),
                ages: rng.random(),
                ..grid(block, &[1024, 2048, 10_000], &WRITES)
            })
            .collect();
        let together = simulate(&mut MemorySource::new(&trace, 64), &grids, &|_| ()).unwrap();
        assert_eq!(together.events, 1500);
        for (grid, result) in grids.iter().zip(&together.results) {
            let batch = rng.random_range(1..3000);
            let alone =
                simulate(&mut MemorySource::new(&trace, batch), std::slice::from_ref(grid), &|_| ()).unwrap();
            assert_eq!(alone.results[0], *result);
            assert_eq!(result.cells.len(), policies.len() * 3 * 4);
        }
    }
}
