//! Advice as a section of a report.

use super::{Advice, Answer, Basis, Commands, Ranked, Tried};
use spindle_report::number::{bytes, real};
use spindle_report::outcome::{Cell, Column, Table};
use spindle_report::{Outcome, Section};

/// The name of the candidate that has no options.
const DEFAULT: &str = "default";
/// Rows of the table at most; JSON has all.
const ROWS: usize = 12;

/// Returns the advice as a section of a report.
#[must_use]
pub fn section(advice: &Advice) -> Section {
    let mut findings = Vec::new();
    let mut tables = Vec::new();
    let text = match &advice.answer {
        Answer::TooSmall(why) => {
            findings.push(format!("{why}. So there is no advice."));
            String::new()
        }
        Answer::Ranked(ranked) => {
            tables.push(commands(&ranked.commands));
            let verdict = |verdict: &super::Verdict| {
                format!("{}: {} ({})", verdict.property, verdict.advice, verdict.because)
            };
            findings.extend(ranked.verdicts.iter().map(verdict));
            let failed =
                |failed: &super::Failed| format!("{} cannot carry the load: {}", failed.name, failed.why);
            findings.extend(ranked.failed.iter().map(failed));
            tables.push(table(ranked));
            findings.extend(rests_on(&advice.basis));
            format!("{} {}", advised(ranked), intro(ranked, advice.basis.seconds_simulated))
        }
    };
    Section {
        id: "advice".into(),
        title: "Advice".into(),
        text,
        outcome: Outcome { tables, findings, ..Outcome::default() },
    }
}

fn intro(ranked: &Ranked, seconds: f64) -> String {
    let ground = &ranked.ground;
    let second = ground.second.as_ref().map_or(String::new(), |second| format!(" and {second}"));
    let usual = ranked.ranking.iter().find(|tried| tried.name == DEFAULT);
    let set = matches!(ranked.advised.candidate.layout, super::Layout::Mfs { .. });
    let set = if set { " Only Spindle reads mfs; --only-ufs advises the best UFS." } else { "" };
    let load = usual.map(|usual| {
        let found = &usual.prediction;
        let (waited, disk) = (found.waited_seconds, found.disk_seconds);
        format!(
            " By default programs waited {waited:.3} s, and the disk worked {disk:.3} s, of {seconds:.0} s."
        )
    });
    let load = load.unwrap_or_default();
    format!(
        "Each row is a file system of {} that was made, filled and used as the trace says, in virtual time, on the modelled \
         disk {}{second} and host {} with {} of memory for file data. Equal ranks mean no difference in speed. The rate is \
         that of the slower of programs and disk.{load}{set}",
        bytes(ground.size),
        ground.disk,
        ground.host,
        bytes(ground.memory)
    )
}

/// Returns the advice in a sentence.
fn advised(ranked: &Ranked) -> String {
    let advised = &ranked.advised;
    let usual = ranked.ranking.iter().find(|tried| tried.name == DEFAULT);
    match usual {
        Some(usual) if usual.candidate != advised.candidate => {
            let speed = if usual.rank == advised.rank {
                "as fast".into()
            } else {
                format!("{:.2} times as fast", advised.times_default)
            };
            let room = room(usual, advised).unwrap_or_default();
            format!("Advised: {}; {speed} as what newfs and mount do without options.{room}", advised.name)
        }
        _ => "Advised: what newfs and mount do without options; nothing that was tried is better.".into(),
    }
}

/// Returns the commands, which are ready to be copied.
fn commands(commands: &Commands) -> Table {
    let mut table = Table::new("Commands", [Column::new("to", 0), Column::new("command", 0)]);
    let tunefs = commands.tunefs.as_ref().map(|command| ("change one that is there", command));
    let all = [("make it", &commands.newfs)].into_iter().chain(tunefs).chain([("mount it", &commands.mount)]);
    for (to, command) in all {
        table.row([to.into(), command.as_str().into()]);
    }
    table
}

/// Returns how much more of the space files can fill.
fn room(usual: &Tried, advised: &Tried) -> Option<String> {
    let [before, after] =
        [usual, advised].map(|tried| tried.prediction.space.map(|space| space.fits_percent));
    Some(format!(" Files like those of the trace fill {:.1} % of it, not {:.1} %.", after?, before?))
}

fn table(ranked: &Ranked) -> Table {
    let columns = [
        ("rank", 0),
        ("options", 0),
        ("× default", 2),
        ("MB/s", 2),
        ("p50 ms", 3),
        ("p95 ms", 3),
        ("p99 ms", 3),
        ("disk reads", 0),
        ("disk writes", 0),
        ("disk MB", 1),
        ("disk s", 2),
        ("fits %", 1),
    ];
    let columns = columns.into_iter().map(|(name, decimals)| Column::new(name, decimals));
    let mut table = Table::new("Candidates, the best first", columns);
    // How much memory is enough is a finding of its own.
    let all: Vec<_> =
        ranked.ranking.iter().filter(|tried| tried.candidate.memory_bytes == ranked.ground.memory).collect();
    let is_shown = |at: usize, tried: &Tried| at < ROWS || tried.name == DEFAULT || *tried == ranked.advised;
    for (_, tried) in all.iter().enumerate().filter(|(at, tried)| is_shown(*at, tried)) {
        table.row(row(tried, **tried == ranked.advised));
    }
    let more = ranked.ranking.len() - table.rows.len();
    let more = if more > 0 { format!(" {more} more are in the JSON.") } else { String::new() };
    table.explain(format!(
        "* is advised; - is not, for what it loses or needs (below). \"fits\": the part of the space that files like those \
         left by the trace fill before space or inodes end.{more}"
    ));
    table
}

#[allow(clippy::cast_precision_loss)] // Shown with few digits.
fn row(tried: &Tried, is_advised: bool) -> Vec<Cell> {
    let found = &tried.prediction;
    let [half, most, slowest] = found.latency_ms;
    let mark = if is_advised {
        " *"
    } else if tried.but.is_some() {
        " -"
    } else {
        ""
    };
    let fits = found.space.map_or(Cell::Empty, |space| Cell::Number(space.fits_percent));
    vec![
        format!("{}{mark}", tried.rank).as_str().into(),
        tried.name.as_str().into(),
        tried.times_default.into(),
        (found.bytes_per_second / 1e6).into(),
        half.into(),
        most.into(),
        slowest.into(),
        real(found.disk_reads).into(),
        real(found.disk_writes).into(),
        (real(found.disk_bytes_read + found.disk_bytes_written) / 1e6).into(),
        found.disk_seconds.into(),
        fits,
    ]
}

/// Returns what the advice rests on.
fn rests_on(basis: &Basis) -> Vec<String> {
    let mut found = vec![format!(
        "It rests on {} events in {:.1} hours, which read {}, wrote {} and made files durable {} times; {} of them were \
         simulated, from event {}, which took {:.0} s{}. {} more, at most, were used through mapped memory, and carry no \
         advice.",
        basis.events,
        basis.seconds / 3600.0,
        bytes(basis.bytes_read),
        bytes(basis.bytes_written),
        basis.syncs,
        basis.events_simulated,
        basis.first_event,
        basis.seconds_simulated,
        if basis.events_simulated < basis.events { " and are the stretch most like the whole" } else { "" },
        bytes(basis.bytes_mapped)
    )];
    found.push(format!(
        "{} files of {} were there before; {} of {} were left, as far as the trace mentions them.",
        basis.files_before,
        bytes(basis.bytes_before),
        basis.files_left,
        bytes(basis.bytes_left)
    ));
    if let Some(cut) = basis.cut_to {
        found.push(format!("Files of more than {} were simulated as if they had that.", bytes(cut)));
    }
    if basis.left_out > 0 {
        found.push(format!("{} events that move too much for a simulation were left out.", basis.left_out));
    }
    found.push(
        "Not simulated: what the kernel and FUSE add to a call, a file system that has been in use for months, and several \
         programs at once."
            .into(),
    );
    found
}
