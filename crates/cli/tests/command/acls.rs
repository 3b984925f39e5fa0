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

/// Promise: lists of `NFSv4` are enforced on mounts that users have: one who is named may do what
/// the permission bits refuse, one who is denied may not do what they allow, on each step of a
/// path, with all groups, also where the kernel has seen the names; a new list shows its permission
/// bits at once; and lists travel through tar streams and other images.
#[test]
fn nfs4_lists_on_mounts() {
    let bench = Bench::new();
    bench.ok("newfs -s 32m a.img");
    bench.ok("tunefs -N enable a.img");
    // Entries in XDR: type, flags, mask, length of the name, name.
    bench.write(
        "lists",
        "allow=0000000000000000 deny=0000000100000000
         u1001=0000000431303031 g50=0000000235300000
         everyone=0000000945564552594f4e4540000000 owner=000000064f574e4552400000
         put() { setfattr -h -n system.nfs4_acl -v 0x$1 $2; }
         as() { user=$1; shift; setpriv --reuid=$user --regid=$user --groups=$user,$GROUPS_TOO \"$@\"; }
         refused() { ! as \"$@\" 2>/dev/null; }",
    );
    let script = format!(
        "spindle={}; {}",
        env!("CARGO_BIN_EXE_spindle"),
        r#"
        chmod 711 .; mkdir mnt; $spindle mount -o allow_other a.img mnt; trap '$spindle umount mnt' EXIT
        case $(grep " $PWD/mnt " /proc/self/mountinfo) in *default_permissions*) exit 1;; esac
        . ./lists; GROUPS_TOO=60
        mkdir -m 700 mnt/d; echo text >mnt/d/f; chmod 600 mnt/d/f; cat mnt/d/f; ls -l mnt/d
        refused 1001 cat mnt/d/f
        refused 1001 ls mnt/d
        refused 1001 sh -c 'cd mnt/d'
        [ $(getfattr --only-values -n system.nfs4_acl mnt/d/f | wc -c) -gt 60 ]
        put 00000002${allow}000000a1$u1001${allow}001f01ff$owner mnt/d
        put 00000002${allow}00000081$u1001${allow}001f01ff$owner mnt/d/f
        [ $(stat -c %a mnt/d/f) = 700 ]
        as 1001 cat mnt/d/f
        as 1001 ls mnt/d
        as 1001 sh -c 'cd mnt/d && test -r f && ! test -w f'
        refused 1001 sh -c 'echo >>mnt/d/f'
        refused 1001 rm -f mnt/d/f
        refused 1001 touch mnt/d/new
        refused 1002 cat mnt/d/f
        cp /bin/true mnt/d/x
        put 00000002${allow}00000001$u1001${allow}001f01ff$owner mnt/d/x
        refused 1001 mnt/d/x
        echo open >mnt/g; chmod 644 mnt/g
        as 1001 cat mnt/g
        put 00000002${deny%00}4000000001$g50${allow}001f01ff$everyone mnt/g
        as 1001 cat mnt/g
        GROUPS_TOO=50; refused 1001 cat mnt/g
        refused 1002 cat mnt/g
        chmod 644 mnt/g; as 1001 cat mnt/g
        put 00000002${deny%00}4000000001$g50${allow}001f01ff$everyone mnt/g"#
    );
    bench.shell(&script);
    bench.check("a.img");
    let listing = bench.ok("ls -l a.img:/");
    assert!(listing.lines().any(|line| line.starts_with("-rwxrwxrwx+") && line.ends_with(" g")), "{listing}");
    bench.ok("newfs -n -s 16m b.img");
    bench.ok("tunefs -N enable b.img");
    bench.ok("export a.img out.tar");
    bench.ok("import out.tar b.img");
    assert_eq!(bench.run("dump -0 -f dump b.img").code, 0);
    bench.ok("newfs -n -s 16m -O2 --endian big c.img");
    bench.ok("tunefs -N enable c.img");
    bench.ok("restore -r -f dump --to c.img");
    for image in ["b.img", "c.img"] {
        let listing = bench.ok(&format!("ls -l {image}:/"));
        assert!(listing.lines().any(|line| line.starts_with("-rwxrwxrwx+")), "{image}: {listing}");
        bench.check(image);
    }
    bench.ok("newfs -n -s 16m none.img");
    let lost = bench.run("import out.tar none.img");
    assert!(lost.code == 1 && lost.err.contains("tunefs -N enable"), "{}", lost.err);
}
