//! The commands of a drive: those that wait in the driver's queue, and those that the drive holds.
//!
//! The driver hands commands over in its own order as long as the drive takes more. The drive
//! begins the one whose first sector it can have first (shortest access time first: M. Seltzer and
//! others, "Disk scheduling revisited", 1990; D. Jacobson and J. Wilkes, "Disk scheduling
//! algorithms based on rotational position", 1991), but one that has waited too long before all
//! others. A drive that holds one command goes by the driver's order alone.
//!
//! Invariant: while the drive holds an ordered transfer, it holds no other.

use crate::disk::Disk;
use crate::queue::{Discipline, Queue, Transfer};
use crate::time::Time;

/// A command that the drive holds.
#[derive(Debug)]
struct Held<T> {
    transfer: Transfer,
    owner: T,
    since: Time,
}

/// Transfers that wait for one drive, each with what its owner wants to know it by.
#[derive(Debug)]
pub struct Commands<T> {
    queue: Queue<T>,
    /// The oldest first.
    held: Vec<Held<T>>,
}

impl<T> Commands<T> {
    /// Returns none, for such a drive.
    #[must_use]
    pub fn new(discipline: Discipline, disk: &Disk) -> Self {
        Self { queue: Queue::new(discipline, disk.sectors_per_cylinder()), held: Vec::new() }
    }

    /// Returns how many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len() + self.held.len()
    }

    /// Returns true if none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a transfer.
    pub fn push(&mut self, transfer: Transfer, owner: T) {
        self.queue.push(transfer, owner);
    }

    /// Takes the transfer that the drive begins at `now`.
    pub fn pop(&mut self, now: Time, disk: &Disk) -> Option<(Transfer, T)> {
        while self.takes_another(disk)
            && let Some((transfer, owner)) = self.queue.pop(disk.head())
        {
            self.held.push(Held { transfer, owner, since: now });
        }
        let oldest = self.held.first()?;
        let is_late = oldest.since + disk.age_limit() < now;
        let place = if is_late || self.held.len() == 1 {
            0
        } else {
            (0..self.held.len()).min_by_key(|place| disk.reached(now, &self.held[*place].transfer))?
        };
        let Held { transfer, owner, .. } = self.held.remove(place);
        Some((transfer, owner))
    }

    /// Returns true if the driver may hand over what is next in its queue, or hear that the drive
    /// is idle.
    fn takes_another(&self, disk: &Disk) -> bool {
        let together = !self.queue.next_is_ordered() && !self.held.iter().any(|held| held.transfer.ordered);
        self.held.is_empty() || (self.held.len() < disk.commands() && !self.queue.is_empty() && together)
    }
}
