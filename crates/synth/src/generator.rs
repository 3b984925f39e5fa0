//! Generates a trace: users come and go, and a queue runs what they start in the order of time.

use super::actor::{Actor, Machine, nanos};
use super::distribution::{Distribution, weighted};
use super::model::{Model, Users};
use super::plan::Plan;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_trace::{Batch, Info, Result, Source};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of events returned at a time.
const BATCH: usize = 1 << 13;
/// Beginning of a trace: 14 January 1985, a Monday, 8:00, in nanoseconds since 1970.
const START: i64 = 474_537_600 * SECOND;
const SECOND: i64 = 1_000_000_000;
/// First account number of users; lower ones belong to the system.
const FIRST_ACCOUNT: u32 = 100;
/// Largest process number, after which numbers begin again at 1, as in 4.2BSD.
const LAST_PROCESS: u32 = 30_000;

/// Length of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// In hours.
    Hours(f64),
    /// In events.
    Events(u64),
}

/// An entry of the queue.
#[derive(Debug)]
struct Entry {
    role: Role,
    /// The actor whose script is running; `None` between scripts.
    actor: Option<Actor>,
}

/// The role of an entry of the queue: it determines what happens when a script ends.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// Lets users log in.
    Arrivals,
    /// Starts the next command, until the session ends.
    User { user: u32, end: i64 },
    /// Starts again after its period.
    Daemon { number: usize, copy: u32 },
    /// Ends.
    Job,
}

/// A trace that is generated while it is read.
#[derive(Debug)]
pub struct Synthesis {
    model: Model,
    length: Length,
    seed: u64,
    machine: Machine,
    queue: BinaryHeap<Reverse<(i64, u64, usize)>>,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    order: u64,
    present: Vec<bool>,
    weights: Vec<f64>,
    process: u32,
    now: i64,
    given: u64,
}

impl Synthesis {
    /// Returns a trace of the machine that `model` describes. The same seed gives the same trace.
    #[must_use]
    pub fn new(model: Model, length: Length, seed: u64) -> Self {
        let machine = Machine::new(Plan::new(&model), model.timing.clone(), StdRng::seed_from_u64(seed));
        let count = model.users.count;
        let weights = (0..count).map(|rank| f64::from(rank + 1).powf(-model.users.inequality)).collect();
        let mut made = Self {
            length,
            seed,
            machine,
            queue: BinaryHeap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            order: 0,
            present: vec![false; count as usize],
            weights,
            process: 0,
            now: START,
            given: 0,
            model,
        };
        made.begin();
        made
    }

    /// Sets up the state at the beginning of the trace: daemons wait for their next round, and
    /// users are in the middle of their sessions.
    fn begin(&mut self) {
        for number in 0..self.model.daemon.len() {
            for copy in 0..self.model.daemon[number].copies {
                let period = self.model.daemon[number].every.draw(&mut self.machine.random);
                let wait = period * self.machine.random.random::<f64>();
                self.add_entry(Role::Daemon { number, copy }, None, START + nanos(wait));
            }
        }
        let draws = 64;
        let mean = (0..draws).map(|_| self.model.users.session.draw(&mut self.machine.random)).sum::<f64>()
            / f64::from(draws);
        let rate = self.model.users.arrivals_per_hour * self.part_of_day(START) / 3600.0;
        let mut here = Distribution::Exponential(1.0).draw(&mut self.machine.random);
        while here < rate * mean {
            let left =
                self.model.users.session.draw(&mut self.machine.random) * self.machine.random.random::<f64>();
            let wait = self.model.users.think.draw(&mut self.machine.random);
            self.arrive(START + nanos(left), START + nanos(wait), None);
            here += Distribution::Exponential(1.0).draw(&mut self.machine.random);
        }
        self.add_entry(Role::Arrivals, None, START);
    }

    fn part_of_day(&self, time: i64) -> f64 {
        let hour = time.div_euclid(3600 * SECOND).rem_euclid(24);
        self.model.users.day[usize::try_from(hour).unwrap_or(0)]
    }

    /// Adds an entry to the queue.
    fn add_entry(&mut self, role: Role, actor: Option<Actor>, time: i64) {
        let entry = Some(Entry { role, actor });
        let at = if let Some(at) = self.free.pop() {
            self.entries[at] = entry;
            at
        } else {
            self.entries.push(entry);
            self.entries.len() - 1
        };
        self.queue_at(time, at);
    }

    fn queue_at(&mut self, time: i64, at: usize) {
        self.order += 1;
        self.queue.push(Reverse((time, self.order, at)));
    }

    fn actor(&mut self, script: usize, user: u32, copy: Option<u32>) -> Actor {
        self.process = self.process % LAST_PROCESS + 1;
        Actor::new(&self.machine.plan, script, user, copy, FIRST_ACCOUNT + user, self.process)
    }

    /// Begins a session of a user who is absent; does nothing if all are present.
    fn arrive(&mut self, end: i64, time: i64, script: Option<usize>) {
        let absent = self.weights.iter().zip(&self.present).map(|(&w, &here)| if here { 0.0 } else { w });
        if absent.clone().sum::<f64>() <= 0.0 {
            return;
        }
        let user = weighted(absent, &mut self.machine.random);
        self.present[user] = true;
        let user = u32::try_from(user).expect("users are counted in 32 bits");
        let actor = script.map(|script| self.actor(script, user, None));
        self.add_entry(Role::User { user, end }, actor, time);
    }

    /// Runs an entry of the queue at the current time.
    fn run_entry(&mut self, at: usize) {
        let now = self.now;
        let Some(mut entry) = self.entries[at].take() else { return };
        if let Some(actor) = &mut entry.actor {
            if let Some(next) = self.machine.advance(actor, now) {
                self.entries[at] = Some(entry);
                self.queue_at(next, at);
                return;
            }
            entry.actor = None;
            if let Some(pause) = self.pause_after(entry.role) {
                self.entries[at] = Some(entry);
                self.queue_at(now + nanos(pause), at);
            } else {
                self.leave(entry.role, at);
            }
            return;
        }
        match entry.role {
            Role::Arrivals => self.arrivals(),
            Role::User { end, .. } if now > end => {
                self.leave(entry.role, at);
                return;
            }
            Role::User { user, .. } => entry.actor = self.command(user),
            Role::Daemon { number, copy } => {
                let script = self.machine.plan.commands + number;
                let copy = (self.model.daemon[number].copies > 1).then_some(copy);
                let actor = self.actor(script, 0, copy);
                if self.model.daemon[number].background {
                    self.add_entry(Role::Job, Some(actor), now);
                } else {
                    entry.actor = Some(actor);
                }
            }
            Role::Job => {}
        }
        let pause = match entry.role {
            _ if entry.actor.is_some() => 0.0,
            Role::Arrivals => Distribution::Exponential(3600.0 / self.model.users.arrivals_per_hour)
                .draw(&mut self.machine.random),
            Role::Daemon { number, .. } => self.model.daemon[number].every.draw(&mut self.machine.random),
            _ => self.model.users.think.draw(&mut self.machine.random),
        };
        self.entries[at] = Some(entry);
        self.queue_at(now + nanos(pause), at);
    }

    /// Returns the seconds from the end of a script to the next one of the same role, if there is
    /// one. The period of a daemon counts from the end of its round; rounds are short.
    fn pause_after(&mut self, role: Role) -> Option<f64> {
        match role {
            Role::User { .. } => Some(self.model.users.think.draw(&mut self.machine.random)),
            Role::Daemon { number, .. } => {
                Some(self.model.daemon[number].every.draw(&mut self.machine.random))
            }
            Role::Job | Role::Arrivals => None,
        }
    }

    fn leave(&mut self, role: Role, at: usize) {
        if let Role::User { user, .. } = role {
            self.present[user as usize] = false;
        }
        self.free.push(at);
    }

    /// Begins a session with the probability of the hour.
    fn arrivals(&mut self) {
        if self.machine.random.random::<f64>() < self.part_of_day(self.now) {
            let length = self.model.users.session.draw(&mut self.machine.random);
            let login = self.machine.plan.login;
            self.arrive(self.now + nanos(length), self.now, login);
        }
    }

    /// Starts the next command of a user; returns `None` if it runs in the background.
    fn command(&mut self, user: u32) -> Option<Actor> {
        let scripts = &self.machine.plan.scripts[..self.machine.plan.commands];
        let script = weighted(scripts.iter().map(|script| script.weight), &mut self.machine.random);
        let background = scripts[script].background;
        let actor = self.actor(script, user, None);
        if !background {
            return Some(actor);
        }
        self.add_entry(Role::Job, Some(actor), self.now);
        None
    }

    fn over(&self) -> bool {
        match self.length {
            #[allow(clippy::cast_precision_loss)] // Hours.
            Length::Hours(hours) => (self.now - START) as f64 >= hours * 3600e9,
            Length::Events(events) => self.given >= events,
        }
    }

    /// Returns the number of files and queue entries in memory.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.machine.files.len() + self.entries.len()
    }
}

impl Source for Synthesis {
    fn info(&self) -> Info {
        let Users { count, .. } = self.model.users;
        Info {
            source: format!("spindle {} synth, seed {}", env!("CARGO_PKG_VERSION"), self.seed),
            notes: vec![
                format!("synthetic: {} ({count} users)", self.model.title),
                "no file was open at the beginning; files open at the end are not closed".into(),
            ],
            ..Info::default()
        }
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        self.machine.out.clear();
        while self.machine.out.events.len() < BATCH && !self.over() {
            let Some(Reverse((time, _, at))) = self.queue.pop() else { break };
            let before = self.machine.out.events.len();
            self.now = time;
            if !self.over() {
                self.run_entry(at);
                self.given += (self.machine.out.events.len() - before) as u64;
            }
        }
        std::mem::swap(batch, &mut self.machine.out);
        Ok(!batch.events.is_empty())
    }

    fn progress(&self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss)] // For a progress bar.
        Some(match self.length {
            Length::Hours(hours) => (self.now - START) as f64 / (hours * 3600e9).max(1.0),
            Length::Events(events) => self.given as f64 / events.max(1) as f64,
        })
    }
}
