//! The measurements on which advice is based.

use crate::waste::{Object, Organisation, Survey};
use spindle_analyze::{Caches, Dimension, Findings, Show, analyze_by};
use spindle_cachesim::replacement::PolicyName;
use spindle_cachesim::{Ages, CacheGrid, Cell, Counts, Extras, Simulated, Write, simulate, table};
use spindle_report::{Outcome, Section};
use spindle_trace::{Batch, Event, FileId, Flags, Info, Kind, Result, Source};
use std::collections::HashMap;
use std::time::Duration;

/// Sizes of blocks that are compared, in bytes; fragments are an eighth.
pub const BLOCKS: [u32; 5] = [4096, 8192, 16384, 32768, 65536];
/// The size of block in which caches are compared.
pub const BLOCK: u32 = BLOCKS[0];
/// Policies of writing that are compared.
pub const WRITES: [Write; 3] = [Write::Through, Write::Flush(Duration::from_secs(30)), Write::Delayed];
/// What a cache counted under each of [`WRITES`].
pub type Counted = [Counts; WRITES.len()];
/// Returns the disk accesses, with those that blocks still modified at the end will need.
pub fn disk(counts: &Counts) -> u64 {
    counts.ios() + counts.left
}

/// Caches from 1 MiB to 1 TiB, two for each doubling.
const CACHES: std::ops::RangeInclusive<u32> = 40..=80;
/// A cache is large enough when it saves this part of what the largest would.
pub const ENOUGH: f64 = 0.9;
/// For how long changes of names are counted together, in ns: as long as a log may wait with its
/// checkpoint.
const WINDOW: i64 = 30 * 1_000_000_000;

/// Number of users, programs and directories that are listed.
const TOP: usize = 10;

/// Opens the trace anew.
pub type Open<'a> = &'a dyn Fn() -> Result<Box<dyn Source>>;

/// The findings of a trace, and the results of simulations with it.
#[derive(Debug)]
pub struct Measured {
    /// How files are used.
    pub findings: Findings,
    /// Changes of names.
    pub names: Names,
    /// Space of the remaining files in file systems of [`BLOCKS`], with fragments and without;
    /// `None` if no file's size is known.
    pub population: Option<Survey>,
    /// LRU caches, for each of [`BLOCKS`].
    pub caches: Vec<Cache>,
    /// The caches of Table I of the 1985 paper.
    selected: Caches,
    /// The caches of the usual block as a table and curves.
    shown: Outcome,
    /// How long blocks are dirty in a cache that is large enough, under [`WRITES`].
    pub dirty: Vec<Ages>,
}

/// Changes of names: what a file system has to write besides data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names {
    /// All of them.
    pub changes: u64,
    /// The most within 30 seconds.
    pub most: u64,
}

/// LRU caches of blocks of one size.
#[derive(Clone, Debug)]
pub struct Cache {
    /// Bytes of a block.
    pub block: u32,
    /// Sizes in bytes, ascending, and what was counted under [`WRITES`].
    pub sizes: Vec<(u64, Counted)>,
    /// Bytes that the data needs at most at a time.
    pub footprint: u64,
}

impl Cache {
    /// Returns the least size that saves [`ENOUGH`] of the disk accesses that the largest saves,
    /// with delayed writes; and its counts.
    #[must_use]
    pub fn enough(&self) -> Option<&(u64, Counted)> {
        let ios = |counts: &Counted| disk(&counts[WRITES.len() - 1]);
        let (first, last) = (self.sizes.first()?, self.sizes.last()?);
        let accesses = first.1[0].accesses();
        let most = accesses.saturating_sub(ios(&last.1));
        #[allow(clippy::cast_precision_loss)] // Shares.
        let wanted = most as f64 * ENOUGH;
        #[allow(clippy::cast_precision_loss)]
        self.sizes.iter().find(|(_, counts)| accesses.saturating_sub(ios(counts)) as f64 >= wanted)
    }

    /// Returns what was counted with this size.
    #[must_use]
    pub fn at(&self, size: u64) -> Option<&Counted> {
        self.sizes.iter().find(|(found, _)| *found == size).map(|(_, counts)| counts)
    }
}

impl Measured {
    /// Reads the trace three times. `progress` is called with the reading and the part of it that
    /// is done.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn of(open: Open<'_>, progress: &dyn Fn(&'static str, Option<f64>)) -> Result<Self> {
        let mut watched = Watched { inner: open()?, watch: Watch::default() };
        let on_progress = |done| progress("how files are used", done);
        let findings = analyze_by(&mut watched, &Dimension::ALL, TOP, on_progress)?;
        let Watch { names, sizes, .. } = watched.watch;

        let lane = |block, sizes, ages| CacheGrid {
            block,
            extras: Extras::default(),
            sizes,
            policies: vec![PolicyName::Lru],
            writes: WRITES.to_vec(),
            ages,
        };
        let mut lanes = BLOCKS.map(|block| lane(block, CACHES.map(doubling).collect(), false)).to_vec();
        lanes.extend(Caches::grids());
        let mut simulated = simulate(&mut *open()?, &lanes, &|done| progress("caches of all sizes", done))?;
        let selected = Caches::of(&simulated.results[BLOCKS.len()..]);
        let caches: Vec<_> = BLOCKS
            .into_iter()
            .zip(&simulated.results)
            .map(|(block, lot)| Cache {
                block,
                sizes: by_size(&lot.cells),
                footprint: lot.footprint * u64::from(block),
            })
            .collect();

        let shown = shown(&mut simulated);
        let dirty = match caches[0].enough() {
            Some(&(size, _)) => {
                let lanes = [lane(BLOCK, vec![size], true)];
                let simulated =
                    simulate(&mut *open()?, &lanes, &|done| progress("how long data is at risk", done))?;
                let ages = |cell: &Cell| cell.ages.clone().map(|(dirty, _)| dirty).unwrap_or_default();
                simulated.results[0].cells.iter().map(ages).collect()
            }
            None => Vec::new(),
        };
        Ok(Self { findings, names, population: survey(&sizes), caches, selected, shown, dirty })
    }

    /// Returns everything as sections of a report: how files are used, caches, and last the advice.
    #[must_use]
    pub fn sections(&self, advice: &[super::Advice], paper: bool) -> Vec<Section> {
        let mut sections =
            self.findings.sections(&Show { paper, caches: Some(self.selected.clone()), top: TOP });
        sections.push(Section {
            id: "caches".into(),
            title: "Caches".into(),
            text: "Disk accesses for file data that a cache would have needed, in parts of the accesses of blocks.".into(),
            outcome: self.shown.clone(),
        });
        sections.push(super::section(advice));
        sections
    }
}

/// Returns the caches of the usual block, those that are of any use, with a row for every fourth
/// size.
fn shown(simulated: &mut Simulated) -> Outcome {
    let Simulated { results: lots, .. } = simulated;
    lots.truncate(1);
    let useful = lots[0].footprint * u64::from(BLOCK) * 2;
    lots[0].cells.retain(|cell| cell.size <= useful.max(doubling(*CACHES.start())));
    let rows: Vec<_> = CACHES.step_by(4).map(doubling).collect();
    table::outcome(simulated, &rows)
}

/// Returns a size of cache: two for each doubling.
fn doubling(half: u32) -> u64 {
    let size = 1u64 << (half / 2);
    if half.is_multiple_of(2) { size } else { size / 2 * 3 }
}

/// Returns the cells with the policies of writing of each size together.
fn by_size(cells: &[Cell]) -> Vec<(u64, Counted)> {
    let of = |cells: &[Cell]| {
        Some((
            cells[0].size,
            Counted::try_from(cells.iter().map(|cell| cell.counts).collect::<Vec<_>>()).ok()?,
        ))
    };
    cells.chunks(WRITES.len()).filter_map(of).collect()
}

/// Returns the organisations of [`BLOCKS`], each with fragments and then without.
pub fn organisations() -> Vec<Organisation> {
    let fast = |bsize, fsize| Organisation::Fast { bsize, fsize, ufs2: true, short_links: true };
    BLOCKS.into_iter().flat_map(|block| [fast(block, block / 8), fast(block, block)]).collect()
}

fn survey(sizes: &HashMap<FileId, u64>) -> Option<Survey> {
    let mut survey = Survey::new(&organisations());
    for &size in sizes.values() {
        survey.add(Object::File(size));
    }
    (survey.bytes() > 0).then_some(survey)
}

/// The counts that are kept while the trace is read.
#[derive(Default)]
struct Watch {
    names: Names,
    /// The window that is counted now, and its changes.
    window: (i64, u64),
    /// Files that are there, with the sizes last seen.
    sizes: HashMap<FileId, u64>,
}

impl Watch {
    fn event(&mut self, event: &Event) {
        if matches!(event.kind, Kind::Create | Kind::Unlink | Kind::Rename | Kind::Mkdir | Kind::Rmdir) {
            let window = event.time.div_euclid(WINDOW);
            if self.window.0 != window {
                self.window = (window, 0);
            }
            self.window.1 += 1;
            self.names.changes += 1;
            self.names.most = self.names.most.max(self.window.1);
        }
        if event.flags.has(Flags::DIRECTORY) {
            return;
        }
        match event.kind {
            Kind::Unlink | Kind::Close if event.flags.has(Flags::LAST) => {
                self.sizes.remove(&event.file);
            }
            Kind::Open | Kind::Create | Kind::Close | Kind::Truncate | Kind::Exec
                if event.file != FileId::default() =>
            {
                self.sizes.insert(event.file, event.size);
            }
            _ => {}
        }
    }
}

/// A source that is watched.
struct Watched {
    inner: Box<dyn Source>,
    watch: Watch,
}

impl Source for Watched {
    fn info(&self) -> Info {
        self.inner.info()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        let more = self.inner.next(batch)?;
        batch.events.iter().for_each(|event| self.watch.event(event));
        Ok(more)
    }

    fn progress(&self) -> Option<f64> {
        self.inner.progress()
    }
}
