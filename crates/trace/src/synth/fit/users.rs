//! When users are there, and how soon one bout follows another.
//!
//! The one idea: a user is there from one bout to another as long as they are not far apart. How
//! many users are there at a time is that of a system with a place for each user and loss (Erlang,
//! 1917), because that is what a synthetic machine is: users come at random, but only those that
//! are not there. So a user who is there all the time needs no rule of his own: others would come
//! often.

use super::super::model::Users;
use super::super::spread::Spread;
use super::MORE;
use super::sketch::{Sketch, short};
use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
/// Who did nothing for so long has gone.
const AWAY: i64 = 600 * SECOND;
/// The hour at which synthetic traces begin.
const BEGIN: usize = 8;

/// A user.
#[derive(Debug)]
struct Presence {
    since: i64,
    last: i64,
    bouts: u64,
    /// How long it was there each time, and how long it thought, in ns.
    sessions: Sketch,
    think: Sketch,
}

/// Who is there when.
#[derive(Debug, Default)]
pub struct Watch {
    users: HashMap<u32, Presence, RandomState>,
    hours: [u64; 24],
    span: Option<(i64, i64)>,
}

#[allow(clippy::cast_precision_loss)] // Times and rates.
impl Watch {
    /// The trace has an event then.
    pub fn time(&mut self, time: i64) {
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
    }

    /// A user begins a bout.
    pub fn bout(&mut self, user: u32, time: i64) {
        let since = self.span.map_or(0, |(first, _)| time - first);
        self.hours[usize::try_from(since / HOUR).unwrap_or(0) % 24] += 1;
        let Some(known) = self.users.get_mut(&user) else {
            let (sessions, think) = (Sketch::default(), Sketch::default());
            self.users.insert(user, Presence { since: time, last: time, bouts: 1, sessions, think });
            return;
        };
        known.bouts += 1;
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

    /// From the first to the last event, in ns; a second, if there is only a moment.
    pub fn length(&self) -> i64 {
        self.span.map(|(first, last)| last - first).filter(|&length| length > 0).unwrap_or(SECOND)
    }

    /// Returns the same, in hours.
    pub fn hours(&self) -> f64 {
        self.length() as f64 / HOUR as f64
    }

    /// Returns how many bouts an account had.
    pub fn bouts(&self, account: u32) -> u64 {
        self.users.get(&account).map_or(0, |known| known.bouts)
    }

    /// Returns how many accounts there are.
    pub fn accounts(&self) -> usize {
        self.users.len()
    }

    /// Returns the users of a model, without accounts that are none.
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
        // A session ends with what its user does last: on average a pause of thought later, as far
        // as the trace goes.
        let present = visits * (sessions.mean() + think);
        let present = present.min(length as f64 * f64::from(count) * 0.99);
        let offered = offered(count, present / length as f64);
        let mean = present / visits;
        let day = self.day(length);
        let peak = day.iter().sum::<f64>() / 24.0;
        let session = if f64::from(count) * length as f64 * 0.5 < present {
            // Who is there nearly all the time stays to the end.
            Spread::Fixed(short(length as f64 / 1e9))
        } else {
            sessions.spread(MORE, 1e9).unwrap_or(Spread::Fixed(0.0))
        };
        let stays = if let Spread::Fixed(seconds) = session { seconds * 1e9 } else { mean };
        Users {
            source: "measured".into(),
            count,
            inequality: self.inequality(),
            arrivals_per_hour: short(offered / stays.max(1.0) * HOUR as f64 / peak),
            day,
            session,
            think: thinks.spread(MORE, 1e9).unwrap_or(Spread::Fixed(short(length as f64 / 1e9))),
            login: None,
        }
    }

    /// Returns how much is done in each hour of the day, if the trace knows a day. Its beginning is
    /// the beginning of synthetic traces.
    fn day(&self, length: i64) -> Vec<f64> {
        if length < 23 * HOUR + HOUR / 2 {
            return vec![1.0; 24];
        }
        // How often the trace saw each hour.
        let mut day = [0.0; 24];
        for (hour, &bouts) in self.hours.iter().enumerate() {
            let begin = i64::try_from(hour).unwrap_or(0) * HOUR;
            let days = (length - begin) / (24 * HOUR);
            let rest = ((length - begin) % (24 * HOUR)).min(HOUR);
            let seen = days as f64 + rest.max(0) as f64 / HOUR as f64;
            day[(hour + BEGIN) % 24] = bouts as f64 / seen.max(0.5);
        }
        let most = day.iter().copied().fold(1e-9, f64::max);
        day.iter().map(|part| short(part / most)).collect()
    }

    /// Returns the exponent of what users do over their rank.
    fn inequality(&self) -> f64 {
        let mut bouts: Vec<f64> = self.users.values().map(|known| known.bouts as f64).collect();
        bouts.sort_by(|a, b| b.total_cmp(a));
        let points: Vec<(f64, f64)> =
            (1..).zip(bouts).map(|(rank, n): (u32, f64)| (f64::from(rank).ln(), n.ln())).collect();
        let n = points.len() as f64;
        let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / n, sum.1 + point.1 / n));
        let (xy, xx) = points.iter().fold((0.0, 0.0), |sum, point| {
            (sum.0 + (point.0 - x) * (point.1 - y), sum.1 + (point.0 - x).powi(2))
        });
        if xx > 0.0 { short((-xy / xx).clamp(0.0, 3.0)) } else { 0.0 }
    }
}

/// Returns what must be offered to so many places that `carried` of them are taken on average:
/// Erlang's formula, turned round by halving.
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
