//! Where a sector is, and when it passes under the head.
//!
//! Sectors are numbered along a track, then from head to head through a cylinder, then inwards. A
//! track has slots, which pass the head one after the other; interleave says which slot a sector
//! has, skew by how many slots each track is turned against the one before. The platters turn by
//! the clock: at time t the angle is t modulo a revolution.
//!
//! Invariant: all boundaries of slots are rounded in one way, so what follows without a gap on the
//! platter follows without a gap in time.

use super::invalid;
use super::spec;
use crate::error::Error;
use crate::time::Time;

/// The largest disk.
const MOST_BYTES: u64 = 1 << 60;

/// The sectors of a rotating disk.
#[derive(Clone, Debug)]
pub struct Geometry {
    heads: u32,
    cylinders: u32,
    sectors: u64,
    revolution_ns: u64,
    zones: Vec<Zone>,
}

#[derive(Clone, Debug)]
struct Zone {
    first_cylinder: u32,
    end_cylinder: u32,
    first_sector: u64,
    per_track: u64,
    track_skew: u64,
    /// Turn of a cylinder against the one before.
    cylinder_turn: u64,
    /// Slot by sector of the track; empty where they are the same.
    slots: Vec<u32>,
}

/// A track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// Cylinder, 0 the outermost.
    pub cylinder: u32,
    /// Head, 0 the first of a cylinder.
    pub head: u32,
    zone: usize,
    /// Slot number at which its own slot 0 stands.
    turn: u64,
}

/// When a run of sectors of one track passes the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The first begins.
    pub begin: Time,
    /// The last ends.
    pub end: Time,
}

impl Geometry {
    /// Returns the geometry that `spec` describes; skews that it leaves out cover `switch` (one
    /// head to the next) and `step` (one cylinder to the next).
    ///
    /// # Errors
    /// When a figure is out of its range.
    pub fn new(spec: &spec::Geometry, switch: Time, step: Time) -> Result<Self, Error> {
        let sector = spec.sector_bytes;
        if sector < 512 || !sector.is_power_of_two() || sector > 1 << 16 {
            return Err(invalid("geometry.sector_bytes", "must be a power of two from 512 to 65536"));
        }
        if !(1.0..=100_000.0).contains(&spec.rpm) {
            return Err(invalid("geometry.rpm", "must be from 1 to 100000"));
        }
        if spec.heads == 0 || spec.heads > 1000 {
            return Err(invalid("geometry.heads", "must be from 1 to 1000"));
        }
        if spec.zone.is_empty() {
            return Err(invalid("geometry.zone", "there must be at least one"));
        }
        let revolution = Time::from_secs_f64(60.0 / spec.rpm);
        let mut geometry = Self {
            heads: spec.heads,
            cylinders: 0,
            sectors: 0,
            revolution_ns: revolution.0,
            zones: Vec::new(),
        };
        for zone in &spec.zone {
            if zone.cylinders == 0 || zone.cylinders > 100_000_000 {
                return Err(invalid("geometry.zone.cylinders", "must be from 1 to 100000000"));
            }
            if zone.sectors_per_track == 0 || zone.sectors_per_track > 100_000 {
                return Err(invalid("geometry.zone.sectors_per_track", "must be from 1 to 100000"));
            }
            let per_track = u64::from(zone.sectors_per_track);
            let interleave = u64::from(spec.interleave.unwrap_or(1));
            if interleave == 0 || interleave > per_track {
                return Err(invalid("geometry.interleave", "must be from 1 to the sectors of a track"));
            }
            let covering = |time: Time| (time.0 * per_track).div_ceil(revolution.0);
            let track_skew = spec.track_skew_sectors.map_or_else(|| covering(switch), u64::from);
            let cylinder_skew = spec.cylinder_skew_sectors.map_or_else(|| covering(step), u64::from);
            let end_cylinder = geometry
                .cylinders
                .checked_add(zone.cylinders)
                .ok_or_else(|| invalid("geometry.zone.cylinders", "are too many together"))?;
            geometry.zones.push(Zone {
                first_cylinder: geometry.cylinders,
                end_cylinder,
                first_sector: geometry.sectors,
                per_track,
                track_skew,
                cylinder_turn: (u64::from(spec.heads - 1) * track_skew + cylinder_skew) % per_track,
                slots: if interleave == 1 { Vec::new() } else { interleaved(per_track, interleave) },
            });
            geometry.cylinders = end_cylinder;
            geometry.sectors += u64::from(zone.cylinders) * u64::from(spec.heads) * per_track;
            if geometry.sectors > MOST_BYTES / u64::from(sector) {
                return Err(invalid("geometry", "makes more than 2^60 bytes"));
            }
        }
        Ok(geometry)
    }

    /// Returns the sectors of the whole disk.
    #[must_use]
    pub const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Returns the time of a revolution.
    #[must_use]
    pub const fn revolution(&self) -> Time {
        Time(self.revolution_ns)
    }

    /// Returns the sectors of a track of the cylinder.
    #[must_use]
    pub fn per_track(&self, track: Track) -> u64 {
        self.zones[track.zone].per_track
    }

    /// Returns the sectors of an outermost cylinder: what a driver takes for its geometry.
    #[must_use]
    pub fn sectors_per_cylinder(&self) -> u64 {
        self.zones[0].per_track * u64::from(self.heads)
    }

    /// Returns the track of a sector and its number on the track. A sector behind the last is taken
    /// for the last.
    #[must_use]
    pub fn place(&self, sector: u64) -> (Track, u64) {
        let sector = sector.min(self.sectors - 1);
        let zone = self.zones.partition_point(|zone| zone.first_sector <= sector) - 1;
        let Zone { first_cylinder, first_sector, per_track, .. } = self.zones[zone];
        let (track, index) = ((sector - first_sector) / per_track, (sector - first_sector) % per_track);
        let heads = u64::from(self.heads);
        #[expect(clippy::cast_possible_truncation, reason = "cylinders and heads were counted in 32 bits")]
        let (cylinder, head) = (first_cylinder + (track / heads) as u32, (track % heads) as u32);
        (self.track(zone, cylinder, head), index)
    }

    /// Returns the track after this one; after the last, the last.
    #[must_use]
    pub fn after(&self, track: Track) -> Track {
        if track.head + 1 < self.heads {
            self.track(track.zone, track.cylinder, track.head + 1)
        } else if track.cylinder + 1 < self.zones[track.zone].end_cylinder {
            self.track(track.zone, track.cylinder + 1, 0)
        } else if track.zone + 1 < self.zones.len() {
            self.track(track.zone + 1, track.cylinder + 1, 0)
        } else {
            track
        }
    }

    fn track(&self, zone: usize, cylinder: u32, head: u32) -> Track {
        let of = &self.zones[zone];
        let cylinders = u64::from(cylinder - of.first_cylinder);
        let turn = cylinders * of.cylinder_turn + u64::from(head) * of.track_skew;
        Track { cylinder, head, zone, turn: turn % of.per_track }
    }

    /// Returns when `count` sectors of a track, from number `index` on, pass a head that is there
    /// from `from` on.
    #[must_use]
    pub fn pass(&self, track: Track, index: u64, count: u64, from: Time) -> Pass {
        let zone = &self.zones[track.zone];
        if zone.slots.is_empty() {
            let slot = (index + track.turn) % zone.per_track;
            let begin = self.wait(zone, slot, from);
            return Pass { begin, end: begin + self.length(zone, slot, count) };
        }
        let mut pass = Pass { begin: from, end: from };
        for nth in 0..count {
            let slot = (u64::from(zone.slot(index + nth)) + track.turn) % zone.per_track;
            let begin = self.wait(zone, slot, pass.end);
            if nth == 0 {
                pass.begin = begin;
            }
            pass.end = begin + self.length(zone, slot, 1);
        }
        pass
    }

    /// Returns the same for a drive that begins with whatever of them passes first (zero-latency
    /// access).
    #[must_use]
    pub fn pass_in_any_order(&self, track: Track, index: u64, count: u64, from: Time) -> Pass {
        let pass = self.pass(track, index, count, from);
        let zone = &self.zones[track.zone];
        if !zone.slots.is_empty() {
            return pass;
        }
        let phase = from.0 % self.revolution_ns;
        let next = (phase * zone.per_track).div_ceil(self.revolution_ns) % zone.per_track;
        let first = (index + track.turn) % zone.per_track;
        let ahead = (next + zone.per_track - first) % zone.per_track;
        if ahead == 0 || ahead >= count {
            return pass;
        }
        let begin = self.wait(zone, next, from);
        Pass { begin, end: begin + Time(self.revolution_ns) }
    }

    /// Returns how many of `count` sectors that pass as [`Self::pass`] says have passed by `until`.
    #[must_use]
    pub fn passed(&self, track: Track, index: u64, count: u64, from: Time, until: Time) -> u64 {
        let pass = self.pass(track, index, count, from);
        if pass.end <= until {
            return count;
        }
        let zone = &self.zones[track.zone];
        if !zone.slots.is_empty() {
            return (0..count).take_while(|n| self.pass(track, index, n + 1, from).end <= until).count()
                as u64;
        }
        let slot = (index + track.turn) % zone.per_track;
        let gone = (until - pass.begin).0;
        let guess = (gone * zone.per_track / self.revolution_ns + 1).min(count);
        (0..=guess).rev().find(|n| self.length(zone, slot, *n).0 <= gone).unwrap_or(0)
    }

    /// Returns the first moment from `from` on at which the slot begins.
    fn wait(&self, zone: &Zone, slot: u64, from: Time) -> Time {
        let phase = from.0 % self.revolution_ns;
        let start = slot * self.revolution_ns / zone.per_track;
        let wait = if start >= phase { start - phase } else { start + self.revolution_ns - phase };
        from + Time(wait)
    }

    /// Returns the time of `count` slots from `slot` on.
    fn length(&self, zone: &Zone, slot: u64, count: u64) -> Time {
        let edge = |slot: u64| slot * self.revolution_ns / zone.per_track;
        Time(edge(slot + count) - edge(slot))
    }
}

impl Zone {
    fn slot(&self, index: u64) -> u32 {
        usize::try_from(index).ok().and_then(|index| self.slots.get(index)).copied().unwrap_or(0)
    }
}

/// Returns the slot of each of `count` sectors that lie `step` apart: each takes the next one that
/// is free.
fn interleaved(count: u64, step: u64) -> Vec<u32> {
    #[expect(clippy::cast_possible_truncation, reason = "a track has at most 100000")]
    let count = count as usize;
    let mut taken = vec![false; count];
    let mut slots = Vec::with_capacity(count);
    let mut slot = 0_usize;
    for _ in 0..count {
        while taken[slot] {
            slot = (slot + 1) % count;
        }
        taken[slot] = true;
        slots.push(u32::try_from(slot).unwrap_or(0));
        slot = (slot + usize::try_from(step).unwrap_or(1)) % count;
    }
    slots
}
