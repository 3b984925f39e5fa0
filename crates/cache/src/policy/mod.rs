//! Policies of the cache as pure functions over small state: what to read ahead, when to write
//! delayed data, what to evict.
//!
//! Nothing here does I/O, takes a lock or knows a device, so a simulator runs the same code on a
//! trace.

mod list;
mod lru;
pub mod replacement;
mod sequence;

pub use lru::Lru;
pub use replacement::{Policy, PolicyName, Replacement, UnknownPolicy};
pub use sequence::{Delay, Reader};
