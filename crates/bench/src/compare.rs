//! Compares two tables of the same work, and shows which changes are more than noise.
//!
//! Each cell has a rate for each round, and the rounds of both tables are ranked together: if the
//! ranks of one are so much higher that chance would do this in fewer than one of a hundred tables
//! (the rank sum of Wilcoxon, exactly), it is faster. Nothing is assumed about how rates are
//! distributed, and one round that was disturbed has little weight. Less than five rounds each
//! cannot show it.

use std::fmt::Write;

use spindle_interop::{Failure, Result};

use crate::table::{Table, median};

/// Rounds that each table needs, with which chance gives the extreme order in 1 of 126 tables.
const ROUNDS: usize = 5;
/// How often chance may do what is called a change.
const CHANCE: f64 = 0.01;

/// Returns a table of the cells that both have: the median of `after` as a multiple of that of
/// `before`, and whether that is more than noise. Fails if there is nothing to compare.
pub fn markdown(before: &Table, after: &Table) -> Result<String> {
    let mut text = String::from("| work | who | before | times as fast | |\n|---|---|---|---|---|\n");
    let mut cells = 0;
    for row in before.rows() {
        let Some(other) = after.rows().iter().find(|other| other.work == row.work) else { continue };
        for column in &row.columns {
            let Some(now) = other.columns.iter().find(|now| now.name == column.name) else { continue };
            cells += 1;
            let (old, new) = (median(column.rates.clone()), median(now.rates.clone()));
            let judged = Verdict::of(&column.rates, &now.rates).text();
            let (work, who, unit) = (&row.work, &column.name, &row.unit);
            let _ = writeln!(text, "| {work} | {who} | {old:.0} {unit} | **{:.2}** | {judged} |", new / old);
        }
    }
    if cells == 0 {
        return Err(Failure::new("the two tables have no work in common"));
    }
    Ok(text)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Faster,
    Slower,
    Noise,
    TooFewRounds,
}

impl Verdict {
    fn of(before: &[f64], after: &[f64]) -> Self {
        if before.len().min(after.len()) < ROUNDS {
            return Self::TooFewRounds;
        }
        match (chance(before, after) < CHANCE, chance(after, before) < CHANCE) {
            (true, _) => Self::Faster,
            (_, true) => Self::Slower,
            _ => Self::Noise,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Noise => "within the noise",
            Self::TooFewRounds => "too few rounds",
        }
    }
}

/// Returns how likely chance makes `high` exceed `low` at least as clearly as it does, in either
/// direction: of all pairs, as many as here have the one of `high` above. A tie counts half, and
/// the sum is rounded down, so that no chance is called a change.
fn chance(low: &[f64], high: &[f64]) -> f64 {
    let twice_won: usize = low
        .iter()
        .flat_map(|low| high.iter().map(move |high| usize::from(high > low) + usize::from(high >= low)))
        .sum();
    let ways = orders(low.len(), high.len());
    let as_clear: f64 = ways.iter().skip(twice_won / 2).sum();
    2.0 * as_clear / ways.iter().sum::<f64>()
}

/// Returns in how many orders of `a` and `b` values, by the number of pairs in which that of the
/// second kind is the later one. The last value is of the first kind, and adds no pair to those of
/// the rest, or of the second, and is later than all `a`.
fn orders(a: usize, b: usize) -> Vec<f64> {
    let mut of_first = vec![vec![1.0]; a + 1];
    for second in 1..=b {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for first in 1..=a {
            let mut ways = vec![0.0; first * second + 1];
            for (won, count) in next[first - 1].iter().enumerate() {
                ways[won] += count;
            }
            for (won, count) in of_first[first].iter().enumerate() {
                ways[won + first] += count;
            }
            next.push(ways);
        }
        of_first = next;
    }
    of_first.swap_remove(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Promise: the numbers of orders are those of the literature: of two and two values there are
    /// six, of which one has no pair won and two have two.
    #[test]
    fn counts_orders() {
        let as_text = |a, b| format!("{:?}", orders(a, b));
        assert_eq!(as_text(2, 2), "[1.0, 1.0, 2.0, 1.0, 1.0]");
        assert_eq!(as_text(1, 3), "[1.0, 1.0, 1.0, 1.0]");
        let all = |a, b| orders(a, b).iter().sum::<f64>().to_string();
        assert_eq!([all(5, 5), all(3, 4)], ["252", "35"]);
    }

    /// Promise: a change is one if all rounds show it, in both directions; what overlaps is noise,
    /// also with one round far off; and few rounds prove nothing.
    #[test]
    fn finds_changes_beyond_noise() {
        let low = [1.0, 1.1, 1.2, 1.3, 1.4];
        let high = [1.5, 1.6, 1.7, 1.8, 9.0];
        assert_eq!(Verdict::of(&low, &high), Verdict::Faster);
        assert_eq!(Verdict::of(&high, &low), Verdict::Slower);
        assert_eq!(Verdict::of(&low, &low), Verdict::Noise);
        assert_eq!(Verdict::of(&low, &[1.0, 1.1, 1.2, 1.3, 90.0]), Verdict::Noise);
        assert_eq!(Verdict::of(&[1.0; 5], &[1.0; 5]), Verdict::Noise);
        assert_eq!(Verdict::of(&low[1..], &high), Verdict::TooFewRounds);
    }

    /// Promise: what only one of the tables has is left out, and nothing in common is an error.
    #[test]
    fn compares_what_both_have() {
        let table = |works: &[&str], secs| {
            let mut table = Table::default();
            for work in works {
                (0..5).for_each(|_| table.note(work, "us", 100.0, "/s", Duration::from_secs(secs)));
            }
            table
        };
        let text = markdown(&table(&["a", "b"], 2), &table(&["b", "c"], 1)).unwrap();
        assert!(text.ends_with("|---|\n| b | us | 50 /s | **2.00** | faster |\n"), "{text}");
        assert!(markdown(&table(&["a"], 1), &table(&["b"], 1)).is_err());
    }
}
