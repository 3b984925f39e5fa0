//! Models of disks.
//!
//! A [`Disk`] is a pure state machine: it gets the start of a transfer and returns when it is
//! complete on the side of the host. It moves no data, owns no queue and knows no file system.
//!
//! Caller's duties: times never go back from call to call; transfers lie inside the disk; no more
//! than [`Disk::parallelism`] are in service at once, so that a rotating disk is idle when a
//! transfer starts.

mod arm;
mod dies;
mod flash;
mod geometry;
mod read_buffer;
mod recent;
mod rotating;
mod seek;
mod spec;
mod translation;
mod write_cache;

pub use spec::{
    CommandQueue, Condition, Controller, Flash as FlashSpec, Forwarding, Geometry, Layout, Overheads,
    ReadAheadUntil, ReadBuffer, Seek, Spec, WriteCache, Zone,
};
pub use translation::Wear;

use crate::error::Error;
use crate::queue::Transfer;
use crate::time::Time;

/// A drive with its controller and bus.
#[derive(Clone, Debug)]
pub struct Disk(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Rotating(Box<rotating::Rotating>),
    Flash(Box<flash::Flash>),
}

/// When a transfer is complete, and what the time goes to. The parts add up to the time from its
/// start to `done`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// The data are in the host's memory, or taken from it, and the interrupt is raised.
    pub done: Time,
    /// Command and controller; all of the latency of flash.
    pub overhead: Time,
    /// Until the drive has done what it was doing by itself, or until the die is free.
    pub wait: Time,
    /// Moving the arm, or choosing the head.
    pub seek: Time,
    /// Until the first sector comes round.
    pub rotation: Time,
    /// From the first sector to the last, changes of track included; for a sequence that the drive
    /// is reading already, until the last has come in.
    pub transfer: Time,
    /// The bus, as far as it does not overlap with the rest.
    pub bus: Time,
    /// The drive had some of it in memory already, or took it there.
    pub hit: bool,
}

impl Service {
    /// Returns nothing done yet.
    const fn at(now: Time) -> Self {
        let none = Time::ZERO;
        Self {
            done: now,
            overhead: none,
            wait: none,
            seek: none,
            rotation: none,
            transfer: none,
            bus: none,
            hit: false,
        }
    }
}

impl Disk {
    /// Returns the disk that `spec` describes, idle, at time zero.
    ///
    /// # Errors
    /// When a part is missing, or a figure is out of its range or contradicts another.
    pub fn new(spec: &Spec) -> Result<Self, Error> {
        Ok(Self(match &spec.flash {
            Some(flash) => Kind::Flash(Box::new(flash::Flash::new(spec, flash)?)),
            None => Kind::Rotating(Box::new(rotating::Rotating::new(spec)?)),
        }))
    }

    /// Returns the capacity in sectors.
    #[must_use]
    pub fn capacity_sectors(&self) -> u64 {
        match &self.0 {
            Kind::Rotating(disk) => disk.sectors(),
            Kind::Flash(disk) => disk.sectors(),
        }
    }

    /// Returns the bytes per sector.
    #[must_use]
    pub fn sector_bytes(&self) -> u32 {
        match &self.0 {
            Kind::Rotating(disk) => disk.sector_bytes(),
            Kind::Flash(disk) => disk.sector_bytes(),
        }
    }

    /// Returns the sectors of an outermost cylinder, for [`Queue::new`](crate::Queue::new); 1 where
    /// there are no cylinders.
    #[must_use]
    pub fn sectors_per_cylinder(&self) -> u64 {
        match &self.0 {
            Kind::Rotating(disk) => disk.sectors_per_cylinder(),
            Kind::Flash(_) => 1,
        }
    }

    /// Returns the time of a revolution; none where nothing turns.
    #[must_use]
    pub fn revolution(&self) -> Option<Time> {
        match &self.0 {
            Kind::Rotating(disk) => Some(disk.revolution()),
            Kind::Flash(_) => None,
        }
    }

    /// Returns how many transfers may be in service at once.
    #[must_use]
    pub fn parallelism(&self) -> u32 {
        match &self.0 {
            Kind::Rotating(_) => 1,
            Kind::Flash(disk) => disk.queue_depth(),
        }
    }

    /// Returns how many commands it holds to choose the next from.
    #[must_use]
    pub fn commands(&self) -> usize {
        match &self.0 {
            Kind::Rotating(disk) => disk.choice().depth,
            Kind::Flash(_) => 1,
        }
    }

    /// Returns how long a command may wait before it goes before all others.
    #[must_use]
    pub fn age_limit(&self) -> Time {
        match &self.0 {
            Kind::Rotating(disk) => disk.choice().age_limit,
            Kind::Flash(_) => Time::ZERO,
        }
    }

    /// Returns when the first sector of a transfer would begin, or its data be in memory, if it
    /// were started at `now`.
    #[must_use]
    pub fn reached(&self, now: Time, transfer: &Transfer) -> Time {
        match &self.0 {
            Kind::Rotating(disk) => disk.reached(now, transfer),
            Kind::Flash(_) => now,
        }
    }

    /// Returns the sector before which the heads stand, for [`Queue::pop`](crate::Queue::pop).
    #[must_use]
    pub fn head(&self) -> u64 {
        match &self.0 {
            Kind::Rotating(disk) => disk.head(),
            Kind::Flash(_) => 0,
        }
    }

    /// Starts a transfer at `now` and says when it is complete.
    pub fn start(&mut self, now: Time, transfer: &Transfer) -> Service {
        match &mut self.0 {
            Kind::Rotating(disk) => disk.start(now, transfer),
            Kind::Flash(disk) => disk.start(now, transfer),
        }
    }

    /// Moves the heads of an idle disk to `sector` from `now` on. What is started before they are
    /// there waits.
    pub fn prepare(&mut self, now: Time, sector: u64) {
        if let Kind::Rotating(disk) = &mut self.0 {
            disk.prepare(now, sector);
        }
    }

    /// Returns the time in which the heads move by so many cylinders before a write; none where
    /// nothing moves.
    #[must_use]
    pub fn seek(&self, cylinders: u32) -> Option<Time> {
        match &self.0 {
            Kind::Rotating(disk) => Some(disk.seek(cylinders)),
            Kind::Flash(_) => None,
        }
    }

    /// Returns when everything that has been acknowledged is on the medium, if a flush begins at
    /// `now` with nothing in service.
    pub fn flush(&mut self, now: Time) -> Time {
        match &mut self.0 {
            Kind::Rotating(disk) => disk.flush(now),
            Kind::Flash(disk) => disk.flush(now),
        }
    }

    /// Forgets what so many sectors from `sector` on hold, where something is gained by it.
    pub fn discard(&mut self, sector: u64, sectors: u64) {
        if let Kind::Flash(disk) = &mut self.0 {
            disk.discard(sector, sectors);
        }
    }

    /// Returns what was written to flash; none where there is no flash.
    #[must_use]
    pub fn wear(&self) -> Option<Wear> {
        match &self.0 {
            Kind::Rotating(_) => None,
            Kind::Flash(disk) => Some(disk.wear()),
        }
    }
}

/// Returns the error of a figure that cannot be.
fn invalid(field: &str, problem: &str) -> Error {
    Error::Invalid { field: field.to_owned(), problem: problem.to_owned() }
}
