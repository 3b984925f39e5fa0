//! Damaged disks: what can still be read of them, and what is said of the rest.

use crate::helpers::run_as;
use crate::support::{Bench, Ran};
use spindle_device::{Device, FileDevice, OpenOptions};
use spindle_ffs::{Layout, Superblock};
use std::os::unix::fs::FileExt;

/// Directories with a file each, so that several cylinder groups have some.
const DIRECTORIES: usize = 12;
/// Bytes of each file: direct blocks, and some behind an indirect block.
const FILE_BYTES: usize = 600_000;

/// Makes `good.img` from the tree `src`.
fn good(bench: &Bench) -> Layout {
    for n in 0..DIRECTORIES {
        let content: Vec<u8> = (0..FILE_BYTES).map(|i| u8::try_from((i / 7 + n) % 251).unwrap()).collect();
        bench.write(&format!("src/d{n}/file"), content);
    }
    bench.write("src/top", "top\n");
    bench.shell("chmod 751 src/d*; touch -d @1000 src/d*");
    bench.ok("newfs -s 64m good.img");
    bench.ok("import src good.img");
    let device = FileDevice::open(bench.path("good.img"), &OpenOptions::read_only()).unwrap();
    assert_eq!(device.info().size_bytes, 64 << 20);
    Superblock::open(&device).unwrap().layout
}

/// Makes `bad.img`, a copy of `good.img` with `bytes` bytes of rubbish at byte `at`.
fn spoil(bench: &Bench, at: u64, bytes: usize) {
    bench.shell("cp good.img bad.img");
    let file = std::fs::File::options().write(true).open(bench.path("bad.img")).unwrap();
    file.write_all_at(&vec![0xa5; bytes], at).unwrap();
}

/// Returns the first byte of a file's inode block.
fn inode_block(bench: &Bench, layout: &Layout, path: &str) -> u64 {
    let ino = bench.json(&format!("stat --json good.img:{path}"))[0]["ino"].as_u64().unwrap();
    let (block, _) = layout.ino_to_fsba(u32::try_from(ino).unwrap());
    layout.byte(block)
}

/// Exports `bad.img` to `out` and compares it with `src`. Returns the output of the command, and
/// the names of the files that are missing or differ.
fn export(bench: &Bench, command: &str) -> (Ran, Vec<String>) {
    bench.shell("rm -rf out; mkdir out");
    let ran = bench.run(command);
    let files = (0..DIRECTORIES).map(|n| format!("d{n}/file")).chain(["top".to_owned()]);
    let read = |dir: &str, name: &str| std::fs::read(bench.path(dir).join(name)).ok();
    let lost = files.filter(|name| read("src", name) != read("out", name)).collect();
    (ran, lost)
}

/// Mounts `bad.img` read-only, and returns how many files `cat` can read there.
fn readable_on_a_mount(bench: &Bench, options: &str) -> usize {
    bench.shell("mkdir -p mnt");
    let mounted = run_as(bench, "spindle", &format!("mount -o ro{options} bad.img mnt"));
    assert_eq!(mounted.code, 0, "{}", mounted.err);
    let read = bench
        .shell("cd mnt; n=0; for f in d*/file top; do cat $f >/dev/null 2>&1 && n=$((n+1)); done; echo $n");
    assert_eq!(run_as(bench, "spindle", "umount mnt").code, 0);
    read.trim().parse().unwrap()
}

/// Promise: reading needs no maps of cylinder groups: with any of them destroyed everything can be
/// listed, read, exported and mounted, and the damage is named.
#[test]
fn group_maps_are_not_needed() {
    let bench = Bench::new();
    let layout = good(&bench);
    for cgx in 0..layout.fs_ncg {
        spoil(&bench, layout.byte(layout.cgtod(cgx)), layout.fs_cgsize as usize);
        let listed = bench.run("ls bad.img:/");
        assert_eq!((listed.code, listed.out.lines().count()), (0, DIRECTORIES + 1), "{}", listed.err);
        assert_eq!(bench.run("cat bad.img:/top").out, "top\n");
        let (ran, lost) = export(&bench, "export bad.img out");
        assert_eq!((ran.code, &lost[..]), (0, &[][..]), "{}", ran.err);
        assert!(ran.err.is_empty() || ran.err.contains(&format!("cylinder group {cgx}")), "{}", ran.err);
        assert!(!ran.err.contains("error:"), "nothing is lost, and the exit code is 0: {}", ran.err);
        assert_eq!(readable_on_a_mount(&bench, ""), DIRECTORIES + 1);
        assert_eq!(bench.run("fsck -n bad.img").code, 4);
    }
}

/// Promise: with the primary superblock destroyed a copy is found by all commands that read and by
/// a read-only mount, and can be named as BSD counts or in bytes; nothing is written with it, and
/// fsck does not call such an image undamaged.
#[test]
fn copies_of_the_superblock_are_used() {
    let bench = Bench::new();
    let layout = good(&bench);
    spoil(&bench, layout.fs_sblockloc, 8192);
    let before = std::fs::read(bench.path("bad.img")).unwrap();
    let copy = layout.byte(layout.cgsblock(1));
    for place in [String::new(), format!("-b {copy}"), format!("-b {}", copy / 512)] {
        for command in ["info", "ls", "stat"] {
            let ran = bench.run(&format!("{command} {place} bad.img"));
            let said = ran.err.contains(&format!("{copy}")) || ran.out.contains(&format!("{copy}"));
            assert!(ran.code == 0 && said, "{command} {place}: {} {}", ran.out, ran.err);
        }
        let (ran, lost) = export(&bench, &format!("export {place} bad.img out"));
        assert_eq!((ran.code, &lost[..]), (0, &[][..]), "{}", ran.err);
        let shown = bench.ok(&format!("info {place} bad.img"));
        let is_old = shown.contains("as old as it is") && shown.contains("free space and state unknown");
        assert!(is_old && !shown.contains(" free, ") && !shown.contains("another system"), "{shown}");
        let (ran, lost) = export(&bench, &format!("cp -r {place} bad.img:/top out"));
        assert_eq!((ran.code, lost.len()), (0, DIRECTORIES), "{}", ran.err);
    }
    assert_eq!(readable_on_a_mount(&bench, ""), DIRECTORIES + 1);
    assert_eq!(readable_on_a_mount(&bench, &format!(",sb={}", copy / 512)), DIRECTORIES + 1);
    bench.fails("cat -b 7 bad.img:/top", 1, &["no superblock", "sector 7"]);
    let refused = bench.run("mkdir --force bad.img:/new");
    assert!(refused.code == 1 && refused.err.contains("its superblock cannot be used"), "{}", refused.err);
    for place in [String::new(), format!("-b {copy}"), format!("-b {}", copy / 512)] {
        let ran = bench.run(&format!("fsck -n {place} bad.img"));
        assert_eq!(ran.code, 4, "{place}: {}", ran.out);
        assert!(ran.out.contains("1 problem found"), "{place}: {}", ran.out);
    }
    assert!(std::fs::read(bench.path("bad.img")).unwrap() == before, "something was written");
}

/// Promise: an image that ends early gives the files that it still has; the others are named, and
/// the exit code says that something is missing. Nothing is written to it.
#[test]
fn truncated_images_give_what_they_have() {
    let bench = Bench::new();
    good(&bench);
    bench.shell("cp good.img bad.img; truncate -s 30m bad.img");
    let before = std::fs::read(bench.path("bad.img")).unwrap();
    let (ran, lost) = export(&bench, "export bad.img out");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(!lost.is_empty() && lost.len() < DIRECTORIES, "{lost:?}");
    for name in &lost {
        let dir = name.split('/').next().unwrap();
        assert!(ran.err.contains(&format!("bad.img: /{dir}")), "{name} is not in {}", ran.err);
    }
    let tar = bench.run("export bad.img out.tar");
    assert_eq!(tar.code, 1, "{}", tar.err);
    let listed = bench.shell("tar -tf out.tar").lines().filter(|name| name.ends_with("file")).count();
    assert!(listed >= DIRECTORIES - lost.len());
    let listed = bench.run("ls -l bad.img:/");
    assert_eq!((listed.code, listed.out.lines().count()), (1, DIRECTORIES + 1), "{}", listed.err);
    assert!(listed.out.contains("??????????") && listed.err.contains("could not be read"), "{}", listed.out);
    assert_eq!(readable_on_a_mount(&bench, ""), DIRECTORIES + 1 - lost.len());
    let refused = bench.run("mkdir --force bad.img:/new");
    assert!(refused.code == 1 && refused.err.contains("the device ends"), "{}", refused.err);
    assert!(std::fs::read(bench.path("bad.img")).unwrap() == before, "something was written");
}

/// Promise: a destroyed inode block costs its files and no others.
#[test]
fn an_inode_block_costs_its_files() {
    let bench = Bench::new();
    let layout = good(&bench);
    let root = inode_block(&bench, &layout, "/");
    let names = (0..DIRECTORIES).map(|n| format!("d{n}"));
    let place = |name: &str| inode_block(&bench, &layout, &format!("/{name}"));
    let victim = names.clone().find(|name| place(name) != root).unwrap();
    spoil(&bench, place(&victim), layout.fs_bsize as usize);
    let gone: Vec<String> = names.filter(|name| place(name) == place(&victim)).collect();
    for command in ["export bad.img out", "cp -r bad.img:/ out/copy", "export bad.img out.tar"] {
        let (ran, lost) = export(&bench, command);
        assert_eq!(ran.code, 1, "{command}: {}", ran.err);
        for name in &gone {
            assert!(ran.err.contains(&format!("{name}: corrupt: ")), "{name} is not in {}", ran.err);
        }
        if command == "export bad.img out" {
            assert_eq!(lost.len(), gone.len(), "{lost:?}");
        }
    }
    for command in ["find bad.img -name file", "du -a bad.img"] {
        let ran = bench.run(command);
        assert_eq!(ran.code, 1, "{command}: {}", ran.err);
        assert_eq!(ran.out.matches("/file\n").count(), DIRECTORIES - gone.len(), "{}", ran.out);
        for name in &gone {
            assert!(
                ran.err.contains(&format!("bad.img: /{name}: corrupt: ")),
                "{name} is not in {}",
                ran.err
            );
        }
    }
    assert_eq!(readable_on_a_mount(&bench, ""), DIRECTORIES + 1 - gone.len());
}

/// Promise: damage in a directory costs the names in the damaged chunk and no others.
#[test]
fn a_directory_chunk_costs_its_names() {
    let bench = Bench::new();
    bench.shell("mkdir src; cd src; for i in $(seq 100 999); do echo $i >name-$i; done");
    bench.ok("newfs -s 32m good.img");
    bench.ok("import src good.img");
    let image = std::fs::read(bench.path("good.img")).unwrap();
    let at = image.windows(8).position(|bytes| bytes == b"name-500").unwrap();
    spoil(&bench, at as u64 / 512 * 512, 512);
    let listed = bench.run("ls -a bad.img:/");
    let names = listed.out.lines().count() - 2;
    assert!(listed.code == 1 && (850..900).contains(&names), "{names} names, {}", listed.err);
    assert!(listed.err.contains("directory inode 2, offset"), "{}", listed.err);
    let ran = bench.run("export bad.img out");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(std::fs::read_dir(bench.path("out")).unwrap().count(), names);
    assert_eq!(bench.run("cat bad.img:/name-100").out, "100\n");
}

/// Promise: zeros stand in place of the part of a file that cannot be read, the rest of it is
/// right, and the range is named.
#[test]
fn zeros_stand_in_for_lost_blocks() {
    let bench = Bench::new();
    let layout = good(&bench);
    // The last pointer of an indirect block that has some.
    let image = std::fs::read(bench.path("good.img")).unwrap();
    let indirect = (0..layout.fs_size)
        .step_by(layout.fs_frag as usize)
        .map(|frag| usize::try_from(frag << layout.fs_fshift).unwrap())
        .skip_while(|&at| at < usize::try_from(layout.byte(layout.cgdmin(0))).unwrap())
        .find(|&at| {
            let pointer = |n: usize| u64::from_le_bytes(image[at + 8 * n..][..8].try_into().unwrap());
            let step = u64::from(layout.fs_frag);
            (1..4).all(|n| pointer(n) == pointer(0) + n as u64 * step)
                && (1..layout.fs_size).contains(&pointer(0))
                && pointer(100) == 0
        })
        .unwrap();
    let block = layout.fs_bsize as usize;
    spoil(&bench, indirect as u64 + 8, 8);
    let (ran, lost) = export(&bench, "export bad.img out");
    assert_eq!((ran.code, lost.len()), (1, 1), "{}", ran.err);
    let (was, is) =
        (std::fs::read(bench.path("src").join(&lost[0])), std::fs::read(bench.path("out").join(&lost[0])));
    let mut expected = was.unwrap();
    let start = 13 * block;
    expected[start..start + block].fill(0);
    assert!(is.unwrap() == expected);
    let named = format!("{}: {block} bytes at byte {start} cannot be read", lost[0]);
    assert!(ran.err.contains(&named), "{named} is not in {}", ran.err);
    let shown = bench.run(&format!("cat bad.img:/{}", lost[0]));
    assert!(shown.code == 1 && shown.bytes == expected, "{}", shown.err);
    // The whole indirect block: everything behind the direct ones.
    spoil(&bench, indirect as u64, block);
    let (ran, lost) = export(&bench, "export bad.img out");
    assert_eq!((ran.code, lost.len()), (1, 1), "{}", ran.err);
    expected[12 * block..].fill(0);
    assert!(std::fs::read(bench.path("out").join(&lost[0])).unwrap() == expected);
}

/// Promise: fsck -p and -y mark a file system clean that was not unmounted and has no damage, so
/// that it can be written again; one with damage stays as it is with -p, and -y repairs it.
#[test]
fn fsck_marks_undamaged_file_systems_clean() {
    let bench = Bench::new();
    good(&bench);
    let unclean = || {
        bench.shell("mkdir -p mnt; cp good.img live.img");
        assert_eq!(run_as(&bench, "spindle", "mount -o nolog live.img mnt").code, 0);
        bench.shell("touch mnt/top; sync mnt/top; cp live.img bad.img");
        assert_eq!(run_as(&bench, "spindle", "umount mnt").code, 0);
        bench.fails("mkdir bad.img:/x", 1, &["not unmounted cleanly"]);
    };
    for repair in ["-p", "-y"] {
        unclean();
        let ran = bench.run(&format!("fsck {repair} bad.img"));
        assert!(ran.code == 0 && ran.out.contains("bad.img: marked clean"), "{} {}", ran.out, ran.err);
        bench.check("bad.img");
        bench.ok("mkdir bad.img:/x");
        let ran = bench.run(&format!("fsck {repair} bad.img"));
        assert!(ran.code == 0 && !ran.out.contains("marked"), "{} {}", ran.out, ran.err);
    }
    unclean();
    let before = bench.run("fsck -n bad.img");
    assert!(before.code == 0 && before.out.contains("not marked clean"), "{}", before.out);
    bench.shell("cp bad.img copy.img");
    let group = {
        let device = FileDevice::open(bench.path("bad.img"), &OpenOptions::read_only()).unwrap();
        let layout = Superblock::open(&device).unwrap().layout;
        layout.byte(layout.cgtod(1))
    };
    let file = std::fs::File::options().write(true).open(bench.path("bad.img")).unwrap();
    file.write_all_at(&[0xa5; 512], group + 512).unwrap();
    let spoilt = std::fs::read(bench.path("bad.img")).unwrap();
    bench.fails("fsck -p bad.img", 4, &["cannot repair", "fsck -y"]);
    assert!(std::fs::read(bench.path("bad.img")).unwrap() == spoilt, "something was written");
    let ran = bench.run("fsck -y bad.img");
    assert!(ran.code == 1 && ran.out.contains("FILE SYSTEM WAS MODIFIED"), "{} {}", ran.out, ran.err);
    bench.check("bad.img");
    assert_eq!(bench.ok("find bad.img:/"), bench.ok("find good.img:/").replace("good.img", "bad.img"));
}

/// Promise: where the root directory is lost, with its inode or with the beginning of the disk, the
/// files and directories that were in it are shown by their inodes, complete, and only read.
#[test]
fn files_of_a_lost_root_are_shown_by_their_inodes() {
    let bench = Bench::new();
    let layout = good(&bench);
    let root = inode_block(&bench, &layout, "/");
    let directories = (0..DIRECTORIES).map(|n| format!("d{n}"));
    let ino = |path: &str| bench.json(&format!("stat --json good.img:/{path}"))[0]["ino"].to_string();
    let left: Vec<_> =
        directories.filter(|name| inode_block(&bench, &layout, &format!("/{name}")) != root).collect();
    let left: Vec<_> = left.into_iter().map(|name| (ino(&name), name)).collect();
    assert!(left.len() > DIRECTORIES / 2);
    for (at, bytes) in [(root, layout.fs_bsize as usize), (0, 1 << 20)] {
        spoil(&bench, at, bytes);
        let listed = bench.run("ls bad.img:/");
        assert_eq!(listed.code, 1, "{}", listed.err);
        assert!(listed.err.contains("root directory"), "{}", listed.err);
        for (ino, _) in &left {
            assert!(listed.out.lines().any(|line| line == format!("#{ino}")), "{ino}: {}", listed.out);
        }
        let (ran, _) = export(&bench, "export bad.img out");
        assert_eq!(ran.code, 1, "{}", ran.err);
        bench.shell("mkdir -p mnt");
        let mounted = run_as(&bench, "spindle", "mount -o ro bad.img mnt");
        assert_eq!(mounted.code, 0, "{}", mounted.err);
        for (ino, name) in &left {
            bench.shell(&format!(
                "cmp src/{name}/file 'out/#{ino}/file'; cmp src/{name}/file 'mnt/#{ino}/file'"
            ));
        }
        assert_eq!(run_as(&bench, "spindle", "umount mnt").code, 0);
        let refused = bench.run("mkdir --force bad.img:/new");
        assert_eq!(refused.code, 1, "{}", refused.err);
        let (ran, _) = export(&bench, "cp -a bad.img:/ out/copy");
        assert_eq!(ran.code, 1, "{}", ran.err);
        for (ino, name) in &left {
            let same = format!("test $(stat -c %a:%Y src/{name}) = $(stat -c %a:%Y 'out/copy/#{ino}')");
            bench.shell(&same);
        }
    }
}

/// Promise: what was below a lost directory is found by --lost, which shows nothing in an image
/// without damage; and the messages do not claim that all else was read.
#[test]
fn files_of_a_lost_directory_are_shown_by_their_inodes() {
    let bench = Bench::new();
    bench.write("src/dir/only-child/file", "x\n");
    bench.write("src/other", "y\n");
    for format in ["", "-t v7"] {
        bench.shell("rm -rf good.img bad.img out");
        bench.ok(&format!("import {format} src good.img"));
        assert_eq!(bench.ok("ls --lost good.img"), "");
        let ino = bench.json("stat --json good.img:/dir/only-child")[0]["ino"].to_string();
        let image = std::fs::read(bench.path("good.img")).unwrap();
        let at = image.windows(10).position(|bytes| bytes == b"only-child").unwrap();
        spoil(&bench, at as u64 / 512 * 512, 512);
        let ran = bench.run("export bad.img out");
        assert!(ran.code == 1 && !ran.err.contains("all others were"), "{}", ran.err);
        assert_eq!(bench.shell("cat out/other"), "y\n");
        let listed = bench.run("ls --lost bad.img");
        assert!(listed.out.lines().any(|line| line == format!("#{ino}")), "{} {}", listed.out, listed.err);
        bench.run("export --lost bad.img out");
        assert_eq!(bench.shell(&format!("cat 'out/#{ino}/file'")), "x\n");
        assert_eq!(bench.run(&format!("cat --lost bad.img:/#{ino}/file")).out, "x\n");
    }
}

/// Promise: an old file system can be read without its super-block, and without its root if its
/// format is named; nothing is written to it.
#[test]
fn old_file_systems_are_read_without_superblock_and_root() {
    let bench = Bench::new();
    for n in 0..DIRECTORIES {
        bench.write(&format!("src/d{n}/file"), vec![b'a'; 20_000]);
    }
    bench.write("src/top", "top\n");
    bench.ok("newfs -t v7 -s 2m good.img");
    bench.ok("import src good.img");
    spoil(&bench, 512, 512);
    let before = std::fs::read(bench.path("bad.img")).unwrap();
    for command in ["export bad.img out", "export --dialect v7 bad.img out"] {
        let (ran, lost) = export(&bench, command);
        assert_eq!((ran.code, &lost[..]), (0, &[][..]), "{}", ran.err);
        assert!(ran.err.matches("its super-block ").count() == 1, "{}", ran.err);
    }
    let shown = bench.ok("info bad.img");
    assert!(shown.contains("sizes guessed") && shown.contains("super-block is lost"), "{shown}");
    assert!(!["clean", "written", "tfree", "1970"].iter().any(|word| shown.contains(word)), "{shown}");
    assert_eq!(readable_on_a_mount(&bench, ""), DIRECTORIES + 1);
    let refused = bench.run("mkdir --force bad.img:/new");
    assert!(refused.code == 1 && refused.err.contains("super-block is lost"), "{}", refused.err);
    assert_eq!(refused.err.matches("its super-block ").count(), 1, "{}", refused.err);
    bench.fails("fsck -y bad.img", 8, &["super-block", "is lost", "name its format", "-t v7"]);
    assert!(std::fs::read(bench.path("bad.img")).unwrap() == before, "something was written");
    assert_eq!(bench.run("fsck -y -t v7 bad.img").code, 1);
    bench.check("bad.img");
    let (ran, lost) = export(&bench, "export bad.img out");
    assert_eq!((ran.code, ran.err.as_str(), &lost[..]), (0, "", &[][..]));
    spoil(&bench, 512, 1024);
    let remedy =
        ["no UFS superblock", "nor one of V7 or System V", "--dialect v7, 32v, bsd, sysv", "fsck: -t"];
    for command in ["ls bad.img:/", "info bad.img", "export bad.img out2"] {
        bench.fails(command, 1, &remedy);
    }
    bench.fails("mount bad.img src", 32, &remedy);
    bench.fails("fsck -n bad.img", 8, &remedy);
    let listed = bench.run("ls --dialect v7 bad.img:/");
    assert_eq!(listed.code, 1, "{}", listed.err);
    let lost_with_the_block = 512 / 64 - 2;
    let left = DIRECTORIES + 1 - lost_with_the_block;
    assert!(listed.out.lines().filter(|line| line.starts_with('#')).count() >= left, "{}", listed.out);
}

/// Promise: an old file system without its root inode is still recognised; its files are shown by
/// their inodes, and a repair finds the names again.
#[test]
fn an_old_root_inode_is_made_again() {
    let bench = Bench::new();
    bench.write("src/d0/file", "content\n");
    bench.ok("newfs -t v7 -s 2m good.img");
    bench.ok("import src good.img");
    spoil(&bench, 1024 + 64, 64);
    let listed = bench.run("ls bad.img:/");
    assert!(listed.code == 1 && listed.out.contains('#'), "{} {}", listed.out, listed.err);
    let refused = bench.run("mkdir bad.img:/new");
    assert!(refused.code == 1 && refused.err.contains("fsck -y"), "{}", refused.err);
    assert!(bench.ok("info bad.img").contains("root inode"));
    assert_eq!(bench.run("fsck -y bad.img").code, 1);
    assert_eq!(bench.ok("cat bad.img:/d0/file"), "content\n");
}

/// Promise: a repair in the name of another format than the one that is recognised is refused, and
/// changes nothing.
#[test]
fn a_wrong_format_repairs_nothing() {
    let bench = Bench::new();
    bench.write("src/dir/file", "x\n");
    for (format, others) in [("-O2", &["v7", "32v", "sysv", "bsd"][..]), ("-t v7", &["sysv", "bsd"])] {
        bench.shell("rm -f good.img");
        bench.ok(&format!("import {format} -s 1m src good.img"));
        let before = std::fs::read(bench.path("good.img")).unwrap();
        for other in others {
            for repair in ["-y", "-p"] {
                bench.fails(
                    &format!("fsck {repair} -t {other} good.img"),
                    8,
                    &["a repair as", "leave out -t"],
                );
            }
        }
        assert!(std::fs::read(bench.path("good.img")).unwrap() == before);
    }
}

/// Promise: a format that is named and contradicts the disk shows no files that nobody made: it is
/// refused with the format that fits, by whatever reads; with that one, or none, all is as it was.
#[test]
fn a_wrong_format_reads_nothing() {
    let bench = Bench::new();
    bench.write("src/dir/file", "x\n");
    for (format, others, fits) in [
        ("-O2", &["v7", "32v", "sysv", "bsd"][..], "leave the format out"),
        ("-t v7", &["sysv", "bsd", "32v", "sysv16"], "v7-512-pdp"),
        ("-t sysv", &["v7", "bsd", "sysv-512", "sysv-1024-be"], "sysv-1024-le"),
    ] {
        bench.shell("rm -f good.img");
        bench.ok(&format!("import {format} -s 1m src good.img"));
        for other in others {
            for command in ["ls", "info", "find", "stat"] {
                bench.fails(&format!("{command} --dialect {other} good.img"), 1, &["good.img", fits]);
            }
        }
        if let Some(own) = format.strip_prefix("-t ") {
            assert_eq!(bench.ok(&format!("cat --dialect {own} good.img:/dir/file")), "x\n");
        }
        assert_eq!(bench.ok("cat good.img:/dir/file"), "x\n");
    }
}

/// Promise: what is said of a lost super-block can be followed as it stands.
#[test]
fn the_remedy_of_a_lost_super_block_works() {
    let bench = Bench::new();
    bench.write("src/dir/file", "x\n");
    for format in ["v7", "32v", "bsd"] {
        bench.shell("rm -f good.img");
        bench.ok(&format!("import -t {format} -s 1m src good.img"));
        spoil(&bench, if format == "bsd" { 1024 } else { 512 }, 512);
        let said = bench.run(&format!("ls --dialect {format} bad.img"));
        let remedy = said.err.split("spindle fsck -y -t ").nth(1).unwrap();
        let named = remedy.split(',').next().unwrap();
        assert_eq!(bench.run(&format!("fsck -y -t {named} bad.img")).code, 1, "{}", said.err);
        assert_eq!(bench.ok("cat bad.img:/dir/file"), "x\n");
    }
}

/// Promise: without a super-block, nothing distinguishes families with the same inodes and blocks,
/// so none of them is recommended for a repair, and all are named.
#[test]
fn a_lost_super_block_has_several_formats() {
    let bench = Bench::new();
    bench.write("src/file", "x\n");
    for (format, other, bsize) in [("sysv-512", "v7-512-le", 512), ("sysv", "bsd-1024-le", 1024)] {
        bench.shell("rm -f good.img");
        bench.ok(&format!("import -t {format} -s 4m src good.img"));
        spoil(&bench, 512, 512);
        let said = bench.run("cat bad.img:/file");
        assert_eq!((said.code, said.out.as_str()), (0, "x\n"), "{}", said.err);
        assert!(said.err.contains("-t with the format that it has"), "{}", said.err);
        for named in [other.to_owned(), format!("sysv-{bsize}-le"), format!("sysv16-{bsize}-le")] {
            assert!(said.err.contains(&named), "{named}: {}", said.err);
        }
    }
}

/// Promise: a directory of an old file system whose entries are zeros is named as damaged by all
/// commands that read it, which go on with the rest.
#[test]
fn an_old_directory_of_zeros_is_named() {
    let bench = Bench::new();
    bench.write("src/dir/file", "x\n");
    bench.write("src/other", "y\n");
    for format in ["v7", "sysv"] {
        bench.shell("rm -rf good.img bad.img out*");
        bench.ok(&format!("import -t {format} src good.img"));
        let mut image = std::fs::read(bench.path("good.img")).unwrap();
        let at =
            image.windows(18).position(|bytes| bytes[..4] == *b"file" && bytes[4..14] == [0; 10]).unwrap();
        image[at - 34..at + 14].fill(0);
        std::fs::write(bench.path("bad.img"), &image).unwrap();
        for command in ["ls -R bad.img", "export bad.img out", "cp -r bad.img:/ out2", "find bad.img"] {
            let ran = bench.run(command);
            assert!(ran.code == 1 && ran.err.contains("its names are lost"), "{command}: {}", ran.err);
        }
        assert_eq!(bench.shell("cat out/other out2/other"), "y\ny\n");
        assert!(bench.run("fsck -n bad.img").out.contains("MISSING '.'"));
    }
}

/// Promise: what a check of an old file system calls undamaged can be written, and a block of a
/// directory in the free list is found before it is given to another file, by info, too.
#[test]
fn an_old_free_list_with_a_block_in_use_is_refused() {
    let bench = Bench::new();
    bench.write("src/d0/file", "content\n");
    bench.ok("newfs -t v7 -s 1m good.img");
    bench.ok("import src good.img");
    // The top of the free list becomes the block of the root: a word of the PDP-11 has its low
    // byte first, a long its high word.
    let image = std::fs::read(bench.path("good.img")).unwrap();
    let root = &image[1024 + 64 + 12..][..3];
    let nfree = usize::from(image[512 + 6]);
    let top = 512 + 8 + 4 * (nfree - 1);
    let mut bad = image.clone();
    bad[top..top + 4].copy_from_slice(&[root[0], 0, root[1], root[2]]);
    std::fs::write(bench.path("bad.img"), &bad).unwrap();
    let shown = bench.ok("info bad.img");
    assert!(shown.contains("mounts read-only") && shown.contains("free list"), "{shown}");
    bench.fails("mkdir --force bad.img:/new", 1, &["cannot be written", "free list", "fsck -y"]);
    assert!(std::fs::read(bench.path("bad.img")).unwrap() == bad, "something was written");
    assert_eq!(bench.run("fsck -p bad.img").code, 1);
    bench.ok("mkdir bad.img:/new");
    assert_eq!(bench.ok("cat bad.img:/d0/file"), "content\n");
    bench.check("bad.img");
}

/// Promise: an export goes on past what cannot be a symbolic link, and names it.
#[test]
fn an_old_symbolic_link_is_passed_over() {
    let bench = Bench::new();
    bench.write("src/d0/file", "content\n");
    bench.write("src/d1/file", "content\n");
    bench.ok("newfs -t v7 -s 1m good.img");
    bench.ok("import src good.img");
    let ino = bench.json("stat --json good.img:/d0/file")[0]["ino"].as_u64().unwrap();
    let mut image = std::fs::read(bench.path("good.img")).unwrap();
    let at = 1024 + 64 * (usize::try_from(ino).unwrap() - 1);
    image[at..at + 2].copy_from_slice(&0o120_777_u16.to_le_bytes());
    std::fs::write(bench.path("bad.img"), &image).unwrap();
    bench.shell("mkdir out");
    let ran = bench.run("export bad.img out");
    assert!(ran.code == 1 && ran.err.contains("d0/file"), "{}", ran.err);
    assert!(bench.path("out/d1/file").exists());
    assert!(bench.run("fsck -n bad.img").out.contains("UNKNOWN FILE TYPE"));
    assert_eq!(bench.run("fsck -y bad.img").code, 1);
    bench.check("bad.img");
}

/// Promise: where the superblock is lost, and with it the label of a volume of Apple, what the
/// messages of fsck say is what works: it leads to a file system that is whole and can be written.
/// In each format and dialect.
#[test]
fn remedies_of_a_lost_superblock_work() {
    let bench = Bench::new();
    bench.write("src/dir/file", "content\n");
    for newfs in [
        "-O2 --dialect freebsd",
        "-O2 --dialect netbsd",
        "-O2 --dialect openbsd",
        "-O1 --dialect freebsd",
        "-O1 --dialect netbsd",
        "-O1 --dialect 4.4bsd",
        "-O1 --dialect sun",
        "-O1 --dialect apple",
        "-O0",
        "-t v7",
        "-t 32v",
        "-t bsd",
        "-t sysv",
    ] {
        let is_old = newfs.starts_with("-t");
        bench.shell("rm -f a.img");
        bench.ok(&format!("newfs -s {} {newfs} a.img", if is_old { "2m" } else { "16m" }));
        bench.ok("import src a.img");
        let at = bench.json("info --json a.img")["file_system"]["superblock_at"].as_u64();
        let zeros = match at {
            // With the label of Apple.
            Some(at) if newfs.ends_with("apple") => 0..at + 8192,
            Some(at) => at..at + 8192,
            None => 512..1024,
        };
        spoil_with_zeros(&bench, zeros);
        let mut commands = vec!["fsck -y a.img".to_owned()];
        while let Some(command) = commands.pop() {
            let ran = bench.run(&command);
            if ran.code > 1 {
                // What the message says.
                let option = ["-t ", "--dialect "].iter().find_map(|option| {
                    let behind = ran.err.rsplit_once(option)?.1;
                    let name = behind.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next()?;
                    Some(format!("{option}{name}"))
                });
                let option = option.unwrap_or_else(|| panic!("{newfs}: {command}: no remedy: {}", ran.err));
                assert!(!command.contains(&option), "{newfs}: {command}: a circle: {}", ran.err);
                commands.push(format!("fsck -y {option} a.img"));
            }
        }
        bench.check("a.img");
        assert_eq!(bench.ok("cat a.img:/dir/file"), "content\n", "{newfs}");
        bench.ok("mkdir a.img:/new");
        bench.check("a.img");
        let shown = bench.ok("info a.img");
        assert!(!newfs.ends_with("apple") || shown.contains("UFS1 of Apple"), "{shown}");
    }
}

/// Overwrites a part of `a.img` with zeros.
fn spoil_with_zeros(bench: &Bench, bytes: std::ops::Range<u64>) {
    use std::os::unix::fs::FileExt;
    let image = std::fs::File::options().write(true).open(bench.path("a.img")).unwrap();
    let zeros = vec![0; usize::try_from(bytes.end - bytes.start).unwrap()];
    image.write_all_at(&zeros, bytes.start).unwrap();
}

/// Promise: a size that is wrong and smaller than an old file system is damage: the file is copied
/// with zeros and an error, and a repair cuts it where its blocks end. A file that is made longer
/// is none.
#[test]
fn a_wrong_size_of_an_old_file_is_noticed() {
    for format in ["v7", "32v", "bsd", "sysv"] {
        let bench = Bench::new();
        bench.write("file", "content\n".repeat(100));
        bench.ok(&format!("newfs -t {format} -s 2m a.img"));
        bench.ok("cp -p file a.img:/file");
        bench.shell("truncate -s 300000 file");
        bench.ok("cp -p file a.img:/sparse");
        bench.check("a.img");
        bench.ok("cp a.img:/sparse out");
        bench.shell("cmp file out; truncate -s 800 file");
        let ino = bench.json("stat --json a.img:/file")[0]["ino"].as_u64().unwrap();
        let info = bench.json("info --json a.img")["file_system"].clone();
        let order = info["byte_order"].as_str().unwrap_or_default().to_owned();
        let block = if matches!(format, "v7" | "32v") { 512 } else { 1024 };
        let at = usize::try_from(2 * block + 64 * (ino - 1) + 8).unwrap();
        let mut image = std::fs::read(bench.path("a.img")).unwrap();
        let size: [u8; 4] = match order.as_str() {
            "little-endian" | "little" => 800_u32.to_le_bytes(),
            "big-endian" | "big" => 800_u32.to_be_bytes(),
            _ => [0, 0, 0x20, 0x03],
        };
        assert_eq!(image[at..at + 4], size, "{format} {order}");
        let wrong: [u8; 4] = match order.as_str() {
            "little-endian" | "little" => 100_800_u32.to_le_bytes(),
            "big-endian" | "big" => 100_800_u32.to_be_bytes(),
            _ => [1, 0, 0xc0, 0x89],
        };
        image[at..at + 4].copy_from_slice(&wrong);
        std::fs::write(bench.path("a.img"), &image).unwrap();
        let ran = bench.run("cp a.img:/file out");
        assert!(ran.code == 1 && ran.err.contains("the block with the last byte is missing"), "{}", ran.err);
        let ran = bench.run("fsck -n a.img");
        assert!(ran.code == 4 && ran.out.contains("SIZE 100800 BEYOND"), "{}", ran.out);
        assert_eq!(bench.run("fsck -y a.img").code, 1);
        bench.check("a.img");
        bench.ok("cp a.img:/file out");
        bench.shell("head -c 800 out | cmp - file");
    }
}

/// Returns a bench with a directory of 300 names in `tree/m`, and those names.
fn many_names() -> (Bench, Vec<String>) {
    let bench = Bench::new();
    let mut names = Vec::new();
    for n in 1..=300 {
        bench.write(&format!("tree/m/f{n}"), format!("content {n}\n"));
        names.push(format!("f{n}"));
    }
    names.sort();
    (bench, names)
}

/// Returns the sorted names that a listing prints.
fn sorted(listing: &str) -> Vec<String> {
    let mut names: Vec<_> = listing.lines().map(str::to_owned).collect();
    names.sort();
    names
}

/// Promise: a directory whose size is damaged to a smaller one is read to the end of its blocks,
/// with a message and exit code 1; fsck -p leaves it, a mount enters no name into it, and fsck -y
/// brings all names back in their places.
#[test]
fn directories_shorter_than_their_blocks() {
    let (bench, names) = many_names();
    for options in ["--dialect openbsd", "-O1 --dialect sun", "-O2", "-O2 -b 4096 -f 512"] {
        bench.shell("rm -f *.img");
        bench.ok(&format!("newfs -s 12m {options} f.img"));
        bench.ok("import tree f.img");
        let whole = bench.json("stat --json f.img:/m")[0]["size"].as_u64().unwrap();
        for size in [512, whole - 512, whole / 1024 * 512] {
            bench.shell("cp f.img s.img; rm -rf out");
            bench.run_args(["debug", "-w", "s.img", &format!("set /m size {size}")]);
            if size / 512 == whole / 512 || !bench.run("fsck -n s.img").out.contains("I=") {
                continue;
            }
            let said = format!("its size is {size}, and its blocks hold names up to {whole}");
            for command in ["ls s.img:/m", "export s.img out"] {
                let ran = bench.run(command);
                assert!(
                    ran.code == 1 && ran.err.contains(&said),
                    "{options}, {size}: {command}: {}",
                    ran.err
                );
            }
            assert_eq!(sorted(&bench.run("ls s.img:/m").out), names, "{options}, {size}");
            assert_eq!(sorted(&bench.shell("ls out/m")), names, "{options}, {size}");
            assert_eq!(bench.run("fsck -p s.img").code, 4, "{options}, {size}");
            let ran = bench.run("touch --force s.img:/m/another-name-that-needs-room");
            assert!(ran.code == 1 && ran.err.contains(&said), "{options}, {size}: {}", ran.err);
            assert_eq!(bench.run("fsck -y s.img").code, 1, "{options}, {size}");
            bench.check("s.img");
            assert_eq!(sorted(&bench.ok("ls s.img:/m")), names, "{options}, {size}");
            assert_eq!(bench.ok("cat s.img:/m/f300"), "content 300\n");
        }
    }
    bench.shell("rm -f *.img");
    bench.ok("import -t v7 -s 2m tree f.img");
    bench.shell("rm -rf out");
    let at = bench.json("stat --json f.img:/m")[0]["ino"].as_u64().unwrap();
    // Inode N is in the N-1st 64 bytes behind block 1; its size is at byte 8, the high word first.
    let byte = 1024 + (at - 1) * 64 + 8;
    bench.shell(&format!("printf '\\0\\0\\100\\0' | dd of=f.img bs=1 seek={byte} conv=notrunc status=none"));
    let ran = bench.run("ls f.img:/m");
    assert!(
        ran.code == 1 && ran.err.contains("its size is 64, and its blocks hold names up to"),
        "{}",
        ran.err
    );
    assert_eq!(bench.run("fsck -p f.img").code, 4);
    assert_eq!(bench.run("fsck -y f.img").code, 1);
    bench.check("f.img");
    assert!(sorted(&bench.ok("ls f.img:/m")).len() > 60);
}

/// Promise: what has the flag of a snapshot and is none is exported like everything else, with a
/// message and exit code 1, and fsck names the flag and clears it; nothing else changes.
#[test]
fn false_flags_of_snapshots_hide_nothing() {
    let (bench, names) = many_names();
    for options in ["--dialect openbsd", "-O1 --dialect openbsd", "-O2", "--dialect netbsd"] {
        bench.shell("rm -f *.img");
        bench.ok(&format!("newfs -s 12m {options} f.img"));
        bench.ok("import tree f.img");
        for place in ["/m", "/m/f7"] {
            bench.shell("cp f.img s.img; rm -rf out");
            bench.run_args(["debug", "-w", "s.img", &format!("set {place} flags 0x200000")]);
            let ran = bench.run("export s.img out");
            assert!(ran.code == 1 && ran.err.contains("has the flag of a snapshot"), "{}", ran.err);
            assert_eq!(sorted(&bench.shell("ls out/m")), names, "{options}, {place}");
            bench.shell("diff -r tree/m out/m");
            let ran = bench.run("fsck -n s.img");
            assert!(ran.code == 4 && ran.out.contains("MARKED AS A SNAPSHOT"), "{options}: {}", ran.out);
            assert_eq!(bench.run("fsck -p s.img").code, 1, "{options}, {place}");
            bench.check("s.img");
            bench.shell("rm -rf out");
            bench.ok("export s.img out");
            bench.shell("diff -r tree/m out/m");
        }
    }
}

/// Promise: a file whose mode has become that of a symbolic link is read as one if it can be one,
/// as Solaris would, and else is named by inode; fsck finds it then, and removes it.
#[test]
fn targets_of_damaged_links() {
    let bench = Bench::new();
    bench.write("tree/text", "/a/target");
    bench.write("tree/zeros", b"/a/tar\0get");
    bench.ok("newfs -O1 --dialect sun -s 12m f.img");
    bench.ok("import tree f.img");
    bench.shell(&format!(
        "printf 'set /text mode 0120777\\nset /zeros mode 0120777\\n' | {} debug -w f.img",
        env!("CARGO_BIN_EXE_spindle")
    ));
    let ran = bench.run("export f.img out");
    assert!(ran.code == 1 && ran.err.contains("a target with a NUL in it (inode "), "{}", ran.err);
    assert!(!ran.err.contains("Ino("), "{}", ran.err);
    assert_eq!(bench.shell("readlink out/text"), "/a/target\n");
    let ran = bench.run("fsck -n f.img");
    assert!(ran.code == 4 && ran.out.contains("OF 10 BYTES HAS A NUL AT BYTE 6"), "{}", ran.out);
    let ran = bench.run("fsck -y f.img");
    assert_eq!(ran.code, 1, "{}", ran.out);
    bench.shell("rm -rf out");
    bench.ok("export f.img out");
    assert_eq!(bench.shell("ls out").trim(), "lost+found\ntext");
}

/// Promise: hints that a sound file system may have out of date in many places are one line, with
/// their number; `-v` and `--json` list each, and a single one is shown as it is.
#[test]
fn hints_are_one_line() {
    let bench = Bench::new();
    bench.ok("newfs -s 8m a.img");
    bench.ok("mkdir -p a.img:/a/b/c a.img:/a/b/d a.img:/a/b/e a.img:/deep");
    bench.ok("mv a.img:/a/b a.img:/deep/b");
    bench.ok("mv a.img:/deep/b a.img:/b");
    let shown = bench.ok("fsck -n a.img");
    assert_eq!(shown.matches("DEPTH").count(), 1, "{shown}");
    assert!(shown.contains("note: 3 DIRECTORIES WITH AN OLD DEPTH"), "{shown}");
    assert!(shown.contains("no problems found"), "{shown}");
    let listed = bench.run("-v fsck -n a.img").out;
    assert_eq!(listed.matches("note: DIRECTORY I=").count(), 3, "{listed}");
    assert_eq!(bench.json("fsck -n --json a.img")["findings"].as_array().unwrap().len(), 3);
    bench.ok("rm -r a.img:/b/c a.img:/b/d");
    let shown = bench.ok("fsck -n a.img");
    assert!(shown.contains("note: DIRECTORY I=") && shown.contains("(/b/e)"), "{shown}");
}
