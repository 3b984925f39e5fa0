//! The clock of a simulated host: virtual time, and one processor that work occupies.
//!
//! Work takes the processor in the order in which it arrives; an interrupt delays the work that
//! comes next. Time that nobody waits for does not pass.

use crate::scheduler::{Core, Simulation};
use crate::time::Time;
use spindle_clock::{Clock, Mutex, Timestamp, Work};
use std::sync::Arc;
use std::time::Duration;

/// What the time between two moments was spent on.
#[derive(Clone, Copy, Debug, Default)]
struct Processor {
    /// When the work taken on so far will be done.
    free_at: Time,
    /// Time worked.
    busy: Time,
}

type Price = dyn Fn(Work) -> Time + Send + Sync;

/// The clock and the processor of a simulated host.
pub struct HostClock {
    core: Arc<Core>,
    processor: Mutex<Processor>,
    price: Box<Price>,
}

impl HostClock {
    /// Seconds from 1970 to the moment at which simulations start: the first of January 1984.
    pub const EPOCH: i64 = 441_763_200;

    /// Returns the clock of a host on which each work takes as long as `price` says.
    pub fn new(simulation: &Simulation, price: impl Fn(Work) -> Time + Send + Sync + 'static) -> Self {
        Self { core: simulation.core().clone(), processor: Mutex::default(), price: Box::new(price) }
    }

    /// Returns the time that the processor has worked.
    #[must_use]
    pub fn busy(&self) -> Time {
        self.processor.lock().busy
    }

    /// Takes the processor for an interrupt, and gives the time at which it has been served. Does
    /// not wait.
    pub(crate) fn interrupt(&self) -> Time {
        let cost = (self.price)(Work::Interrupt);
        let now = self.core.now();
        let mut processor = self.processor.lock();
        processor.free_at = processor.free_at.max(now) + cost;
        processor.busy += cost;
        now + cost
    }
}

impl Clock for HostClock {
    fn now(&self) -> Timestamp {
        let now = self.core.now();
        let secs = i64::try_from(now.0 / 1_000_000_000).unwrap_or(i64::MAX);
        let nanos = u32::try_from(now.0 % 1_000_000_000).unwrap_or(0);
        Timestamp::new(Self::EPOCH.saturating_add(secs), nanos)
    }

    fn monotonic(&self) -> Duration {
        self.core.now().into()
    }

    fn sleep(&self, time: Duration) {
        self.core.pass_time(time.into());
    }

    fn work(&self, work: Work) {
        let cost = (self.price)(work);
        if cost == Time::ZERO {
            return;
        }
        let now = self.core.now();
        let done = {
            let mut processor = self.processor.lock();
            processor.free_at = processor.free_at.max(now) + cost;
            processor.busy += cost;
            processor.free_at
        };
        self.core.pass_time(done - now);
    }
}
