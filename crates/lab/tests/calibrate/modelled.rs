//! Modelled disks as probes.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_device::Op;
use spindle_lab::calibrate::{BUDGET, Probe, Run};
use spindle_lab::preset::disk;
use spindle_lab::sim::disk::{Condition, Disk, Spec};
use spindle_lab::sim::{Time, Transfer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

/// A modelled disk, and the time on it.
pub struct Modelled {
    pub disk: Disk,
    pub now: Time,
    /// What disturbs the host, if anything does.
    pub noise: Option<SmallRng>,
}

impl Modelled {
    /// Returns the disk of this preset; if it has flash, as a new one.
    pub fn new(name: &str) -> Self {
        let mut spec = disk(name).unwrap();
        if let Some(flash) = &mut spec.flash {
            flash.condition = Condition::New;
        }
        Self::of(&spec)
    }

    pub fn of(spec: &Spec) -> Self {
        Self { disk: Disk::new(spec).unwrap(), now: Time::ZERO, noise: None }
    }

    /// Returns the same disk on a host that is late by up to 50 microseconds, and once in 200 times
    /// by 30 ms. `seed` chooses when.
    pub fn disturbed(self, seed: u64) -> Self {
        Self { noise: Some(SmallRng::seed_from_u64(seed)), ..self }
    }

    /// Does these transfers, `depth` at once. Returns when each was done, from its start.
    pub fn transfers(&mut self, depth: u32, all: impl Iterator<Item = Transfer>) -> Run {
        let begin = self.now;
        let mut run =
            if self.disk.parallelism() == 1 { self.one_by_one(depth, all) } else { self.at_once(depth, all) };
        (run.begin, run.total) = (begin, self.now - begin);
        run
    }

    fn at_once(&mut self, depth: u32, all: impl Iterator<Item = Transfer>) -> Run {
        let begin = self.now;
        let mut run = Run::default();
        let mut under_way = BinaryHeap::new();
        for transfer in all {
            if under_way.len() == depth as usize
                && let Some(Reverse(done)) = under_way.pop()
            {
                self.now = self.now.max(done);
            }
            if self.now - begin > BUDGET {
                break;
            }
            let done = self.disk.start(self.now, &transfer).done;
            run.each.push(done - self.now);
            under_way.push(Reverse(done));
        }
        self.now = under_way.into_iter().map(|Reverse(done)| done).fold(self.now, Time::max);
        run
    }

    /// Has a disk that does one thing at a time choose among the commands that it holds.
    fn one_by_one(&mut self, depth: u32, mut all: impl Iterator<Item = Transfer>) -> Run {
        let begin = self.now;
        let mut run = Run::default();
        let mut waiting: Vec<(Time, Transfer)> = Vec::new();
        loop {
            while waiting.len() < depth as usize
                && self.now - begin <= BUDGET
                && let Some(transfer) = all.next()
            {
                waiting.push((self.now, transfer));
            }
            let held = 0..waiting.len().min(self.disk.commands());
            let Some(next) = held.min_by_key(|n| self.disk.reached(self.now, &waiting[*n].1)) else {
                return run;
            };
            let (since, transfer) = waiting.remove(next);
            self.now = self.disk.start(self.now, &transfer).done + self.late();
            run.each.push(self.now - since);
        }
    }

    /// Returns by how much the host is late.
    fn late(&mut self) -> Time {
        let Some(noise) = &mut self.noise else { return Time::ZERO };
        Time(noise.random_range(0..50_000) + if noise.random_range(0..200) == 0 { 30_000_000 } else { 0 })
    }
}

impl Probe for Modelled {
    fn size_bytes(&self) -> u64 {
        self.disk.capacity_sectors() * u64::from(self.disk.sector_bytes())
    }

    fn unit_bytes(&self) -> u32 {
        self.disk.sector_bytes()
    }

    fn run(&mut self, op: Op, bytes: u32, depth: u32, offsets: &[u64]) -> io::Result<Run> {
        let sector = self.disk.sector_bytes();
        let all = offsets.iter().map(|at| Transfer::new(op, at / u64::from(sector), bytes / sector));
        Ok(self.transfers(depth, all))
    }

    fn flush(&mut self) -> io::Result<Time> {
        let begin = self.now;
        self.now = self.disk.flush(begin) + self.late();
        Ok(self.now - begin)
    }

    fn pause(&mut self, time: Time) {
        self.now += time;
    }
}

/// Fails if `found` is not `expected`, but for so many percent.
#[track_caller]
pub fn near(found: f64, expected: f64, percent: f64) {
    assert!((found / expected - 1.0).abs() * 100.0 <= percent, "{found} is not {expected}");
}
