//! Repairs of sets without free space.

use super::support::clock;
use super::victim::{BY, Victim, put};
use spindle_mfs::{Mfs, OpenOptions};
use spindle_vfs::{Error, FileKind, FileSystem, NewNode, SetAttr};

/// How control storage is filled.
#[derive(Clone, Copy, PartialEq)]
pub enum Filled {
    /// With names: there are free headers.
    Names,
    /// With names and headers.
    All,
}

pub fn name(n: usize) -> Vec<u8> {
    format!("{n}{}", "x".repeat(120)).into_bytes()
}

/// Returns a set whose control storage is full, and the number of the file `/file`.
pub fn full(filled: Filled) -> (Victim, u64) {
    let victim = Victim::empty(&[256, 256, 1024, 1280]);
    let fs = Mfs::open(&victim.set(), clock(), &OpenOptions::default()).unwrap();
    let node = NewNode::new(FileKind::Regular, 0o644);
    let file = fs.create(fs.root(), b"file", &node, BY).unwrap().ino;
    fs.write(file, 0, &[9; 3000], BY).unwrap();
    if filled == Filled::All {
        let other =
            fs.create(fs.root(), b"other", &NewNode::new(FileKind::Directory, 0o755), BY).unwrap().ino;
        let made = |n: &usize| {
            fs.create(other, format!("{n}").as_bytes(), &node, BY).map(|attr| fs.forget(attr.ino, 1))
        };
        let end = (0..2000).map(|n| made(&n)).find_map(Result::err);
        assert!(matches!(end, Some(Error::NoSpace)), "{end:?}");
    }
    let linked = |n| fs.link(file, fs.root(), &name(n), BY).map(|attr| fs.forget(attr.ino, 1));
    let end = (0..9000).map(linked).find_map(Result::err);
    assert!(matches!(end, Some(Error::NoSpace)), "{end:?}");
    fs.forget(file, 1);
    fs.unmount().unwrap();
    assert_eq!(victim.findings(), Vec::<String>::new());
    (victim, file.0)
}

/// Promise: a name map is repaired also where no block is free.
#[test]
fn a_name_is_removed_from_a_full_set() {
    for filled in [Filled::Names, Filled::All] {
        let (victim, _) = full(filled);
        let before = victim.tree();
        victim.rename(2, &name(7), |entry| put(entry, 8, 1 << 40));
        let repaired = victim.repair(false);
        assert!(repaired.after.is_clean(), "{:#?}", repaired.after);
        let mut after = victim.tree();
        let path = format!("/{}", String::from_utf8(name(7)).unwrap());
        assert!(!after.contains_key(&path));
        after.insert(path.clone(), before[&path].clone());
        assert!(after == before);
    }
}

/// Promise: a file that has lost its name comes to `lost+found`, if it takes no header that is not
/// there; else the damage stays, the set is marked as damaged, and everything else is repaired.
#[test]
fn a_file_without_a_name_in_a_full_set() {
    for filled in [Filled::Names, Filled::All] {
        let (victim, file) = full(filled);
        let before = victim.tree();
        for path in before.iter().filter(|(_, node)| node.0 == file).map(|(path, _)| path) {
            victim.remove(2, &path.as_bytes()[1..]);
        }
        let repaired = victim.repair(false);
        assert!(repaired.changed);
        if filled == Filled::Names {
            assert!(repaired.after.is_clean(), "{:#?}", repaired.after);
            let after = victim.tree();
            assert!(after.values().any(|node| *node == before["/file"]));
            assert!(after.contains_key(&format!("/lost+found/#{file}")));
            continue;
        }
        assert_eq!(victim.findings(), ["FILE SYSTEM IS MARKED AS DAMAGED", &format!("UNREF FILE I={file}")]);
        let again = victim.repair(false);
        assert!(!again.changed && again.after.damages == 1, "{:#?}", again.after);
        assert_eq!(victim.findings().len(), 2);
        let fs = Mfs::open(&victim.set(), clock(), &OpenOptions::default()).unwrap();
        assert!(fs.read_only() && fs.lookup(fs.root(), b"other").is_ok());
    }
}

/// Promise: a file whose blocks another file has, and for which there are no others, gets a hole;
/// the other file keeps its bytes.
#[test]
fn blocks_of_two_files_in_a_full_set() {
    let victim = Victim::empty(&[512, 512, 1024, 1280]);
    let fs = Mfs::open(&victim.set(), clock(), &OpenOptions::default()).unwrap();
    let create = |name: &[u8]| fs.create(fs.root(), name, &NewNode::new(FileKind::Regular, 0o644), BY);
    let numbers = [b"first", b"other", b"large"].map(|name| create(name).unwrap().ino);
    let [first, other, large] = numbers;
    fs.write(first, 0, &[9; 3000], BY).unwrap();
    fs.setattr(other, &SetAttr { size: Some(3000), ..SetAttr::default() }, BY).unwrap();
    let written = (0..).map_while(|n| fs.write(large, n * 1024, &[8; 1024], BY).ok()).count();
    for ino in numbers {
        fs.forget(ino, 1);
    }
    fs.unmount().unwrap();
    let from = victim.header_bytes(first.0);
    victim.header(other.0, |bytes| {
        bytes[32] = 1;
        bytes[120..136].copy_from_slice(&from[120..136]);
    });
    assert_eq!(victim.findings().len(), 1, "{:#?}", victim.findings());
    assert!(victim.repair(false).after.is_clean());
    let tree = victim.tree();
    assert!(tree["/first"].2 == [9; 3000] && tree["/other"].2 == [0; 3000]);
    assert!(tree["/large"].2 == vec![8; written * 1024]);
}
