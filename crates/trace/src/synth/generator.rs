//! Users who come and go, and the queue in which all who do something wait for their time.

use super::actor::{Actor, Stage, nanos};
use super::model::{Model, Users};
use super::plan::Plan;
use super::spread::{Spread, weighted};
use crate::{Batch, Info, Result, Source};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events given at a time.
const BATCH: usize = 1 << 13;
/// When a trace begins: 14 January 1985, a Monday, 8:00, in nanoseconds since 1970.
const START: i64 = 474_537_600 * SECOND;
const SECOND: i64 = 1_000_000_000;
/// Accounts of users begin here; below are those of the system.
const FIRST_ACCOUNT: u32 = 100;
/// Numbers of processes begin anew after this one, as they did in 4.2BSD.
const LAST_PROCESS: u32 = 30_000;

/// How long a trace is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// In hours.
    Hours(f64),
    /// In events.
    Events(u64),
}

/// Someone or something that waits in the queue.
#[derive(Debug)]
struct Waiting {
    role: Role,
    /// Who carries out a script now; none between commands.
    actor: Option<Actor>,
}

/// What it does when its script is over.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// Lets users in.
    Arrivals,
    /// Gives the next command, until the end of the session.
    User { user: u32, end: i64 },
    /// Begins anew after a while.
    Daemon { number: usize, copy: u32 },
    /// Ends.
    Job,
}

/// A trace that is made while it is read.
#[derive(Debug)]
pub struct Synthesis {
    model: Model,
    length: Length,
    seed: u64,
    stage: Stage,
    queue: BinaryHeap<Reverse<(i64, u64, usize)>>,
    waiting: Vec<Option<Waiting>>,
    free: Vec<usize>,
    order: u64,
    present: Vec<bool>,
    weights: Vec<f64>,
    process: u32,
    now: i64,
    given: u64,
}

impl Synthesis {
    /// Returns a trace of what happens on the machine that `model` describes. The same seed makes
    /// the same trace.
    #[must_use]
    pub fn new(model: Model, length: Length, seed: u64) -> Self {
        let stage = Stage::new(Plan::new(&model), model.timing.clone(), StdRng::seed_from_u64(seed));
        let count = model.users.count;
        let weights = (0..count).map(|rank| f64::from(rank + 1).powf(-model.users.inequality)).collect();
        let mut made = Self {
            length,
            seed,
            stage,
            queue: BinaryHeap::new(),
            waiting: Vec::new(),
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

    /// The machine as it is when the trace begins: daemons are between two rounds, users in the
    /// midst of their sessions.
    fn begin(&mut self) {
        for number in 0..self.model.daemon.len() {
            for copy in 0..self.model.daemon[number].copies {
                let period = self.model.daemon[number].every.draw(&mut self.stage.random);
                let wait = period * self.stage.random.random::<f64>();
                self.enter(Role::Daemon { number, copy }, None, START + nanos(wait));
            }
        }
        let draws = 64;
        let mean = (0..draws).map(|_| self.model.users.session.draw(&mut self.stage.random)).sum::<f64>()
            / f64::from(draws);
        let rate = self.model.users.arrivals_per_hour * self.part_of_day(START) / 3600.0;
        let mut here = Spread::Exponential(1.0).draw(&mut self.stage.random);
        while here < rate * mean {
            let left =
                self.model.users.session.draw(&mut self.stage.random) * self.stage.random.random::<f64>();
            let wait = self.model.users.think.draw(&mut self.stage.random);
            self.arrive(START + nanos(left), START + nanos(wait), None);
            here += Spread::Exponential(1.0).draw(&mut self.stage.random);
        }
        self.enter(Role::Arrivals, None, START);
    }

    fn part_of_day(&self, time: i64) -> f64 {
        let hour = time.div_euclid(3600 * SECOND).rem_euclid(24);
        self.model.users.day[usize::try_from(hour).unwrap_or(0)]
    }

    /// Puts someone into the queue.
    fn enter(&mut self, role: Role, actor: Option<Actor>, time: i64) {
        let waiting = Some(Waiting { role, actor });
        let at = if let Some(at) = self.free.pop() {
            self.waiting[at] = waiting;
            at
        } else {
            self.waiting.push(waiting);
            self.waiting.len() - 1
        };
        self.queue_at(time, at);
    }

    fn queue_at(&mut self, time: i64, at: usize) {
        self.order += 1;
        self.queue.push(Reverse((time, self.order, at)));
    }

    fn actor(&mut self, script: usize, user: u32, copy: Option<u32>) -> Actor {
        self.process = self.process % LAST_PROCESS + 1;
        Actor::new(&self.stage.plan, script, user, copy, FIRST_ACCOUNT + user, self.process)
    }

    /// A user who is not here yet begins a session.
    fn arrive(&mut self, end: i64, time: i64, script: Option<usize>) {
        let absent = self.weights.iter().zip(&self.present).map(|(&w, &here)| if here { 0.0 } else { w });
        if absent.clone().sum::<f64>() <= 0.0 {
            return;
        }
        let user = weighted(absent, &mut self.stage.random);
        self.present[user] = true;
        let user = u32::try_from(user).expect("users are counted in 32 bits");
        let actor = script.map(|script| self.actor(script, user, None));
        self.enter(Role::User { user, end }, actor, time);
    }

    /// Lets whoever is at `at` do what it does now.
    fn step(&mut self, at: usize) {
        let now = self.now;
        let Some(mut waiting) = self.waiting[at].take() else { return };
        if let Some(actor) = &mut waiting.actor {
            if let Some(next) = self.stage.advance(actor, now) {
                self.waiting[at] = Some(waiting);
                self.queue_at(next, at);
                return;
            }
            waiting.actor = None;
            if let Some(pause) = self.after(waiting.role) {
                self.waiting[at] = Some(waiting);
                self.queue_at(now + nanos(pause), at);
            } else {
                self.leave(waiting.role, at);
            }
            return;
        }
        match waiting.role {
            Role::Arrivals => self.arrivals(),
            Role::User { end, .. } if now > end => {
                self.leave(waiting.role, at);
                return;
            }
            Role::User { user, .. } => waiting.actor = self.command(user),
            Role::Daemon { number, copy } => {
                let script = self.stage.plan.commands + number;
                let copy = (self.model.daemon[number].copies > 1).then_some(copy);
                let actor = self.actor(script, 0, copy);
                if self.model.daemon[number].background {
                    self.enter(Role::Job, Some(actor), now);
                } else {
                    waiting.actor = Some(actor);
                }
            }
            Role::Job => {}
        }
        let pause = match waiting.role {
            _ if waiting.actor.is_some() => 0.0,
            Role::Arrivals => {
                Spread::Exponential(3600.0 / self.model.users.arrivals_per_hour).draw(&mut self.stage.random)
            }
            Role::Daemon { number, .. } => self.model.daemon[number].every.draw(&mut self.stage.random),
            _ => self.model.users.think.draw(&mut self.stage.random),
        };
        self.waiting[at] = Some(waiting);
        self.queue_at(now + nanos(pause), at);
    }

    /// Returns the seconds from the end of a script to the next of the same role, if there is one.
    /// A daemon's period counts from its beginning, so what its round took does not matter: rounds
    /// are short.
    fn after(&mut self, role: Role) -> Option<f64> {
        match role {
            Role::User { .. } => Some(self.model.users.think.draw(&mut self.stage.random)),
            Role::Daemon { number, .. } => Some(self.model.daemon[number].every.draw(&mut self.stage.random)),
            Role::Job | Role::Arrivals => None,
        }
    }

    fn leave(&mut self, role: Role, at: usize) {
        if let Role::User { user, .. } = role {
            self.present[user as usize] = false;
        }
        self.free.push(at);
    }

    /// Lets a user in, if the hour is such.
    fn arrivals(&mut self) {
        if self.stage.random.random::<f64>() < self.part_of_day(self.now) {
            let length = self.model.users.session.draw(&mut self.stage.random);
            let login = self.stage.plan.login;
            self.arrive(self.now + nanos(length), self.now, login);
        }
    }

    /// Returns what a user does next; none if it goes on by itself while the user thinks.
    fn command(&mut self, user: u32) -> Option<Actor> {
        let scripts = &self.stage.plan.scripts[..self.stage.plan.commands];
        let script = weighted(scripts.iter().map(|script| script.weight), &mut self.stage.random);
        let background = scripts[script].background;
        let actor = self.actor(script, user, None);
        if !background {
            return Some(actor);
        }
        self.enter(Role::Job, Some(actor), self.now);
        None
    }

    fn over(&self) -> bool {
        match self.length {
            #[allow(clippy::cast_precision_loss)] // Hours.
            Length::Hours(hours) => (self.now - START) as f64 >= hours * 3600e9,
            Length::Events(events) => self.given >= events,
        }
    }

    /// Returns the number of files and actors in memory.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.stage.files.len() + self.waiting.len()
    }
}

impl Source for Synthesis {
    fn info(&self) -> Info {
        let Users { count, .. } = self.model.users;
        Info {
            source: format!("spindle {} synth, seed {}", env!("CARGO_PKG_VERSION"), self.seed),
            lost: 0,
            notes: vec![
                format!("synthetic: {} ({count} users)", self.model.title),
                "nothing was open before it began, and what is open at its end is not closed".into(),
            ],
        }
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        self.stage.out.clear();
        while self.stage.out.events.len() < BATCH && !self.over() {
            let Some(Reverse((time, _, at))) = self.queue.pop() else { break };
            let before = self.stage.out.events.len();
            self.now = time;
            if !self.over() {
                self.step(at);
                self.given += (self.stage.out.events.len() - before) as u64;
            }
        }
        std::mem::swap(batch, &mut self.stage.out);
        Ok(!batch.events.is_empty())
    }

    fn progress(&self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss)] // For a bar.
        Some(match self.length {
            Length::Hours(hours) => (self.now - START) as f64 / (hours * 3600e9).max(1.0),
            Length::Events(events) => self.given as f64 / events.max(1) as f64,
        })
    }
}
