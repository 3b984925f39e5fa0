//! `spindle trace top`

use super::analyze::{By, Sort};
use super::selection::SelectArgs;
use crate::error::{Failure, Result};
use crate::output::Output;
use crate::text::counted;
use serde::Serialize;
use spindle_analyze::{Dimension, Group, Measure, analyze_by};
use spindle_clock::{Clock, SystemClock};
use spindle_record::{Probes, Processes, Signals};
use spindle_report::number::real;
use spindle_report::outcome::{Cell, Column, Measured, Table};
use spindle_report::render;
use spindle_trace::Batch;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Show which programs use files most, while they do
///
/// Every few seconds a table shows the programs, processes, users, files, directories or extensions
/// with the most bytes read and written since the table before, until SIGINT (Ctrl-C) or SIGTERM,
/// or until all processes of --pid have ended; a last table has the rest. A read or write counts
/// when it happens, also in the middle of a long file. What is mapped into memory does not count.
///
/// It works as "spindle trace record" does, without a file, and needs the same: root and Linux 6.10
/// or newer on x86-64.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the kernel cannot be watched    2  invalid command line

EXAMPLES
    spindle trace top
    spindle trace top --by file --mount /srv --sort written
    spindle trace top --by process --cgroup web --interval 10
    spindle trace top --by user --interval 1 --count 5 --json")]
pub struct Args {
    #[command(flatten)]
    select: SelectArgs,
    /// Show user, program, process, directory, file, or ext
    #[arg(long, value_name = "WHOM", default_value = "program")]
    by: By,
    /// Show those first that have the most bytes read and written, bytes read, bytes written, or
    /// opens
    #[arg(long, value_name = "AMOUNT", default_value = "bytes")]
    sort: Sort,
    /// The time from one table to the next
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_interval)]
    interval: Duration,
    /// End after so many tables
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Show at most so many rows; by default as many as the terminal has, else 20
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Print a line of JSON for each table
    #[arg(long)]
    json: bool,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let has_sense = |interval: &Duration| (0.1..=86_400.0).contains(&interval.as_secs_f64());
    interval.filter(has_sense).ok_or_else(|| "give seconds, at least 0.1".into())
}

/// Why it ends.
enum End {
    Done(Result<()>),
    Asked,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let signals = Signals::block()?;
    let processes = Processes::find(&args.select.pid)?;
    let probes = Probes::attach(&args.select.filter(false)?)?;
    let (ends, end) = channel();
    let mut screen = Screen::new(args);
    let finished = ends.clone();
    let recording = probes.watch(args.interval, move |batch| match screen.show(batch) {
        Ok(true) => true,
        done => finished.send(End::Done(done.map(drop))).is_ok_and(|()| false),
    })?;
    if !args.select.pid.is_empty() {
        let ends = ends.clone();
        std::thread::spawn(move || processes.wait().map(|()| ends.send(End::Asked)));
    }
    std::thread::spawn(move || {
        while signals.wait().is_ok() {
            let _ = ends.send(End::Asked);
        }
    });
    let end = end.recv().unwrap_or(End::Asked);
    let done = recording.finish()?;
    if done.lost > 0 {
        log::warn!("lost {}; all amounts are lower bounds", counted(done.lost, "event"));
    }
    for note in &done.notes {
        crate::logger::note(note);
    }
    match end {
        End::Done(Err(failure)) => Err(failure),
        End::Done(Ok(())) | End::Asked => Ok(ExitCode::SUCCESS),
    }
}

/// The tables of an interval each.
struct Screen {
    by: Dimension,
    sort: Sort,
    /// When the table before was shown.
    before: Duration,
    /// Tables to come; none without an end.
    left: Option<u64>,
    rows: Option<usize>,
    json: bool,
    /// It is a terminal, of which a table takes the whole.
    is_terminal: bool,
}

/// An interval, as JSON.
#[derive(Serialize)]
struct Interval<'a> {
    seconds: f64,
    group: &'a Group,
}

impl Screen {
    fn new(args: &Args) -> Self {
        Self {
            by: args.by.into(),
            sort: args.sort,
            before: SystemClock.monotonic(),
            left: args.count,
            rows: args.rows,
            json: args.json,
            is_terminal: std::io::stdout().is_terminal(),
        }
    }

    /// Returns how many rows there is room for.
    fn room(&self) -> usize {
        /// Lines of a table besides its rows: the sum, the heads, and the cursor.
        const OTHERS: usize = 5;
        let lines = rustix::termios::tcgetwinsize(std::io::stdout()).ok().filter(|_| self.is_terminal);
        let lines = lines.map(|size| usize::from(size.ws_row)).filter(|&lines| lines > OTHERS);
        self.rows.unwrap_or_else(|| lines.map_or(20, |lines| lines - OTHERS))
    }

    /// Shows what has happened; returns true if another table is to come.
    fn show(&mut self, batch: &mut Batch) -> Result<bool> {
        let rows = self.room();
        let now = SystemClock.monotonic();
        let seconds = now.saturating_sub(self.before).as_secs_f64();
        self.before = now;
        let found = analyze_by(batch, &[self.by], rows, |_| {})?;
        let Some(mut group) = found.groups.into_iter().next() else {
            return Err(Failure::new("the analysis has no table"));
        };
        group.sort(self.sort.into());
        group.rows.truncate(rows);
        let mut out = Output::stdout();
        if self.json {
            out.json_line(&Interval { seconds, group: &group })?;
        } else {
            if self.is_terminal {
                out.text("\x1b[H\x1b[2J")?;
            }
            out.text(&table(&group, seconds))?;
        }
        out.finish()?;
        self.left = self.left.map(|left| left - 1);
        Ok(self.left != Some(0))
    }
}

/// Returns what happened in so many seconds, for each second.
fn table(group: &Group, seconds: f64) -> String {
    let second = |amount: u64, scale: f64| real(amount) / scale / seconds;
    let amounts = |amounts: &[u64; 6]| {
        [
            (Measure::Opens, 1.0, 0),
            (Measure::Read, 1e6, 3),
            (Measure::Written, 1e6, 3),
            (Measure::Created, 1.0, 0),
            (Measure::Deleted, 1.0, 0),
        ]
        .map(|(measure, scale, digits)| Measured::new(second(amounts[measure as usize], scale), digits))
    };
    let heads = ["opens/s", "MB read/s", "MB written/s", "created/s", "deleted/s", group.by.name()];
    let mut table = Table::new("", heads.map(|head| Column::new(head, 0)));
    let named = group.rows.iter().map(|row| (row.name.as_str(), &row.amounts));
    for (name, row) in std::iter::once(("(all)", &group.totals)).chain(named) {
        let name = if name.is_empty() { "(unknown)" } else { name };
        table.row(amounts(row).map(Cell::from).into_iter().chain([name.into()]));
    }
    render::table(&table)
}
