//! What experiments are made of: devices to look at and to branch off, months of use, programs, and measures.

pub mod ageing;
pub mod era;
pub mod machine;
pub mod process;
pub mod streaming;
pub mod subject;
pub mod tap;
