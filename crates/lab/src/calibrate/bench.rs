//! Single accesses to a disk, one after the other, and what their times say.
//!
//! Places and lengths are counted in sectors, the smallest transfers of the probe. The platters
//! turn by the clock, so the end of a read says where its last sector stands: its *phase*.

use super::{Error, Probe};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_device::Op;
use spindle_sim::Time;
use std::io;

/// An access, in seconds on the clock of the probe.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// When it began.
    pub begin: f64,
    /// When it was done.
    pub end: f64,
}

impl Access {
    /// Returns how long it took.
    pub fn took(self) -> f64 {
        self.end - self.begin
    }
}

/// A disk under measurement.
pub struct Bench<'a> {
    probe: &'a mut dyn Probe,
    /// Chooses places.
    pub random: SmallRng,
}

impl<'a> Bench<'a> {
    /// Returns a bench on which `seed` chooses places.
    pub fn new(probe: &'a mut dyn Probe, seed: u64) -> Self {
        Self { probe, random: SmallRng::seed_from_u64(seed) }
    }

    /// Returns the bytes of a sector.
    pub fn sector_bytes(&self) -> u32 {
        self.probe.unit_bytes()
    }

    /// Returns how many sectors so many bytes are, at least one.
    pub fn sectors_of(&self, bytes: u64) -> u64 {
        (bytes / u64::from(self.sector_bytes())).max(1)
    }

    /// Returns the sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.sectors_of(self.probe.size_bytes())
    }

    /// Returns a sector at random, behind which there are `room` more.
    pub fn somewhere(&mut self, room: u64) -> u64 {
        let end = self.sectors().saturating_sub(room).max(1);
        self.random.random_range(0..end)
    }

    /// Reads a sector.
    pub fn read(&mut self, sector: u64) -> Result<Access, Error> {
        self.transfer(Op::Read, sector, 1)
    }

    /// Transfers `count` sectors; of a place behind the end, the last ones.
    pub fn transfer(&mut self, op: Op, sector: u64, count: u64) -> Result<Access, Error> {
        let sector = sector.min(self.sectors().saturating_sub(count));
        let run = self.run(op, count, 1, &[sector])?;
        let begin = run.begin.as_secs_f64();
        let took = run.each.first().ok_or_else(|| io::Error::other("a run without an access"))?;
        Ok(Access { begin, end: begin + took.as_secs_f64() })
    }

    /// Transfers `count` sectors at each of these places, `depth` at once.
    pub fn run(&mut self, op: Op, count: u64, depth: u32, sectors: &[u64]) -> Result<super::Run, Error> {
        let unit = self.sector_bytes();
        let bytes = u32::try_from(count).unwrap_or(u32::MAX).saturating_mul(unit);
        let offsets: Vec<_> = sectors.iter().map(|sector| sector * u64::from(unit)).collect();
        Ok(self.probe.run(op, bytes, depth, &offsets)?)
    }

    /// Makes durable what was written. Returns how long that took, in seconds.
    pub fn flush(&mut self) -> Result<f64, Error> {
        Ok(self.probe.flush()?.as_secs_f64())
    }

    /// Lets so many seconds pass.
    pub fn pause(&mut self, secs: f64) {
        self.probe.pause(Time::from_secs_f64(secs));
    }
}

/// Returns a number of sectors or tracks as one to calculate with.
#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// Returns the nearest whole number, none below zero.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "what is beyond is cut")]
pub fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

/// Returns the value below which the part `part` of these lies, of no values 0.
pub fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let index = usize::try_from(whole(float(last as u64) * part)).unwrap_or(last);
    values.get(index.min(last)).copied().unwrap_or(0.0)
}

/// Returns the median, of no values 0.
pub fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

/// Returns the mean without the part `part` of the largest, which something disturbed.
pub fn mean_without(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let kept = values.len() - usize::try_from(whole(float(values.len() as u64) * part)).unwrap_or(0);
    values.truncate(kept.max(1));
    values.iter().sum::<f64>() / float(values.len().max(1) as u64)
}
