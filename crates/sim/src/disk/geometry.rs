//! Where a sector is, and when it passes under the head.
//!
//! Sectors are numbered along a track, then from track to track as the layout says: from head to
//! head through a cylinder and then inwards, or in serpentines. A track has slots, which pass the
//! head one after the other; interleave says which slot a sector has, skew by how many slots, or
//! how much time, each track is turned against the one before. The platters turn by the clock: at
//! time t the angle is t modulo a revolution.
//!
//! Invariant: all boundaries of slots are rounded in one way, so what follows without a gap on the
//! platter follows without a gap in time.

use super::invalid;
use super::spec::{self, Layout};
use crate::error::Error;
use crate::time::Time;

/// The largest disk.
const MOST_BYTES: u64 = 1 << 60;

/// The sectors of a rotating disk.
#[derive(Clone, Debug)]
pub struct Geometry {
    heads: u32,
    layout: Layout,
    /// Of [`Layout::SurfaceSerpentine`].
    band: u32,
    cylinders: u32,
    sectors: u64,
    revolution_ns: u64,
    /// Sectors that lie in one on the platters.
    together: u64,
    zones: Vec<Zone>,
}

#[derive(Clone, Debug)]
struct Zone {
    first_cylinder: u32,
    end_cylinder: u32,
    first_sector: u64,
    per_track: u64,
    data: Data,
    track_skew: Turn,
    cylinder_skew: Turn,
    /// Slot by sector of the track; empty where they are the same.
    slots: Vec<u32>,
}

/// How far a track is turned: slots and a time, which add up.
///
/// What is given in sectors stays whole, so that no rounding makes a head come too late for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    slots: u64,
    ns: u64,
}

/// A track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// Cylinder, 0 the outermost.
    pub cylinder: u32,
    /// Head, 0 the first of a cylinder.
    pub head: u32,
    zone: usize,
    /// How many tracks of its zone come before it.
    number: u64,
    /// Where its slot 0 stands.
    turn: Turn,
}

/// Where a sector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its track.
    pub track: Track,
    /// Its number on the track.
    pub index: u64,
    /// How many sectors follow it on the track without a gap, itself included.
    pub run: u64,
}

/// Which sectors of a zone hold data.
#[derive(Clone, Copy, Debug)]
struct Data {
    /// Those that do.
    sectors: u64,
    /// Those at the front that do not.
    front: u64,
    /// Spares come after every so many that are not; [`u64::MAX`] where there are none.
    between: u64,
    spare: u64,
}

impl Data {
    fn new(zone: &spec::Zone, per_track: u64, physical: u64) -> Result<Self, Error> {
        let count = |sectors: Option<u32>| u64::from(sectors.unwrap_or(0));
        let spare = count(zone.spare_sectors);
        let range = count(zone.spare_every_tracks) * per_track;
        if (spare > 0) != (range > 0) || range <= spare && spare > 0 {
            return Err(invalid(
                "geometry.zone.spare_sectors",
                "needs spare_every_tracks, and tracks with more sectors than these",
            ));
        }
        let between = if spare == 0 { u64::MAX } else { range - spare };
        let front = count(zone.front_reserved_sectors);
        let used = match spare {
            0 => physical,
            _ => physical / range * between + (physical % range).min(between),
        };
        match used.saturating_sub(count(zone.end_reserved_sectors)).saturating_sub(front) {
            0 => Err(invalid("geometry.zone.end_reserved_sectors", "must leave some sectors")),
            sectors => Ok(Self { sectors, front, between, spare }),
        }
    }

    /// Returns where in its zone a sector with data is.
    const fn physical(&self, sector: u64) -> u64 {
        let at = sector + self.front;
        at + at / self.between * self.spare
    }

    /// Returns how many sectors there are from this one to the next spare, or to the end.
    fn until_gap(&self, sector: u64) -> u64 {
        let at = sector + self.front;
        (self.between - at % self.between).min(self.sectors - sector)
    }
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
        let whole = spec.physical_sector_bytes.unwrap_or(sector);
        if whole < sector || !whole.is_power_of_two() || whole > 1 << 16 {
            let why = "must be a power of two from sector_bytes to 65536";
            return Err(invalid("geometry.physical_sector_bytes", why));
        }
        let together = whole / sector;
        let revolution = Time::from_secs_f64(60.0 / spec.rpm);
        let band = match (spec.layout, spec.serpentine_cylinders) {
            (Layout::SurfaceSerpentine, Some(1..)) => spec.serpentine_cylinders.unwrap_or(1),
            (Layout::SurfaceSerpentine, _) => {
                return Err(invalid("geometry.serpentine_cylinders", "must be at least 1 in this layout"));
            }
            (_, None) => 1,
            (_, Some(_)) => {
                return Err(invalid("geometry.serpentine_cylinders", "needs the layout surface-serpentine"));
            }
        };
        let mut geometry = Self {
            heads: spec.heads,
            layout: spec.layout,
            band,
            cylinders: 0,
            sectors: 0,
            revolution_ns: revolution.0,
            together: together.into(),
            zones: Vec::new(),
        };
        for zone in &spec.zone {
            if zone.cylinders == 0 || zone.cylinders > 100_000_000 {
                return Err(invalid("geometry.zone.cylinders", "must be from 1 to 100000000"));
            }
            if zone.sectors_per_track == 0 || zone.sectors_per_track > 100_000 {
                return Err(invalid("geometry.zone.sectors_per_track", "must be from 1 to 100000"));
            }
            let reserved = [zone.front_reserved_sectors, zone.end_reserved_sectors, zone.spare_sectors];
            let counts = reserved.into_iter().flatten().chain([zone.sectors_per_track]);
            if counts.into_iter().any(|count| !count.is_multiple_of(together)) {
                let why = "must divide the tracks of a zone, and what it keeps free";
                return Err(invalid("geometry.physical_sector_bytes", why));
            }
            let per_track = u64::from(zone.sectors_per_track);
            let interleave = u64::from(spec.interleave.unwrap_or(1));
            if interleave == 0 || interleave > per_track {
                return Err(invalid("geometry.interleave", "must be from 1 to the sectors of a track"));
            }
            let covering = |time: Time| (time.0 * per_track).div_ceil(revolution.0);
            let skew = |field, ms: Option<f64>, sectors: Option<u32>, covered| match ms {
                Some(ms) if !(0.0..=1000.0).contains(&ms) => Err(invalid(field, "must be from 0 to 1000")),
                Some(ms) => Ok(Turn { slots: 0, ns: Time::from_ms_f64(ms).0 % revolution.0 }),
                None => {
                    let slots = sectors.map_or_else(|| covering(covered), u64::from);
                    Ok(Turn { slots: slots % per_track, ns: 0 })
                }
            };
            let (track_ms, cylinder_ms) = (zone.track_skew_ms, zone.cylinder_skew_ms);
            let track_skew = skew("geometry.zone.track_skew_ms", track_ms, spec.track_skew_sectors, switch)?;
            let cylinder_skew =
                skew("geometry.zone.cylinder_skew_ms", cylinder_ms, spec.cylinder_skew_sectors, step)?;
            let end_cylinder = geometry
                .cylinders
                .checked_add(zone.cylinders)
                .ok_or_else(|| invalid("geometry.zone.cylinders", "are too many together"))?;
            let physical = u64::from(zone.cylinders) * u64::from(spec.heads) * per_track;
            let data = Data::new(zone, per_track, physical)?;
            geometry.zones.push(Zone {
                first_cylinder: geometry.cylinders,
                end_cylinder,
                first_sector: geometry.sectors,
                per_track,
                data,
                track_skew,
                cylinder_skew,
                slots: if interleave == 1 { Vec::new() } else { interleaved(per_track, interleave) },
            });
            geometry.cylinders = end_cylinder;
            geometry.sectors += data.sectors;
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

    /// Returns the sectors that lie in one on the platters.
    #[must_use]
    pub const fn together(&self) -> u64 {
        self.together
    }

    /// Returns the time of a revolution.
    #[must_use]
    pub const fn revolution(&self) -> Time {
        Time(self.revolution_ns)
    }

    /// Returns the sectors of a track, those too that hold no data.
    #[must_use]
    pub fn per_track(&self, track: Track) -> u64 {
        self.zones[track.zone].per_track
    }

    /// Returns the sectors of an outermost cylinder: what a driver takes for its geometry.
    #[must_use]
    pub fn sectors_per_cylinder(&self) -> u64 {
        self.zones[0].per_track * u64::from(self.heads)
    }

    /// Returns where a sector is. A sector behind the last is taken for the last.
    #[must_use]
    pub fn place(&self, sector: u64) -> Place {
        let sector = sector.min(self.sectors - 1);
        let zone = self.zones.partition_point(|zone| zone.first_sector <= sector) - 1;
        let Zone { first_sector, per_track, data, .. } = self.zones[zone];
        let within = sector - first_sector;
        let physical = data.physical(within);
        let (number, index) = (physical / per_track, physical % per_track);
        let run = (per_track - index).min(data.until_gap(within));
        Place { track: self.track(zone, number), index, run }
    }

    /// Returns the first sector with data of the track of a sector, and the one after its last.
    #[must_use]
    pub fn track_bounds(&self, sector: u64) -> (u64, u64) {
        let sector = sector.min(self.sectors - 1);
        let Place { track, index, run } = self.place(sector);
        let mut start = sector - index.min(sector);
        while self.place(start).track != track {
            start += 1;
        }
        (start, sector + run)
    }

    /// Returns the sector after the last one in sequence on the cylinder of a sector.
    #[must_use]
    pub fn cylinder_end(&self, sector: u64) -> u64 {
        let cylinder = self.place(sector).track.cylinder;
        let mut end = self.track_bounds(sector).1;
        while end < self.sectors && self.place(end).track.cylinder == cylinder {
            end = self.track_bounds(end).1;
        }
        end
    }

    /// Returns the track of a zone before which `number` others come.
    fn track(&self, zone: usize, number: u64) -> Track {
        let of = &self.zones[zone];
        let heads = u64::from(self.heads);
        let (by_heads, head_of) = (number / heads, number % heads);
        let (cylinder, head, switches) = match self.layout {
            Layout::Cylinder => (by_heads, head_of, by_heads * (heads - 1) + head_of),
            Layout::CylinderSerpentine => {
                let head = if by_heads % 2 == 0 { head_of } else { heads - 1 - head_of };
                (by_heads, head, by_heads * (heads - 1) + head_of)
            }
            Layout::SurfaceSerpentine => {
                let band = u64::from(self.band);
                let before = number / (band * heads);
                let cylinders = u64::from(of.end_cylinder - of.first_cylinder);
                let here = band.min(cylinders - before * band);
                let within = number - before * band * heads;
                let (head, along) = (within / here, within % here);
                let cylinder = if head % 2 == 0 { along } else { here - 1 - along };
                (before * band + cylinder, head, before * (heads - 1) + head)
            }
        };
        let turn = of.track_skew.times(switches, of.per_track, self.revolution_ns).and(
            of.cylinder_skew.times(number - switches, of.per_track, self.revolution_ns),
            of.per_track,
            self.revolution_ns,
        );
        #[expect(clippy::cast_possible_truncation, reason = "cylinders and heads were counted in 32 bits")]
        let (cylinder, head) = (of.first_cylinder + cylinder as u32, head as u32);
        Track { cylinder, head, zone, number, turn }
    }

    /// Returns when `count` sectors of a track, from number `index` on, pass a head that is there
    /// from `from` on.
    #[must_use]
    pub fn pass(&self, track: Track, index: u64, count: u64, from: Time) -> Pass {
        let zone = &self.zones[track.zone];
        if zone.slots.is_empty() {
            let slot = (index + track.turn.slots) % zone.per_track;
            let begin = self.wait(zone, track, slot, from);
            return Pass { begin, end: begin + self.length(zone, slot, count) };
        }
        let mut pass = Pass { begin: from, end: from };
        for nth in 0..count {
            let slot = (u64::from(zone.slot(index + nth)) + track.turn.slots) % zone.per_track;
            let begin = self.wait(zone, track, slot, pass.end);
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
        let phase = (from.0 + self.revolution_ns - track.turn.ns) % self.revolution_ns;
        let next = (phase * zone.per_track).div_ceil(self.revolution_ns) % zone.per_track;
        let first = (index + track.turn.slots) % zone.per_track;
        let ahead = (next + zone.per_track - first) % zone.per_track;
        if ahead == 0 || ahead >= count {
            return pass;
        }
        let begin = self.wait(zone, track, next, from);
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
        let slot = (index + track.turn.slots) % zone.per_track;
        let gone = (until - pass.begin).0;
        let guess = (gone * zone.per_track / self.revolution_ns + 1).min(count);
        (0..=guess).rev().find(|n| self.length(zone, slot, *n).0 <= gone).unwrap_or(0)
    }

    /// Returns the first moment from `from` on at which the slot of the track begins.
    fn wait(&self, zone: &Zone, track: Track, slot: u64, from: Time) -> Time {
        let phase = from.0 % self.revolution_ns;
        let start = (slot * self.revolution_ns / zone.per_track + track.turn.ns) % self.revolution_ns;
        let wait = if start >= phase { start - phase } else { start + self.revolution_ns - phase };
        from + Time(wait)
    }

    /// Returns the time of `count` slots from `slot` on.
    fn length(&self, zone: &Zone, slot: u64, count: u64) -> Time {
        let edge = |slot: u64| slot * self.revolution_ns / zone.per_track;
        Time(edge(slot + count) - edge(slot))
    }
}

impl Turn {
    /// Returns so many of these turns, less whole revolutions.
    fn times(self, count: u64, per_track: u64, revolution_ns: u64) -> Self {
        let ns = match self.ns {
            0 => 0,
            ns => u64::try_from(u128::from(ns) * u128::from(count) % u128::from(revolution_ns)).unwrap_or(0),
        };
        Self { slots: self.slots * count % per_track, ns }
    }

    /// Returns both turns together, less whole revolutions.
    const fn and(self, other: Self, per_track: u64, revolution_ns: u64) -> Self {
        Self { slots: (self.slots + other.slots) % per_track, ns: (self.ns + other.ns) % revolution_ns }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Promise: in every layout each track is passed once, in the order of the sectors, and a
    /// serpentine moves by one cylinder or one head at most.
    #[test]
    fn tracks_follow_each_other() {
        let zone = |cylinders, sectors_per_track| spec::Zone {
            cylinders,
            sectors_per_track,
            ..spec::Zone::default()
        };
        let shapes = [(Layout::Cylinder, None), (Layout::CylinderSerpentine, None)];
        let bands = (1..9).map(|band| (Layout::SurfaceSerpentine, Some(band)));
        for (layout, serpentine_cylinders) in shapes.into_iter().chain(bands) {
            for heads in 1..5 {
                let spec = spec::Geometry {
                    rpm: 3600.0,
                    heads,
                    sector_bytes: 512,
                    physical_sector_bytes: None,
                    interleave: None,
                    head_switch_ms: 0.0,
                    track_skew_sectors: Some(1),
                    cylinder_skew_sectors: Some(2),
                    layout,
                    serpentine_cylinders,
                    zone: vec![zone(7, 5), zone(4, 3)],
                };
                let geometry = Geometry::new(&spec, Time::ZERO, Time::ZERO).unwrap();
                let mut seen = HashSet::new();
                let (mut track, mut sector) = (geometry.place(0).track, 0);
                loop {
                    let story = format!("{layout:?} {serpentine_cylinders:?} {heads}: {track:?}");
                    assert!(seen.insert((track.cylinder, track.head)), "{story}");
                    let per_track = geometry.per_track(track);
                    assert_eq!(geometry.track_bounds(sector + 1), (sector, sector + per_track), "{story}");
                    for index in 0..per_track {
                        let place = Place { track, index, run: per_track - index };
                        assert_eq!(geometry.place(sector), place, "{story}");
                        sector += 1;
                    }
                    if sector == geometry.sectors() {
                        break;
                    }
                    let next = geometry.place(sector).track;
                    let moved = (next.cylinder.abs_diff(track.cylinder), next.head.abs_diff(track.head));
                    let ends_a_zone = next.zone != track.zone;
                    match layout {
                        Layout::Cylinder => assert!(moved == (0, 1) || moved == (1, heads - 1), "{story}"),
                        Layout::CylinderSerpentine => {
                            assert!(moved == (0, 1) || moved == (1, 0) || ends_a_zone, "{story}");
                        }
                        Layout::SurfaceSerpentine => {
                            let to_next_band = next.head == 0 && track.head == heads - 1;
                            assert!(moved == (0, 1) || moved == (1, 0) || to_next_band, "{story}");
                        }
                    }
                    track = next;
                }
                assert_eq!(seen.len(), 11 * heads as usize);
            }
        }
    }
}
