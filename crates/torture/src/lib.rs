//! Hostile images: whatever bytes a disk holds, Spindle neither panics nor hangs nor runs out of
//! memory.
//!
//! A case takes a valid image ([`base`]) and mutates it on an [`overlay`] ([`mutate`], which asks
//! [`anatomy`] where the fields are). Then it does what people do with an image ([`exercise`]): it
//! lists the partitions, opens the image read-only and reads all of it, checks it, opens it for
//! writing whatever its superblock says, changes it, unmounts it, and checks it again. [`case`]
//! runs one case and judges the result; [`campaign`] runs many on all processors ([`workers`]).
//!
//! The seed and the number of a case repeat it.
//!
//! [`crash`] tests valid images on devices that lose power; [`faults`], on devices that fail.

pub mod anatomy;
pub mod base;
pub mod campaign;
pub mod case;
pub mod crash;
pub mod exercise;
pub mod faults;
pub mod geometry;
pub mod inspect;
pub mod memory;
pub mod mutate;
pub mod overlay;
pub mod rehash;
pub mod workers;
