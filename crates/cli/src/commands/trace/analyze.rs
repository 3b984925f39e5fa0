//! `spindle trace analyze`

use crate::error::{Context, Failure, Result};
use crate::outfile::{self, OutArgs};
use crate::output::Output;
use crate::progress::Progress;
use serde::Serialize;
use spindle_report::{Section, page, render};
use spindle_trace::analyze::{Caches, Dimension, Findings, Show, analyze_by};
use spindle_trace::cachesim::simulate;
use spindle_trace::format::Columns;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Learn from a trace how files are used
///
/// The tables and figures are those of the 1985 study of the UNIX 4.2 BSD file system (Ousterhout
/// et al.): what happened how often, how much active users read and write, in which order and in
/// what pieces files are gone through, how large they are, how long they are open, how long new
/// data lives. Beside them stands what was found then, and behind them what today's systems have
/// beyond it. docs/SPEC-trace.md says what a trace holds.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read    2  the command line makes no sense

EXAMPLES
    spindle trace analyze build.trace
    spindle trace analyze build.trace --by program,directory --top 20
    spindle trace analyze build.trace --html build.html -o results/
    spindle trace analyze --json build.trace | jq .findings.totals.events")]
pub struct Args {
    /// Tell it as JSON: the raw numbers, and the tables and figures made of them
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Tell it as CSV, a table or figure after the other, each behind a line with "#" and its name
    #[arg(long)]
    csv: bool,
    /// Write analysis.txt and analysis.json into this directory as well, and a CSV file for each
    /// table and figure, an SVG file for each figure
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    out: OutArgs,
    /// Write a page with everything, for a browser, into this file as well; without --by it tells
    /// of users, programs and directories
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Tell who does it, too: opens, bytes, files made and deleted, data that dies young; more than
    /// one with commas
    #[arg(long, value_name = "WHOM", value_delimiter = ',')]
    by: Vec<By>,
    /// Simulate caches, too, for the last two lines of the paper's Table I; "spindle trace
    /// cachesim" tells more
    #[arg(long)]
    caches: bool,
    /// Of these so many, the largest
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Show what was found in 1985 beside it; this is the default
    #[arg(long, overrides_with = "no_paper")]
    paper: bool,
    /// Show this trace alone
    #[arg(long)]
    no_paper: bool,
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

/// By what it is told who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    User,
    Program,
    Directory,
}

impl Args {
    /// By what to tell who does it.
    fn wanted(&self) -> Vec<Dimension> {
        if self.by.is_empty() && self.html.is_some() {
            return Dimension::ALL.to_vec();
        }
        let dimension = |by: &By| match by {
            By::User => Dimension::User,
            By::Program => Dimension::Program,
            By::Directory => Dimension::Directory,
        };
        Dimension::ALL.into_iter().filter(|all| self.by.iter().any(|by| dimension(by) == *all)).collect()
    }
}

/// What is told as JSON.
#[derive(Serialize)]
struct Told<'a> {
    findings: &'a Findings,
    sections: &'a [Section],
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let wanted = args.wanted();
    let mut columns = Columns::USAGE;
    for dimension in &wanted {
        columns = match dimension {
            Dimension::User => columns,
            Dimension::Program => columns | Columns::COMMAND,
            Dimension::Directory => columns | Columns::PATHS,
        };
    }
    if let Some(file) = &args.html {
        outfile::spare(file, &args.trace)?;
        outfile::check(file, args.out.force)?;
    }
    let mut source = super::open(&args.trace, columns)?;
    let bar = Progress::of_parts("analysing");
    let mut findings = analyze_by(&mut *source, &wanted, args.top, |done| bar.fraction(done))?;
    drop(bar);
    findings.totals.file_bytes = std::fs::metadata(&args.trace).ok().map(|found| found.len());
    let caches = if args.caches {
        let mut source = spindle_trace::open(&args.trace, Columns::NUMBERS)?;
        let bar = Progress::of_parts("simulating");
        let simulated = simulate(&mut *source, &Caches::grids(), &|done| bar.fraction(done))?;
        Some(Caches::of(&simulated.results))
    } else {
        None
    };
    let show = Show { paper: !args.no_paper, top: args.top, caches };
    let sections = findings.sections(&show);
    let told = Told { findings: &findings, sections: &sections };
    if let Some(dir) = &args.output {
        write(dir, &told, args.out.force)?;
    }
    if let Some(file) = &args.html {
        outfile::write(file, html(&args.trace, "analyze", &findings, &sections)?, args.out.force)?;
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&told)?;
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

/// Returns each table and figure as CSV, under the name of its section.
fn tables(sections: &[Section]) -> impl Iterator<Item = (&str, String)> {
    sections.iter().flat_map(|section| {
        let tables = section.outcome.tables.iter().map(render::csv);
        let figures = section.outcome.figures.iter().map(render::figure_csv);
        tables.chain(figures).map(|csv| (section.id.as_str(), csv))
    })
}

/// Returns the page of `spindle trace COMMAND`.
pub fn html(trace: &Path, command: &str, findings: &Findings, sections: &[Section]) -> Result<String> {
    let totals = &findings.totals;
    let name = trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy();
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
    Ok(page(&format!("Trace {name}"), &lead, sections, &foot)?)
}

fn write(dir: &Path, told: &Told<'_>, force: bool) -> Result<()> {
    std::fs::create_dir_all(dir).context(dir.display())?;
    let put = |name: String, content: &str| outfile::write(&dir.join(name), content, force);
    put("analysis.txt".into(), render::sections(told.sections).trim_start())?;
    let json = serde_json::to_string_pretty(told).map_err(|e| Failure::new(e.to_string()))?;
    put("analysis.json".into(), &(json + "\n"))?;
    for (name, csv) in tables(told.sections) {
        put(format!("{name}.csv"), &csv)?;
    }
    for section in told.sections {
        for figure in &section.outcome.figures {
            put(format!("{}.svg", section.id), &render::svg(figure)?)?;
        }
    }
    Ok(())
}
