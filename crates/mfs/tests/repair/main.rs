//! The repair of sets: each kind of damage, damage at random, and crashes of the repair itself.

mod crashes;
mod kinds;
mod random;
#[path = "../support/mod.rs"]
mod support;
mod victim;
