//! File flags through `lsattr` and `chattr`.
//!
//! Three flags of Linux have flags of BSD that mean the same: `i` those that forbid any change, `a`
//! those that allow only appending, `d` the one that keeps a file out of dumps. BSD has the first
//! two twice, for the superuser and for the owner. Linux shows either of them, sets those of the
//! superuser, since nobody else may set `i` and `a` there, and clears both. Flags that Linux does
//! not have stay as they are; flags that BSD does not have are refused.
//!
//! Constants: Linux `include/uapi/linux/fs.h`.

use spindle_vfs::APPEND;
use spindle_vfs::access::IMMUTABLE;

/// A flag that both systems have.
pub(super) struct Shared {
    /// In a word (`FS_*_FL`).
    pub(super) word: u32,
    /// In a `struct fsxattr` (`FS_XFLAG_*`).
    pub(super) fsxattr: u32,
    /// BSD's flags that mean this.
    bsd: u32,
    /// The one of them that is set.
    set: u32,
}

const SHARED: [Shared; 3] = [
    Shared { word: 0x10, fsxattr: 0x8, bsd: IMMUTABLE, set: 0x2_0000 },
    Shared { word: 0x20, fsxattr: 0x10, bsd: APPEND, set: 0x4_0000 },
    Shared { word: 0x40, fsxattr: 0x80, bsd: 0x1, set: 0x1 },
];

/// Which of Linux's two forms is meant.
pub(super) type Form = fn(&Shared) -> u32;

/// Returns all flags that both systems have.
pub(super) fn known(form: Form) -> u32 {
    SHARED.iter().map(form).fold(0, |all, one| all | one)
}

/// Returns the flags that Linux shows.
pub(super) fn to_linux(bsd: u32, form: Form) -> u32 {
    SHARED.iter().filter(|flag| bsd & flag.bsd != 0).map(form).fold(0, |all, one| all | one)
}

/// Returns what BSD's flags become when Linux's are to be `wanted`.
pub(super) fn from_linux(bsd: u32, wanted: u32, form: Form) -> u32 {
    SHARED.iter().fold(bsd, |bsd, flag| match (wanted & form(flag) != 0, bsd & flag.bsd != 0) {
        (true, false) => bsd | flag.set,
        (false, true) => bsd & !flag.bsd,
        _ => bsd,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what Linux sets or clears is shown again, and flags that it does not know stay.
    #[test]
    fn flags_go_both_ways() {
        let word: Form = |flag| flag.word;
        for others in [0, 0x8, 0x10_0010] {
            for owner in [0, 0x2, 0x4] {
                for wanted in (0..8).map(|n| n << 4) {
                    let flags = from_linux(others | owner, wanted, word);
                    assert_eq!(to_linux(flags, word), wanted);
                    assert_eq!(flags & !(IMMUTABLE | APPEND | 1), others);
                }
            }
        }
        assert_eq!(to_linux(0x2_0001, |flag| flag.fsxattr), 0x88);
        assert_eq!(from_linux(0x2, 0x10, word), 0x2);
    }
}
