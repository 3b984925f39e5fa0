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
