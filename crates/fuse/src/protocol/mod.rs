//! The protocol between the kernel and a FUSE server, as `include/uapi/linux/fuse.h` of Linux
//! declares it.
//!
//! From the outside in: a [`Connection`] is an open `/dev/fuse` after the handshake; its threads
//! read one request after the other and give each to a [`Handler`] as an [`Operation`] with the
//! [`Reply`] that is owed for it; a [`Notifier`] tells the kernel what it did not ask for. Numbers
//! are in the byte order of the machine, and structures are read and written field by field
//! ([`wire`]), so that nothing depends on how a compiler lays them out.
//!
//! There is no more in it than this front-end asks for. What the kernel asks beyond that is
//! answered with ENOSYS, after which it does without.

mod connection;
mod operation;
mod reply;
mod wire;

pub(crate) use connection::{Connection, Handler, Notifier, Terms};
pub(crate) use operation::{NodeId, Operation, Request};
pub(crate) use reply::{Directory, Reply};
pub(crate) use wire::{init, open, write};
