//! Import and export of trees.

use crate::support::{Bench, listing};

/// Makes a tree `t` with all types of files.
fn make_tree(bench: &Bench) {
    bench.shell(
        "mkdir -p t/dir/empty t/dir/deep/deeper; cd t
        printf content >dir/file; printf '#!' >dir/set; chmod 6755 dir/set; : >none
        head -c 300000 /dev/urandom >dir/deep/random; seq 1 50000 >lines
        ln dir/file dir/deep/again; ln -s ../dir/file dir/soft; ln -s $(printf '%0200d' 7) long
        mknod null c 1 3; mknod disk b 8 200; mkfifo -m 620 pipe
        truncate -s 1000000 hole; printf x | dd of=hole bs=1 seek=500000 conv=notrunc status=none
        touch \"$(printf 'n%.0s' $(seq 1 255))\"
        chown -h 1000:50 dir/file dir/soft; chown 70000:80000 lines; chmod 1770 dir/empty
        setfattr -n user.one -v value dir/file; setfattr -n user.two -v 0x00ff00 dir
        find . -depth -exec touch -h -d @1234567890.123456789 {} +",
    );
}

/// Promise: import of a tree into an image that fits, followed by export to a directory or a tar
/// stream, keeps the tree, as far as each format can store it.
#[test]
fn trees_round_trip() {
    let bench = Bench::new();
    make_tree(&bench);
    let wanted = listing(&bench.path("t"));
    for (format, owners, nanos, xattrs) in [
        ("-O2", true, true, true),
        ("-O2 --endian big -b 4096 -f 512", true, true, true),
        ("-O1", true, true, false),
        ("-O1 --dialect sun", true, false, false),
    ] {
        bench.shell("rm -rf a.img back back2 back.tar");
        let ran = bench.run(&format!("import {format} t a.img"));
        assert_eq!(ran.code, 0, "{format}: {}", ran.err);
        assert_eq!(ran.err.contains("left out: 2 extended attributes"), !xattrs, "{format}: {}", ran.err);
        bench.check("a.img");
        bench.ok("export a.img back");
        bench.ok("export a.img back.tar");
        bench.shell(
            "mkdir back2; tar -x -p --numeric-owner --xattrs --xattrs-include='*' -C back2 -f back.tar",
        );
        for dir in ["back", "back2"] {
            // Solaris creates lost+found in every new file system.
            let got = listing(&bench.path(dir)).into_iter().filter(|line| !line.starts_with("lost+found"));
            let got: Vec<String> = got.collect();
            for (want, got) in wanted.iter().zip(&got) {
                let same = if nanos && owners {
                    want == got
                } else {
                    // Solaris stores times in microseconds, and device numbers
                    // in its own way.
                    want.split('.').next() == got.split('.').next()
                };
                assert!(same, "{format}, {dir}:\n{want}\n{got}");
            }
            assert_eq!(wanted.len(), got.len());
            let attributes = bench.shell(&format!("getfattr -hd -R {dir} 2>&1"));
            assert_eq!(attributes.contains("user.one=\"value\""), xattrs, "{format}: {attributes}");
        }
        bench.shell("test $(stat -c %b back/hole) -lt 400; test $(stat -c %b back2/hole) -lt 400");
    }
}

/// Promise: a tar stream gives the same image as the directory it was made from, and the same
/// source and timestamp always give the same image.
#[test]
fn imports_are_reproducible() {
    let bench = Bench::new();
    make_tree(&bench);
    bench.shell("tar -c --format=posix --xattrs --sort=name -S -C t -f t.tar .");
    for (image, source) in [("a.img", "t"), ("b.img", "t"), ("c.img", "t.tar")] {
        bench.ok(&format!("import --timestamp 86400 --uid 5 --gid 6 -s 64m {source} {image}"));
        bench.check(image);
    }
    bench.shell("cmp a.img b.img; cmp a.img c.img");
    let output = &bench.json("stat --json a.img:/dir/file")[0];
    assert_eq!((&output["uid"], &output["gid"]), (&5.into(), &6.into()));
    for time in ["atime", "mtime", "ctime", "birthtime"] {
        assert_eq!(output[time], "1970-01-02T00:00:00.000000000Z");
    }
}

/// Promise: import reads tar streams from standard input, and export writes them to standard
/// output.
#[test]
fn streams_through_pipes() {
    let bench = Bench::new();
    make_tree(&bench);
    let spindle = env!("CARGO_BIN_EXE_spindle");
    bench.shell(&format!("tar -c --format=posix --xattrs -C t . | {spindle} import -s 64m - a.img"));
    bench.ok("mkdir a.img:/below");
    bench.shell(&format!("tar -c --format=gnu t | {spindle} import - a.img:/below"));
    bench.shell(&format!(
        "mkdir o; {spindle} export a.img:/below/t - | tar -x -p -C o; diff -r --no-dereference t/dir o/dir"
    ));
    bench.check("a.img");
}

/// Promise: an image that is made to fit has the requested free space and little more.
#[test]
fn fitting() {
    let bench = Bench::new();
    make_tree(&bench);
    bench.ok("import t fit.img");
    bench.ok("import --free-bytes 10m t more.img");
    bench.ok("import --free-percent 100 t double.img");
    let size = |name: &str| bench.path(name).metadata().unwrap().len();
    assert!(size("fit.img") < 3 << 20, "{}", size("fit.img"));
    assert!((9 << 20..12 << 20).contains(&(size("more.img") - size("fit.img"))));
    let twice = 2 * size("fit.img");
    assert!((twice..twice + twice / 8).contains(&size("double.img")), "{}", size("double.img"));
    assert!(bench.json("info --json more.img")["file_system"]["free_bytes"].as_u64().unwrap() > 9 << 20);
}

/// Promise: import merges a tree into an existing file system: directories are filled, files are
/// replaced, also by directories, and nothing else is left.
#[test]
fn imports_merge() {
    let bench = Bench::new();
    bench.write("one/dir/a", "1");
    bench.write("one/dir/b", "1");
    bench.write("two/dir/b", "2");
    bench.write("two/c", "2");
    bench.ok("newfs -n -s 16m a.img");
    bench.ok("import one a.img");
    let note = "note: a.img:/: has files already: they stay, but those that the source has too are replaced";
    assert!(bench.run("import two a.img").err.contains(note));
    assert_eq!(bench.ok("cat a.img:/dir/a a.img:/dir/b a.img:/c"), "122");
    bench.write("three/dir", "a file");
    let ran = bench.run("import three a.img");
    assert!(ran.code == 1 && ran.err.contains("cannot replace a directory with a file"), "{}", ran.err);
    bench.ok("import one a.img:/new");
    bench.write("four/c/d", "in a directory");
    assert_eq!(bench.run("import four a.img").code, 0);
    assert_eq!(bench.ok("cat a.img:/c/d"), "in a directory");
    assert_eq!(
        bench.ok("ls -a a.img:/").split_whitespace().collect::<Vec<_>>(),
        [".", "..", "c", "dir", "new"]
    );
    bench.check("a.img");
}

/// Promise: invalid imports and exports are refused with a message and leave no unfinished image.
#[test]
fn refusals() {
    let bench = Bench::new();
    make_tree(&bench);
    bench.fails("import missing a.img", 1, &["missing: no such file"]);
    bench.fails("import - a.img", 2, &["-s"]);
    bench.write("no.tar", vec![7; 2000]);
    bench.fails("import no.tar a.img", 1, &["no.tar", "not a tar header"]);
    bench.shell("tar -cz -C t -f packed.tgz .");
    bench.fails("import packed.tgz a.img", 1, &["gzip -dc FILE >FILE.tar"]);
    bench.shell("tar -c -C t -f whole.tar .; head -c 100000 whole.tar >cut.tar");
    bench.fails("import -s 32m cut.tar a.img", 1, &["cut.tar", "ends in the middle"]);
    bench.fails("import -s 700k t a.img", 1, &["no space left", "-s"]);
    assert!(!bench.path("a.img").exists());
    bench.fails("import t a.img:/x", 1, &["no such image"]);
    bench.ok("newfs -s 16m a.img");
    bench.fails("import -s 1m t a.img:/x", 2, &["no path"]);
    bench.fails("export a.img:/x out", 1, &["/x: no such file or directory"]);
    bench.fails("export missing.img out", 1, &["no such image"]);
    assert!(!bench.path("out").exists());
}

/// Promise: an empty file is filled as one that does not exist; an image in its own source is left
/// out and named; what an image cannot store of a directory is named as that of a tar stream is.
#[test]
fn sources_with_surprises() {
    let bench = Bench::new();
    bench.shell("mkdir -p t; printf one >t/f; : >empty.img");
    bench.ok("import t empty.img");
    bench.check("empty.img");
    assert_eq!(bench.ok("cat empty.img:/f"), "one");

    for words in ["import -s 8m t t/in.img", "import -s 1m t t/sized.img", "cp -r t t/in.img:/copy"] {
        let ran = bench.run(words);
        assert_eq!(ran.code, 0, "{words}: {}", ran.err);
        let image = words.split("t/").last().unwrap().trim_end_matches(":/copy");
        let said = format!("spindle: note: t/{image}: is the image itself, and is left out\n");
        assert_eq!(ran.err, said, "{words}");
    }
    assert_eq!(bench.ok("ls t/in.img:/"), "copy\nf\n");
    assert_eq!(bench.ok("ls t/in.img:/copy"), "f\nsized.img\n");

    bench.shell("rm t/*.img; setfattr -n security.capability -v 0sAQAAAgAgAAAAAAAAAAAAAAAAAAA= t/f");
    let ran = bench.run("import t attrs.img");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("left out: 1 extended attribute"), "{}", ran.err);

    bench.shell("mkdir l; ln -s $(printf '%04000d' 7) l/long");
    let ran = bench.run("import l l.img");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains("l/long: the target of the symbolic link is too long: 4000 bytes"),
        "{}",
        ran.err
    );
}

/// Promise: an image that is named as the source of its own import, also by links, is refused, and
/// stays what it was.
#[test]
fn an_image_is_not_imported_into_itself() {
    let bench = Bench::new();
    bench.ok("newfs -s 20m u.img");
    bench.write("f", "text");
    bench.ok("cp f u.img:/f");
    bench.shell("ln u.img hard; ln -s u.img symbolic");
    for name in ["u.img", "hard", "symbolic"] {
        for options in ["", "--force -s 20m "] {
            bench.fails(&format!("import {options}{name} u.img"), 1, &[name, "it is the image itself"]);
        }
    }
    assert_eq!(bench.ok("cat u.img:/f"), "text");
}
