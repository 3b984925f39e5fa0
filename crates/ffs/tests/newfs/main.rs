//! newfs: what it makes is consistent in every count, for every reader, and like what the real
//! ones make.

mod audit;
mod devices;
mod fit;
mod formats;
mod real;
mod wishes;

use rand::SeedableRng;
use rand::rngs::StdRng;

/// Returns the random numbers of a test, from a seed printed with the command that repeats it.
fn seeded(test: &str) -> StdRng {
    let seed = spindle_conformance::random::seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test newfs {test}");
    StdRng::seed_from_u64(seed)
}
