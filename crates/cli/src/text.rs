//! The textual form of values: names, modes and sizes.

use spindle_ffs::{InodeFormat, Version};
use spindle_ondisk::Endian;
use spindle_v7::Family;
use spindle_vfs::FileKind;

pub use spindle::text::{counted, encoded, human, printable, quoted, terminal_safe, terminal_safe_lines};

/// Returns type and permissions as `ls -l` prints them.
pub fn mode_string(kind: FileKind, perm: u32) -> String {
    let kind = match kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::BlockDevice => 'b',
        FileKind::CharDevice => 'c',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
    };
    let mut out = String::from(kind);
    for (shift, special, set, unset) in [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = perm >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (perm & special != 0, bits & 1 != 0) {
            (true, true) => set,
            (true, false) => unset,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    out
}

/// Returns the name of a file type, for people and for `--json`.
pub const fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "regular file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::BlockDevice => "block device",
        FileKind::CharDevice => "character device",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    }
}

/// Returns the name of a byte order.
pub const fn endian(endian: Endian) -> &'static str {
    match endian {
        Endian::Little => "little",
        Endian::Big => "big",
        Endian::Pdp => "PDP",
    }
}

/// Returns the name of a version of the format.
pub const fn version_name(version: Version) -> &'static str {
    match version {
        Version::Ufs1 => "UFS1",
        Version::Ufs2 => "UFS2",
    }
}

/// Returns the name of a format of inodes and directories.
pub const fn inode_format(inodes: InodeFormat) -> &'static str {
    match inodes {
        InodeFormat::Old => "4.3BSD",
        InodeFormat::New => "4.4BSD",
        InodeFormat::Sun => "Solaris",
    }
}

/// Returns the name of a family of old file systems.
pub const fn old_family(family: Family) -> &'static str {
    match family {
        Family::V7 => "Seventh Edition",
        Family::Bsd => "32V to 4.1BSD",
        Family::SysV => "System V",
        Family::SysV16 => "System V (16-bit alignment)",
    }
}

/// Parses a number of bytes: digits, and `k`, `m`, `g` or `t` for powers of 1024 (`b` for 512-byte
/// sectors).
///
/// # Errors
/// A message that says what to give.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'b') => (&text[..text.len() - 1], 512),
        Some(b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm') => (&text[..text.len() - 1], 1 << 20),
        Some(b'g') => (&text[..text.len() - 1], 1 << 30),
        Some(b't') => (&text[..text.len() - 1], 1 << 40),
        _ => (text, 1_u64),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("give a number of bytes, with k, m, g or t for powers of 1024".into());
    }
    digits
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(unit))
        .filter(|&n| i64::try_from(n).is_ok())
        .ok_or_else(|| "is too large".into())
}

/// Parses the size of a file system, in bytes; see [`parse_bytes`].
///
/// # Errors
/// As for [`parse_bytes`], and for what is less than a sector: a unit is missing.
pub fn parse_size(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        bytes @ 0..512 => Err(format!(
            "{} no size of a file system; give it with k, m, g or t, as {bytes}m",
            if bytes == 1 { "1 byte is".into() } else { format!("{bytes} bytes are") }
        )),
        bytes => Ok(bytes),
    }
}

/// Parses a number of bytes below 4 GiB; see [`parse_bytes`].
///
/// # Errors
/// As for [`parse_bytes`].
pub fn parse_small(text: &str) -> Result<u32, String> {
    u32::try_from(parse_bytes(text)?).map_err(|_| "is too large".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: set-id and sticky bits are shown with and without the execute bit.
    #[test]
    fn modes() {
        assert_eq!(mode_string(FileKind::Regular, 0o4755), "-rwsr-xr-x");
        assert_eq!(mode_string(FileKind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(mode_string(FileKind::Fifo, 0o7600), "prwS--S--T");
    }

    /// Promise: units are powers of 1024, and invalid text is refused.
    #[test]
    fn sizes() {
        assert_eq!((parse_bytes("64M"), parse_bytes("8b")), (Ok(64 << 20), Ok(4096)));
        for wrong in ["", "k", "-1", "1.5g", "12x", "99999999999999999999", "9999999999t", "ä"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
