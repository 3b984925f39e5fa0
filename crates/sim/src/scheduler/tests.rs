use super::*;
use spindle_clock::{Condvar as TheirCondvar, Mutex as TheirMutex, RwLock};

fn ms(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

/// Clients that share a lock, a condition and time, and what they did, in order.
fn run(simulation: &Simulation) -> Vec<(u64, u32)> {
    let log = Arc::new(TheirMutex::new(Vec::new()));
    let turn = Arc::new((TheirMutex::new(0_u32), TheirCondvar::new()));
    for client in 0..6 {
        let (simulation2, log, turn) = (simulation.clone(), log.clone(), turn.clone());
        simulation.spawn(&format!("client {client}"), move || {
            for round in 0..20 {
                simulation2.core().pass_time(Time(u64::from((client * 7 + round * 3) % 11) * 1000));
                let mut entries = log.lock();
                simulation2.core().pass_time(Time(500));
                entries.push((simulation2.now().0, client));
                drop(entries);
                let mut value = turn.0.lock();
                *value += 1;
                turn.1.notify_all();
                while *value < round {
                    turn.1.wait(&mut value);
                }
            }
        });
    }
    simulation.run();
    let log = log.lock();
    assert_eq!(log.len(), 120);
    log.clone()
}

/// Promise: the same code runs the same way to the last event, in a fair and in a random order.
#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(run(&Simulation::new()), run(&Simulation::new()));
    let random = |seed| run(&Simulation::with_random_schedule(seed));
    assert_eq!(random(7), random(7));
    assert_ne!(random(7), random(8));
}

/// Promise: time passes only through waiting, and everybody wakes exactly when they asked to.
#[test]
fn time_is_virtual() {
    let simulation = Simulation::new();
    for n in 1..=3 {
        let inner = simulation.clone();
        simulation.spawn("sleeper", move || {
            for nth in 1..=1000 {
                inner.core().pass_time(ms(n));
                assert_eq!(inner.now(), ms(n * nth));
            }
        });
    }
    simulation.run();
    assert_eq!(simulation.now(), ms(3000));
}

/// Promise: a lock excludes in a simulation too, whatever the order, and a wait with a time-out
/// ends in time.
#[test]
fn locks_exclude() {
    for seed in 0..50 {
        let simulation = Simulation::with_random_schedule(seed);
        let shared = Arc::new(RwLock::new((0_u32, 0_u32)));
        for _ in 0..4 {
            let (inner, shared) = (simulation.clone(), shared.clone());
            simulation.spawn("client", move || {
                for _ in 0..25 {
                    let mut pair = shared.write();
                    pair.0 += 1;
                    inner.core().pass_time(Time(10));
                    pair.1 += 1;
                    drop(pair);
                    let pair = shared.read();
                    inner.core().pass_time(Time(3));
                    assert_eq!(pair.0, pair.1, "seed {seed}");
                }
                let lonely = (TheirMutex::new(()), TheirCondvar::new());
                let before = inner.now();
                assert!(lonely.1.wait_for(&mut lonely.0.lock(), Duration::from_millis(2)));
                assert!(inner.now() - before >= ms(2));
            });
        }
        simulation.run();
        assert_eq!(shared.read().0, 100);
    }
}

/// Promise: clients that wait for each other are an error that names them, not a hang; so is a
/// panic.
#[test]
fn deadlocks_and_panics_end_the_run() {
    let simulation = Simulation::new();
    let locks = Arc::new((TheirMutex::new(()), TheirMutex::new(())));
    for forward in [true, false] {
        let (inner, locks) = (simulation.clone(), locks.clone());
        simulation.spawn(if forward { "ab" } else { "ba" }, move || {
            let (first, second) = if forward { (&locks.0, &locks.1) } else { (&locks.1, &locks.0) };
            let _first = first.lock();
            inner.core().pass_time(ms(1));
            let _second = second.lock();
        });
    }
    let message = catch_unwind(AssertUnwindSafe(|| simulation.run())).unwrap_err();
    let message = message.downcast_ref::<String>().unwrap();
    assert!(message.contains("ab") && message.contains("ba"), "{message}");

    let simulation = Simulation::new();
    let inner = simulation.clone();
    simulation.spawn_background("waiting", move || inner.core().pass_time(ms(1000)));
    simulation.spawn("failing", || resume_unwind(Box::new("reason")));
    let reason = catch_unwind(AssertUnwindSafe(|| simulation.run())).unwrap_err();
    assert_eq!(*reason.downcast_ref::<&str>().unwrap(), "reason");
}

/// Promise: a run ends with its foreground, and the simulation can be used again after it.
#[test]
fn runs_follow_each_other() {
    let simulation = Simulation::new();
    let inner = simulation.clone();
    simulation.spawn_background("daemon", move || {
        loop {
            inner.core().pass_time(ms(30));
        }
    });
    let inner = simulation.clone();
    assert_eq!(
        simulation.run_client(move || {
            inner.core().pass_time(ms(100));
            5
        }),
        Some(5)
    );
    assert_eq!(simulation.now(), ms(100));
    let happened = Arc::new(TheirMutex::new(false));
    let flag = happened.clone();
    simulation.core().plan(ms(120), move || *flag.lock() = true);
    simulation.core().pass_time(ms(50));
    assert!(*happened.lock());
    assert_eq!(simulation.now(), ms(150));
}
