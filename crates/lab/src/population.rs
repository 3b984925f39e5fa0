//! Populations of files that stand in for those the papers measured, which are lost.

use rand::Rng;

/// Percent of files smaller than 2^n bytes, n from 0: the files of the computer science department of the Vrije
/// Universiteit in 1984 (Mullender and Tanenbaum, "Immediate Files", 1984; the table as told again by Tanenbaum,
/// Herder and Bos, "File size distribution on UNIX systems: then and now", 2006). Their median is 1080 bytes.
const SMALLER_1984: [f64; 20] = [
    1.79, 1.88, 2.01, 2.31, 3.32, 5.13, 8.71, 14.73, 23.09, 34.44, 48.05, 60.87, 75.31, 84.97, 92.53, 97.21,
    99.18, 99.84, 99.96, 100.00,
];

/// Files to a directory: 4800 files in 380 directories (Ritchie and Thompson, "The UNIX Time-Sharing System", section 9
/// of the version of 1974).
pub const FILES_PER_DIRECTORY: f64 = 4800.0 / 380.0;

/// The size in bytes of a file, as sizes were on a UNIX system of 1984; between the published points sizes are spread
/// evenly on a logarithmic scale.
pub fn size_1984(random: &mut impl Rng) -> u64 {
    let percent = random.random_range(0.0..100.0);
    let n = SMALLER_1984.iter().position(|&smaller| percent < smaller).unwrap_or(SMALLER_1984.len() - 1);
    let Some(below) = n.checked_sub(1) else { return 0 };
    let within = (percent - SMALLER_1984[below]) / (SMALLER_1984[n] - SMALLER_1984[below]);
    let exponent = f64::from(u32::try_from(below).unwrap_or(0)) + within;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // At most 2^19.
    let size = exponent.exp2() as u64;
    size
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    /// Promise: the population has the published median, and nothing larger than the largest file.
    #[test]
    fn median() {
        let mut random = StdRng::seed_from_u64(1984);
        let mut sizes: Vec<u64> = (0..20_001).map(|_| size_1984(&mut random)).collect();
        sizes.sort_unstable();
        let median = sizes[10_000];
        assert!((1000..1180).contains(&median), "{median}");
        assert!(*sizes.last().unwrap() <= 1 << 19);
    }
}
