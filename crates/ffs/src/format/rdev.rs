//! Device numbers: each system divides them into major and minor number in its own way.

use crate::format::dialect::Dialect;
use spindle_vfs::Rdev;

/// Returns the device number in the first two block pointers of a device node.
#[must_use]
pub fn decode(dialect: Dialect, [raw, wide]: [u64; 2]) -> Rdev {
    let low = word(raw);
    match dialect {
        Dialect::FreeBsd | Dialect::Bsd44 | Dialect::Apple | Dialect::OpenStep => Rdev {
            major: word(raw >> 32) & !0xff | low >> 8 & 0xff,
            minor: word(raw >> 24) & 0xff00 | low & 0xffff_00ff,
        },
        Dialect::NetBsd => Rdev { major: low >> 8 & 0xfff, minor: low >> 12 & 0xf_ff00 | low & 0xff },
        Dialect::OpenBsd => Rdev { major: low >> 8 & 0xff, minor: low >> 8 & 0xff_ff00 | low & 0xff },
        Dialect::Bsd43 | Dialect::NextStep | Dialect::HpUx | Dialect::Ultrix => {
            Rdev { major: low >> 8 & 0xff, minor: low & 0xff }
        }
        // Solaris keeps 14 bits of major number and 18 of minor in the second pointer.
        Dialect::Sun { .. } => match word(wide) {
            0 => Rdev { major: low >> 8 & 0xff, minor: low & 0xff },
            wide => Rdev { major: wide >> 18, minor: wide & 0x3_ffff },
        },
    }
}

/// Returns the first two block pointers of a device node. What does not fit is cut off, so that
/// [`decode`] returns another number.
#[must_use]
pub fn encode(dialect: Dialect, Rdev { major, minor }: Rdev) -> [u64; 2] {
    let short = u64::from((major & 0xff) << 8 | minor & 0xff);
    match dialect {
        Dialect::FreeBsd | Dialect::Bsd44 | Dialect::Apple | Dialect::OpenStep => {
            let high = u64::from(major & !0xff) << 32 | u64::from(minor & 0xff00) << 24;
            [high | u64::from((major & 0xff) << 8 | minor & 0xffff_00ff), 0]
        }
        Dialect::NetBsd => [u64::from((major & 0xfff) << 8 | (minor & 0xf_ff00) << 12 | minor & 0xff), 0],
        Dialect::OpenBsd => [u64::from((major & 0xff) << 8 | (minor & 0xff_ff00) << 8 | minor & 0xff), 0],
        Dialect::Bsd43 | Dialect::NextStep | Dialect::HpUx | Dialect::Ultrix => [short, 0],
        Dialect::Sun { .. } => [short, u64::from(major << 18 | minor & 0x3_ffff)],
    }
}

/// Returns the low 32 bits.
#[allow(clippy::cast_possible_truncation)] // That is its purpose.
const fn word(n: u64) -> u32 {
    n as u32
}
