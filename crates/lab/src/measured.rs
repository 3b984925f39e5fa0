//! What `spindle trace report` measures besides its advice: how files are used, and what caches of
//! all sizes do.

use spindle_analyze::{Caches, Dimension, Findings, Show, analyze_by};
use spindle_cachesim::replacement::PolicyName;
use spindle_cachesim::{CacheGrid, Extras, Simulated, Write, simulate, table};
use spindle_report::{Outcome, Section};
use spindle_trace::{Result, Source};
use std::time::Duration;

/// The size of block in which caches are compared, in bytes.
const BLOCK: u32 = 4096;
/// Policies of writing that are compared.
const WRITES: [Write; 3] = [Write::Through, Write::Flush(Duration::from_secs(30)), Write::Delayed];
/// Caches from 1 MiB to 1 TiB, two for each doubling.
const CACHES: std::ops::RangeInclusive<u32> = 40..=80;
/// Number of users, programs and directories that are listed.
const TOP: usize = 10;

/// Opens the trace anew.
pub type Open<'a> = &'a dyn Fn() -> Result<Box<dyn Source>>;

/// The findings of a trace, and caches over it.
#[derive(Debug)]
pub struct Measured {
    /// How files are used.
    pub findings: Findings,
    /// The caches of Table I of the 1985 paper.
    selected: Caches,
    /// LRU caches as a table and curves.
    shown: Outcome,
}

impl Measured {
    /// Reads the trace twice. `progress` is called with the reading and the part of it that is
    /// done.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn of(open: Open<'_>, progress: &dyn Fn(&'static str, Option<f64>)) -> Result<Self> {
        let on_progress = |done| progress("how files are used", done);
        let findings = analyze_by(&mut *open()?, &Dimension::ALL, TOP, on_progress)?;
        let mut lanes = vec![CacheGrid {
            block: BLOCK,
            extras: Extras::default(),
            sizes: CACHES.map(doubling).collect(),
            policies: vec![PolicyName::Lru],
            writes: WRITES.to_vec(),
            ages: false,
        }];
        lanes.extend(Caches::grids());
        let mut simulated = simulate(&mut *open()?, &lanes, &|done| progress("caches of all sizes", done))?;
        let selected = Caches::of(&simulated.results[1..]);
        Ok(Self { findings, selected, shown: shown(&mut simulated) })
    }

    /// Returns everything as sections of a report: how files are used, and last the caches.
    #[must_use]
    pub fn sections(&self, paper: bool) -> Vec<Section> {
        let mut sections =
            self.findings.sections(&Show { paper, caches: Some(self.selected.clone()), top: TOP });
        sections.push(Section {
            id: "caches".into(),
            title: "Caches".into(),
            text: "Disk accesses for file data that a cache would have needed, in parts of the accesses of blocks.".into(),
            outcome: self.shown.clone(),
        });
        sections
    }
}

/// Returns the caches that are of any use, with a row for every fourth size.
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
