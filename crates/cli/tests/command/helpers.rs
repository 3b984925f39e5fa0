//! The helper names that mount(8), mkfs(8), fsck(8) and umount(8) call, and mounts.

use crate::support::{Bench, Ran};
use std::process::{Command, Stdio};

/// Runs the program under another name, with a timeout of a minute.
pub fn run_as(bench: &Bench, name: &str, args: &str) -> Ran {
    let link = bench.path(name);
    if link.symlink_metadata().is_err() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_spindle"), &link).unwrap();
    }
    let mut command = Command::new("timeout");
    command.arg("60").arg(link).args(args.split_whitespace()).current_dir(bench.path(""));
    command.stdin(Stdio::null()).output().unwrap().into()
}

/// Promise: the helpers for mkfs, mount, fsck and umount accept the arguments of their callers, and
/// exit as these expect.
#[test]
fn helpers_behave_as_callers_expect() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    assert_eq!(run_as(&bench, "mkfs.spindle", "-s 32m a.img").code, 0);
    for (name, size, bytes) in
        [("b", "32768", 32 << 20), ("c", "24m", 24 << 20), ("d", "-O 1 20480k", 20 << 20)]
    {
        let (options, size) = size.rsplit_once(' ').unwrap_or(("", size));
        let made = run_as(&bench, "mkfs.spindle", &format!("{options} {name}.img {size}"));
        assert_eq!((made.code, made.err.as_str()), (0, ""), "{name}");
        assert_eq!(bench.path(&format!("{name}.img")).metadata().unwrap().len(), bytes, "{name}");
        bench.check(&format!("{name}.img"));
    }
    assert_eq!(run_as(&bench, "mkfs.spindle", "-s 32m e.img 32m").code, 2);
    assert_eq!(run_as(&bench, "mkfs.spindle", "e.img many").code, 2);
    let fake = run_as(&bench, "mount.spindle", "-f a.img mnt -o rw,noatime,_netdev");
    assert_eq!((fake.code, fake.err.as_str()), (0, ""));
    assert_eq!(run_as(&bench, "mount.spindle", "-f a.img mnt -o nonsense").code, 32);
    let mounted = run_as(&bench, "mount.spindle", "a.img mnt -n -o rw,noatime,nolog");
    assert_eq!((mounted.code, mounted.err.as_str()), (0, ""));
    bench.write("mnt/file", "through the mount");
    // Meanwhile other commands can neither write nor check it.
    assert_eq!(bench.run("mkdir a.img:/x").code, 1);
    assert_eq!(run_as(&bench, "fsck.spindle", "-n a.img").code, 8);
    let gone = run_as(&bench, "umount.spindle", "mnt");
    assert_eq!((gone.code, gone.err.as_str()), (0, ""));
    assert_eq!(bench.ok("cat a.img:/file"), "through the mount");
    for options in ["-n -f -C0", "-a -f -C 0", "-afC0", "-pT", "-M -l -T -y -C", "-r -V -f", "-a -C0 -v"] {
        let ran = run_as(&bench, "fsck.spindle", &format!("{options} a.img"));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{options}");
    }
    for both in ["-n -y", "-n -a"] {
        assert_eq!(run_as(&bench, "fsck.spindle", &format!("{both} a.img")).code, 2, "{both}");
    }
    for options in ["-f", "-n -f", "-fy", "-f -p"] {
        assert_eq!(bench.run(&format!("fsck {options} a.img")).code, 0, "{options}");
    }
    assert_eq!(run_as(&bench, "fsck.spindle", "-a missing.img").code, 8);
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 32);
}

/// Promise: after `umount(8)` without our helper, commands wait for the daemon, which still writes
/// the image.
#[test]
fn commands_wait_for_the_daemon_of_the_last_mount() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    bench.ok("newfs -s 32m a.img");
    for command in ["fsck -n a.img", "fsck -y a.img", "ls a.img", "tunefs -m 5 a.img"] {
        assert_eq!(run_as(&bench, "mount.spindle", "a.img mnt -o commit=300").code, 0);
        bench.write("mnt/file", "written late");
        let daemons = spindle_device::lock_holders(&bench.path("a.img"));
        let [daemon] = daemons[..] else { panic!("{daemons:?}") };
        let stopped = format!("kill -STOP {daemon}; timeout 20 umount -i mnt || kill -CONT {daemon}");
        bench.shell(&format!("{stopped}; (sleep 1; kill -CONT {daemon}) >&- 2>&- &"));
        let ran = bench.run(command);
        assert_eq!(ran.code, 0, "{command}: {}", ran.err);
        assert!(ran.err.contains("waiting for the daemon of the last mount"), "{command}: {}", ran.err);
    }
    assert_eq!(bench.ok("cat a.img:/file"), "written late");
}

/// Promise: a failed mount exits with 32 and one line with the reason; a file system that is not
/// safe to write is mounted read-only, with a message.
#[test]
fn failing_mounts() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    bench.ok("newfs --no-check-hashes -s 16m a.img");
    bench.fails("mount a.img missing", 32, &["missing"]);
    bench.fails("mount missing.img mnt", 32, &["missing.img"]);
    bench.fails("mount -o nonsense a.img mnt", 32, &["nonsense"]);
    bench.fails("mount a.img", 2, &["DIR"]);
    bench.fails("umount mnt", 32, &["mnt"]);
    bench.write("empty.img", [0; 8192]);
    bench.fails("mount empty.img mnt", 32, &["empty.img: has nothing but zeros", "spindle newfs"]);
    bench.shell("printf '\\000' | dd bs=1 seek=$((65536 + 209)) conv=notrunc of=a.img status=none");
    let ran = run_as(&bench, "spindle", "mount a.img mnt");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("read-only") && ran.err.contains("not unmounted cleanly"), "{}", ran.err);
    assert!(std::fs::write(bench.path("mnt/x"), "").is_err());
    assert_eq!(run_as(&bench, "spindle", "umount mnt").code, 0);
}

/// Promise: with `sync` a new name is on the device when its creation is reported as done, and
/// without it not before something asks for it; the options for clusters do not change the contents
/// of files.
#[test]
fn synchronous_names() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    for (options, there) in
        [("sync,nocluster,noreadahead", true), ("nolog,async,cluster=1m,writelimit=64k", false)]
    {
        bench.shell("rm -f a.img");
        bench.ok("newfs -s 32m a.img");
        let mounted = run_as(&bench, "spindle", &format!("mount -o commit=300,{options} a.img mnt"));
        assert_eq!((mounted.code, mounted.err.as_str()), (0, ""), "{options}");
        std::fs::create_dir(bench.path("mnt/name")).unwrap();
        bench.shell("cp a.img now.img");
        let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 100).to_le_bytes()[0]).collect();
        bench.write("mnt/name/file", &content);
        assert!(std::fs::read(bench.path("mnt/name/file")).unwrap() == content, "{options}");
        assert_eq!(run_as(&bench, "spindle", "umount mnt").code, 0);
        assert_eq!(bench.ok("ls now.img:/").contains("name"), there, "{options}");
        assert!(bench.run("cat a.img:/name/file").bytes == content, "{options}");
        bench.check("a.img");
    }
}

/// Promise: `fsck -A` checks a line of fstab that names a partition or an offset of an image; where
/// an option for mount(8) has it, which fsck(8) passes to nobody, the message names what to write.
#[test]
fn fsck_checks_lines_of_fstab() {
    let bench = Bench::new();
    bench.ok("newfs -s 16m whole.img");
    bench.shell("head -c 1m /dev/zero >disk.img; cat whole.img >>disk.img; cp disk.img bare.img");
    bench.shell("printf '2048,32768,a5\n' | sfdisk -q disk.img >/dev/null");
    bench.shell(&format!("mkdir bin; ln -s {} bin/fsck.spindle", env!("CARGO_BIN_EXE_spindle")));
    let dir = bench.path("").display().to_string();
    let fsck = |lines: &str| {
        bench.write("fstab", lines.replace('~', dir.trim_end_matches('/')));
        bench.shell("(PATH=$PWD/bin:$PATH FSTAB_FILE=$PWD/fstab fsck -A -T -a >out 2>err || code=$?; echo ${code:-0} >code)");
        bench.shell("cat code out err")
    };
    let good =
        "~/disk.img@s1 /mnt/a spindle noauto 0 2\n~/bare.img@offset=1048576 /mnt/b spindle noauto 0 2\n";
    let shown = fsck(good);
    assert!(shown.starts_with("0\n") && shown.matches("no problems found").count() == 2, "{shown}");
    let shown = fsck("~/bare.img /mnt/b spindle noauto,offset=1048576 0 2\n");
    assert!(shown.starts_with("8\n") && shown.contains("bare.img@offset=1048576"), "{shown}");
}
