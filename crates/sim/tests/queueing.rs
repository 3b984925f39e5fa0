//! A queue before a disk against queueing theory, and the disciplines against each other.

mod common;

use common::{SEED, disk, in_ms, near, read};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_sim::{Discipline, Queue, Time};

/// What a run shows, in milliseconds.
struct Run {
    /// Mean time between arrival and start.
    waiting: f64,
    /// Mean service time, and mean of its square.
    service: f64,
    square: f64,
    /// Mean seek.
    seek: f64,
    /// Longest time between arrival and completion.
    worst: f64,
}

/// Runs `count` requests of random blocks that arrive as a Poisson process at a mean distance of
/// `distance_ms`.
fn poisson(name: &str, discipline: Discipline, distance_ms: f64, count: u32) -> Run {
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut disk = disk(name);
    let mut queue = Queue::new(discipline, disk.sectors_per_cylinder());
    let blocks = disk.capacity_sectors() / 16;
    let mut arrival = Time::ZERO;
    let mut free_at = Time::ZERO;
    let mut run = Run { waiting: 0.0, service: 0.0, square: 0.0, seek: 0.0, worst: 0.0 };
    let (mut arrived, mut served) = (0, 0);
    while served < count {
        if arrived < count && (arrival <= free_at || queue.is_empty()) {
            // An idle drive takes what comes at once.
            queue.push(read(random.random_range(0..blocks) * 16, 16), arrival);
            free_at = if queue.len() == 1 { free_at.max(arrival) } else { free_at };
            let uniform: f64 = random.random();
            arrival += Time::from_ms_f64(-distance_ms * (1.0 - uniform).ln());
            arrived += 1;
            continue;
        }
        let Some((transfer, came)) = queue.pop(disk.head()) else { continue };
        let service = disk.start(free_at, &transfer);
        let time = in_ms(service.done - free_at);
        run.waiting += in_ms(free_at - came);
        run.service += time;
        run.square += time * time;
        run.seek += in_ms(service.seek);
        run.worst = run.worst.max(in_ms(service.done - came));
        free_at = service.done;
        served += 1;
    }
    let n = f64::from(count);
    let Run { waiting, service, square, seek, worst } = run;
    Run { waiting: waiting / n, service: service / n, square: square / n, seek: seek / n, worst }
}

/// Promise: first come first served waits as Pollaczek and Khinchine say: λ·E[S²] / (2·(1-ρ)).
#[test]
fn pollaczek_khinchine() {
    for (name, distance, percent) in
        [("eagle", 100.0, 3.0), ("eagle", 60.0, 3.0), ("eagle", 45.0, 5.0), ("ibm-0661", 45.0, 4.0)]
    {
        let run = poisson(name, Discipline::Fifo, distance, 200_000);
        let load = run.service / distance;
        let expected = run.square / distance / (2.0 * (1.0 - load));
        near(run.waiting, expected, percent);
    }
}

/// Promise: under load every sorting discipline seeks less and waits less than first come first
/// served; the nearest first seeks least, and the one-way elevator keeps nobody waiting as long.
#[test]
fn disciplines() {
    let run = |discipline| poisson("eagle", discipline, 22.0, 50_000);
    let fifo = run(Discipline::Fifo);
    let disksort = run(Discipline::Disksort);
    let sstf = run(Discipline::Sstf);
    let scan = run(Discipline::Scan);
    for (name, sorted) in [("disksort", &disksort), ("sstf", &sstf), ("scan", &scan)] {
        assert!(sorted.seek < fifo.seek * 0.8, "{name}: {} against {} ms", sorted.seek, fifo.seek);
        assert!(sorted.waiting < fifo.waiting * 0.5, "{name}: {} against {}", sorted.waiting, fifo.waiting);
    }
    assert!(sstf.seek < scan.seek && sstf.seek < disksort.seek);
    assert!(disksort.worst < sstf.worst, "{} against {}", disksort.worst, sstf.worst);
}
