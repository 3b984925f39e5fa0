//! What a trace asks of storage: which file system, how it is made and mounted, and what that
//! gains.
//!
//! The one idea: advice is the outcome of an experiment. A stretch of the trace that is like the
//! whole (`window`) is replayed by the shipped file systems on a model of the user's disk, once
//! for each of the ways to make and mount one (`candidate`, `simulate`); a search varies one
//! property at a time and ranks what it has seen (`search`).
//!
//! Invariants: the same trace and [`Ground`] give the same advice to the byte. What is within the
//! noise is called equal. A trace that is too small gets no ranking, and what was only mapped into
//! memory is no part of it.

mod axes;
mod candidate;
mod search;
mod section;
pub(crate) mod simulate;
mod window;

pub use candidate::{Apart, Candidate, Commands, Layout, Names};
pub use search::{Failed, Tried, Verdict};
pub use section::section;
pub use simulate::{Half, Prediction, Space};
pub use window::{Basis, Bounds, Window};

use crate::{Error, Result};
use serde::Serialize;
use spindle_trace::Source;
use std::sync::Arc;

/// Opens the trace anew.
pub type Open<'a> = &'a dyn Fn() -> spindle_trace::Result<Box<dyn Source>>;
/// Is called with what is done, and the part of it that is done, from 0 to 1.
pub type Progress<'a> = dyn Fn(&'static str, f64) + 'a;

/// Bytes of a call of which the trace does not say how many bytes it moved.
pub(crate) const REQUEST: usize = 4096;
/// Events that a trace must have: each half then has hundreds of calls, of which the slowest
/// hundredth are several.
pub const LEAST_EVENTS: u64 = 1000;
/// The size of a file system at least, in bytes.
const LEAST_SIZE: u64 = 1 << 30;
/// The most of it that is simulated: cylinder groups beyond take memory and change nothing.
const MOST_SIZE: u64 = 32 << 30;

/// What the candidates are simulated on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ground {
    /// The disk: a preset, or a file.
    pub disk: String,
    /// A second disk, if there is one.
    pub second: Option<String>,
    /// The preset of the host.
    pub host: String,
    /// Bytes of the file system that are simulated: those that are asked for, or 32 GiB of them.
    pub size: u64,
    /// Bytes of memory for file data.
    pub memory: u64,
    /// True if only UFS is wanted, which other systems can read, and not the multi-structured file
    /// system.
    pub only_ufs: bool,
}

/// The disk and its host, before the size is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// As in [`Ground`].
    pub disk: String,
    /// As in [`Ground`].
    pub second: Option<String>,
    /// As in [`Ground`].
    pub host: String,
    /// Bytes of the file system; so many that the trace fits twice if none.
    pub size: Option<u64>,
    /// As in [`Ground`].
    pub memory: u64,
    /// As in [`Ground`].
    pub only_ufs: bool,
    /// What is simulated of the trace at most.
    pub bounds: Bounds,
}

impl Default for Wanted {
    /// Returns a disk of today on a host of today.
    fn default() -> Self {
        Self {
            disk: "nvme".into(),
            second: None,
            host: "today".into(),
            size: None,
            memory: 1 << 30,
            only_ufs: false,
            bounds: Bounds::default(),
        }
    }
}

/// The answer to a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What it rests on.
    pub basis: Basis,
    /// What was found; why nothing, if the trace is too small.
    #[serde(flatten)]
    pub answer: Answer,
}

/// What a trace shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Nothing, because it is too small: how large it is, and would have to be.
    TooSmall(String),
    /// A ranking.
    Ranked(Box<Ranked>),
}

/// Candidates in the order of what they do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// What they were simulated on.
    pub ground: Ground,
    /// The one that is advised.
    pub advised: Tried,
    /// Commands that make and mount it.
    pub commands: Commands,
    /// What varying each property has shown, in the order of the search.
    pub verdicts: Vec<Verdict>,
    /// All candidates, the best first.
    pub ranking: Vec<Tried>,
    /// Those that cannot carry the load.
    pub failed: Vec<Failed>,
}

/// Simulates candidates on a disk and returns the advice.
///
/// # Errors
/// When there is no such disk or host, the trace cannot be read or is one of disks, or it does not
/// fit the file system.
pub fn advise(wanted: &Wanted, open: Open<'_>, progress: &Progress<'_>) -> Result<Advice> {
    let capacity = capacity(&wanted.disk)?;
    if let Some(second) = &wanted.second {
        self::capacity(second)?;
    }
    let window = Window::of(open, wanted.bounds, &|done| progress("reading", done))?;
    let basis = window.basis.clone();
    if let Some(why) = too_small(&window) {
        return Ok(Advice { basis, answer: Answer::TooSmall(why) });
    }
    let needed = window.space().saturating_mul(2).max(LEAST_SIZE).next_power_of_two();
    let size = wanted.size.unwrap_or(needed);
    if size > capacity {
        let why =
            format!("disk {}: has {capacity} bytes, and the file system would need {size}", wanted.disk);
        return Err(Error::Contradiction(why));
    }
    let ground = Ground {
        disk: wanted.disk.clone(),
        second: wanted.second.clone(),
        host: wanted.host.clone(),
        size: size.min(MOST_SIZE),
        memory: wanted.memory,
        only_ufs: wanted.only_ufs,
    };
    let found = search::search(&Arc::new(window), &ground, progress)?;
    let commands = found.advised.candidate.commands(size);
    let search::Found { ranking, failed, advised, verdicts } = found;
    let ranked = Ranked { ground, advised, commands, verdicts, ranking, failed };
    Ok(Advice { basis, answer: Answer::Ranked(Box::new(ranked)) })
}

/// Returns the bytes of a modelled disk.
fn capacity(name: &str) -> Result<u64> {
    let disk = spindle_sim::disk::Disk::new(&spindle_sim::preset::disk(name)?)?;
    if disk.sector_bytes() != 512 {
        return Err(Error::Contradiction(format!("disk {name}: has other sectors than of 512 bytes")));
    }
    Ok(disk.capacity_sectors() * 512)
}

/// Returns why a window is too small, if it is.
fn too_small(window: &Window) -> Option<String> {
    let uses = window.uses();
    (uses < LEAST_EVENTS).then(|| {
        format!(
            "the trace is too small: it has {uses} events that can be simulated, and advice needs {LEAST_EVENTS}"
        )
    })
}

#[cfg(test)]
mod tests;
