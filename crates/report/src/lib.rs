//! Findings as data, and how they are shown.
//!
//! The one idea: what an experiment or an analysis found is an [`Outcome`]: tables whose cells may
//! hold a paper's figure beside ours, figures as series of numbers, and sentences. How it is shown
//! is the business of [`render`], which knows neither experiments nor traces, and of [`page`]; JSON
//! is what `serde` makes of it.

mod error;
pub mod number;
pub mod outcome;
mod page;
pub mod render;

pub use error::{Error, Result};
pub use outcome::{Outcome, Section};
pub use page::page;
