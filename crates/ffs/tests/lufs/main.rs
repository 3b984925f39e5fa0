//! The log of Solaris: logs made from the description of the format, and what a replay makes of
//! them.

mod builder;
mod hostile;
#[path = "../check/images.rs"]
#[allow(dead_code, reason = "the tests of the check use the rest")]
mod images;
mod replays;
#[path = "../repair/victim.rs"]
#[allow(dead_code, reason = "the tests of the repair use the rest")]
mod victim;
