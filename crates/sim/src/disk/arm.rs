//! The moving parts: where the heads are, and how long it takes until a run of sectors has passed
//! under them.
//!
//! Pure: an [`Arm`] is a value, and every motion gives the next one.

use super::geometry::{Geometry, Pass, Place, Track};
use super::invalid;
use super::recent::Recent;
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

/// How much longer, or shorter, the heads take to settle before a write.
#[derive(Clone, Copy, Debug)]
struct Settle {
    longer: Time,
    shorter: Time,
}

impl Settle {
    fn from_ms(ms: f64) -> Self {
        Self { longer: Time::from_ms_f64(ms.max(0.0)), shorter: Time::from_ms_f64((-ms).max(0.0)) }
    }

    /// Returns the time of a movement before a write, from that of the movement; where nothing
    /// moves, nothing settles.
    fn after(self, moved: Time) -> Time {
        if moved == Time::ZERO { moved } else { moved + self.longer - self.shorter }
    }
}

/// Platters and arm.
#[derive(Clone, Debug)]
pub struct Mechanism {
    /// Where the sectors are.
    pub geometry: Geometry,
    read: Curve,
    write: Curve,
    head_switch: Time,
    settle: Settle,
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
        let settle_ms = seek.write_settle_ms.unwrap_or(0.0);
        if !(-1000.0..=1000.0).contains(&settle_ms) {
            return Err(invalid("seek.write_settle_ms", "must be from -1000 to 1000"));
        }
        let cylinders = geometry.zone.iter().fold(0, |sum: u32, zone| sum.saturating_add(zone.cylinders));
        let (read, write) = Curve::pair(cylinders, seek)?;
        let head_switch = Time::from_ms_f64(geometry.head_switch_ms);
        let settle = Settle::from_ms(settle_ms);
        let slower = |read: Time, write: Time| read.max(settle.after(write));
        let step = slower(read.time(1), write.time(1));
        let geometry = Geometry::new(geometry, slower(head_switch, head_switch), step)?;
        Ok(Self { geometry, read, write, head_switch, settle, zero_latency })
    }

    /// Heads on the first track.
    #[must_use]
    pub fn parked(&self) -> Arm {
        Arm { track: self.geometry.place(0).track }
    }

    /// Returns the time in which the heads move by so many cylinders before a write.
    #[must_use]
    pub fn seek(&self, cylinders: u32) -> Time {
        self.settle.after(self.write.time(cylinders))
    }

    /// Returns the time to bring the heads to a track.
    #[must_use]
    pub fn reach(&self, arm: Arm, op: Op, track: Track) -> Time {
        let distance = arm.track.cylinder.abs_diff(track.cylinder);
        let switch = if arm.track.head == track.head { Time::ZERO } else { self.head_switch };
        match op {
            Op::Read => self.read.time(distance).max(switch),
            Op::Write => self.settle.after(self.write.time(distance).max(switch)),
        }
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

    /// Writes `count` sectors in their order, as [`Self::in_order`], but first reads those sectors
    /// of the platters, at both ends, of which a part stays as it is, unless `known` has them.
    #[must_use]
    pub fn rewrite(&self, arm: Arm, known: &Recent, sector: u64, count: u64, from: Time) -> Motion {
        let together = self.geometry.together();
        let (start, end) = (sector / together * together, (sector + count).next_multiple_of(together));
        let last = end - together;
        let first = (start < sector || (start == last && sector + count < end)).then_some(start);
        let other = (last > start && sector + count < end).then_some(last);
        let (mut arm, mut ready, mut seek) = (arm, from, None);
        let is_unknown = |at: &u64| !known.holds(*at, *at + together);
        for partly in first.into_iter().chain(other).filter(is_unknown) {
            let motion = self.in_order(arm, Op::Read, partly, together, ready);
            (arm, ready) = (motion.arm, motion.end);
            seek.get_or_insert(motion.seek);
        }
        let motion = self.in_order(arm, Op::Write, start, end - start, ready);
        Motion { seek: seek.unwrap_or(motion.seek), ..motion }
    }

    fn transfer(&self, arm: Arm, op: Op, sector: u64, count: u64, from: Time, any_order: bool) -> Motion {
        let Place { mut track, mut index, mut run } = self.geometry.place(sector);
        let seek = self.reach(arm, op, track);
        let mut motion = Motion { seek, begin: from + seek, end: from + seek, arm: Arm { track } };
        let mut done = 0;
        while done < count {
            let here = run.min(count - done);
            let Pass { begin, end } = if any_order {
                self.geometry.pass_in_any_order(track, index, here, motion.end)
            } else {
                self.geometry.pass(track, index, here, motion.end)
            };
            if done == 0 {
                motion.begin = begin;
            }
            motion.end = end;
            done += here;
            if done < count {
                Place { track, index, run } = self.geometry.place(sector + done);
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
        loop {
            let Place { track, index, run } = self.geometry.place(sector + reached.sectors);
            let ready = reached.end + self.reach(reached.arm, Op::Read, track);
            if ready >= until {
                return reached;
            }
            let here = run.min(count - reached.sectors);
            let passed = self.geometry.passed(track, index, here, ready, until);
            if passed > 0 {
                reached.end = self.geometry.pass(track, index, passed, ready).end;
                reached.arm = Arm { track };
                reached.sectors += passed;
            }
            if passed < here || reached.sectors == count {
                return reached;
            }
        }
    }
}
