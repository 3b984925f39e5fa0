//! Who is active, and how much is moved for them (1985 paper, Table IV).
//!
//! Time is cut into windows, from the first event on. A user is active in a window with any event
//! of theirs; the bytes of a run belong to the window of the event that ends it. Only whole windows
//! count: the last, unfinished one does not.
//!
//! *Windows in which nobody is active* are not mentioned in the paper, but its figures tell. If
//! windows were averaged over pairs of user and window, or if those without a user were left out of
//! the throughput per user, then users times throughput per user would be about the throughput over
//! the whole life, or more. Over ten minutes, where nobody is ever idle, it is (1.03, 1.03 and 1.07
//! times for A5, E3 and C4); over ten seconds it is 0.89, 0.90 and 0.77 of it. So the paper
//! averages over windows, and one without users has 0 users and 0 bytes per user in it: 11, 10 and
//! 23 % of the windows were like that, most on the machine with the fewest users. Here the same is
//! done.

use crate::Event;
use foldhash::fast::RandomState;
use serde::Serialize;
use std::collections::HashMap;

/// The two lengths of windows, in ns: ten minutes, ten seconds.
pub const LENGTHS: [i64; 2] = [600 * 1_000_000_000, 10 * 1_000_000_000];

/// Users and their throughput.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Activity {
    /// Different users.
    pub users: u64,
    /// Over windows of ten minutes.
    pub minutes: Windows,
    /// Over windows of ten seconds.
    pub seconds: Windows,
}

/// What is known of all windows of one length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Windows {
    /// Whole windows.
    pub count: u64,
    /// Those in which nobody was active.
    pub idle: u64,
    /// The most users that were active in one.
    pub most: u64,
    /// Active users.
    pub active: Moments,
    /// Bytes per second per active user: of a window, its bytes over its length and its active
    /// users; 0 if there are none.
    pub throughput: Moments,
    /// The most bytes per second in one.
    pub peak: f64,
}

/// Mean and deviation of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Moments {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation (of the windows themselves, not of an estimate from a sample).
    pub deviation: f64,
}

/// Sums for [`Moments`] about a moving mean (Welford), so that large values do not eat small
/// deviations.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Sums {
    /// Takes a value `times` over.
    fn add(&mut self, value: f64, times: f64) {
        if times > 0.0 {
            self.count += times;
            let off = value - self.mean;
            self.mean += off * times / self.count;
            self.squares += off * (value - self.mean) * times;
        }
    }

    fn moments(&self) -> Moments {
        let variance = if self.count > 0.0 { (self.squares / self.count).max(0.0) } else { 0.0 };
        Moments { mean: self.mean, deviation: variance.sqrt() }
    }
}

/// Windows of one length as time goes by. Events come nearly in order: up to one window late they
/// still count in their own.
#[derive(Debug)]
struct Series {
    length: i64,
    /// The number of the window of the latest event, when it began, and what was in the one before
    /// and in it.
    now: i64,
    begin: i64,
    open: [(u64, u64); 2],
    active: Sums,
    throughput: Sums,
    done: Windows,
}

impl Series {
    fn new(length: i64) -> Self {
        let (active, throughput) = (Sums::default(), Sums::default());
        Self { length, now: 0, begin: 0, open: [(0, 0); 2], active, throughput, done: Windows::default() }
    }

    /// Returns the window of a moment `since` the beginning.
    fn at(&self, since: i64) -> i64 {
        // Most often that of the event before, which is known without a division.
        if (0..self.length).contains(&(since - self.begin)) {
            self.now
        } else {
            (since / self.length).max(self.now - 1)
        }
    }

    fn advance(&mut self, to: i64) {
        if to > self.now {
            // The one before the present is complete, then the present, then those between.
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

    /// Returns what is known of all whole windows.
    fn finish(mut self) -> Windows {
        if self.now > 0 {
            self.close(self.open[0], 1);
        }
        self.done.active = self.active.moments();
        self.done.throughput = self.throughput.moments();
        self.done
    }
}

/// In which of the latest windows a user was active: the last one, and whether in the one before
/// that as well.
#[derive(Clone, Copy, Debug)]
struct Seen {
    last: i64,
    before: bool,
}

/// Adds up activity.
#[derive(Debug)]
pub(super) struct Watch {
    series: [Series; 2],
    users: HashMap<u32, [Seen; 2], RandomState>,
    start: Option<i64>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { series: LENGTHS.map(Series::new), users: HashMap::default(), start: None }
    }
}

impl Watch {
    pub(super) fn event(&mut self, event: &Event) {
        let start = *self.start.get_or_insert(event.time);
        let since = event.time.saturating_sub(start).max(0);
        let seen = self.users.entry(event.user).or_insert([Seen { last: -2, before: false }; 2]);
        for (series, seen) in self.series.iter_mut().zip(seen) {
            let window = series.at(since);
            series.advance(window);
            let place = usize::from(window == series.now);
            let open = &mut series.open[place];
            open.1 = open.1.saturating_add(event.bytes());
            if window > seen.last {
                *seen = Seen { last: window, before: seen.last == window - 1 };
                open.0 += 1;
            } else if window < seen.last && !seen.before {
                seen.before = true;
                open.0 += 1;
            }
        }
    }

    pub(super) fn finish(self) -> Activity {
        let [minutes, seconds] = self.series.map(Series::finish);
        Activity { users: self.users.len() as u64, minutes, seconds }
    }
}
