//! The commands map, debug and find-deleted.

use crate::helpers::run_as;
use crate::support::{Bench, Ran};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Stdio};

/// Makes `a.img` with some files; `big` has more blocks than an inode points at.
fn filled(options: &str) -> Bench {
    let bench = Bench::new();
    let content: Vec<u8> = (0..900_000_u32).map(|n| (n / 3).to_le_bytes()[0]).collect();
    bench.write("src/big", &content);
    bench.write("src/dir/small", "small\n");
    bench.shell("ln src/dir/small src/other; ln -s dir/small src/link");
    bench.ok(&format!("newfs {options} -s 32m a.img"));
    bench.ok("import src a.img");
    bench
}

/// Runs it with this standard input.
fn with_input(bench: &Bench, words: &str, input: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(words.split_whitespace()).current_dir(bench.path("."));
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

/// Promise: map fits the width that is asked for, its JSON accounts for all fragments, and the
/// image is not written.
#[test]
fn map_shows_what_is_where() {
    let bench = filled("");
    let before = std::fs::read(bench.path("a.img")).unwrap();
    let shown = bench.shell(&format!("COLUMNS=50 {} map a.img", env!("CARGO_BIN_EXE_spindle")));
    let rows: Vec<&str> = shown.lines().take_while(|line| !line.is_empty()).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.len() <= 50), "{shown}");
    assert!(rows[0].starts_with("     0 S") && !shown.contains('\x1b'), "{shown}");
    // Of the 28 blocks of the file, one comes behind its indirect block.
    for text in ["inodes", "free runs of blocks", "layout score 0.963", "files with data"] {
        assert!(shown.contains(text), "{text} is not in {shown}");
    }
    let found = bench.json("map --json a.img");
    let uses = found["uses"].as_array().unwrap().iter().map(|used| used[1].as_u64().unwrap());
    assert_eq!(uses.sum::<u64>(), found["fragments"].as_u64().unwrap());
    let rows = found["map"].as_array().unwrap().iter();
    let rows: u64 = rows.map(|row| row["fragments"].as_u64().unwrap()).sum();
    assert_eq!(rows, found["fragments"].as_u64().unwrap());
    assert_eq!(found["fragmentation"]["files"], 2);
    assert!(before == std::fs::read(bench.path("a.img")).unwrap(), "map has written");
}

/// Promise: the space of the log is shown as that, and is no file of the statistics.
#[test]
fn map_shows_the_log() {
    let bench = Bench::new();
    bench.ok("newfs --log=1m -s 32m a.img");
    let found = bench.json("map --json a.img");
    let fsize = found["fragment_bytes"].as_u64().unwrap();
    let log = found["uses"].as_array().unwrap().iter().find(|used| used[0] == "log").unwrap();
    assert!(log[1].as_u64().unwrap() >= (1 << 20) / fsize, "{log}");
    assert_eq!(found["fragmentation"]["files"], 0);
}

/// Promise: debug -w is refused while another program uses the image, and changes nothing then.
#[test]
fn debug_respects_locks() {
    let bench = filled("");
    let before = std::fs::read(bench.path("a.img")).unwrap();
    let options = spindle_device::OpenOptions::read_write();
    let held = spindle_device::FileDevice::open(bench.path("a.img"), &options).unwrap();
    bench.fails("debug -w a.img clri /big", 1, &["a.img", "in use"]);
    drop(held);
    assert!(before == std::fs::read(bench.path("a.img")).unwrap());
}

/// Promise: the map of a file names its blocks in order; what is no file or no UFS is refused.
#[test]
fn map_shows_a_file() {
    let bench = filled("-O1");
    let shown = bench.ok("map a.img big");
    assert!(shown.contains("900000 bytes") && shown.contains("indirect 1 for 12"), "{shown}");
    let found = bench.json("map --json a.img /big");
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs[0]["first"]["data"]["lbn"], 0);
    let blocks = runs.iter().filter(|run| run["first"].get("data").is_some());
    let blocks: u64 = blocks.map(|run| run["blocks"].as_u64().unwrap()).sum();
    assert_eq!(blocks, found["data"]["blocks"].as_u64().unwrap());
    bench.fails("map a.img /none", 1, &["a.img", "/none", "no such file"]);
    bench.ok("newfs -t v7 -s 1m old.img");
    bench.fails("debug -w old.img super", 1, &["old.img", "only for UFS1 and UFS2"]);
}

/// Promise: on V7 and System V, map and debug show the same of a file, whose blocks have its bytes
/// and belong to it; damage is reported, and nothing is written.
#[test]
fn old_file_systems_are_looked_into() {
    for format in ["v7", "sysv"] {
        let bench = Bench::new();
        let content: Vec<u8> = (0..90_000_u32).map(|n| (n / 3).to_le_bytes()[0]).collect();
        bench.write("src/dir/big", &content);
        bench.write("src/small", "small\n");
        bench.ok(&format!("newfs -t {format} -s 1m a.img"));
        bench.ok("import src a.img");
        let before = std::fs::read(bench.path("a.img")).unwrap();
        let shown = bench.ok("map a.img");
        assert!(shown.contains("free") && shown.contains("2 files, 1 of several blocks"), "{shown}");
        let found = bench.json("map --json a.img");
        let uses = found["uses"].as_array().unwrap().iter().map(|used| used[1].as_u64().unwrap());
        assert_eq!(uses.sum::<u64>(), found["blocks"].as_u64().unwrap());
        assert_eq!(found["map"].as_str().unwrap().len() as u64, found["blocks"].as_u64().unwrap());
        let file = bench.json("map --json a.img /dir/big");
        let run = &file["runs"][0];
        let (block, bytes) = (run["block"].as_u64().unwrap(), found["block_bytes"].as_u64().unwrap());
        let from = usize::try_from(block * bytes).unwrap();
        assert_eq!(before[from..from + 100], content[..100]);
        let ino = file["inode"].as_u64().unwrap();
        let shown = bench.ok(&format!("debug a.img owner {block}"));
        assert_eq!(shown, format!("block {block} is block 0 of inode {ino}\n"));
        let shown = bench.shell(&format!(
            "printf 'super; inode /dir/big\nls /dir; blocks /dir/big\ntestb {block}; free; deleted; block {block}\n' \
             | {} debug a.img",
            env!("CARGO_BIN_EXE_spindle")
        ));
        for text in ["s_isize", "di_size    90000", " big\n", "not on the free list", "no deleted names"] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        bench.fails("debug a.img inode 60000", 1, &["inodes are numbered"]);
        bench.fails("debug a.img group 0", 1, &["no such command on this file system"]);
        bench.fails("map --svg x.svg a.img", 2, &["for UFS"]);
        bench.fails("find-deleted --save found a.img", 2, &["--save is for UFS"]);
        assert!(bench.ok("find-deleted a.img").contains("no deleted inodes"));
        assert!(before == std::fs::read(bench.path("a.img")).unwrap(), "something has written");
        // An address outside the file system.
        let inode = bench.ok("debug a.img inode /dir/big");
        let words: Vec<_> = inode.lines().next().unwrap().split_whitespace().collect();
        let number = |n: usize| words[n].trim_end_matches([',', ':']).parse::<u64>().unwrap();
        let at = number(4) * bytes + number(7) + 12;
        bench.shell(&format!(
            "printf '\\377\\377\\377' | dd of=a.img bs=1 seek={at} conv=notrunc status=none"
        ));
        bench.fails("map a.img", 1, &["1 pointers that lead nowhere"]);
    }
}

/// Promise: the picture is an SVG with the legend, and does not overwrite an image.
#[test]
fn map_draws_a_picture() {
    let bench = filled("");
    bench.ok("map --svg a.svg a.img");
    let svg = std::fs::read_to_string(bench.path("a.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("file data") && svg.contains("a.img"), "{svg}");
    bench.fails("map --svg a.img a.img", 1, &["a.img", "name another file"]);
    bench.fails("map --svg b.svg a.img /big", 2, &["--svg"]);
    bench.check("a.img");
}

/// Promise: damage is counted, the rest is shown, and the exit code is 1.
#[test]
fn damaged_images_are_shown() {
    let bench = filled("");
    let found = bench.ok("debug a.img group 1");
    let at: u64 = found.split("block at ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    let fsize = bench.json("info --json a.img")["file_system"]["fs_fsize"].as_u64().unwrap();
    let file = std::fs::File::options().write(true).open(bench.path("a.img")).unwrap();
    file.write_all_at(&[0xa5; 4096], at * fsize).unwrap();
    let ran = bench.run("map a.img");
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("    1  cannot be read") && ran.err.contains("1 unreadable"), "{}", ran.err);
    bench.fails("find-deleted a.img", 1, &["the maps of 1 cylinder group cannot be read"]);
    bench.fails("debug a.img group 1", 1, &["cylinder group 1"]);
    assert!(bench.ok("debug a.img ls /").contains("big"));
}

/// Promise: commands come from the command line, a file or standard input; the contents of files
/// are theirs; the first failure ends them with its place.
#[test]
fn debug_reads() {
    let bench = filled("");
    let cat = bench.run("debug a.img cat /big");
    assert!(cat.code == 0 && cat.bytes == std::fs::read(bench.path("src/big")).unwrap());
    bench.ok("debug a.img dump /big big.out");
    assert!(std::fs::read(bench.path("big.out")).unwrap() == cat.bytes);
    let shown = bench.ok("debug a.img inode /dir/small");
    assert!(shown.contains("  di_nlink             2\n") && shown.contains("0100644"), "{shown}");
    let ino = shown.split_whitespace().nth(1).unwrap().trim_end_matches(':').to_owned();
    let frag = shown.lines().find(|line| line.contains("di_db")).unwrap();
    let frag = frag.split_whitespace().nth(1).unwrap().to_owned();
    let ran =
        with_input(&bench, "debug a.img", &format!("cd dir\npwd; ls\nowner {frag} # who\ntesti <{ino}>\n"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for text in ["/dir (inode ", " small\n", &format!("inode {ino}, block 0 (marked used)"), "marked used\n"]
    {
        assert!(ran.out.contains(text), "{text} is not in {}", ran.out);
    }
    bench.write("script", format!("names {ino}\n\nblock {frag}\nquit\nnonsense\n"));
    let shown = bench.ok("debug -f script a.img");
    assert!(shown.contains(" /other\n") && shown.contains("|small.........."), "{shown}");
    let ran = with_input(&bench, "debug a.img", "pwd\ninode 999999\npwd\n");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("line 2: inode: there is no inode 999999"), "{}", ran.err);
    for (command, text) in [
        ("nonsense", "no such command"),
        ("inode", "give inode INODE"),
        ("block 99999999", "there is no fragment"),
        ("block 0 inodes", "there are no inodes"),
        ("set 2 mode 0", "without -w"),
        ("ls /big", "not a directory"),
        ("dump /big a.img", "name another file"),
    ] {
        bench.fails(&format!("debug a.img {command}"), 1, &[text]);
    }
    bench.check("a.img");
}

/// Promise: changes are made with -w only, mark the file system, and fsck repairs what they have
/// left.
#[test]
fn debug_writes() {
    for options in ["-O1", "-O2", "-O1 --dialect sun"] {
        let bench = filled(options);
        let shown = bench.ok("debug -w a.img set /dir/small uid 77; set /dir/small mtime 2001-02-03");
        assert!(shown.contains("uid changes from 0 to 77\n"), "{shown}");
        let found = bench.json("stat --json a.img:/other")[0].clone();
        assert_eq!(found["uid"], 77);
        assert!(found["mtime"].as_str().unwrap().starts_with("2001-02-03"), "{found}");
        bench.fails("debug -w a.img clri /link", 1, &["a.img", "not unmounted cleanly"]);
        bench.ok("debug -w --force a.img unlink /other; link /dir/small /again; clri /link");
        let ran = bench.run("fsck -n a.img");
        assert!(ran.code == 4 && ran.out.contains("NAME=link"), "{}", ran.out);
        let ran = bench.run("fsck -y a.img");
        assert_eq!(ran.code, 1, "{}", ran.out);
        bench.check("a.img");
        assert_eq!(bench.ok("cat a.img:/again"), "small\n");
        bench.fails("cat a.img:/other", 1, &["no such file"]);
    }
}

/// Promise: when a check has found nothing wrong with what was changed, the log is used again.
#[test]
fn the_log_is_found_again() {
    let bench = Bench::new();
    bench.ok("newfs --log=1m -s 32m a.img");
    let log = |bench: &Bench| bench.json("tunefs -p --json a.img")["log"].clone();
    let before = log(&bench);
    bench.ok("debug -w a.img set 2 mtime 2001-02-03");
    assert!(before.is_object() && log(&bench).is_null());
    let checked = bench.ok("fsck -p a.img");
    assert!(checked.contains("marked clean"), "{checked}");
    assert_eq!(log(&bench), before);
    bench.check("a.img");
}

/// Promise: what is left of a deleted file is saved with how sure it is, and never over other
/// files; the image is not written.
#[test]
fn deleted_files_are_saved() {
    let bench = filled("");
    assert_eq!(bench.ok("find-deleted a.img"), "no deleted names\nno deleted inodes with pointers\n");
    // The inode as it was, in the place of the free one: so it is after a crash.
    let shown = bench.ok("debug a.img inode /big");
    let words: Vec<&str> = shown.lines().next().unwrap().split_whitespace().collect();
    let after = |word: &str| -> u64 {
        let n = words.iter().position(|&found| found == word).unwrap();
        words[n + 1].parse().unwrap()
    };
    let fsize = bench.json("info --json a.img")["file_system"]["fs_fsize"].as_u64().unwrap();
    let at = after("block") * fsize + after("byte");
    let image = || std::fs::File::options().read(true).write(true).open(bench.path("a.img")).unwrap();
    let mut inode = [0; 256];
    image().read_exact_at(&mut inode, at).unwrap();
    bench.ok("rm a.img:/big");
    image().write_all_at(&inode, at).unwrap();
    let before = std::fs::read(bench.path("a.img")).unwrap();
    let ino = words[1].trim_end_matches(':');
    let shown = bench.ok("find-deleted --save found a.img");
    assert!(shown.contains("all blocks are free"), "{shown}");
    let saved = std::fs::read(bench.path(&format!("found/inode-{ino}"))).unwrap();
    assert!(saved == std::fs::read(bench.path("src/big")).unwrap());
    let manifest = std::fs::read_to_string(bench.path("found/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["files"][0]["saved_bytes"], 900_000);
    assert_eq!(manifest["files"][0]["surety"], "all blocks are free");
    assert_eq!(bench.json("find-deleted --json a.img")["inodes"][0]["size"], 900_000);
    bench.fails("find-deleted --save found a.img", 1, &["found", "not empty"]);
    assert!(before == std::fs::read(bench.path("a.img")).unwrap(), "find-deleted has written");
    assert_eq!(bench.path("found").metadata().unwrap().nlink(), 2);
}

/// Promise: a file that was removed while it was open is saved wholly, and shown by --lost, from
/// which it can be copied, in UFS and V7.
#[test]
fn files_removed_while_open_are_saved() {
    for format in ["", "-t v7"] {
        let bench = Bench::new();
        bench.shell("head -c 90000 /dev/urandom >big");
        bench.ok(&format!("newfs {format} -s 4m a.img"));
        bench.ok("cp -p big a.img:/big");
        let ino = bench.json("stat --json a.img:/big")[0]["ino"].as_u64().unwrap();
        if format.is_empty() {
            bench.run_args(["debug", "-w", "a.img", &format!("unlink /big; set <{ino}> nlink 0")]);
            let shown = bench.ok("find-deleted --save found a.img");
            assert!(shown.contains(&format!("inode {ino} was removed while it was open; --save")), "{shown}");
            bench.shell(&format!("cmp big found/inode-{ino}"));
            let manifest = std::fs::read_to_string(bench.path("found/manifest.json")).unwrap();
            let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
            let saved = &manifest["files"][0];
            assert_eq!((&saved["inode"], &saved["saved_bytes"]), (&ino.into(), &90_000.into()));
            assert!(saved["surety"].as_str().unwrap().starts_with("all of it"), "{saved}");
        } else {
            let mut image = std::fs::read(bench.path("a.img")).unwrap();
            let at = 1024 + 64 * (usize::try_from(ino).unwrap() - 1);
            image[at + 2..at + 4].fill(0);
            let name = image.windows(5).position(|bytes| bytes == b"big\0\0").unwrap();
            image[name - 2..name].fill(0);
            std::fs::write(bench.path("a.img"), image).unwrap();
        }
        let ran = bench.run("ls -l --lost a.img");
        assert!(!ran.err.contains("a name leads to it"), "{}", ran.err);
        let listed = ran.out;
        assert!(listed.trim_end().ends_with(&format!("#{ino}")), "{format}: {listed}");
        bench.run_args(["cp", "--lost", &format!("a.img:/#{ino}"), "saved"]);
        bench.shell("cmp big saved");
    }
}

/// Promise: after a crash, what was removed while it was open is saved, with the log as without
/// one; nothing frees it before.
#[test]
fn files_open_at_a_crash_are_saved() {
    for log in ["", ",nolog,sync"] {
        let bench = Bench::new();
        bench.shell("mkdir mnt");
        bench.ok("newfs -s 32m live.img");
        assert_eq!(run_as(&bench, "mount.spindle", &format!("live.img mnt -o rw{log}")).code, 0);
        bench.shell(
            "head -c 90000 /dev/urandom >mnt/big; cp mnt/big big; sync; exec 5<mnt/big; rm mnt/big; \
             echo after >mnt/after; sync mnt/after; cp live.img a.img",
        );
        bench.ok("umount mnt");
        let ran = bench.run("find-deleted --save found a.img");
        assert_eq!(ran.code, 0, "{log}: {}", ran.err);
        bench.shell("cmp big found/inode-*");
    }
}

/// Promise: info says that a file system can be mounted read-write only if a mount does that: where
/// the map of a cylinder group is damaged that a mount needs, it names it, and writes nothing.
#[test]
fn info_tries_what_a_mount_does() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    bench.ok("newfs -s 64m a.img");
    assert!(bench.ok("info a.img").contains("clean, can be mounted read-write"));
    let info = bench.json("info --json a.img")["file_system"].clone();
    let number = |name: &str| info[name].as_u64().unwrap();
    let at = (number("fs_fpg") + number("fs_cblkno")) * number("fs_fsize");
    bench.shell(&format!(
        "head -c 4096 /dev/zero | dd of=a.img bs=4k seek={at} oflag=seek_bytes conv=notrunc status=none"
    ));
    let before = std::fs::read(bench.path("a.img")).unwrap();
    let shown = bench.ok("info a.img");
    assert!(shown.contains("clean, mounts read-only") && shown.contains("cylinder group 1"), "{shown}");
    assert_eq!(bench.json("info --json a.img")["file_system"]["writable"], false);
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    let ran = run_as(&bench, "spindle", "mount a.img mnt");
    assert!(ran.code == 0 && ran.err.contains("mounted read-only"), "{}", ran.err);
    assert_eq!(run_as(&bench, "spindle", "umount mnt").code, 0);
}

/// Promise: info says of a mounted file system where it is mounted, and nothing of it sounds like
/// damage: a fast and an old one, alone and in a partition, read-only and not, with and without a
/// log.
#[test]
fn a_mounted_file_system_is_shown_as_mounted() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    let dir = bench.path("mnt");
    for (newfs, option) in [("-s 32m", "log"), ("-s 32m -O1", "nolog"), ("-t v7 -s 2m", "rw")] {
        bench.ok(&format!("newfs {newfs} --force a.img"));
        for (option, how) in [(option, "read-write"), ("ro", "read-only")] {
            assert_eq!(run_as(&bench, "spindle", &format!("mount -o {option} a.img mnt")).code, 0);
            if option != "ro" {
                bench.write("mnt/file", "text");
            }
            bench.shell("sync");
            let shown = bench.ok("info a.img");
            let report = bench.json("info --json mnt")["file_system"].clone();
            assert_eq!(run_as(&bench, "spindle", "umount mnt").code, 0);
            assert!(shown.contains(&format!("mounted {how} on {}\n", dir.display())), "{shown}");
            assert!(!shown.contains("not clean") && !shown.contains("because"), "{shown}");
            assert_eq!(report["mounted"]["dir"], dir.to_str().unwrap());
            assert_eq!(report["mounted"]["read_only"], option == "ro");
        }
        assert!(bench.ok("info a.img").contains(" clean, can be mounted read-write\n"));
        bench.shell("rm a.img");
    }
}
