//! Solid-state disks against their data sheets.

mod common;

use common::{SEED, disk, in_ms, ms, near, read, spec, write};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_device::Op;
use spindle_sim::disk::{Condition, Disk};
use spindle_sim::{Time, Transfer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns a preset's disk with such a past.
fn in_condition(name: &str, condition: Condition) -> Disk {
    let mut spec = spec(name);
    spec.flash.as_mut().unwrap().condition = condition;
    Disk::new(&spec).unwrap()
}

/// Returns the random 4 KiB transfers per second with `depth` of them always under way.
fn iops(name: &str, op: Op, depth: usize) -> f64 {
    const COUNT: u32 = 50_000;
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut disk = in_condition(name, if depth == 1 { Condition::New } else { Condition::Aged });
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

/// Promise: one random read at a time takes the published latency, and so does a write to a disk
/// that is new; many at once reach the published rate, 32 on a fast one what their latency allows.
/// On a disk that was written at random before, cleaning brings writes to the published rate.
#[test]
fn random_transfers() {
    near(iops("sata-ssd", Op::Read, 1), 1e6 / 110.0, 0.5);
    near(iops("sata-ssd", Op::Write, 1), 1e6 / 52.0, 0.5);
    near(iops("sata-ssd", Op::Read, 32), 72e3, 2.0);
    near(iops("sata-ssd", Op::Write, 32), 33e3, 2.0);
    near(iops("nvme", Op::Read, 1), 1e6 / 85.0, 0.5);
    near(iops("nvme", Op::Write, 1), 1e6 / 50.0, 0.5);
    near(iops("nvme", Op::Read, 32), 32e6 / 85.0, 12.0);
    near(iops("nvme", Op::Read, 128), 540e3, 5.0);
    near(iops("nvme", Op::Write, 32), 50e3, 2.0);
}

/// Promise: sequential transfers to a new disk have the published latency one at a time, and the
/// published bandwidth when they are large; each byte is written once.
#[test]
fn sequential_transfers() {
    for (name, latency, read_mb, write_mb) in
        [("sata-ssd", 0.036, 500.0, 490.0), ("nvme", 0.015, 3200.0, 2100.0)]
    {
        for (make, mb) in [(read as fn(u64, u32) -> Transfer, read_mb), (write, write_mb)] {
            let mut one = in_condition(name, Condition::New);
            one.start(Time::ZERO, &make(0, 8));
            assert_eq!(one.start(ms(1.0), &make(8, 8)).done, ms(1.0 + latency), "{name}");

            let mut disk = in_condition(name, Condition::New);
            let mut under_way = BinaryHeap::from(vec![Reverse(Time::ZERO); 8]);
            let mut now = Time::ZERO;
            for n in 0..4000 {
                let Some(Reverse(done)) = under_way.pop() else { break };
                now = done;
                under_way.push(Reverse(disk.start(now, &make(n * 256, 256)).done));
            }
            near(4000.0 * 131_072.0 / now.as_secs_f64() / 1e6, mb, 2.0);
            let amplification = disk.wear().unwrap().amplification();
            assert_eq!(amplification, (make(0, 8).op == Op::Write).then_some(1.0), "{name}");
        }
    }
}

/// Returns the times in ms, in rising order, of reads at random, one each millisecond, beside so
/// many writes of 4 KiB at random.
fn reads_beside(writes: u32) -> Vec<f64> {
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut disk = disk("nvme");
    let mut times = Vec::new();
    for n in 0..5000_u32 {
        let now = ms(f64::from(n));
        let mut at = || random.random_range(0..1_920_000_000_000_u64 / 4096) * 8;
        for _ in 0..writes {
            disk.start(now, &write(at(), 8));
        }
        let now = now + ms(0.5);
        times.push(in_ms(disk.start(now, &read(at(), 8)).done - now));
    }
    times.sort_by(f64::total_cmp);
    times
}

/// Promise: reads alone take the published latency, each; beside writes most do, but the slowest of
/// a hundred wait for programming, and those of a thousand for erasing, at most.
#[test]
fn slow_reads_come_from_writes() {
    let (alone, beside) = (reads_beside(0), reads_beside(10));
    near(alone[4999], 0.085, 0.01);
    near(beside[2000], 0.085, 0.01);
    assert!(beside[4950] > 0.3, "{}", beside[4950]);
    assert!(beside[4999] > 1.0 && beside[4999] < 0.085 + 0.95 + 3.8 + 0.2, "{}", beside[4999]);
}

/// Promise: a sector of 512 bytes costs a unit of flash, and to complete it the old one is read; a
/// discard makes reads need no die; a flush costs little.
#[test]
fn small_writes_discards_and_flushes() {
    let mut disk = in_condition("nvme", Condition::New);
    for n in 0..1000_u32 {
        disk.start(ms(f64::from(n)), &write(u64::from(n) * 80_000, 1));
    }
    assert_eq!(disk.wear().unwrap().amplification(), Some(8.0));
    assert!(disk.flush(ms(30_000.0)) - ms(30_000.0) < ms(0.1));
    assert_eq!((disk.parallelism(), disk.revolution(), disk.sectors_per_cylinder()), (256, None, 1));

    let mut disk = common::disk("nvme");
    let beside = |disk: &mut Disk| {
        for _ in 0..256 {
            disk.start(ms(0.0), &read(4096, 8));
        }
        disk.start(ms(0.0), &read(4096, 8)).wait
    };
    let waits = beside(&mut disk.clone());
    disk.discard(4096, 8);
    assert!(beside(&mut disk) < waits);
}
