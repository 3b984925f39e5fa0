//! Tables III to V and figures 1 to 4 of the 1985 paper: the analyser over synthetic traces of its
//! three machines.

use crate::{Outcome, Progress, Result};
use spindle_analyze::paper::{TRACES, Trace};
use spindle_analyze::{Findings, Orders, Show, analyze};
use spindle_report::number::real;
use spindle_report::outcome::{Column, Comparison, Table};
use spindle_synth::{Length, Model, Synthesis};
use spindle_trace::Kind;
use spindle_trace::follow::Mode;

const SEED: u64 = 1;
/// How far a share may be off, in percent of the whole.
const POINTS: f64 = 2.0;
/// How far a rate may be off, in parts of the paper's.
const RATES: f64 = 0.15;

/// A row of a table: its name, and what to compare; nothing where the paper has nothing to compare
/// with.
type Row = (&'static str, fn(&Findings, &Trace) -> Comparison, Option<&'static str>);

fn hourly(found: &Findings, paper: &Trace, kind: Kind) -> Comparison {
    let ours = real(found.totals.count(kind)) / (found.totals.seconds() / 3600.0);
    Comparison::new(paper.count(kind).unwrap_or(0.0) / paper.hours, ours, RATES)
}

/// Returns a share of the paper's, and ours, in percent.
fn points(paper: f64, part: u64, whole: u64) -> Comparison {
    let (theirs, ours) = (100.0 * paper, 100.0 * real(part) / real(whole.max(1)));
    Comparison::new(theirs, ours, POINTS / theirs)
}

/// Returns a mean of the paper's with its deviation, and ours.
fn within((mean, deviation): (f64, f64), ours: f64) -> Comparison {
    Comparison::new(mean, ours, deviation / mean)
}

const fn of(found: &Findings, mode: Mode) -> &Orders {
    &found.patterns.modes[mode as usize]
}

const TRUNCATIONS: &str = "Too few to be worth a model of their own: one event in 700.";
const USERS: &str = "How many different users come in three days hangs on a few who come once.";
const TABLE_3: [Row; 8] = [
    ("create events", |f, p| hourly(f, p, Kind::Create), None),
    ("open events", |f, p| hourly(f, p, Kind::Open), None),
    ("close events", |f, p| hourly(f, p, Kind::Close), None),
    ("seek events", |f, p| hourly(f, p, Kind::Seek), Some(MIX)),
    ("unlink events", |f, p| hourly(f, p, Kind::Unlink), None),
    ("truncate events", |f, p| hourly(f, p, Kind::Truncate), Some(TRUNCATIONS)),
    ("execve events", |f, p| hourly(f, p, Kind::Exec), None),
    (
        "MB read and written",
        |f, p| {
            let ours = real(f.totals.bytes()) / 1e6 / (f.totals.seconds() / 3600.0);
            Comparison::new(p.moved_mb / p.hours, ours, RATES)
        },
        None,
    ),
];
const TABLE_4: [Row; 7] = [
    ("bytes per second", |f, p| Comparison::new(p.throughput, f.throughput(), RATES), None),
    ("users", |f, p| Comparison::new(p.users, real(f.activity.users), RATES), Some(USERS)),
    (
        "most active users in ten minutes",
        |f, p| Comparison::new(p.most_active, real(f.activity.minutes.most), 0.3),
        None,
    ),
    ("active users, ten minutes", |f, p| within(p.minute_users, f.activity.minutes.active.mean), None),
    (
        "bytes/s per active user, ten minutes",
        |f, p| within(p.minute_rate, f.activity.minutes.throughput.mean),
        None,
    ),
    ("active users, ten seconds", |f, p| within(p.second_users, f.activity.seconds.active.mean), Some(MIX)),
    (
        "bytes/s per active user, ten seconds",
        |f, p| within(p.second_rate, f.activity.seconds.throughput.mean),
        None,
    ),
];
const BYTES: &str = "The shares of bytes hang on the few files that are larger than 25 KB, of which the paper says that they make 30 to 40 % of \
    all bytes, but not how they are read and written.";
const MIX: &str = "What E3 and C4 did differently from A5 the paper says in a sentence each; their models are that of A5 with other users \
    and other shares of the same commands.";
const TABLE_5: [Row; 7] = [
    (
        "whole-file reads, % of read-only accesses",
        |f, p| points(p.whole_reads.1, of(f, Mode::Read).whole, of(f, Mode::Read).accesses),
        Some(MIX),
    ),
    (
        "whole-file writes, % of write-only accesses",
        |f, p| points(p.whole_writes.1, of(f, Mode::Write).whole, of(f, Mode::Write).accesses),
        Some(MIX),
    ),
    (
        "whole-file transfers, % of bytes",
        |f, p| points(p.whole_mb.1, f.patterns.all().whole_bytes, f.totals.bytes()),
        Some(BYTES),
    ),
    (
        "sequential, % of read-only accesses",
        |f, p| points(p.sequential_reads.1, of(f, Mode::Read).sequential, of(f, Mode::Read).accesses),
        Some(MIX),
    ),
    (
        "sequential, % of write-only accesses",
        |f, p| points(p.sequential_writes.1, of(f, Mode::Write).sequential, of(f, Mode::Write).accesses),
        Some(MIX),
    ),
    (
        "sequential, % of read-write accesses",
        |f, p| points(p.sequential_both.1, of(f, Mode::Both).sequential, of(f, Mode::Both).accesses),
        Some(MIX),
    ),
    (
        "sequential, % of bytes",
        |f, p| points(p.sequential_mb.1, f.patterns.all().sequential_bytes, f.totals.bytes()),
        Some(BYTES),
    ),
];

fn table(title: &str, rows: &[Row], decimals: usize, found: &[Findings]) -> Table {
    let names = TRACES.iter().map(|paper| Column::new(paper.name, decimals));
    let mut table = Table::new(title, std::iter::once(Column::new("", 0)).chain(names));
    for (name, compare, note) in rows {
        let cells = found.iter().zip(&TRACES).map(|(found, paper)| compare(found, paper).into());
        let row = table.row(std::iter::once((*name).into()).chain(cells));
        if let Some(note) = note {
            row.explain(*note);
        }
    }
    table
}

/// Runs them.
pub(super) fn run(progress: &dyn Progress) -> Result<Outcome> {
    let mut found = Vec::new();
    for (n, paper) in TRACES.iter().enumerate() {
        progress.at(n as u64, TRACES.len() as u64, paper.name);
        let name = paper.name.to_ascii_lowercase();
        let model = Model::parse(Model::built_in(&name).unwrap_or_default(), &name)?;
        let length = Length::Hours(model.hours);
        found.push(analyze(&mut Synthesis::new(model, length, SEED), |_| {})?);
    }
    let mut outcome = Outcome::default();
    outcome.tables.push(table("Table III, in an hour", &TABLE_3, 0, &found));
    outcome.tables.push(table("Table IV", &TABLE_4, 1, &found));
    outcome.tables.push(table("Table V, in percent", &TABLE_5, 0, &found));
    for section in found[0].sections(&Show::default()) {
        if section.id == "table-1" {
            outcome.findings.extend(section.outcome.findings);
        } else if section.id.starts_with("figure") {
            let titled = section
                .outcome
                .tables
                .into_iter()
                .map(|table| Table { title: section.title.clone(), ..table });
            outcome.tables.extend(titled);
            outcome.figures.extend(section.outcome.figures);
        }
    }
    Ok(outcome)
}
