//! The commands newfs, info and fsck.

use crate::support::Bench;

/// Promise: in every format, info shows what newfs was asked for, and the file system has no
/// damage.
#[test]
fn newfs_makes_every_format() {
    let bench = Bench::new();
    for (args, version, dialect, order) in [
        ("-O2", "UFS2", "FreeBSD", "little"),
        ("-O2 --endian big -b 65536 -f 65536", "UFS2", "FreeBSD", "big"),
        ("-O2 --dialect netbsd", "UFS2", "NetBSD", "little"),
        ("-O1 --dialect openbsd -b 8192 -f 1024", "UFS1", "OpenBSD", "little"),
        ("-O1 --sectors-per-track 63 --tracks-per-cylinder 16 --rpm 3600", "UFS1", "4.4BSD", "little"),
        ("-O0", "UFS1", "4.3BSD", "little"),
    ] {
        bench.shell("rm -f a.img");
        let made = bench.json(&format!("newfs --json -s 32m {args} a.img"));
        assert_eq!(
            (&made["version"], &made["byte_order"]),
            (&version.into(), &order.into()),
            "{args}: {made}"
        );
        let output = bench.json("info --json a.img");
        let found = &output["file_system"];
        assert_eq!(found["version"], version, "{args}");
        assert_eq!(found["byte_order"], order, "{args}");
        assert_eq!((&found["clean"], &found["writable"]), (&true.into(), &true.into()), "{args}: {found}");
        // A dialect that differs from 4.4BSD only in later changes is detected as 4.4BSD.
        let seen = found["dialect"].as_str().unwrap();
        assert!(seen == dialect || seen == "4.4BSD", "{args}: {seen}");
        for (made_as, found_as) in
            [("fs_bsize", "fs_bsize"), ("fs_ncg", "fs_ncg"), ("free_bytes", "free_bytes")]
        {
            assert_eq!(made[made_as], found[found_as], "{args}: {made_as}");
        }
        bench.check("a.img");
    }
}

/// Promise: the root directory of a new file system of any format has the owner that --root-owner
/// names, also when it is filled from a directory of another owner. What a format cannot store is
/// refused.
#[test]
fn root_owners() {
    let bench = Bench::new();
    let owner = |image: &str| {
        let root = &bench.json(&format!("stat --json {image}:/"))[0];
        (root["uid"].as_u64().unwrap(), root["gid"].as_u64().unwrap())
    };
    for args in ["-O2", "-O1", "-O0", "-O1 --dialect sun", "-t mfs", "-t v7", "-t sysv"] {
        for (option, wanted) in [("", (0, 0)), ("--root-owner=1234:56789", (1234, 56789))] {
            bench.shell("rm -f a.img");
            bench.ok(&format!("newfs -s 64m {args} {option} a.img"));
            assert_eq!(owner("a.img"), wanted, "{args} {option}");
            bench.ok("fsck -n a.img");
        }
    }
    bench.ok("newfs -s 16m -O1 --force --root-owner=70000:4000000000 a.img");
    assert_eq!(owner("a.img"), (70000, 4_000_000_000));
    bench.ok("newfs -s 16m --force --root-owner a.img");
    let caller = bench.shell("echo $(id -ru) $(id -rg)");
    assert_eq!(format!("{} {}\n", owner("a.img").0, owner("a.img").1), caller);
    for args in ["-t v7", "-O0"] {
        bench.fails(&format!("newfs -s 16m {args} --root-owner=70000:0 b.img"), 1, &["root owner", "65535"]);
        assert!(!bench.path("b.img").exists());
    }
    bench.fails("newfs -s 16m --root-owner=me b.img", 2, &["1000:1000"]);
    bench.shell("mkdir src; touch src/f");
    bench.ok("import --root-owner=5:6 src c.img");
    assert_eq!(owner("c.img"), (5, 6));
    bench.fails("import --root-owner=7:8 src c.img", 2, &["new file system"]);
    bench.check("c.img");
}

/// Promise: a dry run prints the same and writes nothing; the size is exact; the same timestamp
/// gives the same image.
#[test]
fn dry_runs_and_reproducible_images() {
    let bench = Bench::new();
    let planned = bench.json("newfs -N --json -s 16m a.img");
    assert!(!bench.path("a.img").exists() && planned["written"] == false);
    bench.ok("newfs --timestamp 1000 -s 16m a.img");
    bench.ok("newfs --timestamp 1000 -s 16m b.img");
    assert_eq!(bench.path("a.img").metadata().unwrap().len(), 16 << 20);
    bench.shell("cmp a.img b.img");
    assert_eq!(planned["size_bytes"], 16 << 20);
}

/// Promise: a file system or partition table is not overwritten without --force, and a failed
/// command leaves no file behind.
#[test]
fn existing_file_systems_are_not_overwritten() {
    let bench = Bench::new();
    bench.ok("newfs -s 16m a.img");
    let before = std::fs::read(bench.path("a.img")).unwrap();
    bench.fails("newfs a.img", 1, &["a.img", "a UFS2 file system of FreeBSD already", "--force"]);
    bench.fails("import -s 16m . a.img", 1, &["already", "--force"]);
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    bench.ok("newfs --force -O1 a.img");
    bench.shell("truncate -s 64M disk.img; echo 'label: dos\nstart=2048, type=a5' | sfdisk -q disk.img");
    bench.fails("newfs disk.img", 1, &["partition table", "s1", "IMAGE@PARTITION"]);
    bench.ok("newfs disk.img@s1");
    bench.fails("newfs missing.img", 1, &["does not exist", "-s"]);
    bench.fails("newfs -s 10k small.img", 1, &["small.img", "size"]);
    assert!(!bench.path("small.img").exists());
    bench.fails("newfs -s 16m -b 5000 odd.img", 1, &["block size"]);
    assert!(!bench.path("odd.img").exists());
    bench.fails("newfs -s 16m -O 3 odd.img", 2, &["--format", "0..=2"]);
    bench.fails("newfs -s 1x odd.img", 2, &["k, m, g or t"]);
}

/// Promise: info lists the partitions, their file systems and their names, as text and as JSON.
#[test]
fn info_of_a_partitioned_disk() {
    let bench = Bench::new();
    bench.shell("truncate -s 96M disk.img; printf 'label: gpt\nstart=2048, size=65536\nsize=65536\n' | sfdisk -q disk.img");
    bench.ok("newfs disk.img@p1");
    bench.ok("newfs -O1 --endian big --dialect sun disk.img@p2");
    let output = bench.json("info --json disk.img");
    assert_eq!(output["label"], "GPT");
    let partitions = output["partitions"].as_array().unwrap();
    assert_eq!(partitions.len(), 2);
    assert_eq!(partitions[0]["file_system"]["version"], "UFS2");
    assert_eq!(partitions[1]["file_system"]["byte_order"], "big");
    let text = bench.ok("info disk.img");
    assert!(
        text.contains("p1") && text.contains("UFS2 of FreeBSD") && text.contains("disk.img@p1"),
        "{text}"
    );
    bench.ok("mkdir disk.img@p2:/dir");
    assert_eq!(bench.ok("ls disk.img@p2"), "dir\nlost+found\n");
    bench.check("disk.img@p1");
    bench.check("disk.img@p2");
    // Both partitions at once, though the disk is locked as a whole.
    bench.ok("cp -r disk.img@p2:/dir disk.img@p1:/");
    assert_eq!(bench.ok("ls disk.img@p1"), "dir\n");
    bench.fails("info disk.img@p7", 1, &["no partition p7", "p1, p2"]);
}

/// Promise: if only one partition of a disk has a file system, the name of the disk means that
/// partition, for reads, checks and changes; if several have one, commands ask for a name and
/// change nothing.
#[test]
fn a_disk_means_its_only_file_system() {
    let bench = Bench::new();
    // The superblock of a UFS1 that starts in sector 496 is at a place where the whole disk could
    // have one.
    for (format, start) in [(2, 2048), (1, 496), (1, 63)] {
        bench.shell(&format!(
            "rm -f disk.img; truncate -s 64M disk.img; echo 'label: dos\nstart={start}, type=a5' | sfdisk -q disk.img"
        ));
        bench.ok(&format!("newfs -O{format} disk.img@s1"));
        let output = bench.ok("fsck -n disk.img");
        assert!(output.contains("disk.img@s1: no problems found"), "{output}");
        bench.ok("mkdir disk.img:/dir");
        assert!(bench.ok("ls disk.img").contains("dir\n"));
        bench.ok("tunefs -L name disk.img");
        bench.check("disk.img@s1");
    }
    bench.shell("rm disk.img; truncate -s 96M disk.img; printf 'label: gpt\nstart=2048, size=65536\nsize=65536\n' | sfdisk -q disk.img");
    bench.fails(
        "fsck -n disk.img",
        8,
        &["disk.img: has several partitions; name one of disk.img@p1 (nothing but zeros at its start, 32M), disk.img@p2 ("],
    );
    bench.ok("newfs disk.img@p2");
    bench.check("disk.img");
    bench.ok("newfs disk.img@p1");
    bench.shell("cp disk.img before");
    for (words, code) in [
        ("fsck -n disk.img", 8),
        ("fsck -y disk.img", 8),
        ("ls disk.img:/", 1),
        ("mkdir disk.img:/dir", 1),
        ("tunefs -L name disk.img", 1),
        ("mount disk.img .", 32),
    ] {
        bench.fails(
            words,
            code,
            &[
                "disk.img: has several partitions; name one of ",
                "disk.img@p1 (UFS2, 32M), ",
                "disk.img@p2 (UFS2, ",
            ],
        );
    }
    bench.shell("cmp disk.img before");
}

/// Promise: the counts of the cylinder groups add up to those of the file system.
#[test]
fn info_of_groups() {
    let bench = Bench::new();
    bench.ok("newfs -s 64m a.img");
    bench.ok("mkdir a.img:/a a.img:/b");
    let output = bench.json("info --groups --json a.img");
    let sum = |field: &str| -> i64 {
        output["groups"].as_array().unwrap().iter().map(|group| group[field].as_i64().unwrap()).sum()
    };
    for field in ["cs_ndir", "cs_nbfree", "cs_nifree", "cs_nffree"] {
        assert_eq!(output["file_system"][field].as_i64().unwrap(), sum(field), "{field}");
    }
    assert!(bench.ok("info -g 1-2 a.img").contains("\ncg 2: "));
    bench.fails("info -g 99 a.img", 1, &["no cylinder group 99"]);
    bench.fails("info -g 3-1 a.img", 2, &["range"]);
}

/// Promise: fsck exits with 0 without damage, with 4 if there is damage, with 1 if it has repaired
/// it and with 8 if it cannot check; without -p and -y it never writes. A repair can be taken
/// back.
#[test]
fn exit_codes_of_fsck() {
    let bench = Bench::new();
    bench.ok("newfs -s 16m a.img");
    assert_eq!(bench.json("fsck -n --json a.img")["clean"], true);
    bench.ok("fsck -p a.img");
    // Damages the maps of the first cylinder group.
    bench.shell("dd if=/dev/zero bs=1 count=64 seek=$((32 * 4096 + 300)) conv=notrunc of=a.img status=none");
    let before = std::fs::read(bench.path("a.img")).unwrap();
    let ran = bench.run("fsck -n a.img");
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("found") && ran.out.contains("** "), "{}", ran.out);
    bench.fails("fsck -y --undo no/such/place a.img", 8, &["undo file", "No such file"]);
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    let found = bench.run("fsck -n --json a.img");
    assert!(found.out.contains("correct the cylinder group"), "{}", found.out);
    // A disk that is full leaves no file either.
    let full =
        "trap '' XFSZ; ulimit -f 0; ! $SPINDLE fsck -y --undo undo a.img >/dev/null 2>&1; ! test -e undo";
    bench.shell(&full.replace("$SPINDLE", env!("CARGO_BIN_EXE_spindle")));
    let ran = bench.run("fsck -y --undo undo a.img");
    assert!(ran.code == 1 && ran.out.contains("all problems repaired"), "{}{}", ran.out, ran.err);
    bench.check("a.img");
    assert_eq!(bench.run("fsck -y a.img").code, 0);
    bench.shell("cp a.img changed.img");
    bench.ok("mkdir changed.img:/x");
    bench.fails("fsck --undo-with undo changed.img", 8, &["not those that the repair has left"]);
    bench.check("changed.img");
    bench.ok("fsck --undo-with undo a.img");
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    bench.shell("cp undo spoilt; printf x | dd of=spoilt bs=1 seek=99 conv=notrunc status=none");
    bench.fails("fsck --undo-with spoilt a.img", 8, &["damaged"]);
    bench.fails("fsck -y --undo undo a.img", 8, &["undo", "exists"]);
    // On a terminal it asks.
    let asked = format!("script -qec '{} fsck ask.img' /dev/null", env!("CARGO_BIN_EXE_spindle"));
    bench.shell(&format!("cp a.img ask.img; printf 'n\\n' | {asked} || test $? = 4; cmp a.img ask.img"));
    bench.shell(&format!("yes y | head -n 20 | {asked} > log || test $? = 1; grep 'problems repaired' log"));
    bench.check("ask.img");
    bench.write("none.img", [0; 4096]);
    bench.fails("fsck -n none.img", 8, &["none.img", "superblock"]);
    bench.fails("fsck -n missing.img", 8, &["missing.img", "No such file"]);
}

/// Promise: an image that was not unmounted cleanly can be read, and is written only with --force;
/// the message has the reason and the remedy.
#[test]
fn dirty_images_are_not_written() {
    let bench = Bench::new();
    bench.ok("newfs -s 16m a.img");
    bench.ok("mkdir a.img:/d");
    // Clears fs_clean; without check-hashes nothing else becomes wrong.
    bench.ok("newfs --force --no-check-hashes -s 16m a.img");
    bench.shell("printf '\\000' | dd bs=1 seek=$((65536 + 209)) conv=notrunc of=a.img status=none");
    let output = bench.json("info --json a.img");
    assert_eq!(output["file_system"]["writable"], false);
    assert!(bench.ok("info a.img").contains("read-only because it was not unmounted cleanly"));
    assert_eq!(bench.ok("ls -a a.img"), ".\n..\n.snap\n");
    bench.fails("mkdir a.img:/x", 1, &["cannot be written", "not unmounted cleanly", "force"]);
    bench.ok("mkdir --force a.img:/x");
}

/// Promise: the same commands make, show, fill, check and repair old file systems, which are
/// detected by their content; options that only the fast file system has are refused.
#[test]
fn old_file_systems() {
    let bench = Bench::new();
    for (kind, format, version, order) in [
        ("v7", "v7-512-pdp", "Seventh Edition", "PDP"),
        ("bsd", "bsd-1024-le", "32V to 4.1BSD", "little"),
        ("sysv-2048-be", "sysv-2048-be", "System V", "big"),
    ] {
        bench.shell("rm -f a.img");
        bench.ok(&format!("newfs -t {kind} -L root --inodes 200 --gap 5/100 -s 1m a.img"));
        let output = bench.json("info --json a.img");
        let found = &output["file_system"];
        assert_eq!((&found["format"], &found["version"]), (&format.into(), &version.into()));
        assert_eq!((&found["byte_order"], &found["s_fname"]), (&order.into(), &"root".into()));
        assert_eq!((&found["s_m"], &found["s_n"]), (&5.into(), &100.into()));
        bench.shell("mkdir -p tree/dir && echo hello >tree/dir/file && rm -rf out");
        bench.ok("import tree a.img");
        assert_eq!(bench.ok("cat a.img:/dir/file"), "hello\n");
        bench.ok("export a.img out");
        bench.shell("diff -r tree out");
        bench.check("a.img");
        bench.fails("newfs a.img", 1, &["old UNIX file system", format, "--force"]);
    }
    bench.fails("newfs -t v7 -b 4096 -s 1m b.img", 2, &["old file system", "--inodes"]);
    bench.fails("newfs -t v8 -s 1m b.img", 2, &["v8", "sysv"]);
    bench.fails("newfs --gap 3/500 -s 16m b.img", 2, &["--gap", "-t"]);
    bench.fails("newfs -t v7 -s 1k b.img", 1, &["size"]);

    // Sets the number of addresses in the super-block's part of the free list: too few, or too
    // many.
    let nfree =
        |count: &str| format!("printf '{count}\\0' | dd of=a.img bs=1 seek=518 conv=notrunc status=none");
    bench.shell("rm -f a.img");
    bench.ok("newfs -t v7 -s 1m a.img");
    bench.shell(&nfree("\\1"));
    for (words, code, wanted) in
        [("-n", 4, "BLK(S) MISSING"), ("-p", 1, "FILE SYSTEM WAS MODIFIED"), ("-y", 0, "no problems found")]
    {
        let ran = bench.run(&format!("fsck {words} a.img"));
        assert!(ran.code == code && ran.out.contains(wanted), "fsck {words}: {} {}", ran.code, ran.out);
    }
    bench.shell(&nfree("\\377"));
    let ran = bench.run("fsck -n a.img");
    assert!(ran.code == 4 && ran.out.contains("BAD FREE LIST"), "{}", ran.out);
    bench.fails("fsck -y --undo no a.img", 8, &["not UFS"]);
    assert_eq!(bench.run("fsck -p a.img").code, 1);
    bench.check("a.img");
}

/// Promise: newfs at an offset does not write into a file system that begins before it, or within
/// it.
#[test]
fn an_offset_within_a_file_system_is_refused() {
    let bench = Bench::new();
    for args in ["-s 16m", "-t v7 -s 8m", "-t mfs -s 64m"] {
        bench.shell("rm -f a.img");
        bench.ok(&format!("newfs {args} a.img"));
        let before = std::fs::read(bench.path("a.img")).unwrap();
        for kind in ["-t v7 -s 1m", "-s 2m"] {
            bench.fails(&format!("newfs {kind} a.img@offset=2097152"), 1, &["--force"]);
        }
        assert!(std::fs::read(bench.path("a.img")).unwrap() == before, "something was written");
    }
    bench.shell("rm -f a.img; truncate -s 16m a.img");
    bench.ok("newfs -t v7 -s 1m a.img");
    bench.ok("newfs -t v7 -s 1m a.img@offset=2097152");
    bench.check("a.img@offset=2097152");
}
