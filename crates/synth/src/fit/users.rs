//! Measures when users are active and how soon one burst follows another.
//!
//! The one idea: a user is present from one burst to the next as long as the gap is short. The
//! number of users present follows the Erlang loss system (Erlang, 1917) with one place per user,
//! because synthetic users arrive at random, but only those who are absent. A user who is always
//! present therefore needs no special rule: it just arrives often.

use super::super::distribution::Distribution;
use super::super::model::Users;
use super::MAIN_VALUES;
use super::sketch::{Sketch, short};
use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
/// Idle time after which a user counts as absent, in ns.
const AWAY: i64 = 600 * SECOND;
/// Hour of the day at which synthetic traces begin.
const BEGIN: usize = 8;

/// Activity of one account.
#[derive(Debug)]
struct AccountActivity {
    since: i64,
    last: i64,
    bursts: u64,
    /// Lengths of its sessions, and its pauses between bursts, in ns.
    sessions: Sketch,
    think: Sketch,
}

/// Activity of all accounts.
#[derive(Debug, Default)]
pub struct UserActivity {
    users: HashMap<u32, AccountActivity, RandomState>,
    hours: [u64; 24],
    span: Option<(i64, i64)>,
}

#[allow(clippy::cast_precision_loss)] // Times and rates.
impl UserActivity {
    /// Records that the trace has an event at this time.
    pub fn time(&mut self, time: i64) {
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
    }

    /// Records that a burst of a user begins.
    pub fn burst(&mut self, user: u32, time: i64) {
        let since = self.span.map_or(0, |(first, _)| time - first);
        self.hours[usize::try_from(since / HOUR).unwrap_or(0) % 24] += 1;
        let Some(known) = self.users.get_mut(&user) else {
            let (sessions, think) = (Sketch::default(), Sketch::default());
            self.users.insert(user, AccountActivity { since: time, last: time, bursts: 1, sessions, think });
            return;
        };
        known.bursts += 1;
        let gap = time - known.last;
        if gap > AWAY {
            let length = known.last - known.since;
            known.sessions.add(length.try_into().unwrap_or(0));
            known.since = time;
        } else {
            known.think.add(gap.try_into().unwrap_or(0));
        }
        known.last = known.last.max(time);
    }

    /// Returns the time from the first to the last event in ns; one second if that is 0.
    pub fn length(&self) -> i64 {
        self.span.map(|(first, last)| last - first).filter(|&length| length > 0).unwrap_or(SECOND)
    }

    /// Returns the length of the trace in hours.
    pub fn hours(&self) -> f64 {
        self.length() as f64 / HOUR as f64
    }

    /// Returns the number of bursts of an account.
    pub fn bursts(&self, account: u32) -> u64 {
        self.users.get(&account).map_or(0, |known| known.bursts)
    }

    /// Returns the number of accounts.
    pub fn accounts(&self) -> usize {
        self.users.len()
    }

    /// Returns the users of a model, without the accounts in `others`.
    pub fn finish(mut self, others: &BTreeSet<u32>) -> Users {
        let length = self.length();
        self.users.retain(|account, _| !others.contains(account));
        let (mut sessions, mut thinks) = (Sketch::default(), Sketch::default());
        for known in self.users.values_mut() {
            known.sessions.add((known.last - known.since).try_into().unwrap_or(0));
            sessions.merge(&known.sessions);
            thinks.merge(&known.think);
        }
        let think = thinks.mean().max(1.0);
        let visits = sessions.count().max(1) as f64;
        let count = u32::try_from(self.users.len()).unwrap_or(u32::MAX).max(1);
        // A session ends with the last action of its user: add one average pause, but do not go
        // beyond the length of the trace.
        let present = visits * (sessions.mean() + think);
        let present = present.min(length as f64 * f64::from(count) * 0.99);
        let offered = offered(count, present / length as f64);
        let mean = present / visits;
        let day = self.day(length);
        let peak = day.iter().sum::<f64>() / 24.0;
        let session = if f64::from(count) * length as f64 * 0.5 < present {
            // Users who are present nearly all the time stay to the end.
            Distribution::Fixed(short(length as f64 / 1e9))
        } else {
            sessions.reduce(MAIN_VALUES, 1e9).unwrap_or(Distribution::Fixed(0.0))
        };
        let stays = if let Distribution::Fixed(seconds) = session { seconds * 1e9 } else { mean };
        Users {
            source: "measured".into(),
            count,
            inequality: self.inequality(),
            arrivals_per_hour: short(offered / stays.max(1.0) * HOUR as f64 / peak),
            day,
            session,
            think: thinks.reduce(MAIN_VALUES, 1e9).unwrap_or(Distribution::Fixed(short(length as f64 / 1e9))),
            login: None,
        }
    }

    /// Returns the relative activity in each hour of the day, or a flat day if the trace is shorter
    /// than a day. The trace is taken to begin at the hour at which synthetic traces begin.
    fn day(&self, length: i64) -> Vec<f64> {
        if length < 23 * HOUR + HOUR / 2 {
            return vec![1.0; 24];
        }
        // Number of times that the trace covers each hour.
        let mut day = [0.0; 24];
        for (hour, &bursts) in self.hours.iter().enumerate() {
            let begin = i64::try_from(hour).unwrap_or(0) * HOUR;
            let days = (length - begin) / (24 * HOUR);
            let rest = ((length - begin) % (24 * HOUR)).min(HOUR);
            let seen = days as f64 + rest.max(0) as f64 / HOUR as f64;
            day[(hour + BEGIN) % 24] = bursts as f64 / seen.max(0.5);
        }
        let most = day.iter().copied().fold(1e-9, f64::max);
        day.iter().map(|part| short(part / most)).collect()
    }

    /// Returns the exponent of activity over the rank of a user.
    fn inequality(&self) -> f64 {
        let mut bursts: Vec<f64> = self.users.values().map(|known| known.bursts as f64).collect();
        bursts.sort_by(|a, b| b.total_cmp(a));
        let points: Vec<(f64, f64)> =
            (1..).zip(bursts).map(|(rank, n): (u32, f64)| (f64::from(rank).ln(), n.ln())).collect();
        let n = points.len() as f64;
        let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / n, sum.1 + point.1 / n));
        let (xy, xx) = points.iter().fold((0.0, 0.0), |sum, point| {
            (sum.0 + (point.0 - x) * (point.1 - y), sum.1 + (point.0 - x).powi(2))
        });
        if xx > 0.0 { short((-xy / xx).clamp(0.0, 3.0)) } else { 0.0 }
    }
}

/// Returns the load offered to `places` places so that `carried` of them are taken on average:
/// inverts Erlang's formula by bisection.
fn offered(places: u32, carried: f64) -> f64 {
    let (mut low, mut high) = (0.0, 200.0 * f64::from(places));
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let lost = (1..=places).fold(1.0, |lost, n| middle * lost / (f64::from(n) + middle * lost));
        if middle * (1.0 - lost) < carried {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}
