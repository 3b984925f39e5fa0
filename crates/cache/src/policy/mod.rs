//! Policies of the cache as pure functions over small state: what to read ahead, when to write
//! delayed data, what to evict. Nothing here does I/O, takes a lock or knows a device.

mod list;
mod lru;
mod sequence;

pub use list::Lists;
pub use lru::Lru;
pub use sequence::{Delay, Reader};
