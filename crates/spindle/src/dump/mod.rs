//! Dumping a file system, as dump(8) does: what is in a dump of a level, and writing it.
//!
//! A dump is planned first ([`Plan`]): a walk through the directories finds the files that have
//! changed since the dump that it is based on, and the directories that lead to them. Then it is
//! written, directories first. Directories are written anew, with the names that were found, so
//! that nothing in them depends on the format or on damage. What cannot be read is reported and
//! left out.

mod plan;
mod write;

pub use plan::{Honor, Plan};
pub use spindle_dump::{BLOCK, RECORD, Single, Stamp, Volumes};
pub use write::Written;
