//! What import, export, cp and mv do where a part of their work fails.

use crate::support::{Bench, Ran};
use std::process::{Command, Stdio};

/// Runs `spindle` as an ordinary user.
fn as_user(bench: &Bench, words: &str) -> Ran {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_spindle")]);
    command.args(words.split_whitespace()).current_dir(bench.path("")).stdin(Stdio::null());
    command.output().unwrap().into()
}

/// Promise: where an ordinary user may not make a device node, export and cp leave it out with a
/// message, make everything else, also directories with their permissions and times, and exit with
/// 1.
#[test]
fn device_nodes_of_others_are_left_out() {
    let bench = Bench::new();
    bench.shell(
        "chmod 755 .; mkdir -m 777 w; mkdir -p t/dev t/last; mknod t/dev/a c 1 3; mknod t/dev/b b 8 0
        echo x >t/dev/c; echo y >t/last/d; chmod 750 t/dev; touch -d @1000 t/dev t/last",
    );
    bench.ok("import t a.img");
    for command in ["export a.img w/out", "cp -a a.img:/ w/out", "cp -r a.img:/ w/out"] {
        let ran = as_user(&bench, command);
        assert_eq!(ran.code, 1, "{command}: {}", ran.err);
        for device in ["a", "b"] {
            let line =
                format!("spindle: w/out/dev/{device}: cannot make a device node: operation not permitted");
            assert!(ran.err.lines().any(|said| said == line), "{command}: {}", ran.err);
        }
        assert_eq!(bench.shell("ls w/out/dev; cat w/out/dev/c w/out/last/d"), "c\nx\ny\n", "{command}");
        if !command.starts_with("cp -r") {
            assert_eq!(bench.shell("stat -c %a:%Y w/out/dev; stat -c %Y w/out/last"), "750:1000\n1000\n");
        }
        bench.shell("rm -rf w/out");
    }
}

/// Promise: cp and mv do the other operands after one that fails, cp the other files of a tree, and
/// exit with 1.
#[test]
fn other_operands_are_done() {
    let bench = Bench::new();
    bench.write("one", "1\n");
    bench.write("two", "2\n");
    bench.ok("newfs -n -s 16m a.img");
    bench.ok("mkdir a.img:/d");
    let ran = bench.run("cp one missing nope.img:/x a.img:/nope two a.img:/");
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err.lines().count(), 3, "{}", ran.err);
    for said in ["missing: no such file", "nope.img: there is no such image", "a.img: /nope: no such file"] {
        assert!(ran.err.contains(said), "{said} is not in {}", ran.err);
    }
    let ran = bench.run("mv a.img:/nope a.img:/one other.img:/x a.img:/two a.img:/d");
    assert_eq!((ran.code, ran.err.lines().count()), (1, 2), "{}", ran.err);
    assert_eq!(bench.ok("cat a.img:/d/one a.img:/d/two"), "1\n2\n");
    let ran = bench.run("cp a.img:/d/one a.img:/nope a.img:/d/two .");
    assert!(ran.code == 1 && ran.err.contains("a.img: /nope: no such file"), "{}", ran.err);

    bench.shell("chmod 755 .; mkdir -p t/shut; echo no >t/b; echo a >t/a; echo c >t/c; echo d >t/shut/d");
    bench.shell("chmod 600 t/b; chmod 700 t/shut; chown 65534 a.img; mkdir -m 777 w");
    for target in ["a.img:/t", "w/t"] {
        let ran = as_user(&bench, &format!("cp -r t {target}"));
        assert_eq!((ran.code, ran.err.lines().count()), (1, 2), "{target}: {}", ran.err);
        for said in ["t/b: permission denied", "t/shut: permission denied"] {
            assert!(ran.err.contains(said), "{said} is not in {}", ran.err);
        }
    }
    assert_eq!(bench.shell("find w/t | sort; cat w/t/c"), "w/t\nw/t/a\nw/t/c\nw/t/shut\nc\n");
    assert_eq!(bench.ok("find a.img:/t"), "/t\n/t/a\n/t/c\n/t/shut\n");
    bench.check("a.img");
}

/// Promise: a time that a format cannot store is a misfit of an import, and nothing is written;
/// where that cannot be found out beforehand it is named, and the exit code is 1.
#[test]
fn times_that_do_not_fit_are_named() {
    let bench = Bench::new();
    bench.write("t/sub/late", "x\n");
    bench.shell("touch -d @4102444800 t/sub/late");
    let said = "the time of the last change is 4102444800 seconds since 1970: the format has ";
    for format in ["-O1", "-O0", "-t v7", "-t sysv"] {
        for size in ["", "-s 1m"] {
            let ran = bench.run(&format!("import {format} {size} t a.img"));
            assert!(ran.code == 1 && ran.err.contains(&format!("t/sub/late: {said}")), "{}", ran.err);
            assert!(!bench.path("a.img").exists(), "{format}");
        }
    }
    bench.ok("import -O2 t two.img");
    assert_eq!(bench.json("stat --json two.img:/sub/late")[0]["mtime"], "2100-01-01T00:00:00.000000000Z");
    bench.ok("import -O1 --timestamp 5 t five.img");
    bench.ok("newfs -n -O1 -s 16m a.img");
    assert_eq!(bench.run("import t a.img").code, 1);
    assert_eq!(bench.ok("ls a.img"), "");
    let ran = bench.run("cp -p t/sub/late a.img:/x");
    assert!(ran.code == 1 && ran.err.contains(&format!("a.img: /x: stored with the nearest time: {said}")));
    assert_eq!(bench.json("stat --json a.img:/x")[0]["mtime"], "2038-01-19T03:14:07.000000000Z");
    let spindle = env!("CARGO_BIN_EXE_spindle");
    let piped =
        bench.shell(&format!("tar -c --format=pax -C t . | {spindle} import - a.img 2>&1 || echo exit $?"));
    assert!(piped.contains(said) && piped.ends_with("exit 1\n"), "{piped}");
    assert_eq!(bench.ok("cat a.img:/sub/late"), "x\n");
    bench.check("a.img");
}

/// Promise: a size is not silently stronger than what contradicts it, and a multiple is one.
#[test]
fn sizes_do_not_contradict_each_other() {
    let bench = Bench::new();
    bench.write("t/file", "x\n");
    for (words, said) in [
        ("-s 16m --max-size 8m", "contradicts"),
        ("-s 16m -M 32m", "contradicts"),
        ("-M 32m --max-size 16m", "more than --max-size"),
        ("-s 16m -R 3m", "not a multiple"),
        ("-R 0", "multiple"),
        ("-s 16m --free-bytes 1m", "-s fit -M 16777216 --max-size 16777216"),
        ("-s 16m --free-percent 5", "-s fit"),
        ("-s 16m --free-inodes 100", "-s fit"),
    ] {
        bench.fails(&format!("import {words} t a.img"), 2, &[said]);
        assert!(!bench.path("a.img").exists(), "{words}");
    }
    bench.ok("import -s 16m -M 8m --max-size 16m -R 1m t a.img");
    bench.fails("import -M 1m t a.img", 2, &["new file system"]);
    bench.ok("import -s fit -M 16777216 --max-size 16777216 --free-bytes 1m t same.img");
    assert_eq!(bench.path("same.img").metadata().unwrap().len(), 16 << 20);
    bench.ok("import -R 1000 t r.img");
    assert_eq!(bench.path("r.img").metadata().unwrap().len() % 1000, 0);
}

/// Promise: the missing directories of a target of import are created, and the file at whose offset
/// it makes a file system; an export of nothing leaves nothing; what is left out is named; cp
/// copies the content of a root.
#[test]
fn targets_are_made_when_there_is_something_for_them() {
    let bench = Bench::new();
    bench.write("src/file", "x\n");
    bench.ok("newfs -n -s 16m a.img");
    bench.ok("import src a.img:/usr/src");
    assert_eq!(bench.ok("find a.img:/usr"), "/usr\n/usr/src\n/usr/src/file\n");
    bench.fails("import src a.img:/usr/src/file/x", 1, &["not a directory"]);
    bench.fails("export a.img:/nope o", 1, &["/nope: no such file"]);
    bench.fails("export a.img:/nope o.tar", 1, &["/nope: no such file"]);
    assert!(!bench.path("o").exists() && !bench.path("o.tar").exists());

    bench.shell("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"src/sock\")'");
    assert!(bench.run("import src a.img:/").err.contains("a.img:/: has files already"));
    let ran = bench.run("export a.img o.tar");
    assert!(
        ran.code == 0 && ran.err.contains("left out: 1 sockets") && ran.err.contains(": sock"),
        "{}",
        ran.err
    );
    bench.check("a.img");

    bench.shell("mkdir whole; truncate -s 1m short.img; truncate -s 1100k cut.img");
    bench.ok("cp -a a.img:/ whole/");
    bench.shell("cmp whole/usr/src/file src/file");
    for (size, name) in [("", "new"), ("-s fit", "short"), ("-s fit", "cut")] {
        bench.ok(&format!("import {size} src {name}.img@offset=1048576"));
        assert_eq!(bench.ok(&format!("cat {name}.img@offset=1048576:/file")), "x\n");
    }
}

/// Promise: an image in a directory that the user may not search is not said to be missing.
#[test]
fn a_hidden_image_is_not_missing() {
    let bench = Bench::new();
    bench.shell("chmod 755 .; mkdir -m 700 shut; : >shut/a.img");
    for command in ["ls shut/a.img", "ls shut/a.img:/x", "export shut/a.img:/x y"] {
        let ran = as_user(&bench, command);
        assert!(ran.code == 1 && ran.err.contains("shut/a.img: permission denied"), "{}", ran.err);
    }
}
