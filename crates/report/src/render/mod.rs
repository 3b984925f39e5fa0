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
pub use svg::svg;
pub(crate) use table::measured;
pub use table::{in_lines, table};

use crate::outcome::Verdict;
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
    let counts = [Verdict::Held, Verdict::Explained, Verdict::Outside].map(|verdict| outcome.count(verdict));
    if counts != [0; 3] {
        line("");
        line(&summary(counts));
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

/// Summarises comparisons in one line: held, explained, outside.
#[must_use]
pub fn summary([held, explained, outside]: [usize; 3]) -> String {
    let mut out = format!("{} of {} figures within tolerance", held, held + explained + outside);
    if explained > 0 {
        let _ = write!(out, ", {explained} outside and explained");
    }
    if outside > 0 {
        let _ = write!(out, ", {outside} outside");
    }
    out
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
