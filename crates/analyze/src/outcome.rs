//! Shows findings: a section for each table and figure, beside the paper's figures.

use super::latencies;
use super::paper::{self, Anchor, TRACES, Trace};
use super::{
    By, CALLS_1991, Caches, Class, Dimension, Findings, Group, Histogram, Lives, Measure, Orders, Windows,
    YOUNG,
};
use spindle_report::number::{real, share};
use spindle_report::outcome::{Cell, Column, Figure, Mark, Measured, Plot, Series, Table, Unit};
use spindle_report::{Outcome, Section};
use spindle_trace::Kind;
use spindle_trace::follow::Mode;

/// Options of the report.
#[derive(Clone, Debug)]
pub struct Show {
    /// Show the figures of 1985 beside ours.
    pub paper: bool,
    /// Number of rows in the tables of users, programs, files and so on.
    pub top: usize,
    /// Results of cache simulations for Table I.
    pub caches: Option<Caches>,
}

impl Default for Show {
    fn default() -> Self {
        Self { paper: true, top: 10, caches: None }
    }
}

/// Formats a share as a percentage for a sentence.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "an unknown part".into(), |share| format!("{:.1} %", share * 100.0))
}

/// Formats a number of bytes in millions.
fn mega(bytes: u64) -> Measured {
    Measured::new(real(bytes) / 1e6, if bytes < 100_000_000 { 2 } else { 0 })
}

fn count(n: u64) -> Measured {
    Measured::new(real(n), 0)
}

impl Findings {
    /// Returns all tables and figures.
    #[must_use]
    pub fn sections(&self, show: &Show) -> Vec<Section> {
        let mut sections =
            vec![self.selected(show), self.table_3(show), self.table_4(show), self.table_5(show)];
        sections.extend(self.figures(show));
        sections.push(self.beyond());
        sections.push(self.calls(show));
        sections.extend(latencies::section(&self.latencies));
        sections.extend(self.groups.iter().map(|group| by(group, show.top)));
        sections
    }

    /// Returns Table I: its sentences with the numbers of this trace.
    fn selected(&self, show: &Show) -> Section {
        let all = self.patterns.all();
        let open = |ns| percent(self.patterns.open_times.share_below(ns, By::Count));
        let lives = self.lifetimes.all().bytes;
        let dead =
            |ns| percent((lives > 0).then(|| self.lifetimes.ended.below(ns, By::Weight) / real(lives)));
        let then = |text: &str| if show.paper { format!(" (1985: {text})") } else { String::new() };
        let mut findings = Vec::new();
        if self.activity.minutes.count > 0 {
            findings.push(format!(
                "An active user reads or writes {:.0} bytes of file data per second on average{}.",
                self.activity.minutes.throughput.mean,
                then("300 to 600")
            ));
        } else {
            findings.push(format!(
                "The trace is shorter than the ten minutes over which the paper averages; on average {:.0} bytes per second were read or written \
                 in it{}.",
                self.throughput(),
                then("300 to 600 for each active user")
            ));
        }
        findings.push(format!(
            "{} of all file accesses are whole-file transfers{}, and they transfer {} of all bytes{}.",
            percent(share(all.whole, all.accesses)),
            then("about 70 %"),
            percent(share(all.whole_bytes, self.totals.bytes())),
            then("about 50 %")
        ));
        findings.push(format!(
            "{} of all files are open less than half a second{}, and {} less than ten seconds{}.",
            open(500_000_000),
            then("75 %"),
            open(10_000_000_000),
            then("90 %")
        ));
        findings.push(format!(
            "{} of the data written to new files is deleted or overwritten within 30 seconds{}, and {} within five minutes{}.",
            dead(30_000_000_000),
            then("20 to 30 %"),
            dead(300_000_000_000),
            then("about 50 %")
        ));
        let mapped = self.today.mapped.bytes;
        if mapped > 0 {
            findings.push(format!(
                "Besides the {:.1} MB that were read and written, {:.1} MB were mapped into memory. A trace does not say what of that was \
                 touched, so nothing here counts it.",
                real(self.totals.bytes()) / 1e6,
                real(mapped) / 1e6
            ));
        }
        findings.extend(show.caches.iter().flat_map(|caches| caches.sentences(show.paper)));
        let outcome = Outcome { findings, ..Outcome::default() };
        Section {
            id: "table-1".into(),
            title: "Selected results (Table I)".into(),
            text: String::new(),
            outcome,
        }
    }

    /// Returns the bytes per second over the whole trace.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        let seconds = self.totals.seconds();
        if seconds > 0.0 { real(self.totals.bytes()) / seconds } else { 0.0 }
    }

    fn table_3(&self, show: &Show) -> Section {
        let totals = &self.totals;
        let mut rows = Rows::new("", show);
        // As many digits as a short trace needs.
        let hours = totals.seconds() / 3600.0;
        let digits = if hours < 1.0 { 4 } else { 2 };
        rows.row("duration (hours)", Measured::new(hours, digits), |t| Measured::new(t.hours, 1).into());
        rows.row("trace records", count(totals.records()), |t| Measured::new(t.records, 0).into());
        if let Some(bytes) = totals.file_bytes {
            rows.row("size of the trace file (MB)", mega(bytes), |t| Measured::new(t.file_mb, 0).into());
        }
        rows.row("read and written (MB)", mega(totals.bytes()), |t| Measured::new(t.moved_mb, 0).into());
        let order = [
            Kind::Create,
            Kind::Open,
            Kind::Close,
            Kind::Seek,
            Kind::Run,
            Kind::Unlink,
            Kind::Truncate,
            Kind::Rename,
            Kind::Mkdir,
            Kind::Rmdir,
            Kind::Sync,
            Kind::Exec,
        ];
        let all: u64 = order.iter().map(|&kind| totals.count(kind)).sum();
        for kind in order {
            let here = count(totals.count(kind)).of(share(totals.count(kind), all));
            rows.row(&format!("{} events", kind.name()), here, |t| match t.count(kind) {
                Some(count) => Measured::new(count, 0).of(Some(count / t.listed_events())).into(),
                None => Cell::Empty,
            });
        }
        let mut table = rows.0;
        let mut notes = vec!["MB are millions of bytes; shares are of all events listed.".to_owned()];
        if totals.traces > 1 {
            notes.push(format!(
                "These are {} traces, each analysed by itself; the duration is the sum of theirs.",
                totals.traces
            ));
        }
        if totals.open_before > 0 {
            notes.push(format!("{} files were open when recording began.", totals.open_before));
        }
        if totals.lost > 0 {
            notes.push(format!(
                "{} events were lost while recording: all counts are lower bounds.",
                totals.lost
            ));
        }
        table.explain(notes.join(" "));
        table_section("table-3", "The trace as a whole (Table III)", table)
    }

    fn table_4(&self, show: &Show) -> Section {
        let activity = &self.activity;
        let mut rows = Rows::new("", show);
        rows.row("bytes per second, over the whole trace", Measured::new(self.throughput(), 0), |t| {
            Measured::new(t.throughput, 0).into()
        });
        rows.row("users", count(activity.users), |t| Measured::new(t.users, 0).into());
        let within = |known: bool, (mean, deviation): (f64, f64), decimals| -> Cell {
            if known { Measured::new(mean, decimals).within(deviation).into() } else { Cell::Empty }
        };
        let users = |w: &Windows| within(w.count > 0, (w.active.mean, w.active.deviation), 1);
        let rates = |w: &Windows| within(w.count > 0, (w.throughput.mean, w.throughput.deviation), 0);
        let (long, short) = (&activity.minutes, &activity.seconds);
        let most = if long.count > 0 { count(long.most).into() } else { Cell::Empty };
        rows.row("most active users in ten minutes", most, |t| Measured::new(t.most_active, 0).into());
        rows.row("active users, over ten minutes", users(long), |t| within(true, t.minute_users, 1));
        rows.row("bytes per second per active user, over ten minutes", rates(long), |t| {
            within(true, t.minute_rate, 0)
        });
        rows.row("active users, over ten seconds", users(short), |t| within(true, t.second_users, 1));
        rows.row("bytes per second per active user, over ten seconds", rates(short), |t| {
            within(true, t.second_rate, 0)
        });
        let mut table = rows.0;
        table.explain(format!(
            "The number after ± is the standard deviation over all whole windows ({} of ten minutes, {} of ten seconds). A window without an \
             active user ({} and {} here) counts as 0 users and 0 bytes, which fits the paper's own figures best.",
            long.count, short.count, long.idle, short.idle
        ));
        table_section("table-4", "Activity of users (Table IV)", table)
    }

    fn table_5(&self, show: &Show) -> Section {
        let patterns = &self.patterns;
        let [read, write, both] = Mode::ALL.map(|mode| patterns.modes[mode as usize]);
        let all = patterns.all();
        let moved = self.totals.bytes();
        let paper = |(value, share): (f64, f64)| Measured::new(value, 0).of(Some(share)).into();
        let mut rows = Rows::new("", show);
        let part = |of: fn(&Orders) -> u64, orders: &Orders| {
            count(of(orders)).of(share(of(orders), orders.accesses))
        };
        rows.row("whole-file reads (of read-only accesses)", part(|o| o.whole, &read), |t| {
            paper(t.whole_reads)
        });
        rows.row("whole-file writes (of write-only accesses)", part(|o| o.whole, &write), |t| {
            paper(t.whole_writes)
        });
        let whole = mega(all.whole_bytes).of(share(all.whole_bytes, moved));
        rows.row("MB moved in whole-file transfers", whole, |t| paper(t.whole_mb));
        let sequential = |orders| part(|o| o.sequential, orders);
        rows.row("sequential read-only accesses", sequential(&read), |t| paper(t.sequential_reads));
        rows.row("sequential write-only accesses", sequential(&write), |t| paper(t.sequential_writes));
        rows.row("sequential read-write accesses", sequential(&both), |t| paper(t.sequential_both));
        let sequential = mega(all.sequential_bytes).of(share(all.sequential_bytes, moved));
        rows.row("MB moved sequentially", sequential, |t| paper(t.sequential_mb));
        let mut table = rows.0;
        table.explain(format!(
            "A whole-file transfer goes from the first byte to the last without a gap; a sequential access seeks at most once, before \
             anything is read or written. {} of {} accesses transferred nothing and count as sequential. Not counted: {} of directories, {} \
             that began before the trace, {} that did not end in it.",
            all.untouched, all.accesses, patterns.directories, patterns.before, patterns.unfinished
        ));
        table_section("table-5", "Order of access within files (Table V)", table)
    }

    fn figures(&self, show: &Show) -> [Section; 5] {
        let patterns = &self.patterns;
        let by = |histogram, by, name: &str, anchors, what: &'static str| Curve {
            histogram,
            by,
            total: histogram.total(by),
            name: name.into(),
            anchors,
            what,
        };
        let lives = self.lifetimes.all();
        let ended = &self.lifetimes.ended;
        let life =
            |of, total, name: &str, anchors, what| Curve { total, ..by(ended, of, name, anchors, what) };
        [
            figure(
                show,
                ("figure-1", "Lengths of sequential runs (figure 1)"),
                ("length of the run", Unit::Bytes),
                "share of runs and of bytes, up to this length",
                &[
                    by(&patterns.runs, By::Count, "runs (a)", &paper::RUNS, "of runs"),
                    by(&patterns.runs, By::Weight, "bytes moved (b)", &paper::RUN_BYTES, "of bytes"),
                ],
            ),
            figure(
                show,
                ("figure-2", "Sizes of files when they are closed (figure 2)"),
                ("size of the file", Unit::Bytes),
                "share of accesses and of bytes, files up to this size",
                &[
                    by(&patterns.sizes, By::Count, "accesses (a)", &paper::SIZES, "of accesses"),
                    by(&patterns.sizes, By::Weight, "bytes moved (b)", &paper::SIZE_BYTES, "of bytes"),
                ],
            ),
            figure(
                show,
                ("figure-3", "How long files are open (figure 3)"),
                ("time from open to close", Unit::Seconds),
                "share of accesses up to this time",
                &[by(&patterns.open_times, By::Count, "accesses", &paper::OPEN_TIMES, "of accesses")],
            ),
            figure(
                show,
                ("figure-4", "Lifetimes of new data (figure 4)"),
                ("time from creation to deletion or overwriting", Unit::Seconds),
                "share of new files and of their bytes, dead by then",
                &[
                    life(By::Count, lives.files, "files (a)", &paper::LIVES, "of new files"),
                    life(By::Weight, lives.bytes, "bytes (b)", &paper::LIFE_BYTES, "of their bytes"),
                ],
            ),
            figure(
                show,
                ("intervals", "Between two events of an open file (section 3.1)"),
                ("time between two successive events of an open file", Unit::Seconds),
                "share of intervals up to this time",
                &[by(&patterns.intervals, By::Count, "intervals", &paper::INTERVALS, "of intervals")],
            ),
        ]
    }

    /// Returns the calls by what they ask for, beside those of 1991.
    fn calls(&self, show: &Show) -> Section {
        let requests = &self.requests;
        let columns = ["", "this trace", "1991: 4.3BSD"].map(|name| Column::new(name, 0));
        let mut table = Table::new("Calls by class", columns.into_iter().take(2 + usize::from(show.paper)));
        let (all, then): (u64, f64) = (requests.calls.iter().sum(), CALLS_1991.iter().sum());
        for (class, name) in Class::ALL {
            let here = requests.calls[class as usize];
            let past = CALLS_1991[class as usize];
            let mut cells = vec![name.into(), count(here).of(share(here, all)).into()];
            if show.paper {
                cells.push(Measured::new(past, 0).of(Some(past / then)).into());
            }
            table.row(cells);
        }
        let mut notes = vec![
            "Control calls ask for something else than the bytes of a file. 1991: Muller and Pasquale, Table 1, in 75 minutes."
                .to_owned(),
        ];
        if !requests.has_looks() {
            notes.push(
                "The trace has no calls such as stat, access or chmod: its maker does not record them."
                    .into(),
            );
        }
        if requests.uncounted > 0 {
            notes.push(format!("{} runs of unknown calls count as one each.", requests.uncounted));
        }
        table.explain(notes.join("  "));
        let heads = ["", "calls", "failed"].map(|name| Column::new(name, 0));
        let mut kinds = Table::new("Control calls by kind", heads);
        for kind in Kind::ALL {
            let (here, failed) = (requests.control[kind as usize], requests.failed[kind as usize]);
            if here > 0 {
                let of_all = count(here).of(share(here, requests.calls[Class::Control as usize]));
                kinds.row([kind.name().into(), of_all.into(), count(failed).of(share(failed, here)).into()]);
            }
        }
        let slots = &requests.over_time;
        let seconds = |n: usize| real(slots.length) / 1e9 * real(n as u64);
        let curve = |class: Class, name: &str| Series {
            name: name.into(),
            points: (slots.calls.iter().enumerate())
                .map(|(n, calls)| (seconds(n), real(calls[class as usize]) / seconds(1)))
                .collect(),
        };
        let plot = Plot::Lines {
            x: "seconds".into(),
            y: "calls per second".into(),
            series: Class::ALL.map(|(class, name)| curve(class, name)).into(),
        };
        let figures = vec![Figure { title: "Calls over time".into(), plot }];
        let outcome = Outcome { tables: vec![table, kinds], figures, ..Outcome::default() };
        Section {
            id: "calls".into(),
            title: "Calls for data and for control".into(),
            text: String::new(),
            outcome,
        }
    }

    /// Returns the additions to the paper.
    fn beyond(&self) -> Section {
        let today = &self.today;
        let totals = &self.totals;
        let moved = totals.bytes();
        let mut table = Table::new("", ["", "here"].map(|name| Column::new(name, 0)));
        let mut row = |name: &str, value: Measured| {
            table.row([name.into(), value.into()]);
        };
        let part = |bytes| mega(bytes).of(share(bytes, moved));
        row("MB read (of all moved)", part(totals.read));
        row("MB written (of all moved)", part(totals.written));
        let all: u64 = totals.events.iter().sum();
        let moves = |lives: Lives| part(lives.bytes);
        row("runs that moved data", count(today.runs));
        let names = [Kind::Create, Kind::Unlink, Kind::Truncate, Kind::Rename, Kind::Mkdir, Kind::Rmdir];
        let names: u64 = names.iter().map(|&kind| totals.count(kind)).sum();
        row("events that change names or sizes (of all)", count(names).of(share(names, all)));
        row("MB at explicit positions (pread, pwrite)", moves(today.positional));
        row("mappings of files into memory", count(today.mapped.files));
        row("MB mapped, of which nothing else here counts any", mega(today.mapped.bytes));
        row("MB that bypass the cache (O_DIRECT)", moves(today.direct));
        row("MB of no known open file", moves(today.apart));
        let orders = self.patterns.all();
        let random = orders.accesses - orders.sequential;
        row("non-sequential accesses (of all)", count(random).of(share(random, orders.accesses)));
        let written = |bytes| mega(bytes).of(share(bytes, totals.written));
        row("MB written to new files (of all written)", written(self.lifetimes.written));
        row("MB written over existing data", written(today.overwritten));
        row("fsync and fdatasync", count(totals.count(Kind::Sync)));
        row("accesses with fsync (of all)", count(today.synced).of(share(today.synced, orders.accesses)));
        row("MB written in these (of all written)", written(today.synced_bytes));
        if let Some(size) = today.requests.quantile(0.5, By::Weight) {
            row("bytes per call, median over calls", count(size));
        }
        for (size, name) in [(4096, "4 KiB"), (65_536, "64 KiB"), (1 << 20, "1 MiB")] {
            let sizes = &self.patterns.sizes;
            // Only the whole part of the number below is shown.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let below = sizes.below(size, By::Count).round() as u64;
            row(
                &format!("accesses to files below {name} (of all)"),
                count(below).of(share(below, sizes.count())),
            );
        }
        row("MB of programs loaded", mega(totals.loaded));
        row("files open at once, at most", count(today.open_most));
        table_section("today", "Additions to the paper", table)
    }
}

/// Returns the table of one dimension.
fn by(group: &Group, top: usize) -> Section {
    let name = group.by.name();
    let heads = [name, "opens", "MB read", "MB written", "created", "deleted", "MB died young"];
    let mut table = Table::new("", heads.map(|head| Column::new(head, 0)));
    let amount = |measure: Measure, amounts: &[u64; 6]| {
        let (here, all) = (amounts[measure as usize], group.totals[measure as usize]);
        let shown = match measure {
            Measure::Read | Measure::Written | Measure::DiedYoung => mega(here),
            Measure::Opens | Measure::Created | Measure::Deleted => count(here),
        };
        Cell::from(shown.of(share(here, all)))
    };
    for row in group.rows.iter().take(top) {
        let who = match (row.name.as_str(), group.by) {
            ("", Dimension::Extension) => "(none)",
            ("", _) => "(unknown)",
            (name, _) => name,
        };
        let amounts = Measure::ALL.map(|measure| amount(measure, &row.amounts));
        table.row(std::iter::once(who.into()).chain(amounts));
    }
    let mut note = format!(
        "Sorted by {}. Died young: data of new files that was deleted or overwritten within {} seconds.",
        group.order.name(),
        YOUNG / 1_000_000_000
    );
    if group.missed != [0; 6] {
        let missed = group.missed.map(|amount| amount.to_string()).join(", ");
        note.push_str(
            "  There are too many names to count each exactly: amounts may be too small by at most ",
        );
        note.push_str(&missed);
        note.push_str(" (opens, bytes, bytes, files, files, bytes).");
    }
    table.explain(note);
    table_section(&format!("by-{name}"), &format!("By {name}"), table)
}

/// A table with a column for this trace and columns for those of 1985.
struct Rows<'a>(Table, &'a Show);

impl<'a> Rows<'a> {
    fn new(title: &str, show: &'a Show) -> Self {
        let mut columns = vec![Column::new("", 0), Column::new("this trace", 0)];
        if show.paper {
            columns.extend(TRACES.iter().map(|trace| Column::new(format!("1985: {}", trace.name), 0)));
        }
        Self(Table::new(title, columns), show)
    }

    fn row(&mut self, name: &str, here: impl Into<Cell>, then: impl Fn(&Trace) -> Cell) {
        let mut cells = vec![name.into(), here.into()];
        if self.1.paper {
            cells.extend(TRACES.iter().map(then));
        }
        self.0.row(cells);
    }
}

/// A distribution to draw, with the paper's statements about it.
#[derive(Clone)]
struct Curve<'a> {
    histogram: &'a Histogram,
    by: By,
    /// The number that is 100 %.
    total: u64,
    name: String,
    anchors: &'a [Anchor],
    what: &'static str,
}

impl Curve<'_> {
    /// Returns the points of the curve: a step for each bucket, with small buckets merged.
    fn series(&self, scale: f64) -> Series {
        const STEP: f64 = 0.0005;
        let mut points = Vec::new();
        let (mut passed, mut shown) = (0.0, -1.0);
        let total = real(self.total.max(1));
        let mut last = None;
        for bucket in self.histogram.buckets().filter(|bucket| bucket.amount(self.by) > 0) {
            let before = passed / total;
            passed += real(bucket.amount(self.by));
            let after = passed / total;
            if after - shown >= STEP {
                points.push((real(bucket.from) * scale, before));
                points.push((real(bucket.to - 1) * scale, after));
                shown = after;
                last = None;
            } else {
                last = Some((real(bucket.to - 1) * scale, after));
            }
        }
        points.extend(last);
        Series { name: self.name.clone(), points }
    }

    fn marks(&self, unit: Unit, scale: f64) -> impl Iterator<Item = Mark> {
        self.anchors.iter().map(move |anchor| {
            let (from, to) = anchor.share;
            let then = if from < to {
                format!("{:.0} to {:.0} %", from * 100.0, to * 100.0)
            } else {
                format!("{:.0} %", from * 100.0)
            };
            let here =
                (self.total > 0).then(|| self.histogram.below(anchor.below, self.by) / real(self.total));
            let x = real(anchor.below) * scale;
            let limit = match unit {
                Unit::Bytes => format!("{x} bytes"),
                Unit::Seconds => format!("{} s", (x * 1e3).round() / 1e3),
            };
            let text = format!("{} below {limit}: {then} in 1985, {} here", self.what, percent(here));
            Mark { x, y: (from, to), text }
        })
    }
}

fn figure(
    show: &Show,
    (id, title): (&str, &str),
    (x, unit): (&str, Unit),
    y: &str,
    curves: &[Curve<'_>],
) -> Section {
    let scale = match unit {
        Unit::Bytes => 1.0,
        Unit::Seconds => 1e-9,
    };
    let series = curves.iter().map(|curve| curve.series(scale)).collect();
    let marks = if show.paper {
        curves.iter().flat_map(|curve| curve.marks(unit, scale)).collect()
    } else {
        Vec::new()
    };
    let plot = Plot::Cumulative { x: x.into(), unit, y: y.into(), series, marks };
    let figures = vec![Figure { title: title.into(), plot }];
    let outcome = Outcome { figures, ..Outcome::default() };
    Section { id: id.into(), title: title.into(), text: String::new(), outcome }
}

pub(super) fn table_section(id: &str, title: &str, mut table: Table) -> Section {
    title.clone_into(&mut table.title);
    let outcome = Outcome { tables: vec![table], ..Outcome::default() };
    Section { id: id.into(), title: title.into(), text: String::new(), outcome }
}
