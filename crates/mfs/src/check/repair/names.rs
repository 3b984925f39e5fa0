//! Stage 3: name maps.

use super::super::Checker;
use super::Round;
use crate::format::header::{Contents, Header, NameMap, generation_of};
use crate::format::layout::{ControlBlock, ROOT_INO};
use crate::format::node::{CHILD_BYTES, Child, ENTRY_HEAD, Entry, NODE_HEAD, Name, Node, key_of};
use spindle_vfs::{FileKind, Result};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// The directory for what has lost its name. Only its owner, the superuser, may look into it: the
/// files may have been below a directory that others could not enter.
const LOST_AND_FOUND: &str = "lost+found";
const LOST_AND_FOUND_PERM: u16 = 0o700;

impl Round<'_> {
    /// Builds the name maps again that are damaged, and names what has no name.
    pub(super) fn name_maps(&mut self) -> Result<bool> {
        let mut added: BTreeMap<u64, Vec<Entry>> = BTreeMap::new();
        let mut changed = false;
        if !self.checker.lost.is_empty()
            && let Some(place) = self.lost_and_found(&mut added)?
        {
            let taken = self.names_of(place)?;
            let lost: Vec<u64> = self.checker.lost.iter().copied().collect();
            for ino in lost {
                let kind = self.checker.files[&ino].kind;
                let name = unused(&format!("#{ino}"), &taken);
                added.entry(place).or_default().push(Entry { key: 0, ino, kind, name });
            }
        }
        let directories: Vec<u64> = self.checker.rebuild.iter().chain(added.keys()).copied().collect();
        let mut done = HashSet::new();
        // The root first: a new `lost+found` must have its name.
        for dir in std::iter::once(ROOT_INO).chain(directories) {
            let wanted = self.checker.rebuild.contains(&dir) || added.contains_key(&dir);
            if wanted && done.insert(dir) {
                let added = added.remove(&dir).unwrap_or_default();
                changed |= self.build(dir, added)?;
            }
        }
        Ok(changed)
    }

    fn names_of(&mut self, dir: u64) -> Result<HashSet<Name>> {
        Ok(self.checker.kept_names(dir)?.into_iter().map(|entry| entry.name).collect())
    }

    /// Returns the directory `lost+found`, after making it if need be; none if there is no space.
    fn lost_and_found(&mut self, added: &mut BTreeMap<u64, Vec<Entry>>) -> Result<Option<u64>> {
        let names = self.checker.kept_names(ROOT_INO)?;
        let is_it =
            |entry: &&Entry| *entry.name == *LOST_AND_FOUND.as_bytes() && entry.kind == FileKind::Directory;
        if let Some(entry) = names.iter().find(is_it) {
            return Ok(Some(entry.ino));
        }
        if *self.full {
            return Ok(None);
        }
        let Some(ino) = self.take_headers(1)?.and_then(|taken| taken.first().copied()) else {
            self.is_full();
            return Ok(None);
        };
        let now = self.clock.now();
        let generation = match self.generation(ino)? {
            0 => now.nanos.max(1),
            generation => generation,
        };
        // It counts as removed until its name is there.
        let header =
            Header { nlink: 0, generation, times: [now; 4], ..Checker::new_directory(LOST_AND_FOUND_PERM) };
        self.image.put_header(&self.checker, ino, &header)?;
        let names = names.into_iter().map(|entry| entry.name).collect();
        let name = unused(LOST_AND_FOUND, &names);
        added.entry(ROOT_INO).or_default().push(Entry { key: 0, ino, kind: FileKind::Directory, name });
        Ok(Some(ino))
    }

    fn generation(&self, ino: u64) -> Result<u32> {
        Ok(generation_of(&self.checker.header_bytes(ino)?))
    }

    /// Builds the name map of a directory again, with more names: in free blocks, or if there are
    /// too few in its own, all at once. Returns false if there is no space.
    fn build(&mut self, dir: u64, added: Vec<Entry>) -> Result<bool> {
        let mut entries = self.checker.kept_names(dir)?;
        entries.extend(added);
        self.give_keys(&mut entries);
        let (names, block_bytes) = (entries.len() as u64, self.checker.layout.block_bytes());
        let levels = levels_of(entries, block_bytes);
        let count: usize = levels.iter().map(Vec::len).sum();
        let blocks = match self.take_blocks(count)? {
            Some(blocks) => blocks,
            None => match self.own_blocks(dir)? {
                own if own.len() >= count && self.image.takes_at_once(count * block_bytes) => own,
                _ => return Ok(self.is_full()),
            },
        };
        let mark = self.image.mark();
        let in_place = blocks.first().is_some_and(|at| self.checker.nodes.contains(at));
        let mut blocks = blocks.into_iter();
        let mut below: Vec<Child> = Vec::new();
        for level in levels {
            let mut children = Vec::new();
            for (node, at) in level.into_iter().zip(&mut blocks) {
                let (key, node) = node.with(&below);
                self.put_node(dir, at, &node)?;
                children.push(Child { key, at });
            }
            below = children;
        }
        let mut header = match self.header_of(dir)? {
            Some(header) if header.kind() == Some(FileKind::Directory) => header,
            _ => {
                let (generation, times) = (self.generation(dir)?.wrapping_add(1), [self.clock.now(); 4]);
                Header { generation, times, ..Checker::new_directory(0o755) }
            }
        };
        header.size = names;
        let root = below.first().map(|child| child.at);
        header.contents = Contents::Names(NameMap { root, blocks: count as u64 });
        let changed = self.image.put_header(&self.checker, dir, &header)?;
        if in_place {
            self.image.join(mark);
        }
        Ok(changed)
    }

    /// Gives names their keys, and sorts them.
    fn give_keys(&self, entries: &mut [Entry]) {
        for entry in &mut *entries {
            entry.key = key_of(self.checker.hash, &entry.name);
        }
        entries.sort_by(|a, b| (a.key, &a.name).cmp(&(b.key, &b.name)));
        // Names with the same hash get numbers.
        let mut last = 0;
        for entry in entries {
            last = if last >> 8 == entry.key >> 8 { last + 1 } else { entry.key };
            entry.key = last;
        }
    }

    /// Returns the blocks of the name map of a directory.
    fn own_blocks(&mut self, dir: u64) -> Result<Vec<ControlBlock>> {
        let mut own: Vec<_> = self.checker.read_names(dir)?.nodes.into_iter().collect();
        own.sort_unstable();
        Ok(own)
    }

    fn put_node(&mut self, dir: u64, at: ControlBlock, node: &Node) -> Result<()> {
        let mut bytes = vec![0; self.checker.layout.block_bytes()];
        node.encode(&mut bytes, dir);
        self.image.put(self.checker.layout.control_byte(at), &bytes)?;
        Ok(())
    }
}

/// A node of a new tree.
enum NewNode {
    Leaf(Vec<Entry>),
    /// Its level, and which of the nodes below are its children.
    Inner(u16, Range<usize>),
}

impl NewNode {
    /// Returns the node with its least key, when the places of the nodes below it are known.
    fn with(self, below: &[Child]) -> (u64, Node) {
        match self {
            Self::Leaf(entries) => (entries.first().map_or(0, |entry| entry.key), Node::Leaf(entries)),
            Self::Inner(level, range) => (below[range.start].key, Node::Inner(level, below[range].to_vec())),
        }
    }
}

/// Divides the names of a directory among nodes. Returns the levels of the tree, leaves first.
fn levels_of(entries: Vec<Entry>, block_bytes: usize) -> Vec<Vec<NewNode>> {
    let mut leaves: Vec<Vec<Entry>> = Vec::new();
    let mut left = 0;
    for entry in entries {
        let bytes = ENTRY_HEAD + entry.name.len();
        if let Some(leaf) = leaves.last_mut().filter(|_| bytes <= left) {
            leaf.push(entry);
        } else {
            left = block_bytes - NODE_HEAD;
            leaves.push(vec![entry]);
        }
        left -= bytes;
    }
    let fan = (block_bytes - NODE_HEAD) / CHILD_BYTES;
    let mut levels = vec![leaves.into_iter().map(NewNode::Leaf).collect::<Vec<_>>()];
    for height in 1.. {
        let below = levels.last().map_or(0, Vec::len);
        if below <= 1 {
            break;
        }
        let inner = |first: usize| NewNode::Inner(height, first..below.min(first + fan));
        levels.push((0..below).step_by(fan).map(inner).collect());
    }
    levels
}

/// Returns a name, with a number behind it if it is taken.
fn unused(name: &str, taken: &HashSet<Name>) -> Name {
    let numbered = (1_u64..).map(|n| format!("{name}-{n}"));
    let mut names =
        std::iter::once(name.to_owned()).chain(numbered).map(|name| Name::from_slice(name.as_bytes()));
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}
