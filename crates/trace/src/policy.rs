//! What replacement policies make of a stream of requests: hits and misses, at one size each.
//!
//! Several policies and sizes share one pass: reading a trace and numbering its blocks take as long
//! as some policies do.

use crate::requests::{BATCH, Request, Requests};
use crate::{Error, Result};
use spindle_cache::policy::replacement::Opt;
use spindle_cache::policy::{Policy, Replacement};
use std::collections::HashMap;
use std::num::NonZeroU32;

/// What a cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Uses of blocks.
    pub requests: u64,
    /// Uses of blocks that were not there.
    pub misses: u64,
    /// Blocks that had to leave for others.
    pub evictions: u64,
}

impl Tally {
    /// Misses per request; of no requests, 0.
    #[must_use]
    #[expect(clippy::cast_precision_loss)] // A share of counts: the last digits do not matter.
    pub fn miss_ratio(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.misses as f64 / self.requests as f64 }
    }
}

/// Runs all requests through each of `policies`, which need not be empty; the tallies are in their
/// order.
///
/// # Errors
/// As reading the trace does.
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
                    Request::Gone(block) => {
                        policy.remove(block);
                    }
                }
            }
        }
    }
    Ok(tallies)
}

/// A use whose block is not used again.
const NEVER: u32 = u32::MAX;

/// Returns what the best of all policies would have done ([`Opt`]) with caches of these sizes. It
/// knows the future, so all requests are kept in memory, 12 bytes each.
///
/// # Errors
/// As reading the trace does; [`Error::Refused`] if there are 2^32 requests or more.
pub fn optimal(mut requests: impl Requests<Block = u32>, sizes: &[NonZeroU32]) -> Result<Vec<Tally>> {
    let (mut all, mut batch) = (Vec::new(), Vec::with_capacity(BATCH));
    while requests.next(&mut batch)? {
        all.extend_from_slice(&batch);
    }
    if u32::try_from(all.len()).is_err() {
        let what = format!("{} requests are too many for OPT, which has to keep them all", all.len());
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
                Request::Gone(block) => {
                    opt.remove(block);
                }
            }
        }
        tally
    };
    Ok(sizes.iter().map(tally).collect())
}

/// For each use when its block is used next, if its data is not gone before.
fn next_uses(requests: &[Request<u32>]) -> Vec<u32> {
    let mut next = vec![NEVER; requests.len()];
    let mut coming = HashMap::<u32, u32, foldhash::fast::FixedState>::default();
    for ((at, &request), next) in (0..NEVER).zip(requests).zip(&mut next).rev() {
        match request {
            Request::Use(block) => *next = coming.insert(block, at).unwrap_or(NEVER),
            Request::Gone(block) => {
                coming.remove(&block);
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::Listed;
    use spindle_cache::policy::PolicyName;

    fn size(blocks: u32) -> NonZeroU32 {
        NonZeroU32::new(blocks).unwrap()
    }

    /// Promise: several policies see the same requests, each is counted for itself, and nothing
    /// asked for is no miss.
    #[test]
    fn policies_share_a_pass() {
        use Request::{Gone, Use};
        let requests = [1, 2, 3, 1, 4, 2].map(Use).into_iter().chain([Gone(2), Gone(9), Use(2)]);
        let requests: Vec<_> = requests.collect();
        let mut policies = [(PolicyName::Lru, 2), (PolicyName::Lru, 3), (PolicyName::Fifo, 3)]
            .map(|(n, s)| Policy::new(n, size(s)));
        let tallies = simulate(Listed::new(&requests), &mut policies).unwrap();
        // LRU of 3 hits 1 only, which 4 and the second 2 drive out no more; FIFO hits 1 and 2.
        let expected =
            [(7, 4), (6, 2), (5, 1)].map(|(misses, evictions)| Tally { requests: 7, misses, evictions });
        assert_eq!(tallies, expected);
        assert!((tallies[1].miss_ratio() - 6.0 / 7.0).abs() < 1e-12);
        assert!(Tally::default().miss_ratio() < 1e-12);
    }

    /// Promise: OPT knows the future, and that data which goes is not used again.
    #[test]
    fn the_best_by_hand() {
        use Request::{Gone, Use};
        // With 2 blocks: 1 and 2 come; 3 takes the place of 2, as 2 goes before it is used; 1 hits;
        // 2 comes anew for 3; both hit.
        let requests = [Use(1), Use(2), Use(3), Use(1), Gone(2), Use(2), Use(1), Use(2)];
        let tallies = optimal(Listed::new(&requests), &[size(1), size(2)]).unwrap();
        let expected = [(7, 6), (4, 2)].map(|(misses, evictions)| Tally { requests: 7, misses, evictions });
        assert_eq!(tallies, expected);
    }
}
