//! `spindle trace analyze`

use super::analyzed::{self, Wanted};
use crate::error::{Context, Failure, Result};
use crate::outfile::{self, Kind, OutArgs};
use crate::output::Output;
use serde::Serialize;
use spindle_analyze::{Dimension, Findings, Order, Show};
use spindle_report::{Section, page, render};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Analyse how files are used in a trace, or in several together
///
/// The tables and figures are those of the 1985 study of the UNIX 4.2 BSD file system (Ousterhout
/// et al.): the counts of events, the bytes that active users read and write, the order and length
/// of accesses to files, the sizes of files, the times that they are open, and the lifetimes of new
/// data. The figures of 1985 are shown beside them; tables about today's systems follow.
/// docs/SPEC-trace.md describes the contents of a trace.
///
/// Each of several traces is analysed by itself, as a recording of its own, and what is found is
/// added up. (The parts of one recording are one trace again after "spindle trace merge --parts".)
/// --partial stores what is found in a file, which can be named in place of its traces later: so
/// each trace can be analysed in another process or on another machine, and the output is the same
/// to the byte.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read    2  invalid command line

EXAMPLES
    spindle trace analyze build.trace
    spindle trace analyze build.trace --by program,directory --top 20
    spindle trace analyze build.trace --by file --sort opens --no-paper
    spindle trace analyze build.trace --html build.html -o results/
    spindle trace analyze --json build.trace | jq .findings.totals.events
    spindle trace analyze monday.trace tuesday.trace
    spindle trace analyze --partial monday.found monday.trace
    spindle trace analyze monday.found tuesday.found")]
pub struct Args {
    /// Print JSON: the raw numbers, and the tables and figures made of them
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print all tables and figures as CSV, each after a line with "#" and its name
    #[arg(long)]
    csv: bool,
    /// Also write analysis.txt and analysis.json into this directory, a CSV file for each table
    /// and figure, and an SVG file for each figure
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    out: OutArgs,
    /// Write an HTML page with everything into this file, and print only what --json or --csv ask
    /// for; without --by it includes the tables of all that --by knows
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Store what is found in this file, for later use in place of the traces, and print nothing;
    /// give --by and --caches as they are needed then; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv", "output", "html"])]
    partial: Option<PathBuf>,
    /// Also show opens, bytes, created and deleted files and short-lived data by user, program,
    /// process, directory, file, or extension of its name; separate several with commas
    #[arg(long, value_name = "WHOM", value_delimiter = ',')]
    by: Vec<By>,
    /// Also simulate caches, for the last two lines of the paper's Table I; "spindle trace
    /// cachesim" shows more
    #[arg(long)]
    caches: bool,
    /// With --by, show this many users, files and so on: the largest ones
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// With --by, show those first that have the most bytes read and written, bytes read, bytes
    /// written, or opens
    #[arg(long, value_name = "AMOUNT", default_value = "bytes")]
    sort: Sort,
    /// Show the figures of 1985 beside those of the trace (the default)
    #[arg(long, overrides_with = "no_paper")]
    paper: bool,
    /// Do not show the figures of 1985
    #[arg(long)]
    no_paper: bool,
    /// The traces, or what --partial stored of them
    #[arg(value_name = "TRACE", required = true, num_args = 1..)]
    traces: Vec<PathBuf>,
}

/// A criterion by which --by groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    User,
    Program,
    Process,
    Directory,
    File,
    #[value(alias = "extension")]
    Ext,
}

impl From<By> for Dimension {
    fn from(by: By) -> Self {
        match by {
            By::User => Self::User,
            By::Program => Self::Program,
            By::Process => Self::Process,
            By::Directory => Self::Directory,
            By::File => Self::File,
            By::Ext => Self::Extension,
        }
    }
}

/// The order of the tables of --by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    Bytes,
    Read,
    Written,
    Opens,
}

impl From<Sort> for Order {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Bytes => Self::Bytes,
            Sort::Read => Self::Read,
            Sort::Written => Self::Written,
            Sort::Opens => Self::Opens,
        }
    }
}

impl Args {
    /// Returns the criteria by which to group.
    fn wanted(&self) -> Vec<Dimension> {
        if self.by.is_empty() && self.html.is_some() {
            return Dimension::ALL.to_vec();
        }
        let is_wanted = |all: &Dimension| self.by.iter().any(|&by| Dimension::from(by) == *all);
        Dimension::ALL.into_iter().filter(is_wanted).collect()
    }
}

/// The analysis, as JSON.
#[derive(Serialize)]
struct Report<'a> {
    findings: &'a Findings,
    sections: &'a [Section],
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.caches {
        args.traces.iter().try_for_each(|trace| super::refuse_stdin(trace))?;
    }
    super::refuse_twice(&args.traces)?;
    let page = args.html.iter().map(|file| (file, Kind::Page));
    for (file, kind) in page.chain(args.partial.iter().map(|file| (file, Kind::Findings))) {
        args.traces.iter().try_for_each(|trace| outfile::refuse_input(file, trace))?;
        outfile::check(file, kind, args.out.force)?;
    }
    let wanted = Wanted { dimensions: args.wanted(), caches: args.caches };
    let found = analyzed::all(&args.traces, &wanted)?;
    if let Some(file) = &args.partial {
        outfile::write(file, Kind::Findings, found.to_bytes(), args.out.force)?;
        return Ok(ExitCode::SUCCESS);
    }
    let names = found.names().to_vec();
    let caches = found.caches().filter(|_| args.caches);
    let mut findings = found.findings(&wanted.dimensions, args.top);
    findings.groups.iter_mut().for_each(|group| group.sort(args.sort.into()));
    let show = Show { paper: !args.no_paper, top: args.top, caches };
    let sections = findings.sections(&show);
    let report = Report { findings: &findings, sections: &sections };
    if let Some(dir) = &args.output {
        write(dir, &report, args.out.force)?;
    }
    if let Some(file) = &args.html {
        let page = html(&names, "analyze", &findings, &sections)?;
        outfile::write(file, Kind::Page, page, args.out.force)?;
    }
    let is_asked_for = args.json || args.csv;
    if args.html.as_deref().is_some_and(|file| outfile::is_stdout(file) || !is_asked_for) {
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&report)?;
    } else if args.csv {
        for (name, csv) in tables(&sections) {
            out.bytes(format!("# {name}\r\n{csv}\r\n").as_bytes())?;
        }
    } else {
        out.text(render::sections(&sections).trim_start())?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns each table and figure as CSV, with a name: that of its section, and for all but the
/// first also its title.
fn tables(sections: &[Section]) -> impl Iterator<Item = (String, String)> {
    sections.iter().flat_map(|section| {
        let tables = section.outcome.tables.iter().map(|table| (&table.title, render::csv(table)));
        let figures =
            section.outcome.figures.iter().map(|figure| (&figure.title, render::figure_csv(figure)));
        (0..).zip(tables.chain(figures)).map(|(n, (title, csv))| {
            let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
            let words: Vec<_> = std::iter::once(section.id.as_str()).chain(words).collect();
            (if n == 0 { section.id.clone() } else { words.join("-").to_lowercase() }, csv)
        })
    })
}

/// Returns the HTML page of `spindle trace COMMAND`.
pub fn html(names: &[String], command: &str, findings: &Findings, sections: &[Section]) -> Result<String> {
    let totals = &findings.totals;
    let mut lead = vec![format!(
        "How files are used, after the 1985 study of the UNIX 4.2 BSD file system (Ousterhout et al.). {} events in {:.0} seconds.",
        totals.records(),
        totals.seconds()
    )];
    if !totals.source.is_empty() {
        lead.push(format!("Made by {}.", totals.source));
    }
    lead.extend(totals.notes.iter().cloned());
    let foot = format!("spindle {} trace {command}", env!("CARGO_PKG_VERSION"));
    Ok(page(&title(names), &lead, sections, &foot)?)
}

/// Returns the title of a page about these traces.
fn title(names: &[String]) -> String {
    const MOST: usize = 3;
    let kind = if names.len() == 1 { "Trace" } else { "Traces" };
    let named = names.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST) {
        0 => format!("{kind} {named}"),
        more => format!("{kind} {named} and {more} more"),
    }
}

fn write(dir: &Path, report: &Report<'_>, force: bool) -> Result<()> {
    std::fs::create_dir_all(dir).context(dir.display())?;
    let put = |name: String, content: &str| outfile::write(&dir.join(name), Kind::Result, content, force);
    put("analysis.txt".into(), render::sections(report.sections).trim_start())?;
    let json = serde_json::to_string_pretty(report).map_err(|e| Failure::new(e.to_string()))?;
    put("analysis.json".into(), &(json + "\n"))?;
    for (name, csv) in tables(report.sections) {
        put(format!("{name}.csv"), &csv)?;
    }
    for section in report.sections {
        for figure in &section.outcome.figures {
            put(format!("{}.svg", section.id), &render::svg(figure)?)?;
        }
    }
    Ok(())
}
