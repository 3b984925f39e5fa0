//! Time and waiting.
//!
//! Everything in Spindle that waits does so through this crate: it gets the time from a [`Clock`]
//! and sleeps on it, and blocks only on the [`Mutex`], [`RwLock`], [`RmLock`] and [`Condvar`] of
//! this crate. In production these are the system clock and the locks of `parking_lot`; in a
//! simulation, a virtual clock and a scheduler with a single baton implement them ([`hook`]). No
//! other crate may use `std::time::SystemTime`, `std::time::Instant`, `std::thread::sleep` or
//! another lock; the tidy test checks this.

mod civil;
pub mod hook;
mod rmlock;
mod sync;
mod time;

pub use civil::Civil;
pub use rmlock::{RmLock, RmLockReadGuard, RmLockWriteGuard};
pub use sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use time::{Clock, ManualClock, SystemClock, TickClock, Timestamp, Work};
