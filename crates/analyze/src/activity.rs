//! Activity of users and their throughput (1985 paper, Table IV).
//!
//! Time is divided into windows, beginning at the first event. A user is active in a window that
//! has an event of that user; the bytes of a run belong to the window of the event that ends it.
//! Only whole windows count: the last, unfinished one does not.
//!
//! The paper does not mention *windows without an active user*, but its figures imply how it counts
//! them. If windows were averaged over pairs of user and window, or if windows without a user were
//! left out of the throughput per user, then users times throughput per user would be about the
//! throughput over the whole trace, or more. Over ten minutes, where some user is always active, it
//! is (1.03, 1.03 and 1.07 times for A5, E3 and C4); over ten seconds it is 0.89, 0.90 and 0.77 of
//! it. So the paper averages over windows, and a window without users counts as 0 users with 0
//! bytes per user: 11, 10 and 23 % of the windows were like that, most on the machine with the
//! fewest users. This module does the same.

use super::parts::{Count, InOrder, Most, Numbers, Part, Read, Reader, Whole, parts, real};
use foldhash::fast::RandomState;
use serde::Serialize;
use spindle_trace::Event;
use std::collections::{BTreeSet, HashMap};

/// The two lengths of windows in ns: ten minutes and ten seconds.
pub const LENGTHS: [i64; 2] = [600 * 1_000_000_000, 10 * 1_000_000_000];

/// Activity of users.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Activity {
    /// Number of different users.
    pub users: u64,
    /// Over windows of ten minutes.
    pub minutes: Windows,
    /// Over windows of ten seconds.
    pub seconds: Windows,
}

/// Statistics of the windows of one length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Windows {
    /// Number of whole windows.
    pub count: u64,
    /// Number of windows without an active user.
    pub idle: u64,
    /// Maximum number of active users in a window.
    pub most: u64,
    /// Active users per window.
    pub active: Moments,
    /// Bytes per second per active user: the bytes of a window divided by its length and its active
    /// users, or 0 without users.
    pub throughput: Moments,
    /// Maximum number of bytes per second in a window.
    pub peak: f64,
}

/// Mean and standard deviation of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Moments {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the windows themselves (not an estimate from a sample).
    pub deviation: f64,
}

/// Running sums for [`Moments`] by Welford's method, which keeps small deviations of large values
/// exact.
#[derive(Clone, Copy, Debug, Default)]
struct RunningMoments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl RunningMoments {
    /// Adds a value `times` times.
    fn add(&mut self, value: f64, times: f64) {
        if times > 0.0 {
            self.count += times;
            let off = value - self.mean;
            self.mean += off * times / self.count;
            self.squares += off * (value - self.mean) * times;
        }
    }

    /// Adds the values of another series (Chan et al., "Updating Formulae and a Pairwise Algorithm
    /// for Computing Sample Variances", 1979).
    fn append(&mut self, other: Self) {
        let count = self.count + other.count;
        if count > 0.0 {
            let off = other.mean - self.mean;
            self.mean += off * other.count / count;
            self.squares += other.squares + off * off * self.count * other.count / count;
            self.count = count;
        }
    }

    fn moments(&self) -> Moments {
        let variance = if self.count > 0.0 { (self.squares / self.count).max(0.0) } else { 0.0 };
        Moments { mean: self.mean, deviation: variance.sqrt() }
    }
}

impl Part for RunningMoments {
    fn merge(&mut self, other: &Self) {
        self.append(*other);
    }

    fn write(&self, out: &mut Vec<u8>) {
        for value in [self.count, self.mean, self.squares] {
            real(value, out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<Self> {
        Ok(Self { count: from.real()?, mean: from.real()?, squares: from.real()? })
    }
}

/// [`Activity`] before the averages, which would not merge to the last bit: the moments of each
/// trace stay apart.
#[derive(Clone, Debug)]
pub(super) struct ActivitySums {
    users: BTreeSet<u32>,
    minutes: WindowSums,
    seconds: WindowSums,
}

parts!(ActivitySums { users: Numbers, minutes: Whole, seconds: Whole });

impl ActivitySums {
    pub(super) fn activity(&self) -> Activity {
        let users = self.users.len() as u64;
        Activity { users, minutes: self.minutes.windows(), seconds: self.seconds.windows() }
    }
}

/// [`Windows`] before the averages.
#[derive(Clone, Debug)]
struct WindowSums {
    count: u64,
    idle: u64,
    most: u64,
    active: Vec<RunningMoments>,
    throughput: Vec<RunningMoments>,
    peak: f64,
}

parts!(WindowSums {
    count: Count,
    idle: Count,
    most: Most,
    active: InOrder,
    throughput: InOrder,
    peak: Most,
});

impl WindowSums {
    fn windows(&self) -> Windows {
        let moments = |traces: &[RunningMoments]| {
            let mut all = RunningMoments::default();
            for trace in traces {
                all.append(*trace);
            }
            all.moments()
        };
        let (active, throughput) = (moments(&self.active), moments(&self.throughput));
        let &Self { count, idle, most, peak, .. } = self;
        Windows { count, idle, most, active, throughput, peak }
    }
}

/// The windows of one length, as events arrive. Events are nearly in order; one that is up to one
/// window late still counts in its own window.
#[derive(Debug)]
struct Series {
    length: i64,
    /// Number of the window of the latest event, its beginning, and the users and bytes of the
    /// window before it and of itself.
    now: i64,
    begin: i64,
    open: [(u64, u64); 2],
    active: RunningMoments,
    throughput: RunningMoments,
    done: Windows,
}

impl Series {
    fn new(length: i64) -> Self {
        let (active, throughput) = (RunningMoments::default(), RunningMoments::default());
        Self { length, now: 0, begin: 0, open: [(0, 0); 2], active, throughput, done: Windows::default() }
    }

    /// Returns the number of the window at a time `since` the beginning.
    fn at(&self, since: i64) -> i64 {
        // Most events lie in the window of the event before; this avoids a division.
        if (0..self.length).contains(&(since - self.begin)) {
            self.now
        } else {
            (since / self.length).max(self.now - 1)
        }
    }

    fn advance(&mut self, to: i64) {
        if to > self.now {
            // Close the window before the current one, then the current one, then the empty ones
            // between.
            let [before, present] = self.open;
            let gone = to - self.now;
            if self.now > 0 {
                self.close(before, 1);
            }
            if gone > 1 {
                self.close(present, 1);
                self.close((0, 0), gone - 2);
                self.open = [(0, 0); 2];
            } else {
                self.open = [present, (0, 0)];
            }
            self.now = to;
            self.begin = to.saturating_mul(self.length);
        }
    }

    #[allow(clippy::cast_precision_loss)] // Averages.
    fn close(&mut self, (users, bytes): (u64, u64), times: i64) {
        let seconds = self.length as f64 / 1e9;
        let rate = bytes as f64 / seconds;
        self.active.add(users as f64, times as f64);
        self.throughput.add(if users > 0 { rate / users as f64 } else { 0.0 }, times as f64);
        let times = times.try_into().unwrap_or(0);
        self.done.count += times;
        self.done.idle += if users == 0 { times } else { 0 };
        self.done.most = self.done.most.max(users);
        self.done.peak = self.done.peak.max(rate);
    }

    /// Returns the sums over all whole windows.
    fn finish(mut self) -> WindowSums {
        if self.now > 0 {
            self.close(self.open[0], 1);
        }
        let Windows { count, idle, most, peak, .. } = self.done;
        WindowSums { count, idle, most, active: vec![self.active], throughput: vec![self.throughput], peak }
    }
}

/// The last window in which a user was active, and whether the user was active in the window before
/// it.
#[derive(Clone, Copy, Debug)]
struct LastActive {
    last: i64,
    before: bool,
}

/// Measures the activity of users.
#[derive(Debug)]
pub(super) struct ActivityMeter {
    series: [Series; 2],
    users: HashMap<u32, [LastActive; 2], RandomState>,
    start: Option<i64>,
}

impl Default for ActivityMeter {
    fn default() -> Self {
        Self { series: LENGTHS.map(Series::new), users: HashMap::default(), start: None }
    }
}

impl ActivityMeter {
    pub(super) fn event(&mut self, event: &Event) {
        let start = *self.start.get_or_insert(event.time);
        let since = event.time.saturating_sub(start).max(0);
        let seen = self.users.entry(event.user).or_insert([LastActive { last: -2, before: false }; 2]);
        for (series, seen) in self.series.iter_mut().zip(seen) {
            let window = series.at(since);
            series.advance(window);
            let place = usize::from(window == series.now);
            let open = &mut series.open[place];
            open.1 = open.1.saturating_add(event.bytes());
            if window > seen.last {
                *seen = LastActive { last: window, before: seen.last == window - 1 };
                open.0 += 1;
            } else if window < seen.last && !seen.before {
                seen.before = true;
                open.0 += 1;
            }
        }
    }

    pub(super) fn finish(self) -> ActivitySums {
        let [minutes, seconds] = self.series.map(Series::finish);
        ActivitySums { users: self.users.into_keys().collect(), minutes, seconds }
    }
}
