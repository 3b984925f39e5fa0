//! Miss-ratio curves: how often caches of every size would have missed, from one pass over the
//! requests.
//!
//! LRU caches include one another, so how deep a block lies in the [`Stack`] when it is used says
//! which of them have it; a histogram of depths is all sizes at once ([`exact`]). For traces too
//! large for that, [`Shards`] does it for a sample of the blocks and tells how far off it may be.

mod histogram;
mod knee;
mod shards;
mod stack;

pub use shards::{Rate, Shards, sampled};
pub use stack::Stack;

use crate::Result;
use crate::requests::{BATCH, Request, Requests};
use histogram::Histogram;

/// How often LRU caches of every size would have missed.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    whole: Histogram,
    /// The same from disjoint parts of the sample; none if everything was counted.
    parts: Vec<Histogram>,
}

impl Curve {
    /// Uses of blocks.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.whole.requests()
    }

    /// Returns the size from which on nothing changes any more, in blocks: of an exact curve the
    /// most blocks that there were at a time.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.whole.end()
    }

    /// Returns true if everything was counted.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.parts.is_empty()
    }

    /// Misses with a cache of `size` blocks.
    #[must_use]
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn misses(&self, size: u64) -> u64 {
        // Exact up to 2^53, which no trace has.
        (self.at(size) * self.requests() as f64).round() as u64
    }

    /// Returns the miss ratio with a cache of `size` blocks; of no requests, 0.
    #[must_use]
    pub fn at(&self, size: u64) -> f64 {
        self.whole.miss_ratio(size)
    }

    /// Returns the smallest size of which a sample can tell, in blocks: what stands behind one
    /// block of a part of it. Of smaller caches it is only known that they miss no less. 1 of an
    /// exact curve.
    #[must_use]
    pub fn resolution(&self) -> u64 {
        self.parts.first().map_or(1, |part| part.size(1))
    }

    /// Returns the standard error of [`Self::at`]; 0 of an exact curve. From [`Self::resolution`]
    /// on it is estimated from how much disjoint parts of the sample differ. Below, the miss ratio
    /// is somewhere between that at the resolution and 1: the error is that of not knowing where.
    #[must_use]
    pub fn error(&self, size: u64) -> f64 {
        let resolution = self.resolution();
        let chance = histogram::standard_error(&self.parts, size.max(resolution));
        let range = if size < resolution { 1.0 - self.at(resolution) } else { 0.0 };
        // The standard deviation of what may be anywhere in a range is that over the root of 12.
        chance.hypot(range / f64::sqrt(12.0))
    }

    /// Sizes for a plot or a table: at most `most`, from 1 to [`Self::end`], each larger than the
    /// one before by about the same factor.
    #[must_use]
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn sizes(&self, most: usize) -> Vec<u64> {
        let end = self.end().max(1) as f64;
        let last = most.saturating_sub(1).max(1) as f64;
        let mut sizes: Vec<u64> = (0..most).map(|nth| end.powf(nth as f64 / last).round() as u64).collect();
        sizes.dedup();
        sizes
    }

    /// Returns the size above which more memory brings little, in blocks, and how far the curve
    /// lies below the straight line there (0 to 1): the point farthest below the line from the
    /// curve's start to its end, both axes taken from 0 to 1 (Kneedle of Satopää et al., 2011, with
    /// the whole curve as it is). None if no size is below that line.
    #[must_use]
    pub fn knee(&self) -> Option<(u64, f64)> {
        knee::farthest_below(self)
    }
}

/// Returns the curve of all requests, counted one by one.
///
/// # Errors
/// As reading the trace does.
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
                Request::Gone(block) => {
                    stack.remove(block);
                }
            }
        }
    }
    Ok(Curve { whole: Histogram::exact(count, &depths), parts: Vec::new() })
}

#[cfg(test)]
mod tests;
