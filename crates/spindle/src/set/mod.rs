//! Multi-structured file systems: sets of files, block devices and partitions that are one file
//! system together.

mod area_sink;
mod attach;
mod change;
mod find;
mod named;
mod newfs;
mod open;
mod status;

pub use attach::{Attach, Attached, Brought, Detached, RawFile, attach, detach};
pub use change::{Change, NewDevice, Outcome, Report, ScrubReport, change, scrub};
pub use find::{FoundArea, FoundMember, FoundSet, find};
pub use named::{MemberName, MountedSet, Named, NamedMount};
pub use newfs::{NewMember, Settings, newfs, parse_members};
pub(crate) use open::OpenSet;
pub use spindle_mfs::newfs::{NewArea, Wishes};
pub use spindle_mfs::{
    Area, CLASS_ATTRIBUTE, Class, ClassLayout, ClassName, Label, Layout, Parameters, Progress, Role, Share,
    StorageUse, Structure,
};
pub use status::{AreaState, AreaStatus, ClassStatus, MemberStatus, MountedAt, State, Status, status};
