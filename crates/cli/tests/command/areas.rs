//! Devices that nobody writes, attached to a set.

use crate::helpers::run_as;
use crate::support::Bench;

/// Makes a set, and the image of an old disk with a tree.
fn set() -> Bench {
    let bench = Bench::new();
    bench.ok("newfs -t mfs --control c:16m --data d:40m --log l:8m");
    bench.shell(
        "mkdir -p mnt tree/sub far && seq 20000 >tree/sub/text && chmod 4750 tree/sub/text \
         && ln tree/sub/text tree/name && ln -s sub/text tree/link && truncate -s 2m tree/holes \
         && echo end >>tree/holes && touch -d 1991-10-13 tree/holes tree/sub && echo small >tree/small",
    );
    bench.ok("import -s 16m tree old.img");
    bench.shell("cp old.img before.img");
    bench
}

/// Returns what is below a directory: kinds, permissions, links and bytes, and with
/// `%t` as `times` the times of files.
fn listing(bench: &Bench, dir: &str, times: &str) -> String {
    bench.shell(&format!(
        "cd {dir} && (find . -type f -printf '%P %m %n %s {times}\n'; find . -type f -exec md5sum '{{}}' + ;          find . ! -type f ! -path './.snap*' ! -path . -printf '%P %y %m %l\n') | sort"
    ))
}

/// Promise: the walk of docs/USAGE.md: the tree of an old disk is in the set as it is on the disk,
/// takes no space there, can be written on a mount, and the disk stays as it is.
#[test]
fn an_old_disk_is_attached() {
    let bench = set();
    let said = bench.ok("mfs attach c old.img --class attic --as /attic");
    assert!(said.contains("in /attic, in blocks of 4096 bytes"), "{said}");
    assert!(said.contains("goes to class default"), "{said}");
    let status = bench.ok("mfs status d");
    assert!(status.contains("class default: 0 bytes used"), "{status}");
    assert!(status.contains("class attic: 16 MiB, read-only") && status.contains("old.img"), "{status}");
    assert_eq!(run_as(&bench, "mount.spindle", "c mnt -o rw").code, 0);
    assert_eq!(listing(&bench, "mnt/attic", "%t"), listing(&bench, "tree", "%t"));
    assert_eq!(bench.shell("stat -f -c %b mnt"), bench.shell("stat -f -c %b mnt/attic/small"));
    bench.shell("echo more >>mnt/attic/sub/text && echo more >>tree/sub/text");
    bench.shell("printf X | dd of=mnt/attic/holes bs=1 seek=5 conv=notrunc status=none");
    bench.shell("printf X | dd of=tree/holes bs=1 seek=5 conv=notrunc status=none");
    bench.shell("truncate -s 9000 mnt/attic/name && truncate -s 9000 tree/name");
    bench.shell("truncate -s 12000 mnt/attic/name && truncate -s 12000 tree/name");
    bench.shell("! setfattr -n user.spindle.class -v attic mnt/attic 2>error && grep Read-only error");
    bench.fails("mfs detach c attic", 1, &["the set is mounted"]);
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
    bench.fails("mfs class c:/attic attic", 1, &["class attic of data is read-only"]);
    assert!(bench.ok("fsck -n c").contains("no problems found"));
    assert_eq!(run_as(&bench, "mount.spindle", "d mnt -o ro").code, 0);
    assert_eq!(listing(&bench, "mnt/attic", ""), listing(&bench, "tree", ""));
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
    bench.shell("cmp old.img before.img");
    bench.fails("mfs detach c attic", 1, &["with data of class attic", "/attic/", "--copy"]);
    // What is not what it was is not copied.
    bench.shell(
        "cp old.img good.img && printf XXXX | dd of=old.img bs=1 seek=9000000 conv=notrunc status=none",
    );
    let ran = bench.run("mfs detach --copy c attic");
    assert!(ran.code == 1 && ran.err.contains("attic is not what it was"), "{} {}", ran.code, ran.err);
    bench.shell("cat good.img >old.img");
    bench.ok("mfs detach --copy c attic");
    bench.shell("rm old.img");
    bench.ok("mfs status c");
    assert_eq!(bench.ok("cat c:/attic/sub/text"), bench.shell("cat tree/sub/text"));
    assert!(bench.ok("fsck -n c").contains("no problems found"));
}

/// Promise: ranges of a device become files, also one that does not end with a block; without the
/// device the set can be used, a device that has moved is attached again, and a scrub finds that
/// it was changed.
#[test]
fn bytes_of_a_device_are_attached() {
    let bench = set();
    bench.shell("head -c 3000320 /dev/urandom >disc.iso");
    bench.fails("mfs attach c disc.iso", 1, &["disc.iso", "--raw"]);
    bench.ok("mfs attach c disc.iso --raw all --raw part=4k+10000");
    bench.shell("head -c 14096 disc.iso | tail -c 10000 >part");
    let same = |path: &str, file: &str| {
        assert_eq!(bench.run(&format!("cp c:{path} out")).code, 0);
        bench.shell(&format!("cmp out {file}"));
    };
    same("/disc/all", "disc.iso");
    same("/disc/part", "part");
    bench.shell("mv disc.iso far/");
    let ran = bench.run("cat c:/disc/part");
    assert!(ran.code != 0 && ran.err.contains("class disc is not found"), "{}", ran.err);
    assert_eq!(bench.run("mfs status c").code, 1);
    assert_eq!(bench.run("cp tree/small c:/").code, 0);
    let ran = bench.run("mfs attach c far/disc.iso --raw all");
    assert!(ran.code == 0 && ran.out.contains("its place is recorded"), "{}", ran.err);
    bench.ok("mfs status c");
    same("/disc/part", "part");
    bench.ok("mfs scrub c");
    bench.shell("printf X | dd of=far/disc.iso bs=1 seek=1000000 conv=notrunc status=none");
    let ran = bench.run("mfs scrub c");
    assert!(ran.code == 4 && ran.out.contains("the device of class disc is not what it was"), "{}", ran.out);
    bench.ok("rm -r c:/disc");
    bench.ok("mfs detach c disc");
    assert!(!bench.ok("mfs status c").contains("disc"));
}

/// Promise: what is in the way is refused before anything changes; an attempt that was interrupted
/// is begun anew.
#[test]
fn an_attach_is_refused_or_done_again() {
    let bench = set();
    bench.ok("mkdir c:/there");
    for (words, wanted) in [
        ("old.img --as /there", "/there"),
        ("old.img --as /none/x", "/none"),
        ("old.img --class default", "default"),
        ("old.img --write-class none", "none"),
        ("none.img", "none.img"),
        ("d", "a member of a set"),
        ("old.img --raw a=0+17m", "a"),
        ("old.img --raw a=100+1m", "within a sector"),
    ] {
        let ran = bench.run(&format!("mfs attach c {words}"));
        assert!(ran.code == 1 && ran.err.contains(wanted), "{words}: {}", ran.err);
    }
    assert!(!bench.ok("mfs status c").contains("read-only"));
    bench.ok("newfs -t v7 -s 1m v7.img");
    bench.ok("cp tree/small v7.img:/");
    let said = bench.ok("mfs attach c v7.img --as /v7");
    assert!(said.contains("cannot be written, as no class that can be has blocks of 512 bytes"), "{said}");
    bench.ok("mkdir c:/.v7.attach c:/.v7.attach/left");
    bench.ok("mfs attach c v7.img --as /again");
    assert_eq!(bench.ok("cat c:/again/small"), "small\n");
    bench.fails("rm c:/.v7.attach", 1, &["no such file"]);
    bench.ok("mkdir c:/.old.attach");
    bench.fails("mfs attach c old.img", 1, &[".old.attach"]);
    bench.ok("ls c:/.old.attach");
    assert!(!bench.ok("mfs status c").contains("class old"));
}
