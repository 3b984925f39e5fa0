//! Synthetic traces, generated from a population of users, programs and files with known
//! distributions.
//!
//! The one idea: a [`Model`] is data: the scripts of commands and daemons, over classes of files. A
//! [`Synthesis`] runs it: users log in, start commands, think and leave; each running script is an
//! actor in one queue that is ordered by time. The next file to use is chosen by how recently files
//! were used, which gives the locality that caches depend on.
//!
//! Invariants: the same model and seed give the same events on any machine; times never decrease;
//! memory holds the population and the running scripts, so it does not depend on the length of the
//! trace; the trace keeps the invariants of all traces.
//!
//! [`compare`] says how near one trace comes to another, and [`replay`] does on a file system what
//! a trace says.

mod actor;
pub mod compare;
mod distribution;
mod files;
mod fit;
mod generator;
mod model;
mod plan;
pub mod replay;

pub use distribution::Distribution;
pub use fit::fit;
pub use generator::{Length, Synthesis};
pub use model::{
    AccessMethod, Class, Command, Daemon, FixedRun, Model, Operation, Owner, Program, Recency, Step, Timing,
    Users,
};

#[cfg(test)]
mod tests;
