//! Findings as data, and ways to show them.
//!
//! The one idea: the result of an experiment or an analysis is an [`Outcome`]: tables whose cells
//! may hold a paper's figure beside ours, figures as series of numbers, and sentences. [`render`]
//! and [`page`] show it, without knowing about experiments or traces; `serde` writes it as JSON.

mod error;
pub mod number;
pub mod outcome;
mod page;
pub mod render;

pub use error::{Error, Result};
pub use outcome::{Outcome, Section};
pub use page::page;
