//! What is in an image, to be compared.

use spindle::Image;
use spindle::walk::{Walk, When};
use spindle_vfs::{Attr, FileKind, Seek};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Kind, permissions, owners, size, times, flags and device number, as text.
    pub attributes: String,
    /// Hash of the data, or of the target of a link.
    pub data: u64,
    /// Hash of the extended attributes.
    pub xattrs: u64,
    /// The first name of the file in the order of the walk.
    pub first: Vec<u8>,
}

/// The files of an image by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree(pub BTreeMap<Vec<u8>, File>);

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn attributes(attr: &Attr) -> String {
    let Attr { kind, perm, uid, gid, rdev, atime, mtime, birthtime, flags, .. } = attr;
    let size = if attr.kind == FileKind::Directory { 0 } else { attr.size };
    let device = matches!(kind, FileKind::BlockDevice | FileKind::CharDevice).then_some(rdev);
    format!("{kind:?} {perm:o} {uid} {gid} {size} {atime:?} {mtime:?} {birthtime:?} {flags:x} {device:?}")
}

/// Returns a hash of the data of a file and of where it has holes.
fn data(image: &Image, attr: &Attr) -> u64 {
    let fs = image.fs();
    match attr.kind {
        FileKind::Symlink => hash(fs.readlink(attr.ino).unwrap()),
        FileKind::Regular => {
            let mut bytes = vec![0; usize::try_from(attr.size).unwrap()];
            assert_eq!(fs.read(attr.ino, 0, &mut bytes).unwrap(), bytes.len());
            hash((bytes, fs.seek(attr.ino, 0, Seek::Data).ok(), fs.seek(attr.ino, 0, Seek::Hole).ok()))
        }
        _ => 0,
    }
}

/// Reads the tree of an image.
pub fn read_tree(image: &Image) -> Tree {
    let vfs = image.vfs();
    let (mut files, mut firsts) = (BTreeMap::new(), BTreeMap::new());
    for visit in Walk::new(b"/", vfs.root_node().unwrap()) {
        let visit = visit.unwrap();
        if visit.when == When::After {
            continue;
        }
        let ino = visit.attr.ino;
        let first = firsts.entry(ino).or_insert_with(|| visit.path.clone()).clone();
        let xattrs = if image.fs().limits().xattrs {
            let mut names = image.fs().listxattr(ino).unwrap();
            names.sort();
            names.into_iter().map(|name| (image.fs().getxattr(ino, &name).unwrap(), name)).collect()
        } else {
            Vec::new()
        };
        let (data, attributes) = (data(image, &visit.attr), attributes(&visit.attr));
        files.insert(visit.path, File { attributes, data, xattrs: hash(xattrs), first });
    }
    Tree(files)
}

impl Tree {
    /// Returns what is different in another tree.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let paths = self.0.keys().chain(other.0.keys().filter(|path| !self.0.contains_key(*path)));
        let different = paths.filter(|path| self.0.get(*path) != other.0.get(*path));
        let line = |path: &Vec<u8>| {
            let (here, there) = (self.0.get(path), other.0.get(path));
            format!("{}:\n  {here:?}\n  {there:?}", String::from_utf8_lossy(path))
        };
        different.map(line).collect()
    }
}
