//! Multi-structured file systems: sets of files, block devices and partitions that are one file
//! system together.

mod find;
mod manage;
mod newfs;
mod status;

pub use find::{FoundMember, find};
pub use manage::{NewDevice, Report, ScrubReport, add, remove, replace, scrub};
pub use newfs::{NewMember, Settings, newfs, parse_members};
pub use spindle_mfs::newfs::{NewArea, Wishes};
pub use spindle_mfs::{Area, Label, Layout, Parameters, Progress, Role, Share, StorageUse};
pub use status::{AreaState, AreaStatus, MemberStatus, Status, status};
