//! Making a file system (newfs).
//!
//! Two steps: [`Plan::new`] turns [`Parameters`] into a complete, checked geometry without touching
//! anything, and [`write()`] puts a plan on a device. So the same planner serves a dry run, a size
//! search ([`fit()`]) and the real thing.
//!
//! There are two ways to divide a disk. The newer systems fill each group block's maps (`packing`);
//! the older ones, for which the paper's geometry is real, cut along cylinders (`cylinders`). Which
//! one is taken follows from the dialect.

pub(crate) mod block;
pub(crate) mod conventions;
mod cylinders;
mod fit;
mod frame;
mod packing;
mod parameters;
mod plan;
mod root;
mod wipe;
mod write;

pub use fit::{Need, fit};
pub use parameters::{DEV_BSIZE, Format, Geometry, Optimization, ParameterError, Parameters};
pub use plan::Plan;
pub use root::ROOTINO;
pub use wipe::mark_unfinished;
pub use write::write;
