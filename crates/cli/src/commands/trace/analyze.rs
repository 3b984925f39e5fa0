//! `spindle trace analyze`

use crate::error::{Context, Failure, Result};
use crate::output::Output;
use crate::progress::Progress;
use serde::Serialize;
use spindle_report::{Section, render};
use spindle_trace::analyze::{Findings, Show, analyze};
use spindle_trace::format::Columns;
use spindle_trace::open;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Learn from a trace how files are used
///
/// The tables and figures are those of the 1985 study of the UNIX 4.2 BSD file system (Ousterhout et al.): what happened how
/// often, how much active users read and write, in which order and in what pieces files are gone through, how large they are, how long
/// they are open, how long new data lives. Beside them stands what was found then, and behind them what today's systems have beyond
/// it. docs/SPEC-trace.md says what a trace holds.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read    2  the command line makes no sense

EXAMPLES
    spindle trace analyze build.trace
    spindle trace analyze build.trace -o results/
    spindle trace analyze --json build.trace | jq .findings.totals.events")]
pub struct Args {
    /// Tell it as JSON: the raw numbers, and the tables and figures made of them
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Tell it as CSV, a table or figure after the other, each behind a line with "#" and its name
    #[arg(long)]
    csv: bool,
    /// Write analysis.txt and analysis.json into this directory as well, and a CSV file for each table and figure, an SVG file for each figure
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
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

/// What is told as JSON.
#[derive(Serialize)]
struct Told<'a> {
    findings: &'a Findings,
    sections: &'a [Section],
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut source = open(&args.trace, Columns::USAGE)?;
    let bar = Progress::of_parts("analysing");
    let mut findings = analyze(&mut *source, |done| bar.fraction(done))?;
    drop(bar);
    findings.totals.file_bytes = std::fs::metadata(&args.trace).ok().map(|found| found.len());
    let show = Show { paper: !args.no_paper, ..Show::default() };
    let sections = findings.sections(&show);
    let told = Told { findings: &findings, sections: &sections };
    if let Some(dir) = &args.output {
        write(dir, &told)?;
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&told)?;
    } else if args.csv {
        for (name, csv) in tables(&sections) {
            out.bytes(format!("# {name}\r\n{csv}\r\n").as_bytes())?;
        }
    } else {
        out.bytes(render::sections(&sections).trim_start().as_bytes())?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Each table and figure as CSV, under the name of its section.
fn tables(sections: &[Section]) -> impl Iterator<Item = (&str, String)> {
    sections.iter().flat_map(|section| {
        let tables = section.outcome.tables.iter().map(render::csv);
        let figures = section.outcome.figures.iter().map(render::figure_csv);
        tables.chain(figures).map(|csv| (section.id.as_str(), csv))
    })
}

fn write(dir: &Path, told: &Told<'_>) -> Result<()> {
    std::fs::create_dir_all(dir).context(dir.display())?;
    let put = |name: String, content: &str| {
        let path = dir.join(name);
        std::fs::write(&path, content).context(path.display())
    };
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
