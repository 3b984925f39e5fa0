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

/// Makes a file of each kind of output, and some of others.
fn kinds() -> Bench {
    let bench = bench();
    bench.ok("trace synth --events 1k --like a5 -o t.trace");
    bench.ok("cp a x.img:/a");
    bench.ok("trace export t.trace requests");
    bench.ok("trace export --format csv t.trace requests.csv");
    bench.ok("trace analyze t.trace --html page");
    bench.ok("map --svg picture x.img");
    assert_eq!(bench.run("dump -0 -f dump x.img").code, 0);
    bench.ok("export --tar x.img archive");
    bench.shell("echo 'remember the milk' >notes; head -c 4096 /dev/urandom >noise; truncate -s 4m zeros");
    bench
}

/// Promise: an output replaces a file of its own kind and an empty one, and nothing else without
/// --force: the message names what is there. Links to the file stay.
#[test]
fn outputs_replace_only_their_own_kind() {
    let bench = kinds();
    let outputs = [
        ("trace synth --events 1k --like a5 -o FILE", "t.trace"),
        ("trace import t.trace FILE", "copy.trace"),
        ("trace export t.trace FILE", "requests"),
        ("trace export --format csv t.trace FILE", "requests.csv"),
        ("trace analyze t.trace --html FILE", "page"),
        ("trace report t.trace --html FILE", "page"),
        ("map --svg FILE x.img", "picture"),
        ("dump -0 -f FILE x.img", "dump"),
        ("export --tar x.img FILE", "archive"),
    ];
    bench.shell("cp t.trace copy.trace");
    for (words, own) in outputs {
        let words = |file: &str| words.replace("FILE", file);
        for (file, is) in [
            ("notes", "contains text"),
            ("noise", "contains data of an unknown kind"),
            ("zeros", "contains nothing but zeros"),
            ("requests", "contains data of an unknown kind"),
            ("dump", "contains a stream of dump(8)"),
            ("archive", "contains a tar archive"),
            ("page", "contains text"),
        ] {
            if file != own {
                let wanted = [is, "which the output would overwrite; name another file; --force"];
                bench.shell(&format!("cp {file} kept"));
                bench.fails(&words(file), 1, &wanted);
                bench.shell(&format!("cmp {file} kept"));
            }
        }
        let old = format!("touch -d 2001-01-01 {own}; chmod 640 {own}");
        bench.shell(&format!("rm -f link; ln -s {own} link; {old}; : >empty; cp notes forced"));
        for file in ["link", "empty", "--force forced"] {
            let words = words(file).replace("-o --force forced", "--force -o forced");
            let words = words.replace("--html --force forced", "--force --html forced");
            let words = words.replace("--svg --force forced", "--force --svg forced");
            let ran = bench.run(&words.replace("-f --force forced", "--force -f forced"));
            assert_eq!(ran.code, 0, "{words}: {}", ran.err);
        }
        let mode = format!("test -L link; test $(stat -c %a {own}) = 640; find {own} -newer notes | grep .");
        bench.shell(&format!("{mode}; test -s empty; ! cmp -s notes forced; ! ls -A | grep '^.spindle'"));
    }
    bench.fails("debug x.img dump /a notes", 1, &["contains text"]);
}

/// Promise: a command that fails leaves the output that was there as it was, and none where none
/// was, and no other file.
#[test]
fn a_failing_command_leaves_its_output_as_it_was() {
    let bench = kinds();
    bench.shell("head -c 3000 t.trace >cut.trace; cp t.trace old.trace; cp t.trace before; ls -A >names");
    let csv = "trace export --format csv --block 0 t.trace";
    for (words, old) in [
        ("trace import notes", "old.trace"),
        ("trace import cut.trace", "old.trace"),
        ("trace export cut.trace", "requests"),
        (csv, "requests.csv"),
        ("export --tar missing.img", "archive"),
        ("export --tar x.img:/missing", "archive"),
    ] {
        bench.shell(&format!("cp {old} kept"));
        for output in [old, "new"] {
            assert_ne!(bench.run(&format!("{words} {output}")).code, 0, "{words}");
        }
        bench.shell(&format!("cmp {old} kept; rm kept; ls -A | diff - names"));
    }
    for output in ["old.trace", "new"] {
        assert_eq!(bench.run(&format!("trace record -o {output} -- ./no-such-command")).code, 127);
        bench.shell("cmp old.trace before; ls -A | diff - names");
    }
}

/// Promise: `-` is standard output for every command that writes a stream, and no file; a reader
/// that closes the pipe ends the command.
#[test]
fn outputs_go_to_standard_output() {
    let bench = kinds();
    let program = env!("CARGO_BIN_EXE_spindle");
    for (words, same) in [
        ("trace export t.trace -", "requests"),
        ("trace export t.trace /dev/stdout", "requests"),
        ("trace export --format csv t.trace -", "requests.csv"),
        ("trace analyze t.trace --html -", "page"),
        ("map x.img --svg -", "picture"),
        ("export x.img -", "archive"),
    ] {
        bench.shell(&format!("{program} {words} | cmp - {same}"));
        bench.shell(&format!("timeout 20 {program} {words} | head -c 10 >/dev/null"));
    }
    bench.shell(&format!("{program} trace import t.trace - >made; {program} trace show made | head -n 3"));
    bench.shell(&format!(
        "{program} trace synth --events 1k --like a5 -o - >made; {program} trace show made | head -n 1"
    ));
    for words in ["trace report -", "trace analyze --caches -", "trace synth --like - -o made"] {
        bench.fails(words, 2, &["is read several times; name a file"]);
    }
    bench.shell("test ! -e ./-");
    bench.shell("tar -cf - a >a.tar; printf '#mtree\\n. type=dir\\n./a type=file\\n' >list");
    bench.shell(&format!("{program} import -F - -x . new.img <list; {program} ls new.img: | grep -x a"));
}

/// Promise: newfs, import and sets replace no file but an empty one and one of zeros, without
/// --force; the message names what is there. An empty file stays empty if that fails.
#[test]
fn new_file_systems_replace_no_file() {
    let bench = kinds();
    bench.shell("mkdir tree; cp notes noise archive dump t.trace tree");
    for words in
        ["newfs -s 4m", "newfs -t v7 -s 1m", "newfs -t mfs -s 32m", "import -s 4m tree", "mkfs.spindle"]
    {
        for (file, is) in [
            ("notes", "contains text"),
            ("noise", "contains data of an unknown kind"),
            ("archive", "contains a tar archive"),
            ("dump", "contains a stream of dump(8)"),
            ("t.trace", "contains a trace"),
        ] {
            if words != "mkfs.spindle" {
                bench.fails(&format!("{words} {file}"), 1, &[file, is, "--force overwrites it"]);
            }
            bench.shell(&format!("cmp {file} tree/{file}"));
        }
    }
    bench.ok("newfs zeros");
    bench.ok("newfs -t mfs -s 32m set");
    bench.fails("mfs add set data notes -s 32m", 1, &["contains text"]);
    bench.shell("cmp notes tree/notes; : >empty");
    bench.fails("newfs -s 4m -b 12345 empty", 1, &[]);
    bench.shell("test -f empty; test ! -s empty");
    bench.ok("newfs -s 4m empty");
    bench.ok("newfs --force -s 4m notes");
    bench.check("notes");
}

/// Promise: a copy of a trace that is not finished does not count as finished, and a finished one
/// that was cut off is refused, with the cause, if nothing of it can be read.
#[test]
fn traces_without_their_end() {
    use spindle_trace::format::{Live, Writer};
    use spindle_trace::{Batch, Event, Info};
    let bench = Bench::new();
    let batch = Batch { events: vec![Event::default(); 100], ..Batch::default() };
    let mut writer = Writer::create(&bench.path("killed")).unwrap();
    writer.write(&batch).unwrap();
    writer.checkpoint(&Info::default()).unwrap();
    drop(writer);
    for words in ["trace import killed copy", "trace import copy again", "trace show again"] {
        let ran = bench.run(words);
        assert_eq!(ran.code, 0, "{words}: {}", ran.err);
        assert!(ran.err.contains("the trace is not finished"), "{words}: {}", ran.err);
    }
    let path = bench.path("cut");
    let mut live = Live::new(std::fs::File::create(&path).unwrap(), &path, "test").unwrap();
    live.write(&batch).unwrap();
    live.finish(Info::default()).unwrap();
    assert_eq!(bench.ok("trace show cut").lines().filter(|line| line.contains("access")).count(), 0);
    bench.shell("truncate -s -1 cut");
    for words in ["trace show cut", "trace import cut copy", "trace analyze cut"] {
        bench.fails(words, 1, &["cut: end: no event can be read: the file was cut off"]);
    }
}

/// Promise: a full file system of the host is named as the reason, not one of the image, and
/// leaves no unfinished file.
#[test]
fn a_full_host_is_named() {
    let bench = Bench::new();
    bench.shell("mkdir full big; mount -t tmpfs -o size=4m none full; head -c 9m /dev/urandom >big/file");
    bench.ok("import big x.img");
    for (words, what) in [
        ("import big full/a.img", "the file system that holds the image is full, not the image"),
        ("import -s 64m big full/a.img", "the file system that holds the image is full, not the image"),
        ("export x.img full/a.tar", "full/a.tar: no space left on device"),
        ("export x.img full/dir", "x.img: /file: full/dir/file: no space left on device"),
        ("cp x.img:/file full/a", "x.img: full/a: no space left on device"),
        ("dump -0 -f full/a x.img", "full/a: no space left on device"),
        ("trace synth --like a5 --events 1k -o /dev/full", "/dev/full: no space left on device"),
        ("newfs -s 4m /dev/full", "neither a regular file nor a block device"),
    ] {
        let ran = bench.run(words);
        assert!(ran.code == 1 && ran.err.contains(what), "{words}: {what} is not in {}", ran.err);
        bench.shell("test -z \"$(find full -type f)\"; rm -rf full/dir");
    }
    bench.shell("umount full");
}

/// Promise: a failure is said of the file that fails: a source of this machine, or the place in the
/// image that has no space, not of the image as a whole.
#[test]
fn failures_of_copies_name_their_place() {
    let bench = Bench::new();
    bench.ok("newfs -s 1m x.img");
    bench.shell("head -c 3m /dev/urandom >big; mkdir dir; cp big dir");
    for target in ["x.img:/", "x.img:/y"] {
        let ran = bench.run(&format!("cp none {target}"));
        assert_eq!(
            (ran.code, ran.err.as_str()),
            (1, "spindle: none: no such file or directory\n"),
            "{target}"
        );
    }
    bench.fails("cp big x.img:/y", 1, &["spindle: big: x.img:/y: no space left"]);
    bench.fails("cp -r dir x.img:/", 1, &["spindle: dir/big: x.img:/dir/big: no space left"]);
    bench.fails("cp x.img:/none x.img:/y", 1, &["spindle: x.img: /none: no such file"]);
}

/// Promise: a name of a compressed archive does not become a directory; the message has the pipe
/// that makes what was meant.
#[test]
fn compressed_archives_need_a_pipe() {
    let bench = Bench::new();
    bench.write("src/file", "content\n");
    bench.ok("import src x.img");
    for (name, program) in [("a.tar.gz", "gzip"), ("a.tgz", "gzip"), ("a.tar.zst", "zstd"), ("A.TXZ", "xz")] {
        let pipe = format!("spindle export IMAGE - | {program} >{name}");
        bench.fails(&format!("export x.img {name}"), 1, &[&pipe]);
        assert!(!bench.path(name).exists());
    }
    bench.shell("mkdir d.tar.gz");
    bench.ok("export x.img d.tar.gz");
    assert_eq!(bench.shell("cat d.tar.gz/file"), "content\n");
}
