//! The members of a set as two devices: one for control and data storage, one for log storage.

pub mod members;
mod space;
