//! The repair: of each kind of damage, of damage at random, cut at any write, and taken back.

mod crashes;
#[path = "../check/images.rs"]
#[allow(dead_code, reason = "the tests of the check use the rest")]
mod images;
mod kinds;
#[path = "../check/plants.rs"]
#[allow(dead_code, reason = "what a check must find is what the tests of the check want")]
mod plants;
mod random;
mod snapshots;
mod special;
#[path = "../check/tables.rs"]
mod tables;
mod victim;
