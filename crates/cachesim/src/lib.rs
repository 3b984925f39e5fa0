//! The cache simulator: the disk accesses of a cache for a trace (1985 paper, section 6).
//!
//! It has three streaming steps. [`Blocks`] turns events into accesses of blocks. [`Stack`] (LRU,
//! all sizes and write policies in one pass) and [`Model`] (any replacement policy, one size)
//! process them. [`simulate`] does this for many caches at once, in parallel, decoding the trace
//! once. [`paper`] simulates the caches of the paper and compares the results with its Tables VI
//! and VII; [`table`] shows any others.
//!
//! The paper's cache has blocks of one size and fetches on demand only: no read-ahead, no
//! clustering, and neither inodes nor directories. Its metric is the miss ratio,
//! [`Counts::miss_ratio`]: disk accesses (reads and writes) divided by accesses to blocks.
//!
//! For today's caches there are requests instead of events: [`requests`] makes them from any trace,
//! [`replacement`] has the policies, [`policy`] simulates them, and [`curve`] LRU caches of every
//! size.

mod blocks;
mod counts;
pub mod curve;
mod files;
mod flushes;
mod model;
pub mod paper;
pub mod policy;
pub mod replacement;
pub mod requests;
mod stack;
mod sweep;
pub mod table;

pub use blocks::{Access, Blocks, Extras, Op};
pub use counts::{Counts, Write};
pub use model::{Ages, Model, Outcome};
pub use stack::Stack;
pub use sweep::{CacheGrid, Cell, GridResult, Simulated, simulate};

#[cfg(test)]
mod tests;
