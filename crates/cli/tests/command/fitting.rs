//! Images that fit their contents, and what does not fit into a format.

use crate::support::{Bench, listing};

/// Makes trees of different shapes.
fn make_trees(bench: &Bench) {
    bench.shell(
        "mkdir empty small sparse dirs links attrs big mixed
        for i in $(seq 1 300); do head -c $((i * 37 % 9000)) /dev/zero >small/file$i; done
        truncate -s 1g sparse/huge; printf x | dd of=sparse/huge bs=1 seek=900000000 conv=notrunc status=none
        printf y | dd of=sparse/huge bs=1 seek=70000 conv=notrunc status=none
        for i in $(seq 1 40); do mkdir -p dirs/d$i/e/f; : >dirs/d$i/$(printf 'n%.0s' $(seq 1 14)); done
        for i in 100 119 120 121 500 1000; do ln -s $(printf \"%0${i}d\" 7) links/l$i; done
        printf data >links/one; for i in $(seq 1 50); do ln links/one links/again$i; done
        mkdir attrs/d; for i in $(seq 1 20); do printf $i >attrs/d/f$i; setfattr -n user.a -v $(printf \"%0$((i * 90))d\" 1) attrs/d/f$i; done
        head -c 3000000 /dev/zero >big/a; head -c 100001 /dev/zero >big/b; head -c 49152 /dev/zero >big/c
        cp -a small mixed; cp -a big mixed",
    );
}

const TREES: [&str; 8] = ["empty", "small", "sparse", "dirs", "links", "attrs", "big", "mixed"];

/// Promise: `import` makes the smallest image that holds a tree: with a fragment less, the tree
/// does not fit. The sparse file takes the space of its data.
#[test]
fn one_step_smaller_does_not_fit() {
    let bench = Bench::new();
    make_trees(&bench);
    for (format, unit) in [("-O2", 4096), ("-O1 -b 8192 -f 1024", 1024), ("-O2 -b 4096 -f 4096", 4096)] {
        for tree in TREES {
            bench.shell("rm -f a.img");
            let ran = bench.run(&format!("import {format} -m 0 {tree} a.img"));
            assert_eq!(ran.code, 0, "{format} {tree}: {}", ran.err);
            bench.check("a.img");
            let size = bench.path("a.img").metadata().unwrap().len();
            if tree == "sparse" {
                assert!(size < 2 << 20, "{format}: {size}");
            }
            // Sparse inodes leave most space, and the usual ones are what -s gives.
            for density in ["", "-i 1048576"] {
                let smaller =
                    bench.run(&format!("import {format} -m 0 {density} -s {} {tree} b.img", size - unit));
                assert_ne!(smaller.code, 0, "{format} {density}: {tree} fits into less than {size}");
                assert!(!bench.path("b.img").exists());
            }
        }
    }
}

/// Promise: the old file systems fit to the block, too.
#[test]
fn old_file_systems_fit() {
    let bench = Bench::new();
    make_trees(&bench);
    for format in ["v7", "v7-le", "32v", "bsd", "sysv-512", "sysv-1024-be", "sysv-2048", "sysv16"] {
        for tree in ["empty", "small", "dirs", "big"] {
            bench.shell("rm -f a.img");
            bench.ok(&format!("import -t {format} {tree} a.img"));
            bench.check("a.img");
            bench.shell(&format!("rm -rf out; mkdir out; cp -a {tree} want"));
            bench.ok("export a.img out");
            let names = |dir: &str| -> Vec<String> {
                let lines = listing(&bench.path(dir)).into_iter();
                lines.map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
            };
            assert_eq!(names("out"), names(tree), "{format} {tree}");
            bench.shell("rm -rf want");
            let size = bench.path("a.img").metadata().unwrap().len();
            let json = bench.json("info --json a.img");
            let bsize = json["file_system"]["bsize"].as_u64().unwrap_or_else(|| panic!("{json}"));
            for inodes in ["", "--free-inodes 0"] {
                let words = format!("import -t {format} {inodes} -s {} {tree} b.img", size - bsize);
                assert_ne!(bench.run(&words).code, 0, "{format} {tree}");
            }
        }
    }
}

/// Promise: free space, free inodes and the bounds of the size are those that were asked for.
#[test]
fn room_is_as_asked_for() {
    let bench = Bench::new();
    make_trees(&bench);
    let size = |name: &str| bench.path(name).metadata().unwrap().len();
    let free = |image: &str, what: &str| {
        bench.json(&format!("info --json {image}"))["file_system"][what].as_u64().unwrap()
    };
    bench.ok("import mixed fit.img");
    bench.ok("import --free-inodes 5000 mixed inodes.img");
    assert!((5000..5600).contains(&free("inodes.img", "cs_nifree")), "{}", free("inodes.img", "cs_nifree"));
    bench.ok("import --free-inodes 100% -m 0 mixed percent.img");
    assert!((306..900).contains(&free("percent.img", "cs_nifree")), "{}", free("percent.img", "cs_nifree"));
    bench.ok("import -M 20m -R 1m mixed least.img");
    assert_eq!(size("least.img"), 20 << 20);
    bench.ok("import -R 1m mixed rounded.img");
    assert_eq!(size("rounded.img"), size("fit.img").next_multiple_of(1 << 20));
    bench.ok(&format!("import --max-size {} mixed most.img", size("fit.img")));
    bench.fails("import --max-size 1m mixed no.img", 1, &["no.img", "more than the maximum size of 1048576"]);
    bench.ok("import -t v7 --free-bytes 100k --free-inodes 10 small old.img");
    assert!(!bench.path("no.img").exists());
}

/// Promise: everything that a format cannot store is listed with its reason, and nothing is
/// written, neither to a new image nor to an existing file system that would be overwritten.
#[test]
fn misfits_are_listed_before_anything_is_written() {
    let bench = Bench::new();
    bench.shell(
        "mkdir -p t/a-directory-with-a-long-name/below t/ok; cd t
        : >a-directory-with-a-long-name/below/another-name-that-is-long; : >ok/fine
        : >owner; chown 70000:80000 owner; : >group; chown 5:70000 group
        ln -s x soft; mkfifo pipe; mknod disk b 8 300; truncate -s 2g huge
        : >much-too-long-and-owned; chown 70000 much-too-long-and-owned
        ln much-too-long-and-owned second
        python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'",
    );
    bench.write("existing.img", "precious");
    for words in ["import -t v7 t a.img", "import -t v7 -s 4m t a.img", "import -t v7 -s 1m t existing.img"] {
        let ran = bench.run(words);
        assert_eq!(ran.code, 1, "{}", ran.err);
        for wanted in [
            "t/a-directory-with-a-long-name: file name too long: 28 bytes, and the format has 14",
            "t/a-directory-with-a-long-name/below/another-name-that-is-long: file name too long",
            "t/owner: owner 70000 is too large: the format has numbers up to 65535",
            "t/owner: group 80000 is too large",
            "t/group: group 70000 is too large",
            "t/soft: symbolic links are not supported",
            "t/pipe: named pipes are not supported",
            "t/sock: sockets are not supported",
            "t/disk: device number 8, 300: value too large",
            "t/huge: file too large: 2147483648 bytes, and the format has at most",
            "t/much-too-long-and-owned: file name too long",
            "t/much-too-long-and-owned: owner 70000 is too large",
            "12 things do not fit into the format, as said above; nothing was written",
        ] {
            assert!(ran.err.contains(wanted), "{words}: {wanted} is not in {}", ran.err);
        }
        assert_eq!(ran.err.lines().count(), 13, "{}", ran.err);
        assert!(!bench.path("a.img").exists());
        assert_eq!(std::fs::read(bench.path("existing.img")).unwrap(), b"precious");
    }
    // UFS1 has more room, but no end of links.
    bench.write("many/0", "");
    for n in 1..=32_768 {
        std::fs::hard_link(bench.path("many/0"), bench.path(&format!("many/{n}"))).unwrap();
    }
    let ran = bench.run("import -O1 many b.img");
    assert!(ran.code == 1 && ran.err.contains("too many links: the format has at most 32767"), "{}", ran.err);
    assert!(ran.err.contains("b.img: 2 things do not fit"), "{}", ran.err);
}
