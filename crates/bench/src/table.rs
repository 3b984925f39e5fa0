//! Collects rates, prints medians and ratios, and keeps them in a file.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use spindle_interop::{Failure, Result};

/// Rates by row and column, in the order in which they first came.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Table {
    rows: Vec<Row>,
}

/// Work of one kind.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    /// What is done.
    pub work: String,
    /// What one second's work is counted in.
    pub unit: String,
    /// Those who did it. The others are compared with the first.
    pub columns: Vec<Column>,
}

/// Who did a row's work, and how fast.
#[derive(Debug, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Units a second, one for each round.
    pub rates: Vec<f64>,
}

impl Table {
    /// Returns the table that [`Self::save`] has left in a file, or an empty one if there is none.
    pub fn load(path: &Path) -> Result<Self> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(Failure::of(path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::of(path.display())(error)),
        }
    }

    /// Saves the rates as JSON.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(Failure::of("the table"))?;
        fs::write(path, text).map_err(Failure::of(path.display()))
    }

    /// Notes that `column` did `amount` units of the row's work in `time`.
    pub fn note(&mut self, row: &str, column: &str, amount: f64, unit: &str, time: Duration) {
        let rate = amount / time.as_secs_f64();
        eprintln!("  {row}: {column} {rate:.1} {unit}");
        let at = self.rows.iter().position(|known| known.work == row).unwrap_or_else(|| {
            self.rows.push(Row { work: row.into(), unit: unit.into(), columns: Vec::new() });
            self.rows.len() - 1
        });
        let columns = &mut self.rows[at].columns;
        match columns.iter_mut().find(|known| known.name == column) {
            Some(known) => known.rates.push(rate),
            None => columns.push(Column { name: column.into(), rates: vec![rate] }),
        }
    }

    /// Returns the rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the table, medians over the rounds: for each row the rate of the first column, and
    /// of each other one the ratio to it in the same round.
    pub fn markdown(&self) -> String {
        let mut text = String::from("| work | measure | others, times as fast |\n|---|---|---|\n");
        for row in &self.rows {
            let [first, others @ ..] = &row.columns[..] else { continue };
            let rate = median(first.rates.clone());
            let _ = write!(text, "| {} | {} {rate:.0} {} |", row.work, first.name, row.unit);
            for other in others {
                let ratios = other.rates.iter().zip(&first.rates).map(|(rate, measure)| rate / measure);
                let _ = write!(text, " {} **{:.2}**", other.name, median(ratios.collect()));
            }
            text.push_str(" |\n");
        }
        text
    }
}

/// Returns the middle value, of an even number the lower of the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: columns are compared round by round with the first, and medians are shown, also
    /// when rounds are added to those of a file.
    #[test]
    fn shows_medians() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table.json");
        for round in [(1, 2), (2, 8), (9, 1)] {
            let mut table = Table::load(&path).unwrap();
            for (column, secs) in [("a", round.0), ("b", round.1)] {
                table.note("work", column, 100.0, "MB/s", Duration::from_secs(secs));
            }
            table.save(&path).unwrap();
        }
        let shown = Table::load(&path).unwrap().markdown();
        assert!(shown.ends_with("| work | a 50 MB/s | b **0.50** |\n"), "{shown}");
    }
}
