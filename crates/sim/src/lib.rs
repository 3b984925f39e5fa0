//! Virtual time, its client scheduler, and models of disks and hosts.
//!
//! A [`Simulation`] runs blocking code unchanged, deterministically, in virtual time: each client
//! is a thread, one baton goes around among them, and everything that waits (for a device, a lock,
//! the time) gives it up.

mod clock;
mod commands;
mod device;
pub mod disk;
pub mod disksim;
mod error;
mod figure;
pub mod host;
pub mod preset;
mod queue;
mod scheduler;
mod slowed;
mod time;

pub use clock::HostClock;
pub use commands::Commands;
pub use device::{DriveDevice, Tally};
pub use queue::{Discipline, Queue, Transfer};
pub use scheduler::Simulation;
pub use slowed::SlowedDevice;
pub use time::Time;
