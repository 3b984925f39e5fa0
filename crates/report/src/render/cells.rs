//! Rows of coloured cells, as SVG: maps of disks.

use crate::{Error, Result};
use plotters::prelude::*;

/// A picture of cells.
pub struct Cells {
    /// What it shows.
    pub title: String,
    /// The rows from above: the label of one that begins a group, and its cells, each an entry of
    /// the legend or nothing.
    pub rows: Vec<(Option<String>, Vec<Option<usize>>)>,
    /// Names and colours (red, green, blue).
    pub legend: Vec<(String, (u8, u8, u8))>,
}

/// Width and height of a cell, in pixels.
const CELL: (i32, i32) = (7, 9);
/// Pixels to the left of the cells, and above them.
const MARGIN: (i32, i32) = (64, 48);
/// Space on the other sides.
const EDGE: i32 = 16;
/// Height of a line of the legend, and entries in a line.
const LEGEND_LINE: i32 = 22;
const LEGEND_COLUMNS: usize = 3;
const TITLE: i32 = 18;
const LABEL: i32 = 12;

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// Returns the picture as the text of an SVG file, on a white ground of its own.
///
/// # Errors
/// [`Error`] of the drawing library.
pub fn cells(picture: &Cells) -> Result<String> {
    let mut out = String::new();
    draw(picture, &mut out).map_err(|why| Error { figure: picture.title.clone(), why: why.to_string() })?;
    out.push('\n');
    Ok(out)
}

fn pixels(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX / 64)
}

fn draw(picture: &Cells, out: &mut String) -> Drawn {
    let columns = picture.rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0).max(64);
    let width = MARGIN.0 + pixels(columns) * CELL.0 + EDGE;
    let legend = MARGIN.1 + pixels(picture.rows.len()) * CELL.1 + EDGE;
    let lines = pixels(picture.legend.len().div_ceil(LEGEND_COLUMNS));
    let height = legend + lines * LEGEND_LINE + EDGE;
    let size = (width.cast_unsigned(), height.cast_unsigned());
    let area = SVGBackend::with_string(out, size).into_drawing_area();
    area.fill(&WHITE)?;
    area.draw(&Text::new(picture.title.clone(), (MARGIN.0, EDGE), ("sans-serif", TITLE)))?;
    let colour = |n: usize| picture.legend.get(n).map_or(BLACK, |(_, (r, g, b))| RGBColor(*r, *g, *b));
    for (row, (label, cells)) in picture.rows.iter().enumerate() {
        let top = MARGIN.1 + pixels(row) * CELL.1;
        let mut column = 0;
        for run in cells.chunk_by(|a, b| a == b) {
            let left = MARGIN.0 + pixels(column) * CELL.0;
            column += run.len();
            let Some(entry) = run[0] else { continue };
            let right = MARGIN.0 + pixels(column) * CELL.0;
            area.draw(&Rectangle::new([(left, top), (right, top + CELL.1)], colour(entry).filled()))?;
        }
        if let Some(label) = label {
            let right = MARGIN.0 + pixels(columns) * CELL.0;
            let border = BLACK.mix(0.5).stroke_width(1);
            area.draw(&PathElement::new([(MARGIN.0 - 6, top), (right, top)], border))?;
            area.draw(&Text::new(label.clone(), (EDGE, top), ("sans-serif", LABEL)))?;
        }
    }
    for (n, (name, _)) in picture.legend.iter().enumerate() {
        let third = (width - MARGIN.0) / pixels(LEGEND_COLUMNS);
        let left = MARGIN.0 + pixels(n % LEGEND_COLUMNS) * third;
        let top = legend + pixels(n / LEGEND_COLUMNS) * LEGEND_LINE;
        let square = [(left, top), (left + 12, top + 12)];
        area.draw(&Rectangle::new(square, colour(n).filled()))?;
        area.draw(&Rectangle::new(square, BLACK.mix(0.4).stroke_width(1)))?;
        area.draw(&Text::new(name.clone(), (left + 18, top), ("sans-serif", LABEL)))?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: each run of equal cells is one rectangle in the colour of its entry of the legend,
    /// and labels and legend are in the picture.
    #[test]
    fn runs_are_rectangles() {
        let picture = Cells {
            title: "disk".into(),
            rows: vec![
                (Some("0".into()), vec![Some(0), Some(0), Some(1), None]),
                (None, vec![Some(1), Some(1), Some(1), Some(0)]),
            ],
            legend: vec![("first".into(), (1, 2, 3)), ("second".into(), (254, 4, 5))],
        };
        let svg = cells(&picture).unwrap();
        // Two runs in rows and one in the legend.
        assert_eq!(svg.matches("fill=\"#010203\"").count(), 3, "{svg}");
        assert_eq!(svg.matches("fill=\"#FE0405\"").count(), 3, "{svg}");
        for text in ["disk", "first", "second"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
