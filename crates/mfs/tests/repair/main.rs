//! The repair of sets: each kind of damage, damage at random, full sets, and crashes of the repair itself.

mod crashes;
mod full;
mod kinds;
mod random;
#[path = "../support/mod.rs"]
mod support;
mod victim;
