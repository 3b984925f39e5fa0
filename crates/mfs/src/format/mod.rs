//! Structures on disk, all little-endian, and where they are.

pub(crate) mod areas;
pub mod attributes;
pub(crate) mod checksum;
pub mod class;
pub mod cylinder;
pub mod extent;
pub mod header;
pub mod history;
pub mod label;
pub mod layout;
pub mod map_page;
pub mod node;
pub mod overflow;
pub mod read_only;
pub(crate) mod runs;
pub mod sums;
