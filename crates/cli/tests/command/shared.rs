//! Space that two files claim, and files that are a file system's own.

use crate::support::Bench;
use spindle_device::{FileDevice, OpenOptions};
use spindle_ffs::{Layout, Superblock};
use std::os::unix::fs::FileExt;

/// Returns the bytes of the first pointer of an inode of this format, on the disk.
const fn pointer_bytes(format: &str) -> (u64, usize) {
    match format.as_bytes() {
        // Without check-hashes of inodes.
        b"-O2 --dialect netbsd" => (112, 8),
        b"-O1" => (40, 4),
        _ => (12, 3),
    }
}

fn layout(bench: &Bench) -> Layout {
    let device = FileDevice::open(bench.path("good.img"), &OpenOptions::read_only()).unwrap();
    Superblock::open(&device).unwrap().layout
}

/// Returns the byte of the first pointer of a file in `good.img`.
fn pointer(bench: &Bench, format: &str, path: &str) -> u64 {
    let ino = bench.json(&format!("stat --json good.img:{path}"))[0]["ino"].as_u64().unwrap();
    let inode = if format.starts_with("-O") {
        let layout = layout(bench);
        let (block, offset) = layout.ino_to_fsba(u32::try_from(ino).unwrap());
        layout.byte(block) + offset as u64
    } else {
        let bsize = if format == "-t v7" { 512 } else { 1024 };
        2 * bsize + 64 * (ino - 1)
    };
    inode + pointer_bytes(format).0
}

/// Makes `bad.img`, a copy of `good.img` with these bytes at a place.
fn spoil(bench: &Bench, at: u64, bytes: &[u8]) {
    bench.shell("cp good.img bad.img");
    let file = std::fs::File::options().write(true).open(bench.path("bad.img")).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// Promise: who copies two files that claim a block learns it, with both names, and the copy fails
/// in the end; a tree with hard links, holes and short files does not.
#[test]
fn blocks_of_two_files_are_named() {
    for format in ["-O2 --dialect netbsd", "-O1", "-t v7", "-t sysv"] {
        let bench = Bench::new();
        bench.shell(
            "mkdir -p src/a src/b; yes one | head -c 100000 >src/a/first; ln src/a/first src/b/link
             yes two | head -c 100000 >src/b/second; echo >src/b/third; truncate -s 90000 src/b/holes",
        );
        if format != "-t v7" && format != "-t sysv" {
            bench.shell("ln -s a/first src/short");
        }
        bench.ok(&format!("newfs {format} -s 8m good.img"));
        bench.ok("import src good.img");
        let image = std::fs::read(bench.path("good.img")).unwrap();
        let from = usize::try_from(pointer(&bench, format, "/a/first")).unwrap();
        let bytes = &image[from..from + pointer_bytes(format).1];
        spoil(&bench, pointer(&bench, format, "/b/second"), bytes);
        for (command, code) in [
            ("export IMAGE out", 1),
            ("export IMAGE out.tar", 1),
            ("cp -r IMAGE:/ out2", 1),
            ("cp -rL IMAGE:/ out3", 1),
            ("cp -r IMAGE:/a out4", 0),
            ("dump -0 -f out.dump IMAGE", 1),
        ] {
            let whole = bench.run(&command.replace("IMAGE", "good.img"));
            assert_eq!((whole.code, whole.err.contains("device")), (0, false), "{format}: {}", whole.err);
            bench.shell("rm -rf out out2 out3 out4 out.dump");
            let ran = bench.run(&command.replace("IMAGE", "bad.img"));
            assert_eq!(ran.code, code, "{format}, {command}: {}", ran.err);
            let said = if command.starts_with("dump") {
                ran.err.contains("bad.img: inode ")
                    && ran.err.contains(" bytes on the device together with /")
            } else {
                ran.err.contains("bad.img: /b/second: has ") && ran.err.contains("with /a/first:")
            };
            assert_eq!(said, code == 1, "{format}, {command}: {}", ran.err);
            bench.shell("rm -rf out out2 out3 out4 out.dump");
        }
    }
}

/// Promise: a file whose pointer leads to a structure of the file system is damaged for each
/// reader, also if only the end of its block is there.
#[test]
fn blocks_of_the_file_system_are_no_data() {
    for format in ["-O2 --dialect netbsd", "-O1"] {
        let bench = Bench::new();
        bench.shell("mkdir src; yes one | head -c 100000 >src/file");
        bench.ok(&format!("newfs {format} -s 64m good.img"));
        bench.ok("import src good.img");
        let at = pointer(&bench, format, "/file");
        let layout = layout(&bench);
        let places = [layout.cgsblock(1).0, layout.cgtod(1).0, layout.cgimin(0).0, layout.cgsblock(1).0 - 4];
        for frag in places {
            spoil(&bench, at, &frag.to_le_bytes()[..pointer_bytes(format).1]);
            for command in ["cat bad.img:/file", "export bad.img out", "cp bad.img:/file out"] {
                let ran = bench.run(command);
                let said = ran.err.contains("block pointer") && ran.err.contains("cannot be read");
                assert!(ran.code == 1 && said, "{format}, {frag}, {command}: {}", ran.err);
            }
        }
    }
}

/// Promise: the journal of FreeBSD is no file of the user: copies of a tree leave it out, as they
/// leave out the log, and a copy that names it has it.
#[test]
fn a_journal_is_not_copied_with_a_tree() {
    let bench = Bench::new();
    bench.shell("mkdir -p src/dir; echo x >src/.sujournal; echo y >src/dir/.sujournal; echo z >src/plain");
    bench.ok("newfs -O2 -s 8m good.img");
    bench.ok("import src good.img");
    assert!(bench.ok("ls -aR good.img").matches(".sujournal").count() == 2);
    bench.ok("export good.img before");
    assert!(bench.path("before/.sujournal").exists());
    bench.ok("chflags schg,sunlnk,nodump good.img:/.sujournal");
    for command in ["export good.img out", "cp -r good.img:/ out"] {
        bench.ok(command);
        assert_eq!(
            bench.shell("cat out/dir/.sujournal out/plain; ls out; ls -A out | grep suj || :; rm -r out"),
            "y\nz\ndir\nplain\n"
        );
    }
    bench.ok("export good.img out.tar");
    assert_eq!(bench.shell("tar -tf out.tar | grep -c sujournal"), "1\n");
    bench.ok("cp good.img:/.sujournal named");
    assert_eq!(bench.shell("cat named"), "x\n");
}
