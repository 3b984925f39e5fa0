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

/// Promise: -u keeps the date of each level, a dump of a higher level has only what has changed
/// since the last one of a lower level and what leads there, and a chain of them restores the last
/// tree: without what was removed, and with what was moved.
#[test]
fn levels_and_dumpdates() {
    let bench = Bench::new();
    make_tree(&bench);
    assert_eq!(bench.run("import -s 24m t a.img").code, 0);
    let at = |secs: u32, words: &str| {
        let program = env!("CARGO_BIN_EXE_spindle");
        bench.shell(&format!("SOURCE_DATE_EPOCH={secs} {program} dump -D dumpdates {words} 2>&1"))
    };
    // Everything was made now, so the dumps are in the future.
    let start = 4_000_000_000_u32;
    at(start, "-0u -f a.0 a.img");
    bench.ok("mv a.img:/dir/deep/random a.img:/dir/moved");
    bench.ok("rm -r a.img:/dir/empty");
    bench.ok("touch -d @4000000100 a.img:/lines");
    let said = at(start + 200, "-1u -f a.1 a.img");
    assert!(said.contains("level 1 dump of what has changed since 2096-10-02 07:06:40"), "{said}");
    let names = bench.ok("restore -t -f a.1");
    let names: Vec<_> =
        names.lines().filter_map(|line| line.split_once("\t./")).map(|(_, name)| name).collect();
    assert_eq!(names, ["lines"], "times of the clock are before the dumps");
    let dates = bench.shell("cat dumpdates");
    let image = bench.path("a.img").canonicalize().unwrap();
    let line = |level, date| format!("{:32} {level} {date} +0000\n", image.display());
    let wanted = line(0, "Tue Oct  2 07:06:40 2096") + &line(1, "Tue Oct  2 07:10:00 2096");
    assert_eq!(dates, wanted);
    at(start + 300, "-0u -f a.0 a.img");
    assert_eq!(
        bench.shell("cat dumpdates"),
        line(1, "Tue Oct  2 07:10:00 2096") + &line(0, "Tue Oct  2 07:11:40 2096")
    );
    // A dump that is the base of nothing.
    bench.fails(
        "restore -r -f a.1 --to back",
        1,
        &["a.1: is of level 1 and has what has changed since 2096-10-02 07:06:40"],
    );
    bench.fails("restore -r -f a.0 -f a.1 --to back", 1, &["a.1: is of level 1"]);
    assert!(!bench.path("back").exists());
}

/// Promise: what is removed, moved, replaced and made between dumps is so in what is restored.
#[test]
fn chains_restore_the_last_tree() {
    let bench = Bench::new();
    make_tree(&bench);
    assert_eq!(bench.run("import -s 24m t a.img").code, 0);
    dump(&bench, "-0u -f a.0 a.img");
    bench.shell("printf more >new");
    bench.ok("mv a.img:/dir/deep/random a.img:/dir/moved");
    bench.ok("rm -r a.img:/dir/empty a.img:/dir/set");
    bench.ok("cp new a.img:/dir/set");
    bench.shell("sleep 1.1");
    dump(&bench, "-1u -f a.1 a.img");
    assert!(bench.path("a.1").metadata().unwrap().len() < bench.path("a.0").metadata().unwrap().len() * 2);
    bench.ok("mv a.img:/dir/deep a.img:/dir/deeper");
    bench.ok("rm a.img:/lines");
    dump(&bench, "-5 -f a.5 a.img");
    bench.ok("restore -r -f a.0 -f a.1 -f a.5 --to back");
    bench.ok("export a.img wanted");
    assert_eq!(listing(&bench.path("back")), listing(&bench.path("wanted")));
    // The last dump alone has what it has.
    bench.ok("restore -x -f a.5 --to some");
    assert_eq!(bench.shell("cd some; find . | sort"), ".\n./dir\n./dir/deeper\n");
}

/// Promise: names choose files and what is below them, standard input and output are dumps as well,
/// and what is not there is said.
#[test]
fn names_and_pipes() {
    let bench = Bench::new();
    make_tree(&bench);
    assert_eq!(bench.run("import -s 24m t a.img").code, 0);
    let program = env!("CARGO_BIN_EXE_spindle");
    bench.shell(&format!(
        "{program} dump -f - a.img 2>/dev/null | {program} restore -x -f - --to back /dir/deep ./null/ lines"
    ));
    let found = bench.shell("cd back; find . | sort");
    let wanted = ". ./dir ./dir/deep ./dir/deep/again ./dir/deep/deeper ./dir/deep/random ./lines ./null";
    assert_eq!(found.split_whitespace().collect::<Vec<_>>(), wanted.split(' ').collect::<Vec<_>>());
    bench.shell("cmp t/lines back/lines; test \"$(stat -c %Y back/dir)\" = 1234567890");
    dump(&bench, "-f a.0 a.img");
    let list = bench.ok("restore -t -f a.0 dir/deep");
    assert!(list.starts_with("Dump   date: ") && list.contains("\nLabel: none\n"), "{list}");
    assert!(list.contains("\t./dir/deep/again\n") && !list.contains("lines"), "{list}");
    bench.fails("restore -t -f a.0 nothing", 1, &["nothing: is not in the dump"]);
    let ran = bench.run("restore -x -f a.0 --to back nothing lines");
    assert!(ran.code == 1 && ran.err.contains("nothing: is not in the dump"), "{}", ran.err);
    bench.fails("restore -r -f a.0 --to back", 1, &["back: is not empty"]);
    bench.fails("restore -r -f a.0 -f - -f - --to new", 2, &["standard input can be one"]);
    bench.fails("restore -r -f a.0 --to new lines", 2, &["cannot be used with"]);
    bench.fails("restore -f a.0", 2, &["-t", "-x", "-r"]);
    bench.fails("restore -t -f t/lines", 1, &["t/lines: is no dump"]);
    bench.fails("restore -t -f t/none", 1, &["t/none: is empty"]);
    bench.fails("dump -f a.img a.img", 1, &["would overwrite"]);
    bench.fails("dump --label 0123456789abcdef -f a.0 a.img", 2, &["at most 15 bytes"]);
    bench.fails("dump -f x t.img", 1, &["t.img"]);
    bench.fails("dump -u -D none/dumpdates -f x a.img", 1, &["none/dumpdates: no such file"]);
    assert!(!bench.path("x").exists());
}

/// Promise: from the level of -h on, what has the flag nodump is left out, with all below it; the
/// restored tree keeps it as the last dump had it that has it.
#[test]
fn nodump_is_honoured() {
    let bench = Bench::new();
    make_tree(&bench);
    assert_eq!(bench.run("import -s 24m t a.img").code, 0);
    bench.ok("chflags nodump a.img:/dir/deep a.img:/lines");
    let names = |file: &str| {
        let list = bench.ok(&format!("restore -t -f {file}"));
        list.lines()
            .filter_map(|line| line.split_once("\t./"))
            .map(|(_, name)| name.to_owned())
            .collect::<Vec<_>>()
    };
    bench.shell("sleep 1.1");
    dump(&bench, "-0u -f a.0 a.img");
    assert!(names("a.0").contains(&"dir/deep/random".to_owned()));
    dump(&bench, "-0 -h 0 -f a.h a.img");
    let without = names("a.h");
    assert!(!without.iter().any(|name| name.starts_with("dir/deep") || name == "lines"), "{without:?}");
    assert!(without.contains(&"dir/file".to_owned()));
    let ran = bench.run("restore -r -f a.h --to back");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("note: 2 names belong to files that are not in the dump"), "{}", ran.err);
    bench.shell("rm -rf back; printf changed >new");
    bench.ok("touch a.img:/lines a.img:/dir/deep/random a.img:/none");
    bench.ok("cp new a.img:/dir/deep/new");
    dump(&bench, "-1 -f a.1 a.img");
    assert_eq!(names("a.1"), ["none"]);
    let ran = bench.run("restore -r -f a.0 -f a.1 --to back");
    assert!(ran.code == 0 && ran.err.contains("left out: 2 sets of file flags"), "{}", ran.err);
    bench.shell(
        "cmp back/lines t/lines; cmp back/dir/deep/random t/dir/deep/random; test ! -e back/dir/deep/new",
    );
}

/// Promise: logs and journals are never dumped.
#[test]
fn logs_are_not_dumped() {
    let bench = Bench::new();
    bench.ok("newfs -s 24m --log a.img");
    assert!(bench.ok("ls -a a.img").contains(".spindlelog"));
    dump(&bench, "-0 -f a.0 a.img");
    assert!(!bench.ok("restore -t -f a.0").contains("spindlelog"));
    bench.ok("restore -r -f a.0 --to back");
    assert_eq!(bench.shell("ls -A back"), ".snap\n");
}

/// Promise: a dump of a damaged image goes on past what cannot be read, lists it, fails, and is not
/// entered into dumpdates; a restore of a damaged dump does the same.
#[test]
fn damage_is_passed() {
    let bench = Bench::new();
    make_tree(&bench);
    assert_eq!(bench.run("import -s 24m t a.img").code, 0);
    dump(&bench, "-f whole a.img");
    // The directory of deep/ cannot be read.
    let block = bench.ok("debug a.img blocks /dir/deep");
    let frag: u64 = block.split_whitespace().filter_map(|word| word.parse().ok()).max().unwrap_or(0);
    assert!(frag > 0, "{block}");
    bench.shell(&format!("dd if=/dev/urandom of=a.img bs=4096 seek={frag} count=1 conv=notrunc status=none"));
    let ran = bench.run("dump -u -D dumpdates -f a.0 a.img");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("corrupt: d_reclen"), "{}", ran.err);
    assert!(!bench.path("dumpdates").exists());
    assert_eq!(bench.run("restore -x -f a.0 --to back").code, 0);
    bench.shell("cmp back/lines t/lines; cmp back/dir/file t/dir/file; test ! -e back/dir/deep/random");
    // A record of the stream is lost.
    let bytes = std::fs::read(bench.path("whole")).unwrap();
    bench.write("damaged", [&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2 + 1024..]].concat());
    let ran = bench.run("restore -r -f damaged --to back2");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains("damaged: record ") && ran.err.contains("things in the dump are damaged"),
        "{}",
        ran.err
    );
    bench.shell("cmp back2/lines t/lines");
    bench.write("cut", &bytes[..40_000]);
    let ran = bench.run("restore -r -f cut --to back3");
    assert!(ran.code == 1 && ran.err.contains("without the record that ends a dump"), "{}", ran.err);
    bench.write("old", [&[0; 24][..], &60_011_u32.to_le_bytes(), &[0; 2000]].concat());
    bench.fails("restore -t -f old", 1, &["old: is a dump of a system before 4.2BSD"]);
}

/// Runs `spindle` at a terminal of its own, with these lines typed.
fn at_terminal(bench: &Bench, words: &str, typed: &str) -> String {
    let program = env!("CARGO_BIN_EXE_spindle");
    bench.shell(&format!("printf '{typed}' | script -qec '{program} {words}' /dev/null"))
}

/// Promise: a dump in volumes is restored as one in a single file: in volumes of a size, by names
/// or by a prefix, and in volumes that are as large as their disks have room.
#[test]
fn volumes_round_trip() {
    let bench = Bench::new();
    make_tree(&bench);
    assert_eq!(bench.run("import -s 24m t a.img").code, 0);
    bench.ok("export a.img wanted");
    let same = |what: &str| {
        assert_eq!(listing(&bench.path("back")), listing(&bench.path("wanted")), "{what}");
        bench.shell("rm -rf back");
    };
    dump(&bench, "-0 -B 1009 -M -f v. a.img");
    let sizes = bench.shell("stat -c '%n %s' v.*");
    assert!(sizes.starts_with("v.001 1024000\nv.002 1024000\nv.003 1024000\nv.004 "), "{sizes}");
    bench.ok("restore -r -M -f v. --to back");
    same("-M");
    bench.ok("restore -r -f v.001,v.002,v.003,v.004 --to back");
    same("names");
    at_terminal(&bench, "restore -r -f v.001,v.002 --to back", "nothing\\nv.003\\nv.004\\n");
    same("asked");
    bench.shell("mkdir -p m1 m2; mount -t tmpfs -o size=1500k x m1; mount -t tmpfs -o size=300k x m2");
    let ran = bench.run("dump -D dumpdates -f m1/a,m2/b,c a.img");
    let sizes = bench.shell("stat -c %s m1/a m2/b; cp m1/a m2/b .; umount m1 m2");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let sizes: Vec<u64> = sizes.lines().map(|size| size.parse().unwrap()).collect();
    assert!(sizes.iter().all(|size| size % 10_240 == 0) && sizes[0] > 1_400_000 && sizes[1] > 200_000);
    bench.ok("restore -r -f a,b,c --to back");
    same("full disks");
}

/// Promise: nothing is written over by a volume: not another one, not a file of another kind, and
/// what was there stays if the dump fails. What is missing of a dump is said when it is restored.
#[test]
fn volumes_that_cannot_be() {
    let bench = Bench::new();
    make_tree(&bench);
    assert_eq!(bench.run("import -s 24m t a.img").code, 0);
    bench.write("text", "a text");
    bench.fails("dump -0 -B 1000 -f v1,text a.img", 1, &["text: contains", "would overwrite"]);
    bench.fails("dump -0 -B 1000 -f v1,v1 a.img", 2, &["two volumes have the same name"]);
    bench.fails("dump -0 -B 1000 -f - a.img", 2, &["standard output has no volumes"]);
    bench.fails("dump -0 -B 9 -f v1 a.img", 2, &["9"]);
    bench.fails("dump -0 -f - -M a.img", 2, &["standard output has no volumes"]);
    dump(&bench, "-0 -f v1 a.img");
    bench.shell("cp v1 before; cp v1 v2; ln -s v1 v3; rm -f v4");
    let ran = bench.run("dump -u -D dates -B 1000 -f v1,v3,v4 a.img");
    assert!(ran.code == 1 && ran.err.contains("v3: is a volume of this dump already"), "{}", ran.err);
    let ran = bench.run("dump -u -D dates -B 1000 -f v4,v2 a.img");
    assert!(ran.code == 1 && ran.err.contains("there is no name for volume 3"), "{}", ran.err);
    bench.shell("cmp v1 before; test ! -e dates");
    // At a terminal the last name is asked for, and a volume that is still there stays.
    bench.shell("rm v1 v2");
    let said = at_terminal(&bench, "dump -0 -B 3000 -f v1 a.img || true", "y\\nn\\ny\\n");
    assert!(said.contains("is volume 2 ready") && said.contains("v1: is a volume of this dump"), "{said}");
    dump(&bench, "-0 -B 1000 -M -f w a.img");
    let ran = bench.run("restore -r -f w001,w003,w004 --to back");
    assert!(ran.code == 1 && ran.err.contains("volume 2 is missing"), "{}", ran.err);
    bench.fails("restore -t -f w002", 1, &["w002: is volume 2 of a dump; give the volumes in order"]);
    let ran = bench.run("restore -r -f w001,w001 --to back2");
    assert_eq!(ran.code, 2, "{}", ran.err);
    let ran = bench.run("restore -r -f w001 --to back3");
    assert!(ran.code == 1 && ran.err.contains("without the record that ends a dump"), "{}", ran.err);
}

/// Promise: a session extracts what was chosen in it and nothing else, as often as wanted; what is
/// wrong ends a session without a terminal, and no session with one.
#[test]
fn sessions_extract_what_is_chosen() {
    let bench = Bench::new();
    make_tree(&bench);
    assert_eq!(bench.run("import -s 24m t a.img").code, 0);
    dump(&bench, "-0 -f a.0 a.img");
    let program = env!("CARGO_BIN_EXE_spindle");
    let session = |options: &str, lines: &str| {
        bench.shell(&format!(
            "printf '{lines}' | {program} restore -i -f a.0 {options} 2>&1 || echo \"code $?\""
        ))
    };
    let found = |dir: &str| bench.shell(&format!("cd {dir}; find . | sort")).replace('\n', " ");
    let said =
        session("--to back", "cd dir\\npwd\\nadd deep s*\\ndelete deep/random\\nls\\nextract\\nls .\\n");
    assert!(said.starts_with("/dir\n/dir:\n*deep/\n empty/\n file\n*set\n*soft\n/dir:\n deep/\n"), "{said}");
    assert_eq!(found("back"), ". ./dir ./dir/deep ./dir/deep/again ./dir/deep/deeper ./dir/set ./dir/soft ");
    bench.shell("cmp t/dir/file back/dir/deep/again; test \"$(stat -c %Y back/dir)\" = 1234567890");
    let said = session(
        "--to two",
        "add lines\\nex\\nwhat; verbose\\nls long\\nadd none\\nextract\\nquit\\nadd x\\n",
    );
    assert!(said.contains("Label: none\nverbose mode on\n") && said.contains(" long\n"), "{said}");
    assert!(said.contains("x ./none\n") && !said.contains("code"), "{said}");
    assert_eq!(found("two"), ". ./lines ./none ");
    // Directories get back what they had.
    bench.shell("chmod 700 back/dir; touch back/dir; rm -r back/dir/deep");
    session("--to back", "add dir\\nsetmodes\\n");
    assert_eq!(bench.shell("stat -c '%a %Y' t/dir"), bench.shell("stat -c '%a %Y' back/dir"));
    assert_eq!(found("back"), ". ./dir ./dir/set ./dir/soft ");
    bench.ok("newfs -n -s 24m b.img");
    session("--to b.img", "add dir/deep\\nextract\\n");
    bench.ok("cat b.img:/dir/deep/again");
    bench.check("b.img");
    for (lines, message) in [
        ("add nothing", "line 1: nothing: is not in the dump"),
        ("pwd\\nextract", "line 2: nothing is chosen"),
        ("walk", "walk: no such command"),
        ("cd dir/file", "/dir/file: not a directory"),
    ] {
        let said = session("--to three", lines);
        assert!(said.contains(message) && said.contains("code 1"), "{lines}: {said}");
    }
    assert!(!bench.path("three").exists());
    let said =
        at_terminal(&bench, "restore -i -h -f a.0 --to four", "add nothing\\nadd dir\\nextract\\nquit\\n");
    assert!(said.contains("restore > ") && said.contains("nothing: is not in the dump"), "{said}");
    assert_eq!(found("four"), ". ./dir ");
    bench.fails("restore -i -f -", 2, &["name the file of the dump"]);
    bench.fails("restore -i -f a.0 lines", 2, &["cannot be used with"]);
}

/// Promise: -C names every file that differs from the dump, and how, in directories and images, and
/// changes nothing; what the dump does not have is not looked at.
#[test]
fn dumps_are_compared() {
    let bench = Bench::new();
    make_tree(&bench);
    assert_eq!(bench.run("import -s 24m t a.img").code, 0);
    dump(&bench, "-0 -f a.0 a.img");
    bench.ok("restore -r -f a.0 --to back");
    bench.ok("newfs -n -s 24m b.img");
    bench.ok("restore -r -f a.0 --to b.img");
    for same in ["back", "b.img", "a.img"] {
        assert_eq!(bench.ok(&format!("restore -C -f a.0 --to {same}")), "");
    }
    let sum = bench.shell("sha256sum b.img");
    bench.shell(
        "cd back; : >new; rm none; chmod 600 lines; printf x | dd of=hole bs=1 seek=2999999 conv=notrunc status=none
        touch -h -d @1234567890.123456789 hole lines; ln -sfn elsewhere long; rm dir/deep/again; cp -p dir/file dir/deep/again
        setfattr -n user.three -v 3 dir; rm pipe; mkdir pipe; chown 7 null; touch -h -d @1234567890.123456789 dir dir/deep .",
    );
    let ran = bench.run("restore -C -f a.0 --to back");
    assert_eq!(ran.code, 1, "{}", ran.err);
    for said in [
        "back/none: no such file",
        "back/lines: has the permissions 0644 in the dump, and here 0600",
        "back/hole: differs from byte 2999999 on",
        "back/long: leads to ",
        "back/dir/file: is not the same file as dir/deep/again",
        "back/dir: has other extended attributes",
        "back/pipe: is a named pipe in the dump, and here a directory",
        "back/null: belongs to 0:0 in the dump, and here to 7:0",
    ] {
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
    for same in ["new", "random", "back/dir/set", "empty"] {
        assert!(!ran.err.contains(same), "{same}: {}", ran.err);
    }
    bench.ok("restore -C -f a.0 --to back dir/set disk");
    assert_eq!(bench.shell("sha256sum b.img"), sum);
    bench.ok("chmod 600 b.img:/dir/deep/random");
    let ran = bench.run("restore -C -f a.0 --to b.img");
    assert!(ran.code == 1 && ran.err.contains("/dir/deep/random: has the permissions"), "{}", ran.err);
    bench.fails("restore -C -f a.0 --to nowhere", 1, &["nowhere"]);
    assert!(!bench.path("nowhere").exists());
}

/// Promise: -N reads the dump to its end, notices what is missing and writes nothing; -X names what
/// is wanted, and -h takes directories alone.
#[test]
fn reading_alone_and_lists_of_names() {
    let bench = Bench::new();
    make_tree(&bench);
    assert_eq!(bench.run("import -s 24m t a.img").code, 0);
    dump(&bench, "-0 -f a.0 a.img");
    bench.ok("restore -r -N -f a.0 --to back");
    let listed = bench.ok("restore -x -v -N -f a.0 --to back dir/deep");
    assert_eq!(listed, "x ./dir/deep/again\nx ./dir/deep/random\n");
    let bytes = std::fs::read(bench.path("a.0")).unwrap();
    bench.write("cut", &bytes[..bytes.len() / 2]);
    let ran = bench.run("restore -r -N -f cut --to back");
    assert!(ran.code == 1 && ran.err.contains("without the record that ends a dump"), "{}", ran.err);
    assert!(!bench.path("back").exists());
    bench.write("list", "./dir/set\n\nlines\n");
    bench.ok("restore -x -f a.0 -X list --to back none");
    assert_eq!(bench.shell("cd back; find . -type f | sort"), "./dir/set\n./lines\n./none\n");
    let list = bench.ok("restore -t -h -f a.0 dir");
    assert!(list.contains("\t./dir\n") && !list.contains("./dir/"), "{list}");
    bench.write("empty", "\n");
    bench.fails("restore -x -f a.0 -X empty --to back2", 1, &["empty: has no names"]);
}
