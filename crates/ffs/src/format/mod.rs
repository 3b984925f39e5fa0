//! The format of UFS1 and UFS2 on the device: structures, geometry and what is derived from them.
//!
//! Nothing here changes a device but [`superblock`], and nothing knows of caches, logs or files.

pub mod acl;
pub(crate) mod beside;
pub(crate) mod ckhash;
pub(crate) mod copies;
pub(crate) mod dialect;
pub(crate) mod dinode;
pub(crate) mod entries;
pub mod extattr;
pub(crate) mod group;
pub(crate) mod layout;
pub(crate) mod nfs4;
pub mod ondisk;
pub(crate) mod origin;
pub(crate) mod pending;
pub mod rdev;
pub(crate) mod rotation;
pub(crate) mod salvage;
pub(crate) mod short;
pub(crate) mod snapshots;
pub(crate) mod superblock;
pub(crate) mod units;
