//! Crashes: after a loss of power at any instant nothing acknowledged is lost.
//!
//! A workload ([`workload`], [`random`]) runs on a small file system ([`images`]) over a device
//! that records its writes ([`recorder`]), beside the model, whose state after each operation is a
//! *version* ([`record`], [`oracle`]). Then a power cut is simulated after each write request. For
//! each cut the medium is put into many of the states that the cut may leave ([`states`]). Each
//! state is mounted, unmounted and checked ([`recovery`]), and compared with the versions
//! ([`checker`]). In some of the states power is cut again during the recovery. [`explore`] does
//! this for many workloads.
//!
//! These rules must hold: the recovered tree is the state after some number of operations, which
//! includes all operations before everything was last made durable; each byte of a file is one that
//! the file had then or later; what `fsync` made durable is there; the check finds nothing; the
//! recovery takes no more than a fixed number of requests; the file system can be used; and each
//! snapshot holds the tree of the moment when it was made.
//!
//! The name of a state repeats it: `FORMAT/WORKLOAD/CUT.VARIANT`, with another `/CUT.VARIANT` if
//! the recovery was cut.

pub mod aimed;
pub mod checker;
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
pub mod workload;
