//! The queue of a disk driver: what waits for the drive, and which of it goes next.
//!
//! One queue serves one drive. Its owner pops whenever the drive can take a transfer, so that a pop
//! that finds nothing means that the drive is idle.
//!
//! Invariant: an ordered transfer is popped after everything pushed before it and before everything
//! pushed after it (`B_ORDER`, 1991 paper, "Further work"). Among transfers to the same place the
//! first pushed goes first.

use spindle_device::Op;
use std::collections::{BTreeMap, VecDeque};

/// One transfer as the drive sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Direction.
    pub op: Op,
    /// First sector, counted in sectors of the drive.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// Not to be reordered with any other (`B_ORDER`).
    pub ordered: bool,
}

impl Transfer {
    /// Returns an unordered transfer.
    #[must_use]
    pub const fn new(op: Op, sector: u64, sectors: u32) -> Self {
        Self { op, sector, sectors, ordered: false }
    }

    /// Returns the sector after the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.sectors))
    }
}

/// Which transfer goes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// In the order they came.
    Fifo,
    /// `disksort` of 4.3BSD and `SunOS`: a one-way elevator. What lies at or behind the cylinder of
    /// the transfer under way joins this sweep, what lies before it the next; each sweep goes by
    /// cylinder, then by sector.
    #[default]
    Disksort,
    /// Shortest seek first: the least distance in sectors from the head; of two equal ones the
    /// lower.
    Sstf,
    /// A two-way elevator: up to the last transfer, then down to the first.
    Scan,
}

/// A place in a sweep: cylinder, sector, order of arrival.
type Key = (u64, u64, u64);

/// Transfers between two ordered ones, which may be reordered among themselves.
#[derive(Debug)]
struct Batch<T> {
    ordered: bool,
    /// All of them; with [`Discipline::Disksort`] those of the current sweep.
    now: BTreeMap<Key, (Transfer, T)>,
    /// With [`Discipline::Disksort`] those of the next sweep.
    next: BTreeMap<Key, (Transfer, T)>,
}

/// Transfers waiting for one drive, each with what its owner wants to know it by.
#[derive(Debug)]
pub struct Queue<T> {
    discipline: Discipline,
    sectors_per_cylinder: u64,
    batches: VecDeque<Batch<T>>,
    /// Cylinder of the transfer under way, if the drive is not idle.
    active: Option<u64>,
    /// With [`Discipline::Scan`]: the sweep goes towards lower sectors.
    downwards: bool,
    arrivals: u64,
    len: usize,
}

impl<T> Queue<T> {
    /// Returns an empty queue. `sectors_per_cylinder` is what the driver believes of the drive; 1
    /// makes `disksort` go by sector alone, as drivers do that know no geometry. Zero counts as 1.
    #[must_use]
    pub fn new(discipline: Discipline, sectors_per_cylinder: u64) -> Self {
        Self {
            discipline,
            sectors_per_cylinder: sectors_per_cylinder.max(1),
            batches: VecDeque::new(),
            active: None,
            downwards: false,
            arrivals: 0,
            len: 0,
        }
    }

    /// Returns how many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if the next one is ordered.
    #[must_use]
    pub fn next_is_ordered(&self) -> bool {
        self.batches.front().is_some_and(|batch| batch.ordered)
    }

    /// Adds a transfer.
    pub fn push(&mut self, transfer: Transfer, owner: T) {
        self.arrivals += 1;
        self.len += 1;
        let cylinder = transfer.sector / self.sectors_per_cylinder;
        let key = match self.discipline {
            Discipline::Fifo => (0, 0, self.arrivals),
            Discipline::Disksort => (cylinder, transfer.sector, self.arrivals),
            Discipline::Sstf | Discipline::Scan => (0, transfer.sector, self.arrivals),
        };
        if transfer.ordered || self.batches.back().is_none_or(|batch| batch.ordered) {
            let batch = Batch { ordered: transfer.ordered, now: BTreeMap::new(), next: BTreeMap::new() };
            self.batches.push_back(batch);
        }
        let waits_for_active = self.batches.len() == 1;
        let Some(batch) = self.batches.back_mut() else { return };
        // Without a transfer under way, the first in line is compared with: it is about to be.
        let first = batch.now.first_key_value().map(|(key, _)| key.0);
        let reference = if waits_for_active { self.active.or(first) } else { first };
        let next_sweep =
            self.discipline == Discipline::Disksort && reference.is_some_and(|active| cylinder < active);
        let sweep = if next_sweep { &mut batch.next } else { &mut batch.now };
        sweep.insert(key, (transfer, owner));
    }

    /// Takes the next transfer, for a drive whose head stands before sector `head`.
    pub fn pop(&mut self, head: u64) -> Option<(Transfer, T)> {
        let Some(batch) = self.batches.front_mut() else {
            self.active = None;
            return None;
        };
        if batch.now.is_empty() {
            std::mem::swap(&mut batch.now, &mut batch.next);
        }
        let key = match self.discipline {
            Discipline::Fifo | Discipline::Disksort => batch.now.first_key_value().map(|(key, _)| *key),
            Discipline::Sstf => nearest(&batch.now, head),
            Discipline::Scan => onwards(&batch.now, head, &mut self.downwards),
        };
        let taken = key.and_then(|key| batch.now.remove(&key));
        if batch.now.is_empty() && batch.next.is_empty() {
            self.batches.pop_front();
        }
        self.len -= usize::from(taken.is_some());
        self.active = taken.as_ref().map(|(transfer, _)| transfer.sector / self.sectors_per_cylinder);
        taken
    }
}

/// Returns the first arrived at the lowest sector not below `head`.
fn above<V>(sweep: &BTreeMap<Key, V>, head: u64) -> Option<Key> {
    sweep.range((0, head, 0)..).next().map(|(key, _)| *key)
}

/// Returns the first arrived at the highest sector below `head`.
fn below<V>(sweep: &BTreeMap<Key, V>, head: u64) -> Option<Key> {
    let (&(_, sector, _), _) = sweep.range(..(0, head, 0)).next_back()?;
    above(sweep, sector)
}

fn nearest<V>(sweep: &BTreeMap<Key, V>, head: u64) -> Option<Key> {
    match (below(sweep, head), above(sweep, head)) {
        (Some(low), Some(high)) => Some(if head - low.1 <= high.1 - head { low } else { high }),
        (low, high) => low.or(high),
    }
}

fn onwards<V>(sweep: &BTreeMap<Key, V>, head: u64, downwards: &mut bool) -> Option<Key> {
    let (ahead, behind) = if *downwards {
        (below(sweep, head.saturating_add(1)), above(sweep, head))
    } else {
        (above(sweep, head), below(sweep, head))
    };
    ahead.or_else(|| {
        *downwards = !*downwards;
        behind
    })
}
