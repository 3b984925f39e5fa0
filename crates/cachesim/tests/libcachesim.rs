//! Compares with another simulator: the counts of `cachesim` of libCacheSim
//! (github.com/1a1a11a/libCacheSim; the Python source package `libcachesim` 0.3.5, August 2026) for
//! a small trace.
//!
//! Its counts are recorded here, so the tests do not need the program. If the directory
//! `SPINDLE_LIBCACHESIM` has it, they are measured again with
//!
//! ```text
//! cachesim TRACE oracleGeneral POLICY 10,100,500,2000 --ignore-obj-size 1 --num-thread 1
//! ```
//!
//! It prints miss ratios with four digits, so the trace has 10,000 requests.

use spindle_cachesim::curve;
use spindle_cachesim::policy::simulate;
use spindle_cachesim::replacement::{Policy, PolicyName};
use spindle_cachesim::requests::{OracleFile, Requests};
use std::num::NonZeroU32;
use std::path::Path;
use std::process::Command;

const REQUESTS: u64 = 10_000;
const SIZES: [u32; 4] = [10, 100, 500, 2000];

/// The name of a policy in libCacheSim, and its misses with each of the [`SIZES`]. libCacheSim has
/// variants of the other policies: its LIRS limits the stack, its S3-FIFO tests the state of the
/// main queue where the paper tests that of the small one, and small queues and windows of less
/// than one block hold nothing.
const FIGURES: &[(PolicyName, &str, [u64; 4])] = &[
    (PolicyName::Lru, "lru", [9537, 6693, 2768, 1923]),
    (PolicyName::Fifo, "fifo", [9554, 7064, 3515, 1923]),
    (PolicyName::Clock, "clock", [9530, 6527, 2620, 1923]),
    (PolicyName::Sieve, "sieve", [8927, 5306, 2294, 1923]),
    (PolicyName::Arc, "arc", [9081, 5661, 2197, 1923]),
    (PolicyName::TwoQ, "twoq", [9106, 5824, 2632, 1923]),
];

/// Writes a trace of objects with slowly decreasing popularity; every eighth request belongs to a
/// scan.
fn write_trace(path: &Path) {
    let (mut random, mut bytes) = (1_u64, Vec::new());
    for n in 0..REQUESTS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [a, b, c] = [24, 36, 48].map(|shift| (random >> shift) % 1000);
        let object = if n % 8 == 0 { 1000 + n / 8 } else { a * b * c / 1_000_000 };
        bytes.extend(u32::try_from(n).unwrap().to_le_bytes());
        bytes.extend(object.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend((-1_i64).to_le_bytes());
    }
    std::fs::write(path, bytes).unwrap();
}

/// Returns the misses that libCacheSim counts.
fn theirs(directory: &Path, trace: &Path, policy: &str) -> Vec<u64> {
    let sizes = SIZES.map(|size| size.to_string()).join(",");
    let output = Command::new(directory.join("cachesim"))
        .arg(trace)
        .args(["oracleGeneral", policy, &sizes, "--ignore-obj-size", "1", "--num-thread", "1"])
        .current_dir(trace.parent().unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let ratios = text.lines().filter_map(|line| line.rsplit_once("miss ratio "));
    // A ratio such as 0.1234 of 10,000 requests.
    ratios.map(|(_, ratio)| ratio.trim().replace('.', "").parse().unwrap()).collect()
}

/// Promise: LRU, and all policies that libCacheSim implements as published, miss exactly as often
/// there as here.
#[test]
fn misses_are_libcachesims() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("small.oracleGeneral");
    write_trace(&trace);
    for &(name, known_as, figures) in FIGURES {
        let mut policies = SIZES.map(|size| Policy::new(name, NonZeroU32::new(size).unwrap()));
        let tallies = simulate(OracleFile::open(&trace).unwrap().numbered(), &mut policies).unwrap();
        assert!(
            tallies.iter().map(|tally| tally.misses).eq(figures),
            "{name}: {tallies:?} instead of {figures:?}"
        );
        if let Some(directory) = std::env::var_os("SPINDLE_LIBCACHESIM") {
            assert_eq!(
                theirs(Path::new(&directory), &trace, known_as),
                figures,
                "{known_as}, measured again"
            );
        }
    }
    let curve = curve::exact(OracleFile::open(&trace).unwrap().numbered()).unwrap();
    assert_eq!(SIZES.map(|size| curve.misses(size.into())), FIGURES[0].2);
}
