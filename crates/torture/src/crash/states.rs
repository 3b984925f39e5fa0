//! The states of a medium after a power cut: which of the writes since the last flush reached it,
//! and which parts of them.
//!
//! All writes that had ended before a completed flush are on the medium. The writes after it are
//! the *window*: any of them may be there or not; a sector is there wholly or not at all; writes
//! that were in flight together may have arrived in any order. For windows of up to [`EXHAUSTIVE`]
//! writes all subsets of whole writes are made, for larger ones a sample.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::fmt;

/// Largest number of writes in a window for which all subsets are made.
pub const EXHAUSTIVE: usize = 4;

/// The part of a write that reached the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// This many sectors at its start.
    First(usize),
    /// This many sectors at its end.
    Last(usize),
    /// Every other sector, beginning with the first.
    Even,
    /// Every other sector, beginning with the second.
    Odd,
    /// About half of the sectors, at random with this seed.
    Random(u64),
}

impl Part {
    /// Returns true if sector `n` of `sectors` is in the part.
    #[must_use]
    pub const fn has(self, n: usize, sectors: usize) -> bool {
        match self {
            Self::Whole => true,
            Self::First(count) => n < count,
            Self::Last(count) => n + count >= sectors,
            Self::Even => n.is_multiple_of(2),
            Self::Odd => !n.is_multiple_of(2),
            Self::Random(seed) => {
                let mixed = (seed ^ n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 63 == 0
            }
        }
    }
}

/// A write that reached the medium, at least in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Its number in the window.
    pub write: usize,
    /// The part that reached the medium.
    pub part: Part,
}

/// The fate of a window: the writes that reached the medium, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State(pub Vec<Pick>);

impl State {
    fn of(writes: impl IntoIterator<Item = usize>) -> Self {
        Self(writes.into_iter().map(|write| Pick { write, part: Part::Whole }).collect())
    }

    fn with(mut self, write: usize, part: Part) -> Self {
        self.0.retain(|pick| pick.write != write);
        let index = self.0.iter().position(|pick| pick.write > write).unwrap_or(self.0.len());
        self.0.insert(index, Pick { write, part });
        self
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, pick) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            match pick.part {
                Part::Whole => write!(f, "{comma}{}", pick.write)?,
                part => write!(f, "{comma}{} {part:?}", pick.write)?,
            }
        }
        Ok(())
    }
}

/// A write of a window.
#[derive(Clone, Copy, Debug)]
pub struct WindowWrite {
    /// Byte on the device.
    pub offset: u64,
    /// Length in sectors.
    pub sectors: usize,
    /// The write was in flight together with the writes after it up to this number (exclusive).
    pub in_flight_until: usize,
}

impl WindowWrite {
    const fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.offset + other.sectors as u64 * 512
            && other.offset < self.offset + self.sectors as u64 * 512
    }
}

/// Returns the parts of a torn write of `sectors`.
fn torn_parts(sectors: usize, rng: &mut SmallRng) -> Vec<Part> {
    let mut parts = match sectors {
        0 | 1 => vec![],
        2 => vec![Part::First(1), Part::Last(1)],
        _ => vec![
            Part::First(1),
            Part::First(sectors / 2),
            Part::First(sectors - 1),
            Part::Last(1),
            Part::Last(sectors - 1),
            Part::Even,
            Part::Odd,
            Part::Random(rng.random()),
        ],
    };
    parts.dedup();
    parts
}

/// Returns the states to check after the last write of `window` was submitted: the plainest, and
/// others at random, at most `most`. The same arguments give the same states.
#[must_use]
pub fn states(window: &[WindowWrite], seed: u64, most: usize) -> Vec<State> {
    let rng = &mut SmallRng::seed_from_u64(seed);
    let n = window.len();
    let all = || State::of(0..n);
    let mut plain = vec![all()];
    let mut others = Vec::new();
    if n <= EXHAUSTIVE {
        let subsets = 0..(1_usize << n) - 1;
        plain.extend(subsets.map(|set| State::of((0..n).filter(|write| set >> write & 1 == 1))));
    } else {
        plain.push(State::default());
        plain.extend([State::of(0..n - 1), State::of([n - 1])]);
        for one in 0..n {
            others.push(State::of((0..n).filter(|&write| write != one)));
            others.push(State::of([one]));
            others.push(State::of(0..one));
            others.push(State::of(one + 1..n));
        }
        for _ in 0..n.max(16) {
            others.push(State::of((0..n).filter(|_| rng.random())));
        }
    }
    for (write, shape) in window.iter().enumerate() {
        for part in torn_parts(shape.sectors, rng) {
            others.push(all().with(write, part));
            others.push(State::default().with(write, part));
        }
    }
    if n > 1 {
        for _ in 0..8 {
            let torn = (0..n).filter(|_| rng.random_bool(0.75)).collect::<Vec<_>>();
            let picks =
                torn.into_iter().map(|write| Pick { write, part: Part::Random(rng.random()) }).collect();
            others.push(State(picks));
        }
    }
    for (first, shape) in window.iter().enumerate() {
        for (second, other) in window.iter().enumerate().take(shape.in_flight_until).skip(first + 1) {
            if shape.overlaps(other) {
                let order = (0..n).filter(|&write| write != first);
                let mut state = State::of(order);
                let index = state.0.iter().position(|pick| pick.write == second).unwrap_or(0);
                state.0.insert(index + 1, Pick { write: first, part: Part::Whole });
                plain.push(state);
            }
        }
    }
    let left = most.saturating_sub(plain.len());
    if others.len() > left {
        others.shuffle(rng);
        others.truncate(left);
    }
    plain.truncate(most);
    plain.append(&mut others);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(n: usize, sectors: usize) -> Vec<WindowWrite> {
        (0..n).map(|at| WindowWrite { offset: at as u64 * 65536, sectors, in_flight_until: at + 1 }).collect()
    }

    /// Promise: small windows have all subsets; every window has the states with all writes, with
    /// none, and with each write missing or torn; the limit holds; the same arguments give the same
    /// states.
    #[test]
    fn small_windows_are_exhausted() {
        let four = states(&window(4, 1), 1, 1000);
        for set in 0..16_usize {
            let state = State::of((0..4).filter(|write| set >> write & 1 == 1));
            assert!(four.contains(&state), "{state}");
        }
        let seven = states(&window(7, 8), 1, 1000);
        assert!(seven.contains(&State::default()) && seven.contains(&State::of(0..7)));
        for write in 0..7 {
            assert!(seven.contains(&State::of((0..7).filter(|&other| other != write))));
            assert!(seven.contains(&State::of(0..7).with(write, Part::Even)));
        }
        assert_eq!(states(&window(7, 8), 1, 20).len(), 20);
        assert_eq!(states(&window(7, 8), 3, 50), states(&window(7, 8), 3, 50));
    }

    /// Promise: two writes of the same bytes are reordered only if they were in flight together.
    #[test]
    fn only_writes_in_flight_are_reordered() {
        let swapped = State::of([1, 0]);
        let mut two = window(2, 8);
        two[1].offset = 0;
        assert!(!states(&two, 1, 1000).contains(&swapped));
        two[0].in_flight_until = 2;
        assert!(states(&two, 1, 1000).contains(&swapped));
    }
}
