//! The file format of traces: Parquet with the schema of `docs/SPEC-trace.md`.
//!
//! The one idea: an event is a row, all columns are required, and everything is as simple as
//! possible, so that any tool that reads Parquet can read a trace. Information about the trace is
//! in the key-value metadata of the file.
//!
//! Invariants: a complete file ends with its directory of row groups; an incomplete file is read
//! only up to its last checkpoint. Recorders use [`Live`], which writes checkpoints; programs that
//! can start again use [`Writer`] and must call [`Writer::finish`].

mod column;
mod contained;
mod live;
mod pages;
mod places;
mod prefix;
mod reader;
mod sums;
mod writer;

pub use column::Columns;
pub use live::Live;
pub use reader::Reader;
pub use writer::Writer;

/// The version of the schema; a file with a larger one is refused.
pub const VERSION: u32 = 2;

/// The schema in Parquet's notation.
pub const SCHEMA: &str = "message event {
    REQUIRED INT64 time (TIMESTAMP(NANOS,true));
    REQUIRED BYTE_ARRAY kind (STRING);
    REQUIRED INT32 flags (INTEGER(32,false));
    REQUIRED INT64 open (INTEGER(64,false));
    REQUIRED INT64 device (INTEGER(64,false));
    REQUIRED INT64 inode (INTEGER(64,false));
    REQUIRED INT32 user (INTEGER(32,false));
    REQUIRED INT32 process (INTEGER(32,false));
    REQUIRED INT64 size (INTEGER(64,false));
    REQUIRED INT64 position (INTEGER(64,false));
    REQUIRED INT64 read (INTEGER(64,false));
    REQUIRED INT64 written (INTEGER(64,false));
    REQUIRED INT64 new_position (INTEGER(64,false));
    REQUIRED INT32 calls (INTEGER(32,false));
    REQUIRED BYTE_ARRAY command (STRING);
    REQUIRED BYTE_ARRAY path (STRING);
    REQUIRED BYTE_ARRAY new_path (STRING);
}";

/// Returns the parsed schema.
fn schema() -> parquet::schema::types::Type {
    parquet::schema::parser::parse_message_type(SCHEMA).expect("the schema is well-formed")
}

/// Keys of the metadata.
mod key {
    pub(super) const VERSION: &str = "spindle.trace";
    pub(super) const SOURCE: &str = "spindle.source";
    pub(super) const LOST: &str = "spindle.lost";
    pub(super) const NOTE: &str = "spindle.note";
    pub(super) const LATENCY: &str = "spindle.latency";
    pub(super) const UNFINISHED: &str = "spindle.unfinished";
    pub(super) const SUMS: &str = "spindle.sums";
    pub(super) const SUM: &str = "spindle.sum";
}

#[cfg(test)]
mod tests;
