//! The parts of experiments: devices that can be observed and copied, months of use, programs, and
//! measurements.

pub mod ageing;
pub mod at_once;
pub mod best;
pub mod era;
pub mod load;
pub mod log_set;
pub mod machine;
pub mod media;
pub mod process;
pub mod service;
pub mod storage;
pub mod storm;
pub mod streaming;
pub mod subject;
pub mod tap;
