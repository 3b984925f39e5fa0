//! Formats and ratios of counts.

/// Converts a count for calculations; exact below 2^53.
#[must_use]
pub const fn real(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss)]
    let real = count as f64;
    real
}

/// Returns the ratio of a part to a whole, or `None` if the whole is 0.
#[must_use]
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| real(part) / real(whole))
}

/// Formats a number of bytes with a binary unit, cut to tenths: `1.5 GiB`.
#[must_use]
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 7] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (n.checked_ilog2().unwrap_or(0) / 10) as usize;
    if unit == 0 {
        return format!("{n} {}", if n == 1 { "byte" } else { UNITS[0] });
    }
    let scale = 1_u64 << (10 * unit);
    let tenths = u128::from(n) * 10 / u128::from(scale);
    if tenths.is_multiple_of(10) {
        format!("{} {}", tenths / 10, UNITS[unit])
    } else {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: bytes are shown in the largest unit of which there is at least one.
    #[test]
    fn bytes_have_units() {
        assert_eq!((bytes(0), bytes(1), bytes(1536)), ("0 bytes".into(), "1 byte".into(), "1.5 KiB".into()));
        assert_eq!((bytes(1 << 30), bytes(u64::MAX)), ("1 GiB".into(), "15.9 EiB".into()));
    }
}
