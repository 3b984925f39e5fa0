//! Tables and figures as CSV (RFC 4180): numbers without units or thousands separators; shares,
//! deviations and papers' figures have columns of their own.

use crate::outcome::{Cell, Figure, Measured, Plot, Series, Table};
use std::fmt::Write;

/// Returns a table as CSV. A column with shares, deviations or a paper's figures is followed by
/// columns for these.
#[must_use]
pub fn csv(table: &Table) -> String {
    let mut out = String::new();
    let extra: Vec<_> = (0..table.columns.len()).map(|c| Extra::of(table, c)).collect();
    let heads = table.columns.iter().zip(&extra).flat_map(|(column, extra)| {
        let name = &column.name;
        let named = extra.names().map(move |extra| format!("{name} {extra}").trim().to_owned());
        std::iter::once(name.clone()).chain(named)
    });
    line(&mut out, heads);
    for row in &table.rows {
        line(&mut out, row.cells.iter().zip(&extra).flat_map(|(cell, extra)| extra.values(cell)));
    }
    out
}

/// Returns a figure as CSV: a line for each point of a curve, or for each group of bars.
#[must_use]
pub fn figure_csv(figure: &Figure) -> String {
    let mut out = String::new();
    let mut curves = |x: &str, y: &str, series: &[Series]| {
        line(&mut out, ["curve".into(), x.to_owned(), y.to_owned()]);
        for curve in series {
            for (x, y) in &curve.points {
                line(&mut out, [curve.name.clone(), x.to_string(), y.to_string()]);
            }
        }
    };
    match &figure.plot {
        Plot::Lines { x, y, series } | Plot::Cumulative { x, y, series, .. } => curves(x, y, series),
        Plot::Bars { y, groups, series } => {
            line(&mut out, std::iter::once(y.clone()).chain(series.iter().map(|(name, _)| name.clone())));
            for (n, group) in groups.iter().enumerate() {
                let values =
                    series.iter().map(|(_, values)| values.get(n).map_or(String::new(), f64::to_string));
                line(&mut out, std::iter::once(group.clone()).chain(values));
            }
        }
    }
    out
}

/// The additional columns for the numbers of a column.
#[derive(Clone, Copy, Default)]
struct Extra {
    share: bool,
    deviation: bool,
    paper: bool,
}

impl Extra {
    fn of(table: &Table, c: usize) -> Self {
        let mut extra = Self::default();
        for row in &table.rows {
            match &row.cells[c] {
                Cell::Measured(Measured { share, deviation, .. }) => {
                    extra.share |= share.is_some();
                    extra.deviation |= deviation.is_some();
                }
                Cell::Compared(_) | Cell::Beside(_) => extra.paper = true,
                Cell::Empty | Cell::Text(_) | Cell::Number(_) => {}
            }
        }
        extra
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        self.pick(["share", "deviation", "paper"])
    }

    fn pick<T>(self, all: [T; 3]) -> impl Iterator<Item = T> {
        let wanted = [self.share, self.deviation, self.paper];
        all.into_iter().zip(wanted).filter_map(|(item, wanted)| wanted.then_some(item))
    }

    fn values(self, cell: &Cell) -> impl Iterator<Item = String> + use<> {
        let number = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
        let (value, extra) = match cell {
            Cell::Empty => (String::new(), [None; 3]),
            Cell::Text(text) => (text.clone(), [None; 3]),
            Cell::Number(value) => (value.to_string(), [None; 3]),
            Cell::Measured(found) => (found.value.to_string(), [found.share, found.deviation, None]),
            Cell::Compared(found) => (found.ours.to_string(), [None, None, Some(found.paper)]),
            Cell::Beside(found) => (found.ours.to_string(), [None, None, Some(found.paper)]),
        };
        std::iter::once(value).chain(self.pick(extra.map(number)))
    }
}

fn line(out: &mut String, fields: impl IntoIterator<Item = String>) {
    for (n, field) in fields.into_iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        if field.contains(['"', ',', '\n', '\r']) {
            let _ = write!(out, "\"{}\"", field.replace('"', "\"\""));
        } else {
            out.push_str(&field);
        }
    }
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Column, Comparison, Evidence, Published};

    /// Promise: each kind of cell has its numbers in columns of their own, and texts are quoted if
    /// necessary.
    #[test]
    fn cells() {
        let mut table = Table::new("t", ["what", "here", "then"].map(|name| Column::new(name, 0)));
        let here = Measured::new(1234.5, 0).of(Some(0.25));
        let compared = Comparison::new(Evidence::Predicted, Published::amount(2.0, 1.0), 1.0);
        table.row(["a, \"b\"".into(), here.into(), compared.into()]);
        table.row(["c".into(), Measured::new(2.0, 0).within(0.5).into(), Cell::Empty]);
        table.row(["d".into(), "text".into(), 7.0.into()]);
        let expected = "what,here,here share,here deviation,then,then paper\r\n\
                        \"a, \"\"b\"\"\",1234.5,0.25,,1,2\r\nc,2,,0.5,,\r\nd,text,,,7,\r\n";
        assert_eq!(csv(&table), expected);
    }

    /// Promise: curves are written point by point, bars group by group.
    #[test]
    fn figures() {
        let series = vec![Series { name: "new".into(), points: vec![(1.0, 0.5), (2.0, 1.0)] }];
        let plot = Plot::Lines { x: "x".into(), y: "y".into(), series };
        assert_eq!(figure_csv(&Figure { title: "t".into(), plot }), "curve,x,y\r\nnew,1,0.5\r\nnew,2,1\r\n");
        let series = vec![("s".into(), vec![1.0])];
        let plot = Plot::Bars { y: "y".into(), groups: vec!["g".into(), "h".into()], series };
        assert_eq!(figure_csv(&Figure { title: "t".into(), plot }), "y,s\r\ng,1\r\nh,\r\n");
    }
}
