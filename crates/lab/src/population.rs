//! Populations of files that stand in for those the papers measured, which are lost.

use rand::Rng;

/// Percent of files smaller than 2^n bytes, n from 0: the files of the computer science department
/// of the Vrije Universiteit in 1984 (Mullender and Tanenbaum, "Immediate Files", 1984; the table
/// as quoted by Tanenbaum, Herder and Bos, "File size distribution on UNIX systems: then and
/// now", 2006). Their median is 1080 bytes.
const SMALLER_1984: [f64; 20] = [
    1.79, 1.88, 2.01, 2.31, 3.32, 5.13, 8.71, 14.73, 23.09, 34.44, 48.05, 60.87, 75.31, 84.97, 92.53, 97.21,
    99.18, 99.84, 99.96, 100.00,
];

/// Files to a directory: 4800 files in 380 directories (Ritchie and Thompson, "The UNIX
/// Time-Sharing System", section 9 of the version of 1974).
pub const FILES_PER_DIRECTORY: f64 = 4800.0 / 380.0;

/// A file larger than those published for 1984, in bytes: 775 megabytes of Berkeley's files had to
/// be a quarter such files for as much waste as Table 1 of the 1984 paper has.
const LARGE_1984: u64 = (1 << 20) + 12_345;
/// Their share among all files.
const LARGE_SHARE_1984: f64 = 0.0019;

/// Files up to 2^n bytes, n from 0, after the empty ones: 12 million files of some thousand file
/// systems (Irlam, "Unix File Size Survey", 1993), as far as they fit a disk of 1991.
const UP_TO_1993: [u32; 24] = [
    147_479, 3_288, 5_740, 10_234, 21_217, 67_144, 231_970, 282_079, 278_731, 512_897, 1_284_617, 1_808_526,
    2_397_908, 1_717_869, 1_144_688, 865_126, 574_651, 348_280, 194_864, 112_967, 58_644, 32_286, 16_140,
    7_221,
];

/// Whose files they are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// A UNIX system of 1984, with large files as Berkeley had them.
    Of1984,
    /// UNIX systems of 1993.
    Of1993,
}

impl Sizes {
    /// Returns the size of a file in bytes.
    pub fn draw(self, random: &mut impl Rng) -> u64 {
        match self {
            Self::Of1984 if random.random_bool(LARGE_SHARE_1984) => LARGE_1984,
            Self::Of1984 => size_1984(random),
            Self::Of1993 => size_1993(random),
        }
    }
}

/// Returns a size between two powers of two, evenly on a logarithmic scale.
fn between(exponent: usize, within: f64) -> u64 {
    let exponent = f64::from(u32::try_from(exponent).unwrap_or(0)) + within;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // At most 2^24.
    let size = exponent.exp2() as u64;
    size
}

/// Returns the size in bytes of a file, as sizes were on a UNIX system of 1984; between the
/// published points sizes are spread evenly on a logarithmic scale.
pub fn size_1984(random: &mut impl Rng) -> u64 {
    let percent = random.random_range(0.0..100.0);
    let n = SMALLER_1984.iter().position(|&smaller| percent < smaller).unwrap_or(SMALLER_1984.len() - 1);
    let Some(below) = n.checked_sub(1) else { return 0 };
    let within = (percent - SMALLER_1984[below]) / (SMALLER_1984[n] - SMALLER_1984[below]);
    between(below, within)
}

fn size_1993(random: &mut impl Rng) -> u64 {
    let mut which = random.random_range(0..UP_TO_1993.iter().sum::<u32>());
    for (n, &files) in UP_TO_1993.iter().enumerate() {
        if which >= files {
            which -= files;
            continue;
        }
        // Empty files, files of a byte, and from there by powers of two.
        return match n.checked_sub(2) {
            None => n as u64,
            Some(exponent) => between(exponent, f64::from(which + 1) / f64::from(files)),
        };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    /// Promise: the populations have the published medians, and nothing larger than the largest
    /// file.
    #[test]
    fn medians() {
        for (sizes, medians) in [(Sizes::Of1984, 1000..1180), (Sizes::Of1993, 1450..1650)] {
            let mut random = StdRng::seed_from_u64(1984);
            let mut drawn: Vec<u64> = (0..20_001).map(|_| sizes.draw(&mut random)).collect();
            drawn.sort_unstable();
            assert!(medians.contains(&drawn[10_000]), "{}", drawn[10_000]);
            assert!(drawn[0] == 0 && *drawn.last().unwrap() <= 1 << 22);
        }
    }
}
