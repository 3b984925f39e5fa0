//! Units of load at work: how long their calls take on a machine, and what else is done meanwhile.

use crate::Result;
use crate::bench::load::{Times, Unit, populate};
use crate::bench::machine::Machine;
use crate::bench::storage::{Made, System};
use crate::setting::Hardware;
use spindle_clock::{Clock, Mutex};
use spindle_sim::Time;
use spindle_vfs::FileSystem;
use std::sync::Arc;
use std::time::Duration;

/// The results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// The times of the calls.
    pub times: Times,
    /// Mean time in milliseconds in which everything changed was made durable.
    pub flush: f64,
    /// Reads and writes of all disks.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// The part of the time in which the busiest disk worked, from 0 to 1.
    pub busiest: f64,
}

/// How often the daemon has made everything durable, and how long that took in all.
pub type Flushes = Arc<Mutex<(u32, Duration)>>;

/// Makes a system with the files of so many units, and so many bytes of memory ([`System::make`]).
///
/// # Errors
/// As the file system.
pub fn prepared(on: &Hardware, system: System, units: u32, memory: usize) -> Result<Arc<Made>> {
    let made = system.make(on, memory)?;
    made.prepare(|fs, _| (0..units).try_for_each(|unit| populate(fs, unit)))?;
    Ok(Arc::new(made))
}

/// Adds the daemon that makes everything durable from time to time.
pub fn keep(machine: &Machine, made: &Made, fs: &Arc<dyn FileSystem>) -> Flushes {
    let flushes = Flushes::default();
    let (fs, clock, time, noted) =
        (fs.clone(), machine.clock.clone(), made.system().commits_every(), flushes.clone());
    machine.background("update", move || {
        loop {
            clock.sleep(time);
            let started = clock.monotonic();
            if fs.sync().is_err() {
                return;
            }
            let (count, sum) = &mut *noted.lock();
            *count += 1;
            *sum += clock.monotonic().saturating_sub(started);
        }
    });
    flushes
}

/// Lets so many units make `calls` calls each, after half as many that fill the caches
/// and do not count, and returns their times.
///
/// # Errors
/// As the file system.
pub fn serve(made: &Arc<Made>, units: u32, calls: u64) -> Result<Served> {
    let machine = made.machine()?;
    let all: Arc<Mutex<Vec<Result<Times>>>> = Arc::default();
    let (own, slot) = (made.clone(), all.clone());
    let flushes = machine.run(move |machine| {
        let fs = own.open(machine)?;
        let flushes = keep(machine, &own, &fs);
        for unit in 0..units {
            let (fs, clock, slot) = (fs.clone(), machine.clock.clone(), slot.clone());
            machine.client(&format!("unit {unit}"), move || {
                let warm = calls / 2;
                let done = Unit::new(&*fs, &*clock, unit).run(warm, |n| n < warm + calls);
                slot.lock().push(done);
            });
        }
        Ok(flushes)
    })?;
    let mut served = Served::default();
    for times in std::mem::take(&mut *all.lock()) {
        served.times.add(&times?);
    }
    let (count, sum) = *flushes.lock();
    served.flush = sum.as_secs_f64() * 1000.0 / f64::from(count.max(1));
    let elapsed = Time::from(machine.clock.monotonic()).as_secs_f64();
    for tally in machine.drives.iter().map(|drive| drive.tally()) {
        served.reads += tally.reads;
        served.writes += tally.writes;
        served.busiest = served.busiest.max(tally.busy.as_secs_f64() / elapsed.max(1e-9));
    }
    Ok(served)
}
