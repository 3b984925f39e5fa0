//! Access control lists on their way between directories, tar streams, dumps and images.

use crate::support::Bench;

/// Makes a tree `t` with lists, its tar stream by GNU tar, and the listings of its lists.
fn tree() -> Bench {
    let bench = Bench::new();
    bench.shell(
        "mkdir -p t/d; echo text >t/f; echo text >t/g; chmod 750 t/f; setfacl -m u:1001:rwx,g:50:r t/f; \
         setfacl -d -m u:1001:rx t/d; setfacl -m u:root:rw t/g; mkfifo t/p; setfacl -m g:7:w t/p; \
         tar --acls -cf t.tar -C t .; (cd t; getfacl -R -n . >../lists)",
    );
    bench
}

/// Promise: lists survive GNU tar's streams, by name and by number, directories, images and tar
/// streams of our own, which GNU tar reads.
#[test]
fn lists_travel() {
    let bench = tree();
    bench.ok("newfs -n -s 16m a.img");
    bench.ok("tunefs -a enable a.img");
    bench.ok("import t.tar a.img");
    bench.ok("export a.img out");
    bench.ok("export a.img out.tar");
    bench.shell("(cd out; getfacl -R -n . | sed '/lost.found/,/^$/d' | diff - ../lists)");
    bench.shell("mkdir x; tar --acls -xpf out.tar -C x; cd x; getfacl -R -n . | sed '/lost.found/,/^$/d' | diff - ../lists");
    bench.check("a.img");
}

/// Promise: where the target has no lists, each file that loses one is named and the exit code is
/// 1, and its group gets what its own entry said, not what the mask let others have; from tar
/// streams, directories and dumps, into images and directories.
#[test]
fn lost_lists_are_named() {
    let bench = tree();
    bench.ok("newfs -n -s 16m lists.img");
    bench.ok("tunefs -a enable lists.img");
    bench.ok("import t.tar lists.img");
    assert_eq!(bench.run("dump -0 -f dump lists.img").code, 0);
    bench.shell("mkdir ramfs; mount -t ramfs none ramfs");
    for (words, target) in [
        ("import t.tar a.img", "a.img:/"),
        ("import t a.img", "a.img:/"),
        ("restore -r -f dump --to a.img", "a.img:/"),
        ("cp -rp t a.img:/t", "a.img:/t/"),
        ("export lists.img ramfs/out", "ramfs/out/"),
    ] {
        bench.ok("newfs -n --force -s 16m a.img");
        let ran = bench.run(words);
        assert_eq!(ran.code, 1, "{words}: {}", ran.err);
        for (name, which) in [("f", ""), ("g", ""), ("p", ""), ("d", "default ")] {
            let wanted = format!("{name}: its {which}access control list is left out: the ");
            let said = ran.err.replace("': its", ": its");
            // The lists of pipes and devices of this machine are not read.
            let is_read = name != "p" || !words.contains(" t ");
            assert_eq!(said.contains(&wanted), is_read, "{words}: {wanted}: {said}");
        }
        let mode = match target.strip_prefix("a.img:") {
            Some(path) => bench.json(&format!("stat --json a.img:{path}f"))[0]["mode"].to_string(),
            None => bench.shell(&format!("stat -c 0%a {target}f")),
        };
        assert!(mode.contains("0750"), "{words}: {mode}");
    }
    bench.shell("umount ramfs");
}

/// Promise: a list that names an unknown user is named and left out, with exit code 1, and the rest
/// of the stream is imported.
#[test]
fn lists_that_cannot_be_read_are_named() {
    let bench = tree();
    bench.ok("newfs -n -s 16m a.img");
    bench.ok("tunefs -a enable a.img");
    bench.shell("sed s/user:root:rw/user:r00t:rw/ t.tar >odd.tar; ! cmp -s odd.tar t.tar");
    let ran = bench.run("import odd.tar a.img");
    assert!(ran.code == 1 && ran.err.lines().count() == 1, "{}", ran.err);
    assert!(ran.err.contains("its access control list is left out: it is not valid"), "{}", ran.err);
    assert_eq!(bench.ok("cat a.img:/g"), "text\n");
}
