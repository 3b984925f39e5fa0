use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn names() -> Names {
    Names::parse(
        b"# users\nroot:*:0:0::0:0:Charlie:/root:/bin/csh\ngames:*:13:13\nroot:*:7:7\n",
        b"wheel:*:0:root\ngames:*:13:\n",
    )
}

fn parse(text: &str) -> Result<Manifest> {
    Manifest::parse("spec", text.as_bytes(), &names())
}

fn paths(manifest: &Manifest) -> Vec<String> {
    manifest.entries.keys().map(|path| printable(path)).collect()
}

/// Promise: the form of `mtree -c`, with a current directory, `..` and defaults, and the form of a
/// METALOG, with paths, list the same files.
#[test]
fn both_forms_are_read() {
    let tree = "#\t   user: root\n\n/set type=file uid=0 gid=0 mode=0755 nlink=1 flags=none\n\
        .               type=dir nlink=3\n\
        \x20   a\\040b      uname=games gname=games mode=04711 size=5 \\\n\
        \x20               time=1234567890.5\n\
        # comment\n    dir         type=dir\n        null        type=char device=netbsd,1,3\n\
        \x20       sub         type=dir\n        ..\n        soft        type=link link=../a\\sb\n\
        \x20   ..\n/unset flags uid\n    \\#last       optional contents=obj/last\n..\n";
    let metalog = "#mtree 2.0\n. type=dir uname=root gname=wheel mode=0755\n\
        ./a\\sb type=file uname=games gname=games mode=4711 time=1234567890.000000005\n\
        ./dir type=dir uid=0 gid=0 mode=0755 flags=\n./dir/null type=char uid=0 gid=0 mode=755 device=0x0103\n\
        ./dir/sub type=dir uid=0 gid=0 mode=0755 tags=package=x sha256=00\n\
        ./dir/soft type=link uid=0 gid=0 mode=0755 link=..\\057a\\040b\n\
        ./\\043last type=file gid=0 mode=0755 optional contents=obj/last\r\n";
    let (tree, metalog) = (parse(tree).unwrap(), parse(metalog).unwrap());
    assert_eq!(paths(&tree), ["", "#last", "a b", "dir", "dir/null", "dir/soft", "dir/sub"]);
    for ((path, left), (other, right)) in tree.entries.iter().zip(&metalog.entries) {
        let plain = |entry: &Entry| Entry { line: 0, flags: None, ..entry.clone() };
        assert_eq!((path, plain(left)), (other, plain(right)));
    }
    assert_eq!(tree.entries.len(), metalog.entries.len());
    let file = &tree.entries[&b"a b"[..]];
    assert_eq!((file.uid, file.perm, file.line), (Some(13), Some(0o4711), 5));
    assert_eq!(file.time, Some(Timestamp::new(1_234_567_890, 5)));
    assert_eq!(tree.entries[&b"dir/null"[..]].device, Some(Rdev { major: 1, minor: 3 }));
    let last = &tree.entries[&b"#last"[..]];
    assert!(last.optional && last.uid.is_none() && last.contents.as_deref() == Some(b"obj/last"));
}

/// Promise: every way in which vis(3) encodes bytes is decoded.
#[test]
fn names_are_decoded() {
    for (text, name) in [
        (r"a\040\s\011\t\n", &b"a  \t\t\n"[..]),
        (r"\\\#\*\?\[\-", b"\\#*?[-"),
        (r"\^A\^?\M-a\M^A\M^?", &[1, 0x7f, 0xe1, 0x81, 0xff]),
        (r"\0\12\303\244", "\0\n\u{e4}".as_bytes()),
        (r"\a\b\v\f\r\E\$x", &[7, 8, 11, 12, 13, 27, b'x']),
    ] {
        assert_eq!(unvis(text.as_bytes()).unwrap(), name, "{text}");
    }
    for wrong in [r"a\", r"\777", r"\M", r"\^", r"\Mx"] {
        assert!(unvis(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

/// Promise: keywords of mtree(5) that an image has nothing of are accepted, and so are comments.
#[test]
fn other_keywords_are_accepted() {
    let text = "a type=file cksum=1 md5=0 md5digest=0 sha1=0 sha256digest=0 sha512=0 rmd160=0 nlink=2 size=7 \
                inode=5 resdevice=1 tags=x nochange ignore mode=0600 # a comment\n";
    assert_eq!(parse(text).unwrap().entries[&b"a"[..]].perm, Some(0o600));
}

/// Promise: what is wrong is reported with its line, and nothing leads out of the root.
#[test]
fn mistakes_are_reported_with_their_line() {
    for (text, line, reason) in [
        (". type=dir\n\nx type=directory\n", 3, "type=directory: give file, dir"),
        ("/set mode=888\n", 1, "octal"),
        ("a mode=10000", 1, "octal"),
        ("#\na uid=-1", 2, "number"),
        ("a \\\n \\\n uid=+1", 1, "number"),
        ("a uname=nobody", 1, "user database"),
        ("a flags=uchg,wrong", 1, "no file flag wrong"),
        ("a time=1.1000000000", 1, "nanoseconds"),
        ("a device=freebsd,1", 1, "MAJOR"),
        ("a device=0x10000", 1, "MAJOR"),
        ("a device=0x10000801", 1, "each system divides a number"),
        ("#\na mdoe=4755", 2, "mdoe=4755: is not a keyword"),
        ("/set uid=0 gdi=0", 1, "gdi=0: is not a keyword"),
        ("./a/../../b type=file", 1, "not a valid file name"),
        ("d type=dir\n..\n..\n..", 4, "above the root"),
        ("..", 1, "above the root"),
        ("a\\000b", 1, "not a valid file name"),
        ("a\\", 1, ""),
    ] {
        match parse(text) {
            Err(error) => {
                let error = error.to_string();
                let begin = format!("spec: line {line}: ");
                assert!(error.starts_with(&begin) && error.contains(reason), "{text:?}: {error}");
            }
            Ok(_) => assert_eq!(reason, "", "{text:?}"),
        }
    }
}

/// Promise: no text makes the parser panic or lead out of the root, whatever was changed in it.
#[test]
fn hostile_text_is_survived() {
    let seed = spindle_conformance::random::seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle hostile_text_is_survived");
    let mut random = StdRng::seed_from_u64(seed);
    let good = b"#mtree\n/set type=file uid=0 uname=root gid=0 mode=0644\n. type=dir\na\\040b time=1.2 \\\n\
        flags=uchg,nodump\ndir type=dir\nc device=linux,1,2 link=x\\M-a contents=y\n..\n./p/q type=block\n/unset all\n";
    let pieces = [
        &b"\\"[..],
        b"..",
        b"/",
        b"=",
        b"\n",
        b"\\M^",
        b"\\0",
        b" ",
        b"/set",
        b"\xff",
        b"\0",
        b"9999999999999999999999",
    ];
    for _ in 0..20_000 {
        let mut text = good.to_vec();
        for _ in 0..random.random_range(1..8) {
            let at = random.random_range(0..text.len());
            match random.random_range(0..3) {
                0 => text[at] = random.random(),
                1 => text.truncate(at.max(1)),
                _ => {
                    let piece = pieces[random.random_range(0..pieces.len())];
                    text.splice(at..at, piece.iter().copied());
                }
            }
        }
        let Ok(manifest) = Manifest::parse("spec", &text, &names()) else { continue };
        for path in manifest.entries.keys().filter(|path| !path.is_empty()) {
            assert!(path.split(|&b| b == b'/').all(|name| check_name(name).is_ok()), "{}", printable(path));
        }
    }
}
