//! What every file system must do, for the tests of all of them.
//!
//! [`model`] is the file system that is obviously right: everything in memory, the shortest code.
//! [`suite`] holds the behaviours that all file systems share, one test each. [`random`] compares a
//! file system with the model over random operations. A file system under test provides a
//! [`suite::Harness`] and calls [`conformance_tests!`]. [`reluctant`] is a device for tests of
//! failures, [`cuts`] shows what a loss of power leaves of one, and [`damaged`] has what holds for
//! damaged directories.

pub mod cuts;
pub mod damaged;
pub mod model;
pub mod random;
pub mod reluctant;
pub mod suite;
