//! What the tests of disks share.
#![allow(dead_code, reason = "each test file uses some of it")]

use spindle_device::Op;
use spindle_sim::disk::{Disk, Spec};
use spindle_sim::preset::Library;
use spindle_sim::{Time, Transfer};

/// The seed of the tests that compare a mean with what it should be: a new one each time would show
/// nothing more.
pub const SEED: u64 = 1984;

/// Returns a preset.
pub fn spec(name: &str) -> Spec {
    Library::built_in().unwrap().disk(name).unwrap().clone()
}

/// Returns a disk.
pub fn disk(name: &str) -> Disk {
    Disk::new(&spec(name)).unwrap()
}

pub fn ms(ms: f64) -> Time {
    Time::from_ms_f64(ms)
}

pub fn in_ms(time: Time) -> f64 {
    time.as_secs_f64() * 1e3
}

pub fn read(sector: u64, sectors: u32) -> Transfer {
    Transfer::new(Op::Read, sector, sectors)
}

pub fn write(sector: u64, sectors: u32) -> Transfer {
    Transfer::new(Op::Write, sector, sectors)
}

/// Fails unless `value` is within `percent` of `expected`.
#[track_caller]
pub fn near(value: f64, expected: f64, percent: f64) {
    let off = (value / expected - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{value:.4} is {off:.2} % off {expected:.4}");
}
