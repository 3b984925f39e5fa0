//! What commands write beside images: never over an image or a disk by mistake, and through links
//! and into devices.

use crate::support::Bench;
use std::os::unix::fs::FileTypeExt;

/// Returns a directory with an image, and a file `a`.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.ok("newfs -s 4m x.img");
    bench.write("a", "some bytes");
    bench
}

/// A loop device over a new file, detached when it goes.
struct Loop(String);

impl Loop {
    fn over(bench: &Bench, file: &str) -> Self {
        Self(bench.shell(&format!("truncate -s 4m {file}; losetup --find --show {file}")).trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("/usr/sbin/losetup").args(["-d", &self.0]).status();
    }
}

/// Promise: `cp` onto an image, by its name or a link, is refused with what would be right, in both
/// directions; --force does it.
#[test]
fn a_forgotten_colon_costs_no_image() {
    let bench = bench();
    bench.shell("ln -s x.img link; mkdir d; mv x.img d; ln -s d/x.img x.img; cp d/x.img before");
    for words in ["cp a x.img", "cp a link", "cp before x.img", "cp x.img:/.snap/../.snap x.img -r"] {
        bench.fails(words, 1, &["replace"]);
        bench.shell("cmp d/x.img before; test -L x.img; test -L link");
    }
    bench.fails(
        "cp a x.img",
        1,
        &["x.img: there is UFS2 of FreeBSD, which the copy would replace; x.img:/ is"],
    );
    // A name in a directory that the source gives is the same.
    bench.shell("mkdir other; cp a other/x.img");
    bench.fails("cp other/x.img d", 1, &["d/x.img: there is UFS2"]);
    bench.fails("cp a a", 1, &["the copy would replace what is copied"]);
    bench.ok("cp --force a x.img");
    bench.shell("cmp a d/x.img; test -L x.img; cmp a a");
}

/// Promise: a copy goes through links, into pipes and devices, whose nodes stay as they are; a link
/// that leads nowhere is refused.
#[test]
fn copies_go_through_links_and_into_devices() {
    let bench = bench();
    bench.ok("cp a x.img:/a");
    bench.shell(
        "echo old and longer >file; chmod 640 file; ln file second; ln -s file link; ln -s none dangling",
    );
    bench.ok("cp x.img:/a link");
    bench.shell("test -L link; cmp a file; cmp a second; test $(stat -c %a file) = 640");
    bench.fails("cp x.img:/a dangling", 1, &["a link that leads nowhere"]);
    bench.shell("test -L dangling; test ! -e none");
    bench.shell("ln -s /dev/stdout out");
    assert_eq!(bench.ok("cp x.img:/a out"), "some bytes");
    bench.shell("test -L out; mknod null c 1 3");
    bench.ok("cp x.img:/a null");
    bench.shell("test -c null");
}

/// Promise: a block device is written as it is, unless there is a file system on it or the copy
/// would be a directory.
#[test]
fn block_devices_are_written() {
    let bench = bench();
    let device = Loop::over(&bench, "disk");
    bench.shell("printf 'long, long bytes' >b");
    bench.ok(&format!("cp b {}", device.0));
    bench.ok(&format!("cp a {}", device.0));
    assert!(std::fs::symlink_metadata(&device.0).unwrap().file_type().is_block_device());
    bench.shell(
        "sync disk; test \"$(head -c 16 disk)\" = 'some bytes bytes'; test $(stat -c %s disk) = 4194304",
    );
    bench.shell("mkdir dir");
    bench.fails(&format!("cp -r dir {}", device.0), 1, &["a file stands where a directory is to go"]);
    bench.ok(&format!("newfs {}", device.0));
    bench.fails(
        &format!("cp a {}", device.0),
        1,
        &["there is UFS2 of FreeBSD, which the copy would replace"],
    );
    assert!(std::fs::symlink_metadata(&device.0).unwrap().file_type().is_block_device());
}

/// Promise: no output replaces what it is made of, by whatever name.
#[test]
fn what_is_read_is_not_written() {
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
        bench.fails(words, 1, &["the output would replace what it is made of"]);
        bench.shell("cmp t.trace before; test -L link");
    }
}

/// Promise: no option or argument that names an output writes over an image or a block device
/// unless --force says so.
#[test]
fn no_output_overwrites_an_image() {
    let bench = bench();
    bench.ok("trace synth --events 1k --like a5 -o t.trace");
    bench.shell("mkdir dir mnt; for n in analysis.txt cachesim.json; do cp x.img dir/$n; done; cp x.img x.tar; cp x.img before");
    let device = Loop::over(&bench, "disk");
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
            &["there is UFS2 of FreeBSD, which the output would replace"],
        );
        bench.shell(&format!("cmp {file} before"));
        if file == "x.img" {
            bench.fails(&format!("{words} {}", device.0), 1, &["there is a block device, which"]);
        }
    }
    bench.fails("trace analyze -o dir t.trace", 1, &["dir/analysis.txt: there is UFS2"]);
    bench.fails("trace cachesim -o dir t.trace", 1, &["dir/cachesim.json: there is UFS2"]);
    bench.fails("mount -o trace=x.tar x.img mnt", 32, &["x.tar: there is UFS2"]);
    bench.shell("for n in x.img x.tar dir/analysis.txt dir/cachesim.json; do cmp $n before; done");
    bench.ok("trace export --force t.trace x.tar");
    bench.shell("! cmp -s x.tar before");
}
