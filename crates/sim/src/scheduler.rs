//! The scheduler: many client threads, one baton, one order of events.
//!
//! Exactly one thread of a simulation runs at a time: the one with the baton. It gives it up where
//! it waits. The next is the thread that has been ready longest; when none is, the earliest event
//! moves the time on. Events of the same time happen in the order in which they were planned. So a
//! run depends on nothing but the code and the seed.
//!
//! Invariants: time never goes back; a thread that is not `current` sleeps on its own token and
//! touches nothing; an event's action runs with the baton, and must not wait.
//!
//! [`Simulation::with_random_schedule`] picks among ready threads at random, also at every lock
//! that is taken: a test mode that finds what a fair order hides.

mod agenda;

use crate::time::Time;
use agenda::{Action, State, Thread, Token};
use parking_lot::{Mutex, MutexGuard};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::hook::{Scheduler, enter};
use std::any::Any;
use std::cell::Cell;
use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The reason for which the threads of a simulation unwind that is over.
struct Over;

/// The reason for which a simulation fails in which nobody can go on.
struct Stuck(String);

/// What stands behind a [`Simulation`], its clock and its devices.
pub(crate) struct Core {
    state: Mutex<State>,
    over: AtomicBool,
    /// The panic of a client, or the description of a deadlock.
    failure: Mutex<Option<Box<dyn Any + Send>>>,
    finished: Token,
}

thread_local! {
    /// Number of the client that this thread is.
    static CLIENT: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Core {
    /// Returns the time.
    pub(crate) fn now(&self) -> Time {
        self.state.lock().now
    }

    /// Plans `call` for `at`, or for now if that is past. It runs with the baton and must not wait.
    pub(crate) fn plan(&self, at: Time, call: impl FnOnce() + Send + 'static) {
        self.state.lock().plan(at, Action::Call(Box::new(call)));
    }

    /// Lets `time` pass for this thread. Outside the clients it passes at once, with all events in
    /// it.
    pub(crate) fn pass_time(&self, time: Time) {
        if CLIENT.get().is_some() {
            let nobody_wakes_this = 0_u8;
            self.wait(std::ptr::from_ref(&nobody_wakes_this).addr(), Some(time.into()));
        } else {
            let end = self.now() + time;
            self.drive(end, || false);
            self.state.lock().now = end;
        }
    }

    /// Waits until `done` returns true; the code that makes it true wakes `key`. Outside the
    /// clients events happen until then. In a client that unwinds because the simulation is over
    /// it returns at once.
    pub(crate) fn wait_until(&self, key: usize, done: impl Fn() -> bool) {
        if CLIENT.get().is_some() {
            while !done() {
                self.wait(key, None);
                if self.over.load(Ordering::SeqCst) {
                    return;
                }
            }
        } else {
            self.drive(Time(u64::MAX), done);
        }
    }

    /// Returns the events up to `end` happen until `done` says so.
    fn drive(&self, end: Time, done: impl Fn() -> bool) {
        while !done() {
            let state = self.state.lock();
            if state.events.peek().is_none_or(|Reverse(event)| event.at > end) {
                return;
            }
            drop(self.happen(state));
        }
    }

    /// Returns the next event happens; the lock is given up for its action.
    fn happen<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(Reverse(event)) = state.events.pop() else { return state };
        state.now = state.now.max(event.at);
        state.happened += 1;
        match event.action {
            Action::TimeOut { thread, wait } => {
                state.time_out(thread, wait);
                state
            }
            Action::Call(call) => {
                drop(state);
                call();
                self.state.lock()
            }
        }
    }

    /// Gives the baton to the next thread, letting events happen until there is one, and goes on
    /// when this thread has it again.
    fn switch<'a>(&'a self, mut state: MutexGuard<'a, State>, own: usize) {
        let next = loop {
            if let Some(next) = state.pick() {
                break next;
            }
            if state.events.is_empty() {
                let reason = state.deadlock();
                drop(state);
                self.end(Some(Box::new(Stuck(reason))));
                self.unwind();
                return;
            }
            state = self.happen(state);
        };
        if next == own {
            return;
        }
        let (theirs, ours) = (state.threads[next].token.clone(), state.threads[own].token.clone());
        drop(state);
        theirs.give();
        ours.take();
        self.unwind();
    }

    /// Ends the simulation: every client unwinds from where it waits.
    fn end(&self, failure: Option<Box<dyn Any + Send>>) {
        if let Some(failure) = failure {
            self.failure.lock().get_or_insert(failure);
        }
        self.over.store(true, Ordering::SeqCst);
        for thread in &self.state.lock().threads {
            thread.token.give();
        }
        self.finished.give();
    }

    /// Unwinds this thread if the simulation is over.
    fn unwind(&self) {
        if self.over.load(Ordering::SeqCst) {
            if std::thread::panicking() {
                // Destructors still take locks; the threads that hold them unwind as well.
                std::thread::yield_now();
            } else {
                resume_unwind(Box::new(Over));
            }
        }
    }

    /// Runs client number `own` from its first turn to its end.
    fn client(self: &Arc<Self>, own: usize, work: impl FnOnce()) {
        let token = self.state.lock().threads[own].token.clone();
        token.take();
        if self.over.load(Ordering::SeqCst) {
            return;
        }
        CLIENT.set(Some(own));
        let entered = enter(self.clone());
        let result = catch_unwind(AssertUnwindSafe(work));
        drop(entered);
        match result {
            Err(reason) if !reason.is::<Over>() => self.end(Some(reason)),
            _ if self.over.load(Ordering::SeqCst) => {}
            _ => self.leave(own),
        }
    }

    /// Ends client `own`, and passes the baton on.
    fn leave(&self, own: usize) {
        let mut state = self.state.lock();
        if !state.threads[own].background {
            state.unfinished -= 1;
        }
        loop {
            if state.unfinished == 0 {
                drop(state);
                return self.end(None);
            }
            if let Some(next) = state.pick() {
                let token = state.threads[next].token.clone();
                drop(state);
                return token.give();
            }
            if state.events.is_empty() {
                let reason = state.deadlock();
                drop(state);
                return self.end(Some(Box::new(Stuck(reason))));
            }
            state = self.happen(state);
        }
    }
}

impl Scheduler for Core {
    fn wait(&self, key: usize, timeout: Option<Duration>) -> bool {
        if self.over.load(Ordering::SeqCst) {
            self.unwind();
            return false;
        }
        let Some(own) = CLIENT.get() else { return false };
        let mut state = self.state.lock();
        let thread = &mut state.threads[own];
        thread.waits += 1;
        thread.waits_for = Some(key);
        thread.timed_out = false;
        let wait = thread.waits;
        state.waiters.entry(key).or_default().push_back(own);
        if let Some(timeout) = timeout {
            let at = state.now + timeout.into();
            state.plan(at, Action::TimeOut { thread: own, wait });
        }
        self.switch(state, own);
        self.state.lock().threads[own].timed_out
    }

    fn wake(&self, key: usize, all: bool) {
        self.state.lock().wake(key, all);
    }

    fn pass(&self) {
        const ONE_IN: u32 = 8;
        let Some(own) = CLIENT.get() else { return };
        if self.over.load(Ordering::SeqCst) {
            return;
        }
        let mut state = self.state.lock();
        if state.random.as_mut().is_some_and(|random| random.random_ratio(1, ONE_IN)) {
            state.ready.push_back(own);
            self.switch(state, own);
        }
    }
}

/// A simulation: virtual time, and clients that share it.
///
/// Clients are added with [`Self::spawn`] and run in [`Self::run`]. Before and after that the
/// thread that made the simulation may use its clock and devices too; time then passes only through
/// what it does itself.
#[derive(Clone)]
pub struct Simulation {
    core: Arc<Core>,
    clients: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Default for Simulation {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulation {
    /// Returns a simulation whose ready clients take turns.
    #[must_use]
    pub fn new() -> Self {
        Self::with(None)
    }

    /// Returns a simulation in which chance decides who is next, and takes the baton away at locks.
    #[must_use]
    pub fn with_random_schedule(seed: u64) -> Self {
        Self::with(Some(StdRng::seed_from_u64(seed)))
    }

    fn with(random: Option<StdRng>) -> Self {
        let core = Core {
            state: Mutex::new(State { random, ..State::default() }),
            over: AtomicBool::new(false),
            failure: Mutex::new(None),
            finished: Token::default(),
        };
        Self { core: Arc::new(core), clients: Arc::default() }
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Returns the virtual time since the start.
    #[must_use]
    pub fn now(&self) -> Time {
        self.core.now()
    }

    /// Returns the events that have happened.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.core.state.lock().happened
    }

    /// Adds a client, which is ready at once. Clients may add clients.
    pub fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) {
        self.add(name, false, work);
    }

    /// Adds a client that serves the others: the simulation ends without waiting for its end.
    pub fn spawn_background(&self, name: &str, work: impl FnOnce() + Send + 'static) {
        self.add(name, true, work);
    }

    fn add(&self, name: &str, background: bool, work: impl FnOnce() + Send + 'static) {
        let mut state = self.core.state.lock();
        let own = state.threads.len();
        state.threads.push(Thread {
            name: name.to_owned(),
            token: Arc::default(),
            waits_for: None,
            waits: 0,
            timed_out: false,
            background,
        });
        state.ready.push_back(own);
        state.unfinished += usize::from(!background);
        drop(state);
        let core = self.core.clone();
        let client = std::thread::Builder::new().name(name.to_owned()).spawn(move || core.client(own, work));
        match client {
            Ok(client) => self.clients.lock().push(client),
            Err(error) => self.core.end(Some(Box::new(Stuck(format!("{name}: {error}"))))),
        }
    }

    /// Runs until all clients in the foreground have ended.
    ///
    /// # Panics
    /// With the panic of a client, or when all clients wait for each other.
    pub fn run(&self) {
        let first = {
            let mut state = self.core.state.lock();
            if state.unfinished == 0 {
                return;
            }
            self.core.over.store(false, Ordering::SeqCst);
            self.core.finished.reset();
            state.pick().map(|next| state.threads[next].token.clone())
        };
        if let Some(first) = first {
            first.give();
        }
        self.core.finished.take();
        loop {
            let Some(client) = self.clients.lock().pop() else { break };
            // How a client ended is in `failure`.
            let _ = client.join();
        }
        let failure = self.core.failure.lock().take();
        self.core.state.lock().forget_clients();
        match failure.map(<Box<dyn Any + Send>>::downcast::<Stuck>) {
            None => {}
            Some(Ok(stuck)) => panic!("{}", stuck.0),
            Some(Err(reason)) => resume_unwind(reason),
        }
    }

    /// Runs `work` as the only client in the foreground, and gives what it returned.
    ///
    /// # Panics
    /// As [`Self::run`].
    pub fn run_client<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let result = Arc::new(Mutex::new(None));
        let slot = result.clone();
        self.spawn("client", move || *slot.lock() = Some(work()));
        self.run();
        result.lock().take()
    }
}

#[cfg(test)]
mod tests;
