//! Output files: commands do not overwrite an image or a disk by mistake, and write through
//! symbolic links and into devices.

use crate::support::{Bench, Loop};
use std::os::unix::fs::FileTypeExt;

/// Returns a bench with an image and a file `a`.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.ok("newfs -s 4m x.img");
    bench.write("a", "some bytes");
    bench
}

/// Promise: `cp` onto an image, by its name or a symbolic link, is refused with the remedy, in both
/// directions; --force overwrites it.
#[test]
fn a_forgotten_colon_overwrites_no_image() {
    let bench = bench();
    bench.shell("ln -s x.img link; mkdir d; mv x.img d; ln -s d/x.img x.img; cp d/x.img before");
    let same = "source and target are the same file";
    for (words, reason) in [
        ("cp a x.img", "overwrite"),
        ("cp a link", "overwrite"),
        ("cp before x.img", "overwrite"),
        ("cp x.img:/.snap/../.snap x.img -r", same),
    ] {
        bench.fails(words, 1, &[reason]);
        bench.shell("cmp d/x.img before; test -L x.img; test -L link");
    }
    bench.fails(
        "cp a x.img",
        1,
        &["x.img: contains a UFS2 file system of FreeBSD, which the copy would overwrite; name x.img:/ to"],
    );
    // The same holds if the source gives the name in a directory.
    bench.shell("mkdir other; cp a other/x.img");
    bench.fails("cp other/x.img d", 1, &["d/x.img: contains a UFS2"]);
    bench.fails("cp a a", 1, &[same]);
    bench.ok("cp --force a x.img");
    bench.shell("cmp a d/x.img; test -L x.img; cmp a a");
}

/// Promise: a copy is written through symbolic links and into pipes and devices, which stay as they
/// are; a dangling link is refused.
#[test]
fn copies_write_through_links_and_into_devices() {
    let bench = bench();
    bench.ok("cp a x.img:/a");
    bench.shell(
        "echo old and longer >file; chmod 640 file; ln file second; ln -s file link; ln -s none dangling",
    );
    bench.ok("cp x.img:/a link");
    bench.shell("test -L link; cmp a file; cmp a second; test $(stat -c %a file) = 640");
    bench.fails("cp x.img:/a dangling", 1, &["a dangling symbolic link"]);
    bench.shell("test -L dangling; test ! -e none");
    bench.shell("ln -s /dev/stdout out");
    assert_eq!(bench.ok("cp x.img:/a out"), "some bytes");
    bench.shell("test -L out; mknod null c 1 3");
    bench.ok("cp x.img:/a null");
    bench.shell("test -c null");
}

/// Promise: a copy overwrites the start of a block device, unless the device contains a file system
/// or the copy is a directory.
#[test]
fn block_devices_are_written() {
    let bench = bench();
    let device = Loop::over(&bench, "disk", "4m");
    bench.shell("printf 'long, long bytes' >b");
    bench.ok(&format!("cp b {}", device.0));
    bench.ok(&format!("cp a {}", device.0));
    assert!(std::fs::symlink_metadata(&device.0).unwrap().file_type().is_block_device());
    bench.shell(
        "sync disk; test \"$(head -c 16 disk)\" = 'some bytes bytes'; test $(stat -c %s disk) = 4194304",
    );
    bench.shell("mkdir dir");
    bench.fails(&format!("cp -r dir {}", device.0), 1, &["cannot replace a file with a directory"]);
    bench.ok(&format!("newfs {}", device.0));
    bench.fails(
        &format!("cp a {}", device.0),
        1,
        &["contains a UFS2 file system of FreeBSD, which the copy would overwrite"],
    );
    assert!(std::fs::symlink_metadata(&device.0).unwrap().file_type().is_block_device());
}

/// Promise: no output overwrites its own input, under any name.
#[test]
fn no_output_overwrites_its_input() {
    let bench = Bench::new();
    bench.ok("trace synth --events 1k --like a5 -o t.trace");
    bench.shell("cp t.trace before; ln -s t.trace link");
    for words in [
        "trace import t.trace link",
        "trace export --force t.trace t.trace",
        "trace analyze t.trace --html link",
        "trace report --force t.trace --html t.trace",
        "trace synth --like t.trace -o link",
        "trace synth --like a5 --check=t.trace -o t.trace",
    ] {
        bench.fails(words, 1, &["the output would overwrite its own input"]);
        bench.shell("cmp t.trace before; test -L link");
    }
}

/// Promise: no option or argument that names an output overwrites an image or a block device
/// without --force.
#[test]
fn no_output_overwrites_an_image() {
    let bench = bench();
    bench.ok("trace synth --events 1k --like a5 -o t.trace");
    bench.shell("mkdir dir mnt; for n in analysis.txt cachesim.json; do cp x.img dir/$n; done; cp x.img x.tar; cp x.img before");
    let device = Loop::over(&bench, "disk", "4m");
    for (words, file) in [
        ("trace synth --events 1k --like a5 -o", "x.img"),
        ("trace import t.trace", "x.img"),
        ("trace export t.trace", "x.img"),
        ("trace analyze t.trace --html", "x.img"),
        ("trace report t.trace --html", "x.img"),
        ("trace record --all --duration 0.1 -o", "x.img"),
        ("export x.img", "x.tar"),
        ("export --tar x.tar", "x.img"),
    ] {
        bench.fails(
            &format!("{words} {file}"),
            1,
            &["contains a UFS2 file system of FreeBSD, which the output would overwrite"],
        );
        bench.shell(&format!("cmp {file} before"));
        if file == "x.img" {
            bench.fails(&format!("{words} {}", device.0), 1, &["is a block device, which"]);
        }
    }
    bench.fails("trace analyze -o dir t.trace", 1, &["dir/analysis.txt: contains a UFS2"]);
    bench.fails("trace cachesim -o dir t.trace", 1, &["dir/cachesim.json: contains a UFS2"]);
    bench.fails("mount -o trace=x.tar x.img mnt", 32, &["x.tar: contains a UFS2"]);
    bench.shell("for n in x.img x.tar dir/analysis.txt dir/cachesim.json; do cmp $n before; done");
    bench.ok("trace export --force t.trace x.tar");
    bench.shell("! cmp -s x.tar before");
}
