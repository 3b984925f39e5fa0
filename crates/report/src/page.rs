//! A self-contained page for a browser.
//!
//! The one idea: sections with their tables as HTML and their figures as SVG, without scripts and
//! without anything fetched from elsewhere. The colours, also those of the figures, follow the
//! reader's choice of light or dark; wide tables scroll separately; printing has its own style.

use crate::outcome::{Cell, Figure, Plot, Sense, Table, Verdict};
use crate::render::{measured, noted, svg};
use crate::{Result, Section};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// Returns sections as a page; `lead` is text below the title, one paragraph each, `foot` at the
/// end.
///
/// # Errors
/// [`crate::Error`] if a figure cannot be drawn.
pub fn page(title: &str, lead: &[String], sections: &[Section], foot: &str) -> Result<String> {
    let title = escaped(title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for text in lead {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", escaped(text));
    }
    out.push_str("<nav aria-label=\"Contents\">\n<ol>\n");
    for section in sections {
        let _ =
            writeln!(out, "<li><a href=\"#{}\">{}</a></li>", escaped(&section.id), escaped(&section.title));
    }
    out.push_str("</ol>\n</nav>\n<main>\n");
    for section in sections {
        part(&mut out, section)?;
    }
    let _ = write!(out, "</main>\n<footer>{}</footer>\n</body>\n</html>\n", escaped(foot));
    Ok(out)
}

/// Escapes text for HTML, including attributes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

fn part(out: &mut String, section: &Section) -> Result<()> {
    let (id, title) = (escaped(&section.id), escaped(&section.title));
    let _ = writeln!(out, "<section id=\"{id}\">\n<h2>{title}</h2>");
    if !section.text.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", escaped(&section.text));
    }
    for found in &section.outcome.tables {
        if found.title != section.title {
            let _ = writeln!(out, "<h3>{}</h3>", escaped(&found.title));
        }
        table(out, found);
    }
    for found in &section.outcome.figures {
        // The heading has the title, so the figure does not repeat it.
        let title = if found.title == section.title { String::new() } else { found.title.clone() };
        let drawn = svg(&Figure { title, plot: found.plot.clone() })?;
        let label = escaped(&found.title);
        let _ = writeln!(out, "<figure aria-label=\"{label}\">\n<div class=\"wide\">{}</div>", drawn.trim());
        caption(out, &found.plot);
        out.push_str("</figure>\n");
    }
    if !section.outcome.findings.is_empty() {
        out.push_str("<ul>\n");
        for finding in &section.outcome.findings {
            let _ = writeln!(out, "<li>{}</li>", escaped(finding));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n");
    Ok(())
}

fn caption(out: &mut String, plot: &Plot) {
    let Plot::Cumulative { marks, .. } = plot else { return };
    if marks.is_empty() {
        return;
    }
    out.push_str("<figcaption><ul>\n");
    for mark in marks {
        let _ = writeln!(out, "<li>{}</li>", escaped(&mark.text));
    }
    out.push_str("</ul></figcaption>\n");
}

fn table(out: &mut String, found: &Table) {
    out.push_str("<div class=\"wide\">\n<table>\n<thead><tr>");
    for column in &found.columns {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escaped(&column.name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &found.rows {
        out.push_str("<tr>");
        for (n, (text, column)) in row.cells.iter().zip(&found.columns).enumerate() {
            let html = cell(text, column.decimals);
            match (n, text) {
                (0, _) => {
                    let _ = write!(out, "<th scope=\"row\">{html}</th>");
                }
                (_, Cell::Text(_)) => {
                    let _ = write!(out, "<td class=\"text\">{html}</td>");
                }
                _ => {
                    let _ = write!(out, "<td>{html}</td>");
                }
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
    let cells = found.rows.iter().flat_map(|row| &row.cells);
    let of_cells = cells.filter_map(|cell| match cell {
        Cell::Compared(found) => found.shown_note().map(noted),
        _ => None,
    });
    for note in found.note.iter().cloned().chain(of_cells) {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escaped(&note));
    }
}

fn cell(cell: &Cell, decimals: usize) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Text(text) => escaped(text),
        Cell::Number(number) => format!("{number:.decimals$}"),
        Cell::Measured(found) => {
            let text = measured(found);
            // The share or deviation follows the number in smaller letters.
            match text.split_once(" (") {
                Some((number, rest)) => format!("{} <small>({rest}</small>", number.trim_end()),
                None => text,
            }
        }
        Cell::Compared(found) => {
            let mark = if found.verdict() == Verdict::Held { "" } else { "!" };
            let paper = of_paper(found.sense, found.paper, decimals);
            let ours = found.ours;
            let evidence = found.evidence.name();
            let title = found.shown_note().map(|note| format!(" title=\"{}\"", escaped(&noted(note))));
            let title = title.unwrap_or_default();
            format!("{ours:.decimals$} <small{title}>({paper}, {evidence}){mark}</small>")
        }
        Cell::Beside(found) => {
            let paper = of_paper(found.sense, found.paper, decimals);
            format!("{:.decimals$} <small>({paper})</small>", found.ours)
        }
    }
}

fn of_paper(sense: Sense, figure: f64, decimals: usize) -> String {
    match sense {
        Sense::Near => format!("paper {figure:.decimals$}"),
        bound => format!("{} {figure:.decimals$}", bound.sign()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;
    use crate::outcome::{Column, Comparison, Evidence, Mark, Measured, Note, Published, Series, Unit};

    /// Promise: a page has every section after its link, with tables, figures and sentences, and no
    /// text is interpreted as HTML or fetched from elsewhere.
    #[test]
    fn pages_are_complete_and_self_contained() {
        let mut table = Table::new("A & B", ["who", "n", "c"].map(|name| Column::new(name, 1)));
        let number = Measured::new(12_345.0, 0).of(Some(0.5));
        let compared = Comparison::new(Evidence::Fitted, Published::amount(2.0, 0.1), 1.0);
        let compared = compared.because(Note::new("why", 0.4, 0.6));
        table.row(["<script>".into(), number.into(), compared.into()]);
        table.explain("as <it> is");
        let series = vec![Series { name: "runs".into(), points: vec![(1.0, 0.0), (4096.0, 1.0)] }];
        let marks = vec![Mark { x: 100.0, y: (0.2, 0.4), text: "then & there".into() }];
        let (x, unit, y) = ("size".into(), Unit::Bytes, "share".into());
        let plot = Plot::Cumulative { x, unit, y, series, marks };
        let outcome = Outcome {
            tables: vec![table],
            figures: vec![Figure { title: "F".into(), plot }],
            findings: vec!["It \"is\" so.".into()],
        };
        let section = Section { id: "one".into(), title: "A & B".into(), text: "words".into(), outcome };
        let page = page("T < U", &["lead".into()], &[section], "foot").unwrap();
        for wanted in [
            "<title>T &lt; U</title>",
            "<a href=\"#one\">A &amp; B</a>",
            "<section id=\"one\">",
            "<th scope=\"row\">&lt;script&gt;</th>",
            "<td>12,345 <small>(50.0 %)</small></td>",
            "1.0 <small title=\"why (Explains ratios from 0.40 to 0.60.)\">(paper 2.0, fitted)!</small>",
            "as &lt;it&gt; is",
            "<svg ",
            "then &amp; there",
            "<li>It &quot;is&quot; so.</li>",
            "<footer>foot</footer>",
        ] {
            assert!(page.contains(wanted), "{wanted}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains("<h3>A &amp; B"));
        // The only addresses are namespaces.
        assert!(page.matches("http").count() == page.matches("http://www.w3.org/2000/svg").count(), "{page}");
    }
}
