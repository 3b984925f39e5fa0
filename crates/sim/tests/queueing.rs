//! A queue before a disk against queueing theory, and the disciplines against each other.

mod common;

use common::{SEED, disk, in_ms, near, read, spec};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_sim::disk::{CommandQueue, Disk};
use spindle_sim::{Commands, Discipline, Queue, Time, Transfer};

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

/// Returns the disk with neither buffer nor cache, which holds so many commands and reads in order.
fn holding(depth: u32, age_limit_ms: f64) -> Disk {
    let mut spec = spec("nearline-20tb");
    (spec.read_buffer, spec.write_cache) = (None, None);
    spec.controller.as_mut().unwrap().zero_latency = None;
    spec.command_queue = Some(CommandQueue { depth, age_limit_ms });
    Disk::new(&spec).unwrap()
}

/// Returns the reads of 4 KiB at random per second, and the longest wait in ms, of a disk that
/// always has so many of them; `check` sees the disk, the time, what else waits and what it begins.
fn always_waiting(
    mut disk: Disk,
    depth: usize,
    mut check: impl FnMut(&Disk, Time, &[Transfer], &Transfer),
) -> (f64, f64) {
    const COUNT: u32 = 3000;
    let mut random = SmallRng::seed_from_u64(SEED);
    let blocks = disk.capacity_sectors() / 8;
    let mut at = || read(random.random_range(0..blocks) * 8, 8);
    let mut commands = Commands::new(Discipline::Fifo, &disk);
    let (mut waiting, mut now, mut worst) = (Vec::new(), Time::ZERO, 0.0_f64);
    for _ in 0..COUNT {
        while commands.len() < depth {
            let transfer = at();
            waiting.push(transfer);
            commands.push(transfer, now);
        }
        let (transfer, since) = commands.pop(now, &disk).unwrap();
        waiting.swap_remove(waiting.iter().position(|other| *other == transfer).unwrap());
        check(&disk, now, &waiting, &transfer);
        worst = worst.max(in_ms(now - since));
        now = disk.start(now, &transfer).done;
    }
    (f64::from(COUNT) / now.as_secs_f64(), worst)
}

/// Promise: a drive begins the command whose first sector comes first; with each doubling of what
/// it holds it does more in a second, and with 32 more than twice as much as with one, which is
/// what the driver's order gives.
#[test]
fn a_drive_takes_what_it_reaches_first() {
    let begins = |disk: &Disk, now: Time, transfer: &Transfer| {
        let service = disk.clone().start(now, transfer);
        service.overhead + service.wait + service.seek + service.rotation
    };
    let mut rates = Vec::new();
    for depth in [1, 2, 4, 8, 16, 32_u32] {
        let (rate, _) = always_waiting(holding(depth, 1e6), depth as usize, |disk, now, others, chosen| {
            let first = begins(disk, now, chosen);
            assert!(others.iter().all(|other| begins(disk, now, other) >= first));
        });
        rates.push(rate);
    }
    assert!(rates.is_sorted_by(|less, more| less * 1.1 < *more), "{rates:?}");
    assert!(rates[5] > 2.0 * rates[0], "{rates:?}");
    // Overhead, mean seek, half a revolution, 8 sectors. More sectors lie outside than inside, so
    // that seeks are a little shorter than between random cylinders.
    near(rates[0], 1e3 / (0.1 + 7.4 + 60e3 / 7200.0 / 2.0 + 0.02), 4.0);
    let (alone, _) = always_waiting(holding(1, 0.0), 32, |_, _, _, _| {});
    near(alone, rates[0], 2.0);
}

/// Promise: with a limit on the age no command waits much longer than that; without one, some do.
/// At a limit of nothing the order is that of arrival.
#[test]
fn old_commands_go_first() {
    let worst = |limit: f64| always_waiting(holding(32, limit), 32, |_, _, _, _| {}).1;
    let (limited, unlimited) = (worst(300.0), worst(1e6));
    assert!(limited < 600.0 && unlimited > 2.0 * limited, "{limited} {unlimited}");
    let fifo = always_waiting(holding(1, 0.0), 32, |_, _, _, _| {});
    assert!((worst(0.0) / fifo.1 - 1.0).abs() < 0.1);
}

/// Promise: a drive that chooses among commands keeps ordered ones in their place.
#[test]
fn ordered_commands_stay_in_order() {
    let mut disk = holding(32, 1e6);
    let mut commands = Commands::new(Discipline::Fifo, &disk);
    for n in 0..30_u64 {
        let ordered = n % 10 == 5;
        commands.push(Transfer { ordered, ..read(n * 7_919_000 % 30_000_000 * 8, 8) }, n);
    }
    let (mut now, mut order) = (Time::ZERO, Vec::new());
    while let Some((transfer, n)) = commands.pop(now, &disk) {
        now = disk.start(now, &transfer).done;
        order.push(n);
    }
    assert_eq!(order.len(), 30);
    assert!(!order.is_sorted());
    for barrier in [5, 15, 25] {
        let (before, after) = order.split_at(usize::try_from(barrier).unwrap());
        assert!(before.iter().all(|n| *n < barrier) && after[0] == barrier);
    }
}
