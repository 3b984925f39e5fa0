//! Paths, with symbolic links and permissions.

use super::{errno, front, node};
use spindle_vfs::{Cred, FileKind, Ino, NewNode, Options, SetAttr, Vfs};

const ROOT: Cred<'static> = Cred::root();

fn symlink(vfs: &Vfs, dir: Ino, name: &[u8], target: &[u8]) {
    let new = NewNode { target, ..node(FileKind::Symlink, 0o777, &ROOT) };
    vfs.create(&ROOT, dir, name, &new).unwrap();
}

/// Creates `/a/b/file`, and links to all of it.
fn tree() -> (Vfs, Ino, Ino) {
    let vfs = front(Options::default());
    let directory = node(FileKind::Directory, 0o755, &ROOT);
    let a = vfs.create(&ROOT, vfs.root(), b"a", &directory).unwrap().ino;
    let b = vfs.create(&ROOT, a, b"b", &directory).unwrap().ino;
    let file = vfs.create(&ROOT, b, b"file", &node(FileKind::Regular, 0o644, &ROOT)).unwrap().ino;
    let root = vfs.root();
    symlink(&vfs, root, b"to-b", b"a/b");
    symlink(&vfs, root, b"to-file", b"/to-b/../b/file");
    symlink(&vfs, b, b"up", b"../../../../a");
    symlink(&vfs, b, b"dir-slash", b"file/");
    symlink(&vfs, root, b"loop", b"loop");
    symlink(&vfs, root, b"nowhere", b"none");
    (vfs, b, file)
}

/// Promise: slashes, dots and symbolic links are resolved as POSIX requires, inside the image.
#[test]
fn paths_are_resolved() {
    let (vfs, b, file) = tree();
    let paths: [(&[u8], Ino); 11] = [
        (b"", vfs.root()),
        (b"/", vfs.root()),
        (b"/../..", vfs.root()),
        (b"a/b", b),
        (b"//a/./b//", b),
        (b"/a/b/file", file),
        (b"/to-b", b),
        (b"/to-b/file", file),
        (b"/to-file", file),
        (b"/to-b/up/b/up/b/file", file),
        (b"/to-b/..", vfs.resolve(&ROOT, b"/a", true).unwrap().ino()),
    ];
    for (path, ino) in paths {
        assert_eq!(vfs.resolve(&ROOT, path, true).unwrap().ino(), ino, "{}", path.escape_ascii());
    }
    let errors: [(&[u8], i32); 6] = [
        (b"/none", 2),
        (b"/a/none/b", 2),
        (b"/a/b/file/", 20),
        (b"/a/b/file/x", 20),
        (b"/a/b/dir-slash", 20),
        (b"/nowhere", 2),
    ];
    for (path, expected) in errors {
        assert_eq!(errno(&vfs.resolve(&ROOT, path, true)), expected, "{}", path.escape_ascii());
    }
}

/// Promise: the last link of a path is followed only on request, or if a slash follows it.
#[test]
fn last_link() {
    let (vfs, b, _) = tree();
    let kind = |path: &[u8]| vfs.resolve(&ROOT, path, false).unwrap().attr().kind;
    assert_eq!(kind(b"/to-b"), FileKind::Symlink);
    assert_eq!(kind(b"/nowhere"), FileKind::Symlink);
    assert_eq!(vfs.resolve(&ROOT, b"/to-b/", false).unwrap().ino(), b);
    assert_eq!(vfs.resolve(&ROOT, b"/to-b/.", false).unwrap().ino(), b);
}

/// Promise: loops of links end with ELOOP; 40 links in a row are followed.
#[test]
fn link_limit() {
    let (vfs, _, file) = tree();
    assert_eq!(errno(&vfs.resolve(&ROOT, b"/loop", true)), 40);
    let root = vfs.root();
    symlink(&vfs, root, b"l0", b"a/b/file");
    for i in 1..=40 {
        symlink(&vfs, root, format!("l{i}").as_bytes(), format!("l{}", i - 1).as_bytes());
    }
    assert_eq!(vfs.resolve(&ROOT, b"l39", true).unwrap().ino(), file);
    assert_eq!(errno(&vfs.resolve(&ROOT, b"l40", true)), 40);
}

/// Promise: the parent of a path is a directory, and the last name is one that can be changed.
#[test]
fn parents() {
    let (vfs, b, _) = tree();
    for path in [&b"/to-b/new"[..], b"a/b/new", b"/a/b/new/"] {
        let (dir, name) = vfs.resolve_parent(&ROOT, path).unwrap();
        assert_eq!((dir.ino(), name), (b, &b"new"[..]));
    }
    assert_eq!(vfs.resolve_parent(&ROOT, b"new").unwrap().0.ino(), vfs.root());
    for path in [&b""[..], b"/", b"a/..", b"a/."] {
        assert_eq!(errno(&vfs.resolve_parent(&ROOT, path)), 16);
    }
    assert_eq!(errno(&vfs.resolve_parent(&ROOT, b"/a/b/file/x")), 20);
}

/// Promise: search permission is needed on every directory of the path.
#[test]
fn search_permission() {
    let (vfs, b, _) = tree();
    let user = Cred::user(1, 1);
    assert!(vfs.resolve(&user, b"/a/b/file", true).is_ok());
    let closed = SetAttr { perm: Some(0o600), ..SetAttr::default() };
    vfs.setattr(&ROOT, b, &closed, None).unwrap();
    assert_eq!(errno(&vfs.resolve(&user, b"/a/b/file", true)), 13);
    assert_eq!(errno(&vfs.resolve(&user, b"/to-file", true)), 13);
}

/// Promise: a walk releases its references: a removed file is freed when its last node is
/// dropped.
#[test]
fn nodes_release_references() {
    let (vfs, b, file) = tree();
    vfs.forget(file, 1);
    let node = vfs.resolve(&ROOT, b"/to-file", true).unwrap();
    vfs.unlink(&ROOT, b, b"file").unwrap();
    assert_eq!(vfs.getattr(file).unwrap().nlink, 0);
    drop(node);
    assert_eq!(errno(&vfs.getattr(file)), 116);
}
