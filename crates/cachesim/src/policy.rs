//! Simulates replacement policies on a stream of requests: hits and misses, for one size each.
//!
//! Several policies and sizes share one pass, because reading a trace and numbering its blocks
//! takes as long as some policies do.

use crate::replacement::Opt;
use crate::replacement::{Policy, Replacement};
use crate::requests::{BATCH, Request, Requests};
use spindle_trace::{Error, Result};
use std::collections::HashMap;
use std::num::NonZeroU32;

/// Counts of one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of uses of blocks.
    pub requests: u64,
    /// Number of uses of blocks that were not in the cache.
    pub misses: u64,
    /// Number of blocks evicted.
    pub evictions: u64,
}

impl Tally {
    /// Returns the misses per request; 0 without requests.
    #[must_use]
    #[expect(clippy::cast_precision_loss)] // A ratio needs no exact counts.
    pub fn miss_ratio(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.misses as f64 / self.requests as f64 }
    }
}

/// Simulates each of `policies`, which may already hold blocks; returns the tallies in their order.
///
/// # Errors
/// Errors of reading the trace.
pub fn simulate(mut requests: impl Requests<Block = u32>, policies: &mut [Policy]) -> Result<Vec<Tally>> {
    let mut tallies = vec![Tally::default(); policies.len()];
    let mut batch = Vec::with_capacity(BATCH);
    while requests.next(&mut batch)? {
        for (policy, tally) in policies.iter_mut().zip(&mut tallies) {
            for &request in &batch {
                match request {
                    Request::Use(block) => {
                        tally.requests += 1;
                        tally.misses += u64::from(!policy.access(block, |_| tally.evictions += 1));
                    }
                    Request::Deleted(block) => {
                        policy.remove(block);
                    }
                }
            }
        }
    }
    Ok(tallies)
}

/// Marks a use whose block is not used again.
const NEVER: u32 = u32::MAX;

/// Returns the tallies of the optimal policy ([`Opt`]) with caches of these sizes. It needs the
/// future, so all requests are kept in memory, 12 bytes each.
///
/// # Errors
/// Errors of reading the trace; [`Error::Refused`] for 2^32 requests or more.
pub fn optimal(mut requests: impl Requests<Block = u32>, sizes: &[NonZeroU32]) -> Result<Vec<Tally>> {
    let (mut all, mut batch) = (Vec::new(), Vec::with_capacity(BATCH));
    while requests.next(&mut batch)? {
        all.extend_from_slice(&batch);
    }
    if u32::try_from(all.len()).is_err() {
        let what = format!("{} requests are too many for OPT, which keeps all of them in memory", all.len());
        return Err(Error::Refused(what));
    }
    let next = next_uses(&all);
    let tally = |&size: &NonZeroU32| {
        let (mut opt, mut tally) = (Opt::new(size), Tally::default());
        for (&request, &next) in all.iter().zip(&next) {
            match request {
                Request::Use(block) => {
                    let next = if next == NEVER { Opt::NEVER } else { u64::from(next) };
                    tally.requests += 1;
                    tally.misses += u64::from(!opt.access(block, next, |_| tally.evictions += 1));
                }
                Request::Deleted(block) => {
                    opt.remove(block);
                }
            }
        }
        tally
    };
    Ok(sizes.iter().map(tally).collect())
}

/// Returns, for each use, the index of the next use of its block, unless its data is deleted
/// before.
fn next_uses(requests: &[Request<u32>]) -> Vec<u32> {
    let mut next = vec![NEVER; requests.len()];
    let mut coming = HashMap::<u32, u32, foldhash::fast::FixedState>::default();
    for ((at, &request), next) in (0..NEVER).zip(requests).zip(&mut next).rev() {
        match request {
            Request::Use(block) => *next = coming.insert(block, at).unwrap_or(NEVER),
            Request::Deleted(block) => {
                coming.remove(&block);
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replacement::PolicyName;
    use crate::requests::RequestList;

    fn size(blocks: u32) -> NonZeroU32 {
        NonZeroU32::new(blocks).unwrap()
    }

    /// Promise: several policies see the same requests and are counted separately, and no requests
    /// mean no misses.
    #[test]
    fn policies_share_a_pass() {
        use Request::{Deleted, Use};
        let requests = [1, 2, 3, 1, 4, 2].map(Use).into_iter().chain([Deleted(2), Deleted(9), Use(2)]);
        let requests: Vec<_> = requests.collect();
        let mut policies = [(PolicyName::Lru, 2), (PolicyName::Lru, 3), (PolicyName::Fifo, 3)]
            .map(|(n, s)| Policy::new(n, size(s)));
        let tallies = simulate(RequestList::new(&requests), &mut policies).unwrap();
        // LRU of 3 hits only 1, which 4 and the second 2 do not evict; FIFO hits 1 and 2.
        let expected =
            [(7, 4), (6, 2), (5, 1)].map(|(misses, evictions)| Tally { requests: 7, misses, evictions });
        assert_eq!(tallies, expected);
        assert!((tallies[1].miss_ratio() - 6.0 / 7.0).abs() < 1e-12);
        assert!(Tally::default().miss_ratio() < 1e-12);
    }

    /// Promise: OPT uses the future, and knows that deleted data is not used again.
    #[test]
    fn optimal_by_hand() {
        use Request::{Deleted, Use};
        // With 2 blocks: 1 and 2 are read; 3 replaces 2, which is deleted before its next use; 1
        // hits; 2 is read again in place of 3; both hit.
        let requests = [Use(1), Use(2), Use(3), Use(1), Deleted(2), Use(2), Use(1), Use(2)];
        let tallies = optimal(RequestList::new(&requests), &[size(1), size(2)]).unwrap();
        let expected = [(7, 6), (4, 2)].map(|(misses, evictions)| Tally { requests: 7, misses, evictions });
        assert_eq!(tallies, expected);
    }
}
