//! Calibration of modelled disks, whose figures are known.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_device::Op;
use spindle_lab::calibrate::{BUDGET, Error, Measured, Probe, Run, Way, reads, writes};
use spindle_lab::preset::{Model, Preset, disk};
use spindle_lab::sim::disk::{Condition, Disk, Spec};
use spindle_lab::sim::{Time, Transfer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

/// A modelled disk, and the time on it.
struct Modelled {
    disk: Disk,
    now: Time,
}

impl Modelled {
    /// Returns the disk of this preset; if it has flash, as a new one.
    fn new(name: &str) -> Self {
        let mut spec = disk(name).unwrap();
        if let Some(flash) = &mut spec.flash {
            flash.condition = Condition::New;
        }
        Self::of(&spec)
    }

    fn of(spec: &Spec) -> Self {
        Self { disk: Disk::new(spec).unwrap(), now: Time::ZERO }
    }

    /// Does these transfers, `depth` at once. Returns when each was done, from its start.
    fn transfers(&mut self, depth: u32, all: impl Iterator<Item = Transfer>) -> Run {
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
        run.total = self.now - begin;
        run
    }
}

impl Probe for Modelled {
    fn size_bytes(&self) -> u64 {
        self.disk.capacity_sectors() * u64::from(self.disk.sector_bytes())
    }

    fn run(&mut self, op: Op, bytes: u32, depth: u32, offsets: &[u64]) -> io::Result<Run> {
        let sector = self.disk.sector_bytes();
        let all = offsets.iter().map(|at| Transfer::new(op, at / u64::from(sector), bytes / sector));
        Ok(self.transfers(depth, all))
    }

    fn flush(&mut self) -> io::Result<Time> {
        let begin = self.now;
        self.now = self.disk.flush(begin);
        Ok(self.now - begin)
    }
}

fn measured(name: &str) -> Measured {
    let mut modelled = Modelled::new(name);
    let read = reads(&mut modelled, 1984).unwrap();
    let write = writes(&mut modelled, 1985).unwrap();
    let capacity_bytes = modelled.size_bytes();
    Measured { title: "A disk".into(), source: "a model".into(), capacity_bytes, read, write: Some(write) }
}

#[track_caller]
fn near(found: f64, expected: f64, percent: f64) {
    assert!((found / expected - 1.0).abs() * 100.0 <= percent, "{found} is not {expected}");
}

/// Promise: the figures of a solid-state disk that accesses show come back as they are.
#[test]
fn figures_are_found() {
    for name in ["nvme", "sata-ssd"] {
        let spec = disk(name).unwrap().flash.unwrap();
        let Measured { read, write, .. } = measured(name);
        let (write, flush_us) = write.unwrap();
        near(read.random_us, spec.random_read_us, 1.0);
        near(read.sequential_us, spec.sequential_read_us, 1.0);
        near(read.iops, spec.iops, 10.0);
        near(read.mb_s, spec.read_mb_s, 5.0);
        near(write.random_us, spec.random_write_us, 1.0);
        near(write.sequential_us, spec.sequential_write_us, 1.0);
        near(write.mb_s, spec.write_mb_s, 5.0);
        near(flush_us, spec.flush_us, 1.0);
    }
}

/// Promise: a disk that is made from what was measured takes as long as the measured one for what
/// was not measured: transfers of other sizes, and reads among writes.
#[test]
fn calibrated_disks_take_as_long() {
    for name in ["nvme", "sata-ssd"] {
        let text = measured(name).preset().unwrap();
        let Model::Disk(spec) = Preset::parse("mine", &text).unwrap().model else { panic!("no disk") };
        for (sectors, depth, reads) in [(32, 4, 10), (128, 2, 10), (8, 16, 7), (2048, 2, 5)] {
            let mean = |mut modelled: Modelled| {
                let mut random = SmallRng::seed_from_u64(1);
                let units = modelled.size_bytes() / (1 << 20) - 1;
                let all = (0..2000).map(|_| {
                    let op = if random.random_range(0..10) < reads { Op::Read } else { Op::Write };
                    Transfer::new(op, random.random_range(0..units) * 2048, sectors)
                });
                let run = modelled.transfers(depth, all.collect::<Vec<_>>().into_iter());
                run.total.as_secs_f64() / f64::from(u32::try_from(run.each.len()).unwrap())
            };
            near(mean(Modelled::of(&spec)), mean(Modelled::new(name)), 10.0);
        }
    }
}

/// Promise: a disk that turns is refused, with what to do.
#[test]
fn disks_that_turn_are_refused() {
    let error = reads(&mut Modelled::new("nearline-20tb"), 1).unwrap_err();
    assert!(matches!(error, Error::Turns(ms) if ms > 5.0), "{error}");
    assert!(error.to_string().contains("spindle lab presets"), "{error}");
}

/// Promise: small and fast disks, as those of virtual machines, become presets that read as fast,
/// too; writes that were not measured are estimates.
#[test]
fn unusual_disks_become_presets() {
    for (mib, random_us, iops, mb_s) in [
        (16, 12.0, 400_000.0, 8000.0),
        (1024, 50.0, 67_000.0, 1900.0),
        (4096, 900.0, 7500.0, 30.0),
        (8 << 20, 4.0, 1_500_000.0, 12_000.0),
    ] {
        let read = Way { random_us, sequential_us: random_us / 2.0, iops, depth: 32, mb_s };
        let all = Measured {
            title: "Disk \"x\"".into(),
            source: "here".into(),
            capacity_bytes: mib << 20,
            read,
            write: None,
        };
        let text = all.preset().unwrap();
        assert!(text.contains("random_write_us = { value = 5") && text.contains("estimated"), "{text}");
        let Model::Disk(spec) = Preset::parse("mine", &text).unwrap().model else { panic!("no disk") };
        let again = reads(&mut Modelled::of(&spec), 1).unwrap();
        near(again.random_us, random_us, 1.0);
        near(again.iops, iops, 10.0);
        near(again.mb_s, mb_s, 10.0);
    }
}
