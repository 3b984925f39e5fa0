//! Traces that were never recorded: a population of users, programs and files whose use of files
//! has known distributions.
//!
//! The one idea: a [`Model`] is data, scripts of what commands and daemons do over classes of
//! files, and a [`Synthesis`] carries it out: users come, give commands, think and go; each running
//! script is an actor that waits in one queue, ordered by time, for what it does next. Which file
//! is used next depends on how long ago it was last used, which makes the locality that a cache
//! lives on.
//!
//! Invariants: the same model and seed give the same events on any machine; times never go back;
//! what is in memory is the population and what is running, so that a trace of any length costs the
//! same; a trace obeys all that the crate says of traces.

mod actor;
mod files;
mod fit;
mod generator;
mod model;
mod plan;
mod spread;

pub use fit::fit;
pub use generator::{Length, Synthesis};
pub use model::{
    Act, Class, Command, Daemon, Model, Owner, Piece, Program, Recency, Step, Timing, Users, Way,
};
pub use spread::Spread;

#[cfg(test)]
mod tests;
