//! The messages of the kernel part; `bpf/wire.h` has the same declarations.

/// Message kind: the path of a directory. It follows those of [`spindle_trace::Kind::ALL`].
pub const DIRECTORY: u8 = 22;

/// Flag: the bytes of the run were written.
pub const WRITTEN: u32 = 1 << 30;
/// Flag: the rename swapped two names.
pub const SWAPPED: u32 = 1 << 28;
/// Flag: the path of the directory is too long, and lacks its beginning.
pub const CUT: u32 = 1 << 27;
/// The bits of `flags` that are [`spindle_trace::Flags`].
pub const TRACE_FLAGS: u32 = (1 << 14) - 1;

/// A message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// Time since boot in nanoseconds.
    pub time: u64,
    /// Number of the open.
    pub open: u64,
    /// Inode number.
    pub inode: u64,
    /// Size of the file in bytes.
    pub size: u64,
    /// Position where the run began, in bytes.
    pub position: u64,
    /// Number of bytes in the run.
    pub bytes: u64,
    /// Number of the directory that the first name is relative to, or of the root that an absolute
    /// one begins at; 0 for none, or the root of the system.
    pub base: u64,
    /// New position of a seek, links at a close, or the same as `base` for the second name.
    pub other: u64,
    /// Device number in the kernel's encoding.
    pub device: u32,
    /// Account number.
    pub user: u32,
    /// Process number.
    pub process: u32,
    /// Number of calls in the run.
    pub calls: u32,
    /// Flags, and [`WRITTEN`].
    pub flags: u32,
    /// Kind of the message.
    pub kind: u8,
    /// Name of the program.
    pub command: &'a [u8],
    /// One name, or two separated by a 0.
    pub text: &'a [u8],
}

/// Number of bytes before the text.
pub const HEAD: usize = 104;

impl<'a> Message<'a> {
    /// Parses a message; returns `None` if it is too short.
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let (head, text) = message.split_at_checked(HEAD)?;
        let (words, rest) = head.as_chunks::<8>();
        debug_assert!(rest.is_empty());
        let wide = |n: usize| u64::from_le_bytes(words[n]);
        let halves = |n| halves(wide(n));
        let ((device, user), (process, calls), (flags, last)) = (halves(8), halves(9), halves(10));
        let [low, high, kind, _] = last.to_le_bytes();
        let command = &head[88..];
        let end = command.iter().position(|&byte| byte == 0).unwrap_or(command.len());
        Some(Self {
            time: wide(0),
            open: wide(1),
            inode: wide(2),
            size: wide(3),
            position: wide(4),
            bytes: wide(5),
            base: wide(6),
            other: wide(7),
            device,
            user,
            process,
            calls,
            flags,
            kind,
            command: &command[..end],
            text: text.get(..usize::from(u16::from_le_bytes([low, high])))?,
        })
    }

    /// Returns the device number in the encoding of `stat`.
    pub fn device(&self) -> u64 {
        user_device(self.device)
    }
}

/// Splits a word into its two halves.
#[expect(clippy::cast_possible_truncation, reason = "each half is taken")]
const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Converts a device number to the encoding of `stat`; the kernel itself has 20 bits of minor
/// number below the major one.
pub fn user_device(device: u32) -> u64 {
    let (major, minor) = (u64::from(device >> 20), u64::from(device & 0xf_ffff));
    minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12
}

/// Size in bytes of an entry for an open file in the kernel: `struct open_file` of `bpf/state.h`.
pub const OPEN_FILE: usize = 96;

/// An open file that is still open at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenAtEnd {
    /// Number of the open.
    pub open: u64,
    /// Unfinished runs: start, bytes, calls, flags.
    pub runs: [(u64, u64, u32, u32); 2],
}

impl OpenAtEnd {
    /// Parses an entry of the kernel's table.
    pub fn parse(entry: &[u8; OPEN_FILE]) -> Self {
        let (words, _) = entry.as_chunks::<8>();
        let wide = |n: usize| u64::from_le_bytes(words[n]);
        let run = |n: usize| {
            let (calls, flags) = halves(wide(n + 2));
            (wide(n), wide(n + 1), calls, flags)
        };
        Self { open: wide(1), runs: [run(5), run(8)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: device numbers are those of `stat`.
    #[test]
    fn devices() {
        assert_eq!(user_device(8 << 20 | 1), 0x801);
        assert_eq!(user_device(0x12345), 0x1230_0045);
    }

    /// Promise: a message is parsed into its fields, and a short one is refused.
    #[test]
    fn messages() {
        let mut bytes = vec![0; HEAD];
        bytes[8] = 7;
        bytes[64] = 1;
        bytes[84] = 3;
        bytes[86] = 2;
        bytes[88..90].copy_from_slice(b"cc");
        assert_eq!(Message::parse(&bytes), None);
        bytes.extend(b"a.o-");
        let parsed = Message::parse(&bytes).unwrap();
        assert_eq!((parsed.open, parsed.device, parsed.kind), (7, 1, 2));
        assert_eq!((parsed.command, parsed.text), (&b"cc"[..], &b"a.o"[..]));
    }
}
