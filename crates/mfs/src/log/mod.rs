//! Log storage: a circle of records that gets every change of control storage before its place does
//! (paper, section 4.5).
//!
//! Log storage begins with two slots for a header, which says where the oldest record that is
//! needed begins, and whether the set is in use. A *record* is one epoch of the cache: the
//! addresses that are revoked, and the changed sectors with their addresses. Records follow each
//! other in the circle, with consecutive sequence numbers; one that is not whole ends the log. A
//! record is written only when all control and data storage that it depends on is durable, and the
//! header is moved on before a record that it leads to is overwritten.

mod header;
mod record;
mod replay;
mod ring;
mod units;

pub(crate) use header::is_header_slot;
pub(crate) use replay::{replay_to_copy, replay_to_set};
pub(crate) use ring::{LogLoss, Ring, State};
pub use units::LogUnits;
pub(crate) use units::{LEAST_BYTES, circle};
