//! File flags through `lsattr` and `chattr`.
//!
//! Three flags of Linux have flags of BSD that mean the same: `i` those that forbid any change, `a`
//! those that allow only appending, `d` the one that keeps a file out of dumps. BSD has the first
//! two twice, for the superuser and for the owner. Linux shows either of them, sets those of the
//! superuser, since nobody else may set `i` and `a` there, and clears both. Flags that Linux does
//! not have stay as they are; flags that BSD does not have are refused.
//!
//! Constants: Linux `include/uapi/linux/fs.h`.

use super::{Inner, cred, errno_of};
use crate::protocol::{NodeId, Reply, Request};
use spindle_vfs::access::IMMUTABLE;
use spindle_vfs::{APPEND, Error, Ino, Result};

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS`: the flags as a word.
const GETFLAGS: u32 = 0x8008_6601;
const SETFLAGS: u32 = 0x4008_6602;
/// `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR`: a `struct fsxattr` that begins with the flags.
const FSGETXATTR: u32 = 0x801c_581f;
const FSSETXATTR: u32 = 0x401c_5820;
/// Size of a `struct fsxattr` in bytes.
const FSXATTR_BYTES: usize = 28;

/// A flag that both systems have.
struct Shared {
    /// In a word (`FS_*_FL`).
    word: u32,
    /// In a `struct fsxattr` (`FS_XFLAG_*`).
    fsxattr: u32,
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
type Form = fn(&Shared) -> u32;

/// Returns the flags that Linux shows.
fn to_linux(bsd: u32, form: Form) -> u32 {
    SHARED.iter().filter(|flag| bsd & flag.bsd != 0).map(form).fold(0, |all, one| all | one)
}

/// Returns what BSD's flags become when Linux's are to be `wanted`.
fn from_linux(bsd: u32, wanted: u32, form: Form) -> u32 {
    SHARED.iter().fold(bsd, |bsd, flag| match (wanted & form(flag) != 0, bsd & flag.bsd != 0) {
        (true, false) => bsd | flag.set,
        (false, true) => bsd & !flag.bsd,
        _ => bsd,
    })
}

impl Inner {
    pub(super) fn ioctl(
        &self,
        req: &Request,
        node: NodeId,
        (command, input): (u32, &[u8]),
        output: u32,
        reply: Reply,
    ) {
        let ino = self.ino(node);
        let done = match command {
            _ if !self.fs.limits().file_flags => return reply.error(libc::ENOTTY),
            GETFLAGS => self.flags_in_form(ino, |flag| flag.word, output as usize),
            FSGETXATTR => self.flags_in_form(ino, |flag| flag.fsxattr, FSXATTR_BYTES),
            SETFLAGS => self.set_flags(req, ino, |flag| flag.word, input),
            FSSETXATTR => self.set_flags(req, ino, |flag| flag.fsxattr, input),
            _ => return reply.error(libc::ENOTTY),
        };
        match done {
            Ok(bytes) => reply.ioctl(&bytes),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    /// Returns the flags of a file, followed by zeros up to this size in bytes.
    fn flags_in_form(&self, ino: Ino, form: Form, size: usize) -> Result<Vec<u8>> {
        let mut bytes = to_linux(self.fs.getattr(ino)?.flags, form).to_ne_bytes().to_vec();
        bytes.resize(size.min(FSXATTR_BYTES), 0);
        Ok(bytes)
    }

    /// Sets the flags of a file. All that follows them must be 0: nothing of it exists here.
    fn set_flags(&self, req: &Request, ino: Ino, form: Form, input: &[u8]) -> Result<Vec<u8>> {
        let (word, rest) = input.split_first_chunk().ok_or(Error::Invalid)?;
        let wanted = u32::from_ne_bytes(*word);
        let known = SHARED.iter().map(form).fold(0, |all, one| all | one);
        if wanted & !known != 0 || rest.iter().any(|&byte| byte != 0) {
            return Err(Error::NotSupported);
        }
        let attr = self.vfs.chflags(&cred(req), ino, |flags| from_linux(flags, wanted, form))?;
        self.state.nodes.set_flags(&attr);
        self.note_change();
        // The change has set the ctime.
        self.invalidate_attributes(ino);
        Ok(Vec::new())
    }
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
