//! The cache simulator: how many disk accesses a cache would have needed for a trace (1985 paper,
//! section 6).
//!
//! Three steps, each a stream: [`Blocks`] turns events into accesses of blocks; [`Stack`] (LRU, all
//! sizes and policies of writing in one pass) and [`Model`] (any policy, one size) take these;
//! [`simulate`] does it for many caches at once, in parallel, decoding the trace once. [`paper`]
//! asks for the paper's own caches and puts what comes out beside its Tables VI and VII; [`table`]
//! shows any others.
//!
//! The paper's cache: blocks of one size, one place for each, demand only: no read-ahead, no
//! clusters, and neither inodes nor directories. Its metric is the miss ratio,
//! [`Counts::miss_ratio`]: disk accesses, reads and writes, in parts of accesses of blocks.

mod blocks;
mod counts;
mod files;
mod flushes;
mod model;
pub mod paper;
mod stack;
mod sweep;
pub mod table;

pub use blocks::{Access, Blocks, Op};
pub use counts::{Counts, Write};
pub use model::{Ages, Model, Outcome};
pub use stack::Stack;
pub use sweep::{Cell, Lane, Lot, Simulated, simulate};

#[cfg(test)]
mod tests;
