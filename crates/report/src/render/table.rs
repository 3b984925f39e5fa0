//! Tables as aligned text. A column with comparisons becomes three: the paper's figure, ours, and
//! the ratio. An `f` or `h` after the ratio says that ours was fitted or held out. A ratio outside
//! its tolerance is marked with `!`, and with the number of its note in brackets if there is one.

use super::{WIDTH, wrapped};
use crate::outcome::{Cell, Column, Measured, Note, Row, Table, Verdict};
use std::fmt::Write;

const GAP: &str = "  ";
const SUB: [&str; 3] = ["paper", "ours", "ratio"];
/// The sub-column of the ratio; marks and notes follow its digits, so it is left-aligned.
const RATIO: usize = 2;

/// The cells of one row of text, by column and sub-column.
type Line = Vec<Vec<String>>;

/// Returns a table as text, with its notes below.
#[must_use]
pub fn table(table: &Table) -> String {
    let mut notes: Vec<&Note> = Vec::new();
    let triple: Vec<bool> = (0..table.columns.len())
        .map(|c| table.rows.iter().any(|row| matches!(row.cells[c], Cell::Compared(_) | Cell::Beside(_))))
        .collect();
    let body: Vec<Line> = table.rows.iter().map(|row| line(table, row, &mut notes)).collect();

    let widths_for = |head: fn(&str) -> usize| -> Vec<Vec<usize>> {
        (0..table.columns.len()).map(|c| widths(table, &body, &triple, (c, head))).collect()
    };
    let mut widths = widths_for(|head| head.chars().count());
    if excess(&widths) > 0 {
        widths = widths_for(longest_word);
        if is_text(table, 0) && !triple[0] {
            let labels = body.iter().map(|line| longest_word(&line[0][0]));
            let least = labels.chain([longest_word(&table.columns[0].name)]).max().unwrap_or(0);
            widths[0][0] = widths[0][0].min(least.max(widths[0][0].saturating_sub(excess(&widths))));
        }
    }
    let mut out = format!("{}\n\n", wrapped(&table.title, "  "));
    for (n, columns) in blocks(&widths).into_iter().enumerate() {
        if n > 0 {
            out.push('\n');
        }
        push_block(&mut out, table, &body, (&triple, &widths), &columns);
    }
    if let Some(note) = &table.note {
        out.push_str(&wrapped(note, ""));
        out.push('\n');
    }
    for (n, note) in notes.iter().enumerate() {
        out.push_str(&wrapped(&format!("[{}] {}", n + 1, noted(note)), "    "));
        out.push('\n');
    }
    out
}

/// Returns a note with the ratios that it explains.
pub(crate) fn noted(note: &Note) -> String {
    format!("{} (Explains ratios from {:.2} to {:.2}.)", note.text, note.ratios.start(), note.ratios.end())
}

/// Returns the columns of each block of a table. One that is too wide is continued below, with its
/// labels again, if that makes it fit.
fn blocks(widths: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let width = |columns: &[usize]| columns.iter().map(|&c| total(&widths[c]) + GAP.len()).sum::<usize>();
    let mut blocks = vec![vec![0]];
    for (c, column) in widths.iter().enumerate().skip(1) {
        let last = blocks.len() - 1;
        let is_full = width(&blocks[last]) + total(column) > WIDTH;
        if is_full && blocks[last].len() > 1 {
            blocks.push(vec![0, c]);
        } else {
            blocks[last].push(c);
        }
    }
    let fits = blocks.iter().all(|columns| width(columns) <= WIDTH + GAP.len());
    if fits { blocks } else { vec![(0..widths.len()).collect()] }
}

/// Adds some columns of a table, with their headings.
fn push_block(
    out: &mut String,
    table: &Table,
    body: &[Line],
    (triple, widths): (&[bool], &[Vec<usize>]),
    columns: &[usize],
) {
    let head = |&c: &usize| in_lines(&table.columns[c].name, total(&widths[c]));
    let heads: Vec<Vec<String>> = columns.iter().map(head).collect();
    let lines = heads.iter().map(Vec::len).max().unwrap_or(0);
    for n in 0..lines {
        let cells = columns.iter().zip(&heads).map(|(&c, head)| {
            // The last lines are level.
            let part = (n + head.len()).checked_sub(lines).map_or("", |n| &head[n]);
            let width = total(&widths[c]);
            if triple[c] { center(part, width) } else { pad(part, width, is_text(table, c)) }
        });
        push(out, cells);
    }
    if columns.iter().any(|&c| triple[c]) {
        let subs = columns.iter().flat_map(|&c| {
            let plain = widths[c].len() == 1;
            widths[c]
                .iter()
                .zip(SUB)
                .enumerate()
                .map(move |(s, (&width, sub))| pad(if plain { "" } else { sub }, width, s == RATIO))
        });
        push(out, subs);
    }
    push(out, columns.iter().map(|&c| "-".repeat(total(&widths[c]))));
    for line in body {
        let mut labels = in_lines(&line[0][0], widths[0][0]).into_iter();
        let mut cells = Vec::new();
        for &c in columns {
            let (parts, widths, left) = (&line[c], &widths[c], is_text(table, c));
            if c == 0 && !triple[0] {
                cells.push(pad(&labels.next().unwrap_or_default(), widths[0], left));
            } else if parts.len() == widths.len() {
                let parts = parts.iter().zip(widths).enumerate();
                cells.extend(parts.map(|(s, (part, &width))| pad(part, width, left || s == RATIO)));
            } else {
                // A plain cell in a column of comparisons: the number is aligned with ours.
                cells.extend([pad(&parts[0], total(&widths[..2]), left), " ".repeat(widths[2])]);
            }
        }
        push(out, cells);
        labels.for_each(|label| push(out, [label]));
    }
}

/// Returns the texts of a row; adds its notes to `notes`.
fn line<'a>(table: &'a Table, row: &'a Row, notes: &mut Vec<&'a Note>) -> Line {
    let mut mark = |note: &'a Note| {
        let known = notes.iter().position(|&other| other == note);
        let n = known.unwrap_or_else(|| {
            notes.push(note);
            notes.len() - 1
        });
        format!(" [{}]", n + 1)
    };
    let cells = row.cells.iter().zip(&table.columns).map(|(cell, column)| match cell {
        Cell::Empty => vec![String::new()],
        Cell::Text(text) => vec![text.clone()],
        Cell::Number(number) => vec![digits(*number, column)],
        Cell::Measured(found) => vec![measured(found)],
        Cell::Compared(found) => {
            let mut ratio = format!("{:.2}{}", found.ratio(), found.evidence.letter());
            if found.verdict() != Verdict::Held {
                ratio.push('!');
            }
            ratio.push_str(&found.shown_note().map(&mut mark).unwrap_or_default());
            let paper = format!("{}{}", found.sense.sign(), digits(found.paper, column));
            vec![paper, digits(found.ours, column), ratio]
        }
        Cell::Beside(found) => {
            let paper = format!("{}{}", found.sense.sign(), digits(found.paper, column));
            let ratio = found.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}"));
            vec![paper, digits(found.ours, column), ratio]
        }
    });
    cells.collect()
}

fn digits(number: f64, column: &Column) -> String {
    format!("{number:.*}", column.decimals)
}

/// Formats a number with this number of decimals, and commas between groups of three digits of a
/// long one.
pub(super) fn grouped(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let digits = whole.trim_start_matches('-').len();
    // Four digits are easy to read.
    if digits < 5 || !number.is_finite() {
        return text;
    }
    let mut out = String::new();
    for (n, digit) in whole.chars().enumerate() {
        let left = whole.len() - n;
        if left % 3 == 0 && left < digits {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// Formats a number with its deviation and share.
pub(crate) fn measured(found: &Measured) -> String {
    let mut text = grouped(found.value, found.decimals);
    if let Some(deviation) = found.deviation {
        let _ = write!(text, " (± {})", grouped(deviation, found.decimals));
    }
    if let Some(share) = found.share {
        let percent = format!("({:.1} %)", share * 100.0);
        let _ = write!(text, " {percent:>9}");
    }
    text
}

/// Returns the length of the longest word of a heading.
fn longest_word(head: &str) -> usize {
    head.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0)
}

/// Returns a text in lines of `width`; the lines are longer only where a word is.
#[must_use]
pub fn in_lines(text: &str, width: usize) -> Vec<String> {
    let len = |text: &str| text.chars().count();
    if len(text) <= width {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|last| len(last) + 1 + len(word) <= width) {
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns by how much a table with these columns is wider than [`WIDTH`].
fn excess(widths: &[Vec<usize>]) -> usize {
    let columns: usize = widths.iter().map(|widths| total(widths) + GAP.len()).sum();
    columns.saturating_sub(WIDTH + GAP.len())
}

/// Returns the widths of the sub-columns of column `c`, whose heading needs the width that `head`
/// says.
fn widths(
    table: &Table,
    body: &[Line],
    triple: &[bool],
    (c, head): (usize, fn(&str) -> usize),
) -> Vec<usize> {
    let len = |text: &str| text.chars().count();
    let head = head(&table.columns[c].name);
    if !triple[c] {
        return vec![body.iter().map(|line| len(&line[c][0])).max().unwrap_or(0).max(head)];
    }
    let mut widths = SUB.map(len).to_vec();
    for parts in body.iter().map(|line| &line[c]) {
        if parts.len() == 3 {
            for (width, part) in widths.iter_mut().zip(parts) {
                *width = len(part).max(*width);
            }
        } else {
            widths[1] = widths[1].max(len(&parts[0]));
        }
    }
    // A long heading widens the first part.
    widths[0] += head.saturating_sub(total(&widths));
    widths
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * (widths.len() - 1)
}

/// Returns true if a column contains texts, which are left-aligned.
fn is_text(table: &Table, c: usize) -> bool {
    table.rows.iter().any(|row| matches!(row.cells[c], Cell::Text(_)))
}

/// Widens a text to `width` columns. (The macros of the language stop at 65,535.)
pub(super) fn pad(text: &str, width: usize, left: bool) -> String {
    let space = " ".repeat(width.saturating_sub(text.chars().count()));
    if left { text.to_owned() + &space } else { space + text }
}

fn center(text: &str, width: usize) -> String {
    let before = width.saturating_sub(text.chars().count()) / 2;
    pad(&(" ".repeat(before) + text), width, true)
}

fn push(out: &mut String, cells: impl IntoIterator<Item = String>) {
    let line = cells.into_iter().collect::<Vec<_>>().join(GAP);
    out.push_str(line.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Comparison, Evidence, Published};

    /// Promise: a cell may have any length; its column is as wide.
    #[test]
    fn long_cells() {
        let mut found = Table::new("Names", [Column::new("name", 0), Column::new("n", 0)]);
        found.row(["x".repeat(70_000).into(), 1.0.into()]);
        found.row(["y".into(), 2.0.into()]);
        let last = table(&found).lines().last().unwrap().to_owned();
        assert_eq!(last.len(), 70_000 + "  2".len());
    }

    /// Promise: where a table would be too wide, headings and labels have several lines.
    #[test]
    fn long_headings() {
        let heads = ["a long heading", "another long heading", "KiB of many things"];
        let columns = heads.into_iter().cycle().take(7).map(|head| Column::new(head, 0));
        let mut found = Table::new("Wide", [Column::new("kind", 0)].into_iter().chain(columns));
        let label = Cell::Text("what a rather long label says of a row".into());
        found.row([label].into_iter().chain((0..7).map(|n| f64::from(n).into())));
        let text = table(&found);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let expected = "\
Wide

                              another  KiB of           another  KiB of
                      a long     long    many   a long     long    many   a long
kind                 heading  heading  things  heading  heading  things  heading
-------------------  -------  -------  ------  -------  -------  ------  -------
what a rather long         0        1       2        3        4       5        6
label says of a row
";
        assert_eq!(text, expected, "{text}");
    }

    /// Promise: a table whose figures are too wide is continued below with its labels again, and no
    /// line is wider than the page.
    #[test]
    fn wide_tables_are_continued() {
        let columns = (0..4).map(|n| Column::new(format!("column {n}"), 0));
        let mut found = Table::new("Wide", [Column::new("kind", 0)].into_iter().chain(columns));
        let cells = (0..4).map(|n| Cell::Text(format!("{n}").repeat(24)));
        found.row([Cell::Text("opened".into())].into_iter().chain(cells));
        let text = table(&found);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let expected = format!(
            "\
Wide

kind    column 0                  column 1
------  ------------------------  ------------------------
opened  {}  {}

kind    column 2                  column 3
------  ------------------------  ------------------------
opened  {}  {}
",
            "0".repeat(24),
            "1".repeat(24),
            "2".repeat(24),
            "3".repeat(24)
        );
        assert_eq!(text, expected, "{text}");
    }

    /// Promise: a paper's figure for reference stands beside ours, with the ratio and no mark; a
    /// bound has no ratio.
    #[test]
    fn figures_for_reference() {
        let mut found = Table::new("Rates", [Column::new("system", 0), Column::new("KB/s", 0)]);
        let far = Comparison::new(Evidence::Fitted, Published::amount(29.0, 1.0), 87.0);
        found.row(["old".into(), far.because(Note::new("The bus.", 2.0, 4.0)).into()]);
        let bound = Comparison::new(Evidence::Predicted, Published::at_least(300.0), 100.0);
        found.row(["best".into(), bound.into()]);
        let outcome = crate::Outcome { tables: vec![found], ..crate::Outcome::default() };
        let expected = "\
Rates

system         KB/s
        paper  ours  ratio
------  ------------------
old        29    87  3.00
best     ≥300   100
";
        assert_eq!(table(&outcome.for_reference().tables[0]), expected);
    }

    /// Promise: columns are aligned, comparisons show paper or bound, ours, ratio and evidence, and
    /// deviations are marked and explained once, with their bounds.
    #[test]
    fn columns_are_aligned() {
        let mut found = Table::new("Rates", [Column::new("system", 0), Column::new("KB/s", 0)]);
        let rate = |paper| Published::amount(paper, 1.0);
        let bus = || Note::new("The bus.", 0.6, 0.8);
        let near = Comparison::new(Evidence::Fitted, rate(29.0), 30.0).because(bus());
        found.row(["old".into(), near.into()]);
        found.row([
            "new".into(),
            Comparison::new(Evidence::HeldOut, rate(466.0), 300.0).because(bus()).into(),
        ]);
        let newer = Comparison::new(Evidence::Predicted, rate(466.0), 300.0).because(bus());
        found.row(["newer".into(), newer.into()]);
        let best = Comparison::new(Evidence::Predicted, Published::at_least(300.0), 466.0);
        found.row(["best".into(), best.into()]);
        found.row(["ours".into(), 7.0.into()]);
        let text = table(&found);
        let expected = "\
Rates

system           KB/s
        paper  ours  ratio
------  -----------------------
old        29    30  1.03f
new       466   300  0.64h! [1]
newer     466   300  0.64! [1]
best     ≥300   466  1.55
ours              7
[1] The bus. (Explains ratios from 0.60 to 0.80.)
";
        assert_eq!(text, expected, "{text}");
    }
}
