//! Nothing that is lost on a damaged disk is hidden, whichever road a reader takes.

use crate::helpers::run_as;
use crate::support::{Bench, Ran};
use std::os::unix::fs::FileExt;

/// Names in the directory that is damaged.
const NAMES: usize = 300;

/// Makes `good.img` in this format, with a directory `dir` of many files and another file.
fn good(bench: &Bench, format: &str) {
    bench.shell(
        "mkdir -p src/dir mnt; cd src; for i in $(seq 100 399); do echo $i >dir/name-$i; done; echo >x",
    );
    bench.shell("rm -f good.img");
    bench.ok(&format!("newfs {format} -s 8m good.img"));
    bench.ok("import src good.img");
}

/// Makes `bad.img` from `good.img` with these bytes at a place.
fn spoil(bench: &Bench, at: usize, bytes: &[u8]) {
    bench.shell("cp good.img bad.img");
    let file = std::fs::File::options().write(true).open(bench.path("bad.img")).unwrap();
    file.write_all_at(bytes, at as u64).unwrap();
}

/// Runs a shell command, whatever its exit code.
fn shell(bench: &Bench, script: &str) -> Ran {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script]).current_dir(bench.path("")).env("LC_ALL", "C.UTF-8");
    command.output().unwrap().into()
}

/// Reads `bad.img` on all roads, and expects each to fail in the end. Returns the names that the
/// listings of `dir` had, on a mount and without.
fn read_everywhere(bench: &Bench, options: &str) -> [usize; 2] {
    let mounted = run_as(bench, "spindle", &format!("mount -o {options} bad.img mnt"));
    assert_eq!(mounted.code, 0, "{}", mounted.err);
    let listed = shell(bench, "ls mnt/dir");
    let others = ["ls -l mnt/dir", "find mnt -size +0", "cp -r mnt/dir out", "tar -cf out.tar mnt"];
    let others = others.map(|command| (command, shell(bench, command)));
    // What can be written needs a repair now.
    let code = if options == "ro" { 0 } else { 32 };
    assert_eq!(run_as(bench, "spindle", "umount mnt").code, code);
    for (command, ran) in &others {
        let known = ["Structure needs cleaning", "Input/output error"];
        assert!(ran.code != 0 && known.iter().any(|text| ran.err.contains(text)), "{command}: {}", ran.err);
    }
    for command in [
        "ls -l bad.img:/dir",
        "find bad.img",
        "cp -r bad.img:/dir out2",
        "export bad.img out3",
        "export bad.img out3.tar",
        "du -a bad.img",
        "dump -0 -f out3.dump bad.img",
    ] {
        bench.shell("rm -rf out2 out3*");
        let ran = bench.run(command);
        assert!(ran.code == 1 && ran.err.contains("/dir"), "{command}: {}", ran.err);
        let last = ran.err.lines().filter(|line| line.contains("as said above")).count();
        assert!(last == 1, "it says {last} times that it failed: {}", ran.err);
    }
    [listed.out.lines().count(), bench.run("ls bad.img:/dir").out.lines().count()]
}

/// Promise: where a part of a directory is overwritten, all other names are listed, and each road
/// ends in an error: on mounts, too.
#[test]
fn a_lost_part_of_a_directory_is_an_error_everywhere() {
    for format in ["-O2", "-O1", "-t v7", "-t sysv"] {
        let bench = Bench::new();
        good(&bench, format);
        let image = std::fs::read(bench.path("good.img")).unwrap();
        let at = image.windows(8).position(|bytes| bytes == b"name-200").unwrap() / 512 * 512;
        let mut noise = [0; 512];
        noise.iter_mut().zip(0_u32..).for_each(|(byte, n)| *byte = u8::try_from(n * 151 % 255 + 1).unwrap());
        for (what, bytes) in [("zeros", [0; 512]), ("noise", noise)] {
            spoil(&bench, at, &bytes);
            for names in read_everywhere(&bench, "ro") {
                assert!((NAMES - 70..NAMES + 32).contains(&names), "{format}, {what}: {names} names");
            }
        }
    }
}

/// Promise: a name whose inode is lost is still listed, and to look at it fails.
#[test]
fn a_lost_inode_is_an_error_everywhere() {
    for (format, size) in [("-O2", 256), ("-O1", 128), ("-t v7", 64)] {
        let bench = Bench::new();
        good(&bench, format);
        let image = std::fs::read(bench.path("good.img")).unwrap();
        let stat = bench.json("stat --json good.img:/dir/name-300");
        let ino = usize::try_from(stat[0]["ino"].as_u64().unwrap()).unwrap();
        let at = if format == "-t v7" {
            1024 + 64 * (ino - 1)
        } else {
            let (block, offset) = {
                let options = spindle_device::OpenOptions::read_only();
                let device = spindle_device::FileDevice::open(bench.path("good.img"), &options).unwrap();
                let layout = spindle_ffs::Superblock::open(&device).unwrap().layout;
                let (block, offset) = layout.ino_to_fsba(u32::try_from(ino).unwrap());
                (layout.byte(block), offset)
            };
            usize::try_from(block).unwrap() + offset
        };
        assert_ne!(image[at..at + size], [0; 256][..size]);
        spoil(&bench, at, &[0; 256][..size]);
        assert_eq!(read_everywhere(&bench, "ro"), [NAMES, NAMES], "{format}");
        assert_eq!(read_everywhere(&bench, "rw,nolog"), [NAMES, NAMES], "{format}");
    }
}

/// Promise: a mount that can write lists what is left of a damaged directory, too, fails, and
/// enters no name that may be there already.
#[test]
fn a_lost_part_of_a_directory_is_an_error_on_mounts_that_write() {
    let bench = Bench::new();
    good(&bench, "-O2");
    let image = std::fs::read(bench.path("good.img")).unwrap();
    let at = image.windows(8).position(|bytes| bytes == b"name-200").unwrap() / 512 * 512;
    spoil(&bench, at, &[0; 512]);
    assert_eq!(run_as(&bench, "spindle", "mount bad.img mnt").code, 0);
    let ran = shell(&bench, "ls mnt/dir");
    let made = shell(&bench, "touch mnt/dir/new mnt/dir/name-200; touch mnt/other");
    let left = shell(&bench, "cat mnt/dir/name-399 mnt/other; rm mnt/dir/name-399");
    let unmounted = run_as(&bench, "spindle", "umount mnt");
    assert!(unmounted.code == 32 && unmounted.err.contains("fsck"), "{}", unmounted.err);
    assert!(ran.code != 0 && ran.out.lines().count() > NAMES - 40, "{} {}", ran.out, ran.err);
    assert_eq!(made.err.matches("Structure needs cleaning").count(), 2, "{}", made.err);
    assert_eq!((left.code, left.out.as_str()), (0, "399\n"), "{}", left.err);
}

/// Promise: a directory that has the block of another, so that its `.` names that, is named as
/// damaged.
#[test]
fn a_directory_with_the_names_of_another_is_named() {
    for format in ["-O2", "-t v7"] {
        let bench = Bench::new();
        bench
            .shell("mkdir -p src/dir src/other mnt; echo 1 >src/dir/only-here; echo 2 >src/other/only-there");
        bench.ok(&format!("newfs {format} -s 8m good.img"));
        bench.ok("import src good.img");
        let image = std::fs::read(bench.path("good.img")).unwrap();
        let place =
            |name: &[u8]| image.windows(name.len()).position(|bytes| bytes == name).unwrap() / 512 * 512;
        let (from, to) = (place(b"only-there"), place(b"only-here"));
        spoil(&bench, to, &image[from..from + 512]);
        assert_eq!(read_everywhere(&bench, "ro"), [1, 1]);
        let ran = bench.run("ls bad.img:/dir");
        assert!(ran.err.contains("it has the names of directory inode"), "{}", ran.err);
    }
}

/// Returns the byte of the first indirect block of a file in `good.img`.
fn indirect_block(bench: &Bench, path: &str) -> usize {
    let stat = bench.ok(&format!("debug good.img inode {path}"));
    let pointer = stat.lines().find(|line| line.trim_start().starts_with("di_ib")).unwrap();
    let first = pointer.split_whitespace().find_map(|word| word.parse::<usize>().ok().filter(|n| *n > 64));
    let options = spindle_device::OpenOptions::read_only();
    let device = spindle_device::FileDevice::open(bench.path("good.img"), &options).unwrap();
    let layout = spindle_ffs::Superblock::open(&device).unwrap().layout;
    first.unwrap() << layout.fs_fshift
}

/// Promise: a file whose indirect block was overwritten with zeros does not read as if it had a
/// hole: each road says so with its path and gives what is left, and `fsck -p` frees none of its
/// blocks. A file with holes of its own is whole.
#[test]
fn a_lost_indirect_block_is_no_hole() {
    for format in ["-O2", "-O1", "-O2 -b 4096 -f 512", "-O1 -b 4096 -f 512", "-t v7", "-t sysv"] {
        let bench = Bench::new();
        bench.shell("mkdir -p src mnt; yes 0123456789abcde | head -c 2900000 >src/file");
        bench.shell("truncate -s 400000 src/sparse; yes end | head -c 30000 >>src/sparse");
        bench.ok(&format!("newfs {format} -s 8m good.img"));
        bench.ok("import src good.img");
        for command in ["cat good.img:/sparse", "cat good.img:/file", "fsck -n good.img"] {
            assert_eq!((bench.run(command).code, bench.run(command).err.as_str()), (0, ""), "{format}");
        }
        let image = std::fs::read(bench.path("good.img")).unwrap();
        if format.starts_with("-O") {
            spoil(&bench, indirect_block(&bench, "/file"), &[0; 512]);
        } else {
            // The address of the first indirect block is the eleventh of three bytes.
            let ino = bench.json("stat --json good.img:/file")[0]["ino"].as_u64().unwrap();
            let bsize = if format == "-t v7" { 512 } else { 1024 };
            let addr = 2 * bsize + 64 * (usize::try_from(ino).unwrap() - 1) + 12 + 30;
            let block = match format {
                "-t v7" => [image[addr + 1], image[addr + 2], image[addr]],
                _ => [image[addr], image[addr + 1], image[addr + 2]],
            };
            let block = block.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            spoil(&bench, block * bsize, &vec![0; bsize]);
        }
        let before = std::fs::read(bench.path("bad.img")).unwrap();
        let shown = bench.run("cat bad.img:/file");
        let expected = std::fs::read(bench.path("src/file")).unwrap();
        assert_eq!((shown.code, shown.bytes.len()), (1, expected.len()), "{format}: {}", shown.err);
        assert_eq!(shown.bytes[..4096], expected[..4096], "{format}");
        assert!(shown.bytes != expected, "{format}");
        for command in [
            "cat bad.img:/file",
            "cp bad.img:/file out",
            "export bad.img out.d",
            "export bad.img out.tar",
            "dump -0 -f out.dump bad.img",
        ] {
            bench.shell("rm -rf out out.*; mkdir out.d");
            let ran = bench.run(command);
            let named = if command.starts_with("dump") { "inode" } else { "file" };
            let said =
                ran.err.contains("cannot be read, zeros stand in their place") && ran.err.contains(named);
            assert!(ran.code == 1 && said, "{format}, {command}: {}", ran.err);
        }
        assert_eq!(run_as(&bench, "spindle", "mount -o ro bad.img mnt").code, 0);
        let read = shell(&bench, "cat mnt/file >read");
        let copied = shell(&bench, "cp mnt/file copied");
        let sparse = shell(&bench, "cmp mnt/sparse src/sparse");
        assert_eq!(run_as(&bench, "spindle", "umount mnt").code, 0);
        for ran in [read, copied] {
            assert!(ran.code == 1 && ran.err.contains("Structure needs cleaning"), "{format}: {}", ran.err);
        }
        assert_eq!(sparse.code, 0, "{}", sparse.err);
        let preened = bench.run("fsck -p bad.img");
        assert_eq!(preened.code, 4, "{format}: {} {}", preened.out, preened.err);
        assert!(std::fs::read(bench.path("bad.img")).unwrap() == before, "{format}: something was written");
        assert_eq!(bench.run("fsck -y bad.img").code, 1, "{format}");
        assert_eq!(bench.run("cat bad.img:/file").code, 0, "{format}");
        bench.check("bad.img");
    }
}

/// Promise: a size that no block bears out gives what the blocks hold, and an error.
#[test]
fn a_size_without_blocks_is_an_error() {
    let bench = Bench::new();
    bench.shell("mkdir -p src; echo content >src/file");
    bench.ok("newfs -O2 -s 8m good.img");
    bench.ok("import src good.img");
    bench.shell("cp good.img bad.img");
    assert_eq!(bench.run("debug -w bad.img set /file di_size 3000000000000").code, 0);
    let shown = bench.run("cat bad.img:/file");
    assert!(
        shown.code == 1 && shown.out.starts_with("content\n") && shown.bytes.len() < 1 << 20,
        "{}",
        shown.err
    );
    assert!(shown.err.contains("size is 3000000000000"), "{}", shown.err);
    for command in ["export bad.img out", "export bad.img out.tar", "cp -r bad.img:/ out2"] {
        let ran = bench.run(command);
        assert!(ran.code == 1 && ran.err.contains("size is 3000000000000"), "{command}: {}", ran.err);
    }
    assert!(bench.path("out/file").metadata().unwrap().len() < 1 << 20);
}

/// Promise: what the user asked to keep of a file and what the copy cannot have makes the command
/// fail, with the name of each file, up to 20 of them and then their number; what nobody asked for
/// is one line, and no failure.
#[test]
fn attributes_that_are_lost_are_named() {
    let bench = Bench::new();
    bench.shell("mkdir -p src/dir; for i in $(seq 10 39); do echo >src/dir/f$i; done; echo >src/x");
    bench.ok("newfs -s 8m a.img");
    bench.ok("import src a.img");
    bench.ok("chflags nodump,uchg a.img:/x");
    let copied = bench.run("cp -rp a.img:/x out");
    assert!(copied.code == 1 && copied.err.lines().count() == 1, "{}", copied.err);
    assert!(copied.err.contains("out: its file flags (nodump,uchg) are left out"), "{}", copied.err);
    let plain = bench.run("cp a.img:/x plain");
    assert_eq!((plain.code, plain.err.as_str()), (0, ""));
    let exported = bench.run("export a.img tree");
    assert_eq!(exported.code, 0, "{}", exported.err);
    assert!(exported.err.contains("left out: 1 sets of file flags"), "{}", exported.err);
    bench.ok("newfs -t v7 -s 4m old.img");
    let old = bench.run("cp -rp a.img:/x old.img:/x");
    assert!(old.code == 1 && old.err.contains("its file flags (nodump,uchg) are left out"), "{}", old.err);
    bench.ok("cat old.img:/x");
    bench.ok("chflags -R nodump a.img:/dir");
    let many = bench.run("cp -rp a.img:/dir many");
    assert_eq!(many.err.lines().filter(|line| line.contains("its file flags")).count(), 20, "{}", many.err);
    let rest = "left out: 31 sets of file flags, which the target does not have, of which 20 are named above";
    assert!(many.code == 1 && many.err.contains(rest), "{}", many.err);
    assert_eq!(bench.shell("ls many | wc -l").trim(), "30");
}

/// Promise: file flags go through a tar stream under the names and the key of bsdtar, also those of
/// a file with two names; names that BSD does not have count for nothing.
#[test]
fn file_flags_go_through_tar() {
    let bench = Bench::new();
    bench.shell("mkdir -p src/dir; echo >src/dir/f; ln src/dir/f src/dir/g");
    bench.ok("newfs -s 8m a.img");
    bench.ok("import src a.img");
    bench.ok("chflags schg,nodump a.img:/dir/f");
    bench.ok("chflags uappnd a.img:/dir");
    bench.ok("export a.img a.tar");
    bench.shell("grep -aq '^[0-9]* SCHILY.fflags=schg,nodump$' a.tar");
    bench.shell("sed s/fflags=uappnd/fflags=nocow_/ a.tar >odd.tar; ! cmp -s odd.tar a.tar");
    for (tar, of_dir) in [("a.tar", 0x4), ("odd.tar", 0)] {
        bench.ok("newfs --force -s 8m b.img");
        bench.ok(&format!("import {tar} b.img"));
        let flags = |path: &str| bench.json(&format!("stat --json b.img:{path}"))[0]["flags"].clone();
        assert_eq!((flags("/dir/f"), flags("/dir/g")), (0x2_0001.into(), 0x2_0001.into()));
        assert_eq!(flags("/dir"), of_dir, "{tar}");
    }
}
