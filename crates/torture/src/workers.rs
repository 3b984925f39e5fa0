//! Many cases: numbered, on all processors, until the budget ends, with a watchdog.
//!
//! A case that panics is reported with the place of the panic ([`Done::place`]); one that hangs
//! ends the process, after the command that repeats it.

use spindle_clock::{Clock, Condvar, Mutex, SystemClock};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a case may go without a [`pulse`] before it counts as hanging. It takes milliseconds,
/// and more on a busy machine.
const HANGING: Duration = Duration::from_secs(60);
const WORKER: &str = "torture worker";

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

/// A case that came back.
pub struct Done<T> {
    /// Its number.
    pub id: u64,
    /// What it gave.
    pub result: T,
    /// Where it panicked last, caught or not.
    pub place: Option<String>,
    /// How long it took.
    pub time: Duration,
}

/// What one worker is at, for the watchdog: the case, and when it began or had its last pulse.
type Post = Mutex<Option<(u64, Duration)>>;

thread_local! {
    /// Where this thread panicked last.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Where this thread is on watch.
    static POST: RefCell<Option<Arc<Post>>> = const { RefCell::new(None) };
}

/// Notes for the watchdog that the case of this thread goes on: a long one calls it after each of
/// its steps.
pub fn pulse() {
    POST.with_borrow(|post| {
        if let Some((_, since)) =
            post.as_ref().map(|post| post.lock()).as_deref_mut().and_then(Option::as_mut)
        {
            *since = SystemClock.monotonic();
        }
    });
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
            }
            if !worker || std::env::var_os("RUST_BACKTRACE").is_some() {
                usual(panic);
            }
        }));
    });
}

/// Runs cases, which catch their panics, and passes what they give to `take`, one at a time and in
/// the order in which they end, until it breaks or the budget ends. `repeat` gives the command that
/// repeats a case, for one that hangs.
///
/// # Panics
/// If a thread cannot be started.
pub fn work<T: Send>(
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
    let posts: Vec<Arc<Post>> = (0..workers).map(|_| Arc::default()).collect();
    let finished = (Mutex::new(0), Condvar::new());
    std::thread::scope(|scope| {
        for post in &posts {
            let worker = || {
                let _end = End { post, finished: &finished };
                POST.set(Some(post.clone()));
                loop {
                    let now = SystemClock.monotonic();
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id >= end || now >= deadline || stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    *post.lock() = Some((id, now));
                    PLACE.set(None);
                    let result = run(id);
                    let time = SystemClock.monotonic().saturating_sub(now);
                    *post.lock() = None;
                    if take.lock()(Done { id, result, place: PLACE.take(), time }).is_break() {
                        stopped.store(true, Ordering::Relaxed);
                    }
                }
            };
            std::thread::Builder::new().name(WORKER.into()).spawn_scoped(scope, worker).expect("a thread");
        }
        watch(&posts, &finished, repeat);
    });
}

/// Counts a worker that has ended, in whatever way.
struct End<'a> {
    post: &'a Post,
    finished: &'a (Mutex<usize>, Condvar),
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.post.lock() = None;
        *self.finished.0.lock() += 1;
        self.finished.1.notify_all();
    }
}

/// Waits for all workers; ends the process if one hangs.
fn watch(posts: &[Arc<Post>], finished: &(Mutex<usize>, Condvar), repeat: impl Fn(u64) -> String) {
    let mut count = finished.0.lock();
    while *count < posts.len() {
        finished.1.wait_for(&mut count, Duration::from_secs(1));
        let now = SystemClock.monotonic();
        for (id, since) in posts.iter().filter_map(|post| *post.lock()) {
            if now.saturating_sub(since) > HANGING {
                eprintln!("case {id} hangs: {}", repeat(id));
                std::process::abort();
            }
        }
    }
}
