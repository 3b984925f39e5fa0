//! What holds of every disk, whatever is asked of it.

mod common;

use common::{SEED, disk};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_device::Op;
use spindle_sim::disk::Service;
use spindle_sim::preset::{Model, all};
use spindle_sim::{Time, Transfer};

/// Returns a run of random transfers, near and far, with and without pauses, and flushes; what each
/// took.
fn run(name: &str) -> Vec<(Time, Service)> {
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut disk = disk(name);
    let capacity = disk.capacity_sectors();
    let (mut now, mut at) = (Time::ZERO, 0);
    let mut seen = Vec::new();
    for _ in 0..5000 {
        at = match random.random_range(0..4) {
            0 => random.random_range(0..capacity),
            1 => at + random.random_range(0..64),
            _ => at,
        };
        let sectors = random.random_range(1..400);
        at = at.min(capacity - u64::from(sectors));
        let op = if random.random_range(0..3) == 0 { Op::Write } else { Op::Read };
        let transfer = Transfer::new(op, at, sectors);
        let service = disk.start(now, &transfer);
        seen.push((now, service));
        at = transfer.end();
        now = service.done + Time([0, 500_000, 30_000_000, 300_000_000][random.random_range(0..4)]);
        if random.random_range(0..50) == 0 {
            let flushed = disk.flush(now);
            assert!(flushed >= now, "{name}");
            now = flushed;
        }
    }
    seen
}

/// Promise: the parts of a service add up, nothing takes no time, and the same transfers take the
/// same time.
#[test]
fn services_add_up() {
    for preset in all().unwrap() {
        let Model::Disk(_) = preset.model else { continue };
        let seen = run(&preset.name);
        for (start, service) in &seen {
            let Service { done, overhead, wait, seek, rotation, transfer, bus, hit: _ } = *service;
            assert_eq!(
                done,
                *start + overhead + wait + seek + rotation + transfer + bus,
                "{}: {service:?}",
                preset.name
            );
            assert!(done > *start, "{}", preset.name);
        }
        assert_eq!(seen, run(&preset.name), "{}", preset.name);
    }
}
