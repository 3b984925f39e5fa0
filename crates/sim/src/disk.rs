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
mod media_cache;
mod read_buffer;
mod recent;
mod rotating;
mod seek;
mod sequences;
mod shingled;
mod spec;
mod translation;
mod write_cache;

pub use spec::{
    CommandQueue, Condition, Controller, Flash as FlashSpec, Forwarding, Geometry, Layout, Overheads,
    ReadAheadUntil, ReadBuffer, Seek, Shingled as ShingledSpec, Spec, WriteCache, Zone,
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
    Shingled(Box<shingled::Shingled>),
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

/// What a shingled disk has done by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaning {
    /// Bands that were cleaned.
    pub bands: u64,
    /// How many of them the host waited for, because the cache was full.
    pub waited_for: u64,
    /// Runs of consecutive sectors that are in the cache.
    pub cached_runs: u64,
}

impl Cleaning {
    /// Returns that of two disks together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            bands: self.bands + other.bands,
            waited_for: self.waited_for + other.waited_for,
            cached_runs: self.cached_runs + other.cached_runs,
        }
    }
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

    /// Adds what was done next.
    fn add(&mut self, next: &Self) {
        self.done = next.done;
        self.overhead += next.overhead;
        self.wait += next.wait;
        self.seek += next.seek;
        self.rotation += next.rotation;
        self.transfer += next.transfer;
        self.bus += next.bus;
        self.hit |= next.hit;
    }

    /// Adds a wait.
    fn wait_until(&mut self, until: Time) {
        self.wait += until - self.done;
        self.done = self.done.max(until);
    }
}

impl Disk {
    /// Returns the disk that `spec` describes, idle, at time zero.
    ///
    /// # Errors
    /// When a part is missing, or a figure is out of its range or contradicts another.
    pub fn new(spec: &Spec) -> Result<Self, Error> {
        Ok(Self(match (&spec.flash, &spec.shingled) {
            (Some(flash), _) => Kind::Flash(Box::new(flash::Flash::new(spec, flash)?)),
            (None, Some(shingled)) => Kind::Shingled(Box::new(shingled::Shingled::new(spec, shingled)?)),
            (None, None) => Kind::Rotating(Box::new(rotating::Rotating::new(spec)?)),
        }))
    }

    /// Returns the capacity in sectors.
    #[must_use]
    pub fn capacity_sectors(&self) -> u64 {
        match &self.0 {
            Kind::Rotating(disk) => disk.sectors(),
            Kind::Shingled(disk) => disk.sectors(),
            Kind::Flash(disk) => disk.sectors(),
        }
    }

    /// Returns the bytes per sector.
    #[must_use]
    pub fn sector_bytes(&self) -> u32 {
        match &self.0 {
            Kind::Rotating(disk) => disk.sector_bytes(),
            Kind::Shingled(disk) => disk.drive().sector_bytes(),
            Kind::Flash(disk) => disk.sector_bytes(),
        }
    }

    /// Returns the sectors of an outermost cylinder, for [`Queue::new`](crate::Queue::new); 1 where
    /// there are no cylinders.
    #[must_use]
    pub fn sectors_per_cylinder(&self) -> u64 {
        self.turning().map_or(1, rotating::Rotating::sectors_per_cylinder)
    }

    /// Returns the time of a revolution; none where nothing turns.
    #[must_use]
    pub fn revolution(&self) -> Option<Time> {
        self.turning().map(rotating::Rotating::revolution)
    }

    /// Returns how many transfers may be in service at once.
    #[must_use]
    pub fn parallelism(&self) -> u32 {
        match &self.0 {
            Kind::Rotating(_) | Kind::Shingled(_) => 1,
            Kind::Flash(disk) => disk.queue_depth(),
        }
    }

    /// Returns how many commands it holds to choose the next from.
    #[must_use]
    pub fn commands(&self) -> usize {
        self.turning().map_or(1, |disk| disk.choice().depth)
    }

    /// Returns how long a command may wait before it goes before all others.
    #[must_use]
    pub fn age_limit(&self) -> Time {
        self.turning().map_or(Time::ZERO, |disk| disk.choice().age_limit)
    }

    /// Returns when the first sector of a transfer would begin, or its data be in memory, if it
    /// were started at `now`.
    #[must_use]
    pub fn reached(&self, now: Time, transfer: &Transfer) -> Time {
        match &self.0 {
            Kind::Rotating(disk) => disk.reached(now, transfer),
            Kind::Shingled(disk) => disk.reached(now, transfer),
            Kind::Flash(_) => now,
        }
    }

    /// Returns the sector before which the heads stand, for [`Queue::pop`](crate::Queue::pop).
    #[must_use]
    pub fn head(&self) -> u64 {
        match &self.0 {
            Kind::Rotating(disk) => disk.head(),
            Kind::Shingled(disk) => disk.head(),
            Kind::Flash(_) => 0,
        }
    }

    /// Starts a transfer at `now` and says when it is complete.
    pub fn start(&mut self, now: Time, transfer: &Transfer) -> Service {
        match &mut self.0 {
            Kind::Rotating(disk) => disk.start(now, transfer),
            Kind::Shingled(disk) => disk.start(now, transfer),
            Kind::Flash(disk) => disk.start(now, transfer),
        }
    }

    /// Moves the heads of an idle disk to `sector` from `now` on. What is started before they are
    /// there waits. A disk that decides by itself where it writes does not.
    pub fn prepare(&mut self, now: Time, sector: u64) {
        if let Kind::Rotating(disk) = &mut self.0 {
            disk.prepare(now, sector);
        }
    }

    /// Returns the time in which the heads move by so many cylinders before a write; none where
    /// nothing moves.
    #[must_use]
    pub fn seek(&self, cylinders: u32) -> Option<Time> {
        self.turning().map(|disk| disk.seek(cylinders))
    }

    /// Returns when everything that has been acknowledged is on the medium, if a flush begins at
    /// `now` with nothing in service.
    pub fn flush(&mut self, now: Time) -> Time {
        match &mut self.0 {
            Kind::Rotating(disk) => disk.flush(now),
            Kind::Shingled(disk) => disk.flush(now),
            Kind::Flash(disk) => disk.flush(now),
        }
    }

    /// Forgets what so many sectors from `sector` on hold, where something is gained by it.
    pub fn discard(&mut self, sector: u64, sectors: u64) {
        if let Kind::Flash(disk) = &mut self.0 {
            disk.discard(sector, sectors);
        }
    }

    /// Returns what a shingled disk has done by itself; none where tracks are not shingled.
    #[must_use]
    pub fn cleaning(&self) -> Option<Cleaning> {
        match &self.0 {
            Kind::Rotating(_) | Kind::Flash(_) => None,
            Kind::Shingled(disk) => Some(disk.cleaning()),
        }
    }

    /// Returns the disk that turns, in itself or below a translation layer.
    fn turning(&self) -> Option<&rotating::Rotating> {
        match &self.0 {
            Kind::Rotating(disk) => Some(disk),
            Kind::Shingled(disk) => Some(disk.drive()),
            Kind::Flash(_) => None,
        }
    }

    /// Returns what was written to flash; none where there is no flash.
    #[must_use]
    pub fn wear(&self) -> Option<Wear> {
        match &self.0 {
            Kind::Rotating(_) | Kind::Shingled(_) => None,
            Kind::Flash(disk) => Some(disk.wear()),
        }
    }
}

/// Returns the error of a figure that cannot be.
fn invalid(field: &str, problem: &str) -> Error {
    Error::Invalid { field: field.to_owned(), problem: problem.to_owned() }
}
