//! Single files in images, without a mount.

use crate::support::Bench;

fn image() -> Bench {
    let bench = Bench::new();
    bench.ok("newfs -n -s 32m a.img");
    bench
}

/// Promise: cp copies into, out of and between images, into directories and to new names, and -p
/// keeps attributes.
#[test]
fn cp_into_and_out_of_images() {
    let bench = image();
    bench.write("one", "first\n");
    bench.write("tree/sub/two", "second\n");
    bench.shell("chmod 640 one; touch -d @1000.5 one; ln -s sub/two tree/link; ln tree/sub/two tree/hard");
    bench.ok("cp one a.img:/");
    bench.ok("cp one a.img:/renamed");
    bench.ok("cp -rp tree a.img:/copy");
    bench.ok("cp -r one tree a.img:/copy");
    assert_eq!(
        bench.ok("cat a.img:/one a.img:/copy/sub/two a.img:/copy/tree/link"),
        "first\nsecond\nsecond\n"
    );
    assert_eq!(bench.ok("ls a.img:/copy"), "hard\nlink\none\nsub\ntree\n");
    let output = bench.json("stat --json a.img:/copy/hard a.img:/copy/sub/two");
    assert_eq!((&output[0]["ino"], &output[0]["nlink"]), (&output[1]["ino"], &2.into()));
    bench.ok("cp -p one a.img:/kept");
    let kept = &bench.json("stat --json a.img:/kept")[0];
    assert_eq!((&kept["mode"], &kept["mtime"]), (&"0640".into(), &"1970-01-01T00:16:40.500000000Z".into()));
    bench.ok("newfs -s 16m b.img");
    bench.ok("cp -rp a.img:/copy b.img:/");
    bench.ok("cp -rp b.img:/copy back");
    bench.shell(
        "diff -r tree/sub back/sub; test back/hard -ef back/sub/two; test $(readlink back/link) = sub/two",
    );
    bench.ok("cp -r a.img:/copy a.img:/again");
    assert_eq!(bench.ok("cat a.img:/again/sub/two"), "second\n");
    bench.check("a.img");
    bench.check("b.img");
}

/// Promise: a directory is not copied without -r, nor into itself; messages distinguish missing
/// files from missing images.
#[test]
fn cp_refuses() {
    let bench = image();
    bench.write("one", "1");
    bench.ok("mkdir a.img:/d");
    bench.fails("cp a.img:/d x", 1, &["a.img", "/d", "-r"]);
    bench.fails("cp . a.img:/", 1, &["-r"]);
    bench.fails("cp -r a.img:/d a.img:/d/e", 1, &["into itself"]);
    bench.fails("cp a.img:/missing x", 1, &["a.img: /missing: no such file or directory"]);
    bench.fails("cp nope.img:/x y", 1, &["nope.img", "no such image", "IMAGE:/path"]);
    bench.fails("cp one nope.img:/x", 1, &["nope.img", "no such image"]);
    bench.fails("cp missing a.img:/", 1, &["missing: no such file"]);
    bench.fails("cp one one a.img:/new", 1, &["name a directory"]);
    bench.fails("cp one a.img:/d/x/y", 1, &["no such file or directory"]);
    bench.ok("cp one a.img:/one");
    bench.fails("cp a.img:/one a.img:/one", 1, &["the same file"]);
    bench.check("a.img");
}

/// Promise: mkdir, ln, mv and rm behave like the commands of the same name.
#[test]
fn mkdir_ln_mv_rm() {
    let bench = image();
    bench.write("f", "text");
    bench.ok("mkdir -p a.img:/a/b/c a.img:/x");
    bench.ok("mkdir -p a.img:/a/b");
    bench.ok("mkdir -m 1777 a.img:/tmp");
    assert_eq!(bench.json("stat --json a.img:/tmp")[0]["mode"], "1777");
    bench.fails("mkdir a.img:/a", 1, &["a.img: /a: file exists"]);
    bench.fails("mkdir a.img:/q/r", 1, &["no such file or directory"]);
    bench.fails("mkdir -m 9 a.img:/q", 2, &["octal"]);
    bench.ok("cp f a.img:/a/f");
    bench.ok("ln a.img:/a/f a.img:/hard");
    bench.ok("ln -s a/f a.img:/soft");
    bench.ok("ln -s /nowhere/at/all a.img:/dangling");
    assert_eq!(bench.ok("cat a.img:/hard a.img:/soft"), "texttext");
    bench.fails("cat a.img:/dangling", 1, &["no such file or directory"]);
    bench.fails("ln a.img:/a a.img:/dirlink", 1, &["cannot have hard links", "-s"]);
    bench.ok("mv a.img:/hard a.img:/soft a.img:/a/b");
    bench.ok("mv a.img:/a/b a.img:/moved");
    assert_eq!(bench.ok("ls a.img:/moved"), "c\nhard\nsoft\n");
    bench.fails("mv a.img:/moved a.img:/moved/c", 1, &["invalid argument"]);
    bench.fails("mv -n a.img:/a/f a.img:/dangling", 1, &["file exists"]);
    bench.fails("rm a.img:/moved", 1, &["is a directory", "-r"]);
    bench.fails("rm a.img:/gone", 1, &["no such file or directory"]);
    bench.fails("rm -r a.img:/", 1, &["a.img"]);
    bench.ok("rm -f a.img:/gone");
    bench.ok("rm -r a.img:/moved a.img:/dangling a.img:/x a.img:/tmp");
    assert_eq!(bench.ok("ls -R a.img"), "/:\na\n\n/a:\nf\n");
    bench.check("a.img");
}

/// Promise: listings are sorted, escape control characters, and hide names with a dot unless -a is
/// given.
#[test]
fn listings() {
    let bench = image();
    bench.write("t/.hidden", "");
    bench.write("t/wild\x1b[2J\nname", "x");
    bench.shell(
        "ln -s 'to there' t/link; mknod t/null c 1 3; mkfifo t/pipe; chmod 4711 t/wild*; touch -h -d @0 t/*",
    );
    bench.ok("cp -rp t a.img:/");
    assert_eq!(bench.ok("ls a.img:/t"), "link\nnull\npipe\nwild\\u{1b}[2J\\nname\n");
    assert!(bench.ok("ls -a a.img:/t").starts_with(".\n..\n.hidden\n"));
    let long = bench.ok("ls -l a.img:/t");
    let lines: Vec<&str> = long.lines().collect();
    assert!(
        lines[0].starts_with("lrwxrwxrwx   1     0     0            8 1970-01-01 00:00 link -> to there"),
        "{long}"
    );
    assert!(lines[1].starts_with("crw") && lines[1].contains("        1, 3 "), "{long}");
    assert!(lines[3].starts_with("-rws--x--x"), "{long}");
    assert_eq!(bench.ok("ls -d a.img:/t"), "/t\n");
    let output = bench.json("ls --json -R a.img");
    let paths: Vec<&str> =
        output.as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/t", "/t/link", "/t/null", "/t/pipe", "/t/wild\\u{1b}[2J\\nname"]);
    assert_eq!(output[2]["rdev"], serde_json::json!([1, 3]));
    bench.fails("ls a.img:/none", 1, &["a.img: /none: no such file or directory"]);
    bench.fails("ls none.img", 1, &["no such image"]);
    bench.fails("ls .", 1, &["is a directory, not an image"]);
    bench.fails("ls", 2, &["IMAGE[:/PATH]"]);
    bench.fails("cat a.img:/t", 1, &["is a directory"]);
    bench.fails("cat a.img:/t/null", 1, &["not a regular file"]);
}

/// Promise: cp keeps holes, which take no space, and cat writes zeros for them.
#[test]
fn sparse_files() {
    let bench = image();
    bench
        .shell("truncate -s 300000000 s; printf data | dd of=s bs=1 seek=100000000 conv=notrunc status=none");
    bench.ok("cp s a.img:/s");
    let output = &bench.json("stat --json a.img:/s")[0];
    assert_eq!(output["size"], 300_000_000);
    assert!(output["blocks512"].as_u64().unwrap() < 1000, "{output}");
    bench.ok("cp a.img:/s back");
    bench.shell("cmp s back; test $(du -k back | cut -f1) -lt 1000");
    bench.shell("truncate -s 5000000 z; printf end >>z");
    bench.ok("cp z a.img:/z");
    assert!(bench.run("cat a.img:/z").bytes == std::fs::read(bench.path("z")).unwrap());
    bench.check("a.img");
}

/// Promise: cp -a and -P keep symbolic links, -n keeps what is there, -v names the copies, and
/// other names of a file that is kept are not linked to what was there before.
#[test]
fn cp_as_bsd_has_it() {
    let bench = image();
    bench.write("t/one", "new\n");
    bench.write("t/sub/two", "two\n");
    bench.shell("ln -s sub t/dir; ln -s one link; touch -h -d @1000 link; ln t/one t/other; chmod 640 t/one");
    bench.ok("cp -a link t a.img:/");
    assert_eq!(bench.json("stat --json a.img:/link")[0]["target"], "one");
    assert_eq!(bench.json("stat --json a.img:/link")[0]["mtime"], "1970-01-01T00:16:40.000000000Z");
    assert_eq!(bench.json("stat --json a.img:/t/one")[0]["mode"], "0640");
    bench.fails("cp a.img:/link followed", 1, &["/link: no such file"]);
    bench.ok("cp -P a.img:/link a.img:/copied");
    bench.ok("cp -P a.img:/t/dir here");
    bench.shell("test $(readlink here) = sub");
    // Existing files stay, new ones are copied.
    bench.ok("mkdir a.img:/n a.img:/n/t");
    bench.write("old", "old\n");
    bench.ok("cp old a.img:/n/t/two");
    bench.ok("cp -n t/sub/two a.img:/n/t");
    assert_eq!(bench.ok("cat a.img:/n/t/two"), "old\n");
    bench.ok("cp -n -r t/sub a.img:/n/t");
    assert_eq!(bench.ok("cat a.img:/n/t/sub/two"), "two\n");
    bench.ok("cp old a.img:/n/t/one");
    bench.fails("cp -rn t a.img:/n", 1, &["t/other: another name of t/one, which is kept"]);
    assert_eq!(bench.ok("cat a.img:/n/t/one"), "old\n");
    bench.ok("cp -f a.img:/t/one old");
    bench.write("kept", "kept\n");
    bench.ok("cp -n a.img:/t/one kept");
    bench.shell("test $(cat kept) = kept; test $(cat old) = new");
    let named = bench.run("cp -rv t/sub a.img:/v");
    assert_eq!(named.out, "t/sub -> a.img:/v\nt/sub/two -> a.img:/v/two\n", "{}", named.err);
    let named = bench.run("cp -v a.img:/t/one fresh");
    assert_eq!(named.out, "a.img:/t/one -> fresh\n", "{}", named.err);
    bench.check("a.img");
}

/// Promise: cp -L copies what symbolic links lead to, from this machine and inside images; circles
/// are listed and left out; the last of -H, -L and -P wins; and no copy enters itself.
#[test]
fn cp_follows_links() {
    let bench = image();
    bench.write("t/sub/two", "two\n");
    bench.shell("ln -s sub t/dir; ln -s dir/two t/link; ln -s t top; touch -d @1000 t/sub/two");
    bench.ok("cp -rL t a.img:/");
    assert_eq!(bench.ok("cat a.img:/t/link a.img:/t/dir/two"), "two\ntwo\n");
    assert_eq!(bench.json("stat --json a.img:/t/link")[0]["kind"], "regular file");
    bench.ok("cp -RPLHP top a.img:/p");
    assert_eq!(bench.json("stat --json a.img:/p")[0]["target"], "t");
    bench.ok("cp -RPLH top a.img:/h");
    assert_eq!(bench.json("stat --json a.img:/h/dir")[0]["target"], "sub");
    bench.ok("cp -aL top a.img:/a");
    assert_eq!(bench.json("stat --json a.img:/a/link")[0]["mtime"], "1970-01-01T00:16:40.000000000Z");
    bench.ok("cp -rL a.img:/h out");
    bench.shell("test ! -L out/link; cmp out/link t/sub/two; cmp out/dir/two t/sub/two");

    bench.shell("ln -s .. t/sub/up; ln -s loop t/loop; ln -s none t/gone");
    let ran = bench.run("cp -rL t a.img:/l");
    assert_eq!(ran.code, 1, "{}", ran.err);
    let levels = "too many levels of symbolic links";
    for line in [
        format!("t/dir/up: {levels}"),
        format!("t/sub/up: {levels}"),
        format!("t/loop: {levels}"),
        "t/gone: no such file".into(),
    ] {
        assert!(ran.err.contains(&line), "{line} is not in {}", ran.err);
    }
    assert_eq!(bench.ok("find a.img:/l"), "/l\n/l/dir\n/l/dir/two\n/l/link\n/l/sub\n/l/sub/two\n");

    // Links that lead above the copy, and a copy below what is copied.
    bench.ok("ln -s / a.img:/t/root");
    let ran = bench.run("cp -rL a.img:/t a.img:/self");
    assert!(ran.code == 1 && ran.err.contains("/root/self: a directory cannot be copied into itself"));
    assert!(ran.err.contains("/root/t: too many symbolic links"), "{}", ran.err);
    assert_eq!(bench.ok("ls -A a.img:/self/root/l/sub"), "two\n");
    bench.shell("mkdir -p d/sub");
    bench.fails("cp -r d d/sub", 1, &["d/sub/d: a directory cannot be copied into itself"]);
    bench.shell("test ! -e d/sub/d/sub/d");
    bench.check("a.img");
}

/// Promise: when the reader closes the pipe, the program ends without a message, as with SIGPIPE.
#[test]
fn closed_pipes_are_quiet() {
    let bench = image();
    bench.shell("seq 1 200000 >n");
    bench.ok("cp n a.img:/n");
    let spindle = env!("CARGO_BIN_EXE_spindle");
    let output =
        bench.shell(&format!("({spindle} cat a.img:/n || echo $? >code) 2>err | head -1; cat err code"));
    assert_eq!(output, "1\n141\n");
}

/// Promise: when the image is full, the message says so, and the image has no damage and can still
/// be written.
#[test]
fn full_images() {
    let bench = Bench::new();
    bench.ok("newfs -n -s 4m a.img");
    bench.shell("head -c 8000000 /dev/urandom >big");
    bench.fails("cp big a.img:/big", 1, &["no space left"]);
    bench.check("a.img");
    assert_eq!(bench.ok("ls a.img"), "");
    bench.write("small", "x");
    bench.ok("cp small a.img:/");
    bench.check("a.img");
}

/// Promise: what cannot replace a file, because the image is full or it cannot be read, leaves the
/// old file as it was, says so and names the right file; with all commands that replace, and in
/// each format. Where the new file fits in the place of the old one, it replaces it.
#[test]
fn a_failed_replacement_leaves_the_old_file() {
    for newfs in ["-n -s 4m", "-n -s 4m -O 1", "-t v7 -s 2m", "-t mfs -s 17m"] {
        let bench = Bench::new();
        bench.ok(&format!("newfs {newfs} a.img"));
        bench.shell(
            "head -c 700000 /dev/urandom >old; mkdir -p tree/t; head -c 20000000 /dev/urandom >tree/t/big",
        );
        bench.shell("ln tree/t/big big; tar cf t.tar -C tree t");
        bench.ok("mkdir a.img:/t");
        bench.ok("cp old a.img:/t/big");
        let names = bench.ok("ls -AR a.img");
        for (words, named) in [
            ("cp big a.img:/t/big", ": big: "),
            ("cp big a.img:/t", ": big: "),
            ("cp -r tree/t a.img:/", ": tree/t/big: "),
            ("cp -a tree/t a.img:/", ": tree/t/big: "),
            ("import tree a.img", ": tree/t/big: "),
            ("import t.tar a.img", "t/big: "),
        ] {
            let ran = bench.run(words);
            let says = "does not fit, and the file of this name stays: no space left";
            assert!(ran.code == 1 && ran.err.contains(named), "{newfs}: {words}: {}", ran.err);
            assert!(ran.err.contains(says), "{newfs}: {words}: {}", ran.err);
            // -s would make a new file system.
            let remedy = ran.err.contains("(spindle growfs)") && !ran.err.contains("-s");
            assert!(!words.starts_with("import") || remedy, "{newfs}: {words}: {}", ran.err);
            bench.shell("rm -f out");
            bench.ok("cp a.img:/t/big out");
            bench.shell("cmp old out");
            assert_eq!(bench.ok("ls -AR a.img"), names, "{newfs}: {words}");
        }
        bench.check("a.img");
        // Not both fit at once.
        let free = bench.json("df --json a.img")[0].clone();
        let size = free["free_bytes"].as_u64().or(free["available_bytes"].as_u64());
        let size = (size.expect("df says it") + 700_000) * 9 / 10;
        bench.shell(&format!("head -c {size} /dev/urandom >new"));
        bench.ok("cp new a.img:/t/big");
        bench.shell("rm -f out");
        bench.ok("cp a.img:/t/big out");
        bench.shell("cmp new out");
        assert_eq!(bench.ok("ls -AR a.img"), names, "{newfs}");
        bench.check("a.img");
    }
}

/// Promise: characters that turn or hide text are escaped in lists and messages, but not in JSON.
#[test]
fn deceptive_names_are_escaped() {
    let bench = Bench::new();
    bench.ok("newfs -n -s 4m a.img");
    let (name, shown) = ("cod\u{202e}gpj.exe", r"cod\u{202e}gpj.exe");
    bench.write(name, "x");
    assert_eq!(bench.run_args(["cp", name, "a.img:/"]).code, 0);
    assert_eq!(bench.ok("ls a.img"), format!("{shown}\n"));
    for words in ["ls -l a.img", "ls -R a.img"] {
        let output = bench.ok(words);
        assert!(output.contains(shown) && !output.contains(name), "{output}");
    }
    let path = format!("a.img:/{name}");
    let output = bench.run_args(["stat", &path]).out;
    assert!(output.contains(shown) && !output.contains(name), "{output}");
    assert!(bench.ok("ls --json a.img").contains(name));
    // In messages a name can be pasted into a shell.
    let pasted = r"$'/nocod\342\200\256gpj.exe'";
    for (words, shown) in [
        (vec!["cat", &format!("a.img:/no{name}")], pasted),
        (vec!["import", &format!("no{name}"), "a.img"], shown),
        (vec!["ls", name], shown),
    ] {
        let output = bench.run_args(words).err;
        assert!(output.contains(shown) && !output.contains(name), "{output}");
    }
}
