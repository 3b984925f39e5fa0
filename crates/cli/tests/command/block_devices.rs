//! Mounts of partitions of block devices. A test itself makes the devices for the partitions of its
//! loop devices, because not every kernel reads every table.

use crate::helpers::run_as;
use crate::mounts::in_namespace;
use crate::support::{Bench, Loop};

/// Returns a disk with the slices `s1`, which has a disklabel with `a` and `b`, and `s2`, each with
/// a file system.
fn disk(bench: &Bench) -> Loop {
    bench.shell(
        "truncate -s 64M disk
        printf 'label: dos\n2048,61440,a5\n65536,61440,a5\n' | sfdisk -q disk
        printf 'b\ny\nn\na\n2064\n32767\nn\nb\n32768\n63487\nw\nr\nw\n' | fdisk disk",
    );
    let disk = Loop::over(bench, "disk", "64M");
    for part in ["s1a", "s1b", "s2"] {
        bench.ok(&format!("newfs {}@{part}", disk.0));
    }
    bench.shell("mkdir one two three");
    disk
}

/// Gives the partitions devices, as a kernel does that reads these tables.
const ADD_PARTITIONS: &str = "addpart $DISK 2 65536 61440
    addpart $DISK 5 2064 30704
    addpart $DISK 6 32768 30720
    ";

fn run(bench: &Bench, args: &str) {
    let ran = run_as(bench, "spindle", args);
    assert_eq!(ran.code, 0, "{args}: {}", ran.err);
}

/// Promise: while a partition is mounted for which the system has no device, another of the disk is
/// refused with commands that help; the device that the last of them prints can be mounted.
#[test]
fn unknown_partitions() {
    let bench = Bench::new();
    let disk = disk(&bench);
    let name = &disk.0;
    run(&bench, &format!("mount {name}@s1a one"));
    let refused = run_as(&bench, "spindle", &format!("mount {name}@s1b two"));
    let losetup = format!("losetup -f --show -o 16777216 --sizelimit 15728640 {name}");
    assert_eq!(refused.code, 32, "{}", refused.err);
    for command in [format!("\"partx -u {name}\""), format!("\"{losetup}\"")] {
        assert!(refused.err.contains(&command), "{command} is not in {}", refused.err);
    }
    // What is only read need not be made durable.
    let second = run_as(&bench, "spindle", &format!("mount -o ro {name}@s1b two"));
    assert_eq!((second.code, second.err.as_str()), (0, ""));
    run(&bench, "umount two");
    let refused = run_as(&bench, "spindle", &format!("mount {name}@s1a two"));
    assert!(refused.err.contains("in use: process"), "{}", refused.err);
    let other = Loop(bench.shell(&losetup).trim().to_owned());
    run(&bench, &format!("mount {} two", other.0));
    bench.write("one/file", vec![1; 3_000_000]);
    bench.write("two/file", vec![2; 3_000_000]);
    run(&bench, "umount one two");
    drop(other);
    // Of a part that overlaps what the system knows, that may be in use.
    bench.shell(&format!("addpart {name} 1 2048 61440"));
    run(&bench, &format!("mount {name}@s1a one"));
    let refused = run_as(&bench, "spindle", &format!("mount {name}@s1b two"));
    let wanted = format!("which overlaps {name}p1: unmount what uses {name}, and use the device");
    assert!(refused.err.contains(&wanted), "{}", refused.err);
    run(&bench, "umount one");
    for (part, byte) in [("s1a", 1), ("s1b", 2)] {
        assert!(bench.run(&format!("cat {name}@{part}:/file")).bytes == vec![byte; 3_000_000], "{part}");
        bench.check(&format!("{name}@{part}"));
    }
}

/// Promise: partitions for which the system has devices are mounted and changed at the same time,
/// through these devices, by any of their names; what is mounted is refused to commands that write,
/// and so is the disk; commands that read see what the mounts wrote.
#[test]
fn partitions_at_once() {
    let bench = Bench::new();
    let disk = disk(&bench);
    let name = &disk.0;
    let clean = |part: &str| {
        let info = bench.ok(&format!("info {name}"));
        let lines = info.lines().skip_while(|line| !line.starts_with(&format!("  {part} ")));
        lines.skip(1).take(1).any(|line| line.contains(", clean,"))
    };
    assert!(clean("s1a") && clean("s1b") && clean("s2"));
    bench.shell(&ADD_PARTITIONS.replace("$DISK", name));
    let parts = [("s1a", "p5", "one"), ("s1b", "p6", "two"), ("s2", "p2", "three")];
    for (byte, (part, node, dir)) in (1..).zip(parts) {
        run(&bench, &format!("mount {name}@{part} {dir}"));
        let shown = bench.shell(&format!("findmnt -no SOURCE,FSTYPE {dir}"));
        let shown: Vec<&str> = shown.split_whitespace().collect();
        assert_eq!(shown, [&format!("{name}{node}"), "fuseblk.spindle"], "{part}");
        bench.write(&format!("{dir}/file"), vec![byte; 3_000_000]);
        bench.shell(&format!("sync -f {dir}"));
    }
    assert!(!clean("s1a") && !clean("s1b") && !clean("s2"));
    for args in [
        format!("mount {name}@s1b one"),
        format!("mount {name}p6 one"),
        format!("mkdir {name}@s1b:/x"),
        format!("newfs --force {name}p6"),
        format!("newfs --force {name}@s1"),
        format!("newfs --force {name}@offset=1048576"),
        format!("newfs --force {name}"),
    ] {
        let ran = run_as(&bench, "spindle", &args);
        assert!(ran.code != 0 && ran.err.contains("in use: "), "{args}: {}", ran.err);
    }
    bench.ok(&format!("tunefs -m 9 {name}@s1a"));
    bench.ok(&format!("tunefs -m 10 {name}p6"));
    bench.shell(&format!("umount {name}p2"));
    run(&bench, "umount one");
    run(&bench, &format!("umount {name}@s1b"));
    for (byte, (part, node, _)) in (1..).zip(parts) {
        for image in [format!("{name}@{part}"), format!("{name}{node}")] {
            assert!(bench.run(&format!("cat {image}:/file")).bytes == vec![byte; 3_000_000], "{image}");
            bench.check(&image);
        }
        assert!(clean(part));
    }
    bench.shell(&format!("partx -d {name}"));
    assert!(clean("s1a") && clean("s1b") && clean("s2"));
}

/// Promise: the partitions of a GPT that the system knows are mounted at the same time.
#[test]
fn partitions_of_a_gpt() {
    let bench = Bench::new();
    bench.shell("truncate -s 64M disk; printf 'label: gpt\n,20M\n,20M\n' | sfdisk -q disk; mkdir one two");
    let disk = Loop::over(&bench, "disk", "64M");
    let name = &disk.0;
    bench.shell(&format!("partx -u {name}"));
    for (part, dir) in [("p1", "one"), ("p2", "two")] {
        bench.ok(&format!("newfs {name}@{part}"));
        run(&bench, &format!("mount {name}@{part} {dir}"));
        bench.write(&format!("{dir}/{part}"), part);
    }
    run(&bench, "umount one two");
    for part in ["p1", "p2"] {
        assert_eq!(bench.ok(&format!("cat {name}{part}:/{part}")), part);
        bench.check(&format!("{name}@{part}"));
    }
}

/// Promise: a partition of a block device in fstab is mounted by `mount -a`, which does nothing the
/// second time, and by its line; to mount it again where it is, but read-only, is refused.
#[test]
fn partitions_in_fstab() {
    let bench = Bench::new();
    let disk = disk(&bench);
    let add = format!("DISK={0}\n{1}", disk.0, ADD_PARTITIONS);
    bench.shell(&add);
    in_namespace(
        &bench,
        &format!(
            r#"DISK={}
            echo "$DISK@s1a $PWD/one spindle noatime 0 0" >fstab
            echo "$DISK@s2 $PWD/two spindle defaults 0 0" >>fstab
            mount -a -T fstab
            touch one/file two/file
            mount -a -T fstab 2>error
            [ "$(grep -c "$DISK" /proc/self/mounts)" = 2 ]
            grep -q "$DISK@s1a: is mounted on .*one already" error
            fails "and not read-only" mount -t spindle -o ro "$DISK@s1a" one
            mount -T fstab -o remount,ro one
            case $(findmnt -no OPTIONS one) in ro,noatime,*) ;; *) exit 1;; esac
            mount -t spindle -o ro "$DISK@s1a" one
            mount -T fstab -o remount one
            touch one/more
            fails "in use: process" mount -t spindle "$DISK@s1a" three
            umount one
            umount "${{DISK}}p2"
            ! grep "$DISK" /proc/self/mounts"#,
            disk.0
        ),
    );
    for (part, names) in [("s1a", ".snap\nfile\nmore\n"), ("s2", ".snap\n.spindlelog\nfile\n")] {
        let found = bench.ok(&format!("ls -A {}@{part}", disk.0));
        assert_eq!(found.replace(".snap\n", ""), names.replace(".snap\n", ""), "{part}");
        bench.check(&format!("{}@{part}", disk.0));
    }
}

/// Promise: mount(8) serves `offset=` and `loop` by a loop device, which goes with the mount; fstab
/// may have both; umount(8) and `spindle umount` find a mount by its image.
#[test]
fn mounts_by_image() {
    let bench = Bench::new();
    bench.ok("newfs -s 32m a.img");
    bench.shell("truncate -s 1M b.img; cat a.img >>b.img; mkdir one two");
    in_namespace(
        &bench,
        r#"gone() { ! grep -q "$PWD" /sys/block/loop*/loop/backing_file; }
        for image in "a.img loop" "b.img offset=1048576" "b.img loop,offset=1048576"; do
            set -- $image
            echo "$PWD/$1 $PWD/mnt spindle $2 0 0" >fstab
            mount -a -T fstab
            [ "$(findmnt -no FSTYPE mnt)" = fuseblk.spindle ]
            touch mnt/$2
            mount -a -T fstab
            [ "$(grep -c "$PWD" /proc/self/mounts)" = 1 ]
            umount "$1"
            gone
        done
        spindle mount -o offset=1048576 b.img mnt
        [ -e mnt/loop,offset=1048576 ]
        fails "a.img: is not mounted" spindle umount a.img
        spindle umount b.img@offset=1048576
        for image in a.img "$PWD/a.img"; do
            spindle mount "$image" mnt
            spindle umount "$image"
            spindle mount "$image" mnt
            umount "$PWD/a.img"
            ! mountpoint -q mnt
        done
        spindle mount -r a.img one
        spindle mount -r a.img two
        fails "mounted on $PWD/one, $PWD/two; name one" spindle umount a.img
        spindle umount one two"#,
    );
    bench.check("a.img");
    bench.check("b.img@offset=1048576");
}

/// Promise: where a device has become shorter, so that directories cannot be read, the unmount of
/// what was changed exits with 32 and does not mark it clean.
#[test]
fn unread_metadata_is_reported() {
    let bench = Bench::new();
    bench.shell("mkdir one");
    for (image, format) in [("ufs.img", "newfs"), ("v7.img", "newfs -t v7")] {
        let device = Loop::over(&bench, image, "32M");
        bench.ok(&format!("{format} {}", device.0));
        run(&bench, &format!("mount {} one", device.0));
        bench.write("one/large", vec![7; 8 << 20]);
        bench.shell("for n in $(seq 100); do mkdir one/d$n; touch one/d$n/file; done");
        run(&bench, "umount one");
        run(&bench, &format!("mount {} one", device.0));
        bench.shell(&format!("touch one/changed; truncate -s 4M {image}; ! ls one/d*"));
        let unmounted = run_as(&bench, "spindle", "umount one");
        assert_eq!(unmounted.code, 32, "{image}: {}", unmounted.err);
        bench.shell(&format!("truncate -s 32M {image}"));
        let info = bench.run(&format!("info {}", device.0)).out;
        assert!(info.contains("not clean"), "{image}: {info}");
    }
}
