//! `growfs` on files and partitions, larger and smaller.

use crate::helpers::run_as;
use crate::support::Bench;

/// Returns a bench with a UFS of 8 MiB in `a.img` that has a file.
fn small() -> Bench {
    let bench = Bench::new();
    bench.ok("newfs -s 8m a.img");
    bench.write("file", "text".repeat(100_000));
    bench.ok("cp file a.img:/file");
    bench
}

fn size(bench: &Bench, file: &str) -> u64 {
    std::fs::metadata(bench.path(file)).unwrap().len()
}

/// Promise: a file becomes longer with its file system, to the size that was asked for; its files
/// stay, the new space is there, and a check finds nothing. With -N nothing is written.
#[test]
fn files_grow() {
    let bench = small();
    let before = std::fs::read(bench.path("a.img")).unwrap();
    assert!(bench.ok("growfs -N -s 64m a.img").contains("would grow from 8 MiB to 64 MiB"));
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    let grown = bench.json("growfs --json -s 64m a.img");
    assert_eq!((&grown["new_bytes"], &grown["written"]), (&(64 << 20).into(), &true.into()));
    assert_eq!(size(&bench, "a.img"), 64 << 20);
    bench.check("a.img");
    assert_eq!(bench.ok("cat a.img:/file"), "text".repeat(100_000));
    bench.shell("head -c 50m /dev/zero >large");
    bench.ok("cp large a.img:/");
    assert!(bench.ok("growfs a.img").contains("has all the space already (64 MiB)"));
    bench.check("a.img");
}

/// Promise: without a size it grows to the end of its file or partition, and not beyond it, also
/// if that is asked for.
#[test]
fn partitions_grow_to_their_end() {
    let bench = small();
    bench.shell("truncate -s 16m a.img");
    assert!(bench.ok("growfs a.img").contains("grown from 8 MiB to 16 MiB"));
    bench.check("a.img");
    bench.shell("head -c 1m /dev/zero >b.img; head -c 24m a.img >>b.img; truncate -s 33m b.img");
    let refused = ["b.img@offset=1048576", "holds 33554432 bytes"];
    // Two partitions: the second one is not grown over.
    bench.shell("head -c 1m /dev/zero >two.img; head -c 16m a.img >>two.img; truncate -s 48m two.img");
    bench.shell("printf '2048,40960,a5\n43008,20480,a5\n' | sfdisk -q two.img");
    let second = ["partition s2 begins at byte 22020096", "-s"];
    bench.fails("growfs two.img@offset=1048576", 1, &second);
    assert!(bench.ok("growfs two.img@s1").contains("grown from 16 MiB to 20 MiB"));
    bench.check("two.img@s1");
    bench.fails("growfs -s 64m b.img@offset=1048576", 1, &refused);
    assert!(bench.ok("growfs b.img@offset=1048576").contains("grown from 16 MiB to 32 MiB"));
    assert_eq!(size(&bench, "b.img"), 33 << 20);
    bench.check("b.img@offset=1048576");
    assert_eq!(bench.ok("cat b.img@offset=1048576:/file"), "text".repeat(100_000));
}

/// Promise: a file system with a log keeps it; after a crash its log is replayed first; while it is
/// mounted it does not shrink.
#[test]
fn logs_stay() {
    let bench = Bench::new();
    bench.ok("newfs -s 16m --log=1m a.img");
    bench.shell("mkdir mnt");
    let mount = |more: &str| {
        assert_eq!(run_as(&bench, "mount.spindle", &format!("a.img mnt -o rw{more}")).code, 0);
    };
    mount("");
    bench.write("mnt/file", "text".repeat(1000));
    bench.fails("growfs --shrink -s 8m a.img", 1, &["mnt"]);
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
    bench.shell("cp a.img before.img");
    mount("");
    bench.write("mnt/more", "more");
    bench.shell("sync mnt/more; cp a.img crashed.img");
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
    for image in ["before.img", "crashed.img"] {
        let ran = bench.run(&format!("growfs -s 64m {image}"));
        assert_eq!(ran.code, 0, "{image}: {}", ran.err);
        bench.check(image);
        assert!(bench.ok(&format!("info {image}")).contains("log"), "{image}");
        assert_eq!(bench.ok(&format!("cat {image}:/file")), "text".repeat(1000), "{image}");
    }
    assert_eq!(bench.ok("cat crashed.img:/more"), "more");
}

/// Promise: a file system that is damaged, or would become smaller, or is no UFS, is refused with
/// the remedy; the file stays as it was and as long as it was.
#[test]
fn refused_ones_stay() {
    let bench = small();
    bench.fails("growfs -s 4m a.img", 1, &["less than", "--shrink"]);
    bench.shell("printf xxxx | dd of=a.img bs=1 seek=65700 conv=notrunc 2>/dev/null");
    let before = std::fs::read(bench.path("a.img")).unwrap();
    bench.fails("growfs -s 64m a.img", 1, &["a.img"]);
    bench.fails("growfs -N -s 64m a.img", 1, &["a.img"]);
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    bench.ok("newfs -t v7 -s 4m v7.img");
    bench.fails("growfs -s 8m v7.img", 1, &["only UFS"]);
    assert_eq!(size(&bench, "v7.img"), 4 << 20);
    bench.fails("growfs -s 8m none.img", 1, &["none.img"]);
}

/// Promise: the smallest size of a file system with a log has room for the log, which is as long as
/// before; showing that size warns of nothing.
#[test]
fn the_smallest_size_has_room_for_the_log() {
    for options in ["", "--dialect netbsd", "-O 1 --dialect sun"] {
        let bench = Bench::new();
        bench.ok(&format!("newfs -s 64m --log=2m {options} a.img"));
        assert!(bench.ok("growfs --shrink -N a.img").contains("would shrink from 64 MiB to "), "{options}");
        let shrunk = bench.json("growfs --json --shrink a.img");
        assert!((2 << 20..16 << 20).contains(&shrunk["new_bytes"].as_u64().unwrap()), "{options}: {shrunk}");
        assert_eq!(bench.json("info --json a.img")["file_system"]["log"]["len"], 2 << 20, "{options}");
        bench.check("a.img");
    }
}

/// Promise: with --shrink a file system becomes as small as is asked for, or as can be; its files
/// stay, the file is cut off only when that is asked for, and -N writes nothing.
#[test]
fn files_shrink() {
    let bench = Bench::new();
    bench.ok("newfs -s 64m a.img");
    bench.write("file", "text".repeat(100_000));
    bench.shell("seq 1 2000000 | head -c 10m >large");
    bench.ok("cp file a.img:/file");
    bench.ok("cp large a.img:/large");
    bench.ok("mkdir a.img:/dir");
    bench.ok("cp file a.img:/dir/file");
    let before = std::fs::read(bench.path("a.img")).unwrap();
    assert!(bench.ok("growfs --shrink -N a.img").contains("would shrink from 64 MiB to "));
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    let files_are_there = |image: &str| {
        bench.check(image);
        for name in ["file", "dir/file"] {
            assert_eq!(bench.ok(&format!("cat {image}:/{name}")), "text".repeat(100_000), "{image}: {name}");
        }
        bench.shell("rm -rf out; mkdir out");
        bench.ok(&format!("cp {image}:/large out"));
        bench.shell("cmp large out/large");
    };
    let shrunk = bench.json("growfs --json --shrink -s 32m a.img");
    assert_eq!((&shrunk["new_bytes"], &shrunk["written"]), (&(32 << 20).into(), &true.into()));
    assert_eq!(size(&bench, "a.img"), 64 << 20);
    files_are_there("a.img");
    // What is behind the file system by now may be somebody's.
    bench.fails("growfs --shrink --truncate a.img", 1, &["holds nothing but", "truncate -s 33554432"]);
    bench.shell("truncate -s 32m a.img");
    let shrunk = bench.json("growfs --json --shrink --truncate a.img");
    let smallest = shrunk["new_bytes"].as_u64().unwrap();
    assert!((11 << 20..16 << 20).contains(&smallest), "{smallest}");
    assert_eq!(size(&bench, "a.img"), smallest);
    files_are_there("a.img");
    assert!(bench.ok("growfs -s 48m a.img").contains("grown"));
    files_are_there("a.img");
    bench.fails("growfs --shrink -s 4m a.img", 1, &["does not fit", "-s"]);
    bench.fails("growfs --truncate a.img", 2, &["--shrink"]);
}

/// Promise: shrinking again is done already, whatever size is asked for that is not smaller: the
/// exit code is 0, and nothing is written.
#[test]
fn shrinking_again_does_nothing() {
    let bench = small();
    let again = |words: &str| {
        let before = std::fs::read(bench.path("a.img")).unwrap();
        let shown = bench.ok(words);
        assert!(shown.contains("nothing to do"), "{words}: {shown}");
        assert!(std::fs::read(bench.path("a.img")).unwrap() == before, "{words}");
    };
    again("growfs --shrink -s 8m a.img");
    again("growfs --shrink -s 1g a.img");
    // Without --truncate the file keeps its length, and growfs says so.
    let shown = bench.ok("growfs --shrink -s 6000000 a.img");
    assert!(shown.contains("truncate -s 5996544 cuts them off"), "{shown}");
    again("growfs --shrink -s 6000000 a.img");
    let smallest = loop {
        let shrunk = bench.json("growfs --shrink --json a.img");
        if shrunk["written"] == false {
            break shrunk;
        }
    };
    assert_eq!(smallest["old_bytes"], smallest["new_bytes"]);
    again("growfs --shrink a.img");
    again("growfs --shrink -N a.img");
    bench.check("a.img");
    assert_eq!(bench.ok("cat a.img:/file"), "text".repeat(100_000));
}

/// Promise: with its undo file, shrinking is taken back by fsck.
#[test]
fn shrinking_is_taken_back() {
    let bench = small();
    bench.ok("growfs --shrink -s 6m --undo a.undo a.img");
    bench.check("a.img");
    bench.ok("fsck --undo-with a.undo a.img");
    bench.check("a.img");
    assert!(bench.ok("growfs a.img").contains("has all the space already (8 MiB)"));
    assert_eq!(bench.ok("cat a.img:/file"), "text".repeat(100_000));
    // A file that is there already is not written over, and then nothing is done.
    let before = std::fs::read(bench.path("a.img")).unwrap();
    bench.fails("growfs --shrink -s 6m --undo a.undo a.img", 1, &["a.undo"]);
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
}
