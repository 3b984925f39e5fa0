//! The paths of the inodes that findings speak of.
//!
//! Names are not kept while checking: only parents are. When something was found, the directories
//! are read again, once for the names of files and once for the names on the way up.

use super::Checker;
use super::inodes::ROOTINO;
use crate::format::entries::Entries;
use std::collections::{HashMap, HashSet};

/// Most steps from the root that a path is followed.
const MAX_DEPTH: usize = 1000;

/// An inode's parent and name.
type Names = HashMap<u32, (u32, String)>;

impl Checker<'_> {
    /// Returns the paths of those of `wanted` that have one.
    pub(super) fn paths(&mut self, wanted: impl Iterator<Item = u32>) -> HashMap<u32, String> {
        let wanted: HashSet<u32> = wanted.collect();
        let mut names = Names::new();
        let (dirs, files): (Vec<u32>, Vec<u32>) =
            wanted.iter().partition(|&&ino| self.state.dir(ino).is_some());
        let mut missing: HashSet<u32> = files.into_iter().collect();
        for row in 0..self.state.dirs.len() {
            if missing.is_empty() {
                break;
            }
            self.collect_names(row, &mut missing, &mut names);
        }
        let starts: Vec<u32> = dirs.into_iter().chain(names.values().map(|&(parent, _)| parent)).collect();
        let mut by_parent: HashMap<u32, HashSet<u32>> = HashMap::new();
        let mut known = HashSet::new();
        for start in starts {
            let mut ino = start;
            while ino != ROOTINO && known.insert(ino) {
                let Some(row) = self.state.dir(ino) else { break };
                let parent = self.state.dirs[row].parent;
                by_parent.entry(parent).or_default().insert(ino);
                ino = parent;
            }
        }
        for (parent, mut children) in by_parent {
            if let Some(row) = self.state.dir(parent) {
                self.collect_names(row, &mut children, &mut names);
            }
        }
        wanted.into_iter().filter_map(|ino| Some((ino, path(&names, ino)?))).collect()
    }

    /// Moves the inodes that a directory names from `missing` to `names`.
    fn collect_names(&mut self, row: usize, missing: &mut HashSet<u32>, names: &mut Names) {
        let layout = self.layout;
        let dir = &self.state.dirs[row];
        let (parent, size) = (dir.ino, dir.size);
        for n in dir.blocks.clone() {
            let place = self.state.dir_blocks[n];
            let Some(block) = self.directory_block(size, place) else { continue };
            for entry in Entries::new(layout, &block).flatten() {
                if !matches!(entry.name, b"." | b"..") && missing.remove(&entry.ino) {
                    let name = String::from_utf8_lossy(entry.name).into_owned();
                    names.insert(entry.ino, (parent, name));
                }
            }
        }
    }
}

/// Puts the names from the root to an inode together.
fn path(names: &Names, ino: u32) -> Option<String> {
    if ino == ROOTINO {
        return Some("/".into());
    }
    let mut parts = Vec::new();
    let mut at = ino;
    while at != ROOTINO {
        let (parent, name) = names.get(&at)?;
        parts.push(name.as_str());
        at = *parent;
        if parts.len() > MAX_DEPTH {
            return None;
        }
    }
    parts.reverse();
    Some(format!("/{}", parts.join("/")))
}
