//! The translation layer of flash: where each unit of 4 KiB lies, and the cleaning of blocks.
//!
//! It knows no time: a write gives the [`Work`] that it makes for the dies. Units are written in
//! turn over all dies, into a *row*: the blocks with one number on all of them, which are cleaned
//! together. Cleaning is greedy: it takes the row with the fewest live units (W. Bux and
//! I. Iliadis, "Performance of greedy garbage collection in flash-based solid-state drives", 2010).
//! What is moved goes to the same row as what the host writes, and as much of it at a time as
//! empties the row when another is full.
//!
//! Invariant: each mapped unit has one place, `live` counts the units that have theirs in a row,
//! and one row at least is free. The map holds only what was written since the beginning; a unit of
//! an aged disk that is not in it lies where [`Aged`] has put it.

use std::collections::{HashMap, VecDeque};

/// Rows that are kept free beside the one that is being written.
const RESERVE: usize = 2;
/// The place of a unit that was discarded.
const NOWHERE: u32 = u32::MAX;

/// What a die has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Read a page, of which something is moved or completed.
    Read {
        /// The die.
        die: usize,
    },
    /// Program a page.
    Program {
        /// The die.
        die: usize,
        /// The block is erased before, as it is the first page of it.
        erase: bool,
    },
}

/// What a translation layer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Bytes that the host has written.
    pub host_bytes: u64,
    /// Bytes that were written to flash for that.
    pub flash_bytes: u64,
    /// Blocks that were erased.
    pub erased_blocks: u64,
}

impl Wear {
    /// Returns the bytes written to flash for each that the host wrote; none before it wrote any.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn amplification(&self) -> Option<f64> {
        (self.host_bytes > 0).then(|| self.flash_bytes as f64 / self.host_bytes as f64)
    }

    /// Returns what two disks have done together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            host_bytes: self.host_bytes + other.host_bytes,
            flash_bytes: self.flash_bytes + other.flash_bytes,
            erased_blocks: self.erased_blocks + other.erased_blocks,
        }
    }
}

/// Shape of the flash.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Units that the host sees.
    pub units: u32,
    /// Units of a page.
    pub page_units: u32,
    /// Pages of a block.
    pub block_pages: u32,
    /// Dies.
    pub dies: u32,
    /// Units beyond those of the host, as a part of those.
    pub spare: f64,
}

/// What a row holds.
#[derive(Clone, Debug)]
enum Row {
    /// Nothing, and nothing was written since it was erased.
    Erased,
    /// Nothing that lives.
    Stale,
    /// What it held at the beginning, as [`Aged`] says.
    Old,
    /// These units, in this order.
    Written(Vec<u32>),
}

/// A row that is being cleaned.
#[derive(Clone, Copy, Debug)]
struct Cleaning {
    row: u32,
    /// Live units when it was chosen.
    live: u32,
    /// The next of its entries.
    entry: u32,
    /// Moves that are due, in parts of a unit of which a whole has as many as the row has dead.
    due: u64,
    /// The page that was read last.
    page: Option<u32>,
}

/// The layer.
#[derive(Clone, Debug)]
pub struct Translation {
    shape: Shape,
    row_units: u32,
    rows: Vec<Row>,
    live: Vec<u32>,
    free: VecDeque<u32>,
    map: HashMap<u32, u32>,
    aged: Option<Aged>,
    open: u32,
    /// The row that is written has to be erased.
    erase: bool,
    /// Its next unit.
    next: u32,
    cleaning: Option<Cleaning>,
    flash_units: u64,
    erased: u64,
}

impl Translation {
    /// Returns the layer of a disk that is new, or that has been written all over at random for
    /// long; none if the units, spare ones included, are too many to be numbered, or their number
    /// leaves no row to clean.
    pub fn new(shape: Shape, aged: bool) -> Option<Self> {
        let row_units = shape.page_units.checked_mul(shape.block_pages)?.checked_mul(shape.dies)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and is checked"
        )]
        let wanted = (f64::from(shape.units) * (1.0 + shape.spare) / f64::from(row_units)).round() as u32;
        let least = shape.units.div_ceil(row_units) + u32::try_from(RESERVE).ok()?;
        let count = wanted.max(1);
        if count <= least || u64::from(count) * u64::from(row_units) >= u64::from(NOWHERE) {
            return None;
        }
        let mut layer = Self {
            row_units,
            rows: vec![Row::Erased; count as usize],
            live: vec![0; count as usize],
            free: (1..count).collect(),
            map: HashMap::new(),
            aged: None,
            open: 0,
            erase: false,
            next: 0,
            cleaning: None,
            flash_units: 0,
            erased: 0,
            shape,
        };
        if aged {
            // One is free and one is being written, so that cleaning begins at once.
            let first_free = count - 2;
            let old = Aged::new(shape.units, row_units, first_free);
            for (row, live) in old.live().enumerate() {
                (layer.rows[row], layer.live[row]) = (Row::Old, live);
            }
            layer.rows[first_free as usize..].fill(Row::Stale);
            (layer.open, layer.free) = (first_free, (first_free + 1..count).collect());
            layer.erase = true;
            layer.aged = Some(old);
        }
        layer.rows[layer.open as usize] = Row::Written(Vec::new());
        Some(layer)
    }

    /// Returns the die and the page where a unit lies; none if nothing was written there.
    pub fn place(&self, unit: u32) -> Option<(usize, u32)> {
        self.slot(unit).map(|slot| (self.die(slot), slot / self.shape.page_units))
    }

    /// Writes a unit; `partly` if some of it stays as it is.
    pub fn write(&mut self, unit: u32, partly: bool, work: &mut Vec<Work>) {
        if let Some(slot) = self.slot(unit) {
            self.live[(slot / self.row_units) as usize] -= 1;
            if partly {
                work.push(Work::Read { die: self.die(slot) });
            }
        }
        self.append(unit, work);
        self.clean(work);
    }

    /// Forgets a unit.
    pub fn discard(&mut self, unit: u32) {
        if let Some(slot) = self.slot(unit) {
            self.live[(slot / self.row_units) as usize] -= 1;
            self.map.insert(unit, NOWHERE);
        }
    }

    /// Returns the units written to flash, and the blocks erased.
    pub const fn totals(&self) -> (u64, u64) {
        (self.flash_units, self.erased)
    }

    fn slot(&self, unit: u32) -> Option<u32> {
        match self.map.get(&unit) {
            Some(&NOWHERE) => None,
            Some(&slot) => Some(slot),
            None => self.aged.as_ref().map(|aged| aged.slot(unit)),
        }
    }

    const fn die(&self, slot: u32) -> usize {
        (slot / self.shape.page_units % self.shape.dies) as usize
    }

    /// Puts a unit at the end of the row that is being written.
    fn append(&mut self, unit: u32, work: &mut Vec<Work>) {
        let slot = self.open * self.row_units + self.next;
        if let Row::Written(units) = &mut self.rows[self.open as usize] {
            units.push(unit);
        }
        self.map.insert(unit, slot);
        self.live[self.open as usize] += 1;
        self.flash_units += 1;
        self.next += 1;
        if self.next.is_multiple_of(self.shape.page_units) {
            let erase = self.erase && self.next <= self.shape.dies * self.shape.page_units;
            self.erased += u64::from(erase);
            work.push(Work::Program { die: self.die(slot), erase });
        }
        if self.next == self.row_units
            && let Some(row) = self.free.pop_front()
        {
            self.erase = matches!(self.rows[row as usize], Row::Stale);
            self.rows[row as usize] = Row::Written(Vec::new());
            (self.open, self.next) = (row, 0);
        }
    }

    /// Moves what is due after the host has written a unit.
    fn clean(&mut self, work: &mut Vec<Work>) {
        let chosen = self.cleaning.take().or_else(|| self.choose());
        let Some(mut cleaning) = chosen else { return };
        let dead = u64::from(self.row_units - cleaning.live);
        cleaning.due += u64::from(cleaning.live);
        while cleaning.due >= dead && self.live[cleaning.row as usize] > 0 {
            if self.move_next(&mut cleaning, work) {
                cleaning.due -= dead;
            }
        }
        if self.live[cleaning.row as usize] == 0 {
            self.rows[cleaning.row as usize] = Row::Stale;
            self.free.push_back(cleaning.row);
        } else {
            self.cleaning = Some(cleaning);
        }
    }

    /// Returns the row with the fewest live units, if rows are short.
    fn choose(&self) -> Option<Cleaning> {
        if self.free.len() >= RESERVE {
            return None;
        }
        let full =
            |row: &u32| *row != self.open && matches!(self.rows[*row as usize], Row::Old | Row::Written(_));
        let rows = 0..u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let row = rows.filter(full).min_by_key(|row| self.live[*row as usize])?;
        Some(Cleaning { row, live: self.live[row as usize], entry: 0, due: 0, page: None })
    }

    /// Moves the next entry of a row, if it lives.
    fn move_next(&mut self, cleaning: &mut Cleaning, work: &mut Vec<Work>) -> bool {
        let (unit, slot) = match (&self.rows[cleaning.row as usize], &self.aged) {
            (Row::Written(units), _) => {
                (units[cleaning.entry as usize], cleaning.row * self.row_units + cleaning.entry)
            }
            (_, Some(aged)) => aged.entry(cleaning.row, cleaning.entry),
            _ => return false,
        };
        cleaning.entry += 1;
        if self.slot(unit) != Some(slot) {
            return false;
        }
        let page = slot / self.shape.page_units;
        if cleaning.page.replace(page) != Some(page) {
            work.push(Work::Read { die: self.die(slot) });
        }
        self.live[cleaning.row as usize] -= 1;
        self.append(unit, work);
        true
    }
}

/// Where units lie on a disk that has been written all over at random for long, without a table of
/// them.
///
/// Of what was written into a row, writes at random leave the part e^-t after a time t; rows are
/// cleaned in the order in which they were written, which is what greedy cleaning comes to then. So
/// the rows have from all of their units to the part that makes the sum right. Which unit is the
/// n-th of all that live: n times a number that has no common factor with their count.
#[derive(Clone, Debug)]
struct Aged {
    units: u64,
    row_units: u64,
    /// The live units of all rows before each, and at the end of all.
    before: Vec<u32>,
    factor: u64,
    inverse: u64,
}

impl Aged {
    /// Returns `units` in so many rows.
    fn new(units: u32, row_units: u32, rows: u32) -> Self {
        // The mean of e^-t from 0 to `end` is (1 - e^-end) / end.
        let used = f64::from(units) / (f64::from(rows) * f64::from(row_units));
        let (mut low, mut high) = (0.0_f64, 50.0_f64);
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if (1.0 - (-middle).exp()) / middle > used { low = middle } else { high = middle }
        }
        // The oldest row is the first; before row n there is the sum of the parts up to it.
        let sum = |row: u32| {
            let age = low * (1.0 - f64::from(row) / f64::from(rows));
            ((-age).exp() - (-low).exp()) / (1.0 - (-low).exp()) * f64::from(units)
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most `units`")]
        let before = (0..=rows).map(|row| sum(row).round() as u32).collect();
        let count = u64::from(units);
        let golden = |n: u64| n.max(1) * 618 / 1000 + 1;
        let factor = (golden(count)..=u64::from(u32::MAX))
            .find(|factor| inverse(*factor, count).is_some())
            .unwrap_or(1);
        let inverse = inverse(factor, count).unwrap_or(1);
        Self { units: count, row_units: row_units.into(), before, factor, inverse }
    }

    fn live(&self) -> impl Iterator<Item = u32> {
        self.before.windows(2).map(|pair| pair[1] - pair[0])
    }

    fn slot(&self, unit: u32) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "below `units`")]
        let nth = (u64::from(unit) * self.inverse % self.units) as u32;
        let row = self.before.partition_point(|before| *before <= nth) - 1;
        #[expect(clippy::cast_possible_truncation, reason = "below 2^32")]
        let row_number = row as u32;
        self.entry(row_number, nth - self.before[row]).1
    }

    /// Returns the n-th unit of a row, and where it lies: evenly over the row.
    #[expect(clippy::cast_possible_truncation, reason = "numbers of units are below 2^32")]
    fn entry(&self, row: u32, nth: u32) -> (u32, u32) {
        let (from, to) = (self.before[row as usize], self.before[row as usize + 1]);
        let unit = u64::from(from + nth) * self.factor % self.units;
        let slot = u64::from(row) * self.row_units + u64::from(nth) * self.row_units / u64::from(to - from);
        (unit as u32, slot as u32)
    }
}

/// Returns the number whose product with `factor` is 1 modulo `modulus`.
fn inverse(factor: u64, modulus: u64) -> Option<u64> {
    let modulus = i128::from(modulus);
    let (mut old, mut new) = ((i128::from(factor), 1), (modulus, 0));
    while new.0 != 0 {
        let times = old.0 / new.0;
        (old, new) = (new, (old.0 - times * new.0, old.1 - times * new.1));
    }
    (old.0 == 1)
        .then(|| u64::try_from(old.1.rem_euclid(modulus).max(i128::from(modulus == 1))).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    const SHAPE: Shape = Shape { units: 60_000, page_units: 4, block_pages: 16, dies: 4, spare: 0.0 };

    fn layer(spare: f64, aged: bool) -> Translation {
        Translation::new(Shape { spare, ..SHAPE }, aged).unwrap()
    }

    /// Fails unless each unit has one place, and the counts of live units are right.
    fn check(layer: &Translation) {
        let mut live = vec![0; layer.rows.len()];
        let mut slots: Vec<_> = (0..SHAPE.units).filter_map(|unit| layer.slot(unit)).collect();
        for slot in &slots {
            live[(slot / layer.row_units) as usize] += 1;
        }
        let mapped = slots.len();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!((slots.len(), live), (mapped, layer.live.clone()));
        assert!(!layer.free.is_empty());
    }

    /// Returns the flash units written for each of `count` units that are written at random.
    #[expect(clippy::cast_precision_loss, reason = "small")]
    fn at_random(layer: &mut Translation, count: u32) -> f64 {
        let (mut random, mut work) = (SmallRng::seed_from_u64(1984), Vec::new());
        let before = layer.flash_units;
        for _ in 0..count {
            work.clear();
            layer.write(random.random_range(0..SHAPE.units), false, &mut work);
        }
        (layer.flash_units - before) as f64 / f64::from(count)
    }

    /// Returns the write amplification of large blocks with `ratio` times as many units as the host
    /// sees, written at random: a/(a + W(-a e^-a)), P. Desnoyers, "Analytic modeling of SSD write
    /// performance", SYSTOR 2012. The part u that lives of a cleaned block is the root below 1 of
    /// u = e^(-a (1 - u)).
    fn desnoyers(ratio: f64) -> f64 {
        let live = (0..10_000).fold(0.0_f64, |live, _| (-ratio * (1.0 - live)).exp());
        1.0 / (1.0 - live)
    }

    /// Promise: after long writing at random, and on a disk that begins so, the write amplification
    /// is what the analysis says of the rows that hold data.
    #[test]
    fn amplification_is_that_of_the_analysis() {
        for spare in [0.1, 0.2, 0.4] {
            let mut new = layer(spare, false);
            at_random(&mut new, 600_000);
            let long = at_random(&mut new, 300_000);
            check(&new);
            let mut aged = layer(spare, true);
            check(&aged);
            let soon = at_random(&mut aged, 60_000);
            check(&aged);
            // Two rows wait or are being written, half full in the mean.
            let rows = f64::from(u32::try_from(new.rows.len()).unwrap()) - 1.5;
            let expected = desnoyers(rows * f64::from(new.row_units) / f64::from(SHAPE.units));
            for (what, found) in [("long", long), ("soon", soon)] {
                let off = found / expected - 1.0;
                assert!(off.abs() < 0.01, "{spare} {what}: {found:.3} against {expected:.3}");
            }
        }
    }

    /// Promise: what is written in order, however often, is written once; after a discard of all, a
    /// disk that was written at random is as good.
    #[test]
    fn in_order_nothing_moves() {
        let mut work = Vec::new();
        for aged in [false, true] {
            let mut layer = layer(0.1, aged);
            (0..SHAPE.units).for_each(|unit| layer.discard(unit));
            (0..4).for_each(|_| (0..SHAPE.units).for_each(|unit| layer.write(unit, false, &mut work)));
            assert_eq!(layer.totals().0, 4 * u64::from(SHAPE.units));
            check(&layer);
        }
        let erases = work.iter().filter(|work| matches!(work, Work::Program { erase: true, .. })).count();
        assert!(erases > 0 && !work.iter().any(|work| matches!(work, Work::Read { .. })));
    }

    /// Promise: discards that leave fewer live units lower the write amplification.
    #[test]
    fn discards_help() {
        let mut whole = layer(0.1, true);
        let mut half = layer(0.1, true);
        (0..SHAPE.units / 2).for_each(|unit| half.discard(unit));
        let mut random = SmallRng::seed_from_u64(7);
        let mut work = Vec::new();
        for _ in 0..200_000 {
            let unit = random.random_range(SHAPE.units / 2..SHAPE.units);
            whole.write(unit, false, &mut work);
            half.write(unit, false, &mut work);
        }
        check(&half);
        assert!(half.flash_units * 2 < whole.flash_units, "{} {}", half.flash_units, whole.flash_units);
    }
}
