//! Miss-ratio curves: the miss ratios of caches of every size, from one pass over the requests.
//!
//! LRU caches include one another, so the depth of a block in the [`Stack`] when it is used says
//! which sizes hold it; a histogram of depths gives all sizes at once ([`exact`]). For traces too
//! large for that, [`Shards`] does the same for a sample of the blocks and estimates its error.

mod histogram;
mod knee;
mod shards;
mod stack;

pub use shards::{Rate, Shards, sampled};
pub use stack::Stack;

use crate::requests::{BATCH, Request, Requests};
use histogram::Histogram;
use spindle_trace::Result;

/// The miss ratios of LRU caches of every size.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    whole: Histogram,
    /// Curves of disjoint parts of the sample; empty if all blocks were counted.
    parts: Vec<Histogram>,
}

impl Curve {
    /// Returns the number of uses of blocks.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.whole.requests()
    }

    /// Returns the size in blocks above which the curve is constant: for an exact curve the maximum
    /// number of blocks at one time.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.whole.end()
    }

    /// Returns true if all blocks were counted.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the number of misses of a cache of `size` blocks.
    #[must_use]
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn misses(&self, size: u64) -> u64 {
        // Exact up to 2^53, more than any trace has.
        (self.at(size) * self.requests() as f64).round() as u64
    }

    /// Returns the miss ratio of a cache of `size` blocks; 0 without requests.
    #[must_use]
    pub fn at(&self, size: u64) -> f64 {
        self.whole.miss_ratio(size)
    }

    /// Returns the smallest size in blocks that a sample resolves: the number of blocks that one
    /// block of a part of the sample represents. Smaller caches are only known to miss no less. It
    /// is 1 for an exact curve.
    #[must_use]
    pub fn resolution(&self) -> u64 {
        self.parts.first().map_or(1, |part| part.size(1))
    }

    /// Returns the standard error of [`Self::at`]; 0 for an exact curve. From [`Self::resolution`]
    /// up it is estimated from the differences of disjoint parts of the sample. Below, the miss
    /// ratio lies anywhere between that at the resolution and 1; the error is that of a uniform
    /// distribution.
    #[must_use]
    pub fn error(&self, size: u64) -> f64 {
        let resolution = self.resolution();
        let chance = histogram::standard_error(&self.parts, size.max(resolution));
        let range = if size < resolution { 1.0 - self.at(resolution) } else { 0.0 };
        // The standard deviation of a uniform distribution is its range divided by the root of 12.
        chance.hypot(range / f64::sqrt(12.0))
    }

    /// Returns sizes for a plot or a table: at most `most`, from 1 to [`Self::end`], in about a
    /// geometric series.
    #[must_use]
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn sizes(&self, most: usize) -> Vec<u64> {
        let end = self.end().max(1) as f64;
        let last = most.saturating_sub(1).max(1) as f64;
        let mut sizes: Vec<u64> = (0..most).map(|nth| end.powf(nth as f64 / last).round() as u64).collect();
        sizes.dedup();
        sizes
    }

    /// Returns the size in blocks above which more memory gains little, and the distance of the
    /// curve below a straight line there (0 to 1): the point farthest below the line from the start
    /// of the curve to its end, with both axes scaled to 0..1 (Kneedle of Satopää et al., 2011,
    /// without smoothing). Returns `None` if no point is below that line.
    #[must_use]
    pub fn knee(&self) -> Option<(u64, f64)> {
        knee::farthest_below(self)
    }
}

/// Returns the exact curve of all requests.
///
/// # Errors
/// Errors of reading the trace.
pub fn exact(mut requests: impl Requests<Block = u32>) -> Result<Curve> {
    let (mut stack, mut depths, mut count) = (Stack::default(), Vec::<u64>::new(), 0);
    let mut batch = Vec::with_capacity(BATCH);
    while requests.next(&mut batch)? {
        for &request in &batch {
            match request {
                Request::Use(block) => {
                    count += 1;
                    if let Some(depth) = stack.access(block) {
                        let depth = depth as usize - 1;
                        if depth >= depths.len() {
                            depths.resize(depth + 1, 0);
                        }
                        depths[depth] += 1;
                    }
                }
                Request::Deleted(block) => {
                    stack.remove(block);
                }
            }
        }
    }
    Ok(Curve { whole: Histogram::exact(count, &depths), parts: Vec::new() })
}

#[cfg(test)]
mod tests;
