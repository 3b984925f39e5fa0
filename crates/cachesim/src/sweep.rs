//! Simulates many caches for one trace, in parallel.
//!
//! The trace is decoded once. In each round the calling thread decodes the next batch of events,
//! while all cores share the other work: for each block size, the next accesses are made from the
//! events (once, for any number of caches), and every cache processes the accesses of the round
//! before. Memory holds the caches and a few chunks, and results do not depend on the number of
//! cores.

use super::blocks::{Access, Blocks, Extras};
use super::counts::{Counts, Write};
use super::model::{Ages, Model};
use super::stack::{MAX_SIZES, Stack};
use crate::replacement::PolicyName;
use spindle_clock::Mutex;
use spindle_trace::{Batch, Error, Info, Result, Source};
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::thread;
use std::time::Duration;

/// A grid of caches with blocks of one size: every combination of sizes and policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheGrid {
    /// Block size in bytes.
    pub block: u32,
    /// What counts besides the calls that read and write.
    pub extras: Extras,
    /// Cache sizes in bytes, each of at least one block.
    pub sizes: Vec<u64>,
    /// Replacement policies. LRU needs one pass for all sizes and write policies together, others
    /// need one pass for each size.
    pub policies: Vec<PolicyName>,
    /// Write policies.
    pub writes: Vec<Write>,
    /// Ages are measured, too; LRU then needs one pass for each size as well.
    pub ages: bool,
}

/// Results of one cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Block size in bytes.
    pub block: u32,
    /// Requested cache size in bytes; the cache has as many whole blocks as fit.
    pub size: u64,
    /// Replacement policy.
    pub policy: PolicyName,
    /// Write policy.
    pub write: Write,
    /// Counts.
    pub counts: Counts,
    /// Times for which blocks were dirty and for which they stayed in the cache, if requested.
    pub ages: Option<(Ages, Ages)>,
}

/// Results of a grid of caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridResult {
    /// Results by replacement policy, size and write policy, in the order of the grid.
    pub cells: Vec<Cell>,
    /// Maximum number of blocks that held data at once: the largest useful cache size.
    pub footprint: u64,
    /// Number of program loads that are not counted because the trace does not identify their file.
    pub unknown_programs: u64,
    /// Bytes that were mapped into memory and are not counted.
    pub mapped_bytes: u64,
}

impl GridResult {
    /// Returns the result for a size and a write policy, in grids with one replacement policy.
    #[must_use]
    pub fn cell(&self, size: u64, write: Write) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.size == size && cell.write == write)
    }
}

/// Results of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// Results of each grid.
    pub results: Vec<GridResult>,
    /// Information about the trace.
    pub info: Info,
    /// Number of events.
    pub events: u64,
    /// Time from the first event to the last.
    pub span: Duration,
}

/// Results of one cache with this number of blocks.
type CacheResult = (u32, Write, Counts, Option<(Ages, Ages)>);

/// The simulation of one cache, or of several at once.
enum Engine {
    Stack(Stack),
    Model(Model),
}

/// An engine with its configuration.
struct Runner {
    grid: usize,
    stream: usize,
    policy: PolicyName,
    /// Sizes in blocks, ascending, without duplicates.
    sizes: Vec<u32>,
    engine: Engine,
}

impl Runner {
    fn start(&mut self, time: i64) {
        match &mut self.engine {
            Engine::Stack(stack) => stack.start(time),
            Engine::Model(model) => model.start(time),
        }
    }

    fn take(&mut self, accesses: &[Access]) {
        match &mut self.engine {
            Engine::Stack(stack) => stack.take(accesses),
            Engine::Model(model) => model.take(accesses),
        }
    }

    fn finish(self, end: i64, writes: &[Write]) -> Vec<CacheResult> {
        let Self { sizes, engine, .. } = self;
        match engine {
            Engine::Stack(stack) => {
                let by_write = writes.iter().zip(stack.finish(end));
                let done = |(&write, counts): (&Write, Vec<Counts>)| {
                    sizes.iter().zip(counts).map(move |(&size, counts)| (size, write, counts, None)).collect()
                };
                by_write.flat_map::<Vec<CacheResult>, _>(done).collect()
            }
            Engine::Model(model) => {
                let (outcomes, stays) = model.finish(end);
                let done = |(&write, outcome): (&Write, super::model::Outcome)| {
                    (sizes[0], write, outcome.counts, Some((outcome.dirty, stays.clone())))
                };
                writes.iter().zip(outcomes).map(done).collect()
            }
        }
    }
}

/// Makes accesses with one block size; holds those of the current round and of the next.
struct AccessStream {
    blocks: Blocks,
    at: usize,
    ready: Vec<Access>,
    filling: Vec<Access>,
    failed: Option<Error>,
}

/// A piece of work of a round.
enum Job<'a> {
    Take(&'a mut Runner, &'a [Access]),
    Fill {
        blocks: &'a mut Blocks,
        at: &'a mut usize,
        into: &'a mut Vec<Access>,
        failed: &'a mut Option<Error>,
    },
}

/// Simulates all caches of all grids for the rest of a trace. `progress` receives the part that is
/// done now and then.
///
/// # Errors
/// [`Error::Refused`] for impossible caches, and errors of the source.
pub fn simulate(
    source: &mut dyn Source,
    grids: &[CacheGrid],
    progress: &dyn Fn(Option<f64>),
) -> Result<Simulated> {
    let mut streams: Vec<AccessStream> = Vec::new();
    let mut numbers = BTreeMap::new();
    let mut runners = Vec::new();
    for (n, grid) in grids.iter().enumerate() {
        check(grid)?;
        let stream = *numbers.entry((grid.block, grid.extras)).or_insert_with(|| {
            let blocks = Blocks::new(grid.block, grid.extras);
            streams.push(AccessStream {
                blocks,
                at: 0,
                ready: Vec::new(),
                filling: Vec::new(),
                failed: None,
            });
            streams.len() - 1
        });
        runners.extend(self::runners(grid, n, stream));
    }
    let (mut events, mut first, mut last) = (0, None, i64::MIN);
    let (mut batch, mut following) = (Batch::default(), Batch::default());
    let mut more = true;
    loop {
        if streams.iter().all(|stream| stream.at == batch.events.len() && stream.blocks.is_idle()) {
            std::mem::swap(&mut batch, &mut following);
            following.clear();
            for stream in &mut streams {
                stream.at = 0;
            }
            events += batch.events.len() as u64;
            if let (None, Some(event)) = (first, batch.events.first()) {
                first = Some(event.time);
                for runner in &mut runners {
                    runner.start(event.time);
                }
            }
            last = batch.events.iter().map(|event| event.time).fold(last, i64::max);
        }
        let idle = batch.events.is_empty() && streams.iter().all(|stream| stream.ready.is_empty());
        if idle && !more {
            break;
        }
        round(&mut streams, &mut runners, &batch, || {
            if more && following.events.is_empty() {
                more = source.next(&mut following)?;
                progress(source.progress());
            }
            Ok(())
        })?;
    }
    let span = Duration::from_nanos(first.map_or(0, |first| last.abs_diff(first)));
    let mut done = BTreeMap::new();
    for runner in runners {
        let (grid, policy) = (runner.grid, runner.policy);
        for (size, write, counts, ages) in runner.finish(last, &grids[grid].writes) {
            done.insert((grid, policy, size, write), (counts, ages));
        }
    }
    let result = |(n, grid): (usize, &CacheGrid)| {
        let mut cells = Vec::new();
        for (&policy, &size) in pairs(&grid.policies, &grid.sizes) {
            for &write in &grid.writes {
                // Every combination has had its engine.
                let (counts, ages) = done[&(n, policy, capacity(grid, size), write)].clone();
                cells.push(Cell { block: grid.block, size, policy, write, counts, ages });
            }
        }
        let blocks = &streams[numbers[&(grid.block, grid.extras)]].blocks;
        GridResult {
            cells,
            footprint: blocks.footprint(),
            unknown_programs: blocks.unknown_programs(),
            mapped_bytes: blocks.mapped_bytes(),
        }
    };
    let results = grids.iter().enumerate().map(result).collect();
    Ok(Simulated { results, info: source.info(), events, span })
}

/// Returns all pairs of an item of `first` and one of `second`.
fn pairs<'a, A, B>(first: &'a [A], second: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    first.iter().flat_map(move |a| second.iter().map(move |b| (a, b)))
}

/// Refuses an impossible grid.
fn check(grid: &CacheGrid) -> Result<()> {
    let refuse = |what: String| Err(Error::Refused(what));
    if grid.block == 0 {
        return refuse("the block size must be above 0".into());
    }
    for &size in &grid.sizes {
        let blocks = size / u64::from(grid.block);
        if blocks == 0 {
            return refuse(format!("a cache of {size} bytes holds no block of {} bytes", grid.block));
        }
        if blocks >= 1 << 31 {
            return refuse(format!("a cache of {size} bytes holds too many blocks of {} bytes", grid.block));
        }
    }
    if grid.sizes.len() > MAX_SIZES {
        return refuse(format!("{} sizes at once are more than {MAX_SIZES}", grid.sizes.len()));
    }
    Ok(())
}

/// Returns the cache sizes of a grid in blocks, ascending, without duplicates.
fn capacities(grid: &CacheGrid) -> Vec<u32> {
    let mut sizes: Vec<u32> = grid.sizes.iter().map(|&size| capacity(grid, size)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn capacity(grid: &CacheGrid, size: u64) -> u32 {
    u32::try_from(size / u64::from(grid.block)).unwrap_or(u32::MAX)
}

/// Returns the runners for a grid, which must have been checked.
fn runners(grid: &CacheGrid, number: usize, stream: usize) -> Vec<Runner> {
    let mut runners = Vec::new();
    for &policy in &grid.policies {
        let mut add = |sizes, engine| runners.push(Runner { grid: number, stream, policy, sizes, engine });
        let sizes = capacities(grid);
        if policy == PolicyName::Lru && !grid.ages {
            let stack = Stack::new(&sizes, &grid.writes);
            add(sizes, Engine::Stack(stack));
            continue;
        }
        for size in sizes.into_iter().filter_map(NonZeroU32::new) {
            add(vec![size.get()], Engine::Model(Model::new(policy, size, &grid.writes)));
        }
    }
    runners
}

/// Does a round: `decode` runs on this thread, everything else on any free core.
fn round(
    streams: &mut [AccessStream],
    runners: &mut [Runner],
    batch: &Batch,
    mut decode: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut jobs = Vec::new();
    let mut ready: Vec<&[Access]> = Vec::new();
    for AccessStream { blocks, at, ready: accesses, filling, failed } in streams.iter_mut() {
        ready.push(accesses);
        jobs.push(Job::Fill { blocks, at, into: filling, failed });
    }
    let tasks = runners.iter_mut().map(|runner| (ready[runner.stream], runner));
    jobs.extend(
        tasks
            .filter(|(accesses, _)| !accesses.is_empty())
            .map(|(accesses, runner)| Job::Take(runner, accesses)),
    );
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(jobs.len());
    let queue = Mutex::new(jobs);
    let work = || {
        loop {
            let Some(job) = queue.lock().pop() else { break };
            match job {
                Job::Take(runner, accesses) => runner.take(accesses),
                Job::Fill { blocks, at, into, failed } => {
                    *failed = blocks.fill(&batch.events, at, into).err();
                }
            }
        }
    };
    let decoded = thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        let decoded = decode();
        work();
        decoded
    });
    decoded?;
    for stream in streams {
        if let Some(error) = stream.failed.take() {
            return Err(error);
        }
        std::mem::swap(&mut stream.ready, &mut stream.filling);
    }
    Ok(())
}
