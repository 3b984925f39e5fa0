//! A walk through a tree in an image, as `fts(3)` makes it: every directory comes before and after
//! what is in it.
//!
//! The file system may be damaged or hostile. Names are checked and no directory is entered twice,
//! so the walk always ends. What cannot be read comes as an error, after which the walk goes on.

use crate::error::{Context, Error, Result};
use crate::path::{child, names_before_damage};
use crate::transfer::check_name;
use spindle_vfs::{Attr, Error as FsError, Ino, Node, Vfs};
use std::collections::HashSet;

/// When the walk comes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Only now: it is no directory.
    Once,
    /// Before what is in the directory.
    Before,
    /// After what is in the directory.
    After,
}

/// A file that the walk has come to.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Its path, beginning with the path of the root of the walk.
    pub path: Vec<u8>,
    /// The directory that it was found in; none for the root of the walk.
    pub dir: Option<Ino>,
    /// Its attributes when the walk found it.
    pub attr: Attr,
    /// How many directories of the walk are above it.
    pub depth: usize,
    /// When this is.
    pub when: When,
}

impl Visit {
    /// Returns the last name of its path.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        let trimmed = self.path.len() - self.path.iter().rev().take_while(|&&b| b == b'/').count();
        let path = &self.path[..trimmed];
        match path.iter().rposition(|&b| b == b'/') {
            _ if path.is_empty() => b"/",
            Some(slash) => &path[slash + 1..],
            None => path,
        }
    }
}

/// A directory that the walk is in.
struct Level<'a> {
    /// The directory, with a reference.
    dir: Node<'a>,
    /// The visit before what is in it.
    visit: Visit,
    names: std::vec::IntoIter<Vec<u8>>,
}

/// A walk: an iterator of the files below one, and of what cannot be read of them. Names in a
/// directory are sorted by their bytes.
pub struct Walk<'a> {
    vfs: &'a Vfs,
    root: Option<(Vec<u8>, Node<'a>)>,
    levels: Vec<Level<'a>>,
    /// The directory that was visited last, if it is still to be entered.
    next: Option<(Node<'a>, Visit)>,
    seen: HashSet<Ino>,
}

impl<'a> Walk<'a> {
    /// Returns a walk through `root`, which has this path, and everything below it.
    #[must_use]
    pub fn new(path: &[u8], root: Node<'a>) -> Self {
        let vfs = root.vfs();
        let root = Some((path.to_vec(), root));
        Self { vfs, root, levels: Vec::new(), next: None, seen: HashSet::new() }
    }

    /// Leaves out what is in the directory that was visited last.
    pub fn prune(&mut self) {
        if let Some((dir, visit)) = self.next.take() {
            self.levels.push(Level { dir, visit, names: Vec::new().into_iter() });
        }
    }

    /// Reads the names in a directory and enters it. Fails if they cannot all be read; the walk
    /// then goes on with those that can.
    fn enter(&mut self, dir: Node<'a>, visit: Visit) -> Result<()> {
        let (names, damage) = names_before_damage(self.vfs, dir.ino());
        let read = damage.map_or(Ok(()), Err).named(&visit.path);
        self.levels.push(Level { dir, visit, names: names.into_iter() });
        read
    }

    /// Returns the visit to a file, and remembers a directory to be entered.
    fn visit(&mut self, path: Vec<u8>, dir: Option<Ino>, node: Node<'a>) -> Result<Visit> {
        let depth = self.levels.len();
        let attr = node.attr().clone();
        if !node.is_dir() {
            return Ok(Visit { path, dir, attr, depth, when: When::Once });
        }
        if !self.seen.insert(node.ino()) {
            let place = format!("inode {}", node.ino().0);
            return Err(FsError::corrupt("a directory has two names", place)).named(&path);
        }
        let visit = Visit { path, dir, attr, depth, when: When::Before };
        self.next = Some((node, visit.clone()));
        Ok(visit)
    }

    fn look_up(&mut self, dir: Ino, path: Vec<u8>, name: &[u8]) -> Result<Visit> {
        check_name(name).named(&path)?;
        let node = child(self.vfs, dir, name).named(&path)?;
        self.visit(path, Some(dir), node)
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Visit, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((path, node)) = self.root.take() {
            return Some(self.visit(path, None, node));
        }
        if let Some((dir, visit)) = self.next.take()
            && let Err(error) = self.enter(dir, visit)
        {
            return Some(Err(error));
        }
        let level = self.levels.last_mut()?;
        let Some(name) = level.names.next() else {
            let Level { visit, .. } = self.levels.pop()?;
            return Some(Ok(Visit { when: When::After, ..visit }));
        };
        let base = level.visit.path.strip_suffix(b"/").unwrap_or(&level.visit.path);
        let path = [base, b"/", &name].concat();
        let dir = level.dir.ino();
        Some(self.look_up(dir, path, &name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_conformance::model::{ModelFs, ModelOptions};
    use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege};
    use std::sync::Arc;

    fn make(fs: &dyn FileSystem, dir: Ino, name: &str, kind: FileKind) -> Ino {
        let ino = fs.create(dir, name.as_bytes(), &NewNode::new(kind, 0o755), Privilege::Root).unwrap().ino;
        fs.forget(ino, 1);
        ino
    }

    fn tree() -> Vfs {
        let fs = ModelFs::new(ModelOptions::default(), Arc::new(spindle_clock::ManualClock::at(0)));
        let a = make(&fs, fs.root(), "a", FileKind::Directory);
        let b = make(&fs, a, "b", FileKind::Directory);
        make(&fs, b, "deep", FileKind::Regular);
        make(&fs, a, "file", FileKind::Regular);
        make(&fs, fs.root(), "z", FileKind::Fifo);
        Vfs::new(Arc::new(fs), spindle_vfs::Options::default())
    }

    fn walked(vfs: &Vfs, skip: &str) -> Vec<(String, usize, When)> {
        let mut walk = Walk::new(b"/", vfs.root_node().unwrap());
        let mut found = Vec::new();
        while let Some(visit) = walk.next() {
            let visit = visit.unwrap();
            let path = String::from_utf8(visit.path).unwrap();
            if path == skip {
                walk.prune();
            }
            found.push((path, visit.depth, visit.when));
        }
        found
    }

    /// Promise: directories come before and after what is in them, names are sorted, depths count
    /// from the root of the walk, and what is pruned is not entered.
    #[test]
    fn directories_come_before_and_after() {
        let vfs = tree();
        let (once, before, after) = (When::Once, When::Before, When::After);
        let wanted = |list: &[(&str, usize, When)]| -> Vec<_> {
            list.iter().map(|&(path, depth, when)| (path.to_owned(), depth, when)).collect()
        };
        let all = [
            ("/", 0, before),
            ("/a", 1, before),
            ("/a/b", 2, before),
            ("/a/b/deep", 3, once),
            ("/a/b", 2, after),
            ("/a/file", 2, once),
            ("/a", 1, after),
            ("/z", 1, once),
            ("/", 0, after),
        ];
        assert_eq!(walked(&vfs, ""), wanted(&all));
        let short = [("/", 0, before), ("/a", 1, before), ("/a", 1, after), ("/z", 1, once), ("/", 0, after)];
        assert_eq!(walked(&vfs, "/a"), wanted(&short));
    }

    /// Promise: the name of a visit is the last one of its path; that of the root is a slash.
    #[test]
    fn names_of_visits() {
        let vfs = tree();
        let name = |path: &str| {
            let visit = Walk::new(path.as_bytes(), vfs.root_node().unwrap()).next().unwrap().unwrap();
            String::from_utf8(visit.name().to_vec()).unwrap()
        };
        assert_eq!(
            (name("/"), name("/a/b/"), name("/a"), name("//")),
            ("/".into(), "b".into(), "a".into(), "/".into())
        );
    }
}
