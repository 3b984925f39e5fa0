//! Phases 3 and 4: which name of each directory counts, what the root leads to, and how many names
//! each file has.
//!
//! A directory may have several names after damage. The one in its parent (`..`) counts; if the
//! root does not lead there, another one counts to which it leads. So a directory never loses its
//! place in the tree to a name that is in a ring.

use super::finding::Finding;
use super::{Checker, Edge};
use crate::format::layout::ROOT_INO;
use spindle_vfs::FileKind;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The tree of directories while it is found.
struct Tree<'a> {
    edges: &'a BTreeMap<u64, Vec<Edge>>,
    /// Directories with names in a directory, with the positions of these names among their own.
    below: HashMap<u64, Vec<(u64, usize)>>,
    /// The name of each directory that counts.
    chosen: HashMap<u64, usize>,
    reached: HashSet<u64>,
}

impl Tree<'_> {
    /// Finds everything below a directory: first through the names that count, then through others,
    /// which then count.
    fn reach(&mut self, top: u64) {
        self.reached.insert(top);
        let (mut first, mut second) = (vec![top], Vec::new());
        loop {
            while let Some(dir) = first.pop() {
                for (child, n) in self.below.remove(&dir).unwrap_or_default() {
                    if self.chosen.get(&child) != Some(&n) {
                        second.push((child, n));
                    } else if self.reached.insert(child) {
                        first.push(child);
                    }
                }
            }
            let Some((child, n)) = second.pop() else { return };
            if self.reached.insert(child) {
                self.chosen.insert(child, n);
                first.push(child);
            }
        }
    }

    /// Returns a directory of the ring that one leads up to that cannot be reached.
    fn ring_above(&self, from: u64) -> u64 {
        let (mut at, mut passed) = (from, HashSet::new());
        while passed.insert(at) {
            let Some(edge) = self.chosen.get(&at).and_then(|&n| self.edges.get(&at)?.get(n)) else { break };
            at = edge.dir;
        }
        at
    }
}

impl Checker {
    /// Finds the name of each directory that counts, and the directories without one.
    pub(super) fn connectivity(&mut self) {
        let edges = std::mem::take(&mut self.edges);
        let mut tree =
            Tree { edges: &edges, below: HashMap::new(), chosen: HashMap::new(), reached: HashSet::new() };
        for (&child, names) in &edges {
            let parent = self.files.get(&child).map_or(0, |file| file.parent);
            let n = names.iter().position(|edge| edge.dir == parent).unwrap_or(0);
            tree.chosen.insert(child, n);
            for (n, edge) in names.iter().enumerate() {
                tree.below.entry(edge.dir).or_default().push((child, n));
            }
        }
        tree.reach(ROOT_INO);
        let directories: Vec<u64> = self.directories().collect();
        for &dir in directories.iter().filter(|dir| !edges.contains_key(dir) && **dir != ROOT_INO) {
            let empty = self.files.get(&dir).is_some_and(|file| file.nlink == 0 && file.map.root.is_none());
            if !empty {
                self.unconnected(dir);
            }
            tree.reach(dir);
        }
        for &dir in &directories {
            if !tree.reached.contains(&dir) {
                let top = tree.ring_above(dir);
                tree.chosen.remove(&top);
                self.unconnected(top);
                tree.reach(top);
            }
        }
        let chosen = tree.chosen;
        for (&child, names) in &edges {
            let counts = chosen.get(&child);
            for (_, edge) in names.iter().enumerate().filter(|(n, _)| Some(n) != counts) {
                let what = if counts.is_some() {
                    "EXTRANEOUS HARD LINK TO DIRECTORY"
                } else {
                    "DIRECTORIES IN A RING"
                };
                self.drop_name(edge.dir, edge.n);
                self.wrong_name(edge.dir, &edge.name, child, what);
            }
            if let Some(edge) = counts.and_then(|&n| names.get(n)) {
                self.connect(child, edge);
            }
        }
    }

    fn unconnected(&mut self, ino: u64) {
        self.lost.insert(ino);
        self.findings.push(Finding::Unconnected { ino });
    }

    /// Records the name of a directory that counts.
    fn connect(&mut self, ino: u64, edge: &Edge) {
        if let Some(above) = self.files.get_mut(&edge.dir) {
            above.subdirectories += 1;
        }
        let Some(file) = self.files.get_mut(&ino) else { return };
        file.name = Some((edge.dir, edge.name.clone()));
        file.found_parent = edge.dir;
        if file.parent != edge.dir {
            let (parent, expected) = (file.parent, edge.dir);
            self.findings.push(Finding::Parent { ino, parent, expected });
        }
    }

    /// Counts the names of all files.
    pub(super) fn links(&mut self) {
        for (&ino, file) in &mut self.files {
            let directory = file.kind == FileKind::Directory;
            let found = if directory { 2 + file.subdirectories } else { file.names };
            // A directory with more directories than can be counted keeps the greatest number.
            file.found_nlink = u16::try_from(found).unwrap_or(u16::MAX);
            let named = file.name.is_some() || ino == ROOT_INO;
            if !named && !self.lost.contains(&ino) {
                file.found_nlink = file.nlink;
                if file.nlink == 0 {
                    self.orphans.insert(ino);
                    self.findings.push(Finding::Orphan { ino });
                } else {
                    self.lost.insert(ino);
                    self.findings.push(Finding::Unreferenced { ino });
                }
            } else if named && file.nlink != file.found_nlink {
                let (counted, found) = (file.nlink, file.found_nlink);
                self.findings.push(Finding::Links { ino, counted, found });
            }
        }
    }
}
