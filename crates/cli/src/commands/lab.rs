//! `spindle lab`

mod beside;
mod calibrate;
mod disksim;

use crate::error::{Context, FAILED, Failure, Result, USAGE};
use crate::outfile::{self, Kind, OutArgs};
use crate::output::Output;
use crate::progress::Progress as Bar;
use crate::suggest::{did_you_mean, nearest};
use serde::Serialize;
use spindle_lab::preset::{Figure, Library, Model, Preset};
use spindle_lab::{Experiment, Outcome, Progress, Setting, all, find};
use spindle_report::outcome::Tally;
use spindle_report::render;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Rerun the papers' experiments
///
/// Each experiment measures one result of a paper again. The file systems are those that "spindle
/// mount" serves; the disk, the processor and the time are modelled. Every table shows the paper's
/// figure, ours, and the ratio of the two. The same version of Spindle gives the same figures to
/// the byte.
///
/// A ratio outside its tolerance is marked with "!". A number in brackets after it refers to a note
/// below the table, which says what the paper leaves unknown, and from which ratio to which it
/// explains the difference.
///
/// An "f" after a ratio says that our figure was fitted: something of ours was derived from the
/// paper's figure. An "h" says that it was held out: something was derived from other figures of
/// the same source. Without a letter it is a prediction. The three are counted apart.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  every figure is within its tolerance, or within what a note explains
    1  a figure is outside both, or an experiment failed
    2  invalid command line

EXAMPLES
    spindle lab list
    spindle lab presets ibm-0661
    spindle lab run ffs-table1
    spindle lab run ffs-table1 --json | jq '.[0].outcome.tables[0].rows[2]'
    spindle lab run cluster-iobench --disk nvme --host today
    spindle lab all --json | jq '[.[].tally.predicted.held] | add'
    spindle lab all -o results/")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List the experiments
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run some experiments
    ///
    /// With --disk or --host they run on that in place of the disks or hosts of the paper. The file
    /// system stays the paper's, and about as large, at the beginning of the disk (or as large as a
    /// smaller disk). Where all tracks of the disk are equal, it is laid out by them; otherwise its
    /// geometry is made up, and it has no rotational delay and no interleave. The figures of the
    /// paper stand beside for reference: nothing is judged, and the exit status is 0. Experiments
    /// that model no disk refuse both options, and mfs-log, which lays logs out by the tracks of
    /// its disk, refuses --disk.
    Run {
        #[command(flatten)]
        output: OutputArgs,
        #[command(flatten)]
        machine: MachineArgs,
        /// Names of experiments, as "spindle lab list" prints them
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// List the modelled disks and hosts, or show the figures of some with their sources
    Presets {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Names of presets, your own files in the same format, or DiskSim's DRIVE.parv
        #[arg(value_name = "NAME|FILE")]
        wanted: Vec<String>,
    },
    /// Run DiskSim's drives with the traces of their validation, and compare
    Disksim(disksim::Args),
    /// Compare what the simulation says of traces with a real mount
    ///
    /// The file system is made, with the files that were there before the trace, and the calls of
    /// the trace are done twice: in a simulation, as "spindle advise" does them, and on a real
    /// mount on this machine, on a disk in memory that takes as long as the modelled one. Both
    /// begin with the same bytes. The table has what both made the disk do, and the ratio of the
    /// prediction to the reality. Run it as root, whose mounts read ahead as far as the simulated
    /// ones.
    Beside(beside::Args),
    /// Measure a solid-state disk, and print a preset of it
    Calibrate(calibrate::Args),
    /// Run all experiments
    All {
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[derive(clap::Args, Debug)]
struct OutputArgs {
    /// Print the outcomes as a JSON array
    #[arg(long)]
    json: bool,
    /// Also write ID.txt, ID.json and an SVG file for each figure into this directory
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    out: OutArgs,
}

#[derive(clap::Args, Debug)]
struct MachineArgs {
    /// The disk in place of all disks of the papers: a preset ("spindle lab presets" lists them),
    /// or a file
    #[arg(long, value_name = "PRESET|FILE")]
    disk: Option<String>,
    /// The host in place of all hosts of the papers
    #[arg(long, value_name = "PRESET|FILE")]
    host: Option<String>,
}

/// An experiment with its outcome, as JSON.
#[derive(Serialize)]
struct ExperimentReport<'a> {
    id: &'a str,
    title: &'a str,
    paper: &'a str,
    section: &'a str,
    stand_in: String,
    /// Disks and hosts, if they are not all those of the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    /// How many figures are within their tolerance, by what they were derived from.
    #[serde(skip_serializing_if = "Option::is_none")]
    tally: Option<Tally>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a Outcome>,
}

impl<'a> ExperimentReport<'a> {
    fn of(experiment: &'a Experiment, setting: &Setting, outcome: Option<&'a Outcome>) -> Self {
        let Experiment { id, title, paper, section, .. } = experiment;
        let (stand_in, machine) = (experiment.stand_in(setting), experiment.machine(setting));
        let tally = outcome.map(Outcome::tally).filter(|_| machine.is_none());
        ExperimentReport { id, title, paper, section, stand_in, machine, tally, outcome }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.action {
        Action::List { json } => list(*json),
        Action::Presets { json, wanted } => presets(*json, wanted),
        Action::Disksim(args) => disksim::run(args),
        Action::Beside(args) => beside::run(args),
        Action::Calibrate(args) => calibrate::run(args),
        Action::All { output } => {
            run_experiments(&all().iter().collect::<Vec<_>>(), &Setting::default(), output)
        }
        Action::Run { output, machine: MachineArgs { disk, host }, ids } => {
            let found = ids.iter().map(|id| {
                find(id).ok_or_else(|| {
                    let near = nearest(id, all().iter().map(|experiment| experiment.id));
                    let question = did_you_mean(near);
                    Failure::usage(format!("{id}: no such experiment{question}; see \"spindle lab list\""))
                })
            });
            let setting = Setting { disk: disk.clone(), host: host.clone() };
            run_experiments(&found.collect::<Result<Vec<_>>>()?, &setting, output)
        }
    }
}

fn list(json: bool) -> Result<ExitCode> {
    let mut out = Output::stdout();
    if json {
        let report = |experiment| ExperimentReport::of(experiment, &Setting::default(), None);
        let reports: Vec<_> = all().iter().map(report).collect();
        out.json(&reports)?;
    } else {
        let width = all().iter().map(|experiment| experiment.id.len()).max().unwrap_or(0);
        for Experiment { id, title, paper, section, .. } in all() {
            out.line(format!("{id:<width$}  {title}"))?;
            for line in render::in_lines(&format!("{paper}, {section}"), render::WIDTH - width - 2) {
                out.line(format!("{:<width$}  {line}", ""))?;
            }
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// A preset as JSON.
#[derive(Serialize)]
struct PresetReport<'a> {
    name: &'a str,
    title: &'a str,
    kind: &'static str,
    description: &'a str,
    figures: Vec<FigureReport<'a>>,
}

#[derive(Serialize)]
struct FigureReport<'a> {
    field: &'a str,
    value: f64,
    sure: Option<String>,
    source: Option<&'a str>,
    note: Option<&'a str>,
}

const fn kind(preset: &Preset) -> &'static str {
    match preset.model {
        Model::Disk(_) => "disk",
        Model::Host(_) => "host",
    }
}

fn presets(json: bool, wanted: &[String]) -> Result<ExitCode> {
    let mut library = Library::built_in().map_err(spindle_lab::Error::from)?;
    let mut names = Vec::new();
    for wanted in wanted {
        if Path::new(wanted).exists() {
            names.extend(library.load(Path::new(wanted)).map_err(spindle_lab::Error::from)?);
        } else {
            names.push(wanted.clone());
        }
    }
    let unknown = |name: &String| {
        let question = did_you_mean(nearest(name, library.iter().map(|preset| preset.name.as_str())));
        Failure::usage(format!("{name}: neither a file nor a preset{question}; see \"spindle lab presets\""))
    };
    let shown: Vec<&Preset> = if wanted.is_empty() {
        library.iter().collect()
    } else {
        let find =
            |name: &String| library.iter().find(|preset| preset.name == *name).ok_or_else(|| unknown(name));
        names.iter().map(find).collect::<Result<_>>()?
    };
    let mut out = Output::stdout();
    if json {
        let reports = shown.iter().map(|preset| PresetReport {
            name: &preset.name,
            title: &preset.title,
            kind: kind(preset),
            description: preset.description.trim(),
            figures: preset.figures.iter().map(figure_report).collect(),
        });
        out.json(&reports.collect::<Vec<_>>())?;
    } else if wanted.is_empty() {
        let width = shown.iter().map(|preset| preset.name.len()).max().unwrap_or(0);
        for preset in shown {
            out.line(format!("{:<width$}  {}  {}", preset.name, kind(preset), preset.title))?;
        }
    } else {
        for preset in shown {
            lines(&mut out, "", &format!("{}, {}: {}", preset.name, kind(preset), preset.title))?;
            lines(&mut out, "", preset.description.trim())?;
            for figure in preset.figures.iter().map(figure_report) {
                let FigureReport { field, value, sure, source, note } = figure;
                let origin =
                    [sure.as_deref(), source, note].into_iter().flatten().collect::<Vec<_>>().join("; ");
                let figure = format!("  {field} = {value}");
                if figure.chars().count() + 2 + origin.chars().count() <= render::WIDTH {
                    out.line(format!("{figure}  {origin}").trim_end())?;
                } else {
                    out.line(figure)?;
                    lines(&mut out, "      ", &origin)?;
                }
            }
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a text in lines that a terminal shows whole.
fn lines(out: &mut Output, indent: &str, text: &str) -> Result<()> {
    let lines = text.lines().flat_map(|line| render::in_lines(line, render::WIDTH - indent.len()));
    lines.into_iter().try_for_each(|line| out.line(format!("{indent}{line}")))
}

fn figure_report(figure: &Figure) -> FigureReport<'_> {
    FigureReport {
        field: &figure.field,
        value: figure.value,
        sure: figure.sure.map(|sure| sure.to_string()),
        source: figure.source.as_deref(),
        note: figure.note.as_deref(),
    }
}

/// Shows an experiment's progress as a bar.
struct ProgressBar(Bar);

impl Progress for ProgressBar {
    fn at(&self, done: u64, total: u64, what: &str) {
        self.0.set(done * 1000 / total.max(1), what);
    }
}

fn run_experiments(experiments: &[&Experiment], setting: &Setting, output: &OutputArgs) -> Result<ExitCode> {
    for experiment in experiments {
        let checked = experiment.check(setting).context(experiment.id);
        checked.map_err(|failure| failure.with_code(USAGE))?;
    }
    if let Some(dir) = &output.output {
        std::fs::create_dir_all(dir).context(dir.display())?;
    }
    let mut out = Output::stdout();
    let mut outcomes = Vec::new();
    for (n, experiment) in experiments.iter().enumerate() {
        let name = match experiments.len() {
            1 => experiment.id.to_owned(),
            all => format!("{} of {all}: {}", n + 1, experiment.id),
        };
        let bar = ProgressBar(Bar::of_fraction(name));
        let outcome = experiment.run(setting, &bar).context(experiment.id)?;
        drop(bar);
        let text = experiment.text(setting, &outcome);
        if let Some(dir) = &output.output {
            write(dir, experiment, setting, &outcome, &text, output.out.force)?;
        }
        if !output.json {
            if n > 0 {
                out.line("")?;
            }
            out.text(&text)?;
        }
        outcomes.push(outcome);
    }
    let tally: Tally = outcomes.iter().map(Outcome::tally).sum();
    if output.json {
        let reports = experiments
            .iter()
            .zip(&outcomes)
            .map(|(experiment, outcome)| ExperimentReport::of(experiment, setting, Some(outcome)));
        out.json(&reports.collect::<Vec<_>>())?;
    } else if experiments.len() > 1 && setting.is_papers() {
        out.line(format!("\nall experiments\n{}", render::summary(&tally)))?;
    }
    out.finish()?;
    let is_outside = tally.together().outside > 0;
    Ok(if is_outside { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn write(
    dir: &Path,
    experiment: &Experiment,
    setting: &Setting,
    outcome: &Outcome,
    text: &str,
    force: bool,
) -> Result<()> {
    let put = |name: String, content: &str| outfile::write(&dir.join(name), Kind::Result, content, force);
    put(format!("{}.txt", experiment.id), text)?;
    let report = ExperimentReport::of(experiment, setting, Some(outcome));
    let json = serde_json::to_string_pretty(&report).map_err(|e| Failure::new(e.to_string()))?;
    put(format!("{}.json", experiment.id), &(json + "\n"))?;
    let footer = experiment.machine(setting).unwrap_or_else(|| render::short_summary(&outcome.tally()));
    for (n, figure) in outcome.figures.iter().enumerate() {
        let number = if outcome.figures.len() > 1 { format!("-{}", n + 1) } else { String::new() };
        put(format!("{}{number}.svg", experiment.id), &render::svg_with_footer(figure, &footer)?)?;
    }
    Ok(())
}
