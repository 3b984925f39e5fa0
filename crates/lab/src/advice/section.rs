//! Advice as a section of a report.

use super::{Advice, Answer, Basis, Ranked, Tried};
use spindle_report::number::{bytes, real};
use spindle_report::outcome::{Cell, Column, Table};
use spindle_report::{Outcome, Section};

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
            findings.extend(commands(ranked));
            let verdict = |verdict: &super::Verdict| {
                format!("{}: {} ({})", verdict.property, verdict.advice, verdict.because)
            };
            findings.extend(ranked.verdicts.iter().map(verdict));
            findings.extend(ranked.failed.iter().map(|failed| format!("{}: {}", failed.name, failed.why)));
            tables.push(table(ranked));
            findings.extend(rests_on(&advice.basis));
            intro(ranked)
        }
    };
    Section {
        id: "advice".into(),
        title: "Advice".into(),
        text,
        outcome: Outcome { tables, findings, ..Outcome::default() },
    }
}

fn intro(ranked: &Ranked) -> String {
    let ground = &ranked.ground;
    let second = ground.second.as_ref().map_or(String::new(), |second| format!(" and {second}"));
    format!(
        "Each row is a file system of {} that was made, filled and used as the trace says, in virtual time, on the modelled \
         disk {}{second} and host {} with {} of memory for file data. Equal ranks mean no difference in speed. The rate is \
         that of the slower of programs and disk.",
        bytes(ground.size),
        ground.disk,
        ground.host,
        bytes(ground.memory)
    )
}

/// Returns what to do.
fn commands(ranked: &Ranked) -> Vec<String> {
    let advised = &ranked.advised;
    let mut found = vec![if advised.candidate.differences(&ranked_usual(ranked)) == "default" {
        "Advice: what newfs and mount do without options; nothing that was tried is better.".into()
    } else {
        format!(
            "Advice: {}; {:.2} times as fast as what newfs and mount do without options.",
            advised.name, advised.times_default
        )
    }];
    found.push(format!("To make it: {}", ranked.commands.newfs));
    found.extend(ranked.commands.tunefs.iter().map(|tunefs| {
        format!("Of a file system that is there, only the clusters can be changed: {tunefs}")
    }));
    found.push(format!("To mount it: {}", ranked.commands.mount));
    found
}

fn ranked_usual(ranked: &Ranked) -> super::Candidate {
    super::Candidate::usual(ranked.ground.memory)
}

fn table(ranked: &Ranked) -> Table {
    let columns = [
        ("rank", 0),
        ("file system", 0),
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
    let all = ranked.ranking.iter().enumerate();
    let is_shown = |at: usize, tried: &Tried| at < ROWS || tried.name == "default" || *tried == ranked.advised;
    for (_, tried) in all.filter(|(at, tried)| is_shown(*at, tried)) {
        table.row(row(tried, *tried == ranked.advised));
    }
    let more = ranked.ranking.len() - table.rows.len();
    let more = if more > 0 { format!(" {more} more are in the JSON.") } else { String::new() };
    table.explain(format!(
        "* is advised. \"fits\" is the part of the file system that files like those that are left fill before space or \
         inodes (i) end.{more}"
    ));
    table
}

#[allow(clippy::cast_precision_loss)] // Shown with few digits.
fn row(tried: &Tried, is_advised: bool) -> Vec<Cell> {
    let found = &tried.prediction;
    let [half, most, slowest] = found.latency_ms;
    let mut name = tried.name.clone();
    if let Some(but) = &tried.but {
        name += &format!(" ({but})");
    }
    let fits = found.space.map_or(Cell::Empty, |space| Cell::Number(space.fits_percent));
    vec![
        format!("{}{}", tried.rank, if is_advised { " *" } else { "" }).as_str().into(),
        name.as_str().into(),
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
