//! Every policy: small cases worked out by hand, and random ones beside the naive ones.

mod naive;

use super::*;
use naive::{naive, remove};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Returns the policy of `name` for `capacity` blocks.
fn policy(name: PolicyName, capacity: u32) -> Policy {
    Policy::new(name, NonZeroU32::new(capacity).unwrap())
}

/// Returns what was evicted, access by access; a hit is shown as the block itself, which a miss
/// cannot evict.
fn evicted(policy: &mut Policy, keys: &[u32]) -> Vec<Vec<u32>> {
    let access = |&key: &u32| {
        let mut gone = Vec::new();
        let hit = policy.access(key, |victim| gone.push(victim));
        assert!(!hit || gone.is_empty());
        if hit { vec![key] } else { gone }
    };
    keys.iter().map(access).collect()
}

/// Returns what `evicted` gives, from a line: `-` for nothing.
fn log(line: &str) -> Vec<Vec<u32>> {
    line.split(' ').map(|word| word.parse().into_iter().collect()).collect()
}

/// Promise: names are read as they are written, in any case, and the error for a wrong one lists
/// the right ones.
#[test]
fn names_are_read_as_written() {
    for &name in PolicyName::ALL {
        assert_eq!(name.to_string().to_uppercase().parse(), Ok(name));
        assert_eq!(policy(name, 1).name(), name);
    }
    let error = "mru".parse::<PolicyName>().unwrap_err().to_string();
    assert!(error.contains("\"mru\"") && error.contains("lru"), "{error}");
}

/// Promise: LRU gives up what was used longest ago, FIFO what came first.
#[test]
fn queues_by_hand() {
    let keys = [1, 2, 3, 1, 4, 2, 1];
    assert_eq!(evicted(&mut policy(PolicyName::Lru, 3), &keys), log("- - - 1 2 3 1"));
    assert_eq!(evicted(&mut policy(PolicyName::Fifo, 3), &keys), log("- - - 1 1 2 2"));
}

/// Promise: CLOCK's hand spares a used block once and puts it behind; SIEVE's leaves it where it
/// is.
#[test]
fn hands_by_hand() {
    // Both spare 1 and take 2. CLOCK has 1 behind 4 then, and takes 3 and 4 first; SIEVE's hand
    // stands at 3, takes it, goes on to 4 and to 5, the newest, and only then comes back to 1.
    let keys = [1, 2, 3, 1, 4, 5, 6, 7, 8];
    assert_eq!(evicted(&mut policy(PolicyName::Clock, 3), &keys), log("- - - 1 2 3 1 4 5"));
    assert_eq!(evicted(&mut policy(PolicyName::Sieve, 3), &keys), log("- - - 1 2 3 4 5 6"));
}

/// Promise: 2Q takes from its queue while that is above a quarter, and what comes back from the
/// queue's ghosts stays.
#[test]
fn two_q_by_hand() {
    // Of 4 blocks 1 is for the queue, 2 for its ghosts. 1 is used twice in the queue, which does
    // not count. 1 comes back as a ghost and is in Am; the queue then passes 4, 5, 6, 7 and leaves
    // it.
    let keys = [1, 2, 3, 1, 4, 5, 1, 6, 7, 8, 1];
    assert_eq!(evicted(&mut policy(PolicyName::TwoQ, 4), &keys), log("- - - 1 - 1 2 3 4 5 1"));
}

/// Promise: ARC's second list outlives a scan of blocks used once, and a hit among ghosts gives the
/// first more room.
#[test]
fn arc_by_hand() {
    // 1 and 2 are in T2. 3 and 4 fill T1, 5 takes 3 (B1), which comes back: p = 1, so T1 (4, 5)
    // gives up 4, and 3 is in T2. T1 has 5 alone, which is not above p, so 6 takes 1 from T2.
    let keys = [1, 2, 1, 2, 3, 4, 5, 3, 6];
    assert_eq!(evicted(&mut policy(PolicyName::Arc, 4), &keys), log("- - 1 2 - - 3 4 1"));
}

/// Promise: LIRS passes blocks through its last place, until one comes back while it is younger
/// than the oldest LIR block.
#[test]
fn lirs_by_hand() {
    // 1 and 2 are LIR, 3 and 4 pass. 4 comes back at once: it is LIR, and 1, the oldest, takes the
    // last place, from where 5 drives it out.
    let keys = [1, 2, 3, 4, 4, 5, 2, 4];
    assert_eq!(evicted(&mut policy(PolicyName::Lirs, 3), &keys), log("- - - 3 4 1 2 4"));
}

/// Promise: S3-FIFO's small queue gives up what was used once, and sends on what was used more; a
/// ghost comes to the main queue.
#[test]
fn s3_fifo_by_hand() {
    // Of 3 blocks 1 is for the small queue. 1 is used three times: it goes to the main queue when 4
    // comes, and 2 leaves. 2 comes back from the ghosts into the main queue (3 leaves), where it
    // outlives 4 and 5.
    let keys = [1, 1, 1, 2, 3, 4, 2, 5, 6, 2];
    assert_eq!(evicted(&mut policy(PolicyName::S3Fifo, 3), &keys), log("- 1 1 - - 2 3 4 5 2"));
}

/// Promise: W-TinyLFU lets into the main part only what was used more often than what would leave.
#[test]
fn w_tiny_lfu_by_hand() {
    // A window of 1, a main part of 2: 1 and 2. 3 and 4 were used no more often than 1 and go. 5 is
    // used twice, and takes the place of 2, as 1 is protected since its second use.
    let keys = [1, 2, 3, 1, 4, 5, 5, 6, 1];
    assert_eq!(evicted(&mut policy(PolicyName::WTinyLfu, 3), &keys), log("- - - 1 3 4 5 2 1"));
}

/// Returns a seed: the one asked for, or a new one.
fn seed(test: &str) -> u64 {
    let asked =
        std::env::var("SPINDLE_SEED").ok().map(|text| text.parse().expect("SPINDLE_SEED is a number"));
    let seed = asked.unwrap_or_else(|| StdRng::from_os_rng().random());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-cache {test}");
    seed
}

fn cases() -> u64 {
    std::env::var("SPINDLE_CASES").map_or(100, |text| text.parse().expect("SPINDLE_CASES is a number"))
}

/// Returns uses (`Ok`) and removals (`Err`) of blocks, with favourites and scans.
fn stream(random: &mut StdRng) -> Vec<Result<u32, u32>> {
    let (keys, removals) = (random.random_range(2..60), random.random_range(0..20));
    let steps = random.random_range(1..1000);
    let mut scan = 0;
    let step = |_| {
        let skewed = random.random_range(0..keys).min(random.random_range(0..keys));
        scan = (scan + 1) % keys;
        match random.random_range(0..100) {
            n if n < removals => Err(skewed),
            n if n < 70 => Ok(skewed),
            _ => Ok(scan),
        }
    };
    (0..steps).map(step).collect()
}

/// Promise: every policy does at every step the same as the naive version of its paper, also with
/// removals; and it contains exactly the blocks that came in and did not leave.
#[test]
fn torture_policies_follow_their_papers() {
    let mut random = StdRng::seed_from_u64(seed("torture_policies_follow_their_papers"));
    for _ in 0..cases() {
        let stream = stream(&mut random);
        let capacity = if random.random() { random.random_range(1..40) } else { random.random_range(1..5) };
        for &name in PolicyName::ALL {
            let (mut fast, mut slow) = (policy(name, capacity), naive(name, capacity as usize));
            let mut there = std::collections::BTreeSet::new();
            for (nth, &step) in stream.iter().enumerate() {
                match step {
                    Ok(key) => {
                        let mut gone = Vec::new();
                        let hit = fast.access(key, |victim| gone.push(victim));
                        assert_eq!((hit, gone.clone()), slow.access(key), "{name} of {capacity}, step {nth}");
                        assert_eq!(there.contains(&key), hit);
                        assert!(gone.iter().all(|victim| there.remove(victim)));
                        there.insert(key);
                    }
                    Err(key) => {
                        assert_eq!(fast.remove(key), remove(&mut *slow, key), "{name}, step {nth}");
                        assert!(!fast.contains(key));
                        there.remove(&key);
                    }
                }
                assert_eq!(fast.len(), there.len());
                assert!(there.iter().all(|&key| fast.contains(key)) && there.len() <= capacity as usize);
            }
        }
    }
}

/// Returns the time of the next use of the block of each access, if it is not removed before.
fn next_uses(stream: &[Result<u32, u32>]) -> Vec<u64> {
    let next = |(nth, &step): (usize, &Result<u32, u32>)| {
        let later =
            stream[nth + 1..].iter().position(|&later| later == step || later == Err(step.unwrap_or(0)));
        match later.map(|later| nth + 1 + later) {
            Some(at) if stream[at] == step => at as u64,
            _ => Opt::NEVER,
        }
    };
    stream.iter().enumerate().map(next).collect()
}

/// Returns the least possible misses, found by trying everything.
fn fewest_misses(stream: &[Result<u32, u32>], capacity: usize, there: &mut Vec<u32>) -> usize {
    let [step, rest @ ..] = stream else { return 0 };
    let key = match *step {
        Ok(key) if there.contains(&key) => return fewest_misses(rest, capacity, there),
        Ok(key) => key,
        Err(key) => {
            let mut there: Vec<u32> = there.iter().copied().filter(|&other| other != key).collect();
            return fewest_misses(rest, capacity, &mut there);
        }
    };
    if there.len() < capacity {
        let mut there = [&there[..], &[key]].concat();
        return 1 + fewest_misses(rest, capacity, &mut there);
    }
    let victims = 0..there.len();
    1 + victims
        .map(|victim| {
            let mut there = there.clone();
            there[victim] = key;
            fewest_misses(rest, capacity, &mut there)
        })
        .min()
        .unwrap_or(0)
}

fn misses_of_opt(stream: &[Result<u32, u32>], capacity: u32) -> usize {
    let mut opt = Opt::new(NonZeroU32::new(capacity).unwrap());
    let next = next_uses(stream);
    let mut misses = 0;
    for (&step, next) in stream.iter().zip(next) {
        match step {
            Ok(key) => misses += usize::from(!opt.access(key, next, |_| {})),
            Err(key) => {
                opt.remove(key);
            }
        }
    }
    misses
}

/// Promise: no policy has fewer misses than OPT.
#[test]
fn torture_opt_is_the_bound() {
    let mut random = StdRng::seed_from_u64(seed("torture_opt_is_the_bound"));
    for _ in 0..cases() {
        let (stream, capacity) = (stream(&mut random), random.random_range(1..40));
        let bound = misses_of_opt(&stream, capacity);
        for &name in PolicyName::ALL {
            let mut policy = policy(name, capacity);
            let mut misses = 0;
            for &step in &stream {
                match step {
                    Ok(key) => misses += usize::from(!policy.access(key, |_| {})),
                    Err(key) => {
                        policy.remove(key);
                    }
                }
            }
            assert!(misses >= bound, "{name} of {capacity}: {misses} < {bound}");
        }
    }
}

/// Promise: OPT has as few misses as possible, on streams so short that everything can be tried.
#[test]
fn torture_opt_is_optimal() {
    let mut random = StdRng::seed_from_u64(seed("torture_opt_is_optimal"));
    for _ in 0..cases() {
        let mut step = |_| {
            let key = random.random_range(0..5);
            if random.random_range(0..8) == 0 { Err(key) } else { Ok(key) }
        };
        let stream: Vec<_> = (0..12).map(&mut step).collect();
        for capacity in 1..=3 {
            let best = fewest_misses(&stream, capacity as usize, &mut Vec::new());
            assert_eq!(misses_of_opt(&stream, capacity), best, "{stream:?}, {capacity}");
        }
    }
}
