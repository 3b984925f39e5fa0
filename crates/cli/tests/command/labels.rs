//! Disks whose label is lost, or that end before their partitions do.

use crate::helpers::run_as;
use crate::support::Bench;

/// Promise: where the table of partitions is lost, the file systems that begin where partitions do
/// are named as they can be opened; nothing is guessed into a file system at the start that has
/// only lost its superblock.
#[test]
fn file_systems_without_a_label_are_named() {
    for (format, sector) in [("-O2", 63), ("-O2", 64), ("-O1", 2048), ("-t v7", 63), ("-O2", 16_065)] {
        let bench = Bench::new();
        bench.write("src/file", "content\n");
        bench.ok(&format!("newfs {format} -s 8m part.img"));
        bench.ok("import src part.img");
        bench.shell(&format!(
            "truncate -s 20m a.img; dd if=part.img of=a.img seek={sector} conv=notrunc status=none"
        ));
        let named = format!("a.img@offset={}", sector * 512);
        for command in ["ls a.img:/", "info a.img", "export a.img out", "cat a.img:/file"] {
            bench.fails(command, 1, &["nor a partition table", &named]);
        }
        bench.fails("fsck -n a.img", 8, &[&named]);
        assert_eq!(bench.ok(&format!("cat {named}:/file")), "content\n");
    }
    let bench = Bench::new();
    bench.write("src/file", "content\n");
    bench.ok("newfs -O2 -s 8m a.img");
    bench.ok("import src a.img");
    bench.shell("dd if=/dev/zero of=a.img bs=512 seek=128 count=16 conv=notrunc status=none");
    let ran = bench.run("cat a.img:/file");
    assert!(ran.out == "content\n" && ran.err.contains("the copy at byte"), "{}", ran.err);
}

/// Promise: what an image has of a partition that it does not hold to its end is read, with a
/// warning, and nothing is written to it.
#[test]
fn a_cut_partition_is_only_read() {
    let bench = Bench::new();
    bench.write("src/file", "content\n");
    bench.shell("truncate -s 40m a.img; printf 'label: dos\n2048,65536,a5\n' | sfdisk -q a.img; mkdir mnt");
    bench.ok("newfs --force -O2 a.img@s1");
    bench.ok("import src a.img@s1");
    // The file system is cut, too; or only what is behind it.
    for (cut, is_lost) in [("20m", true), ("33791k", false)] {
        bench.shell(&format!("cp a.img bad.img; truncate -s {cut} bad.img"));
        if !is_lost {
            bench.ok("newfs --force -O2 -s 16m a.img@s1");
            bench.ok("import src a.img@s1");
            bench.shell(&format!("cp a.img bad.img; truncate -s {cut} bad.img"));
        }
        let before = std::fs::read(bench.path("bad.img")).unwrap();
        for command in ["cat bad.img:/file", "cat bad.img@s1:/file"] {
            let ran = bench.run(command);
            assert_eq!((ran.code, ran.out.as_str()), (0, "content\n"), "{cut}, {command}: {}", ran.err);
            assert_eq!(ran.err.matches("bad.img@s1: the disk ends ").count(), 1, "{}", ran.err);
        }
        let shown = bench.ok("info bad.img");
        assert!(shown.contains("cut: the disk ends") && shown.contains("UFS2"), "{shown}");
        for command in ["mkdir --force bad.img:/new", "newfs --force bad.img@s1", "tunefs -m 9 bad.img@s1"] {
            assert_eq!(bench.run(command).code, 1, "{cut}: {command}");
        }
        assert!([4, 8].contains(&bench.run("fsck -y bad.img").code) || !is_lost, "{cut}");
        let mounted = run_as(&bench, "spindle", "mount bad.img mnt");
        if mounted.code == 0 {
            assert_eq!(bench.shell("cat mnt/file"), "content\n");
            assert!(std::fs::write(bench.path("mnt/new"), "x").is_err());
            assert_eq!(run_as(&bench, "spindle", "umount mnt").code, 0);
        }
        assert!(std::fs::read(bench.path("bad.img")).unwrap() == before, "{cut}: something was written");
    }
}

/// Promise: what is said of an old file system that is cut can be followed, also in a partition
/// with more behind it, and cuts nothing off; and nothing advises a repair that is refused.
#[test]
fn remedies_of_cut_file_systems_cut_nothing() {
    let bench = Bench::new();
    bench.write("src/file", "content\n");
    bench.ok("newfs -t v7 -s 1m part.img");
    bench.ok("import src part.img");
    bench.shell("truncate -s 5m a.img; dd if=part.img of=a.img bs=1M seek=4 conv=notrunc status=none");
    bench.shell("truncate -s 4800k a.img");
    let ran = bench.run("mkdir a.img@offset=4194304:/new");
    let remedy = ran.err.split("truncate -s ").nth(1).unwrap_or_else(|| panic!("{}", ran.err));
    bench.shell(&format!("truncate -s {} a.img", remedy.split(',').next().unwrap()));
    assert_eq!(bench.path("a.img").metadata().unwrap().len(), 5 << 20);
    bench.ok("mkdir a.img@offset=4194304:/new");
    assert_eq!(bench.ok("cat a.img@offset=4194304:/file"), "content\n");

    bench.ok("newfs -O2 -s 40m b.img");
    bench.shell(
        "truncate -s 30m b.img; dd if=/dev/zero of=b.img bs=512 seek=128 count=16 conv=notrunc status=none",
    );
    let ran = bench.run("mkdir --force b.img:/new");
    assert!(ran.code == 1 && ran.err.contains("find the rest"), "{}", ran.err);
    assert!(!ran.err.contains("fsck -y"), "{}", ran.err);
}

/// Promise: without `--force` no file system is made over others in the same bytes, whichever
/// partition is named: the one that has logical partitions in it, or that of a whole disk.
#[test]
fn newfs_spares_partitions_in_partitions() {
    let bench = Bench::new();
    bench.shell(
        "truncate -s 60m ext.img; printf 'label: dos\\n,10M,83\\n,,5\\n,15M,a5\\n,15M,a9\\n' | sfdisk -q ext.img
        truncate -s 60m sun.img; printf 'label: sun\\n16065,10M,2\\n48195,10M,4\\n' | sfdisk -q sun.img
        printf '3 : start=0, size=112455, type=5\\n' | sfdisk -q -a sun.img",
    );
    bench.fails("newfs ext.img@s2", 1, &["is an extended partition", "--force"]);
    bench.ok("newfs ext.img@s5");
    bench.ok("newfs -O1 --dialect sun sun.img@b");
    bench.fails("newfs ext.img@s2", 1, &["--force"]);
    bench.fails("newfs -O1 --dialect sun sun.img@c", 1, &["overlaps a UFS1", "of Sun at byte", "--force"]);
    bench.check("ext.img@s5");
    bench.check("sun.img@b");
}

/// Promise: scan names each file system of a disk whose label is lost, wherever it begins, so that
/// the other commands take the name; what is said where one is missing leads there.
#[test]
fn scan_finds_file_systems_anywhere() {
    let bench = Bench::new();
    bench.write("src/file", "content\n");
    bench.shell("truncate -s 60m a.img");
    let places = [("-O2", 777 * 512), ("-O1 --dialect sun", 16 << 20), ("-t v7", (32 << 20) + 512)];
    for (format, at) in places {
        bench.ok(&format!("newfs {format} -s 8m a.img@offset={at}"));
        bench.ok(&format!("import src a.img@offset={at}"));
    }
    bench.fails("ls a.img", 1, &["nothing but zeros", "spindle scan"]);
    let found = bench.json("scan --json a.img");
    let found = found["file_systems"].as_array().unwrap();
    assert_eq!(found.len(), 3);
    for (found, (_, at)) in found.iter().zip(places) {
        assert_eq!((&found["offset"], &found["size_bytes"]), (&at.into(), &(8 << 20).into()));
        let name = found["name"].as_str().unwrap();
        assert_eq!(bench.ok(&format!("cat {name}:/file")), "content\n");
    }
    let shown = bench.ok("scan a.img");
    assert!(shown.starts_with("a.img@offset=397824: UFS2 of FreeBSD, little-endian, 8 MiB, w"), "{shown}");
    assert_eq!(shown.lines().count(), 3, "{shown}");
    // By its superblock it is no file system that begins at 0, but the message says which it is.
    for place in [905, 463_360] {
        bench.fails(&format!("ls -b {place} a.img"), 1, &["begins at byte 397824", "IMAGE@offset=397824"]);
    }
    // One begins where partitions usually do, and hides the others no more.
    bench.ok("newfs -s 340k a.img@offset=32256");
    bench.fails("ls a.img", 1, &["a.img@offset=32256", "only usual places", "spindle scan a.img"]);
    // Copies suffice, and what has none left is named.
    bench.shell("dd if=/dev/zero of=a.img bs=512 seek=905 count=16 conv=notrunc status=none");
    let shown = bench.ok("scan a.img");
    assert!(shown.contains("a.img@offset=397824: UFS2") && shown.contains("only copies of its"), "{shown}");
    bench.shell("truncate -s 1m b.img");
    bench.fails("scan b.img", 1, &["b.img: has no file system that was found"]);
}

/// Promise: without `--force` no command makes or extends a file system over another one on a disk
/// or in a file without a label, whether that begins within its bytes or before them; the files of
/// the other one stay.
#[test]
fn unlabelled_file_systems_are_spared() {
    let bench = Bench::new();
    bench.write("src/file", "content\n");
    for (format, other) in [("-O0 --dialect 43bsd", "UFS1"), ("-O2", "UFS2"), ("-t v7", "v7-512-pdp")] {
        bench.shell("rm -f a.img; truncate -s 60m a.img");
        let behind = format!("a.img@offset={}", 16 << 20);
        bench.ok(&format!("newfs {format} -s 20m {behind}"));
        bench.ok(&format!("import src {behind}"));
        let wanted = ["overlap", other, "at byte 16777216", "--force"];
        bench.fails("newfs -s 20m a.img", 1, &wanted);
        bench.fails("newfs -t v7 -s 20m a.img@offset=1048576", 1, &wanted);
        bench.fails("import -s 20m src a.img@offset=1048576", 1, &wanted);
        bench.fails("newfs -t mfs -s 20m a.img", 1, &wanted);
        bench.ok("newfs -O0 --dialect 43bsd -s 8m a.img");
        bench.fails("growfs -y a.img", 1, &wanted);
        bench.fails("growfs -N -s 17m a.img", 1, &wanted);
        bench.ok("growfs -y -s 16m a.img");
        bench.fails("growfs -y a.img", 1, &wanted);
        bench.check("a.img");
        bench.check(&behind);
        assert_eq!(bench.ok(&format!("cat {behind}:/file")), "content\n");
        assert!(bench.ok("growfs -y --force a.img").contains("grown from 16 MiB to 60 MiB"));
        bench.check("a.img");
    }
}

/// Promise: that goes also for file systems that begin before those bytes, at an odd place, for
/// members of sets, and for what other systems make; scan names the members.
#[test]
fn others_are_spared_wherever_they_begin() {
    let bench = Bench::new();
    bench.write("src/file", "content\n");
    let (at, inside) = (20_000_256_u64 / 512 * 512, 31_000_064_u64 / 512 * 512);
    let other = format!("a.img@offset={at}");
    let ext = format!("mke2fs -q -F -t ext4 -E offset={at} a.img 30000");
    for (make, name) in [
        ("newfs -O1 --dialect sun -s 30m", "UFS1"),
        ("newfs -O2 -s 30m", "UFS2"),
        ("newfs -t v7 -s 30m", "v7-512-pdp"),
        ("newfs -t mfs", "a member of a multi-structured file system"),
        (ext.as_str(), "an ext4 file system"),
    ] {
        bench.shell("rm -f a.img; truncate -s 60m a.img");
        if make == ext {
            bench.shell(make);
        } else {
            bench.ok(&format!("{make} {other}"));
            bench.ok(&format!("import src {other}"));
        }
        bench.shell("cp --sparse=always a.img before");
        let place = format!("at byte {at}");
        let wanted = ["overlap", name, place.as_str(), "--force"];
        // Of a file with data it is said that it has such.
        bench.fails("newfs -s 25m a.img", 1, &["--force"]);
        for refused in [
            format!("newfs -s 64k -b 4096 -f 512 a.img@offset={inside}"),
            format!("newfs -t v7 -s 64k a.img@offset={inside}"),
            format!("import -s 2m src a.img@offset={inside}"),
            format!("newfs -t mfs a.img@offset={inside}"),
        ] {
            bench.fails(&refused, 1, &wanted);
        }
        bench.shell("cmp a.img before");
        bench.ok("newfs --force -s 10m a.img");
        bench.fails("growfs -y a.img", 1, &wanted);
        bench.fails("growfs -N -s 20m a.img", 1, &wanted);
        bench.ok("growfs -y -s 19m a.img");
        bench.shell(&format!("cmp -i {at} a.img before"));
        assert!(bench.ok("growfs -y --force a.img").contains("grown from 19 MiB to 60 MiB"), "{name}");
        bench.check("a.img");
    }
    bench.shell("rm -f a.img; truncate -s 60m a.img");
    bench.ok(&format!("newfs -t mfs {other}"));
    let shown = bench.ok("scan a.img");
    assert_eq!(shown, format!("{other}: member of a set, little-endian, 40.9 MiB\n"));
}

/// Promise: a device that is added to a set is not taken from a file system that begins before it.
#[test]
fn new_members_spare_others() {
    let bench = Bench::new();
    bench.shell("truncate -s 100m a.img");
    bench.ok("newfs -s 60m a.img@offset=512000");
    bench.ok("newfs -t mfs -s 40m set");
    let wanted = ["overlaps a UFS2", "at byte 512000", "--force"];
    bench.fails("mfs add set data a.img@offset=31457280", 1, &wanted);
    bench.fails("mfs replace set set a.img@offset=31457280", 1, &wanted);
    bench.check("a.img@offset=512000");
}

/// Promise: what an earlier, larger state of a file system has left behind its end is not taken for
/// another one, and neither is what lies in the space that a partition has got.
#[test]
fn remains_of_its_own_are_grown_over() {
    let bench = Bench::new();
    bench.ok("newfs -s 40m a.img");
    bench.ok("growfs --shrink -s 20m a.img");
    assert!(bench.ok("growfs -y a.img").contains("to 40 MiB"));
    bench.check("a.img");
    // What it has replaced, and a second one behind it.
    for replaced in ["newfs -t mfs c.img", "newfs -O1 --dialect sun c.img", "newfs -t v7 c.img"] {
        bench.shell("rm -f c.img; truncate -s 60m c.img");
        bench.ok(replaced);
        bench.ok("newfs --force -s 20m c.img");
        bench.ok("newfs -s 20m c.img@offset=41943040");
        assert!(bench.ok("growfs -y -s 40m c.img").contains("to 40 MiB"), "{replaced}");
        bench.check("c.img");
        bench.check("c.img@offset=41943040");
    }
    bench.shell("truncate -s 60m b.img; printf '2048,20480,a5\n22528,20480,a5\n' | sfdisk -q b.img");
    bench.ok("newfs b.img@s1");
    bench.ok("newfs b.img@s2");
    bench.shell("printf '2048,40960,a5\n' | sfdisk -q b.img");
    assert!(bench.ok("growfs -y b.img@s1").contains("to 20 MiB"));
    bench.check("b.img@s1");
}
