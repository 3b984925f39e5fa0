//! SHARDS (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015): the curve of a
//! sample of the blocks.
//!
//! A block is in the sample if its hash is below a threshold, so the sample has all its uses or
//! none. A depth in the sample times the number of blocks per sampled block is the depth in the
//! trace. With a fixed *rate* the threshold is constant. With a fixed *number of blocks* it falls
//! to the largest hash in the sample whenever there are too many, and earlier counts keep their
//! weights. The difference between the expected and the actual number of uses in the sample is
//! added to the first bucket (SHARDS-adj), because it is caused by the few most used blocks, which
//! are at the top.
//!
//! *Error.* The sample is also divided into eight disjoint parts, each with a stack of its own. The
//! differences of their curves show how much a curve of that size depends on chance. They do not
//! show an error that all parts share.
//!
//! With a fixed number of blocks, holes left by deleted data stay when the threshold falls, so
//! depths in a trace with many deletions are slightly too large.

use super::histogram::Histogram;
use super::{Curve, Stack};
use crate::requests::{BATCH, Request, Requests};
use foldhash::quality::FixedState;
use spindle_trace::{Error, Result};
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;

/// Number of parts of the sample.
const PARTS: u8 = 8;
/// Number of hash values, 2^64.
const HASHES: f64 = 18_446_744_073_709_551_616.0;

/// Size of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// A share of all blocks, above 0 and up to 1.
    Share(f64),
    /// A maximum number of blocks.
    Blocks(NonZeroU32),
}

/// Returns the curve of a sample of the blocks, with an estimate of its error.
///
/// # Errors
/// Errors of reading the trace, of [`Shards::new`] and of [`Shards::curve`].
pub fn sampled<R: Requests<Block: Hash>>(mut requests: R, rate: Rate) -> Result<Curve> {
    let mut shards = Shards::new(rate)?;
    let hashes = FixedState::default();
    let mut batch = Vec::with_capacity(BATCH);
    while requests.next(&mut batch)? {
        for &request in &batch {
            match request.map(|block| hashes.hash_one(block)) {
                Request::Use(hash) => shards.access(hash),
                Request::Deleted(hash) => shards.remove(hash),
            }
        }
    }
    shards.curve()
}

/// A sample while it is taken. Blocks are given by hashes, all of whose bits must be close to
/// random.
#[derive(Debug)]
pub struct Shards {
    /// Largest hash in the sample.
    threshold: u64,
    most: usize,
    /// Numbers of the sampled blocks.
    numbers: HashMap<u64, u32, foldhash::fast::FixedState>,
    free: Vec<u32>,
    /// Hashes of the same blocks (and perhaps of some removed ones), largest first, if their number
    /// is limited.
    largest: BinaryHeap<u64>,
    whole: Sample,
    parts: Vec<Sample>,
    requests: u64,
}

impl Shards {
    /// Returns an empty sample.
    ///
    /// # Errors
    /// [`Error::Refused`] if a share is not above 0 and at most 1.
    pub fn new(rate: Rate) -> Result<Self> {
        let (share, most) = match rate {
            Rate::Share(share) if share > 0.0 && share <= 1.0 => (share, usize::MAX),
            Rate::Share(share) => {
                let what =
                    format!("the share of blocks to sample must be above 0 and at most 1, not {share}");
                return Err(Error::Refused(what));
            }
            Rate::Blocks(most) => (1.0, most.get() as usize),
        };
        // The conversion to u64 saturates at its maximum, the threshold of a full sample.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let threshold = (share * HASHES) as u64;
        let part = Sample::new(f64::from(PARTS) / share);
        Ok(Self {
            threshold,
            most,
            numbers: HashMap::default(),
            free: Vec::new(),
            largest: BinaryHeap::new(),
            whole: Sample::new(1.0 / share),
            parts: vec![part; usize::from(PARTS)],
            requests: 0,
        })
    }

    /// Returns the number of blocks that one block of the sample represents.
    #[expect(clippy::cast_precision_loss)] // 53 bits are enough for a rate.
    fn scale(&self) -> f64 {
        HASHES / (self.threshold as f64 + 1.0)
    }

    /// Records a use of a block.
    ///
    /// # Panics
    /// Panics with 2^30 blocks in the sample.
    #[inline]
    pub fn access(&mut self, hash: u64) {
        self.requests += 1;
        if hash <= self.threshold {
            self.sample(hash);
        }
    }

    fn sample(&mut self, hash: u64) {
        let used = self.numbers.len() + self.free.len();
        let number = *self.numbers.entry(hash).or_insert_with(|| {
            if self.most < usize::MAX {
                self.largest.push(hash);
            }
            self.free.pop().unwrap_or_else(|| u32::try_from(used).expect("the stack has fewer blocks"))
        });
        let scale = self.scale();
        self.whole.access(number, scale);
        self.parts[part(hash)].access(number, scale * f64::from(PARTS));
        while self.numbers.len() > self.most {
            let Some(largest) = self.largest.pop() else { return };
            self.threshold = largest.saturating_sub(1);
            if let Some(number) = self.numbers.remove(&largest) {
                self.free.push(number);
                self.whole.stack.forget(number);
                self.parts[part(largest)].stack.forget(number);
            }
        }
    }

    /// Removes a block whose data was deleted.
    pub fn remove(&mut self, hash: u64) {
        if let Some(number) = self.numbers.remove(&hash) {
            self.free.push(number);
            self.whole.stack.remove(number);
            self.parts[part(hash)].stack.remove(number);
        }
    }

    /// Returns the curve of the requests so far.
    ///
    /// # Errors
    /// [`Error::Refused`] if one of the eight parts of the sample has no block.
    pub fn curve(&self) -> Result<Curve> {
        if self.requests > 0 && self.parts.iter().any(|part| part.weight == 0.0) {
            let what = "the sample has too few blocks: use a larger sample, or all blocks";
            return Err(Error::Refused(what.into()));
        }
        let parts = if self.requests > 0 { &self.parts[..] } else { &[] };
        Ok(Curve {
            whole: self.whole.histogram(self.requests),
            parts: parts.iter().map(|part| part.histogram(self.requests)).collect(),
        })
    }
}

/// Returns the part of the sample that a block belongs to, by the low bits of its hash; the
/// threshold depends on the high ones.
#[expect(clippy::cast_possible_truncation)] // Only the lowest bits are needed.
const fn part(hash: u64) -> usize {
    hash as u8 as usize % PARTS as usize
}

/// Scaled depths of a sample.
#[derive(Clone, Debug)]
struct Sample {
    stack: Stack,
    /// Width of a bucket in blocks of the trace.
    width: f64,
    /// Number of hits that the sample represents, by bucket.
    hits: Vec<f64>,
    /// Number of uses that the sample represents.
    weight: f64,
}

impl Sample {
    fn new(width: f64) -> Self {
        Self { stack: Stack::default(), width, hits: Vec::new(), weight: 0.0 }
    }

    /// Records a use of a sampled block that represents `scale` blocks.
    fn access(&mut self, number: u32, scale: f64) {
        self.weight += scale;
        let Some(depth) = self.stack.access(number) else { return };
        while scale >= 2.0 * self.width {
            self.width *= 2.0;
            self.hits = self.hits.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        // The middle of the blocks that it represents; below 2^53.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let bucket = ((f64::from(depth) - 0.5) * scale / self.width) as usize;
        if bucket >= self.hits.len() {
            self.hits.resize(bucket + 1, 0.0);
        }
        self.hits[bucket] += scale;
    }

    fn histogram(&self, requests: u64) -> Histogram {
        let mut hits = self.hits.clone();
        if hits.is_empty() && requests > 0 {
            hits.push(0.0);
        }
        #[expect(clippy::cast_precision_loss)] // Below 2^53.
        let missing = requests as f64 - self.weight;
        if let Some(first) = hits.first_mut() {
            *first += missing;
        }
        Histogram::sampled(requests, self.width, hits.into_iter())
    }
}
