//! The versions that a file system went through, and the judgement of a tree that was recovered
//! after a crash.
//!
//! Version `n` is the tree after `n` operations. The recovered tree must be version `k` for some
//! `k` from the last promise about everything up to the operation that was running: names, kinds,
//! permissions, owners, link counts, sizes, targets, extended attributes. Times are not compared.
//! Each byte of a file must be the byte of some version from `k` on, because data is overwritten in
//! place. So zeros that were never written, bytes of other files and bytes of removed files are
//! found. A promise about one file (`fsync`) requires the same of that file from the version of the
//! promise on. A snapshot must hold the tree of the moment when it was made, byte for byte.

use super::images;
use super::recovery::checked;
use spindle_device::MemoryDevice;
use spindle_ffs::{Ffs, OpenOptions};
use spindle_vfs::{self as vfs, Error, FileKind, FileSystem, Ino};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

/// The file of the log, which is not part of the tree.
const LOG_FILE: &[u8] = b".spindlelog";
/// Largest file that is read, in bytes; no workload makes a larger one.
const LARGEST: u64 = 16 << 20;

/// A path, and the file that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Path from the root.
    pub path: String,
    /// The index of the first node of the same file.
    pub first: usize,
    /// Kind.
    pub kind: FileKind,
    /// Permission bits.
    pub perm: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Number of names.
    pub nlink: u32,
    /// Bytes; of directories and snapshots 0.
    pub size: u64,
    /// Target, of symbolic links.
    pub target: Vec<u8>,
    /// Extended attributes.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The identity of a file among all that a file system has had: inode number and generation.
pub type Identity = (Ino, u64);

/// A whole tree at one moment.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The nodes, in the order of their paths.
    pub nodes: Vec<Node>,
    /// The file of each node.
    pub identities: Vec<Identity>,
    /// The bytes of regular files, orphans included; none of snapshots.
    pub contents: HashMap<Identity, Arc<[u8]>>,
    /// What the snapshots hold, by their paths.
    pub snapshots: BTreeMap<String, Arc<Self>>,
}

impl Tree {
    /// Reads the whole tree, and the open files `held`, which may be orphans.
    ///
    /// # Errors
    /// The first of the file system's, with its path.
    pub fn of(fs: &dyn FileSystem, held: impl Iterator<Item = Ino>) -> Result<Self, String> {
        Self::read_all(fs, held, |target| target)
    }

    /// Reads everything like [`Tree::of`], after a write has failed: links whose targets never
    /// reached the device are without one.
    ///
    /// # Errors
    /// The first of the file system's, with its path.
    pub fn after_failure(fs: &dyn FileSystem, held: impl Iterator<Item = Ino>) -> Result<Self, String> {
        Self::read_all(fs, held, |target| match target {
            Err(Error::Corrupt { .. }) => Ok(Vec::new()),
            other => other,
        })
    }

    fn read_all(
        fs: &dyn FileSystem,
        held: impl Iterator<Item = Ino>,
        accept: fn(vfs::Result<Vec<u8>>) -> vfs::Result<Vec<u8>>,
    ) -> Result<Self, String> {
        let mut tree = Self::default();
        let mut below = vec![(String::new(), fs.root())];
        while let Some((path, ino)) = below.pop() {
            tree.add(fs, &path, ino, accept, &mut below).map_err(|e| format!("/{path}: {e}"))?;
        }
        for ino in held {
            let identity = (ino, fs.getattr(ino).map_err(|e| format!("{ino:?}: {e}"))?.generation);
            tree.read(fs, identity).map_err(|e| format!("{ino:?}: {e}"))?;
        }
        tree.sort();
        for (node, &(ino, _)) in tree.nodes.iter().zip(&tree.identities) {
            if fs.is_snapshot(ino) {
                let held = Self::in_snapshot(fs, ino).map_err(|e| format!("in /{}: {e}", node.path))?;
                tree.snapshots.insert(node.path.clone(), Arc::new(held));
            }
        }
        Ok(tree)
    }

    /// Reads the tree that a snapshot holds, which must be without damage.
    fn in_snapshot(fs: &dyn FileSystem, ino: Ino) -> Result<Self, String> {
        const SECTOR: usize = 4096;
        let read = || {
            let size = fs.getattr(ino)?.size.min(LARGEST);
            let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
            let read = fs.read(ino, 0, &mut bytes)?;
            bytes.truncate(read);
            Ok::<_, vfs::Error>(bytes)
        };
        let mut bytes = read().map_err(|e| e.to_string())?;
        bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
        let device = Arc::new(MemoryDevice::from_bytes(&bytes));
        checked(&*device, "of a snapshot")?;
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let held = Ffs::open(device, images::clock(), &options).map_err(|e| e.to_string())?;
        Self::of(&held, std::iter::empty())
    }

    fn add(
        &mut self,
        fs: &dyn FileSystem,
        path: &str,
        ino: Ino,
        accept: fn(vfs::Result<Vec<u8>>) -> vfs::Result<Vec<u8>>,
        below: &mut Vec<(String, Ino)>,
    ) -> vfs::Result<()> {
        let attr = fs.getattr(ino)?;
        let identity = (ino, attr.generation);
        match attr.kind {
            FileKind::Directory => {
                let slash = if path.is_empty() { "" } else { "/" };
                fs.readdir(ino, 0, &mut |entry| {
                    if ![&b"."[..], b"..", LOG_FILE].contains(&entry.name) {
                        let name = entry.name.escape_ascii();
                        below.push((format!("{path}{slash}{name}"), entry.ino));
                    }
                    ControlFlow::Continue(())
                })?;
            }
            FileKind::Regular => self.read(fs, identity)?,
            _ => {}
        }
        let mut xattrs = Vec::new();
        if fs.limits().xattrs {
            for name in fs.listxattr(ino)? {
                let value = fs.getxattr(ino, &name)?;
                xattrs.push((name, value));
            }
            xattrs.sort();
        }
        let symlink = attr.kind == FileKind::Symlink;
        self.nodes.push(Node {
            path: path.to_owned(),
            first: 0,
            kind: attr.kind,
            perm: attr.perm,
            owner: (attr.uid, attr.gid),
            nlink: attr.nlink,
            size: if attr.kind == FileKind::Directory || fs.is_snapshot(ino) { 0 } else { attr.size },
            target: if symlink { accept(fs.readlink(ino))? } else { Vec::new() },
            xattrs,
        });
        self.identities.push(identity);
        Ok(())
    }

    fn read(&mut self, fs: &dyn FileSystem, identity: Identity) -> vfs::Result<()> {
        let attr = fs.getattr(identity.0)?;
        if fs.is_snapshot(identity.0) {
            self.contents.insert(identity, Arc::default());
        } else if attr.kind == FileKind::Regular && !self.contents.contains_key(&identity) {
            let mut bytes = vec![0; usize::try_from(attr.size.min(LARGEST)).unwrap_or(0)];
            let read = fs.read(identity.0, 0, &mut bytes)?;
            bytes.truncate(read);
            self.contents.insert(identity, bytes.into());
        }
        Ok(())
    }

    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by(|&a, &b| self.nodes[a].path.cmp(&self.nodes[b].path));
        let mut first = HashMap::new();
        let sorted = order.iter().enumerate().map(|(n, &from)| {
            let mut node = self.nodes[from].clone();
            node.first = *first.entry(self.identities[from]).or_insert(n);
            (node, self.identities[from])
        });
        (self.nodes, self.identities) = sorted.unzip();
    }

    /// Returns the differences of another tree from this one, the bytes of files included.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut differences = compare(&other.nodes, &self.nodes);
        if differences.is_empty() {
            let identities = other.identities.iter().zip(&self.identities);
            for (node, (now, then)) in other.nodes.iter().zip(identities) {
                if node.kind == FileKind::Regular && other.contents.get(now) != self.contents.get(then) {
                    differences.push(format!("/{} has other bytes", node.path));
                }
            }
            differences.extend(self.snapshot_differences(other));
        }
        differences
    }

    /// Returns the differences of another tree from this one in what snapshots hold.
    fn snapshot_differences(&self, other: &Self) -> Vec<String> {
        let paths: BTreeSet<_> = self.snapshots.keys().chain(other.snapshots.keys()).collect();
        let differences = |path: &String| match (self.snapshots.get(path), other.snapshots.get(path)) {
            (Some(held), Some(found)) => held.differences(found),
            (Some(_), None) => vec!["is no snapshot".into()],
            (None, _) => vec!["is a snapshot".into()],
        };
        let of = |path| differences(path).into_iter().map(move |what| format!("/{path}: {what}"));
        paths.into_iter().flat_map(of).collect()
    }

    /// Returns the kind, the target and the file of each path outside `lost+found`.
    fn names(&self) -> BTreeMap<&str, ((FileKind, &[u8]), Identity)> {
        let named = self.nodes.iter().zip(&self.identities);
        let outside = named.filter(|(node, _)| !node.path.starts_with("lost+found"));
        outside.map(|(node, id)| (node.path.as_str(), ((node.kind, &*node.target), *id))).collect()
    }

    /// Returns the nodes of one file.
    fn names_of(&self, identity: Identity) -> impl Iterator<Item = &Node> {
        self.nodes.iter().zip(&self.identities).filter(move |(_, id)| **id == identity).map(|(node, _)| node)
    }
}

/// A promise, which a call makes when it returns: a state is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The version whose state is durable.
    pub version: usize,
    /// The files whose state is durable.
    pub of: Promised,
}

/// The files that a promise is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promised {
    /// Everything.
    All,
    /// One file: data, size, names and attributes.
    File(Identity),
    /// One file: data and size.
    Data(Identity),
}

/// The versions that a file system went through, and the promises made.
#[derive(Debug, Default)]
pub struct History {
    versions: Vec<Tree>,
    promises: Vec<Promise>,
}

impl History {
    /// Adds the next version.
    pub fn add(&mut self, mut tree: Tree) {
        // Contents that did not change are shared.
        if let Some(last) = self.versions.last() {
            for (identity, bytes) in &mut tree.contents {
                if let Some(known) = last.contents.get(identity).filter(|known| *known == bytes) {
                    *bytes = known.clone();
                }
            }
        }
        self.versions.push(tree);
    }

    /// Returns the number of the last version.
    ///
    /// # Panics
    /// Without any.
    #[must_use]
    pub fn last(&self) -> usize {
        self.versions.len().checked_sub(1).expect("a version")
    }

    /// Notes a promise about the last version, and returns the number of promises.
    pub fn promise(&mut self, of: Promised) -> usize {
        let version = self.last();
        self.promises.push(Promise { version, of });
        self.promises.len()
    }

    /// Returns the promises made, in order.
    #[must_use]
    pub fn promises(&self) -> &[Promise] {
        &self.promises
    }

    /// Returns the versions that may be found after a crash, if `promises` promises had been made
    /// and the operation to version `latest` had begun.
    #[must_use]
    pub fn range(&self, promises: usize, latest: usize) -> RangeInclusive<usize> {
        let all = self.promises[..promises].iter().filter(|promise| promise.of == Promised::All);
        all.map(|promise| promise.version).max().unwrap_or(0)..=latest.min(self.last())
    }

    /// Returns the version that was recovered, the latest that fits.
    ///
    /// # Errors
    /// The differences from the version that fits best.
    ///
    /// # Panics
    /// If there were not so many promises and versions.
    pub fn judge(&self, found: &Tree, promises: usize, latest: usize) -> Result<usize, String> {
        let range = self.range(promises, latest);
        let mut against: Option<(usize, Vec<String>)> = None;
        for k in range.clone().rev() {
            let differences = self.differences(found, k, promises, *range.end());
            if differences.is_empty() {
                return Ok(k);
            }
            if against.as_ref().is_none_or(|(_, known)| differences.len() < known.len()) {
                against = Some((k, differences));
            }
        }
        let (k, differences) = against.expect("a range has a version");
        Err(format!(
            "none of the versions {} to {} was recovered; the nearest is {k}:\n{}",
            range.start(),
            range.end(),
            differences.join("\n")
        ))
    }

    /// Returns version `latest` if a tree has the names of all files that have them both before and
    /// after the operation to it, with their kinds and targets, and no name that neither of the two
    /// versions has. Files that had lost their names are in `lost+found`.
    ///
    /// # Errors
    /// The names that are missing or too many.
    ///
    /// # Panics
    /// If there were not so many versions.
    pub fn judge_names(&self, found: &Tree, latest: usize) -> Result<usize, String> {
        let latest = latest.min(self.last());
        let [now, before, after] =
            [found, &self.versions[latest.saturating_sub(1)], &self.versions[latest]].map(Tree::names);
        let kept = before.iter().filter(|(path, node)| after.get(*path) == Some(*node));
        let missing = kept.filter(|(path, (node, _))| now.get(*path).is_none_or(|(found, _)| found != node));
        let missing = missing.map(|(path, (node, _))| format!("/{path} of {node:?} is missing"));
        let known = |path: &&str, node| {
            [&before, &after].iter().any(|tree| tree.get(path).is_some_and(|(known, _)| known == node))
        };
        let wrong = now.iter().filter(|(path, (node, _))| !known(path, node));
        let wrong = wrong.map(|(path, (node, _))| format!("/{path} should not be {node:?}"));
        let differences: Vec<_> = missing.chain(wrong).collect();
        if differences.is_empty() { Ok(latest) } else { Err(differences.join("\n")) }
    }

    /// Returns how a tree differs from version `k`, or none. The bytes of the file `except` are not
    /// compared.
    #[must_use]
    pub fn differs(&self, found: &Tree, k: usize, except: Option<Ino>) -> Option<String> {
        let expected = &self.versions[k];
        let mut differences = compare(&found.nodes, &expected.nodes);
        if differences.is_empty() {
            let identities = found.identities.iter().zip(&expected.identities);
            for (node, (now, then)) in found.nodes.iter().zip(identities) {
                let is_compared = node.kind == FileKind::Regular && except != Some(now.0);
                if is_compared && found.contents.get(now) != expected.contents.get(then) {
                    differences.push(format!("/{} has other bytes", node.path));
                }
            }
            differences.extend(expected.snapshot_differences(found));
        }
        (!differences.is_empty()).then(|| differences.join("\n"))
    }

    /// Returns the differences of a recovered tree from version `k`.
    fn differences(&self, found: &Tree, k: usize, promises: usize, latest: usize) -> Vec<String> {
        let mut differences = compare(&found.nodes, &self.versions[k].nodes);
        if !differences.is_empty() {
            return differences;
        }
        differences.extend(self.versions[k].snapshot_differences(found));
        for promise in self.promises[..promises].iter().filter(|promise| promise.version > k) {
            differences.extend(self.broken_promise(k, promise));
        }
        for (n, node) in found.nodes.iter().enumerate().filter(|(n, node)| node.first == *n) {
            if node.kind == FileKind::Regular {
                let identity = self.versions[k].identities[n];
                let oldest = self.promises[..promises].iter().filter(|promise| match promise.of {
                    Promised::File(id) | Promised::Data(id) => id == identity,
                    Promised::All => false,
                });
                let oldest = oldest.map(|promise| promise.version).max().unwrap_or(k).max(k);
                let bytes = &found.contents[&found.identities[n]];
                differences.extend(self.unknown_bytes(&node.path, identity, bytes, oldest..=latest));
            }
        }
        differences
    }

    /// Returns how the older version `k` breaks a promise about the names and attributes of a file.
    fn broken_promise(&self, k: usize, promise: &Promise) -> Option<String> {
        let (then, now) = (&self.versions[promise.version], &self.versions[k]);
        let kept = match promise.of {
            Promised::All => true,
            Promised::File(identity) => {
                let bare = |node: &Node| Node { first: 0, ..node.clone() };
                then.names_of(identity).map(bare).eq(now.names_of(identity).map(bare))
            }
            Promised::Data(identity) => {
                let size = |tree: &Tree| tree.names_of(identity).next().map(|node| node.size);
                size(then).is_none() || size(then) == size(now)
            }
        };
        (!kept).then(|| format!("version {k} does not keep {promise:?}"))
    }

    /// Returns a description of the bytes that the file had in none of the versions, if any.
    fn unknown_bytes(
        &self,
        path: &str,
        identity: Identity,
        bytes: &[u8],
        versions: RangeInclusive<usize>,
    ) -> Option<String> {
        let mut past: Vec<&Arc<[u8]>> =
            versions.clone().filter_map(|j| self.versions[j].contents.get(&identity)).collect();
        past.dedup_by(|a, b| Arc::ptr_eq(a, b));
        if past.iter().any(|past| ***past == *bytes) {
            return None;
        }
        let known = |at: usize, byte: u8| past.iter().any(|past| past.get(at).copied().unwrap_or(0) == byte);
        let at = bytes.iter().enumerate().position(|(at, &byte)| !known(at, byte))?;
        let run = bytes[at..].iter().enumerate().take_while(|&(n, &byte)| !known(at + n, byte)).count();
        Some(format!(
            "{path}: {run} bytes from {at} on are of none of its versions {} to {}{}",
            versions.start(),
            versions.end(),
            self.origin(&bytes[at..])
        ))
    }

    /// Returns a description of the file that bytes come from.
    fn origin(&self, bytes: &[u8]) -> String {
        let sample = &bytes[..bytes.len().min(8)];
        if sample.iter().all(|&byte| byte == 0) {
            return ": zeros".into();
        }
        for (version, tree) in self.versions.iter().enumerate() {
            for (node, identity) in tree.nodes.iter().zip(&tree.identities) {
                let content = tree.contents.get(identity);
                let at = content.and_then(|all| all.windows(sample.len()).position(|w| w == sample));
                if let Some(at) = at {
                    return format!(": they are those of {} at {at} in version {version}", node.path);
                }
            }
        }
        format!(": {sample:02x?}")
    }
}

/// Returns how two lists of nodes differ.
fn compare(found: &[Node], expected: &[Node]) -> Vec<String> {
    if found == expected {
        return Vec::new();
    }
    let mut differences = Vec::new();
    let mut other = expected.iter().peekable();
    let path_of = |nodes: &[Node], first: usize| nodes[first].path.clone();
    for node in found {
        while let Some(missing) = other.next_if(|expected| expected.path < node.path) {
            differences.push(format!("/{} is missing", missing.path));
        }
        match other.next_if(|expected| expected.path == node.path) {
            None => differences.push(format!("/{} should not be there", node.path)),
            Some(expected_node) => {
                let links = (path_of(found, node.first), path_of(expected, expected_node.first));
                if links.0 != links.1 {
                    differences.push(format!("/{} is /{}, not /{}", node.path, links.0, links.1));
                }
                if *node != (Node { first: node.first, ..expected_node.clone() }) {
                    differences.push(format!("{node:?}\nshould be\n{expected_node:?}"));
                }
            }
        }
    }
    differences.extend(other.map(|missing| format!("/{} is missing", missing.path)));
    differences
}

#[cfg(test)]
mod tests;
