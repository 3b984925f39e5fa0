//! The members of a set as two devices: one for control and data storage, one for log storage.

pub(crate) mod labels;
pub mod members;
pub mod moment;
pub(crate) mod places;
pub(crate) mod read_only;
mod shared;
mod space;
mod structures;
pub(crate) mod sums;
