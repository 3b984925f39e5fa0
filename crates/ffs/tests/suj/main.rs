//! The journal of FreeBSD's soft updates: the states that a crash leaves behind, made from the
//! description of the format, and what a recovery makes of them.

mod builder;
mod clean;
mod crashes;
mod hostile;
#[path = "../check/images.rs"]
#[allow(dead_code, reason = "the tests of the check use the rest")]
mod images;
mod records;
mod segments;
#[path = "../repair/victim.rs"]
#[allow(dead_code, reason = "the tests of the repair use the rest")]
mod victim;
