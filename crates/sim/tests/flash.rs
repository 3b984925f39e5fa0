//! Solid-state disks against their data sheets.

mod common;

use common::{SEED, disk, ms, near, read, write};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_device::Op;
use spindle_sim::{Time, Transfer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns the random 4 KiB transfers per second with `depth` of them always under way.
fn iops(name: &str, op: Op, depth: usize) -> f64 {
    const COUNT: u32 = 50_000;
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut disk = disk(name);
    let blocks = disk.capacity_sectors() / 8;
    let mut under_way = BinaryHeap::from(vec![Reverse(Time::ZERO); depth]);
    let mut now = Time::ZERO;
    for _ in 0..COUNT {
        let Some(Reverse(done)) = under_way.pop() else { break };
        now = done;
        let transfer = Transfer::new(op, random.random_range(0..blocks) * 8, 8);
        under_way.push(Reverse(disk.start(now, &transfer).done));
    }
    f64::from(COUNT) / now.as_secs_f64()
}

/// Promise: one random transfer at a time takes the published latency; many at once reach the
/// published rate, 32 on a fast one what their latency allows.
#[test]
fn random_transfers() {
    near(iops("sata-ssd", Op::Read, 1), 1e6 / 110.0, 0.5);
    near(iops("sata-ssd", Op::Write, 1), 1e6 / 52.0, 0.5);
    near(iops("sata-ssd", Op::Read, 32), 72e3, 2.0);
    near(iops("sata-ssd", Op::Write, 32), 33e3, 1.0);
    near(iops("nvme", Op::Read, 1), 1e6 / 85.0, 0.5);
    near(iops("nvme", Op::Write, 1), 1e6 / 50.0, 0.5);
    near(iops("nvme", Op::Read, 32), 32e6 / 85.0, 12.0);
    near(iops("nvme", Op::Read, 128), 540e3, 5.0);
    near(iops("nvme", Op::Write, 32), 50e3, 1.0);
}

/// Promise: sequential transfers have the published latency one at a time, and the published
/// bandwidth when they are large.
#[test]
fn sequential_transfers() {
    for (name, latency, read_mb, write_mb) in
        [("sata-ssd", 0.036, 500.0, 490.0), ("nvme", 0.015, 3200.0, 2100.0)]
    {
        for (make, mb) in [(read as fn(u64, u32) -> Transfer, read_mb), (write, write_mb)] {
            let mut one = disk(name);
            one.start(Time::ZERO, &make(0, 8));
            assert_eq!(one.start(ms(1.0), &make(8, 8)).done, ms(1.0 + latency), "{name}");

            let mut disk = disk(name);
            let mut under_way = BinaryHeap::from(vec![Reverse(Time::ZERO); 8]);
            let mut now = Time::ZERO;
            for n in 0..4000 {
                let Some(Reverse(done)) = under_way.pop() else { break };
                now = done;
                under_way.push(Reverse(disk.start(now, &make(n * 256, 256)).done));
            }
            near(4000.0 * 131_072.0 / now.as_secs_f64() / 1e6, mb, 2.0);
        }
    }
}

/// Promise: reads beside a stream of writes take longer than alone, and a flush costs little.
#[test]
fn interference() {
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut disk = disk("nvme");
    let (mut alone, mut beside) = (0.0, 0.0);
    for n in 0..20_000_u32 {
        let now = ms(f64::from(n));
        let at = random.random_range(0..disk.capacity_sectors() / 8) * 8;
        alone += (disk.start(now, &read(at, 8)).done - now).as_secs_f64();
        let now = now + ms(0.5);
        disk.start(now, &write(u64::from(n) * 2048, 2048));
        beside += (disk.start(now, &read(at / 2 * 2, 8)).done - now).as_secs_f64();
    }
    assert!(beside > alone * 1.2, "{beside} against {alone}");
    assert!(disk.flush(ms(30_000.0)) - ms(30_000.0) < ms(0.1));
    assert_eq!((disk.parallelism(), disk.revolution(), disk.sectors_per_cylinder()), (256, None, 1));
}
