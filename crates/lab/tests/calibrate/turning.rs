//! Calibration of disks that turn.
//!
//! The bounds are those of the spread over 30 seeds, with a margin; docs/LAB.md has both.

use crate::modelled::{Modelled, near};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_device::Op;
use spindle_lab::Silent;
use spindle_lab::calibrate::{Error, Job, Probe, Run, Writes, calibrate};
use spindle_lab::preset::{Model, Preset, disk};
use spindle_lab::sim::disk::Spec;
use spindle_lab::sim::{Time, Transfer};
use std::io;
use std::sync::OnceLock;

/// Seeds that choose the places of accesses.
const SEEDS: std::ops::Range<u64> = 1995..2001;

/// Calibrates a disk that turns, with writes measured. Returns the text of its preset, and how long
/// that took on the disk, in seconds.
fn calibrated(mut modelled: Modelled, seed: u64) -> Result<(String, f64), Error> {
    let capacity_bytes = modelled.size_bytes();
    let mut scratch =
        Modelled { disk: modelled.disk.clone(), now: Time::ZERO, noise: modelled.noise.clone() };
    let job = Job {
        title: "A disk".into(),
        source: "a model".into(),
        capacity_bytes,
        disk: &mut modelled,
        writes: Writes::On(&mut scratch),
        seed,
    };
    let text = calibrate(job, &Silent)?;
    Ok((text, modelled.now.as_secs_f64() + scratch.now.as_secs_f64()))
}

/// The presets of disks that turn.
const TURNING: [&str; 9] = [
    "nearline-20tb",
    "smr-8tb",
    "ibm-0661",
    "eagle",
    "super-eagle",
    "capricorn-massbus",
    "capricorn-unibus",
    "ra81",
    "rp06",
];

/// Returns the disk of the text of a preset.
fn spec_of(text: &str) -> Spec {
    let Model::Disk(spec) = Preset::parse("mine", text).unwrap().model else { panic!("no disk") };
    *spec
}

/// A disk, and what was measured of it.
struct Calibrated {
    name: &'static str,
    spec: Spec,
    /// Seconds on the disk.
    took: f64,
}

/// Returns every disk that turns, calibrated with each seed.
fn all_calibrated() -> &'static [Calibrated] {
    static ALL: OnceLock<Vec<Calibrated>> = OnceLock::new();
    ALL.get_or_init(|| {
        let each = TURNING.into_iter().flat_map(|name| SEEDS.map(move |seed| (name, seed)));
        each.map(|(name, seed)| {
            let (text, took) = calibrated(Modelled::new(name), seed).unwrap();
            Calibrated { name, spec: spec_of(&text), took }
        })
        .collect()
    })
}

/// Fails if accesses take longer or shorter on the calibrated disk than on that of `name`, but for
/// so many percent.
#[track_caller]
fn takes_as_long(spec: &Spec, name: &str, percent: f64) {
    for load in LOADS {
        println!("{name}: {load:?}");
        near(load.mean(&mut Modelled::of(spec)), load.mean(&mut Modelled::new(name)), percent);
    }
}

/// Accesses that calibration does not measure.
#[derive(Clone, Copy, Debug)]
struct Load {
    sectors: u32,
    depth: u32,
    /// Of ten accesses, so many are reads.
    reads: u32,
    /// The part of the disk in which they are, in thousandths.
    part: u64,
    /// So many follow each other in order.
    in_order: u32,
}

impl Load {
    /// Returns the mean time of an access, in seconds.
    fn mean(self, modelled: &mut Modelled) -> f64 {
        let mut random = SmallRng::seed_from_u64(1);
        let all = modelled.disk.capacity_sectors();
        let length = all / 1000 * self.part - u64::from(self.sectors * self.in_order);
        let mut transfers = Vec::new();
        while transfers.len() < 2000 * self.in_order as usize {
            let start = all / 3 + random.random_range(0..length.min(all / 2)) / 8 * 8;
            for n in 0..self.in_order {
                let op = if random.random_range(0..10) < self.reads { Op::Read } else { Op::Write };
                transfers.push(Transfer::new(op, start + u64::from(n * self.sectors), self.sectors));
            }
        }
        let (mut total, mut count) = (0.0, 0);
        for transfers in transfers.chunks(100) {
            let run = modelled.transfers(self.depth, transfers.iter().copied());
            (total, count) = (total + run.total.as_secs_f64(), count + run.each.len());
        }
        total / f64::from(u32::try_from(count).unwrap())
    }
}

const LOADS: [Load; 9] = [
    Load { sectors: 8, depth: 1, reads: 10, part: 1000, in_order: 1 },
    Load { sectors: 64, depth: 1, reads: 10, part: 1000, in_order: 1 },
    Load { sectors: 1024, depth: 1, reads: 10, part: 1000, in_order: 1 },
    Load { sectors: 16, depth: 1, reads: 10, part: 50, in_order: 1 },
    Load { sectors: 16, depth: 1, reads: 10, part: 2, in_order: 1 },
    Load { sectors: 16, depth: 1, reads: 10, part: 1000, in_order: 10 },
    Load { sectors: 16, depth: 1, reads: 7, part: 1000, in_order: 1 },
    Load { sectors: 32, depth: 16, reads: 10, part: 1000, in_order: 1 },
    Load { sectors: 32, depth: 4, reads: 5, part: 50, in_order: 2 },
];

/// Returns the least time of a read behind another over about this part of the disk, in
/// thousandths; in seconds.
fn least(modelled: &mut Modelled, part: u64) -> f64 {
    let mut random = SmallRng::seed_from_u64(2);
    let all = modelled.disk.capacity_sectors();
    let distance = all * part / 1000;
    let far = (0..4000).map(|_| {
        let start = random.random_range(0..all - distance - 8192);
        let end = start + distance + random.random_range(0..8192);
        modelled.transfers(1, std::iter::once(Transfer::new(Op::Read, start, 1)));
        // Otherwise all times would be those of whole sectors.
        modelled.pause(Time(random.random_range(0..1_000_000)));
        modelled.transfers(1, std::iter::once(Transfer::new(Op::Read, end, 1))).total.as_secs_f64()
    });
    far.fold(f64::MAX, f64::min)
}

/// Returns how long 40 MiB in order take at a place, a part of the disk in thousandths;
/// in seconds.
fn in_order(modelled: &mut Modelled, part: u64) -> f64 {
    let start = modelled.disk.capacity_sectors() * part / 1000;
    let all = (0..42).map(|n| Transfer::new(Op::Read, start + n * 2048, 2048));
    let mut each = Vec::new();
    for transfer in all {
        each.extend(modelled.transfers(1, std::iter::once(transfer)).each);
    }
    // How the first one ends depends on where it began.
    each[2..].iter().map(|time| time.as_secs_f64()).sum()
}

/// Promise: of a disk that turns the revolution comes back within 0.01 %, rates in order across the
/// disk within 4 %, and what the heads take over a distance within 4 % or 0.1 ms. It takes two
/// minutes at most on a disk of today.
#[test]
fn figures_of_disks_that_turn_are_found() {
    for Calibrated { name, spec, took } in all_calibrated() {
        println!("{name}");
        let like = disk(name).unwrap();
        let rpm = |spec: &Spec| spec.geometry.as_ref().unwrap().rpm;
        near(rpm(spec), rpm(&like), 0.01);
        for part in (15..760).step_by(31) {
            near(in_order(&mut Modelled::of(spec), part), in_order(&mut Modelled::new(name), part), 4.0);
        }
        for part in [2, 10, 50, 200, 500, 900] {
            let [found, expected] =
                [Modelled::of(spec), Modelled::new(name)].map(|mut modelled| least(&mut modelled, part));
            let off = (found - expected).abs();
            assert!(off < 0.04 * expected || off < 1e-4, "{name}, {part}: {found} is not {expected}");
        }
        assert!(*took < 120.0 || rpm(&like) < 5000.0, "{name}: {took}");
    }
}

/// Promise: a disk that is made from what was measured of one that turns takes as long as that, in
/// the mean and within 6 %, for accesses that were not measured.
#[test]
fn calibrated_disks_that_turn_take_as_long() {
    for Calibrated { name, spec, .. } in all_calibrated() {
        takes_as_long(spec, name, 6.0);
    }
}

/// Promise: a host that is late at random, and sometimes by 30 ms, makes little difference: 8 %.
#[test]
fn disturbances_make_little_difference() {
    for name in TURNING {
        for seed in SEEDS {
            let (text, _) = calibrated(Modelled::new(name).disturbed(seed + 1000), seed).unwrap();
            takes_as_long(&spec_of(&text), name, 8.0);
        }
    }
}

/// Promise: figures that the drive itself has are found: its memory, its queue, reads that begin in
/// the middle, heads where they show, and whether it acknowledges writes early.
#[test]
fn drives_are_found() {
    for Calibrated { name, spec, .. } in all_calibrated() {
        let like = disk(name).unwrap();
        let memory =
            |spec: &Spec| spec.read_buffer.as_ref().map(|buffer| (buffer.segments, buffer.segment_kib));
        assert_eq!(memory(spec), memory(&like), "{name}");
        assert_eq!(spec.command_queue.is_some(), like.command_queue.is_some(), "{name}");
        assert_eq!(spec.write_cache.is_some(), like.write_cache.is_some(), "{name}");
        let controller = |spec: &Spec| spec.controller.clone().unwrap();
        let begins = |spec: &Spec| controller(spec).zero_latency.unwrap_or(false);
        assert_eq!(begins(spec), begins(&like), "{name}");
        near(controller(spec).overhead_ms, controller(&like).overhead_ms, 45.0);
        let geometry = |spec: &Spec| spec.geometry.clone().unwrap();
        if ["ibm-0661", "eagle", "super-eagle", "capricorn-massbus", "ra81", "rp06"].contains(name) {
            assert_eq!(geometry(spec).heads, geometry(&like).heads, "{name}");
            assert_eq!(geometry(spec).zone[0].cylinders, geometry(&like).zone[0].cylinders, "{name}");
        }
    }
}

/// Promise: shingled tracks are not noticed, and the preset says so: reads take as long, but many
/// writes at random are far too fast.
#[test]
fn shingled_tracks_are_not_noticed() {
    let mut like = disk("smr-8tb").unwrap();
    like.shingled.as_mut().unwrap().cache_runs = 2000;
    let (text, _) = calibrated(Modelled::of(&like), 1995).unwrap();
    assert!(text.contains("Shingled tracks would not show"), "{text}");
    let load = Load { sectors: 8, depth: 1, reads: 0, part: 1000, in_order: 1 };
    let after_many = |spec: &Spec| {
        let mut modelled = Modelled::of(spec);
        load.mean(&mut modelled);
        load.mean(&mut modelled)
    };
    assert!(after_many(&like) > 20.0 * after_many(&spec_of(&text)));
}

/// A probe that takes as long as it likes.
struct Irregular(SmallRng, Time);

impl Probe for Irregular {
    fn size_bytes(&self) -> u64 {
        1 << 40
    }

    fn unit_bytes(&self) -> u32 {
        512
    }

    fn run(&mut self, _: Op, _: u32, _: u32, offsets: &[u64]) -> io::Result<Run> {
        let each: Vec<_> = offsets.iter().map(|_| Time(self.0.random_range(3_000_000..9_000_000))).collect();
        let begin = self.1;
        self.1 = each.iter().fold(begin, |sum, each| sum + *each);
        Ok(Run { total: self.1 - begin, begin, each })
    }

    fn flush(&mut self) -> io::Result<Time> {
        Ok(Time::ZERO)
    }

    fn pause(&mut self, time: Time) {
        self.1 += time;
    }
}

/// Returns why a disk is refused.
fn refused<'a>(disk: &'a mut dyn Probe, writes: Writes<'a>) -> Error {
    let capacity_bytes = disk.size_bytes();
    let job = Job { title: "A disk".into(), source: "a model".into(), capacity_bytes, disk, writes, seed: 1 };
    calibrate(job, &Silent).unwrap_err()
}

/// Promise: what turns and cannot be measured is refused, with what to do: a file of a directory, a
/// small part, and what follows no rotation, as a disk behind a network.
#[test]
fn what_cannot_be_measured_is_refused() {
    let error = refused(&mut Modelled::new("nearline-20tb"), Writes::There);
    assert!(matches!(error, Error::Part(ms) if ms > 5.0), "{error}");
    assert!(error.to_string().contains("--scratch"), "{error}");
    let mut small = disk("nearline-20tb").unwrap();
    for zone in &mut small.geometry.as_mut().unwrap().zone {
        zone.cylinders = 1;
    }
    let error = refused(&mut Modelled::of(&small), Writes::Nowhere);
    assert!(matches!(error, Error::Small { bytes, least } if bytes < least), "{error}");
    let mut irregular = Irregular(SmallRng::seed_from_u64(3), Time::ZERO);
    let error = refused(&mut irregular, Writes::Nowhere);
    assert!(
        matches!(error, Error::NoRotation(_)) && error.to_string().contains("spindle lab presets"),
        "{error}"
    );
}
