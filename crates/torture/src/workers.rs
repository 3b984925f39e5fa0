//! Runs many numbered cases on all processors until the budget ends, with a watchdog.
//!
//! The report of a case that panics has the place of the panic ([`Done::panicked_at`]). If a case
//! hangs, the process prints the command that repeats it, and ends.

use spindle_clock::{Clock, Condvar, Mutex, SystemClock};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The longest time between two calls of [`pulse`]; then the case counts as hanging. It usually is
/// milliseconds, and more on a busy machine.
const HANGING: Duration = Duration::from_secs(60);
const WORKER: &str = "torture worker";

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// After the cases `0..n`.
    Cases(u64),
    /// After just this case.
    Only(u64),
    /// After this time.
    Time(Duration),
}

/// A case that has ended.
pub struct Done<T> {
    /// Its number.
    pub id: u64,
    /// Its result.
    pub result: T,
    /// The place of its last panic, caught or not.
    pub panicked_at: Option<String>,
    /// The time that it took.
    pub time: Duration,
}

/// The case that a worker runs, and when it began or had its last pulse.
type RunningCase = Mutex<Option<(u64, Duration)>>;

thread_local! {
    /// The place of this thread's last panic.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    /// The case of this thread, which the watchdog reads.
    static RUNNING: RefCell<Option<Arc<RunningCase>>> = const { RefCell::new(None) };
}

/// Notes for the watchdog that the case of this thread makes progress. A long case calls it after
/// each of its steps.
pub fn pulse() {
    RUNNING.with_borrow(|current| {
        if let Some((_, since)) =
            current.as_ref().map(|current| current.lock()).as_deref_mut().and_then(Option::as_mut)
        {
            *since = SystemClock.monotonic();
        }
    });
}

/// Sets a panic hook that prints nothing for cases, and remembers where they panicked.
fn remember_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let worker = std::thread::current().name().is_some_and(|name| name == WORKER);
            if worker {
                LAST_PANIC.set(panic.location().map(ToString::to_string));
            }
            if !worker || std::env::var_os("RUST_BACKTRACE").is_some() {
                usual(panic);
            }
        }));
    });
}

/// Runs cases, which must catch their panics, until the budget ends or `take` breaks. Passes each
/// result to `take`, one at a time, in the order in which the cases end. `repeat` returns the
/// command that repeats a case, for the message about one that hangs.
///
/// # Panics
/// If a thread cannot be started.
pub fn run_cases<T: Send>(
    budget: Budget,
    run: impl Fn(u64) -> T + Sync,
    take: impl FnMut(Done<T>) -> ControlFlow<()> + Send,
    repeat: impl Fn(u64) -> String,
) {
    remember_panics();
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
    let stopped = AtomicBool::new(false);
    let take = Mutex::new(take);
    let running: Vec<Arc<RunningCase>> = (0..workers).map(|_| Arc::default()).collect();
    let finished = (Mutex::new(0), Condvar::new());
    std::thread::scope(|scope| {
        for current in &running {
            let worker = || {
                let _end = CountEnd { current, finished: &finished };
                RUNNING.set(Some(current.clone()));
                loop {
                    let now = SystemClock.monotonic();
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id >= end || now >= deadline || stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    *current.lock() = Some((id, now));
                    LAST_PANIC.set(None);
                    let result = run(id);
                    let time = SystemClock.monotonic().saturating_sub(now);
                    *current.lock() = None;
                    if take.lock()(Done { id, result, panicked_at: LAST_PANIC.take(), time }).is_break() {
                        stopped.store(true, Ordering::Relaxed);
                    }
                }
            };
            std::thread::Builder::new().name(WORKER.into()).spawn_scoped(scope, worker).expect("a thread");
        }
        watch(&running, &finished, repeat);
    });
}

/// Counts a worker when it ends, also by a panic.
struct CountEnd<'a> {
    current: &'a RunningCase,
    finished: &'a (Mutex<usize>, Condvar),
}

impl Drop for CountEnd<'_> {
    fn drop(&mut self) {
        *self.current.lock() = None;
        *self.finished.0.lock() += 1;
        self.finished.1.notify_all();
    }
}

/// Waits for all workers; ends the process if one hangs.
fn watch(running: &[Arc<RunningCase>], finished: &(Mutex<usize>, Condvar), repeat: impl Fn(u64) -> String) {
    let mut count = finished.0.lock();
    while *count < running.len() {
        finished.1.wait_for(&mut count, Duration::from_secs(1));
        let now = SystemClock.monotonic();
        for (id, since) in running.iter().filter_map(|current| *current.lock()) {
            if now.saturating_sub(since) > HANGING {
                eprintln!("case {id} hangs: {}", repeat(id));
                std::process::abort();
            }
        }
    }
}
