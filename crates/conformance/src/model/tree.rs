//! The inodes of the model and the names that connect them.
//!
//! Invariants, checked by [`Tree::complaints`]: a directory's link count is two plus the number of
//! its subdirectories, another inode's is the number of its names; `..` is the directory that holds
//! the name; an inode without names has references; `blocks_used` is the sum over all files.

use super::blocks::Blocks;
use spindle_vfs::{Attr, Error, FileKind, Ino, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The first cookie that is neither `.` nor `..`.
const FIRST_COOKIE: u64 = 2;

/// The names of one directory, in the order of their cookies.
#[derive(Debug)]
pub(super) struct Names {
    /// The inode of `..`.
    pub(super) parent: Ino,
    by_cookie: BTreeMap<u64, (Vec<u8>, Ino)>,
    by_name: HashMap<Vec<u8>, u64>,
    next_cookie: u64,
}

impl Names {
    pub(super) fn new(parent: Ino) -> Self {
        Self { parent, by_cookie: BTreeMap::new(), by_name: HashMap::new(), next_cookie: FIRST_COOKIE }
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<Ino> {
        self.by_name.get(name).map(|cookie| self.by_cookie[cookie].1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Sets the inode of `name`; an existing name keeps its cookie.
    pub(super) fn set(&mut self, name: &[u8], ino: Ino) {
        let next = &mut self.next_cookie;
        let cookie = *self.by_name.entry(name.to_vec()).or_insert_with(|| {
            *next += 1;
            *next - 1
        });
        self.by_cookie.insert(cookie, (name.to_vec(), ino));
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.by_name.remove(name) {
            self.by_cookie.remove(&cookie);
        }
    }

    /// Returns the entries from cookie `from` on: cookie, name, inode.
    pub(super) fn from(&self, from: u64) -> impl Iterator<Item = (u64, &[u8], Ino)> {
        self.by_cookie.range(from..).map(|(cookie, (name, ino))| (*cookie, name.as_slice(), *ino))
    }
}

/// Contents of an inode, in addition to its attributes.
#[derive(Debug)]
pub(super) enum Body {
    File(Blocks),
    Directory(Names),
    Symlink(Vec<u8>),
    Node,
}

/// One inode.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) attr: Attr,
    pub(super) body: Body,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) references: u64,
    /// It was made without a name, and can get one.
    pub(super) nameable: bool,
}

/// All inodes.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) inodes: BTreeMap<Ino, Inode>,
    pub(super) blocks_used: u64,
    pub(super) next_generation: u64,
    /// Freed numbers, which are reused first.
    freed: BTreeSet<Ino>,
    /// The first number that was never used.
    next_ino: Ino,
}

impl Tree {
    /// Returns an empty tree; its first inode gets the number `first`.
    pub(super) const fn new(first: Ino) -> Self {
        Self {
            inodes: BTreeMap::new(),
            blocks_used: 0,
            next_generation: 1,
            freed: BTreeSet::new(),
            next_ino: first,
        }
    }

    /// Returns a number that is not in use.
    pub(super) fn new_ino(&mut self) -> Ino {
        self.freed.pop_first().unwrap_or_else(|| {
            let ino = self.next_ino;
            self.next_ino = Ino(ino.0 + 1);
            ino
        })
    }

    /// Returns the inode if it is in use.
    pub(super) fn get(&self, ino: Ino) -> Result<&Inode> {
        self.inodes.get(&ino).ok_or(Error::Stale)
    }

    /// Returns the inode for a change.
    pub(super) fn get_mut(&mut self, ino: Ino) -> Result<&mut Inode> {
        self.inodes.get_mut(&ino).ok_or(Error::Stale)
    }

    /// Returns the names of a directory.
    pub(super) fn names(&self, dir: Ino) -> Result<&Names> {
        match &self.get(dir)?.body {
            Body::Directory(names) => Ok(names),
            _ => Err(Error::NotDirectory),
        }
    }

    /// Returns the names of a directory for a change.
    pub(super) fn names_mut(&mut self, dir: Ino) -> Result<&mut Names> {
        match &mut self.get_mut(dir)?.body {
            Body::Directory(names) => Ok(names),
            _ => Err(Error::NotDirectory),
        }
    }

    /// Returns the blocks of a regular file.
    pub(super) fn blocks(&self, ino: Ino) -> Result<&Blocks> {
        let inode = self.get(ino)?;
        match &inode.body {
            Body::File(blocks) => Ok(blocks),
            Body::Directory(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    /// Changes the blocks of a regular file and updates the count of blocks.
    pub(super) fn change_blocks(&mut self, ino: Ino, change: impl FnOnce(&mut Blocks)) -> Result<()> {
        self.blocks(ino)?;
        if let Body::File(blocks) = &mut self.get_mut(ino)?.body {
            let before = blocks.count();
            change(blocks);
            let after = blocks.count();
            self.blocks_used = self.blocks_used - before + after;
        }
        Ok(())
    }

    /// Returns true if `below` is `dir` or is below it at any depth.
    pub(super) fn is_within(&self, below: Ino, dir: Ino) -> Result<bool> {
        let mut at = below;
        loop {
            if at == dir {
                return Ok(true);
            }
            let parent = self.names(at)?.parent;
            if parent == at {
                return Ok(false);
            }
            at = parent;
        }
    }

    /// Frees the inode if it has neither names nor references.
    pub(super) fn free_if_dead(&mut self, ino: Ino) {
        if self.inodes.get(&ino).is_some_and(|inode| inode.attr.nlink == 0 && inode.references == 0)
            && let Some(inode) = self.inodes.remove(&ino)
        {
            self.freed.insert(ino);
            if let Body::File(blocks) = inode.body {
                self.blocks_used -= blocks.count();
            }
        }
    }

    /// Returns the violated invariants; none in a correct model.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut links: HashMap<Ino, u32> = HashMap::new();
        let mut blocks = 0;
        for (&ino, inode) in &self.inodes {
            match &inode.body {
                Body::Directory(names) if inode.attr.nlink > 0 => {
                    *links.entry(ino).or_default() += 1;
                    *links.entry(names.parent).or_default() += 1;
                    for (_, name, to) in names.from(0) {
                        match self.inodes.get(&to).map(|inode| (&inode.body, inode.attr.kind)) {
                            None => complaints.push(format!("{name:?} names the free inode {to:?}")),
                            Some((Body::Directory(child), _)) if child.parent != ino => {
                                complaints.push(format!(".. of {name:?} is not the directory that holds it"));
                            }
                            Some((_, FileKind::Directory)) => {}
                            Some(_) => *links.entry(to).or_default() += 1,
                        }
                    }
                    // The name in the parent; the root counts as its own.
                    if names.parent != ino {
                        let named = self.names(names.parent).is_ok_and(|up| up.from(0).any(|e| e.2 == ino));
                        if !named {
                            complaints.push(format!("directory {ino:?} is not in its parent"));
                        }
                    }
                }
                Body::File(data) => blocks += data.count(),
                _ => {}
            }
        }
        for (ino, inode) in &self.inodes {
            let is_dir = inode.attr.kind == FileKind::Directory;
            let found = links.get(ino).copied().unwrap_or(0);
            // `.` and the name in the parent are counted; for the root, `..` was counted instead of
            // its name.
            let is_root = matches!(&inode.body, Body::Directory(names) if names.parent == *ino);
            let expected = if is_dir && inode.attr.nlink > 0 && !is_root { found + 1 } else { found };
            if inode.attr.nlink != expected {
                complaints.push(format!("{ino:?}: link count {} should be {expected}", inode.attr.nlink));
            }
            if inode.attr.nlink == 0 && inode.references == 0 {
                complaints.push(format!("{ino:?} has neither names nor references"));
            }
        }
        if blocks != self.blocks_used {
            complaints.push(format!("blocks in use {} should be {blocks}", self.blocks_used));
        }
        complaints
    }
}
