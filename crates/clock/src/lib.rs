//! Time and waiting.
//!
//! Everything in Spindle that waits, waits through this crate: it asks a [`Clock`] for the time and
//! sleeps on it, and blocks only on the [`Mutex`], [`RwLock`] and [`Condvar`] given here. In
//! production these are the system clock and `parking_lot`'s locks; in a simulation a virtual clock
//! and a scheduler with a single baton stand behind the same names ([`hook`]). No other crate may
//! name `std::time::SystemTime`, `std::time::Instant`, `std::thread::sleep` or another lock: the
//! tidy test forbids it.

pub mod hook;
mod sync;
mod time;

pub use sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use time::{Clock, ManualClock, SystemClock, TickClock, Timestamp, Work};
