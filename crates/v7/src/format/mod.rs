//! The format of the old file system on the device: structures and layout.

pub(crate) mod dinode;
pub(crate) mod entry;
pub(crate) mod free_list;
pub(crate) mod kind;
pub(crate) mod layout;
pub mod ondisk;
pub(crate) mod salvage;
pub(crate) mod superblock;
