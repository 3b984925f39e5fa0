//! The map of a disk as a picture: rows of cells, each a range of fragments with counts of what
//! they are used for.

use crate::format::layout::Layout;
use serde::Serialize;

/// What a fragment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// Boot area, superblocks, blocks of cylinder groups, summaries.
    Metadata,
    /// Inodes.
    Inodes,
    /// Directories.
    Directory,
    /// Indirect blocks.
    Indirect,
    /// Whole blocks of files.
    Data,
    /// Parts of blocks at the ends of files.
    Fragment,
    /// The log.
    Log,
    /// Free.
    Free,
    /// In use as the group's map says, but nobody has it; or the map cannot be read.
    Unknown,
}

impl Use {
    /// All of them, in the order of a legend.
    pub const ALL: [Self; 9] = [
        Self::Metadata,
        Self::Inodes,
        Self::Directory,
        Self::Indirect,
        Self::Data,
        Self::Fragment,
        Self::Log,
        Self::Free,
        Self::Unknown,
    ];

    /// Returns its name in a legend.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metadata => "superblocks, groups",
            Self::Inodes => "inodes",
            Self::Directory => "directories",
            Self::Indirect => "indirect blocks",
            Self::Data => "file data",
            Self::Fragment => "fragments",
            Self::Log => "log",
            Self::Free => "free",
            Self::Unknown => "unknown",
        }
    }

    /// Returns its character in a map.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Metadata => 'S',
            Self::Inodes => 'I',
            Self::Directory => 'D',
            Self::Indirect => 'P',
            Self::Data => '#',
            Self::Fragment => '+',
            Self::Log => 'L',
            Self::Free => '.',
            Self::Unknown => '?',
        }
    }
}

/// A row of the map.
#[derive(Clone, Debug)]
pub struct GridRow {
    /// Its first cylinder group.
    pub group: u32,
    /// True if the row begins with the group.
    pub begins_group: bool,
    /// Its first fragment.
    pub start: u64,
    /// Its fragments.
    pub frags: u64,
    /// Its cells from left to right; fewer than elsewhere where the group or the disk ends.
    pub cells: Vec<Option<Use>>,
}

/// Counts of fragments by use, cell by cell.
#[derive(Clone, Debug)]
pub struct Grid {
    columns: u64,
    rows_per_group: u64,
    groups_per_row: u64,
    fpg: u64,
    size: u64,
    counts: Vec<[u32; 8]>,
}

impl Grid {
    /// Returns an empty map of at most about `rows` rows and at most `columns` cells in a row. A
    /// row begins with a group, or goes on with it.
    #[must_use]
    pub fn new(layout: &Layout, rows: u32, columns: u32) -> Self {
        let (rows, groups) = (u64::from(rows.max(1)), u64::from(layout.fs_ncg));
        let fpg = u64::from(layout.fs_fpg);
        let groups_per_row = groups.div_ceil(rows);
        let rows_per_group =
            if groups_per_row > 1 { 1 } else { (rows / groups).clamp(1, fpg.div_ceil(columns.into())) };
        let mut grid = Self {
            columns: u64::from(columns.max(1)),
            rows_per_group,
            groups_per_row,
            fpg,
            size: layout.fs_size,
            counts: Vec::new(),
        };
        grid.columns = grid.columns.min(grid.row_frags());
        let cells = grid.row_count() * grid.columns;
        grid.counts = vec![[0; 8]; crate::format::units::index(cells)];
        grid
    }

    /// Returns the fragments of a row that is not cut off.
    const fn row_frags(&self) -> u64 {
        if self.groups_per_row > 1 {
            self.fpg * self.groups_per_row
        } else {
            self.fpg.div_ceil(self.rows_per_group)
        }
    }

    fn row_count(&self) -> u64 {
        self.size.div_ceil(self.fpg * self.groups_per_row) * self.rows_per_group
    }

    /// Returns the first fragment of a row, and the end of the row.
    fn row_range(&self, row: u64) -> (u64, u64) {
        let unit = self.fpg * self.groups_per_row;
        let base = row / self.rows_per_group * unit;
        let within = row % self.rows_per_group * self.row_frags();
        let start = base + within;
        (start.min(self.size), (start + self.row_frags()).min(base + unit).min(self.size))
    }

    /// Returns the row and the column of a fragment, and the end of their cell.
    fn cell(&self, frag: u64) -> (u64, u64, u64) {
        let unit = self.fpg * self.groups_per_row;
        let row = frag / unit * self.rows_per_group + frag % unit / self.row_frags();
        let (start, end) = self.row_range(row);
        let column = (frag - start) * self.columns / self.row_frags();
        let cell_end = start + ((column + 1) * self.row_frags()).div_ceil(self.columns);
        (row, column, cell_end.min(end))
    }

    /// Counts fragments `start..end` of the file system, which are used for this.
    pub(super) fn add(&mut self, used: Use, start: u64, end: u64) {
        let end = end.min(self.size);
        let mut at = start;
        while at < end {
            let (row, column, cell_end) = self.cell(at);
            let next = cell_end.clamp(at + 1, end);
            let cell = &mut self.counts[crate::format::units::index(row * self.columns + column)];
            if let Some(count) = cell.get_mut(used as usize) {
                *count = count.saturating_add(u32::try_from(next - at).unwrap_or(u32::MAX));
            }
            at = next;
        }
    }

    /// Returns the rows: each cell has the use that most of its fragments have.
    #[must_use]
    pub fn rows(&self) -> Vec<GridRow> {
        (0..self.row_count())
            .map(|row| (row, self.row_range(row)))
            .filter(|(_, (start, end))| start < end)
            .map(|(row, (start, end))| GridRow {
                group: u32::try_from(start / self.fpg).unwrap_or(u32::MAX),
                begins_group: row % self.rows_per_group == 0,
                start,
                frags: end - start,
                cells: (0..self.columns).map(|column| self.use_of(row, column, start, end)).collect(),
            })
            .collect()
    }

    /// Returns what most of a cell is used for; none behind the end of its row.
    fn use_of(&self, row: u64, column: u64, start: u64, end: u64) -> Option<Use> {
        let from = start + (column * self.row_frags()).div_ceil(self.columns);
        let to = (start + ((column + 1) * self.row_frags()).div_ceil(self.columns)).min(end);
        let frags = to.checked_sub(from).filter(|&frags| frags > 0)?;
        let counts = &self.counts[crate::format::units::index(row * self.columns + column)];
        let known: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        let unknown = frags.saturating_sub(known);
        let (most, count) = Use::ALL
            .into_iter()
            .zip(counts)
            .map(|(used, &count)| (used, u64::from(count)))
            .max_by_key(|&(_, count)| count)?;
        Some(if unknown > count { Use::Unknown } else { most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newfs::{Parameters, Plan};

    /// Promise: every fragment is in exactly one cell of the map, whatever its form, and a cell
    /// shows what most of its fragments are used for.
    #[test]
    fn every_fragment_is_in_one_cell() {
        let plan = Plan::new(&Parameters::new(40 << 20)).unwrap();
        let layout = &plan.layout;
        for (rows, columns) in [(1, 1), (2, 7), (24, 70), (500, 64), (3, 100_000)] {
            let mut grid = Grid::new(layout, rows, columns);
            for frag in 0..layout.fs_size {
                grid.add(Use::Data, frag, frag + 1);
            }
            let whole: u64 = grid.counts.iter().map(|cell| u64::from(cell[Use::Data as usize])).sum();
            assert_eq!(whole, layout.fs_size, "{rows} {columns}");
            let mut at_once = Grid::new(layout, rows, columns);
            at_once.add(Use::Data, 0, layout.fs_size);
            assert_eq!(grid.counts, at_once.counts, "{rows} {columns}");
            let mut covered = 0;
            for row in grid.rows() {
                assert_eq!(row.start, covered);
                covered += row.frags;
                let shown = row.cells.iter().flatten();
                assert!(shown.clone().count() > 0 && shown.clone().all(|&used| used == Use::Data));
            }
            assert_eq!(covered, layout.fs_size);
        }
    }
}
