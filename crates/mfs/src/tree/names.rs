//! The names of directories: trees of nodes, ordered by keys ([`crate::format::node`]).

use super::mount::Mfs;
use crate::format::header::{Contents, Header, NameMap};
use crate::format::layout::{ControlBlock, ROOT_INO};
use crate::format::node::{Child, Entry, LEVELS_MAX, Node, child_of, key_of};
use crate::volume::tx::Tx;
use crate::volume::{Owner, update};
use spindle_tree::Found;
use spindle_vfs::{Error, FileKind, Result};
use std::ops::ControlFlow;

/// The key of `.`.
pub(crate) const DOT: u64 = 1;
/// The key of `..`.
pub(crate) const DOT_DOT: u64 = 2;

/// The key that a new name will have.
#[derive(Clone, Copy, Debug)]
pub struct EntryKey(pub(crate) u64);

/// A node on the way down to a leaf.
struct Step {
    at: ControlBlock,
    children: Vec<Child>,
    level: u16,
    /// The child that the way goes on to.
    taken: usize,
}

/// A leaf, and the way to it.
struct Leaf {
    way: Vec<Step>,
    at: ControlBlock,
    entries: Vec<Entry>,
}

fn map_of(di: &Header) -> NameMap {
    match di.contents {
        Contents::Names(map) => map,
        _ => NameMap::default(),
    }
}

impl Mfs {
    fn node(&self, ino: u64, at: ControlBlock) -> Result<Node> {
        let damaged =
            || Error::corrupt("it leads out of control storage", format!("names of directory {ino}"));
        self.layout().block_place(at).ok_or_else(damaged)?;
        let buffer = self.volume.block(self.layout().control_byte(at))?;
        let bytes = buffer.read();
        Node::decode(&bytes, ino, at)
    }

    fn put_node(&self, tx: &Tx<'_>, ino: u64, at: ControlBlock, node: &Node) -> Result<()> {
        let buffer = self.volume.block(self.layout().control_byte(at))?;
        update(tx, &buffer, Owner::One, |bytes| {
            node.encode(bytes, ino);
            Ok(())
        })
    }

    fn put_new_node(&self, tx: &Tx<'_>, ino: u64, di: &mut Header, node: &Node) -> Result<ControlBlock> {
        let at = self.volume.alloc_block(tx, ino)?;
        let byte = self.layout().control_byte(at);
        let buffer = self.volume.cache.get_new(byte, self.layout().block_bytes(), None, tx)?;
        node.encode(buffer.write(tx).bytes_mut(0..self.layout().block_bytes()), ino);
        let mut map = map_of(di);
        map.blocks += 1;
        di.contents = Contents::Names(map);
        Ok(at)
    }

    fn give_up_node(&self, tx: &Tx<'_>, di: &mut Header, at: ControlBlock) -> Result<()> {
        let mut map = map_of(di);
        map.blocks = map.blocks.saturating_sub(1);
        di.contents = Contents::Names(map);
        self.volume.give_up_block(tx, at)
    }

    /// Returns the leaf that has a key, or would have it; none in a directory without names.
    fn leaf_of(&self, ino: u64, di: &Header, key: u64) -> Result<Option<Leaf>> {
        self.leaf_before(ino, di, key, &mut None)
    }

    /// Does the same, and sets `next` to the least key that is in a later leaf, also if the way
    /// down fails.
    fn leaf_before(&self, ino: u64, di: &Header, key: u64, next: &mut Option<u64>) -> Result<Option<Leaf>> {
        let Some(mut at) = map_of(di).root else { return Ok(None) };
        let mut way: Vec<Step> = Vec::new();
        loop {
            match self.node(ino, at)? {
                Node::Leaf(entries) => return Ok(Some(Leaf { way, at, entries })),
                Node::Inner(level, children) => {
                    let below = way.last().is_none_or(|step| step.level == level + 1);
                    if !below || way.len() >= LEVELS_MAX.into() {
                        return Err(Error::corrupt(
                            "its levels are wrong",
                            format!("names of directory {ino}"),
                        ));
                    }
                    let taken = child_of(&children, key);
                    *next = children.get(taken + 1).map(|child| child.key).or(*next);
                    let down = children[taken].at;
                    way.push(Step { at, children, level, taken });
                    at = down;
                }
            }
        }
    }

    /// Calls `look` with the names whose keys are at least `from`, in the order of their keys,
    /// until it breaks. What cannot be read is given to `lost`, and passed over unless that fails.
    pub(crate) fn each_name<T>(
        &self,
        ino: u64,
        di: &Header,
        from: u64,
        lost: &mut dyn FnMut(Error) -> Result<()>,
        mut look: impl FnMut(&Entry) -> ControlFlow<T>,
    ) -> Result<Option<T>> {
        let mut from = from;
        loop {
            let mut next = None;
            match self.leaf_before(ino, di, from, &mut next) {
                Ok(None) => return Ok(None),
                Ok(Some(leaf)) => {
                    for entry in leaf.entries.iter().filter(|entry| entry.key >= from) {
                        if let ControlFlow::Break(found) = look(entry) {
                            return Ok(Some(found));
                        }
                    }
                }
                Err(error) => lost(error)?,
            }
            match next.filter(|&next| next > from) {
                Some(next) => from = next,
                None => return Ok(None),
            }
        }
    }

    /// Finds a name.
    pub(crate) fn find_name(&self, ino: u64, di: &Header, name: &[u8]) -> Result<Option<Found<u64>>> {
        if name == b".." {
            let parent = if ino == ROOT_INO { ROOT_INO } else { di.parent };
            return Ok(Some(Found { place: DOT_DOT, ino: parent }));
        }
        let key = key_of(self.hash, name);
        let found = self.each_name(ino, di, key, &mut Err, |entry| {
            if entry.key >> 8 != key >> 8 {
                ControlFlow::Break(None)
            } else if entry.name.as_slice() == name {
                ControlFlow::Break(Some(Found { place: entry.key, ino: entry.ino }))
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(found.flatten())
    }

    /// Returns the first unused key for a name.
    pub(crate) fn free_key(&self, ino: u64, di: &Header, name: &[u8]) -> Result<EntryKey> {
        let first = key_of(self.hash, name);
        let mut key = first;
        self.each_name(ino, di, first, &mut Err, |entry| {
            if entry.key == key {
                key += 1;
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        if key >> 8 == first >> 8 { Ok(EntryKey(key)) } else { Err(Error::NoSpace) }
    }

    /// Enters a name with an unused key.
    pub(crate) fn enter_name(&self, tx: &Tx<'_>, ino: u64, di: &mut Header, entry: Entry) -> Result<()> {
        di.size += 1;
        let Some(mut leaf) = self.leaf_of(ino, di, entry.key)? else {
            let root = self.put_new_node(tx, ino, di, &Node::Leaf(vec![entry]))?;
            di.contents = Contents::Names(NameMap { root: Some(root), ..map_of(di) });
            return Ok(());
        };
        let n = leaf.entries.partition_point(|known| known.key < entry.key);
        leaf.entries.insert(n, entry);
        let (mut at, mut node) = (leaf.at, Node::Leaf(leaf.entries));
        // Up from the leaf, as long as nodes are too long.
        loop {
            if node.bytes() <= self.layout().block_bytes() {
                return self.put_node(tx, ino, at, &node);
            }
            let (key, second) = node.split();
            let level = if let Node::Inner(level, _) = node { level } else { 0 };
            self.put_node(tx, ino, at, &node)?;
            let second = self.put_new_node(tx, ino, di, &second)?;
            let Some(step) = leaf.way.pop() else {
                let children = vec![Child { key: 0, at }, Child { key, at: second }];
                let root = self.put_new_node(tx, ino, di, &Node::Inner(level + 1, children))?;
                di.contents = Contents::Names(NameMap { root: Some(root), ..map_of(di) });
                return Ok(());
            };
            let mut children = step.children;
            children.insert(step.taken + 1, Child { key, at: second });
            (at, node) = (step.at, Node::Inner(step.level, children));
        }
    }

    /// Returns the leaf that has a key, and the position of its name there.
    fn leaf_with(&self, ino: u64, di: &Header, key: u64) -> Result<(Leaf, usize)> {
        let gone = || Error::corrupt("a name is gone", format!("directory {ino}, key {key:#x}"));
        let leaf = self.leaf_of(ino, di, key)?.ok_or_else(gone)?;
        let n = leaf.entries.binary_search_by_key(&key, |entry| entry.key).map_err(|_| gone())?;
        Ok((leaf, n))
    }

    /// Removes the name with a key. Nodes without entries are freed.
    pub(crate) fn remove_key(&self, tx: &Tx<'_>, ino: u64, di: &mut Header, key: u64) -> Result<()> {
        let (mut leaf, n) = self.leaf_with(ino, di, key)?;
        di.size = di.size.saturating_sub(1);
        leaf.entries.remove(n);
        if !leaf.entries.is_empty() {
            return self.put_node(tx, ino, leaf.at, &Node::Leaf(leaf.entries));
        }
        self.give_up_node(tx, di, leaf.at)?;
        while let Some(mut step) = leaf.way.pop() {
            let gone = step.children.remove(step.taken);
            if step.children.is_empty() {
                self.give_up_node(tx, di, step.at)?;
                continue;
            }
            if let (0, Some(first)) = (step.taken, step.children.first_mut()) {
                // It has the keys below it, too.
                first.key = gone.key;
            }
            if let (true, [only]) = (leaf.way.is_empty(), &step.children[..]) {
                // The tree gets one level less.
                let root = Some(only.at);
                self.give_up_node(tx, di, step.at)?;
                di.contents = Contents::Names(NameMap { root, ..map_of(di) });
                return Ok(());
            }
            return self.put_node(tx, ino, step.at, &Node::Inner(step.level, step.children));
        }
        di.contents = Contents::Names(NameMap { root: None, ..map_of(di) });
        Ok(())
    }

    /// Makes the name with a key refer to another file.
    pub(crate) fn rewrite_key(
        &self,
        tx: &Tx<'_>,
        ino: u64,
        di: &Header,
        key: u64,
        (target, kind): (u64, FileKind),
    ) -> Result<()> {
        let (mut leaf, n) = self.leaf_with(ino, di, key)?;
        leaf.entries[n] = Entry { ino: target, kind, ..leaf.entries[n].clone() };
        self.put_node(tx, ino, leaf.at, &Node::Leaf(leaf.entries))
    }
}
