//! Programs that work on a directory and know whether what they see is right.
//!
//! Each function takes a directory of a mounted file system, works in directories of its own in it,
//! and fails when the program found something wrong. None of them knows what file system it is.
//!
//! - [`pjdfstest`]: what POSIX says of each call.
//! - [`fsx`], [`fio`]: data of one file under random reads, writes, mappings, truncations and
//!   holes.
//! - [`storm`]: random operations on names from several threads, with a listing of what must be
//!   there afterwards.
//! - [`programs`]: a version control system, a database, a compiler, an archiver.

pub mod fio;
pub mod fsx;
pub mod pjdfstest;
pub mod programs;
pub mod storm;
