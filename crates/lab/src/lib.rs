//! The papers' experiments, rerun by the shipped file systems on modelled disks.
//!
//! The one idea: an [`Experiment`] is a function from nothing to an [`Outcome`], and an outcome is
//! data (crate `report`): tables whose cells hold the paper's figure beside ours, figures as series
//! of numbers, and sentences.
//!
//! Invariants: the same program gives the same outcome to the byte, on any day and machine: no
//! experiment reads a clock that runs by itself, random numbers start from written-down seeds, and
//! nothing is shown in the order of a hash map. Where the paper's input is lost,
//! [`Experiment::stand_in`] says what took its place.
//!
//! [`waste`] is Table 1 of the 1984 paper as a pure function of a population of files; `spindle
//! waste` feeds it anyone's.

pub mod advice;
mod bench;
mod error;
mod experiment;
mod experiments;
pub mod population;
pub mod replay;
pub mod waste;

pub use error::{Error, Result};
pub use experiment::{Experiment, Progress, Silent, all, find};
pub use spindle_report::Outcome;
pub use spindle_sim::preset;
