//! The operations that are run on a mutated image: everything that the trait between front-ends and
//! file systems offers.
//!
//! The results are not checked, because on a damaged image any error is correct; but each call must
//! return. The number of calls is bounded, so a case ends if they do.

use crate::base::node;
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use spindle_clock::Timestamp;
use spindle_vfs::{
    FallocateMode, FileKind, FileSystem, Ino, Privilege, RenameMode, Seek, SetAttr, SetTime, XattrMode,
};
use std::ops::ControlFlow;

/// Most inodes that are read.
const MOST_NODES: usize = 300;
/// Most names taken from one directory.
const MOST_NAMES: usize = 400;
/// Most seeks from data to hole in one file.
const MOST_STEPS: usize = 24;
/// Most extended attributes of one inode.
const MOST_ATTRIBUTES: usize = 16;
/// Number of random changes.
const CHANGES: usize = 48;

/// A name that was found, and its file.
#[derive(Clone, Debug)]
pub struct Node {
    dir: Ino,
    name: Vec<u8>,
    ino: Ino,
    kind: FileKind,
    size: u64,
}

/// Reads everything that can be reached from the root: names, attributes, data, holes, link
/// targets, extended attributes. Returns what it has found.
pub fn walk(fs: &dyn FileSystem) -> Vec<Node> {
    let _ = fs.statfs();
    let limits = fs.limits();
    let mut found: Vec<Node> = Vec::new();
    let mut directories = vec![fs.root()];
    let mut next = 0;
    for ino in [Ino(0), Ino(1), Ino(3), Ino(u32::MAX.into()), Ino(u64::MAX)] {
        let _ = fs.getattr(ino);
    }
    read_inode(fs, fs.root(), FileKind::Directory, 512, limits.xattrs);
    while let Some(&dir) = directories.get(next) {
        next += 1;
        let mut names: Vec<Vec<u8>> = vec![b".".into(), b"..".into(), b"no such name".into()];
        let mut last = 0;
        let _ = fs.readdir(dir, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            last = entry.next;
            if names.len() < MOST_NAMES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        for from in [last, last.wrapping_sub(8), (last / 2) | 1, u64::MAX] {
            let mut left = MOST_NAMES;
            let _ = fs.readdir(dir, from, &mut |_| {
                left -= 1;
                if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
        }
        for name in names {
            let Ok(attr) = fs.lookup(dir, &name) else { continue };
            let (ino, kind, size) = (attr.ino, attr.kind, attr.size);
            let known = directories.contains(&ino) || found.iter().any(|node| node.ino == ino);
            if !known {
                read_inode(fs, ino, kind, size, limits.xattrs);
                if kind == FileKind::Directory {
                    directories.push(ino);
                }
            }
            fs.forget(ino, 1);
            if name != b"." && name != b".." {
                found.push(Node { dir, name, ino, kind, size });
            }
        }
        if found.len() > MOST_NODES {
            break;
        }
    }
    let _ = fs.sync();
    found
}

/// Reads one inode: its attributes, target, extended attributes, data and holes.
fn read_inode(fs: &dyn FileSystem, ino: Ino, kind: FileKind, size: u64, xattrs: bool) {
    let _ = fs.getattr(ino);
    if kind == FileKind::Symlink {
        let _ = fs.readlink(ino);
    }
    if xattrs {
        let names = fs.listxattr(ino).unwrap_or_default();
        for name in names.iter().take(MOST_ATTRIBUTES) {
            let _ = fs.getxattr(ino, name);
        }
        let _ = fs.getxattr(ino, b"user.none");
    }
    let mut buf = vec![0; 20_000];
    for at in [0, size / 2, size.saturating_sub(100), size, 1 << 40, u64::MAX - 10] {
        match fs.read(ino, at, &mut buf) {
            Ok(n) => assert!(n <= buf.len(), "read returned {n} bytes for a buffer of {}", buf.len()),
            Err(_) => check_readable_after(fs, ino, at),
        }
    }
    let mut at = 0;
    for _ in 0..MOST_STEPS {
        let Ok(data) = fs.seek(ino, at, Seek::Data) else {
            check_readable_after(fs, ino, at);
            break;
        };
        assert!(data >= at, "seek found data at {data}, before {at}");
        let _ = fs.read(ino, data, &mut buf);
        let Ok(hole) = fs.seek(ino, data, Seek::Hole) else { break };
        assert!(hole > data, "seek found a hole at {hole}, where there is data: {data}");
        at = hole;
    }
}

/// Checks that who goes on past damage gets ahead.
fn check_readable_after(fs: &dyn FileSystem, ino: Ino, at: u64) {
    if let Ok(next) = fs.readable_after(ino, at) {
        assert!(next > at, "reading goes on at {next} after an error at {at}");
    }
}

/// Changes the file system: first runs every operation once in the root directory, then changes
/// files of `nodes` at random, the largest most often.
pub fn change(fs: &dyn FileSystem, mut nodes: Vec<Node>, rng: &mut SmallRng) {
    nodes.sort_by_key(|node| std::cmp::Reverse(node.size));
    let nodes = &nodes[..];
    basics(fs, rng);
    let directories: Vec<Ino> =
        nodes.iter().filter(|n| n.kind == FileKind::Directory).map(|n| n.ino).chain([fs.root()]).collect();
    for n in 0..CHANGES {
        let dir = *directories.choose(rng).unwrap_or(&fs.root());
        let among = if rng.random_ratio(1, 4) { &nodes[..nodes.len().min(4)] } else { nodes };
        match among.choose(rng) {
            Some(node) if rng.random_ratio(4, 5) => disturb(fs, node, dir, nodes, rng),
            _ => add(fs, dir, &format!("new{n}"), rng),
        }
    }
    let _ = fs.sync();
}

/// Runs every operation once, on new files.
fn basics(fs: &dyn FileSystem, rng: &mut SmallRng) {
    let root = fs.root();
    let by = Privilege::Root;
    for n in 0..6 {
        add(fs, root, &format!("made{n}"), rng);
    }
    if let Ok(file) = fs.create(root, b"file", &node(FileKind::Regular, b""), by) {
        let _ = fs.write(file.ino, 0, &vec![1; 30_000], by);
        let _ = fs.write(file.ino, 1 << 22, &[2; 5000], by);
        let _ = fs.link(file.ino, root, b"second", by);
        let _ = fs.fsync(file.ino, false);
        read_inode(fs, file.ino, FileKind::Regular, 1 << 22, fs.limits().xattrs);
        let _ = fs.setattr(file.ino, &SetAttr { size: Some(777), ..SetAttr::default() }, by);
        fs.forget(file.ino, 1);
    }
    if let Ok(dir) = fs.create(root, b"directory", &node(FileKind::Directory, b""), by) {
        add(fs, dir.ino, "inside", rng);
        let _ = fs.rename(root, b"second", dir.ino, b"moved", RenameMode::Replace, by);
        let _ = fs.rename(root, b"directory", dir.ino, b"itself", RenameMode::Replace, by);
        let _ = fs.rename(root, b"file", dir.ino, b"moved", RenameMode::Exchange, by);
        fs.forget(dir.ino, 1);
    }
    let _ = fs.unlink(root, b"made0");
    let _ = fs.rmdir(root, b"directory");
}

/// Makes a file of a random kind in `dir`.
fn add(fs: &dyn FileSystem, dir: Ino, name: &str, rng: &mut SmallRng) {
    let long = [b'x'; 300];
    let (kind, target): (_, &[u8]) = match rng.random_range(0..6) {
        0 => (FileKind::Directory, b""),
        1 => (FileKind::Symlink, b"short"),
        2 => (FileKind::Symlink, &long),
        3 => (FileKind::CharDevice, b""),
        _ => (FileKind::Regular, b""),
    };
    if let Ok(attr) = fs.create(dir, name.as_bytes(), &node(kind, target), Privilege::Root) {
        if kind == FileKind::Regular {
            let len = rng.random_range(0..60_000);
            let _ = fs.write(attr.ino, 0, &vec![3; len], Privilege::Root);
        }
        fs.forget(attr.ino, 1);
    }
}

/// Returns an offset in or near a file of `size` bytes.
fn offset(size: u64, rng: &mut SmallRng) -> u64 {
    match rng.random_range(0..6) {
        0 => 0,
        1 => size,
        2 => size.saturating_sub(1),
        3 => size.saturating_add(rng.random_range(0..200_000)),
        4 => 1 << rng.random_range(0..63),
        _ => rng.random_range(0..=size),
    }
}

/// Changes an existing file in a random way. `dir` is a directory, perhaps its own.
fn disturb(fs: &dyn FileSystem, node: &Node, dir: Ino, nodes: &[Node], rng: &mut SmallRng) {
    let by = Privilege::Root;
    let at = offset(node.size, rng);
    let len = rng.random_range(1..100_000);
    let other = nodes.choose(rng).unwrap_or(node);
    match rng.random_range(0..14) {
        0 | 1 => drop(fs.write(node.ino, at, &vec![4; len], by)),
        2 | 3 => drop(fs.setattr(node.ino, &SetAttr { size: Some(at), ..SetAttr::default() }, by)),
        4 => {
            let times = SetAttr {
                perm: Some(0o640),
                uid: Some(7),
                gid: Some(9),
                atime: Some(SetTime::Now),
                mtime: Some(SetTime::At(Timestamp::new(i64::MIN, 5))),
                flags: Some(1),
                ..SetAttr::default()
            };
            let _ = fs.setattr(node.ino, &times, by);
        }
        5 | 6 => {
            let _ = fs.unlink(node.dir, &node.name);
            let _ = fs.rmdir(node.dir, &node.name);
        }
        7 | 8 => {
            let whiteout = RenameMode::Whiteout { uid: 7, gid: 8 };
            let mode = *[RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange, whiteout]
                .choose(rng)
                .unwrap_or(&RenameMode::Replace);
            let (to, name): (_, &[u8]) =
                if rng.random() { (dir, b"renamed") } else { (other.dir, &other.name) };
            let _ = fs.rename(node.dir, &node.name, to, name, mode, by);
        }
        9 => {
            if fs.link(node.ino, dir, b"linked", by).is_ok() {
                fs.forget(node.ino, 1);
            }
        }
        10 => {
            let mode = *[
                FallocateMode::Allocate { keep_size: false },
                FallocateMode::PunchHole,
                FallocateMode::ZeroRange { keep_size: false },
            ]
            .choose(rng)
            .unwrap_or(&FallocateMode::PunchHole);
            let len = if rng.random() { len as u64 } else { 1 << rng.random_range(0..63) };
            let _ = fs.fallocate(node.ino, mode, at, len, by);
        }
        11 => {
            let value = vec![5; rng.random_range(0..3000)];
            let _ = fs.setxattr(node.ino, b"user.new", &value, XattrMode::Set, by);
        }
        12 => {
            for name in fs.listxattr(node.ino).unwrap_or_default().iter().take(MOST_ATTRIBUTES) {
                let _ = fs.removexattr(node.ino, name);
            }
        }
        _ => drop(fs.fsync(node.ino, rng.random())),
    }
}
