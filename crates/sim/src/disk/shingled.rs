//! A disk with shingled tracks that manages them itself: a translation layer over a disk that
//! turns.
//!
//! Tracks overlap like shingles, so that a write destroys what the next tracks of its band hold.
//! From the outside inwards the platters have the persistent cache ([`MediaCache`]), a place for
//! one band, and the bands, each at its fixed place. A write goes straight into its band where
//! nothing behind it can be lost: at the end of what the band holds, or as a part of a sequence
//! that is long already and is expected to go on. Every other write is appended to the cache, with
//! a record of the map. Cleaning reads a band and what the cache has of it, writes both together
//! to the place for one band, so that a loss of power does no harm, and then into the band. It
//! takes the band of the oldest run, in idle time, or while the host waits for room. A band whose
//! sequence has broken off is put in order in the same way, from there to its end.
//!
//! Facts: A. Aghayev and P. Desnoyers, "Skylight - A Window on Shingled Disk Operation", FAST 2015,
//! who found in drives of Seagate one cache at the outer edge, bands at fixed places, and cleaning
//! in idle time.
//!
//! Invariants: the parts of the host are whole bands; what a band holds lies at its beginning;
//! costs grow with the runs of the cache and the bands that were written, not with the capacity.

use super::media_cache::{MediaCache, Piece};
use super::rotating::Rotating;
use super::sequences::Sequences;
use super::spec::{self, Condition, Spec};
use super::{Cleaning, Service, invalid};
use crate::error::Error;
use crate::queue::Transfer;
use crate::time::Time;
use spindle_device::Op;
use std::collections::BTreeMap;

/// A drive-managed shingled disk. Sectors are those of the host, unless they are said to be of the
/// platters.
#[derive(Clone, Debug)]
pub struct Shingled {
    drive: Rotating,
    cache: MediaCache,
    /// Sector of the platters of the place for one band.
    spare: u64,
    /// Sector of the platters of the first band.
    home: u64,
    /// Sectors of a band, and how many bands there are.
    band: u64,
    bands: u64,
    /// How many sectors those bands hold of which it is not [`Self::others_hold`].
    held: BTreeMap<u64, u64>,
    others_hold: u64,
    sequences: Sequences,
    /// How long a sequence must be to go straight into the bands.
    long: u64,
    /// Sectors of a record of the map.
    record: u64,
    /// Sectors of the host in one of the platters.
    together: u64,
    /// The map has changed since the last record.
    map_changed: bool,
    idle: Time,
    /// When the drive goes on cleaning if nothing comes before.
    cleans_at: Time,
    head: u64,
    cleaned: u64,
    waited_for: u64,
}

impl Shingled {
    /// Returns the disk that `spec` describes.
    ///
    /// # Errors
    /// When a figure is out of its range, or the disk that turns is wrong.
    pub fn new(spec: &Spec, shingled: &spec::Shingled) -> Result<Self, Error> {
        let drive = Rotating::new(spec)?;
        let bytes = u64::from(drive.sector_bytes());
        let ranges = [
            ("shingled.band_mib", shingled.band_mib, 1, 4096),
            ("shingled.cache_runs", shingled.cache_runs, 16, 1 << 28),
            ("shingled.record_kib", shingled.record_kib, 4, 1024),
        ];
        if let Some((field, ..)) = ranges.iter().find(|(_, value, least, most)| value < least || value > most)
        {
            return Err(invalid(field, "is not within reason"));
        }
        if !(0.0..=1e6).contains(&shingled.cache_gb) {
            return Err(invalid("shingled.cache_gb", "must be from 0 to 1000000"));
        }
        if !(0.0..=1e6).contains(&shingled.idle_ms) {
            return Err(invalid("shingled.idle_ms", "must be from 0 to 1000000"));
        }
        let mib = |mib: u32| (u64::from(mib) << 20) / bytes;
        let band = mib(shingled.band_mib);
        let together = drive.together();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range checked above")]
        let cache = (shingled.cache_gb * 1e9) as u64 / bytes / mib(1) * mib(1);
        if cache < 4 * band {
            return Err(invalid("shingled.cache_gb", "must have room for four bands"));
        }
        let home = cache + band;
        let bands = drive.sectors().saturating_sub(home) / band;
        if bands == 0 {
            return Err(invalid("shingled.band_mib", "with cache_gb leaves no band on the platters"));
        }
        Ok(Self {
            cache: MediaCache::new(cache, shingled.cache_runs as usize),
            spare: cache,
            home,
            band,
            bands,
            held: BTreeMap::new(),
            others_hold: if shingled.condition == Condition::Aged { band } else { 0 },
            sequences: Sequences::default(),
            long: mib(shingled.sequence_mib),
            record: (u64::from(shingled.record_kib) * 1024 / bytes).next_multiple_of(together),
            together,
            map_changed: false,
            idle: Time::from_ms_f64(shingled.idle_ms),
            cleans_at: Time::from_ms_f64(shingled.idle_ms),
            head: 0,
            cleaned: 0,
            waited_for: 0,
            drive,
        })
    }

    /// Returns the disk that turns below.
    pub const fn drive(&self) -> &Rotating {
        &self.drive
    }

    /// Returns the capacity in sectors.
    pub const fn sectors(&self) -> u64 {
        self.bands * self.band
    }

    /// Returns the sector after the last one transferred.
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Returns what was cleaned so far.
    pub fn cleaning(&self) -> Cleaning {
        Cleaning {
            bands: self.cleaned,
            waited_for: self.waited_for,
            cached_runs: u64::try_from(self.cache.len()).unwrap_or(u64::MAX),
        }
    }

    /// Returns when the first sector of a transfer would begin, or its data be in memory, if it
    /// were started at `now`. What the drive does by itself meanwhile is not taken into account.
    pub fn reached(&self, now: Time, transfer: &Transfer) -> Time {
        let first = self.cache.pieces(transfer.sector, transfer.sector + 1);
        let sector = match (transfer.op, first.first()) {
            (Op::Read, Some(piece)) => self.on_platters(piece),
            (Op::Write, _) if !self.goes_straight(transfer.sector) => self.cache.place(self.record),
            _ => self.home + transfer.sector,
        };
        self.drive.reached(now, &Transfer { sector, ..*transfer })
    }

    /// Carries out a transfer.
    pub fn start(&mut self, now: Time, transfer: &Transfer) -> Service {
        self.clean_until(now);
        let mut service = Service::at(now);
        match transfer.op {
            Op::Read => {
                for piece in self.cache.pieces(transfer.sector, transfer.end()) {
                    let sector = self.on_platters(&piece);
                    self.carry_out(&mut service, Op::Read, sector, piece.end - piece.start);
                }
            }
            Op::Write => {
                let mut start = transfer.sector;
                while start < transfer.end() {
                    let end = transfer.end().min(self.band_end(start));
                    self.write(&mut service, start, end);
                    start = end;
                }
            }
        }
        self.cleans_at = service.done + self.idle;
        self.head = transfer.end();
        service
    }

    /// Brings the memory to the platters, and the map if it has changed.
    pub fn flush(&mut self, now: Time) -> Time {
        self.clean_until(now);
        let mut service = Service::at(now);
        if self.map_changed {
            self.append(&mut service, 0, 0, self.record);
        }
        let done = self.drive.flush(service.done);
        self.cleans_at = done + self.idle;
        done
    }

    /// Writes sectors of one band.
    fn write(&mut self, service: &mut Service, start: u64, end: u64) {
        if let Some(dropped) = self.sequences.make_room(start)
            && dropped.straight
            && let Some((from, to)) = self.half_written(dropped.next)
        {
            let done = self.rewrite(from, to, service.done);
            service.wait_until(done);
        }
        let straight = self.goes_straight(start);
        self.sequences.note(start, end, straight);
        if straight {
            self.map_changed |= self.cache.forget(start, end);
            self.hold(end);
            self.carry_out(service, Op::Write, self.home + start, end - start);
        } else {
            let taken = (end - start).next_multiple_of(self.together) + self.record;
            self.append(service, start, end, taken);
        }
    }

    /// Appends these sectors and a record of the map to the cache, `taken` sectors in all, after
    /// cleaning as much as that needs.
    fn append(&mut self, service: &mut Service, start: u64, end: u64, taken: u64) {
        while !self.cache.has_room(taken)
            && let Some(oldest) = self.cache.oldest()
        {
            let done = self.clean(oldest, service.done);
            service.wait_until(done);
            self.waited_for += 1;
        }
        let sector = self.cache.append(start, end, taken);
        self.map_changed = false;
        self.carry_out(service, Op::Write, sector, taken);
    }

    /// Has the drive below transfer sectors of the platters after what was done before.
    fn carry_out(&mut self, service: &mut Service, op: Op, sector: u64, sectors: u64) {
        let sectors = u32::try_from(sectors).unwrap_or(u32::MAX);
        service.add(&self.drive.start(service.done, &Transfer::new(op, sector, sectors)));
    }

    /// Cleans as far as the drive comes by `now`; it ends a band that it has begun.
    fn clean_until(&mut self, now: Time) {
        while self.cleans_at < now {
            let half = self.sequences.straight().find_map(|sequence| self.half_written(sequence.next));
            self.cleans_at = if let Some((from, to)) = half {
                self.rewrite(from, to, self.cleans_at)
            } else if let Some(oldest) = self.cache.oldest() {
                self.clean(oldest, self.cleans_at)
            } else {
                return;
            };
        }
    }

    /// Cleans the band of a sector from `from` on; returns when it is done.
    fn clean(&mut self, sector: u64, from: Time) -> Time {
        self.cleaned += 1;
        self.rewrite(sector / self.band * self.band, self.band_end(sector), from)
    }

    /// Writes what the sectors from `start` to `end`, the end of a band, hold in the band and in
    /// the cache, into the band; returns when it is done.
    fn rewrite(&mut self, start: u64, end: u64, from: Time) -> Time {
        let mut at = self.drive.flush(from);
        let mut cached: Vec<_> = self.cache.pieces(start, end);
        cached.retain(|piece| piece.cached.is_some());
        let held_end = end - self.band + self.holds(start);
        let new_end = cached.last().map_or(0, |piece| piece.end).max(held_end);
        if start < held_end {
            at = self.drive.travel(Op::Read, self.home + start, held_end - start, at);
        }
        cached.sort_by_key(|piece| piece.cached);
        for piece in &cached {
            at = self.drive.travel(Op::Read, self.on_platters(piece), piece.end - piece.start, at);
        }
        at = self.drive.travel(Op::Write, self.spare, new_end - start, at);
        at = self.drive.travel(Op::Write, self.home + start, new_end - start, at);
        self.map_changed |= self.cache.forget(start, end);
        self.sequences.close(start, end);
        self.hold(new_end);
        at
    }

    /// Returns true if a write at `start` goes straight into its band.
    fn goes_straight(&self, start: u64) -> bool {
        let appends = start % self.band == self.holds(start);
        appends || self.sequences.length_before(start) >= self.long
    }

    /// Returns what of its band a sequence that stops at `next` leaves to be written again: from
    /// there to the end of the band, if it holds anything there.
    fn half_written(&self, next: u64) -> Option<(u64, u64)> {
        let within = !next.is_multiple_of(self.band) && next % self.band < self.holds(next);
        within.then(|| (next, self.band_end(next)))
    }

    /// Returns how many sectors the band of `sector` holds.
    fn holds(&self, sector: u64) -> u64 {
        self.held.get(&(sector / self.band)).copied().unwrap_or(self.others_hold)
    }

    /// Notes that a band holds sectors up to `end`.
    fn hold(&mut self, end: u64) {
        let last = end - 1;
        let held = self.holds(last).max(last % self.band + 1);
        if held != self.others_hold {
            self.held.insert(last / self.band, held);
        }
    }

    const fn band_end(&self, sector: u64) -> u64 {
        (sector / self.band + 1) * self.band
    }

    /// Returns where the first sector of a piece lies on the platters: the cache is at their
    /// beginning.
    fn on_platters(&self, piece: &Piece) -> u64 {
        piece.cached.unwrap_or(self.home + piece.start)
    }
}
