//! Hostile images: whatever bytes a disk holds, Spindle neither panics nor hangs nor runs out of
//! memory.
//!
//! A case is a good image ([`base`]), a mutation of it ([`mutate`], which asks [`anatomy`] where
//! the fields are) on an [`overlay`], and then everything that people do with an image
//! ([`exercise`]): list its partitions, open it read-only and look at all of it, check it, open it
//! for writing whatever it says of itself, change it, unmount it, and check it again. [`case`] runs
//! one and judges it, [`campaign`] runs many ([`workers`]).
//!
//! A case is repeated by its seed and number alone.
//!
//! [`crash`] is about good images and devices that lose power, [`faults`] about devices that fail.

pub mod anatomy;
pub mod base;
pub mod campaign;
pub mod case;
pub mod crash;
pub mod exercise;
pub mod faults;
pub mod memory;
pub mod mutate;
pub mod overlay;
pub mod reshape;
pub mod workers;
