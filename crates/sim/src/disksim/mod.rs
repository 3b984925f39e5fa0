//! Drives as `DiskSim` describes them: parameter files (`DRIVE.parv`, with the files for the drive,
//! its layout and its seeks that they name), and the traces with which they were validated.
//!
//! A parameter file becomes a preset ([`preset`]): what a model of this crate has is taken over,
//! and what it has not is said in the preset's description. [`validate`] runs a trace as
//! `DiskSim`'s `validate` does. The format is that of `DiskSim` 4.0 (its manual, and the `.modspec`
//! files in its sources).

mod drive;
mod parameters;
mod validate;

pub use drive::preset;
pub use validate::{Comparison, Recorded, Trial, read_trace, trials, validate};
