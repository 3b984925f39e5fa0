//! What experiments are made of: devices to look at and to branch off, months of use, programs, and
//! measures.

pub mod ageing;
pub mod best;
pub mod era;
pub mod machine;
pub mod media;
pub mod process;
pub mod storm;
pub mod streaming;
pub mod subject;
pub mod tap;
