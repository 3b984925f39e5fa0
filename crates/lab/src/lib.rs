//! The papers' experiments, rerun by the shipped file systems on modelled disks.
//!
//! An [`Experiment`] is a function of a [`Setting`] that returns an [`Outcome`]. An outcome is
//! data (crate `report`): tables with the paper's figure beside ours, series of numbers for graphs,
//! and sentences.
//!
//! Invariants: the same program gives the same outcome to the byte, on any day and machine: no
//! experiment reads a real clock, random numbers have fixed seeds, and nothing is printed in the
//! order of a hash map. Where the paper's input is lost, [`Experiment::stand_in`] names its
//! replacement.
//!
//! [`waste`] is Table 1 of the 1984 paper as a pure function of a population of files; `spindle
//! waste` applies it to any directory.

pub mod advice;
mod bench;
pub mod beside;
pub mod calibrate;
pub mod drives;
mod error;
mod experiment;
mod experiments;
pub mod kernel;
pub mod measured;
pub mod population;
pub mod replay;
mod setting;
pub mod waste;

pub use error::{Error, Result};
pub use experiment::{Experiment, Progress, Silent, all, find};
pub use setting::Setting;
pub use spindle_report::Outcome;
pub use spindle_sim::{self as sim, preset};
