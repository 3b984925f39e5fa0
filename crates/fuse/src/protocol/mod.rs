//! The protocol between the kernel and a FUSE server, as declared in `include/uapi/linux/fuse.h` of
//! Linux.
//!
//! From the outside in: a [`Connection`] is an open `/dev/fuse` after the handshake. Its threads
//! read one request after the other, and pass each to a [`Handler`] as an [`Operation`] with its
//! [`Reply`]. A [`Notifier`] sends notices to the kernel. Numbers are in the byte order of the
//! machine. Structures are read and written field by field ([`wire`]), so that nothing depends on
//! the memory layout of a compiler.
//!
//! Only the parts of the protocol that this front-end needs are implemented. Other requests get
//! ENOSYS, and the kernel then does not send them again.

mod connection;
mod operation;
mod reply;
mod wire;

pub(crate) use connection::{Connection, Handler, Negotiation, Notifier};
pub(crate) use operation::{NodeId, Operation, Request};
pub(crate) use reply::{Directory, Reply, Valid};
pub(crate) use wire::{init, open, setxattr, write};
