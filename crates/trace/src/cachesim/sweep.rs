//! Many caches over one trace, in parallel.
//!
//! The trace is decoded once. In each round the calling thread decodes the next batch of events,
//! while all cores share the other work: for each size of block, its next accesses are made from
//! the events (once, whatever the number of caches), and every cache takes those of the round
//! before. So memory is that of the caches and a few chunks, and nothing depends on how many cores
//! there are.

use super::blocks::{Access, Blocks};
use super::counts::{Counts, Write};
use super::model::{Ages, Model};
use super::stack::{SIZES, Stack};
use crate::{Batch, Error, Info, Result, Source};
use spindle_cache::policy::replacement::PolicyName;
use spindle_clock::Mutex;
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::thread;
use std::time::Duration;

/// Caches of blocks of one size, for every combination of the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Bytes of a block.
    pub block: u32,
    /// Program loads count as reads of whole files (figure 7).
    pub programs: bool,
    /// Sizes of caches in bytes, at least of one block each.
    pub sizes: Vec<u64>,
    /// Policies of replacement. LRU costs one pass for all sizes and policies of writing together,
    /// others one for each size.
    pub policies: Vec<PolicyName>,
    /// Policies of writing.
    pub writes: Vec<Write>,
    /// Ages are wanted, too: LRU then costs a pass for each size as well.
    pub ages: bool,
}

/// What one cache did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Bytes of a block.
    pub block: u32,
    /// Bytes of the cache, as asked for; it has as many whole blocks as go into them.
    pub size: u64,
    /// What it gives up.
    pub policy: PolicyName,
    /// When it writes.
    pub write: Write,
    /// What it did.
    pub counts: Counts,
    /// How long blocks were dirty, and how long they stayed, if that was asked for.
    pub ages: Option<(Ages, Ages)>,
}

/// What the caches of a lane did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lot {
    /// By policy, size and policy of writing, in the order of the lane.
    pub cells: Vec<Cell>,
    /// Most blocks that held data of the trace at once: what the largest sensible cache holds.
    pub footprint: u64,
    /// Program loads that do not count as the trace does not tell their file.
    pub unknown_programs: u64,
}

impl Lot {
    /// Returns the cell of a size and a policy of writing, for lanes with one policy of
    /// replacement.
    #[must_use]
    pub fn cell(&self, size: u64, write: Write) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.size == size && cell.write == write)
    }
}

/// What came out of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// For each lane.
    pub lots: Vec<Lot>,
    /// What the trace says of itself.
    pub info: Info,
    /// Its events.
    pub events: u64,
    /// From the first event to the last.
    pub span: Duration,
}

/// What one cache of so many blocks did.
type Done = (u32, Write, Counts, Option<(Ages, Ages)>);

/// A cache, or several in one.
enum Engine {
    Stack(Stack),
    Model(Model),
}

/// An engine, and what it is for.
struct Runner {
    lane: usize,
    feed: usize,
    policy: PolicyName,
    /// In blocks, ascending, each once.
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

    fn finish(self, end: i64, writes: &[Write]) -> Vec<Done> {
        let Self { sizes, engine, .. } = self;
        match engine {
            Engine::Stack(stack) => {
                let by_write = writes.iter().zip(stack.finish(end));
                let done = |(&write, counts): (&Write, Vec<Counts>)| {
                    sizes.iter().zip(counts).map(move |(&size, counts)| (size, write, counts, None)).collect()
                };
                by_write.flat_map::<Vec<Done>, _>(done).collect()
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

/// What makes accesses of one size, and those of this and of the next round.
struct Feed {
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

/// Simulates all caches of all lanes over the rest of a trace. `progress` is told now and then how
/// much of it is done.
///
/// # Errors
/// [`Error::Refused`] for caches that cannot be, and what the source fails with.
pub fn simulate(
    source: &mut dyn Source,
    lanes: &[Lane],
    progress: &dyn Fn(Option<f64>),
) -> Result<Simulated> {
    let mut feeds: Vec<Feed> = Vec::new();
    let mut numbers = BTreeMap::new();
    let mut runners = Vec::new();
    for (n, lane) in lanes.iter().enumerate() {
        check(lane)?;
        let feed = *numbers.entry((lane.block, lane.programs)).or_insert_with(|| {
            let blocks = Blocks::new(lane.block, lane.programs);
            feeds.push(Feed { blocks, at: 0, ready: Vec::new(), filling: Vec::new(), failed: None });
            feeds.len() - 1
        });
        runners.extend(made(lane, n, feed));
    }
    let (mut events, mut first, mut last) = (0, None, i64::MIN);
    let (mut batch, mut following) = (Batch::default(), Batch::default());
    let mut more = true;
    loop {
        if feeds.iter().all(|feed| feed.at == batch.events.len() && feed.blocks.is_idle()) {
            std::mem::swap(&mut batch, &mut following);
            following.clear();
            for feed in &mut feeds {
                feed.at = 0;
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
        let idle = batch.events.is_empty() && feeds.iter().all(|feed| feed.ready.is_empty());
        if idle && !more {
            break;
        }
        round(&mut feeds, &mut runners, &batch, || {
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
        let (lane, policy) = (runner.lane, runner.policy);
        for (size, write, counts, ages) in runner.finish(last, &lanes[lane].writes) {
            done.insert((lane, policy, size, write), (counts, ages));
        }
    }
    let lot = |(n, lane): (usize, &Lane)| {
        let mut cells = Vec::new();
        for (&policy, &size) in pairs(&lane.policies, &lane.sizes) {
            for &write in &lane.writes {
                // Every combination has had its engine.
                let (counts, ages) = done[&(n, policy, capacity(lane, size), write)].clone();
                cells.push(Cell { block: lane.block, size, policy, write, counts, ages });
            }
        }
        let blocks = &feeds[numbers[&(lane.block, lane.programs)]].blocks;
        Lot { cells, footprint: blocks.footprint(), unknown_programs: blocks.unknown_programs() }
    };
    let lots = lanes.iter().enumerate().map(lot).collect();
    Ok(Simulated { lots, info: source.info(), events, span })
}

/// Returns every one of the first with every one of the second.
fn pairs<'a, A, B>(first: &'a [A], second: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    first.iter().flat_map(move |a| second.iter().map(move |b| (a, b)))
}

/// Refuses a lane that cannot be.
fn check(lane: &Lane) -> Result<()> {
    let refuse = |what: String| Err(Error::Refused(what));
    if lane.block == 0 {
        return refuse("a block has bytes".into());
    }
    for &size in &lane.sizes {
        let blocks = size / u64::from(lane.block);
        if blocks == 0 {
            return refuse(format!("a cache of {size} bytes holds no block of {} bytes", lane.block));
        }
        if blocks >= 1 << 31 {
            return refuse(format!("a cache of {size} bytes holds too many blocks of {} bytes", lane.block));
        }
    }
    if lane.sizes.len() > SIZES {
        return refuse(format!("{} sizes at once are more than {SIZES}", lane.sizes.len()));
    }
    Ok(())
}

/// Returns the blocks of each size of a lane, ascending, each once.
fn capacities(lane: &Lane) -> Vec<u32> {
    let mut sizes: Vec<u32> = lane.sizes.iter().map(|&size| capacity(lane, size)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn capacity(lane: &Lane, size: u64) -> u32 {
    u32::try_from(size / u64::from(lane.block)).unwrap_or(u32::MAX)
}

/// Returns the caches of a lane, which has been checked.
fn made(lane: &Lane, number: usize, feed: usize) -> Vec<Runner> {
    let mut runners = Vec::new();
    for &policy in &lane.policies {
        let mut add = |sizes, engine| runners.push(Runner { lane: number, feed, policy, sizes, engine });
        let sizes = capacities(lane);
        if policy == PolicyName::Lru && !lane.ages {
            let stack = Stack::new(&sizes, &lane.writes);
            add(sizes, Engine::Stack(stack));
            continue;
        }
        for size in sizes.into_iter().filter_map(NonZeroU32::new) {
            add(vec![size.get()], Engine::Model(Model::new(policy, size, &lane.writes)));
        }
    }
    runners
}

/// A round: `decode` on this thread, everything else wherever a core is free.
fn round(
    feeds: &mut [Feed],
    runners: &mut [Runner],
    batch: &Batch,
    mut decode: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut jobs = Vec::new();
    let mut ready: Vec<&[Access]> = Vec::new();
    for Feed { blocks, at, ready: accesses, filling, failed } in feeds.iter_mut() {
        ready.push(accesses);
        jobs.push(Job::Fill { blocks, at, into: filling, failed });
    }
    let takes = runners.iter_mut().map(|runner| (ready[runner.feed], runner));
    jobs.extend(
        takes
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
    for feed in feeds {
        if let Some(error) = feed.failed.take() {
            return Err(error);
        }
        std::mem::swap(&mut feed.ready, &mut feed.filling);
    }
    Ok(())
}
