//! Import as builders of systems use it: with manifests, under fakeroot, and for reproducible
//! images.

use crate::support::{Bench, listing};
use std::os::unix::fs::MetadataExt;

fn make_tree(bench: &Bench) {
    bench.shell(
        "mkdir -p t/bin t/etc; cd t; printf shell >bin/sh; ln bin/sh bin/ash; printf conf >etc/rc
        printf extra >etc/extra; ln -s sh bin/link; find . -exec touch -h -d @1500000000 {} +",
    );
}

/// Returns the lines of `spindle ls -lR`-like listing: an export of the image.
fn exported(bench: &Bench, image: &str) -> Vec<String> {
    bench.shell("rm -rf out");
    bench.ok(&format!("export {image} out"));
    listing(&bench.path("out"))
}

fn has(lines: &[String], wanted: &str) -> bool {
    lines.iter().any(|line| line.starts_with(wanted))
}

/// Promise: entries of a manifest override the source, entries without a file are created with
/// their attributes, other files stay, and names are those of the target's user database.
#[test]
fn manifests_are_applied() {
    let bench = Bench::new();
    make_tree(&bench);
    bench
        .write("db/master.passwd", "root:*:0:0::0:0:Charlie:/root:/bin/sh\n_builder:*:901:902::0:0:x:/:/x\n");
    bench.write("db/group", "wheel:*:0:\n_build:*:902:\n");
    bench.write("other", "from elsewhere");
    bench.write(
        "METALOG",
        "#mtree 2.0\n. type=dir uname=root gname=wheel mode=0751 time=1400000000.0\n\
         ./bin/sh type=file uname=_builder gname=_build mode=4555 time=1400000001.7\n\
         ./bin/ash type=file uid=901 gid=902 mode=4555 time=1400000001.000000007\n\
         ./etc/rc type=file contents=other mode=0600 \\\n  uid=7\n\
         ./bin/link type=link link=ash\n\
         ./dev type=dir uid=0 gid=0 mode=0755\n./dev/null type=char uid=0 gid=0 mode=0666 device=freebsd,2,2\n\
         ./var/db/with\\040space type=file uid=1 gid=2 mode=0640 contents=other time=5.0\n\
         ./fifo type=fifo uid=0 gid=0 mode=0622\n./none type=file optional\n",
    );
    bench.ok("import -F METALOG -N db t a.img");
    bench.check("a.img");
    let lines = exported(&bench, "a.img");
    for wanted in [
        " 40751 0 0 0 0 1400000000.000000000",
        "bin/sh 104555 2 901 902 5 1400000001.000000007",
        "bin/ash 104555 2 901 902 5 1400000001.000000007",
        "etc/rc 100600 1 7 0 14 1500000000.",
        "etc/extra 100644 1 0 0 5 1500000000.",
        "dev/null 20666 1 0 0 0 ",
        "var/db/with space 100640 1 1 2 14 5.000000000",
        "fifo 10622 1 ",
    ] {
        assert!(has(&lines, wanted), "{wanted} is not in\n{}", lines.join("\n"));
    }
    assert!(lines.iter().any(|line| line.starts_with("bin/link ") && line.ends_with(" ash")));
    assert!(!has(&lines, "none"));
    let rdev = bench.path("out/dev/null").symlink_metadata().unwrap().rdev();
    assert_eq!((rdev >> 8, rdev & 0xff), (2, 2));

    bench.ok("import -F METALOG -N db -x t b.img");
    assert!(!has(&exported(&bench, "b.img"), "etc/extra"));
    bench.write("few", "./bin/sh mode=0500\n");
    bench.ok("import -F few -x t c.img");
    let lines = exported(&bench, "c.img");
    assert!(lines.len() == 3 && has(&lines, "bin/sh 100500 1 0 0 5 1500000000."), "{lines:?}");
}

/// Promise: a manifest alone is a source: files have the content of `contents` or of their own
/// path.
#[test]
fn a_manifest_is_a_source() {
    let bench = Bench::new();
    make_tree(&bench);
    bench.write(
        "spec.mtree",
        "#mtree\n/set type=file uid=0 gid=0 mode=0644 time=77.0\n. type=dir mode=0755\n    t type=dir mode=0755\n\
         \x20   etc type=dir mode=0755\n        rc\n        ..\n    ..\n    copy contents=t/bin/sh\n..\n",
    );
    bench.ok("import -m 0 spec.mtree a.img");
    bench.check("a.img");
    assert_eq!(bench.ok("cat a.img:/t/etc/rc a.img:/copy"), "confshell");
    let lines = exported(&bench, "a.img");
    assert!(lines.iter().all(|line| line.contains(" 77.000000000")) && lines.len() == 5, "{lines:?}");
}

/// Promise: what is wrong with a manifest is reported with its line, before anything is written.
#[test]
fn mistakes_of_manifests() {
    let bench = Bench::new();
    make_tree(&bench);
    for (spec, reason) in [
        ("./bin type=file", "spec: line 1: bin: has another type in the source"),
        (
            "\n./x type=dir mode=755 uid=0",
            "spec: line 2: x: is not in the source, and to create it the manifest must have gid=",
        ),
        (
            "./x type=file mode=755 uid=0 gid=0",
            "line 1: x: is not in the source, and to create it the manifest must have contents=",
        ),
        ("./x type=char mode=755 uid=0 gid=0", "device="),
        ("./x type=file mode=755 uid=0 gid=0 contents=missing", "line 1: x: missing: no such file"),
        ("./bin/sh uname=nosuchuser", "spec: line 1: uname=nosuchuser: there is no such name"),
    ] {
        bench.write("spec", spec);
        bench.fails("import -F spec t a.img", 1, &[reason]);
        bench.fails("import -s 4m -F spec t a.img", 1, &[reason]);
        assert!(!bench.path("a.img").exists(), "{spec}");
    }
    bench.write("spec", "\n./bin/sh mode=0500\n");
    bench.fails(
        "import -F spec t b.img",
        1,
        &["spec: line 2: bin/sh: is another name of bin/ash, and must be listed with the same attributes"],
    );
    bench.fails("import -x t b.img", 2, &["-F"]);
    bench.write("source", "#mtree\n");
    bench.fails("import -F spec source b.img", 2, &["-F"]);
    bench.fails("import -F nospec t b.img", 1, &["nospec: no such file"]);
}

/// Promise: owners and device nodes that fakeroot pretends are those of the image, as with tar, for
/// an ordinary user too; so an image can be unpacked, changed and packed again.
#[test]
fn fakeroot_is_believed() {
    let bench = Bench::new();
    let spindle = env!("CARGO_BIN_EXE_spindle");
    bench.shell(&format!(
        "chmod 755 .; mkdir w; chmod 777 w; cd w; cat >script <<'END'
mkdir -p t/dev; mknod t/dev/console c 5 1; mknod t/dev/sda b 8 0; mkfifo t/pipe; printf x >t/file
chown 12:34 t/file; chown -h 56:78 t/dev; chmod 4755 t/file; chmod 620 t/dev/console; chown 1:2 t/dev/console
touch -h -d @1000000000 t t/dev t/dev/console t/dev/sda t/pipe t/file
{spindle} import t a.img; tar -cf t.tar -C t .
{spindle} import t.tar b.img; {spindle} export a.img c.tar; tar -tvf c.tar --numeric-owner >c.txt
{spindle} export a.img out; stat -c '%n %F %u %g %t %T' out/dev/console >out.txt
chown 13:35 out/file; {spindle} import out c.img; {spindle} cp -a a.img:/ again; {spindle} import again d.img
END
        setpriv --reuid=65534 --regid=65534 --clear-groups fakeroot sh -e script; test -f t/dev/console"
    ));
    assert_eq!(bench.json("stat --json w/c.img:/file")[0]["uid"], 13);
    for image in ["w/a.img", "w/b.img", "w/d.img"] {
        bench.check(image);
        let stat = bench.ok(&format!("ls -l {image}:/dev"));
        assert!(stat.contains("crw--w----") && stat.contains("brw-r--r--"), "{stat}");
        let file = &bench.json(&format!("stat --json {image}:/file"))[0];
        assert_eq!((&file["uid"], &file["gid"]), (&12.into(), &34.into()), "{file}");
        let dev = &bench.json(&format!("stat --json {image}:/dev"))[0];
        assert_eq!((&dev["uid"], &dev["gid"]), (&56.into(), &78.into()), "{dev}");
    }
    let listed = bench.shell("cat w/c.txt");
    assert!(
        listed.contains("crw--w---- 1/2 ") && listed.contains(" 5,1 ") && listed.contains("12/34"),
        "{listed}"
    );
    let out = bench.shell("cat w/out.txt");
    assert_eq!(out, "out/dev/console character special file 1 2 5 1\n");
}

/// Promise: with `SOURCE_DATE_EPOCH` two runs give the same bytes, whatever the access times are;
/// later times of files become it and earlier ones stay; `--timestamp` wins; nonsense is refused.
#[test]
fn source_date_epoch_makes_images_reproducible() {
    let bench = Bench::new();
    make_tree(&bench);
    bench.shell("touch -d @1700000000 t/etc/rc; touch -d @1600000000.5 t/etc/extra");
    let spindle = env!("CARGO_BIN_EXE_spindle");
    let import = |epoch: &str, words: &str, image: &str| {
        bench.shell(&format!("SOURCE_DATE_EPOCH={epoch} {spindle} import {words} {image}"));
    };
    for format in ["-O2", "-O1", "-t sysv"] {
        bench.shell("rm -f *.img");
        let tree = if format == "-t sysv" { "t/etc" } else { "t" };
        import("1650000000", &format!("{format} {tree}"), "a.img");
        bench.shell("touch -a t/etc/rc t/bin/sh t/bin; sleep 1.1");
        import("1650000000", &format!("{format} {tree}"), "b.img");
        bench.shell("cmp a.img b.img");
        bench.check("a.img");
        let at = |name: &str| bench.json(&format!("stat --json a.img:{name}"))[0]["mtime"].to_string();
        let dir = if format == "-t sysv" { "" } else { "/etc" };
        assert_eq!(at(&format!("{dir}/rc")), "\"2022-04-15T05:20:00.000000000Z\"");
        assert!(at(&format!("{dir}/extra")).starts_with("\"2020-09-13T12:26:40."));
    }
    import("1650000000", "--timestamp 86400 t", "c.img");
    bench.ok("import --timestamp 86400 t d.img");
    bench.shell("cmp c.img d.img");
    bench.shell(&format!("SOURCE_DATE_EPOCH=5 {spindle} newfs -s 4m e.img; SOURCE_DATE_EPOCH=5 {spindle} newfs -s 4m f.img; cmp e.img f.img"));
    // An empty value is none.
    import("", "t", "empty.img");
    let wrong = bench.shell(&format!(
        "SOURCE_DATE_EPOCH=now {spindle} import t g.img 2>&1 || echo failed $?; ! test -e g.img"
    ));
    assert!(wrong.contains("SOURCE_DATE_EPOCH is now") && wrong.contains("failed 1"), "{wrong}");

    // A build may end with changes of the image.
    let change = |image: &str| {
        let (end, dir) = (format!("{image}:/"), format!("{image}:/made"));
        bench.shell(&format!(
            "export SOURCE_DATE_EPOCH=1800000000; {spindle} import t {image}; {spindle} mkdir {dir}; \
             {spindle} cp t/etc/rc {dir}/; {spindle} touch {end}new; {spindle} rm {end}new"
        ));
    };
    change("i.img");
    std::thread::sleep(std::time::Duration::from_millis(20));
    change("j.img");
    bench.shell("cmp i.img j.img");
    let times = bench.ok("stat i.img:/made/rc");
    assert!(times.contains("2027-01-15"), "{times}");
}
