//! What tools do with whole files and trees, streaming, in memory that does not grow with them.

use crate::access::Cred;
use crate::path::Node;
use crate::{Error, FileKind, Ino, NewNode, Privilege, Rdev, Result, Seek, Vfs};
use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;

/// Entries of a directory that are held in memory at a time.
const BATCH: usize = 256;

/// One name that [`Entries`] gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// What it names.
    pub ino: Ino,
    /// Its kind, where the directory says so.
    pub kind: Option<FileKind>,
}

/// The entries of a directory but `.` and `..`, read in batches.
#[derive(Debug)]
pub struct Entries<'a> {
    vfs: &'a Vfs,
    cred: Cred<'a>,
    dir: Ino,
    from: u64,
    batch: VecDeque<Entry>,
    ended: bool,
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.batch.is_empty() && !self.ended {
            let (from, batch) = (&mut self.from, &mut self.batch);
            let mut ended = true;
            let read = self.vfs.readdir(&self.cred, self.dir, *from, &mut |entry| {
                if batch.len() == BATCH {
                    ended = false;
                    return ControlFlow::Break(());
                }
                *from = entry.next;
                if entry.name != b"." && entry.name != b".." {
                    batch.push_back(Entry { name: entry.name.to_vec(), ino: entry.ino, kind: entry.kind });
                }
                ControlFlow::Continue(())
            });
            self.ended = ended;
            if let Err(error) = read {
                self.ended = true;
                return Some(Err(error));
            }
        }
        self.batch.pop_front().map(Ok)
    }
}

/// Something found by [`Vfs::walk`].
#[derive(Debug)]
pub struct Found<'a> {
    /// The names from the start of the walk, joined by `/`; empty for the start itself.
    pub path: Vec<u8>,
    /// What is there.
    pub node: Node<'a>,
}

/// Everything below a directory, each directory before what is in it. Memory grows with the depth alone.
#[derive(Debug)]
pub struct Walk<'a> {
    vfs: &'a Vfs,
    cred: Cred<'a>,
    start: Option<Node<'a>>,
    below: Vec<(Vec<u8>, Entries<'a>)>,
}

impl<'a> Walk<'a> {
    fn enter(&mut self, path: &[u8], node: &Node<'a>) {
        if node.is_dir() {
            self.below.push((path.to_vec(), self.vfs.entries(&self.cred, node.ino())));
        }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<Found<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(node) = self.start.take() {
            self.enter(b"", &node);
            return Some(Ok(Found { path: Vec::new(), node }));
        }
        while let Some((path, entries)) = self.below.last_mut() {
            let entry = match entries.next() {
                None => {
                    self.below.pop();
                    continue;
                }
                Some(Err(error)) => {
                    self.below.pop();
                    return Some(Err(error));
                }
                Some(Ok(entry)) => entry,
            };
            let path = if path.is_empty() { entry.name.clone() } else { [path, &entry.name[..]].join(&b'/') };
            let dir = entries.dir;
            match self.vfs.lookup(&self.cred, dir, &entry.name) {
                // It went while the walk was on its way.
                Err(Error::NotFound) => {}
                Err(error) => return Some(Err(error)),
                Ok(attr) => {
                    let node = Node::new(self.vfs, attr);
                    self.enter(&path, &node);
                    return Some(Ok(Found { path, node }));
                }
            }
        }
        None
    }
}

/// Reads or writes a regular file from a position on; a [`Node`] keeps it.
#[derive(Debug)]
pub struct FileStream<'a, 'n> {
    node: &'n Node<'a>,
    by: Privilege,
    position: u64,
}

impl FileStream<'_, '_> {
    /// Goes to a position.
    pub fn set_position(&mut self, position: u64) {
        self.position = position;
    }
}

impl io::Read for FileStream<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.node.vfs().fs().read(self.node.ino(), self.position, buf).map_err(io::Error::other)?;
        self.position += n as u64;
        Ok(n)
    }
}

impl io::Write for FileStream<'_, '_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let fs = self.node.vfs().fs();
        let n = fs.write(self.node.ino(), self.position, buf, self.by).map_err(io::Error::other)?;
        self.position += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[allow(clippy::missing_errors_doc)] // As `FileSystem` says, and `Access` or `NotPermitted` for want of permission.
impl Vfs {
    /// The entries of a directory.
    pub fn entries<'a>(&'a self, cred: &Cred<'a>, dir: Ino) -> Entries<'a> {
        Entries { vfs: self, cred: cred.clone(), dir, from: 0, batch: VecDeque::new(), ended: false }
    }

    /// Walks everything at and below `start`. An error ends the directory it comes from, not the walk.
    pub fn walk<'a>(&'a self, cred: &Cred<'a>, start: Node<'a>) -> Walk<'a> {
        Walk { vfs: self, cred: cred.clone(), start: Some(start), below: Vec::new() }
    }

    /// A stream that reads or writes a regular file from its start; permission is that of opening it.
    pub fn stream<'a, 'n>(
        &'a self,
        cred: &Cred<'_>,
        node: &'n Node<'a>,
        flags: crate::OpenFlags,
    ) -> Result<FileStream<'a, 'n>> {
        // What opening decides holds for the stream; the node keeps the file, so the handle need not.
        let handle = self.open(cred, node.ino(), flags)?;
        self.close(handle)?;
        Ok(FileStream { node, by: cred.privilege(), position: 0 })
    }

    /// The stored range at or after `from`: its first byte and the one after its last. None after the last.
    pub fn next_data(&self, ino: Ino, from: u64) -> Result<Option<(u64, u64)>> {
        match self.fs().seek(ino, from, Seek::Data) {
            Ok(start) => Ok(Some((start, self.fs().seek(ino, start, Seek::Hole)?))),
            Err(Error::NoSuchOffset) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a directory and those above it that are missing.
    pub fn mkdir_p(&self, cred: &Cred<'_>, path: &[u8], perm: u32) -> Result<Node<'_>> {
        let mut at = self.root_node()?;
        let mut so_far = Vec::new();
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            so_far.push(b'/');
            so_far.extend(name);
            at = match self.resolve(cred, &so_far, true) {
                Ok(node) if node.is_dir() => node,
                Ok(_) => return Err(Error::NotDirectory),
                Err(Error::NotFound) => {
                    let kind = FileKind::Directory;
                    let (uid, gid) = (cred.uid, cred.gid);
                    let new = NewNode { kind, perm, uid, gid, rdev: Rdev::default(), target: b"" };
                    Node::new(self, self.create(cred, at.ino(), name, &new)?)
                }
                Err(error) => return Err(error),
            };
        }
        Ok(at)
    }

    /// Removes a name and, if it is a directory, everything below. Stops at the first error.
    pub fn remove_tree(&self, cred: &Cred<'_>, dir: Ino, name: &[u8]) -> Result<()> {
        let top = Node::new(self, self.lookup(cred, dir, name)?);
        if !top.is_dir() {
            return self.unlink(cred, dir, name);
        }
        // The directories on the way down, each with its name in the one before.
        let mut below = vec![(top, name.to_vec())];
        while let Some((node, _)) = below.last() {
            let ino = node.ino();
            let mut deeper = None;
            for entry in self.entries(cred, ino) {
                let entry = entry?;
                let child = node.child(cred, &entry.name)?;
                if child.is_dir() {
                    deeper = Some((child, entry.name));
                    break;
                }
                self.unlink(cred, ino, &entry.name)?;
            }
            if let Some(deeper) = deeper {
                below.push(deeper);
            } else if let Some((_, name)) = below.pop() {
                let parent = below.last().map_or(dir, |(node, _)| node.ino());
                self.rmdir(cred, parent, &name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::errnos::errno;
    use crate::vfs::tests::{front, node};
    use crate::{OpenFlags, Options};
    use std::collections::BTreeSet;
    use std::io::{Read, Write};

    const ROOT: Cred<'static> = Cred::root();

    /// Three levels of three directories and 300 files; the number of all.
    fn plant(vfs: &Vfs) -> usize {
        let mut count = 0;
        for path in ["t", "t/a", "t/b", "t/b/c", "t/b/c/d"] {
            let dir = vfs.mkdir_p(&ROOT, path.as_bytes(), 0o755).unwrap();
            count += 1;
            for i in 0..300 {
                let name = format!("f{i}");
                let made =
                    vfs.create(&ROOT, dir.ino(), name.as_bytes(), &node(FileKind::Regular, 0o644, &ROOT));
                vfs.forget(made.unwrap().ino, 1);
                count += 1;
            }
        }
        count
    }

    /// Promise: a walk finds everything once, each directory before what is in it, with the path to it.
    #[test]
    fn walks_find_everything() {
        let vfs = front(Options::default());
        let count = plant(&vfs);
        let start = vfs.resolve(&ROOT, b"t", true).unwrap();
        let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
        for found in vfs.walk(&ROOT, start) {
            let found = found.unwrap();
            if let Some(slash) = found.path.iter().rposition(|byte| *byte == b'/') {
                assert!(seen.contains(&found.path[..slash]), "its directory came before");
            }
            let path = [b"t/", &found.path[..]].concat();
            assert_eq!(vfs.resolve(&ROOT, &path, true).unwrap().ino(), found.node.ino());
            assert!(seen.insert(found.path));
        }
        assert_eq!(seen.len(), count);
        assert!(seen.contains(&b"b/c/d/f299"[..]));
    }

    /// Promise: a tree is removed whole, and nothing of it is left behind.
    #[test]
    fn trees_are_removed() {
        let vfs = front(Options::default());
        let before = vfs.statfs().unwrap();
        plant(&vfs);
        vfs.remove_tree(&ROOT, vfs.root(), b"t").unwrap();
        assert_eq!(errno(&vfs.resolve(&ROOT, b"t", true)), 2);
        assert_eq!(vfs.statfs().unwrap(), before);
        assert_eq!(errno(&vfs.remove_tree(&ROOT, vfs.root(), b"t")), 2);
    }

    /// Promise: `mkdir_p` makes what is missing, takes what is there, and refuses what is no directory.
    #[test]
    fn missing_directories_are_made() {
        let vfs = front(Options::default());
        let made = vfs.mkdir_p(&ROOT, b"/x/y//z/", 0o750).unwrap();
        assert_eq!((made.attr().perm, made.attr().nlink), (0o750, 2));
        assert_eq!(vfs.mkdir_p(&ROOT, b"x/y/z", 0o700).unwrap().ino(), made.ino());
        assert_eq!(vfs.mkdir_p(&ROOT, b"", 0o700).unwrap().ino(), vfs.root());
        vfs.create(&ROOT, made.ino(), b"file", &node(FileKind::Regular, 0o644, &ROOT)).unwrap();
        assert_eq!(errno(&vfs.mkdir_p(&ROOT, b"x/y/z/file/w", 0o700)), 20);
    }

    /// Promise: a stream carries bytes both ways, `next_data` skips the holes, and permission is asked.
    #[test]
    fn streams_carry_bytes() {
        let vfs = front(Options::default());
        let new = node(FileKind::Regular, 0o600, &ROOT);
        let file = Node::new(&vfs, vfs.create(&ROOT, vfs.root(), b"file", &new).unwrap());
        let data: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        let mut writer = vfs.stream(&ROOT, &file, OpenFlags::WRITE).unwrap();
        writer.write_all(&data).unwrap();
        writer.set_position(10_000_000);
        writer.write_all(b"end").unwrap();
        let mut found = Vec::new();
        let mut reader = vfs.stream(&ROOT, &file, OpenFlags::READ).unwrap();
        Read::by_ref(&mut reader).take(100_000).read_to_end(&mut found).unwrap();
        assert_eq!(found, data);
        let first = vfs.next_data(file.ino(), 0).unwrap().unwrap();
        assert_eq!(first.0, 0);
        let second = vfs.next_data(file.ino(), first.1).unwrap().unwrap();
        assert!(second.0 > first.1 && second == (second.0, 10_000_003));
        assert_eq!(vfs.next_data(file.ino(), second.1).unwrap(), None);
        let user = Cred::user(1, 1);
        assert_eq!(errno(&vfs.stream(&user, &file, OpenFlags::READ)), 13);
    }
}
