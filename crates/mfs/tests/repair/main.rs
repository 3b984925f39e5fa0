//! The repair of sets: each kind of damage, damage at random, full sets, and crashes and faults
//! during the repair itself.

mod crashes;
mod faults;
mod full;
mod kinds;
mod listing;
mod random;
#[path = "../support/mod.rs"]
mod support;
mod victim;
