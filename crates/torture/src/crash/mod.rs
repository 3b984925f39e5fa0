//! Crashes: after a loss of power at any instant nothing acknowledged is lost.
//!
//! A workload ([`workload`], [`random`]) runs on a small file system ([`images`]) over a device
//! that keeps a journal ([`recorder`]), beside the model, whose state after each operation is a
//! version ([`record`], [`oracle`]). Then power is lost after each write request, and for each cut
//! the medium is put into many of the states that it may be left in ([`states`]); each is mounted,
//! unmounted and checked ([`recovery`]) and compared with the versions ([`trial`]). For a share of
//! them power is lost again during the recovery. [`explore`] does this for many workloads.
//!
//! What must hold: what is recovered is the state after some number of operations, no fewer than
//! when everything was last made durable; each byte of a file is one that the file had then or
//! later; what `fsync` made durable is there; the check finds nothing; recovery takes no more than
//! a fixed number of requests; and the file system can be worked with.
//!
//! A state is repeated by its number alone: `FORMAT/WORKLOAD/CUT.VARIANT`, with `/CUT.VARIANT` of
//! the recovery after it.

pub mod aimed;
pub mod explore;
pub mod foreign;
pub mod images;
pub mod operation;
pub mod oracle;
mod random;
pub mod record;
pub mod recorder;
pub mod recovery;
pub mod states;
pub mod trial;
pub mod workload;
