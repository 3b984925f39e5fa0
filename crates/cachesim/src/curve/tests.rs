//! Curves: calculated by hand, compared with simulated caches of every size, and samples compared
//! with exact curves.

use super::*;
use crate::replacement::Lru;
use crate::replacement::Replacement;
use crate::requests::RequestList;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::num::NonZeroU32;

/// Returns the seed from the environment, or a random one.
fn seed(test: &str) -> u64 {
    let asked =
        std::env::var("SPINDLE_SEED").ok().map(|text| text.parse().expect("SPINDLE_SEED is a number"));
    let seed = asked.unwrap_or_else(|| StdRng::from_os_rng().random());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-cachesim {test}");
    seed
}

fn cases() -> u64 {
    std::env::var("SPINDLE_CASES").map_or(60, |text| text.parse().expect("SPINDLE_CASES is a number"))
}

/// Returns the misses of simulated LRU caches of the sizes 1 to `sizes`.
fn misses(requests: &[Request<u32>], sizes: u32) -> Vec<u64> {
    let misses = |size| {
        let mut lru = Lru::new(NonZeroU32::new(size).unwrap());
        let mut miss = |request: &Request<u32>| match *request {
            Request::Use(block) => !lru.access(block, |_| {}),
            Request::Deleted(block) => {
                lru.remove(block);
                false
            }
        };
        requests.iter().filter(|request| miss(request)).count() as u64
    };
    (1..=sizes).map(misses).collect()
}

/// Returns uses of `blocks` blocks with popularities in the ratios 1, 1/2, 1/3, ….
fn zipf(random: &mut StdRng, blocks: u32, count: usize) -> Vec<Request<u32>> {
    let weights = (1..=blocks).scan(0.0, |sum, n| {
        *sum += 1.0 / f64::from(n);
        Some(*sum)
    });
    let weights: Vec<f64> = weights.collect();
    let all = weights[weights.len() - 1];
    let one = |_| {
        let at = random.random_range(0.0..all);
        Request::Use(u32::try_from(weights.partition_point(|&weight| weight < at)).unwrap())
    };
    (0..count).map(one).collect()
}

/// Promise: depths are those of an LRU stack, in which deleted data leaves a hole.
#[test]
fn depths_by_hand() {
    let mut stack = Stack::default();
    assert_eq!(
        [1, 2, 3, 1, 1, 2].map(|key| stack.access(key)),
        [None, None, None, Some(3), Some(1), Some(3)]
    );
    // From the top: 2, 1, 3. Removing 1 leaves a hole at depth 2, which 3 fills when it is used at
    // depth 3: a cache of two blocks did not hold it, one of three did.
    assert!(stack.remove(1) && !stack.remove(1) && !stack.remove(77));
    assert_eq!(stack.access(3), Some(3));
    // Now 3, 2, hole: 4 is new and fills the hole, so 2 is no deeper than 3.
    assert_eq!([4, 2].map(|key| stack.access(key)), [None, Some(3)]);
    // Now 2, 4, 3; forgetting a block leaves no hole.
    assert!(stack.forget(4) && !stack.forget(4));
    assert_eq!(stack.access(3), Some(2));
}

/// Promise: one pass gives the misses of an LRU cache of every size, also with deletions.
#[test]
fn torture_all_sizes_at_once() {
    let mut random = StdRng::seed_from_u64(seed("torture_all_sizes_at_once"));
    for _ in 0..cases() {
        let (blocks, deletions) = (random.random_range(1..50), random.random_range(0..30));
        let mut step = |_: u32| {
            let block = random.random_range(0..blocks).min(random.random_range(0..blocks));
            if random.random_range(0..100) < deletions {
                Request::Deleted(block)
            } else {
                Request::Use(block)
            }
        };
        let requests: Vec<_> = (0..600).map(&mut step).collect();
        let curve = exact(RequestList::new(&requests)).unwrap();
        let expected = misses(&requests, blocks + 2);
        let found: Vec<_> = (1..=u64::from(blocks) + 2).map(|size| curve.misses(size)).collect();
        assert_eq!(found, expected);
        assert!(curve.is_exact() && curve.end() <= blocks.into() && curve.error(1) <= 0.0);
        assert_eq!(curve.misses(0), curve.requests());
    }
}

/// Promise: renumbering a full timeline changes nothing, including holes.
#[test]
fn renumbering_places_changes_nothing() {
    let mut random = StdRng::seed_from_u64(9);
    let mut requests = zipf(&mut random, 5000, 300_000);
    for at in (0..requests.len()).step_by(7) {
        requests[at] = requests[at].map(|block| block / 2);
        if let (0, Request::Use(block)) = (at % 3, requests[at]) {
            requests[at] = Request::Deleted(block);
        }
    }
    let curve = exact(RequestList::new(&requests)).unwrap();
    for size in [1, 10, 300, 2000, 4000, 5000] {
        let mut lru = [crate::replacement::Policy::Lru(Lru::new(NonZeroU32::new(size).unwrap()))];
        let tally = crate::policy::simulate(RequestList::new(&requests), &mut lru).unwrap();
        assert_eq!(curve.misses(size.into()), tally[0].misses, "{size}");
    }
}

/// Promise: a sample of all blocks gives the exact curve.
#[test]
fn a_full_sample_is_exact() {
    let requests = zipf(&mut StdRng::seed_from_u64(5), 300, 20_000);
    let whole = exact(RequestList::new(&requests)).unwrap();
    let most = Rate::Blocks(NonZeroU32::new(300).unwrap());
    for rate in [Rate::Share(1.0), most] {
        let sample = sampled(RequestList::new(&requests), rate).unwrap();
        assert!((0..=301).all(|size| sample.misses(size) == whole.misses(size)), "{rate:?}");
        assert!(!sample.is_exact());
    }
}

/// Promise: the error of samples is about as large as estimated, and seldom more than three times
/// that.
#[test]
fn samples_know_their_error() {
    let mut random = StdRng::seed_from_u64(8);
    for rate in [Rate::Share(0.05), Rate::Blocks(NonZeroU32::new(1000).unwrap())] {
        let (mut squares, mut estimated, mut count, mut outside) = (0.0, 0.0, 0, 0);
        for salt in 0..8_u64 {
            let requests = zipf(&mut random, 20_000, 60_000);
            let named: Vec<_> = requests.iter().map(|request| request.map(|block| (salt, block))).collect();
            let (whole, sample) = (
                exact(RequestList::new(&requests)).unwrap(),
                sampled(RequestList::new(&named), rate).unwrap(),
            );
            for size in [20, 200, 1000, 3000, 6000] {
                let off = sample.at(size) - whole.at(size);
                let error = sample.error(size);
                outside += u32::from(off.abs() > 3.0 * error);
                count += 1;
                if size >= sample.resolution() {
                    squares += off * off;
                    estimated += error * error;
                }
            }
        }
        let (off, said) = (f64::sqrt(squares / f64::from(count)), f64::sqrt(estimated / f64::from(count)));
        println!("{rate:?}: {off:.4} off, {said:.4} estimated, {outside} of {count} outside");
        assert!(off < 0.03 && said < 2.0 * off && off < 2.0 * said && outside <= count / 10, "{rate:?}");
    }
}

/// Promise: invalid samples are refused: of no blocks, of more than all, and of so few that parts
/// are empty.
#[test]
fn invalid_samples_are_refused() {
    for share in [0.0, -1.0, 1.1, f64::NAN] {
        assert!(Shards::new(Rate::Share(share)).unwrap_err().to_string().contains("above 0 and at most 1"));
    }
    let requests = [Request::Use(1_u32)];
    assert!(
        sampled(RequestList::new(&requests), Rate::Share(0.01)).unwrap_err().to_string().contains("too few")
    );
    let nothing = sampled(RequestList::<u32>::new(&[]), Rate::Share(0.01)).unwrap();
    assert_eq!((nothing.requests(), nothing.end(), nothing.knee()), (0, 0, None));
}

/// Promise: the knee of a loop beside one popular block is at the popular block or at the length of
/// the loop, depending on which gains more for its size.
#[test]
fn the_knee() {
    // Every second request is block 0: sizes from 2 up hold it, and only size 101 holds the loop.
    let with_loop: Vec<_> =
        (0..10_000).map(|n| Request::Use(if n % 2 == 0 { 0 } else { 1 + n / 2 % 100 })).collect();
    let curve = exact(RequestList::new(&with_loop)).unwrap();
    let (size, below) = curve.knee().unwrap();
    assert_eq!(size, 2);
    assert!((0.45..0.55).contains(&below), "{below}");
    // A loop alone has no knee: nothing is gained before its end.
    let only_loop: Vec<_> = (0..1000).map(|n| Request::Use(n % 10)).collect();
    assert_eq!(exact(RequestList::new(&only_loop)).unwrap().knee(), None);
}

/// Promise: sizes for a plot go from 1 to the end and do not repeat.
#[test]
fn sizes_to_show() {
    let requests: Vec<_> = (0..2000).map(|n| Request::Use(n % 1000)).collect();
    let curve = exact(RequestList::new(&requests)).unwrap();
    assert_eq!(curve.sizes(4), [1, 10, 100, 1000]);
    let sizes = curve.sizes(50);
    assert!(sizes.is_sorted_by(|a, b| a < b) && sizes.len() > 40);
    assert_eq!(curve.sizes(0), []);
}
