//! Tables and curves of any caches.

use super::counts::Write;
use super::model::Ages;
use super::sweep::{Cell as Found, GridResult, Simulated};
use crate::replacement::PolicyName;
use spindle_report::Outcome;
use spindle_report::number::{real, share};
use spindle_report::outcome::{Cell, Column, Figure, Plot, Series, Table};
use std::collections::{BTreeMap, BTreeSet};

/// Formats a size as the paper does.
pub(super) fn kbytes(size: u64) -> String {
    let kbytes = size / 1024;
    if size.is_multiple_of(1024) && kbytes.is_multiple_of(1024) {
        format!("{} Mbyte{}", kbytes / 1024, if kbytes == 1024 { "" } else { "s" })
    } else if size.is_multiple_of(1024) {
        format!("{kbytes} kbyte{}", if kbytes == 1 { "" } else { "s" })
    } else {
        format!("{size} bytes")
    }
}

/// Returns the miss ratio over the cache size, for a grid with one replacement policy.
pub(super) fn series(name: &str, result: &GridResult, write: Write) -> Series {
    let cells = result.cells.iter().filter(|cell| cell.write == write);
    curve(name.into(), cells)
}

fn curve<'a>(name: String, cells: impl Iterator<Item = &'a Found>) -> Series {
    let point = |cell: &Found| (real(cell.size) / real(1 << 20), 100.0 * cell.counts.miss_ratio());
    let mut points: Vec<_> = cells.map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Series { name, points }
}

/// Returns the results of any grids: one table, and a figure for each block size. The table has
/// only the sizes in `rows`; the figures have all.
#[must_use]
pub fn outcome(simulated: &Simulated, rows: &[u64]) -> Outcome {
    let results = &simulated.results;
    let aged = results.iter().flat_map(|result| &result.cells).any(|cell| cell.ages.is_some());
    let numbers = [("miss %", 1), ("disk reads", 0), ("disk writes", 0), ("saved %", 1), ("left", 0)];
    let seconds = [1, 2, 3].map(|which| (which, format!("> {} %", duration(Ages::OVER[which]))));
    let words = ["block", "cache", "policy", "write"].map(|name| Column::new(name, 0));
    let columns = words.into_iter().chain(numbers.map(|(name, decimals)| Column::new(name, decimals)));
    let columns =
        columns.chain(seconds.iter().filter(|_| aged).map(|(_, name)| Column::new(name.clone(), 1)));
    let mut table = Table::new("Caches over this trace", columns);
    for cell in results.iter().flat_map(|result| &result.cells).filter(|cell| rows.contains(&cell.size)) {
        let Found { block, size, policy, write, counts, ages } = cell;
        let words = [kbytes((*block).into()), kbytes(*size), policy.to_string(), write.to_string()];
        let numbers = [
            100.0 * counts.miss_ratio(),
            real(counts.disk_reads),
            real(counts.disk_writes),
            100.0 * counts.never_written(),
            real(counts.left),
        ];
        let over = seconds.iter().filter(|_| aged).map(|(which, _)| match ages {
            Some((dirty, _)) if !dirty.is_empty() => Cell::Number(100.0 * dirty.over(*which)),
            _ => Cell::Empty,
        });
        table.row(words.map(Cell::from).into_iter().chain(numbers.map(Cell::from)).chain(over));
    }
    let dirty = if aged { ". Times: share of blocks that were dirty for longer" } else { "" };
    table.explain(format!(
        "Miss: disk reads and writes as a share of all accesses. Saved: written blocks that were never written to the disk. Left: blocks still dirty at the end{dirty}.",
    ));
    let mut by_block: BTreeMap<u32, Vec<&Found>> = BTreeMap::new();
    for cell in results.iter().flat_map(|result| &result.cells) {
        by_block.entry(cell.block).or_default().push(cell);
    }
    let figures = by_block.iter().filter_map(|(&block, cells)| figure(block, cells)).collect();
    Outcome { tables: vec![table], figures, findings: findings(simulated) }
}

/// Formats seconds in the largest unit that divides them.
fn duration(seconds: u32) -> String {
    match seconds {
        s if s % 3600 == 0 => format!("{} h", s / 3600),
        s if s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

/// Returns the miss ratio over cache sizes for blocks of one size; `None` if every cache has only
/// one size.
fn figure(block: u32, cells: &[&Found]) -> Option<Figure> {
    let mut kinds: Vec<(PolicyName, Write)> = Vec::new();
    for cell in cells {
        if !kinds.contains(&(cell.policy, cell.write)) {
            kinds.push((cell.policy, cell.write));
        }
    }
    let writes = kinds.iter().any(|(_, write)| *write != kinds[0].1);
    let series = kinds.into_iter().map(|(policy, write)| {
        let name = if writes { format!("{policy}, {write}") } else { policy.to_string() };
        curve(name, cells.iter().copied().filter(|cell| (cell.policy, cell.write) == (policy, write)))
    });
    let series: Vec<_> = series.filter(|series| series.points.len() > 1).collect();
    let title = format!("Miss ratio by cache size, blocks of {}", kbytes(block.into()));
    let (x, y) = ("cache size (Mbytes)".into(), "miss ratio (%)".into());
    (!series.is_empty()).then_some(Figure { title, plot: Plot::Lines { x, y, series } })
}

fn findings(simulated: &Simulated) -> Vec<String> {
    let Simulated { results, info, events, span } = simulated;
    let mut findings =
        vec![format!("The trace has {events} events in {:.1} hours.", span.as_secs_f64() / 3600.0)];
    let mut listed = BTreeSet::new();
    for result in results {
        let Some(cell) = result.cells.first().filter(|cell| listed.insert(cell.block)) else { continue };
        let block = u64::from(cell.block);
        findings.push(format!(
            "In blocks of {}: {} accesses, {:.1}% of them writes; at most {} blocks held data at once ({}), the largest useful cache.",
            kbytes(block),
            cell.counts.accesses(),
            100.0 * share(cell.counts.writes, cell.counts.accesses()).unwrap_or(0.0),
            result.footprint,
            kbytes(result.footprint * block),
        ));
        if result.unknown_programs > 0 {
            let unknown = result.unknown_programs;
            findings.push(format!(
                "{unknown} program loads are not counted: the trace does not identify their files."
            ));
        }
    }
    if let Some(bytes) = results.iter().map(|result| result.mapped_bytes).max().filter(|&bytes| bytes > 0) {
        findings.push(format!(
            "Files were mapped into memory, {} in all. They are not counted, because a trace does not say what of them was touched; \
             cachesim --mapped counts all of it, an upper bound.",
            kbytes(bytes)
        ));
    }
    if info.lost > 0 {
        findings.push(format!("{} events were lost while recording: accesses are a lower bound.", info.lost));
    }
    findings
}
