//! `chmod`, `chown` and `touch` on images, without a mount.

use crate::support::{Bench, Ran};
use std::process::Command;

/// Makes an image with a small tree.
fn image(newfs: &str) -> Bench {
    let bench = Bench::new();
    bench.ok(newfs);
    bench.write("t/dir/file", "text");
    bench.write("t/dir/program", "#!/bin/sh");
    bench.shell("chmod 644 t/dir/file; chmod 4755 t/dir/program; chmod 755 t t/dir; ln t/dir/file t/hard");
    bench.ok("cp -rp t a.img:/");
    bench
}

fn field(bench: &Bench, path: &str, name: &str) -> serde_json::Value {
    bench.json(&format!("stat --json a.img:{path}"))[0][name].clone()
}

fn mode(bench: &Bench, path: &str) -> String {
    field(bench, path, "mode").as_str().unwrap().to_owned()
}

/// Promise: chmod takes octal and symbolic modes, goes through directories with -R, follows links
/// but with -h, and does the other operands if one fails; on every kind of file system.
#[test]
fn chmod_changes_permissions() {
    for newfs in ["newfs -s 8m a.img", "newfs -t v7 -s 4m a.img", "newfs -t mfs -s 64m a.img"] {
        let bench = image(newfs);
        bench.ok("chmod 600 a.img:/t/dir/file");
        assert_eq!(mode(&bench, "/t/dir/file"), "0600");
        bench.ok("chmod go+r,u+x a.img:/t/dir/file a.img:/t/hard");
        assert_eq!(mode(&bench, "/t/hard"), "0744");
        bench.ok("chmod -R g=u,o= a.img:/t");
        assert_eq!(
            [
                mode(&bench, "/t"),
                mode(&bench, "/t/dir"),
                mode(&bench, "/t/dir/file"),
                mode(&bench, "/t/dir/program")
            ],
            ["0770", "0770", "0770", "4770"]
        );
        bench.ok("chmod -w a.img:/t/hard");
        assert_eq!(mode(&bench, "/t/hard"), "0570");
        bench.fails("chmod 644 a.img:/none a.img:/t/hard", 1, &["a.img: /none: no such file or directory"]);
        assert_eq!(mode(&bench, "/t/hard"), "0644");
        bench.fails("chmod u+y a.img:/t", 2, &["u+y", "u+x,go-w"]);
        bench.fails("chmod 644", 2, &["IMAGE:/PATH"]);
        bench.check("a.img");
    }
    let bench = image("newfs -s 8m a.img");
    bench.ok("ln -s dir/file a.img:/t/link");
    bench.ok("chmod 611 a.img:/t/link");
    assert_eq!(mode(&bench, "/t/dir/file"), "0611");
    let link = mode(&bench, "/t/link");
    bench.ok("chmod -R 700 a.img:/t");
    assert_eq!((mode(&bench, "/t/link"), mode(&bench, "/t/dir/file")), (link, "0700".into()));
    bench.ok("chmod -h 711 a.img:/t/link");
    assert_eq!((mode(&bench, "/t/link"), mode(&bench, "/t/dir/file")), ("0711".into(), "0700".into()));
    bench.check("a.img");
}

/// Promise: chflags sets and clears flags by name, goes through directories with -R, and leaves the
/// others alone; ls -lo and stat show them by name; a format without flags says so.
#[test]
fn chflags_changes_flags() {
    let bench = image("newfs -s 8m a.img");
    let flags = |path: &str| field(&bench, path, "flags").as_u64().unwrap();
    bench.ok("chflags schg,nodump a.img:/t/dir/file");
    assert_eq!(flags("/t/hard"), 0x2_0001);
    assert!(bench.ok("ls -lo a.img:/t").contains(" schg,nodump "), "{}", bench.ok("ls -lo a.img:/t"));
    assert!(bench.ok("stat a.img:/t/hard").contains("flags schg,nodump\n"));
    assert!(!bench.ok("ls -l a.img:/t").contains("schg"));
    bench.ok("chflags -R noschg,uunlnk a.img:/t");
    assert_eq!([flags("/t"), flags("/t/dir/program"), flags("/t/dir/file")], [0x10, 0x10, 0x11]);
    bench.ok("chflags 0 a.img:/t a.img:/t/dir");
    assert_eq!([flags("/t"), flags("/t/dir"), flags("/t/hard")], [0, 0, 0x11]);
    bench.fails("chflags immutable a.img:/t", 2, &["immutable", "schg"]);
    bench.fails("chflags snapshot a.img:/t", 2, &["snapshot"]);
    bench.check("a.img");
    let bench = image("newfs -t v7 -s 4m a.img");
    bench.fails("chflags uchg a.img:/t", 1, &["a.img: /t: not supported by this file system"]);
    bench.ok("chflags 0 a.img:/t");
}

/// Promise: chown sets owner, group or both by number, clears the set-id bits of programs, and says
/// what is wrong with names and with numbers that the format has no room for.
#[test]
fn chown_changes_owners() {
    let bench = image("newfs -s 8m a.img");
    let owner = |path| (field(&bench, path, "uid"), field(&bench, path, "gid"));
    bench.ok("chown 10:20 a.img:/t/dir/program");
    assert_eq!(owner("/t/dir/program"), (10.into(), 20.into()));
    assert_eq!(mode(&bench, "/t/dir/program"), "0755");
    bench.ok("chown 30 a.img:/t/dir/program");
    bench.ok("chown :40 a.img:/t/dir/program");
    assert_eq!(owner("/t/dir/program"), (30.into(), 40.into()));
    bench.ok("ln -s dir/file a.img:/t/link");
    bench.ok("chown -R 1001:1002 a.img:/t");
    for path in ["/t", "/t/dir", "/t/dir/file", "/t/link"] {
        assert_eq!(owner(path), (1001.into(), 1002.into()), "{path}");
    }
    bench.ok("chown 5 a.img:/t/link");
    assert_eq!((owner("/t/dir/file").0, owner("/t/link").0), (5.into(), 1001.into()));
    bench.ok("chown -h 6 a.img:/t/link");
    assert_eq!((owner("/t/dir/file").0, owner("/t/link").0), (5.into(), 6.into()));
    bench.fails("chown root a.img:/t", 2, &["'root' is no number", "/etc/passwd"]);
    bench.fails("chown 1: a.img:/t", 2, &["'' is no number"]);
    bench.check("a.img");
    let bench = image("newfs -t v7 -s 4m a.img");
    bench.fails("chown 70000 a.img:/t", 1, &["a.img: /t: owner 70000:", "the largest number is"]);
    bench.check("a.img");
}

/// Promise: touch sets the times that are named and creates what is missing; -c does not; a time
/// can come from another file, and one that does not fit is refused.
#[test]
fn touch_sets_times() {
    let bench = image("newfs -s 8m a.img");
    let times = |path| (field(&bench, path, "atime"), field(&bench, path, "mtime"));
    bench.ok("touch -d 1984-08-01T12:00:00.5Z a.img:/t/hard");
    let august = serde_json::json!("1984-08-01T12:00:00.500000000Z");
    assert_eq!(times("/t/dir/file"), (august.clone(), august.clone()));
    bench.ok("touch -a -t 200001010000.30 a.img:/t/hard");
    assert_eq!(times("/t/hard"), ("2000-01-01T00:00:30.000000000Z".into(), august.clone()));
    bench.ok("touch -m -d @7 a.img:/t/hard");
    assert_eq!(times("/t/hard").1, "1970-01-01T00:00:07.000000000Z");
    bench.shell("touch -d @99.25 here");
    bench.ok("touch -r here a.img:/t/hard");
    bench.ok("touch -r a.img:/t/hard a.img:/new");
    assert_eq!(times("/new").1, "1970-01-01T00:01:39.250000000Z");
    bench.ok("touch -c a.img:/none");
    bench.fails("stat a.img:/none", 1, &["no such file"]);
    bench.ok("touch a.img:/now");
    assert_eq!(
        (field(&bench, "/now", "size"), field(&bench, "/now", "kind")),
        (0.into(), "regular file".into())
    );
    assert!(times("/now").0.as_str().unwrap() > "2020");
    bench.ok("ln -s /new a.img:/link");
    bench.ok("touch -h -d @1 a.img:/link");
    assert_eq!(
        (times("/link").1, times("/new").1),
        ("1970-01-01T00:00:01.000000000Z".into(), "1970-01-01T00:01:39.250000000Z".into())
    );
    bench.fails("touch a.img:/no/file", 1, &["no such file or directory"]);
    bench.fails("touch -d yesterday a.img:/t", 2, &["'yesterday' is no date", "2026-05-20"]);
    bench.fails("touch -t 13 a.img:/t", 2, &["[[CC]YY]MMDDhhmm"]);
    bench.fails("touch -t 01010000 -d @1 a.img:/t", 2, &["cannot be used with"]);
    bench.check("a.img");
    let bench = image("newfs -t v7 -s 4m a.img");
    bench.fails("touch -d 2040-01-01 a.img:/t", 1, &["/t: the time does not fit", "2038"]);
    bench.fails("touch -d 1900-01-01 a.img:/new", 1, &["/new: the time does not fit", "1901"]);
    bench.fails("stat a.img:/new", 1, &["no such file"]);
    bench.check("a.img");
}

/// Promise: commands that change attributes leave an image alone that must not be written.
#[test]
fn images_that_are_not_safe_to_write_are_refused() {
    let bench = image("newfs --no-check-hashes -s 16m a.img");
    bench.shell(
        "printf '\\000' | dd bs=1 seek=$((65536 + 209)) conv=notrunc of=a.img status=none; cp a.img before",
    );
    for words in ["chmod 600 a.img:/t", "chown 1 a.img:/t", "touch a.img:/t"] {
        bench.fails(words, 1, &["a.img cannot be written", "not unmounted cleanly"]);
    }
    bench.shell("cmp a.img before");
}

/// Promise: file flags forbid to root what they forbid on BSD without a secure level: removing,
/// renaming, linking and changing, until `chflags` has cleared them, which the message says.
#[test]
fn file_flags_forbid_changes() {
    let bench = Bench::new();
    bench.shell("mkdir -p src/dir; echo x >src/dir/file");
    bench.ok("newfs -s 8m a.img");
    bench.ok("import src a.img");
    for flag in ["schg", "uchg", "sappnd", "uappnd"] {
        bench.ok(&format!("chflags {flag} a.img:/dir/file"));
        let remedy = format!("spindle chflags no{flag} clears them");
        for command in [
            "rm a.img:/dir/file",
            "rm -r a.img:/dir",
            "mv a.img:/dir/file a.img:/new",
            "ln a.img:/dir/file a.img:/new",
            "chmod 600 a.img:/dir/file",
            "chown 7 a.img:/dir/file",
            "touch -d 2001-01-01T00:00:00 a.img:/dir/file",
            "cp src/dir/file a.img:/dir",
        ] {
            bench.fails(command, 1, &[flag, &remedy]);
        }
        let touched = bench.run("touch a.img:/dir/file");
        assert_eq!(touched.code, i32::from(flag.ends_with("chg")), "{flag}: {}", touched.err);
        bench.ok(&format!("chflags no{flag} a.img:/dir/file"));
    }
    bench.ok("chflags sunlnk a.img:/dir/file");
    bench.fails("rm a.img:/dir/file", 1, &["spindle chflags nosunlnk clears them"]);
    bench.ok("chmod 600 a.img:/dir/file");
    bench.ok("chflags nosunlnk a.img:/dir/file");
    bench.ok("chflags schg a.img:/dir");
    for command in [
        "rm a.img:/dir/file",
        "mkdir a.img:/dir/new",
        "mkdir -p a.img:/dir/new/below",
        "touch a.img:/dir/new",
        "ln -s file a.img:/dir/new",
        "cp src/dir/file a.img:/dir/new",
        "cp -r src a.img:/dir",
        "cp src/dir/file a.img:/dir",
    ] {
        bench.fails(command, 1, &["spindle chflags noschg clears them"]);
    }
    assert_eq!(bench.ok("ls a.img:/dir"), "file\n");
    bench.ok("chflags noschg,sappnd a.img:/dir");
    bench.ok("mkdir a.img:/dir/new");
    bench.fails("cp src/dir/file a.img:/dir", 1, &["spindle chflags nosappnd clears them"]);
    bench.ok("chflags 0 a.img:/dir");
    bench.ok("rm -r a.img:/dir");
    bench.check("a.img");
}

/// Promise: the flags of `ls -lo` are a column that is as wide as the longest ones of a directory,
/// so what follows stands below each other.
#[test]
fn flags_are_a_column() {
    let bench = Bench::new();
    bench.ok("newfs -n -s 4m a.img");
    for name in ["one", "two", "three"] {
        bench.write(name, "text");
        bench.ok(&format!("cp -p {name} a.img:/{name}"));
    }
    bench.ok("chflags schg,nodump a.img:/two");
    let lines = bench.ok("ls -lo a.img");
    let times: Vec<_> = lines.lines().map(|line| line.find(" 4 ").unwrap()).collect();
    assert!(times.len() == 3 && times.iter().all(|at| *at == times[0]), "{lines}");
    assert!(lines.contains("schg,nodump") && lines.contains(" -           "), "{lines}");
}

/// Promise: `export` and `cp -p` by a user keep set-user-id, set-group-id and sticky bits of files
/// that belong to this user afterwards as they did before, as cp(1) does; of others they leave the
/// first two out and say so. A restored dump does the same, and root keeps all.
#[test]
fn set_id_bits_are_kept_for_their_owner() {
    let bench = Bench::new();
    bench.shell(
        "mkdir -p src/dir; : >src/own; : >src/other; : >src/group; chown -R 65534:65534 src
         chown 1:65534 src/other; chown 65534:1 src/group; chmod 6755 src/own src/other src/group
         chmod 3775 src/dir; chmod 777 .; mkdir out1 out2 out3; chmod 777 out*",
    );
    bench.ok("import src a.img");
    bench.shell("chmod 644 a.img");
    assert_eq!(bench.run("dump -f a.dump a.img").code, 0);
    let user = |words: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_spindle")]);
        command.args(words.split_whitespace()).current_dir(bench.path(""));
        Ran::from(command.output().unwrap())
    };
    let modes = |dir: &str| bench.shell(&format!("cd {dir}; stat -c '%n %a' own dir other group"));
    for (words, dir) in [
        ("export a.img out1", "out1"),
        ("cp -rp a.img:/ out2", "out2"),
        ("restore -r -f a.dump --to out3", "out3"),
    ] {
        let ran = user(words);
        let said = "left out: 2 set-user-id or set-group-id bits";
        assert!(
            ran.err.contains(said) && ran.err.contains("other") && ran.err.contains("group"),
            "{}",
            ran.err
        );
        assert_eq!(modes(dir), "own 6755\ndir 3775\nother 755\ngroup 4755\n", "{words}");
    }
    bench.ok("export a.img out4");
    assert_eq!(modes("out4"), "own 6755\ndir 3775\nother 6755\ngroup 6755\n");
}
