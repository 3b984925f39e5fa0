//! Other people's readers and writers of these formats, each behind one function.
//!
//! The idea: whatever reads an image, a foreign program or Spindle, says what it saw as a
//! [`record::Listing`], and so does a plain directory ([`host::list`]). Interoperation is then
//! equality of listings ([`record::differences`]), and each fact that a reader cannot know is
//! `None` and is not compared.
//!
//! - [`record`]: what is compared, and how.
//! - [`tree`]: source trees with everything interesting in them, from a seed.
//! - [`makefs`]: images written by NetBSD's `makefs` as Debian ships it.
//! - [`reader`]: the four foreign readers (The Sleuth Kit, GRUB, `dissect.ffs`, `rufs`) and which
//!   formats each of them reads; one module for each.
//! - [`linux`]: listings that Linux's own drivers made of real images, and those images.
//! - [`simh`]: the Seventh Edition itself; [`oldunix`]: a reader of its formats and their like.
//! - [`wapbl`]: NetBSD's log, written and replayed as NetBSD does it.
//! - [`mod@format`]: what an image says it is, read without Spindle's code.
//! - [`spindle`]: Spindle's own command line, its mounts included.
//! - [`handle`]: the kernel's file handles, on mounts.
//! - [`workload`]: programs that work on a mounted directory and know whether what they see is
//!   right.
//! - [`crash`]: loads on a mount whose daemon is killed, and what must be there afterwards.
//! - [`tool`]: running an outside program so that a failure names it.
//!
//! Nothing here is part of Spindle itself: the crate exists for its tests.

pub mod crash;
pub mod dissect;
pub mod format;
pub mod grub;
pub mod handle;
pub mod host;
pub mod linux;
pub mod makefs;
pub mod oldunix;
pub mod reader;
pub mod record;
pub mod rufs;
pub mod simh;
pub mod sleuthkit;
pub mod spindle;
pub mod strace;
pub mod table;
pub mod tool;
pub mod tree;
pub mod wapbl;
pub mod workload;

/// What went wrong, with the program or file it went wrong with.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// Returns a failure described by `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Turns any error into a failure of `what`.
    pub fn of<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> Self {
        move |error| Self(format!("{what}: {error}"))
    }
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Failure>;
