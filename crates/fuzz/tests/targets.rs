//! Every target with its seeds and with mutations of them, without a fuzzer.
//!
//! `SPINDLE_SEED` is the seed, `SPINDLE_CASES` the number of mutations of each target.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_conformance::random::seed;
use spindle_fuzz::TARGETS;
use spindle_torture::memory::{Counting, measure};
use std::collections::BTreeSet;

#[global_allocator]
static MEMORY: Counting = Counting;

/// Mutations of each target in the sample.
const SAMPLE: usize = 40;
/// Most bytes of memory that an input may take.
const MOST_MEMORY: usize = 512 << 20;

/// Returns a seed with some bytes changed, or a part of it gone.
fn mutated(seed: &[u8], random: &mut SmallRng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.random_range(1..6) {
        if bytes.is_empty() {
            break;
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..5) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)],
            3 => {
                let end = bytes.len().min(at + 8);
                random.fill(&mut bytes[at..end]);
            }
            _ => {
                let from = random.random_range(0..bytes.len());
                let end = bytes.len().min(from + 16);
                let piece = bytes[from..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Promise: each target has a name of its own and seeds, and neither these nor mutations of them
/// make it panic or hold too much memory.
#[test]
fn torture_targets() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-fuzz --test targets");
    let cases = std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(SAMPLE);
    let mut names = BTreeSet::new();
    for target in TARGETS {
        assert!(names.insert(target.name), "two targets {}", target.name);
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        let mut random = SmallRng::seed_from_u64(seed);
        let mutations = (0..cases).map(|_| mutated(&seeds[random.random_range(0..seeds.len())], &mut random));
        let mutations: Vec<_> = mutations.collect();
        for (n, input) in seeds.iter().chain(&mutations).enumerate() {
            let ((), memory) = measure(|| (target.run)(input));
            assert!(memory < MOST_MEMORY, "{}: input {n} holds {memory} bytes", target.name);
        }
    }
}
