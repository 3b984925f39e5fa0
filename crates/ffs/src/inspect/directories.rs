//! Directories and names: what a directory lists, what a path leads to, and all names of inodes.

use super::extents::walk_pieces;
use super::{Inspector, Progress};
use crate::check::BlockPlace;
use crate::check::node::{Node, kind};
use crate::check::state::BlockMap;
use crate::check::walk::Walker;
use crate::format::entries::Entries;
use crate::format::layout::ROOT_INO;
use crate::format::units::{Frag, index};
use spindle_vfs::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Most steps from the root that a path is followed.
const MAX_DEPTH: usize = 1000;
/// Most names of one inode that are kept.
const MAX_NAMES: usize = 1000;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Inode that it names.
    pub ino: u32,
    /// The name.
    pub name: Vec<u8>,
    /// Its byte in the directory.
    pub at: u64,
    /// Its byte on the device.
    pub byte: u64,
}

/// The paths of inodes, by number.
pub type Names = HashMap<u32, Vec<Vec<u8>>>;

/// A directory and its blocks, as a range of [`Directories::blocks`].
pub(super) struct Row {
    pub(super) ino: u32,
    pub(super) size: u64,
    pub(super) blocks: Range<usize>,
}

/// A block of a directory.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// Its first byte in the directory.
    pub(super) at: u64,
    pub(super) frag: u64,
    pub(super) frags: u32,
}

/// All directories, each block once.
#[derive(Default)]
pub(super) struct Directories {
    pub(super) rows: Vec<Row>,
    pub(super) blocks: Vec<Block>,
}

impl Inspector<'_> {
    /// Returns the names in a directory, in their order on the disk, and whether some of it cannot
    /// be read.
    ///
    /// # Errors
    /// [`Error::NotDirectory`]; as [`Self::inode_bytes`].
    pub fn list(&mut self, ino: u32) -> Result<(Vec<Listed>, bool)> {
        let node = self.node(ino)?;
        if node.kind() != kind::DIR {
            return Err(Error::NotDirectory);
        }
        let mut blocks = Vec::new();
        let (layout, mut entered) = (self.layout, HashSet::new());
        let walker = &mut Walker::default();
        let mut visit = |piece: crate::check::walk::Piece| {
            if let BlockPlace::Data { lbn } = piece.place {
                blocks.push(Block { at: lbn << layout.fs_bshift, frag: piece.frag, frags: piece.frags });
            }
        };
        let damage = walk_pieces(layout, &mut self.reader, walker, &node, &mut entered, &mut visit);
        let mut damaged = !damage.is_none();
        let mut listed = Vec::new();
        let mut read = HashSet::new();
        for block in blocks {
            // A block that stands in the directory twice would list its names twice.
            if !read.insert(block.frag) {
                damaged = true;
                continue;
            }
            let Some(bytes) = self.directory_block(node.size, block) else {
                damaged = true;
                continue;
            };
            for entry in Entries::new(layout, &bytes) {
                match entry {
                    Ok(entry) if entry.ino != 0 => {
                        let (ino, name) = (entry.ino, entry.name.to_vec());
                        let byte = layout.byte(Frag(block.frag)) + entry.at as u64;
                        listed.push(Listed { ino, name, at: block.at + entry.at as u64, byte });
                    }
                    Ok(_) => {}
                    Err(_) => damaged = true,
                }
            }
        }
        Ok((listed, damaged))
    }

    /// Returns the bytes of a block of a directory up to the end of the directory; none if it
    /// cannot be read.
    pub(super) fn directory_block(&mut self, size: u64, block: Block) -> Option<Vec<u8>> {
        let len = u64::from(block.frags) << self.layout.fs_fshift;
        let len = index(len.min(size.checked_sub(block.at)?));
        let at = self.layout.byte(Frag(block.frag));
        Some(self.reader.read(at, len, 0).ok()?.to_vec())
    }

    /// Returns the inode that a path leads to, from the directory `from` or, if it begins with a
    /// slash, from the root. Symbolic links are not followed.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDirectory`]; as [`Self::inode_bytes`].
    pub fn lookup(&mut self, from: u32, path: &[u8]) -> Result<u32> {
        let mut ino = if path.starts_with(b"/") { ROOT_INO } else { from };
        for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
            let (listed, _) = self.list(ino)?;
            ino = listed.iter().find(|entry| entry.name == part).ok_or(Error::NotFound)?.ino;
        }
        Ok(ino)
    }

    /// Returns all directories.
    pub(super) fn directories(&mut self, progress: Progress<'_>) -> Directories {
        let layout = self.layout;
        let mut found = Directories::default();
        let mut held = BlockMap::new(layout.fs_size);
        let mut entered = HashSet::new();
        self.each_inode(progress, &mut |reader, walker, ino, bytes| {
            let node = Node::decode(layout, bytes);
            if node.kind() != kind::DIR {
                return;
            }
            let first = found.blocks.len();
            walk_pieces(layout, reader, walker, &node, &mut entered, &mut |piece| {
                let BlockPlace::Data { lbn } = piece.place else { return };
                if held.bits(piece.frag, piece.frags) == 0 {
                    held.set_bits(piece.frag, piece.frags);
                    let at = lbn << layout.fs_bshift;
                    found.blocks.push(Block { at, frag: piece.frag, frags: piece.frags });
                }
            });
            found.rows.push(Row { ino, size: node.size, blocks: first..found.blocks.len() });
        });
        found
    }

    /// Returns the paths of those of the wanted inodes that have names, all names of each; for a
    /// directory the one that its parent has for it.
    pub fn names(&mut self, wanted: &HashSet<u32>, progress: Progress<'_>) -> Names {
        let directories = self.directories(progress);
        self.names_in(&directories, wanted)
    }

    /// Does the same, with the directories at hand.
    pub(super) fn names_in(&mut self, directories: &Directories, wanted: &HashSet<u32>) -> Names {
        let layout = self.layout;
        let is_directory = |ino: u32| directories.rows.binary_search_by_key(&ino, |row| row.ino).is_ok();
        let mut parents: HashMap<u32, (u32, Vec<u8>)> = HashMap::new();
        let mut hits: Vec<(u32, u32, Vec<u8>)> = Vec::new();
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for row in &directories.rows {
            for &block in &directories.blocks[row.blocks.clone()] {
                let Some(bytes) = self.directory_block(row.size, block) else { continue };
                for entry in Entries::new(layout, &bytes).flatten() {
                    if entry.ino == 0 || matches!(entry.name, b"." | b"..") {
                        continue;
                    }
                    if is_directory(entry.ino) {
                        parents.entry(entry.ino).or_insert_with(|| (row.ino, entry.name.to_vec()));
                    } else if wanted.contains(&entry.ino) {
                        let count = counts.entry(entry.ino).or_default();
                        *count += 1;
                        if *count <= MAX_NAMES {
                            hits.push((entry.ino, row.ino, entry.name.to_vec()));
                        }
                    }
                }
            }
        }
        let mut names = Names::new();
        for (ino, parent, name) in hits {
            if let Some(mut path) = path(&parents, parent) {
                join(&mut path, &name);
                names.entry(ino).or_default().push(path);
            }
        }
        for &ino in wanted.iter().filter(|&&ino| is_directory(ino)) {
            names.extend(path(&parents, ino).map(|path| (ino, vec![path])));
        }
        names
    }
}

fn join(path: &mut Vec<u8>, name: &[u8]) {
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

/// Returns the path of a directory; none if it does not hang from the root.
fn path(parents: &HashMap<u32, (u32, Vec<u8>)>, ino: u32) -> Option<Vec<u8>> {
    let mut parts = Vec::new();
    let mut at = ino;
    while at != ROOT_INO {
        let (parent, name) = parents.get(&at)?;
        parts.push(name);
        at = *parent;
        if parts.len() > MAX_DEPTH {
            return None;
        }
    }
    let mut path = b"/".to_vec();
    for name in parts.into_iter().rev() {
        join(&mut path, name);
    }
    Some(path)
}
