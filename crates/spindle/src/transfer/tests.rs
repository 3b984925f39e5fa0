//! Copies of trees with every source and sink, with the model file system as the image.

use super::*;
use crate::path::{child, resolve};
use spindle_clock::ManualClock;
use spindle_conformance::model::{ModelFs, ModelOptions};
use spindle_vfs::{FileKind, NewNode, Options, Privilege, Vfs, XattrMode};
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::sync::Arc;

const KEEP: image_sink::NewFiles = image_sink::NewFiles { preserve: true, uid: 0, gid: 0, umask: 0 };

fn model() -> Vfs {
    let options = ModelOptions { blocks: 1 << 20, ..ModelOptions::default() };
    let fs = ModelFs::new(options, Arc::new(ManualClock::at(1000)));
    Vfs::new(Arc::new(fs), Options::default())
}

/// A node as text.
#[derive(Debug, PartialEq, Eq)]
struct Recorded {
    path: String,
    body: String,
    meta: Meta,
}

/// A sink that records its nodes.
#[derive(Default)]
struct Notes(Vec<Recorded>);

impl Sink for Notes {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let body = match node.body {
            Body::File { size, content } => {
                let mut bytes = vec![0; usize::try_from(size.min(1 << 20)).unwrap()];
                let mut buf = vec![0; 5000];
                let mut stored = 0;
                while let Some((at, len)) = content.next(&mut buf)? {
                    stored += len;
                    if let Some(there) = bytes.get_mut(usize::try_from(at).unwrap()..) {
                        let len = len.min(there.len());
                        there[..len].copy_from_slice(&buf[..len]);
                    }
                }
                let sum = bytes.iter().fold(7_u64, |sum, &b| sum.wrapping_mul(31).wrapping_add(b.into()));
                format!("file of {size}, sum {sum:x}, sparse {}", (stored as u64) < size)
            }
            Body::Directory => "directory".into(),
            Body::Symlink(target) => format!("link to {}", text(target)),
            Body::Device { block, rdev } => format!("device {block} {rdev:?}"),
            Body::Fifo => "fifo".into(),
            Body::Socket => "socket".into(),
            Body::HardLink(first) => format!("same as {}", text(first)),
        };
        // A tar stream does not keep these times.
        let meta = Meta { atime: None, birthtime: None, ..node.meta };
        self.0.push(Recorded { path: text(node.path), body, meta });
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

fn notes(fs: &Vfs) -> Vec<Recorded> {
    let mut notes = Notes::default();
    ImageSource::new(fs, fs.root_node().unwrap()).walk(&mut notes).unwrap();
    notes.0
}

fn assert_same(left: &[Recorded], right: &[Recorded]) {
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left, right);
    }
    assert_eq!(left.len(), right.len());
}

fn put(vfs: &Vfs, dir: &str, name: &str, kind: FileKind, perm: u32, target: &[u8]) -> u64 {
    let fs = vfs.fs();
    let dir = resolve(vfs, dir.as_bytes(), true).unwrap();
    let rdev = Rdev { major: 7, minor: 300 };
    let rdev =
        if matches!(kind, FileKind::BlockDevice | FileKind::CharDevice) { rdev } else { Rdev::default() };
    let node = NewNode { kind, perm, uid: 1000, gid: 3_000_000, masked: 0, rdev, target };
    let attr = fs.create(dir.ino(), name.as_bytes(), &node, Privilege::Root).unwrap();
    fs.forget(attr.ino, 1);
    attr.ino.0
}

/// Makes a tree with all types of files except sockets.
fn make_tree(vfs: &Vfs) {
    use spindle_vfs::Ino;
    let fs = vfs.fs();
    put(vfs, "/", "dir", FileKind::Directory, 0o1751, b"");
    put(vfs, "/dir", "empty", FileKind::Directory, 0o700, b"");
    let long = "n".repeat(200);
    put(vfs, "/dir", &long, FileKind::Directory, 0o755, b"");
    let file = put(vfs, &format!("/dir/{long}"), "file\u{e4} with\nodd name", FileKind::Regular, 0o4755, b"");
    fs.write(Ino(file), 0, &vec![b'x'; 12345], Privilege::Root).unwrap();
    fs.setxattr(Ino(file), b"user.comment", b"a=b\nc", XattrMode::Set, Privilege::Root).unwrap();
    let set = spindle_vfs::SetAttr {
        perm: Some(0o4755),
        mtime: Some(spindle_vfs::SetTime::At(Timestamp::new(-5, 123_456_789))),
        ..Default::default()
    };
    fs.setattr(Ino(file), &set, Privilege::Root).unwrap();
    let dir = resolve(vfs, b"/dir", true).unwrap();
    let second = fs.link(Ino(file), dir.ino(), b"zz second name", Privilege::Root).unwrap();
    fs.forget(second.ino, 1);
    let sparse = put(vfs, "/", "sparse", FileKind::Regular, 0o600, b"");
    fs.write(Ino(sparse), 40960, b"middle", Privilege::Root).unwrap();
    fs.write(Ino(sparse), 409_600, &[b'e'; 5000], Privilege::Root).unwrap();
    let set = spindle_vfs::SetAttr { size: Some(1 << 34), ..Default::default() };
    fs.setattr(Ino(sparse), &set, Privilege::Root).unwrap();
    put(vfs, "/", "hole", FileKind::Regular, 0o600, b"");
    let hole = resolve(vfs, b"/hole", false).unwrap();
    let set = spindle_vfs::SetAttr { size: Some(100_000), ..Default::default() };
    fs.setattr(hole.ino(), &set, Privilege::Root).unwrap();
    put(vfs, "/", "nothing", FileKind::Regular, 0o444, b"");
    put(vfs, "/", "link", FileKind::Symlink, 0o777, "t/".repeat(120).as_bytes());
    put(vfs, "/", "pipe", FileKind::Fifo, 0o620, b"");
    put(vfs, "/", "sda", FileKind::BlockDevice, 0o640, b"");
    put(vfs, "/", "tty", FileKind::CharDevice, 0o666, b"");
}

/// Promise: a tar stream of a tree keeps everything: types, contents, holes, owners, permissions,
/// times, links, devices, attributes, odd and long names; and writing it twice gives the same
/// bytes.
#[test]
fn tar_keeps_everything() {
    let from = model();
    make_tree(&from);
    let export = || {
        let mut bytes = Vec::new();
        let mut writer = TarWriter::new(&mut bytes, "tar");
        ImageSource::new(&from, from.root_node().unwrap()).walk(&mut writer).unwrap();
        writer.finish().unwrap();
        drop(writer);
        bytes
    };
    let bytes = export();
    assert!(bytes == export() && bytes.len() < 1 << 20);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let to = model();
    let root = to.root_node().unwrap();
    let mut sink = ImageSink::new(&root, b"/", KEEP);
    TarReader::open(file.path()).unwrap().walk(&mut sink).unwrap();
    sink.finish().unwrap();
    drop(sink);
    let (left, right) = (notes(&from), notes(&to));
    assert_eq!(left.len(), 13);
    assert_same(&left, &right);
}

/// Returns the tree in an image, and a copy of it in a directory of this machine.
fn local_tree() -> (Vfs, tempfile::TempDir) {
    let from = model();
    make_tree(&from);
    let dir = tempfile::tempdir().unwrap();
    let mut sink = LocalSink::new(dir.path(), true, 0).unwrap();
    ImageSource::new(&from, from.root_node().unwrap()).walk(&mut sink).unwrap();
    sink.finish().unwrap();
    (from, dir)
}

/// Promise: a directory of this machine keeps the same. Needs root, to create devices.
#[test]
fn directories_keep_everything() {
    let (from, dir) = local_tree();
    let to = model();
    let root = to.root_node().unwrap();
    let mut sink = ImageSink::new(&root, b"/", KEEP);
    LocalSource::new(dir.path()).walk(&mut sink).unwrap();
    sink.finish().unwrap();
    drop(sink);
    assert_same(&notes(&from), &notes(&to));
}

/// Promise: a copy releases every reference that it takes: a removed file frees its inode at once.
#[test]
fn references_are_released() {
    let fs = model();
    let before = fs.statfs().unwrap();
    make_tree(&fs);
    let copy = model();
    let root = copy.root_node().unwrap();
    let mut sink = ImageSink::new(&root, b"/", KEEP);
    ImageSource::new(&fs, fs.root_node().unwrap()).walk(&mut sink).unwrap();
    sink.finish().unwrap();
    drop(sink);
    for fs in [&fs, &copy] {
        remove_all(fs, fs.root());
        assert_eq!(fs.statfs().unwrap().ffree, before.ffree);
    }
}

fn remove_all(vfs: &Vfs, dir: spindle_vfs::Ino) {
    let fs = vfs.fs();
    for name in crate::path::sorted_names(vfs, dir).unwrap() {
        let node = child(vfs, dir, &name).unwrap();
        if node.is_dir() {
            remove_all(vfs, node.ino());
            fs.rmdir(dir, &name).unwrap();
        } else {
            fs.unlink(dir, &name).unwrap();
        }
    }
}

/// Promise: existing files are replaced, but a directory is not replaced by a file; existing
/// directories are filled and keep their times.
#[test]
fn existing_files_are_replaced() {
    let fs = model();
    make_tree(&fs);
    let before = resolve(&fs, b"/dir/empty", true).unwrap().attr().mtime;
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("pipe"), "now a file").unwrap();
    std::fs::create_dir_all(source.path().join("dir/empty")).unwrap();
    let root = fs.root_node().unwrap();
    let mut sink = ImageSink::new(&root, b"/", KEEP);
    LocalSource::new(&source.path().join("pipe")).below(b"pipe").walk(&mut sink).unwrap();
    LocalSource::new(&source.path().join("pipe")).below(b"dir/empty/new").walk(&mut sink).unwrap();
    let refused = LocalSource::new(&source.path().join("pipe")).below(b"dir").walk(&mut sink).unwrap_err();
    assert!(refused.to_string().contains("cannot replace a directory with a file"), "{refused}");
    sink.finish().unwrap();
    drop(sink);
    assert_eq!(resolve(&fs, b"/pipe", false).unwrap().attr().kind, FileKind::Regular);
    assert_eq!(resolve(&fs, b"/dir/empty/new", false).unwrap().attr().size, 10);
    assert_eq!(resolve(&fs, b"/dir/empty", true).unwrap().attr().mtime, before);
}

/// Promise: a source that follows all symbolic links sends what they lead to, each as a file of its
/// own, and leaves out those that lead nowhere (ENOENT), to each other or to a directory that they
/// are in (ELOOP), on this machine as in an image; without a listener the first of these ends it.
#[test]
fn all_links_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("sub")).unwrap();
    std::fs::write(at("file"), "content").unwrap();
    std::fs::write(at("sub/deep"), "deep").unwrap();
    std::fs::hard_link(at("file"), at("hard")).unwrap();
    let links = [("a", "sub/../file"), ("b", "sub"), ("gone", "nowhere"), ("x", "y"), ("y", "x")];
    for (name, target) in [&links[..], &[("up", "."), ("sub/top", "..")]].concat() {
        std::os::unix::fs::symlink(target, at(name)).unwrap();
    }
    let image = model();
    let root = image.root_node().unwrap();
    let mut sink = ImageSink::new(&root, b"/", KEEP);
    LocalSource::new(dir.path()).walk(&mut sink).unwrap();
    drop(sink);

    let sent = |notes: Notes| -> Vec<String> {
        let shown = |Recorded { path, body, .. }| format!("{path}: {}", body.split(',').next().unwrap());
        notes.0.into_iter().map(shown).collect()
    };
    let (mut local, mut inside) = (Notes::default(), Notes::default());
    let lost = std::cell::RefCell::new(Vec::new());
    let note = |path: &str, error: Error| {
        let path = path.strip_prefix(&format!("{}/", dir.path().display())).unwrap();
        let why = if error.to_string().contains("no such file") { "ENOENT" } else { "ELOOP" };
        assert!(why == "ENOENT" || error.to_string().contains("symbolic links"), "{error}");
        lost.borrow_mut().push(format!("{path}: {why}"));
        Ok(())
    };
    LocalSource::new(dir.path()).following(Follow::All).past_failures(&note).walk(&mut local).unwrap();
    let lost_inside = std::cell::RefCell::new(Vec::new());
    let note = |error: Error| {
        let why = if error.is(&spindle_vfs::Error::NotFound) { "ENOENT" } else { "ELOOP" };
        assert!(why == "ENOENT" || error.is(&spindle_vfs::Error::Loop), "{error}");
        let text = error.to_string();
        lost_inside.borrow_mut().push(format!("{}: {why}", text.split(": ").next().unwrap()));
    };
    let source = || ImageSource::new(&image, image.root_node().unwrap()).following(Follow::All);
    source().past_damage(&note).walk(&mut inside).unwrap();
    let left_out = ["b/top: ELOOP", "gone: ENOENT", "sub/top: ELOOP", "up: ELOOP", "x: ELOOP", "y: ELOOP"];
    assert_eq!(*lost.borrow(), left_out);
    assert_eq!(*lost_inside.borrow(), left_out);
    let expected = [
        ": directory",
        "a: file of 7",
        "b: directory",
        "b/deep: file of 4",
        "file: file of 7",
        "hard: same as file",
        "sub: directory",
        "sub/deep: file of 4",
    ];
    assert_eq!(sent(local), expected);
    assert_eq!(sent(inside), expected);
    let error = source().walk(&mut Notes::default()).unwrap_err();
    assert!(error.is(&spindle_vfs::Error::Loop), "{error}");
    assert!(LocalSource::new(dir.path()).following(Follow::All).walk(&mut Notes::default()).is_err());
}

fn tar(args: &[&str], dir: &Path) -> Vec<u8> {
    let out = std::process::Command::new("tar").args(args).current_dir(dir).output().expect("GNU tar runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

fn read_tar(bytes: &[u8], sink: &mut dyn Sink) -> Result<()> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    TarReader::stream(file).walk(sink)
}

/// Promise: streams of GNU tar in all its formats, with all formats of sparse files, give the same
/// nodes as the directory.
#[test]
fn streams_of_gnu_tar() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(path(&format!("a/{}", "long".repeat(30)))).unwrap();
    std::fs::write(path(&format!("a/{}/f", "long".repeat(30))), "content").unwrap();
    std::fs::hard_link(path(&format!("a/{}/f", "long".repeat(30))), path("b")).unwrap();
    std::os::unix::fs::symlink("l".repeat(150), path("c")).unwrap();
    let sparse = std::fs::File::create(path("sparse")).unwrap();
    for n in 0..60 {
        std::os::unix::fs::FileExt::write_all_at(&sparse, &[b'0' + n; 4096], u64::from(n) * 100 * 4096)
            .unwrap();
    }
    sparse.set_len(30_000_000).unwrap();
    let mut wanted = Notes::default();
    LocalSource::new(dir.path()).walk(&mut wanted).unwrap();
    for format in [
        "--format=gnu",
        "--format=posix",
        "--format=posix --sparse-version=0.0",
        "--format=posix --sparse-version=0.1",
        "--format=oldgnu",
    ] {
        let mut args = vec!["-c", "-S", "--sort=name", "-f", "-"];
        args.extend(format.split(' '));
        args.push(".");
        let mut got = Notes::default();
        read_tar(&tar(&args, dir.path()), &mut got).unwrap();
        for node in got.0.iter_mut().chain(&mut wanted.0) {
            // GNU's own formats store whole seconds.
            node.meta.mtime.nanos = 0;
        }
        assert_same(&got.0, &wanted.0);
    }
}

/// Promise: GNU tar reads our streams, including holes and attributes.
#[test]
fn gnu_tar_reads_ours() {
    let from = model();
    make_tree(&from);
    let out = tempfile::tempdir().unwrap();
    let mut stream = tempfile::NamedTempFile::new().unwrap();
    let mut writer = TarWriter::new(&mut stream, "tar");
    ImageSource::new(&from, from.root_node().unwrap()).walk(&mut writer).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let file = stream.path().to_str().unwrap();
    tar(&["-x", "-p", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-f", file], out.path());
    let mut got = Notes::default();
    LocalSource::new(out.path()).walk(&mut got).unwrap();
    assert_same(&got.0, &notes(&from));
}

/// Promise: a stream that is truncated, changed, compressed or not tar gives an error that says
/// what is wrong, never a panic, and a path cannot lead out of the target.
#[test]
fn bad_streams_are_refused() {
    let from = model();
    make_tree(&from);
    let mut bytes = Vec::new();
    let mut writer = TarWriter::new(&mut bytes, "tar");
    ImageSource::new(&from, from.root_node().unwrap()).walk(&mut writer).unwrap();
    writer.finish().unwrap();
    drop(writer);
    for cut in (1..bytes.len() - 1024).step_by(97) {
        let ends_between_entries = cut.is_multiple_of(512);
        let result = read_tar(&bytes[..cut], &mut Notes::default());
        assert!(ends_between_entries || result.is_err(), "cut at {cut}");
    }
    for at in (0..bytes.len()).step_by(31) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        let _ = read_tar(&changed, &mut Notes::default());
    }
    for (bytes, want) in [
        (&b""[..], "input is empty"),
        (&[1; 700], "not a tar header"),
        (&[&b"\x1f\x8b"[..], &[0; 600]].concat(), "gzip -dc"),
        (&[&b"\x1f\x8b"[..], &[0; 90]].concat(), "gzip -dc"),
        (&[5; 100], "ends in the middle"),
    ] {
        let failure = read_tar(bytes, &mut Notes::default()).unwrap_err().to_string();
        assert!(failure.contains(want), "{failure}");
    }
    let mut evil = Vec::new();
    let mut header = ::tar::Header::new_ustar();
    header.as_ustar_mut().unwrap().name[..8].copy_from_slice(b"a/../../");
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header.set_mtime(0);
    header.set_cksum();
    evil.extend_from_slice(header.as_bytes());
    let failure = read_tar(&evil, &mut Notes::default()).unwrap_err().to_string();
    assert!(failure.contains("a path with .. is refused"), "{failure}");
}

/// Promise: a name that leads out of the target, or through a symbolic link of this machine, is
/// refused.
#[test]
fn names_cannot_escape() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.path().join("way")).unwrap();
    let node = |path| Node { path, body: Body::Fifo, meta: Meta::default() };
    for path in [&b"../x"[..], b"a/../../x", b"way/x", b".."] {
        let mut sink = LocalSink::new(dir.path(), false, 0o22).unwrap();
        assert!(sink.put(node(path)).is_err(), "{}", crate::text::printable(path));
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    // A hard link to a file outside is refused, too.
    std::fs::write(outside.path().join("secret"), "").unwrap();
    let mut sink = LocalSink::new(dir.path(), true, 0).unwrap();
    let link = Node { path: b"got", body: Body::HardLink(b"way/secret"), meta: Meta::default() };
    assert!(sink.put(link).is_err() && !dir.path().join("got").exists());
}

/// A sink that changes files of the source after it has got them, before it reads them.
struct Meddler<'a> {
    dir: &'a Path,
    inner: Notes,
}

impl Sink for Meddler<'_> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let file = |name: &str| std::fs::File::options().append(true).open(self.dir.join(name)).unwrap();
        match node.path {
            b"empty" | b"grows" => {
                file(std::str::from_utf8(node.path).unwrap()).write_all(b"more").unwrap();
            }
            b"shrinks" => file("shrinks").set_len(4).unwrap(),
            _ => {}
        }
        self.inner.put(node)
    }

    fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }
}

/// A sink that wants nothing below `b`, reads no data of `x`, and refuses one path.
struct Choosy {
    inner: Notes,
    refused: &'static str,
}

impl Sink for Choosy {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        if node.path == self.refused.as_bytes() {
            return Err(Error::new("is refused"));
        }
        if node.path == b"sub/x" { Ok(()) } else { self.inner.put(node) }
    }

    fn wants(&self, path: &[u8]) -> bool {
        !path.starts_with(b"b/")
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Promise: a directory that is read ahead reaches the sink as one that is not: nodes, data, holes,
/// and what cannot be read, in order; also a sink that does not want all, passes over data or
/// fails.
#[test]
fn directories_are_read_ahead() {
    let (_, dir) = local_tree();
    let at = |name: &str| dir.path().join(name);
    for name in ["b", "sub"] {
        std::fs::create_dir(at(name)).unwrap();
        for file in ["large", "x"] {
            let data: Vec<u8> = (0..5 * CHUNK / 2).map(|n| n.to_le_bytes()[n % 3]).collect();
            std::fs::write(at(name).join(file), data).unwrap();
        }
    }
    std::os::unix::fs::symlink("nowhere", at("sub/gone")).unwrap();
    for n in 0..1000 {
        std::fs::write(at(&format!("sub/small-{n}")), format!("content {n}")).unwrap();
    }
    let sparse = std::fs::File::create(at("sub/sparse")).unwrap();
    sparse.set_len(40 * CHUNK as u64).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", 20 * CHUNK as u64).unwrap();
    std::fs::write(at("image"), "").unwrap();
    for refused in ["none", "sub", "sub/large", "sub/small-7"] {
        let walked = |is_ahead: bool| {
            let heard = std::cell::RefCell::new(Vec::new());
            let lost = |path: &str, error: Error| {
                heard.borrow_mut().push(format!("{path}: {error}"));
                Ok(())
            };
            let said = |path: &str| heard.borrow_mut().push(path.to_owned());
            let mut sink = Choosy { inner: Notes::default(), refused };
            let source = LocalSource::new(dir.path()).following(Follow::All).below(b"");
            let source = source.past_failures(&lost).without(&at("image"), &said);
            let done = if is_ahead { source.ahead().walk(&mut sink) } else { source.walk(&mut sink) };
            (done, heard.into_inner(), sink.inner.0)
        };
        let (plain, ahead) = (walked(false), walked(true));
        assert_eq!(plain.0.is_ok(), refused == "none", "{:?}", plain.0);
        assert_eq!((&ahead.0, &ahead.1), (&plain.0, &plain.1));
        assert_same(&plain.2, &ahead.2);
    }
}

/// Promise: files that change while they are read are named, those that become shorter keep their
/// size, and the walk goes on; the file that is copied to is left out.
#[test]
fn sources_that_change_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["grows", "image", "same", "shrinks"] {
        std::fs::write(dir.path().join(name), "12345678").unwrap();
    }
    std::fs::write(dir.path().join("empty"), "").unwrap();
    let named = std::cell::RefCell::new(Vec::new());
    let name_of = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    let changed = |path: &str, error: Error| {
        named.borrow_mut().push(format!("{}: {error}", name_of(path)));
        Ok(())
    };
    let left_out = |path: &str| named.borrow_mut().push(name_of(path));
    let mut sink = Meddler { dir: dir.path(), inner: Notes::default() };
    let source = LocalSource::new(dir.path()).noticing(&changed);
    source.without(&dir.path().join("image"), &left_out).walk(&mut sink).unwrap();
    let [empty, grows, shrinks] =
        ["empty", "grows", "shrinks"].map(|name| format!("{name}: changed while it was read"));
    let all = [empty, grows, "image".into(), shrinks];
    assert_eq!(*named.borrow(), all);
    let paths: Vec<_> =
        sink.inner.0.iter().map(|node| (&node.path[..], &node.body[..12.min(node.body.len())])).collect();
    assert_eq!(
        paths,
        [
            ("", "directory"),
            ("empty", "file of 0, s"),
            ("grows", "file of 8, s"),
            ("same", "file of 8, s"),
            ("shrinks", "file of 8, s")
        ]
    );

    std::fs::write(dir.path().join("shrinks"), "12345678").unwrap();
    let mut sink = Meddler { dir: dir.path(), inner: Notes::default() };
    let error = LocalSource::new(dir.path()).walk(&mut sink).unwrap_err();
    assert!(error.to_string().contains("became shorter"), "{error}");
}
