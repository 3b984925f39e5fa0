//! Nodes of name maps. The names of a directory are a tree, ordered by a *key* of 63 bits: a hash
//! of the name, and a number in which names with the same hash differ. The key of a name does not
//! change while the name exists, so it is the cookie of `readdir`.
//!
//! The paper chains the blocks of a directory (section 4.2, after Yokoyama). Here a walk that has
//! come to the end of a leaf goes down again from the root with the least key that is greater: so
//! there are no pointers between leaves that a change of one leaf would have to change in others.

use super::checksum::{is_sealed, seal};
use super::layout::ControlBlock;
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;
use spindle_ondisk::{Endian, Field, structure};
use spindle_vfs::{Error, FileKind, Result};
use std::hash::Hasher;

const MAGIC: u32 = u32::from_le_bytes(*b"MNam");
const CHECKSUM: usize = 20;
/// Bytes before the entries of a node.
pub const NODE_HEAD: usize = 32;
/// Bytes of an entry of a leaf without its name.
pub const ENTRY_HEAD: usize = 18;
/// Bytes of an entry of a node that is no leaf.
pub const CHILD_BYTES: usize = 16;
/// Longest name in bytes.
pub const NAME_MAX: usize = 255;
/// Most levels of nodes above the leaves: more cannot be reached with nodes that are half full.
pub const LEVELS_MAX: u16 = 16;
/// The least key of a name; smaller ones are those of `.` and `..`.
pub const FIRST_KEY: u64 = 256;

structure! {
    /// The head of a node.
    pub struct DiskNode: 32 {
        /// `MNam`.
        0 magic: u32,
        /// 0 for a leaf, else the number of levels below.
        4 level: u16,
        /// Number of entries.
        6 count: u16,
        /// The directory.
        8 ino: u64,
        /// CRC-32C of the node.
        20 checksum: u32,
    }
}

/// The bytes of a name: most names are short, and need no memory of their own.
pub type Name = SmallVec<[u8; 24]>;

/// A name in a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: u64,
    /// The file that it names.
    pub ino: u64,
    /// The kind of that file.
    pub kind: FileKind,
    /// The name.
    pub name: Name,
}

impl Entry {
    fn bytes(&self) -> usize {
        ENTRY_HEAD + self.name.len()
    }
}

/// A child of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// The least key that is below it; of the first child, 0.
    pub key: u64,
    /// Its block.
    pub at: ControlBlock,
}

/// The entries of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Names, in the order of their keys.
    Leaf(Vec<Entry>),
    /// Children, in the order of their keys, with the number of levels below.
    Inner(u16, Vec<Child>),
}

impl Node {
    /// Reads a node of directory `ino`.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn decode(bytes: &[u8], ino: u64, at: ControlBlock) -> Result<Self> {
        let disk = DiskNode::decode(bytes, Endian::Little);
        let place = || format!("block {} of the names of directory {ino}", at.0);
        let damaged = |what: &str| Error::corrupt(what, place());
        if disk.magic != MAGIC || !is_sealed(bytes, CHECKSUM) {
            return Err(damaged("it is damaged"));
        }
        if disk.ino != ino {
            return Err(damaged(&format!("it belongs to directory {}", disk.ino)));
        }
        let mut at = NODE_HEAD;
        let mut last = None;
        let mut ordered = |key: u64| last.replace(key).is_none_or(|before| before < key);
        if disk.level > 0 {
            let count = usize::from(disk.count);
            let children =
                bytes.get(at..at + count * CHILD_BYTES).ok_or_else(|| damaged("it is too long"))?;
            let children: Vec<_> = children
                .chunks_exact(CHILD_BYTES)
                .map(|child| Child {
                    key: u64::get(child, Endian::Little),
                    at: ControlBlock(u64::get(&child[8..], Endian::Little)),
                })
                .collect();
            if children.is_empty() || !children.iter().all(|child| ordered(child.key)) {
                return Err(damaged("its children are out of order"));
            }
            return Ok(Self::Inner(disk.level, children));
        }
        let mut entries = Vec::with_capacity(disk.count.into());
        for _ in 0..disk.count {
            let head = bytes.get(at..at + ENTRY_HEAD).ok_or_else(|| damaged("it is too long"))?;
            let key = u64::get(head, Endian::Little);
            let len = usize::from(head[17]);
            let name = bytes.get(at + ENTRY_HEAD..at + ENTRY_HEAD + len);
            let name = name.ok_or_else(|| damaged("it is too long"))?;
            let kind = kind_of(head[16]).ok_or_else(|| damaged("a name has no kind"))?;
            let legal = !name.is_empty() && !name.contains(&b'/') && !name.contains(&0);
            if !ordered(key) || !legal || !(FIRST_KEY..1 << 63).contains(&key) {
                return Err(damaged("a name is wrong or out of order"));
            }
            let ino = u64::get(&head[8..], Endian::Little);
            entries.push(Entry { key, ino, kind, name: Name::from_slice(name) });
            at += ENTRY_HEAD + len;
        }
        Ok(Self::Leaf(entries))
    }

    /// Returns the bytes that the node takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        NODE_HEAD
            + match self {
                Self::Leaf(entries) => entries.iter().map(Entry::bytes).sum(),
                Self::Inner(_, children) => children.len() * CHILD_BYTES,
            }
    }

    /// Writes the node, which must fit, to the bytes of its block.
    pub fn encode(&self, bytes: &mut [u8], ino: u64) {
        bytes.fill(0);
        let mut at = NODE_HEAD;
        let (level, count) = match self {
            Self::Leaf(entries) => {
                for entry in entries {
                    let out = &mut bytes[at..at + entry.bytes()];
                    entry.key.put(out, Endian::Little);
                    entry.ino.put(&mut out[8..], Endian::Little);
                    out[16] = number_of(entry.kind);
                    out[17] = u8::try_from(entry.name.len()).unwrap_or(u8::MAX);
                    out[ENTRY_HEAD..].copy_from_slice(&entry.name);
                    at += entry.bytes();
                }
                (0, entries.len())
            }
            Self::Inner(level, children) => {
                for child in children {
                    child.key.put(&mut bytes[at..], Endian::Little);
                    child.at.0.put(&mut bytes[at + 8..], Endian::Little);
                    at += CHILD_BYTES;
                }
                (*level, children.len())
            }
        };
        let count = u16::try_from(count).unwrap_or(0);
        DiskNode { magic: MAGIC, level, count, ino, checksum: 0 }.encode(bytes, Endian::Little);
        seal(bytes, CHECKSUM);
    }

    /// Splits off the second half of the entries, by bytes. Returns it with its least key.
    #[must_use]
    pub fn split(&mut self) -> (u64, Self) {
        match self {
            Self::Leaf(entries) => {
                let half = entries.iter().map(Entry::bytes).sum::<usize>() / 2;
                let mut bytes = 0;
                let n = entries.iter().position(|entry| {
                    bytes += entry.bytes();
                    bytes > half
                });
                let rest = entries.split_off(n.unwrap_or(0).clamp(1, entries.len() - 1));
                (rest[0].key, Self::Leaf(rest))
            }
            Self::Inner(level, children) => {
                let rest = children.split_off(children.len() / 2);
                (rest[0].key, Self::Inner(*level, rest))
            }
        }
    }
}

/// Returns the directory whose names a block holds, if it is a whole leaf.
#[must_use]
pub fn leaf_owner(bytes: &[u8], at: ControlBlock) -> Option<u64> {
    let DiskNode { ino, level, .. } = DiskNode::decode(bytes, Endian::Little);
    (level == 0 && Node::decode(bytes, ino, at).is_ok()).then_some(ino)
}

/// Returns true if the checksum of a block says that it is a node of any directory.
#[must_use]
pub fn is_whole(bytes: &[u8]) -> bool {
    DiskNode::decode(bytes, Endian::Little).magic == MAGIC && is_sealed(bytes, CHECKSUM)
}

/// Returns true if a block is a whole node of any directory.
#[must_use]
pub fn is_node(bytes: &[u8], at: ControlBlock) -> bool {
    let DiskNode { ino, .. } = DiskNode::decode(bytes, Endian::Little);
    Node::decode(bytes, ino, at).is_ok()
}

/// Returns the least key that a name can have; names with the same hash differ in the
/// lowest eight bits.
#[must_use]
pub fn key_of(mut hasher: SipHasher13, name: &[u8]) -> u64 {
    hasher.write(name);
    ((hasher.finish() >> 9) << 8).max(FIRST_KEY)
}

/// Returns the position of the child that a key is below.
#[must_use]
pub fn child_of(children: &[Child], key: u64) -> usize {
    children.partition_point(|child| child.key <= key).saturating_sub(1)
}

const KINDS: [FileKind; 7] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::BlockDevice,
    FileKind::CharDevice,
    FileKind::Fifo,
    FileKind::Socket,
];

fn kind_of(number: u8) -> Option<FileKind> {
    KINDS.get(usize::from(number).checked_sub(1)?).copied()
}

fn number_of(kind: FileKind) -> u8 {
    let n = KINDS.iter().position(|&known| known == kind).unwrap_or(0);
    u8::try_from(n + 1).unwrap_or(0)
}
