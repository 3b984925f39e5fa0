//! The data of directories: entries as UFS has them (`struct direct`), in chunks that no entry
//! crosses.

use crate::header::Form;
use spindle_ffs::ondisk::{DIRECT_HEADER, DirectHeader, dirsiz};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::FileKind;

/// Bytes of a chunk that we write (`DIRBLKSIZ`).
const CHUNK: usize = 512;
/// Bytes that restore reads as a chunk, the longest of all systems.
const LONGEST_CHUNK: usize = 1024;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name.
    pub name: Vec<u8>,
    /// Inode that it names.
    pub ino: u32,
    /// Kind of the inode, if the directory says it.
    pub kind: Option<FileKind>,
}

/// Returns the data of a directory with these entries, little-endian. The first two must be `.` and
/// `..`.
#[must_use]
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut last = 0;
    for Entry { name, ino, kind } in entries {
        let need = dirsiz(name.len());
        let room = bytes.len().next_multiple_of(CHUNK) - bytes.len();
        if room < need {
            extend_last(&mut bytes, last);
        }
        last = bytes.len();
        let head = DirectHeader {
            d_ino: *ino,
            d_reclen: u16::try_from(need).unwrap_or(0),
            d_type: kind.and_then(|kind| u8::try_from(kind.mode_bits() >> 12).ok()).unwrap_or(0),
            d_namlen: u8::try_from(name.len()).unwrap_or(u8::MAX),
        };
        bytes.resize(last + need, 0);
        head.encode(&mut bytes[last..], Endian::Little);
        bytes[last + DIRECT_HEADER..last + DIRECT_HEADER + name.len()].copy_from_slice(name);
    }
    extend_last(&mut bytes, last);
    bytes
}

/// Gives the rest of the chunk to its last entry.
fn extend_last(bytes: &mut Vec<u8>, last: usize) {
    bytes.resize(bytes.len().next_multiple_of(CHUNK), 0);
    let reclen = u16::try_from(bytes.len() - last).unwrap_or(0);
    if !bytes.is_empty() {
        reclen.put(&mut bytes[last + 4..], Endian::Little);
    }
}

/// Calls `entry` with the entries in data of a directory that begin at a multiple of 1024 bytes of
/// it, `.` and `..` included, and `damage` with the offset in the data and the problem of what
/// cannot be read; the rest of that chunk is passed over.
pub fn decode(
    bytes: &[u8],
    endian: Endian,
    form: Form,
    entry: &mut dyn FnMut(Entry),
    damage: &mut dyn FnMut(usize, String),
) {
    for (n, chunk) in bytes.chunks(LONGEST_CHUNK).enumerate() {
        let mut at = 0;
        while at + DIRECT_HEADER <= chunk.len() {
            match entry_at(chunk, at, endian, form) {
                Ok((found, reclen)) => {
                    if let Some(found) = found {
                        entry(found);
                    }
                    at += reclen;
                }
                Err(what) => {
                    damage(n * LONGEST_CHUNK + at, what);
                    break;
                }
            }
        }
    }
}

/// Returns the entry at a place of a chunk, if it is in use, and its length.
fn entry_at(chunk: &[u8], at: usize, endian: Endian, form: Form) -> Result<(Option<Entry>, usize), String> {
    let head = DirectHeader::decode(&chunk[at..], endian);
    let reclen = usize::from(head.d_reclen);
    let namlen = match form {
        Form::Bsd43 => usize::from(u16::get(&chunk[at + 6..], endian)),
        _ => usize::from(head.d_namlen),
    };
    if reclen < DIRECT_HEADER || !reclen.is_multiple_of(4) || reclen > chunk.len() - at {
        return Err(format!("an entry of {reclen} bytes"));
    }
    if head.d_ino == 0 {
        return Ok((None, reclen));
    }
    if dirsiz(namlen) > reclen && DIRECT_HEADER + namlen > reclen {
        return Err(format!("an entry of {reclen} bytes with a name of {namlen}"));
    }
    let name = &chunk[at + DIRECT_HEADER..at + DIRECT_HEADER + namlen];
    if name.is_empty() || name.contains(&0) || name.contains(&b'/') {
        return Err(format!("inode {} has a name that no file can have", head.d_ino));
    }
    let kind = match form {
        Form::Bsd43 => None,
        _ => FileKind::from_mode(u32::from(head.d_type) << 12),
    };
    Ok((Some(Entry { name: name.to_vec(), ino: head.d_ino, kind }), reclen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], endian: Endian, form: Form) -> (Vec<Entry>, Vec<(usize, String)>) {
        let (mut entries, mut damage) = (Vec::new(), Vec::new());
        decode(bytes, endian, form, &mut |found| entries.push(found), &mut |at, what| {
            damage.push((at, what));
        });
        (entries, damage)
    }

    fn entries() -> Vec<Entry> {
        let entry = |name: &[u8], ino, kind| Entry { name: name.to_vec(), ino, kind: Some(kind) };
        let mut entries = vec![entry(b".", 2, FileKind::Directory), entry(b"..", 2, FileKind::Directory)];
        for len in 1..=255 {
            entries.push(entry(&vec![b'n'; len], 100 + u32::try_from(len).unwrap(), FileKind::Regular));
        }
        entries
    }

    /// Promise: what was written is read, and no entry crosses a chunk of 512 bytes.
    #[test]
    fn entries_round_trip() {
        let bytes = encode(&entries());
        assert_eq!(read(&bytes, Endian::Little, Form::Ufs2), (entries(), Vec::new()));
        assert!(bytes.len().is_multiple_of(CHUNK));
        for chunk in bytes.chunks(CHUNK) {
            assert_eq!(read(chunk, Endian::Little, Form::Ufs2).1, []);
        }
    }

    /// Promise: a name of 4.3BSD has a length of 16 bits, in the byte order of its machine.
    #[test]
    fn old_entries() {
        let little = [3, 0, 0, 0, 12, 0, 2, 0, b'h', b'i', 0, 0];
        let big = [0, 0, 0, 3, 0, 12, 0, 2, b'h', b'i', 0, 0];
        let wanted = vec![Entry { name: b"hi".to_vec(), ino: 3, kind: None }];
        assert_eq!(read(&little, Endian::Little, Form::Bsd43), (wanted.clone(), Vec::new()));
        assert_eq!(read(&big, Endian::Big, Form::Bsd43), (wanted, Vec::new()));
    }

    /// Promise: damage costs the rest of its chunk and is reported with its place.
    #[test]
    fn damage_is_reported() {
        let mut bytes = encode(&entries());
        bytes[1024 + 4] = 3;
        let (found, damage) = read(&bytes, Endian::Little, Form::Ufs2);
        assert_eq!(damage.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1024]);
        assert!(found.len() < entries().len() && found.len() > 100);
        let mut slash = encode(&entries()[..3]);
        slash[24 + DIRECT_HEADER] = b'/';
        assert_eq!(read(&slash, Endian::Little, Form::Ufs2).1.len(), 1);
    }
}
