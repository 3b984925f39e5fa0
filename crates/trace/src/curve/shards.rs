//! SHARDS (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015): the curve of a
//! sample of the blocks.
//!
//! A block is in the sample if its hash is below a threshold, so all its uses are or none. Depths
//! in the sample times blocks per sampled block are depths in the trace. With a fixed *rate* the
//! threshold stays; with a fixed *number of blocks* it falls to the largest hash in the sample
//! whenever there are too many, and what was counted before keeps the weight that it had then. The
//! difference between how many uses there should be in the sample and how many there are is put
//! into the first bucket (SHARDS-adj): for it stems from the few blocks used most, which are at the
//! top.
//!
//! *How far off?* The sample is eight disjoint ones as well. Each has a stack of its own, and how
//! much their curves differ says how much one of such a size depends on chance. It says nothing of
//! what all of them get wrong.
//!
//! With a fixed number of blocks, holes that deleted data left stay when the threshold falls, so a
//! trace of many deletions looks a little deeper than it is.

use super::histogram::Histogram;
use super::{Curve, Stack};
use crate::requests::{BATCH, Request, Requests};
use crate::{Error, Result};
use foldhash::quality::FixedState;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;

/// Parts of the sample.
const PARTS: u8 = 8;
/// 2^64.
const HASHES: f64 = 18_446_744_073_709_551_616.0;

/// How large a sample is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// This share of all blocks, above 0 and up to 1.
    Share(f64),
    /// At most this many blocks, however many there are.
    Blocks(NonZeroU32),
}

/// Returns the curve of a sample of the blocks, with an estimate of its error.
///
/// # Errors
/// As reading the trace does; as [`Shards::new`] and [`Shards::curve`].
pub fn sampled<R: Requests<Block: Hash>>(mut requests: R, rate: Rate) -> Result<Curve> {
    let mut shards = Shards::new(rate)?;
    let hashes = FixedState::default();
    let mut batch = Vec::with_capacity(BATCH);
    while requests.next(&mut batch)? {
        for &request in &batch {
            match request.map(|block| hashes.hash_one(block)) {
                Request::Use(hash) => shards.access(hash),
                Request::Gone(hash) => shards.remove(hash),
            }
        }
    }
    shards.curve()
}

/// A sample that is being taken. Blocks are named by hashes, whose bits all have to be as good as
/// random.
#[derive(Debug)]
pub struct Shards {
    /// The largest hash in the sample.
    threshold: u64,
    most: usize,
    /// Sampled blocks, with a number for each.
    numbers: HashMap<u64, u32, foldhash::fast::FixedState>,
    free: Vec<u32>,
    /// The same blocks (and perhaps some that are gone), the largest hash first, if there may be
    /// too many.
    largest: BinaryHeap<u64>,
    whole: Sample,
    parts: Vec<Sample>,
    requests: u64,
}

impl Shards {
    /// Returns an empty sample.
    ///
    /// # Errors
    /// [`Error::Refused`] for a share that is none.
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
        // A conversion to u64 ends at its largest number, which is the threshold of everything.
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

    /// Returns how many blocks stand behind one of the sample.
    #[expect(clippy::cast_precision_loss)] // 53 bits are enough for a rate.
    fn scale(&self) -> f64 {
        HASHES / (self.threshold as f64 + 1.0)
    }

    /// A block is used.
    ///
    /// # Panics
    /// With 2^30 blocks in the sample.
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
            self.free.pop().unwrap_or_else(|| u32::try_from(used).expect("the stack ends before"))
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

    /// A block's data is gone.
    pub fn remove(&mut self, hash: u64) {
        if let Some(number) = self.numbers.remove(&hash) {
            self.free.push(number);
            self.whole.stack.remove(number);
            self.parts[part(hash)].stack.remove(number);
        }
    }

    /// Returns the curve of what was seen.
    ///
    /// # Errors
    /// [`Error::Refused`] if no block got into one of the eight parts of the sample.
    pub fn curve(&self) -> Result<Curve> {
        if self.requests > 0 && self.parts.iter().any(|part| part.weight == 0.0) {
            let what = "too few blocks are in the sample to say anything: ask for a larger one, or for all";
            return Err(Error::Refused(what.into()));
        }
        let parts = if self.requests > 0 { &self.parts[..] } else { &[] };
        Ok(Curve {
            whole: self.whole.histogram(self.requests),
            parts: parts.iter().map(|part| part.histogram(self.requests)).collect(),
        })
    }
}

/// Returns the part of the sample that a block is in: by bits that the threshold, which looks at
/// the upper ones, does not depend on.
#[expect(clippy::cast_possible_truncation)] // The lowest bits are what is wanted.
const fn part(hash: u64) -> usize {
    hash as u8 as usize % PARTS as usize
}

/// Depths in a sample, scaled.
#[derive(Clone, Debug)]
struct Sample {
    stack: Stack,
    /// Blocks of the trace for each bucket.
    width: f64,
    /// Hits, as many as they stand for.
    hits: Vec<f64>,
    /// Uses, as many as they stand for.
    weight: f64,
}

impl Sample {
    fn new(width: f64) -> Self {
        Self { stack: Stack::default(), width, hits: Vec::new(), weight: 0.0 }
    }

    /// A block of the sample is used, which stands for `scale`.
    fn access(&mut self, number: u32, scale: f64) {
        self.weight += scale;
        let Some(depth) = self.stack.access(number) else { return };
        while scale >= 2.0 * self.width {
            self.width *= 2.0;
            self.hits = self.hits.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        // The middle of the blocks that it stands for; below 2^53.
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
