//! Phase 2: the name maps.
//!
//! A name map is read from its root down, in the order of the keys. If a node of it is damaged,
//! whole leaves of the directory that its tree does not lead to any more, and that are not marked
//! as free, are read as well. They may be old, so a name in one of them counts only as long as the
//! file has fewer names than its header says.

use super::finding::Finding;
use super::{Checker, Edge};
use crate::format::cylinder::Kind;
use crate::format::layout::{ControlBlock, ROOT_INO, index};
use crate::format::node::{Entry, LEVELS_MAX, Node, key_of, leaf_owner};
use spindle_vfs::{Error, FileKind, Result};
use std::collections::{BTreeMap, HashSet};

/// A name that was read.
pub(super) struct ReadName {
    pub(super) entry: Entry,
    /// Its key is within the range of its leaf.
    inside: bool,
    /// It comes from a leaf that the tree does not lead to.
    loose: bool,
}

/// All names of a directory, in an order that is the same whenever they are read.
#[derive(Default)]
pub(super) struct ReadNames {
    pub(super) names: Vec<ReadName>,
    /// The blocks that hold them.
    pub(super) nodes: HashSet<ControlBlock>,
    /// What is wrong with the blocks.
    faults: Vec<String>,
    /// True if a block is missing.
    broken: bool,
}

/// Nodes that are still to be read: the block, the range of its keys and its level.
type Rest = Vec<(ControlBlock, u64, u64, Option<u16>)>;

/// The fate of a name.
enum Fate {
    Kept,
    /// It is written again, corrected.
    Corrected(&'static str),
    Dropped(&'static str),
}

impl Checker {
    /// Reads all name maps.
    pub(super) fn names(&mut self) -> Result<()> {
        let directories: Vec<u64> = self.directories().collect();
        let mut broken = Vec::new();
        for dir in directories {
            let read = self.read_names(dir)?;
            let fixed = read.names.iter().filter(|name| !name.loose).count() as u64;
            if read.broken {
                broken.push(dir);
            }
            for what in &read.faults {
                self.findings.push(Finding::Node { dir, what: what.clone() });
                self.rebuild.insert(dir);
            }
            self.nodes.extend(&read.nodes);
            if let Some(file) = self.files.get_mut(&dir) {
                (file.found_names, file.found_blocks) = (fixed, read.nodes.len() as u64);
                let (names, blocks) = ((file.size, fixed), (file.map.blocks, file.found_blocks));
                if (names.0, blocks.0) != (names.1, blocks.1) && !read.broken {
                    self.findings.push(Finding::DirectoryCounts { dir, names, blocks });
                }
            }
            self.enter_names(dir, &read.names, false)?;
        }
        for dir in broken {
            let read = self.read_names(dir)?;
            self.enter_names(dir, &read.names, true)?;
        }
        Ok(())
    }

    /// Reads the names of a directory.
    ///
    /// # Errors
    /// Device errors.
    pub(super) fn read_names(&mut self, dir: u64) -> Result<ReadNames> {
        let mut read = ReadNames::default();
        let root = self.files.get(&dir).and_then(|file| file.map.root);
        let mut rest: Rest = root.into_iter().map(|root| (root, 0, u64::MAX, None)).collect();
        while let Some((at, low, high, level)) = rest.pop() {
            match self.node(dir, at, level, &mut read)? {
                None => read.broken = true,
                Some(Node::Inner(level, children)) => {
                    for (n, child) in children.iter().enumerate().rev() {
                        let first = if n == 0 { low } else { child.key };
                        let end = children.get(n + 1).map_or(high, |next| next.key);
                        if first < low || end > high {
                            read.faults.push(format!("block {}: its keys are out of range", at.0));
                        }
                        rest.push((child.at, first, end, Some(level - 1)));
                    }
                }
                Some(Node::Leaf(entries)) => {
                    if entries.is_empty() {
                        read.faults.push(format!("block {} has no names", at.0));
                    }
                    let name = |entry: Entry| {
                        let inside = (low..high).contains(&entry.key);
                        ReadName { entry, inside, loose: false }
                    };
                    read.names.extend(entries.into_iter().map(name));
                }
            }
        }
        read.broken |= dir == ROOT_INO && self.no_root || self.salvaged.contains_key(&dir);
        if read.broken {
            for at in self.leaves_of(dir)? {
                if !read.nodes.contains(&at)
                    && let Node::Leaf(entries) = self.decode_node(dir, at)?
                {
                    read.nodes.insert(at);
                    let name = |entry| ReadName { entry, inside: true, loose: true };
                    read.names.extend(entries.into_iter().map(name));
                }
            }
        }
        Ok(read)
    }

    fn decode_node(&self, dir: u64, at: ControlBlock) -> Result<Node> {
        let bytes = self.read(self.layout.control_byte(at), self.layout.block_bytes())?;
        Node::decode(&bytes[..self.layout.block_bytes()], dir, at)
    }

    /// Reads a node of a directory; none if it is damaged.
    fn node(
        &mut self,
        dir: u64,
        at: ControlBlock,
        level: Option<u16>,
        read: &mut ReadNames,
    ) -> Result<Option<Node>> {
        let what = 'damaged: {
            let Some((cylinder, position)) = self.layout.block_place(at) else {
                break 'damaged format!("block {} does not exist", at.0);
            };
            if read.nodes.contains(&at) {
                break 'damaged format!("block {} is used twice", at.0);
            }
            let node = match self.decode_node(dir, at) {
                Ok(node) => node,
                Err(error @ Error::Device(_)) => return Err(error),
                Err(error) => break 'damaged error.problem(),
            };
            if self.cylinders[index(cylinder)].kind != Kind::Names {
                self.doubt(cylinder, Kind::Names, position);
                break 'damaged format!("block {} is in a cylinder without names", at.0);
            }
            let found = if let Node::Inner(level, _) = node { level } else { 0 };
            if found > LEVELS_MAX || level.is_some_and(|level| level != found) {
                break 'damaged format!("block {} is of level {found}", at.0);
            }
            self.cylinders[index(cylinder)].agreed += 1;
            read.nodes.insert(at);
            return Ok(Some(node));
        };
        read.faults.push(what);
        self.tied_blocks.insert(at);
        Ok(None)
    }

    /// Returns the leaves that have names of a directory and are not marked as free, in order.
    fn leaves_of(&mut self, dir: u64) -> Result<Vec<ControlBlock>> {
        if self.leaves.is_none() {
            let mut leaves: BTreeMap<u64, Vec<ControlBlock>> = BTreeMap::new();
            for number in 0..self.layout.cylinders {
                let state = &self.cylinders[index(number)];
                if state.kind != Kind::Names {
                    continue;
                }
                let map = state.described.as_ref().filter(|_| state.wrong.is_none());
                let is_free = |block: &u32| map.is_some_and(|map| map.has_free(*block));
                for block in (1..=self.layout.cylinder_blocks()).filter(|block| !is_free(block)) {
                    let at = self.layout.block_of(number, block);
                    let bytes = self.read(self.layout.control_byte(at), self.layout.block_bytes())?;
                    if let Some(owner) = leaf_owner(&bytes[..self.layout.block_bytes()], at) {
                        leaves.entry(owner).or_default().push(at);
                    }
                }
            }
            self.leaves = Some(leaves);
        }
        Ok(self.leaves.as_ref().and_then(|leaves| leaves.get(&dir)).cloned().unwrap_or_default())
    }

    /// Decides on the names of a directory: those of its tree, or those of loose leaves.
    fn enter_names(&mut self, dir: u64, names: &[ReadName], loose: bool) -> Result<()> {
        let mut seen: HashSet<&[u8]> = HashSet::new();
        for (n, name) in names.iter().enumerate() {
            if name.loose != loose {
                if !name.loose {
                    seen.insert(&name.entry.name);
                }
                continue;
            }
            let entry = &name.entry;
            self.header_is_named(entry.ino)?;
            let twice = !seen.insert(&entry.name);
            let what = match self.fate(dir, n, name, twice) {
                Fate::Kept => continue,
                Fate::Corrected(what) => what,
                Fate::Dropped(what) => {
                    self.drop_name(dir, n);
                    what
                }
            };
            self.rebuild.insert(dir);
            if !loose {
                self.wrong_name(dir, &entry.name, entry.ino, what);
            }
        }
        Ok(())
    }

    /// Leaves a name out when the name map is built again.
    pub(super) fn drop_name(&mut self, dir: u64, n: usize) {
        self.dropped.entry(dir).or_default().insert(n);
        self.rebuild.insert(dir);
    }

    /// Adds a finding about a name.
    pub(super) fn wrong_name(&mut self, dir: u64, name: &[u8], ino: u64, what: &'static str) {
        let name = String::from_utf8_lossy(name).into_owned();
        self.findings.push(Finding::Name { dir, name, ino, what });
    }

    /// Decides on name `n` of a directory, and counts it if it is kept.
    fn fate(&mut self, dir: u64, n: usize, name: &ReadName, twice: bool) -> Fate {
        let Entry { key, ino, kind, name: ref text } = name.entry;
        let hash = self.hash;
        let Some(file) = self.files.get_mut(&ino) else { return Fate::Dropped("UNALLOCATED") };
        let directory = file.kind == FileKind::Directory;
        let is_extra =
            if directory { file.names > 0 || file.parent != dir } else { file.names >= file.nlink.into() };
        if matches!(&text[..], b"." | b"..") {
            return Fate::Dropped("IMPOSSIBLE NAME");
        }
        if twice {
            return Fate::Dropped("DUPLICATE NAME");
        }
        if ino == ROOT_INO {
            return Fate::Dropped("EXTRANEOUS HARD LINK TO DIRECTORY");
        }
        if name.loose && is_extra || !directory && file.names >= u16::MAX.into() {
            return Fate::Dropped("TOO MANY NAMES");
        }
        file.names += 1;
        if directory {
            self.edges.entry(ino).or_default().push(Edge { dir, n, name: text.clone() });
        } else {
            file.name.get_or_insert_with(|| (dir, text.clone()));
        }
        if file.kind != kind {
            return Fate::Corrected("WRONG KIND");
        }
        if !name.inside || key >> 8 != key_of(hash, text) >> 8 {
            return Fate::Corrected("NAME IN THE WRONG PLACE");
        }
        Fate::Kept
    }

    /// Returns the names of a directory that are kept, with the right kinds.
    ///
    /// # Errors
    /// Device errors.
    pub(super) fn kept_names(&mut self, dir: u64) -> Result<Vec<Entry>> {
        let read = self.read_names(dir)?;
        let dropped = self.dropped.get(&dir);
        let kept =
            read.names.into_iter().enumerate().filter(|(n, _)| !dropped.is_some_and(|d| d.contains(n)));
        let right = |(_, name): (usize, ReadName)| {
            let kind = self.files.get(&name.entry.ino).map_or(name.entry.kind, |file| file.kind);
            Entry { kind, ..name.entry }
        };
        Ok(kept.map(right).collect())
    }
}
