use super::*;
use crate::crash::images;
use crate::crash::operation::{Driver, Op};
use spindle_conformance::model::{ModelFs, ModelOptions};
use spindle_vfs::FileSystem;

/// Returns a history of some operations, and the model after them.
fn history(ops: &[Op]) -> (History, ModelFs) {
    history_from(0, ops)
}

/// Returns the same with another first serial number.
fn history_from(serial: u64, ops: &[Op]) -> (History, ModelFs) {
    let limits = ModelOptions::default().limits;
    let model = images::model(&limits, images::clock());
    let mut history = History::default();
    let mut driver = Driver::new(&model);
    history.add(Tree::of(&model, driver.held()).unwrap());
    for (n, op) in (serial..).zip(ops) {
        driver.apply(op, n, usize::MAX).unwrap();
        history.add(Tree::of(&model, driver.held()).unwrap());
    }
    drop(driver);
    (history, model)
}

fn write(path: &str, offset: u64, len: usize) -> Op {
    Op::Write(path.into(), offset, len)
}

fn tree_after(ops: &[Op]) -> Tree {
    Tree::of(&history(ops).1, std::iter::empty()).unwrap()
}

/// Changes the bytes of a file.
fn edit(tree: &mut Tree, path: &str, edit: impl FnOnce(&mut [u8])) {
    let at = tree.nodes.iter().position(|node| node.path == path).unwrap();
    let content = tree.contents.get_mut(&tree.identities[at]).unwrap();
    let mut bytes = content.to_vec();
    edit(&mut bytes);
    *content = bytes.into();
}

/// Promise: every version in the range is recognised, and none outside.
#[test]
fn versions_are_distinguished() {
    let ops = [Op::Create("new".into(), FileKind::Regular), write("new", 0, 700), Op::Unlink("foo".into())];
    let (mut history, _) = history(&ops);
    for k in 0..=3 {
        assert_eq!(history.judge(&tree_after(&ops[..k]), 0, 3), Ok(k));
    }
    assert!(history.judge(&tree_after(&ops), 0, 2).is_err());
    let promises = history.promise(Promised::All);
    assert_eq!(history.judge(&tree_after(&ops), promises, 3), Ok(3));
    assert!(history.judge(&tree_after(&ops[..2]), promises, 3).is_err());
}

/// Promise: bytes that were overwritten in place may be newer than the rest, and those of a
/// truncated file zero; no other bytes are accepted.
#[test]
fn bytes_are_of_the_file_itself() {
    let ops = [write("foo", 1000, 3000), Op::Truncate("foo".into(), 2000)];
    let (mut history, _) = history(&ops);
    let mut found = tree_after(&[]);
    let newer = tree_after(&ops[..1]);
    let newer = newer.contents.values().find(|bytes| bytes.len() == 10_000).unwrap().clone();
    edit(&mut found, "foo", |bytes| bytes[1024..1536].copy_from_slice(&newer[1024..1536]));
    assert_eq!(history.judge(&found, 0, 2), Ok(0));
    edit(&mut found, "foo", |bytes| bytes[4096..4608].fill(0));
    assert_eq!(history.judge(&found, 0, 2), Ok(0));
    let error = history.judge(&found, 0, 1).unwrap_err();
    assert!(error.contains("bytes from") && error.contains("of none of its versions"), "{error}");
    edit(&mut found, "foo", |bytes| bytes[0] = 0);
    assert!(history.judge(&found, 0, 2).is_err());
    // After a promise the old bytes are not accepted any more.
    let mut old = tree_after(&ops);
    assert_eq!(history.judge(&old, 0, 2), Ok(2));
    history.promise(Promised::All);
    let before = tree_after(&[]);
    let before = before.contents.values().find(|bytes| bytes.len() == 10_000).unwrap().clone();
    edit(&mut old, "foo", |bytes| bytes[1024..1536].copy_from_slice(&before[1024..1536]));
    assert!(history.judge(&old, 1, 2).is_err());
}

/// Promise: what was promised about one file must be there, even if everything else is of an older
/// version.
#[test]
fn promises_of_one_file() {
    let ops = [Op::Chmod("bar".into(), 0o600), write("foo", 0, 4096)];
    let (mut history, model) = history(&ops);
    let foo = model.lookup(model.root(), b"foo").unwrap();
    let identity = (foo.ino, foo.generation);
    history.promise(Promised::Data(identity));
    assert!(history.judge(&tree_after(&[]), 1, 2).is_err(), "the data of foo is lost");
    let (_, other) = history_from(1, &ops[1..]);
    let found = Tree::of(&other, std::iter::empty()).unwrap();
    assert_eq!(history.judge(&found, 1, 2), Ok(0), "bar may be older");
    assert!(history.judge(&tree_after(&ops[..1]), 1, 2).is_err());
}

/// Promise: two names of one file are distinguished from two files.
#[test]
fn links_are_one_file() {
    let (history, _) = history(&[]);
    let mut found = tree_after(&[]);
    let at = found.nodes.iter().position(|node| node.path == "bar").unwrap();
    found.nodes[at].first = at;
    assert!(history.judge(&found, 0, 0).unwrap_err().contains("/bar is /bar, not /A/bar"));
}
