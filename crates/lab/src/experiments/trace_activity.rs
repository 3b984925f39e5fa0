//! Tables III to V and figures 1 to 4 of the 1985 paper: the analyser over synthetic traces of its
//! three machines.

use crate::{Outcome, Progress, Result};
use spindle_analyze::paper::{TRACES, Trace};
use spindle_analyze::{Findings, Orders, Show, analyze};
use spindle_report::number::real;
use spindle_report::outcome::{Column, Comparison, Evidence, Note, Published, Table};
use spindle_synth::{Length, Model, Synthesis};
use spindle_trace::Kind;
use spindle_trace::follow::Mode;

const SEED: u64 = 1;
/// A row of a table: its name, and what to compare; nothing where the paper has nothing to compare
/// with.
type Row = (&'static str, fn(&Findings, &Trace) -> Comparison, Option<Note>);

/// Returns a comparison with a figure to which the models were fitted: all of these tables.
const fn fitted(paper: Published, ours: f64) -> Comparison {
    Comparison::new(Evidence::Fitted, paper, ours)
}

/// Returns a count of the paper's, and ours, in an hour.
fn in_an_hour(found: &Findings, paper: &Trace, theirs: f64, ours: f64) -> Comparison {
    let ours = ours / (found.totals.seconds() / 3600.0);
    fitted(Published::amount(theirs / paper.hours, 1.0 / paper.hours), ours)
}

fn hourly(found: &Findings, paper: &Trace, kind: Kind) -> Comparison {
    in_an_hour(found, paper, paper.count(kind).unwrap_or(0.0), real(found.totals.count(kind)))
}

/// Returns a share of the paper's, and ours, in percent.
fn points(paper: f64, part: u64, whole: u64) -> Comparison {
    fitted(Published::percent(100.0 * paper, 1.0), 100.0 * real(part) / real(whole.max(1)))
}

const fn of(found: &Findings, mode: Mode) -> &Orders {
    &found.patterns.modes[mode as usize]
}

const TRUNCATIONS: Note = Note::new("Too few to be worth a model of their own: one event in 700.", 0.7, 1.0);
const BUSIEST: Note = Note::new(
    "The largest of some hundred intervals hangs on how the hours of a day differ, which was chosen.",
    0.6,
    1.0,
);
const FEW: Note = Note::new(
    "The paper's mean hangs on a few users of large programs (C4's deviates by more than itself), whose work the model gives to all.",
    0.7,
    1.0,
);
const BUNCHES: Note = Note::new(
    "Users of the models spread the events of a command over more intervals of ten seconds than those of the paper, so that more \
     of them are active and each moves less. Over ten minutes this is the same.",
    0.6,
    1.7,
);
const TABLE_3: [Row; 8] = [
    ("create events", |f, p| hourly(f, p, Kind::Create), None),
    ("open events", |f, p| hourly(f, p, Kind::Open), None),
    ("close events", |f, p| hourly(f, p, Kind::Close), None),
    ("seek events", |f, p| hourly(f, p, Kind::Seek), Some(MIX)),
    ("unlink events", |f, p| hourly(f, p, Kind::Unlink), None),
    ("truncate events", |f, p| hourly(f, p, Kind::Truncate), Some(TRUNCATIONS)),
    ("execve events", |f, p| hourly(f, p, Kind::Exec), None),
    ("MB read and written", |f, p| in_an_hour(f, p, p.moved_mb, real(f.totals.bytes()) / 1e6), None),
];
const TABLE_4: [Row; 7] = [
    ("bytes per second", |f, p| fitted(Published::amount(p.throughput, 10.0), f.throughput()), None),
    ("users", |f, p| fitted(Published::amount(p.users, 1.0), real(f.activity.users)), None),
    (
        "most active users in ten minutes",
        |f, p| fitted(Published::amount(p.most_active, 1.0), real(f.activity.minutes.most)),
        Some(BUSIEST),
    ),
    (
        "active users, ten minutes",
        |f, p| fitted(Published::amount(p.minute_users.0, 0.1), f.activity.minutes.active.mean),
        None,
    ),
    (
        "bytes/s per active user, ten minutes",
        |f, p| fitted(Published::amount(p.minute_rate.0, 10.0), f.activity.minutes.throughput.mean),
        Some(FEW),
    ),
    (
        "active users, ten seconds",
        |f, p| fitted(Published::amount(p.second_users.0, 0.1), f.activity.seconds.active.mean),
        Some(BUNCHES),
    ),
    (
        "bytes/s per active user, ten seconds",
        |f, p| fitted(Published::amount(p.second_rate.0, 10.0), f.activity.seconds.throughput.mean),
        Some(BUNCHES),
    ),
];
const BYTES: Note = Note::new(
    "The shares of bytes hang on the few files that are larger than 25 KB, of which the paper says that they make 30 to 40 % of \
    all bytes, but not how they are read and written.",
    0.85,
    1.15,
);
const MIX: Note = Note::new(
    "What E3 and C4 did differently from A5 the paper says in a sentence each; their models are that of A5 with other users \
    and other shares of the same commands.",
    0.7,
    1.25,
);
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

const TABLE_5_COUNTS: [Row; 7] = [
    ("whole-file reads", |f, p| in_an_hour(f, p, p.whole_reads.0, real(of(f, Mode::Read).whole)), Some(MIX)),
    (
        "whole-file writes",
        |f, p| in_an_hour(f, p, p.whole_writes.0, real(of(f, Mode::Write).whole)),
        Some(MIX),
    ),
    (
        "MB in whole-file transfers",
        |f, p| in_an_hour(f, p, p.whole_mb.0, real(f.patterns.all().whole_bytes) / 1e6),
        Some(BYTES),
    ),
    (
        "sequential read-only accesses",
        |f, p| in_an_hour(f, p, p.sequential_reads.0, real(of(f, Mode::Read).sequential)),
        Some(MIX),
    ),
    (
        "sequential write-only accesses",
        |f, p| in_an_hour(f, p, p.sequential_writes.0, real(of(f, Mode::Write).sequential)),
        Some(MIX),
    ),
    (
        "sequential read-write accesses",
        |f, p| in_an_hour(f, p, p.sequential_both.0, real(of(f, Mode::Both).sequential)),
        Some(MIX),
    ),
    (
        "MB transferred sequentially",
        |f, p| in_an_hour(f, p, p.sequential_mb.0, real(f.patterns.all().sequential_bytes) / 1e6),
        Some(BYTES),
    ),
];

fn table(title: &str, rows: &[Row], decimals: usize, found: &[Findings]) -> Table {
    let names = TRACES.iter().map(|paper| Column::new(paper.name, decimals));
    let mut table = Table::new(title, std::iter::once(Column::new("", 0)).chain(names));
    for (name, compare, note) in rows {
        let cells = found.iter().zip(&TRACES).map(|(found, paper)| {
            let compared = compare(found, paper);
            match note {
                Some(note) => compared.because(note.clone()).into(),
                None => compared.into(),
            }
        });
        table.row(std::iter::once((*name).into()).chain(cells));
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
    outcome.tables.push(table("Table V, in an hour", &TABLE_5_COUNTS, 0, &found));
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
