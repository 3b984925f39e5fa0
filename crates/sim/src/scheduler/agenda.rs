//! What happens next: events in the order of time, threads that are ready, threads that wait. It
//! runs nothing itself.

use crate::time::Time;
use parking_lot::{Condvar, Mutex};
use rand::Rng;
use rand::rngs::StdRng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

/// What happens at a point in time.
pub(super) enum Action {
    /// The wait of a thread with this number runs out.
    TimeOut {
        thread: usize,
        wait: u64,
    },
    Call(Box<dyn FnOnce() + Send>),
}

pub(super) struct Event {
    pub(super) at: Time,
    pub(super) number: u64,
    pub(super) action: Action,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// What a thread without the baton sleeps on.
#[derive(Default)]
pub(super) struct Token {
    given: Mutex<bool>,
    changed: Condvar,
}

impl Token {
    pub(super) fn give(&self) {
        *self.given.lock() = true;
        self.changed.notify_one();
    }

    /// Takes back what nobody took.
    pub(super) fn reset(&self) {
        *self.given.lock() = false;
    }

    pub(super) fn take(&self) {
        let mut given = self.given.lock();
        while !*given {
            self.changed.wait(&mut given);
        }
        *given = false;
    }
}

pub(super) struct Thread {
    pub(super) name: String,
    pub(super) token: Arc<Token>,
    pub(super) waits_for: Option<usize>,
    /// Waits begun.
    pub(super) waits: u64,
    pub(super) timed_out: bool,
    /// The simulation ends without waiting for it.
    pub(super) background: bool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) now: Time,
    pub(super) events: BinaryHeap<Reverse<Event>>,
    pub(super) planned: u64,
    pub(super) happened: u64,
    pub(super) threads: Vec<Thread>,
    pub(super) ready: VecDeque<usize>,
    pub(super) waiters: HashMap<usize, VecDeque<usize>>,
    /// Clients in the foreground that have not ended.
    pub(super) unfinished: usize,
    pub(super) random: Option<StdRng>,
}

impl State {
    pub(super) fn plan(&mut self, at: Time, action: Action) {
        self.planned += 1;
        let event = Event { at: at.max(self.now), number: self.planned, action };
        self.events.push(Reverse(event));
    }

    /// Returns the thread that is to run next, if one is ready.
    pub(super) fn pick(&mut self) -> Option<usize> {
        match &mut self.random {
            Some(random) if !self.ready.is_empty() => {
                let nth = random.random_range(0..self.ready.len());
                self.ready.remove(nth)
            }
            _ => self.ready.pop_front(),
        }
    }

    pub(super) fn wake(&mut self, key: usize, all: bool) {
        let Some(waiters) = self.waiters.get_mut(&key) else { return };
        let count = if all { waiters.len() } else { waiters.len().min(1) };
        for thread in waiters.drain(..count) {
            self.threads[thread].waits_for = None;
            self.ready.push_back(thread);
        }
        if waiters.is_empty() {
            self.waiters.remove(&key);
        }
    }

    pub(super) fn time_out(&mut self, thread: usize, wait: u64) {
        if self.threads[thread].waits != wait {
            return;
        }
        if let Some(key) = self.threads[thread].waits_for.take() {
            self.threads[thread].timed_out = true;
            if let Some(waiters) = self.waiters.get_mut(&key) {
                waiters.retain(|&other| other != thread);
            }
            self.ready.push_back(thread);
        }
    }

    /// After a run: what is left of clients that have unwound.
    pub(super) fn forget_clients(&mut self) {
        self.threads.clear();
        self.ready.clear();
        self.waiters.clear();
        self.events.retain(|Reverse(event)| matches!(event.action, Action::Call(_)));
        self.unfinished = 0;
    }

    pub(super) fn deadlock(&self) -> String {
        let waiting = self.threads.iter().filter(|t| t.waits_for.is_some()).map(|t| t.name.as_str());
        format!("all clients wait for each other: {}", waiting.collect::<Vec<_>>().join(", "))
    }
}
