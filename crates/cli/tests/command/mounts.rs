//! Mounts as mount(8), umount(8) and fstab have them. Each test has a mount namespace of its own,
//! in which the helpers are in /sbin.

use crate::support::{Bench, Loop, Ran};
use std::process::{Command, Stdio};

/// The names of the helpers that `make install` makes.
const HELPERS: [&str; 6] = [
    "mount.spindle",
    "mount.fuse.spindle",
    "mount.fuseblk.spindle",
    "umount.spindle",
    "umount.fuse.spindle",
    "umount.fuseblk.spindle",
];

/// Runs a shell script in the directory, in a mount namespace with the helpers, and expects
/// success. In the script `fails TEXT COMMAND` expects exit code 32 and the text on standard error.
pub fn in_namespace(bench: &Bench, script: &str) {
    let program = env!("CARGO_BIN_EXE_spindle");
    let helpers = bench.path("sbin");
    std::fs::create_dir_all(&helpers).unwrap();
    std::fs::create_dir_all(bench.path("mnt")).unwrap();
    for name in HELPERS {
        let link = helpers.join(name);
        if link.symlink_metadata().is_err() {
            std::os::unix::fs::symlink(program, link).unwrap();
        }
    }
    let prelude = format!(
        r#"mount --bind sbin "$(realpath /sbin)"
        spindle() {{ '{program}' "$@"; }}
        fails() {{
            text=$1; shift
            if "$@" 2>error; then echo "succeeded: $*" >&2; exit 1; else code=$?; fi
            [ $code = 32 ] || {{ echo "exit code $code: $*" >&2; cat error >&2; exit 1; }}
            grep -q -e "$text" error || {{ echo "not '$text': $*" >&2; cat error >&2; exit 1; }}
        }}
        shown() {{ findmnt -no OPTIONS mnt; }}
        daemon() {{ head -n 1 "/run/spindle/$(mountpoint -d mnt)"; }}
        "#
    );
    let mut command = Command::new("timeout");
    command.args(["120", "unshare", "-m", "--propagation", "private", "sh", "-exc", &(prelude + script)]);
    command.current_dir(bench.path("")).env("LC_ALL", "C").stdin(Stdio::null());
    let ran: Ran = command.output().unwrap().into();
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
}

/// Promise: a mount by root through mount(8) is for everyone and honours device nodes and set-id
/// bits; nodev, nosuid, noexec, ro and `users` in fstab take that away; `spindle mount` gives it
/// only if asked.
#[test]
fn options_of_mount8() {
    let bench = Bench::new();
    bench.ok("newfs -s 64m a.img");
    in_namespace(
        &bench,
        r#"mount -t spindle "$PWD/a.img" mnt
        case $(shown) in *nodev*|*nosuid*) exit 1;; *allow_other*) ;; *) exit 1;; esac
        mknod -m 666 mnt/null c 1 3
        echo text >mnt/null
        [ ! -s mnt/null ]
        umount mnt
        mount -t spindle -o nodev,nosuid,noexec,noatime "$PWD/a.img" mnt
        case $(shown) in rw,nosuid,nodev,noexec,noatime,*) ;; *) exit 1;; esac
        ! cat mnt/null
        umount mnt
        mount -t spindle -o ro,allow_root,dev,suid "$PWD/a.img" mnt
        case $(shown) in *allow_other*|*nodev*|*nosuid*) exit 1;; ro,*) ;; *) exit 1;; esac
        umount mnt
        echo "$PWD/a.img $PWD/mnt spindle noauto,users,_netdev,nofail,comment=x,x-systemd.automount 0 0" >fstab
        mount -T fstab mnt
        case $(shown) in rw,nosuid,nodev,noexec,*) ;; *) exit 1;; esac
        umount mnt
        spindle mount a.img mnt
        case $(shown) in *allow_other*) exit 1;; rw,nosuid,nodev,*) ;; *) exit 1;; esac
        spindle umount mnt
        spindle mount -o dev,suid a.img mnt
        case $(shown) in *nodev*|*nosuid*) exit 1;; esac
        umount mnt"#,
    );
    bench.check("a.img");
}

/// Promise: every flag of umount(8) works on a mount that is served, in use or not; `-f` does no
/// harm to what is in use, `-l` detaches it, and `-r` makes it read-only.
#[test]
fn flags_of_umount8() {
    let bench = Bench::new();
    bench.ok("newfs -s 64m a.img");
    in_namespace(
        &bench,
        r#"for flags in "" -f -n -v -r "-f -n -v" -l; do
            spindle mount a.img mnt
            echo "$flags" >mnt/file
            umount $flags mnt
            ! mountpoint -q mnt
        done
        mount -t spindle "$PWD/a.img" mnt
        exec 3<mnt/file
        fails busy umount mnt
        fails busy umount -f mnt
        umount -r mnt
        case $(shown) in ro,*) ;; *) exit 1;; esac
        ! touch mnt/file
        read -r word <&3
        [ "$word" = -l ]
        pid=$(daemon)
        umount -l mnt
        ! mountpoint -q mnt
        kill -0 "$pid"
        spindle info a.img | grep "mounted read-only and in use, but detached from .*mnt (umount -l)"
        spindle info --json a.img | grep '"detached": true'
        exec 3<&-
        spindle mount a.img mnt
        umount -N $$ "$PWD/mnt"
        ! mountpoint -q mnt"#,
    );
    bench.check("a.img");
}

/// Promise: a mount whose daemon was killed is removed by umount, which says that the image may be
/// incomplete, by `umount -f` even if it is in use, and by `umount -l`; the next mount recovers.
#[test]
fn dead_mounts_are_removed() {
    let bench = Bench::new();
    bench.ok("newfs -s 64m a.img");
    in_namespace(
        &bench,
        r#"for flags in "" -f -l; do
            for used in no yes; do
                mount -t spindle "$PWD/a.img" mnt
                echo text >mnt/file
                sync mnt/file
                [ $used = no ] || exec 3<mnt/file
                kill -9 "$(daemon)"
                while stat mnt 2>/dev/null; do sleep 0.1; done
                case $used$flags in
                    *-l) umount -l mnt;;
                    yes) fails busy umount mnt; exec 3<&-; fails "died" umount mnt;;
                    *) fails "died" umount $flags mnt;;
                esac
                ! mountpoint -q mnt
                exec 3<&-
            done
        done
        mount -t spindle "$PWD/a.img" mnt
        [ "$(cat mnt/file)" = text ]
        umount mnt"#,
    );
    bench.check("a.img");
}

/// Promise: a remount to read-only is refused while files are open for writing or removed; then
/// nothing can be changed, the image is clean and can be read by others. A remount to rw is the
/// reverse. Files stay open across both, also when they are removed after that. What cannot be
/// changed is refused by name, and what is not named stays.
#[test]
fn remounts() {
    let bench = Bench::new();
    let device = Loop::over(&bench, "disk", "64m");
    for (kind, image) in [("ufs", "a.img"), ("mfs", "b.img"), ("v7", "c.img"), ("ufs", &device.0)] {
        let new = match kind {
            "mfs" => "-t mfs -s 64m",
            "v7" => "-t v7 -s 4m",
            _ => "-s 64m",
        };
        bench.ok(&format!("newfs {new} {image}"));
        let image = &bench.path(image).display().to_string();
        let script = r#"mount -t spindle -o commit=60 "$IMAGE" mnt
            case $IMAGE$(findmnt -no FSTYPE mnt) in *.imgfuse.spindle|/dev/*fuseblk.spindle) ;; *) exit 1;; esac
            echo text >mnt/file
            exec 3>mnt/writer
            fails busy mount -o remount,ro mnt
            exec 3>&-
            exec 3<mnt/file
            touch mnt/file2
            mount -o remount,ro mnt
            case $(shown) in ro,*) ;; *) exit 1;; esac
            ! touch mnt/new
            spindle fsck -n "$IMAGE" | grep "no problems found"
            ! spindle fsck -n "$IMAGE" | grep "not marked clean"
            mount -o remount,rw mnt
            case $(shown) in rw,*) ;; *) exit 1;; esac
            rm mnt/file
            for n in 1 2 3 4 5 6 7 8; do echo other >mnt/new$n; done
            read -r word <&3
            [ "$word" = text ]
            fails "or are open and removed" mount -o remount,ro mnt
            exec 3<&-
            mount -o remount,noatime,nodev,commit=9 mnt
            case $(shown) in rw,nodev,noatime,*) ;; *) exit 1;; esac
            mount -o remount mnt
            case $(shown) in rw,nodev,noatime,*) ;; *) exit 1;; esac
            fails 'cluster=64k. cannot be changed by a remount' mount -o remount,ro,cluster=64k mnt
            fails 'nonsense' mount -o remount,nonsense mnt
            case $(shown) in rw,*) ;; *) exit 1;; esac
            spindle mount -o remount,ro mnt
            umount mnt
            mount -t spindle -o ro "$IMAGE" mnt
            [ "$(cat mnt/new8)" = other ]
            mount -o remount,rw mnt
            echo more >mnt/new9
            umount mnt
            fails "nothing is mounted" spindle mount -o remount,ro mnt"#;
        in_namespace(&bench, &format!("IMAGE={image}\n{script}"));
        assert_eq!(bench.ok(&format!("cat {image}:/new9")), "more\n", "{kind}");
        bench.check(image);
    }
}

/// Promise: a UFS grows while it is mounted: what programs have open and write meanwhile stays, and
/// the space is there at once. Neither this nor another remount takes the contents from a file that
/// was removed and is open.
#[test]
fn growth_of_a_mount() {
    let bench = Bench::new();
    let device = Loop::over(&bench, "disk", "64m");
    for (image, new) in [("a.img", "-O2"), (&*device.0, "-O2"), ("b.img", "-O1 --dialect sun")] {
        bench.ok(&format!("newfs {new} -s 24m {image}"));
        let image = &bench.path(image).display().to_string();
        let script = r#"mount -t spindle "$IMAGE" mnt
            refused() {
                if spindle growfs -y -s 64m "$1" 2>error; then exit 1; fi
                grep "$2" error
            }
            echo text >mnt/file
            exec 3<mnt/file
            echo gone >mnt/removed
            exec 4<mnt/removed
            rm mnt/removed
            refused mnt "removed are still open"
            fails "removed are still open" mount -o remount,userquota mnt
            [ "$(cat <&4)" = gone ]
            exec 4<&-
            before=$(stat -f -c %b mnt)
            rm -f stop
            (n=0; while [ ! -e stop ]; do n=$((n + 1)); echo $n >mnt/w$n; echo $n >last; done) &
            until [ -s last ]; do :; done
            spindle growfs -N -s 48m mnt | grep "would grow"
            spindle growfs -y -s 48m mnt | grep "grown from 24 MiB to 48 MiB"
            [ "$(stat -f -c %b mnt)" -gt $((3 * before / 2)) ]
            touch stop
            wait
            [ "$(cat <&3)" = text ]
            for n in $(seq "$(cat last)"); do [ "$(cat mnt/w$n)" = $n ]; done
            head -c 30M /dev/zero >mnt/large
            spindle growfs -y -s 48m "$IMAGE" | grep "has all the space already"
            mount -o remount,ro mnt
            refused mnt "mounted read-only"
            exec 3<&-
            umount mnt"#;
        in_namespace(&bench, &format!("IMAGE={image}\n{script}"));
        bench.check(image);
    }
}

/// Promise: what is not safe to write, or is read by others, stays read-only, with the reason.
#[test]
fn refused_remounts() {
    let bench = Bench::new();
    bench.ok("newfs --no-check-hashes -s 64m a.img");
    bench.ok("newfs --no-check-hashes -s 64m b.img");
    bench.shell("printf '\\000' | dd bs=1 seek=$((65536 + 209)) conv=notrunc of=b.img status=none");
    in_namespace(
        &bench,
        r#"mkdir -p also
        mount -t spindle -o ro "$PWD/b.img" mnt
        fails "not unmounted cleanly" mount -o remount,rw mnt
        ls mnt
        umount mnt
        mount -t spindle -o ro "$PWD/a.img" mnt
        mount -t spindle -o ro "$PWD/a.img" also
        fails "a.img: in use: process [0-9]* (.*also" mount -o remount,rw mnt
        ls mnt
        umount also
        mount -o remount,rw mnt
        touch mnt/new
        umount mnt"#,
    );
    bench.check("a.img");
}

/// Promise: the reserve, the optimisation and the rotational delay of a mounted file system are
/// changed at once and stay; other parameters, and a mount that is read-only, are refused.
#[test]
fn tunefs_of_a_mount() {
    let bench = Bench::new();
    for format in ["-O2", "-O1 --dialect netbsd", "-O0"] {
        bench.shell("rm -f a.img");
        bench.ok(&format!("newfs {format} -s 16m a.img"));
        bench.shell("mkdir -p mnt");
        assert_eq!(crate::helpers::run_as(&bench, "spindle", "mount a.img mnt").code, 0);
        let free = || -> u64 { bench.shell("stat -f -c '%a' mnt").trim().parse().unwrap() };
        let before = free();
        assert!(bench.ok("tunefs -m 40 -o space a.img").contains("minfree changes from"), "{format}");
        assert!(free() < before, "{format}: the reserve is larger");
        assert!(bench.ok("tunefs -p a.img").contains("-m  minfree       40%"), "{format}");
        if format == "-O0" {
            assert_eq!(bench.ok("tunefs -d 1 a.img"), "rotdelay changes from 4 ms to 1 ms\n");
        }
        bench.fails("tunefs -m 5 -e 99 a.img", 1, &["a.img", "maxbpg cannot be changed", "unmount it first"]);
        bench.fails("tunefs -m 100 a.img", 1, &["minfree 100"]);
        bench.fails("tunefs -A -m 5 a.img", 1, &["-A", "unmount it first"]);
        bench.fails("tunefs --log=none a.img", 1, &["--log", "unmount it first"]);
        bench.write("mnt/file", vec![1; 100_000]);
        assert_eq!(crate::helpers::run_as(&bench, "spindle", "umount mnt").code, 0);
        assert!(bench.ok("tunefs -p a.img").contains("-m  minfree       40%"), "{format}");
        bench.check("a.img");
        assert_eq!(crate::helpers::run_as(&bench, "spindle", "mount -r a.img mnt").code, 0);
        bench.fails("tunefs -m 5 a.img", 1, &["mounted read-only"]);
        assert_eq!(crate::helpers::run_as(&bench, "spindle", "umount mnt").code, 0);
    }
}

/// Promise: partitions of an image, and file systems that follow one another in it, are mounted and
/// changed at the same time; the same one again, what overlaps, and the whole are refused with the
/// process that uses it, by every command that writes.
#[test]
fn partitions_at_once() {
    let bench = Bench::new();
    bench.shell("truncate -s 64M disk.img; printf 'label: dos\\n2048,30720,a5\\n32768,30720,a5\\n' | sfdisk -q disk.img; mkdir one two");
    bench.ok("newfs disk.img@s1");
    bench.ok("newfs disk.img@s2");
    let run = |args: &str| crate::helpers::run_as(&bench, "spindle", args);
    for (one, two) in [("@s1", "@s2"), ("@offset=1048576", "@offset=16777216")] {
        for (part, dir) in [(one, "one"), (two, "two")] {
            let mounted = run(&format!("mount disk.img{part} {dir}"));
            assert_eq!(mounted.code, 0, "{}", mounted.err);
        }
        bench.write("one/file", vec![1; 3_000_000]);
        bench.write("two/file", vec![2; 3_000_000]);
        for args in [
            "mount disk.img@s1 two",
            "mount disk.img@offset=1048576 two",
            "mount -o offset=16777216 disk.img two",
        ] {
            let ran = run(args);
            assert!(ran.code == 32 && ran.err.contains("in use: process "), "{args}: {}", ran.err);
        }
        for args in [
            "newfs --force disk.img",
            "newfs --force disk.img@s2",
            "newfs --force disk.img@offset=2097152",
            "mkdir disk.img@s1:/x",
            "cp /etc/hostname disk.img@s2:/x",
            "tunefs -L name disk.img@s1",
        ] {
            let ran = run(args);
            assert!(ran.code == 1, "{args}: {}", ran.err);
            assert!(
                ran.err.contains("in use: process ") || args.starts_with("tunefs"),
                "{args}: {}",
                ran.err
            );
        }
        let checked = run("fsck -y disk.img@s2");
        assert!(checked.code == 8 && checked.err.contains("two"), "{}", checked.err);
        for dir in ["one", "two"] {
            assert_eq!(run(&format!("umount {dir}")).code, 0);
        }
    }
    assert_eq!(run("mount disk.img@s1 one").code, 0);
    bench.ok("cp -r disk.img@s2:/file disk.img@s2:/copy");
    assert_eq!(run("umount one").code, 0);
    bench.ok("cp disk.img@s1:/file disk.img@s2:/other");
    for (part, name, byte) in [("s1", "file", 1), ("s2", "file", 2), ("s2", "copy", 2), ("s2", "other", 1)] {
        let ran = bench.run(&format!("cat disk.img@{part}:/{name}"));
        assert!(ran.bytes == vec![byte; 3_000_000], "{part} {name}");
        bench.check(&format!("disk.img@{part}"));
    }
}

/// Promise: `mount -a` mounts what fstab has, and does nothing the second time; a remount keeps the
/// options of fstab.
#[test]
fn mount_all_twice() {
    let bench = Bench::new();
    bench.ok("newfs -s 64m a.img");
    bench.shell("truncate -s 32M disk.img; printf 'label: dos\\n2048,30720,a5\\n' | sfdisk -q disk.img; mkdir mnt2 mnt3");
    bench.ok("newfs disk.img@s1");
    bench.ok("newfs -s 16m c.img");
    in_namespace(
        &bench,
        r#"echo "$PWD/a.img $PWD/mnt spindle defaults,nofail 0 0" >fstab
        echo "$PWD/disk.img $PWD/mnt2 spindle noatime,x-systemd.requires=x 0 0" >>fstab
        echo "$PWD/c.img $PWD/mnt3 spindle noauto 0 0" >>fstab
        mount -a -T fstab
        touch mnt/file mnt2/file
        mount -a -T fstab
        [ "$(grep -c "$PWD" /proc/self/mounts)" = 2 ]
        mount -T fstab -o remount,ro mnt2
        case $(findmnt -no OPTIONS mnt2) in ro,noatime,*) ;; *) exit 1;; esac
        mount -T fstab -o remount mnt2
        case $(findmnt -no OPTIONS mnt2) in rw,noatime,*) ;; *) exit 1;; esac
        touch mnt2/more
        umount mnt mnt2"#,
    );
    bench.check("a.img");
    bench.check("disk.img");
}

/// Does what [`in_namespace`] does in the directory `home`, in which everybody can write, has the
/// program as `./program`, and can mount.
pub fn in_home(bench: &Bench, script: &str) {
    bench.shell("mkdir -m 777 home; chmod 755 .");
    let program = env!("CARGO_BIN_EXE_spindle");
    in_namespace(
        bench,
        &format!(
            "cp '{program}' home/program
            mknod fuse c 10 229
            chmod 666 fuse
            mount --bind fuse /dev/fuse
            cd home
            {script}"
        ),
    );
}

/// Promise: a user who is not root makes, mounts, fills, unmounts and checks an image, mounts and
/// unmounts what fstab lets users mount, and cannot remount; without fusermount3 the message names
/// its package.
#[test]
fn users_mount() {
    let bench = Bench::new();
    in_home(
        &bench,
        r#"as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        as_user ./program newfs -s 64m disk.img
        as_user mkdir mnt
        as_user ./program mount disk.img mnt
        as_user cp /bin/sh mnt/copy
        as_user cmp /bin/sh mnt/copy
        ! as_user ./program mount -o remount,ro mnt 2>error
        grep "only a mount by root" error
        as_user ./program umount mnt
        as_user ./program fsck -n disk.img | grep "no problems found"
        ! as_user env PATH=/nonexistent ./program mount disk.img mnt 2>error
        grep "package fuse3" error
        echo "$PWD/disk.img $PWD/mnt spindle noauto,user,noatime 0 0" >fstab
        mount --bind fstab /etc/fstab
        as_user mount mnt
        case $(findmnt -no OPTIONS mnt) in rw,nosuid,nodev,noexec,*user_id=65534*) ;; *) exit 1;; esac
        as_user touch mnt/more
        as_user umount mnt
        ! mountpoint -q mnt
        as_user ./program fsck -n disk.img | grep "no problems found""#,
    );
}

/// Promise: with the option `users` any user may unmount, by umount(8) and by `spindle umount`,
/// what another user or root has mounted; it returns when the image is complete, and refuses what
/// is in use. With `user` only the user who has mounted it may, and is named as the one who may.
#[test]
fn any_user_unmounts() {
    let bench = Bench::new();
    let device = Loop::over(&bench, "b.img", "64m");
    bench.ok(&format!("newfs {}", device.0));
    in_home(
        &bench,
        &format!(
            r#"ann() {{ setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }}
            bob() {{ setpriv --reuid 1 --regid 1 --clear-groups "$@"; }}
            ann ./program newfs -s 64m disk.img
            ann mkdir mnt
            line() {{ echo "$1 $PWD/mnt spindle noauto,$2,noatime 0 0" >fstab; }}
            line none users
            mount --bind fstab /etc/fstab
            # Mounts as a user, or as root, and unmounts as another.
            each_way() {{
                line "$2" users
                for umount in umount "./program umount"; do
                    $1 mount mnt
                    $1 sh -c 'head -c 3000000 /dev/urandom >mnt/file; exec 3<mnt/file; touch mnt/open; sleep 6' &
                    while ! $1 test -e mnt/open; do sleep 0.1; done
                    ! bob $umount mnt 2>error
                    grep -i busy error
                    wait
                    $1 rm mnt/open
                    bob $umount mnt
                    ! mountpoint -q mnt
                    ./program fsck -n "$2" | grep "no problems found"
                done
            }}
            each_way ann "$PWD/disk.img"
            each_way "" "$PWD/disk.img"
            each_way "" {}
            line "$PWD/disk.img" user
            ann mount mnt
            fails 'unless it was mounted with the option users' bob ./program umount mnt
            ! bob umount mnt
            ann umount mnt"#,
            device.0
        ),
    );
}

/// Promise: umount(8) by root, with the directory or the source, of an image or a block device,
/// returns when the image is complete; a copy that is made at once has everything and is clean. It
/// leaves nothing of the mount in the table of libmount.
#[test]
fn umount8_waits() {
    let bench = Bench::new();
    bench.ok("newfs -s 96m a.img");
    let device = Loop::over(&bench, "b.img", "96m");
    bench.ok(&format!("newfs {}", device.0));
    in_namespace(
        &bench,
        &format!(
            r#"mkdir -p /run/mount
            mount -t tmpfs none /run/mount
            n=0
            for source in "$PWD/a.img" {device} "$PWD/a.img" {device}; do
                for how in mnt "$source"; do
                    n=$((n + 1))
                    mount -t spindle "$source" mnt
                    head -c 20000000 /dev/urandom >mnt/file$n
                    sum=$(sha256sum <mnt/file$n)
                    umount "$how"
                    ! mountpoint -q mnt
                    cp "$source" copy.img
                    spindle info copy.img | grep -q ', clean,'
                    [ "$(spindle cat "copy.img:/file$n" | sha256sum)" = "$sum" ]
                    spindle rm "$source:/file$n"
                    [ ! -s /run/mount/utab ]
                done
            done"#,
            device = device.0
        ),
    );
    bench.check("a.img");
}

/// Promise: a file and a loop device over it are not written at the same time, whichever was first;
/// a write-protected device is mounted read-only; `nofail` lets a missing image pass.
#[test]
fn loop_devices_and_their_files() {
    let bench = Bench::new();
    let device = Loop::over(&bench, "a.img", "64m");
    bench.ok(&format!("newfs {}", device.0));
    in_namespace(
        &bench,
        &format!(
            r#"busy() {{ ! "$@" 2>error; grep -q "in use" error || {{ cat error >&2; exit 1; }}; }}
            spindle mount {device} mnt
            busy spindle touch a.img:/x
            busy spindle newfs --force a.img
            spindle umount mnt
            spindle mount a.img mnt
            busy spindle touch {device}:/x
            spindle umount mnt
            spindle touch {device}:/x
            echo "$PWD/none $PWD/mnt spindle nofail 0 0" >fstab
            mount -a -T fstab
            echo "$PWD/none $PWD/mnt spindle defaults 0 0" >fstab
            ! mount -a -T fstab"#,
            device = device.0
        ),
    );
    drop(device);
    let device = Loop(bench.shell("losetup --read-only --find --show a.img").trim().to_owned());
    let script = format!(
        r"mount -t spindle {} mnt
        case $(shown) in ro,*) ;; *) exit 1;; esac
        umount mnt",
        device.0
    );
    in_namespace(&bench, &script);
    bench.check("a.img");
}

/// Promise: the directory of a mount names what is mounted there for tunefs, quota, df and info,
/// under whatever name the table of mounts shows it; root does that with the mount of any user, and
/// other users are refused for that reason; a directory with nothing on it is refused as such.
#[test]
fn mount_points_name_images() {
    let bench = Bench::new();
    in_home(
        &bench,
        r#"ann() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        bob() { setpriv --reuid 1 --regid 1 --clear-groups "$@"; }
        ann ./program newfs -s 64m disk.img
        ann mkdir mnt
        ann ./program quota check disk.img
        for options in noatime fsname=other; do
            ann ./program mount -o userquota,$options disk.img mnt
            for user in "" ann; do
                $user ./program tunefs -m 5 mnt >out
                $user ./program tunefs -m 8 disk.img | grep "minfree changes from 5% to 8%"
                $user ./program tunefs -p mnt | grep "minfree       8%"
                $user ./program quota report mnt | grep root
                $user ./program quota report disk.img | grep root
                $user ./program info mnt | grep "disk.img: UFS2"
            done
            ann ./program df -h mnt | grep '62M'
            for user in "" bob; do
                for json in "" --json; do
                    code=0; $user ./program df $json mnt >out 2>error || code=$?
                    [ $code = 1 ]
                    grep -i "mnt: permission denied" error
                    ! grep 0 out
                done
            done
            ! bob ./program tunefs -m 5 disk.img 2>error
            ann ./program umount mnt
        done
        ./program mount -o userquota disk.img mnt
        chmod 666 disk.img
        for asked in disk.img mnt; do
            ! bob ./program quota report $asked 2>error
            grep "only root and the user of the mount" error
        done
        ./program umount mnt
        for command in "tunefs -p" "quota report" df info "mfs status"; do
            ! ./program $command mnt 2>error
            grep "nothing is mounted on" error
        done"#,
    );
}

/// Promise: a mount that is refused has written nothing, whatever refuses it: no log is made, and
/// none is replayed.
#[test]
fn refused_mounts_write_nothing() {
    let bench = Bench::new();
    in_home(
        &bench,
        r#"ann() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        ann ./program newfs -s 64m new.img
        ann ./program newfs -s 64m left.img
        ann mkdir mnt
        mkdir theirs
        ann ./program mount left.img mnt
        ann sh -c 'echo text >mnt/file && sync mnt/file'
        kill -9 "$(head -n 1 /tmp/spindle-65534/$(ann mountpoint -d mnt))"
        umount -il mnt
        sha256sum *.img >before
        for image in new.img left.img; do
            fails 'no quota file' ann ./program mount -o userquota $image mnt
            fails 'no quota file' ./program mount -o userquota $image mnt
            fails 'mount' ann ./program mount $image theirs
            fails 'root only' ann ./program mount -o suid $image mnt
            fails 'allow_root' ann ./program mount -o allow_root $image mnt
            fails 'below the mount' ann ./program mount -o trace=mnt/t $image mnt
            fails 'Permission denied\|permission denied' ann ./program mount -o trace=/t $image mnt
            fails 'fuse3' ann env PATH=/nonexistent ./program mount $image mnt
            ! mountpoint -q mnt
        done
        sha256sum -c before
        ann ./program mount left.img mnt
        grep text mnt/file || ann grep text mnt/file
        ann ./program umount mnt"#,
    );
}

/// Promise: the unmount of an image in which damage was met says so and fails, as that of one that
/// could not be written, by `spindle umount` and by umount(8).
#[test]
fn unmounts_of_damaged_images_fail() {
    let bench = Bench::new();
    for (name, format) in
        [("a.img", "-s 16m"), ("b.img", "-O1 --dialect netbsd -s 16m"), ("c.img", "-t v7 -s 4m")]
    {
        bench.ok(&format!("newfs {format} {name}"));
        bench.write("uniquename", "text");
        bench.ok(&format!("mkdir {name}:/d"));
        bench.ok(&format!("cp uniquename {name}:/d/uniquename"));
        let mut bytes = std::fs::read(bench.path(name)).unwrap();
        let at = bytes.windows(10).position(|window| window == b"uniquename").unwrap();
        if name == "c.img" {
            // The inode of the entry is none.
            bytes[at - 2..at].copy_from_slice(&[0xff, 0xff]);
        } else {
            // The length of the entry.
            bytes[at - 4..at - 2].copy_from_slice(&[1, 0]);
        }
        bench.write(name, bytes);
    }
    in_namespace(
        &bench,
        r#"mkdir -p /run/mount
        mount -t tmpfs none /run/mount
        for image in a.img b.img c.img; do
            cp $image copy.img
            for umount in "spindle umount" umount; do
                cp copy.img $image
                mount -t spindle "$PWD/$image" mnt
                touch mnt/file
                ! cat mnt/d/uniquename 2>error
                fails 'damage was met' $umount mnt
                ! mountpoint -q mnt
            done
        done
        mkdir small
        mount -t tmpfs -o size=8m none small
        for umount in "spindle umount" umount; do
            spindle newfs --force -s 64m small/full.img
            mount -t spindle -o nolog "$PWD/small/full.img" mnt
            ! head -c 20000000 /dev/zero >mnt/file
            fails 'could not be written completely' $umount mnt
            rm small/full.img
        done"#,
    );
}

/// Promise: `fsck -t spindle IMAGE` of util-linux checks an image without a line in fstab, whatever
/// libblkid takes it for, and passes the result on.
#[test]
fn fsck8_finds_the_helper() {
    let bench = Bench::new();
    bench.shell("mkdir sbin");
    for name in ["fsck.spindle", "fsck.ufs", "fsck.sysv"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_spindle"), bench.path(&format!("sbin/{name}")))
            .unwrap();
    }
    for (image, format) in [
        ("a.img", ""),
        ("b.img", "-O1 --dialect openbsd"),
        ("c.img", "-t v7"),
        ("d.img", "-t sysv"),
        ("e.img", "-t mfs"),
    ] {
        bench.ok(&format!("newfs {format} -s 32m {image}"));
        let fsck = format!("PATH=$PWD/sbin:$PATH fsck -t spindle -T $PWD/{image} -n");
        let said = bench.shell(&fsck);
        assert!(said.contains("no problems found"), "{image}: {said}");
    }
    bench.write("file", "text");
    bench.ok("cp file a.img:/file");
    bench.ok("debug -w a.img clri /file");
    let said = bench.shell("PATH=$PWD/sbin:$PATH fsck -t spindle -T $PWD/a.img -n && exit 1; [ $? = 4 ]; PATH=$PWD/sbin:$PATH fsck -t spindle -T $PWD/a.img -y || [ $? = 1 ]");
    assert!(said.contains("repaired"), "{said}");
    bench.check("a.img");
}
