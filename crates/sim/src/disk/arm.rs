//! The moving parts: where the heads are, and how long it takes until a run of sectors has passed
//! under them.
//!
//! Pure: an [`Arm`] is a value, and every motion gives the next one.

use super::geometry::{Geometry, Pass, Track};
use super::invalid;
use super::seek::Curve;
use super::spec;
use crate::error::Error;
use crate::time::Time;
use spindle_device::Op;

/// Where the heads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm {
    /// The track under the chosen head.
    pub track: Track,
}

/// A run of sectors passing under the heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Motion {
    /// Time to reach the cylinder, or to choose the head.
    pub seek: Time,
    /// The first sector begins.
    pub begin: Time,
    /// The last sector ends.
    pub end: Time,
    /// Where the heads are then.
    pub arm: Arm,
}

/// How far reading on has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Sectors that are in.
    pub sectors: u64,
    /// When the last of them was.
    pub end: Time,
    /// Where the heads were then.
    pub arm: Arm,
}

/// Platters and arm.
#[derive(Clone, Debug)]
pub struct Mechanism {
    /// Where the sectors are.
    pub geometry: Geometry,
    read: Curve,
    write: Curve,
    head_switch: Time,
    /// Reading may begin in the middle.
    zero_latency: bool,
}

impl Mechanism {
    /// Returns the mechanism of a rotating disk.
    ///
    /// # Errors
    /// When a figure is out of its range.
    pub fn new(geometry: &spec::Geometry, seek: &spec::Seek, zero_latency: bool) -> Result<Self, Error> {
        if !(0.0..=1000.0).contains(&geometry.head_switch_ms) {
            return Err(invalid("geometry.head_switch_ms", "must be from 0 to 1000"));
        }
        let cylinders = geometry.zone.iter().fold(0, |sum: u32, zone| sum.saturating_add(zone.cylinders));
        let read = Curve::fit(cylinders, seek.min_ms, seek.average_ms, seek.max_ms)?;
        let write = Curve::fit(
            cylinders,
            seek.write_min_ms.unwrap_or(seek.min_ms),
            seek.write_average_ms.unwrap_or(seek.average_ms),
            seek.write_max_ms.unwrap_or(seek.max_ms),
        )?;
        let head_switch = Time::from_ms_f64(geometry.head_switch_ms);
        let step = read.time(1).max(write.time(1));
        let geometry = Geometry::new(geometry, head_switch, step)?;
        Ok(Self { geometry, read, write, head_switch, zero_latency })
    }

    /// Heads on the first track.
    #[must_use]
    pub fn parked(&self) -> Arm {
        Arm { track: self.geometry.place(0).0 }
    }

    /// Returns the time in which the heads move by so many cylinders before a write.
    #[must_use]
    pub fn seek(&self, cylinders: u32) -> Time {
        self.write.time(cylinders)
    }

    /// Returns the time to bring the heads to a track.
    #[must_use]
    pub fn reach(&self, arm: Arm, op: Op, track: Track) -> Time {
        let distance = arm.track.cylinder.abs_diff(track.cylinder);
        let curve = if op == Op::Read { &self.read } else { &self.write };
        let switch = if arm.track.head == track.head { Time::ZERO } else { self.head_switch };
        curve.time(distance).max(switch)
    }

    /// Moves to `sector` from `from` on and transfers `count` sectors, which follow each other.
    #[must_use]
    pub fn access(&self, arm: Arm, op: Op, sector: u64, count: u64, from: Time) -> Motion {
        self.transfer(arm, op, sector, count, from, self.zero_latency && op == Op::Read)
    }

    /// Returns the same, in the order of the sectors.
    #[must_use]
    pub fn in_order(&self, arm: Arm, op: Op, sector: u64, count: u64, from: Time) -> Motion {
        self.transfer(arm, op, sector, count, from, false)
    }

    fn transfer(&self, arm: Arm, op: Op, sector: u64, count: u64, from: Time, any_order: bool) -> Motion {
        let (mut track, mut index) = self.geometry.place(sector);
        let seek = self.reach(arm, op, track);
        let mut motion = Motion { seek, begin: from + seek, end: from + seek, arm: Arm { track } };
        let mut left = count;
        while left > 0 {
            let here = left.min(self.geometry.per_track(track) - index);
            let Pass { begin, end } = if any_order {
                self.geometry.pass_in_any_order(track, index, here, motion.end)
            } else {
                self.geometry.pass(track, index, here, motion.end)
            };
            if left == count {
                motion.begin = begin;
            }
            motion.end = end;
            left -= here;
            if left > 0 {
                (track, index) = (self.geometry.after(track), 0);
                motion.end += self.reach(motion.arm, op, track);
                motion.arm = Arm { track };
            }
        }
        motion
    }

    /// Returns how far reading on from `sector`, without a pause since `from`, has got by `until`,
    /// of `count` sectors at most.
    #[must_use]
    pub fn progress(&self, arm: Arm, sector: u64, count: u64, from: Time, until: Time) -> Progress {
        let mut reached = Progress { sectors: 0, end: from, arm };
        if count == 0 {
            return reached;
        }
        let (mut track, mut index) = self.geometry.place(sector);
        loop {
            let ready = reached.end + self.reach(reached.arm, Op::Read, track);
            if ready >= until {
                return reached;
            }
            let here = (count - reached.sectors).min(self.geometry.per_track(track) - index);
            let passed = self.geometry.passed(track, index, here, ready, until);
            if passed > 0 {
                reached.end = self.geometry.pass(track, index, passed, ready).end;
                reached.arm = Arm { track };
                reached.sectors += passed;
            }
            if passed < here || reached.sectors == count {
                return reached;
            }
            (track, index) = (self.geometry.after(track), 0);
        }
    }
}
