//! A trace for cache simulators: requests for objects whose popularity is 1/rank (Zipf's law,
//! exponent 1), each independent of those before.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_interop::{Failure, Result};

/// Objects there are.
pub const OBJECTS: u32 = 1_000_000;

/// Writes it as oracleGeneral: records of time, object, size (1) and next request for the object
/// (left out).
pub fn write(path: &Path, requests: u64) -> Result<()> {
    let fail = |error| Failure::of(path.display())(error);
    let mut sum = 0.0;
    let upto: Vec<f64> = (1..=OBJECTS).map(|rank| (sum += 1.0 / f64::from(rank), sum).1).collect();
    let mut random = StdRng::seed_from_u64(1);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(fail)?);
    for nth in 0..requests {
        let at = random.random_range(0.0..sum);
        let rank = upto.partition_point(|&upto| upto < at) as u64;
        // Neighbours in rank are no neighbours in name.
        let object = rank.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut record = [0; 24];
        record[..4].copy_from_slice(&u32::try_from(nth / 1000).unwrap_or(u32::MAX).to_le_bytes());
        record[4..12].copy_from_slice(&object.to_le_bytes());
        record[12..16].copy_from_slice(&1_u32.to_le_bytes());
        record[16..].copy_from_slice(&(-1_i64).to_le_bytes());
        file.write_all(&record).map_err(fail)?;
    }
    file.flush().map_err(fail)
}
