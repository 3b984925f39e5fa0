//! Shows outcomes: as text on a terminal, as CSV, and their figures as SVG.

mod axis;
mod cells;
mod csv;
mod plot;
mod svg;
mod table;

pub use cells::{Cells, cells};
pub use csv::{csv, figure_csv};
pub use plot::plot;
pub use svg::{svg, svg_with_footer};
pub use table::{in_lines, table};
pub(crate) use table::{measured, noted};

use crate::outcome::{Evidence, Tally, Verdicts};
use crate::{Outcome, Section};
use std::fmt::Write;

/// Width of all text in columns.
pub const WIDTH: usize = 80;

/// Returns an outcome as text: tables, figures, findings, and a summary of its comparisons. Each
/// part begins with an empty line.
#[must_use]
pub fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    for found in &outcome.tables {
        line("");
        line(table(found).trim_end());
    }
    for figure in &outcome.figures {
        line("");
        line(plot(figure).trim_end());
    }
    if !outcome.findings.is_empty() {
        line("");
    }
    for finding in &outcome.findings {
        line(&wrapped(&format!("- {finding}"), "  "));
    }
    let tally = outcome.tally();
    if tally.together().all() > 0 {
        line("");
        line(&summary(&tally));
    }
    out
}

/// Returns sections as text; leaves out a heading that repeats the title of the first table or
/// figure.
#[must_use]
pub fn sections(sections: &[Section]) -> String {
    let mut out = String::new();
    for section in sections {
        if !repeats_title(section) {
            let _ = write!(out, "\n{}\n", wrapped(&section.title, "  "));
        }
        if !section.text.is_empty() {
            let _ = write!(out, "\n{}\n", wrapped(&section.text, ""));
        }
        out.push_str(&text(&section.outcome));
    }
    out
}

/// Returns true if the heading of a section is the title of the first table or figure in it.
fn repeats_title(section: &Section) -> bool {
    let tables = section.outcome.tables.iter().map(|table| &table.title);
    let mut titles = tables.chain(section.outcome.figures.iter().map(|figure| &figure.title));
    titles.next() == Some(&section.title)
}

/// Summarises comparisons, with a line for each kind of evidence that there is.
#[must_use]
pub fn summary(tally: &Tally) -> String {
    let lines = Evidence::ALL.into_iter().filter_map(|evidence| {
        let Verdicts { held, explained, outside } = tally.by(evidence);
        let all = tally.by(evidence).all();
        let mut line = format!("{}: {held} of {all} figures within tolerance", evidence.name());
        if explained > 0 {
            let _ = write!(line, ", {explained} outside and explained");
        }
        if outside > 0 {
            let _ = write!(line, ", {outside} outside");
        }
        (all > 0).then_some(line)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the same in one short line, such as below a figure; nothing without comparisons.
#[must_use]
pub fn short_summary(tally: &Tally) -> String {
    let parts = Evidence::ALL.into_iter().filter_map(|evidence| {
        let verdicts = tally.by(evidence);
        let all = verdicts.all();
        (all > 0).then(|| format!("{} {} of {all}", evidence.name(), verdicts.held))
    });
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { String::new() } else { format!("figures within tolerance: {}", parts.join(", ")) }
}

/// Wraps text at blanks to lines of [`WIDTH`]; the lines after the first begin with `indent`.
#[must_use]
pub fn wrapped(text: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > WIDTH {
            out.push('\n');
            out.push_str(indent);
            column = indent.len();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: each kind of evidence is counted in a line of its own, and left out where there is
    /// none.
    #[test]
    fn summaries() {
        let tally = Tally {
            fitted: Verdicts { held: 3, explained: 1, outside: 0 },
            predicted: Verdicts { held: 2, explained: 0, outside: 1 },
            ..Tally::default()
        };
        let expected = "fitted: 3 of 4 figures within tolerance, 1 outside and explained\n\
                        predicted: 2 of 3 figures within tolerance, 1 outside";
        assert_eq!(summary(&tally), expected);
        assert_eq!(short_summary(&tally), "figures within tolerance: fitted 3 of 4, predicted 2 of 3");
        assert_eq!(short_summary(&Tally::default()), "");
    }

    /// Promise: no line is longer than the width unless a word is, and no word is lost.
    #[test]
    fn wrapping() {
        let text = "word ".repeat(100);
        let out = wrapped(&text, "  ");
        assert!(out.lines().all(|line| line.len() <= WIDTH), "{out}");
        assert_eq!(out.split_whitespace().count(), 100);
        assert_eq!(wrapped("", ""), "");
    }
}
