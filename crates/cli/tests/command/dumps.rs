//! Dumps and their restoration.

use crate::support::{Bench, listing};

/// Makes a tree `t` with all types of files, dated in the past.
fn make_tree(bench: &Bench) {
    bench.shell(
        "mkdir -p t/dir/empty t/dir/deep/deeper; cd t
        printf content >dir/file; printf '#!' >dir/set; chmod 6755 dir/set; : >none
        head -c 3000000 /dev/urandom >dir/deep/random; seq 1 50000 >lines
        ln dir/file dir/deep/again; ln -s ../dir/file dir/soft; ln -s $(printf '%0200d' 7) long
        mknod null c 1 3; mknod disk b 8 200; mkfifo -m 620 pipe
        truncate -s 3000000 hole; printf x | dd of=hole bs=1 seek=500000 conv=notrunc status=none
        chown -h 1000:50 dir/file dir/soft; chown 70000:80000 lines; chmod 1770 dir/empty
        setfattr -n user.one -v value dir/file; setfattr -n user.two -v 0x00ff00 dir
        find . -depth -exec touch -h -d @1234567890.123456789 {} +",
    );
}

/// Runs `spindle dump` with these options and expects success.
fn dump(bench: &Bench, words: &str) {
    let ran = bench.run(&format!("dump -D dumpdates {words}"));
    assert_eq!(ran.code, 0, "{words}: {}", ran.err);
    assert!(ran.err.lines().all(|line| line.starts_with("spindle: note: ")), "{}", ran.err);
}

/// Promise: what is dumped from an image of any dialect and restored to a directory or another
/// image is the same, with owners, times, holes, links, devices and extended attributes.
#[test]
fn dumps_round_trip() {
    let bench = Bench::new();
    make_tree(&bench);
    for format in
        ["-O2", "-O2 --endian big -b 4096 -f 512", "-O1", "-O1 --dialect sun", "-O0 --uid 5 --gid 6"]
    {
        bench.shell("rm -rf a.img b.img back back2 wanted a.0");
        let ran = bench.run(&format!("import {format} -s 24m t a.img"));
        assert_eq!(ran.code, 0, "{format}: {}", ran.err);
        bench.ok("export a.img wanted");
        dump(&bench, "-0 -f a.0 a.img");
        bench.ok("restore -r -f a.0 --to back");
        assert_eq!(listing(&bench.path("back")), listing(&bench.path("wanted")), "{format}");
        let attributes = |dir: &str| bench.shell(&format!("cd {dir}; getfattr -hd -m- -R . 2>/dev/null"));
        assert_eq!(attributes("back"), attributes("wanted"));
        assert_eq!(
            bench.shell("du -k back/hole"),
            bench.shell("du -k wanted/hole").replace("wanted", "back")
        );
        bench.ok("newfs -n -s 24m b.img");
        bench.ok("restore -r -f a.0 --to b.img");
        bench.check("b.img");
        bench.ok("export b.img back2");

        assert_eq!(listing(&bench.path("back2")), listing(&bench.path("wanted")), "{format}");
        bench.check("a.img");
    }
}
