//! Where the thread of a ring runs, and where the programs that it wakes do.
//!
//! A request is answered soonest on the CPU of the program that waits for it: to switch to a thread
//! there takes a few microseconds, to wake one on another CPU that sleeps several times as long. So
//! the thread stays on the CPU of its queue ([`Placement::new`]). And while it hands in an answer,
//! it has the policy `SCHED_IDLE` ([`Placement::hand_over`]): the scheduler then counts its CPU as
//! free, and the program that the answer wakes runs there at once, in place of the thread, which
//! has nothing else to do. Of a thread with the usual policy it takes the CPU for busy, and moves
//! the program to another one.
//!
//! The price is that such a thread hardly gets its CPU if others want it. So it has the usual
//! policy while it answers what can take long ([`Pace::Long`]), and watches how long it waits for
//! its turn; if that is too long, it keeps the usual policy for a while, twice as long each time.
//! To return to that takes a privilege (`CAP_SYS_NICE`, or `RLIMIT_NICE`); who lacks it keeps it
//! always.
//!
//! A program that reads a file in order does not wait: it works on what it has, while the kernel
//! asks for what follows ([`Pace::Ahead`]). That is answered best on another CPU, so for a moment
//! the thread runs wherever the scheduler wants.

use crate::queue::Queue;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use spindle_clock::{Clock, SystemClock};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks at how long the thread has waited.
const LOOK: Duration = Duration::from_millis(1);
/// The longest that a request may wait for the thread's turn, on average since the last look.
const PATIENCE: Duration = Duration::from_micros(300);
/// How long the thread may run on all CPUs after it was asked for something ahead.
const ROAM: Duration = Duration::from_millis(20);
/// How long the thread keeps the usual policy, the first time and at most.
const PAUSE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(64)];

/// What the answer to a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Some tens of microseconds of the processor, for which a program waits.
    Short,
    /// Perhaps more.
    Long,
    /// Perhaps more, and the program probably goes on meanwhile.
    Ahead,
}

/// The placement of a thread.
pub struct Placement {
    clock: Arc<dyn Clock>,
    /// The CPU of the queue, if the thread may run there, and all on which it may run.
    cpus: Option<[CpuSet; 2]>,
    /// Until then it may run on all.
    roams_until: Option<Duration>,
    /// None if the thread always keeps the policy that it has.
    yielding: Option<Yielding>,
}

struct Yielding {
    /// The `schedstat` of the thread: nanoseconds that it ran and waited for its turn, and turns.
    schedstat: File,
    is_idle: bool,
    requests: u32,
    looked: Duration,
    waited: Duration,
    /// The usual policy stays until then.
    paused_until: Option<Duration>,
    pause: Duration,
}

impl std::fmt::Debug for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Placement").field("cpus", &self.cpus).finish_non_exhaustive()
    }
}

impl Placement {
    /// Keeps the calling thread on the CPU of a queue, if it may run there.
    pub(crate) fn new(queue: &Queue) -> Self {
        let number = usize::from(queue.number);
        let all = sched_getaffinity(None).ok();
        // The user may have kept the daemon from a CPU, and one that is off asks nothing.
        let all = all.filter(|all| number < CpuSet::MAX_CPU && all.is_set(number));
        let cpus = all.and_then(|all| {
            let mut own = CpuSet::new();
            own.set(number);
            sched_setaffinity(None, &own).is_ok().then_some([own, all])
        });
        Self { clock: Arc::new(SystemClock), cpus, roams_until: None, yielding: Yielding::new() }
    }

    /// Prepares to answer a request, and notes how long it has waited.
    pub(crate) fn take_over(&mut self) {
        if let Some(yielding) = &mut self.yielding {
            yielding.note_request(self.clock.monotonic());
        }
    }

    /// Declares what the answer to the present request takes.
    pub fn expect(&mut self, pace: Pace) {
        if let Some(yielding) = &mut self.yielding
            && pace != Pace::Short
        {
            yielding.set_idle(false);
        }
        if let Some([_, all]) = &self.cpus
            && pace == Pace::Ahead
            && (self.roams_until.is_some() || sched_setaffinity(None, all).is_ok())
        {
            self.roams_until = Some(self.clock.monotonic() + ROAM);
        }
    }

    /// Prepares to hand in answers and to wait.
    pub(crate) fn hand_over(&mut self) {
        let is_over = |until: Option<Duration>| until.is_none_or(|until| self.clock.monotonic() >= until);
        if let (Some(_), Some([own, _])) = (self.roams_until, &self.cpus) {
            if !is_over(self.roams_until) || sched_setaffinity(None, own).is_err() {
                return;
            }
            self.roams_until = None;
        }
        if let Some(yielding) = &mut self.yielding
            && is_over(yielding.paused_until)
        {
            yielding.set_idle(true);
        }
    }
}

impl Yielding {
    fn new() -> Option<Self> {
        // Another thread finds out whether there is a way back.
        let can_return = || policy::is_usual() && policy::set_idle(true) && policy::set_idle(false);
        if !std::thread::spawn(can_return).join().unwrap_or(false) {
            return None;
        }
        Self::with(File::open("/proc/thread-self/schedstat").ok()?)
    }

    fn with(schedstat: File) -> Option<Self> {
        let mut yielding = Self {
            schedstat,
            is_idle: false,
            requests: 0,
            looked: Duration::ZERO,
            waited: Duration::ZERO,
            paused_until: None,
            pause: PAUSE[0],
        };
        yielding.waited = yielding.time_waited()?;
        Some(yielding)
    }

    fn set_idle(&mut self, idle: bool) {
        if self.is_idle != idle && policy::set_idle(idle) {
            self.is_idle = idle;
        }
    }

    /// Notes a request at the time `now`, and looks now and then how long requests have waited.
    fn note_request(&mut self, now: Duration) {
        self.requests += 1;
        if now < self.looked + LOOK {
            return;
        }
        let waited = self.time_waited();
        // Who cannot see how long requests wait must not let them.
        let is_long =
            waited.is_none_or(|waited| waited.saturating_sub(self.waited) > PATIENCE * self.requests);
        if self.is_idle && is_long {
            self.set_idle(false);
            self.paused_until = Some(now + self.pause);
            self.pause = (self.pause * 2).min(PAUSE[1]);
        } else if self.paused_until.is_some_and(|until| now > until + self.pause) {
            self.pause = PAUSE[0];
        }
        (self.looked, self.waited, self.requests) = (now, waited.unwrap_or(self.waited), 0);
    }

    /// Returns how long the thread has waited for its turn since it began; none if the system does
    /// not say.
    fn time_waited(&self) -> Option<Duration> {
        let mut text = [0; 64];
        let len = self.schedstat.read_at(&mut text, 0).ok()?;
        let waited = std::str::from_utf8(&text[..len]).ok()?.split_ascii_whitespace().nth(1)?;
        Some(Duration::from_nanos(waited.parse().ok()?))
    }
}

/// The policy of the scheduler for the calling thread.
mod policy {
    #![allow(unsafe_code)] // Calls with plain numbers.

    /// Returns true if it is the usual one.
    pub(super) fn is_usual() -> bool {
        // SAFETY: 0 is the calling thread.
        unsafe { libc::sched_getscheduler(0) == libc::SCHED_OTHER }
    }

    /// Makes it `SCHED_IDLE`, or the usual one. Returns true on success.
    pub(super) fn set_idle(idle: bool) -> bool {
        let policy = if idle { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread, and the parameters live through the call.
        unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_clock::ManualClock;

    /// Returns what `test` does in a thread of its own.
    fn in_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    /// Promise: a thread has `SCHED_IDLE` from when it hands over until an answer can take long,
    /// and not if it could not return. It stays on one CPU, except for a moment after it was asked
    /// for something ahead.
    #[test]
    fn threads_yield_while_they_wait() {
        in_thread(|| {
            let mut placement = Placement::new(&crate::queues().unwrap()[0]);
            assert!(policy::is_usual());
            placement.hand_over();
            assert_eq!(policy::is_usual(), placement.yielding.is_none());
            placement.take_over();
            placement.expect(Pace::Short);
            assert_eq!(policy::is_usual(), placement.yielding.is_none());
            placement.expect(Pace::Long);
            assert!(policy::is_usual());
            let cpus = || sched_getaffinity(None).unwrap();
            let [own, all] = placement.cpus.expect("the first CPU may be used");
            assert!(cpus() == own);
            let clock = Arc::new(ManualClock::at(0));
            placement.clock = Arc::clone(&clock) as _;
            placement.expect(Pace::Ahead);
            placement.hand_over();
            assert!(cpus() == all && policy::is_usual());
            clock.advance(1);
            placement.hand_over();
            assert!(cpus() == own);
        });
    }

    /// Promise: a thread runs on no CPU from which the user has kept the program.
    #[test]
    fn forbidden_cpus_are_not_used() {
        in_thread(|| {
            let mut only = CpuSet::new();
            only.set(0);
            sched_setaffinity(None, &only).unwrap();
            for queue in crate::queues().unwrap() {
                Placement::new(&queue).expect(Pace::Ahead);
                assert!(sched_getaffinity(None).unwrap() == only);
            }
        });
    }

    /// Promise: if requests have waited for their turn too long, the thread keeps the usual policy
    /// for a while, and then for twice as long; short waits change nothing.
    #[test]
    fn threads_that_starve_stop_yielding() {
        if Yielding::new().is_none() {
            eprintln!("skipped: this needs CAP_SYS_NICE");
            assert!(std::env::var_os("CI").is_none(), "tests run as root");
            return;
        }
        in_thread(|| {
            let file = tempfile::NamedTempFile::new().unwrap();
            let set_waited = |time: Duration| {
                std::fs::write(file.path(), format!("5 {} 7\n", time.as_nanos())).unwrap();
            };
            set_waited(Duration::ZERO);
            let mut yielding = Yielding::with(file.reopen().unwrap()).unwrap();
            yielding.pause = Duration::from_secs(8);
            let clock = Arc::new(ManualClock::at(1000));
            let mut placement = Placement::new(&crate::queues().unwrap()[0]);
            placement.clock = Arc::clone(&clock) as _;
            placement.yielding = Some(yielding);
            placement.hand_over();
            let mut waited = Duration::ZERO;
            // A request that has waited for so long, a second after the one before.
            let mut yields_after = |wait: Duration| {
                waited += wait;
                set_waited(waited);
                clock.advance(1);
                placement.take_over();
                placement.hand_over();
                !policy::is_usual()
            };
            let (short, long) = (PATIENCE / 2, PATIENCE * 2);
            for pause in [8, 16] {
                assert!(!yields_after(long));
                assert!((1..pause).all(|_| !yields_after(short)));
                assert!(yields_after(short));
            }
            assert!((0..10).all(|_| yields_after(short)));
            // The system no longer says how long: the thread yields once between two pauses.
            std::fs::write(file.path(), "").unwrap();
            let mut yields = || {
                clock.advance(1);
                placement.take_over();
                placement.hand_over();
                !policy::is_usual()
            };
            assert!((0..200).filter(|_| yields()).count() <= 4);
        });
    }
}
