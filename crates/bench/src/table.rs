//! Collects times and prints medians and ratios.

use std::fmt::Write;
use std::time::Duration;

/// Times by row and column, in the order in which they first came.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    /// What one second's work is counted in.
    unit: &'static str,
    cells: Vec<(String, Vec<f64>)>,
}

impl Table {
    /// Notes that `column` did `amount` units of the row's work in `time`. The first column of a
    /// row is what its others are compared with.
    pub fn note(&mut self, row: &str, column: &str, amount: f64, unit: &'static str, time: Duration) {
        let rate = amount / time.as_secs_f64();
        eprintln!("  {row}: {column} {rate:.1} {unit}");
        if !self.rows.iter().any(|known| known.name == row) {
            self.rows.push(Row { name: row.into(), unit, cells: Vec::new() });
        }
        for known in self.rows.iter_mut().filter(|known| known.name == row) {
            match known.cells.iter_mut().find(|(name, _)| name == column) {
                Some((_, rates)) => rates.push(rate),
                None => known.cells.push((column.into(), vec![rate])),
            }
        }
    }

    /// Returns the table, medians over the rounds: for each row the rate of the first column, and
    /// of each other one the ratio to it in the same round.
    pub fn markdown(&self) -> String {
        let mut text = String::from("| work | measure | others, times as fast |\n|---|---|---|\n");
        for row in &self.rows {
            let [(first, measures), others @ ..] = &row.cells[..] else { continue };
            let _ = write!(text, "| {} | {first} {:.0} {} |", row.name, median(measures.clone()), row.unit);
            for (name, rates) in others {
                let ratios = rates.iter().zip(measures).map(|(rate, measure)| rate / measure);
                let _ = write!(text, " {name} **{:.2}**", median(ratios.collect()));
            }
            text.push_str(" |\n");
        }
        text
    }
}

/// Returns the middle value, of an even number the lower of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: columns are compared round by round with the first, and medians are shown.
    #[test]
    fn shows_medians() {
        let mut table = Table::default();
        for (column, times) in [("a", [1, 2, 9]), ("b", [2, 8, 1])] {
            for secs in times {
                table.note("work", column, 100.0, "MB/s", Duration::from_secs(secs));
            }
        }
        assert!(table.markdown().ends_with("| work | a 50 MB/s | b **0.50** |\n"), "{}", table.markdown());
    }
}
