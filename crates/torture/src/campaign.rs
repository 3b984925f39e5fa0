//! Many cases: on all processors, until the budget ends, with a watchdog, and a report.

use crate::base::{self, Base};
use crate::case::{Failure, Outcome, base_of, run};
use crate::overlay::Usage;
use spindle_clock::{Clock, Condvar, Mutex, SystemClock};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long one case may take before it counts as hanging. A case takes milliseconds.
const HANGING: Duration = Duration::from_secs(60);
/// Different failures that end a campaign.
const MOST_FAILURES: usize = 40;

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// After the cases `0..n`.
    Cases(u64),
    /// After just this case.
    Only(u64),
    /// After so much time.
    Time(Duration),
}

/// What came out.
#[derive(Debug, Default)]
pub struct Report {
    /// Cases run.
    pub cases: u64,
    /// Cases that could be opened for reading.
    pub opened: u64,
    /// Cases that the check could work on.
    pub checked: u64,
    /// Cases that could be opened for writing.
    pub written: u64,
    /// Cases whose unmount succeeded afterwards.
    pub unmounted: u64,
    /// The most that a phase asked of its device.
    pub usage: Usage,
    /// The most memory that a phase took, in bytes.
    pub memory: usize,
    /// The slowest case and its time.
    pub slowest: (u64, Duration),
    /// Declared fields that had their turn, of so many there are.
    pub fields: (usize, usize),
    /// Broken promises: the first case of each kind, and how many there were.
    pub failures: BTreeMap<String, (u64, Failure, u64)>,
    fields_hit: BTreeSet<(usize, usize)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, opened, checked, written, unmounted, usage, memory, fields, .. } = self;
        write!(
            f,
            "{cases} mutated images: {opened} opened, {checked} checked, {written} written, {unmounted} of them \
             unmounted well; {} of {} declared fields had their turn; at most {} requests, {} KiB transferred, {} KiB \
             of memory in a phase; the slowest was case {} with {} ms",
            fields.0,
            fields.1,
            usage.requests,
            usage.bytes >> 10,
            memory >> 10,
            self.slowest.0,
            self.slowest.1.as_millis()
        )
    }
}

impl Report {
    fn add(&mut self, base: usize, id: u64, result: Result<Outcome, Failure>, place: Option<String>) {
        self.cases += 1;
        match result {
            Ok(outcome) => {
                self.opened += u64::from(outcome.opened);
                self.checked += u64::from(outcome.checked);
                self.written += u64::from(outcome.changed.is_some());
                self.unmounted += u64::from(outcome.changed == Some(true));
                self.usage = self.usage.max(outcome.usage);
                self.memory = self.memory.max(outcome.memory);
                self.fields_hit.extend(outcome.field.map(|n| (base, n)));
            }
            Err(failure) => {
                // Panics at one place are one failure.
                let key = place.unwrap_or_else(|| format!("{}: {}", failure.phase, failure.what));
                self.failures.entry(key).or_insert((id, failure, 0)).2 += 1;
            }
        }
    }
}

/// What one worker is at, for the watchdog: the case, and when it began.
type Post = Mutex<Option<(u64, Duration)>>;

thread_local! {
    /// Where this thread panicked last.
    static PLACE: std::cell::RefCell<Option<String>> = const { std::cell::RefCell::new(None) };
}

/// Keeps quiet about panics of cases and remembers where they were.
fn remember_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let worker = std::thread::current().name().is_some_and(|name| name == WORKER);
            if worker {
                PLACE.set(panic.location().map(ToString::to_string));
                if std::env::var_os("RUST_BACKTRACE").is_some() {
                    usual(panic);
                }
            } else {
                usual(panic);
            }
        }));
    });
}

const WORKER: &str = "torture worker";

/// The command that repeats a case.
#[must_use]
pub fn repeat(seed: u64, id: u64) -> String {
    format!(
        "SPINDLE_SEED={seed} SPINDLE_CASE={id} cargo test -p spindle-torture --test hostile -- --nocapture"
    )
}

/// Runs a campaign. A case that hangs ends the process, after the command that repeats it.
///
/// # Panics
/// If the good images cannot be made, or a thread cannot be started.
#[must_use]
pub fn campaign(seed: u64, budget: Budget) -> Report {
    remember_panics();
    let bases = base::all();
    let workers = match budget {
        Budget::Only(_) => 1,
        _ => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let (first, end) = match budget {
        Budget::Cases(n) => (0, n),
        Budget::Only(id) => (id, id.saturating_add(1)),
        Budget::Time(_) => (0, u64::MAX),
    };
    let deadline = match budget {
        Budget::Time(time) => SystemClock.monotonic() + time,
        _ => Duration::MAX,
    };
    let next = AtomicU64::new(first);
    let report = Mutex::new(Report::default());
    let posts: Vec<Post> = (0..workers).map(|_| Mutex::new(None)).collect();
    let done = (Mutex::new(0), Condvar::new());
    std::thread::scope(|scope| {
        for post in &posts {
            let work = || {
                loop {
                    let now = SystemClock.monotonic();
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id >= end || now >= deadline || report.lock().failures.len() >= MOST_FAILURES {
                        break;
                    }
                    *post.lock() = Some((id, now));
                    PLACE.set(None);
                    let result = run(&bases, seed, id);
                    let time = SystemClock.monotonic().saturating_sub(now);
                    *post.lock() = None;
                    let base = usize::try_from(id).unwrap_or(0) % bases.len();
                    let mut report = report.lock();
                    report.add(base, id, result, PLACE.take());
                    if time > report.slowest.1 {
                        report.slowest = (id, time);
                    }
                }
                *done.0.lock() += 1;
                done.1.notify_all();
            };
            std::thread::Builder::new().name(WORKER.into()).spawn_scoped(scope, work).expect("a thread");
        }
        watch(&posts, &done, &bases, seed);
    });
    let mut report = report.into_inner();
    report.fields = (report.fields_hit.len(), bases.iter().map(|base| base.anatomy.fields()).sum());
    report
}

/// Waits for all workers; ends the process if one hangs.
fn watch(posts: &[Post], done: &(Mutex<usize>, Condvar), bases: &[Base], seed: u64) {
    let mut finished = done.0.lock();
    while *finished < posts.len() {
        done.1.wait_for(&mut finished, Duration::from_secs(1));
        let now = SystemClock.monotonic();
        for (id, since) in posts.iter().filter_map(|post| *post.lock()) {
            if now.saturating_sub(since) > HANGING {
                eprintln!("case {id} on {} hangs: {}", base_of(bases, id).0.name, repeat(seed, id));
                std::process::abort();
            }
        }
    }
}
