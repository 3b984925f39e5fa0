//! `spindle trim`, and `fstrim` on mounts.

use crate::helpers::run_as;
use crate::support::Bench;
use std::os::unix::fs::MetadataExt;

/// Returns the bytes that a file takes on the disk.
fn taken(bench: &Bench, file: &str) -> u64 {
    std::fs::metadata(bench.path(file)).unwrap().blocks() * 512
}

/// Returns a bench with an image, made with these options, in which 20 of 30 MB were removed.
fn used(options: &str) -> Bench {
    let bench = Bench::new();
    bench.shell("mkdir tree; for n in 1 2 3; do head -c 10m /dev/urandom >tree/$n; done");
    bench.ok(&format!("newfs -s 64m {options} a.img"));
    bench.ok("import tree a.img:/");
    bench.ok("rm a.img:/1 a.img:/3");
    bench
}

/// Promise: the free space becomes holes in the file of the image; files stay, a check finds
/// nothing, and a second run says the same. With a log and without one.
#[test]
fn free_space_becomes_holes() {
    for options in ["", "--log=1m", "-O 1", "--dialect netbsd", "-b 4096 -f 512"] {
        let bench = used(options);
        let before = taken(&bench, "a.img");
        let trimmed = bench.json("trim --json a.img")["trimmed_bytes"].as_u64().unwrap();
        assert!(trimmed > 30 << 20, "{trimmed}");
        assert!(taken(&bench, "a.img") < before - (19 << 20), "{options}");
        bench.check("a.img");
        bench.ok("cp a.img:/2 2");
        bench.shell("cmp 2 tree/2");
        assert!(bench.ok("trim a.img").contains(&format!("({trimmed} bytes) trimmed")));
        assert!(bench.ok("trim -m 1g a.img").contains("(0 bytes) trimmed"));
    }
}

/// Promise: what cannot be trimmed is refused and says why, and is as it was.
#[test]
fn what_is_refused() {
    let bench = Bench::new();
    bench.ok("newfs -t v7 -s 1m v7.img");
    bench.ok("newfs -t mfs -s 32m set.img");
    bench.write("text", "no file system");
    for image in ["v7.img", "set.img"] {
        bench.fails(&format!("trim {image}"), 1, &[image, "only a UFS can be trimmed"]);
        bench.check(image);
    }
    bench.fails("trim text", 1, &["text"]);
}

/// Promise: `fstrim` makes holes in the image of a mount, also while files are written and removed,
/// which are all there afterwards; only root may.
#[test]
fn mounts_are_trimmed() {
    let bench = used("--log=1m");
    bench.shell("mkdir mnt");
    assert_eq!(run_as(&bench, "mount.spindle", "a.img mnt -o rw,allow_other").code, 0);
    let before = taken(&bench, "a.img");
    let said = bench.shell("fstrim -v mnt");
    assert!(said.contains("trimmed"), "{said}");
    assert!(taken(&bench, "a.img") < before - (19 << 20));
    bench.shell(
        "(for n in $(seq 40); do head -c 300k tree/2 >mnt/a$n; cp mnt/a$n mnt/b$n; rm mnt/a$n; done) &
         for n in $(seq 20); do fstrim mnt; done; wait
         for n in $(seq 40); do head -c 300k tree/2 | cmp - mnt/b$n || exit 1; done
         cmp mnt/2 tree/2
         if setpriv --reuid=65534 --clear-groups fstrim mnt 2>/dev/null; then exit 1; fi",
    );
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
    bench.check("a.img");
    bench.shell("rm -rf copy");
    bench.ok("export a.img copy");
    bench.shell(
        "cmp copy/2 tree/2; for n in $(seq 40); do head -c 300k tree/2 | cmp - copy/b$n || exit 1; done",
    );
}
